//! From matches to a running task: opens the session, takes Ctrl-C, and hands over to what does the work.

use crate::arguments::capability;
use crate::arguments::request::RequestSource;
use crate::arguments::secrets::{self, PromptError, Secrets};
use crate::call::{Command, Follower};
use crate::cli::{self, Globals, Task};
use crate::endpoint::{ConnectOptions, Endpoint, EndpointKind, TlsOptions};
use crate::error::{Error, Style};
use crate::interrupt::{self, Signals, asked_to_stop};
use crate::lifecycle::{self, Driver, Lifecycle, LifecycleFlags};
use crate::output::replayed::Printer;
use crate::output::steps::Steps;
use crate::output::{self, Format, Reply};
use crate::proxy::stdio::RelayError;
use crate::proxy::{ListenError, Proxy, ProxyError, ProxyFlags, Show};
use crate::recording::{ReadError, Recording};
use crate::replay::{Replay, ReplayFlags};
use crate::rpc::flags::{Context, RequestError, RequestFlags};
use crate::rpc::{Group, Rpc};
use crate::session::Session;
use crate::{bench, completion, proxy, replay, sanity, shell, wait};
use clap::{ArgMatches, FromArgMatches};
use csi_proto::v1::VolumeCapability;
use std::future::Future;
use std::io::{self, Write};
use std::time::Instant;
use tokio::runtime::{Builder, Runtime};

/// What holds where a command's own flags say nothing, and where it is run.
#[derive(Clone, Debug)]
pub struct Ground {
    /// The name by which the program was called.
    pub name: &'static str,
    /// What a required capability is that nobody gave.
    pub capability: Option<VolumeCapability>,
    /// The file of the secrets.
    pub secrets_file: Option<String>,
    /// Whether the process is a shell, which goes on after this command.
    pub in_shell: bool,
}

impl Ground {
    /// That of a process which runs one command.
    pub fn of(name: &'static str) -> Self {
        Self {
            name,
            capability: (name != "csc").then(capability::default),
            secrets_file: None,
            in_shell: false,
        }
    }

    fn is_csc(&self) -> bool {
        self.name == "csc"
    }

    /// How errors are worded.
    pub fn style(&self, globals: &Globals) -> Style {
        match globals.output(self.is_csc()).format {
            _ if self.is_csc() => Style::Csc,
            Format::Json | Format::Jsonl => Style::Json,
            _ => Style::Text,
        }
    }
}

/// Runs what the command line asks for; also returns how its errors are worded.
pub fn run(matches: &ArgMatches, name: &'static str) -> (Result<(), Error>, Style) {
    let ground = Ground::of(name);
    let globals = match Globals::from_arg_matches(matches) {
        Ok(globals) => globals,
        Err(error) => return (Err(Error::usage(error.to_string())), Style::Text),
    };
    let style = ground.style(&globals);
    let result = cli::task(matches)
        .map_err(|error| Error::usage(error.to_string()))
        .and_then(|task| match task {
            Task::Call {
                group,
                rpc,
                matches,
            } => call(group, rpc, &matches, &globals, &ground),
            Task::Shell(flags) => shell::run(&flags, globals),
            task => dispatch(task, &globals, &ground),
        });
    (result, style)
}

/// Runs a task that brings its own way of running; calls are not among them.
pub fn dispatch(task: Task, globals: &Globals, ground: &Ground) -> Result<(), Error> {
    match task {
        Task::Lifecycle(flags) => lifecycle(&flags, globals, ground),
        Task::Bench(bench) => bench::run(&bench, globals, ground),
        Task::Sanity(flags) => sanity::command::sanity(&flags, globals, ground),
        Task::Completions(shell) => {
            let script = completion::script(shell, ground.name);
            let script =
                script.map_err(|error| Error::because("the script cannot be made", &error))?;
            print(&script)
        }
        Task::Proxy(_) | Task::Shell(_) if ground.in_shell => Err(Error::usage(
            "the shell has the terminal: this command is for outside of it",
        )),
        Task::Proxy(flags) => match &flags.stdio {
            Some(socket) => relay(socket, globals, ground),
            None => proxy(&flags, globals),
        },
        Task::Replay(flags) => replay(&flags, globals, ground),
        Task::Shell(_) | Task::Call { .. } => Err(Error::local("not a task of its own")),
    }
}

/// Writes to stdout what is not a reply.
///
/// # Errors
/// When stdout cannot be written.
pub fn print(bytes: &[u8]) -> Result<(), Error> {
    output::print(bytes).map_err(|error| Error::because("stdout cannot be written", &error))
}

