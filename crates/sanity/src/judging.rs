//! Judges failures: [`decide`] says whether a try of a case counts. A failure that rests on other cases waits here for their
//! ends. Where one of those fails too, the failure is not judged, and names that case. So every mistake of a driver is one
//! failure, and what a driver may do, such as to have no more room, is none.
//!
//! Owns the results of a run, also those that still wait for other cases. Runs nothing. What a case rests on is `resting.rs`'s.

use super::premises::Ground;
use super::report::CaseResult;
use super::room::Lack;
use std::time::Duration;

/// The most tries of a case that is cut off each time.
const CUT_OFF_AT_MOST: usize = 6;

/// How often in a row, alone, a call must take the driver down to be the cause; and how often where the driver is known to go
/// away without such a call too.
const KILLS: usize = 2;
const KILLS_ANYWAY: usize = 4;

/// The tries of a case that the driver has no room for: where somebody else uses the storage, where that is not known, and where
/// nobody else does.
const BESIDE_OTHERS: usize = 10;
const PERHAPS_BESIDE: usize = 3;
const ALONE: usize = 2;

/// The pause after the first of them; each is followed by twice the pause before, up to the longest.
const PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What is known of one try of a case.
#[derive(Clone, Copy, Debug, Default)]
pub struct Try {
    /// The number of tries before it.
    pub(super) number: usize,
    /// Whether no other case ran beside it.
    pub(super) alone: bool,
    pub(super) failed: bool,
    /// Whether the driver went away in one of its calls, or at least while it ran.
    pub(super) cut_off: CutOff,
    /// How often in a row it ran alone and the driver went away in the same call, this time included.
    pub(super) deaths: usize,
    /// Whether the driver has gone away in a case that ran alone and did not lead to that again.
    pub(super) dies_anyway: bool,
    /// Whether the driver does not answer any more.
    pub(super) gone: bool,
    /// What the driver said that it lacks, where it failed at that.
    pub(super) lack: Option<Lack>,
    /// Whether it said so where another refusal is demanded.
    pub(super) in_place_of_another: bool,
    /// Whether the case is the one about whether that is given back. It waits for that itself.
    pub(super) is_about_it: bool,
    /// Whether the case is one of those on which most others depend.
    pub(super) is_first: bool,
    /// Whether the RPC that the driver lacks something for has ever answered OK, to as large a size; where another refusal is
    /// demanded, also whether the driver serves others right after.
    pub(super) has_worked: bool,
    /// Whether somebody else uses the storage; `None` where the driver does not tell.
    pub(super) others: Option<bool>,
    /// Whether the run has waited for room for so long that it waits no more.
    pub(super) patience_is_over: bool,
}

/// Whether the driver went away during a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutOff {
    /// It did not.
    #[default]
    No,
    /// It did, in a call of another case.
    Meanwhile,
    /// It did in a call of this case.
    InCall,
}

/// What becomes of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It counts, as far as the cases are sound that it rests on.
    Counts,
    /// It does not: the case runs again with nothing else running.
    AgainAlone,
    /// It does not: the case runs again after a pause.
    AgainAfter(Duration),
    /// One of its calls takes the driver down each time.
    Kills,
    /// It shows nothing, since the driver went away.
    Interrupted,
    /// It shows nothing: what it needs is used by others, or is not there.
    Lacks,
}

