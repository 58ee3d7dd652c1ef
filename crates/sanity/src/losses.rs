//! The calls of a run in which the driver went away, and which RPCs and cases may have led to that.
//!
//! A driver may die some time after its answer: the call that meets that is innocent, and so is its case. What was answered so
//! short before is therefore kept with each time. Plain data; who is judged how is `case_states.rs`'s.

use super::own_driver::DriverDeath;
use super::verdict::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// A driver that is there so long after an answer does not go away because of it.
const STAYS: Duration = Duration::from_secs(1);

/// The names of RPCs.
pub type Rpcs = BTreeSet<&'static str>;

/// A call that was cut off.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The case that made it.
    pub(super) case: String,
    /// The name of the RPC.
    pub(super) method: &'static str,
    /// What the case says of that.
    pub(super) failure: Failure,
    /// The RPCs one of which may be to blame: this one, and those that were answered short before.
    pub(super) suspects: Rpcs,
}

/// A time that the driver went away.
#[derive(Debug, Default)]
pub struct Absence {
    /// The calls that were cut off; never empty.
    pub(super) calls: Vec<Loss>,
    /// How it ended by itself, where the run has started it.
    pub(super) death: Option<DriverDeath>,
    /// The RPCs that were answered short before the first of them.
    answered: Rpcs,
}

/// The calls in which the driver went away.
#[derive(Debug, Default)]
pub struct Losses {
    times: Vec<Absence>,
    /// How often it went away.
    count: usize,
    /// Whether it has come back since the last of them.
    is_back: bool,
    /// When each RPC that changes something was first answered, since the driver has come back.
    answered: BTreeMap<&'static str, Instant>,
    /// The RPCs after whose answer the driver has stayed.
    harmless: Rpcs,
    /// The first cases that have led to it alone, each with the RPCs one of which is to blame.
    firsts: Vec<(&'static str, Rpcs)>,
}

impl Losses {
    /// An RPC that changes something was answered.
    pub(super) fn answered(&mut self, rpc: &'static str, at: Instant) {
        self.answered.entry(rpc).or_insert(at);
    }

    /// A call was cut off; it, with all that may be to blame.
    pub(super) fn note(&mut self, mut loss: Loss, at: Instant) -> Loss {
        if self.times.is_empty() || std::mem::take(&mut self.is_back) {
            let mut answered = Rpcs::new();
            for (rpc, first) in std::mem::take(&mut self.answered) {
                match at.saturating_duration_since(first) < STAYS {
                    true => answered.insert(rpc),
                    false => self.harmless.insert(rpc),
                };
            }
            self.times.push(Absence {
                answered: &answered - &self.harmless,
                ..Absence::default()
            });
            self.count += 1;
        }
        loss.suspects.insert(loss.method);
        if let Some(last) = self.times.last_mut() {
            loss.suspects.extend(&last.answered);
            last.calls.push(loss.clone());
        }
        loss
    }

    /// A case knows more of how the driver went away.
    pub(super) fn tell(&mut self, case: &str, failure: &Failure) {
        let all = self.times.iter_mut().flat_map(|one| &mut one.calls);
        if let Some(last) = all.filter(|one| one.case == case).last() {
            last.failure.clone_from(failure);
        }
    }

    /// How often the driver has gone away until now.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The driver of the run's own has ended by itself.
    pub(super) fn died(&mut self, death: DriverDeath) {
        if let Some(last) = self.times.last_mut().filter(|_| !self.is_back) {
            last.death = Some(death);
        }
    }

    /// The driver answers again.
    pub(super) fn came_back(&mut self) {
        self.is_back = true;
        self.restarted();
    }

    /// The driver is another process, which nothing that was answered before can take down.
    pub(super) fn restarted(&mut self) {
        self.answered.clear();
    }

    /// A case has led to it alone, each time with these suspects: every time that it ran is explained, and so is every time
    /// after an answer of one of them.
    pub(super) fn explain(&mut self, case: &str, suspects: &Rpcs) {
        let is_explained = |lost: &Absence| {
            !lost.answered.is_disjoint(suspects) || lost.calls.iter().any(|one| one.case == case)
        };
        self.times.retain(|lost| !is_explained(lost));
        // What is noted next is of another time.
        self.is_back = true;
    }

