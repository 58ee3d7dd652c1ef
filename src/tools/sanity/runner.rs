//! Runs cases: in parallel where they allow it, each within its time limit, and takes down what each has made.
//!
//! Owns the order, what is skipped, and when a run ends early.

use super::case::{Case, CaseKind, Failure, NOT_ADVERTISED, Need, Stop};
use super::context::Context;
use super::judging::Judging;
use super::observer::{Asked, Observer};
use super::presence::bring_back;
use super::report::{CaseOutcome, CaseResult, instance_name};
use super::restarts::Restarts;
use super::resting::taking_back;
use super::run::{BrokenCall, Run, locked};
use super::settings::{Access, Settings};
use super::taking_down::Tidied;
use crate::output::shell_word::word;
use bytes::Bytes;
use csi_proto::Request as _;
use csi_proto::random;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use csi_proto::v1;
use prost::Message as _;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{JoinError, JoinSet};
use tonic::Code;

/// The time that a case has to notice that it is over.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// A case that is to run.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    case: &'static Case,
    number: usize,
    access: Access,
}

impl Planned {
    fn name(&self) -> String {
        // Only of two runs of a case one has its access type in the name.
        match self.case.needs.contains(&Need::EachAccess) {
            true => instance_name(self.case, self.access),
            false => self.case.name.clone(),
        }
    }
}

/// The access types that the settings ask for.
pub fn accesses_of(settings: &Settings) -> Vec<Access> {
    if settings.capabilities.is_empty() {
        return vec![Access::Mount];
    }
    let given = Access::ALL.into_iter();
    let given = given.filter(|access| settings.capability(*access).is_some());
    given.collect()
}

/// Block, when the settings leave it open and the driver creates such a volume.
pub async fn tried_block(run: &Arc<Run>) -> Option<Access> {
    let settings = &run.settings;
    let creates = run.driver.has(super::case::needs::CREATE_DELETE_VOLUME);
    if settings.read_only || !settings.capabilities.is_empty() || creates != Some(true) {
        return None;
    }
    let restarts = Restarts::asked_for();
    let context = Context::new(Arc::clone(run), String::new(), 0, Access::Block, restarts);
    let request = context.create_request().ok()?;
    let method = v1::CreateVolumeRequest::METHOD;
    let request = Bytes::from(request.encode_to_vec());
    let answer = context.exchanged(method, request, settings.timeout).await;
    let is_lost = context.lost.get().is_some();
    if is_lost {
        // Whether it answers again shows in the cases, and so does this call.
        let _ = bring_back(run).await;
        context.made.forget_asked();
        locked(&run.losses).explain(&context.case);
    }
    take_down(&context).await;
    (is_lost || matches!(answer, Ok(Ok(_)))).then_some(Access::Block)
}

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
            };
            planned.push(one);
        }
    }
    let selects = |one: &Planned| run.settings.selects(&one.name());
    let wanted: Vec<_> = planned.iter().copied().filter(selects).collect();
    // What others depend on is tried also where nobody has asked for it.
    let depends = |first: &Planned, other: &Planned| {
        let mut needs = first.case.needs.iter();
        other.access == first.access && needs.all(|need| other.case.needs.contains(need))
    };
    planned.retain(|one| {
        let is_tried = one.case.kind == CaseKind::First && missing(run, one.case).is_none();
        selects(one) || (is_tried && wanted.iter().any(|other| depends(one, other)))
    });
    planned
}

/// Whether a case was asked for, and not only tried because others depend on it.
pub fn is_asked_for(run: &Run, one: &Planned) -> bool {
    run.settings.selects(&one.name())
}

