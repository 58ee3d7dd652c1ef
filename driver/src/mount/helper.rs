//! Helper processes: this program, executed again for one task, so that a deadline can end what blocks in the kernel.
//!
//! A helper is in a process group of its own, is started by the [`nursery`], dies with it, gets its task and gives its answer
//! by a socket that is its standard input. Owns helpers and that socket; must not know what the tasks do.

use crate::mount::launch::{MARKER, NURSERY, command};
use crate::mount::messages::{Inbox, line, send};
use crate::mount::nursery::{self, Child, Nursery};
use crate::mount::perform::perform;
use crate::mount::task::{Done, Failure, FailureKind, HelperMessage, Task};
use crate::process::disk_thread::drop_aside;
use crate::process::log::{Level, Log};
use crate::process::metrics::METRICS;
use csi_proto::lock::lock;
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a killed helper may take to be gone before it counts as stuck in the kernel.
const REAP_PATIENCE: Duration = Duration::from_secs(1);

/// Threads of this process that do tasks, those that hang among them.
const MOST_THREADS: usize = 32;

/// Why a task did not get done.
#[derive(Debug, Error)]
pub enum HelperError {
    /// The task failed and left nothing behind.
    #[error("{0}")]
    Failed(Failure),
    /// The deadline came first. The task may still have taken effect.
    #[error("no answer after {after:?} while {step}{}", stuck_words(*.stuck))]
    Deadline {
        /// What was going on.
        step: String,
        /// The deadline.
        after: Duration,
        /// The process id of the helper when it could not be ended either.
        stuck: Option<u32>,
    },
    /// The deadline came first, for a thread of this process, which cannot be ended. The task may still take effect.
    #[error("no answer after {after:?} while {step}: a file system of this machine hangs")]
    Hangs {
        /// What was going on.
        step: String,
        /// The deadline.
        after: Duration,
    },
    /// The helper could not be started.
    #[error("starting the helper process: {0}")]
    Start(#[source] io::Error),
    /// The helper ended without an answer. The task may have taken effect.
    #[error("the helper process ended without an answer while {step}: {detail}")]
    Lost {
        /// What was going on.
        step: String,
        /// How it ended.
        detail: String,
    },
}

impl HelperError {
    /// The kernel's error number, where the task itself failed by one.
    pub fn errno(&self) -> Option<Errno> {
        match self {
            Self::Failed(failure) if failure.errno != 0 => {
                Some(Errno::from_raw_os_error(failure.errno))
            }
            _ => None,
        }
    }

    /// The kind of failure, where the task itself failed.
    pub fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Failed(failure) => Some(failure.kind),
            _ => None,
        }
    }
}

fn stuck_words(stuck: Option<u32>) -> String {
    stuck.map_or_else(String::new, |pid| {
        format!("; the helper process {pid} hangs in the kernel until the server answers")
    })
}

/// What a helper has opened, if anything. A caller that has given up meanwhile does not wait for its end.
#[derive(Debug)]
pub struct OpenedFile(Option<OwnedFd>);

impl OpenedFile {
    /// The file itself, whose end is now the caller's to see to.
    pub fn take(mut self) -> Option<OwnedFd> {
        self.0.take()
    }
}

impl Drop for OpenedFile {
    fn drop(&mut self) {
        if let Some(file) = self.0.take() {
            drop_aside(file);
        }
    }
}

/// Starts helpers and remembers those that could not be ended.
#[derive(Clone, Debug)]
pub struct Helpers {
    pub(super) log: Log,
    nursery: Nursery,
    stuck: Arc<Mutex<BTreeMap<u32, String>>>,
    /// Turns of tasks that are done in threads of this process.
    pub(super) threads: Arc<Semaphore>,
}

impl Helpers {
    /// Helpers that log to `log`.
    pub fn new(log: Log) -> Self {
        Self {
            log,
            nursery: Nursery::default(),
            stuck: Arc::default(),
            threads: Arc::new(Semaphore::new(MOST_THREADS)),
        }
    }

    /// The helpers that hang in the kernel, with what they were doing.
    pub fn stuck(&self) -> BTreeMap<u32, String> {
        lock(&self.stuck).clone()
    }

