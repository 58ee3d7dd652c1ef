//! The steps of a case: its calls, and what it does besides. `script.rs` makes command lines of them.

use super::own_driver::Restarter;
use super::room::required;
use bytes::Bytes;
use csi_output::json;
use csi_proto::schema::Method;
use csi_proto::value::{Secrets, decode};
use csi_undo::requests::{identity, undoing};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tonic::Code;

/// The comment above the lines that take down what the lines before them have made.
pub const TIDIES_UP: &str = "# to tidy up:";

/// A step of a case.
#[derive(Clone)]
pub enum Step {
    /// A call.
    Call(Call),
    /// A command of the shell.
    Shell(String),
    /// What restarts the driver, which then takes some time until it answers.
    Restart(Restarter),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The RPC.
    pub(super) method: &'static Method,
    /// The request.
    pub(super) request: Bytes,
    /// The deadline, where it is not that of every call.
    pub(super) limit: Option<Duration>,
    /// When it began.
    pub(super) began: Instant,
    /// The time and the kind of its end; `None` for a call that was given up.
    pub(super) ended: Option<(Instant, StepAnswer)>,
}

impl Step {
    /// The call, where it is one.
    pub(super) fn call(&self) -> Option<&Call> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }
}

impl Call {
    /// The first message of the reply, where it was answered with OK.
    pub(super) fn reply(&self) -> Option<&Bytes> {
        self.ended.as_ref()?.1.as_ref().ok()
    }

    /// Whether another call repeats this one, once it is ABORTED, and is ABORTED too.
    pub(super) fn is_aborted_again(&self, next: &Self) -> bool {
        let is_aborted = |answer: &StepAnswer| *answer == Err(Code::Aborted);
        let (Some((end, first)), Some((_, second))) = (&self.ended, &next.ended) else {
            return false;
        };
        let is_same = self.method.path == next.method.path && self.request == next.request;
        is_same && *end <= next.began && is_aborted(first) && is_aborted(second)
    }

    /// A call that is over and ran beside no other.
    pub(super) fn over(method: &'static Method, request: Bytes, answer: StepAnswer) -> Self {
        let now = Instant::now();
        Self {
            method,
            request,
            limit: None,
            began: now,
            ended: Some((now, answer)),
        }
    }
}

/// The end of a call: the first message that answered it, or another code than OK.
pub type StepAnswer = Result<Bytes, Code>;

/// The steps of a case, in the order of their beginnings.
#[derive(Clone, Default)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// All of them.
    pub(super) fn all(&self) -> &[Step] {
        &self.0
    }

    /// Adds a step; its number.
    pub(super) fn push(&mut self, step: Step) -> usize {
        self.0.push(step);
        self.0.len() - 1
    }

    /// Adds a comment, before the lines of another case that tidy up.
    pub(super) fn remark(&mut self, line: String) {
        let tidies = |step: &Step| matches!(step, Step::Shell(line) if line == TIDIES_UP);
        let at = self.0.iter().rposition(tidies).unwrap_or(self.0.len());
        self.0.insert(at, Step::Shell(line));
    }

    /// Adds a call that begins now; its number.
    pub(super) fn begin(
        &mut self,
        method: &'static Method,
        request: Bytes,
        limit: Option<Duration>,
    ) -> usize {
        self.push(Step::Call(Call {
            method,
            request,
            limit,
            began: Instant::now(),
            ended: None,
        }))
    }

    /// Says how a call ended.
    pub(super) fn end(&mut self, number: usize, answer: StepAnswer) {
        if let Some(Step::Call(call)) = self.0.get_mut(number) {
            call.ended = Some((Instant::now(), answer));
        }
    }

    fn calls(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.0.iter().filter_map(Step::call)
    }

    /// When the driver last answered a call.
    pub(super) fn last_answer(&self) -> Option<Instant> {
        let ends = self.calls().filter_map(|call| call.ended.as_ref());
        let ends = ends.filter(|(_, answer)| *answer != Err(Code::DeadlineExceeded));
        ends.map(|(end, _)| *end).max()
    }

    /// The most volumes of at least that size that they have had at a time for certain: from the answer that told of one until its
    /// deletion was asked for. What a driver does to calls that run at once may come in any order, so that a repeated creation may
    /// tell of a volume that is gone. Of steps with a restart, in which a driver may forget volumes, nothing is certain.
    pub(super) fn most_volumes(&self, size: i64) -> usize {
        let is_restart = |step: &Step| matches!(step, Step::Restart(_));
        if self.0.iter().any(is_restart) {
            return 0;
        }
        // The first time that each was told of, and that its deletion was asked for.
        let (mut told, mut deleted) = (BTreeMap::new(), BTreeMap::new());
        let first = |times: &mut BTreeMap<_, Instant>, volume, at: Instant| {
            let known = times.entry(volume).or_insert(at);
            *known = at.min(*known);
        };
        for call in self.calls() {
            let (method, request) = (call.method, &call.request);
            if let (Some(making), Some(reply)) = (csi_rpc::making(method), call.reply())
                && required(method, request) >= Some(size)
                && let Some(undo) = undoing(method, making, request, Some(reply))
                && let Some((end, _)) = &call.ended
            {
                first(
                    &mut told,
                    (making.undone_by.path, identity(making, &undo)),
                    *end,
                );
            } else if let Some((_, making)) = csi_rpc::maker_of(method) {
                // Whatever else the request says: cases also send fields that no specification has.
                first(
                    &mut deleted,
                    (method.path, identity(making, request)),
                    call.began,
                );
            }
        }
        let is_there = |volume, from: &Instant, at: &Instant| {
            from <= at && deleted.get(volume).is_none_or(|until| at < until)
        };
        let there_at = |at| {
            told.iter()
                .filter(|(volume, from)| is_there(*volume, from, at))
                .count()
        };
        told.values().map(there_at).max().unwrap_or(0)
    }

    /// Whether one of them has made something.
    pub(super) fn have_made(&self) -> bool {
        let mut calls = self.calls();
        calls.any(|call| call.reply().is_some() && csi_rpc::making(call.method).is_some())
    }

    /// The last call that was refused, and its code.
    pub(super) fn last_refusal(&self) -> Option<(&'static Method, Code)> {
        let mut calls = self.calls().rev();
        calls.find_map(|call| Some((call.method, call.ended.as_ref()?.1.as_ref().err().copied()?)))
    }
}

