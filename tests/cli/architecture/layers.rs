//! The layers of the programs: arrows run down one list of rooms, and no files import each other in a circle.
//!
//! `CSI_LAYERS=print cargo test -p csi-cli --test cli layers -- --nocapture` prints every circle and every arrow up, with
//! the names that each file takes from the other.

use super::graph::Graph;
use super::rules::{self, Never, Only};
use super::sources;
use std::sync::LazyLock;

/// The rooms of `src/`, from the top down: each may import those below it.
const ROOMS: &[&str] = &[
    "main",
    "lib",
    "cli",
    "tools",
    "undo",
    "invocation",
    "recording",
    "rpc",
    "call",
    "output",
    "arguments",
    "error",
];

/// Where each folder is a tool that knows no other.
const TOOLS: &str = "src/tools";

/// The arrows of the driver that close circles and are still to be cut. This list may only get shorter.
const DRIVER_LEFT: &[(&str, &str)] = &[];

const CLIENT_ONLY: &[Only] = &[
    Only {
        names: &[
            "std::print",
            "std::println",
            "std::dbg",
            "std::io::stdout",
            "std::io::Stdout",
            "tokio::io::stdout",
            "rustix::stdio::stdout",
        ],
        files: &["src/output", "src/tools/proxy/stdio.rs"],
        why: "output/ alone writes to stdout, but for the relay, whose stdout carries a connection",
    },
    Only {
        names: &["std::process::ExitCode::from"],
        files: &["src/error"],
        why: "error alone makes exit codes",
    },
    Only {
        names: &["std::process::exit", "std::process::abort", ".exit"],
        files: &[],
        why: "main returns its exit code, so that everything is dropped before the end",
    },
    Only {
        names: &["rustyline"],
        files: &["src/tools/shell"],
        why: "the shell alone edits lines",
    },
];

const CLIENT_NEVER: &[Never] = &[];

const DRIVER_ONLY: &[Only] = &[
    Only {
        names: &["std::process::exit", "std::process::abort"],
        files: &[],
        why: "main returns its exit code, so that everything is dropped before the end",
    },
    Only {
        names: &[".exit"],
        files: &["driver/src/main.rs"],
        why: "main alone ends the program, when its flags cannot be used",
    },
    Only {
        names: &["csi_cli"],
        files: &[],
        why: "the driver does not know the client",
    },
];

const DRIVER_NEVER: &[Never] = &[Never {
    files: &["driver/src/share", "driver/src/mount"],
    names: &["tonic", "csi_proto"],
    why: "shares and mounts are plain Rust and never see gRPC",
}];

const PROTOCOL_ONLY: &[Only] = &[
    Only {
        names: &["csi_cli", "csi_nfs"],
        files: &[],
        why: "the protocol knows neither program",
    },
    Only {
        names: &["std::print", "std::println", "std::io::stdout", "tokio"],
        files: &[],
        why: "the protocol neither prints nor connects",
    },
];

static CLIENT: LazyLock<Graph> =
    LazyLock::new(|| Graph::read("csi_cli", "src", &["lib.rs", "main.rs"], &sources("src")));

static DRIVER: LazyLock<Graph> = LazyLock::new(|| {
    let roots = ["lib.rs", "main.rs"];
    Graph::read("csi_nfs", "driver/src", &roots, &sources("driver/src"))
});

static PROTOCOL: LazyLock<Graph> =
    LazyLock::new(|| Graph::read("csi_proto", "proto/src", &["lib.rs"], &sources("proto/src")));

/// Fails with everything that is broken.
fn hold(broken: &[String]) {
    assert!(broken.is_empty(), "\n{}", broken.join("\n"));
}

#[test]
fn rooms_import_downwards_only() {
    print(&CLIENT);
    hold(&rules::upward(&CLIENT, ROOMS));
}

#[test]
fn no_tool_knows_another() {
    hold(&rules::between_tools(&CLIENT, TOOLS));
}

#[test]
fn no_files_of_the_client_import_each_other_in_a_circle() {
    hold(&rules::circular(&CLIENT, &[]));
}

#[test]
fn no_files_of_the_driver_import_each_other_in_a_circle() {
    print(&DRIVER);
    hold(&rules::circular(&DRIVER, DRIVER_LEFT));
}

#[test]
fn no_files_of_the_protocol_import_each_other_in_a_circle() {
    print(&PROTOCOL);
    hold(&rules::circular(&PROTOCOL, &[]));
}

#[test]
fn the_client_takes_from_outside_only_what_its_rooms_are_for() {
    hold(&rules::only(&CLIENT, CLIENT_ONLY));
    hold(&rules::never(&CLIENT, CLIENT_NEVER));
}

#[test]
fn the_driver_takes_from_outside_only_what_its_folders_are_for() {
    hold(&rules::only(&DRIVER, DRIVER_ONLY));
    hold(&rules::never(&DRIVER, DRIVER_NEVER));
}

#[test]
fn the_protocol_knows_neither_program_and_the_driver_not_the_client() {
    hold(&rules::only(&PROTOCOL, PROTOCOL_ONLY));
}

/// For people who cut circles.
fn print(graph: &Graph) {
    if std::env::var("CSI_LAYERS").is_ok_and(|value| value == "print") {
        println!("{}", graph.describe_circles());
    }
}
