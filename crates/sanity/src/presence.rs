//! Whether the driver is there: the calls in which it went away, whether it answers, and whether somebody else uses it.

use super::losses::{Loss, SOON};
use super::own_driver::{DriverDeath, NOT_YET};
use super::run::{Run, call};
use super::steps::request_text;
use super::verdict::Failure;
use bytes::Bytes;
use csi_call::endpoint::ConnectionCount;
use csi_call::session::{Connection, Lost, had_no_answer};
use csi_proto::Request as _;
use csi_proto::lock::lock;
use csi_proto::path::contents;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use csi_proto::v1;
use csi_rpc::facts::IdKind;
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The time that a driver which has gone has to come back before the run is given up.
pub(super) const BACK_WITHIN: Duration = Duration::from_secs(10);

/// The pause between two looks for the driver.
const LOOK: Duration = Duration::from_millis(1);

/// The most of a request that a failure shows.
const REQUEST_AT_MOST: usize = 300;

impl Run {
    /// Node and controller; twice the same where both are one.
    fn peers(&self) -> [&Connection; 2] {
        [&self.node, &self.controller]
    }

    /// Whether a connection to the driver has ended or could not be made.
    pub(super) fn is_disconnected(&self) -> bool {
        let mut peers = self.peers().into_iter();
        peers.any(|peer| peer.endpoint.last_error().is_some())
    }

    /// How many connections to each end of the driver were made until now.
    pub(super) fn connections(&self) -> [ConnectionCount; 2] {
        self.peers().map(|peer| peer.endpoint.connections())
    }

    /// How the driver has ended by itself, where the run has started it.
    pub(super) fn death(&self) -> Option<DriverDeath> {
        self.own_driver.as_ref()?.death_until_now()
    }

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
        let known = known.unwrap_or_else(|| lost.to_string());
        let loss = Loss {
            case: case.to_owned(),
            method,
            answered: false,
            failure: Failure::new(
                format!(
                    "the driver is there to answer {} {shown}{more}",
                    method.name
                ),
                format!("it went away: UNAVAILABLE: {known}"),
            ),
        };
        lock(&self.losses).note(loss.clone());
        loss
    }

    /// Notes that the driver went away right after it had answered a call of a case.
    pub(super) fn lost_after(&self, case: &str, method: &'static Method, problem: &str) -> Loss {
        let loss = Loss {
            case: case.to_owned(),
            method,
            answered: true,
            failure: Failure::new(
                format!("the driver is there after its answer to {}", method.name),
                format!("it went away: {problem}"),
            ),
        };
        lock(&self.losses).note(loss.clone());
        loss
    }
}

/// Waits for that long, in which a driver may go away after its answer, or by itself; the reason to say that it has.
pub async fn goes_away(run: &Run, time: Duration) -> Option<String> {
    let ended = disconnects(run, time).await;
    let there = answers(run, Duration::ZERO).await;
    ended.or(there.err())
}

/// Waits for a driver to go away that may have been about to end when it answered; the reason to say that it has. A Probe that
/// hangs is none: whether it succeeds is a case's rule.
pub async fn was_about_to_end(run: &Run) -> Option<String> {
    let ended = disconnects(run, SOON).await;
    let there = tokio::time::timeout(SOON, answers(run, Duration::ZERO)).await;
    ended.or_else(|| there.ok()?.err())
}

/// Waits for that long until a connection to the driver has ended; why.
async fn disconnects(run: &Run, time: Duration) -> Option<String> {
    let end = Instant::now() + time;
    while Instant::now() < end && !run.is_disconnected() {
        tokio::time::sleep(LOOK).await;
    }
    // Somebody else may start it again meanwhile.
    let peers = run.peers().map(|peer| peer.endpoint.last_error());
    let ended = peers.into_iter().flatten().next();
    ended.map(|error| error.to_string())
}

/// Waits until the calls are over that make something and have begun until now: the answer to one may tell that the driver gave it
/// what another case has.
pub async fn makings_end(run: &Run) {
    let now = Instant::now();
    while lock(&run.given_ids).may_double(now) {
        tokio::time::sleep(LOOK).await;
    }
}

/// Waits for that long until both ends answer Probe; whether that succeeds is a case's rule. A driver of the run's own that has
/// died is not waited for.
///
/// # Errors
/// When one does not answer; the reason in words.
pub async fn answers(run: &Run, patience: Duration) -> Result<(), String> {
    let end = Instant::now() + patience;
    for peer in run.peers() {
        // Not a step of a case: nobody who runs its commands by hand has to ask.
        let session = peer.session.clone().with_timeout(Some(BACK_WITHIN));
        loop {
            // It may be another one that answers.
            run.begins(v1::ProbeRequest::METHOD, &Bytes::new());
            let begun = Instant::now();
            let Err(status) = call(&session, v1::ProbeRequest::METHOD, Bytes::new()).await else {
                break;
            };
            let reason = match (peer.endpoint.last_error(), Lost::of(&status)) {
                (Some(error), _) => Some(error.to_string()),
                (None, Some(lost)) => Some(lost.to_string()),
                (None, None) if had_no_answer(&status, Some(BACK_WITHIN), begun.elapsed()) => {
                    Some("the driver does not answer Probe".to_owned())
                }
                (None, None) => None,
            };
            let is_over = Instant::now() >= end || run.death().is_some();
            match reason {
                Some(reason) if is_over => return Err(escaped(&reason).into_owned()),
                None if is_over
                    || !NOT_YET.contains(&status.code())
                    || run.is_never_ready.load(Ordering::Relaxed) =>
                {
                    break;
                }
                _ => tokio::time::sleep(LOOK).await,
            }
        }
    }
    Ok(())
}

/// The volumes that the driver shows; `None` where it lists none.
pub async fn shown(run: &Run) -> Option<BTreeSet<Vec<u8>>> {
    let (method, path) = csi_rpc::lister(IdKind::Volume)?;
    let mut needs = csi_rpc::facts(method)?.needs.iter();
    if !needs.all(|need| run.driver.advertises(*need)) {
        return None;
    }
    let session = run.controller.session.clone();
    let session = session.with_timeout(Some(run.settings.timeout));
    let pages = call(&session, method, Bytes::new()).await.ok()?;
    lock(&run.seen).worked.insert(method.name);
    let page = pages.first()?;
    if !contents(method.response, page, "next_token")
        .concat()
        .is_empty()
    {
        // More than one page tells nothing of who has what.
        return None;
    }
    let ids = contents(method.response, page, path).into_iter();
    Some(ids.map(<[u8]>::to_vec).collect())
}

/// Whether somebody else has volumes there, beside those that were there at the beginning; `None` where the driver does not
/// tell. To be asked where no case runs.
pub async fn has_others(run: &Run) -> Option<bool> {
    let before = run.shown.get()?.as_ref()?;
    Some(!shown(run).await?.is_subset(before))
}
