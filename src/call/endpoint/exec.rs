//! Commands whose standard input and output carry the connection: `exec:ssh HOST csi proxy --stdio /SOCKET`.
//!
//! A command runs in a process group of its own, so that the terminal's Ctrl-C reaches only this program, which then
//! ends the group in order. Its stderr is kept, and shown when it fails.

use super::{EndpointError, ExecOutcome};
use crate::error::StderrLines;
use csi_proto::lock::lock;
use rustix::process::{
    Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid,
};
use std::collections::VecDeque;
use std::future::Future;
use std::io;
use std::os::unix::process::CommandExt;
use std::pin::Pin;
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::task::JoinHandle;

/// The number of bytes that are kept of the end of stderr.
const STDERR_KEPT: usize = 8 << 10;
/// How long a command may take to end by itself once its input is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(200);
/// How long it may take after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the exit code and the last of stderr once its output has ended.
const POST_MORTEM: Duration = Duration::from_secs(1);
const POLL_INTERVAL: Duration = Duration::from_millis(2);

type PostMortem = Pin<Box<dyn Future<Output = EndpointError> + Send>>;

/// A running command as a stream of bytes. Dropping it ends the command and what it has started.
pub(super) struct ExecStream {
    // The order matters: a group is ended after its input has been closed.
    input: Option<ChildStdin>,
    output: ChildStdout,
    stderr: Stderr,
    end: CommandEnd,
    group: ProcessGroup,
}

/// How far the end of a command is known.
enum CommandEnd {
    Running,
    Asking(PostMortem),
    Known(EndpointError),
}

impl ExecStream {
    /// Starts the command. `words` are the program and its arguments.
    ///
    /// # Errors
    /// When it cannot be started. How it ends comes as an error of reading or writing.
    pub(super) fn start(words: &[String]) -> Result<Self, EndpointError> {
        let (program, arguments) = words
            .split_first()
            .map_or(("", words), |(program, arguments)| {
                (program.as_str(), arguments)
            });
        let failed = |cause| EndpointError::ExecStart(program.to_owned(), Arc::new(cause));
        let mut child = Command::new(program)
            .args(arguments)
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let streams = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        // From here on a failure ends the child again.
        let group = ProcessGroup {
            program: program.to_owned(),
            child,
        };
        let (Some(input), Some(output), Some(stderr)) = streams else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self {
            input: Some(ChildStdin::from_std(input).map_err(failed)?),
            output: ChildStdout::from_std(output).map_err(failed)?,
            stderr: Stderr::keep(ChildStderr::from_std(stderr).map_err(failed)?),
            end: CommandEnd::Running,
            group,
        })
    }

    /// The reason why the command has ended, as the error of the read or write that met its end.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            match &mut self.end {
                CommandEnd::Running => {
                    let post_mortem = post_mortem(
                        self.group.program.clone(),
                        self.group.pid(),
                        self.stderr.clone(),
                    );
                    self.end = CommandEnd::Asking(Box::pin(post_mortem));
                }
                CommandEnd::Asking(post_mortem) => {
                    self.end = CommandEnd::Known(ready!(post_mortem.as_mut().poll(cx)));
                }
                CommandEnd::Known(reason) => return Poll::Ready(io::Error::other(reason.clone())),
            }
        }
    }
}

impl AsyncRead for ExecStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let room = buffer.remaining() > 0;
        let result = ready!(Pin::new(&mut self.output).poll_read(cx, buffer));
        let ended = result.is_err() || (room && buffer.filled().len() == before);
        match ended && self.input.is_some() {
            true => self.poll_end(cx).map(Err),
            false => Poll::Ready(result),
        }
    }
}

impl AsyncWrite for ExecStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Some(input) = &mut self.input else {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        };
        match ready!(Pin::new(input).poll_write(cx, bytes)) {
            Ok(count) => Poll::Ready(Ok(count)),
            Err(_) => self.poll_end(cx).map(Err),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// Closes the command's standard input.
    fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.input = None;
        Poll::Ready(Ok(()))
    }
}

