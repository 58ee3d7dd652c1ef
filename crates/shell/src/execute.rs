//! Executes a command: parses it by the program's own tree and runs it. Where its output goes, and what becomes of its reply,
//! is `statement`'s.

use super::builtins::{self, Builtin};
use super::connections::{self, Connections, DriverStatus};
use super::deferred::Deferred;
use super::edit::Drafts;
use super::ending::Interrupts;
use super::help;
use super::history::History;
use super::known_ids::KnownIds;
use super::line::{Statement, statements};
use super::settings::SessionSettings;
use super::values::{Reply, Values};
use clap::{ArgMatches, FromArgMatches};
use csi_error::{Error, ErrorKind, OrError, Style};
use csi_invocation::interrupt::Signals;
use csi_invocation::parse::parse;
use csi_invocation::rpc_command::Command;
use csi_invocation::watch::watch;
use csi_invocation::{Globals, Program, completion, connect, live_ids};
use csi_output::pager::Paged;
use csi_output::{ShownReply, colour, stdout, terminal};
use csi_proto::wire;
use csi_rpc::Called;
use csi_rpc::facts::{IdKind, Making};
use csi_sys::waits;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::io::{self, Write};
use std::process::{Child, ExitStatus};
use std::time::Duration;
use tokio::runtime::{Builder, Runtime};
use tokio::task::JoinHandle;

/// The columns of help that no terminal shows.
const WIDTH: usize = 80;

/// How long a program that the shell waits for may take to end after SIGTERM.
const TERM_GRACE: Duration = Duration::from_secs(1);

/// Whether more lines are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flow {
    /// They are.
    Continue,
    /// `exit`.
    Leave,
}

/// A session: what is set, what is known, what is connected.
pub struct Shell {
    pub(super) program: Program,
    runtime: Runtime,
    /// What asked to stop since the last line, also while nothing could be interrupted.
    pub(super) interrupts: Interrupts,
    pub(super) connections: Connections,
    /// The flags of the session, which `set` changes.
    pub settings: SessionSettings,
    /// The variables.
    pub values: Values,
    /// The ids in the replies of this session.
    pub ids: KnownIds,
    /// The lines typed so far.
    pub history: History,
    status: DriverStatus,
    prompt: String,
    pub(super) timing: bool,
    interactive: bool,
    pub(super) depth: usize,
    /// The reply of the command that runs, to become a value.
    pub(super) reply: Option<Reply>,
    /// The words of the statement that runs, as they were typed.
    pub(super) typed: Vec<String>,
    /// The line of a script that runs.
    pub(super) place: Option<String>,
    /// Requests of `edit` that were not taken.
    pub(super) drafts: Drafts,
    /// What runs at the end, the last first.
    pub(super) deferred: Vec<Deferred>,
    /// The width of a page of `watch`.
    pub page: Option<usize>,
    /// Whether a program behind `|` may have left a line open: what it writes to stdout is not seen here.
    pub(super) may_be_open: bool,
    /// Whether stdout leads to a program behind `|`.
    pub(super) is_piped: bool,
}

impl Shell {
    /// A session with the flags of the shell's own command line. To be made after the process has taken its place among
    /// namespaces: it starts a thread.
    ///
    /// # Errors
    /// When the system gives no thread.
    pub fn new(
        program: Program,
        base: Globals,
        history: History,
        interactive: bool,
    ) -> Result<Self, Error> {
        // A connection is kept up, and calls are cancelled, while this thread waits for a line.
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .or_because("the shell cannot start")?;
        let interrupts = Interrupts::watch(&runtime, interactive);
        Ok(Self {
            program,
            interrupts: interrupts.or_because("signals cannot be watched")?,
            runtime,
            connections: Connections::default(),
            settings: SessionSettings::new(program, base),
            values: Values::default(),
            ids: KnownIds::default(),
            history,
            status: DriverStatus::default(),
            prompt: String::new(),
            timing: false,
            interactive,
            depth: 0,
            reply: None,
            typed: Vec::new(),
            place: None,
            drafts: Drafts::default(),
            deferred: Vec::new(),
            page: None,
            may_be_open: false,
            is_piped: false,
        })
    }