    /// Does `task` in a helper, for at most `bound`.
    ///
    /// # Errors
    /// When the task fails or does not end in time.
    pub async fn run(
        &self,
        task: &Task,
        bound: Duration,
    ) -> Result<(Done, OpenedFile), HelperError> {
        self.run_holding(task, bound, ()).await
    }

    /// As [`Helpers::run`], and `guard` is dropped when the helper has really ended, which may be long after the answer.
    ///
    /// # Errors
    /// As for [`Helpers::run`].
    pub async fn run_holding(
        &self,
        task: &Task,
        bound: Duration,
        guard: impl Send + 'static,
    ) -> Result<(Done, OpenedFile), HelperError> {
        let deadline = Instant::now() + bound;
        let mut step = "starting".to_owned();
        let too_late = |step: &str| HelperError::Deadline {
            step: step.to_owned(),
            after: bound,
            stuck: None,
        };
        let (ours, theirs) = UnixStream::pair().map_err(HelperError::Start)?;
        let mut child = tokio::time::timeout_at(deadline, self.nursery.start(theirs))
            .await
            .map_err(|_| too_late(&step))?
            .map_err(HelperError::Start)?;
        METRICS.helpers_started.inc();
        let conversation = converse(ours, task, &mut step, self.log);
        let answer = tokio::time::timeout_at(deadline, conversation).await;
        let result = match answer {
            Ok(Ok(result)) => result.map_err(HelperError::Failed),
            Ok(Err(error)) => Err(HelperError::Lost {
                step: step.clone(),
                detail: error.to_string(),
            }),
            Err(_) => Err(too_late(&step)),
        };
        let pid = child.pid;
        if !matches!(result, Ok(_) | Err(HelperError::Failed(_))) {
            METRICS.helpers_killed.inc();
            child.kill();
        }
        if let Ok(ended) = tokio::time::timeout(REAP_PATIENCE, child.wait()).await {
            return match result {
                Err(HelperError::Lost { step, .. }) => Err(HelperError::Lost {
                    step,
                    detail: ended,
                }),
                result => result,
            };
        }
        self.remember_stuck(pid, step, child, guard);
        match result {
            Err(HelperError::Deadline { step, after, .. }) => Err(HelperError::Deadline {
                step,
                after,
                stuck: Some(pid),
            }),
            other => other,
        }
    }

    /// Reaps the helper whenever the kernel lets it go.
    fn remember_stuck(&self, pid: u32, step: String, mut child: Child, guard: impl Send + 'static) {
        self.log.event(
            Level::Warn,
            "helper hangs in the kernel",
            &[("pid", pid.into()), ("step", step.clone().into())],
        );
        let stuck = Arc::clone(&self.stuck);
        let lock = move |stuck: &Mutex<BTreeMap<u32, String>>, step: Option<String>| {
            let mut stuck = lock(stuck);
            match step {
                Some(step) => stuck.insert(pid, step),
                None => stuck.remove(&pid),
            };
        };
        lock(&stuck, Some(step));
        let log = self.log;
        tokio::spawn(async move {
            child.kill();
            child.wait().await;
            drop(guard);
            lock(&stuck, None);
            log.event(
                Level::Info,
                "helper ended after all",
                &[("pid", pid.into())],
            );
        });
    }
}

/// Does `task` in a helper and waits for it, in a program that has no runtime yet. For tasks that cannot block.
///
/// # Errors
/// When the helper cannot be started or gives no answer; the inner error is the task's own.
#[expect(clippy::disallowed_methods, reason = "no runtime is there yet")]
pub fn run_now(task: &Task) -> io::Result<Result<(), Failure>> {
    let (ours, theirs) = UnixStream::pair()?;
    let mut command = command(theirs);
    let mut child = command.spawn()?;
    drop(command);
    send(&ours, task, None)?;
    let mut inbox = Inbox::default();
    let answer = loop {
        match inbox.next()? {
            Some(HelperMessage::Step(_)) => {}
            Some(HelperMessage::Done(_)) => break Ok(()),
            Some(HelperMessage::Failed(failure)) => break Err(failure),
            None if inbox.fill(&ours)? == 0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            None => {}
        }
    };
    child.wait()?;
    Ok(answer)
}

