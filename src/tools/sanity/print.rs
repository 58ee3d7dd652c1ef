//! Prints a run of `csi sanity`: a line for each case while it runs, its findings, and a summary; or JSON.
//!
//! Everything that a driver said is escaped. JUnit XML, which goes to a file, is in `junit.rs`.

use super::case::{Case, CaseKind};
use super::cases::first::MAKE_AND_REMOVE;
use super::observer::{Observer, Plan};
use super::report::{CaseOutcome, CaseResult, Report};
use super::verdict::Failure;
use crate::output::columns::{Columns, aligned};
use crate::output::{Format, figure, terminal};
use crate::say::say;
use csi_proto::text::escaped;
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io::{self, Write};

/// How wide a name may be before its time moves to the right.
const NAME_WIDTH: usize = 62;

/// Shows a run while it goes on.
pub struct Progress<W: Write> {
    out: W,
    /// One JSON document in the end, a JSON object a line as it happens, or lines for people, with annotations where GitHub
    /// shows them beside a change.
    shown: Format,
    /// Whether a line about what runs stands below the rest and is replaced.
    live: bool,
    total: usize,
    done: usize,
    /// The names of the cases that are known to fail.
    known: BTreeSet<String>,
    /// Whether so little works that only what is wrong is worth a line.
    terse: bool,
    /// The first failure to write; nothing is written after it.
    broken: Option<io::Error>,
}

impl<W: Write> Progress<W> {
    /// Shows on `out`; `live` where it is a terminal.
    pub fn new(out: W, shown: Format, live: bool, known: BTreeSet<String>) -> Self {
        Self {
            out,
            shown,
            live: live && !matches!(shown, Format::Json | Format::Jsonl),
            total: 0,
            done: 0,
            known,
            terse: false,
            broken: None,
        }
    }

