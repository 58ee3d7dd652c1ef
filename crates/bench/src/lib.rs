//! `csi bench`: puts a driver under load, or two in turns, and reports how they performed.
//!
//! Owns what comes before the first call: what the flags mean together, what is refused, the connections. The load itself
//! stands in `running.rs`; what is called in `scenario.rs` and `template.rs`, when in `pace.rs`, how in `side.rs` and
//! `client.rs`, over and over in `workers.rs`; what it made is taken back by `taking_back.rs`; figures are counted in `tally.rs`, `moments.rs` and
//! `compare.rs`, turned into a result in `report.rs` and printed by `csi_output::load`, or drawn by `csi_output::page`.

mod client;
mod compare;
mod flags;
mod moments;
mod pace;
mod progress;
mod report;
mod running;
mod scenario;
mod side;
mod taking_back;
mod tally;
mod template;
mod tree;
mod workers;

pub use tree::command;

use clap::{ArgMatches, FromArgMatches};
use client::{Client, Ends};
use csi_call::{Advertised, Endpoint};
use csi_error::{Error, OrError};
use csi_invocation::interrupt::{self, Signals};
use csi_invocation::{Defaults, Globals, connect, defaults, rpc_command};
use csi_output::page::{PageFile, Readers};
use csi_proto::random;
use csi_rpc::context::{RequestContext, RequestFlags};
use flags::{BenchFlags, CycleFlags};
use running::LoadRun;
use scenario::{Cycle, CycleParts, Scenario};
use side::Side;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, Once};
use tree::{Bench, Load};

/// Runs a load to its end.
///
/// # Errors
/// What kept it from running; that too many calls failed; that something could not be taken back; Ctrl-C.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let bench = &tree::task(matches).or_usage()?;
    refuse_useless(globals)?;
    let flags = &bench.flags;
    let prepared = Prepared::of(bench, globals, defaults)?;
    if let Prepared::Rpc(command, context) = &prepared
        && command.dry_run
    {
        // Refused as it would be without the flag; shown as it was written.
        scenario::of_rpc(command, flags, context)?;
        return command.dry_run(csi_output::stdout());
    }
    let page = PageFile::asked(flags.html.as_ref(), Readers::Umask)?;
    let mut endpoints = vec![connect::endpoint_named_for("bench", globals)?];
    if let Some(text) = &flags.compare {
        endpoints.push(parsed(text)?);
    }
    let controller = flags
        .controller_endpoint
        .as_deref()
        .map(parsed)
        .transpose()?;
    if prepared.publishes() {
        // One namespace is enough for both.
        let embedded = |endpoint: &&Endpoint| endpoint.is_embedded();
        if let Some(endpoint) = endpoints.iter().find(embedded) {
            connect::private_mounts(endpoint, defaults)?;
        }
    }
    let runtime = connect::runtime()?;
    let ran = runtime.block_on(async {
        let mut signals =
            Signals::watch_each(defaults.in_shell).or_because(interrupt::UNWATCHED)?;
        let connecting = sides(bench, &prepared, &endpoints, controller.as_ref(), globals);
        let sides = tokio::select! {
            sides = connecting => sides?,
            () = signals.next() => return Err(Error::interrupted()),
        };
        let ran = LoadRun::new(bench, sides, secrets_file(bench, globals, defaults));
        let result = ran.all(globals, page, &mut signals).await;
        for endpoint in endpoints.iter().chain(&controller) {
            connect::settle(endpoint, &mut signals).await;
        }
        result
    });
    // Threads that hang, for example in the resolver, hold nobody up.
    runtime.shutdown_background();
    ran.map_err(|error| error.doing("bench"))
}

fn refuse_useless(globals: &Globals) -> Result<(), Error> {
    let prints = "a load prints figures, no replies; -o json prints them as one object";
    globals.json_or_lines(prints)?;
    let checks = globals.checks();
    for (given, flag) in [
        (globals.output(false).no_headers, "--no-headers"),
        (
            checks.spec || checks.credentials || checks.volume_context || checks.publish_context,
            "--with-…",
        ),
    ] {
        if given {
            let problem = format!("{flag} has no meaning here: {prints}");
            return Err(Error::usage(problem));
        }
    }
    Ok(())
}

fn parsed(text: &str) -> Result<Endpoint, Error> {
    Endpoint::parse(text).or_usage()
}