/// Decides about a try.
pub fn decide(one: &Try) -> Next {
    use CutOff::{InCall, Meanwhile, No};
    let kills = if one.dies_anyway { KILLS_ANYWAY } else { KILLS };
    match one.cut_off {
        No => {}
        Meanwhile if !one.failed => {}
        _ if one.gone => return Next::Interrupted,
        InCall if one.deaths >= kills => return Next::Kills,
        InCall | Meanwhile if one.number + 1 < CUT_OFF_AT_MOST => return Next::AgainAlone,
        InCall | Meanwhile => return Next::Interrupted,
    }
    let Some(lack) = one.lack.filter(|_| one.failed) else {
        return Next::Counts;
    };
    if one.is_about_it && one.alone {
        // All that was taken is given back, the case has waited for that, and what worked works no more.
        return match one.has_worked && one.others == Some(false) {
            true => Next::Counts,
            false => Next::Lacks,
        };
    }
    let tries = match (lack, one.others) {
        // What others show meanwhile is there.
        (Lack::Size, _) if one.in_place_of_another => ALONE,
        // Another size is not there the next time either.
        (Lack::Size, _) => 0,
        (Lack::Service, _) if one.has_worked => PERHAPS_BESIDE,
        // It may not have come up yet.
        (Lack::Service, _) if one.is_first => BESIDE_OTHERS,
        (Lack::Service, _) => 0,
        (_, Some(true)) => BESIDE_OTHERS,
        (_, None) => PERHAPS_BESIDE,
        (_, Some(false)) => ALONE,
    };
    let is_answer = one.in_place_of_another
        && one.has_worked
        && match lack {
            Lack::Service => true,
            Lack::Room | Lack::Places => one.others != Some(true) || !one.alone,
            Lack::Size => false,
        };
    if one.number + 1 < tries && (is_answer || !one.patience_is_over) {
        let doubled = 1u32 << one.number.min(16);
        return match one.alone {
            true => Next::AgainAfter((PAUSE * doubled).min(LONGEST_PAUSE)),
            false => Next::AgainAlone,
        };
    }
    // What comes each time, while others are served, is the driver's answer to the request.
    match is_answer && one.alone {
        true => Next::Counts,
        false => Next::Lacks,
    }
}

/// The results of a run.
pub struct Judging {
    slots: Vec<Slot>,
}

/// The place of a case in the plan.
struct Slot {
    /// The name of the case, and that of this run of it.
    case: &'static str,
    name: String,
    has_ended: bool,
    /// Its result; none where nobody asked for that.
    result: Option<CaseResult>,
    /// What that rests on, as long as it is not told.
    held: Option<Ground>,
}

impl Slot {
    /// Whether its result is told, or nobody asked for one.
    fn is_told(&self) -> bool {
        self.has_ended && self.held.is_none()
    }

    /// The case that has failed, where this one is told: itself, or what it rests on.
    fn failed(&self) -> Option<String> {
        let result = self.result.as_ref().filter(|_| self.is_told())?;
        match result.is_failed() {
            true => Some(result.name.clone()),
            false => result.rests_on.clone(),
        }
    }
}

impl Judging {
    /// No results yet, of cases with these names; the second is that of the run.
    pub(super) fn of(cases: impl Iterator<Item = (&'static str, String)>) -> Self {
        let slots = cases.map(|(case, name)| Slot {
            case,
            name,
            has_ended: false,
            result: None,
            held: None,
        });
        Self {
            slots: slots.collect(),
        }
    }

    /// A case has ended. Where it has failed, at a demand that rests on others, or on what the driver lacks, it waits for them.
    pub(super) fn takes(&mut self, index: usize, result: CaseResult, ground: Ground) {
        let slot = &mut self.slots[index];
        (slot.has_ended, slot.result, slot.held) = (true, Some(result), Some(ground));
    }

    /// Whether a failure rests on a case.
    pub(super) fn awaits(&self, index: usize) -> bool {
        let case = self.slots[index].case;
        let mut held = self.slots.iter().filter_map(|slot| slot.held.as_ref());
        held.any(|ground| ground.cases().any(|one| one == case))
    }

    /// A case has ended whose result nobody asked for.
    pub(super) fn passed_unasked(&mut self, index: usize) {
        self.slots[index].has_ended = true;
    }

    /// The next result about which all is known now, as it is judged. With `at_the_end` what is still open stays
    /// so: of failures that rest on each other the first in the list has failed by itself.
    pub(super) fn settle(&mut self, at_the_end: bool) -> Option<&CaseResult> {
        let known = (0..self.slots.len()).find_map(|index| Some((index, self.verdict(index)?)));
        let (index, on) = known.or_else(|| {
            let first = self.first_held().filter(|_| at_the_end)?;
            Some((first, None))
        })?;
        let slot = &mut self.slots[index];
        let (ground, result) = (slot.held.take()?, slot.result.as_mut()?);
        let failed = on
            .as_ref()
            .map(|on| format!("not judged: it rests on {on}, which failed"));
        if let Some(reason) = failed.or_else(|| Some(ground.shortage?.reason())) {
            result.skip(reason);
            result.rests_on = on;
        }
        slot.result.as_ref()
    }

    /// What becomes of a failure that is held: the failed case that it rests on, if there is one. `None` as long as that is
    /// open.
    fn verdict(&self, index: usize) -> Option<Option<String>> {
        let slot = &self.slots[index];
        slot.held.as_ref()?;
        let bases: Vec<_> = self.bases(slot).map(|place| &self.slots[place]).collect();
        let failed = bases.iter().find_map(|base| base.failed());
        let is_known = failed.is_some() || bases.iter().all(|base| base.is_told());
        is_known.then_some(failed)
    }

    /// The places of the cases that a failure which is held rests on.
    fn bases<'a>(&'a self, of: &'a Slot) -> impl Iterator<Item = usize> {
        let cases = of.held.iter().flat_map(Ground::cases);
        cases.flat_map(|case| self.places(case, of))
    }

