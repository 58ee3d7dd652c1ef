//! Restarts the driver in the middle of a case, by the command in the settings, or by starting the run's own anew: where a case
//! asks for it, and between its steps where the settings do.

use super::context::Context;
use super::own_driver::{NOT_YET, OwnDriver, Restarter};
use super::run::{Run, locked};
use super::steps::Step;
use super::verdict::{Failure, Stop, Verdict, ensure, status_text};
use csi_proto::Request;
use csi_proto::v1;
use std::io;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// How long the command may take, and the driver after it until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the old driver may hold its connections once the command has returned: one that was killed is not gone at once.
/// Behind a proxy nothing of it is seen.
const GONE_WITHIN: Duration = Duration::from_millis(250);

/// The pause between two looks for the end of the old driver, or for the new one.
const LOOK: Duration = Duration::from_millis(1);

impl Run {
    /// What restarts the driver, if anything does.
    pub(super) fn restarter(&self) -> Option<Restarter> {
        let own = self.own_driver.clone().map(Restarter::Own);
        own.or_else(|| {
            self.settings
                .restart_command
                .clone()
                .map(Restarter::Command)
        })
    }
}

impl Context {
    /// Restarts the driver before a step, where the settings ask for it.
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
        Ok(self.restarts.whole(work))
    }

    /// Restarts the driver, and returns when it answers again. Only for cases that run alone.
    ///
    /// # Errors
    /// When there is no command, it fails, or the driver does not come back.
    pub fn restart(&self) -> Verdict {
        let Some(restarter) = self.run.restarter() else {
            return Err(Stop::Skipped("no --restart-command".to_owned()));
        };
        self.rests_on_restart();
        self.restarts.begin();
        let restarted = self.restart_by(&restarter);
        self.restarts.end();
        restarted
    }

    fn restart_by(&self, restarter: &Restarter) -> Verdict {
        locked(&self.steps).push(Step::Restart(restarter.clone()));
        let begun = Instant::now();
        match restarter {
            Restarter::Command(command) => self.run_command(command)?,
            Restarter::Own(own) => self.start_again(own)?,
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
                // Whether Probe succeeds is another case's rule.
                if !NOT_YET.contains(&status.code()) {
                    break;
                }
                let expected = "the driver answers after its restart";
                if let Restarter::Own(own) = restarter
                    && let Some(death) = own.death(begun)
                {
                    let actual = format!("it {}", death.outcome);
                    let mut failure = Failure::new(expected, actual);
                    failure.stderr = death.said;
                    return Err(Stop::Failed(failure));
                }
                let actual = status_text(&status);
                ensure(Instant::now() < end, expected, actual)?;
                self.pause(LOOK)?;
            }
        }
        Ok(())
    }

    /// Starts the run's own driver anew.
    fn start_again(&self, own: &Arc<OwnDriver>) -> Verdict {
        let own = Arc::clone(own);
        let started = self.wait(async {
            let started = tokio::task::spawn_blocking(move || own.start()).await;
            started.map_err(io::Error::other).flatten()
        })?;
        started.map_err(|error| Stop::failed("the driver can be started again", error.to_string()))
    }

    fn run_command(&self, command: &str) -> Verdict {
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).kill_on_drop(true);
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        let ended = self.wait(async { tokio::time::timeout(PATIENCE, shell.output()).await })?;
        let expected = "the restart command succeeds";
        match ended {
            Err(_) => Err(Stop::failed(expected, format!("it ran for {PATIENCE:?}"))),
            Ok(Err(error)) => Err(Stop::failed(expected, error.to_string())),
            Ok(Ok(output)) => {
                let words = String::from_utf8_lossy(&output.stderr);
                let actual = match words.trim_end() {
                    "" => format!("{command} ended with {}, without a word", output.status),
                    words => format!("{command} ended with {}: {words}", output.status),
                };
                ensure(output.status.success(), expected, actual)
            }
        }
    }
}
