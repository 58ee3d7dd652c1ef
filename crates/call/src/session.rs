//! A connection to a driver and the one generic call through it: bytes in, bytes out, whatever the RPC.
//!
//! Owns deadlines and metadata. Must not know clap, print, or look into messages.

use crate::answered::{Checked, Teller, Unreadable, checked, teller};
use crate::endpoint::{ConnectOptions, Endpoint, EndpointError};
use crate::secrets::{masked, secrets_in};
use bytes::{Buf, BufMut, Bytes};
use csi_arguments::metadata::{self, MetadataError, SentValue};
use csi_proto::Method;
use csi_proto::path::contents;
use http::uri::PathAndQuery;
use prost::Message;
use std::borrow::Cow;
use std::error::Error as StdError;
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;
use tokio::time::{Instant, timeout_at};
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder, Streaming};
use tonic::metadata::{KeyRef, MetadataKey, MetadataMap, MetadataValue};
use tonic::{Code, Request, Response, Status};

/// Replies larger than tonic's default of 4 MiB are common in large clusters.
const MAX_REPLY_BYTES: usize = 1 << 30;

/// The pauses, in milliseconds, before a call is sent again that the other side has not taken.
const UNTAKEN_PAUSES: [u64; 8] = [0, 1, 5, 20, 50, 100, 200, 400];

/// A way to a driver, with what goes along with every call.
#[derive(Clone, Debug)]
pub struct Session {
    channel: Checked,
    timeout: Option<Duration>,
    metadata: MetadataMap,
    /// Whether errors come as the driver words them, with the secrets that it repeats.
    raw: bool,
}

/// A session, and the endpoint that knows why its connection was lost.
#[derive(Clone)]
pub struct Connection {
    /// The endpoint, as it was named.
    pub endpoint: Endpoint,
    /// The session.
    pub session: Session,
}

/// A reply and its headers.
pub type Answer = Response<Bytes>;

/// The messages of a reply that is a stream, and when its last one has to be there.
pub struct Messages {
    stream: Streaming<Bytes>,
    end: Option<Instant>,
}

/// A call that did not end with OK.
#[derive(Clone, Debug)]
pub struct CallError {
    /// The method that was called.
    pub method: &'static Method,
    /// The status, with the code that the person should see.
    pub status: Status,
    /// Who has said it; `None` where no answer came.
    pub teller: Option<Teller>,
    /// The time limit of the call.
    pub timeout: Option<Duration>,
    /// Whether that limit had passed without an answer: see [`had_no_answer`].
    pub is_out_of_time: bool,
    /// Whether the request went on with a list, by a token of the driver's.
    pub had_token: bool,
    /// The secrets of the request, to be masked in the details of the status as they are in its message.
    pub secrets: Vec<String>,
}

/// The message of the status of a call that had no answer in time.
pub const NO_ANSWER: &str = "no answer within the deadline";

/// There was no connection for a call, or it was lost before the answer came: no word of the driver's. The source of such
/// a status, whose code is UNAVAILABLE.
#[derive(Debug, Error)]
#[error("{reason}")]
pub struct Lost {
    reason: String,
    /// Whether the call may have reached the driver.
    pub is_sent: bool,
}

impl Lost {
    /// The lost connection behind a status; `None` for a status that the driver answered with.
    pub fn of(status: &Status) -> Option<&Self> {
        status.source()?.downcast_ref()
    }

    fn status(is_sent: bool, error: &(dyn StdError + 'static)) -> Status {
        // The errors on the way say no more than that there is one beneath them.
        let innermost = causes(error).last().unwrap_or(error);
        let mut status = Status::unavailable(match is_sent {
            true => "the connection to the driver was lost",
            false => "no connection to the driver",
        });
        status.set_source(Arc::new(Self {
            reason: innermost.to_string(),
            is_sent,
        }));
        status
    }
}

/// An error and all that lies behind it.
fn causes<'a>(
    error: &'a (dyn StdError + 'static),
) -> impl Iterator<Item = &'a (dyn StdError + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

