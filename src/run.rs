//! From matches to a running task: opens the session, takes Ctrl-C, and hands over to what does the work.

use crate::arguments::request::RequestSource;
use crate::arguments::secrets::{self, PromptError, Secrets};
use crate::call::Command;
use crate::cli::{self, Globals, Task};
use crate::endpoint::{ConnectOptions, Endpoint, EndpointKind, TlsOptions};
use crate::error::{Error, Style};
use crate::interrupt::{self, asked_to_stop};
use crate::lifecycle::{Driver, Lifecycle, LifecycleFlags};
use crate::output::steps::Steps;
use crate::output::{self, Format};
use crate::proxy::stdio::RelayError;
use crate::rpc::flags::{Context, RequestError, RequestFlags};
use crate::rpc::{Group, Rpc};
use crate::session::Session;
use crate::wait;
use crate::{completion, proxy};
use clap::{ArgMatches, FromArgMatches};
use std::future::Future;
use std::io::{self, Write};
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// Runs what the command line asks for; also returns how its errors are worded.
pub fn run(matches: &ArgMatches, called_as_csc: bool) -> (Result<(), Error>, Style) {
    let globals = match Globals::from_arg_matches(matches) {
        Ok(globals) => globals,
        Err(error) => return (Err(Error::usage(error.to_string())), Style::Text),
    };
    let style = match globals.output(called_as_csc).format {
        _ if called_as_csc => Style::Csc,
        Format::Json | Format::Jsonl => Style::Json,
        _ => Style::Text,
    };
    let result = cli::task(matches)
        .map_err(|error| Error::usage(error.to_string()))
        .and_then(|task| dispatch(task, &globals, called_as_csc, style));
    (result, style)
}

fn dispatch(task: Task, globals: &Globals, called_as_csc: bool, style: Style) -> Result<(), Error> {
    match task {
        Task::Call {
            group,
            rpc,
            matches,
        } => call(group, rpc, &matches, globals, called_as_csc, style),
        Task::Lifecycle(flags) => lifecycle(&flags, globals, style),
        Task::Relay(socket) => relay(&socket, globals),
        Task::Completions(shell) => {
            let script = completion::script(shell, "csi");
            let script =
                script.map_err(|error| Error::because("the script cannot be made", &error))?;
            output::print(&script)
                .map_err(|error| Error::because("stdout cannot be written", &error))
        }
    }
}

fn call(
    group: &'static Group,
    rpc: &'static Rpc,
    matches: &ArgMatches,
    globals: &Globals,
    called_as_csc: bool,
    style: Style,
) -> Result<(), Error> {
    let flags =
        RequestFlags::from_arg_matches(matches).map_err(|error| Error::usage(error.to_string()))?;
    let doing = format!("{} {}", group.name, rpc.verb());
    let context = context(&flags, rpc, called_as_csc).map_err(|error| error.doing(&doing))?;
    let calls = (rpc.calls)(matches, &context).map_err(|error| match error {
        RequestError::Base(_) => Error::local(error.to_string()),
        _ => Error::usage(error.to_string()),
    });
    let output = globals.output(called_as_csc);
    let command = Command {
        group,
        rpc,
        calls: calls.map_err(|error| error.doing(&doing))?,
        output: &output,
        checks: globals.checks(),
        forgives: globals.forgives(),
        keep_going: flags.keep_going,
        log: globals.log(),
    };
    let out = output::stdout();
    if flags.dry_run {
        return command.dry_run(out);
    }
    let endpoint = endpoint(globals)?;
    block_on(async {
        let session = session(&endpoint, globals).await?;
        let report = |error: &Error| {
            let _ = io::stderr().write_all(error.render(style).as_bytes());
        };
        let sent = command.send(&session, &endpoint, out, report).await;
        endpoint.settled().await;
        sent
    })
}

/// What requests are built from beside their own flags.
fn context(flags: &RequestFlags, rpc: &Rpc, called_as_csc: bool) -> Result<Context, Error> {
    let usage = |error: &dyn std::fmt::Display| Error::usage(error.to_string());
    let from_stdin = flags.request.as_ref().is_some_and(RequestSource::is_stdin);
    if from_stdin && flags.secrets_file.as_deref() == Some("-") {
        return Err(Error::usage(
            "--request and --secrets-file cannot both read stdin",
        ));
    }
    let base = match &flags.request {
        None => None,
        Some(source) => Some(
            source
                .read(rpc.method.request)
                .map_err(|error| usage(&error))?,
        ),
    };
    Ok(Context {
        default_capability: !called_as_csc,
        secrets: secrets(flags.secrets_file.as_deref(), &flags.secrets_prompt)?,
        base,
    })
}

/// The secrets of the environment, then those of a file, then those typed in.
fn secrets(file: Option<&str>, prompt: &[String]) -> Result<Secrets, Error> {
    let usage = |error: &dyn std::fmt::Display| Error::usage(error.to_string());
    let mut all = Secrets::from_environment().map_err(|error| usage(&error))?;
    if let Some(file) = file {
        all.extend(Secrets::from_file(file).map_err(|error| usage(&error))?);
    }
    if !prompt.is_empty() {
        all.extend(secrets::prompt(prompt).map_err(|error| match error {
            PromptError::Interrupted => Error::interrupted(),
            error => usage(&error),
        })?);
    }
    Ok(all)
}

