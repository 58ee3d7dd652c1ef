//! Calls under load: gRPC straight on HTTP/2, several connections to one driver, each made anew when it is lost.
//!
//! The channel of `session.rs` costs twice the time a call; here a request is bytes that were made before, and nothing
//! stands between it and its stream. Knows no RPC, no flag and no output.

use crate::arguments::metadata;
use crate::endpoint::{ConnectOptions, Endpoint, EndpointError};
use bytes::{Buf, Bytes, BytesMut};
use csi_proto::schema::Method;
use h2::Reason;
use h2::client::SendRequest;
use http::header::{CONTENT_TYPE, HeaderName, HeaderValue, TE, USER_AGENT};
use http::uri::{Authority, PathAndQuery, Scheme, Uri};
use http::{HeaderMap, Request, StatusCode, Version};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tonic::{Code, Status};

/// What a reply's headers may hold together; error messages travel there.
const HEADERS_MAX: u32 = 1 << 20;

/// What the driver may send before this side has read it, of a reply and of all of them.
const WINDOW: u32 = 1 << 20;

/// How long a call waits that found no driver, so that a load without one does not spin.
const NO_CONNECTION: Duration = Duration::from_millis(100);

/// How much of an error message is kept.
const MESSAGE_MAX: usize = 4096;

/// The bytes before a message: not compressed, and its length.
pub const PREFIX: usize = 5;

/// A driver and the connections to it.
pub struct Client {
    /// How it was named.
    pub endpoint: Endpoint,
    options: ConnectOptions,
    timeout: Option<Duration>,
    headers: HeaderMap,
    slots: Vec<Slot>,
}

/// The place of one connection.
struct Slot {
    current: Arc<Mutex<Option<Link>>>,
    /// Held by the one that connects; the others wait for what comes of it.
    connecting: tokio::sync::Mutex<()>,
}

/// A connection that stood when last seen.
#[derive(Clone)]
struct Link {
    number: u64,
    origin: Arc<(Scheme, Authority)>,
    sender: SendRequest<Bytes>,
}

/// How a call ended.
#[derive(Debug)]
pub struct Outcome {
    /// Its code.
    pub code: Code,
    /// The driver's words; empty for OK.
    pub message: String,
    /// The first message of the reply, where it was wanted.
    pub reply: Bytes,
}

/// What goes along with every call.
pub struct Manner<'a> {
    /// How to connect.
    pub options: ConnectOptions,
    /// The deadline of a call; `None` for none.
    pub timeout: Option<Duration>,
    /// gRPC metadata; values of `-bin` keys are base64.
    pub metadata: &'a [(String, String)],
    /// How many connections.
    pub connections: usize,
}

impl Client {
    /// Connects, with all connections at once.
    ///
    /// # Errors
    /// Why there is no connection.
    pub async fn connect(endpoint: &Endpoint, manner: &Manner<'_>) -> Result<Self, EndpointError> {
        let slot = || Slot {
            current: Arc::default(),
            connecting: tokio::sync::Mutex::new(()),
        };
        let client = Self {
            endpoint: endpoint.clone(),
            options: manner.options.clone(),
            timeout: manner.timeout,
            headers: headers(manner),
            slots: std::iter::repeat_with(slot)
                .take(manner.connections.max(1))
                .collect(),
        };
        for slot in &client.slots {
            client.link(slot).await?;
        }
        Ok(client)
    }

    /// The deadline of a call.
    pub fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// One call over one of the connections, chosen by `lane`. `frame` is the message with its prefix. The reply is kept
    /// only when it is `wanted`.
    pub async fn call(
        &self,
        lane: usize,
        method: &'static Method,
        frame: Bytes,
        wanted: bool,
    ) -> Outcome {
        self.call_within(self.timeout, lane, method, frame, wanted)
            .await
    }

