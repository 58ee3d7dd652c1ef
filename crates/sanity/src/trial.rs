//! One try of a case: its time limit, the taking down of what it made, and what came of it. Whether the try counts is
//! `case_states.rs`'s.

use super::broken_rules::BrokenRule;
use super::case::{Case, Stop};
use super::case_states::CutOff;
use super::cases::protocol::STAYS_THERE;
use super::context::Context;
use super::dependencies::Dependencies;
use super::losses::{Loss, SOON};
use super::observer::Asked;
use super::plan::Planned;
use super::presence::{goes_away, makings_end, was_about_to_end};
use super::report::CaseResult;
use super::restart::bring_back;
use super::restarts::Restarts;
use super::room::Shortage;
use super::run::Run;
use super::steps::Step;
use super::tracking::taking_back;
use super::verdict::{Verdict, list_text};
use csi_call::endpoint::ConnectionCount;
use csi_proto::lock::lock;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use csi_undo::made::Item;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::JoinError;
use tonic::Code;

/// The time that a case has to notice that it is over.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The most RPCs that a failure names of those that may have taken the driver down after their answer.
const SUSPECTS: usize = 3;

/// The expectation of every case.
const COMES_TO_ITS_END: &str = "the case comes to its end";

/// More names than one try uses.
const NAMES_OF_A_TRY: usize = 10_000;

/// Returns when somebody has asked to stop that often.
pub async fn times(asked: &mut Asked, count: u8) {
    if asked.wait_for(|times| *times >= count).await.is_err() {
        // Nobody is left who could ask.
        std::future::pending::<()>().await;
    }
}

