//! Restarts the driver in the middle of a case, by the command in the settings, or by starting the run's own anew: where a case
//! asks for it, between its steps where the settings do, and where it has gone away by itself.

use super::context::Context;
use super::fixtures::Volume;
use super::losses::Loss;
use super::own_driver::{DriverDeath, OwnDriver, Restarter};
use super::presence::{BACK_WITHIN, answers};
use super::run::Run;
use super::settings::Access;
use super::steps::Step;
use super::verdict::{Failure, Stop, Verdict, unjudged_unless};
use csi_call::process_group::{ExecOutcome, ProcessGroup, ended};
use csi_proto::Request as _;
use csi_proto::lock::lock;
use csi_proto::text::escaped;
use csi_proto::v1;
use std::fmt::Write as _;
use std::io;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tonic::Code;

/// The case about what a driver remembers over a restart. Whatever follows one depends on it.
const REMEMBERS: &str = "lifecycle/restart-between-any-two-steps";

/// How long the command may take, and the driver after it until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// How often a driver that the run has started is started where it dies before it answers.
const STARTS: usize = 3;

/// How long what a run has cut short may take after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(1);

/// How long the old driver may hold its connections once the command has returned: one that was killed is not gone at once.
/// Behind a proxy nothing of it is seen; then it may also end later.
const GONE_WITHIN: Duration = Duration::from_millis(250);

/// The pause between two looks for the end of the old driver.
const LOOK: Duration = Duration::from_millis(1);

impl Run {
    /// What restarts the driver, if anything does.
    pub(super) fn restarter(&self) -> Option<Restarter> {
        let own = self.own_driver.clone().map(Restarter::Own);
        let command = self.settings.restart_command.clone();
        own.or(command.map(Restarter::Command))
    }
}

/// Waits until the driver answers. One that is not there is restarted by the command in the settings. One that did not come
/// back is not waited for again.
///
/// # Errors
/// When it does not come back; the reason in words.
pub async fn bring_back(run: &Arc<Run>) -> Result<(), String> {
    let mut gone = run.bringing_back.lock().await;
    if let Some(reason) = &*gone {
        return Err(reason.clone());
    }
    let back = is_back(run).await.map_err(|reason| {
        let during = match lock(&run.losses).unexplained().last() {
            Some(lost) => format!("; it went away during {}", lost.suspects()),
            None => String::new(),
        };
        format!("the driver does not answer any more: {reason}{during}")
    });
    match &back {
        Ok(()) => lock(&run.losses).came_back(),
        Err(reason) => *gone = Some(reason.clone()),
    }
    back
}

