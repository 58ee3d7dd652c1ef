//! A connection that keeps the reason for its end, for the call that fails with it. It also recognises servers that do
//! not speak gRPC.

use super::error::EndpointError;
use super::handshake;
use csi_proto::lock;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tonic::transport::server::Connected;

/// A connection's bytes, both ways.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}

/// So that tonic can serve what comes by it.
impl Connected for Box<dyn ByteStream> {
    type ConnectInfo = ();

    fn connect_info(&self) {}
}

/// The number of bytes that are shown of an answer that is not gRPC.
const ANSWER_SHOWN: usize = 64;

/// The reason of the last failure, shared by an endpoint, its clones and their connections.
#[derive(Clone, Default)]
pub(super) struct LastError(Arc<Mutex<Option<EndpointError>>>);

impl LastError {
    pub(super) fn get(&self) -> Option<EndpointError> {
        lock(&self.0).clone()
    }

    pub(super) fn set(&self, error: Option<EndpointError>) {
        *lock(&self.0) = error;
    }
}

/// Whether what comes first must be HTTP/2. The channel would report anything else as an opaque protocol error.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    Awaited,
    Ignored,
}

/// Whether a server of HTTP/2 can begin so: its first frame is SETTINGS (4), and shorter than 64 KiB.
fn is_http2(answer: &[u8]) -> bool {
    answer.first().is_none_or(|high| *high == 0) && answer.get(3).is_none_or(|kind| *kind == 4)
}

/// Follows the frames of HTTP/2 that come in, to see an end in order: GOAWAY (7) with NO_ERROR (0).
#[derive(Default)]
struct Frames {
    /// The beginning of a frame, as far as it has come: its head, and of GOAWAY the last stream and the reason.
    begun: Vec<u8>,
    /// How much of a frame is still to be passed over.
    rest: usize,
}

const FRAME_HEAD: usize = 9;
const GOAWAY: u8 = 7;
const GOAWAY_REASON: usize = FRAME_HEAD + 4;
const GOAWAY_HEAD: usize = GOAWAY_REASON + 4;

impl Frames {
    /// Whether such a frame is complete with these bytes.
    fn end_in_order(&mut self, mut bytes: &[u8]) -> bool {
        let mut found = false;
        while !bytes.is_empty() {
            let passed = self.rest.min(bytes.len());
            self.rest -= passed;
            bytes = &bytes[passed..];
            let is_goaway = self.begun.len() >= FRAME_HEAD;
            let wanted = if is_goaway { GOAWAY_HEAD } else { FRAME_HEAD };
            let taken = (wanted - self.begun.len()).min(bytes.len());
            self.begun.extend_from_slice(&bytes[..taken]);
            bytes = &bytes[taken..];
            if self.begun.len() < wanted {
                continue;
            }
            let length = [0, self.begun[0], self.begun[1], self.begun[2]];
            let length = u32::from_be_bytes(length) as usize;
            let has_reason = self.begun[3] == GOAWAY && length >= GOAWAY_HEAD - FRAME_HEAD;
            if has_reason && !is_goaway {
                continue;
            }
            found |= is_goaway && self.begun[GOAWAY_REASON..] == [0; 4];
            self.rest = length + FRAME_HEAD - wanted;
            self.begun.clear();
        }
        found
    }
}

/// The endpoint of a stream, as the reasons of its end name it.
pub(super) struct StreamOrigin {
    /// The endpoint's text.
    pub(super) endpoint: String,
    /// The address that may speak TLS instead.
    pub(super) tls_address: Option<String>,
    /// The place that keeps the reason of the end.
    pub(super) last_error: LastError,
}

/// A stream that leaves the reason of its end in its endpoint, before anyone above learns of the end.
pub(super) struct Watched {
    stream: Box<dyn ByteStream>,
    origin: StreamOrigin,
    greeting: Greeting,
    /// Whether this side has closed the connection, or the other one has said that it will, so that its end is no news.
    closing: bool,
    /// The frames that come in, where they are HTTP/2.
    frames: Option<Frames>,
    /// Whether the reason of its end is known: what fails after that is only a consequence.
    lost: bool,
}

impl Watched {
    /// Watches a stream that was opened for the endpoint of `origin`.
    pub(super) fn new(
        stream: Box<dyn ByteStream>,
        origin: StreamOrigin,
        greeting: Greeting,
    ) -> Self {
        Self {
            stream,
            origin,
            greeting,
            closing: false,
            frames: (greeting == Greeting::Awaited).then(Frames::default),
            lost: false,
        }
    }