    /// The places of a case that another one rests on: for the same access type, where both run for each.
    fn places(&self, case: &str, of: &Slot) -> impl Iterator<Item = usize> {
        let twice = |case: &str| self.slots.iter().filter(|one| one.case == case).count() > 1;
        let same_access = twice(case) && twice(of.case);
        let is_block = |one: &Slot| one.name != one.case;
        let slots = self.slots.iter().enumerate();
        let found = slots.filter(move |(_, one)| {
            one.case == case && (!same_access || is_block(one) == is_block(of))
        });
        found.map(|(place, _)| place)
    }

    /// The failure that stands where all wait: the first of those that rest on each other in a circle, or one that rests on a
    /// case that has not ended.
    fn first_held(&self) -> Option<usize> {
        let is_held = |place: &usize| self.slots[*place].held.is_some();
        let mut way: Vec<usize> = Vec::new();
        let mut next = (0..self.slots.len()).find(is_held);
        while let Some(place) = next {
            if let Some(begin) = way.iter().position(|one| *one == place) {
                return way[begin..].iter().min().copied();
            }
            way.push(place);
            let slot = &self.slots[place];
            next = self.bases(slot).find(is_held);
        }
        way.last().copied()
    }

    /// The results, in the order of the list.
    pub(super) fn results(self) -> Vec<CaseResult> {
        let results = self.slots.into_iter().filter_map(|slot| slot.result);
        results.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::report::CaseOutcome;
    use super::*;
    use std::time::Duration;

    const NAMES: [&str; 5] = ["a", "b", "b@block", "c", "c@block"];

    fn judging() -> Judging {
        Judging::of(NAMES.iter().map(|name| (&name[..1], (*name).to_owned())))
    }

    fn result(index: usize, outcome: CaseOutcome) -> CaseResult {
        CaseResult {
            name: NAMES[index].to_owned(),
            outcome,
            ..CaseResult::default()
        }
    }

    /// A case has ended that rests on nothing, and was told of.
    fn end(judging: &mut Judging, index: usize, result: CaseResult) {
        judging.takes(index, result, Ground::default());
        judging.slots[index].held = None;
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

    fn resting(on: Vec<&'static str>) -> Ground {
        Ground { on, shortage: None }
    }

    /// A try that failed, alone.
    const FAILED: Try = Try {
        number: 0,
        alone: true,
        failed: true,
        cut_off: CutOff::No,
        deaths: 0,
        dies_anyway: false,
        gone: false,
        lack: None,
        in_place_of_another: false,
        is_about_it: false,
        is_first: false,
        has_worked: true,
        others: Some(false),
        patience_is_over: false,
    };

    fn lacks(lack: Lack, number: usize, others: Option<bool>) -> Try {
        Try {
            lack: Some(lack),
            number,
            others,
            ..FAILED
        }
    }

    fn cut_off(cut_off: CutOff, number: usize) -> Try {
        Try {
            cut_off,
            number,
            ..FAILED
        }
    }

    #[test]
    fn a_try_counts_is_made_again_or_shows_nothing() {
        use CutOff::{InCall, Meanwhile};
        use Next::{AgainAlone, Counts, Interrupted, Kills, Lacks};
        let after = |milliseconds| Next::AgainAfter(Duration::from_millis(milliseconds));
        let beside = |one| Try {
            alone: false,
            ..one
        };
        let about = |one| Try {
            is_about_it: true,
            ..one
        };
        let never = |one| Try {
            has_worked: false,
            ..one
        };
        let first = |one| Try {
            is_first: true,
            ..one
        };
        let passed = |one| Try {
            failed: false,
            ..one
        };
        let gone = |one| Try { gone: true, ..one };
        let deaths = |deaths, one| Try { deaths, ..one };
        let anyway = |one| Try {
            dies_anyway: true,
            ..one
        };
        let no_patience = |one| Try {
            patience_is_over: true,
            ..one
        };
        let refusal = |one| Try {
            in_place_of_another: true,
            ..one
        };
        let room = |number, others| lacks(Lack::Room, number, others);
        let (nobody, somebody, unknown) = (Some(false), Some(true), None);
        for (one, expected) in [
            // Whatever it rests on is another matter.
            (FAILED, Counts),
            (passed(FAILED), Counts),
            (beside(FAILED), Counts),
            // What is accepted is no failure, whatever the driver lacks.
            (passed(room(0, nobody)), Counts),
            // Room that other cases have is given back.
            (beside(room(0, somebody)), AgainAlone),
            (room(0, nobody), after(50)),
            (room(1, nobody), Lacks),
            (room(1, unknown), after(100)),
            (room(2, unknown), Lacks),
            (room(8, somebody), after(2000)),
            (room(9, somebody), Lacks),
            (no_patience(room(0, somebody)), Lacks),
            (lacks(Lack::Places, 0, nobody), after(50)),
            (lacks(Lack::Places, 1, nobody), Lacks),
            // The case about it accuses the driver where nobody else can have taken the room.
            (about(room(0, nobody)), Counts),
            (no_patience(about(room(0, unknown))), Lacks),
            (about(room(0, somebody)), Lacks),
            // And where it was there before.
            (never(about(room(0, nobody))), Lacks),
            (beside(about(room(0, somebody))), AgainAlone),
            (lacks(Lack::Size, 0, nobody), Lacks),
            (beside(lacks(Lack::Size, 0, nobody)), Lacks),
            (lacks(Lack::Service, 1, nobody), after(100)),
            (lacks(Lack::Service, 2, nobody), Lacks),
            (never(lacks(Lack::Service, 0, nobody)), Lacks),
            // Where another refusal is demanded, it is the answer to that request when it comes each time and others are served.
            (
                beside(refusal(lacks(Lack::Service, 0, somebody))),
                AgainAlone,
            ),
            (
                no_patience(beside(refusal(lacks(Lack::Service, 0, somebody)))),
                AgainAlone,
            ),
            (refusal(lacks(Lack::Service, 1, nobody)), after(100)),
            (refusal(lacks(Lack::Service, 2, nobody)), Counts),
            (refusal(lacks(Lack::Service, 2, somebody)), Counts),
            (never(refusal(lacks(Lack::Service, 2, nobody))), Lacks),
            (beside(refusal(room(0, somebody))), AgainAlone),
            (refusal(room(1, nobody)), Counts),
            (refusal(room(2, unknown)), Counts),
            (refusal(room(9, somebody)), Lacks),
            (never(refusal(room(1, nobody))), Lacks),
            (beside(refusal(lacks(Lack::Size, 0, somebody))), AgainAlone),
            (refusal(lacks(Lack::Size, 1, nobody)), Lacks),
            // What all depend on has time to come up.
            (first(never(lacks(Lack::Service, 8, nobody))), after(2000)),
            (first(never(lacks(Lack::Service, 9, nobody))), Lacks),
            // A driver that goes away accuses the call that does it twice, alone.
            (cut_off(InCall, 0), AgainAlone),
            (beside(cut_off(InCall, 0)), AgainAlone),
            (deaths(1, cut_off(InCall, 1)), AgainAlone),
            (deaths(2, cut_off(InCall, 2)), Kills),
            (cut_off(InCall, 4), AgainAlone),
            (cut_off(InCall, 5), Interrupted),
            (gone(deaths(2, cut_off(InCall, 1))), Interrupted),
            // One that goes away anyway does so in some call.
            (anyway(deaths(3, cut_off(InCall, 3))), AgainAlone),
            (anyway(deaths(4, cut_off(InCall, 4))), Kills),
            (gone(cut_off(InCall, 0)), Interrupted),
            // It may have gone away in the call of another one.
            (cut_off(Meanwhile, 0), AgainAlone),
            (passed(cut_off(Meanwhile, 0)), Counts),
            (cut_off(Meanwhile, 5), Interrupted),
            (gone(cut_off(Meanwhile, 0)), Interrupted),
            (gone(passed(cut_off(Meanwhile, 0))), Counts),
        ] {
            assert_eq!(decide(&one), expected, "{one:?}");
        }
    }

    #[test]
    fn what_the_driver_lacks_is_no_failure_unless_it_was_not_given_back() {
        let back = Lack::Room.case().unwrap();
        let ground = || Ground {
            on: Vec::new(),
            shortage: Some(super::super::room::Shortage {
                lack: Lack::Room,
                method: "CreateVolume",
                size: 1,
                told: "CreateVolume: it answered RESOURCE_EXHAUSTED: full".to_owned(),
                in_place_of_another: false,
            }),
        };
        let of_two = || Judging::of([("a", "a".to_owned()), (back, back.to_owned())].into_iter());
        let reason = |judging: &mut Judging| {
            let result = judging.settle(false).unwrap();
            result.reason.clone().unwrap()
        };
        let mut judging = of_two();
        judging.takes(0, result(0, CaseOutcome::Failed), ground());
        assert!(judging.awaits(1) && !judging.awaits(0));
        assert!(judging.settle(false).is_none());
        end(&mut judging, 1, result(1, CaseOutcome::Passed));
        let told = reason(&mut judging);
        assert!(
            told.starts_with("no room: CreateVolume: it answered"),
            "{told}"
        );
        let mut judging = of_two();
        judging.takes(0, result(0, CaseOutcome::Failed), ground());
        end(&mut judging, 1, result(1, CaseOutcome::Failed));
        let told = reason(&mut judging);
        assert!(told.starts_with("not judged: it rests on "), "{told}");
        // Where that case does not run, nothing is known.
        let mut judging = Judging::of([("a", "a".to_owned())].into_iter());
        judging.takes(0, result(0, CaseOutcome::Failed), ground());
        assert!(reason(&mut judging).starts_with("no room: "));
    }

    #[test]
    fn a_failure_waits_for_the_case_that_it_rests_on() {
        let mut judging = judging();
        judging.takes(3, result(3, CaseOutcome::Failed), resting(vec!["b"]));
        judging.takes(4, result(4, CaseOutcome::Failed), resting(vec!["b"]));
        end(&mut judging, 1, result(1, CaseOutcome::Passed));
        assert_eq!(settled(&mut judging, false), [alone("c")]);
        // What the other one rests on itself.
        judging.takes(2, result(2, CaseOutcome::Failed), resting(vec!["a"]));
        assert_eq!(settled(&mut judging, false), []);
        judging.takes(0, result(0, CaseOutcome::Failed), resting(vec!["no/such"]));
        let all = [alone("a"), on("b@block", "a"), on("c@block", "a")];
        assert_eq!(settled(&mut judging, false), all);
        assert_eq!(judging.results().len(), 5);
    }

    #[test]
    fn of_failures_that_rest_on_each_other_the_first_stands() {
        let mut judging = judging();
        // It waits for them, and they do not rest on it.
        judging.takes(0, result(0, CaseOutcome::Failed), resting(vec!["c"]));
        judging.takes(1, result(1, CaseOutcome::Failed), resting(vec!["c"]));
        judging.takes(3, result(3, CaseOutcome::Failed), resting(vec!["b"]));
        assert_eq!(settled(&mut judging, false), []);
        let all = [alone("b"), on("c", "b"), on("a", "b")];
        let mut found = settled(&mut judging, true);
        found.sort_by_key(|(name, _)| all.iter().position(|(one, _)| one == name));
        assert_eq!(found, all);
    }
}