async fn is_back(run: &Arc<Run>) -> Result<(), String> {
    // A process whose connections have ended may be about to end, or to answer again.
    let is_own = run.own_driver.is_some();
    let patience = if is_own { BACK_WITHIN } else { Duration::ZERO };
    let Err(mut problem) = answers(run, patience).await else {
        return Ok(());
    };
    if let Some(death) = run.death() {
        lock(&run.losses).died(death);
    }
    if run.restarter().is_some() {
        let context = Context::of_no_case(run, Access::Mount);
        let restarted = tokio::task::spawn_blocking(move || context.restart()).await;
        match restarted {
            // Another case may have taken it down again since then.
            Ok(Ok(())) => return Ok(()),
            Ok(Err(Stop::Failed(failure))) if run.death().is_some() => {
                problem = format!("started again, {}", failure.actual);
                if let Some(line) = failure.stderr.last() {
                    let _ = write!(problem, ": {}", escaped(line));
                }
            }
            _ => {}
        }
    }
    match run.death().is_some() {
        true => Err(problem),
        // Somebody else may still bring it back.
        false => answers(run, BACK_WITHIN).await,
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
        self.depends_on(REMEMBERS);
        self.restarted()
    }

    /// Restarts the driver as [`Context::restart`] does, while it has this volume. One that keeps nothing over a restart is
    /// another case's subject; what it has forgotten besides is this one's.
    ///
    /// # Errors
    /// As [`Context::restart`], or when it does not know the volume any more.
    pub fn restart_knowing(&self, volume: &Volume) -> Verdict {
        self.restarted()?;
        self.still_knows(volume)
    }

    fn restarted(&self) -> Verdict {
        let Some(restarter) = self.run.restarter() else {
            return Err(Stop::Skipped("no --restart-command".to_owned()));
        };
        self.restarts.during(|| self.restart_by(&restarter))
    }

    /// Skips the case of a driver that knows a volume of before a restart no more.
    pub fn still_knows(&self, volume: &Volume) -> Verdict {
        let knows = self.knows(volume)?;
        unjudged_unless(
            knows,
            [REMEMBERS],
            "the driver knows no volume after a restart",
        )
    }

    /// Whether nothing says that the driver has forgotten a volume.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn knows(&self, volume: &Volume) -> Result<bool, Stop> {
        let answer = self.send(self.validate_request(volume))?;
        if answer.is_err_and(|status| status.code() == Code::NotFound) {
            return Ok(false);
        }
        // Who counts from the beginning again gives a new one its id.
        let new = self
            .send(self.create_request()?)?
            .ok()
            .and_then(|reply| reply.volume);
        let Some(new) = new else { return Ok(true) };
        let is_another = new.volume_id != volume.id();
        self.ok(self.delete_request(new.volume_id))?;
        Ok(is_another)
    }

    fn restart_by(&self, restarter: &Restarter) -> Verdict {
        lock(&self.steps).push(Step::Restart(restarter.clone()));
        for _ in 1..STARTS {
            match self.restart_once(restarter)? {
                None => return Ok(()),
                Some((failure, None)) => return Err(Stop::Failed(failure)),
                // Somebody may have killed it.
                Some((failure, Some(death))) => self.died_at_its_start(failure, death),
            }
        }
        let failed = self.restart_once(restarter)?;
        failed.map_or(Ok(()), |(failure, _)| Err(Stop::Failed(failure)))
    }

    /// Notes that the driver has died where the run had started it, which is started again.
    fn died_at_its_start(&self, failure: Failure, death: DriverDeath) {
        // Where it is brought back, the call in which it went away is noted.
        if self.case.is_empty() {
            return;
        }
        let mut losses = lock(&self.run.losses);
        losses.note(Loss {
            case: self.case.clone(),
            method: v1::ProbeRequest::METHOD,
            answered: false,
            failure,
        });
        losses.died(death);
        losses.came_back();
    }

    /// Restarts the driver; the failure where it does not answer then, and its death where it has died.
    fn restart_once(
        &self,
        restarter: &Restarter,
    ) -> Result<Option<(Failure, Option<DriverDeath>)>, Stop> {
        let begun = Instant::now();
        let patience = match restarter {
            Restarter::Command(command) => {
                self.run_command(command)?;
                PATIENCE
            }
            Restarter::Own(own) => {
                self.start_again(own)?;
                self.settings().start_limit
            }
        };
        lock(&self.run.given_ids).forget();
        let started = Instant::now();
        let answered = self.wait(answers(&self.run, patience))?;
        if answered.is_ok() && started.elapsed() >= patience {
            // One that does not get ready in that time does not after the next restart either.
            self.run.is_never_ready.store(true, Ordering::Relaxed);
        }
        let Err(problem) = answered else {
            return Ok(None);
        };
        let mut failure = Failure::new("the driver answers after its restart", problem);
        let death = match restarter {
            Restarter::Own(own) => own.death(begun),
            Restarter::Command(_) => None,
        };
        if let Some(death) = &death {
            failure.actual = format!("it {}", death.outcome);
            failure.stderr.clone_from(&death.said);
        }
        Ok(Some((failure, death)))
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
        shell.arg("-c").arg(command);
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        // What it leaves running, such as the driver, may hold its stderr.
        let ended = self.wait(async {
            let mut group = ProcessGroup::start(&mut shell, TERM_GRACE)?;
            let stderr = group.stderr()?;
            let deadline = Instant::now() + PATIENCE;
            let outcome = ended(group.pid(), Some(deadline)).await;
            let outcome = outcome.ok_or(io::ErrorKind::TimedOut)?;
            group.leave();
            io::Result::Ok((outcome, stderr.since(0)))
        })?;
        let problem = match ended {
            Ok((ExecOutcome::Exited(0), _)) => None,
            Ok((outcome, words)) => match words.trim_end() {
                "" => Some(format!("{command} {outcome}, without a word")),
                words => Some(format!("{command} {outcome}: {words}")),
            },
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                Some(format!("{command} ran for {PATIENCE:?}"))
            }
            Err(error) => Some(format!("{command}: {error}")),
        };
        if let Some(problem) = problem {
            // The driver is not to blame for that.
            let problem = format!("the restart command failed: {problem}");
            lock(&self.run.incomplete).insert(problem.clone());
            return Err(Stop::Skipped(problem));
        }
        let is_gone = || self.run.is_disconnected();
        let end = Instant::now() + GONE_WITHIN;
        while !is_gone() && Instant::now() < end {
            self.pause(LOOK)?;
        }
        if !is_gone() {
            self.restarts.ended_unseen();
        }
        Ok(())
    }
}
