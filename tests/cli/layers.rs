//! The dependency rules of ARCHITECTURE.md, held against the sources: what a layer must not know does not occur in it.

use std::fs;
use std::path::{Path, PathBuf};

/// Every Rust file below `path`, or the file itself, with its content; tests beneath the code are left out.
fn sources(path: &str) -> Vec<(PathBuf, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    let mut left = vec![root.join(path)];
    while let Some(path) = left.pop() {
        if path.is_dir() {
            left.extend(
                fs::read_dir(&path)
                    .unwrap()
                    .map(|entry| entry.unwrap().path()),
            );
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
            let lines = code
                .lines()
                .filter(|line| !line.trim_start().starts_with("//"));
            let code: Vec<&str> = lines.collect();
            found.push((path.strip_prefix(root).unwrap().to_owned(), code.join("\n")));
        }
    }
    assert!(!found.is_empty(), "{path} has no sources");
    found
}

/// Fails when a word occurs in the sources of `path`, but for the files named.
fn never(path: &str, words: &[&str], except: &[&str]) {
    for (file, code) in sources(path) {
        if except.iter().any(|except| file.starts_with(except)) {
            continue;
        }
        for word in words {
            assert!(!code.contains(word), "{} has {word:?}", file.display());
        }
    }
}

#[test]
fn only_output_writes_to_stdout() {
    // The relay's stdout carries a connection, not output.
    let except = ["src/output", "src/tools/proxy/stdio.rs"];
    never("src", &[" println!", " print!(", "io::stdout"], &except);
}

#[test]
fn rpcs_neither_print_nor_connect() {
    never("src/rpc", &["print", "crate::call", "tokio"], &[]);
}

#[test]
fn output_session_and_validation_never_see_clap() {
    for path in [
        "src/output",
        "src/call/session.rs",
        "src/rpc/validation",
        "src/rpc/validation.rs",
        "src/call/endpoint",
        "src/call/endpoint.rs",
    ] {
        never(path, &["clap"], &[]);
    }
}

#[test]
fn only_error_chooses_exit_codes_and_nobody_exits() {
    never(
        "src",
        &["process::exit", "ExitCode::from", "exit("],
        &["src/error.rs"],
    );
    never("driver/src", &["process::exit"], &[]);
}

#[test]
fn only_completion_knows_the_unstable_engine_and_only_the_shell_the_line_editor() {
    never(
        "src",
        &["clap_complete"],
        &["src/cli/completion", "src/invocation/completion.rs"],
    );
    never("src", &["rustyline"], &["src/tools/shell"]);
}

#[test]
fn shares_and_mounts_never_see_grpc() {
    never("driver/src/share", &["tonic", "csi_proto"], &[]);
    never("driver/src/mount", &["tonic", "csi_proto"], &[]);
}

#[test]
fn the_protocol_knows_neither_program_and_the_driver_not_the_client() {
    let manifest = |path: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
        fs::read_to_string(path).unwrap()
    };
    let proto = manifest("proto/Cargo.toml");
    assert!(!proto.contains("csi-cli") && !proto.contains("csi-nfs"));
    assert!(!manifest("driver/Cargo.toml").contains("csi-cli"));
}
