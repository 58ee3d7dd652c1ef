//! The ids that a driver has given to what the run has made, to find one that is that of two things at the same time.
//!
//! Plain data. Accuses only where both things are there for certain: none of them may have been deleted meanwhile, nor forgotten
//! by a driver that was restarted. Which cases depend on that is `tracking.rs`'s.

use super::steps::{Call, StepAnswer};
use bytes::Bytes;
use csi_proto::lock::lock;
use csi_proto::path::contents;
use csi_proto::schema::Method;
use csi_rpc::facts::Thing;
use csi_undo::made::leaves_it_open;
use csi_undo::requests::name;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::time::Instant;

/// The kind of a thing, and its id.
type Id = (Thing, Vec<u8>);

/// The ids of the things that the run has made.
#[derive(Debug, Default)]
pub struct GivenIds {
    /// The names under which the things were made that are there.
    there: BTreeMap<Id, Bytes>,
    deletions: BTreeMap<Id, Deletions>,
    /// When the calls that make something began whose answers nobody has looked at yet.
    makings: Vec<Instant>,
    /// The ids that were, or may have been, those of two things at the same time.
    doubled: BTreeSet<Id>,
    /// When the driver may last have forgotten what there was.
    forgotten: Option<Instant>,
    /// When that was seen last without the run's own doing. How long it had been so by then nobody can tell.
    doubted: Option<Instant>,
}

/// The calls that delete what has an id.
#[derive(Debug, Default)]
struct Deletions {
    /// Those that are under way, or that nobody has seen end.
    under_way: usize,
    /// When the last of the others ended.
    ended: Option<Instant>,
}

impl GivenIds {
    /// The driver may have forgotten what there was, and give its ids to others.
    pub(super) fn forget(&mut self) {
        self.there.clear();
        self.forgotten = Some(Instant::now());
    }

    /// The driver may have been another one for a while, which gave ids anew.
    pub(super) fn doubt(&mut self) {
        self.forget();
        self.doubted = self.forgotten;
    }

    /// Whether what was found at that time holds.
    pub(super) fn holds(&self, found: Instant) -> bool {
        self.doubted.is_none_or(|doubted| doubted < found)
    }

    /// A call begins, which may delete something.
    pub(super) fn begins(&mut self, method: &Method, request: &Bytes) {
        if let Some(id) = deleted(method, request) {
            self.there.remove(&id);
            self.deletions.entry(id).or_default().under_way += 1;
        }
    }

    /// A call begins that makes something. Until its answer is looked at, or nobody will, nobody knows whether it got the id of
    /// another thing.
    pub(super) fn makes<'a>(
        ids: &'a Mutex<Self>,
        method: &Method,
        begun: Instant,
    ) -> Option<Making<'a>> {
        csi_rpc::making(method)?.own_id()?;
        lock(ids).makings.push(begun);
        Some(Making { ids, begun })
    }

    /// Whether a call that began until then may still be answered with an id of something else.
    pub(super) fn may_double(&self, until: Instant) -> bool {
        self.makings.iter().any(|begun| *begun <= until)
    }

    /// A call has ended that began then. Where its reply has the id of another thing that is there: the path of that id, and what
    /// is wrong with it.
    pub(super) fn ends(
        &mut self,
        method: &Method,
        request: &Bytes,
        begun: Instant,
        answer: &StepAnswer,
    ) -> Option<(&'static str, String)> {
        if let Some(id) = deleted(method, request) {
            if !matches!(answer, Err(code) if leaves_it_open(*code)) {
                let deletions = self.deletions.entry(id).or_default();
                deletions.under_way = deletions.under_way.saturating_sub(1);
                deletions.ended = Some(Instant::now());
            }
            return None;
        }
        let (id, path) = made(method, answer.as_ref().ok()?)?;
        let deletions = self.deletions.get(&id);
        if deletions.is_some_and(|one| one.under_way > 0 || one.ended >= Some(begun)) {
            // Which of the two came first nobody can tell.
            self.doubled.insert(id);
            return None;
        }
        if self.forgotten >= Some(begun) {
            return None;
        }
        let name = name(method, request);
        let before = self.there.insert(id.clone(), name.clone());
        let other = before.filter(|before| *before != name)?;
        let word = path.split('.').next().unwrap_or_default();
        let told = format!(
            "{} is also that of the {word} {}, which still exists",
            String::from_utf8_lossy(&id.1),
            String::from_utf8_lossy(&other)
        );
        self.doubled.insert(id);
        Some((path, told))
    }

    /// Whether a call was answered with an id that is, or may be, also that of something else.
    pub(super) fn has_doubled(&self, call: &Call) -> bool {
        let made = call.reply().and_then(|reply| made(call.method, reply));
        made.is_some_and(|(id, _)| self.doubled.contains(&id))
    }
}

/// A call that makes something, until this is dropped.
pub struct Making<'a> {
    ids: &'a Mutex<GivenIds>,
    begun: Instant,
}

impl Drop for Making<'_> {
    fn drop(&mut self) {
        let makings = &mut lock(self.ids).makings;
        if let Some(place) = makings.iter().position(|begun| *begun == self.begun) {
            makings.swap_remove(place);
        }
    }
}

/// The case about the ids of what an RPC makes; empty where that has no id of its own.
pub fn case_about_ids(method: &Method) -> &'static str {
    match csi_rpc::making(method).map(|making| making.thing) {
        Some(Thing::Volume) => "replies/volume-ids",
        Some(Thing::Snapshot) => "replies/snapshot-ids",
        Some(Thing::GroupSnapshot) => "replies/group-snapshot-ids",
        Some(Thing::PublishedVolume | Thing::StagedVolume | Thing::AttachedVolume) | None => "",
    }
}

