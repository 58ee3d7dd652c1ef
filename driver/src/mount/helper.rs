//! Helper processes: this program, executed again for one task, so that a deadline can end what blocks in the kernel. One that has
//! answered a question in time waits for more of them: to start a process takes longer than to ask.
//!
//! A helper is in a process group of its own, is started by the [`nursery`], dies with it, gets its task and gives its answer
//! by a socket that is its standard input. Owns helpers and that socket; must not know what the tasks do.

use crate::mount::launch::{MARKER, NAMESPACE, NURSERY, helper_arguments};
use crate::mount::messages::{Inbox, line, send};
use crate::mount::nursery::{self, Child, Nursery};
use crate::mount::perform::perform;
use crate::mount::private::become_private;
use crate::mount::task::{Done, Failure, FailureKind, HelperMessage, OpenedFile, Task};
use crate::process::log::{Level, Log};
use csi_nfs_store::metrics::METRICS;
use csi_proto::lock::lock;
use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::{ExitCode, Stdio};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncWriteExt, Interest};
use tokio::sync::Semaphore;
use tokio::time::Instant;

/// How long a killed helper may take to be gone before it counts as stuck in the kernel.
const REAP_PATIENCE: Duration = Duration::from_secs(1);

/// How long a helper waits for another question at least; twice that at most.
const IDLE: Duration = Duration::from_secs(5);
/// How many wait. A kubelet that begins asks all servers at once.
const MOST_WAITING: usize = 4;

/// With this a helper begins what it says to its standard error.
const SPEAKER: &str = "csi-nfs helper process: ";

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
    /// The kind of failure, where the task itself failed.
    pub fn kind(&self) -> Option<FailureKind> {
        match self {
            Self::Failed(failure) => Some(failure.kind),
            _ => None,
        }
    }

    /// Whether the task may still take effect.
    pub fn goes_on(&self) -> bool {
        matches!(
            self,
            Self::Deadline { stuck: Some(_), .. } | Self::Hangs { .. }
        )
    }

    /// Whether the task was ended before it could tell whether it had taken effect.
    pub fn was_cut_off(&self) -> bool {
        matches!(self, Self::Deadline { .. } | Self::Lost { .. })
    }

    /// Whether the server has said that it does not know the folder any more.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Failed(failure) if failure.is_stale())
    }
}

fn stuck_words(stuck: Option<u32>) -> String {
    stuck.map_or_else(String::new, |pid| {
        format!("; the helper process {pid} hangs in the kernel until the server answers")
    })
}

/// Starts helpers, and counts those that could not be ended.
#[derive(Clone, Debug)]
pub struct Helpers {
    pub(super) log: Log,
    nursery: Nursery,
    waiting: Arc<Mutex<Waiting>>,
    /// Turns of tasks that are done in threads of this process.
    pub(super) threads: Arc<Semaphore>,
}

/// Helpers that wait for a question.
#[derive(Debug, Default)]
struct Waiting {
    helpers: Vec<Helper>,
    /// Whether a task runs that ends those that have waited for long.
    is_watched: bool,
}

/// A helper that has no task now. It is killed when this is dropped.
#[derive(Debug)]
struct Helper {
    child: Child,
    socket: tokio::net::UnixStream,
    since: Instant,
}

impl Helpers {
    /// Helpers that log to `log`.
    pub fn new(log: Log) -> Self {
        Self {
            log,
            nursery: Nursery::default(),
            waiting: Arc::default(),
            threads: Arc::new(Semaphore::new(MOST_THREADS)),
        }
    }

    /// Does `task` in a helper, for at most `bound`.
    ///
    /// # Errors
    /// When the task fails or does not end in time.
    pub async fn run(&self, task: &Task, bound: Duration) -> Result<Done, HelperError> {
        self.run_holding(task, bound, ()).await
    }

    /// As [`Helpers::run`], and `guard` is dropped when the helper has really ended, which may be long after the answer.
    ///
    /// # Errors
    /// As for [`Helpers::run`].
    pub(super) async fn run_holding(
        &self,
        task: &Task,
        bound: Duration,
        guard: impl Send + 'static,
    ) -> Result<Done, HelperError> {
        let deadline = Instant::now() + bound;
        let question = task.question();
        let mut step = "starting a helper process".to_owned();
        let too_late = |step: &str| HelperError::Deadline {
            step: step.to_owned(),
            after: bound,
            stuck: None,
        };
        let (mut helper, result) = loop {
            let is_question = question.is_some();
            let waits = is_question.then(|| lock(&self.waiting).helpers.pop());
            let (mut helper, was_idle) = match waits.flatten() {
                Some(helper) => (helper, true),
                None => {
                    let begun = tokio::time::timeout_at(deadline, self.begin()).await;
                    let begun = begun.map_err(|_| too_late(&step))?;
                    (begun.map_err(HelperError::Start)?, false)
                }
            };
            if let Some(question) = &question {
                step.clone_from(question);
            }
            let conversation = converse(&mut helper.socket, task, &mut step, self.log);
            let result = match tokio::time::timeout_at(deadline, conversation).await {
                Ok(Ok(result)) => result.map_err(HelperError::Failed),
                // It has died since its last answer.
                Ok(Err(_)) if was_idle => continue,
                Ok(Err(error)) => Err(HelperError::Lost {
                    step: step.clone(),
                    detail: error.to_string(),
                }),
                Err(_) => Err(too_late(&step)),
            };
            break (helper, result);
        };
        if question.is_some() && matches!(result, Ok(_) | Err(HelperError::Failed(_))) {
            self.keep_waiting(helper);
            return result;
        }
        drop(helper.socket);
        let child = &mut helper.child;
        let pid = child.pid;
        if !matches!(result, Ok(_) | Err(HelperError::Failed(_))) {
            METRICS.helpers_killed.inc();
            child.kill();
        }
        let ended = tokio::time::timeout(REAP_PATIENCE, child.wait()).await.ok();
        if ended.is_none() {
            self.remember_stuck(step, helper.child, guard);
        }
        match (result, ended) {
            (Err(HelperError::Lost { step, .. }), Some(detail)) => {
                Err(HelperError::Lost { step, detail })
            }
            (Err(HelperError::Deadline { step, after, .. }), None) => Err(HelperError::Deadline {
                step,
                after,
                stuck: Some(pid),
            }),
            (result, _) => result,
        }
    }

