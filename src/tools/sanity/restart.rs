//! Restarting the driver in the middle of a case, by the command of the settings: where a case asks for it, and between its
//! steps where the settings do.

use super::case::{Case, Stop, Verdict, ensure};
use super::context::{Context, Run, locked};
use super::steps::Step;
use csi_proto::Request;
use csi_proto::random;
use csi_proto::v1;
use std::process::Stdio;
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// How long the command may take, and the driver after it until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the old driver may hold its connections once the command has returned: one that was killed is not gone at once.
/// Behind a proxy nothing of it is seen.
const GONE_WITHIN: Duration = Duration::from_millis(250);

/// How often is looked whether the old driver is gone, and whether the new one is there.
const LOOK: Duration = Duration::from_millis(1);

/// The restarts of one case: those between its steps, and the time that all of them took.
pub struct Restarts {
    /// Before which of the steps the driver is restarted: each of that number, or none with 0.
    every: u64,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// The steps until now, counted from where the seed says.
    steps: u64,
    begun: bool,
    /// How many things are under way that are one step, whatever calls are in them.
    whole: usize,
    restarts: usize,
    under_way: Option<Instant>,
    spent: Duration,
}

/// A point in time, to tell whether there was a restart since then.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    restarts: usize,
    under_way: bool,
}

impl Restarts {
    /// None but those that the case itself asks for.
    pub(super) fn asked_for() -> Self {
        Self {
            every: 0,
            state: Mutex::default(),
        }
    }

    /// As the settings have it: before every step of a number, and in cases of the lifecycle before each, so that all pairs
    /// of its steps are tried.
    pub(super) fn between_steps(run: &Run, case: &Case, number: usize) -> Self {
        let every = match run.settings.restart_between_steps {
            2.. if case.name.starts_with("lifecycle/") => 1,
            every => every,
        };
        let state = State {
            steps: random::from_seed(run.seed, number as u64) % every.max(1),
            ..State::default()
        };
        Self {
            every,
            state: Mutex::new(state),
        }
    }

    /// Counts a step that is about to be taken; whether the driver is to be restarted before it.
    fn is_due(&self) -> bool {
        let mut state = locked(&self.state);
        if self.every == 0 || state.whole > 0 {
            return false;
        }
        state.steps += 1;
        // Nothing comes before the first step.
        std::mem::replace(&mut state.begun, true) && state.steps.is_multiple_of(self.every)
    }

    pub(super) fn mark(&self) -> Mark {
        let state = locked(&self.state);
        Mark {
            restarts: state.restarts,
            under_way: state.under_way.is_some(),
        }
    }

    /// Whether a restart has cut off what began then.
    pub(super) fn cut_off(&self, mark: Mark) -> bool {
        mark.under_way || locked(&self.state).restarts != mark.restarts
    }

    /// How long the restarts took, which is no time of the case's.
    pub(super) fn spent(&self) -> Duration {
        let state = locked(&self.state);
        state.spent
            + state
                .under_way
                .map_or(Duration::ZERO, |began| began.elapsed())
    }

    fn begin(&self) {
        let mut state = locked(&self.state);
        state.restarts += 1;
        state.under_way = Some(Instant::now());
    }

    fn end(&self) {
        let mut state = locked(&self.state);
        let took = state.under_way.take().map(|began| began.elapsed());
        state.spent += took.unwrap_or_default();
    }
}

impl Context {
    /// What comes before a step: nothing, or a restart of the driver.
    ///
    /// # Errors
    /// As [`Context::restart`].
    pub(super) fn between_steps(&self) -> Verdict {
        match self.restarts.is_due() {
            true => self.restart(),
            false => Ok(()),
        }
    }

    /// Does something that is one step, however many calls it makes: no restart comes between these. For calls at the same
    /// time, for those that only wait, and for the pages of a list, whose tokens a driver may forget.
    ///
    /// # Errors
    /// As [`Context::restart`], for a restart before it.
    pub fn one_step<T>(&self, work: impl FnOnce() -> T) -> Result<T, Stop> {
        self.between_steps()?;
        locked(&self.restarts.state).whole += 1;
        let done = work();
        locked(&self.restarts.state).whole -= 1;
        Ok(done)
    }

    /// Restarts the driver, and returns when it answers again. Only for cases that run alone.
    ///
    /// # Errors
    /// When there is no command, it fails, or the driver does not come back.
    pub fn restart(&self) -> Verdict {
        let Some(command) = self.settings().restart_command.clone() else {
            return Err(Stop::Skipped("no --restart-command".to_owned()));
        };
        self.restarts.begin();
        let restarted = self.restart_by(&command);
        self.restarts.end();
        restarted
    }

    fn restart_by(&self, command: &str) -> Verdict {
        locked(&self.steps).push(Step::Restart(command.to_owned()));
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).kill_on_drop(true);
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        let ended = self.wait(async { tokio::time::timeout(PATIENCE, shell.output()).await })?;
        let expected = "the restart command succeeds";
        match ended {
            Err(_) => return Err(Stop::failed(expected, format!("it ran for {PATIENCE:?}"))),
            Ok(Err(error)) => return Err(Stop::failed(expected, error.to_string())),
            Ok(Ok(output)) => {
                let words = String::from_utf8_lossy(&output.stderr);
                let told = match words.trim_end() {
                    "" => format!("{command} ended with {}, without a word", output.status),
                    words => format!("{command} ended with {}: {words}", output.status),
                };
                ensure(output.status.success(), expected, told)?;
            }
        }
        let ends = [&self.run.node, &self.run.controller];
        let end = Instant::now() + GONE_WITHIN;
        let is_gone = || ends.iter().any(|peer| peer.endpoint.last_error().is_some());
        while !is_gone() && Instant::now() < end {
            self.pause(LOOK)?;
        }
        for peer in ends {
            let end = Instant::now() + PATIENCE;
            // Not a step of the case: nobody who runs its commands by hand has to ask.
            let session = peer
                .session
                .clone()
                .with_timeout(Some(Duration::from_secs(5)));
            let probe = v1::ProbeRequest::METHOD;
            while let Err(status) = self.unrecorded(&session, probe, bytes::Bytes::new())? {
                let told = super::context::told(&status);
                ensure(
                    Instant::now() < end,
                    "the driver answers after its restart",
                    told,
                )?;
                self.pause(LOOK)?;
            }
        }
        Ok(())
    }
}
