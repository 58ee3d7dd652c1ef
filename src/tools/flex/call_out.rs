//! One call-out: the executable in a process group of its own, with a deadline and bounded output.
//!
//! A group that is late is asked to end, then killed. Where the kernel cannot kill it, as on a server that does not answer, its
//! volume stays taken until it is gone. What an executable has started for good, as the server of a file system, stays when
//! the call-out has ended in time.

use super::answer::{Answer, CallOutError, Problem, answer};
use super::orphans::Mark;
use super::taken::Taken;
use csi_invocation::process_stat::ProcessStat;
use rustix::fs::{Access, access};
use rustix::process::{Pid, Signal, kill_process_group};
use std::fs;
use std::io;
use std::path::PathBuf;
use std::process::{Output, Stdio};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt as _, copy, sink};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

/// How much an answer may be.
const ANSWER_MAX: usize = 64 << 10;
/// How much of the standard error is kept; the rest is read and dropped.
const ERRORS_KEPT: usize = 8 << 10;
/// How long a group may take to end after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(2);
/// How long the last of the output may take after the end of the executable: a server that it has started may hold it open.
const LAST_OUTPUT: Duration = Duration::from_millis(100);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longer than anybody waits.
const FOR_EVER: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// Runs an executable's call-outs.
pub struct CallOuts {
    executable: PathBuf,
    /// How long each may take at most.
    limit: Duration,
    mark: Mark,
}

impl CallOuts {
    /// The call-outs of an executable, each with that time at most, where there is a limit.
    pub fn of(executable: PathBuf, limit: Option<Duration>, mark: Mark) -> Self {
        Self {
            executable,
            limit: limit.unwrap_or(FOR_EVER),
            mark,
        }
    }

    /// Whether there is an executable to run.
    pub fn can_run(&self) -> Result<(), CallOutError> {
        let found = access(&self.executable, Access::EXEC_OK);
        found.map_err(|error| CallOutError {
            call: "init",
            problem: Problem::NotStarted {
                executable: self.executable.clone(),
                cause: error.into(),
            },
        })
    }

    /// Runs one, and reads its answer. Its volume stays taken as long as anything of it runs.
    pub async fn run(
        &self,
        call: &'static str,
        arguments: &[&str],
        deadline: Option<Instant>,
        taken: &Taken,
    ) -> Result<Answer, CallOutError> {
        let output = self.output(call, arguments, deadline, taken).await;
        output
            .and_then(|output| answer(&output))
            .map_err(|problem| CallOutError { call, problem })
    }

    /// When what begins now has to be over, for a caller who waits so long.
    pub fn deadline(&self, callers: Option<Instant>) -> Instant {
        let own = Instant::now() + self.limit;
        callers.map_or(own, |callers| callers.min(own))
    }

    async fn output(
        &self,
        call: &str,
        arguments: &[&str],
        deadline: Option<Instant>,
        taken: &Taken,
    ) -> Result<Output, Problem> {
        let began = Instant::now();
        let deadline = self.deadline(deadline);
        let failed = |cause| Problem::NotStarted {
            executable: self.executable.clone(),
            cause,
        };
        let (name, value) = self.mark.variable();
        let mut child = Command::new(&self.executable)
            .arg(call)
            .args(arguments)
            .env(name, value)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut group = Group::of(&child);
        let (mut stdout, mut stderr) = (Vec::new(), Vec::new());
        let (out, errors) = (child.stdout.take(), child.stderr.take());
        let ended = {
            let reading = async {
                tokio::try_join!(
                    read(out, &mut stdout, ANSWER_MAX, true),
                    read(errors, &mut stderr, ERRORS_KEPT, false)
                )
            };
            tokio::pin!(reading);
            let mut read = None;
            let ended = loop {
                tokio::select! {
                    ended = child.wait() => break Some(ended),
                    done = &mut reading, if read.is_none() => {
                        let too_much = done.is_err();
                        read = Some(done);
                        if too_much {
                            break None;
                        }
                    }
                    () = tokio::time::sleep_until(deadline) => break None,
                }
            };
            if ended.is_some() && read.is_none() {
                read = timeout(LAST_OUTPUT, &mut reading).await.ok();
            }
            match (ended, read) {
                (_, Some(Err(TooMuch))) => Err(Problem::TooMuch(ANSWER_MAX)),
                (None, _) => Err(Problem::Late(began.elapsed())),
                (Some(ended), _) => Ok(ended),
            }
        };
        match ended {
            Ok(ended) => {
                group.leave_running();
                Ok(Output {
                    status: ended.map_err(failed)?,
                    stdout,
                    stderr,
                })
            }
            Err(problem) => {
                group.end(child, taken).await;
                Err(problem)
            }
        }
    }
}

/// More was written than is read.
struct TooMuch;

/// Reads to the end, and keeps so much; more is an error, or dropped.
async fn read(
    stream: Option<impl AsyncRead + Unpin>,
    kept: &mut Vec<u8>,
    most: usize,
    is_bound: bool,
) -> Result<(), TooMuch> {
    let Some(mut stream) = stream else {
        return Ok(());
    };
    // An error of a pipe is its end.
    let _ = (&mut stream).take(most as u64 + 1).read_to_end(kept).await;
    if kept.len() <= most {
        return Ok(());
    }
    if is_bound {
        return Err(TooMuch);
    }
    // The last line may end in a part of a secret, which nobody would know as one.
    let lines = kept.iter().rposition(|byte| *byte == b'\n');
    kept.truncate(lines.unwrap_or(0));
    let _ = copy(&mut stream, &mut sink()).await;
    Ok(())
}

/// The process group of a call-out. Dropped before the call-out has ended, it is killed.
struct Group(Option<Pid>);

impl Group {
    fn of(child: &Child) -> Self {
        let id = child.id().and_then(|id| i32::try_from(id).ok());
        Self(id.and_then(Pid::from_raw))
    }

    /// Lets live what is left of it.
    fn leave_running(&mut self) {
        self.0 = None;
    }

    /// Ends all of it. What cannot be killed within a moment goes on to have its volume.
    async fn end(mut self, mut child: Child, taken: &Taken) {
        let Some(group) = self.0.take() else { return };
        let _ = kill_process_group(group, Signal::TERM);
        if timeout(TERM_GRACE, gone(&mut child, group)).await.is_ok() {
            return;
        }
        let _ = kill_process_group(group, Signal::KILL);
        if timeout(TERM_GRACE, gone(&mut child, group)).await.is_ok() {
            return;
        }
        let taken = taken.clone();
        tokio::spawn(async move {
            gone(&mut child, group).await;
            drop(taken);
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(group) = self.0 {
            let _ = kill_process_group(group, Signal::KILL);
        }
    }
}

/// Waits until nothing of a group runs.
async fn gone(child: &mut Child, group: Pid) {
    let _: io::Result<_> = child.wait().await;
    while lives(group) {
        sleep(POLL_INTERVAL).await;
    }
}

/// Whether a process of a group runs. Dead ones that nobody reaps do not count, though the kernel still takes signals for them.
fn lives(group: Pid) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else {
        return false;
    };
    let group = group.as_raw_nonzero().get();
    let mut processes = processes
        .flatten()
        .filter_map(|one| ProcessStat::of(&one.path()));
    processes.any(|one| one.group == group && !one.is_dead())
}
