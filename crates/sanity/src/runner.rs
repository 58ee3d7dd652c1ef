//! Runs cases: beside each other where they and the driver's limits allow it, and again where a try shows nothing.
//!
//! Carries out what `case_states.rs` decides of the cases that `plan.rs` has planned, and owns when a run ends early. A single try
//! is `trial.rs`'s.

use super::case::{CaseKind, without_access};
use super::case_states::{CaseStates, CutOff, Next, Try};
use super::cases::protocol::STAYS_THERE;
use super::dependencies::Dependencies;
use super::observer::{Asked, Observer};
use super::plan::{Planned, missing, phases};
use super::presence::has_others;
use super::report::CaseResult;
use super::restart::bring_back;
use super::room::Lack;
use super::run::{BrokenCall, Run};
use super::taking_down::MadeItems;
use super::trial::{Ended, execute, times};
use super::verdict::Stop;
use csi_output::figure::counted;
use csi_proto::lock::lock;
use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use tokio::task::JoinSet;

/// After so many cases that had room, one more runs at a time again.
const AGAIN_ONE_MORE: usize = 12;

/// A run of cases on its way.
struct Running<'a> {
    run: &'a Arc<Run>,
    states: CaseStates,
    observer: &'a mut dyn Observer,
    asked: Asked,
    /// Why the run ends early.
    cut_short: Option<String>,
    /// The tries of cases that are to run again for what the driver did not serve, by the cases' indices.
    unserved: HashMap<usize, Ended>,
}

/// Runs the cases; the results in the order of the list, and why the run ended early, if it did.
pub async fn run(
    run: &Arc<Run>,
    planned: Vec<Planned>,
    observer: &mut dyn Observer,
    asked: Asked,
) -> (Vec<CaseResult>, Option<String>) {
    let mut phases = phases(run, &planned);
    let is_asked_for = |one: &Planned| one.is_asked_for(run);
    let mut running = Running {
        run,
        states: CaseStates::of(planned, is_asked_for, run.settings.timeout),
        observer,
        asked,
        cut_short: None,
        unserved: HashMap::new(),
    };
    while let Some((waiting, jobs)) = phases.pop_front() {
        let again = running.phase(waiting, jobs).await;
        if running.cut_short.is_some() {
            break;
        }
        if !again.is_empty() {
            phases.push_front((again, 1));
        }
    }
    if running.cut_short.is_none() {
        running.take_down_late().await;
    }
    running.end()
}

