//! Runs cases: in parallel where they allow it, each within its time limit, and takes down what each has made.
//!
//! Owns the order, what is skipped, and when a run ends early.

use super::case::{Case, CaseKind, Failure, NOT_ADVERTISED, Need, Stop};
use super::context::Context;
use super::observer::{Asked, Observer};
use super::report::{CaseOutcome, CaseResult, instance_name};
use super::restarts::Restarts;
use super::run::{Run, call, locked};
use super::settings::{Access, Settings};
use bytes::Bytes;
use csi_proto::Request as _;
use csi_proto::random;
use csi_proto::text::escaped;
use csi_proto::v1;
use prost::Message as _;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::task::{JoinError, JoinSet};
use tonic::Code;

/// The time that a case has to notice that it is over.
const ENDS_WITHIN: Duration = Duration::from_secs(2);

/// The time that a driver which has gone has to come back before the run is given up.
const BACK_WITHIN: Duration = Duration::from_secs(5);

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
    let context = Context::new(Arc::clone(run), 0, Access::Block, restarts);
    let request = context.create_request().ok()?;
    let method = v1::CreateVolumeRequest::METHOD;
    let request = Bytes::from(request.encode_to_vec());
    let answer = context.exchanged(method, request, settings.timeout).await;
    take_down(&context).await;
    matches!(answer, Ok(Ok(_))).then_some(Access::Block)
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
            if run.settings.selects(&one.name()) {
                planned.push(one);
            }
        }
    }
    planned
}

/// Runs the cases; the results in the order of the list, and why the run ended early, if it did.
pub async fn run(
    run: &Arc<Run>,
    planned: Vec<Planned>,
    observer: &mut dyn Observer,
    mut asked: Asked,
) -> (Vec<CaseResult>, Option<String>) {
    let mut results: Vec<Option<CaseResult>> = planned.iter().map(|_| None).collect();
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
    let phases = [
        (
            of_kind(&[CaseKind::Reads, CaseKind::Changes]),
            run.settings.jobs(),
        ),
        (of_kind(&[CaseKind::Alone]), 1),
        (of_kind(&[CaseKind::Last]), 1),
    ];
    let mut cut_short: Option<String> = None;
    'run: for (mut waiting, jobs) in phases {
        let mut running = JoinSet::new();
        loop {
            while running.len() < jobs && cut_short.is_none() {
                let Some(index) = waiting.pop_front() else {
                    break;
                };
                let one = planned[index];
                if let Some(reason) = missing(run, one.case) {
                    let result = skipped(one, reason);
                    observer.case_ended(&result);
                    results[index] = Some(result);
                    continue;
                }
                observer.case_begins(&one.name());
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
            let Ok((index, result)) = ended else { continue };
            let failed = matches!(result.outcome, CaseOutcome::Failed(_));
            observer.case_ended(&result);
            results[index] = Some(result);
            if *asked.borrow() > 0 {
                cut_short.get_or_insert_with(|| "interrupted".to_owned());
            } else if failed && run.settings.fail_fast {
                cut_short.get_or_insert_with(|| "--fail-fast: a case failed".to_owned());
            } else if failed && cut_short.is_none() {
                cut_short = gone(run).await;
            }
        }
        if cut_short.is_some() {
            break;
        }
    }
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
    (results.into_iter().flatten().collect(), cut_short)
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
    if run.settings.read_only && matches!(case.kind, CaseKind::Changes | CaseKind::Alone) {
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
        warnings: Vec::new(),
        commands: Vec::new(),
        took: Duration::ZERO,
    }
}

/// The expectation of a case whose things could not be taken down.
const TAKEN_DOWN: &str = "what the case made can be taken down";

async fn execute(run: Arc<Run>, one: Planned, mut asked: Asked) -> CaseResult {
    let restarts = Restarts::between_steps(
        run.settings.restart_between_steps,
        one.case.name.starts_with("lifecycle/"),
        run.seed,
        one.number as u64,
    );
    let context = Context::new(Arc::clone(&run), one.number, one.access, restarts);
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
    let problems = take_down(&context).await;
    if !problems.is_empty() && !matches!(outcome, CaseOutcome::Failed(_)) {
        outcome = CaseOutcome::Failed(Failure {
            expected: TAKEN_DOWN.to_owned(),
            actual: problems.join("; "),
        });
    }
    let warnings = context.take_warnings();
    if run.settings.strict
        && outcome == CaseOutcome::Passed
        && let Some(first) = warnings.first()
    {
        outcome = CaseOutcome::Failed(first.clone());
    }
    let found = matches!(outcome, CaseOutcome::Failed(_)) || !warnings.is_empty();
    let commands = match found {
        true => locked(&context.steps).commands(&run),
        false => Vec::new(),
    };
    CaseResult {
        case: one.case,
        name: one.name(),
        outcome,
        warnings,
        commands,
        took,
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

/// Whether the driver is gone for good, in words.
async fn gone(run: &Run) -> Option<String> {
    let ends = [&run.node, &run.controller];
    let silent = !locked(&run.left).is_empty();
    let lost = ends
        .into_iter()
        .find(|peer| silent || peer.endpoint.last_error().is_some())?;
    let end = Instant::now() + BACK_WITHIN;
    let method = v1::ProbeRequest::METHOD;
    loop {
        let session = lost.session.clone().with_timeout(Some(BACK_WITHIN));
        let answer = call(&session, method, Bytes::new()).await;
        let reason = lost.endpoint.last_error();
        match (answer, reason) {
            (Err(_), Some(reason)) if Instant::now() > end => {
                let reason = reason.to_string();
                return Some(format!(
                    "the driver does not answer any more: {}",
                    escaped(&reason)
                ));
            }
            (Err(_), Some(_)) => tokio::time::sleep(Duration::from_millis(100)).await,
            (Err(status), None) if status.code() == Code::DeadlineExceeded => {
                return Some("the driver does not answer any more".to_owned());
            }
            _ => return None,
        }
    }
}
