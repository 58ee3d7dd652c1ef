//! Waiting for a driver: until its endpoint answers and Probe says that it is ready.

use crate::arguments::duration::human;
use crate::call::call_error;
use crate::endpoint::{ConnectOptions, Endpoint};
use crate::error::{Error, Kind};
use crate::session::Session;
use bytes::Bytes;
use csi_proto::{tables, v1};
use prost::Message;
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout};
use tonic::Code;

/// How long to wait between two tries. A driver's socket cannot announce itself over every kind of endpoint.
const PAUSE: Duration = Duration::from_millis(100);

/// A session with a driver that is ready.
///
/// # Errors
/// When it is not within `limit`: the reason why it was not the last time.
pub async fn until_ready(
    endpoint: &Endpoint,
    options: &ConnectOptions,
    limit: Duration,
) -> Result<Session, Error> {
    let end = Instant::now() + limit;
    loop {
        let left = end.saturating_duration_since(Instant::now());
        let error = match probe(endpoint, options, left).await {
            Ok(session) => return Ok(session),
            Err(error) => error,
        };
        let left = end.saturating_duration_since(Instant::now());
        if left.is_zero() || !may_mend(&error) {
            return Err(error.doing(format!("waiting {} for the driver", human(limit))));
        }
        sleep(PAUSE.min(left)).await;
    }
}

async fn probe(
    endpoint: &Endpoint,
    options: &ConnectOptions,
    limit: Duration,
) -> Result<Session, Error> {
    let connecting = Session::open(endpoint, options);
    let session = match timeout(limit, connecting).await {
        Ok(session) => session.map_err(|error| Error::connection(endpoint, &error))?,
        Err(_) => {
            return Err(Error::rpc(
                Code::DeadlineExceeded,
                format!("no connection to {endpoint}"),
            ));
        }
    };
    let patient = session.clone().with_timeout(Some(limit));
    let answer = patient.call(&tables::IDENTITY_PROBE, Bytes::new()).await;
    let reply = answer
        .map_err(|error| call_error(&error, endpoint))?
        .into_inner();
    let reply = v1::ProbeResponse::decode(reply)
        .map_err(|error| Error::because("Probe's reply is not valid", &error))?;
    match reply.ready {
        Some(false) => Err(Error::rpc(
            Code::Unavailable,
            "Probe says that the driver is not ready",
        )),
        // A driver that leaves `ready` out is ready.
        _ => Ok(session),
    }
}

/// Whether waiting can mend it: a driver that does not serve Probe never will.
fn may_mend(error: &Error) -> bool {
    matches!(error.kind(), Kind::Rpc(code) if code != Code::Unimplemented)
}
