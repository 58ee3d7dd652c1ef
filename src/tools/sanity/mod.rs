//! `csi sanity`: does a driver keep the contract? Cases written from the specification's text, run against any driver.
//!
//! A library too: [`run`] with [`Settings`] gives a [`Report`]. This file owns the order of a run: connect, ask what the
//! driver can do, take down what dead runs left, run the cases. What a case is stands in `case.rs`, what it works with in
//! `context.rs`, `answers.rs`, `at_once.rs`, `restart.rs` and `fixtures.rs`, what it made in `ledger.rs`, taking it down in `wrecker.rs`;
//! the cases themselves are in `cases/`, one file a subject. Nothing here prints.

mod advertised;
mod answers;
mod at_once;
mod case;
mod cases;
pub(crate) mod command;
mod config;
mod context;
mod data;
mod file_values;
mod fixtures;
mod journal;
mod junit;
mod ledger;
mod need;
mod observer;
mod paths;
mod report;
mod restart;
mod restarts;
mod run;
mod runner;
mod seen;
mod settings;
mod shown;
mod sources;
mod steps;
mod verdict;
mod wrecker;

pub use case::{Case, Failure, Kind, Need};
pub use cases::all as cases;
pub use observer::{Asked, Observer, Plan};
pub use report::{CaseResult, Counts, Outcome, Report};
pub use settings::{Access, Settings};

use crate::call::endpoint::Endpoint;
use crate::call::error::{call_error, connection_error};
use crate::call::session::Session;
use crate::error::Error;
use advertised::Advertised;
use csi_proto::{Request, random, v1};
use journal::Journal;
use ledger::Made;
use observer::Silent;
use run::{Peer, Run};
use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Instant;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tonic::Code;
use wrecker::Wrecker;

/// Why there is no report: the driver cannot be reached, or the settings cannot be used.
#[derive(Debug)]
pub struct CannotRun(Box<Error>);

impl fmt::Display for CannotRun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.render(crate::error::Style::Text).trim_end())
    }
}

impl std::error::Error for CannotRun {}

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

/// The same, followed by an observer and stopped on request.
///
/// # Errors
/// As [`run`].
pub async fn run_watched(
    settings: Settings,
    observer: &mut dyn Observer,
    asked: Asked,
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
    let node = open(&settings, &settings.endpoint).await?;
    let controller = match &settings.controller_endpoint {
        Some(text) => open(&settings, text).await?,
        None => node.clone(),
    };
    let advertised = ask(&settings, &node, &controller).await?;
    let endpoints = [node.endpoint.to_string(), controller.endpoint.to_string()];
    let endpoints = [endpoints[0].as_str(), endpoints[1].as_str()];
    let [name, new_seed] = drawn()?;
    let name = format!("{}{:08x}", journal::PREFIX, name as u32);
    let parent = settings.mount_folder();
    let journal = match settings.read_only {
        true => Journal::none(name),
        false => {
            take_down_leftovers(&settings, [&node, &controller], endpoints, observer).await;
            Journal::open(&parent, name, endpoints).map_err(|error| {
                let problem = format!("no folder for this run can be made in {}", parent.display());
                Error::because(problem, &error)
                    .hint("--mount-parent names a folder that this user and the driver can use")
            })?
        }
    };
    let seed = settings.seed.unwrap_or(new_seed);
    let mut accesses = runner::accesses_of(&settings);
    let run = Arc::new(Run {
        settings,
        node,
        controller,
        advertised,
        accesses: OnceLock::new(),
        journal,
        left: Mutex::default(),
        seen: Mutex::default(),
        seed,
        runtime: Handle::current(),
    });
    accesses.extend(runner::tried_block(&run).await);
    let _ = run.accesses.set(accesses);
    let planned = runner::plan(&run);
    observer.begins(&Plan {
        driver: (&run.advertised.name, &run.advertised.version),
        endpoint: &run.settings.endpoint,
        cases: planned.len(),
        seed,
        jobs: run.settings.jobs(),
    });
    let (results, cut_short) = runner::run(&run, planned, observer, asked).await;
    Ok(Report {
        driver: run.advertised.name.clone(),
        version: run.advertised.version.clone(),
        endpoint: run.settings.endpoint.clone(),
        run: run.journal.run_name().to_owned(),
        seed,
        results,
        cut_short,
        took: started.elapsed(),
    })
}

