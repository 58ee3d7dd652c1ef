//! The layers of the programs: arrows run down one list of rooms, and no files import each other in a circle.
//!
//! `CSI_LAYERS=print cargo test -p csi-cli --test cli layers -- --nocapture` prints every circle and every arrow up, with
//! the names that each file takes from the other.

use super::rules::{self, Never, Only};
use super::{CLIENT, DRIVER, MOCK, PROTOCOL, STORE, SYSTEM, hold};

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
    "say",
];

/// Where each folder is a tool that knows no other.
const TOOLS: &str = "src/tools";

/// The arrows of the driver that close circles and are still to be cut. This list may only get shorter.
const DRIVER_LEFT: &[&str] = &[];

const CLIENT_ONLY: &[Only] = &[
    Only {
        names: &["rustix::process::umask"],
        files: &[],
        why: "the umask is that of all threads",
    },
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
        names: &["std::eprint", "std::eprintln"],
        files: &[],
        why: "say! never fails: eprintln! ends the process where nobody reads stderr",
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
        names: &["clap_complete"],
        files: &["src/cli/completion", "src/invocation/completion"],
        why: "the engine is not stable: completion alone knows it",
    },
    Only {
        names: &["csi_nfs"],
        files: &[
            "src/call/endpoint/embedded",
            "src/invocation/completion",
            "src/invocation/connect",
            "src/lib",
        ],
        why: "the client knows the driver as what is embedded: its service, its parameters, and how it mounts",
    },
    Only {
        names: &["csi_mock"],
        files: &[
            "src/call/endpoint/mock.rs",
            "src/invocation/serving.rs",
            "src/tools/flex/command.rs",
            "src/tools/mock",
            "src/tools/serve",
        ],
        why: "the client knows the mock as a driver, and its server as one that answers a recording or for an executable",
    },
    Only {
        names: &["comfy_table"],
        files: &["src/output/columns.rs"],
        why: "one function draws all tables",
    },
    Only {
        names: &["serde_saphyr"],
        files: &["src/output/yaml.rs"],
        why: "one file writes YAML",
    },
    Only {
        names: &["serde_json_path"],
        files: &[],
        why: "expressions are our own: tests alone compare them with it",
    },
    Only {
        names: &["tar"],
        files: &["src/tools/doctor/bundle.rs"],
        why: "one file packs archives",
    },
    Only {
        names: &["clap_mangen"],
        files: &["src/cli/man"],
        why: "csi man alone makes manual pages",
    },
    Only {
        names: &["maud"],
        files: &["src/output/page"],
        why: "pages alone are HTML",
    },
    Only {
        names: &["tempfile"],
        files: &["src/invocation/private_file.rs", "src/output/page/file.rs"],
        why: "pages and private files alone appear whole or not at all",
    },
    Only {
        names: &["csi_sys"],
        files: &["src/invocation/interrupt.rs"],
        why: "what handlers of signals do has one place",
    },
    Only {
        names: &["rustyline"],
        files: &["src/tools/shell"],
        why: "the shell alone edits lines",
    },
];

const CLIENT_NEVER: &[Never] = &[
    Never {
        files: &["src/output", "src/call", "src/rpc/validation"],
        names: &["clap"],
        except: &[],
        why: "the command line is read above: what is printed, called and validated does not depend on it",
    },
    Never {
        files: &["src/rpc"],
        names: &[
            "std::print",
            "std::println",
            "std::eprint",
            "std::eprintln",
            "std::io::stdout",
            "std::io::stderr",
            "tokio",
            "src/call",
        ],
        except: &[],
        why: "an RPC's block neither prints nor connects",
    },
];

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
    Only {
        names: &["csi_sys"],
        files: &["driver/src/calls/operations.rs"],
        why: "operations gives back the memory of a crowd, and what else the kernel is asked for is the store's",
    },
    Only {
        names: &["rustix::process::umask"],
        files: &[],
        why: "the umask is that of all threads",
    },
];

const DRIVER_NEVER: &[Never] = &[Never {
    files: &["driver/src/mount"],
    names: &["tonic", "csi_proto"],
    except: &["csi_proto::lock", "csi_proto::random"],
    why: "mounts are plain Rust and never see gRPC or its messages",
}];

const STORE_ONLY: &[Only] = &[
    Only {
        names: &["std::process::exit", "std::process::abort", ".exit"],
        files: &[],
        why: "the store ends no process",
    },
    Only {
        names: &["csi_sys"],
        files: &["driver/store/src/quota"],
        why: "quota/ alone asks the kernel for quotas",
    },
    Only {
        names: &["rustix::process::umask"],
        files: &["driver/store/src/files/copying/tree.rs"],
        why: "the umask is that of all threads, but of those that copy",
    },
];

