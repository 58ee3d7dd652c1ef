//! Waits for what nobody announces: for a driver, until its endpoint answers and Probe reports that it is ready, and for anything else
//! by tries until a deadline.
//!
//! Owns the pauses, which grow, and the end: what has come true by the deadline is seen by the last try.

use crate::endpoint::Endpoint;
use crate::error::call_error;
use crate::session::Session;
use csi_error::{Error, ErrorKind};
use csi_proto::v1;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};
use tonic::Code;

/// How long to wait after the first try, and at most. A socket cannot announce itself over every kind of endpoint; a
/// driver that takes its time should not be asked all the time.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The session that `open` opens, once the driver behind it reports that it is ready.
///
/// # Errors
/// When it is not within `limit`: the reason why it was not the last time.
pub async fn until_ready<O: Future<Output = Result<Session, Error>>>(
    open: impl Fn() -> O,
    endpoint: &Endpoint,
    limit: Duration,
) -> Result<Session, Error> {
    let mut polling = Polling::within(Some(limit), PAUSES);
    let mut reason = None;
    loop {
        let tried = polling.once(async {
            let session = open().await?;
            probe(&session, endpoint).await?;
            Ok(session)
        });
        match tried.await {
            Some(Ok(session)) => return Ok(session),
            Some(Err(error)) if !may_mend(&error) => return Err(error.doing(waiting(limit))),
            Some(Err(error)) => reason = Some(error),
            // Cut off at the end: the reason of the try before says more.
            None => {}
        }
        if !polling.again().await {
            let silent =
                || Error::rpc(Code::DeadlineExceeded, format!("no answer from {endpoint}"));
            return Err(reason.unwrap_or_else(silent).doing(waiting(limit)));
        }
    }
}

/// What was done, for an error: waiting so long.
pub fn waiting(limit: Duration) -> String {
    match limit.is_zero() {
        true => "waiting 0s for the driver".to_owned(),
        false => format!("waiting {limit:?} for the driver"),
    }
}

async fn probe(session: &Session, endpoint: &Endpoint) -> Result<(), Error> {
    let answer = session.ask(&v1::ProbeRequest {}).await;
    match answer.map_err(|error| call_error(&error, endpoint))?.ready {
        Some(false) => Err(Error::rpc(
            Code::Unavailable,
            "Probe says that the driver is not ready",
        )),
        // A driver that leaves `ready` out is ready.
        _ => Ok(()),
    }
}

/// Whether waiting can mend it: a driver that does not serve Probe never will.
fn may_mend(error: &Error) -> bool {
    matches!(error.kind(), ErrorKind::Rpc(code) if code != Code::Unimplemented)
}

/// How long a try may take beyond the deadline, at which the last one begins. Also where nobody waits: what answers is there.
const LAST_TRY: Duration = Duration::from_secs(1);

/// Tries at something that nobody announces, until a deadline.
pub struct Polling {
    end: Option<Instant>,
    pause: Duration,
    longest_pause: Duration,
}

impl Polling {
    /// Polling for so long, `None` for ever, with pauses between these two.
    pub fn within(limit: Option<Duration>, (pause, longest_pause): (Duration, Duration)) -> Self {
        Self {
            end: limit.and_then(|limit| Instant::now().checked_add(limit)),
            pause,
            longest_pause,
        }
    }

    /// One try; `None` where it had no result in time.
    pub async fn once<T>(&self, work: impl Future<Output = T>) -> Option<T> {
        match self.limit() {
            None => Some(work.await),
            Some(limit) => timeout_at(limit, work).await.ok(),
        }
    }

    /// When a try that is under way is given up.
    fn limit(&self) -> Option<Instant> {
        self.end.map(|end| end + LAST_TRY)
    }

    /// Waits for the next try; `false` where the one before was the last.
    pub async fn again(&mut self) -> bool {
        match self.next(Instant::now()) {
            Some(next) => {
                sleep_until(next).await;
                true
            }
            None => false,
        }
    }

    /// When the next try begins.
    fn next(&mut self, now: Instant) -> Option<Instant> {
        let next = now + self.pause;
        self.pause = self.longest_pause.min(self.pause * 2);
        match self.end {
            Some(end) if now >= end => None,
            Some(end) if next >= end => Some(end),
            _ => Some(next),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAUSES: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(1));

    #[test]
    fn the_last_try_begins_at_the_deadline() {
        for (limit, expected) in [
            (0, vec![]),
            (50, vec![50]),
            (700, vec![100, 300, 700]),
            (2_000, vec![100, 300, 700, 1_500, 2_000]),
            (3_600, vec![100, 300, 700, 1_500, 2_500, 3_500, 3_600]),
        ] {
            let mut polling = Polling::within(Some(Duration::from_millis(limit)), PAUSES);
            let began = polling.end.expect("a deadline") - Duration::from_millis(limit);
            // A try that takes no time.
            let (mut now, mut found) = (began, Vec::new());
            while let Some(next) = polling.next(now) {
                found.push((next - began).as_millis());
                now = next;
            }
            assert_eq!(found, expected, "{limit}");
        }
    }

    #[test]
    fn a_try_that_reaches_the_deadline_was_the_last() {
        let mut polling = Polling::within(Some(Duration::from_secs(5)), PAUSES);
        let end = polling.end.expect("a deadline");
        assert_eq!(polling.next(end), None);
        let mut polling = Polling::within(None, PAUSES);
        assert!(polling.next(end).is_some());
        assert_eq!(polling.limit(), None);
    }

    /// `--wait 0` asks once.
    #[tokio::test]
    async fn a_try_has_time_also_where_nobody_waits() {
        let mut once = Polling::within(Some(Duration::ZERO), PAUSES);
        let answer = async {
            tokio::time::sleep(Duration::from_millis(5)).await;
            5
        };
        assert_eq!(once.once(answer).await, Some(5));
        assert!(!once.again().await);
    }

    #[tokio::test]
    async fn what_comes_is_returned_and_what_does_not_is_given_up() {
        let never = std::future::pending::<u8>;
        let mut over = Polling::within(Some(Duration::ZERO), PAUSES);
        over.end = Instant::now().checked_sub(LAST_TRY);
        assert_eq!(over.once(async { 5 }).await, Some(5));
        assert_eq!(over.once(never()).await, None);
        assert!(!over.again().await);
        let mut endless = Polling::within(None, (Duration::ZERO, Duration::ZERO));
        assert_eq!(endless.once(async { 5 }).await, Some(5));
        assert!(endless.again().await);
        let pause = Duration::from_millis(20);
        let mut patient = Polling::within(None, (pause, pause));
        let began = Instant::now();
        assert!(patient.again().await);
        assert!(began.elapsed() >= pause);
    }
}