/// The end of a try.
pub struct Ended {
    pub(super) result: CaseResult,
    /// The call in which the driver went away.
    pub(super) lost: Option<Loss>,
    /// Whether the driver went away meanwhile.
    pub(super) cut_off: CutOff,
    /// Whether it did so again, without a call, in three times as much time.
    pub(super) goes_anyway: bool,
    /// The last call that was refused, and its code.
    pub(super) refused: Option<(&'static Method, Code)>,
    /// What its failure depends on.
    pub(super) on: Dependencies,
    /// Why the driver is gone for good.
    pub(super) gone: Option<String>,
}

impl Ended {
    /// What the driver lacks, where the case failed at that.
    pub(super) fn shortage(&self) -> Option<&Shortage> {
        let shortage = self.on.shortage.as_ref();
        shortage.filter(|_| self.result.is_failed())
    }
}

/// Runs a case once.
pub async fn execute(run: Arc<Run>, one: Planned, mut asked: Asked) -> Ended {
    let restarts = Restarts::between_steps(
        run.settings.restart_between_steps,
        one.case.name.starts_with("lifecycle/"),
        run.seed,
        one.number as u64,
    );
    let mut context = Context::new(&run, one.name(), one.number, one.access, restarts);
    context.looks_after_calls = one.looks_after_calls;
    // What a try before it has made may still be there.
    context.skip_names(one.tries * NAMES_OF_A_TRY);
    let context = Arc::new(context);
    if one.cut_off && goes_away(&run, SOON).await.is_some() {
        // In what was before; whether it comes back is told by the first call.
        lock(&run.losses).gone_idle();
        let _ = bring_back(&run).await;
    }
    let losses = || lock(&run.losses).count();
    let losses_before = losses();
    let connections_before = run.connections();
    let started = Instant::now();
    let own = run.own_driver.clone();
    let mark = own.as_ref().map(|own| own.mark());
    let mut end = run_body(&context, one.case, started, &mut asked).await;
    let took = started.elapsed();
    let mut warnings = context.take_warnings();
    if matches!(end, Err(Stop::Failed(_))) || !warnings.is_empty() {
        makings_end(&run).await;
    }
    for (_, rest) in &mut warnings {
        let ids = context.doubled_ids(1).into_iter();
        rest.on.extend(ids.filter(|case| *case != one.case.name));
    }
    let mut on = context.dependencies();
    let refused = lock(&context.steps).last_refusal();
    let most = lock(&context.steps).most_volumes(run.volume_size(run.accesses()[0]));
    lock(&run.seen).had_at_a_time(most);
    let (problems, mut gone) = taken_down(&context, losses_before).await;
    let tidied = context.take_tidied();
    let named = |problem: &String| (context.case.clone(), problem.clone());
    lock(&run.left).extend(problems.iter().map(named));
    if !problems.is_empty() && !matches!(end, Err(Stop::Failed(_))) {
        makings_end(&run).await;
        let expected = "what the case made can be taken down";
        end = Err(Stop::failed(expected, problems.join("; ")));
        on = Dependencies {
            on: taking_back(&run.subjects)
                .into_iter()
                .chain(context.doubled_ids(0))
                .collect(),
            shortage: context.made.shortage(),
        };
    }
    let mut lost = context.made.lost.get().cloned();
    let answered = answered_last(lock(&context.steps).all(), &tidied);
    // A driver that is about to end may answer otherwise than it would, as to calls that it cancels.
    let failed = match &end {
        Err(Stop::Failed(failure)) if lost.is_none() && context.restarts.last().is_none() => {
            Some(failure.clone())
        }
        _ => None,
    };
    let mut went_away = None;
    // What the driver lacks accuses nobody by one try.
    if failed.is_some() && on.shortage.is_none() && losses() == losses_before {
        let last = last_call(lock(&context.steps).all(), &tidied);
        went_away = last.zip(was_about_to_end(&run).await);
    } else if one.cut_off && lost.is_none() {
        let last = answered.last().copied();
        went_away = last.zip(goes_away(&run, SOON).await);
    }
    if let Some((last, problem)) = went_away {
        lost = Some(run.lost_after(&one.name(), last, &problem));
        gone = bring_back(&run).await.err();
    }
    // Whether it does so too where nobody calls, for longer than it was there before.
    let mut goes_anyway = false;
    if one.cut_off && lost.is_some() && gone.is_none() {
        let time = lock(&run.losses).idle_look();
        goes_anyway = goes_away(&run, time).await.is_some();
        if goes_anyway {
            lock(&run.losses).gone_idle();
            gone = bring_back(&run).await.err();
        } else {
            lock(&run.losses).stayed_idle(time);
        }
    }
    if let Some(lost) = &lost {
        end = Err(Stop::Failed(lost.failure.clone()));
        on = Dependencies::default();
        // Whoever makes such a call meets that.
        let known = lost.answered.then_some(Some(Code::Unavailable));
        if let Some(Err(stop)) = known.map(|code| run.works(lost.method, one.access, code)) {
            end = Err(stop);
        }
    }
    if end.is_ok() {
        // Best one that nothing else explains. What depends on what the driver lacks recommends nothing.
        let first = warnings.iter().find(|(_, rest)| rest.is_empty());
        let lacking = warnings.iter().find(|(_, rest)| rest.shortage.is_some());
        let is_strict = run.settings.strict && one.case.name != STAYS_THERE;
        let strict = first.or(warnings.first()).filter(|_| is_strict);
        if let Some((first, rest)) = strict.or(lacking) {
            end = Err(Stop::Failed(first.clone()));
            on.clone_from(rest);
        }
    }
    if let Err(Stop::Barred(reason)) = &end {
        lock(&run.incomplete).insert(reason.clone());
    }
    match &end {
        Err(Stop::Failed(_)) => {}
        Err(Stop::Unjudged(cases, _)) => {
            on.on.clone_from(cases);
            on.shortage = None;
        }
        _ => on = Dependencies::default(),
    }
    if let (Err(Stop::Failed(failure)), Some(own), Some(mark)) = (&mut end, own, mark) {
        own.explain(failure, lost.is_some(), started, mark);
    }
    if let (Err(Stop::Failed(failure)), Some(lost)) = (&mut end, &lost) {
        // A call may take it down some time after its answer.
        if !answered.is_empty() && !lost.answered {
            let names = list_text(answered.iter().map(|method| method.name));
            let _ = write!(failure.actual, "; before that it had answered {names}");
        }
        if let Some(failed) = &failed {
            let _ = write!(failure.actual, "; before that: expected {failed}");
        }
        lock(&run.losses).tell(&context.case, failure);
    }
    let secrets = lock(&run.seen).secret_values(&run.settings.secrets);
    let end = end.map_err(|stop| stop.masked(&secrets));
    let warnings = warnings.iter().map(|(one, _)| one.masked(&secrets));
    let mut result = CaseResult {
        warnings: warnings.collect(),
        took,
        ..CaseResult::of(one.case, one.name(), end)
    };
    let failed = result.is_failed();
    // The report of a failure covers the replies that led to it, unless it depends on the judgement of those.
    let replies_count = !failed || on.on.iter().any(|one| one.starts_with("replies/"));
    let seen = std::mem::take(&mut *lock(&context.broken_rules));
    let commands = |rule: &BrokenRule| context.script_with(rule.steps, &rule.words(), &tidied);
    lock(&run.broken_rules).add(seen, replies_count, commands);
    if failed || !result.warnings.is_empty() {
        remarks(&context, &result);
        result.commands = context.script(&tidied);
    }
    let cut_off = match &lost {
        Some(_) => CutOff::InCall,
        None if losses() != losses_before => CutOff::Meanwhile,
        // Where the case has restarted it, that is its subject.
        None if context.restarts.last().is_some() => CutOff::No,
        None => reconnected(connections_before, run.connections()),
    };
    Ended {
        refused: match &lost {
            Some(lost) if lost.answered => Some((lost.method, Code::Unavailable)),
            _ => refused,
        },
        lost,
        cut_off,
        goes_anyway,
        on,
        gone,
        result,
    }
}

/// Whether a new connection to one of the driver's ends was made between two counts of them.
fn reconnected(before: [ConnectionCount; 2], now: [ConnectionCount; 2]) -> CutOff {
    let after_error = |ends: [ConnectionCount; 2]| ends.map(|end| end.after_error);
    match (now == before, after_error(now) == after_error(before)) {
        (true, _) => CutOff::No,
        (_, true) => CutOff::Reconnected,
        (_, false) => CutOff::Disconnected,
    }
}

/// Runs the body of a case, as long as its time limit and whoever asks to stop allow it.
async fn run_body(
    context: &Arc<Context>,
    case: &'static Case,
    started: Instant,
    asked: &mut Asked,
) -> Verdict {
    let limit = context.run.settings.case_limit;
    let in_thread = Arc::clone(context);
    let mut body = tokio::task::spawn_blocking(move || (case.body)(&in_thread));
    let mut over = false;
    let ended = tokio::select! {
        ended = &mut body => {
            over = true;
            ended.unwrap_or_else(|error| Err(panicked(error)))
        }
        () = used_up(limit, started, context) => {
            Err(Stop::failed(COMES_TO_ITS_END, format!("it was not over after {limit:?}")))
        }
        () = times(asked, 1) => Err(Stop::skipped("interrupted")),
    };
    // What it still had under way is cancelled, and nothing more is noted.
    context.end();
    if !over {
        // It ends at its next call, or when the path answers that it looks at; then it can do nothing more.
        let _ = tokio::time::timeout(ENDS_WITHIN, body).await;
    }
    ended
}

/// The last RPCs that may have changed something and were answered, each once.
fn answered_last(steps: &[Step], taken_down: &[Step]) -> Vec<&'static Method> {
    let mut last: Vec<&'static Method> = Vec::new();
    let calls = steps.iter().chain(taken_down).rev();
    for call in calls.filter_map(Step::call) {
        let is_new = last.iter().all(|one| one.name != call.method.name);
        if is_new && call.reply().is_some() && !csi_rpc::only_reads(call.method) {
            last.push(call.method);
        }
    }
    last.truncate(SUSPECTS);
    last.reverse();
    last
}

