//! Names the process that holds something, so that other processes understand it: a process of this machine sees at once
//! whether the holder lives, any other waits for its heartbeat. Must not know what is held.

use crate::share::token::Nonce;
use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};
use std::sync::LazyLock;

/// This process: `<boot>/<pid namespace>/<pid>/<start time>`, or something random where that cannot be known.
pub(in crate::share) fn own() -> &'static str {
    static OWN: LazyLock<String> = LazyLock::new(|| {
        known().unwrap_or_else(|| Nonce::random().map_or_else(|_| String::new(), String::from))
    });
    &OWN
}

fn known() -> Option<String> {
    let pid = std::process::id();
    Some(format!("{}/{pid}/{}", machine()?, started(pid)?))
}

/// The pids that this process sees, told from those of other machines, boots and namespaces.
fn machine() -> Option<&'static str> {
    static MACHINE: LazyLock<Option<String>> = LazyLock::new(look_at_machine);
    MACHINE.as_deref()
}

fn look_at_machine() -> Option<String> {
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    let namespace = std::fs::read_link("/proc/self/ns/pid").ok()?;
    let namespace = namespace.to_str()?;
    let number: String = namespace.chars().filter(char::is_ascii_digit).collect();
    Some(format!("{}/{number}", boot.trim()))
}

/// When a process was started, in clock ticks since boot: proc(5), field 22 of stat.
fn started(pid: u32) -> Option<u64> {
    started_at(&stat(pid)?)
}

/// What proc(5) says of a process, from the third field on. The second is a name in parentheses, which may hold anything.
fn stat(pid: u32) -> Option<String> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    Some(stat.rsplit_once(')')?.1.to_owned())
}

fn started_at(stat: &str) -> Option<u64> {
    stat.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Whether a process has ended and only its parent has not asked how. Of one that was killed, a thread may still be in a system
/// call that makes something when the first thread has ended: field 20 counts them.
fn has_ended(stat: &str) -> bool {
    let threads = stat.split_ascii_whitespace().nth(17);
    stat.trim_start().starts_with(['Z', 'X']) && matches!(threads, Some("0" | "1"))
}

/// Whether `process` is known to be dead. One that cannot be seen from here, or of which `/proc` is hidden, may well live.
pub(in crate::share) fn is_dead(process: &str) -> bool {
    let mut parts = process.rsplitn(3, '/');
    let (Some(start), Some(pid), Some(theirs)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let (Ok(start), Ok(pid)) = (start.parse::<u64>(), pid.parse::<u32>()) else {
        return false;
    };
    if machine() != Some(theirs) {
        return false;
    }
    let there = match i32::try_from(pid).ok().and_then(Pid::from_raw) {
        Some(pid) => test_kill_process(pid) != Err(Errno::SRCH),
        None => false,
    };
    let is_other =
        |stat: String| has_ended(&stat) || started_at(&stat).is_some_and(|other| other != start);
    !there || stat(pid).is_some_and(is_other)
}

/// A process of this machine that is dead.
#[cfg(test)]
pub(in crate::share) fn dead() -> String {
    let (rest, _) = own().rsplit_once('/').unwrap();
    let (machine, _) = rest.rsplit_once('/').unwrap();
    // More than a kernel gives.
    format!("{machine}/{}/1", i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_living_are_told_from_the_dead_and_from_strangers() {
        assert!(!is_dead(own()), "{}", own());
        let (machine, _) = own().rsplit_once('/').unwrap();
        assert!(is_dead(&format!("{machine}/1")));
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let start = started(pid);
        let (machine, _) = machine.rsplit_once('/').unwrap();
        if let Some(start) = start {
            // Before anybody has asked how it ended.
            while !stat(pid).is_some_and(|stat| has_ended(&stat)) {
                std::thread::yield_now();
            }
            assert!(is_dead(&format!("{machine}/{pid}/{start}")));
        }
        child.wait().unwrap();
        if let Some(start) = start {
            assert!(is_dead(&format!("{machine}/{pid}/{start}")));
        }
        assert!(is_dead(&dead()));
        let zombie = |threads| format!(" Z 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 {threads} 0 77");
        assert!(has_ended(&zombie(1)));
        assert!(!has_ended(&zombie(2)), "one may still be in a system call");
        assert_eq!(started_at(&zombie(2)), Some(77));
        for other in ["", "x", "other-boot/1/1/1", "/", "0123456789abcdef"] {
            assert!(!is_dead(other), "{other:?}");
        }
    }
}
