//! The driver that a run starts itself, `csi sanity … -- COMMAND`: its socket, its start, what it says when it dies, its end.
//!
//! A restart is one more start (`restart.rs`). Must not know cases.

use super::settings::Settings;
use super::verdict::Failure;
use csi_call::endpoint::{Endpoint, EndpointError};
use csi_call::error::connection_error;
use csi_call::process_group::{ExecOutcome, ProcessGroup, Stderr, outcome};
use csi_call::session::Session;
use csi_call::user_folders;
use csi_error::{Error, StderrLines};
use csi_output::shell_word::word;
use csi_proto::lock::lock;
use csi_proto::random;
use csi_proto::v1;
use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tonic::Code;

/// What stands for the endpoint in an argument.
const ENDPOINT: &str = "{}";

/// The variable that names the endpoint to the driver.
pub const VARIABLE: &str = "CSI_ENDPOINT";

/// The advice where a driver does not come up.
const HINT: &str =
    "{} in an argument is replaced by the endpoint to listen on, and CSI_ENDPOINT names it";

/// How long a driver may take to end after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(5);

/// The pause between two looks for the beginning of the driver.
const LOOK: Duration = Duration::from_millis(5);

/// The most lines of stderr that are shown.
const LINES: usize = 20;

/// The beginnings of lines with which a driver says why it dies. What comes after them is the way to there.
const LAST_WORDS: [&str; 4] = ["panic:", "fatal error:", "thread '", "Traceback"];

/// The codes of a driver that does not serve its calls yet.
pub const NOT_YET: [Code; 4] = [
    Code::Unavailable,
    Code::DeadlineExceeded,
    Code::FailedPrecondition,
    Code::Cancelled,
];

/// What restarts the driver.
#[derive(Clone)]
pub enum Restarter {
    /// A command of the shell.
    Command(String),
    /// The run, which has started it.
    Own(Arc<OwnDriver>),
}

/// The driver. It ends when this is dropped, or before.
pub struct OwnDriver {
    /// The program and its arguments; never empty.
    command: Vec<String>,
    /// The folder of its socket, which goes with it.
    folder: PathBuf,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    running: Option<Running>,
    /// The death of the one before it, and when that was seen.
    died: Option<(Instant, DriverDeath)>,
    starts: usize,
    /// Whether it must not be started any more.
    over: bool,
}

struct Running {
    group: ProcessGroup,
    stderr: Stderr,
    /// When it was seen that it has died.
    seen: Option<Instant>,
}

impl Running {
    /// How it died by itself, and when that was seen first.
    fn death(&mut self) -> Option<(Instant, DriverDeath)> {
        let outcome = self.group.pid().and_then(outcome)?;
        let seen = *self.seen.get_or_insert_with(Instant::now);
        let said = telling(&self.stderr.since(0));
        Some((seen, DriverDeath { outcome, said }))
    }
}

/// A place in what a driver writes to stderr: the number of its starts, and the bytes since the last.
pub type StderrMark = (usize, usize);

/// How a driver died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriverDeath {
    /// How its process ended.
    pub outcome: ExecOutcome,
    /// The end of its stderr, line by line.
    pub said: Vec<String>,
}

impl OwnDriver {
    /// A driver that is not started yet, with a folder of its own for its socket.
    ///
    /// # Errors
    /// When there is no place for the folder.
    pub(super) fn of(command: &[String]) -> io::Result<Self> {
        let number = u64::from_ne_bytes(random::from_kernel()?);
        let folder = user_folders::temporary().join(format!("csi-driver-{number:016x}"));
        fs::DirBuilder::new().mode(0o700).create(&folder)?;
        Ok(Self {
            command: command.to_vec(),
            folder,
            state: Mutex::default(),
        })
    }

    fn socket(&self) -> PathBuf {
        self.folder.join("csi.sock")
    }

    /// The endpoint that the driver gets.
    pub(super) fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// The command line, in which a `{}` stands for the endpoint.
    pub(super) fn named(&self) -> String {
        self.line(word)
    }

