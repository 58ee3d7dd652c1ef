//! A run and its cases as JSON: for programs, and for the file in which a run is kept.

use super::case::{Case, CaseKind};
use super::report::{CaseOutcome, CaseResult, Report};
use csi_output::figure;
use serde_json::{Value as Json, json};

/// The result of a case.
pub fn result(result: &CaseResult) -> Json {
    let (outcome, failure, reason) = match &result.outcome {
        CaseOutcome::Passed => ("passed", None, None),
        CaseOutcome::Failed(failure) => ("failed", Some(failure), None),
        CaseOutcome::Skipped(why) => ("skipped", None, Some(why)),
    };
    let mut out = json!({
        "name": result.name,
        "outcome": outcome,
        "sentence": result.case.sentence,
        "section": result.case.section,
        "milliseconds": figure::milliseconds(result.took),
    });
    for (key, value) in [
        ("failure", json!(failure)),
        ("reason", json!(reason)),
        ("restsOn", json!(result.rests_on)),
        ("warnings", json!(result.warnings)),
        ("commands", json!(result.commands)),
    ] {
        if value != Json::Null && value != json!([]) {
            out[key] = value;
        }
    }
    out
}

/// The numbers of a run.
pub fn summary(report: &Report) -> Json {
    let counts = report.counts();
    let slow = report.times.slow().into_iter();
    let slow = slow.map(|(what, step, part)| {
        json!({
            "what": what,
            "calls": step.calls,
            "seconds": figure::seconds(step.spent),
            "part": figure::ratio(part),
        })
    });
    json!({
        "passed": counts.passed,
        "warned": counts.warned,
        "failed": counts.failed,
        "known": report.known_failures(),
        "mended": report.mended().collect::<Vec<_>>(),
        "skipped": counts.skipped,
        "cutShort": report.cut_short,
        "incomplete": report.incomplete,
        "seconds": figure::seconds(report.took),
        "driverSeconds": figure::seconds(report.times.busy()),
        "slow": slow.collect::<Vec<_>>(),
    })
}

/// A whole run.
pub fn report(report: &Report) -> Json {
    let results: Vec<_> = report.results.iter().map(result).collect();
    json!({
        "driver": report.driver,
        "version": report.version,
        "endpoint": report.endpoint,
        "specification": csi_proto::SPEC_VERSION,
        "run": report.run,
        "seed": report.seed.to_string(),
        "results": results,
        "summary": summary(report),
    })
}

/// A case, as the list of cases has it.
pub fn case(case: &Case) -> Json {
    let needs: Vec<_> = case.needs.iter().map(|need| need.name()).collect();
    json!({
        "name": case.name,
        "sentence": case.sentence,
        "section": case.section,
        "needs": needs,
        "changes": !matches!(case.kind, CaseKind::Reads | CaseKind::Last),
        "alone": matches!(case.kind, CaseKind::Alone | CaseKind::Closing),
    })
}