    /// As [`Client::call`], with another deadline.
    pub async fn call_within(
        &self,
        timeout: Option<Duration>,
        lane: usize,
        method: &'static Method,
        frame: Bytes,
        wanted: bool,
    ) -> Outcome {
        let work = self.attempt(lane, method, frame, wanted, timeout);
        let result = match timeout {
            None => work.await,
            Some(limit) => match tokio::time::timeout(limit, work).await {
                Ok(result) => result,
                // Dropping the work has reset the stream.
                Err(_) => Err(Status::deadline_exceeded("no answer within the deadline")),
            },
        };
        match result {
            Ok(reply) => Outcome {
                code: Code::Ok,
                message: String::new(),
                reply,
            },
            Err(status) => {
                let mut message = status.message().to_owned();
                if message.len() > MESSAGE_MAX {
                    let end = (0..=MESSAGE_MAX).rfind(|end| message.is_char_boundary(*end));
                    message.truncate(end.unwrap_or_default());
                    message.push('…');
                }
                Outcome {
                    code: status.code(),
                    message,
                    reply: Bytes::new(),
                }
            }
        }
    }

    async fn attempt(
        &self,
        lane: usize,
        method: &'static Method,
        frame: Bytes,
        wanted: bool,
        timeout: Option<Duration>,
    ) -> Result<Bytes, Status> {
        let slot = &self.slots[lane % self.slots.len()];
        // A connection that was lost or is being closed is noticed before anything is sent: then another one is due.
        let mut tries = 0;
        let (link, mut sender) = loop {
            let link = match self.link(slot).await {
                Ok(link) => link,
                Err(error) => {
                    tokio::time::sleep(NO_CONNECTION).await;
                    return Err(Status::unavailable(error.to_string()));
                }
            };
            match link.sender.clone().ready().await {
                Ok(sender) => break (link, sender),
                Err(error) => {
                    slot.forget(link.number);
                    tries += 1;
                    if tries > 1 {
                        return Err(self.broken(&error));
                    }
                }
            }
        };
        let request = self.request(&link, method, timeout);
        let sent = sender.send_request(request, false);
        let (response, mut body) = sent.map_err(|error| self.broken(&error))?;
        body.send_data(frame, true)
            .map_err(|error| self.broken(&error))?;
        let response = response.await.map_err(|error| self.broken(&error))?;
        let (head, mut body) = response.into_parts();
        if head.status != StatusCode::OK {
            return Err(not_grpc(head.status, &head.headers));
        }
        if head.headers.contains_key("grpc-status") {
            return finished(&head.headers).map(|()| Bytes::new());
        }
        let mut reply = Reply::default();
        while let Some(part) = body.data().await {
            let part = part.map_err(|error| self.broken(&error))?;
            // Only a connection that has ended refuses this, which the next line tells.
            let _ = body.flow_control().release_capacity(part.len());
            if wanted {
                reply.add(part);
            }
        }
        let trailers = body.trailers().await;
        match trailers.map_err(|error| self.broken(&error))? {
            Some(trailers) => finished(&trailers)?,
            None => return Err(Status::unknown("the reply has no status")),
        }
        if wanted {
            reply.first()
        } else {
            Ok(Bytes::new())
        }
    }

    fn request(
        &self,
        link: &Link,
        method: &'static Method,
        timeout: Option<Duration>,
    ) -> Request<()> {
        let mut parts = http::uri::Parts::default();
        parts.scheme = Some(link.origin.0.clone());
        parts.authority = Some(link.origin.1.clone());
        parts.path_and_query = Some(PathAndQuery::from_static(method.path));
        let mut request = Request::new(());
        *request.method_mut() = http::Method::POST;
        *request.version_mut() = Version::HTTP_2;
        // All three parts are there, which is all that is asked of a URI.
        *request.uri_mut() = Uri::from_parts(parts).unwrap_or_default();
        request.headers_mut().clone_from(&self.headers);
        if timeout != self.timeout {
            set_timeout(request.headers_mut(), timeout);
        }
        request
    }

