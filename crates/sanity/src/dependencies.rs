//! What a case depends on at a point of its way: rules that other cases are about, and what the driver says it lacks. Plain
//! data, which `tracking.rs` fills.

use super::room::{Lack, Shortage};
use bytes::Bytes;
use csi_proto::lock::lock;
use std::collections::BTreeSet;
use std::sync::Mutex;

/// What a case is about, for others that depend on it.
#[derive(Clone, Copy, Debug)]
pub struct Subject {
    /// The case.
    pub(super) name: &'static str,
    /// The heading of the specification: the name of the RPC, where it is about one.
    pub(super) section: &'static str,
    /// Whether most cases depend on it.
    pub(super) is_first: bool,
}

/// What a failure or a warning depends on.
#[derive(Clone, Debug, Default)]
pub struct Dependencies {
    /// The cases about other rules.
    pub(super) on: Vec<&'static str>,
    /// What the driver lacks, where the answer that did not fit said so.
    pub(super) shortage: Option<Shortage>,
}

impl Dependencies {
    /// The cases about other rules, and about whether what the driver lacks was given back.
    pub(super) fn cases(&self) -> impl Iterator<Item = &'static str> {
        let lack = self.shortage.as_ref().map(|shortage| shortage.lack);
        let back = lack.and_then(Lack::case);
        self.on.clone().into_iter().chain(back)
    }

    /// Whether there is nothing but the case's own rule.
    pub(super) fn is_empty(&self) -> bool {
        self.on.is_empty() && self.shortage.is_none()
    }
}

/// What a case depends on at a point of its way.
#[derive(Default)]
pub struct Tracked {
    /// The cases on whose rules it depends from here on.
    pub(super) from_here: Vec<&'static str>,
    /// Those on whose rules the answers since the last call that changes something depend.
    pub(super) answers: Vec<&'static str>,
    /// What the driver lacks, as an answer since then has said.
    pub(super) shortage: Option<Shortage>,
    /// What was asked for: by its name where it has one, else the request.
    pub(super) asked: BTreeSet<(&'static str, Bytes)>,
    /// The calls under way.
    pub(super) under_way: usize,
}

/// A call under way, until it is dropped.
pub struct UnderWay<'a>(pub(super) &'a Mutex<Tracked>);

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        lock(self.0).under_way -= 1;
    }
}
