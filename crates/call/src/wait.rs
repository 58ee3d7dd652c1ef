//! Waits for a driver, until its endpoint answers and Probe reports that it is ready.

use crate::endpoint::Endpoint;
use crate::error::call_error;
use crate::session::Session;
use crate::tries::Tries;
use csi_error::{Error, ErrorKind};
use csi_proto::v1;
use std::future::Future;
use std::time::Duration;
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
    let mut tries = Tries::within(Some(limit), PAUSES);
    let mut reason = None;
    loop {
        let tried = tries.once(async {
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
        if !tries.again().await {
            let silent =
                || Error::rpc(Code::DeadlineExceeded, format!("no answer from {endpoint}"));
            return Err(reason.unwrap_or_else(silent).doing(waiting(limit)));
        }
    }
}

fn waiting(limit: Duration) -> String {
    format!("waiting {limit:?} for the driver")
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