impl Session {
    /// A session over a connection to `endpoint`. When that is lost, the next call makes a new one.
    ///
    /// # Errors
    /// The typed reason why there is no connection.
    pub async fn open(
        endpoint: &Endpoint,
        options: &ConnectOptions,
    ) -> Result<Self, EndpointError> {
        Ok(Self {
            channel: checked(endpoint.connect(options).await?),
            timeout: None,
            metadata: MetadataMap::new(),
            raw: false,
        })
    }

    /// Sets a deadline for every call from now on; `None` for no deadline.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Option<Duration>) -> Self {
        self.timeout = timeout;
        self
    }

    /// Leaves the driver's errors as they are. Who looks for secrets in them must not show them.
    #[must_use]
    pub fn unmasked(mut self) -> Self {
        self.raw = true;
        self
    }

    /// Sends this metadata with every call from now on. Values of `-bin` keys are base64.
    ///
    /// # Errors
    /// When a key or value is not one that gRPC can carry.
    pub fn with_metadata(mut self, entries: &[(String, String)]) -> Result<Self, MetadataError> {
        for (key, text) in entries {
            let refused = || MetadataError::Key(key.clone(), metadata::OF_KEYS);
            let value = metadata::value(key, text)?;
            let name = key.to_ascii_lowercase();
            match value {
                SentValue::Text(text) => {
                    let name = MetadataKey::from_bytes(name.as_bytes()).map_err(|_| refused())?;
                    let value = text.parse().map_err(|_| refused())?;
                    self.metadata.append(name, value);
                }
                SentValue::Bytes(bytes) => {
                    let name = MetadataKey::from_bytes(name.as_bytes()).map_err(|_| refused())?;
                    let value = MetadataValue::from_bytes(&bytes);
                    self.metadata.append_bin(name, value);
                }
            }
        }
        Ok(self)
    }

    /// The keys of the metadata that goes along with every call.
    pub(crate) fn metadata_keys(&self) -> impl Iterator<Item = &str> {
        self.metadata.keys().map(|key| match key {
            KeyRef::Ascii(key) => key.as_str(),
            KeyRef::Binary(key) => key.as_str(),
        })
    }

    /// The deadline of a call.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// Calls a method whose reply is one message.
    ///
    /// # Errors
    /// When the driver, or the way to it, answers with anything but OK, and `DEADLINE_EXCEEDED` when nobody answers in time.
    pub async fn call(&self, method: &'static Method, request: Bytes) -> Result<Answer, CallError> {
        let taken = self.taken(method, &request, |mut client, request, path| async move {
            client.ready().await.map_err(not_ready)?;
            client.unary(request, path, RawCodec::of_one()).await
        });
        self.bounded(method, &request, self.end(), taken).await
    }

    /// Calls the RPC of `request`, whose reply is one message.
    ///
    /// # Errors
    /// As [`Session::call`], and INTERNAL when the reply is not valid.
    pub async fn ask<Q: csi_proto::Request>(&self, request: &Q) -> Result<Q::Reply, CallError> {
        let bytes = Bytes::from(request.encode_to_vec());
        let reply = self.call(Q::METHOD, bytes).await?.into_inner();
        Q::Reply::decode(reply).map_err(|error| CallError {
            method: Q::METHOD,
            status: Unreadable::status(error),
            teller: None,
            timeout: self.timeout,
            is_out_of_time: false,
            had_token: false,
            secrets: Vec::new(),
        })
    }

    /// Calls a method whose reply is a stream; the deadline covers the whole stream.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub async fn stream(
        &self,
        method: &'static Method,
        request: Bytes,
    ) -> Result<Response<Messages>, CallError> {
        let end = self.end();
        let taken = self.taken(method, &request, |mut client, request, path| async move {
            client.ready().await.map_err(not_ready)?;
            client
                .server_streaming(request, path, RawCodec::default())
                .await
        });
        let answer = self.bounded(method, &request, end, taken);
        Ok(answer.await?.map(|stream| Messages { stream, end }))
    }

    /// Calls a method, and hands over each message of its reply; one that is no stream has one.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub async fn each_message(
        &self,
        method: &'static Method,
        request: Bytes,
        mut take: impl FnMut(Bytes),
    ) -> Result<(), CallError> {
        if !method.server_streaming {
            take(self.call(method, request).await?.into_inner());
            return Ok(());
        }
        let sent = request.clone();
        let mut stream = self.stream(method, request).await?.into_inner();
        while let Some(message) = self.next(method, &sent, &mut stream).await? {
            take(message);
        }
        Ok(())
    }

    /// The next message of the stream that answers to a request, `None` at its end.
    ///
    /// # Errors
    /// As [`Session::call`].
    pub async fn next(
        &self,
        method: &'static Method,
        sent: &[u8],
        messages: &mut Messages,
    ) -> Result<Option<Bytes>, CallError> {
        let next = messages.stream.message();
        self.bounded(method, sent, messages.end, next).await
    }

    /// When a call that begins now has to be answered.
    fn end(&self) -> Option<Instant> {
        let timeout = self.timeout?;
        Instant::now().checked_add(timeout)
    }

    /// Sends a call, again where the other side has not taken it.
    async fn taken<T, F: Future<Output = Result<T, Status>>>(
        &self,
        method: &'static Method,
        request: &Bytes,
        send: impl Fn(tonic::client::Grpc<Checked>, Request<Bytes>, PathAndQuery) -> F,
    ) -> Result<T, Status> {
        let mut pauses = UNTAKEN_PAUSES.into_iter();
        loop {
            let client = tonic::client::Grpc::new(self.channel.clone())
                .max_decoding_message_size(MAX_REPLY_BYTES)
                .max_encoding_message_size(MAX_REPLY_BYTES);
            let mut sent = Request::new(request.clone());
            *sent.metadata_mut() = self.metadata.clone();
            if let Some(timeout) = self.timeout {
                sent.set_timeout(timeout);
            }
            let answer = send(client, sent, PathAndQuery::from_static(method.path)).await;
            if !answer.as_ref().is_err_and(was_not_taken) {
                return answer;
            }
            match pauses.next() {
                Some(pause) => tokio::time::sleep(Duration::from_millis(pause)).await,
                None => return answer,
            }
        }
    }

    async fn bounded<T>(
        &self,
        method: &'static Method,
        sent: &[u8],
        end: Option<Instant>,
        work: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, CallError> {
        let result = match end {
            None => work.await.map_err(judged),
            Some(end) => match timeout_at(end, work).await {
                Ok(result) => result.map_err(judged),
                Err(_) => Err((None, Status::deadline_exceeded(NO_ANSWER))),
            },
        };
        result.map_err(|(teller, status)| {
            let rest = end.map(|end| end.saturating_duration_since(Instant::now()));
            let took = self.timeout.unwrap_or_default();
            let took = took.saturating_sub(rest.unwrap_or_default());
            let secrets = match self.raw {
                true => Vec::new(),
                false => secrets_in(method, [sent]),
            };
            CallError {
                method,
                is_out_of_time: had_no_answer(&status, self.timeout, took),
                status: without(status, &secrets),
                teller,
                timeout: self.timeout,
                had_token: contents(method.request, sent, "starting_token")
                    .iter()
                    .any(|token| !token.is_empty()),
                secrets,
            }
        })
    }
}

