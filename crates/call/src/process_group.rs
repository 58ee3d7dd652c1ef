//! A program that this one starts, with all that it starts in turn: a process group, which ends when it is dropped.
//!
//! A group of its own keeps the terminal's Ctrl-C away from the program: `csi` gets Ctrl-C, and then ends the group in order. Owns also
//! how the program ended, and the last of what it wrote to stderr. Must not know what the program is for.

use csi_proto::lock;
use csi_sys::process_groups::{self, Noted};
use rustix::io::Errno;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::net::unix::pipe::Receiver;
use tokio::task::JoinHandle;

/// The number of bytes that are kept of the end of stderr.
const STDERR_KEPT: usize = 8 << 10;
/// How long the rest of a group may stay once the program has ended.
const REST_GRACE: Duration = Duration::from_millis(200);
/// How long the program may take to be gone after SIGKILL.
const KILL_GRACE: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExecOutcome {
    /// It exited with this code.
    Exited(i32),
    /// It was killed by this signal.
    Killed(i32),
    /// It still runs, but closed its standard output.
    ClosedOutput,
}

impl fmt::Display for ExecOutcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exited(code) => write!(f, "exited with code {code}"),
            Self::Killed(signal) => write!(f, "was killed by signal {signal}"),
            Self::ClosedOutput => f.write_str("closed its standard output"),
        }
    }
}

/// A child and the process group that it leads. Dropping it ends them all, and so does a signal that ends this process at once.
pub struct ProcessGroup {
    child: Child,
    noted: Option<Noted>,
    /// How long it may take to end after SIGTERM.
    patience: Duration,
}

impl ProcessGroup {
    /// Starts a program, whose stderr is a pipe; it gets that time to end after SIGTERM.
    pub fn start(command: &mut Command, patience: Duration) -> io::Result<Self> {
        let (child, noted) =
            process_groups::start(command.process_group(0).stderr(Stdio::piped()))?;
        Ok(Self {
            child,
            noted: Some(noted),
            patience,
        })
    }

    /// Our ends of its standard input and output, where these are pipes. The second call has none.
    pub fn streams(&mut self) -> (Option<ChildStdin>, Option<ChildStdout>) {
        (self.child.stdin.take(), self.child.stdout.take())
    }

    /// What it writes to stderr. Needs a runtime.
    ///
    /// # Errors
    /// At the second call.
    pub fn stderr(&mut self) -> io::Result<Stderr> {
        let stderr = self.child.stderr.take().ok_or(io::ErrorKind::BrokenPipe)?;
        Stderr::keep(stderr.into())
    }

    /// The program's number, and its group's.
    pub fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Lets go of what the program has left running, once it has ended. It blocks until then.
    pub fn leave(mut self) {
        let _ = self.child.wait();
        self.noted = None;
    }

    /// Whether all of it ends within that time. It blocks.
    pub fn ends_within(&mut self, time: Duration) -> bool {
        let Some(group) = self.pid() else { return true };
        // Dead processes that nobody reaps count as the group's too, hence a short wait for those that are not ours.
        self.wait_for_leader(time) && wait(REST_GRACE, || test_kill_process_group(group).is_err())
    }

    /// Waits until the child has been reaped.
    fn wait_for_leader(&mut self, time: Duration) -> bool {
        wait(time, || !matches!(self.child.try_wait(), Ok(None)))
    }
}

impl Drop for ProcessGroup {
    /// It blocks, because it cannot be left to a task: the runtime, and then the process, may end right after, and no program
    /// may outlive them.
    fn drop(&mut self) {
        let Some(group) = self.pid().filter(|_| self.noted.is_some()) else {
            return;
        };
        if self.ends_within(Duration::ZERO) {
            return;
        }
        // A process that may not be signalled (sudo) has lost its input; more cannot be done.
        let _ = kill_process_group(group, Signal::TERM);
        // A command that asked the terminal for a password was stopped, and takes signals only when it goes on.
        let _ = kill_process_group(group, Signal::CONT);
        if self.ends_within(self.patience) {
            return;
        }
        let _ = kill_process_group(group, Signal::KILL);
        self.wait_for_leader(KILL_GRACE);
    }
}

