//! The shape of the sources: who imports whom, where each RPC is named, how long the files are.
//!
//! Owns which packages there are. The sources are read as they are now, not as they were when this was built.

mod arrows;
mod circles;
mod graph;
mod layers;
mod lines;
mod mentions;
mod modules;
mod one_place;
mod places;
mod rules;
mod seeded;
mod tokens;
mod unsafe_code;

use graph::Graph;
use modules::{Package, Sources};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

/// A package of the workspace; its sources are read once.
struct Member {
    folder: &'static str,
    graph: LazyLock<Graph>,
}

static CLIENT: Member = Member {
    folder: "src",
    graph: LazyLock::new(|| graph("csi_cli", "src", &["lib.rs", "main.rs"])),
};

static DRIVER: Member = Member {
    folder: "driver/src",
    graph: LazyLock::new(|| graph("csi_nfs", "driver/src", &["lib.rs", "main.rs"])),
};

static STORE: Member = Member {
    folder: "driver/store/src",
    graph: LazyLock::new(|| graph("csi_nfs_store", "driver/store/src", &["lib.rs"])),
};

static MOCK: Member = Member {
    folder: "mock/src",
    graph: LazyLock::new(|| graph("csi_mock", "mock/src", &["lib.rs"])),
};

static PROTOCOL: Member = Member {
    folder: "proto/src",
    graph: LazyLock::new(|| graph("csi_proto", "proto/src", &["lib.rs"])),
};

static SYSTEM: Member = Member {
    folder: "sys/src",
    graph: LazyLock::new(|| graph("csi_sys", "sys/src", &["lib.rs"])),
};

impl Member {
    /// The files that are written by hand and built without tests.
    fn hand_written(&self) -> Sources {
        let mut sources = sources(self.folder);
        sources.retain(|path, _| self.graph.files.contains(path) && !is_generated(path));
        sources
    }
}

/// Reads a package; prints its circles for people who cut them.
fn graph(name: &str, folder: &str, roots: &[&str]) -> Graph {
    let graph = Graph::of(Package::read(name, folder, roots, &sources(folder)), folder);
    print_when_asked("CSI_LAYERS", || graph.describe_circles());
    graph
}

fn is_generated(path: &str) -> bool {
    path.contains("/generated/")
}

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
