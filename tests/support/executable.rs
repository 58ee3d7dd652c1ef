//! Files that a test writes and then runs.
//!
//! Another process writes them. A thread of this one that starts a child at the same moment hands it every open descriptor
//! until the child's exec, and the kernel refuses to run a file that somebody has open for writing ("Text file busy").

#![allow(dead_code)] // Every test program uses a part of it.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

/// Copies a program.
pub fn copy(program: impl AsRef<Path>, to: &Path) {
    let mut command = Command::new("install");
    command.args(["-m", "755", "--"]).arg(program.as_ref());
    let status = command.arg(to).status().expect("coreutils");
    assert!(status.success(), "{} is not written", to.display());
}

/// Writes a script.
pub fn script(path: &Path, text: &str) {
    let mut command = Command::new("install");
    command.args(["-m", "755", "--", "/dev/stdin"]).arg(path);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("coreutils");
    let mut input = child.stdin.take().expect("a pipe");
    input.write_all(text.as_bytes()).expect("it is read");
    drop(input);
    let status = child.wait().expect("a child");
    assert!(status.success(), "{} is not written", path.display());
}