/// The end of what a command writes to stderr.
#[derive(Clone)]
struct Stderr {
    tail: Arc<Mutex<VecDeque<u8>>>,
    reader: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Stderr {
    fn keep(mut stderr: ChildStderr) -> Self {
        let tail = Arc::new(Mutex::new(VecDeque::new()));
        let kept = Arc::clone(&tail);
        let reader = tokio::spawn(async move {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = stderr.read(&mut chunk).await {
                let mut kept = lock(&kept);
                kept.extend(&chunk[..count]);
                let surplus = kept.len().saturating_sub(STDERR_KEPT);
                kept.drain(..surplus);
            }
        });
        Self {
            tail,
            reader: Arc::new(Mutex::new(Some(reader))),
        }
    }

    /// The text of stderr when all has been read, or at `deadline`: a child of the command may hold stderr open.
    async fn text(&self, deadline: Instant) -> String {
        let reader = lock(&self.reader).take();
        if let Some(reader) = reader {
            let _ = tokio::time::timeout_at(deadline.into(), reader).await;
        }
        String::from_utf8_lossy(lock(&self.tail).make_contiguous()).into_owned()
    }
}

/// The end of a command whose output has ended.
async fn post_mortem(program: String, pid: Option<Pid>, stderr: Stderr) -> EndpointError {
    let deadline = Instant::now() + POST_MORTEM;
    let outcome = loop {
        match pid.and_then(outcome) {
            Some(outcome) => break outcome,
            None if Instant::now() >= deadline => break ExecOutcome::ClosedOutput,
            None => tokio::time::sleep(POLL_INTERVAL).await,
        }
    };
    EndpointError::ExecEnded {
        program,
        outcome,
        stderr: StderrLines::new(stderr.text(deadline).await),
    }
}

/// The end of the process, if it has ended. It stays a zombie, so that its id, which is its group's, cannot be reused yet.
fn outcome(pid: Pid) -> Option<ExecOutcome> {
    let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    let status = waitid(WaitId::Pid(pid), options).ok()??;
    status
        .exit_status()
        .map(ExecOutcome::Exited)
        .or_else(|| status.terminating_signal().map(ExecOutcome::Killed))
}

/// A child and the process group that it leads. Dropping it ends them all.
struct ProcessGroup {
    program: String,
    child: Child,
}

impl ProcessGroup {
    fn pid(&self) -> Option<Pid> {
        Pid::from_raw(i32::try_from(self.child.id()).ok()?)
    }

    /// Waits until the child has been reaped.
    fn wait_for_leader(&mut self, time: Duration) -> bool {
        wait(time, || !matches!(self.child.try_wait(), Ok(None)))
    }
}

impl Drop for ProcessGroup {
    /// Takes a few milliseconds as a rule, and 2.6 s when the command resists. It blocks, because it cannot be left to a
    /// task: the runtime, and then the process, may end right after, and no command may outlive them.
    fn drop(&mut self) {
        let Some(group) = self.pid() else { return };
        // Dead processes that nobody reaps count as the group's too, hence short waits for those that are not ours.
        let is_empty = || test_kill_process_group(group).is_err();
        if self.wait_for_leader(CLOSE_GRACE) && wait(CLOSE_GRACE, is_empty) {
            return;
        }
        // A process that may not be signalled (sudo) has lost its input; more cannot be done.
        let _ = kill_process_group(group, Signal::TERM);
        // A command that asked the terminal for a password was stopped, and takes signals only when it goes on.
        let _ = kill_process_group(group, Signal::CONT);
        if self.wait_for_leader(TERM_GRACE) && wait(CLOSE_GRACE, is_empty) {
            return;
        }
        let _ = kill_process_group(group, Signal::KILL);
        self.wait_for_leader(TERM_GRACE);
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
