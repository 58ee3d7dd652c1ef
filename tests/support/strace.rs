//! Reads strace's log of a program, for tests that kill the program before one of its calls.
#![allow(dead_code)] // Every test program uses a part of the support.

use std::collections::BTreeMap;
use std::path::Path;

/// How often each thread has made each system call, from strace's log.
pub fn counts(log: &Path) -> BTreeMap<(String, String), u32> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut counts = BTreeMap::new();
    for line in text.lines() {
        let Some((thread, rest)) = line.split_once(' ') else {
            continue;
        };
        // What ends later has another line, which begins with `<...`.
        if let Some((name, _)) = rest.trim_start().split_once('(')
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
        {
            *counts
                .entry((thread.to_owned(), name.to_owned()))
                .or_default() += 1;
        }
    }
    counts
}
