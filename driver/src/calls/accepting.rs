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
use tokio::time::{Instant, Sleep};
use tokio_stream::Stream;

/// How long to wait after a failure: twice as long after each further one, up to the second.
const PAUSES: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// How often failures that go on are told.
const TELL: Duration = Duration::from_secs(60);

/// How long after the last failure they have ended, which is longer than any pause: at the limit of open files, each connection that goes
/// makes room for one.
const CALM: Duration = Duration::from_secs(2);

/// The connections of a listener, without end and without errors.
pub struct Connections<F> {
    accept: F,
    log: Log,
    /// The pause after a failure, and how long it is.
    pause: Option<(Pin<Box<Sleep>>, Duration)>,
    /// When the last failure was, unless failures have ended since.
    failed: Option<Instant>,
    told: Option<Instant>,
}

impl<F> Connections<F> {
    /// Those that `accept` gives, which is accept(2) of a listener of tokio; failures go to `log`.
    pub fn of<C, A>(accept: F, log: Log) -> Self
    where
        F: FnMut(&mut Context<'_>) -> Poll<io::Result<(C, A)>>,
    {
        Self {
            accept,
            log,
            pause: None,
            failed: None,
            told: None,
        }
    }

    fn succeed(&mut self) {
        self.pause = None;
        if self.failed.is_some_and(|failed| failed.elapsed() >= CALM) {
            (self.failed, self.told) = (None, None);
            self.log
                .event(Level::Info, "connections are accepted again", &[]);
        }
    }

    fn fail(&mut self, error: &io::Error) {
        self.failed = Some(Instant::now());
        if self.told.is_some_and(|told| told.elapsed() < TELL) {
            return;
        }
        self.told = Some(Instant::now());
        let mut fields = vec![("error", error.to_string().into())];
        if Errno::from_io_error(error) == Some(Errno::MFILE) {
            let limit =
                csi_nfs_store::files::descriptors::limit().map_or("none".into(), Into::into);
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

impl<F, C, A> Stream for Connections<F>
where
    F: FnMut(&mut Context<'_>) -> Poll<io::Result<(C, A)>> + Unpin,
{
    type Item = io::Result<C>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let mut last = None;
            if let Some((pause, length)) = &mut self.pause {
                ready!(pause.as_mut().poll(cx));
                last = Some(*length);
            }
            match ready!((self.accept)(cx)) {
                Ok((connection, _)) => {
                    self.succeed();
                    return Poll::Ready(Some(Ok(connection)));
                }
                Err(error) if is_the_peers(&error) => {}
                Err(error) => {
                    self.fail(&error);
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
    use std::cell::Cell;
    use std::task::Waker;
    use tokio_stream::StreamExt;

    /// Fails as it is told, then has a connection each time, which is how often it was `asked`.
    fn failing(
        mut errors: Vec<Errno>,
        asked: &Cell<usize>,
    ) -> impl FnMut(&mut Context<'_>) -> Poll<io::Result<(usize, ())>> + Unpin {
        move |_| {
            asked.set(asked.get() + 1);
            Poll::Ready(match errors.pop() {
                Some(error) => Err(error.into()),
                None => Ok((asked.get(), ())),
            })
        }
    }

    #[tokio::test]
    async fn a_listener_that_fails_is_not_asked_before_the_pause_is_over() {
        let asked = Cell::new(0);
        let mut connections = Connections::of(failing(vec![Errno::MFILE; 3], &asked), Log::off());
        let mut context = Context::from_waker(Waker::noop());
        for _ in 0..100 {
            assert!(
                Pin::new(&mut connections)
                    .poll_next(&mut context)
                    .is_pending()
            );
        }
        assert_eq!(asked.get(), 1);
        // It goes on by itself, and pauses anew each time.
        assert_eq!(connections.next().await.unwrap().unwrap(), 4);
        assert!(connections.pause.is_none());
        assert_eq!(connections.next().await.unwrap().unwrap(), 5);
    }

    #[tokio::test]
    async fn failures_end_when_none_has_come_for_a_while() {
        let asked = Cell::new(0);
        // Every second connection gets the room of one that went.
        let accept = |_: &mut Context<'_>| {
            asked.set(asked.get() + 1);
            Poll::Ready(match asked.get() {
                number @ 1..=10 if number % 2 == 1 => Err(Errno::MFILE.into()),
                number => Ok((number, ())),
            })
        };
        let mut connections = Connections::of(accept, Log::off());
        assert_eq!(connections.next().await.unwrap().unwrap(), 2);
        let told = connections.told;
        for number in [4, 6, 8, 10, 11] {
            assert_eq!(connections.next().await.unwrap().unwrap(), number);
            assert_eq!(connections.told, told, "{number}");
            assert!(connections.failed.is_some(), "{number}");
        }
        connections.failed = connections.failed.map(|failed| failed - CALM);
        assert_eq!(connections.next().await.unwrap().unwrap(), 12);
        assert!(connections.told.is_none() && connections.failed.is_none());
    }

    #[tokio::test]
    async fn a_connection_that_is_gone_is_no_reason_to_pause() {
        let asked = Cell::new(0);
        let accept = failing(vec![Errno::CONNABORTED; 3], &asked);
        let mut connections = Connections::of(accept, Log::off());
        let mut context = Context::from_waker(Waker::noop());
        let next = Pin::new(&mut connections).poll_next(&mut context);
        assert!(matches!(next, Poll::Ready(Some(Ok(4)))));
    }
}
