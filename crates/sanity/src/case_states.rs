//! The state of each case of a run, and what comes next for it: it runs, again alone or after a pause, shows nothing, or is judged.
//!
//! [`decide`] says what becomes of a try. A failure that depends on other cases waits here for their ends: where one of those fails
//! too, the failure is not judged, and names that case. So every mistake of a driver is one failure, and what a driver may do, such
//! as to have no more room, is none.
//!
//! Decides from what it is told, and does nothing: `runner.rs` carries it out, `trial.rs` makes a try. What a case depends on is
//! found by `tracking.rs`.

use super::case::{CaseKind, Need};
use super::dependencies::Dependencies;
use super::losses::Loss;
use super::plan::Planned;
use super::report::CaseResult;
use super::room::Lack;
use std::collections::HashMap;
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
    /// Whether the driver went away once more after that, while nobody called it for as long.
    pub(super) goes_anyway: bool,
    /// Whether the run waited after each answer for the driver to go away: other things may happen then.
    pub(super) looks_after_calls: bool,
    /// How often in a row it ran alone and the driver went away in the same call, this time included, and not without it.
    pub(super) deaths: usize,
    /// Whether the driver has gone away where nobody called it, or in a case that ran alone and did not lead to that again.
    pub(super) dies_anyway: bool,
    /// Whether the driver does not answer any more.
    pub(super) gone: bool,
    /// What the driver said that it lacks, where it failed at that.
    pub(super) lack: Option<Lack>,
    /// Whether it said so where another refusal is demanded.
    pub(super) in_place_of_another: bool,
    /// Whether the case is the one about whether that is given back. It waits for that itself.
    pub(super) is_about_it: bool,
    /// Whether the driver may give that back at any later time.
    pub(super) may_come_late: bool,
    /// Whether the case is one of those on which most others depend.
    pub(super) is_first: bool,
    /// Whether the RPC that the driver lacks something for has ever answered OK, to as large a size; where another refusal is
    /// demanded, also whether the driver serves others right after.
    pub(super) has_worked: bool,
    /// Whether that RPC has never answered OK, and a case that ran again for that found it no better.
    pub(super) is_never_served: bool,
    /// Whether somebody else uses the storage; `None` where the driver does not tell.
    pub(super) others: Option<bool>,
    /// Whether the run has waited for room for so long that it waits no more.
    pub(super) patience_is_over: bool,
    /// Whether the run ends, so that no case begins any more.
    pub(super) run_ends: bool,
}

/// Whether the driver went away during a case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CutOff {
    /// It did not.
    #[default]
    No,
    /// It may have, where no call was under way: a call found its connection ended in order, and made another one.
    Reconnected,
    /// The same, and the connection was not ended in order.
    Disconnected,
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
    match tried(one) {
        Next::AgainAlone | Next::AgainAfter(_) if one.run_ends => Next::Interrupted,
        next => next,
    }
}

