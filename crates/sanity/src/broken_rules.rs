//! The rules for messages that the replies of a run broke: each once, with the first evidence.

use csi_proto::schema::Method;
use csi_proto::tables::METHODS;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Instant;

/// What rules are about that hold for every answer: that it shows no secrets, and that an error has a message.
pub const SECRETS: &str = "secrets";
pub const ERRORS: &str = "errors";
const OF_ALL: [&str; 2] = [SECRETS, ERRORS];

/// The rules that replies of a case or of the run broke.
#[derive(Debug, Default)]
pub struct BrokenRules {
    /// The RPCs whose replies were checked.
    checked: BTreeSet<&'static str>,
    /// The broken rules, by what they are about, an RPC or all, and the path of the field without the places in lists.
    broken: BTreeMap<(&'static str, String), BrokenRule>,
}

/// A rule that a reply broke.
#[derive(Clone, Debug)]
pub struct BrokenRule {
    /// The path of the field, or another place; empty for a rule of the whole message.
    pub(super) at: String,
    /// The rule; empty where the place says it.
    pub(super) rule: String,
    /// Whether the driver may be right: then it is a warning.
    pub(super) may_be_right: bool,
    /// The case that got the reply.
    pub(super) case: String,
    /// When that was.
    pub(super) found: Instant,
    /// The number of steps of that case until then.
    pub(super) steps: usize,
    /// The command lines of that case, once it is over.
    pub(super) commands: Vec<String>,
}

impl BrokenRule {
    /// The path of the field, and the rule.
    pub(super) fn words(&self) -> String {
        let parts = [&*self.at, &self.rule];
        Vec::from_iter(parts.into_iter().filter(|one| !one.is_empty())).join(": ")
    }
}

impl BrokenRules {
    /// Replies of an RPC were checked.
    pub(super) fn checked(&mut self, method: &Method) {
        self.checked.insert(method.name);
    }

    /// A rule about something is broken.
    pub(super) fn note(&mut self, about: &'static str, broken: BrokenRule) {
        let key = (about, without_places(&broken.at));
        self.broken.entry(key).or_insert(broken);
    }

    /// Leaves what is wrong about something to the case that has seen it.
    pub(super) fn leave(&mut self, about: &str) {
        self.broken.retain(|(of, _), _| *of != about);
    }

    /// Adds what a case has seen, where it is new, with the commands that lead to it; of its replies only where these count.
    pub(super) fn add(
        &mut self,
        seen: Self,
        replies_count: bool,
        commands: impl Fn(&BrokenRule) -> Vec<String>,
    ) {
        let counts = |about: &str| replies_count || OF_ALL.contains(&about);
        self.checked
            .extend(seen.checked.iter().filter(|one| counts(one)));
        let broken = seen.broken.into_iter().filter(|(key, _)| counts(key.0));
        for (key, mut rule) in broken {
            self.broken.entry(key).or_insert_with(|| {
                rule.commands = commands(&rule);
                rule
            });
        }
    }

    /// Another RPC whose replies broke a rule in the same way, about a field of that name inside a message, and which is asked
    /// first: those that make things come before those that show them.
    pub(super) fn broken_before(
        &self,
        method: &Method,
        rule: &BrokenRule,
    ) -> Option<&'static Method> {
        let mut order = METHODS.to_vec();
        order.sort_by_key(|one| csi_rpc::making(one).is_none());
        let mut earlier = order.into_iter().take_while(|one| one.name != method.name);
        earlier.find(|one| {
            let all = self.about(one.name);
            all.iter().any(|other| is_alike(other, rule))
        })
    }

    /// Whether replies of an RPC were checked.
    pub(super) fn were_checked(&self, method: &Method) -> bool {
        self.checked.contains(method.name)
    }

    /// The broken rules about something.
    pub(super) fn about(&self, about: &str) -> Vec<BrokenRule> {
        let of_it = self.broken.iter().filter(|(key, _)| key.0 == about);
        of_it.map(|(_, rule)| rule.clone()).collect()
    }
}

/// Whether two replies broke one rule about a field of one name, such as `volume_id` and `source_volume_id`.
fn is_alike(one: &BrokenRule, other: &BrokenRule) -> bool {
    let field = |rule: &'_ BrokenRule| Some(rule.at.rsplit_once('.')?.1.to_owned());
    let plain = |rule: &BrokenRule| rule.rule.replace(|c: char| c.is_ascii_digit(), "");
    let (Some(first), Some(second)) = (field(one), field(other)) else {
        return false;
    };
    plain(one) == plain(other) && (first.ends_with(&second) || second.ends_with(&first))
}

/// A path without the places in lists: `entries[3].volume` is `entries[].volume`.
fn without_places(path: &str) -> String {
    let parts = path.split('[');
    let parts = parts.map(|part| part.split_once(']').map_or(part, |(_, rest)| rest));
    Vec::from_iter(parts).join("[]")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_several_replies_show_is_one_broken_rule() {
        let broken = |at: &str, rule: &str| BrokenRule {
            at: at.to_owned(),
            rule: rule.to_owned(),
            may_be_right: false,
            case: String::new(),
            steps: 0,
            found: Instant::now(),
            commands: Vec::new(),
        };
        let id = broken("volume.volume_id", "has 140 bytes, at most 128 are allowed");
        for (at, rule, expected) in [
            (
                "entries[2].volume.volume_id",
                "has 141 bytes, at most 128 are allowed",
                true,
            ),
            (
                "snapshot.source_volume_id",
                "has 140 bytes, at most 128 are allowed",
                true,
            ),
            ("snapshot.source_volume_id", "required", false),
            (
                "snapshot.snapshot_id",
                "has 140 bytes, at most 128 are allowed",
                false,
            ),
            ("volume_id", "has 140 bytes, at most 128 are allowed", false),
        ] {
            assert_eq!(is_alike(&id, &broken(at, rule)), expected, "{at}: {rule}");
        }
    }

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
