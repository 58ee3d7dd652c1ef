//! The command `csi lifecycle`: its settings from flags, its connections, its signals and its end.

use super::calls::Lifecycle;
use super::flags::LifecycleFlags;
use clap::{ArgMatches, Command};
use csi_call::{Connection, Endpoint};
use csi_error::{Error, OrError};
use csi_invocation::interrupt::{self, Signals};
use csi_invocation::parse::{self, with_flags};
use csi_invocation::{Defaults, Globals, connect, defaults};
use csi_output::steps::StepPrinter;
use csi_proto::random;
use std::cell::RefCell;
use std::sync::Mutex;

pub fn command() -> Command {
    Command::new("lifecycle")
        .about("Do what an orchestrator does with a volume, from create to delete")
        .after_help(
            "Honours what the driver advertises, and undoes everything in reverse, also after a failure or Ctrl-C.\n\n\
             Examples:\n  csi -e embedded: lifecycle\n  \
             csi -e unix:///csi/csi.sock lifecycle --cap 5,mount --params server=10.0.0.4,share=/export",
        )
        .defer(with_flags::<LifecycleFlags>)
}

/// Runs a lifecycle to its end.
///
/// # Errors
/// The first step that failed, or why none was begun.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let mut flags = parse::flags::<LifecycleFlags>(matches)?;
    flags.volume.check_context(flags.volume_id.as_deref())?;
    let prints = "a lifecycle prints steps, no table; -o json prints one object a step";
    let json = globals.json_or_lines(prints)?;
    let endpoint = connect::endpoint_named_for("lifecycle", globals)?;
    let controller = match &flags.controller_endpoint {
        None => endpoint.clone(),
        Some(text) => Endpoint::parse(text).or_usage()?,
    };
    connect::private_mounts(&endpoint, defaults)?;
    let style = defaults.style(globals);
    let secrets_file = defaults.secrets_file(&flags.secrets_file, globals);
    let secrets = defaults::secrets(secrets_file.as_deref(), &[])?;
    let context = defaults.request_context(globals, secrets);
    // Named in the commands that remove what is left.
    flags.secrets_file = secrets_file;
    let flags = &flags;
    let steps = StepPrinter::new(csi_output::stdout(), json);
    // A container's processes have the same few ids in every container.
    let drawn = random::from_kernel().or_because(random::MISSING)?;
    let drawn = u64::from_ne_bytes(drawn);
    let runtime = connect::runtime()?;
    let ran = runtime.block_on(async {
        let mut signals =
            Signals::watch_each(defaults.in_shell).or_because(interrupt::UNWATCHED)?;
        let connecting = async {
            let node = Connection {
                session: connect::session(&endpoint, globals).await?,
                endpoint: endpoint.clone(),
            };
            let controller = Connection {
                session: connect::session(&controller, globals).await?,
                endpoint: controller,
            };
            Ok::<_, Error>((node, controller))
        };
        let (node, controller) = tokio::select! {
            connected = connecting => connected?,
            () = signals.next() => return Err(Error::interrupted()),
        };
        let lifecycle = Lifecycle {
            flags,
            context,
            style,
            checks: globals.checks(),
            log: globals.log(),
            node,
            controller,
            steps: RefCell::new(steps),
            name: format!("csi-lifecycle-{}-{drawn:016x}", std::process::id()),
            made: Mutex::default(),
            threads: RefCell::default(),
            files: RefCell::default(),
        };
        let ran = lifecycle.run(&mut signals).await;
        connect::settle(&endpoint, &mut signals).await;
        ran
    });
    // Threads that hang, for example in the resolver, hold nobody up.
    runtime.shutdown_background();
    ran
}
