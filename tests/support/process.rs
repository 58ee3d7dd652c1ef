//! A child process of a test: its output as it comes, an end that is never waited for in vain, and no survivors.

use super::patience::{BETWEEN, PATIENCE, Patience, until_changed};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, ioctl_fionbio};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, kill_process_group, pidfd_open};
use std::io::Write as _;
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A running child and what it has written. Dropping it kills its process group.
pub struct Process {
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: Captured,
    stderr: Captured,
}

/// How a process ended.
#[derive(Clone, Debug)]
pub struct Ended {
    /// The exit status.
    pub status: ExitStatus,
    /// All that it wrote to its standard output.
    pub stdout: Vec<u8>,
    /// All that it wrote to its standard error.
    pub stderr: Vec<u8>,
}

impl Process {
    /// Starts `command` in a process group of its own, with all three standard streams piped.
    pub fn start(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {command:?}: {error}"));
        let stdout = Captured::from(child.stdout.take().expect("a pipe"));
        let stderr = Captured::from(child.stderr.take().expect("a pipe"));
        Self {
            stdin: child.stdin.take(),
            child,
            stdout,
            stderr,
        }
    }

    /// The process's number.
    pub fn pid(&self) -> Pid {
        Pid::from_child(&self.child)
    }

    /// Writes to the process's standard input.
    pub fn type_in(&mut self, text: impl AsRef<[u8]>) {
        let stdin = self.stdin.as_mut().expect("the input is still open");
        // A process that does not want its input is not this function's business.
        let _ = stdin.write_all(text.as_ref()).and_then(|()| stdin.flush());
    }

    /// Ends the process's standard input.
    pub fn end_input(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal to the process alone, as `kill` does.
    pub fn signal(&self, signal: Signal) {
        kill_process(self.pid(), signal).expect("the process still runs");
    }

    /// Sends a signal to the process and its children, as a terminal does for Ctrl-C.
    pub fn signal_group(&self, signal: Signal) {
        kill_process_group(self.pid(), signal).expect("the process still runs");
    }

    /// Waits until the standard output contains `text`; returns all of it so far.
    pub fn wait_for_output(&self, text: &str) -> String {
        self.wait_for(&self.stdout, text)
    }

    /// Waits until the standard error contains `text`; returns all of it so far.
    pub fn wait_for_error_output(&self, text: &str) -> String {
        self.wait_for(&self.stderr, text)
    }

    /// Waits for a line of the standard error that contains `text`, from the byte `from` on, which is moved behind that line.
    pub fn wait_for_error_line(&self, from: &mut usize, text: &str) -> String {
        let found = self.stderr.wait_for_line(*from, text);
        let (line, end) = found
            .unwrap_or_else(|| panic!("no line contained {text:?} any more:\n{}", self.so_far()));
        *from = end;
        line
    }

    /// What the process has written to its standard error so far.
    pub fn error_output(&self) -> String {
        self.stderr.text()
    }

    fn wait_for(&self, stream: &Captured, text: &str) -> String {
        stream.wait_for(text).unwrap_or_else(|so_far| {
            panic!(
                "the output never contained {text:?}:\n{so_far}\n{}",
                self.so_far()
            )
        })
    }

    /// What the process has written so far, for a message.
    pub fn so_far(&self) -> String {
        format!(
            "--- stdout\n{}--- stderr\n{}",
            self.stdout.text(),
            self.stderr.text()
        )
    }

    /// Whether the process has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("a child").is_none()
    }

    /// Waits for the end, until all was at rest for `limit`; the error is what was written until then, and the process is killed.
    pub fn wait(mut self, limit: Duration) -> Result<Ended, String> {
        self.end_input();
        if !self.ends_within(limit) {
            self.kill();
            return Err(format!("still running\n{}", self.so_far()));
        }
        let status = self.child.wait().expect("a child");
        // A grandchild may hold the pipes open; it must not outlive the test either.
        let _ = kill_process_group(self.pid(), Signal::KILL);
        Ok(Ended {
            status,
            stdout: self.stdout.all(),
            stderr: self.stderr.all(),
        })
    }

    fn ends_within(&self, limit: Duration) -> bool {
        ends_within(&self.child, limit)
    }

    /// Waits until the process has ended by itself, and returns how.
    pub fn wait_for_death(&mut self) -> ExitStatus {
        let has_ended = !self.is_running() || self.ends_within(PATIENCE);
        assert!(has_ended, "still running\n{}", self.so_far());
        self.child.wait().expect("a child")
    }

    /// Kills the process and its children with SIGKILL and waits for its end.
    pub fn kill(&mut self) {
        let _ = kill_process_group(self.pid(), Signal::KILL);
        let _ = self.child.kill();
        // A thread that waits for a server ends when that answers, which nobody lets it after a test has failed.
        if !std::thread::panicking() || self.ends_within(PATIENCE) {
            let _ = self.child.wait();
        }
    }
}