/// Runs the cases; the results in the order of the list, and why the run ended early, if it did.
pub async fn run(
    run: &Arc<Run>,
    planned: Vec<Planned>,
    observer: &mut dyn Observer,
    mut asked: Asked,
) -> (Vec<CaseResult>, Option<String>) {
    let names = planned
        .iter()
        .map(|one| (one.case.name.as_str(), one.name()));
    let mut judging = Judging::of(names);
    let mut order: Vec<usize> = (0..planned.len()).collect();
    if run.settings.shuffle {
        for index in (1..order.len()).rev() {
            let bound = index as u64 + 1;
            let other = random::from_seed(run.seed, bound) % bound;
            order.swap(index, usize::try_from(other).unwrap_or(0));
        }
    }
    let of_kind = |kinds: &[CaseKind]| -> VecDeque<usize> {
        let chosen = order.iter().copied();
        chosen
            .filter(|index| kinds.contains(&planned[*index].case.kind))
            .collect()
    };
    let beside_others = of_kind(&[CaseKind::Reads, CaseKind::Changes]);
    let mut phases = VecDeque::from([
        (of_kind(&[CaseKind::First]), 1),
        (beside_others, run.settings.jobs()),
        (of_kind(&[CaseKind::Alone]), 1),
        (of_kind(&[CaseKind::Last]), 1),
    ]);
    let mut cut_short: Option<String> = None;
    // The cases in which the driver went away. Each runs once more, alone: then it is known which of them led to that.
    let mut lost: BTreeMap<usize, CaseResult> = BTreeMap::new();
    'run: while let Some((mut waiting, jobs)) = phases.pop_front() {
        let mut again = VecDeque::new();
        let mut running = JoinSet::new();
        loop {
            while running.len() < jobs && cut_short.is_none() {
                let Some(index) = waiting.pop_front() else {
                    break;
                };
                let one = planned[index];
                if let Some(reason) = missing(run, one.case) {
                    let result = skipped(one, reason);
                    judge(&mut judging, vec![(index, result)], false, observer);
                    continue;
                }
                if is_asked_for(run, &one) {
                    observer.case_begins(&one.name());
                }
                let (run, asked) = (Arc::clone(run), asked.clone());
                running.spawn(async move { (index, execute(run, one, asked).await) });
            }
            let ended = tokio::select! {
                ended = running.join_next() => ended,
                () = times(&mut asked, 2) => {
                    cut_short = Some("interrupted".to_owned());
                    let folder = run.journal.folder().display();
                    observer.note(&format!("what is left is in {folder}: the next run against this driver takes it down"));
                    break 'run;
                }
            };
            let Some(ended) = ended else { break };
            let Ok((index, ended)) = ended else { continue };
            let one = &planned[index];
            if let Some(reason) = ended.gone {
                cut_short.get_or_insert(reason);
            }
            if ended.lost {
                if lost.insert(index, ended.result.clone()).is_none() {
                    let name = &ended.result.name;
                    observer.note(&format!(
                        "the driver went away in {name}, which runs again alone"
                    ));
                    again.push_back(index);
                    continue;
                }
                lost.remove(&index);
                locked(&run.losses).explain(&ended.result.name);
            } else {
                lost.remove(&index);
            }
            let result = ended.result;
            if let (CaseKind::First, CaseOutcome::Failed(failure), [], Some((method, code))) = (
                one.case.kind,
                &result.outcome,
                &*ended.premises,
                ended.refused,
            ) {
                locked(&run.broken_calls).push(BrokenCall {
                    method,
                    access: one.access,
                    code,
                    reason: failure.actual.clone(),
                });
            }
            let mut settled = Vec::new();
            match result.is_failed() {
                true if !ended.premises.is_empty() => judging.holds(index, result, ended.premises),
                false if !is_asked_for(run, one) => judging.passed_unasked(index),
                _ => settled.push((index, result)),
            }
            let failed = judge(&mut judging, settled, false, observer);
            if *asked.borrow() > 0 {
                cut_short.get_or_insert_with(|| "interrupted".to_owned());
            } else if failed && run.settings.fail_fast {
                cut_short.get_or_insert_with(|| "--fail-fast: a case failed".to_owned());
            } else if failed && cut_short.is_none() && may_be_gone(run) {
                cut_short = bring_back(run).await.err();
            }
        }
        if cut_short.is_none() && !again.is_empty() {
            phases.push_front((again, 1));
        }
        if cut_short.is_some() {
            break;
        }
    }
    // Which of several led to it nobody knows: the first is taken for that, the others were interrupted.
    for (place, (index, mut result)) in lost.into_iter().enumerate() {
        if place > 0 || cut_short.as_deref() == Some("interrupted") {
            result.outcome = CaseOutcome::Skipped("interrupted: the driver went away".to_owned());
            result.commands.clear();
        }
        judge(&mut judging, vec![(index, result)], false, observer);
    }
    judge(&mut judging, Vec::new(), true, observer);
    let left = std::mem::take(&mut *locked(&run.left));
    if left.is_empty() && *asked.borrow() < 2 {
        run.journal.close();
    }
    for problem in &left {
        observer.note(&format!("left: {problem}"));
    }
    if !left.is_empty() {
        let folder = run.journal.folder().display();
        observer.note(&format!(
            "that is noted in {folder}: the next run against this driver takes it down"
        ));
    }
    (judging.results(), cut_short)
}

