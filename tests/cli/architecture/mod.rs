//! The shape of the sources: who imports whom, where each RPC is named, how long the files are.

mod arrows;
mod circles;
mod graph;
mod layers;
mod lines;
mod modules;
mod one_place;
mod rules;
mod seeded;
mod tokens;

use modules::Sources;
use std::fs;
use std::path::Path;

/// Every Rust file below a folder of the repository.
fn sources(folder: &str) -> Sources {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Sources::new();
    let mut left = vec![root.join(folder)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            let entries = fs::read_dir(&path).unwrap();
            left.extend(entries.map(|entry| entry.unwrap().path()));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let name = path.strip_prefix(root).unwrap().to_str().unwrap();
            found.insert(name.to_owned(), fs::read_to_string(&path).unwrap());
        }
    }
    assert!(!found.is_empty(), "{folder} has no sources");
    found
}