async fn open(settings: &Settings, text: &str) -> Result<Peer, Error> {
    let endpoint = Endpoint::parse(text).map_err(|error| Error::usage(error.to_string()))?;
    let opened = Session::open(&endpoint, &settings.connect).await;
    let session = opened
        .map_err(|error| connection_error(&endpoint, &error))?
        .with_timeout(Some(settings.timeout))
        .with_metadata(&settings.metadata)
        .map_err(|error| Error::usage(error.to_string()))?;
    Ok(Peer { session, endpoint })
}

/// What the driver says of itself. What it does not serve, or answers with nonsense, counts as not advertised.
async fn ask(settings: &Settings, node: &Peer, controller: &Peer) -> Result<Advertised, Error> {
    let mut found = Advertised::default();
    if let Some(info) = asked(node, &v1::GetPluginInfoRequest {}).await? {
        (found.name, found.version) = (info.name, info.vendor_version);
    }
    // Of a driver in two processes each advertises its own part.
    let ends = match settings.controller_endpoint {
        Some(_) => vec![node, controller],
        None => vec![node],
    };
    for peer in ends {
        if let Some(plugin) = asked(peer, &v1::GetPluginCapabilitiesRequest {}).await? {
            found.add_plugin(&plugin);
        }
    }
    let service = v1::plugin_capability::service::Type::ControllerService;
    found.controller_service =
        found.plugin.contains(&service.into()) || settings.controller_endpoint.is_some();
    if found.controller_service
        && let Some(reply) = asked(controller, &v1::ControllerGetCapabilitiesRequest {}).await?
    {
        use v1::controller_service_capability::Type;
        let rpcs = reply
            .capabilities
            .iter()
            .filter_map(|one| one.r#type.as_ref());
        found.controller = rpcs.map(|Type::Rpc(rpc)| rpc.r#type).collect();
    }
    if found
        .plugin
        .contains(&v1::plugin_capability::service::Type::GroupControllerService.into())
        && let Some(reply) =
            asked(controller, &v1::GroupControllerGetCapabilitiesRequest {}).await?
    {
        use v1::group_controller_service_capability::Type;
        let rpcs = reply
            .capabilities
            .iter()
            .filter_map(|one| one.r#type.as_ref());
        found.group = rpcs.map(|Type::Rpc(rpc)| rpc.r#type).collect();
    }
    if let Some(reply) = asked(node, &v1::NodeGetCapabilitiesRequest {}).await? {
        use v1::node_service_capability::Type;
        let rpcs = reply
            .capabilities
            .iter()
            .filter_map(|one| one.r#type.as_ref());
        found.node = rpcs.map(|Type::Rpc(rpc)| rpc.r#type).collect();
        found.node_service = true;
        found.node_info = asked(node, &v1::NodeGetInfoRequest {})
            .await?
            .unwrap_or_default();
    }
    Ok(found)
}

/// The reply; `None` where the driver refuses, or answers with bytes that are none.
///
/// # Errors
/// When nobody answers.
async fn asked<Q: Request>(peer: &Peer, request: &Q) -> Result<Option<Q::Reply>, Error> {
    match peer.session.ask(request).await {
        Ok(reply) => Ok(Some(reply)),
        Err(error) => match error.status.code() {
            Code::Unavailable | Code::DeadlineExceeded => {
                let doing = format!("asking {} what the driver can do", Q::METHOD.name);
                Err(call_error(&error, &peer.endpoint).doing(doing))
            }
            _ => Ok(None),
        },
    }
}

/// Takes down what runs of this user have left that were killed.
async fn take_down_leftovers(
    settings: &Settings,
    [node, controller]: [&Peer; 2],
    endpoints: [&str; 2],
    observer: &mut dyn Observer,
) {
    let wrecker = Wrecker::new(node, controller, settings);
    for left in journal::left_below(&settings.mount_folder(), endpoints) {
        let count = left.made.len();
        let made: Vec<((), Made)> = left.made.iter().map(|made| ((), made.clone())).collect();
        let problems = wrecker.take_down(made, |()| {}).await;
        let folder = left.folder.display();
        if problems.is_empty() {
            left.forget();
            observer.note(&format!(
                "took down what an earlier run left ({folder}): {count} things"
            ));
        }
        for problem in problems {
            observer.note(&format!("left by an earlier run ({folder}): {problem}"));
        }
    }
}

/// A number for the run's name, and one for its seed.
fn drawn() -> Result<[u64; 2], Error> {
    let draw = || random::from_kernel().map(u64::from_ne_bytes);
    let both = draw().and_then(|name| Ok([name, draw()?]));
    both.map_err(|error| Error::because(random::MISSING, &error))
}