/// The last bytes of an output, and the number of those before them.
#[derive(Default)]
struct Tail {
    bytes: VecDeque<u8>,
    before: usize,
}

impl Tail {
    fn add(&mut self, bytes: &[u8]) {
        self.bytes.extend(bytes);
        let surplus = self.bytes.len().saturating_sub(STDERR_KEPT);
        self.bytes.drain(..surplus);
        self.before += surplus;
    }
}

/// The end of what a program writes to stderr.
#[derive(Clone)]
pub struct Stderr {
    pipe: Arc<Pipe>,
    reader: Arc<Mutex<Option<JoinHandle<()>>>>,
}

struct Pipe {
    end: Receiver,
    tail: Mutex<Tail>,
}

impl Pipe {
    /// Takes in all that has been written until now, and says whether there may be more. It reads at once, not when the runtime comes
    /// to it: what was written before an event is here for whoever has seen the event.
    fn drain(&self) -> bool {
        let mut tail = lock(&self.tail);
        let mut chunk = [0; 4096];
        loop {
            let read = match rustix::io::read(&self.end, &mut chunk) {
                // The runtime has to see that the pipe is empty, or the reader would not wait.
                Err(Errno::WOULDBLOCK) => self.end.try_read(&mut chunk),
                read => read.map_err(io::Error::from),
            };
            match read {
                Ok(0) => return false,
                Ok(count) => tail.add(&chunk[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }
}

impl Stderr {
    /// Keeps what comes out of a pipe. Needs a runtime.
    pub fn keep(pipe: OwnedFd) -> io::Result<Self> {
        let pipe = Arc::new(Pipe {
            end: Receiver::from_owned_fd(pipe)?,
            tail: Mutex::default(),
        });
        let kept = Arc::clone(&pipe);
        let reader =
            tokio::spawn(async move { while kept.end.readable().await.is_ok() && kept.drain() {} });
        Ok(Self {
            pipe,
            reader: Arc::new(Mutex::new(Some(reader))),
        })
    }

    /// The text of stderr when nobody can write to it any more, or at `deadline`: a child of the program may hold it open.
    pub async fn text(&self, deadline: Instant) -> String {
        let reader = lock(&self.reader).take();
        if let Some(reader) = reader {
            let _ = tokio::time::timeout_at(deadline.into(), reader).await;
        }
        self.since(0)
    }

    /// The number of bytes that have been written so far.
    pub fn count(&self) -> usize {
        self.pipe.drain();
        let tail = lock(&self.pipe.tail);
        tail.before + tail.bytes.len()
    }

    /// What was written after the first `count` bytes, as far as it is kept.
    pub fn since(&self, count: usize) -> String {
        self.pipe.drain();
        let mut tail = lock(&self.pipe.tail);
        let from = count.saturating_sub(tail.before).min(tail.bytes.len());
        String::from_utf8_lossy(&tail.bytes.make_contiguous()[from..]).into_owned()
    }
}

/// The end of the process, if it has ended. It stays a zombie, so that its id, which is its group's, cannot be reused yet.
pub fn outcome(pid: Pid) -> Option<ExecOutcome> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(pid), options).ok()??;
    status
        .exit_status()
        .map(ExecOutcome::Exited)
        .or_else(|| status.terminating_signal().map(ExecOutcome::Killed))
}

/// The end of the process, once it has ended; `None` where that takes longer than until `deadline`.
pub async fn ended(pid: Option<Pid>, deadline: Option<Instant>) -> Option<ExecOutcome> {
    loop {
        let found = pid.and_then(outcome);
        if found.is_some() || deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return found;
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}

fn wait(time: Duration, mut is_over: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + time;
    loop {
        if is_over() {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(POLL_INTERVAL);
    }
}
