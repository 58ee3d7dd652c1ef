//! What a case rests on at a point of its way: rules that other cases are about, and what the driver says it lacks. Plain
//! data, which `resting.rs` fills.

use super::room::{Lack, Shortage};
use crate::rpc;
use crate::rpc::facts::NAME;
use bytes::Bytes;
use csi_proto::lock::lock;
use csi_proto::path::Path;
use csi_proto::schema::Method;
use csi_proto::value::Value;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// What a failure or a warning rests on.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    /// The cases about other rules.
    pub(super) on: Vec<&'static str>,
    /// What the driver lacks, where the answer that did not fit said so.
    pub(super) shortage: Option<Shortage>,
}

impl Ground {
    /// The cases about other rules, and about whether what the driver lacks was given back.
    pub(super) fn cases(&self) -> impl Iterator<Item = &'static str> {
        let lack = self.shortage.as_ref().map(|shortage| shortage.lack);
        let back = lack.and_then(Lack::case);
        self.on.clone().into_iter().chain(back)
    }

    /// Whether it rests on nothing but the case's own rule.
    pub(super) fn is_empty(&self) -> bool {
        self.on.is_empty() && self.shortage.is_none()
    }
}

/// What a case rests on at a point of its way.
#[derive(Default)]
pub struct Premises {
    /// The cases on whose rules it rests from here on.
    rest: Vec<&'static str>,
    /// Those on whose rules the answers since the last call that changes something rest.
    answer: Vec<&'static str>,
    /// What the driver lacks, as an answer since then has said.
    shortage: Option<Shortage>,
    /// What was asked for: by its name where it has one, else the request.
    asked: BTreeSet<(&'static str, Vec<u8>)>,
    /// The calls under way.
    under_way: usize,
}

impl Premises {
    /// A call begins. Where it repeats another one, the answers rest on the case about that.
    pub(super) fn begin(
        &mut self,
        method: &'static Method,
        request: &Bytes,
        repetition: Option<&'static str>,
    ) {
        if self.under_way == 0 && !rpc::only_reads(method) {
            self.answer.clear();
            self.shortage = None;
        }
        self.under_way += 1;
        if !self.asked.insert((method.name, subject(method, request))) {
            self.answer.extend(repetition);
        }
    }

    /// Calls begin, one beside another: what one of them was answered is not over when the next begins.
    pub(super) fn begin_many(&mut self) {
        self.under_way += 1;
    }

    /// A call has ended, or was given up.
    fn end(&mut self) {
        self.under_way = self.under_way.saturating_sub(1);
    }

    /// From here on the case rests on that one.
    pub(super) fn rest(&mut self, on: &'static str) {
        self.rest.push(on);
    }

    /// The demands that rest on that one are kept: the case rests on it no more.
    pub(super) fn kept(&mut self, on: &'static str) {
        if let Some(place) = self.rest.iter().rposition(|one| *one == on) {
            self.rest.remove(place);
        }
    }

    /// What the case makes of the answers rests on this, until it calls again to change something.
    pub(super) fn answers(&mut self, on: &'static str) {
        self.answer.push(on);
    }

    /// The answer says that the driver lacks something.
    pub(super) fn lacks(&mut self, shortage: Shortage) {
        self.shortage = Some(shortage);
    }

    /// Another refusal is demanded than the last one, of a case that has made something or has not.
    pub(super) fn refused_otherwise(&mut self, has_made: bool) {
        if let Some(shortage) = &mut self.shortage {
            // A case that has something may have no room for more.
            let is_of_request = matches!(shortage.lack, Lack::Service | Lack::Size);
            shortage.in_place_of_another |= is_of_request || !has_made;
        }
    }

    /// What the case rests on now.
    pub(super) fn now(&self) -> Ground {
        Ground {
            on: [&self.rest[..], &self.answer].concat(),
            shortage: self.shortage.clone(),
        }
    }
}

/// A call under way, until it is dropped.
pub struct UnderWay<'a>(pub(super) &'a Mutex<Premises>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(self.0).end();
    }
}

/// What a request is about.
fn subject(method: &Method, request: &Bytes) -> Vec<u8> {
    let by_name = rpc::making(method).is_some_and(|making| making.own_id().is_some());
    let path = by_name.then(|| Path::parse(method.request, NAME).ok());
    match path.flatten().map(|path| path.read(request)) {
        Some(Ok(Value::Text(name))) => name.as_bytes().to_vec(),
        _ => request.to_vec(),
    }
}