    /// The connection of a slot; a new one where there is none.
    async fn link(&self, slot: &Slot) -> Result<Link, EndpointError> {
        if let Some(link) = slot.get() {
            return Ok(link);
        }
        let _alone = slot.connecting.lock().await;
        if let Some(link) = slot.get() {
            return Ok(link);
        }
        let opened = self.endpoint.open_http2(&self.options).await?;
        let broken = |cause: Arc<dyn std::error::Error + Send + Sync>| {
            let reason = self.endpoint.last_error();
            reason.unwrap_or_else(|| EndpointError::Broken {
                endpoint: self.endpoint.to_string(),
                cause,
            })
        };
        let handshake = h2::client::Builder::new()
            .max_header_list_size(HEADERS_MAX)
            .initial_window_size(WINDOW)
            .initial_connection_window_size(WINDOW)
            .enable_push(false)
            .handshake::<_, Bytes>(opened.stream);
        let (sender, connection) = handshake.await.map_err(|error| broken(Arc::new(error)))?;
        let link = Link {
            number: next_number(),
            origin: Arc::new((opened.scheme, opened.authority)),
            sender,
        };
        let (current, number) = (Arc::clone(&slot.current), link.number);
        *slot.lock() = Some(link.clone());
        tokio::spawn(async move {
            // Why it ended stands in the endpoint.
            let _ = connection.await;
            forget(&current, number);
        });
        Ok(link)
    }

    /// What an error of HTTP/2 means.
    fn broken(&self, error: &h2::Error) -> Status {
        let code = match error.reason() {
            Some(Reason::CANCEL) => Code::Cancelled,
            Some(Reason::ENHANCE_YOUR_CALM) => Code::ResourceExhausted,
            Some(Reason::INADEQUATE_SECURITY) => Code::PermissionDenied,
            Some(Reason::REFUSED_STREAM) | None => Code::Unavailable,
            Some(_) if error.is_io() || error.is_go_away() => Code::Unavailable,
            Some(_) => Code::Internal,
        };
        match self.endpoint.last_error() {
            Some(reason) if !error.is_reset() => Status::unavailable(reason.to_string()),
            _ => Status::new(code, error.to_string()),
        }
    }
}

impl Slot {
    fn lock(&self) -> MutexGuard<'_, Option<Link>> {
        lock(&self.current)
    }

    fn get(&self) -> Option<Link> {
        self.lock().clone()
    }

    fn forget(&self, number: u64) {
        forget(&self.current, number);
    }
}

fn lock(current: &Mutex<Option<Link>>) -> MutexGuard<'_, Option<Link>> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes the connection of that number out of its slot, unless a newer one stands there.
fn forget(current: &Mutex<Option<Link>>, number: u64) {
    let mut current = lock(current);
    if current.as_ref().is_some_and(|link| link.number == number) {
        *current = None;
    }
}

fn next_number() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// A body on its way: one part as a rule, which is not copied.
#[derive(Default)]
struct Reply {
    first: Bytes,
    all: BytesMut,
}

impl Reply {
    fn add(&mut self, part: Bytes) {
        if self.first.is_empty() && self.all.is_empty() {
            self.first = part;
            return;
        }
        if self.all.is_empty() {
            self.all.extend_from_slice(&self.first);
            self.first = Bytes::new();
        }
        self.all.extend_from_slice(&part);
    }

    /// The first message of the body.
    fn first(self) -> Result<Bytes, Status> {
        let mut bytes = match self.all.is_empty() {
            true => self.first,
            false => self.all.freeze(),
        };
        if bytes.is_empty() {
            return Ok(bytes);
        }
        if bytes.len() < PREFIX || bytes[0] != 0 {
            return Err(Status::internal("the reply is not a message of gRPC"));
        }
        bytes.advance(1);
        let length = bytes.get_u32() as usize;
        if bytes.len() < length {
            return Err(Status::internal(
                "the reply ends in the middle of a message",
            ));
        }
        Ok(bytes.slice(..length))
    }
}