    /// The prompt.
    pub fn prompt(&mut self) -> String {
        let globals = self.settings.globals_of_shell();
        let connections = &self.connections;
        let prompt = self.status.prompt(&globals, connections, &self.runtime);
        self.prompt = globals.in_context(prompt);
        self.prompt.clone()
    }

    /// The prompt of the line that is typed.
    pub(crate) fn last_prompt(&self) -> &str {
        &self.prompt
    }

    /// The driver's name, as the prompt shows it.
    pub fn driver_name(&self) -> &str {
        self.status.name()
    }

    /// The format of errors.
    pub fn style(&self) -> Style {
        let globals = self.settings.globals_of_shell();
        self.settings.defaults().style(&globals)
    }

    /// Reports an error that was not yet reported.
    pub fn report(&self, error: &Error) {
        colour::report(error, self.style());
    }

    /// Waits for what embedded drivers still do.
    pub fn settle(&mut self) {
        self.runtime.block_on(self.connections.settled());
    }

    /// Runs what a typed line holds.
    ///
    /// # Errors
    /// The first failure.
    pub fn run(&mut self, text: &str) -> Result<Flow, Error> {
        self.forget_interrupts();
        for statement in parsed(text)? {
            if self.run_statement(&statement)? == Flow::Leave {
                return Ok(Flow::Leave);
            }
        }
        Ok(Flow::Continue)
    }

    /// Forgets what asked to stop before: it was not meant for what comes now.
    pub(super) fn forget_interrupts(&mut self) {
        self.runtime.block_on(self.interrupts.forget());
    }

    /// Runs one command of which everything is known.
    pub fn command(&mut self, words: Vec<String>) -> Result<Flow, Error> {
        self.interrupts.stop_if_asked()?;
        let words = without_program(words);
        let asked: Vec<&str> = words.iter().map(String::as_str).collect();
        if matches!(asked[..], ["help" | "?"] | ["help", "help"]) {
            let columns = self.columns().unwrap_or(WIDTH);
            self.show(&help::overview(self.program, columns))?;
            return Ok(Flow::Continue);
        }
        if asked == ["help", "flags"] {
            let columns = self.columns().unwrap_or(WIDTH);
            self.show(&help::flags(self.program, columns))?;
            return Ok(Flow::Continue);
        }
        let matches = match self.parsed(words)? {
            Ok(matches) => matches,
            Err(help) => {
                self.show(&help)?;
                return Ok(Flow::Continue);
            }
        };
        if let Ok(builtin) = Builtin::from_arg_matches(&matches) {
            return self.builtin(builtin);
        }
        let globals = Globals::from_arg_matches(&matches)
            .map_err(|error| Error::unparsed(&error.to_string()))?;
        let mut globals = self.settings.globals(globals, &matches);
        globals.choose_context()?;
        match csi_rpc::called(&matches) {
            Some(called) => self.call(&called, &globals)?,
            None => (self.program.run_tool)(&matches, &globals, &self.settings.defaults())?,
        }
        Ok(Flow::Continue)
    }

    /// What the words of a command say, or the help that they ask for.
    pub(super) fn parsed(&self, words: Vec<String>) -> Result<Result<ArgMatches, String>, Error> {
        let asks_for_help = match parse(builtins::tree(self.program), words.clone()) {
            Ok(matches) => return Ok(Ok(matches)),
            Err(error) => error,
        };
        if asks_for_help.use_stderr() {
            let text = asks_for_help.render().to_string();
            return Err(Error::unparsed(&as_typed_here(&text)));
        }
        // The same, by the tree that has the texts; `help COMMAND` is the short one.
        let words = match words.split_first() {
            Some((help, command)) if help == "help" && !command.is_empty() => {
                let short = std::iter::once("-h".to_owned());
                command.iter().cloned().chain(short).collect()
            }
            _ => words,
        };
        let columns = self.columns().unwrap_or(WIDTH);
        let help = help::pages(self.program, columns).answer(&words);
        let help = help.unwrap_or_else(|| asks_for_help.render().to_string());
        Ok(Err(as_typed_here(&help)))
    }

    /// The columns of the terminal, or of the page of `watch`.
    pub fn columns(&self) -> Option<usize> {
        self.page.or_else(terminal::width)
    }

