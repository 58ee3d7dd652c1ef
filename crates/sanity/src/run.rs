//! The state that all cases of a run share: the connections to controller and node, the capabilities, the settings. Also how
//! the driver is asked, before the first case, what it can do.

use super::again::Again;
use super::broken_rules::BrokenRules;
use super::call_counts::CallCounts;
use super::call_times::CallTimes;
use super::dependencies::Subject;
use super::driver_info::DriverInfo;
use super::given_ids::GivenIds;
use super::journal::Journal;
use super::losses::{Losses, SOON};
use super::own_driver::OwnDriver;
use super::room::{Limits, Shortage};
use super::settings::{Access, Settings};
use super::verdict::{Stop, Verdict, status_text};
use bytes::Bytes;
use csi_call::advertised::{Asks, DriverEnd, if_served};
use csi_call::error::call_error;
use csi_call::session::{Connection, Lost, Session};
use csi_error::Error;
use csi_proto::Request;
use csi_proto::lock::lock;
use csi_proto::schema::Method;
use csi_undo::made::Item;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Handle;
use tonic::{Code, Status};

/// Both ends, to ask what the driver can do. What was not answered counts as not advertised.
pub struct Ends<'a> {
    pub(super) node: &'a Connection,
    pub(super) controller: &'a Connection,
    pub(super) seen: CallCounts,
    pub(super) unanswered: Unanswered,
}

/// The RPCs that were asked before the cases and not answered with OK, by their names.
pub type Unanswered = BTreeMap<&'static str, Refusal>;

/// The answer that came instead.
#[derive(Debug)]
pub struct Refusal {
    /// In words.
    pub(super) told: String,
    /// Whether the driver says that it does not serve the RPC. Another answer tells nothing of what it can do.
    pub(super) is_not_served: bool,
}

/// The words before the answer of an RPC that never worked, and of one that did not before the cases.
const UNKNOWN: &str = "never worked, so that nothing is known of it: ";
const UNANSWERED: &str = "it told nothing when it was asked what the driver can do: ";

impl Asks for Ends<'_> {
    type Error = Error;

    async fn ask<Q: Request>(
        &mut self,
        end: DriverEnd,
        request: Q,
    ) -> Result<Option<Q::Reply>, Error> {
        let peer = match end {
            DriverEnd::Node => self.node,
            DriverEnd::Controller => self.controller,
        };
        let rpc = Q::METHOD.name;
        let limit = peer.session.timeout();
        let mut again = Again::within(limit.unwrap_or(Duration::MAX));
        let mut is_asked_again = false;
        let (error, passes) = loop {
            let begun = Instant::now();
            let error = match peer.session.ask(&request).await {
                Ok(reply) => {
                    self.seen.worked.insert(rpc);
                    return Ok(Some(reply));
                }
                Err(error) => error,
            };
            let code = error.status.code();
            let passes = matches!(
                code,
                Code::Aborted | Code::Unavailable | Code::DeadlineExceeded
            );
            match again.after(&error.status, begun.elapsed()) {
                Some(pause) => tokio::time::sleep(pause).await,
                // As an accident, or of a driver that is about to end.
                None if !passes
                    && code != Code::Unimplemented
                    && !std::mem::replace(&mut is_asked_again, true) =>
                {
                    tokio::time::sleep(SOON).await;
                }
                None => break (error, passes),
            }
        };
        let status = &error.status;
        // Without its capabilities nothing can be demanded of a driver.
        let is_vital = passes && rpc.ends_with("Capabilities");
        let is_silent = status.code() == Code::DeadlineExceeded || Lost::of(status).is_some();
        if is_vital || is_silent {
            let doing = format!("asking {rpc} what the driver can do");
            return Err(call_error(&error, &peer.endpoint).doing(doing));
        }
        let told = status_text(status);
        let is_not_served = if_served(Err::<(), _>(error)).is_ok();
        let refusal = Refusal {
            told,
            is_not_served,
        };
        self.unanswered.insert(rpc, refusal);
        Ok(None)
    }
}

/// The messages that answered a call, or the status that came instead.
pub type Exchanged = Result<Vec<Bytes>, Status>;

/// The state that all cases of a run share.
pub struct Run {
    pub(super) settings: Settings,
    /// What all cases are about: some depend on others.
    pub(super) subjects: Vec<Subject>,
    pub(super) node: Connection,
    pub(super) controller: Connection,
    pub(super) driver: DriverInfo,
    pub(super) unanswered: Unanswered,
    /// The driver, where the run has started it itself.
    pub(super) own_driver: Option<Arc<OwnDriver>>,
    /// The access types that the driver supports, once that is known.
    pub(super) accesses: OnceLock<Vec<Access>>,
    /// The sizes of volumes in bytes, by their access types.
    pub(super) sizes: [AtomicI64; 2],
    pub(super) journal: Journal,
    /// What cases have made that were cut off, by the cases' names: the next try takes it down.
    pub(super) postponed: Mutex<Vec<(String, Item)>>,
    /// What was asked for in calls that were given up: it may be made at any time.
    pub(super) given_up: Mutex<Vec<Item>>,
    /// The items that could not be taken down, with the reasons, by the cases' names.
    pub(super) left: Mutex<Vec<(String, String)>>,
    pub(super) seen: Mutex<CallCounts>,
    pub(super) given_ids: Mutex<GivenIds>,
    pub(super) times: Mutex<CallTimes>,
    pub(super) broken_rules: Mutex<BrokenRules>,
    /// The calls in which the driver went away.
    pub(super) losses: Mutex<Losses>,
    /// Whether the driver did not get ready after a restart in the time that it has for that.
    pub(super) is_never_ready: AtomicBool,
    /// Held by the one who brings the driver back; why it did not come back.
    pub(super) bringing_back: tokio::sync::Mutex<Option<String>>,
    /// Why the run is incomplete, in sentences.
    pub(super) incomplete: Mutex<BTreeSet<String>>,
    /// The RPCs for which the driver lacked something, with its answer.
    pub(super) lacking: Mutex<BTreeMap<&'static str, String>>,
    /// The limits that the driver tells.
    pub(super) limits: Limits,
    /// The volumes that were there before this run made any, as far as the driver lists them.
    pub(super) shown: OnceLock<Option<BTreeSet<Vec<u8>>>>,
    /// The calls that do not work here, as the first cases have found.
    pub(super) broken_calls: Mutex<Vec<BrokenCall>>,
    pub(super) seed: u64,
    /// Runs the calls, while the cases wait in threads of their own.
    pub(super) runtime: Handle,
}

