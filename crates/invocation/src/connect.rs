//! Connections for commands: the driver that the flags name, a session with it, and the runtime that calls run on.

use super::defaults::Defaults;
use super::globals::Globals;
use super::interrupt::{self, Signals};
use csi_call::error::may_come;
use csi_call::{Connection, Endpoint, Session, connection_error, wait};
use csi_error::{Error, OrError, say};
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// The text that names the driver, by the flag or by the variable. An empty variable is as one that is not set.
pub fn named(globals: &Globals) -> Option<String> {
    let variable = || std::env::var("CSI_ENDPOINT").ok();
    let flag = globals.endpoint.clone();
    flag.or_else(|| variable().filter(|text| !text.is_empty()))
}

/// The endpoint that was named.
///
/// # Errors
/// When there is none, or it is not one.
pub fn endpoint(globals: &Globals) -> Result<Endpoint, Error> {
    let Some(text) = named(globals) else {
        return Err(Error::usage(
            "no driver named: give --endpoint, or set CSI_ENDPOINT",
        )
        .hint("-e unix:///csi/csi.sock is a driver's socket; -e embedded: needs no driver; --context takes one of `csi context list`"));
    };
    if globals.csc.insecure == Some(false) && !text.starts_with("https://") {
        return Err(
            Error::usage("-i=false asks for TLS: name the driver as https://HOST:PORT")
                .hint("--cacert, --cert, --key and --server-name say whom to trust and who calls"),
        );
    }
    Endpoint::parse(&text).or_usage()
}

/// The endpoint for a tool that makes and deletes, or puts a driver under load. The current context alone does not name it:
/// nobody is to do that to a driver by habit.
///
/// # Errors
/// As [`endpoint`], and where the current context alone names it.
pub fn endpoint_named_for(tool: &str, globals: &Globals) -> Result<Endpoint, Error> {
    match &globals.chosen {
        Some(chosen) if chosen.gives_driver_by_habit() => {
            let (name, driver) = (&chosen.name, &chosen.context.endpoint);
            let problem = format!(
                "{tool} does not take its driver from the current context alone, which is {name} ({driver})"
            );
            Err(Error::usage(problem).hint(format!(
                "if you mean it, type: csi --context {name} {tool} …"
            )))
        }
        _ => endpoint(globals),
    }
}

/// A session with the driver, without a command's deadline and metadata.
pub async fn open(endpoint: &Endpoint, globals: &Globals) -> Result<Session, Error> {
    let options = globals.connect_options();
    let started = Instant::now();
    let opened = Session::open(endpoint, &options).await;
    if globals.log().metadata {
        let took = started.elapsed().as_secs_f64() * 1000.0;
        let how = if opened.is_ok() {
            "connected"
        } else {
            "not connected"
        };
        say!("{how} to {endpoint} in {took:.1} ms");
    }
    opened.map_err(|error| {
        let offers = globals.wait.is_none() && may_come(endpoint, &error);
        connection_error(endpoint, &error).with_hint(offers.then_some("--wait 1m waits for it"))
    })
}

/// A session with the deadline and the metadata of a command.
pub fn with_deadline_and_metadata(session: Session, globals: &Globals) -> Result<Session, Error> {
    session
        .with_timeout(globals.timeout())
        .with_metadata(&globals.metadata())
        .or_usage()
}

/// A session for a command, once the driver is ready where `--wait` asks for that.
pub async fn session(endpoint: &Endpoint, globals: &Globals) -> Result<Session, Error> {
    let open = || async { with_deadline_and_metadata(open(endpoint, globals).await?, globals) };
    match globals.wait {
        Some(limit) => wait::until_ready(open, endpoint, limit).await,
        None => open().await,
    }
}

/// Lets an ordinary user mount in a namespace of this process's own, unless a shell has done so. To be called before any
/// thread starts.
///
/// # Errors
/// When the namespace cannot be entered half-way.
pub fn private_mounts(endpoint: &Endpoint, defaults: &Defaults) -> Result<(), Error> {
    if defaults.in_shell || !endpoint.is_embedded() {
        return Ok(());
    }
    #[cfg(feature = "embedded")]
    match csi_nfs::process::namespace::enter_private() {
        Ok(entered) if !entered.may_mount() => {
            say!(
                "note: this user may not mount here: the volume is shown through a symbolic link instead"
            );
        }
        Ok(_) => {}
        Err(error) => return Err(Error::because("no private mount namespace", &error)),
    }
    Ok(())
}

/// Runs `work` until it is done or a signal asks to stop; then the work is dropped, which cancels its call and ends the
/// command of an `exec:` endpoint.
pub fn block_on<T>(
    defaults: &Defaults,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    let runtime = runtime()?;
    runtime.block_on(async {
        // Before the work begins. A shell goes on after the second signal.
        let mut signals = match defaults.in_shell {
            true => Signals::watch(),
            false => Signals::watch_first().or_because(interrupt::UNWATCHED)?,
        };
        tokio::select! {
            result = work => result,
            () = signals.next() => Err(Error::interrupted()),
        }
    })
}

/// Does work with the driver that the flags name, and lets what is inside this process come to an end.
///
/// # Errors
/// The work's own; when there is no connection.
pub fn with_driver<T>(
    globals: &Globals,
    defaults: &Defaults,
    work: impl AsyncFnOnce(&Connection) -> Result<T, Error>,
) -> Result<T, Error> {
    let endpoint = endpoint(globals)?;
    block_on(defaults, async {
        let session = session(&endpoint, globals).await?;
        let driver = Connection { endpoint, session };
        let worked = work(&driver).await;
        driver.endpoint.settled().await;
        worked
    })
}

/// Waits for what an embedded driver still does, unless a signal comes.
pub async fn settle(endpoint: &Endpoint, signals: &mut Signals) {
    tokio::select! {
        () = endpoint.settled() => {}
        () = signals.next() => {}
    }
}

/// A runtime of one thread: starting more costs more than a call.
pub fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_current_thread().enable_all().build();
    built.or_because("the program cannot start")
}

#[cfg(test)]
mod tests {
    use csi_call::error::only_reads;
    use csi_proto::tables::METHODS;

    #[test]
    fn hints_know_which_calls_change_nothing() {
        for method in METHODS {
            let name = method.name;
            assert_eq!(only_reads(method), csi_rpc::only_reads(method), "{name}");
        }
    }
}