    fn lost(&mut self, error: &io::Error) {
        // A stream that knows better than the system says so inside the error.
        let known = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<EndpointError>());
        let reason = known.cloned().unwrap_or_else(|| {
            let endpoint = self.origin.endpoint.clone();
            match (self.greeting, handshake::reason(error)) {
                // A server of TLS 1.3 refuses after the handshake of this side has ended; it has taken no call.
                (Greeting::Awaited, Some(refused)) => {
                    EndpointError::Tls(endpoint, Arc::new(refused))
                }
                _ => EndpointError::Broken(endpoint, Arc::new(repeat(error))),
            }
        });
        self.ended(reason);
    }

    fn ended(&mut self, reason: EndpointError) {
        if !self.closing && !self.lost {
            self.lost = true;
            self.origin.last_error.set(Some(reason));
        }
    }

    /// The error to report when the other side has closed the connection.
    fn closed(&self) -> EndpointError {
        let endpoint = self.origin.endpoint.clone();
        match self.greeting {
            Greeting::Ignored => EndpointError::Closed(endpoint),
            Greeting::Awaited => EndpointError::Silent {
                endpoint,
                address: self.origin.tls_address.clone(),
            },
        }
    }

    fn watch<T>(&mut self, result: io::Result<T>) -> Poll<io::Result<T>> {
        Poll::Ready(result.inspect_err(|error| self.lost(error)))
    }

    /// Judges the first bytes that come, once.
    fn greeted(&mut self, answer: &[u8]) -> Result<(), EndpointError> {
        if self.greeting == Greeting::Ignored || answer.is_empty() {
            return Ok(());
        }
        self.greeting = Greeting::Ignored;
        if is_http2(answer) {
            return Ok(());
        }
        Err(EndpointError::NotGrpc {
            endpoint: self.origin.endpoint.clone(),
            address: self.origin.tls_address.clone(),
            answer: answer[..answer.len().min(ANSWER_SHOWN)].to_vec(),
        })
    }

    /// What a write that failed with `error` means. A server that is none of gRPC answers and closes while this side
    /// still writes: its answer, which is there or on its way, says more than that nobody reads any more.
    fn poll_write_failure(&mut self, cx: &mut Context<'_>, error: io::Error) -> Poll<io::Error> {
        if !is_loss(&error) || self.lost || self.greeting == Greeting::Ignored {
            return Poll::Ready(error);
        }
        let mut answer = [0; ANSWER_SHOWN];
        let mut buffer = ReadBuf::new(&mut answer);
        let read = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut buffer));
        Poll::Ready(match read {
            Ok(()) if buffer.filled().is_empty() => io::Error::other(self.closed()),
            Ok(()) => match self.greeted(buffer.filled()) {
                Ok(()) => error,
                Err(stranger) => io::Error::other(stranger),
            },
            Err(reason) if is_loss(&reason) => io::Error::other(self.closed()),
            // Such as the alert with which TLS refuses.
            Err(reason) => reason,
        })
    }

    fn poll_written<T>(
        &mut self,
        cx: &mut Context<'_>,
        result: io::Result<T>,
    ) -> Poll<io::Result<T>> {
        match result {
            Ok(done) => Poll::Ready(Ok(done)),
            Err(error) => {
                let reason = ready!(self.poll_write_failure(cx, error));
                self.watch(Err(reason))
            }
        }
    }
}

/// Whether it says no more than that the other side is gone.
fn is_loss(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::BrokenPipe
            | io::ErrorKind::ConnectionReset
            // TLS without its close_notify.
            | io::ErrorKind::UnexpectedEof
    )
}

/// A copy of an error: `io::Error` cannot be cloned.
fn repeat(error: &io::Error) -> io::Error {
    if let Some(reason) = handshake::reason(error) {
        return io::Error::other(reason);
    }
    match error.raw_os_error() {
        Some(code) => io::Error::from_raw_os_error(code),
        None => io::Error::new(error.kind(), error.to_string()),
    }
}

