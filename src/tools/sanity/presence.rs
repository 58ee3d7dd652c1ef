//! Whether the driver is there: the calls in which it went away, how it comes back, and whether somebody else uses it.

use super::context::Context;
use super::losses::{Loss, suspects};
use super::restarts::Restarts;
use super::run::{Run, call, locked};
use super::settings::Access;
use super::steps::request_text;
use super::verdict::Failure;
use crate::call::session::Lost;
use crate::rpc;
use crate::rpc::facts::IdKind;
use bytes::Bytes;
use csi_proto::Request as _;
use csi_proto::path::contents;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use csi_proto::v1;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Code;

/// The time that a driver which has gone has to come back before the run is given up.
const BACK_WITHIN: Duration = Duration::from_secs(10);

/// The most of a request that a failure shows.
const REQUEST_AT_MOST: usize = 300;

impl Run {
    /// Notes that the driver went away in a call of a case.
    pub(super) fn lost(
        &self,
        case: &str,
        method: &'static Method,
        request: &Bytes,
        lost: &Lost,
    ) -> Loss {
        let peer = self.peer(method);
        // What the endpoint knows says more, where no other call has connected again.
        let known = peer.endpoint.last_error().map(|error| error.to_string());
        let text = request_text(method, request);
        let shown: String = text.chars().take(REQUEST_AT_MOST).collect();
        let more = if shown.len() < text.len() { "…" } else { "" };
        let expected = format!(
            "the driver is there to answer {} {shown}{more}",
            method.name
        );
        let actual = format!(
            "it went away: UNAVAILABLE: {}",
            known.unwrap_or_else(|| lost.to_string())
        );
        let loss = Loss {
            case: case.to_owned(),
            method: method.name,
            failure: Failure::new(expected, actual),
        };
        locked(&self.losses).note(loss.clone());
        loss
    }
}

/// Waits until the driver answers. One that is not there is restarted by the command in the settings. One that did not come
/// back is not waited for again.
///
/// # Errors
/// When it does not come back; the reason in words.
pub async fn bring_back(run: &Arc<Run>) -> Result<(), String> {
    let mut gone = run.bringing_back.lock().await;
    if let Some(reason) = &*gone {
        return Err(reason.clone());
    }
    let back = is_back(run).await.map_err(|reason| {
        let losses = locked(&run.losses);
        match losses.unexplained().last() {
            Some(lost) => format!("{reason}; it went away during {}", suspects(lost)),
            None => reason,
        }
    });
    match &back {
        Ok(()) => locked(&run.losses).is_back(),
        Err(reason) => *gone = Some(reason.clone()),
    }
    back
}

async fn is_back(run: &Arc<Run>) -> Result<(), String> {
    let end = Instant::now() + BACK_WITHIN;
    let mut restarts = run.restarter().is_some();
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
    Ok(())
}

/// The volumes that the driver shows; `None` where it lists none.
pub async fn shown(run: &Run) -> Option<BTreeSet<Vec<u8>>> {
    let (method, path) = rpc::lister(IdKind::Volume)?;
    let mut needs = rpc::facts(method)?.needs.iter();
    if !needs.all(|need| run.driver.advertises(*need)) {
        return None;
    }
    let session = run.controller.session.clone();
    let session = session.with_timeout(Some(run.settings.timeout));
    let pages = call(&session, method, Bytes::new()).await.ok()?;
    let ids = contents(method.response, pages.first()?, path).into_iter();
    Some(ids.map(<[u8]>::to_vec).collect())
}

/// Whether somebody else has volumes there, beside those that were there at the beginning; `None` where the driver does not
/// tell. To be asked where no case runs.
pub async fn has_others(run: &Run) -> Option<bool> {
    let before = run.shown.get()?.as_ref()?;
    Some(!shown(run).await?.is_subset(before))
}