/// A request as JSON, without secrets and what says nothing, to keep the lines short.
pub fn request_text(method: &Method, request: &Bytes) -> String {
    let decoded = decode(method.request, request, Secrets::Omit);
    let shown = decoded.ok().map(|value| json::line_text(&value.lean()));
    shown.and_then(Result::ok).unwrap_or("{}".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::tables::METHODS;
    use csi_proto::v1;
    use prost::Message;

    /// A call from one second to another.
    fn call(rpc: &str, request: impl Message, answer: StepAnswer, seconds: (u64, u64)) -> Step {
        let begun = Instant::now();
        let at = |second| begun + Duration::from_secs(second);
        Step::Call(Call {
            method: METHODS.iter().find(|method| method.name == rpc).unwrap(),
            request: request.encode_to_vec().into(),
            limit: None,
            began: at(seconds.0),
            ended: Some((at(seconds.1), answer)),
        })
    }

    #[test]
    fn a_call_is_aborted_again_where_the_next_is_the_same_after_it() {
        let delete = |id: &str, answer, seconds| {
            let request = v1::DeleteSnapshotRequest {
                snapshot_id: id.to_owned(),
                ..Default::default()
            };
            call("DeleteSnapshot", request, answer, seconds)
        };
        let aborted = || Err(Code::Aborted);
        let first = delete("a", aborted(), (0, 1));
        for (what, next, expected) in [
            ("the same", delete("a", aborted(), (2, 3)), true),
            ("another one", delete("b", aborted(), (2, 3)), false),
            ("done", delete("a", Ok(Bytes::new()), (2, 3)), false),
            ("beside it", delete("a", aborted(), (0, 3)), false),
        ] {
            let (Some(first), Some(next)) = (first.call(), next.call()) else {
                panic!("{what}");
            };
            // Each was told by a clock of its own.
            let mut next = next.clone();
            if what != "beside it" {
                next.began = first.ended.as_ref().map_or(first.began, |(end, _)| *end);
            }
            assert_eq!(first.is_aborted_again(&next), expected, "{what}");
        }
    }

    #[test]
    fn volumes_are_there_from_their_answer_until_their_deletion_is_asked_for() {
        let create = |id: &str, from, to| {
            let range = v1::CapacityRange {
                required_bytes: 8,
                limit_bytes: 0,
            };
            let request = v1::CreateVolumeRequest {
                name: id.to_owned(),
                capacity_range: Some(range),
                ..v1::CreateVolumeRequest::default()
            };
            let volume = v1::Volume {
                volume_id: id.to_owned(),
                ..v1::Volume::default()
            };
            let reply = v1::CreateVolumeResponse {
                volume: Some(volume),
            };
            let answer = Ok(reply.encode_to_vec().into());
            call("CreateVolume", request, answer, (from, to))
        };
        let delete = |id: &str, from, to| {
            let request = v1::DeleteVolumeRequest {
                volume_id: id.to_owned(),
                secrets: [("key".to_owned(), "value".to_owned())].into(),
            };
            call("DeleteVolume", request, Ok(Bytes::new()), (from, to))
        };
        for (what, size, steps, most) in [
            (
                "one after the other",
                8,
                vec![create("a", 0, 1), delete("a", 2, 3), create("b", 4, 5)],
                1,
            ),
            (
                "two at a time",
                8,
                vec![create("a", 0, 3), create("b", 1, 2), delete("a", 4, 5)],
                2,
            ),
            ("too small ones", 9, vec![create("a", 0, 1)], 0),
            (
                "one that a repeated creation tells of, beside its deletion, and the next",
                8,
                vec![
                    create("a", 0, 1),
                    delete("a", 2, 4),
                    create("a", 2, 3),
                    create("b", 5, 6),
                ],
                1,
            ),
            (
                "one before a restart, which may have taken it away, and one after it",
                8,
                vec![
                    create("a", 0, 1),
                    Step::Restart(Restarter::Command("restart".to_owned())),
                    create("b", 2, 3),
                ],
                0,
            ),
            (
                "the place of one that is being deleted, whose deletion is told late",
                8,
                vec![create("a", 0, 2), create("b", 1, 5), delete("a", 3, 9)],
                1,
            ),
        ] {
            assert_eq!(Steps(steps).most_volumes(size), most, "{what}");
        }
    }
}
