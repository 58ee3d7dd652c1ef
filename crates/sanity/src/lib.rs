//! `csi sanity`: tests whether a driver keeps to the specification. The cases are written from the specification's text
//! and run against any driver.
//!
//! A library too: [`run`] with [`Settings`] gives a [`Report`]. This file owns the order of a run: start the driver where the
//! settings say so, connect, ask what the driver can do, take down what dead runs left, run the cases. It prints nothing.
//!
//! `case.rs` says what a case is. The cases are in `cases/`, one file a subject. They work with `context.rs`, `answers.rs`,
//! `creations.rs`, `at_once.rs`, `restart.rs`, `data.rs` and `fixtures.rs`, which `vocabulary.rs` gathers.
//!
//! `plan.rs` says which cases are to run, and in which order. `case_states.rs` decides what comes next for each of them, and does
//! nothing; `runner.rs` carries that out, `trial.rs` makes one try of a case, and `taking_down.rs` takes down what it made. What a
//! try shows is found by `tracking.rs` (what a case depends on), `room.rs` (what the driver lacks) and `losses.rs` (when it went
//! away).
//!
//! The result is one value, `report.rs`, which is its own JSON. `finding.rs`, `summary.rs`, `print.rs`, `junit.rs` and `page.rs`
//! show it, and `kept.rs` keeps it.

mod again;
mod answers;
mod at_once;
mod broken_rules;
mod call_counts;
mod call_times;
mod case;
mod case_states;
mod cases;
#[doc(hidden)]
pub mod command;
mod config;
mod context;
#[cfg(test)]
#[path = "../../../tests/support/corpus.rs"]
mod corpus;
mod creations;
mod data;
mod dependencies;
mod driver_info;
mod file_values;
mod finding;
mod fixtures;
#[cfg(test)]
mod formats;
mod given_ids;
mod journal;
mod junit;
mod kept;
mod known_failures;
mod losses;
mod need;
mod observer;
mod own_driver;
mod page;
mod paths;
mod plan;
mod presence;
mod print;
mod reply_rules;
mod report;
mod report_files;
mod restart;
mod restarts;
mod room;
mod run;
mod runner;
mod script;
mod settings;
mod sizes;
mod sources;
mod steps;
mod summary;
mod taking_down;
mod tracking;
mod trial;
mod verdict;
mod vocabulary;

pub use call_times::{CallTimes, StepTime};
pub use case::{Case, CaseKind, Failure, Need};
pub use cases::all as cases;
pub use observer::{Asked, Observer, Plan};
pub use report::{CaseOutcome, CaseResult, Counts, Report};
pub use settings::{Access, Settings};

use call_counts::CallCounts;
use csi_call::endpoint::Endpoint;
use csi_call::error::connection_error;
use csi_call::session::{Connection, Session};
use csi_error::{Error, Style};
use csi_proto::lock::lock;
use csi_proto::random;
use driver_info::DriverInfo;
use journal::Journal;
use observer::Silent;
use own_driver::OwnDriver;
use room::Limits;
use run::{Ends, Run, Unanswered};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;
use taking_down::MadeItems;
use tokio::runtime::Handle;
use tokio::sync::watch;

/// Why there is no report: the driver cannot be reached, or the settings cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("{}", .0.render(Style::Text).trim_end())]
pub struct CannotRun(Box<Error>);

impl From<Error> for CannotRun {
    fn from(error: Error) -> Self {
        Self(Box::new(error))
    }
}

impl CannotRun {
    /// The error as the program words it.
    pub(crate) fn into_error(self) -> Error {
        *self.0
    }
}

/// Runs the cases that the settings select. To be called in a runtime with timers and I/O.
///
/// # Errors
/// When the driver cannot be reached or the settings cannot be used. A driver that fails cases is no error.
pub async fn run(settings: Settings) -> Result<Report, CannotRun> {
    let (_asks, asked) = watch::channel(0);
    run_watched(settings, &mut Silent, asked).await
}

