//! Prints a run of `csi sanity`: a line for each case while it runs, or one that tells how far the run is, and the end; or JSON.
//!
//! What is found in a case is worded in `finding.rs`, the end in `summary.rs`, JSON in `report.rs`; JUnit XML, which goes to a
//! file, in `junit.rs`. Everything that a driver said is escaped.

use super::case::{Case, CaseKind};
use super::cases::first::MAKE_AND_REMOVE;
use super::kept::KEPT;
use super::observer::{Observer, Plan};
use super::report::{CaseOutcome, CaseResult, Report};
use super::summary;
use csi_error::say;
use csi_output::colour::{Brush, Colour};
use csi_output::columns::{Columns, aligned};
use csi_output::figure::counted;
use csi_output::{Format, terminal};
use csi_proto::duration;
use csi_proto::text::escaped;
use serde_json::Value as Json;
use serde_json::json as object;
use std::collections::BTreeSet;
use std::fmt::{self, Write as _};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// What puts a terminal at the beginning of its last line, and empties that.
pub const CLEAR: &str = "\r\x1b[K";

/// How wide a name may be before its time moves to the right.
const NAME_WIDTH: usize = 62;

/// The columns of text that no terminal shows.
const NO_TERMINAL: usize = 160;

/// How much is shown of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Failures and the end.
    Quiet,
    /// That, and warnings; how far the run is on a terminal, elsewhere a line a case.
    Usual,
    /// A line a case.
    Each,
}

/// How a run is shown.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    /// One JSON document in the end, a JSON object a line as it happens, or text for people, with annotations where GitHub
    /// shows them beside a change.
    pub format: Format,
    /// How much.
    pub detail: Detail,
    /// The columns of the terminal, where there is one.
    pub columns: Option<usize>,
    /// What paints.
    pub brush: Brush,
}

impl Shown {
    /// Whether a line about what runs stands below the rest and is replaced.
    pub fn is_live(&self) -> bool {
        let is_text = !matches!(self.format, Format::Json | Format::Jsonl);
        self.columns.is_some() && self.detail != Detail::Quiet && is_text
    }

    /// Whether each case has a line when it ends.
    fn tells_each(&self) -> bool {
        match self.detail {
            Detail::Quiet => false,
            Detail::Usual => self.columns.is_none() || self.format == Format::Github,
            Detail::Each => true,
        }
    }
}

/// Shows a run while it goes on.
pub struct Progress<W: Write> {
    out: W,
    shown: Shown,
    begun: Instant,
    total: usize,
    done: usize,
    failed: usize,
    /// The case that began last.
    latest: String,
    /// The names of the cases that are known to fail.
    known: BTreeSet<String>,
    /// Whether so little works that only what is wrong is worth a line.
    terse: bool,
    /// The first failure to write; nothing is written after it.
    broken: Option<io::Error>,
}

impl<W: Write> Progress<W> {
    /// Shows on `out`.
    pub fn new(out: W, shown: Shown, known: BTreeSet<String>) -> Self {
        Self {
            out,
            shown,
            begun: Instant::now(),
            total: 0,
            done: 0,
            failed: 0,
            latest: String::new(),
            known,
            terse: false,
            broken: None,
        }
    }

