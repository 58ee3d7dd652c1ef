//! The call-outs of a server that was killed: they go on without it, and must end before another one begins its own.
//!
//! Each call-out carries a mark in its environment: the folder of the state, which one server has at a time, and the session of
//! the server. What a call-out starts for good leaves that session, and is no call-out any more.

use csi_invocation::process_stat::ProcessStat;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::{Duration, Instant};
use thiserror::Error;

const VARIABLE: &str = "CSI_FLEX_CALL_OUT";
/// How long a call-out may take to end after SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(5);

/// A call-out of a dead server that cannot be killed.
#[derive(Debug, Error)]
#[error("process {0}, a call-out of a server that was killed, still runs and cannot be killed")]
pub struct Unkillable(i32);

/// What the call-outs of a server have in their environment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    session: i32,
    folder: Vec<u8>,
}

impl Mark {
    /// The mark of this process, with the folder of its state.
    pub fn of(folder: &Path) -> Self {
        Self {
            session: ProcessStat::of(Path::new("/proc/self")).map_or(0, |own| own.session),
            folder: folder.as_os_str().as_bytes().to_vec(),
        }
    }

    /// The variable, by its name and value.
    pub fn variable(&self) -> (&'static str, std::ffi::OsString) {
        let mut value = format!("{}:", self.session).into_bytes();
        value.extend_from_slice(&self.folder);
        (VARIABLE, std::os::unix::ffi::OsStringExt::from_vec(value))
    }

    /// The session in an environment that has a mark of this folder.
    fn session_in(&self, environment: &[u8]) -> Option<i32> {
        let mut variables = environment.split(|byte| *byte == 0);
        let value = variables.find_map(|one| {
            let value = one.strip_prefix(VARIABLE.as_bytes())?;
            value.strip_prefix(b"=")
        })?;
        let colon = value.iter().position(|byte| *byte == b':')?;
        let (session, folder) = value.split_at(colon);
        let session = std::str::from_utf8(session).ok()?.parse().ok()?;
        (folder[1..] == self.folder).then_some(session)
    }

    /// Kills the call-outs that have this folder's mark, whichever server has begun them. To be called by who holds its lock.
    pub fn end_orphans(&self) -> Result<usize, Unkillable> {
        let end = Instant::now() + KILL_GRACE;
        let mut killed = 0;
        // Again, since a process may have started another one meanwhile.
        loop {
            let found = self.orphans();
            if found.is_empty() {
                return Ok(killed);
            }
            for (pid, process) in found {
                let _ = pidfd_send_signal(&process, Signal::KILL);
                if !ends_before(&process, end) {
                    return Err(Unkillable(pid.as_raw_nonzero().get()));
                }
                killed += 1;
            }
        }
    }

    fn orphans(&self) -> Vec<(Pid, OwnedFd)> {
        let Ok(entries) = fs::read_dir("/proc") else {
            return Vec::new();
        };
        let pids = entries.flatten().filter_map(|entry| {
            let number = entry.file_name().to_str()?.parse().ok()?;
            Pid::from_raw(number)
        });
        let orphan = |pid: Pid| {
            // Opened before it is looked at, so that the signal reaches no other of the same number.
            let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
            let folder = Path::new("/proc").join(pid.as_raw_nonzero().to_string());
            // Other users' processes are not to be read, and dead ones have none.
            let session = self.session_in(&fs::read(folder.join("environ")).ok()?)?;
            (ProcessStat::of(&folder)?.session == session).then_some((pid, process))
        };
        pids.filter_map(orphan).collect()
    }
}

/// Waits for the end of a process.
fn ends_before(process: &OwnedFd, end: Instant) -> bool {
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let Ok(left) = Timespec::try_from(left) else {
            return false;
        };
        match poll(&mut [PollFd::new(process, PollFlags::IN)], Some(&left)) {
            Err(rustix::io::Errno::INTR) => {}
            ended => return ended.is_ok_and(|count| count > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn marks_are_read_in_environments() {
        let mark = Mark {
            session: 7,
            folder: b"/a b".to_vec(),
        };
        for (environment, expected) in [
            (&b"A=1\0CSI_FLEX_CALL_OUT=12:/a b\0B=2"[..], Some(12)),
            (b"CSI_FLEX_CALL_OUT=12:/a", None),
            (b"CSI_FLEX_CALL_OUT=x:/a b", None),
            (b"CSI_FLEX_CALL_OUT=12", None),
            (b"", None),
        ] {
            assert_eq!(mark.session_in(environment), expected);
        }
        assert_eq!(mark.variable().1, "7:/a b");
    }

    #[test]
    fn marked_processes_of_the_session_end_and_no_others() {
        let folder = tempfile::tempdir().unwrap();
        let mark = Mark::of(folder.path());
        let other = Mark::of(Path::new("/other"));
        let start = |mark: &Mark, program: &str| {
            let (name, value) = mark.variable();
            let mut command = Command::new(program);
            let command = command.arg("60").env(name, value).stdin(Stdio::null());
            command.spawn().unwrap()
        };
        let (mut orphan, mut foreign) = (start(&mark, "sleep"), start(&other, "sleep"));
        let ended = mark.end_orphans();
        let died = orphan.wait().unwrap();
        let lives = foreign.try_wait().unwrap().is_none();
        foreign.kill().unwrap();
        foreign.wait().unwrap();
        assert!(!died.success() && lives);
        assert_eq!(ended.unwrap(), 1);
        assert_eq!(mark.end_orphans().unwrap(), 0);
    }
}