/// Runs the cases as [`run`] does, followed by an observer and stopped on request.
///
/// # Errors
/// As [`run`].
pub async fn run_watched(
    mut settings: Settings,
    observer: &mut dyn Observer,
    mut asked: Asked,
) -> Result<Report, CannotRun> {
    let started = Instant::now();
    // Else every case that stages would be skipped, and the run pass.
    if let Some(parent) = settings
        .staging_parent
        .as_ref()
        .filter(|_| !settings.read_only)
        && !parent.is_dir()
    {
        let problem = format!("{} is no folder to make staging paths in", parent.display());
        return Err(Error::usage(problem)
            .hint("--staging-parent names a folder that this user and the driver can use")
            .into());
    }
    let own = match settings.command.as_slice() {
        [] => None,
        command => {
            let own = OwnDriver::of(command).map_err(|error| {
                Error::because("no folder for the driver's socket can be made", &error)
            })?;
            settings.endpoint = own.endpoint();
            Some(UntilTheEnd(Arc::new(own)))
        }
    };
    let own_driver = own.as_ref().map(|own| Arc::clone(&own.0));
    // Nothing of this run is there as yet that would have to be taken down.
    let (node, controller, driver, limits, unanswered, seen) = tokio::select! {
        answers = questions(&settings, own_driver.as_ref()) => answers?,
        () = trial::times(&mut asked, 1) => return Err(Error::interrupted().into()),
    };
    let endpoints = run::ends_named(&node, &controller, own_driver.as_deref());
    let name = format!("{}{:08x}", journal::PREFIX, random_number()? as u32);
    let parent = settings.mount_folder();
    let journal = match settings.read_only {
        true => Journal::none(name),
        false => Journal::open(&parent, name, &endpoints).map_err(|error| {
            let problem = format!("no folder for this run can be made in {}", parent.display());
            Error::unusable(problem, &error)
                .hint("--mount-parent names a folder that this user and the driver can use")
        })?,
    };
    let seed = settings.seed.map_or_else(random_number, Ok)?;
    let size = settings.volume_size.unwrap_or(settings::DEFAULT_SIZE);
    let run = Arc::new(Run {
        settings,
        subjects: cases().map(Case::subject).collect(),
        node,
        controller,
        driver,
        unanswered,
        own_driver,
        accesses: OnceLock::new(),
        sizes: [AtomicI64::new(size), AtomicI64::new(size)],
        journal,
        postponed: Mutex::default(),
        given_up: Mutex::default(),
        left: Mutex::default(),
        seen: Mutex::new(seen),
        given_ids: Mutex::default(),
        times: Mutex::default(),
        broken_rules: Mutex::default(),
        losses: Mutex::default(),
        is_never_ready: AtomicBool::new(false),
        bringing_back: tokio::sync::Mutex::default(),
        broken_calls: Mutex::default(),
        incomplete: Mutex::default(),
        lacking: Mutex::default(),
        limits,
        shown: OnceLock::new(),
        seed,
        runtime: Handle::current(),
    });
    let looks_around = async {
        if !run.settings.read_only && !run.settings.keep_leftovers {
            take_down_leftovers(&run, &endpoints, observer).await;
        }
        presence::shown(&run).await
    };
    let shown = tokio::select! {
        shown = looks_around => shown,
        () = trial::times(&mut asked, 1) => {
            run.journal.close();
            return Err(Error::interrupted().into());
        }
    };
    let _ = run.shown.set(shown);
    let accesses = tokio::select! {
        accesses = sizes::accesses(&run) => accesses,
        () = trial::times(&mut asked, 2) => return Err(Error::interrupted().into()),
    };
    let _ = run.accesses.set(accesses);
    let planned = plan::plan(&run);
    observer.begins(&Plan {
        driver: (&run.driver.name, &run.driver.version),
        endpoint: &run.driver_named(),
        cases: planned.iter().filter(|one| one.is_asked_for(&run)).count(),
        seed,
        jobs: run.jobs(),
    });
    let (results, cut_short) = runner::run(&run, planned, observer, asked).await;
    Ok(Report {
        driver: run.driver.name.clone(),
        version: run.driver.version.clone(),
        endpoint: run.driver_named(),
        specification: csi_proto::SPEC_VERSION.to_owned(),
        run: run.journal.run_name().to_owned(),
        seed,
        results,
        known: BTreeSet::new(),
        cut_short,
        incomplete: run.incomplete(),
        took: started.elapsed(),
        times: lock(&run.times).clone(),
    })
}

