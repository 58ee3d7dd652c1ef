//! The rules for messages that the replies of a run broke: each once, with the first evidence.

use csi_proto::schema::Method;
use std::collections::{BTreeMap, BTreeSet};

/// The rules that replies of a case or of the run broke.
#[derive(Debug, Default)]
pub struct BrokenRules {
    /// The RPCs whose replies were checked.
    checked: BTreeSet<&'static str>,
    /// The broken rules, by RPC and the path of the field without the places in lists.
    broken: BTreeMap<(&'static str, String), BrokenRule>,
}

/// A rule that a reply broke.
#[derive(Clone, Debug)]
pub struct BrokenRule {
    /// The path of the field, and the rule.
    pub(super) words: String,
    /// Whether a required scalar has its default value.
    pub(super) is_default: bool,
    /// The case that got the reply.
    pub(super) case: String,
    /// The command lines that lead to it.
    pub(super) commands: Vec<String>,
}

impl BrokenRules {
    /// Replies of an RPC were checked.
    pub(super) fn checked(&mut self, method: &Method) {
        self.checked.insert(method.name);
    }

    /// A reply of an RPC broke a rule about the field at this path.
    pub(super) fn note(
        &mut self,
        method: &Method,
        at: &str,
        evidence: impl FnOnce() -> BrokenRule,
    ) {
        let key = (method.name, without_places(at));
        self.broken.entry(key).or_insert_with(evidence);
    }

    /// Adds what a case has seen, where it is new.
    pub(super) fn add(&mut self, seen: Self) {
        self.checked.extend(seen.checked);
        for (key, rule) in seen.broken {
            self.broken.entry(key).or_insert(rule);
        }
    }

    /// The rules that replies of an RPC broke; `None` where none were checked.
    pub(super) fn of(&self, method: &Method) -> Option<Vec<BrokenRule>> {
        let of_it = self.broken.iter().filter(|(key, _)| key.0 == method.name);
        let of_it = of_it.map(|(_, rule)| rule.clone()).collect();
        self.checked.contains(method.name).then_some(of_it)
    }
}

/// A path without the places in lists: `entries[3].volume` is `entries[].volume`.
fn without_places(path: &str) -> String {
    let parts = path.split('[');
    let rest = |part: &str| part.split_once(']').map_or("", |(_, rest)| rest).to_owned();
    let parts = parts.enumerate().map(|(index, part)| match index {
        0 => part.to_owned(),
        _ => rest(part),
    });
    parts.collect::<Vec<_>>().join("[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_in_lists_are_left_out() {
        for (path, expected) in [
            ("entries[3].status[0].id", "entries[].status[].id"),
            ("volume.volume_id", "volume.volume_id"),
            ("", ""),
        ] {
            assert_eq!(without_places(path), expected);
        }
    }
}