    /// The case that has led to it before this one, with one of the same suspects, if there is one. Else this is the first.
    pub(super) fn first_with(
        &mut self,
        case: &'static str,
        suspects: &Rpcs,
    ) -> Option<&'static str> {
        let mut firsts = self.firsts.iter();
        let known = firsts.find(|(_, all)| !all.is_disjoint(suspects));
        let known = known.map(|(first, _)| *first);
        if known.is_none() {
            self.firsts.push((case, suspects.clone()));
        }
        known.filter(|first| *first != case)
    }

    /// The times that no case alone has led to again.
    pub(super) fn unexplained(&self) -> &[Absence] {
        &self.times
    }
}

/// The calls that were under way when the driver went away, in words.
pub fn suspects(lost: &[Loss]) -> String {
    let names = lost
        .iter()
        .map(|one| format!("{} of {}", one.method, one.case));
    Vec::from_iter(names).join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loss(case: &str, method: &'static str) -> Loss {
        Loss {
            case: case.to_owned(),
            method,
            failure: Failure::new("", ""),
            suspects: Rpcs::new(),
        }
    }

    #[test]
    fn an_rpc_is_suspected_until_the_driver_has_stayed_after_its_answer() {
        let start = Instant::now();
        let after = |milliseconds| start + Duration::from_millis(milliseconds);
        // What was answered when, since the driver came back; the call that was then cut off at 2000 ms; who may be to blame.
        for (answered, call, expected) in [
            (&[][..], "NodeStage", &["NodeStage"][..]),
            (&[("Create", 1970)], "Node", &["Create", "Node"]),
            // It has stayed after the first of these answers.
            (&[("Create", 900), ("Create", 1990)], "Node", &["Node"]),
            (
                &[("Create", 900), ("Delete", 1990)],
                "Create",
                &["Create", "Delete"],
            ),
            (&[("Create", 1001)], "Node", &["Create", "Node"]),
            (&[("Create", 1000)], "Node", &["Node"]),
        ] {
            let mut losses = Losses::default();
            for (rpc, at) in answered {
                losses.answered(rpc, after(*at));
            }
            let found = losses.note(loss("a", call), after(2000)).suspects;
            assert_eq!(found, expected.iter().copied().collect(), "{answered:?}");
        }
    }

    #[test]
    fn what_is_harmless_once_is_so_after_the_next_answer_too() {
        let start = Instant::now();
        let mut losses = Losses::default();
        losses.answered("Create", start);
        losses.note(loss("a", "Node"), start + STAYS);
        losses.came_back();
        losses.answered("Create", start + STAYS);
        losses.answered("Delete", start + STAYS);
        let found = losses.note(loss("a", "Node"), start + STAYS).suspects;
        assert_eq!(found, Rpcs::from(["Delete", "Node"]));
        // A process that was started meanwhile is not taken down by what the one before it has answered.
        losses.came_back();
        losses.answered("Delete", start + STAYS);
        losses.restarted();
        let found = losses.note(loss("a", "Node"), start + STAYS).suspects;
        assert_eq!(found, Rpcs::from(["Node"]));
    }

    #[test]
    fn a_case_that_led_to_it_explains_what_came_after_the_same_answer() {
        let now = Instant::now();
        let mut losses = Losses::default();
        // A case deletes; another one, which is innocent, is cut off.
        losses.answered("Delete", now);
        losses.note(loss("innocent", "Create"), now);
        losses.came_back();
        // This has another cause.
        losses.note(loss("other", "Node"), now);
        losses.came_back();
        let guilty = Rpcs::from(["Delete"]);
        losses.explain("a@block", &guilty);
        let left: Vec<_> = losses.unexplained().iter().map(|one| &one.calls).collect();
        assert_eq!(left.len(), 1);
        assert_eq!(suspects(left[0]), "Node of other");
        // One that is cut off after that answer as well is another sign of the same mistake.
        let met = Rpcs::from(["Create", "Delete"]);
        assert_eq!(losses.first_with("a", &guilty), None);
        assert_eq!(losses.first_with("b", &met), Some("a"));
        assert_eq!(losses.first_with("a", &met), None, "the same for block");
        assert_eq!(losses.first_with("c", &Rpcs::from(["Node"])), None);
        assert_eq!(losses.count(), 2);
    }
}
