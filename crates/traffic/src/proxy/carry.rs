//! Carries one call: headers, messages, trailers and cancellations, unchanged, in both directions.
//!
//! What passes is handed to the call's [`CallEntry`]. Must not know what messages mean, or what becomes of them there.
//!
//! Our own above h2, because a gRPC library adds headers, chooses when trailers are sent, and hides why a stream was reset.

use super::journal::CallEntry;
use super::upstream::{Upstream, in_words};
use crate::recording::call::CallEnd;
use crate::recording::status::CallStatus;
use bytes::Bytes;
use csi_proto::lock;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderValue, Request, Response};
use std::future::poll_fn;
use std::sync::Mutex;
use tonic::Code;

/// The caller's side of a call.
pub struct Caller {
    /// The request's path and headers.
    pub head: http::request::Parts,
    body: RecvStream,
    respond: SendResponse<Bytes>,
    /// The reply, once it has begun.
    reply: Option<SendStream<Bytes>>,
    /// The part of the body that was read while the call was held back.
    ahead: Vec<Bytes>,
}

/// The most bytes of a request that are read while its call is held back.
const AHEAD_MAX: usize = 64 << 10;

/// The caller gave up the call, or is gone.
struct CallerCancelled(Reason);

/// The end of a carried call.
enum Carried {
    Answered(CallEnd),
    Cancelled(Reason),
}

impl Caller {
    /// The call as the server of the proxy got it.
    pub fn new(request: Request<RecvStream>, respond: SendResponse<Bytes>) -> Self {
        let (head, body) = request.into_parts();
        Self {
            head,
            body,
            respond,
            reply: None,
            ahead: Vec::new(),
        }
    }

    /// Does `work` before the call goes on; meanwhile the start of its request is read and observed.
    ///
    /// # Errors
    /// How the call ended, when the caller gave up.
    pub async fn hold<T>(
        &mut self,
        work: impl Future<Output = T>,
        entry: &mut CallEntry<'_>,
    ) -> Result<T, CallEnd> {
        tokio::pin!(work);
        let mut length = 0;
        let mut reads = !self.body.is_end_stream();
        loop {
            tokio::select! {
                biased;
                CallerCancelled(_) = caller_cancelled(&mut self.respond, &mut self.reply) => {
                    return Err(CallEnd::Cancelled { deadline: false });
                }
                done = &mut work => return Ok(done),
                piece = self.body.data(), if reads && length < AHEAD_MAX => match piece {
                    Some(Ok(piece)) => {
                        entry.request(&piece);
                        let _ = self.body.flow_control().release_capacity(piece.len());
                        length += piece.len();
                        self.ahead.push(piece);
                    }
                    Some(Err(_)) => return Err(CallEnd::Cancelled { deadline: false }),
                    None => reads = false,
                },
            }
        }
    }

    /// Reads the request to its end.
    ///
    /// # Errors
    /// How the call ended, when the caller gave up.
    pub(crate) async fn read_request(&mut self, entry: &mut CallEntry<'_>) -> Result<(), CallEnd> {
        while let Some(piece) = self.body.data().await {
            let Ok(piece) = piece else {
                return Err(CallEnd::Cancelled { deadline: false });
            };
            entry.request(&piece);
            let _ = self.body.flow_control().release_capacity(piece.len());
        }
        Ok(())
    }

    /// Answers with a status of the proxy's own.
    pub fn answer(&mut self, status: &CallStatus) {
        let trailers = status.trailers();
        match &mut self.reply {
            // A caller that is gone needs no answer.
            Some(reply) => drop(reply.send_trailers(trailers)),
            None => {
                let mut response = Response::new(());
                *response.headers_mut() = trailers;
                let kind = HeaderValue::from_static("application/grpc");
                response
                    .headers_mut()
                    .insert(http::header::CONTENT_TYPE, kind);
                let _ = self.respond.send_response(response, true);
            }
        }
    }

    /// Waits until the caller gives up.
    pub async fn gone(&mut self) {
        caller_cancelled(&mut self.respond, &mut self.reply).await;
    }

    fn reset(&mut self, reason: Reason) {
        match &mut self.reply {
            Some(reply) => reply.send_reset(reason),
            None => self.respond.send_reset(reason),
        }
    }

