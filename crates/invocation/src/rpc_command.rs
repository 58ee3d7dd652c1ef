//! The command of one RPC: builds its requests from flags, `--request`, secrets and defaults, sends them in order, and prints the
//! replies as they come.
//!
//! Owns paging, `--keep-going` and `--dry-run`. What `-v` says is in `call/log.rs`, hints are in `call/error.rs`,
//! formats in `output/`.

use super::defaults::{Defaults, secrets};
use super::globals::{CscFlags, Globals};
use super::parse;
use bytes::Bytes;
use csi_arguments::request::RequestSource;
use csi_call::pages::Pages;
use csi_call::secrets::masked_reply;
use csi_call::{CallError, Connection, Log, Session, call_error};
use csi_error::{Error, OrError, Style, code_name, say};
use csi_output::documents::Documents;
use csi_output::jsonpath::Shape;
use csi_output::shell_word::word;
use csi_output::{End, Format, OutputError, Printer, ShownReply, colour, json};
use csi_proto::path::contents;
use csi_proto::schema::Message;
use csi_proto::value::{Secrets, ValueError, secret_values};
use csi_proto::wire;
use csi_rpc::context::{RequestContext, RequestFlags, WatchFlags};
use csi_rpc::validation::{self, Checks, Replies};
use csi_rpc::{Called, Calls, EncodedRequest, Group, Rpc, facts::Making, from_reply};
use std::io::Write;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use tonic::Code;

/// A command that is ready to be sent.
pub struct Command {
    /// The RPC's group.
    pub group: &'static Group,
    /// The RPC.
    pub rpc: &'static Rpc,
    /// The requests, in order.
    pub calls: Calls,
    /// The options of output.
    pub output: csi_output::Options,
    /// The checks of requests and replies.
    pub checks: Checks,
    /// The flags that say which codes count as success.
    pub csc: CscFlags,
    /// Whether to go on after a failure.
    pub keep_going: bool,
    /// Whether to print the requests instead of sending them.
    pub dry_run: bool,
    /// How long to wait before the next of the calls that watch; `None` where nothing is watched.
    pub watch: Option<Duration>,
    /// The log of calls on stderr.
    pub log: Log,
    /// The format of errors after which the command goes on.
    pub style: Style,
}