/// Acts as a helper when this process was started as one; to be called first thing in `main`, before threads start.
/// Returns the exit code of the helper, or `None` in any other process.
pub fn run_if_child() -> Option<ExitCode> {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().as_deref() != Some(OsStr::new(MARKER)) {
        return None;
    }
    Some(match serve(arguments.next(), arguments.next()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("csi-nfs helper process: {error}");
            ExitCode::FAILURE
        }
    })
}

/// The helper's whole life.
fn serve(parent: Option<OsString>, role: Option<OsString>) -> io::Result<()> {
    rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL))?;
    // A parent that died before that line sent no signal; somebody else is the parent then.
    let now = rustix::process::getppid().map_or(0, rustix::process::Pid::as_raw_pid);
    if parent.as_deref() != Some(OsStr::new(&now.to_string())) {
        return Err(io::Error::other("not to be started by hand"));
    }
    let socket = rustix::stdio::stdin().try_clone_to_owned()?;
    if role.as_deref() == Some(OsStr::new(NURSERY)) {
        crate::process::privileges::pass_on_mounting()?;
        return nursery::live(&socket);
    }
    crate::process::privileges::keep_for_mounting()?;
    let socket = UnixStream::from(socket);
    let mut task = Vec::new();
    BufReader::new(&socket).read_until(b'\n', &mut task)?;
    let task: Task = serde_json::from_slice(&task)?;
    let mut say = |step: String| {
        // Whoever does not listen any more does not need to know.
        let _ = send(&socket, &HelperMessage::Step(step), None);
    };
    let (report, descriptor) = match perform(&task, &mut say) {
        Ok((done, descriptor)) => (HelperMessage::Done(done), descriptor),
        Err(failure) => (HelperMessage::Failed(failure), None),
    };
    send(&socket, &report, descriptor.as_ref().map(AsFd::as_fd))
}

/// Sends the task and reads reports until the last one.
async fn converse(
    socket: UnixStream,
    task: &Task,
    step: &mut String,
    log: Log,
) -> io::Result<Result<(Done, OpenedFile), Failure>> {
    socket.set_nonblocking(true)?;
    let mut socket = tokio::net::UnixStream::from_std(socket)?;
    socket.write_all(&line(task)?).await?;
    let mut inbox = Inbox::default();
    // Also where the deadline comes between a descriptor and the end of its message.
    let mut opened = OpenedFile(None);
    loop {
        let Some(report) = inbox.next()? else {
            let received = socket
                .async_io(Interest::READABLE, || inbox.fill(&socket))
                .await?;
            opened.0 = inbox.descriptor.take().or(opened.0.take());
            if received == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            continue;
        };
        match report {
            HelperMessage::Step(now) => {
                log.event(Level::Debug, "helper", &[("step", now.clone().into())]);
                *step = now;
            }
            HelperMessage::Done(done) => return Ok(Ok((done, opened))),
            HelperMessage::Failed(failure) => return Ok(Err(failure)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::net::{TcpListener, TcpStream};
    use std::time::Instant;

    /// A socket whose close waits for a peer that does not read, as a mount's waits for its server.
    fn slow_to_close() -> (OwnedFd, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (peer, _) = listener.accept().unwrap();
        ours.set_nonblocking(true).unwrap();
        while ours.write(&[0; 1 << 16]).is_ok() {}
        ours.set_nonblocking(false).unwrap();
        let linger = Some(Duration::from_secs(600));
        rustix::net::sockopt::set_socket_linger(&ours, linger).unwrap();
        (ours.into(), peer)
    }

    #[test]
    fn nobody_waits_for_the_end_of_what_nobody_took() {
        let (file, _peer) = slow_to_close();
        let begun = Instant::now();
        drop(OpenedFile(Some(file)));
        // Far from what the close would take, however slow the machine is.
        assert!(begun.elapsed() < Duration::from_secs(300));
    }
}
