//! The connections of a load to one driver, and its calls. A lost connection is opened again.
//!
//! Owns which connection serves a call, and what is kept of its end. Knows no RPC, no flag and no output.

use bytes::Bytes;
use csi_call::advertised::{Asks, DriverEnd, if_served};
use csi_call::session::Lost;
use csi_call::{CallError, Endpoint, Session, call_error};
use csi_error::Error;
use csi_proto::{Method, Request};
use std::time::Duration;
use tonic::Code;

/// The pause after a call that found no driver, so that a load without one does not spin.
const NO_CONNECTION: Duration = Duration::from_millis(100);

/// How many characters of an error message are kept.
const MESSAGE_MAX: usize = 1000;

/// A driver and the connections to it.
pub struct Client {
    /// The endpoint, as on the command line.
    pub endpoint: Endpoint,
    /// At least one.
    pub(super) sessions: Vec<Session>,
}

/// The end of a call.
#[derive(Debug)]
pub(crate) struct CallOutcome {
    /// The status code.
    pub code: Code,
    /// The driver's words; empty for OK.
    pub message: String,
    /// The reply; of a stream nothing.
    pub reply: Bytes,
    /// Whether it may have reached the driver.
    pub is_sent: bool,
}

impl Client {
    /// The deadline of a call; `None` for none.
    pub fn timeout(&self) -> Option<Duration> {
        self.sessions[0].timeout()
    }

    /// Makes one call of a unary RPC, with a deadline of its own.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub(crate) async fn call_within(
        &self,
        timeout: Option<Duration>,
        worker: usize,
        method: &'static Method,
        message: Bytes,
    ) -> Result<Bytes, CallError> {
        let session = self.sessions[worker % self.sessions.len()].clone();
        let answer = session.with_timeout(timeout).call(method, message).await;
        answer.map(tonic::Response::into_inner)
    }

    /// Makes one call, over the connection that `worker` chooses. A stream is read to its end.
    pub async fn call(
        &self,
        worker: usize,
        method: &'static Method,
        message: Bytes,
    ) -> CallOutcome {
        let session = &self.sessions[worker % self.sessions.len()];
        let mut reply = Bytes::new();
        let called = session.each_message(method, message, |one| {
            if !method.server_streaming {
                reply = one;
            }
        });
        match called.await {
            Ok(()) => CallOutcome {
                code: Code::Ok,
                message: String::new(),
                reply,
                is_sent: true,
            },
            Err(error) => {
                if Lost::of(&error.status).is_some() {
                    tokio::time::sleep(NO_CONNECTION).await;
                }
                self.outcome(&error)
            }
        }
    }

    /// The outcome of a failed call: the endpoint's reason for a lost connection says more than the status.
    pub fn outcome(&self, error: &CallError) -> CallOutcome {
        let status = error.status.message();
        let mut message: String = status.chars().take(MESSAGE_MAX).collect();
        let lost = Lost::of(&error.status);
        if lost.is_some()
            && let Some(cause) = self.endpoint.last_error()
        {
            message = cause.to_string();
        }
        CallOutcome {
            code: error.status.code(),
            message,
            reply: Bytes::new(),
            is_sent: lost.is_none_or(|lost| lost.is_sent),
        }
    }
}

/// Both ends of a driver, to ask what it advertises. A service that it has not has no capabilities.
pub struct Ends<'a> {
    /// The connections to the end that serves Node.
    pub node: &'a Client,
    /// The connections to the end that serves Controller.
    pub controller: &'a Client,
}

impl Asks for Ends<'_> {
    type Error = Error;

    async fn ask<Q: Request>(
        &mut self,
        end: DriverEnd,
        request: Q,
    ) -> Result<Option<Q::Reply>, Error> {
        let client = match end {
            DriverEnd::Node => self.node,
            DriverEnd::Controller => self.controller,
        };
        let answer = if_served(client.sessions[0].ask(&request).await);
        answer.map_err(|error| {
            let doing = format!("bench: {}", Q::METHOD.name);
            call_error(&error, &client.endpoint).doing(doing)
        })
    }
}
