//! Executes a line: replaces its variables, parses the command by the program's own tree, runs it, and sends its output
//! where the line says.

use super::builtins::{self, Builtin};
use super::connections::{self, Connections, DriverStatus};
use super::history::History;
use super::known_ids::KnownIds;
use super::line::{Statement, Word, WordPiece, statements};
use super::pipeline::Pipeline;
use super::settings::SessionSettings;
use super::values::{LAST, Values, Variable};
use crate::error::{Error, ErrorKind, OrError, Style};
use crate::invocation::completion;
use crate::invocation::defaults::Program;
use crate::invocation::globals::Globals;
use crate::invocation::parse::parse;
use crate::invocation::rpc_command::Follower;
use crate::invocation::watch::watch;
use crate::invocation::{connect, live_ids, request};
use crate::output::{self, ShownReply, terminal};
use crate::rpc::facts::{IdKind, Making};
use crate::rpc::{self, Called};
use clap::FromArgMatches;
use csi_proto::schema::Message;
use csi_proto::wire;
use std::future::{Future, poll_fn};
use std::io::{self, Write};
use std::task::Poll;
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Whether more lines are wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// They are.
    Continue,
    /// `exit`.
    Leave,
}

/// A session: what is set, what is known, what is connected.
pub struct Shell {
    pub(super) program: Program,
    runtime: Runtime,
    /// Every Ctrl-C since the last line, also one that came while nothing could be interrupted.
    interrupts: Signal,
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
    reply: Option<Variable>,
    /// The width of a page of `watch`.
    pub page: Option<usize>,
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
        let interrupts = {
            let _context = runtime.enter();
            signal(SignalKind::interrupt()).or_because("signals cannot be watched")?
        };
        Ok(Self {
            program,
            runtime,
            interrupts,
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
            page: None,
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
    pub fn last_prompt(&self) -> &str {
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
        if !error.is_reported() {
            let _ = io::stderr().write_all(error.render(self.style()).as_bytes());
        }
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
        // What was pressed before was not meant for this line.
        self.runtime.block_on(poll_fn(|context| {
            while self.interrupts.poll_recv(context).is_ready() {}
            Poll::Ready(())
        }));
        for statement in parsed(text)? {
            if self.statement(&statement)? == Flow::Leave {
                return Ok(Flow::Leave);
            }
        }
        Ok(Flow::Continue)
    }

    /// Runs one statement.
    ///
    /// # Errors
    /// Its failure.
    pub fn statement(&mut self, statement: &Statement) -> Result<Flow, Error> {
        let started = Instant::now();
        let words = self.expanded(&statement.words)?;
        if let (Some(name), [word], [value]) = (
            &statement.name,
            statement.words.as_slice(),
            words.as_slice(),
        ) && (word.quoted
            || word
                .pieces
                .iter()
                .any(|piece| matches!(piece, WordPiece::Variable(_))))
        {
            self.values.set(name, Variable::Text(value.clone()));
            return Ok(Flow::Continue);
        }
        let mut programs = Vec::new();
        for program in &statement.programs {
            programs.push(self.expanded(program)?);
        }
        let file = match &statement.file {
            None => None,
            Some((word, append)) => Some((self.values_in(word)?, *append)),
        };
        self.reply = None;
        let pipeline = Pipeline::start(&programs, file)?;
        let result = self.command(words);
        let piped = pipeline.finish();
        if self.timing {
            let milliseconds = started.elapsed().as_secs_f64() * 1000.0;
            eprintln!("time: {milliseconds:.1} ms");
        }
        let reply = self.reply.take();
        if let Some(reply) = &reply {
            self.values.set(LAST, reply.clone());
        }
        let flow = result?;
        piped?;
        match (&statement.name, reply) {
            (Some(name), Some(reply)) => self.values.set(name, reply),
            (Some(name), None) => {
                return Err(Error::usage(format!(
                    "the command has no reply that ${name} could be"
                )));
            }
            (None, _) => {}
        }
        Ok(flow)
    }

    fn expanded(&self, words: &[Word]) -> Result<Vec<String>, Error> {
        words.iter().map(|word| self.values_in(word)).collect()
    }

    fn values_in(&self, word: &Word) -> Result<String, Error> {
        let expanded = self.values.expand(word);
        expanded.or_usage()
    }

    /// Runs one command of which everything is known.
    ///
    /// # Errors
    /// Its failure.
    pub fn command(&mut self, mut words: Vec<String>) -> Result<Flow, Error> {
        // An example that was copied from elsewhere.
        match words.as_slice() {
            [csi, _, ..] if csi == "csi" => drop(words.remove(0)),
            [kubectl, csi, _, ..] if kubectl == "kubectl" && csi == "csi" => {
                drop(words.drain(..2));
            }
            _ => {}
        }
        if let [help] = words.as_slice()
            && matches!(help.as_str(), "help" | "?")
        {
            output::print(builtins::overview(self.program).as_bytes())?;
            return Ok(Flow::Continue);
        }
        let matches = match parse(builtins::tree(self.program), words) {
            Ok(matches) => matches,
            Err(error) if error.use_stderr() => {
                return Err(Error::unparsed(&error.render().to_string()));
            }
            Err(help) => {
                output::print(help.render().to_string().as_bytes())?;
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
        match rpc::called(&matches) {
            Some(called) => self.call(&called, &globals)?,
            None => (self.program.run_tool)(&matches, &globals, &self.settings.defaults())?,
        }
        Ok(Flow::Continue)
    }

    fn call(&mut self, called: &Called<'_>, globals: &Globals) -> Result<(), Error> {
        let defaults = self.settings.defaults();
        let mut command = request::command(called, globals, &defaults)?;
        command.output.fit = self.page.or_else(terminal::width);
        let out = output::stdout();
        if command.dry_run {
            return command.dry_run(out);
        }
        let driver = connections::key(globals);
        let mut listener = ReplyKeeper {
            message: called.rpc.method.response,
            driver: &driver,
            ids: &mut self.ids,
            bytes: None,
            goes_on: false,
            streams: called.rpc.method.server_streaming,
            style: defaults.style(globals),
        };
        let connections = self.connections.clone();
        let sent = block_on(&self.runtime, &mut self.interrupts, async {
            let connection = connections.get(globals).await?;
            let session = connect::with_deadline_and_metadata(connection.session, globals)?;
            let endpoint = &connection.endpoint;
            match command.watch {
                Some(pause) => watch(&command, &session, endpoint, pause, out).await,
                None => command.send(&session, endpoint, out, &mut listener).await,
            }
        });
        if let Some(bytes) = listener.bytes {
            let message = called.rpc.method.response;
            self.reply = Some(Variable::Reply { message, bytes });
        }
        self.status.note(
            !matches!(&sent, Err(error) if error.kind() == ErrorKind::Rpc(tonic::Code::Unavailable)),
        );
        if !called.rpc.facts.effect.is_reads() {
            self.ids.expire();
        }
        let undone = rpc::maker_of(called.rpc.method).map(|(_, making)| making);
        if let (Some((kind, _)), true) = (undone.and_then(Making::own_id), sent.is_ok()) {
            for request in &command.calls.requests {
                self.ids.forget(&driver, kind, &request.subject);
            }
        }
        sent
    }

    /// The ids of a kind for a completion, from the driver that the line's flags name; asks it where that is needed, for a
    /// moment only.
    pub fn offered_ids(&mut self, globals: &Globals, kind: IdKind) -> Vec<String> {
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

    /// Whether somebody types.
    pub fn is_interactive(&self) -> bool {
        self.interactive && self.depth == 0
    }

    /// Waits, unless Ctrl-C ends that.
    ///
    /// # Errors
    /// When it did.
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
    pub(super) fn until_interrupted(
        &mut self,
        work: impl Future<Output = Result<(), Error>>,
    ) -> Result<(), Error> {
        block_on(&self.runtime, &mut self.interrupts, work)
    }
}

/// The statements of a text.
///
/// # Errors
/// When its quotes or signs do not fit.
pub fn parsed(text: &str) -> Result<Vec<Statement>, Error> {
    statements(text).or_usage()
}

/// Runs `work` until it is done or Ctrl-C is pressed; then it is dropped, which cancels its call.
fn block_on<T>(
    runtime: &Runtime,
    interrupts: &mut Signal,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    runtime.block_on(async {
        tokio::select! {
            result = work => result,
            _ = interrupts.recv() => Err(Error::interrupted()),
        }
    })
}

/// Keeps what a command's replies hold.
struct ReplyKeeper<'a> {
    message: &'static Message,
    driver: &'a str,
    ids: &'a mut KnownIds,
    bytes: Option<Vec<u8>>,
    /// Whether the next reply is the next page of the same list.
    goes_on: bool,
    streams: bool,
    style: Style,
}

impl Follower for ReplyKeeper<'_> {
    fn failed(&mut self, error: &Error) {
        let _ = io::stderr().write_all(error.render(self.style).as_bytes());
    }

    fn replied(&mut self, reply: &ShownReply<'_>) {
        self.ids.see(self.driver, self.message, reply.bytes);
        match &mut self.bytes {
            // Messages one after the other are one message, whose lists are joined and whose last token counts: an empty one
            // is said, because it does not stand on the wire.
            Some(bytes) if self.goes_on => {
                if let Some(token) = self.message.field("next_token") {
                    wire::put_bytes(bytes, token.number, b"");
                }
                bytes.extend_from_slice(reply.bytes);
            }
            bytes => *bytes = Some(reply.bytes.to_vec()),
        }
        self.goes_on = reply.more || self.streams;
    }
}
