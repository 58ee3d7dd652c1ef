//! Judges failures: a case that fails at a demand of another case's rule, while that other case fails too, has not
//! got to what it is about. It is not judged, and names the other one. So every mistake of a driver is one failure.
//!
//! Owns the results of a run, and those that wait for the end of a case that they rest on. Runs nothing. What a case rests
//! on is `resting.rs`'s.

use super::report::{CaseOutcome, CaseResult};

/// The results of a run.
pub struct Judging {
    slots: Vec<Slot>,
}

/// The place of a case in the plan.
struct Slot {
    /// The name of the case, and that of this run of it.
    case: &'static str,
    name: String,
    state: State,
}

/// What is known of a case.
enum State {
    /// It has not ended.
    Open,
    /// It has failed, at a demand that rests on these cases.
    Held(CaseResult, Vec<&'static str>),
    /// It has ended; `None` where nobody asked for its result.
    Ended(Option<CaseResult>),
}

/// What the end of a case says about those that rest on it.
#[derive(Debug, PartialEq)]
enum Basis {
    Open,
    /// Whoever fails beside it has failed alone.
    Sound,
    /// This case has failed.
    Failed(String),
}

impl Judging {
    /// No results yet, of cases with these names; the second is that of the run.
    pub(super) fn of(cases: impl Iterator<Item = (&'static str, String)>) -> Self {
        let slots = cases.map(|(case, name)| Slot {
            case,
            name,
            state: State::Open,
        });
        Self {
            slots: slots.collect(),
        }
    }

    /// A case has ended.
    pub(super) fn ended(&mut self, index: usize, result: CaseResult) {
        self.slots[index].state = State::Ended(Some(result));
    }

    /// A case has failed at a demand that rests on others.
    pub(super) fn holds(&mut self, index: usize, result: CaseResult, on: Vec<&'static str>) {
        self.slots[index].state = State::Held(result, on);
    }

    /// A case has ended whose result nobody asked for.
    pub(super) fn passed_unasked(&mut self, index: usize) {
        self.slots[index].state = State::Ended(None);
    }

    /// The next failure about which all is known now, as it is judged. With `at_the_end` what is still open stays
    /// so: of failures that rest on each other the first in the list has failed by itself.
    pub(super) fn settle(&mut self, at_the_end: bool) -> Option<&CaseResult> {
        let known = (0..self.slots.len()).find_map(|index| Some((index, self.verdict(index)?)));
        let (index, on) = known.or_else(|| {
            let first = self.first_held().filter(|_| at_the_end)?;
            Some((first, None))
        })?;
        let state = std::mem::replace(&mut self.slots[index].state, State::Ended(None));
        let State::Held(mut result, _) = state else {
            return None;
        };
        if let Some(on) = on {
            let reason = format!("not judged: it rests on {on}, which failed");
            result.outcome = CaseOutcome::Skipped(reason);
            result.rests_on = Some(on);
            result.commands.clear();
            result.warnings.clear();
        }
        self.slots[index].state = State::Ended(Some(result));
        match &self.slots[index].state {
            State::Ended(result) => result.as_ref(),
            _ => None,
        }
    }

    /// What becomes of a failure that is held: the failed case that it rests on, if there is one. `None` as long as that is
    /// open.
    fn verdict(&self, index: usize) -> Option<Option<String>> {
        let State::Held(_, premises) = &self.slots[index].state else {
            return None;
        };
        let mut is_open = false;
        for case in premises {
            match self.basis(case, &self.slots[index]) {
                Basis::Failed(name) => return Some(Some(name)),
                Basis::Open => is_open = true,
                Basis::Sound => {}
            }
        }
        (!is_open).then_some(None)
    }

    /// The places of a case that another one rests on: for the same access type, where both run for each.
    fn places(&self, case: &str, of: &Slot) -> impl Iterator<Item = usize> {
        let twice = |case: &str| self.slots.iter().filter(|one| one.case == case).count() > 1;
        let same_access = twice(case) && twice(of.case);
        let is_block = |one: &Slot| one.name != one.case;
        let is_one =
            |one: &Slot| one.case == case && (!same_access || is_block(one) == is_block(of));
        let slots = self.slots.iter().enumerate();
        let found: Vec<_> = slots.filter(|(_, one)| is_one(one)).collect();
        found.into_iter().map(|(place, _)| place)
    }

    /// What a case says about one that rests on it.
    fn basis(&self, case: &str, of: &Slot) -> Basis {
        let mut basis = Basis::Sound;
        let failed = self
            .places(case, of)
            .find_map(|place| match &self.slots[place].state {
                State::Open | State::Held(..) => {
                    basis = Basis::Open;
                    None
                }
                State::Ended(Some(result)) if result.is_failed() => Some(result.name.clone()),
                State::Ended(result) => result.as_ref()?.rests_on.clone(),
            });
        failed.map_or(basis, Basis::Failed)
    }

    /// The first of failures that rest on each other in a circle, or of one that rests on what has not ended.
    fn first_held(&self) -> Option<usize> {
        let is_held = |place: &usize| matches!(self.slots[*place].state, State::Held(..));
        let mut way: Vec<usize> = Vec::new();
        let mut next = (0..self.slots.len()).find(is_held);
        while let Some(place) = next {
            if let Some(begin) = way.iter().position(|one| *one == place) {
                return way[begin..].iter().min().copied();
            }
            way.push(place);
            let slot = &self.slots[place];
            let State::Held(_, premises) = &slot.state else {
                break;
            };
            let mut bases = premises.iter().flat_map(|case| self.places(case, slot));
            next = bases.find(is_held);
        }
        way.last().copied()
    }

    /// The results, in the order of the list.
    pub(super) fn results(self) -> Vec<CaseResult> {
        let states = self.slots.into_iter().map(|slot| slot.state);
        let results = states.filter_map(|state| match state {
            State::Ended(result) => result,
            State::Held(result, _) => Some(result),
            State::Open => None,
        });
        results.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::sanity::verdict::Failure;
    use std::time::Duration;

    const NAMES: [&str; 5] = ["a", "b", "b@block", "c", "c@block"];

    fn judging() -> Judging {
        Judging::of(NAMES.iter().map(|name| (&name[..1], (*name).to_owned())))
    }

    fn result(index: usize, outcome: CaseOutcome) -> CaseResult {
        CaseResult {
            case: super::super::cases().next().unwrap(),
            name: NAMES[index].to_owned(),
            outcome,
            rests_on: None,
            warnings: Vec::new(),
            commands: Vec::new(),
            took: Duration::ZERO,
        }
    }

    fn failed() -> CaseOutcome {
        CaseOutcome::Failed(Failure {
            expected: "one".to_owned(),
            actual: "another".to_owned(),
        })
    }

    /// The results that are settled: the places, and what each rests on.
    fn settled(judging: &mut Judging, at_the_end: bool) -> Vec<(String, Option<String>)> {
        let mut all = Vec::new();
        while let Some(result) = judging.settle(at_the_end) {
            all.push((result.name.clone(), result.rests_on.clone()));
        }
        all
    }

    fn on(name: &str, base: &str) -> (String, Option<String>) {
        (name.to_owned(), Some(base.to_owned()))
    }

    fn alone(name: &str) -> (String, Option<String>) {
        (name.to_owned(), None)
    }

    #[test]
    fn a_failure_waits_for_the_case_that_it_rests_on() {
        let mut judging = judging();
        judging.holds(3, result(3, failed()), vec!["b"]);
        judging.holds(4, result(4, failed()), vec!["b"]);
        judging.ended(1, result(1, CaseOutcome::Passed));
        assert_eq!(settled(&mut judging, false), [alone("c")]);
        // What the other one rests on itself.
        judging.holds(2, result(2, failed()), vec!["a"]);
        assert_eq!(settled(&mut judging, false), []);
        judging.holds(0, result(0, failed()), vec!["no/such"]);
        let all = [alone("a"), on("b@block", "a"), on("c@block", "a")];
        assert_eq!(settled(&mut judging, false), all);
        assert_eq!(judging.results().len(), 5);
    }

    #[test]
    fn of_failures_that_rest_on_each_other_the_first_stands() {
        let mut judging = judging();
        // It waits for them, and they do not rest on it.
        judging.holds(0, result(0, failed()), vec!["c"]);
        judging.holds(1, result(1, failed()), vec!["c"]);
        judging.holds(3, result(3, failed()), vec!["b"]);
        assert_eq!(settled(&mut judging, false), []);
        let all = [alone("b"), on("c", "b"), on("a", "b")];
        let mut found = settled(&mut judging, true);
        found.sort_by_key(|(name, _)| all.iter().position(|(one, _)| one == name));
        assert_eq!(found, all);
    }
}
