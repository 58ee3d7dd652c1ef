//! The command `csi proxy`: its listening address, the driver it calls, its signals and its end.

use super::display::Display;
use super::existing::Existing;
use super::journal::Kept;
use super::stdio::{self, RelayError};
use super::take_over::TakeOver;
use super::{Proxy, ProxyError, ProxyFlags};
use crate::recording::drawn::{self, Replays};
use crate::recording::{Recording, Unknown};
use clap::{ArgMatches, Command};
use csi_call::endpoint::socket_spelled_out;
use csi_call::listen::ListenError;
use csi_call::{Endpoint, connection_error};
use csi_error::{Error, OrError, note, say};
use csi_invocation::interrupt::{self, Signals};
use csi_invocation::parse::{self, with_flags};
use csi_invocation::{Defaults, Globals, connect};
use csi_output::colour::{self, Brush};
use csi_output::figure::counted;
use csi_output::page::{PageFile, timeline};
use std::path::Path;

/// The command.
pub fn command() -> Command {
    Command::new("proxy")
        .about("Stand between an orchestrator and a driver, and show, record or disturb their calls")
        .after_help(
            "Nothing is added to a call or left out of it. Secrets are masked in all that is shown and recorded. \
             Callers in Python (grpcio) that get RST_STREAM on a socket set grpc.default_authority to localhost.\n\n\
             Examples:\n  \
             csi proxy --take-over /csi/csi.sock\n  \
             csi proxy --listen unix:///csi/csi.sock --to tcp://127.0.0.1:10000 --record calls.jsonl\n  \
             csi proxy --listen unix:///run/p.sock --to embedded: --fail create-volume=UNAVAILABLE:2 --delay node/publish=5s\n  \
             csi -e 'exec:kubectl exec -i csi-nfs-node-x7k2p -c nfs -- csi proxy --stdio /csi/csi.sock' node get-info",
        )
        .defer(with_flags::<ProxyFlags>)
}

/// Carries calls until a signal asks to stop, or one connection to its end.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    if defaults.in_shell {
        return Err(Error::usage(parse::NOT_IN_A_SHELL));
    }
    let flags = parse::flags::<ProxyFlags>(matches)?;
    match &flags.stdio {
        Some(socket) => relay(socket, globals, defaults),
        None => proxy(&flags, globals),
    }
}

fn relay(socket: &str, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let endpoint = Endpoint::parse(socket).or_usage()?;
    let options = globals.connect_options();
    connect::block_on(defaults, async {
        let relayed = stdio::relay(&endpoint, &options).await;
        relayed.map_err(|error| match error {
            RelayError::Endpoint(error) => connection_error(&endpoint, &error),
            error => Error::because("the connection ended", &error),
        })
    })
}

