//! Unsafe code is in one package, and each use of it says why it is sound.

use std::fs;
use std::path::Path;
use toml::Table;

/// The package that has unsafe code.
const ONE: &str = "sys";

fn manifest(folder: &str) -> Table {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
    let text = fs::read_to_string(path.join("Cargo.toml")).unwrap();
    text.parse().unwrap()
}

#[test]
fn unsafe_code_is_in_one_package() {
    let workspace = manifest("");
    let lints = &workspace["workspace"]["lints"];
    assert_eq!(lints["rust"]["unsafe_code"].as_str(), Some("forbid"));
    let members = workspace["workspace"]["members"].as_array().unwrap();
    let members = members.iter().map(|member| member.as_str().unwrap());
    for member in members.chain([""]) {
        let package = manifest(member);
        let is_held = package["lints"].get("workspace").is_some();
        assert_eq!(is_held, member != ONE, "{member}/Cargo.toml");
    }
    let lints = &manifest(ONE)["lints"];
    // A file says that it has some; every block says why it may.
    assert_eq!(lints["rust"]["unsafe_code"].as_str(), Some("deny"));
    let reasons = &lints["clippy"]["undocumented_unsafe_blocks"];
    assert_eq!(reasons.as_str(), Some("deny"));
    // All other lints are the workspace's.
    for (group, lints) in workspace["workspace"]["lints"].as_table().unwrap() {
        for (lint, level) in lints.as_table().unwrap() {
            let own = &manifest(ONE)["lints"][group][lint];
            assert!(own == level || lint == "unsafe_code", "{lint}");
        }
    }
}