/// What the headers that end a call say.
fn finished(headers: &HeaderMap) -> Result<(), Status> {
    if headers.get("grpc-status").is_some_and(|code| code == "0") {
        return Ok(());
    }
    Err(Status::from_header_map(headers)
        .unwrap_or_else(|| Status::unknown("the reply has no status")))
}

/// An answer of HTTP that is not gRPC's, as proxies give it.
fn not_grpc(status: StatusCode, headers: &HeaderMap) -> Status {
    if let Some(status) = Status::from_header_map(headers) {
        return status;
    }
    let code = match status.as_u16() {
        400 => Code::Internal,
        401 => Code::Unauthenticated,
        403 => Code::PermissionDenied,
        404 => Code::Unimplemented,
        429 | 502..=504 => Code::Unavailable,
        _ => Code::Unknown,
    };
    Status::new(
        code,
        format!("the answer is not gRPC: HTTP status {status}"),
    )
}

fn headers(manner: &Manner<'_>) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(TE, HeaderValue::from_static("trailers"));
    let kind = HeaderValue::from_static("application/grpc");
    headers.insert(CONTENT_TYPE, kind);
    let agent = HeaderValue::from_static(concat!("csi/", env!("CARGO_PKG_VERSION")));
    headers.insert(USER_AGENT, agent);
    set_timeout(&mut headers, manner.timeout);
    for (key, text) in manner.metadata {
        let name = HeaderName::from_bytes(key.to_ascii_lowercase().as_bytes());
        let value = match metadata::value(key, text) {
            Ok(metadata::Value::Text(text)) => HeaderValue::from_str(text).ok(),
            Ok(metadata::Value::Bytes(bytes)) => {
                use base64::Engine as _;
                let text = base64::engine::general_purpose::STANDARD_NO_PAD.encode(bytes);
                HeaderValue::try_from(text).ok()
            }
            Err(_) => None,
        };
        // Flags were checked when they were read; nothing else gets here.
        if let (Ok(name), Some(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    headers
}

/// The deadline as gRPC writes it: at most eight digits and a unit.
fn set_timeout(headers: &mut HeaderMap, timeout: Option<Duration>) {
    headers.remove("grpc-timeout");
    let Some(timeout) = timeout else { return };
    let units = [
        (timeout.as_micros(), 'u'),
        (timeout.as_millis(), 'm'),
        (u128::from(timeout.as_secs()), 'S'),
        (u128::from(timeout.as_secs() / 60), 'M'),
    ];
    let fits = units.into_iter().find(|(number, _)| *number < 100_000_000);
    let (number, unit) = fits.unwrap_or((u128::from(timeout.as_secs() / 3600), 'H'));
    if let Ok(value) = HeaderValue::try_from(format!("{number}{unit}")) {
        headers.insert("grpc-timeout", value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_have_eight_digits_at_most() {
        let said = |timeout| {
            let mut headers = HeaderMap::new();
            set_timeout(&mut headers, timeout);
            headers
                .get("grpc-timeout")
                .map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(said(None), None);
        for (seconds, text) in [
            (1, "1000000u"),
            (99, "99000000u"),
            (100, "100000m"),
            (100_000, "100000S"),
            (100_000_000, "1666666M"),
        ] {
            let timeout = Some(Duration::from_secs(seconds));
            assert_eq!(said(timeout).as_deref(), Some(text));
        }
    }

    #[test]
    fn a_reply_is_put_together_from_its_parts() {
        let whole = [&[0, 0, 0, 0, 5][..], b"hello", &[0, 0, 0, 0, 1, b'x']].concat();
        for size in [1, 3, 7, 16] {
            let mut reply = Reply::default();
            for part in whole.chunks(size) {
                reply.add(Bytes::copy_from_slice(part));
            }
            assert_eq!(reply.first().unwrap(), "hello");
        }
        for wrong in [&[0, 0][..], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 2, b'x']] {
            let mut reply = Reply::default();
            reply.add(Bytes::copy_from_slice(wrong));
            assert_eq!(reply.first().unwrap_err().code(), Code::Internal);
        }
    }
}