/// The part of a load that is parsed and checked before there is a connection.
enum Prepared<'a> {
    Rpc(Box<rpc_command::Command>, RequestContext),
    Cycle(Cycle, &'a CycleFlags, RequestContext),
}

impl<'a> Prepared<'a> {
    fn of(bench: &'a Bench<'_>, globals: &Globals, defaults: &Defaults) -> Result<Self, Error> {
        match &bench.load {
            Load::Rpc(called) => {
                let flags = RequestFlags::from_arg_matches(called.matches).or_usage()?;
                let context = rpc_command::request_context(&flags, called, globals, defaults)?;
                let command =
                    rpc_command::Command::in_context(&flags, called, globals, defaults, &context)?;
                scenario::of_rpc(&command, &bench.flags, &context)?;
                Ok(Self::Rpc(Box::new(command), context))
            }
            Load::Cycle(cycle, flags) => {
                let file = defaults.secrets_file(&flags.secrets_file, globals);
                let secrets = defaults::secrets(file.as_deref(), &[])?;
                let context = defaults.request_context(globals, secrets);
                Ok(Self::Cycle(*cycle, flags, context))
            }
        }
    }

    /// Whether mounts may be made in this process.
    fn publishes(&self) -> bool {
        match self {
            Self::Rpc(command, _) => {
                let making = command.rpc.facts.effect.making();
                making.is_some_and(|making| making.thing.is_mount())
            }
            Self::Cycle(cycle, ..) => {
                matches!(cycle, Cycle::PublishUnpublish | Cycle::Lifecycle)
            }
        }
    }

    fn scenario(&self, load: &BenchFlags, advertised: Advertised) -> Result<Scenario, Error> {
        match self {
            Self::Rpc(command, context) => scenario::of_rpc(command, load, context),
            Self::Cycle(cycle, flags, context) => CycleParts {
                cycle: *cycle,
                flags,
                context,
                advertised,
                load,
            }
            .scenario(),
        }
    }
}

/// The file of the secrets, for commands that are shown.
fn secrets_file(bench: &Bench<'_>, globals: &Globals, defaults: &Defaults) -> Option<String> {
    let flag = match &bench.load {
        Load::Rpc(called) => called.matches.get_one::<String>("secrets_file").cloned(),
        Load::Cycle(_, flags) => flags.secrets_file.clone(),
    };
    defaults.secrets_file(&flag, globals)
}

/// Connects to every driver, and asks what it has where that matters.
async fn sides(
    bench: &Bench<'_>,
    prepared: &Prepared<'_>,
    endpoints: &[Endpoint],
    controller: Option<&Endpoint>,
    globals: &Globals,
) -> Result<Vec<Arc<Side>>, Error> {
    let run = run_id()?;
    let connections = bench.flags.connections;
    let mut sides = Vec::new();
    for endpoint in endpoints {
        let node = Arc::new(connected(endpoint, connections, globals).await?);
        let controller = match controller {
            None => Arc::clone(&node),
            Some(endpoint) => Arc::new(connected(endpoint, connections, globals).await?),
        };
        let mut advertised = Advertised::default();
        if let Prepared::Cycle(..) = prepared {
            let (node, controller) = (&*node, &*controller);
            let mut ends = Ends { node, controller };
            advertised.ask_node(&mut ends).await?;
            advertised.ask_controller(&mut ends).await?;
        }
        sides.push(Arc::new(Side {
            node,
            controller,
            scenario: prepared.scenario(&bench.flags, advertised)?,
            run: run.clone(),
            seed: bench.flags.seed,
            keeps: bench.flags.keep,
            made: Mutex::default(),
            folders: Mutex::default(),
            no_folder: Once::new(),
            knowledge: Mutex::default(),
            next: AtomicU64::new(0),
        }));
    }
    Ok(sides)
}

async fn connected(
    endpoint: &Endpoint,
    connections: u32,
    globals: &Globals,
) -> Result<Client, Error> {
    let mut sessions = Vec::new();
    for _ in 0..connections {
        sessions.push(connect::session(endpoint, globals).await?);
    }
    let endpoint = endpoint.clone();
    Ok(Client { endpoint, sessions })
}

/// Names what a run makes. Another run's things must never be taken for ours.
fn run_id() -> Result<String, Error> {
    let drawn = random::from_kernel().or_because(random::MISSING)?;
    Ok(format!("{:012x}", u64::from_ne_bytes(drawn) >> 16))
}