/// The children of a process, dead ones that nobody has reaped among them.
pub fn children(pid: i32) -> Vec<i32> {
    let processes = std::fs::read_dir("/proc")
        .expect("/proc is mounted")
        .flatten();
    let numbers = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let parent = |child: i32| -> Option<i32> {
        let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).ok()?;
        let (_, after_name) = stat.rsplit_once(')')?;
        after_name.split_ascii_whitespace().nth(1)?.parse().ok()
    };
    numbers
        .filter(|child| parent(*child) == Some(pid))
        .collect()
}

/// Waits for the end of a child that nobody has waited for, until all was at rest for `limit`; whether it came.
pub fn ends_within(child: &Child, limit: Duration) -> bool {
    let Ok(pidfd) = pidfd_open(Pid::from_child(child), PidfdFlags::empty()) else {
        return false;
    };
    let pause = Timespec::try_from(BETWEEN).expect("a short time");
    let mut fds = [PollFd::new(&pidfd, PollFlags::IN)];
    let mut patience = Patience::of(limit);
    while patience.lasts() {
        match poll(&mut fds, Some(&pause)) {
            Ok(0) | Err(Errno::INTR) => {}
            result => return result.is_ok(),
        }
    }
    false
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.is_running() {
            self.kill();
        }
    }
}

impl Ended {
    /// The exit code as a shell shows it: 128 and the signal's number for a process that was killed.
    pub fn code(&self) -> i32 {
        self.status
            .code()
            .unwrap_or_else(|| 128 + self.status.signal().unwrap_or_default())
    }
}

/// A stream that a thread reads to its end. Who looks at it sees all that was written before, by a process that has died, too.
struct Captured {
    shared: Arc<(Mutex<Written>, Condvar)>,
}

struct Written {
    /// The end of a pipe at which nobody waits while this is locked.
    stream: OwnedFd,
    bytes: Vec<u8>,
    ended: bool,
}

impl Written {
    /// Reads what is in the pipe.
    fn take(&mut self) {
        let mut buffer = [0; 8192];
        while !self.ended {
            match rustix::io::read(&self.stream, &mut buffer) {
                Ok(count) => {
                    self.bytes.extend_from_slice(&buffer[..count]);
                    self.ended = count == 0;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return,
                Err(error) => panic!("cannot read what a process writes: {error}"),
            }
        }
    }
}

impl Captured {
    fn from(stream: impl Into<OwnedFd>) -> Self {
        let stream = stream.into();
        ioctl_fionbio(&stream, true).expect("a pipe");
        let arrivals = stream.try_clone().expect("a descriptor");
        let written = Written {
            stream,
            bytes: Vec::new(),
            ended: false,
        };
        let shared = Arc::new((Mutex::new(written), Condvar::new()));
        std::thread::spawn({
            let shared = shared.clone();
            move || {
                loop {
                    let _ = poll(&mut [PollFd::new(&arrivals, PollFlags::IN)], None);
                    let (written, changed) = &*shared;
                    let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
                    written.take();
                    changed.notify_all();
                    if written.ended {
                        return;
                    }
                }
            }
        });
        Self { shared }
    }

    /// What was written until now.
    fn written(&self) -> MutexGuard<'_, Written> {
        let (written, changed) = &*self.shared;
        let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
        written.take();
        changed.notify_all();
        written
    }

    fn text(&self) -> String {
        String::from_utf8_lossy(&self.written().bytes).into_owned()
    }

    /// Everything until the stream's end.
    fn all(&self) -> Vec<u8> {
        let written = self
            .shared
            .1
            .wait_while(self.written(), |written| !written.ended);
        std::mem::take(&mut written.unwrap_or_else(PoisonError::into_inner).bytes)
    }

    /// Waits until this is so, or the stream has ended, or nothing moves any more.
    fn patiently(&self, is_so: impl Fn(&Written) -> bool) -> MutexGuard<'_, Written> {
        let (_, changed) = &*self.shared;
        until_changed(changed, self.written(), |written| {
            is_so(written) || written.ended
        })
    }

    /// The first whole line from the byte `from` on that contains `text`, and the byte behind it.
    fn wait_for_line(&self, from: usize, text: &str) -> Option<(String, usize)> {
        let find = |written: &Written| {
            let mut end = from;
            let lines = written.bytes[from..].split_inclusive(|byte| *byte == b'\n');
            let mut whole = lines.filter(|line| line.ends_with(b"\n")).map(|line| {
                end += line.len();
                (String::from_utf8_lossy(line).trim_end().to_owned(), end)
            });
            whole.find(|(line, _)| line.contains(text))
        };
        let written = self.patiently(|written| find(written).is_some());
        find(&written)
    }

    fn wait_for(&self, text: &str) -> Result<String, String> {
        let has = |written: &Written| String::from_utf8_lossy(&written.bytes).contains(text);
        let written = self.patiently(has);
        let found = has(&written);
        drop(written);
        if found {
            Ok(self.text())
        } else {
            Err(self.text())
        }
    }
}