fn proxy(flags: &ProxyFlags, globals: &Globals) -> Result<(), Error> {
    let json = globals.json_or_lines("a proxy shows lines for people, or JSON with -o json")?;
    if !globals.metadata().is_empty() || globals.wait.is_some() {
        let problem = "--metadata and --wait have no meaning here: a proxy adds nothing to calls, and a driver may come later";
        return Err(Error::usage(problem));
    }
    // Elsewhere it means stdin; a file of that name is ./-.
    if flags.record.as_deref() == Some(Path::new("-")) {
        let problem = "--record keeps the calls in a file, and - is none";
        return Err(Error::usage(problem).hint("-o json prints a line of JSON for each call"));
    }
    let taken = flags.take_over.as_deref().map(TakeOver::parse);
    let taken = taken.transpose().or_usage()?;
    let driver = match (&taken, &flags.to) {
        (Some(taken), _) => Endpoint::parse(&socket_spelled_out(&taken.aside)).or_usage()?,
        (None, Some(text)) => Endpoint::parse(text).or_usage()?,
        (None, None) => connect::endpoint(globals)?,
    };
    let display = Display {
        json,
        metadata: globals.verbosity() > 0,
        unknown: match flags.show_unknown {
            true => Unknown::Fields,
            false => Unknown::Size,
        },
        brush: Brush(!json && colour::is_wanted()),
    };
    let display = (!flags.quiet).then_some(display);
    // A pipe or a device cannot be read again.
    let recorded = flags.record.as_deref().filter(|_| flags.html.is_some());
    if let Some(path) = recorded.filter(|path| path.metadata().is_ok_and(|there| !there.is_file()))
    {
        let problem = format!(
            "--html draws a recording in a file, and {} is none",
            path.display()
        );
        return Err(Error::usage(problem));
    }
    let page = match recorded {
        Some(path) => drawn::page_of(flags.html.as_ref(), path)?,
        None => None,
    };
    let runtime = connect::runtime()?;
    let kept = runtime.block_on(async {
        // The socket must not stay behind, whenever the second signal comes.
        let mut signals = Signals::watch_first().or_because(interrupt::UNWATCHED)?;
        let options = globals.connect_options();
        let proxy = Proxy::start(flags, taken, &driver, &options, display)
            .map_err(|error| proxy_error(&driver, error))?;
        note!(
            "note: calls to {} go to {}",
            proxy.place,
            driver.spelled_out()
        );
        if proxy.place.is_public() {
            note!("note: everybody who reaches this port commands the driver");
        }
        tell_existing(&proxy.existing, flags.reset);
        let (listener, taken) = (proxy.listener, proxy.taken);
        let serving = proxy
            .relay
            .serve(listener, taken, signals.next(), flags.drain);
        let kept = serving.await;
        driver.settled().await;
        Ok::<_, Error>(kept)
    })?;
    runtime.shutdown_background();
    let drawn = match (page, recorded) {
        (Some(page), Some(path)) => draw(page, path),
        _ => Ok(()),
    };
    // The user was told when it happened; a script sees only the exit code.
    match kept {
        Kept { missing: 1.., .. } => {
            if drawn.is_err() {
                say!("warning: no page is drawn of the recording, which lacks calls");
            }
            Err(Error::local("the recording lacks calls").reported())
        }
        Kept { unshown: true, .. } => {
            drawn.and(Err(Error::local("stdout cannot be written").reported()))
        }
        _ => drawn,
    }
}

/// Tells of connections that go past the proxy, or closes them.
fn tell_existing(existing: &Existing, reset: bool) {
    let count = existing.count();
    let they = match count {
        0 => return,
        1 => "its calls go past the proxy until it is",
        _ => "their calls go past the proxy until they are",
    };
    let connections = counted(count, "connection");
    let text = match reset.then(|| existing.close()) {
        None => format!(
            "note: {connections} to the driver existed before: {they} made anew; --reset closes such"
        ),
        Some(Ok(closed)) if closed == count => {
            format!("note: closed {connections} to the driver that existed before")
        }
        Some(Ok(closed)) => format!(
            "warning: closed {closed} of {connections} to the driver that existed before: the others are not its own"
        ),
        Some(Err(error)) => {
            format!("warning: {connections} to the driver cannot be closed: {error}")
        }
    };
    note!("{text}");
}

/// Draws what was recorded.
fn draw(page: PageFile, path: &Path) -> Result<(), Error> {
    let recording = Recording::read(path).or_because("the recording cannot be drawn")?;
    let timeline = drawn::timeline("csi proxy", path, &recording, None, Replays::new());
    page.write(&timeline::page(&timeline))
}

fn proxy_error(driver: &Endpoint, error: ProxyError) -> Error {
    match error {
        ProxyError::Endpoint(error) => connection_error(driver, &error),
        ProxyError::Listen(ListenError::Syntax { .. }) | ProxyError::Circle(_) => {
            Error::usage(error.to_string())
        }
        ProxyError::Record(error) => Error::unusable(error.to_string(), &error),
        error => Error::because(error.to_string(), &error),
    }
}
