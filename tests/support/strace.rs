//! Reads strace's log of a program, for tests that kill the program before one of its calls.
#![allow(dead_code)] // Every test program uses a part of the support.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::path::Path;

/// How often a kill is tried that hits nothing: strace counts the calls of each thread, and another thread may make them next time.
pub const TRIES: usize = 3;

/// The words before a command whose calls strace writes to `log`, those of the set `traced`. It does `inject` to them.
pub fn words(log: &Path, traced: &str, inject: Option<&str>) -> Vec<String> {
    let trace = format!("trace={traced}");
    // The tracer is a grandchild in a group of its own, so that the process which is started is the command's.
    let mut words = vec![
        "strace",
        "-f",
        "-DD",
        "-q",
        "-o",
        log.to_str().unwrap(),
        "-e",
        &trace,
    ];
    if let Some(inject) = inject {
        words.extend(["-e", inject]);
    }
    words.into_iter().map(str::to_owned).collect()
}

/// What strace is to do to kill before a call: by its name, and which one of its name it is in its thread, from 1.
pub fn kill_before(call: &str, number: u32) -> String {
    format!("inject={call}:signal=SIGKILL:when={number}")
}

/// Whether the log says that something was killed, which the tracer writes last.
pub fn has_killed(log: &Path) -> bool {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.contains("+++ killed by SIGKILL")
}

/// How often each thread has made each system call: by the thread's number and the call's name.
pub type Counts = BTreeMap<(String, String), u32>;

/// How often each thread has made each system call, from strace's log.
pub fn counts(log: &Path) -> Counts {
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

/// The system calls that were made between two counts: their names, and which ones of its name each was in its thread, from 1.
pub fn numbers(before: &Counts, after: &Counts) -> BTreeMap<String, RangeInclusive<u32>> {
    let mut numbers: BTreeMap<String, RangeInclusive<u32>> = BTreeMap::new();
    for (of_thread, &last) in after {
        let first = before.get(of_thread).copied().unwrap_or(0) + 1;
        if first <= last {
            let known = numbers.entry(of_thread.1.clone()).or_insert(first..=last);
            *known = first.min(*known.start())..=last.max(*known.end());
        }
    }
    numbers
}

/// Before which calls of one name to kill, one after the other: those that an undisturbed run made, until one is not reached.
/// If not even the first is, another thread makes them now, which has made fewer before: then those before the first.
pub struct Kills {
    numbers: RangeInclusive<u32>,
    /// How many hit.
    pub hits: u32,
}

impl Kills {
    pub fn new(numbers: RangeInclusive<u32>) -> Self {
        Self { numbers, hits: 0 }
    }

    /// The number of the call to kill before next.
    pub fn number(&self) -> Option<u32> {
        self.numbers.clone().next()
    }

    /// Takes whether something was killed before the call that was next.
    pub fn was_hit(&mut self, was_hit: bool) {
        let Some(number) = self.numbers.next() else {
            return;
        };
        if was_hit {
            self.hits += 1;
        } else {
            let last = if self.hits == 0 { number - 1 } else { 0 };
            self.numbers = 1..=last;
        }
    }
}