/// That the store knows neither gRPC nor the driver is held by its manifest; the package of the protocol has its locks.
const STORE_NEVER: &[Never] = &[
    Never {
        files: &["driver/store/src"],
        names: &["csi_proto"],
        except: &[
            "csi_proto::lock",
            "csi_proto::random",
            "csi_proto::SPEC_VERSION",
        ],
        why: "what is kept on a share has nothing of a call's messages",
    },
    Never {
        files: &[
            "driver/store/src/files/copying",
            "driver/store/src/files/walking",
            "driver/store/src/quota",
        ],
        names: &["driver/store/src/share"],
        except: &[],
        why: "trees are copied, limited and walked without a thought of what they are",
    },
    Never {
        files: &["driver/store/src/share", "driver/store/src/files"],
        names: &["driver/store/src/upstream"],
        except: &[],
        why: "what is kubernetes-csi's driver's stands behind one door, in front of the controller",
    },
];

const MOCK_ONLY: &[Only] = &[Only {
    names: &[
        "csi_cli",
        "csi_nfs",
        "std::print",
        "std::println",
        "std::eprintln",
        "std::io::stdout",
        "std::process::exit",
    ],
    files: &[],
    why: "the mock knows neither program, prints nothing and ends no process",
}];

const PROTOCOL_ONLY: &[Only] = &[
    Only {
        names: &["csi_cli", "csi_nfs", "csi_mock"],
        files: &[],
        why: "the protocol knows neither program",
    },
    Only {
        names: &["std::print", "std::println", "std::io::stdout", "tokio"],
        files: &[],
        why: "the protocol neither prints nor connects",
    },
    Only {
        names: &["rustix::process::umask"],
        files: &[],
        why: "the umask is that of all threads",
    },
];

/// What each other package alone may take: the calls that stand in `sys/`.
const SYSTEM_CALLS: &[Only] = &[Only {
    names: &["libc", "rustix::ioctl", ".syscall"],
    files: &[],
    why: "system calls that no crate wraps stand in sys/",
}];

const SYSTEM_ONLY: &[Only] = &[Only {
    names: &[
        "csi_cli",
        "csi_nfs",
        "csi_proto",
        "tokio",
        "std::print",
        "std::println",
    ],
    files: &[],
    why: "sys/ is system calls and nothing else",
}];

#[test]
fn rooms_import_downwards_only() {
    hold(&rules::upward(&CLIENT.graph, ROOMS));
}

#[test]
fn no_tool_knows_another() {
    hold(&rules::between_tools(&CLIENT.graph, TOOLS, &[]));
}

#[test]
fn no_files_of_the_client_import_each_other_in_a_circle() {
    hold(&rules::circular(&CLIENT.graph, &[]));
}

#[test]
fn no_files_of_the_driver_import_each_other_in_a_circle() {
    hold(&rules::circular(&DRIVER.graph, DRIVER_LEFT));
}

#[test]
fn no_files_of_the_store_import_each_other_in_a_circle() {
    hold(&rules::circular(&STORE.graph, &[]));
}

#[test]
fn no_files_of_the_mock_import_each_other_in_a_circle() {
    hold(&rules::circular(&MOCK.graph, &[]));
}

#[test]
fn the_mock_knows_neither_program() {
    hold(&rules::only(&MOCK.graph, MOCK_ONLY));
}

#[test]
fn no_files_of_the_protocol_import_each_other_in_a_circle() {
    hold(&rules::circular(&PROTOCOL.graph, &[]));
}

#[test]
fn no_files_of_the_system_calls_import_each_other_in_a_circle() {
    hold(&rules::circular(&SYSTEM.graph, &[]));
}

#[test]
fn system_calls_stand_in_a_package_of_their_own() {
    for member in [&CLIENT, &DRIVER, &STORE, &PROTOCOL] {
        hold(&rules::only(&member.graph, SYSTEM_CALLS));
    }
    hold(&rules::only(&SYSTEM.graph, SYSTEM_ONLY));
}

#[test]
fn the_client_takes_from_outside_only_what_its_rooms_are_for() {
    hold(&rules::only(&CLIENT.graph, CLIENT_ONLY));
    hold(&rules::never(&CLIENT.graph, CLIENT_NEVER));
}

#[test]
fn the_driver_takes_from_outside_only_what_its_folders_are_for() {
    hold(&rules::only(&DRIVER.graph, DRIVER_ONLY));
    hold(&rules::never(&DRIVER.graph, DRIVER_NEVER));
    hold(&rules::only(&STORE.graph, STORE_ONLY));
    hold(&rules::never(&STORE.graph, STORE_NEVER));
}

#[test]
fn the_protocol_knows_neither_program_and_the_driver_not_the_client() {
    hold(&rules::only(&PROTOCOL.graph, PROTOCOL_ONLY));
}