impl AsyncRead for Watched {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let room = buffer.remaining() > 0;
        let result = ready!(Pin::new(&mut self.stream).poll_read(cx, buffer));
        let result = result.map_err(|error| match self.greeting {
            Greeting::Awaited if is_loss(&error) => io::Error::other(self.closed()),
            _ => error,
        });
        let read = &buffer.filled()[before..];
        if result.is_ok() && room && read.is_empty() {
            let closed = self.closed();
            self.ended(closed);
        }
        if let Err(stranger) = self.greeted(read) {
            return self.watch(Err(io::Error::other(stranger)));
        }
        if let Some(frames) = &mut self.frames {
            self.closing |= frames.end_in_order(read);
        }
        self.watch(result)
    }
}

impl AsyncWrite for Watched {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write(cx, bytes));
        self.poll_written(cx, result)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let result = ready!(Pin::new(&mut self.stream).poll_write_vectored(cx, slices));
        self.poll_written(cx, result)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let result = ready!(Pin::new(&mut self.stream).poll_flush(cx));
        self.poll_written(cx, result)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closing = true;
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::AsyncWriteExt;
    use tokio::net::UnixStream;

    /// Why a connection ends whose other side answered and closed before this side has written.
    async fn slammed(endpoint: &str, answer: &[u8]) -> String {
        let last_error = LastError::default();
        let origin = StreamOrigin {
            endpoint: endpoint.to_owned(),
            tls_address: (!endpoint.starts_with('/'))
                .then(|| endpoint.trim_start_matches("dns:///").to_owned()),
            last_error: last_error.clone(),
        };
        let (near, mut far) = UnixStream::pair().expect("a pair");
        far.write_all(answer).await.expect("answered");
        drop(far);
        let mut near = Watched::new(Box::new(near), origin, Greeting::Awaited);
        near.write_all(b"PRI").await.expect_err("nobody reads");
        // What fails afterwards does not hide the reason.
        near.write_all(b"more").await.expect_err("still nobody");
        last_error.get().expect("a reason").to_string()
    }

    #[test]
    fn an_end_in_order_is_seen_however_its_frames_are_cut() {
        let frame = |kind: u8, payload: &[u8]| {
            let mut frame = vec![0, 0, payload.len() as u8, kind, 0, 0, 0, 0, 0];
            frame.extend_from_slice(payload);
            frame
        };
        let goaway = |reason: u8| frame(7, &[0, 0, 0, 1, 0, 0, 0, reason, b'a', b'g', b'e']);
        // The payload of another frame looks like it.
        let begin = [frame(4, &[]), frame(0, &goaway(0)), frame(6, &[7; 8])].concat();
        for (end, expected) in [
            (Vec::new(), false),
            (goaway(0), true),
            (goaway(2), false),
            // Too short to be one.
            (frame(7, &[0; 4]), false),
            ([goaway(0), frame(6, &[0; 8])].concat(), true),
        ] {
            let all = [&begin[..], &end].concat();
            for part in 1..=all.len() {
                let mut frames = Frames::default();
                let parts = all.chunks(part);
                let found = parts.filter(|part| frames.end_in_order(part)).count() > 0;
                assert_eq!(found, expected, "{part} {all:?}");
            }
        }
    }

    #[tokio::test]
    async fn the_answer_of_a_stranger_that_has_closed_is_read() {
        let cases: [(&str, &[u8], &str); 7] = [
            (
                "/p",
                b"HTTP/1.0 505 No\r\n",
                "/p does not speak gRPC: it answers \"HTTP/1.0 505 No\\r\\n\"",
            ),
            (
                "h:1",
                b"\x15\x03\x01\0\x02\x02\x46",
                "h:1 does not speak gRPC: it answers in TLS; write https://h:1",
            ),
            (
                "dns:///h:1",
                b"\x16",
                "dns:///h:1 does not speak gRPC: it answers in TLS; write https://h:1",
            ),
            (
                "/p",
                b"\x15\x03",
                "/p does not speak gRPC: it answers in TLS; write https://HOST:PORT",
            ),
            ("/p", b"", "/p closed the connection without a word"),
            (
                "h:1",
                b"",
                "h:1 closed the connection without a word; if it speaks TLS, write https://h:1",
            ),
            // A driver that ended right after its greeting.
            ("/p", b"\0\0\0\x04\0\0\0\0\0", "the connection to /p broke"),
        ];
        for (endpoint, answer, reason) in cases {
            assert_eq!(slammed(endpoint, answer).await, reason);
        }
    }
}
