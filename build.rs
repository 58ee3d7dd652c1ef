//! Makes a release of `csi` smaller, in the file and in memory, by how it is linked.
//!
//! - Functions of equal code become one. Nothing here tells functions apart by their addresses, and Rust promises none.
//! - Tables for unwinding go: a panic ends the program at once, and a stripped program has no names for a backtrace.
//! - The functions that a plain call needs lie together. The kernel maps 64 KiB around each that is called, which is most of the
//!   program when they lie anywhere. `tests/bench/called-first` finds them; the list may be out of date without harm.
//!
//! rustc links by lld, which can do that. Where a distribution or a user has chosen another linker, it is asked first.
// Cargo is told so on stdout.
#![allow(clippy::print_stdout)]

use std::env::{self, var};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{fs, io};

const CALLED_FIRST: &str = "tests/bench/called-first.txt";
/// Links as in a debug build, so that the functions can be found that a call needs.
const PLAIN: &str = "CSI_LINK_PLAIN";

fn main() -> io::Result<()> {
    for watched in ["build.rs", CALLED_FIRST] {
        println!("cargo::rerun-if-changed={watched}");
    }
    println!("cargo::rerun-if-env-changed={PLAIN}");
    let is = |name: &str, value: &str| var(name).is_ok_and(|found| found == value);
    // In tests, backtraces name what was called.
    if !is("PROFILE", "release") || !is("TARGET", "x86_64-unknown-linux-gnu") || is(PLAIN, "1") {
        return Ok(());
    }
    let Some(folder) = env::var_os("OUT_DIR").map(PathBuf::from) else {
        return Ok(());
    };
    let script = folder.join("order.ld");
    fs::write(&script, linker_script(&fs::read_to_string(CALLED_FIRST)?))?;
    let groups: [&[&str]; 2] = [
        &["-Wl,--icf=all"],
        &["-Wl,--no-eh-frame-hdr", &script.to_string_lossy()],
    ];
    for flags in groups {
        if is_known(flags, &folder)? {
            for flag in flags {
                println!("cargo::rustc-link-arg-bins={flag}");
            }
        }
    }
    Ok(())
}

/// Puts the sections of the functions in `names` before those of all others, and leaves out what unwinding needs. A name is
/// mangled and ends before its hash, which a change elsewhere can change.
fn linker_script(names: &str) -> String {
    let mut script = "SECTIONS {\n  /DISCARD/ : { *(.eh_frame) }\n  .text.first : {\n".to_owned();
    for name in names.lines().filter(|line| !line.starts_with('#')) {
        // What is `#[cold]` has a section of the second kind.
        writeln!(script, r#"    *(".text.{name}*" ".text.unlikely.{name}*")"#)
            .expect("a String takes all that is written");
    }
    script.push_str("  }\n} INSERT BEFORE .text;\n");
    script
}

/// Whether the linker that cargo will use links an empty program with these flags.
fn is_known(flags: &[&str], folder: &Path) -> io::Result<bool> {
    let program = folder.join("empty.rs");
    fs::write(&program, "fn main() {}")?;
    let mut rustc = Command::new(env::var_os("RUSTC").unwrap_or_else(|| "rustc".into()));
    rustc.arg(&program).arg("--out-dir").arg(folder);
    // As the release: with tables for unwinding, whoever needs them would miss them.
    rustc.args(["-C", "panic=abort"]);
    for flag in flags {
        rustc.arg("-C").arg(format!("link-arg={flag}"));
    }
    if let Ok(linker) = var("RUSTC_LINKER") {
        rustc.arg("-C").arg(format!("linker={linker}"));
    }
    let own = var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    rustc.args(own.split('\u{1f}').filter(|flag| !flag.is_empty()));
    let linked = rustc.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    // A linker may take the script and leave out what it cannot do: the program must run.
    Ok(linked.success() && Command::new(folder.join("empty")).status()?.success())
}