    /// Shows the end. `kept` is the file in which the run is kept.
    ///
    /// # Errors
    /// When `out` could not be written, now or before.
    pub fn finish(mut self, report: &Report, kept: Option<&Path>) -> io::Result<()> {
        let text = match self.shown.format {
            Format::Json => format!("{:#}\n", report.json()),
            Format::Jsonl => format!("{}\n", report.summary()),
            _ => self.ending(report, kept),
        };
        self.write(&text);
        match self.broken {
            // Who reads no more has seen enough.
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }

    /// The end in words.
    fn ending(&self, report: &Report, kept: Option<&Path>) -> String {
        let Shown { brush, detail, .. } = self.shown;
        let columns = self.shown.columns.unwrap_or(NO_TERMINAL);
        let mut out = String::new();
        if self.shown.tells_each() {
            out.push('\n');
            out.push_str(&summary::failed(report));
        } else {
            let warnings = detail != Detail::Quiet;
            out.push_str(&summary::findings(report, warnings, columns, brush));
            out.push_str(&summary::skipped(report, columns));
        }
        out.push_str(&summary::notes(report));
        let has_found = report.results.iter().any(|one| !one.commands.is_empty());
        if let (Some(folder), true) = (kept.and_then(Path::parent), has_found) {
            let folder = from_home(folder);
            let told = format!(
                "csi sanity explain CASE: the commands that show it again; the last {KEPT} runs are in {folder}"
            );
            match self.shown.columns {
                Some(_) => out.push_str(&(told + "\n")),
                None => say!("note: {told}"),
            }
        }
        let colour = match report.is_success() {
            true => Colour::Green,
            false => Colour::Red,
        };
        out.push_str(&brush.paint(colour, &summary::numbers(report)));
        out.push('\n');
        out
    }

    fn write(&mut self, text: &str) {
        if self.broken.is_some() {
            return;
        }
        let clear = if self.shown.is_live() { CLEAR } else { "" };
        let written = write!(self.out, "{clear}{text}").and_then(|()| self.out.flush());
        self.broken = written.err();
    }

    /// Draws the line that tells how far the run is.
    fn draw(&mut self) {
        let Some(columns) = self.shown.columns.filter(|_| self.shown.is_live()) else {
            return;
        };
        let seconds = Duration::from_secs(self.begun.elapsed().as_secs());
        let counts = format!("[{}/{}] ", self.done, self.total);
        let failed = match self.failed {
            0 => String::new(),
            failed => format!("{failed} failed, "),
        };
        let rest = format!("{}, {}", duration::human(seconds), self.latest);
        // A line that fills the terminal would not be replaced.
        let room = columns.saturating_sub(counts.len() + failed.len() + 1);
        let rest = terminal::cut(&rest, room);
        let failed = self.shown.brush.paint(Colour::Red, &failed);
        self.write(&format!("{counts}{failed}{rest}"));
    }

    /// The line of a case.
    fn line(&self, result: &CaseResult) -> String {
        let brush = self.shown.brush;
        let milliseconds = result.took.as_secs_f64() * 1000.0;
        let time = format!("{milliseconds:8.1} ms");
        let name = &result.name;
        let (sign, colour) = match &result.outcome {
            CaseOutcome::Passed if result.is_warned() => ("??", Colour::Yellow),
            CaseOutcome::Passed => ("ok", Colour::Green),
            CaseOutcome::Failed if self.known.contains(name) => ("~~", Colour::Dim),
            CaseOutcome::Failed => ("!!", Colour::Red),
            CaseOutcome::Skipped => ("--", Colour::Dim),
        };
        let end = match &result.reason {
            Some(why) => format!(" skipped: {}", escaped(why)),
            None if sign == "~~" => " known to fail".to_owned(),
            None => time,
        };
        format!("{} {name:NAME_WIDTH$} {end}\n", brush.paint(colour, sign))
    }
}

impl<W: Write> Observer for Progress<W> {
    fn begins(&mut self, plan: &Plan<'_>) {
        self.total = plan.cases;
        let (name, version) = plan.driver;
        match self.shown.format {
            Format::Json => {}
            Format::Jsonl => {
                let line = object!({"driver": name, "version": version, "endpoint": plan.endpoint,
                    "cases": plan.cases, "seed": plan.seed.to_string()});
                self.write(&format!("{line}\n"));
            }
            _ if self.shown.detail == Detail::Quiet => {}
            _ => {
                let name = if name.is_empty() {
                    "(a driver without a name)"
                } else {
                    name
                };
                let text = format!(
                    "{} at {}: {}, {} at a time, seed {}\n",
                    escaped(format!("{name} {version}").trim_end()),
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
        name.clone_into(&mut self.latest);
        self.draw();
    }

    fn case_ended(&mut self, result: &CaseResult) {
        self.done += 1;
        let is_known = self.known.contains(&result.name);
        self.failed += usize::from(result.is_failed() && !is_known);
        match self.shown.format {
            Format::Json => {}
            Format::Jsonl => self.write(&format!("{}\n", object!(result))),
            format => {
                let mut text = self.line(result);
                if result.has_finding() && !is_known {
                    text.push_str(&match format {
                        Format::Github => result.whole() + &annotations(result),
                        _ => result.brief(self.shown.columns),
                    });
                }
                self.terse |= result.is_failed() && result.name == MAKE_AND_REMOVE;
                if self.shown.tells_each() && (!self.terse || result.is_failed()) {
                    self.write(&text);
                }
                self.draw();
            }
        }
    }

    fn note(&mut self, text: &str) {
        if self.shown.is_live() {
            self.write("");
        }
        say!("note: {}", escaped(text));
    }
}

/// A folder as a user writes it.
fn from_home(folder: &Path) -> String {
    let home = std::env::home_dir().filter(|home| home.is_absolute());
    match home.and_then(|home| Some(folder.strip_prefix(home).ok()?.to_owned())) {
        Some(rest) => format!("~/{}", rest.display()),
        None => folder.display().to_string(),
    }
}

/// What was found in a case, as GitHub's workflow commands.
fn annotations(result: &CaseResult) -> String {
    let (name, mut out) = (&result.name, String::new());
    for (recommended, failure) in result.evidence() {
        let level = match recommended {
            true => "warning",
            false => "error",
        };
        // Line ends are escaped, so that a driver can end no command. A % begins an escape of GitHub's.
        let text = format!("{}. Expected: {failure}", result.sentence);
        let text = escaped(&text).replace('%', "%25");
        let _ = writeln!(out, "::{level} title={name}::{text}");
    }
    out
}

/// The list of cases in a format of output; for people where the format is one of tables.
pub fn list(cases: &[&Case], format: Format) -> String {
    let mut out = String::new();
    match format {
        Format::Json => {
            let cases: Vec<_> = cases.iter().map(|case| json(case)).collect();
            let _ = writeln!(out, "{:#}", Json::from(cases));
        }
        Format::Jsonl => cases.iter().for_each(|case| {
            let _ = writeln!(out, "{}", json(case));
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

/// A case, as the list of cases has it.
fn json(case: &Case) -> Json {
    let needs: Vec<_> = case.needs.iter().map(|need| need.name()).collect();
    object!({
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
        for result in self.results.iter().filter(|one| one.has_finding()) {
            f.write_str(&result.whole())?;
        }
        writeln!(f, "{}", summary::summary(self))
    }
}