/// What the one-shot command says about its failures on the way.
struct Reporter(Style);

impl Follower for Reporter {
    fn failed(&mut self, error: &Error) {
        let _ = io::stderr().write_all(error.render(self.0).as_bytes());
    }

    fn replied(&mut self, _: &Reply<'_>) {}
}

fn call(
    group: &'static Group,
    rpc: &'static Rpc,
    matches: &ArgMatches,
    globals: &Globals,
    ground: &Ground,
) -> Result<(), Error> {
    let command = command(group, rpc, matches, globals, ground)?;
    let out = output::stdout();
    if command.dry_run {
        return command.dry_run(out);
    }
    let endpoint = endpoint(globals)?;
    block_on(ground, async {
        let session = session(&endpoint, globals).await?;
        let mut reporter = Reporter(ground.style(globals));
        let sent = command.send(&session, &endpoint, out, &mut reporter).await;
        endpoint.settled().await;
        sent
    })
}

/// The command that matches ask for, ready to be sent.
///
/// # Errors
/// When its flags, its request or its secrets are not usable.
pub fn command(
    group: &'static Group,
    rpc: &'static Rpc,
    matches: &ArgMatches,
    globals: &Globals,
    ground: &Ground,
) -> Result<Command, Error> {
    let flags =
        RequestFlags::from_arg_matches(matches).map_err(|error| Error::usage(error.to_string()))?;
    let doing = format!("{} {}", group.name, rpc.verb());
    let context = context(&flags, rpc, ground).map_err(|error| error.doing(&doing))?;
    command_in(group, rpc, matches, globals, ground, &context)
}

/// As [`command`], with what its requests are built from.
///
/// # Errors
/// As [`command`].
pub fn command_in(
    group: &'static Group,
    rpc: &'static Rpc,
    matches: &ArgMatches,
    globals: &Globals,
    ground: &Ground,
    context: &Context,
) -> Result<Command, Error> {
    let flags =
        RequestFlags::from_arg_matches(matches).map_err(|error| Error::usage(error.to_string()))?;
    let doing = format!("{} {}", group.name, rpc.verb());
    let calls = (rpc.calls)(matches, context).map_err(|error| match error {
        RequestError::Base(_) => Error::local(error.to_string()),
        _ => Error::usage(error.to_string()),
    });
    Ok(Command {
        group,
        rpc,
        calls: calls.map_err(|error| error.doing(&doing))?,
        output: globals.output(ground.is_csc()),
        checks: globals.checks(),
        forgives: globals.forgives(),
        keep_going: flags.keep_going,
        dry_run: flags.dry_run,
        log: globals.log(),
    })
}

/// What requests are built from beside their own flags.
///
/// # Errors
/// When `--request` or the secrets are not usable.
pub fn context(flags: &RequestFlags, rpc: &Rpc, ground: &Ground) -> Result<Context, Error> {
    let usage = |error: &dyn std::fmt::Display| Error::usage(error.to_string());
    let from_stdin = flags.request.as_ref().is_some_and(RequestSource::is_stdin);
    let secrets_file = flags
        .secrets_file
        .as_deref()
        .or(ground.secrets_file.as_deref());
    if from_stdin && secrets_file == Some("-") {
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
        default_capability: ground.capability.clone(),
        secrets: secrets(secrets_file, &flags.secrets_prompt)?,
        base,
    })
}

