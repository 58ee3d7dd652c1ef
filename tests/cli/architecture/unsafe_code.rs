//! Unsafe code is in one package, and each use of it says why it is sound.

use std::fs;
use std::path::Path;
use toml::Table;

/// The package that has unsafe code.
const ONE: &str = "sys";

fn manifest(folder: &Path) -> Table {
    let text = fs::read_to_string(folder.join("Cargo.toml")).unwrap();
    text.parse().unwrap()
}

#[test]
fn unsafe_code_is_in_one_package() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let workspace = manifest(root);
    let lints = &workspace["workspace"]["lints"];
    assert_eq!(lints["rust"]["unsafe_code"].as_str(), Some("forbid"));
    let crates = fs::read_dir(root.join("crates")).unwrap();
    let mut folders: Vec<_> = crates.map(|entry| entry.unwrap().path()).collect();
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let members = members.iter().map(|member| member.as_str().unwrap());
    folders.extend(
        members
            .filter(|member| *member != "crates/*")
            .map(|member| root.join(member)),
    );
    assert!(folders.len() > 10);
    for folder in folders.iter().map(|folder| &**folder).chain([root]) {
        let is_held = manifest(folder)["lints"].get("workspace").is_some();
        assert_eq!(is_held, folder != root.join(ONE), "{}", folder.display());
    }
    let lints = &manifest(&root.join(ONE))["lints"];
    // A file says that it has some; every block says why it may.
    assert_eq!(lints["rust"]["unsafe_code"].as_str(), Some("deny"));
    let reasons = &lints["clippy"]["undocumented_unsafe_blocks"];
    assert_eq!(reasons.as_str(), Some("deny"));
    // All other lints are the workspace's.
    for (group, own) in workspace["workspace"]["lints"].as_table().unwrap() {
        for (lint, level) in own.as_table().unwrap() {
            assert!(
                lints[group][lint] == *level || lint == "unsafe_code",
                "{lint}"
            );
        }
    }
}
