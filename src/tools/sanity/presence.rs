//! Whether the driver is there: the calls in which it went away, and how it comes back.

use super::context::Context;
use super::restarts::Restarts;
use super::run::{Run, call, locked};
use super::settings::Access;
use super::steps::request_text;
use super::verdict::{Failure, Stop};
use crate::call::session::{Connection, Lost};
use bytes::Bytes;
use csi_proto::Request as _;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use csi_proto::v1;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Code;

/// The time that a driver which has gone has to come back before the run is given up.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// The most of a request that a failure shows.
const REQUEST_AT_MOST: usize = 300;

impl Context {
    /// Notes that the driver went away in a call, and ends the case with that: whatever it is about, the driver must still
    /// be there.
    pub(super) fn lose(
        &self,
        method: &'static Method,
        request: &Bytes,
        peer: &Connection,
        lost: &Lost,
    ) -> Stop {
        // What the endpoint knows says more, where no other call has connected again.
        let known = peer.endpoint.last_error().map(|error| error.to_string());
        let text = request_text(method, request);
        let shown: String = text.chars().take(REQUEST_AT_MOST).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        let failure = Failure {
            expected: format!(
                "the driver is there to answer {} {shown}{more}",
                method.name
            ),
            actual: format!(
                "it went away: UNAVAILABLE: {}",
                known.unwrap_or_else(|| lost.to_string())
            ),
        };
        if self.lost.set(failure.clone()).is_ok() {
            locked(&self.run.losses).note(self.case.clone(), failure.clone());
        }
        Stop::Failed(failure)
    }
}

/// Waits until the driver answers. One that is not there is restarted by the command in the settings.
///
/// # Errors
/// When it does not come back; the reason in words.
pub async fn bring_back(run: &Arc<Run>) -> Result<(), String> {
    let _others_wait = run.bringing_back.lock().await;
    let end = Instant::now() + BACK_WITHIN;
    let mut restarts = run.settings.restart_command.is_some();
    for peer in [&run.node, &run.controller] {
        loop {
            let session = peer.session.clone().with_timeout(Some(BACK_WITHIN));
            let Err(status) = call(&session, v1::ProbeRequest::METHOD, Bytes::new()).await else {
                break;
            };
            let reason = match (peer.endpoint.last_error(), Lost::of(&status)) {
                (Some(error), _) => error.to_string(),
                (None, Some(lost)) => lost.to_string(),
                (None, None) if status.code() == Code::DeadlineExceeded => {
                    return Err("the driver does not answer any more".to_owned());
                }
                (None, None) => break,
            };
            if std::mem::take(&mut restarts) {
                let restarts = Restarts::asked_for();
                let context =
                    Context::new(Arc::clone(run), String::new(), 0, Access::Mount, restarts);
                // Where it fails, somebody else may still bring the driver back.
                let _ = tokio::task::spawn_blocking(move || context.restart()).await;
            } else if Instant::now() > end {
                let reason = escaped(&reason).into_owned();
                return Err(format!("the driver does not answer any more: {reason}"));
            } else {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    }
    locked(&run.losses).is_back();
    Ok(())
}