    /// The command line for a shell in which the variable names the endpoint.
    pub(super) fn for_shell(&self) -> String {
        self.line(|argument| {
            let parts = argument.split(ENDPOINT).map(|part| match part {
                "" => String::new(),
                part => word(part),
            });
            let parts: Vec<_> = parts.collect();
            parts.join(&format!("\"${VARIABLE}\""))
        })
    }

    fn line(&self, argument: impl Fn(&str) -> String) -> String {
        let words = self.command.iter().map(|one| argument(one));
        words.collect::<Vec<_>>().join(" ")
    }

    /// Starts the driver, once the one before it has ended. It blocks, and needs a runtime.
    ///
    /// # Errors
    /// When it cannot be started, or the run is over.
    pub(super) fn start(&self) -> io::Result<()> {
        let mut state = lock(&self.state);
        let before = state.running.take();
        state.died = before
            .and_then(|mut before| before.death())
            .or(state.died.take());
        if state.over {
            return Err(io::Error::other("the run is over"));
        }
        // One that was killed leaves its own.
        let _ = fs::remove_file(self.socket());
        let endpoint = self.endpoint();
        let mut words = self
            .command
            .iter()
            .map(|one| one.replace(ENDPOINT, &endpoint));
        let mut command = Command::new(words.next().unwrap_or_default());
        command.args(words).env(VARIABLE, &endpoint);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let mut group = ProcessGroup::start(&mut command, TERM_GRACE)?;
        let stderr = group.stderr()?;
        state.starts += 1;
        state.running = Some(Running {
            group,
            stderr,
            seen: None,
        });
        Ok(())
    }