/// Takes in what has ended, tells of it and of all that is known now; whether some of it failed.
fn judge(
    judging: &mut Judging,
    ended: Vec<(usize, CaseResult)>,
    at_the_end: bool,
    observer: &mut dyn Observer,
) -> bool {
    let mut failed = false;
    let mut tell = |result: &CaseResult| {
        failed |= result.is_failed();
        observer.case_ended(result);
    };
    for (index, result) in ended {
        tell(&result);
        judging.ended(index, result);
    }
    while let Some(result) = judging.settle(at_the_end) {
        tell(result);
    }
    failed
}

/// Returns when somebody has asked to stop that often.
async fn times(asked: &mut Asked, count: u8) {
    if asked.wait_for(|times| *times >= count).await.is_err() {
        // Nobody is left who could ask.
        std::future::pending::<()>().await;
    }
}

/// Why a case cannot run here.
fn missing(run: &Run, case: &Case) -> Option<String> {
    if run.settings.read_only
        && matches!(
            case.kind,
            CaseKind::First | CaseKind::Changes | CaseKind::Alone
        )
    {
        return Some("it changes something: --read-only".to_owned());
    }
    let settings = &run.settings;
    let there = |need: &Need| match need {
        Need::AnyVolume => {
            use super::case::needs::{CREATE_DELETE_VOLUME, LIST_VOLUMES};
            let creates = run.driver.has(CREATE_DELETE_VOLUME) == Some(true);
            let lists = run.driver.has(LIST_VOLUMES) == Some(true);
            (creates && !settings.read_only) || lists || settings.volume_id.is_some()
        }
        Need::Block => run.accesses().contains(&Access::Block),
        Need::Mount => run.accesses().contains(&Access::Mount),
        Need::EachAccess => true,
        Need::Paths => run.sees_paths(),
        Need::Restart => settings.restart_command.is_some(),
        Need::OtherNode => settings.other_node_id.is_some(),
        Need::MutableParameters => !settings.mutable_parameters.is_empty(),
        advertised => run.driver.has(*advertised).unwrap_or(false),
    };
    let lacking: Vec<String> = case
        .needs
        .iter()
        .filter(|need| !there(need))
        .map(ToString::to_string)
        .collect();
    // What is common to all is said once.
    let more = format!(", {NOT_ADVERTISED}");
    (!lacking.is_empty()).then(|| lacking.join(", ").replace(&more, ", "))
}

fn skipped(one: Planned, reason: String) -> CaseResult {
    CaseResult {
        case: one.case,
        name: one.name(),
        outcome: CaseOutcome::Skipped(reason),
        rests_on: None,
        warnings: Vec::new(),
        commands: Vec::new(),
        took: Duration::ZERO,
    }
}

/// The expectation of a case whose things could not be taken down.
const TAKEN_DOWN: &str = "what the case made can be taken down";