/// Whether a call with that time limit, which ended with that status after so long, had no answer. A driver may say the same at
/// once, as its own answer, and its own clock may be a little ahead.
pub fn had_no_answer(status: &Status, limit: Option<Duration>, took: Duration) -> bool {
    status.code() == Code::DeadlineExceeded && limit.is_some_and(|limit| took >= limit / 10 * 9)
}

/// The status with every secret in its message masked. Its details, which are bytes, stay.
fn without(status: Status, secrets: &[String]) -> Status {
    match masked(status.message(), secrets) {
        Cow::Borrowed(_) => status,
        // What tonic could not read is no word of the driver's, also without the secret in it.
        Cow::Owned(message) if Unreadable::of(&status).is_some() => Unreadable::of_message(message),
        // Its message is this program's.
        Cow::Owned(_) if Lost::of(&status).is_some() => status,
        Cow::Owned(message) => {
            let details = prost::bytes::Bytes::copy_from_slice(status.details());
            let metadata = status.metadata().clone();
            Status::with_details_and_metadata(status.code(), message, details, metadata)
        }
    }
}

/// A status with the code that the person should see, and who has said it.
fn judged(mut status: Status) -> (Option<Teller>, Status) {
    match teller(&mut status) {
        None => (None, unanswered(status)),
        teller => (teller, status),
    }
}

