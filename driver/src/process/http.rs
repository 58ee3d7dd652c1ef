//! Health, readiness and metrics over HTTP: `/healthz`, `/readyz`, `/metrics`. Owns the protocol and the paths; what they tell comes
//! from elsewhere. Must not wait for an NFS server, and must change nothing.

mod address;
mod get;

pub use address::HttpAddress;
pub use get::get;

use crate::calls::accepting::Connections;
use crate::process::driver::Driver;
use crate::process::health::Obstacle;
use crate::process::log::Log;
use crate::process::registration::Progress;
use crate::process::server::{Listener, ServeError};
use crate::process::socket;
use bytes::Bytes;
use csi_nfs_store::metrics::METRICS;
use csi_proto::socket_file::SocketIdentity;
use http::{Method, Request, Response, StatusCode, header};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::collections::VecDeque;
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinSet};
use tokio_stream::StreamExt;

/// How many connections are served at a time. One more takes the place of one that waits for its peer.
const CONNECTIONS: usize = 64;

/// How long a request may take to arrive.
const HEADER_PATIENCE: Duration = Duration::from_secs(5);

/// How long a connection may take; a look at the health takes at most fifteen seconds.
const PATIENCE: Duration = Duration::from_secs(30);

const TEXT: &str = "text/plain; charset=utf-8";
const METRICS_TEXT: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Takes the place that `address` names.
///
/// # Errors
/// When it is taken or cannot be used.
pub async fn listen(address: &HttpAddress) -> Result<Listener, ServeError> {
    let shown = format!("{address}, which --http names");
    Listener::bind(&address.0, &shown, 0o660, "choose another --http").await
}

/// What is told of an instance.
#[derive(Clone)]
pub struct Watched {
    /// The instance.
    pub driver: Driver,
    /// Its registration with a kubelet, where it has to register.
    pub registration: Option<watch::Receiver<Progress>>,
    /// Whether it accepts no new calls because it ends.
    pub ending: Arc<AtomicBool>,
}

impl Watched {
    /// Why this instance cannot be used now.
    async fn not_ready(&self) -> Option<String> {
        if self.ending.load(Ordering::Relaxed) {
            return Some("this driver ends".to_owned());
        }
        let registration = self.registration.as_ref();
        let unregistered = registration.and_then(|progress| progress.borrow().obstacle());
        match unregistered {
            Some(obstacle) => Some(obstacle),
            None => {
                let health = self.driver.health();
                let (obstacle, lost) = tokio::join!(health.obstacle(), health.lost_shares());
                obstacle.map(|it| it.to_string()).or(lost)
            }
        }
    }

    /// Why this instance had better be started anew.
    async fn not_alive(&self) -> Option<String> {
        match self.driver.health().obstacle().await? {
            Obstacle::NoNfsClient(_) => None,
            Obstacle::Fault(why) => Some(why),
        }
    }

    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if !matches!(*request.method(), Method::GET | Method::HEAD) {
            return reply(StatusCode::METHOD_NOT_ALLOWED, TEXT, "only GET\n");
        }
        match request.uri().path() {
            "/healthz" => verdict(self.not_alive().await),
            "/readyz" => verdict(self.not_ready().await),
            "/metrics" => {
                let registration = self.registration.as_ref();
                let registered = registration.map(|it| it.borrow().obstacle().is_none());
                self.driver.observe().await;
                let text = METRICS.text(self.driver.name(), registered);
                reply(StatusCode::OK, METRICS_TEXT, text)
            }
            _ => {
                let there = "there are /healthz, /readyz and /metrics\n";
                reply(StatusCode::NOT_FOUND, TEXT, there)
            }
        }
    }
}

fn verdict(obstacle: Option<String>) -> Response<Full<Bytes>> {
    match obstacle {
        None => reply(StatusCode::OK, TEXT, "ok\n"),
        Some(why) => reply(StatusCode::SERVICE_UNAVAILABLE, TEXT, format!("{why}\n")),
    }
}

fn reply(
    status: StatusCode,
    kind: &'static str,
    text: impl Into<Full<Bytes>>,
) -> Response<Full<Bytes>> {
    let mut response = Response::new(text.into());
    *response.status_mut() = status;
    let kind = header::HeaderValue::from_static(kind);
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// Answers on `listener` until this is dropped.
pub async fn serve(listener: Listener, watched: Watched, log: Log) {
    match listener {
        Listener::Unix(socket, place) => {
            let (mut listener, _file) =
                socket::keep(socket, place, None, SocketIdentity::is_removed, |_| ());
            let incoming = Connections::of(move |cx| listener.poll_accept(cx), log);
            accept(incoming, watched).await;
        }
        Listener::Tcp(listener) => {
            let incoming = Connections::of(move |cx| listener.poll_accept(cx), log);
            accept(incoming, watched).await;
        }
    }
}

/// A connection that is served.
struct Seat {
    task: AbortHandle,
    /// Whether its answer is being made. What it waits for then is not its peer.
    is_at_work: Arc<AtomicBool>,
}

/// Which connection has to make room for one more, of `seats` from the oldest on: one that waits for its peer, who has not sent a
/// whole header, or does not take the answer.
fn to_put_out(seats: &VecDeque<Seat>) -> Option<usize> {
    let waits = |seat: &Seat| !seat.is_at_work.load(Ordering::Relaxed);
    seats.iter().position(waits)
}

async fn accept<S>(mut connections: impl StreamExt<Item = io::Result<S>> + Unpin, watched: Watched)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    // They end with this.
    let mut tasks = JoinSet::new();
    let mut seats = VecDeque::<Seat>::new();
    while let Some(connection) = connections.next().await {
        let Ok(connection) = connection else { continue };
        while tasks.try_join_next().is_some() {}
        seats.retain(|seat| !seat.task.is_finished());
        if seats.len() >= CONNECTIONS {
            match to_put_out(&seats).and_then(|oldest| seats.remove(oldest)) {
                Some(seat) => seat.task.abort(),
                None => drop(tasks.join_next().await),
            }
        }
        let is_at_work = Arc::new(AtomicBool::new(false));
        let task = tasks.spawn(converse(connection, watched.clone(), is_at_work.clone()));
        seats.push_back(Seat { task, is_at_work });
        // What has arrived is read before the next connection may put this one out.
        tokio::task::yield_now().await;
    }
}

async fn converse<S>(connection: S, watched: Watched, is_at_work: Arc<AtomicBool>)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let answer = service_fn(|request| {
        let (watched, is_at_work) = (watched.clone(), is_at_work.clone());
        async move {
            is_at_work.store(true, Ordering::Relaxed);
            let answer = watched.answer(&request).await;
            is_at_work.store(false, Ordering::Relaxed);
            Ok::<_, Infallible>(answer)
        }
    });
    let mut protocol = hyper::server::conn::http1::Builder::new();
    protocol.timer(TokioTimer::new());
    protocol.header_read_timeout(HEADER_PATIENCE);
    // Whoever asks comes once in many seconds: a connection that stays would only take a file and a seat.
    protocol.keep_alive(false);
    let served = protocol.serve_connection(TokioIo::new(connection), answer);
    // Who does not hear the answer to the end has no use for it.
    let _ = tokio::time::timeout(PATIENCE, served).await;
}