/// The run's own driver, which ends with this.
struct UntilTheEnd(Arc<OwnDriver>);

impl Drop for UntilTheEnd {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What is known before the cases: node and controller, what they can do, what they did not answer, and what has worked.
type Answers = (
    Connection,
    Connection,
    DriverInfo,
    Limits,
    Unanswered,
    CallCounts,
);

/// Starts the driver, where the run has one of its own, connects, and asks what all cases have to know: also the answers that
/// were missing, and the RPCs that have worked.
async fn questions(settings: &Settings, own: Option<&Arc<OwnDriver>>) -> Result<Answers, Error> {
    if let Some(own) = own {
        own.comes_up(settings).await?;
    }
    let node = open(settings, &settings.endpoint).await?;
    let controller = match &settings.controller_endpoint {
        Some(text) => open(settings, text).await?,
        None => node.clone(),
    };
    let mut ends = Ends {
        node: &node,
        controller: &controller,
        seen: CallCounts::default(),
        unanswered: Unanswered::new(),
    };
    let driver = DriverInfo::ask(&mut ends, settings.controller_endpoint.is_some()).await?;
    let limits = Limits::ask(&mut ends, settings, &driver).await?;
    let (unanswered, seen) = (ends.unanswered, ends.seen);
    Ok((node, controller, driver, limits, unanswered, seen))
}

async fn open(settings: &Settings, text: &str) -> Result<Connection, Error> {
    let endpoint = Endpoint::parse(text).map_err(|error| Error::usage(error.to_string()))?;
    let opened = Session::open(&endpoint, &settings.connect).await;
    let session = opened
        .map_err(|error| connection_error(&endpoint, &error))?
        .with_timeout(Some(settings.timeout))
        .with_metadata(&settings.metadata)
        .map_err(|error| Error::usage(error.to_string()))?;
    Ok(Connection { session, endpoint })
}

/// Takes down what runs of this user have left that were killed, as far as it can be done soon.
async fn take_down_leftovers(run: &Arc<Run>, endpoints: &[String; 2], observer: &mut dyn Observer) {
    let parent = run.settings.mount_folder();
    let end = tokio::time::Instant::now() + run.settings.leftovers_limit;
    for left in journal::left_below(&parent, endpoints) {
        let (count, folder) = (left.made.len(), left.folder.display());
        observer.note(&format!(
            "taking down what an earlier run left ({count} in {folder}); --keep-leftovers leaves it"
        ));
        let made = MadeItems::of(run, None, &left.made);
        let problems = match tokio::time::timeout_at(end, made.take_down()).await {
            Ok(problems) => problems,
            Err(_) => vec!["the rest is left to the next run: it took too long".to_owned()],
        };
        if problems.is_empty() {
            left.forget();
            observer.note(&format!(
                "took down what an earlier run left ({count} in {folder})"
            ));
            continue;
        }
        for problem in &problems {
            observer.note(&format!("left by an earlier run ({folder}): {problem}"));
        }
        // One journal for all that is left, however many runs have left it.
        if made.hand_over(&left.folder) {
            left.forget();
        }
    }
}

/// A number that nobody can tell.
fn random_number() -> Result<u64, Error> {
    let drawn = random::from_kernel().map(u64::from_ne_bytes);
    drawn.map_err(|error| Error::because(random::MISSING, &error))
}