/// The status of a call that nobody answered with one. tonic watches the deadline too and reports it as a cancellation, which nobody
/// asked for; the end of a connection is UNKNOWN or a cancellation to it; and for a reply that it cannot read it has codes that would
/// say something else as the driver's.
fn unanswered(status: Status) -> Status {
    if status.code() == Code::Cancelled && status.message() == "Timeout expired" {
        return Status::deadline_exceeded(NO_ANSWER);
    }
    let Some(source) = status.source() else {
        return Unreadable::status(status.message());
    };
    if Lost::of(&status).is_some() {
        return status;
    }
    let http2 = causes(source).find_map(|cause| cause.downcast_ref::<h2::Error>());
    // What this side finds wrong in HTTP/2 is no answer.
    if let Some(error) = http2.filter(|error| error.is_library()) {
        return Unreadable::status(error);
    }
    // Nor is the end of a connection in order before it took the call, however often that was sent again.
    if was_not_taken(&status) && status.code() != Code::Unavailable {
        return Lost::status(false, source);
    }
    // A stream that was reset with a reason is one.
    let is_reset = http2.is_some_and(|error| error.reason().is_some());
    match status.code() {
        Code::Unavailable if !is_reset => Lost::status(false, source),
        Code::Unknown | Code::Cancelled if !is_reset => Lost::status(true, source),
        _ => status,
    }
}

/// Whether HTTP/2 says that the other side has not begun with a call, which a client repeats by itself: the stream was refused, or
/// it came after the other side had begun to close the connection in order, which ends by its age, or idle.
fn was_not_taken(status: &Status) -> bool {
    let is_refused = |error: &h2::Error| match error.reason() {
        Some(h2::Reason::REFUSED_STREAM) => true,
        Some(h2::Reason::NO_ERROR) => error.is_go_away() && error.is_remote(),
        _ => false,
    };
    status.source().into_iter().flat_map(causes).any(|cause| {
        cause.downcast_ref().is_some_and(is_refused)
            || cause.downcast_ref().is_some_and(hyper::Error::is_canceled)
    })
}

fn not_ready(error: tonic::transport::Error) -> Status {
    Lost::status(false, &error)
}

/// Passes messages as the bytes that they are.
#[derive(Clone, Copy, Debug, Default)]
struct RawCodec {
    /// How many messages may still come; `None` for any number.
    left: Option<u32>,
}

impl RawCodec {
    /// For a reply of one message.
    fn of_one() -> Self {
        Self { left: Some(1) }
    }
}

impl Codec for RawCodec {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        *self
    }

    fn decoder(&mut self) -> Self {
        *self
    }
}

impl Encoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for RawCodec {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        if let Some(left) = &mut self.left {
            // Which of them is the answer nobody can tell.
            let less = left.checked_sub(1);
            *left = less.ok_or_else(|| Status::internal("it has more than one message"))?;
        }
        Ok(Some(buffer.copy_to_bytes(buffer.remaining())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::value::MASK;

    #[test]
    fn a_status_keeps_all_but_its_secrets() {
        let details = prost::bytes::Bytes::from_static(b"details");
        let status = Status::with_details(Code::Aborted, "mount hunter2 failed", details);
        let shown = without(status, &["hunter2".to_owned()]);
        assert_eq!(shown.message(), format!("mount {MASK} failed"));
        assert_eq!(
            (shown.code(), shown.details()),
            (Code::Aborted, &b"details"[..])
        );
        // Who has not said it stays known.
        let secret = ["gzip".to_owned()];
        let shown = without(Unreadable::status("it is in gzip"), &secret);
        let reason = Unreadable::of(&shown).map(ToString::to_string);
        assert_eq!(
            reason,
            Some(format!("the reply is not valid: it is in {MASK}"))
        );
        let lost = Lost::status(false, &std::fmt::Error);
        assert!(Lost::of(&without(lost, &["driver".to_owned()])).is_some());
    }
}
