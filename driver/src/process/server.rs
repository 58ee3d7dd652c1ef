//! Serving on a unix socket or a loopback port until a signal. Owns listeners and the end of the process's work; must not know
//! the services.

use crate::calls::accepting::Connections;
use crate::calls::call_log::CallLog;
use crate::process::config::Endpoint;
use crate::process::log::{Level, Log};
use crate::process::socket::{self, SocketError, SocketPlace};
use csi_proto::socket_file::{SocketFile, SocketIdentity};
use std::io;
use std::time::Duration;
use thiserror::Error;
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tonic::service::Routes;
use tonic::transport::Server;

/// How long connections may take to send the last answers and close.
const FLUSH: Duration = Duration::from_millis(500);

/// What a connection may have sent that was not read yet, in bytes. HTTP/2's library ends a connection with half as much overhead in
/// small frames that wait: by its own measure 3,000 requests at once would end all calls on it, where they are to be refused singly.
const WINDOW: u32 = 4 << 20;

/// Why the driver cannot serve.
#[derive(Debug, Error)]
pub enum ServeError {
    /// The socket's place cannot be had.
    #[error(transparent)]
    Socket(#[from] SocketError),
    /// The listener cannot be made.
    #[error("cannot listen on {0}: {1}")]
    Listen(String, #[source] io::Error),
    /// Signals cannot be watched.
    #[error("cannot watch signals: {0}")]
    Signals(#[source] io::Error),
    /// The transport failed.
    #[error("serving: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All calls were answered.
    Drained,
    /// The drain bound passed with calls unanswered.
    Late,
    /// A second signal came.
    Forced,
}

/// A listener that has its place already.
#[derive(Debug)]
pub enum Listener {
    /// A unix socket with its file, and its place, where it is made anew when the file is lost.
    Unix((UnixListener, SocketFile), SocketPlace),
    /// A port.
    Tcp(TcpListener),
}

impl Listener {
    /// Takes the place `endpoint`, which an error calls `shown`. A socket that nobody serves any more is replaced; the new one has
    /// this `mode`. `remedy` is what helps where the place cannot be had.
    ///
    /// # Errors
    /// When the place is taken or cannot be used.
    pub async fn bind(
        endpoint: &Endpoint,
        shown: &str,
        mode: u32,
        remedy: &'static str,
    ) -> Result<Self, ServeError> {
        match endpoint {
            Endpoint::Unix(path) => {
                let path = path.clone();
                let place = SocketPlace { path, mode, remedy };
                Ok(Self::Unix(socket::listen(&place, None).await?, place))
            }
            Endpoint::Tcp(address) => {
                let failed = |error| ServeError::Listen(shown.to_owned(), error);
                TcpListener::bind(address)
                    .await
                    .map(Self::Tcp)
                    .map_err(failed)
            }
        }
    }

    /// Where it listens; a port of 0 has become the one that the kernel chose.
    pub fn endpoint(&self) -> Option<Endpoint> {
        match self {
            Self::Unix(_, place) => Some(Endpoint::Unix(place.path.clone())),
            Self::Tcp(listener) => listener.local_addr().ok().map(Endpoint::Tcp),
        }
    }
}

/// Serves `routes` until SIGTERM or SIGINT, then until all calls are answered, the time for that is over, or a second signal
/// comes. `give_up` is called at the first signal, so that no call waits for what the next start takes up; `settled` ends
/// when work that outlives its call is done. `tell_of_socket` is told why the socket is lost, and `None` when it is there again.
pub async fn serve(
    listener: Listener,
    routes: Routes,
    log: Log,
    mut signals: StopSignals,
    give_up: impl FnOnce(),
    settled: impl Future<Output = ()>,
    tell_of_socket: impl Fn(Option<&str>) + Send + Sync + 'static,
) -> Result<Ended, ServeError> {
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let calls = CallLog::new(log);
    let server = Server::builder().initial_connection_window_size(WINDOW);
    let router = server.layer(calls.clone()).add_routes(routes);
    let stopped = async {
        // Both a message and a dropped sender mean the end.
        let _ = stopped.await;
    };
    let mut file = None;
    let serving = async {
        match listener {
            Listener::Unix(socket, place) => {
                let (mut listener, kept) = socket::keep(
                    socket,
                    place,
                    None,
                    SocketIdentity::is_removed,
                    tell_of_socket,
                );
                file = Some(kept);
                let incoming = Connections::of(move |cx| listener.poll_accept(cx), log);
                router.serve_with_incoming_shutdown(incoming, stopped).await
            }
            Listener::Tcp(listener) => {
                let incoming = Connections::of(move |cx| listener.poll_accept(cx), log);
                router.serve_with_incoming_shutdown(incoming, stopped).await
            }
        }
    };
    tokio::pin!(serving);
    let name = tokio::select! {
        result = &mut serving => return result.map(|()| Ended::Drained).map_err(Into::into),
        name = signals.next() => name,
    };
    log.event(Level::Info, "draining", &[("signal", name.into())]);
    let _ = stop.send(());
    give_up();
    let drained = async {
        // Calls count, not connections: a client may keep an idle one for ever.
        let answered = async {
            calls.quiet().await;
            tokio::time::sleep(FLUSH).await;
        };
        tokio::select! {
            result = &mut serving => result?,
            () = answered => {}
        }
        settled.await;
        Ok::<_, ServeError>(Ended::Drained)
    };
    let ended = tokio::select! {
        result = drained => result?,
        () = tokio::time::sleep(signals.drain) => Ended::Late,
        _ = signals.next() => Ended::Forced,
    };
    log.event(
        Level::Info,
        "ended",
        &[("how", format!("{ended:?}").to_lowercase().into())],
    );
    Ok(ended)
}

/// The signals that end the driver. From when they are watched they no longer end the process by themselves.
#[derive(Debug)]
pub struct StopSignals {
    /// How long calls in progress may go on after the first.
    pub drain: Duration,
    term: Signal,
    int: Signal,
}

impl StopSignals {
    /// Watches SIGTERM and SIGINT, for an end that takes up to `drain`.
    pub fn watch(drain: Duration) -> Result<Self, ServeError> {
        Ok(Self {
            drain,
            term: signal(SignalKind::terminate()).map_err(ServeError::Signals)?,
            int: signal(SignalKind::interrupt()).map_err(ServeError::Signals)?,
        })
    }

    /// Waits for the next one, and tells its name.
    pub async fn next(&mut self) -> &'static str {
        tokio::select! {
            _ = self.term.recv() => "SIGTERM",
            _ = self.int.recv() => "SIGINT",
        }
    }
}
