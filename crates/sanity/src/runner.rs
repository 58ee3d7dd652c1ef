//! Runs cases: beside each other where they and the driver's limits allow it, and again where a try shows nothing.
//!
//! Owns the order, what is skipped, and when a run ends early. A single try is `trial.rs`'s, what becomes of it `judging.rs`'s.

use super::case::needs::{CREATE_DELETE_VOLUME, LIST_VOLUMES};
use super::case::{Case, CaseKind, NOT_ADVERTISED, Need};
use super::judging::{CutOff, Judging, Next, Try, decide};
use super::observer::{Asked, Observer};
use super::premises::Ground;
use super::presence::{bring_back, has_others};
use super::report::CaseResult;
use super::room::Lack;
use super::run::{BrokenCall, Run};
use super::settings::Access;
use super::summary::counted;
use super::trial::{Ended, Planned, execute, times};
use super::verdict::Stop;
use csi_proto::lock::lock;
use csi_proto::random;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

/// The cases that the settings select, in their order.
pub fn plan(run: &Run) -> Vec<Planned> {
    let mut planned = Vec::new();
    for case in super::cases() {
        let each = case.needs.contains(&Need::EachAccess);
        let runs = if each { run.accesses().len() } else { 1 };
        for &access in &run.accesses()[..runs] {
            let number = planned.len() + 1;
            let one = Planned {
                case,
                number,
                access,
                tries: 0,
                cut_off: false,
                deaths: (None, 0),
            };
            planned.push(one);
        }
    }
    let mut wanted = planned.clone();
    wanted.retain(|one| is_asked_for(run, one));
    // What others depend on is tried also where nobody has asked for it.
    let depends = |first: &Planned, other: &Planned| {
        let mut needs = first.case.needs.iter();
        other.access == first.access && needs.all(|need| other.case.needs.contains(need))
    };
    planned.retain(|one| {
        let is_tried = matches!(one.case.kind, CaseKind::First | CaseKind::Closing)
            && missing(run, one.case).is_none();
        is_asked_for(run, one) || (is_tried && wanted.iter().any(|other| depends(one, other)))
    });
    planned
}

/// Whether a case was asked for, and not only tried because others depend on it.
pub fn is_asked_for(run: &Run, one: &Planned) -> bool {
    run.settings.selects(&one.name())
}

/// After so many cases that had room, one more runs at a time again.
const AGAIN_ONE_MORE: usize = 12;

/// A run of cases on its way.
struct Running<'a> {
    run: &'a Arc<Run>,
    planned: Vec<Planned>,
    judging: Judging,
    observer: &'a mut dyn Observer,
    asked: Asked,
    /// Whether one of the cases that ran alone, and in which the driver went away, did not lead to that again.
    dies_anyway: bool,
    /// For how long the run has waited for room.
    waited: Duration,
    /// Why the run ends early.
    cut_short: Option<String>,
}

/// Runs the cases; the results in the order of the list, and why the run ended early, if it did.
pub async fn run(
    run: &Arc<Run>,
    planned: Vec<Planned>,
    observer: &mut dyn Observer,
    asked: Asked,
) -> (Vec<CaseResult>, Option<String>) {
    let names = planned
        .iter()
        .map(|one| (one.case.name.as_str(), one.name()));
    let mut running = Running {
        run,
        judging: Judging::of(names),
        dies_anyway: false,
        planned,
        observer,
        asked,
        waited: Duration::ZERO,
        cut_short: None,
    };
    let mut phases = running.phases();
    while let Some((waiting, jobs)) = phases.pop_front() {
        let again = running.phase(waiting, jobs).await;
        if running.cut_short.is_some() {
            break;
        }
        if !again.is_empty() {
            phases.push_front((again, 1));
        }
    }
    running.end()
}