    /// Shows the end.
    ///
    /// # Errors
    /// When `out` could not be written, now or before.
    pub fn finish(mut self, report: &Report) -> io::Result<()> {
        let text = match self.shown {
            Format::Json => format!("{:#}\n", report_json(report)),
            Format::Jsonl => format!("{}\n", summary_json(report)),
            _ => format!("\n{}\n", summary(report)),
        };
        self.write(&text);
        match self.broken {
            // Who reads no more has seen enough.
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    fn write(&mut self, text: &str) {
        if self.broken.is_some() {
            return;
        }
        let clear = if self.live { "\r\x1b[K" } else { "" };
        let written = write!(self.out, "{clear}{text}").and_then(|()| self.out.flush());
        self.broken = written.err();
    }
}

impl<W: Write> Observer for Progress<W> {
    fn begins(&mut self, plan: &Plan<'_>) {
        self.total = plan.cases;
        let (name, version) = plan.driver;
        match self.shown {
            Format::Json => {}
            Format::Jsonl => {
                let line = json!({"driver": name, "version": version, "endpoint": plan.endpoint,
                    "cases": plan.cases, "seed": plan.seed.to_string()});
                self.write(&format!("{line}\n"));
            }
            _ => {
                let name = if name.is_empty() {
                    "(a driver without a name)"
                } else {
                    name
                };
                let text = format!(
                    "{} {} at {}: {}, {} at a time, seed {}\n",
                    escaped(name),
                    escaped(version),
                    escaped(plan.endpoint),
                    counted(plan.cases, "case"),
                    plan.jobs,
                    plan.seed
                );
                self.write(&text);
            }
        }
    }

    fn case_begins(&mut self, name: &str) {
        if self.live {
            let text = format!("[{}/{}] {name}", self.done, self.total);
            let width = terminal::width().unwrap_or(80).saturating_sub(1);
            let text: String = text.chars().take(width).collect();
            self.write(&text);
        }
    }

    fn case_ended(&mut self, result: &CaseResult) {
        self.done += 1;
        match self.shown {
            Format::Json => {}
            Format::Jsonl => self.write(&format!("{}\n", result_json(result))),
            _ => {
                let is_known = self.known.contains(&result.name);
                let mut text = match result.is_failed() && is_known {
                    true => format!("~~ {:NAME_WIDTH$}  known to fail\n", result.name),
                    false => format!("{}\n{}", line(result), details(result)),
                };
                if self.shown == Format::Github && !is_known {
                    text.push_str(&annotations(result));
                }
                self.terse |= result.is_failed() && result.name == MAKE_AND_REMOVE;
                if !self.terse || result.is_failed() {
                    self.write(&text);
                }
            }
        }
    }

    fn note(&mut self, text: &str) {
        if self.live {
            self.write("");
        }
        say!("note: {}", escaped(text));
    }
}

/// `1 case`, `2 cases`.
fn counted(count: usize, what: &str) -> String {
    let plural = if count == 1 { "" } else { "s" };
    format!("{count} {what}{plural}")
}

/// The line of a case.
fn line(result: &CaseResult) -> String {
    let milliseconds = result.took.as_secs_f64() * 1000.0;
    let time = format!("{milliseconds:8.1} ms");
    let name = &result.name;
    match &result.outcome {
        CaseOutcome::Passed if !result.warnings.is_empty() => {
            format!("?? {name:NAME_WIDTH$} {time}")
        }
        CaseOutcome::Passed => format!("ok {name:NAME_WIDTH$} {time}"),
        CaseOutcome::Failed(_) => format!("!! {name:NAME_WIDTH$} {time}"),
        CaseOutcome::Skipped(why) => format!("-- {name:NAME_WIDTH$}  skipped: {}", escaped(why)),
    }
}

/// The findings of a case, and the commands that show them again; nothing for a case without findings.
pub fn details(result: &CaseResult) -> String {
    let mut out = String::new();
    let failed = match &result.outcome {
        CaseOutcome::Failed(failure) => Some(failure),
        _ => None,
    };
    if failed.is_none() && result.warnings.is_empty() {
        return out;
    }
    let case = result.case;
    let _ = writeln!(out, "   {}.", case.sentence);
    let _ = writeln!(
        out,
        "   CSI {}, section {:?}",
        csi_proto::SPEC_VERSION,
        case.section
    );
    if let Some(failure) = failed {
        finding(&mut out, "expected", failure);
    }
    for warning in &result.warnings {
        if Some(warning) != failed {
            finding(&mut out, "recommended", warning);
        }
    }
    if !result.commands.is_empty() {
        let _ = writeln!(out, "   to see it again:");
        for command in &result.commands {
            let _ = writeln!(out, "     {command}");
        }
    }
    out
}

fn finding(out: &mut String, what: &str, failure: &Failure) {
    let _ = writeln!(out, "   {what:>11}: {}", escaped(&failure.expected));
    let _ = writeln!(out, "   {:>11}: {}", "but", escaped(&failure.actual));
}

/// The last lines.
pub fn summary(report: &Report) -> String {
    let counts = report.counts();
    let mut out = String::new();
    for (failure, names) in report.causes() {
        for name in &names {
            let _ = writeln!(out, "failed: {name}");
        }
        if names.len() > 1 {
            let (expected, actual) = (escaped(&failure.expected), escaped(&failure.actual));
            let _ = writeln!(
                out,
                "  these {} alike: {expected}, but {actual}",
                names.len()
            );
        }
    }
    let mut first = report.results.iter();
    if first.any(|one| one.is_failed() && one.case.kind == CaseKind::First) {
        out.push_str("what depends on that was skipped\nhint: --params, --cap, --volume-size and --secrets-file name what this driver must be sent\n");
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
    for told in &report.untried {
        let _ = writeln!(
            out,
            "never worked, so that nothing is known of it: {}",
            escaped(told)
        );
    }
    if !report.is_complete() {
        out.push_str("incomplete: not all cases could be tried\n");
    }
    let _ = write!(
        out,
        "{} passed ({} with {}), {} failed{}, {} skipped in {:.1} s",
        counts.passed,
        counts.warned,
        if counts.warned == 1 {
            "a warning"
        } else {
            "warnings"
        },
        counts.failed,
        match report.known_failures() {
            0 => String::new(),
            known => format!(" ({known} known)"),
        },
        counts.skipped,
        report.took.as_secs_f64()
    );
    out
}

/// The findings of a case as GitHub's workflow commands.
fn annotations(result: &CaseResult) -> String {
    let failed = match &result.outcome {
        CaseOutcome::Failed(failure) => Some(("error", failure)),
        _ => None,
    };
    let warnings = result.warnings.iter().map(|one| ("warning", one));
    let mut out = String::new();
    for (level, Failure { expected, actual }) in failed.into_iter().chain(warnings) {
        let sentence = &result.case.sentence;
        let (expected, actual) = (escaped(expected), escaped(actual));
        // Line ends are escaped, so that a driver can end no command. A % begins an escape of GitHub's.
        let text = format!("{sentence}. Expected: {expected}, but {actual}").replace('%', "%25");
        let _ = writeln!(out, "::{level} title={}::{text}", result.name);
    }
    out
}

fn result_json(result: &CaseResult) -> Json {
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

fn summary_json(report: &Report) -> Json {
    let counts = report.counts();
    json!({
        "passed": counts.passed,
        "warned": counts.warned,
        "failed": counts.failed,
        "known": report.known_failures(),
        "mended": report.mended().collect::<Vec<_>>(),
        "skipped": counts.skipped,
        "cutShort": report.cut_short,
        "untried": report.untried,
        "seconds": figure::seconds(report.took),
    })
}

fn report_json(report: &Report) -> Json {
    let results: Vec<_> = report.results.iter().map(result_json).collect();
    json!({
        "driver": report.driver,
        "version": report.version,
        "endpoint": report.endpoint,
        "specification": csi_proto::SPEC_VERSION,
        "run": report.run,
        "seed": report.seed.to_string(),
        "results": results,
        "summary": summary_json(report),
    })
}

/// The list of cases in a format of output; for people where the format is one of tables.
pub fn list(cases: &[&Case], format: Format) -> String {
    let mut out = String::new();
    match format {
        Format::Json => {
            let cases: Vec<_> = cases.iter().map(|case| case_json(case)).collect();
            let _ = writeln!(out, "{:#}", Json::from(cases));
        }
        Format::Jsonl => cases.iter().for_each(|case| {
            let _ = writeln!(out, "{}", case_json(case));
        }),
        Format::Name => cases.iter().for_each(|case| {
            let _ = writeln!(out, "{}", case.name);
        }),
        _ => {
            let cells = cases.iter().map(|case| [&*case.name, &*case.sentence]);
            let cells: Vec<&str> = cells.flatten().collect();
            out.push_str(&aligned(Columns::new(2, 2), &cells));
            let _ = writeln!(out, "{}", counted(cases.len(), "case"));
        }
    }
    out
}

fn case_json(case: &Case) -> Json {
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

/// Every failure and warning with the commands that lead to it, for the message of a test that fails.
impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for result in &self.results {
            f.write_str(&details(result))?;
        }
        writeln!(f, "{}", summary(self))
    }
}
