//! Commands whose standard input and output carry the connection: `exec:ssh HOST csi proxy --stdio /SOCKET`.
//!
//! The command and what it starts are a process group (`call/process_group.rs`), which ends with its connection. Its stderr is
//! kept, and shown when it fails.

use super::error::EndpointError;
use crate::process_group::{ExecOutcome, ProcessGroup, Stderr, ended};
use csi_error::StderrLines;
use rustix::process::Pid;
use std::io;
use std::pin::Pin;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::process::{ChildStdin, ChildStdout};

/// How long a command may take to end by itself once its input is closed.
const CLOSE_GRACE: Duration = Duration::from_millis(200);
/// How long it may take after SIGTERM.
pub(super) const TERM_GRACE: Duration = Duration::from_secs(1);
/// How long to wait for the exit code and the last of stderr once its output has ended.
const POST_MORTEM: Duration = Duration::from_secs(1);

type PostMortem = Pin<Box<dyn Future<Output = EndpointError> + Send>>;

/// A running command as a stream of bytes. Dropping it ends the command and what it has started.
pub(super) struct ExecStream {
    // The order matters: a group is ended after its input has been closed.
    input: Option<ChildStdin>,
    output: ChildStdout,
    stderr: Stderr,
    end: CommandEnd,
    group: ConnectedGroup,
}

/// The processes of a command, which have a moment to end by themselves once their input is closed.
struct ConnectedGroup {
    program: String,
    processes: ProcessGroup,
}

impl Drop for ConnectedGroup {
    /// Waits for that, as a rule a few milliseconds; the fields then end what is left.
    fn drop(&mut self) {
        self.processes.ends_within(CLOSE_GRACE);
    }
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
        let mut command = Command::new(program);
        command.args(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut processes = ProcessGroup::start(&mut command, TERM_GRACE).map_err(failed)?;
        let (input, output) = processes.streams();
        let (Some(input), Some(output)) = (input, output) else {
            return Err(failed(io::ErrorKind::BrokenPipe.into()));
        };
        Ok(Self {
            input: Some(ChildStdin::from_std(input).map_err(failed)?),
            output: ChildStdout::from_std(output).map_err(failed)?,
            stderr: processes.stderr().map_err(failed)?,
            end: CommandEnd::Running,
            group: ConnectedGroup {
                program: program.to_owned(),
                processes,
            },
        })
    }

    /// The reason why the command has ended, as the error of the read or write that met its end.
    fn poll_end(&mut self, cx: &mut Context<'_>) -> Poll<io::Error> {
        loop {
            match &mut self.end {
                CommandEnd::Running => {
                    let post_mortem = post_mortem(
                        self.group.program.clone(),
                        self.group.processes.pid(),
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

/// The end of a command whose output has ended.
async fn post_mortem(program: String, pid: Option<Pid>, stderr: Stderr) -> EndpointError {
    let deadline = Instant::now() + POST_MORTEM;
    let outcome = ended(pid, Some(deadline)).await;
    EndpointError::ExecEnded {
        program,
        outcome: outcome.unwrap_or(ExecOutcome::ClosedOutput),
        stderr: StderrLines::new(stderr.text(deadline).await),
    }
}
