//! The calls of a lifecycle: logged and checked like any other; on the way up each is one step, printed with its time.

use super::{Lifecycle, say};
use crate::call::endpoint::Endpoint;
use crate::call::error::call_error;
use crate::call::session::{Session, leaves_it_open};
use crate::error::{Error, code_name};
use crate::output::steps::Outcome;
use crate::rpc::validation::{self, Checks, Replies};
use bytes::Bytes;
use csi_proto::Request;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use prost::Message;
use std::io::{self, Write};
use std::time::{Duration, Instant};

/// Metadata with which the NFS driver says that it did something in another way than usual.
const NOTE: &str = "csi-nfs-note";

/// A driver's connection and how it was named.
#[derive(Clone)]
pub struct Driver {
    /// The connection.
    pub session: Session,
    /// How it was named.
    pub endpoint: Endpoint,
}

/// A call that failed.
#[derive(Debug)]
pub(super) struct Failure {
    /// Why.
    pub error: Error,
    /// Whether it may have taken effect all the same, or may still.
    pub may_have_happened: bool,
}

impl Failure {
    fn nothing_happened(error: Error) -> Self {
        Self {
            error,
            may_have_happened: false,
        }
    }

    fn after_all(error: Error) -> Self {
        Self {
            error,
            may_have_happened: true,
        }
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        failure.error
    }
}

impl<W: Write> Lifecycle<'_, W> {
    /// A step of the way up, at the node.
    pub(super) async fn node<Q: Request>(
        &mut self,
        request: &Q,
        tell: impl FnOnce(&Q::Reply) -> String,
    ) -> Result<Q::Reply, Failure> {
        let driver = self.node.clone();
        self.step(&driver, request, tell).await
    }

    /// A step of the way up, at the controller.
    pub(super) async fn controller<Q: Request>(
        &mut self,
        request: &Q,
        tell: impl FnOnce(&Q::Reply) -> String,
    ) -> Result<Q::Reply, Failure> {
        let driver = self.controller.clone();
        self.step(&driver, request, tell).await
    }

    async fn step<Q: Request>(
        &mut self,
        driver: &Driver,
        request: &Q,
        tell: impl FnOnce(&Q::Reply) -> String,
    ) -> Result<Q::Reply, Failure> {
        let started = Instant::now();
        let checks = self.settings.checks;
        let result = self.attempt(driver, request, &checks).await;
        let (outcome, text) = match &result {
            Ok(reply) => (Outcome::Done, tell(reply)),
            Err(_) => (Outcome::Failed, String::new()),
        };
        let printed = self.print(&step_name(Q::METHOD), outcome, &text, started.elapsed());
        let reply = result?;
        printed.map_err(Failure::after_all)?;
        Ok(reply)
    }

    /// One call, logged and checked, not printed.
    pub(super) async fn attempt<Q: Request>(
        &self,
        driver: &Driver,
        request: &Q,
        checks: &Checks,
    ) -> Result<Q::Reply, Failure> {
        let method = Q::METHOD;
        let name = step_name(method);
        let sent = Bytes::from(request.encode_to_vec());
        validation::request(method, &sent, checks).map_err(|error| {
            Failure::nothing_happened(Error::usage(error.to_string()).doing(&name))
        })?;
        let log = self.settings.log;
        log.request(&driver.session, method, &sent);
        let started = Instant::now();
        let answer = match driver.session.call(method, sent.clone()).await {
            Ok(answer) => answer,
            Err(error) => {
                let code = error.status.code();
                log.call(&name, code_name(code), started.elapsed());
                return Err(Failure {
                    error: call_error(&error, &driver.endpoint).doing(name),
                    may_have_happened: leaves_it_open(code),
                });
            }
        };
        log.reply_metadata(answer.metadata());
        let note = answer.metadata().get(NOTE).map(|note| note.to_str());
        if let Some(Ok(note)) = note {
            say(&format!("note: {}", escaped(note)));
        }
        let bytes = answer.into_inner();
        log.reply(method, &bytes);
        log.call(&name, "OK", started.elapsed());
        let reply = Q::Reply::decode(bytes.clone()).map_err(|error| {
            Failure::after_all(Error::because("the reply is not valid", &error).doing(&name))
        })?;
        Replies::new(method, &sent, checks)
            .check(&bytes)
            .map_err(|error| Failure::after_all(Error::local(error.to_string()).doing(&name)))?;
        Ok(reply)
    }

    pub(super) fn skipped(&mut self, name: &str, why: &str) -> Result<(), Error> {
        self.print(name, Outcome::Skipped, why, Duration::ZERO)
    }

    /// Prints a step.
    ///
    /// # Errors
    /// When stdout cannot be written, but for a reader that has gone: the volume still has to go.
    pub(super) fn print(
        &mut self,
        name: &str,
        outcome: Outcome,
        text: &str,
        took: Duration,
    ) -> Result<(), Error> {
        match self.steps.step(name, outcome, text, took) {
            Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
                Err(Error::because("stdout cannot be written", &error))
            }
            _ => Ok(()),
        }
    }
}

/// The command that makes the same call.
pub(super) fn step_name(method: &Method) -> String {
    match crate::rpc::of_method(method) {
        Some((group, rpc)) => format!("{} {}", group.name, rpc.verb()),
        None => method.name.to_owned(),
    }
}