/// The RPC that was called last.
fn last_call(steps: &[Step], taken_down: &[Step]) -> Option<&'static Method> {
    let mut calls = steps.iter().chain(taken_down).filter_map(Step::call).rev();
    calls.next().map(|call| call.method)
}

/// Adds to the steps of a case what it found, and how what it made is taken down.
fn remarks(context: &Context, result: &CaseResult) {
    let found = match &result.failure {
        Some(failure) => std::slice::from_ref(failure),
        None => &result.warnings,
    };
    for one in found {
        let (expected, actual) = (escaped(&one.expected), escaped(&one.actual));
        let line = format!("# expected {expected}, but {actual}");
        lock(&context.steps).remark(line);
    }
}

/// Takes down what was made. Brings the driver back before that, where it has gone away more than so often. Returns what could
/// not be taken down, and why the driver is gone for good.
pub async fn taken_down(context: &Context, mut losses: usize) -> (Vec<String>, Option<String>) {
    let (made, count) = (&context.made, || lock(&context.run.losses).count());
    let mut is_first = true;
    loop {
        // Where the case met a driver that was away already, nothing more is counted.
        if count() != losses || (is_first && made.lost.get().is_some()) {
            losses = count();
            if let Err(gone) = bring_back(&context.run).await {
                return (made.take_down().await, Some(gone));
            }
        }
        match made.lost.get() {
            Some(_) => made.postpone(|item| matches!(item, Item::Asked { .. })),
            None => made.take_postponed(),
        }
        let problems = made.take_down().await;
        // What was cut off of that is done now.
        if count() == losses {
            return (problems, None);
        }
        if !std::mem::take(&mut is_first) {
            made.postpone(|_| true);
            return (Vec::new(), None);
        }
    }
}

/// Returns when the driver has answered nothing to a case for that long, and was not restarted: how long all of its answers take
/// together says nothing.
async fn used_up(limit: Duration, started: Instant, context: &Context) {
    loop {
        let answered = lock(&context.steps).last_answer();
        let since = answered.max(context.restarts.last()).unwrap_or(started);
        let left = limit.saturating_sub(since.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

fn panicked(error: JoinError) -> Stop {
    let panic = error.try_into_panic().ok();
    let text = panic.and_then(|panic| match panic.downcast::<String>() {
        Ok(text) => Some(*text),
        Err(panic) => panic.downcast_ref::<&str>().map(|text| (*text).to_owned()),
    });
    let text = text.unwrap_or_default();
    Stop::failed(
        COMES_TO_ITS_END,
        format!("it panicked, a defect of csi: {text}"),
    )
}