/// The end of a case's run.
struct Ended {
    result: CaseResult,
    /// Whether the driver went away in it.
    lost: bool,
    /// The last call that was refused, and its code.
    refused: Option<(&'static Method, Code)>,
    /// The cases on which its failure rests.
    premises: Vec<&'static str>,
    /// Why the driver is gone for good.
    gone: Option<String>,
}

async fn execute(run: Arc<Run>, one: Planned, mut asked: Asked) -> Ended {
    let restarts = Restarts::between_steps(
        run.settings.restart_between_steps,
        one.case.name.starts_with("lifecycle/"),
        run.seed,
        one.number as u64,
    );
    let context = Context::new(
        Arc::clone(&run),
        one.name(),
        one.number,
        one.access,
        restarts,
    );
    let context = Arc::new(context);
    let started = Instant::now();
    let limit = run.settings.case_limit;
    let in_thread = Arc::clone(&context);
    let mut body = tokio::task::spawn_blocking(move || (one.case.body.0)(&in_thread));
    let mut over = false;
    let ended = tokio::select! {
        ended = &mut body => {
            over = true;
            ended.unwrap_or_else(|error| Err(panicked(error)))
        }
        () = used_up(limit, started, &context) => {
            Err(Stop::failed("the case comes to its end", format!("it was not over after {limit:?}")))
        }
        () = times(&mut asked, 1) => Err(Stop::Skipped("interrupted".to_owned())),
    };
    // What it still had under way is cancelled, and nothing more is noted.
    context.end();
    if !over {
        // It ends at its next call, or when the path answers that it looks at; then it can do nothing more.
        let _ = tokio::time::timeout(ENDS_WITHIN, body).await;
    }
    let took = started.elapsed();
    let mut outcome = match ended {
        Ok(()) => CaseOutcome::Passed,
        Err(Stop::Failed(failure)) => CaseOutcome::Failed(failure),
        Err(Stop::Skipped(reason)) => CaseOutcome::Skipped(reason),
    };
    let mut gone = None;
    let mut premises = context.premises();
    if let Some(failure) = context.lost.get() {
        premises.clear();
        outcome = CaseOutcome::Failed(failure.clone());
        gone = bring_back(&run).await.err();
        if gone.is_none() {
            context.made.forget_asked();
        }
    }
    let refused = locked(&context.steps).last_refusal();
    let problems = take_down(&context).await;
    if !problems.is_empty() && !matches!(outcome, CaseOutcome::Failed(_)) {
        outcome = CaseOutcome::Failed(Failure {
            expected: TAKEN_DOWN.to_owned(),
            actual: problems.join("; "),
        });
        premises = taking_back();
    }
    let warnings = context.take_warnings();
    if run.settings.strict && outcome == CaseOutcome::Passed {
        // Best one that nothing else explains.
        let first = warnings.iter().find(|(_, rest)| rest.is_empty());
        if let Some((first, rest)) = first.or(warnings.first()) {
            outcome = CaseOutcome::Failed(first.clone());
            premises.clone_from(rest);
        }
    }
    let secrets = locked(&run.seen).secret_values(&run.settings.secrets);
    let outcome = outcome.masked(&secrets);
    let warnings: Vec<Failure> = warnings
        .iter()
        .map(|(warning, _)| warning.masked(&secrets))
        .collect();
    let failed = matches!(outcome, CaseOutcome::Failed(_));
    // The report of a failure covers the replies that led to it, unless it rests on the judgement of those.
    if !failed || premises.iter().any(|one| one.starts_with("replies/")) {
        let seen = std::mem::take(&mut *locked(&context.broken_rules));
        locked(&run.broken_rules).add(seen);
    }
    let found = failed || !warnings.is_empty();
    let commands = match found {
        true => {
            remarks(&context, &outcome, &warnings);
            locked(&context.steps).commands(&run)
        }
        false => Vec::new(),
    };
    Ended {
        lost: context.lost.get().is_some(),
        refused,
        premises,
        gone,
        result: CaseResult {
            case: one.case,
            name: one.name(),
            outcome,
            rests_on: None,
            warnings,
            commands,
            took,
        },
    }
}

/// Adds to the steps of a case what it found, and how what it made is taken down.
fn remarks(context: &Context, outcome: &CaseOutcome, warnings: &[Failure]) {
    let failed = match outcome {
        CaseOutcome::Failed(failure) => vec![failure],
        _ => warnings.iter().collect(),
    };
    for Failure { expected, actual } in failed {
        let (expected, actual) = (escaped(expected), escaped(actual));
        context.did(format!("# expected {expected}, but {actual}"));
    }
    let tidied = context.made.take_tidied();
    if !tidied.is_empty() {
        context.did("# to tidy up:".to_owned());
    }
    let (run, mut in_it) = (context.run.journal.folder(), false);
    for one in tidied {
        match one {
            Tidied::Call(method, request) => locked(&context.steps).tidy(method, request),
            Tidied::Folder(path) => {
                in_it |= path.starts_with(run);
                context.did(format!("rmdir {}", word(&path.to_string_lossy())));
            }
        }
    }
    if in_it {
        // The lines of another case may have something there.
        let run = word(&run.to_string_lossy());
        context.did(format!("rmdir --ignore-fail-on-non-empty {run}"));
    }
}

/// Returns when a case that began then has had that time, without its restarts of the driver.
async fn used_up(limit: Duration, started: Instant, context: &Context) {
    loop {
        let left = (limit + context.restarts.spent()).saturating_sub(started.elapsed());
        if left.is_zero() {
            return;
        }
        tokio::time::sleep(left).await;
    }
}

fn panicked(error: JoinError) -> Stop {
    let expected = "the case comes to its end";
    let text = match error.try_into_panic() {
        Ok(panic) => panic
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned())),
        Err(_) => None,
    };
    let text = text.unwrap_or_default();
    Stop::failed(expected, format!("it panicked, a defect of csi: {text}"))
}

/// Takes down what a case has made; what could not be.
async fn take_down(context: &Context) -> Vec<String> {
    let problems = context.made.take_down().await;
    locked(&context.run.left).extend(problems.iter().cloned());
    problems
}

/// Whether something says that the driver is not there.
fn may_be_gone(run: &Run) -> bool {
    let mut peers = [&run.node, &run.controller].into_iter();
    !locked(&run.left).is_empty() || peers.any(|peer| peer.endpoint.last_error().is_some())
}
