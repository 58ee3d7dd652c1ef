//! What neither Cargo nor clippy says of the sources: who writes to stdout and ends the process, where each RPC is named, how
//! long the files are. Which crate may know which is said by the manifests.
//!
//! The sources are read as they are now, not as they were when this was built.

mod code;
mod lines;
mod names;
mod one_place;
mod rules;
mod unsafe_code;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// Source texts by their paths below the root of the repository.
type Sources = BTreeMap<String, String>;

/// Where the code of the programs is.
const FOLDERS: [&str; 6] = ["src", "crates", "proto", "driver", "mock", "sys"];

/// Every Rust file below these folders.
fn sources(folders: &[&str]) -> Sources {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Sources::new();
    let mut left: Vec<_> = folders.iter().map(|folder| root.join(folder)).collect();
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            found.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
    assert!(found.len() > 100, "{folders:?} have no sources");
    found
}

/// The code of the programs that is written by hand, without comments and what is built for tests alone.
fn hand_written() -> Sources {
    let all = sources(&FOLDERS);
    let tests = all.iter();
    let tests = tests.flat_map(|(path, text)| code::test_files(path, text));
    let tests: Vec<String> = tests.collect();
    let is_code = |path: &str| {
        let elsewhere = ["/generated/", "/template/"];
        path.contains("src/")
            && !elsewhere.iter().any(|folder| path.contains(folder))
            && !tests.iter().any(|test| is_in(path, test))
    };
    let code = all.into_iter().filter(|(path, _)| is_code(path));
    code.map(|(path, text)| (path, code::code(&text))).collect()
}

/// Whether a file is this file or that of this module, or lies in this folder.
fn is_in(path: &str, place: &str) -> bool {
    let rest = path.strip_prefix(place);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || rest == ".rs")
}

/// Prints what a test found when a person asked for it by this variable.
#[allow(clippy::print_stdout)]
fn print_when_asked(variable: &str, text: impl FnOnce() -> String) {
    if std::env::var(variable).is_ok_and(|value| value == "print") {
        println!("{}", text());
    }
}

/// Fails with everything that is broken, a line each.
fn hold(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}
