//! The calls of a lifecycle: each is logged and checked, noted when it makes something, and printed as one step with
//! its time.

use super::flags::LifecycleFlags;
use super::writer::WriterThread;
use bytes::Bytes;
use csi_call::secrets::masked_reply;
use csi_call::{Advertised, CallError, Connection, Log, call_error};
use csi_error::{Error, Style, code_name, say};
use csi_output::steps::{Step, StepOutcome, StepPrinter};
use csi_proto::{Method, Request, escaped, lock};
use csi_rpc::context::RequestContext;
use csi_rpc::validation::{self, Checks, Replies};
use csi_undo::Made;
use csi_undo::tries::{NextTry, Tries};
use prost::Message as _;
use std::cell::RefCell;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use tonic::Code;

/// Metadata with which the NFS driver says that it did something in another way than usual.
const NOTE: &str = "csi-nfs-note";

/// Everything known about one run.
pub struct Lifecycle<'a, W: Write> {
    pub(super) flags: &'a LifecycleFlags,
    pub(super) context: RequestContext,
    pub(super) style: Style,
    /// What is checked of requests and replies.
    pub(super) checks: Checks,
    /// What is said of each call.
    pub(super) log: Log,
    pub(super) node: Connection,
    pub(super) controller: Connection,
    pub(super) steps: RefCell<StepPrinter<W>>,
    /// Names what this run makes; unique, because a volume of this name is ours to delete.
    pub(super) name: String,
    /// The items that this run has made.
    pub(super) made: Mutex<Made>,
    /// The threads that have worked on data, or still do, and the paths of the data.
    pub(super) threads: RefCell<Vec<(WriterThread, PathBuf)>>,
    /// The files with data, in volumes that stay.
    pub(super) files: RefCell<Vec<PathBuf>>,
}

/// Runs the steps of one volume; of several at once each has a number.
pub(super) struct StepRunner<'r, 'a, W: Write> {
    pub(super) run: &'r Lifecycle<'a, W>,
    pub(super) number: Option<usize>,
    /// What the driver was found to advertise.
    pub(super) advertised: Advertised,
}

/// Makes one call, and logs it.
pub(super) async fn call(
    driver: &Connection,
    log: Log,
    method: &'static Method,
    request: Bytes,
) -> Result<Bytes, CallError> {
    let name = step_name(method);
    log.request(&driver.session, method, &request);
    let started = Instant::now();
    let answer = driver.session.call(method, request.clone()).await;
    let answer = answer.inspect_err(|error| {
        let code = code_name(error.status.code());
        log.call(&name, code, started.elapsed());
    })?;
    log.reply_metadata(answer.metadata());
    let note = answer.metadata().get(NOTE).map(|note| note.to_str());
    if let Some(Ok(note)) = note {
        say!("note: {}", escaped(note));
    }
    let reply = answer.into_inner();
    log.reply(method, &masked_reply(method, &request, &reply));
    log.call(&name, "OK", started.elapsed());
    Ok(reply)
}

impl<'a, W: Write> Lifecycle<'a, W> {
    /// The end of the driver that serves a method.
    pub(super) fn driver(&self, method: &Method) -> &Connection {
        match csi_rpc::is_at_node(method) {
            true => &self.node,
            false => &self.controller,
        }
    }

    /// Reports a failure on stderr, where the run goes on or ends with another.
    pub(super) fn report(&self, error: &Error) {
        let text = error.render(self.style);
        let _ = io::stderr().write_all(text.as_bytes());
    }

    /// Runs the steps of the volume of that number, or those that concern all.
    pub(super) fn runner(
        &self,
        number: Option<usize>,
        advertised: Advertised,
    ) -> StepRunner<'_, 'a, W> {
        StepRunner {
            run: self,
            number,
            advertised,
        }
    }
}

impl<W: Write> StepRunner<'_, '_, W> {
    /// A step of the way up.
    pub(super) async fn step<Q: Request>(
        &self,
        request: &Q,
        describe: impl FnOnce(&Q::Reply) -> String,
    ) -> Result<Q::Reply, Error> {
        self.step_judged(request, |_| true, |reply| Ok(describe(reply)))
            .await
    }