impl Running<'_> {
    /// The cases that run beside each other, and how many of them at a time.
    fn phases(&self) -> VecDeque<(VecDeque<usize>, usize)> {
        let settings = &self.run.settings;
        let mut order: Vec<usize> = (0..self.planned.len()).collect();
        if settings.shuffle {
            for index in (1..order.len()).rev() {
                let bound = index as u64 + 1;
                let other = random::from_seed(self.run.seed, bound) % bound;
                order.swap(index, usize::try_from(other).unwrap_or(0));
            }
        }
        use CaseKind::{Alone, Changes, Closing, First, Last, Reads};
        let phases = [
            (&[First][..], 1),
            (&[Reads, Changes], self.run.jobs()),
            (&[Alone], 1),
            (&[Closing], 1),
            (&[Last], 1),
        ];
        let of_kind = |kinds: &[CaseKind]| {
            let mut chosen = order.clone();
            chosen.retain(|index| kinds.contains(&self.planned[*index].case.kind));
            chosen.into()
        };
        let phases = phases.into_iter();
        phases.map(|(kinds, jobs)| (of_kind(kinds), jobs)).collect()
    }

    /// Runs cases, so many at a time; those that are to run again, alone.
    async fn phase(&mut self, mut waiting: VecDeque<usize>, most: usize) -> VecDeque<usize> {
        let mut again = VecDeque::new();
        // How many run at a time now, and how many of them had room since that was changed.
        let (mut jobs, mut had_room) = (most, 0);
        let mut under_way = JoinSet::new();
        loop {
            while under_way.len() < jobs && self.cut_short.is_none() {
                let Some(index) = waiting.pop_front() else {
                    break;
                };
                if !self.begins(index) {
                    self.settle(false);
                    continue;
                }
                let one = self.planned[index];
                let alone = under_way.is_empty() && jobs == 1;
                let (run, asked) = (Arc::clone(self.run), self.asked.clone());
                under_way.spawn(async move { (index, alone, execute(run, one, asked).await) });
            }
            let ended = tokio::select! {
                ended = under_way.join_next() => ended,
                () = times(&mut self.asked, 2) => {
                    self.cut_short = Some("interrupted".to_owned());
                    self.note_journal("what is left is");
                    return again;
                }
            };
            let (index, alone, ended) = match ended {
                None => return again,
                Some(Err(_)) => continue,
                Some(Ok(ended)) => ended,
            };
            let is_asked = *self.asked.borrow() > 0;
            let interrupted = is_asked.then(|| "interrupted".to_owned());
            self.cut_short = self.cut_short.take().or(interrupted).or(ended.gone.clone());
            let lack = ended.shortage().map(|shortage| shortage.lack);
            match self.next(index, alone, &ended).await {
                Next::AgainAlone => {
                    if matches!(lack, Some(Lack::Room | Lack::Places)) {
                        // There is no room for so many at a time.
                        (jobs, had_room) = ((jobs / 2).max(1), 0);
                    }
                    self.planned[index].tries += 1;
                    self.planned[index].cut_off |= ended.cut_off != CutOff::No;
                    again.push_back(index);
                }
                Next::AgainAfter(pause) => {
                    self.planned[index].tries += 1;
                    self.waited += pause;
                    tokio::select! {
                        () = tokio::time::sleep(pause) => {}
                        () = times(&mut self.asked, 1) => {}
                    }
                    waiting.push_front(index);
                }
                next => {
                    had_room += 1;
                    if had_room == AGAIN_ONE_MORE && jobs < most {
                        (jobs, had_room) = (jobs + 1, 0);
                    }
                    self.counts(index, next, ended).await;
                }
            }
        }
    }

    /// A case is about to run; whether it does. Where not, that is its result.
    fn begins(&mut self, index: usize) -> bool {
        let one = self.planned[index];
        let is_asked_for = is_asked_for(self.run, &one);
        if one.case.kind == CaseKind::Closing && !is_asked_for && !self.judging.awaits(index) {
            self.judging.passed_unasked(index);
            return false;
        }
        if let Some(reason) = missing(self.run, one.case) {
            let skipped = CaseResult::of(one.case, one.name(), Err(Stop::Skipped(reason)));
            self.judging.takes(index, skipped, Ground::default());
            return false;
        }
        if is_asked_for {
            self.observer.case_begins(&one.name());
        }
        true
    }

    /// Decides about a try.
    async fn next(&mut self, index: usize, alone: bool, ended: &Ended) -> Next {
        let one = self.planned[index];
        let (case, tries) = (one.case, one.tries);
        let shortage = ended.shortage();
        let others = match shortage {
            Some(_) if alone => has_others(self.run).await,
            _ => Some(true),
        };
        let in_place_of_another = shortage.is_some_and(|one| one.in_place_of_another);
        let has_worked = shortage.is_some_and(|one| self.run.had(one))
            && (!in_place_of_another || !alone || tries == 0 || self.serves_others().await);
        let lost = ended.lost.as_ref().filter(|_| alone);
        let method = lost.map(|lost| lost.method);
        let (before, deaths) = one.deaths;
        self.dies_anyway |= before.is_some() && ended.cut_off == CutOff::No;
        let deaths = if before == method { deaths + 1 } else { 1 };
        self.planned[index].deaths = (method, deaths);
        let next = decide(&Try {
            number: tries,
            alone,
            failed: ended.result.is_failed(),
            cut_off: ended.cut_off,
            deaths: method.map_or(0, |_| deaths),
            dies_anyway: self.dies_anyway,
            gone: ended.gone.is_some(),
            lack: shortage.map(|shortage| shortage.lack),
            in_place_of_another,
            is_about_it: shortage.is_some_and(|one| one.lack.case() == Some(&*case.name)),
            is_first: case.kind == CaseKind::First,
            has_worked,
            others,
            patience_is_over: self.waited > self.run.settings.timeout || self.cut_short.is_some(),
        });
        if let (Next::AgainAlone, Some(lost)) = (next, &ended.lost) {
            let (name, method) = (&ended.result.name, lost.method);
            self.observer.note(&format!(
                "the driver went away in {name} ({method}), which runs again alone"
            ));
        }
        match self.cut_short {
            // No case begins any more.
            Some(_) if matches!(next, Next::AgainAlone | Next::AgainAfter(_)) => Next::Interrupted,
            _ => next,
        }
    }

    /// Whether the driver has all that it needs for the cases on which most others depend, which run once more to show that.
    async fn serves_others(&mut self) -> bool {
        let is_first = |one: &&mut Planned| one.case.kind == CaseKind::First;
        for one in self.planned.iter_mut().filter(is_first) {
            one.tries += 1;
            let ended = execute(Arc::clone(self.run), *one, self.asked.clone()).await;
            if ended.shortage().is_some() || ended.cut_off != CutOff::No {
                return false;
            }
        }
        true
    }

    /// Takes in a try that does not run again.
    async fn counts(&mut self, index: usize, next: Next, ended: Ended) {
        let one = self.planned[index];
        let shortage = ended.shortage().cloned();
        let (mut result, mut ground) = (ended.result, ended.ground);
        match next {
            Next::Interrupted => {
                let reason = match ended.cut_off {
                    CutOff::No => "interrupted",
                    _ => "interrupted: the driver went away",
                };
                result.skip(reason.to_owned());
                ground = Ground::default();
            }
            Next::Kills => {
                lock(&self.run.losses).explain(&result.name);
                // To ask for it again would take the driver down again, also for what was made before the cases.
                lock(&self.run.postponed).retain(|(of, _)| *of != result.name && !of.is_empty());
            }
            Next::Lacks => {
                if let Some(shortage) = &shortage {
                    let told = shortage.told.clone();
                    lock(&self.run.lacking).insert(shortage.method, told);
                    if shortage.lack.case() == Some(&*one.case.name) {
                        result.skip(shortage.reason());
                        if self.run.had(shortage) {
                            lock(&self.run.incomplete).insert(shortage.at_last());
                        }
                    }
                }
            }
            _ => ground.shortage = None,
        }
        // Without what the first cases need, no other one can show anything.
        let reason = match (&ground.shortage, &result.failure) {
            (Some(shortage), _) => Some(shortage.reason()),
            (None, Some(failure)) if ground.on.is_empty() => Some(failure.actual.clone()),
            _ => None,
        };
        if let (CaseKind::First, Some(reason), Some((method, code))) =
            (one.case.kind, reason, ended.refused)
        {
            lock(&self.run.broken_calls).push(BrokenCall {
                method,
                access: one.access,
                code,
                reason,
            });
        }
        match (result.is_failed(), is_asked_for(self.run, &one)) {
            (true, _) => self.judging.takes(index, result, ground),
            (false, true) => self.judging.takes(index, result, Ground::default()),
            (false, false) => self.judging.passed_unasked(index),
        }
        let failed = self.settle(false);
        if failed && self.run.settings.fail_fast {
            let reason = "--fail-fast: a case failed".to_owned();
            self.cut_short.get_or_insert(reason);
        } else if failed && self.cut_short.is_none() && may_be_gone(self.run) {
            self.cut_short = bring_back(self.run).await.err();
        }
    }

    /// Tells of all results about which all is known; whether some are failures.
    fn settle(&mut self, at_the_end: bool) -> bool {
        let mut failed = false;
        while let Some(result) = self.judging.settle(at_the_end) {
            failed |= result.is_failed();
            self.observer.case_ended(result);
        }
        failed
    }

    /// The end of the run: its results, and why it ended early.
    fn end(mut self) -> (Vec<CaseResult>, Option<String>) {
        self.settle(true);
        let mut left = std::mem::take(&mut *lock(&self.run.left));
        for (case, item) in lock(&self.run.postponed).drain(..) {
            let _ = self.run.journal.take_over(&item);
            let problem = format!("{item} may be there, since the driver went away");
            left.push((case, problem));
        }
        if left.is_empty() && *self.asked.borrow() < 2 {
            self.run.journal.close();
        }
        for (_, problem) in &left {
            self.observer.note(&format!("left: {problem}"));
        }
        if !left.is_empty() {
            self.note_journal("that is noted");
        }
        let results = self.judging.results();
        // A failure tells itself what it leaves.
        let is_told = |case: &String| {
            let is_bad = |one: &CaseResult| one.is_failed() || one.rests_on.is_some();
            results.iter().any(|one| one.name == *case && is_bad(one))
        };
        let untold = left.iter().filter(|(case, _)| !is_told(case)).count();
        if untold > 0 {
            let told = format!("{} could not be taken down", counted(untold, "thing"));
            lock(&self.run.incomplete).insert(told);
        }
        (results, self.cut_short)
    }

    /// Says where the next run finds what is left.
    fn note_journal(&mut self, what: &str) {
        let folder = self.run.journal.folder().display();
        self.observer.note(&format!(
            "{what} in {folder}: the next run against this driver takes it down"
        ));
    }
}