/// A call that does not work here, whatever a case is about.
pub struct BrokenCall {
    /// The case that has found that.
    pub(super) case: &'static str,
    pub(super) method: &'static Method,
    pub(super) access: Access,
    pub(super) code: Code,
    pub(super) reason: String,
}

impl Run {
    /// Demands that nothing is known of an RPC that does not work here for volumes of that access type; with a code, only where
    /// that is its answer.
    ///
    /// # Errors
    /// When it does not work: the case that calls it cannot be judged.
    pub(super) fn works(&self, method: &Method, access: Access, code: Option<Code>) -> Verdict {
        let broken = lock(&self.broken_calls);
        let found = broken.iter().find(|one| {
            one.method.name == method.name
                && one.access == access
                && code.is_none_or(|code| code == one.code)
        });
        found.map_or(Ok(()), |one| {
            let reason = format!("{} does not work here: {}", method.name, one.reason);
            Err(Stop::Unjudged(vec![one.case], reason))
        })
    }

    /// The access types that the driver supports; at least one.
    pub(super) fn accesses(&self) -> &[Access] {
        match self.accesses.get() {
            Some(found) if !found.is_empty() => found,
            _ => &[Access::Mount],
        }
    }

    /// Whether the driver has ever done what it lacks something for, to as large a size.
    pub(super) fn had(&self, shortage: &Shortage) -> bool {
        let seen = lock(&self.seen);
        seen.worked.contains(shortage.method) && shortage.size <= seen.largest
    }

    /// Whether the driver has never answered OK to the RPC that it lacks something for, and a case was given up for that.
    pub(super) fn is_never_served(&self, shortage: &Shortage) -> bool {
        let has_worked = lock(&self.seen).worked.contains(shortage.method);
        !has_worked && lock(&self.lacking).contains_key(shortage.method)
    }

    /// Why the run is incomplete, in sentences.
    pub(super) fn incomplete(&self) -> Vec<String> {
        let (seen, lacking) = (lock(&self.seen), lock(&self.lacking));
        let never = lacking
            .iter()
            .filter(|(method, _)| !seen.worked.contains(**method));
        let mut all = lock(&self.incomplete).clone();
        all.extend(never.map(|(_, told)| format!("{UNKNOWN}{told}")));
        let unanswered = self.unanswered.iter();
        let unanswered = unanswered.filter(|(_, one)| !one.is_not_served);
        all.extend(unanswered.map(|(rpc, one)| format!("{UNANSWERED}{rpc}: {}", one.told)));
        all.into_iter().collect()
    }

    /// Notes that a call begins. What a driver gave ids to whose connection has ended may be gone.
    pub(super) fn begins(&self, method: &Method, request: &Bytes) {
        let mut ids = lock(&self.given_ids);
        if self.is_disconnected() {
            ids.forget();
        }
        ids.begins(method, request);
    }

    /// A call was answered as if the driver were gone; what carries the call may say so, too. One that the run has started is another
    /// one only when the run starts it again.
    pub(super) fn may_be_another(&self) {
        if self.own_driver.is_none() {
            lock(&self.given_ids).doubt();
        }
    }

    /// How many cases run at a time.
    pub(super) fn jobs(&self) -> usize {
        let sizes = self
            .accesses()
            .iter()
            .map(|access| self.volume_size(*access));
        let size = sizes.max().unwrap_or_default();
        self.limits.jobs(self.settings.jobs(), size)
    }

    /// The end of the driver that serves a method.
    pub(super) fn peer(&self, method: &Method) -> &Connection {
        match csi_rpc::is_at_node(method) {
            true => &self.node,
            false => &self.controller,
        }
    }

    /// The driver as a report names it: its endpoint, or the command that has started it.
    pub(super) fn driver_named(&self) -> String {
        match &self.own_driver {
            Some(own) => own.named(),
            None => self.settings.endpoint.clone(),
        }
    }

    /// Whether the paths of the node are those of this machine.
    pub(super) fn sees_paths(&self) -> bool {
        let paths = self.settings.paths;
        paths.unwrap_or_else(|| self.node.endpoint.is_on_this_machine())
    }
}

/// Controller and node as the journal of a run names them. A driver that runs start has another socket each time.
pub(super) fn ends_named(
    node: &Connection,
    controller: &Connection,
    own: Option<&OwnDriver>,
) -> [String; 2] {
    let socket = own.map(OwnDriver::endpoint);
    [node, controller].map(|peer| match own {
        Some(own) if Some(peer.endpoint.to_string()) == socket => own.named(),
        _ => peer.endpoint.named_everywhere(),
    })
}

/// Makes one call, unary or streaming.
pub(super) async fn call(session: &Session, method: &'static Method, request: Bytes) -> Exchanged {
    let mut messages = Vec::new();
    let called = session.each_message(method, request, |one| messages.push(one));
    called.await.map_err(|error| error.status)?;
    Ok(messages)
}