impl Running<'_> {
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
                if let Some(ended) = self.never_served(index) {
                    self.ends(index, Next::Lacks, ended).await;
                    continue;
                }
                let Some(one) = self.begins(index) else {
                    self.tell(false);
                    continue;
                };
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
            match self.next(index, alone, &ended).await {
                Next::AgainAlone => {
                    let lack = ended.shortage().map(|shortage| shortage.lack);
                    if matches!(lack, Some(Lack::Room | Lack::Places)) {
                        // There is no room for so many at a time.
                        (jobs, had_room) = ((jobs / 2).max(1), 0);
                    } else if lack == Some(Lack::Service) {
                        self.unserved.insert(index, ended);
                    }
                    again.push_back(index);
                }
                Next::AgainAfter(pause) => {
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
                    self.ends(index, next, ended).await;
                }
            }
        }
    }

    /// The try that stands of a case that is to run again, where another one has found meanwhile that the driver does not serve
    /// the RPC alone either: one try more is enough of each RPC, for hundreds of cases may call it.
    fn never_served(&mut self, index: usize) -> Option<Ended> {
        let ended = self.unserved.remove(&index)?;
        let is_so = |one| self.run.is_never_served(one);
        ended.shortage().is_some_and(is_so).then_some(ended)
    }

    /// A case is about to run: its try, where it does. Where not, that is its result.
    fn begins(&mut self, index: usize) -> Option<Planned> {
        if !self.states.is_needed(index) {
            return None;
        }
        let (one, is_asked_for) = self.states.planned(index);
        if let Some(reason) = missing(self.run, one.case) {
            let skipped = CaseResult::of(one.case, one.name(), Err(Stop::Skipped(reason)));
            self.states.ends(index, skipped, Dependencies::default());
            return None;
        }
        if is_asked_for {
            self.observer.case_begins(&one.name());
        }
        Some(one)
    }

    /// What comes after a try.
    async fn next(&mut self, index: usize, alone: bool, ended: &Ended) -> Next {
        let (one, _) = self.states.planned(index);
        let shortage = ended.shortage();
        let others = match shortage {
            Some(_) if alone => has_others(self.run).await,
            _ => Some(true),
        };
        let in_place_of_another = shortage.is_some_and(|one| one.in_place_of_another);
        let has_worked = shortage.is_some_and(|one| self.run.had(one))
            && (!in_place_of_another || !alone || one.tries == 0 || self.serves_others().await);
        let seen = Try {
            alone,
            failed: ended.result.is_failed(),
            cut_off: ended.cut_off,
            goes_anyway: ended.goes_anyway,
            gone: ended.gone.is_some(),
            lack: shortage.map(|shortage| shortage.lack),
            in_place_of_another,
            is_about_it: shortage.is_some_and(|it| it.lack.case() == Some(&*one.case.name)),
            // A driver may free room long after a volume was deleted.
            may_come_late: shortage.is_some_and(|it| it.lack == Lack::Room)
                && !self.run.settings.strict,
            has_worked,
            is_never_served: shortage.is_some_and(|one| self.run.is_never_served(one)),
            others,
            run_ends: self.cut_short.is_some(),
            ..Try::default()
        };
        let next = self.states.after(index, seen, ended.lost.as_ref());
        if let (Next::AgainAlone, Some(lost)) = (next, &ended.lost) {
            let (name, method) = (&ended.result.name, lost.method.name);
            self.observer.note(&format!(
                "the driver went away in {name} ({method}), which runs again alone"
            ));
        }
        next
    }

    /// Whether the driver has all that it needs for the cases on which most others depend, which run once more to show that.
    async fn serves_others(&mut self) -> bool {
        for one in self.states.first_again() {
            let ended = execute(Arc::clone(self.run), one, self.asked.clone()).await;
            // As where the driver is gone behind a proxy, which answers in its place.
            let is_unjudged = !ended.result.is_failed() && !ended.on.on.is_empty();
            if ended.shortage().is_some() || ended.cut_off != CutOff::No || is_unjudged {
                return false;
            }
        }
        true
    }

    /// Takes in a try that does not run again.
    async fn ends(&mut self, index: usize, next: Next, ended: Ended) {
        let (one, _) = self.states.planned(index);
        let shortage = ended.shortage().cloned();
        let (mut result, mut on) = (ended.result, ended.on);
        match next {
            Next::Interrupted => {
                let reason = match ended.cut_off {
                    CutOff::No => "interrupted",
                    CutOff::Reconnected | CutOff::Disconnected => {
                        "interrupted: the connection to the driver ended"
                    }
                    _ => "interrupted: the driver went away",
                };
                if self.cut_short.is_none() {
                    let told = format!("{} was cut off in each of its tries", result.name);
                    lock(&self.run.incomplete).insert(told);
                }
                result.skip(reason.to_owned());
                on = Dependencies::default();
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
                        on = Dependencies::default();
                        if self.run.had(shortage) {
                            lock(&self.run.incomplete).insert(shortage.at_last());
                        }
                    }
                }
            }
            _ => {
                on.shortage = None;
                // What it met before is what the other case has found.
                let mut losses = lock(&self.run.losses);
                let mut killers = losses.killers().iter().map(|one| without_access(one));
                let is_known = killers.any(|killer| on.on.contains(&killer));
                if is_known && one.cut_off && !result.is_failed() {
                    losses.explain(&result.name);
                }
            }
        }
        // Without what the first cases need, no other one can show anything.
        let reason = match (&on.shortage, &result.failure) {
            (Some(shortage), _) => Some(shortage.reason()),
            (None, Some(failure)) if on.on.is_empty() => Some(failure.actual.clone()),
            _ => None,
        };
        if let (CaseKind::First, Some(reason), Some((method, code))) =
            (one.case.kind, reason, ended.refused)
        {
            lock(&self.run.broken_calls).push(BrokenCall {
                case: &one.case.name,
                method,
                access: one.access,
                code,
                reason,
            });
        }
        self.states.ends(index, result, on);
        let failed = self.tell(false);
        if failed && self.run.settings.fail_fast {
            let reason = "--fail-fast: a case failed".to_owned();
            self.cut_short.get_or_insert(reason);
        } else if failed && self.cut_short.is_none() && may_be_gone(self.run) {
            self.cut_short = bring_back(self.run).await.err();
        }
    }

    /// Tells of all results about which all is known; whether some are failures.
    fn tell(&mut self, at_the_end: bool) -> bool {
        let mut failed = false;
        while let Some(result) = self.states.judge(at_the_end) {
            failed |= result.is_failed();
            self.observer.case_ended(result);
        }
        failed
    }

    /// Takes down what calls have made that were given up, and of which the driver has made something after their cases' ends.
    async fn take_down_late(&mut self) {
        let items = std::mem::take(&mut *lock(&self.run.given_up));
        let made = MadeItems::of(self.run, None, &items);
        let problems = tokio::select! {
            problems = made.take_down() => problems,
            () = times(&mut self.asked, 1) => {
                self.cut_short = Some("interrupted".to_owned());
                return;
            }
        };
        let problems = problems.into_iter().map(|one| (String::new(), one));
        lock(&self.run.left).extend(problems);
    }

    /// The end of the run: its results, and why it ended early.
    fn end(mut self) -> (Vec<CaseResult>, Option<String>) {
        self.tell(true);
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
        let results = self.states.results();
        let losses = lock(&self.run.losses);
        let died = losses
            .unexplained()
            .iter()
            .filter(|one| one.death.is_some());
        let deaths = died.count();
        drop(losses);
        if deaths > 0 && results.iter().all(|one| one.name != STAYS_THERE) {
            let times = counted(deaths, "time");
            let told = format!(
                "the driver ended by itself {times}: --filter {STAYS_THERE} tells in which calls"
            );
            lock(&self.run.incomplete).insert(told);
        }
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

/// Whether something says that the driver is not there.
fn may_be_gone(run: &Run) -> bool {
    !lock(&run.left).is_empty() || run.is_disconnected()
}
