//! Makes a release smaller, in the file and in memory: the linker folds functions of equal code into one.
// Cargo is told so on stdout.
#![allow(clippy::print_stdout)]

use std::env::{self, var};
use std::path::PathBuf;
use std::process::{Command, Stdio};

/// Half a MiB less is mapped. Nothing here tells functions apart by their addresses, and Rust promises none.
const FOLD: &str = "-Wl,--icf=all";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    // In tests, backtraces name what was called.
    if is("PROFILE", "release") && is("TARGET", "x86_64-unknown-linux-gnu") && is_known() {
        println!("cargo::rustc-link-arg-bins={FOLD}");
    }
}

/// Whether the linker knows the flag. rustc links by lld there, which does, unless a distribution or a user has chosen GNU's,
/// which does not.
fn is_known() -> bool {
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        return false;
    };
    let program = folder.join("empty.rs");
    if std::fs::write(&program, "fn main() {}").is_err() {
        return false;
    }
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.arg(&program).arg("--out-dir").arg(&folder);
    rustc.arg("-C").arg(format!("link-arg={FOLD}"));
    if let Ok(linker) = var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    let flags = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(flags.split('\u{1f}').filter(|flag| !flag.is_empty()));
    let linked = rustc.stdout(Stdio::null()).stderr(Stdio::null()).status();
    linked.is_ok_and(|status| status.success())
}