    /// Stdout. What does not fit goes through a pager where somebody looks.
    fn paged(&self) -> Paged {
        let is_watched = self.page.is_some();
        let is_ending = self.interrupts.is_end_asked();
        Paged::stdout(self.is_interactive() && self.settings.pager && !is_watched && !is_ending)
    }

    /// Shows a text.
    pub(super) fn show(&self, text: &str) -> Result<(), Error> {
        let mut out = self.paged();
        csi_output::written(out.write_all(text.as_bytes()))?;
        csi_output::written(out.finish())
    }

    /// Checks that words are a command, without running it.
    pub(super) fn check(&self, words: &[String]) -> Result<(), Error> {
        self.parsed(without_program(words.to_vec())).map(drop)
    }

    fn call(&mut self, called: &Called<'_>, globals: &Globals) -> Result<(), Error> {
        let defaults = self.settings.defaults();
        let mut command = Command::new(called, globals, &defaults)?;
        self.settings.shape(&mut command.output, self.columns());
        command.output.colour = colour::is_wanted() && self.page.is_none();
        let mut out = self.paged();
        if command.dry_run {
            command.dry_run(&mut out)?;
            return csi_output::written(out.finish());
        }
        let driver = connections::key(globals);
        let method = called.rpc.method;
        let mut bytes: Option<Vec<u8>> = None;
        // Whether the next reply is the next page of the same list.
        let mut goes_on = false;
        let ids = &mut self.ids;
        let mut keep = |reply: &ShownReply<'_>| {
            ids.see(&driver, method.response, reply.bytes);
            match &mut bytes {
                // Messages one after the other are one message, whose lists are joined and whose last token counts: an empty one
                // is said, because it does not stand on the wire.
                Some(bytes) if goes_on => {
                    if let Some(token) = method.response.field("next_token") {
                        wire::put_bytes(bytes, token.number, b"");
                    }
                    bytes.extend_from_slice(reply.bytes);
                }
                bytes => *bytes = Some(reply.bytes.to_vec()),
            }
            goes_on = reply.more || method.server_streaming;
            Ok(())
        };
        let connections = self.connections.clone();
        let sent = block_on(&self.runtime, &mut self.interrupts, async {
            let mut driver = connections.get(globals).await?;
            driver.session = connect::with_deadline_and_metadata(driver.session, globals)?;
            match command.watch {
                Some(pause) => watch(&command, &driver, pause, csi_output::stdout()).await,
                None => command.send(&driver, &mut out, &mut keep).await,
            }
        });
        // Also what has come before a failure.
        let shown = csi_output::written(out.finish());
        if let Some(bytes) = bytes {
            self.reply = Some(Reply::whole(method.response, bytes));
        }
        self.status.note(
            !matches!(&sent, Err(error) if error.kind() == ErrorKind::Rpc(tonic::Code::Unavailable)),
        );
        if !called.rpc.facts.effect.is_reads() {
            self.ids.expire();
        }
        let undone = csi_rpc::maker_of(called.rpc.method).map(|(_, making)| making);
        if let (Some((kind, _)), true) = (undone.and_then(Making::own_id), sent.is_ok()) {
            for request in &command.calls.requests {
                self.ids.forget(&driver, kind, &request.subject);
            }
        }
        sent.and(shown)
    }

    /// The ids of a kind for a completion, from the driver that the line's flags name; asks it where that is needed, for a
    /// moment only.
    pub(crate) fn offered_ids(&mut self, globals: &Globals, kind: IdKind) -> Vec<String> {
        let driver = connections::key(globals);
        if self.ids.is_stale(&driver, kind) {
            let end = tokio::time::Instant::now() + completion::limit(globals);
            let connections = self.connections.clone();
            let listed = self.runtime.block_on(async {
                let connected = tokio::time::timeout_at(end, connections.get(globals)).await;
                let session =
                    connect::with_deadline_and_metadata(connected.ok()?.ok()?.session, globals)
                        .ok()?;
                let left = end.saturating_duration_since(tokio::time::Instant::now());
                Some(live_ids::fetch(&session, kind, left).await)
            });
            // A driver that cannot list is not asked at every key either.
            self.ids.list(&driver, kind, listed.unwrap_or_default());
        }
        self.ids.all(&driver, kind)
    }

    /// Ends the programs when one of `signals` comes: the shell waits for them, and some do not end by themselves. Those that outlive
    /// SIGTERM are killed.
    pub(super) fn end_with_shell(
        &self,
        programs: Vec<OwnedFd>,
        mut signals: Signals,
    ) -> JoinHandle<()> {
        self.runtime.spawn(async move {
            signals.next().await;
            for signal in [Signal::TERM, Signal::KILL] {
                for program in &programs {
                    // This fails only where it has ended.
                    let _ = pidfd_send_signal(program, signal);
                }
                tokio::time::sleep(TERM_GRACE).await;
            }
        })
    }

    /// The signals from now on that end programs. None for those of what was deferred, which has its time.
    pub(super) fn end_signals(&self) -> Option<Signals> {
        let _context = self.runtime.enter();
        (!self.interrupts.are_bound()).then(Signals::watch_end)
    }

    /// Waits for a program that has the terminal, and that `signals` end.
    pub(super) fn ended(
        &self,
        mut program: Child,
        signals: Option<Signals>,
    ) -> io::Result<ExitStatus> {
        let ender = match signals {
            Some(signals) => {
                let handle = pidfd_open(Pid::from_child(&program), PidfdFlags::empty())?;
                Some(self.end_with_shell(vec![handle], signals))
            }
            None => None,
        };
        let status = program.wait();
        if let Some(ender) = ender {
            ender.abort();
        }
        status
    }

    /// What a command says that has failed: that it was interrupted, where a signal has ended its wait for a file.
    pub(super) fn cut_short(error: Error) -> Error {
        match waits::were_cut_short() {
            true => Error::interrupted(),
            false => error,
        }
    }

    /// Ends a line that a command has left open, or a program may have left open: a prompt would hide it.
    pub(crate) fn end_line(&mut self) -> Result<(), Error> {
        let may_be_open = std::mem::take(&mut self.may_be_open);
        let is_dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
        match terminal::width() {
            Some(_) if stdout::line_is_open() => csi_output::print(b"\n"),
            Some(columns) if may_be_open && !is_dumb => {
                let printed = csi_output::print(stdout::fresh_line(columns).as_bytes());
                stdout::set_line_open(false);
                printed
            }
            _ => Ok(()),
        }
    }

    /// Whether the program behind `|` reads no more, so that nothing is to be repeated for it. A script whose own reader has gone goes on.
    pub(super) fn has_lost_program(&self) -> bool {
        self.is_piped && stdout::reader_is_gone()
    }

    /// Whether somebody types.
    pub(crate) fn is_interactive(&self) -> bool {
        self.interactive && self.depth == 0
    }

    /// Waits, unless Ctrl-C ends that.
    pub fn pause(&mut self, time: Duration) -> Result<(), Error> {
        self.until_interrupted(async move {
            tokio::time::sleep(time).await;
            Ok(())
        })
    }

    /// Runs `work` until it is done or Ctrl-C is pressed.
    ///
    /// # Errors
    /// Its own, or that it was interrupted.
    pub(super) fn until_interrupted<T>(
        &mut self,
        work: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        block_on(&self.runtime, &mut self.interrupts, work)
    }
}

/// A text of clap with its usage as it is typed here: without the name of the program.
fn as_typed_here(text: &str) -> String {
    text.replace("Usage: csi ", "Usage: ")
}

/// A command without the name of this program, which an example that was copied from elsewhere begins with.
fn without_program(mut words: Vec<String>) -> Vec<String> {
    match words.as_slice() {
        [csi, _, ..] if csi == "csi" => drop(words.remove(0)),
        [kubectl, csi, _, ..] if kubectl == "kubectl" && csi == "csi" => {
            drop(words.drain(..2));
        }
        _ => {}
    }
    words
}

/// The statements of a text.
///
/// # Errors
/// When its quotes or signs do not fit.
pub fn parsed(text: &str) -> Result<Vec<Statement>, Error> {
    statements(text).or_usage()
}

/// Runs `work` until it is done, Ctrl-C is pressed, or its time is up; then it is dropped, which cancels its call.
fn block_on<T>(
    runtime: &Runtime,
    interrupts: &mut Interrupts,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    runtime.block_on(async {
        tokio::select! {
            result = work => result,
            error = interrupts.next() => Err(error),
        }
    })
}