    /// A step of the way up whose call is repeated until its reply is `enough`, for as long as one call may take. `judge` describes
    /// the reply, or says why the step has failed all the same.
    pub(super) async fn step_judged<Q: Request>(
        &self,
        request: &Q,
        enough: impl Fn(&Q::Reply) -> bool,
        judge: impl FnOnce(&Q::Reply) -> Result<String, Error>,
    ) -> Result<Q::Reply, Error> {
        /// Nobody tells when a reply would be another one.
        const PAUSE: Duration = Duration::from_millis(200);
        let started = Instant::now();
        let limit = self.run.node.session.timeout().unwrap_or(Duration::MAX);
        let result = loop {
            let result = self.checked(request).await;
            let goes_on = matches!(&result, Ok(reply) if !enough(reply));
            if !goes_on || started.elapsed() + PAUSE > limit {
                break result;
            }
            tokio::time::sleep(PAUSE).await;
        };
        let judged = result.and_then(|reply| Ok((judge(&reply)?, reply)));
        let (outcome, text) = match &judged {
            Ok((text, _)) => (StepOutcome::Done, text.as_str()),
            Err(error) if self.is_elsewhere(Q::METHOD, error) => {
                let why = "this process serves no Controller: --controller-endpoint";
                (StepOutcome::Skipped, why)
            }
            Err(_) => (StepOutcome::Failed, ""),
        };
        let printed = self.print(&step_name(Q::METHOD), outcome, text, started.elapsed());
        let (_, reply) = judged?;
        printed?;
        Ok(reply)
    }

    /// Makes one call, checks it, and notes it when it may make something.
    async fn checked<Q: Request>(&self, request: &Q) -> Result<Q::Reply, Error> {
        let run = self.run;
        let (method, checks) = (Q::METHOD, &run.checks);
        let name = step_name(method);
        let sent = Bytes::from(request.encode_to_vec());
        validation::request(method, &sent, checks)
            .map_err(|error| Error::usage(error.to_string()).doing(&name))?;
        let driver = run.driver(method);
        // Before it is sent: a call that is interrupted may take effect.
        let number = lock(&run.made).asked(method, &sent);
        let result = self.called(method, &sent).await;
        if let Some(number) = number {
            let (code, reply) = match &result {
                Ok(reply) => (Code::Ok, reply.clone()),
                Err(error) => (error.status.code(), Bytes::new()),
            };
            lock(&run.made).answered(number, &sent, code, &reply);
        }
        let bytes = result.map_err(|error| call_error(&error, &driver.endpoint).doing(&name))?;
        let reply = Q::Reply::decode(bytes.clone())
            .map_err(|error| Error::because("the reply is not valid", &error).doing(&name))?;
        Replies::new(method, &sent, checks)
            .check(&bytes)
            .map_err(|error| Error::local(error.to_string()).doing(&name))?;
        Ok(reply)
    }

    /// Makes a call, and again as long as the driver says that it goes on.
    async fn called(&self, method: &'static Method, request: &Bytes) -> Result<Bytes, CallError> {
        let driver = self.run.driver(method);
        let tries = Tries::of_pending(driver.session.timeout());
        let began = Instant::now();
        let mut number = 0;
        loop {
            let sent = Instant::now();
            let error = match call(driver, self.run.log, method, request.clone()).await {
                Ok(reply) => return Ok(reply),
                Err(error) => error,
            };
            match tries.after(&error, false, number, sent.elapsed(), began.elapsed()) {
                NextTry::Again(pause) => {
                    if number == 0 {
                        say_again(method, error.status.code());
                    }
                    tokio::time::sleep(pause).await;
                }
                _ => return Err(error),
            }
            number += 1;
        }
    }

    pub(super) fn skipped(&self, name: &str, why: &str) -> Result<(), Error> {
        self.print(name, StepOutcome::Skipped, why, Duration::ZERO)
    }

    /// Prints a step.
    ///
    /// # Errors
    /// When stdout cannot be written, but for a reader that has gone: the volume still has to go.
    pub(super) fn print(
        &self,
        name: &str,
        outcome: StepOutcome,
        text: &str,
        took: Duration,
    ) -> Result<(), Error> {
        let step = Step {
            of: self.number,
            name,
            outcome,
            text,
            took,
        };
        csi_output::written(self.run.steps.borrow_mut().step(&step))
    }
}

/// Says that a call is made again.
pub(super) fn say_again(method: &Method, code: Code) {
    let (name, code) = (step_name(method), code_name(code));
    say!("note: {name}: {code}, trying again");
}

/// The command that makes the same call.
pub(super) fn step_name(method: &Method) -> String {
    match csi_rpc::of_method(method) {
        Some((group, rpc)) => group.command_of(rpc),
        None => method.name.to_owned(),
    }
}

/// Paths are text in CSI; those made here are, unless the folder for temporary files is not.
pub(super) fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
