//! Serving connections until told to stop: whoever answers, and wherever connections come from. Owns the count of calls that
//! run and the end of the work; must not know what is answered.

use futures_util::stream::{Stream, StreamExt as _};
use http::{Request, Response};
use std::convert::Infallible;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, DuplexStream};
use tokio::sync::watch;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::transport::server::{Connected, Router};
use tower::layer::util::{Identity, Stack};
use tower::{Layer, Service};

/// How much a pipe of this process holds before its writer waits: a few frames of HTTP/2.
const PIPE_BYTES: usize = 64 * 1024;

/// How long connections may take to send the last answers and close.
const FLUSH: Duration = Duration::from_millis(500);

/// Answers the calls of every method.
pub trait Answers: Clone + Send + Sync + 'static {
    /// The answer to a call; never ends for one that is not answered, after `running` was dropped.
    fn answer(
        &self,
        request: Request<Body>,
        running: Running,
    ) -> impl Future<Output = Response<Body>> + Send;
}

/// A call that has not been answered yet. To be dropped early where it never will be.
pub struct Running(watch::Sender<usize>);

impl Running {
    fn begin(count: &watch::Sender<usize>) -> Self {
        count.send_modify(|count| *count += 1);
        Self(count.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

/// How serving ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All calls were answered.
    Drained,
    /// That many were not, and are cut off.
    CutOff(usize),
}

/// Serves connections. Clones count their calls together.
#[derive(Clone)]
pub struct Server<A> {
    answers: A,
    running: watch::Sender<usize>,
}

impl<A: Answers> Server<A> {
    /// A server that answers so.
    pub fn new(answers: A) -> Self {
        Self {
            answers,
            running: watch::Sender::new(0),
        }
    }

    /// A connection within this process, served until its other end is dropped. To be called in a runtime.
    pub fn connect(&self) -> DuplexStream {
        let (ours, theirs) = tokio::io::duplex(PIPE_BYTES);
        let serving = self.clone();
        tokio::spawn(async move {
            let incoming = tokio_stream::once(Ok::<_, io::Error>(theirs));
            // An error here is that the caller has dropped its end.
            let _ = serving.router().serve_with_incoming(incoming).await;
        });
        ours
    }

    /// Serves the connections until `stop` ends, and then until all calls are answered or `drain` has passed.
    pub async fn serve<IO>(
        &self,
        incoming: impl Stream<Item = IO>,
        stop: impl Future<Output = ()>,
        drain: Duration,
    ) -> Result<Ended, tonic::transport::Error>
    where
        IO: AsyncRead + AsyncWrite + Connected + Unpin + Send + 'static,
    {
        let (stopping, stopped) = watch::channel(false);
        let incoming = incoming.map(Ok::<_, io::Error>);
        let over = |mut stopped: watch::Receiver<bool>| async move {
            // A dropped sender means the end as well.
            let _ = stopped.wait_for(|stopped| *stopped).await;
        };
        let serving = self
            .router()
            .serve_with_incoming_shutdown(incoming, over(stopped));
        tokio::pin!(serving);
        tokio::select! {
            result = &mut serving => return result.map(|()| Ended::Drained),
            () = stop => {}
        }
        let _ = stopping.send(true);
        // Calls count, not connections: a caller may keep an idle one for ever.
        let mut running = self.running.subscribe();
        let answered = async {
            let _ = running.wait_for(|count| *count == 0).await;
            tokio::time::sleep(FLUSH).await;
        };
        tokio::select! {
            result = &mut serving => result.map(|()| Ended::Drained),
            () = answered => Ok(Ended::Drained),
            () = tokio::time::sleep(drain) => Ok(Ended::CutOff(*self.running.borrow())),
        }
    }

    fn router(&self) -> Router<Stack<InPlaceOf<A>, Identity>> {
        tonic::transport::Server::builder()
            .layer(InPlaceOf(self.clone()))
            .add_routes(Routes::default())
    }
}

/// Answers in the place of the library's table of services: methods that nobody foresaw can be answered too.
#[derive(Clone)]
struct InPlaceOf<A>(Server<A>);

impl<A: Answers> Layer<Routes> for InPlaceOf<A> {
    type Service = Self;

    fn layer(&self, _: Routes) -> Self {
        self.clone()
    }
}

type Answer = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl<A: Answers> Service<Request<Body>> for InPlaceOf<A> {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Answer;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Answer {
        let Server { answers, running } = self.0.clone();
        Box::pin(async move {
            let running = Running::begin(&running);
            Ok(answers.answer(request, running).await)
        })
    }
}