fn tried(one: &Try) -> Next {
    use CutOff::{Disconnected, InCall, Meanwhile, No, Reconnected};
    let kills = if one.dies_anyway { KILLS_ANYWAY } else { KILLS };
    let is_last = one.number + 1 >= CUT_OFF_AT_MOST;
    match one.cut_off {
        No if one.looks_after_calls && !is_last => return Next::AgainAlone,
        No => {}
        Reconnected | Disconnected | Meanwhile if !one.failed => {}
        _ if one.gone => return Next::Interrupted,
        InCall if one.deaths >= kills => return Next::Kills,
        _ if !is_last => return Next::AgainAlone,
        // Some drivers and proxies do that to each connection after a while.
        Reconnected => {}
        _ => return Next::Interrupted,
    }
    let Some(lack) = one.lack.filter(|_| one.failed) else {
        return Next::Counts;
    };
    if one.is_about_it && one.alone {
        // All that was taken is given back, the case has waited for that, and what worked works no more.
        let is_missing = one.has_worked && one.others == Some(false);
        return match is_missing && !one.may_come_late {
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
        // What another case has found running again it need not find.
        (Lack::Service, _) if one.is_never_served => 0,
        // A limit of calls in a time may be met in the first call of all.
        (Lack::Service, _) => ALONE,
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

/// All cases of a run.
pub struct CaseStates {
    cases: Vec<CaseState>,
    /// The places of the cases of each name: as many as there are access types that it runs for.
    places: HashMap<&'static str, Vec<usize>>,
    /// Whether the driver has gone away where nobody called it, or in a case that ran alone and did not lead to that again.
    dies_anyway: bool,
    /// For how long the run has waited for room, and may wait.
    waited: Duration,
    patience: Duration,
}

/// A case of the plan.
struct CaseState {
    planned: Planned,
    is_asked_for: bool,
    deaths: Deaths,
    /// Whether the driver went away in a try of it that ran alone.
    has_lost_alone: bool,
    stage: Stage,
}

/// The last tries in a row in which the driver went away, each time in the same call.
#[derive(Default)]
struct Deaths {
    /// The name of the RPC, and whether it was answered before.
    call: Option<(&'static str, bool)>,
    count: usize,
}

/// How far a case is.
enum Stage {
    /// It has not ended.
    Open,
    /// It has ended. Its result waits for the cases that it depends on.
    Held(CaseResult, Dependencies),
    /// Its result is known; there is none where nobody asked for one.
    Judged(Option<CaseResult>),
}

impl Deaths {
    fn count(&mut self, loss: Option<&Loss>) {
        let call = loss.map(|loss| (loss.method.name, loss.answered));
        let before = if self.call == call { self.count } else { 0 };
        let count = if call.is_some() { before + 1 } else { 0 };
        *self = Self { call, count };
    }
}

impl CaseState {
    fn is_judged(&self) -> bool {
        matches!(self.stage, Stage::Judged(_))
    }

    /// The case that has failed, where this one is judged: itself, or what it depends on.
    fn failed(&self) -> Option<String> {
        let Stage::Judged(Some(result)) = &self.stage else {
            return None;
        };
        match result.is_failed() {
            true => Some(result.name.clone()),
            false => result.rests_on.clone(),
        }
    }
}

impl CaseStates {
    /// None of the planned cases has begun. The names are those of the cases whose results are asked for.
    pub(super) fn of(
        planned: Vec<Planned>,
        is_asked_for: impl Fn(&Planned) -> bool,
        patience: Duration,
    ) -> Self {
        let mut places: HashMap<&'static str, Vec<usize>> = HashMap::new();
        for (place, one) in planned.iter().enumerate() {
            places.entry(&one.case.name).or_default().push(place);
        }
        let cases = planned.into_iter().map(|planned| CaseState {
            is_asked_for: is_asked_for(&planned),
            planned,
            deaths: Deaths::default(),
            has_lost_alone: false,
            stage: Stage::Open,
        });
        Self {
            cases: cases.collect(),
            places,
            dies_anyway: false,
            waited: Duration::ZERO,
            patience,
        }
    }

    /// The next try of a case, and whether its result is asked for.
    pub(super) fn planned(&self, index: usize) -> (Planned, bool) {
        let state = &self.cases[index];
        (state.planned, state.is_asked_for)
    }

    /// Whether a case is to run: one of the last is not where no failure depends on it and nobody asked for it.
    pub(super) fn is_needed(&mut self, index: usize) -> bool {
        let state = &self.cases[index];
        let is_closing = state.planned.case.kind == CaseKind::Closing;
        let is_needed = !is_closing || state.is_asked_for || self.is_awaited(index);
        if !is_needed {
            self.cases[index].stage = Stage::Judged(None);
        }
        is_needed
    }

    /// What comes after a try of a case, of which `seen` says what the try itself has shown. `lost` is the call in which the driver
    /// went away.
    pub(super) fn after(&mut self, index: usize, seen: Try, lost: Option<&Loss>) -> Next {
        let state = &mut self.cases[index];
        let one = &mut state.planned;
        let has_led_to_nothing = seen.cut_off == CutOff::No && !one.looks_after_calls;
        self.dies_anyway |= state.has_lost_alone && has_led_to_nothing || seen.goes_anyway;
        state.has_lost_alone |= seen.alone && lost.is_some();
        // Before a try that was not cut off before nobody has looked whether the case before it takes the driver down.
        let counts = seen.alone && one.cut_off && !seen.goes_anyway;
        state.deaths.count(lost.filter(|_| counts));
        let next = decide(&Try {
            number: one.tries,
            looks_after_calls: one.looks_after_calls,
            deaths: state.deaths.count,
            dies_anyway: self.dies_anyway,
            is_first: one.case.kind == CaseKind::First,
            patience_is_over: seen.run_ends || self.waited > self.patience,
            ..seen
        });
        if let Next::AgainAlone | Next::AgainAfter(_) = next {
            one.tries += 1;
            // The first time that counts, and as long as it comes after an answer.
            one.looks_after_calls = lost.is_some_and(|lost| lost.answered || !one.cut_off);
            one.cut_off |= matches!(seen.cut_off, CutOff::Meanwhile | CutOff::InCall);
        }
        if let Next::AgainAfter(pause) = next {
            self.waited += pause;
        }
        next
    }

    /// The cases on which most others depend, for one more try.
    pub(super) fn first_again(&mut self) -> Vec<Planned> {
        let all = self.cases.iter_mut().map(|state| &mut state.planned);
        let first = all.filter(|one| one.case.kind == CaseKind::First);
        let again = first.map(|one| {
            one.tries += 1;
            *one
        });
        again.collect()
    }

    /// A case has ended. What it depends on it waits for: where it has failed, other cases, or what the driver lacks; where it was
    /// skipped, cases that keep it from being judged.
    pub(super) fn ends(&mut self, index: usize, result: CaseResult, on: Dependencies) {
        let state = &mut self.cases[index];
        state.stage = match (result.is_failed(), state.is_asked_for) {
            (false, false) => Stage::Judged(None),
            _ => Stage::Held(result, on),
        };
    }

    /// Whether a failure depends on a case.
    fn is_awaited(&self, index: usize) -> bool {
        let case = &self.cases[index].planned.case.name;
        self.cases.iter().any(|state| match &state.stage {
            Stage::Held(_, on) => on.cases().any(|one| one == case),
            _ => false,
        })
    }

    /// The next result about which all is known now, as it is judged. With `at_the_end` what is still open stays
    /// so: of failures that depend on each other the first in the list has failed by itself.
    pub(super) fn judge(&mut self, at_the_end: bool) -> Option<&CaseResult> {
        let known = (0..self.cases.len()).find_map(|index| Some((index, self.base(index)?)));
        let (index, base) = known.or_else(|| {
            let first = self.first_held().filter(|_| at_the_end)?;
            Some((first, None))
        })?;
        let stage = &mut self.cases[index].stage;
        let Stage::Held(mut result, on) = std::mem::replace(stage, Stage::Open) else {
            return None;
        };
        let failed = base.as_ref();
        let failed = failed.map(|on| format!("not judged: it rests on {on}, which failed"));
        // One that was skipped says itself why.
        let reason = result.reason.take().or(failed);
        if let Some(reason) = reason.or_else(|| Some(on.shortage?.reason())) {
            result.skip(reason);
            result.rests_on = base;
        }
        *stage = Stage::Judged(Some(result));
        match stage {
            Stage::Judged(result) => result.as_ref(),
            _ => None,
        }
    }

    /// What a failure that is held depends on: the failed case, if there is one. `None` as long as that is open.
    fn base(&self, index: usize) -> Option<Option<String>> {
        let state = &self.cases[index];
        if !matches!(state.stage, Stage::Held(..)) {
            return None;
        }
        let bases: Vec<_> = self.bases(state).map(|at| &self.cases[at]).collect();
        let failed = bases.iter().find_map(|base| base.failed());
        let is_known = failed.is_some() || bases.iter().all(|base| base.is_judged());
        is_known.then_some(failed)
    }

    /// The places of the cases that a failure which is held depends on: for the same access type, where both run for each.
    fn bases<'a>(&'a self, of: &'a CaseState) -> impl Iterator<Item = usize> {
        let cases = match &of.stage {
            Stage::Held(_, on) => Some(on.cases()),
            _ => None,
        };
        let runs_for_each = |one: &Planned| one.case.needs.contains(&Need::EachAccess);
        let is_base = move |place: &usize| {
            let one = &self.cases[*place].planned;
            let both = runs_for_each(one) && runs_for_each(&of.planned);
            one.access == of.planned.access || !both
        };
        let named = cases.into_iter().flatten();
        let places = named.filter_map(|case| self.places.get(case));
        places.flatten().copied().filter(is_base)
    }

    /// The failure that stands where all wait: the first of those that depend on each other in a circle, or one that depends on a
    /// case that has not ended.
    fn first_held(&self) -> Option<usize> {
        let is_held = |place: &usize| matches!(self.cases[*place].stage, Stage::Held(..));
        let mut way: Vec<usize> = Vec::new();
        let mut next = (0..self.cases.len()).find(is_held);
        while let Some(place) = next {
            if let Some(begin) = way.iter().position(|one| *one == place) {
                return way[begin..].iter().min().copied();
            }
            way.push(place);
            next = self.bases(&self.cases[place]).find(is_held);
        }
        way.last().copied()
    }

    /// The results, in the order of the list.
    pub(super) fn results(self) -> Vec<CaseResult> {
        let results = self
            .cases
            .into_iter()
            .filter_map(|state| match state.stage {
                Stage::Open => None,
                Stage::Held(result, _) => Some(result),
                Stage::Judged(result) => result,
            });
        results.collect()
    }
}

#[cfg(test)]
mod tests;
