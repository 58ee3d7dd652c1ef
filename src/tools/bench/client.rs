//! Calls under load: one driver, several connections, which are made anew when they are lost.
//!
//! Owns which connection serves a call, and what is kept of its end. Knows no RPC, no flag and no output.

use crate::call::endpoint::Endpoint;
use crate::call::session::{CallError, Lost, Session};
use bytes::Bytes;
use csi_proto::schema::Method;
use std::time::Duration;
use tonic::Code;

/// How long a call waits that found no driver, so that a load without one does not spin.
const NO_CONNECTION: Duration = Duration::from_millis(100);

/// How many characters of an error message are kept.
const MESSAGE_MAX: usize = 1000;

/// A driver and the connections to it.
pub struct Client {
    /// How it was named.
    pub endpoint: Endpoint,
    /// At least one.
    sessions: Vec<Session>,
}

/// How a call ended.
#[derive(Debug)]
pub struct Outcome {
    /// Its code.
    pub code: Code,
    /// The driver's words; empty for OK.
    pub message: String,
    /// The reply; of a stream nothing.
    pub reply: Bytes,
}

impl Client {
    /// A client over these connections.
    pub fn new(endpoint: &Endpoint, first: Session, more: Vec<Session>) -> Self {
        let mut sessions = vec![first];
        sessions.extend(more);
        Self {
            endpoint: endpoint.clone(),
            sessions,
        }
    }

    /// The deadline of a call; `None` for none.
    pub fn timeout(&self) -> Option<Duration> {
        self.sessions[0].timeout()
    }

    /// One call, over the connection that `lane` chooses. Of a stream all is read.
    pub async fn call(&self, lane: usize, method: &'static Method, message: Bytes) -> Outcome {
        let session = &self.sessions[lane % self.sessions.len()];
        self.call_over(session, method, message).await
    }

    /// As [`Client::call`], with another deadline.
    pub async fn call_within(
        &self,
        timeout: Option<Duration>,
        lane: usize,
        method: &'static Method,
        message: Bytes,
    ) -> Outcome {
        let session = self.sessions[lane % self.sessions.len()].clone();
        let session = session.with_timeout(timeout);
        self.call_over(&session, method, message).await
    }

    async fn call_over(
        &self,
        session: &Session,
        method: &'static Method,
        message: Bytes,
    ) -> Outcome {
        let result = match method.server_streaming {
            false => session
                .call(method, message)
                .await
                .map(tonic::Response::into_inner),
            true => whole_stream(session, method, message).await,
        };
        match result {
            Ok(reply) => Outcome {
                code: Code::Ok,
                message: String::new(),
                reply,
            },
            Err(error) => self.failed(&error).await,
        }
    }

    /// What is kept of a failure: what the endpoint knows about a lost connection says more than the status.
    async fn failed(&self, error: &CallError) -> Outcome {
        let status = error.status.message();
        let mut message: String = status.chars().take(MESSAGE_MAX).collect();
        if Lost::of(&error.status).is_some() {
            if let Some(cause) = self.endpoint.last_error() {
                message = cause.to_string();
            }
            tokio::time::sleep(NO_CONNECTION).await;
        }
        Outcome {
            code: error.status.code(),
            message,
            reply: Bytes::new(),
        }
    }
}

async fn whole_stream(
    session: &Session,
    method: &'static Method,
    message: Bytes,
) -> Result<Bytes, CallError> {
    let mut stream = session.stream(method, message).await?.into_inner();
    while session.next(method, &mut stream).await?.is_some() {}
    Ok(Bytes::new())
}