    /// Starts the driver, and returns when it answers.
    ///
    /// # Errors
    /// When it cannot be started, ends, or does not answer in time.
    pub(super) async fn comes_up(self: &Arc<Self>, settings: &Settings) -> Result<(), Error> {
        let program = self.command.first().cloned().unwrap_or_default();
        let (own, begun) = (Arc::clone(self), Instant::now());
        let started = tokio::task::spawn_blocking(move || own.start()).await;
        if let Err(error) = started.map_err(io::Error::other).flatten() {
            return Err(
                Error::because(format!("{program} cannot be started"), &error)
                    .hint("the command after -- must be found in PATH and be executable"),
            );
        }
        let endpoint = Endpoint::parse(&self.endpoint()).map_err(|error| {
            Error::usage(error.to_string()).hint("TMPDIR names a shorter folder")
        })?;
        // One that is there and says for so long that it lacks something is tested as it is.
        let is_not_yet = |code| {
            let is_late = begun.elapsed() > settings.start_limit;
            NOT_YET.contains(&code) && !(is_late && code == Code::FailedPrecondition)
        };
        loop {
            if let Some(death) = self.death(begun) {
                let ended = EndpointError::ExecEnded {
                    program,
                    outcome: death.outcome,
                    stderr: StderrLines::new(death.said.join("\n")),
                };
                let problem = "the driver ended before it answered";
                return Err(Error::rpc(Code::Unavailable, problem)
                    .caused_by(&ended)
                    .hint(HINT));
            }
            let problem = match Session::open(&endpoint, &settings.connect).await {
                Err(error) => connection_error(&endpoint, &error),
                Ok(session) => {
                    let session = session.with_timeout(Some(settings.start_limit));
                    match session.ask(&v1::ProbeRequest {}).await {
                        Err(error) if is_not_yet(error.status.code()) => {
                            Error::rpc(error.status.code(), error.status.message())
                        }
                        // Whether Probe succeeds is a case's rule.
                        _ => return Ok(()),
                    }
                }
            };
            if begun.elapsed() > settings.start_limit {
                let limit = settings.start_limit;
                let stderr = StderrLines::new(self.said_since(StderrMark::default()).join("\n"));
                let problem = match &stderr {
                    Some(stderr) => problem.caused_by(stderr),
                    None => problem,
                };
                return Err(problem
                    .doing(csi_call::wait::waiting(limit))
                    .hint(format!("{HINT}; --wait gives it longer")));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// How its process has ended by itself, if it has.
    pub(super) fn death_until_now(&self) -> Option<DriverDeath> {
        let mut state = lock(&self.state);
        Some(state.running.as_mut()?.death()?.1)
    }

    /// How it died since then, by itself.
    pub(super) fn death(&self, since: Instant) -> Option<DriverDeath> {
        let mut state = lock(&self.state);
        let now = state.running.as_mut().and_then(Running::death);
        let mut died = now.into_iter().chain(state.died.clone());
        Some(died.find(|(seen, _)| *seen >= since)?.1)
    }

    /// How far its stderr has come.
    pub(super) fn mark(&self) -> StderrMark {
        let state = lock(&self.state);
        let running = state.running.as_ref();
        (
            state.starts,
            running.map_or(0, |running| running.stderr.count()),
        )
    }

    /// The end of what it has written to stderr since then.
    pub(super) fn said_since(&self, mark: StderrMark) -> Vec<String> {
        let state = lock(&self.state);
        let (starts, count) = mark;
        let from = if state.starts == starts { count } else { 0 };
        let running = state.running.as_ref();
        running.map_or_else(Vec::new, |running| telling(&running.stderr.since(from)))
    }

    /// Adds to a failure what the driver's process tells of it: how it died since then, where the driver was lost; else that a
    /// handler panicked, which it has written since the mark.
    pub(super) fn explain(
        &self,
        failure: &mut Failure,
        is_lost: bool,
        since: Instant,
        mark: StderrMark,
    ) {
        if is_lost {
            if let Some(death) = self.death(since) {
                failure.actual = format!("it went away: it {}", death.outcome);
                failure.stderr = death.said;
            }
        } else if failure.stderr.is_empty() {
            let said = self.said_since(mark);
            if said.first().is_some_and(|line| is_last_word(line)) {
                failure.stderr = said;
            }
        }
    }

    /// Ends it for good, with all that it has started. It blocks.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        state.over = true;
        state.running = None;
    }
}

fn is_last_word(line: &str) -> bool {
    LAST_WORDS.iter().any(|words| line.starts_with(words))
}

impl Drop for OwnDriver {
    fn drop(&mut self) {
        self.end();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// The lines that tell why a driver died, from the last of its last words on; else its last lines.
fn telling(text: &str) -> Vec<String> {
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let lines: Vec<&str> = lines.into_iter().filter(|line| !line.is_empty()).collect();
    let from = lines.iter().rposition(|line| is_last_word(line));
    let from = from.unwrap_or(lines.len().saturating_sub(LINES));
    let lines = lines[from..].iter().take(LINES);
    lines.map(|line| (*line).to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_endpoint_stands_in_place_of_the_braces() {
        let command = ["my-driver", "--endpoint={}", "--name", "it is"];
        let command = command.map(str::to_owned);
        let own = OwnDriver::of(&command).unwrap();
        assert_eq!(own.named(), "my-driver '--endpoint={}' --name 'it is'");
        assert_eq!(
            own.for_shell(),
            "my-driver '--endpoint='\"$CSI_ENDPOINT\" --name 'it is'"
        );
    }

    #[test]
    fn the_lines_that_tell_why_it_died_come_first() {
        let go = "I1 starts\npanic: index out of range [-1]\n\ngoroutine 7 [running]:\n";
        assert_eq!(
            telling(go),
            ["panic: index out of range [-1]", "goroutine 7 [running]:"]
        );
        let many: String = (0..30).map(|line| format!("{line}\n")).collect();
        let shown = telling(&many);
        assert_eq!((shown.len(), shown[0].as_str()), (LINES, "10"));
        assert_eq!(telling(""), [""; 0]);
    }
}