/// The secrets of the environment, then those of a file, then those typed in.
///
/// # Errors
/// When they cannot be read.
pub fn secrets(file: Option<&str>, prompt: &[String]) -> Result<Secrets, Error> {
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
///
/// # Errors
/// When there is none, or it is not one.
pub fn endpoint(globals: &Globals) -> Result<Endpoint, Error> {
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

/// How to connect.
pub fn connect_options(globals: &Globals) -> ConnectOptions {
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

/// A session with the driver, without a command's deadline and metadata.
///
/// # Errors
/// Why there is no connection.
pub async fn open(endpoint: &Endpoint, globals: &Globals) -> Result<Session, Error> {
    let options = connect_options(globals);
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
    opened.map_err(|error| Error::connection(endpoint, &error))
}

/// A session with the deadline and the metadata of a command.
///
/// # Errors
/// When the metadata cannot be sent.
pub fn equipped(session: Session, globals: &Globals) -> Result<Session, Error> {
    session
        .with_timeout(globals.timeout())
        .with_metadata(&globals.metadata())
        .map_err(|error| Error::usage(error.to_string()))
}

/// A session for a command, once the driver is ready where `--wait` asks for that.
///
/// # Errors
/// Why there is none.
pub async fn session(endpoint: &Endpoint, globals: &Globals) -> Result<Session, Error> {
    let open = || async { equipped(open(endpoint, globals).await?, globals) };
    match globals.wait {
        Some(limit) => wait::until_ready(open, endpoint, limit).await,
        None => open().await,
    }
}

/// Lets an ordinary user mount in a namespace of this process's own. To be called before any thread starts.
///
/// # Errors
/// When the namespace cannot be entered half-way.
pub fn private_mounts(endpoint: &Endpoint) -> Result<(), Error> {
    if endpoint.kind() != EndpointKind::Embedded {
        return Ok(());
    }
    #[cfg(feature = "embedded")]
    match csi_nfs::namespace::enter_private() {
        Ok(entered) if !entered.may_mount() => {
            eprintln!(
                "note: this user may not mount here: the volume is shown through a symbolic link instead"
            );
        }
        Ok(_) => {}
        Err(error) => return Err(Error::because("no private mount namespace", &error)),
    }
    Ok(())
}

fn lifecycle(flags: &LifecycleFlags, globals: &Globals, ground: &Ground) -> Result<(), Error> {
    let output = globals.output(false);
    for (given, flag) in [
        (!output.columns.is_empty(), "--columns"),
        (output.sort_by.is_some(), "--sort-by"),
    ] {
        if given {
            let problem = format!("{flag} has no meaning here: a lifecycle prints steps, no table");
            return Err(Error::usage(problem).hint("-o json prints one object a step"));
        }
    }
    let endpoint = endpoint(globals)?;
    let controller = match &flags.controller_endpoint {
        None => endpoint.clone(),
        Some(text) => Endpoint::parse(text).map_err(|error| Error::usage(error.to_string()))?,
    };
    if !ground.in_shell {
        private_mounts(&endpoint)?;
    }
    let style = ground.style(globals);
    let secrets_file = flags
        .secrets_file
        .as_deref()
        .or(ground.secrets_file.as_deref());
    let secrets = secrets(secrets_file, &[])?;
    let context = Context {
        secrets,
        ..Context::default()
    };
    let steps = Steps::new(output::stdout(), style == Style::Json);
    let settings = lifecycle::Settings {
        style,
        checks: globals.checks(),
        log: globals.log(),
    };
    let runtime = runtime()?;
    let ran = runtime.block_on(async {
        let mut signals = Signals::watch();
        let connecting = async {
            let node = Driver {
                session: session(&endpoint, globals).await?,
                endpoint: endpoint.clone(),
            };
            let controller = Driver {
                session: session(&controller, globals).await?,
                endpoint: controller,
            };
            Ok::<_, Error>((node, controller))
        };
        let (node, controller) = tokio::select! {
            connected = connecting => connected?,
            () = signals.next() => return Err(Error::interrupted()),
        };
        let ran = Lifecycle::new(flags, context, settings, node, controller, steps)
            .run(&mut signals)
            .await;
        tokio::select! {
            () = endpoint.settled() => {}
            () = signals.next() => {}
        }
        ran
    });
    // Threads that hang, for example in the resolver, hold nobody up.
    runtime.shutdown_background();
    ran
}

fn relay(socket: &str, globals: &Globals, ground: &Ground) -> Result<(), Error> {
    let endpoint = Endpoint::parse(socket).map_err(|error| Error::usage(error.to_string()))?;
    let options = connect_options(globals);
    block_on(ground, async {
        let relayed = proxy::stdio::relay(&endpoint, &options).await;
        relayed.map_err(|error| match error {
            RelayError::Endpoint(error) => Error::connection(&endpoint, &error),
            error => Error::because("the connection ended", &error),
        })
    })
}

fn proxy(flags: &ProxyFlags, globals: &Globals) -> Result<(), Error> {
    let json = json_or_lines(
        globals,
        "a proxy shows lines for people, or JSON with -o json",
    )?;
    if !globals.metadata().is_empty() || globals.wait.is_some() {
        let problem = "--metadata and --wait have no meaning here: a proxy adds nothing to calls, and a driver may come later";
        return Err(Error::usage(problem));
    }
    let driver = match (&flags.take_over, &flags.to) {
        (Some(socket), _) => {
            let aside = proxy::aside(socket).map_err(|error| Error::usage(error.to_string()))?;
            Endpoint::parse(&aside).map_err(|error| Error::usage(error.to_string()))?
        }
        (None, Some(text)) => {
            Endpoint::parse(text).map_err(|error| Error::usage(error.to_string()))?
        }
        (None, None) => endpoint(globals)?,
    };
    let show = Show {
        json,
        metadata: globals.verbosity() > 0,
    };
    // The socket must not stay behind, whenever the second signal comes.
    interrupt::second_signal_kills()
        .map_err(|error| Error::because("signals cannot be watched", &error))?;
    let runtime = runtime()?;
    runtime.block_on(async {
        let mut signals = Signals::watch();
        let proxy = Proxy::start(flags, &driver, &connect_options(globals), show)
            .map_err(|error| proxy_error(&driver, error))?;
        eprintln!(
            "note: calls to {} go to {}",
            proxy.place,
            driver.spelled_out()
        );
        if proxy.is_public {
            eprintln!("note: everybody who reaches this port commands the driver");
        }
        proxy.serve(signals.next()).await;
        driver.settled().await;
        Ok::<_, Error>(())
    })?;
    runtime.shutdown_background();
    Ok(())
}

fn replay(flags: &ReplayFlags, globals: &Globals, ground: &Ground) -> Result<(), Error> {
    let json = json_or_lines(
        globals,
        "a replay shows a line a call, or JSON with -o json",
    )?;
    if flags.file.to_str() == Some("-") && flags.secrets_file.as_deref() == Some("-") {
        let problem = "the recording and --secrets-file cannot both be read from stdin";
        return Err(Error::usage(problem));
    }
    let endpoint = endpoint(globals)?;
    let recording = Recording::read(&flags.file).map_err(|error| match &error {
        ReadError::Io { cause, .. } => Error::usage(error.to_string()).caused_by(cause),
        _ => Error::usage(error.to_string()),
    })?;
    if recording.is_cut {
        replay::note("the last call of the recording is cut off and left out");
    }
    let secrets_file = flags
        .secrets_file
        .as_deref()
        .or(ground.secrets_file.as_deref());
    let secrets = secrets(secrets_file, &[])?;
    if !ground.in_shell {
        private_mounts(&endpoint)?;
    }
    let printer = Printer::new(output::stdout(), json);
    block_on(ground, async {
        let session = session(&endpoint, globals).await?;
        let (secrets, log) = (secrets.reveal(), globals.log());
        let replay = Replay::new(flags, &recording, session, &endpoint, secrets, log, printer);
        let replayed = replay.run().await;
        endpoint.settled().await;
        replayed
    })
}

/// Whether a command that prints no replies is to print JSON.
fn json_or_lines(globals: &Globals, has: &str) -> Result<bool, Error> {
    let output = globals.output(false);
    if !output.columns.is_empty() || output.sort_by.is_some() {
        return Err(Error::usage(format!(
            "--columns and --sort-by have no meaning here: {has}"
        )));
    }
    match output.format {
        Format::Table => Ok(false),
        Format::Json | Format::Jsonl => Ok(true),
        _ => Err(Error::usage(format!(
            "this format has no meaning here: {has}"
        ))),
    }
}

fn proxy_error(driver: &Endpoint, error: ProxyError) -> Error {
    match error {
        ProxyError::Endpoint(error) => Error::connection(driver, &error),
        ProxyError::Listen(ListenError::Syntax { .. }) | ProxyError::Circle(_) => {
            Error::usage(error.to_string())
        }
        error => {
            let message = error.to_string();
            match std::error::Error::source(&error) {
                Some(cause) => Error::because(message, cause),
                None => Error::local(message),
            }
        }
    }
}

/// Runs `work` until it is done or a signal asks to stop; then the work is dropped, which cancels its call and ends the
/// command of an `exec:` endpoint.
fn block_on(ground: &Ground, work: impl Future<Output = Result<(), Error>>) -> Result<(), Error> {
    // A shell goes on after the signal.
    if !ground.in_shell {
        interrupt::second_signal_kills()
            .map_err(|error| Error::because("signals cannot be watched", &error))?;
    }
    runtime()?.block_on(async {
        tokio::select! {
            result = work => result,
            () = asked_to_stop() => Err(Error::interrupted()),
        }
    })
}

/// One thread: starting more costs more than a call.
///
/// # Errors
/// When the system refuses.
pub fn runtime() -> Result<Runtime, Error> {
    let built = Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Error::because("the program cannot start", &error))
}
