//! Accepts connections one after the other from a listener that may fail for a while. Owns the pause after a failure and its log
//! line; must not know what the connections are for.
//!
//! At the limit of open files accept(2) fails at once and again: without a pause that keeps a processor busy and tells nobody.

use crate::process::log::{Level, Log};
use rustix::io::Errno;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{Instant, Sleep};
use tokio_stream::Stream;

/// How long to wait after a failure: twice as long after each further one, up to the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// How often failures that go on are told.
const TELL: Duration = Duration::from_secs(60);

/// What connections come from.
pub trait Accept: Unpin {
    /// A connection.
    type Connection;
    /// The next one, as of listeners of tokio.
    ///
    /// # Errors
    /// Those of accept(2).
    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<Self::Connection>>;
}

impl Accept for UnixListener {
    type Connection = UnixStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<UnixStream>> {
        let accepted = UnixListener::poll_accept(self, cx);
        accepted.map_ok(|(connection, _)| connection)
    }
}

impl Accept for TcpListener {
    type Connection = TcpStream;

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<TcpStream>> {
        let accepted = TcpListener::poll_accept(self, cx);
        accepted.map_ok(|(connection, _)| connection)
    }
}

/// The connections of a listener, without end and without errors.
pub struct Connections<L> {
    listener: L,
    log: Log,
    /// The pause after a failure, and how long it is.
    pause: Option<(Pin<Box<Sleep>>, Duration)>,
    told: Option<Instant>,
}

impl<L: Accept> Connections<L> {
    /// Those of `listener`; failures go to `log`.
    pub fn of(listener: L, log: Log) -> Self {
        Self {
            listener,
            log,
            pause: None,
            told: None,
        }
    }

    fn tell(&mut self, error: &io::Error) {
        if self.told.is_some_and(|told| told.elapsed() < TELL) {
            return;
        }
        self.told = Some(Instant::now());
        let mut fields = vec![("error", error.to_string().into())];
        if Errno::from_io_error(error) == Some(Errno::MFILE) {
            let limit = crate::files::descriptors::limit().map_or("none".into(), Into::into);
            fields.push(("limit of open files", limit));
        }
        self.log
            .event(Level::Error, "connections cannot be accepted", &fields);
    }
}

/// Whether it is the connection that has failed, and not this process.
fn is_the_peers(error: &io::Error) -> bool {
    matches!(
        Errno::from_io_error(error),
        Some(Errno::CONNABORTED | Errno::CONNRESET | Errno::INTR)
    )
}

impl<L: Accept> Stream for Connections<L> {
    type Item = io::Result<L::Connection>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let mut last = None;
            if let Some((pause, length)) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                last = Some(*length);
            }
            match ready!(self.listener.poll_accept(cx)) {
                Ok(connection) => {
                    if self.pause.take().is_some() {
                        self.log
                            .event(Level::Info, "connections are accepted again", &[]);
                        self.told = None;
                    }
                    return Poll::Ready(Some(Ok(connection)));
                }
                Err(error) if is_the_peers(&error) => {}
                Err(error) => {
                    self.tell(&error);
                    let [first, longest] = PAUSES;
                    let length = last.map_or(first, |last| (2 * last).min(longest));
                    self.pause = Some((Box::pin(tokio::time::sleep(length)), length));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::task::Waker;
    use tokio_stream::StreamExt;

    /// Fails as it is told, then has a connection each time.
    struct Failing {
        errors: RefCell<Vec<Errno>>,
        asked: RefCell<usize>,
    }

    impl Accept for Failing {
        type Connection = usize;

        fn poll_accept(&self, _: &mut Context<'_>) -> Poll<io::Result<usize>> {
            *self.asked.borrow_mut() += 1;
            Poll::Ready(match self.errors.borrow_mut().pop() {
                Some(error) => Err(error.into()),
                None => Ok(*self.asked.borrow()),
            })
        }
    }

    fn failing(errors: &[Errno]) -> Connections<Failing> {
        let listener = Failing {
            errors: RefCell::new(errors.to_vec()),
            asked: RefCell::default(),
        };
        Connections::of(listener, Log::off())
    }

    #[tokio::test]
    async fn a_listener_that_fails_is_not_asked_before_the_pause_is_over() {
        let mut connections = failing(&[Errno::MFILE; 3]);
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            assert!(
                Pin::new(&mut connections)
                    .poll_next(&mut context)
                    .is_pending()
            );
        }
        assert_eq!(*connections.listener.asked.borrow(), 1);
        // It goes on by itself, and pauses anew each time.
        assert_eq!(connections.next().await.unwrap().unwrap(), 4);
        assert!(connections.pause.is_none());
        assert_eq!(connections.next().await.unwrap().unwrap(), 5);
    }

    #[tokio::test]
    async fn a_connection_that_is_gone_is_no_reason_to_pause() {
        let mut connections = failing(&[Errno::CONNABORTED; 3]);
        let mut context = Context::from_waker(Waker::noop());
        let next = Pin::new(&mut connections).poll_next(&mut context);
        assert!(matches!(next, Poll::Ready(Some(Ok(4)))));
    }
}