/// What a reply says was made, and the path of its id there.
fn made(method: &Method, reply: &Bytes) -> Option<(Id, &'static str)> {
    let making = csi_rpc::making(method)?;
    let (_, path) = making.own_id()?;
    let id = contents(method.response, reply, path).pop()?;
    (!id.is_empty()).then(|| ((making.thing, id.to_vec()), path))
}

/// What a request deletes.
fn deleted(method: &Method, request: &Bytes) -> Option<Id> {
    let (_, making) = csi_rpc::maker_of(method)?;
    let (field, _) = making.id_path.first()?;
    let id = contents(method.request, request, field).pop()?;
    Some((making.thing, id.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::{Request, v1};
    use prost::Message as _;
    use std::time::Duration;
    use tonic::Code;

    /// A call that makes a volume of a name, and is answered with an id.
    struct Making(Bytes, Instant);

    impl Making {
        fn begins(name: &str) -> Self {
            let request = v1::CreateVolumeRequest {
                name: name.to_owned(),
                ..Default::default()
            };
            Self(request.encode_to_vec().into(), Instant::now())
        }

        fn ends(self, ids: &mut GivenIds, id: &str) -> Option<String> {
            let method = v1::CreateVolumeRequest::METHOD;
            let volume = v1::Volume {
                volume_id: id.to_owned(),
                ..Default::default()
            };
            let reply = v1::CreateVolumeResponse {
                volume: Some(volume),
            };
            let answer = Ok(Bytes::from(reply.encode_to_vec()));
            Some(ids.ends(method, &self.0, self.1, &answer)?.1)
        }
    }

    fn made(ids: &mut GivenIds, name: &str, id: &str) -> Option<String> {
        Making::begins(name).ends(ids, id)
    }

    #[test]
    fn what_was_found_before_a_driver_was_seen_to_go_does_not_hold() {
        let mut ids = GivenIds::default();
        made(&mut ids, "a", "1");
        let found = Instant::now();
        assert!(ids.holds(found));
        ids.forget();
        assert!(ids.holds(found));
        ids.doubt();
        assert!(!ids.holds(found));
        assert_eq!(made(&mut ids, "b", "1"), None);
        assert!(ids.holds(Instant::now()));
    }

    fn delete(id: &str) -> Bytes {
        let request = v1::DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        };
        request.encode_to_vec().into()
    }

    /// A call that deletes a volume, and is answered with OK or this code.
    fn deleted(ids: &mut GivenIds, id: &str, code: Option<Code>) {
        let method = v1::DeleteVolumeRequest::METHOD;
        ids.begins(method, &delete(id));
        let answer = code.map_or(Ok(Bytes::new()), Err);
        ids.ends(method, &delete(id), Instant::now(), &answer);
    }

    #[test]
    fn an_id_is_given_twice_where_both_things_are_there() {
        let mut ids = GivenIds::default();
        assert_eq!(made(&mut ids, "a", "1"), None);
        assert_eq!(made(&mut ids, "a", "1"), None, "the same volume");
        assert_eq!(made(&mut ids, "b", "2"), None);
        let told = "1 is also that of the volume a, which still exists";
        assert_eq!(made(&mut ids, "c", "1").as_deref(), Some(told));
    }

    #[test]
    fn an_id_may_be_doubled_until_each_answer_of_before_was_looked_at() {
        let ids = Mutex::new(GivenIds::default());
        let (early, late) = (Instant::now(), Instant::now() + Duration::from_secs(1));
        let create = v1::CreateVolumeRequest::METHOD;
        let makes = |begun| GivenIds::makes(&ids, create, begun);
        let (first, given_up) = (makes(early), makes(early));
        assert!(lock(&ids).may_double(early));
        drop(first);
        assert!(lock(&ids).may_double(early));
        drop(given_up);
        let _later = makes(late);
        assert!(!lock(&ids).may_double(early) && lock(&ids).may_double(late));
        let delete = v1::DeleteVolumeRequest::METHOD;
        assert!(GivenIds::makes(&ids, delete, early).is_none());
    }

    #[test]
    fn an_id_that_may_be_free_again_accuses_nobody() {
        let mut ids = GivenIds::default();
        made(&mut ids, "a", "1");
        deleted(&mut ids, "1", None);
        assert_eq!(made(&mut ids, "b", "1"), None, "it was deleted");
        // The driver may have deleted it before it made the other one.
        let other = Making::begins("c");
        deleted(&mut ids, "1", None);
        assert_eq!(other.ends(&mut ids, "1"), None);
        let call = |id: &str| {
            let volume = v1::Volume {
                volume_id: id.to_owned(),
                ..Default::default()
            };
            let reply = v1::CreateVolumeResponse {
                volume: Some(volume),
            };
            let reply = Bytes::from(reply.encode_to_vec());
            Call::over(v1::CreateVolumeRequest::METHOD, Bytes::new(), Ok(reply))
        };
        assert!(ids.has_doubled(&call("1")) && !ids.has_doubled(&call("2")));
        // A deletion that nobody has seen end may come at any time.
        made(&mut ids, "d", "2");
        deleted(&mut ids, "2", Some(Code::DeadlineExceeded));
        made(&mut ids, "d", "2");
        assert_eq!(made(&mut ids, "e", "2"), None);
        // So may what a driver does whose connection has ended.
        made(&mut ids, "f", "3");
        let before = Making::begins("g");
        ids.forget();
        assert_eq!(before.ends(&mut ids, "3"), None);
        assert_eq!(made(&mut ids, "h", "3"), None);
    }
}
