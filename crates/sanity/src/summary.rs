//! The end of a run in words: failures by their causes, what was skipped and why, where the time went, the numbers.
//!
//! Everything that a driver said is escaped. Prints nothing.

use super::case::{CaseKind, NOT_ADVERTISED};
use super::cases;
use super::report::{CaseResult, Report};
use csi_output::colour::{Brush, Colour};
use csi_output::figure::counted;
use csi_output::terminal::cut;
use csi_proto::text::escaped;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// The most reasons for skips that are told.
const REASONS: usize = 8;

/// The last lines.
pub fn summary(report: &Report) -> String {
    let mut out = failed(report);
    out.push_str(&notes(report));
    out + &numbers(report)
}

/// The names of the failed cases, and which of them are alike.
pub fn failed(report: &Report) -> String {
    let mut out = String::new();
    for (failure, results) in report.causes() {
        for result in &results {
            let _ = writeln!(out, "failed: {}", result.name);
        }
        if results.len() > 1 {
            let (count, words) = (results.len(), failure.to_string());
            let _ = writeln!(out, "  these {count} alike: {}", escaped(&words));
        }
    }
    out
}

/// The failures in few lines, those that are alike once, and then the warnings where they are asked for.
pub fn findings(report: &Report, warnings: bool, columns: usize, brush: Brush) -> String {
    let mut out = String::new();
    let mut tell = |sign: &str, colour: Colour, results: &[&CaseResult]| {
        for result in results {
            let sign = brush.paint(colour, sign);
            let _ = writeln!(out, "{sign} {}", brush.paint(Colour::Bold, &result.name));
        }
        let finding = results.first().map(|result| result.brief(Some(columns)));
        out.push_str(&finding.unwrap_or_default());
        out.push('\n');
    };
    for (_, results) in report.causes() {
        tell("!!", Colour::Red, &results);
    }
    let warned = report.results.iter().filter(|_| warnings);
    for result in warned.filter(|one| one.is_warned()) {
        tell("??", Colour::Yellow, &[result]);
    }
    out
}

/// What explains the numbers.
pub fn notes(report: &Report) -> String {
    let mut out = String::new();
    let is_first = |name| cases::named(name).is_some_and(|case| case.kind == CaseKind::First);
    if report.failed().any(is_first) {
        out.push_str("hint: --params, --cap, --volume-size and --secrets-file name what this driver must be sent\n");
    }
    let rest = report.results.iter().filter(|one| one.rests_on.is_some());
    match rest.count() {
        0 => {}
        1 => out.push_str("1 case rests on a failed one and was not judged\n"),
        count => {
            let _ = writeln!(out, "{count} cases rest on failed ones and were not judged");
        }
    }
    for name in report.mended() {
        let _ = writeln!(out, "mended: {name}: no longer a known failure");
    }
    if let Some(reason) = &report.cut_short {
        let _ = writeln!(out, "ended early: {reason}");
    }
    for told in &report.incomplete {
        let _ = writeln!(out, "{}", escaped(told));
    }
    if !report.is_complete() {
        out.push_str("incomplete: something could not be tried, or is left\n");
    }
    for (what, step, part) in report.times.slow() {
        let each = (step.spent / step.calls.max(1)).as_secs_f64();
        let _ = writeln!(
            out,
            "{:.0} % of the driver's time: {what}, {} of {each:.1} s each",
            part * 100.0,
            counted(step.calls, "call"),
        );
    }
    out
}

/// The reasons for skips, each with the number of cases: the flags that a reason names are those with which they would run.
pub fn skipped(report: &Report, columns: usize) -> String {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    let (mut unadvertised, mut capabilities) = (0, BTreeSet::new());
    for result in &report.results {
        let reason = result.reason.as_ref().filter(|_| result.rests_on.is_none());
        let Some(reason) = reason else { continue };
        match reason.strip_prefix(NOT_ADVERTISED) {
            Some(lacking) => {
                unadvertised += 1;
                capabilities.extend(lacking.split(", "));
            }
            None => *reasons.entry(reason).or_default() += 1,
        }
    }
    let advertised = Vec::from_iter(capabilities).join(", ");
    let advertised = format!("{NOT_ADVERTISED}{advertised}");
    let mut counts: Vec<_> = reasons.into_iter().collect();
    counts.extend((unadvertised > 0).then_some((advertised.as_str(), unadvertised)));
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    let more: usize = counts.iter().skip(REASONS).map(|(_, count)| count).sum();
    let mut out = String::new();
    for (reason, count) in counts.iter().take(REASONS) {
        let line = format!("{count:6} skipped: {}", escaped(reason));
        out.push_str(&cut(&line, columns));
        out.push('\n');
    }
    if more > 0 {
        let _ = writeln!(out, "{more:6} skipped for other reasons: -v shows each");
    }
    out
}

/// The numbers of cases by their ends, and how long all took.
pub fn numbers(report: &Report) -> String {
    let counts = report.counts();
    format!(
        "{} passed ({} with {}), {} failed{}, {} skipped in {:.1} s (driver {:.1} s)",
        counts.passed,
        counts.warned,
        ["warnings", "a warning"][usize::from(counts.warned == 1)],
        counts.failed,
        match report.known_failures() {
            0 => String::new(),
            known => format!(" ({known} known)"),
        },
        counts.skipped,
        report.took.as_secs_f64(),
        report.times.busy().as_secs_f64(),
    )
}
