//! `csi new driver` without building anything: what it writes, what it refuses, and what it says. What becomes of it is the
//! matter of `tests/new-driver/run`.

use crate::support::program::Csi;
use serde_json::Value as Json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The files below a folder, by their paths in it.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => found.extend(files(&path)),
            false => found.push(path),
        }
    }
    found
}

#[test]
fn a_driver_is_written_whole() {
    let csi = Csi::new();
    let said = csi.run("new driver disks.csi.example.com --groups --attach --stage");
    let said = said
        .succeeds()
        .says("note: next, in disks: ./ci builds, tests and judges the driver\n");
    let mut named: Vec<PathBuf> = said
        .stdout
        .lines()
        .map(|line| csi.home().join(line))
        .collect();
    let mut written = files(&csi.home().join("disks"));
    named.sort();
    written.sort();
    assert_eq!(named, written);
    assert_eq!(written.len(), 15, "{said}");
    for file in &written {
        let text = fs::read_to_string(file).unwrap();
        let is_program = fs::metadata(file).unwrap().permissions().mode() & 0o100 != 0;
        assert_eq!(is_program, text.starts_with("#!"), "{}", file.display());
        // Neither is of use where this project is not.
        assert!(!text.contains("csi_proto") && !text.contains(env!("CARGO_MANIFEST_DIR")));
    }
    let proto = fs::read(csi.home().join("disks/csi.proto")).unwrap();
    let ours = Path::new(env!("CARGO_MANIFEST_DIR")).join("proto/csi.proto");
    assert_eq!(proto, fs::read(ours).unwrap());
}

#[test]
fn a_folder_and_services_are_chosen() {
    let csi = Csi::new();
    let said = csi
        .run("new driver disks --path a/b/c --node -o json")
        .succeeds();
    let said = said.says("note: the driver is called disks.csi.internal; with a domain of yours: csi new driver disks.csi.example.com\n");
    let project: Json = serde_json::from_str(&said.stdout).unwrap();
    assert_eq!(project["name"], "disks.csi.internal");
    assert_eq!(project["package"], "disks");
    assert_eq!(project["services"], serde_json::json!(["node"]));
    assert_eq!(project["folder"], "a/b/c");
    let written = files(&csi.home().join("a/b/c"));
    assert_eq!(written.len(), project["files"].as_array().unwrap().len());
    assert!(!written.iter().any(|file| file.ends_with("controller.rs")));
    // An empty folder is taken as it is.
    fs::create_dir(csi.home().join("empty")).unwrap();
    csi.run("new driver disks --path empty").succeeds();
}

#[test]
fn what_is_there_stays() {
    let csi = Csi::new();
    fs::create_dir(csi.home().join("disks")).unwrap();
    csi.file("disks/.hidden", "mine");
    let refused = csi.run("new driver disks.example.com").exits(2);
    refused.says("disks is not empty: it has .hidden; name an empty or a new folder with --path");
    assert_eq!(files(&csi.home().join("disks")).len(), 1);
    csi.file("file", "mine");
    let refused = csi.run("new driver disks --path file").exits(2);
    refused.says("file is no folder: name an empty or a new one with --path");
    // A terminal would act on it.
    csi.run_args(["new", "driver", "disks", "--path", "file/\u{1b}[31m"])
        .exits(2)
        .says("file/\\u{1b}[31m is no folder");
}

#[test]
fn names_that_cannot_be_are_refused_before_anything_is_written() {
    let csi = Csi::new();
    for (name, says) in [
        ("Disks", "write disks"),
        ("my_disks", "'_' cannot be in a name"),
        ("../up", "'/' cannot be in a name"),
        (
            "disks..com",
            "write a domain, such as disks.csi.example.com",
        ),
        ("", "write a domain, such as disks.csi.example.com"),
        ("9p.example.com", "put a letter before it, such as d9p"),
        ("self.example.com", "such as self-driver"),
        ("tonic.example.com", "such as tonic-driver"),
        (&"a".repeat(64), "at most 63: choose a shorter one"),
    ] {
        csi.run_args(["new", "driver", name]).exits(2).says(says);
    }
    csi.run("new driver").exits(2).says("<NAME>");
    csi.run("new driver disks -o yaml").exits(2).says("-o json");
    assert_eq!(files(csi.home()), [] as [PathBuf; 0]);
}