/// Why a case cannot run here.
fn missing(run: &Run, case: &Case) -> Option<String> {
    let settings = &run.settings;
    if settings.read_only && !matches!(case.kind, CaseKind::Reads | CaseKind::Last) {
        return Some("it changes something: --read-only".to_owned());
    }
    let there = |need: &Need| match need {
        Need::AnyVolume => {
            let has = |need| run.driver.has(need) == Some(true);
            let creates = !settings.read_only && has(CREATE_DELETE_VOLUME);
            creates || has(LIST_VOLUMES) || settings.volume_id.is_some()
        }
        Need::Block => run.accesses().contains(&Access::Block),
        Need::Mount => run.accesses().contains(&Access::Mount),
        Need::EachAccess => true,
        Need::Paths => run.sees_paths(),
        Need::Restart => run.restarter().is_some(),
        Need::OtherNode => settings.other_node_id.is_some(),
        Need::MutableParameters => !settings.mutable_parameters.is_empty(),
        advertised => run.driver.has(*advertised).unwrap_or(false),
    };
    let lacking = case.needs.iter().filter(|need| !there(need));
    let lacking: Vec<_> = lacking.map(ToString::to_string).collect();
    // What is common to all is said once.
    let more = format!(", {NOT_ADVERTISED}");
    (!lacking.is_empty()).then(|| lacking.join(", ").replace(&more, ", "))
}

/// Whether something says that the driver is not there.
fn may_be_gone(run: &Run) -> bool {
    !lock(&run.left).is_empty() || run.is_disconnected()
}
