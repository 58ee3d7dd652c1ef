//! The calls of a lifecycle: each is one step, printed with its time.

use super::Lifecycle;
use crate::call::call_error;
use crate::endpoint::Endpoint;
use crate::error::Error;
use crate::output::steps::Outcome;
use crate::output::text::escaped;
use crate::session::Session;
use bytes::Bytes;
use csi_proto::schema::Method;
use prost::Message;
use std::io::Write;
use std::time::{Duration, Instant};

/// Metadata with which the NFS driver says that it did something in another way than usual.
const NOTE: &str = "csi-nfs-note";

impl<W: Write> Lifecycle<'_, W> {
    pub(super) async fn node<Q: Message, R: Message + Default>(
        &mut self,
        method: &'static Method,
        request: Q,
        say: impl FnOnce(&R) -> String,
    ) -> Result<R, Error> {
        let (session, endpoint) = (self.node.session.clone(), self.node.endpoint.clone());
        self.call(&session, &endpoint, method, &request, say).await
    }

    pub(super) async fn controller<Q: Message, R: Message + Default>(
        &mut self,
        method: &'static Method,
        request: Q,
        say: impl FnOnce(&R) -> String,
    ) -> Result<R, Error> {
        let (session, endpoint) = (
            self.controller.session.clone(),
            self.controller.endpoint.clone(),
        );
        self.call(&session, &endpoint, method, &request, say).await
    }

    /// One call, printed as a step.
    async fn call<Q: Message, R: Message + Default>(
        &mut self,
        session: &Session,
        endpoint: &Endpoint,
        method: &'static Method,
        request: &Q,
        say: impl FnOnce(&R) -> String,
    ) -> Result<R, Error> {
        let name = step_name(method);
        let started = Instant::now();
        let answered = session
            .call(method, Bytes::from(request.encode_to_vec()))
            .await;
        let took = started.elapsed();
        let result: Result<(R, String), Error> = answered
            .map_err(|error| call_error(&error, endpoint))
            .and_then(|answer| {
                if let Some(note) = answer
                    .metadata()
                    .get(NOTE)
                    .and_then(|note| note.to_str().ok())
                {
                    eprintln!("note: {}", escaped(note));
                }
                let reply = R::decode(answer.into_inner())
                    .map_err(|error| Error::because("the reply is not valid", &error))?;
                let text = say(&reply);
                Ok((reply, text))
            });
        match result {
            Ok((reply, text)) => {
                self.print(&name, Outcome::Done, &text, took)?;
                Ok(reply)
            }
            Err(error) => {
                self.print(&name, Outcome::Failed, "", took)?;
                Err(error.doing(name))
            }
        }
    }

    pub(super) fn skipped(&mut self, name: &str, why: &str) -> Result<(), Error> {
        self.print(name, Outcome::Skipped, why, Duration::ZERO)
    }

    pub(super) fn print(
        &mut self,
        name: &str,
        outcome: Outcome,
        text: &str,
        took: Duration,
    ) -> Result<(), Error> {
        let printed = self.steps.step(name, outcome, text, took);
        // Nobody reads any more: the volume still has to go.
        match printed {
            Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
                Err(Error::because("stdout cannot be written", &error))
            }
            _ => Ok(()),
        }
    }
}

/// The command that makes the same call.
fn step_name(method: &Method) -> String {
    match crate::rpc::of_method(method) {
        Some((group, rpc)) => format!("{} {}", group.name, rpc.verb()),
        None => method.name.to_owned(),
    }
}