/// Gets the replies of a command while it runs, or parts of them: a page of a list, a message of a stream.
pub type OnReply<'a> = &'a mut dyn FnMut(&ShownReply<'_>) -> Result<(), OutputError>;

impl Command {
    /// The command that matches ask for, ready to be sent.
    ///
    /// # Errors
    /// When its flags, its request or its secrets are not usable.
    pub fn new(called: &Called<'_>, globals: &Globals, defaults: &Defaults) -> Result<Self, Error> {
        let flags = parse::flags(called.matches)?;
        let context = request_context(&flags, called, globals, defaults)
            .map_err(|error| error.doing(called.group.command_of(called.rpc)))?;
        Self::in_context(&flags, called, globals, defaults, &context)
    }

    /// Builds a command as [`Command::new`] does, with the given context for its requests.
    ///
    /// # Errors
    /// As [`Command::new`].
    pub fn in_context(
        flags: &RequestFlags,
        called: &Called<'_>,
        globals: &Globals,
        defaults: &Defaults,
        context: &RequestContext,
    ) -> Result<Self, Error> {
        if flags.dry_run {
            let known = [
                Format::Table,
                Format::Json,
                Format::Jsonl,
                Format::Yaml,
                Format::Jsonpath,
            ];
            globals.format_among(&known, "--dry-run prints the request as JSON")?;
        }
        let watch = match called.rpc.may_be_watched() {
            true => parse::flags::<WatchFlags>(called.matches)?.pause(),
            false => None,
        };
        let calls = called.rpc.calls(called.matches, context).or_usage();
        let mut calls = calls.map_err(|error| error.doing(called.group.command_of(called.rpc)))?;
        // What stands on the next page is no less watched.
        calls.follow_pages |= watch.is_some();
        Ok(Self {
            group: called.group,
            rpc: called.rpc,
            calls,
            watch,
            output: globals.output(defaults.is_csc()),
            checks: globals.checks(),
            csc: globals.csc.clone(),
            keep_going: flags.keep_going,
            dry_run: flags.dry_run,
            log: globals.log(),
            style: defaults.style(globals),
        })
    }

    /// The description of a call in errors.
    fn doing(&self, subject: &str) -> String {
        let space = if subject.is_empty() { "" } else { " " };
        format!("{} {}{space}{subject}", self.group.name, self.rpc.verb())
    }

    /// Prints the requests instead of sending them.
    pub fn dry_run(&self, mut out: impl Write) -> Result<(), Error> {
        let mut left_out = false;
        let message = self.rpc.method.request;
        let mut documents = Documents::new(&self.output, Shape::Message(message))?;
        for request in &self.calls.requests {
            left_out |= !secret_values(self.rpc.method.request, &request.bytes).is_empty();
            let document = json::Document {
                message,
                bytes: &request.bytes,
                secrets: Secrets::Omit,
            };
            let written = documents.write(&document, &mut out);
            written.or_else(no_broken_pipe)?;
        }
        csi_output::written(out.flush())?;
        if left_out {
            say!("note: secrets are left out of the request shown");
        }
        Ok(())
    }

    /// Sends the requests and prints the replies to `out`. The first of the failures after which the command goes on is
    /// returned as well, marked as reported.
    ///
    /// # Errors
    /// The first failure.
    pub async fn send(
        &self,
        driver: &Connection,
        out: impl Write,
        on_reply: OnReply<'_>,
    ) -> Result<(), Error> {
        let (rpc, follow_pages) = (self.rpc, self.calls.follow_pages);
        let mut printer = Printer::new(
            rpc.method,
            rpc.view,
            rpc.csc,
            &self.output,
            follow_pages,
            out,
        )?;
        if self.calls.follow_pages && printer.buffers() {
            say!("note: --sort-by holds all rows back until the last page has arrived");
        }
        let mut first: Option<Error> = None;
        for request in &self.calls.requests {
            match self.one(driver, request, &mut printer, on_reply).await {
                Ok(ControlFlow::Continue(())) => {}
                Ok(ControlFlow::Break(())) => break,
                Err(error) => {
                    let error = error.doing(self.doing(&request.subject));
                    if !self.keep_going {
                        // What has arrived is shown before the error.
                        let _ = printer.finish(End::CutOff);
                        return Err(error);
                    }
                    // The first failure is the command's result; what comes before the end is reported at once.
                    colour::report(&error, self.style);
                    first.get_or_insert(error);
                }
            }
        }
        let end = match first {
            Some(_) => End::CutOff,
            None => End::Whole,
        };
        printer.finish(end).or_else(no_broken_pipe)?;
        first.map_or(Ok(()), |error| Err(error.reported()))
    }

    /// Sends one request, with all pages of a list, and prints nothing: `on_reply` gets the replies.
    pub async fn ask(
        &self,
        driver: &Connection,
        request: &EncodedRequest,
        on_reply: OnReply<'_>,
    ) -> Result<(), Error> {
        let options = csi_output::Options {
            format: Format::Jsonl,
            ..csi_output::Options::default()
        };
        let (method, view) = (self.rpc.method, self.rpc.view);
        let mut printer = Printer::new(method, view, None, &options, true, std::io::sink())?;
        let asked = self.one(driver, request, &mut printer, on_reply);
        let asked = asked.await.map(drop);
        asked.map_err(|error| error.doing(self.doing(&request.subject)))
    }

    async fn one(
        &self,
        driver: &Connection,
        request: &EncodedRequest,
        printer: &mut Printer<impl Write>,
        on_reply: OnReply<'_>,
    ) -> Result<ControlFlow<()>, Error> {
        validation::request(self.rpc.method, &request.bytes, &self.checks).or_usage()?;
        let mut bytes = request.bytes.clone();
        let mut pages = Pages::default();
        loop {
            self.log.request(&driver.session, self.rpc.method, &bytes);
            let started = Instant::now();
            let sent = Bytes::from(bytes.clone());
            let doing = self.doing(&request.subject);
            let answered = self.answered(&driver.session, sent, request, printer, on_reply);
            let reply = match answered.await {
                Ok(reply) => {
                    self.log.call(&doing, "OK", started.elapsed());
                    reply
                }
                Err(CommandFailure::Output(error)) => {
                    no_broken_pipe(error)?;
                    return Ok(ControlFlow::Break(()));
                }
                Err(CommandFailure::Other(error)) => return Err(error),
                Err(CommandFailure::Call(error)) => {
                    let code = code_name(error.status.code());
                    self.log.call(&doing, code, started.elapsed());
                    if self.is_success(error.status.code()) {
                        say!("note: {doing}: {code} taken for success");
                        return Ok(ControlFlow::Continue(()));
                    }
                    return Err(call_error(&error, &driver.endpoint));
                }
            };
            let Some(reply) = reply.filter(|_| self.calls.follow_pages) else {
                return Ok(ControlFlow::Continue(()));
            };
            let next = next_token(self.rpc.method.response, &reply)?;
            if !pages.go_on(&next)? {
                return Ok(ControlFlow::Continue(()));
            }
            // The last occurrence of a field counts: this replaces the token of the page before.
            if let Some(field) = self.rpc.method.request.field("starting_token") {
                bytes.clone_from(&request.bytes);
                wire::put_bytes(&mut bytes, field.number, next.as_bytes());
            }
        }
    }

    /// Makes one call and prints its replies; the reply itself, unless it is a stream.
    async fn answered(
        &self,
        session: &Session,
        sent: Bytes,
        request: &EncodedRequest,
        printer: &mut Printer<impl Write>,
        on_reply: OnReply<'_>,
    ) -> Result<Option<Bytes>, CommandFailure> {
        let method = self.rpc.method;
        let mut replies = Replies::new(method, &sent, &self.checks);
        if !method.server_streaming {
            let answer = session.call(method, sent.clone()).await?;
            self.log.reply_metadata(answer.metadata());
            let bytes = answer.into_inner();
            self.print(request, &sent, &bytes, &mut replies, printer, on_reply)?;
            return Ok(Some(bytes));
        }
        let answer = session.stream(method, sent.clone()).await?;
        self.log.reply_metadata(answer.metadata());
        let mut stream = answer.into_inner();
        while let Some(bytes) = session.next(method, &sent, &mut stream).await? {
            self.print(request, &sent, &bytes, &mut replies, printer, on_reply)?;
        }
        // Beside the table, which scripts may count.
        if let Some(sum) = printer.take_sum() {
            say!("{sum}");
        }
        Ok(None)
    }

    fn print(
        &self,
        request: &EncodedRequest,
        sent: &[u8],
        bytes: &[u8],
        replies: &mut Replies<'_>,
        printer: &mut Printer<impl Write>,
        on_reply: OnReply<'_>,
    ) -> Result<(), CommandFailure> {
        let shown = masked_reply(self.rpc.method, sent, bytes);
        self.log.reply(self.rpc.method, &shown);
        let next = next_token(self.rpc.method.response, bytes).map_err(CommandFailure::Other)?;
        let reply = ShownReply {
            subject: &request.subject,
            request: sent,
            bytes: &shown,
            more: self.calls.follow_pages && !next.is_empty(),
        };
        on_reply(&reply)?;
        match printer.reply(&reply) {
            // A reader who goes away ends what only reads.
            Err(error) if error.is_broken_pipe() && !self.rpc.facts.effect.is_reads() => {}
            printed => printed?,
        }
        let shows_token = matches!(
            self.output.format,
            Format::Json | Format::Yaml | Format::Csc
        );
        if !next.is_empty() && !self.calls.follow_pages && !shows_token {
            let next = word(&next);
            say!("note: there is more: --starting-token {next}, or --all for the whole list");
        }
        // A person would take an empty screen for a fault; scripts read other formats, and stdout stays empty.
        if let Some(things) = things(self.rpc.method.kebab_name)
            && next.is_empty()
            && printer.is_empty_table()
        {
            say!("no {things}");
        }
        // After the reply is shown: a volume with a fault is there all the same.
        replies
            .check(bytes)
            .map_err(|error| CommandFailure::Other(Error::local(error.to_string())))?;
        Ok(())
    }

    fn is_success(&self, code: Code) -> bool {
        let creates = |making: Option<&Making>| making.is_some_and(Making::has_own_id);
        let undone = || csi_rpc::maker_of(self.rpc.method).map(|(_, making)| making);
        match code {
            Code::AlreadyExists if self.csc.with_success_create_already_exists => {
                creates(self.rpc.facts.effect.making())
            }
            Code::NotFound if self.csc.with_success_delete_not_found => creates(undone()),
            _ => false,
        }
    }
}

/// The context of requests: everything beside their own flags that they are built from.
///
/// # Errors
/// When `--request` or the secrets are not usable.
pub fn request_context(
    flags: &RequestFlags,
    called: &Called<'_>,
    globals: &Globals,
    defaults: &Defaults,
) -> Result<RequestContext, Error> {
    let secrets_file = defaults.secrets_file(&flags.secrets_file, globals);
    let secrets_file = secrets_file.as_deref();
    let has_request = flags.request.as_ref().is_some_and(RequestSource::is_stdin);
    let has_secrets = secrets_file == Some("-");
    let mut readers: Vec<&str> = Vec::new();
    readers.extend(has_request.then_some("request"));
    readers.extend(has_secrets.then_some("secrets-file"));
    readers.extend(from_reply::from_stdin(called.matches));
    if let [one, other, ..] = readers.as_slice() {
        return Err(Error::usage(format!(
            "--{one} and --{other} cannot both read stdin"
        )));
    }
    let request = flags.request.as_ref();
    let base = request.map(|source| source.read(called.rpc.method.request));
    let secrets = secrets(secrets_file, &flags.secrets_prompt)?;
    Ok(RequestContext {
        base: base.transpose().or_usage()?,
        ..defaults.request_context(globals, secrets)
    })
}

enum CommandFailure {
    Call(CallError),
    Output(OutputError),
    Other(Error),
}

impl From<CallError> for CommandFailure {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl From<OutputError> for CommandFailure {
    fn from(error: OutputError) -> Self {
        Self::Output(error)
    }
}

/// What an RPC of that name lists.
fn things(kebab_name: &'static str) -> Option<&'static str> {
    match kebab_name.strip_prefix("list-") {
        Some(things) => Some(things),
        None if kebab_name.ends_with("-capabilities") => Some("capabilities"),
        None => None,
    }
}

/// A reader who closes their end early, such as `head`, has what they wanted.
fn no_broken_pipe(error: OutputError) -> Result<(), Error> {
    if error.is_broken_pipe() {
        Ok(())
    } else {
        Err(Error::local(error.to_string()))
    }
}

fn next_token(message: &'static Message, bytes: &[u8]) -> Result<String, Error> {
    let field = "next_token";
    let token = contents(message, bytes, field).pop().unwrap_or_default();
    let text = String::from_utf8(token.to_vec()).map_err(|_| ValueError::Utf8 {
        message: message.name,
        field,
    });
    text.map_err(|error| Error::from(OutputError::Value(error)))
}