    async fn begin(&self) -> io::Result<Helper> {
        let (ours, theirs) = UnixStream::pair()?;
        ours.set_nonblocking(true)?;
        let child = self.nursery.start(theirs).await?;
        METRICS.helpers_started.inc();
        Ok(Helper {
            child,
            socket: tokio::net::UnixStream::from_std(ours)?,
            since: Instant::now(),
        })
    }

    /// Lets a helper wait for another question, for a while.
    fn keep_waiting(&self, mut helper: Helper) {
        helper.since = Instant::now();
        let mut waiting = lock(&self.waiting);
        if waiting.helpers.len() == MOST_WAITING {
            return;
        }
        waiting.helpers.push(helper);
        if std::mem::replace(&mut waiting.is_watched, true) {
            return;
        }
        drop(waiting);
        let waiting = Arc::clone(&self.waiting);
        tokio::spawn(async move {
            loop {
                tokio::time::sleep(IDLE).await;
                let mut waiting = lock(&waiting);
                waiting.helpers.retain(|it| it.since.elapsed() < IDLE);
                if waiting.helpers.is_empty() {
                    waiting.is_watched = false;
                    return;
                }
            }
        });
    }

    /// Reaps the helper whenever the kernel lets it go.
    fn remember_stuck(&self, step: String, mut child: Child, guard: impl Send + 'static) {
        let (pid, log) = (child.pid, self.log);
        let fields = [("pid", pid.into()), ("step", step.into())];
        log.event(Level::Warn, "helper hangs in the kernel", &fields);
        METRICS.helpers_stuck.inc();
        tokio::spawn(async move {
            child.kill();
            child.wait().await;
            drop(guard);
            METRICS.helpers_stuck.dec();
            log.event(Level::Info, "helper ended after all", &fields[..1]);
        });
    }
}

/// Whether an ordinary user gets a mount namespace of its own here, or why not. In a program that has no runtime yet.
#[expect(clippy::disallowed_methods, reason = "no runtime is there yet")]
pub fn try_namespace() -> io::Result<Result<(), String>> {
    let mut trying = helper_arguments();
    let ended = trying.arg(NAMESPACE).stderr(Stdio::piped()).output()?;
    let said = String::from_utf8_lossy(&ended.stderr);
    let refusal = said.trim().trim_start_matches(SPEAKER);
    Ok(ended
        .status
        .success()
        .then_some(())
        .ok_or(refusal.to_owned()))
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
            eprintln!("{SPEAKER}{error}");
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
    if role.as_deref() == Some(OsStr::new(NAMESPACE)) {
        return become_private()
            .map_err(|error| io::Error::other(format!("a mount namespace of one's own: {error}")));
    }
    let socket = rustix::stdio::stdin().try_clone_to_owned()?;
    if role.as_deref() == Some(OsStr::new(NURSERY)) {
        crate::process::privileges::pass_on_mounting()?;
        return nursery::live(&socket);
    }
    crate::process::privileges::keep_for_mounting()?;
    let socket = UnixStream::from(socket);
    let mut tasks = BufReader::new(&socket);
    let mut line = Vec::new();
    while tasks.read_until(b'\n', &mut line)? > 0 {
        let task: Task = serde_json::from_slice(&line)?;
        let is_question = task.question().is_some();
        let mut say = |step: String| {
            if !is_question {
                // Whoever does not listen any more does not need to know.
                let _ = send(&socket, &HelperMessage::Step(step), None);
            }
        };
        let mut ended = perform(&task, &mut say);
        let root = ended.as_mut().map_or(None, |done| done.root.0.take());
        let descriptor = root.as_ref().map(AsFd::as_fd);
        send(&socket, &HelperMessage::Ended(ended), descriptor)?;
        if !is_question {
            break;
        }
        line.clear();
    }
    Ok(())
}

/// Sends the task and reads reports until the last one.
async fn converse(
    socket: &mut tokio::net::UnixStream,
    task: &Task,
    step: &mut String,
    log: Log,
) -> io::Result<Result<Done, Failure>> {
    socket.write_all(&line(task)?).await?;
    let mut inbox = Inbox::default();
    // Also where the deadline comes between a descriptor and the end of its message.
    let mut opened = OpenedFile(None);
    loop {
        let Some(report) = inbox.next()? else {
            let received = socket
                .async_io(Interest::READABLE, || inbox.fill(&*socket))
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
            HelperMessage::Ended(ended) => {
                let root = opened;
                return Ok(ended.map(|done| Done { root, ..done }));
            }
        }
    }
}
