//! A driver and a caller that speak HTTP/2 frame by frame, for what no gRPC library lets one see or do.

use crate::support::patience::received;
use bytes::Bytes;
use h2::client::SendRequest;
use h2::server::SendResponse;
use h2::{Reason, RecvStream, SendStream};
use http::{HeaderMap, Request, Response};
use std::future::poll_fn;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::Runtime;

/// A server of a service that is none of CSI's: `Echo`, `Refuse`, `Only`, `Wait`.
pub struct Stranger {
    folder: TempDir,
    seen: Receiver<Seen>,
    runtime: Option<Runtime>,
}

/// What the stranger notices.
#[derive(Debug)]
pub enum Seen {
    /// A call's head.
    Head(Box<http::request::Parts>),
    /// The caller has given up.
    Reset(Reason),
}

impl Stranger {
    pub fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(1)
            .enable_all()
            .build()
            .unwrap();
        let (sender, seen) = channel();
        let path = folder.path().join("s.sock");
        let listener = {
            let _context = runtime.enter();
            UnixListener::bind(path).unwrap()
        };
        runtime.spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(connection(stream, sender.clone()));
            }
        });
        Self {
            folder,
            seen,
            runtime: Some(runtime),
        }
    }

    pub fn socket(&self) -> PathBuf {
        self.folder.path().join("s.sock")
    }

    pub fn endpoint(&self) -> String {
        format!("unix://{}", self.socket().display())
    }

    /// What it notices next.
    #[track_caller]
    pub fn next(&self) -> Seen {
        received("it notices something", &self.seen)
    }
}

impl Drop for Stranger {
    fn drop(&mut self) {
        // A test may run in a runtime of its own, which must not wait for another one.
        if let Some(runtime) = self.runtime.take() {
            runtime.shutdown_background();
        }
    }
}

async fn connection(stream: UnixStream, seen: Sender<Seen>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else {
        return;
    };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(call(request, respond, seen.clone()));
    }
}

fn headers(entries: &[(&'static str, &'static str)]) -> HeaderMap {
    let parse = |(name, value): &(&'static str, &'static str)| {
        (
            http::HeaderName::from_static(name),
            http::HeaderValue::from_static(value),
        )
    };
    entries.iter().map(parse).collect()
}

fn reply(entries: &[(&'static str, &'static str)]) -> Response<()> {
    let mut response = Response::new(());
    *response.headers_mut() = headers(entries);
    response
}

async fn call(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, seen: Sender<Seen>) {
    let (head, mut body) = request.into_parts();
    let name = head.uri.path().rsplit('/').next().unwrap().to_owned();
    seen.send(Seen::Head(Box::new(head))).unwrap();
    match name.as_str() {
        "Echo" => {
            let head = reply(&[
                ("content-type", "application/grpc+own"),
                ("x-head-bin", "AQI"),
            ]);
            let mut out = respond.send_response(head, false).unwrap();
            while let Some(Ok(piece)) = body.data().await {
                body.flow_control().release_capacity(piece.len()).unwrap();
                send(&mut out, piece, false).await;
            }
            let trailers = headers(&[("grpc-status", "0"), ("x-trailer", "a"), ("x-trailer", "b")]);
            out.send_trailers(trailers).unwrap();
        }
        "Only" => {
            let head = reply(&[
                ("content-type", "application/grpc"),
                ("grpc-status", "9"),
                ("grpc-message", "50%25 %C3%BC"),
                ("grpc-status-details-bin", "CAk"),
                ("x-own", "kept"),
            ]);
            respond.send_response(head, true).unwrap();
        }
        "Refuse" => respond.send_reset(Reason::REFUSED_STREAM),
        _ => {
            let reason = poll_fn(|context| respond.poll_reset(context)).await;
            // After a reset nobody may listen any more.
            let _ = seen.send(Seen::Reset(reason.unwrap()));
        }
    }
}

/// Sends all of `piece`, as fast as the other side takes it.
pub async fn send(out: &mut SendStream<Bytes>, mut piece: Bytes, ends: bool) {
    while !piece.is_empty() {
        out.reserve_capacity(piece.len());
        if out.capacity() == 0 {
            poll_fn(|context| out.poll_capacity(context))
                .await
                .unwrap()
                .unwrap();
        }
        let part = piece.split_to(piece.len().min(out.capacity()));
        let last = ends && piece.is_empty();
        out.send_data(part, last).unwrap();
    }
}

/// A connection to a socket.
pub async fn connect(socket: impl AsRef<std::path::Path>) -> SendRequest<Bytes> {
    let stream = UnixStream::connect(socket).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

/// A call with some metadata; nothing of its body is sent yet.
pub fn call_of(
    sender: &mut SendRequest<Bytes>,
    path: &str,
) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
    let mut request = Request::post(format!("http://caller{path}"))
        .body(())
        .unwrap();
    *request.headers_mut() = headers(&[
        ("content-type", "application/grpc+own"),
        ("te", "trailers"),
        ("grpc-timeout", "30S"),
        ("x-own", "1"),
        ("x-own", "2"),
        ("x-own-bin", "AAEC/w"),
    ]);
    sender.send_request(request, false).unwrap()
}

/// A message as gRPC frames it.
pub fn frame(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat().into()
}
