//! What a case depends on at a point of its way: rules that other cases are about, and what the driver says it lacks. A case says
//! the first itself, of a demand or of all that follows; what follows from the calls alone is found here: a call that is
//! repeated, something taken back that is not there, an RPC that is not served, a question that is not answered, a lock that is
//! not given back, and what the driver lacks. What follows a restart, `restart.rs` says.
//!
//! What becomes of a case that fails and depends on others is `case_states.rs`'s.

use super::case::without_access;
use super::context::Context;
use super::dependencies::{Dependencies, Subject, UnderWay};
use super::given_ids::case_about_ids;
use super::room::{Lack, Shortage};
use super::steps::Step;
use super::verdict::{Stop, Verdict};
use bytes::Bytes;
use csi_proto::lock::lock;
use csi_proto::schema::Method;
use csi_proto::{Request as _, v1};
use csi_rpc::facts::{Capability, Effect};
use csi_undo::requests::name;
use std::collections::BTreeSet;
use tonic::{Code, Status};

/// The cases about what is advertised: services, and RPCs of a service.
const SERVICES: &str = "identity/plugin-capabilities/services-are-there";
const ADVERTISED: &str = "controller/capabilities/advertised-rpcs-are-there";

/// The case about whether a refused call gives its lock back.
const LOCKS: &str = "lifecycle/gives-locks-back";

/// The cases about the RPCs that take back what others have made, also those on which most others depend.
pub fn taking_back(subjects: &[Subject]) -> Vec<&'static str> {
    let takes_back =
        |name: &str| csi_rpc::makers().any(|(_, making)| making.undone_by.name == name);
    let about = subjects.iter();
    let about = about.filter(|one| one.is_first || takes_back(one.section));
    about.map(|one| one.name).chain([LOCKS]).collect()
}