    /// Carries the call to the driver and the answer back; with `swallow`, the driver's answer is not passed on.
    pub async fn carry(
        &mut self,
        upstream: &Upstream,
        entry: &mut CallEntry<'_>,
        swallow: bool,
    ) -> CallEnd {
        let mut sender = match self.hold(upstream.ready(), entry).await {
            Err(end) => return end,
            Ok(Ok(sender)) => sender,
            Ok(Err(error)) => {
                let reason = in_words(&error);
                return self.unavailable(format!("no connection to the driver: {reason}"));
            }
        };
        let mut request = Request::new(());
        *request.method_mut() = self.head.method.clone();
        *request.headers_mut() = std::mem::take(&mut self.head.headers);
        let path = self.head.uri.path_and_query().cloned();
        let ends = self.body.is_end_stream() && self.ahead.is_empty();
        let sent = match upstream.uri(path) {
            Ok(uri) => {
                *request.uri_mut() = uri;
                sender
                    .send_request(request, ends)
                    .map_err(|error| upstream.broken(error).to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let (response, mut up) = match sent {
            Ok(sent) => sent,
            Err(reason) => {
                return self.unavailable(format!("the call cannot be passed on: {reason}"));
            }
        };
        entry.sent();
        let carried = self
            .both_ways(response, &mut up, ends, entry, swallow)
            .await;
        match carried {
            Ok(Carried::Answered(end)) => end,
            Ok(Carried::Cancelled(reason)) => {
                up.send_reset(reason);
                CallEnd::Cancelled { deadline: false }
            }
            Err(error) => self.lost(error, upstream, swallow),
        }
    }

    /// Ends a call that did not reach the driver.
    fn unavailable(&mut self, why: String) -> CallEnd {
        let status = CallStatus::new(Code::Unavailable, format!("csi proxy: {why}"));
        self.answer(&status);
        CallEnd::Proxy(status)
    }

    async fn both_ways(
        &mut self,
        response: h2::client::ResponseFuture,
        up: &mut SendStream<Bytes>,
        ends: bool,
        entry: &mut CallEntry<'_>,
        swallow: bool,
    ) -> Result<Carried, h2::Error> {
        let Self {
            body,
            respond,
            reply,
            ahead,
            ..
        } = self;
        let ahead = std::mem::take(ahead);
        // Both directions have something to show; only one of them runs at a time.
        let entry = Mutex::new(entry);
        let request = async {
            if ends {
                return Ok(());
            }
            let pieces = ahead.len();
            for (index, piece) in ahead.into_iter().enumerate() {
                let last = index + 1 == pieces && body.is_end_stream();
                send(up, piece, last).await?;
                if last {
                    return Ok(());
                }
            }
            pass(body, up, |piece| lock(&entry).request(piece)).await
        };
        let answer = pass_reply(response, respond, reply, &entry, swallow);
        tokio::pin!(request, answer);
        let mut requested = false;
        loop {
            tokio::select! {
                biased;
                end = &mut answer => return end,
                passed = &mut request, if !requested => match passed {
                    Ok(()) => requested = true,
                    Err(Passing::From(error)) => {
                        return Ok(Carried::Cancelled(error.reason().unwrap_or(Reason::CANCEL)));
                    }
                    // The driver wants no more of it; its answer says why.
                    Err(Passing::To) => requested = true,
                },
            }
        }
    }

    /// The driver's side ended without an answer.
    fn lost(&mut self, error: h2::Error, upstream: &Upstream, swallow: bool) -> CallEnd {
        // A call that the driver has surely not begun, because it was refused or the driver says so as it goes away, is
        // repeated by callers on their own; they must not be told more than that.
        let refused = error.is_go_away() && error.reason() == Some(Reason::NO_ERROR);
        if (error.is_reset() && error.is_remote()) || refused {
            let reason = match refused {
                true => Reason::REFUSED_STREAM,
                false => error.reason().unwrap_or(Reason::CANCEL),
            };
            if !swallow {
                self.reset(reason);
            }
            return CallEnd::Reset(format!("{reason:?}"));
        }
        let text = format!(
            "csi proxy: the driver was lost during the call: {}",
            in_words(&upstream.broken(error))
        );
        let status = CallStatus::new(Code::Unavailable, text);
        if !swallow {
            self.answer(&status);
        }
        CallEnd::Broken(status)
    }
}

/// The side on which passing on failed.
enum Passing {
    From(h2::Error),
    To,
}

/// Passes a body on, piece by piece and not faster than the other side takes it. Trailers go along.
async fn pass(
    from: &mut RecvStream,
    to: &mut SendStream<Bytes>,
    mut show: impl FnMut(&Bytes),
) -> Result<(), Passing> {
    while let Some(piece) = from.data().await {
        let piece = piece.map_err(Passing::From)?;
        show(&piece);
        let length = piece.len();
        let ends = from.is_end_stream();
        send(to, piece, ends).await?;
        let _ = from.flow_control().release_capacity(length);
        if ends {
            return Ok(());
        }
    }
    let trailers = from.trailers().await.map_err(Passing::From)?;
    let sent = match trailers {
        Some(trailers) => to.send_trailers(trailers),
        None => to.send_data(Bytes::new(), true),
    };
    sent.map_err(|_| Passing::To)
}

async fn send(to: &mut SendStream<Bytes>, mut piece: Bytes, ends: bool) -> Result<(), Passing> {
    loop {
        to.reserve_capacity(piece.len());
        if to.capacity() == 0 && !piece.is_empty() {
            match poll_fn(|context| to.poll_capacity(context)).await {
                Some(Ok(_)) => continue,
                _ => return Err(Passing::To),
            }
        }
        let part = piece.split_to(piece.len().min(to.capacity()));
        let last = piece.is_empty();
        to.send_data(part, ends && last).map_err(|_| Passing::To)?;
        if last {
            return Ok(());
        }
    }
}

async fn pass_reply(
    response: h2::client::ResponseFuture,
    respond: &mut SendResponse<Bytes>,
    reply: &mut Option<SendStream<Bytes>>,
    entry: &Mutex<&mut CallEntry<'_>>,
    swallow: bool,
) -> Result<Carried, h2::Error> {
    let response = tokio::select! {
        biased;
        response = response => response?,
        CallerCancelled(reason) = caller_cancelled(respond, reply) => return Ok(Carried::Cancelled(reason)),
    };
    let (head, mut body) = response.into_parts();
    lock(entry).reply_headers(&head.headers);
    let ends = body.is_end_stream();
    let http = head.status;
    let only = ends.then(|| CallStatus::read(&head.headers)).flatten();
    if !swallow {
        let mut response = Response::new(());
        *response.status_mut() = head.status;
        *response.headers_mut() = head.headers;
        match respond.send_response(response, ends) {
            Ok(stream) => *reply = Some(stream),
            Err(error) => return Ok(Carried::Cancelled(error.reason().unwrap_or(Reason::CANCEL))),
        }
    }
    if ends {
        return Ok(Carried::Answered(ended(only, http)));
    }
    loop {
        let piece = tokio::select! {
            biased;
            piece = body.data() => piece,
            CallerCancelled(reason) = caller_cancelled(respond, reply) => return Ok(Carried::Cancelled(reason)),
        };
        let Some(piece) = piece else { break };
        let piece = piece?;
        lock(entry).reply(&piece);
        let length = piece.len();
        let ends = body.is_end_stream();
        if let Some(reply) = reply
            && send(reply, piece, ends).await.is_err()
        {
            return Ok(Carried::Cancelled(Reason::CANCEL));
        }
        let _ = body.flow_control().release_capacity(length);
        if ends {
            return Ok(Carried::Answered(ended(None, http)));
        }
    }
    let trailers = body.trailers().await?;
    let status = trailers.as_ref().and_then(CallStatus::read);
    if let Some(reply) = reply {
        // A caller that is gone by now needs no end.
        let _ = match trailers {
            Some(trailers) => reply.send_trailers(trailers),
            None => reply.send_data(Bytes::new(), true),
        };
    }
    Ok(Carried::Answered(ended(status, http)))
}

fn ended(status: Option<CallStatus>, http: http::StatusCode) -> CallEnd {
    match status {
        Some(status) => CallEnd::Status(status),
        None if http.is_success() => CallEnd::Reset("no status at the end".to_owned()),
        None => CallEnd::Reset(format!("HTTP {http}, which is not gRPC")),
    }
}

/// Returns when the caller has given up the call, or is gone.
async fn caller_cancelled(
    respond: &mut SendResponse<Bytes>,
    reply: &mut Option<SendStream<Bytes>>,
) -> CallerCancelled {
    let reason = poll_fn(|context| match reply {
        Some(reply) => reply.poll_reset(context),
        None => respond.poll_reset(context),
    });
    match reason.await {
        Ok(reason) => CallerCancelled(reason),
        Err(error) => CallerCancelled(error.reason().unwrap_or(Reason::CANCEL)),
    }
}