/// The endpoint that was named.
fn endpoint(globals: &Globals) -> Result<Endpoint, Error> {
    let named = globals
        .endpoint
        .clone()
        .or_else(|| std::env::var("CSI_ENDPOINT").ok());
    let Some(text) = named.as_deref().filter(|text| !text.is_empty()) else {
        return Err(
            Error::usage("no driver named: give --endpoint or set CSI_ENDPOINT")
                .hint("-e unix:///csi/csi.sock is a driver's socket; -e embedded: needs no driver"),
        );
    };
    if globals.csc.insecure == Some(false) && !text.starts_with("https://") {
        return Err(
            Error::usage("-i=false asks for TLS: name the driver as https://HOST:PORT")
                .hint("--cacert, --cert, --key and --server-name say whom to trust and who calls"),
        );
    }
    Endpoint::parse(text).map_err(|error| Error::usage(error.to_string()))
}

fn connect_options(globals: &Globals) -> ConnectOptions {
    let defaults = ConnectOptions::default();
    let tls = TlsOptions {
        cacert: globals.cacert.clone(),
        cert: globals.cert.clone(),
        key: globals.key.clone(),
        server_name: globals.server_name.clone(),
    };
    ConnectOptions {
        timeout: globals.timeout().unwrap_or(defaults.timeout),
        tls,
    }
}

/// A session with the driver, once it is ready where `--wait` asks for that.
async fn session(endpoint: &Endpoint, globals: &Globals) -> Result<Session, Error> {
    let options = connect_options(globals);
    let open = || async {
        let started = Instant::now();
        let opened = Session::open(endpoint, &options).await;
        if globals.log().metadata {
            let took = started.elapsed().as_secs_f64() * 1000.0;
            let how = if opened.is_ok() {
                "connected"
            } else {
                "not connected"
            };
            eprintln!("{how} to {endpoint} in {took:.1} ms");
        }
        opened
            .map_err(|error| Error::connection(endpoint, &error))?
            .with_timeout(globals.timeout())
            .with_metadata(&globals.metadata())
            .map_err(|error| Error::usage(error.to_string()))
    };
    match globals.wait {
        Some(limit) => wait::until_ready(open, endpoint, limit).await,
        None => open().await,
    }
}

fn lifecycle(flags: &LifecycleFlags, globals: &Globals, style: Style) -> Result<(), Error> {
    let endpoint = endpoint(globals)?;
    // Before any thread starts: a private mount namespace, in which an ordinary user may mount.
    #[cfg(feature = "embedded")]
    if endpoint.kind() == EndpointKind::Embedded {
        match csi_driver_nfs::namespace::enter_private() {
            Ok(entered) if !entered.may_mount() => {
                eprintln!(
                    "note: this user may not mount here: the volume is shown through a symbolic link instead"
                );
            }
            Ok(_) => {}
            Err(error) => return Err(Error::because("no private mount namespace", &error)),
        }
    }
    let secrets = secrets(flags.secrets_file.as_deref(), &[])?;
    let context = Context {
        secrets,
        ..Context::default()
    };
    let controller = match &flags.controller_endpoint {
        None => endpoint.clone(),
        Some(text) => Endpoint::parse(text).map_err(|error| Error::usage(error.to_string()))?,
    };
    let steps = Steps::new(output::stdout(), style == Style::Json);
    runtime()?.block_on(async {
        let node = Driver {
            session: session(&endpoint, globals).await?,
            endpoint: endpoint.clone(),
        };
        let controller = Driver {
            session: session(&controller, globals).await?,
            endpoint: controller,
        };
        let ran = Lifecycle::new(flags, context, node, controller, steps, style)
            .run()
            .await;
        endpoint.settled().await;
        ran
    })
}

fn relay(socket: &str, globals: &Globals) -> Result<(), Error> {
    let endpoint = Endpoint::parse(socket).map_err(|error| Error::usage(error.to_string()))?;
    let options = connect_options(globals);
    block_on(async {
        let relayed = proxy::stdio::relay(&endpoint, &options).await;
        relayed.map_err(|error| match error {
            RelayError::Endpoint(error) => Error::connection(&endpoint, &error),
            error => Error::because("the connection ended", &error),
        })
    })
}

/// Runs `work` until it is done or a signal asks to stop; then the work is dropped, which cancels its call and ends the
/// command of an `exec:` endpoint.
fn block_on(work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    interrupt::second_signal_kills()
        .map_err(|error| Error::because("signals cannot be watched", &error))?;
    runtime()?.block_on(async {
        tokio::select! {
            result = work => result,
            () = asked_to_stop() => Err(Error::interrupted()),
        }
    })
}

/// One thread: starting more costs more than a call.
fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Error::because("the program cannot start", &error))
}
