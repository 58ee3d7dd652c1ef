//! Carries out replies: HTTP/2 connections, calls, and the steps of each reply.

use super::listen::Listener;
use super::reply::{Status, Step};
use super::{Reply, Request, Shared};
use http_body_util::{BodyExt as _, Full, StreamBody, combinators::BoxBody};
use hyper::body::{Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::bytes::Bytes;
use std::convert::Infallible;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use tokio::sync::{Notify, mpsc};
use tokio_stream::wrappers::ReceiverStream;

type Body = BoxBody<Bytes, Infallible>;

/// Accepts connections for ever.
pub(super) async fn connections(listener: Listener, shared: Arc<Shared>) {
    let mut unanswered = Vec::new();
    loop {
        let Some((stream, socket)) = listener.accept().await else {
            continue;
        };
        shared.note(|seen| seen.connections += 1);
        if listener.answers() {
            tokio::spawn(connection(TokioIo::new(stream), socket, shared.clone()));
        } else {
            unanswered.push((stream, socket));
        }
    }
}

async fn connection<I>(stream: I, socket: OwnedFd, shared: Arc<Shared>)
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let disconnect = Arc::new(Notify::new());
    let service = service_fn(|request| {
        let (shared, disconnect) = (shared.clone(), disconnect.clone());
        async move { Ok::<_, Infallible>(call(request, shared, disconnect).await) }
    });
    let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        // Large errors are a subject of the tests.
        .max_header_list_size(1 << 20)
        .serve_connection(stream, service);
    tokio::select! {
        // A client that went away is no failure.
        _ = connection => {}
        () = disconnect.notified() => {}
    }
    // At once, also where a child that is just being started has a copy.
    let _ = rustix::net::shutdown(socket, rustix::net::Shutdown::Both);
}

async fn call(
    request: http::Request<Incoming>,
    shared: Arc<Shared>,
    disconnect: Arc<Notify>,
) -> http::Response<Body> {
    let request = match received(request).await {
        Ok(request) => request,
        Err(error) => {
            return Status {
                code: tonic::Code::Internal,
                message: format!("the request's body: {error}"),
                details: Vec::new(),
            }
            .only();
        }
    };
    shared.note(|seen| seen.requests.push(request.clone()));
    let reply = shared.reply_to(&request);
    let unfinished = Unfinished {
        rpc: request
            .path
            .rsplit('/')
            .next()
            .unwrap_or_default()
            .to_owned(),
        shared,
    };
    respond(reply, unfinished, disconnect).await
}

/// Notes a cancellation when it is dropped before the reply's end, as hyper does when the client resets the call.
struct Unfinished {
    rpc: String,
    shared: Arc<Shared>,
}

impl Unfinished {
    fn finish(&mut self) {
        self.rpc.clear();
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        if !self.rpc.is_empty() {
            let rpc = std::mem::take(&mut self.rpc);
            self.shared.note(|seen| seen.cancelled.push(rpc));
        }
    }
}

async fn received(request: http::Request<Incoming>) -> Result<Request, hyper::Error> {
    let (head, body) = request.into_parts();
    let mut message = body.collect().await?.to_bytes();
    // Requests are single messages; five bytes of gRPC stand before the message.
    let message = message.split_off(message.len().min(5));
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    Ok(Request {
        path: head.uri.path().to_owned(),
        authority: head
            .uri
            .authority()
            .map(ToString::to_string)
            .unwrap_or_default(),
        metadata: head
            .headers
            .iter()
            .map(|(name, value)| (name.to_string(), text(value)))
            .collect(),
        message,
    })
}

async fn respond(
    reply: Reply,
    mut unfinished: Unfinished,
    disconnect: Arc<Notify>,
) -> http::Response<Body> {
    let mut steps = reply.steps.into_iter().peekable();
    // What comes before the first byte of the answer.
    loop {
        match steps.peek() {
            Some(Step::Pause(pause)) => tokio::time::sleep(*pause).await,
            Some(Step::Hang) => std::future::pending().await,
            Some(Step::Disconnect) => {
                unfinished.finish();
                disconnect.notify_one();
                std::future::pending().await
            }
            Some(Step::Http(status, body)) => {
                let body = Full::new(body.clone()).boxed();
                let mut response = http::Response::new(body);
                *response.status_mut() = *status;
                let html = http::HeaderValue::from_static("text/html");
                response.headers_mut().insert("content-type", html);
                unfinished.finish();
                return response;
            }
            Some(Step::End(status)) => {
                unfinished.finish();
                return status.only();
            }
            Some(Step::Frame(_) | Step::Json(_)) | None => break,
        }
        steps.next();
    }

    let (frames, body) = mpsc::channel(1);
    tokio::spawn(async move {
        let mut has_ended = false;
        for step in steps {
            let frame = match step {
                Step::Frame(bytes) => Frame::data(bytes),
                Step::End(status) => {
                    has_ended = true;
                    unfinished.finish();
                    Frame::trailers(status.headers())
                }
                Step::Pause(pause) => {
                    tokio::select! {
                        () = frames.closed() => return,
                        () = tokio::time::sleep(pause) => continue,
                    }
                }
                Step::Hang => return frames.closed().await,
                Step::Disconnect => {
                    // What was sent before shall arrive.
                    tokio::time::sleep(std::time::Duration::from_millis(50)).await;
                    disconnect.notify_one();
                    return unfinished.finish();
                }
                Step::Json(_) => panic!("a reply is encoded for its RPC"),
                Step::Http(..) => panic!("an answer of HTTP stands alone"),
            };
            if frames.send(Ok(frame)).await.is_err() {
                return;
            }
        }
        if !has_ended {
            let _ = frames.send(Ok(Frame::trailers(Status::OK.headers()))).await;
            unfinished.finish();
        }
    });
    let mut response = grpc(StreamBody::new(ReceiverStream::new(body)).boxed());
    for (name, value) in reply.headers {
        let value = http::HeaderValue::from_str(&value).expect("a header's value");
        response.headers_mut().insert(name, value);
    }
    response
}

impl Status {
    /// An answer that is nothing but this status.
    fn only(&self) -> http::Response<Body> {
        let mut response = grpc(Full::default().boxed());
        response.headers_mut().extend(self.headers());
        response
    }
}

fn grpc(body: Body) -> http::Response<Body> {
    let mut response = http::Response::new(body);
    let kind = http::HeaderValue::from_static("application/grpc");
    response.headers_mut().insert("content-type", kind);
    response
}