impl Context {
    /// The first case about an RPC whose name ends like that.
    fn first_about(&self, method: &Method, end: &str) -> Option<&'static str> {
        let mut all = self.run.subjects.iter();
        let found = all.find(|one| one.section == method.name && one.name.ends_with(end));
        found.map(|one| one.name)
    }

    /// The case about the repetition of an RPC.
    fn repetition(&self, method: &Method) -> Option<&'static str> {
        self.first_about(method, "/is-idempotent")
    }

    /// Notes that a call begins. Where it repeats another one, the answers depend on the case about that.
    pub(super) fn begins(&self, method: &'static Method, request: &Bytes) -> UnderWay<'_> {
        let mut tracked = lock(&self.tracked);
        if tracked.under_way == 0 && !csi_rpc::only_reads(method) {
            tracked.answers.clear();
            tracked.shortage = None;
        }
        tracked.under_way += 1;
        let subject = match csi_rpc::making(method).is_some_and(|making| making.has_own_id()) {
            true => name(method, request),
            false => request.clone(),
        };
        if !tracked.asked.insert((method.name, subject)) {
            tracked.answers.extend(self.repetition(method));
        }
        UnderWay(&self.tracked)
    }

    /// Notes that calls begin of which none comes before another: what one of them was answered is not over when the next
    /// begins.
    pub(super) fn begins_many(&self) -> UnderWay<'_> {
        lock(&self.tracked).under_way += 1;
        UnderWay(&self.tracked)
    }

    /// Notes that a call was refused.
    pub(super) fn was_refused(&self, method: &'static Method, request: &Bytes, status: &Status) {
        let code = status.code();
        let (largest, has_worked) = {
            let seen = lock(&self.run.seen);
            (seen.largest, seen.worked.contains(method.name))
        };
        if let Some(shortage) = Shortage::of(method, request, status, largest) {
            lock(&self.tracked).shortage = Some(shortage);
        }
        let facts = csi_rpc::facts(method);
        let undoes = facts.is_some_and(|one| matches!(one.effect, Effect::Undoes));
        let is_of_service = |one: &Capability| matches!(one, Capability::Plugin(_));
        let is_service = facts.is_some_and(|one| one.needs.iter().all(is_of_service));
        let on = match code {
            // Whatever is to be taken back: it is not there, as after the first of two calls.
            Code::NotFound if undoes => self.repetition(method),
            Code::Unimplemented => {
                self.answers_depend_on(ADVERTISED);
                is_service.then_some(SERVICES)
            }
            Code::Aborted => Some(LOCKS),
            // Whatever a case asks with such an RPC, the request is the same.
            _ if request.is_empty() && method.request.fields.is_empty() => {
                self.first_about(method, "")
            }
            // One that never answers OK is one mistake.
            _ if !has_worked && !self.is_first() => self
                .repetition(method)
                .or_else(|| self.first_about(method, "")),
            _ => None,
        };
        if let Some(on) = on {
            self.answers_depend_on(on);
        }
    }

    /// Notes that another refusal was demanded than the one that came.
    pub(super) fn refused_otherwise(&self) {
        let has_made = lock(&self.steps).have_made();
        if let Some(shortage) = &mut lock(&self.tracked).shortage {
            // A case that has something may have no room for more.
            let is_of_request = matches!(shortage.lack, Lack::Service | Lack::Size);
            shortage.in_place_of_another |= is_of_request || !has_made;
        }
    }

    /// From here on the case depends on what another case is about.
    pub fn depends_on(&self, case: &'static str) {
        debug_assert!(
            self.run.subjects.iter().any(|one| one.name == case),
            "{case}"
        );
        lock(&self.tracked).from_here.push(case);
    }

    /// What the case makes of the answers depends on what another case is about, until it calls again to change something.
    pub fn answers_depend_on(&self, case: &'static str) {
        lock(&self.tracked).answers.push(case);
    }

    /// Makes demands that another case is about.
    pub fn demands_of<T>(
        &self,
        case: &'static str,
        demands: impl FnOnce() -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        self.depends_on(case);
        let ended = demands();
        let cases = &mut lock(&self.tracked).from_here;
        let place = cases.iter().rposition(|one| *one == case);
        if let (Ok(_), Some(place)) = (&ended, place) {
            cases.remove(place);
        }
        ended
    }

    /// What this case depends on now, beside its own rule.
    pub(super) fn dependencies(&self) -> Dependencies {
        // The answer to a call is right or wrong, whatever id it has.
        let ids = self.doubled_ids(1);
        let tracked = lock(&self.tracked);
        let on = tracked.from_here.iter().chain(&tracked.answers).copied();
        let on = on.chain(ids);
        let own = without_access(&self.case);
        Dependencies {
            on: on.filter(|one| *one != own).collect(),
            shortage: tracked.shortage.clone(),
        }
    }

    /// The cases about ids, where one that this case has, but for those of its last calls, is, or may be, also that of something
    /// else.
    pub(super) fn doubled_ids(&self, last: usize) -> BTreeSet<&'static str> {
        let (steps, ids) = (lock(&self.steps), lock(&self.run.given_ids));
        let calls = steps.all().iter().rev().filter_map(Step::call).skip(last);
        let doubled = calls.filter(|call| ids.has_doubled(call));
        doubled.map(|call| case_about_ids(call.method)).collect()
    }

    /// Whether the case is one of those on which most others depend.
    fn is_first(&self) -> bool {
        let own = without_access(&self.case);
        let mut all = self.run.subjects.iter();
        all.any(|one| one.is_first && one.name == own)
    }

    /// Demands that an RPC, which another case is about, was answered when the driver was asked what it can do, be it that it does
    /// not serve that.
    ///
    /// # Errors
    /// When it was not: what rests on that answer cannot be judged.
    pub fn has_told(&self, method: &Method, about: &'static str) -> Verdict {
        let refusal = self.run.unanswered.get(method.name);
        match refusal.filter(|refusal| !refusal.is_not_served) {
            Some(refusal) => {
                let told = format!("{} told nothing before the cases", method.name);
                let reason = format!("{told}: {}", refusal.told);
                Err(Stop::Unjudged(vec![about], reason))
            }
            None => Ok(()),
        }
    }

    /// Demands that the node has an id, which the cases about NodeGetInfo judge.
    pub fn has_node_id(&self) -> Verdict {
        const ABOUT: &str = "node/info/has-an-id";
        if !self.driver().node_info.node_id.is_empty() {
            return Ok(());
        }
        let method = v1::NodeGetInfoRequest::METHOD;
        self.has_told(method, ABOUT)?;
        let expected = "NodeGetInfo answers with a node_id";
        match self.run.unanswered.get(method.name) {
            Some(refusal) => {
                self.depends_on(ABOUT);
                Err(Stop::failed(expected, &refusal.told))
            }
            None => Err(self.cannot_use(method, expected, "it answered without")),
        }
    }
}
