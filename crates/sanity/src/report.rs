//! The results of a run: one value, which is also its JSON in files and on stdout. `summary.rs`, `junit.rs`, `page.rs` and
//! `print.rs` show it, `kept.rs` keeps it and reads it again.

use super::call_times::CallTimes;
use super::case::Case;
use super::verdict::{Failure, Stop, Verdict};
use csi_output::figure;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Value as Json, json};
use std::collections::BTreeSet;
use std::time::Duration;

/// The results of a run.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The driver's name.
    pub driver: String,
    /// The driver's version.
    pub version: String,
    /// The endpoint.
    pub endpoint: String,
    /// The version of the specification.
    pub specification: String,
    /// The prefix of all names that the run gave.
    pub run: String,
    /// The seed that makes the same order and the same choices.
    #[serde(serialize_with = "text", skip_deserializing)]
    pub seed: u64,
    /// The results, in the order of the list of cases.
    pub results: Vec<CaseResult>,
    /// The names of the cases that are known to fail.
    #[serde(skip)]
    pub known: BTreeSet<String>,
    /// Why the run ended before all cases had run.
    #[serde(skip)]
    pub cut_short: Option<String>,
    /// Why the run is incomplete though it did not end early, in sentences: what could not be tried, what is left.
    #[serde(skip)]
    pub incomplete: Vec<String>,
    /// The duration of the run.
    #[serde(skip)]
    pub took: Duration,
    /// The driver's part of it.
    #[serde(skip)]
    pub times: CallTimes,
}

/// The result of one case.
#[derive(Clone, Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
#[non_exhaustive]
pub struct CaseResult {
    /// The name; a case that runs for each access type has one with `@block` for that.
    pub name: String,
    /// The end of the case.
    pub outcome: CaseOutcome,
    /// The rule as a sentence without its full stop.
    pub sentence: String,
    /// The heading of the specification under which it stands.
    pub section: String,
    /// The duration of the case, without taking down what it made.
    #[serde(
        rename = "milliseconds",
        serialize_with = "milliseconds",
        skip_deserializing
    )]
    pub took: Duration,
    /// How the driver broke the rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub failure: Option<Failure>,
    /// Why the case was skipped.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The failed case that this one depends on, where that kept it from what it is about. It is skipped then.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rests_on: Option<String>,
    /// Recommendations of the specification that the driver does not follow.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Failure>,
    /// Command lines that do the same again; only where something was found.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub commands: Vec<String>,
}

fn text<S: Serializer>(number: &u64, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(number)
}

fn milliseconds<S: Serializer>(time: &Duration, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(figure::milliseconds(*time))
}

impl CaseResult {
    /// The result of a case, or of its run of that name, that ended so.
    pub(super) fn of(case: &Case, name: String, end: Verdict) -> Self {
        let (outcome, failure, reason) = match end {
            Ok(()) => (CaseOutcome::Passed, None, None),
            Err(Stop::Failed(failure)) => (CaseOutcome::Failed, Some(failure), None),
            Err(Stop::Skipped(reason) | Stop::Barred(reason) | Stop::Unjudged(_, reason)) => {
                (CaseOutcome::Skipped, None, Some(reason))
            }
        };
        Self {
            name,
            outcome,
            sentence: case.sentence.clone(),
            section: case.section.clone(),
            failure,
            reason,
            ..Self::default()
        }
    }

    /// Whether the case failed.
    pub fn is_failed(&self) -> bool {
        self.outcome == CaseOutcome::Failed
    }

    /// Whether the case passed with warnings.
    pub fn is_warned(&self) -> bool {
        self.outcome == CaseOutcome::Passed && !self.warnings.is_empty()
    }

    /// Takes the case for one that shows nothing.
    pub(super) fn skip(&mut self, reason: String) {
        (self.outcome, self.failure, self.reason) = (CaseOutcome::Skipped, None, Some(reason));
        self.commands.clear();
        self.warnings.clear();
    }
}

/// The end of a case.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CaseOutcome {
    /// The driver keeps the rule.
    #[default]
    Passed,
    /// The driver breaks the rule.
    Failed,
    /// The rule cannot be tested here.
    Skipped,
}

impl CaseOutcome {
    /// The word for it in text; JSON has the same.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Passed => "passed",
            Self::Failed => "failed",
            Self::Skipped => "skipped",
        }
    }
}

/// The numbers of cases by their ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Passed, with and without warnings.
    pub passed: usize,
    /// Failed.
    pub failed: usize,
    /// Skipped.
    pub skipped: usize,
    /// Passed with warnings.
    pub warned: usize,
}

impl Report {
    /// The whole run as JSON.
    pub(super) fn json(&self) -> Json {
        let mut run = json!(self);
        run["summary"] = self.summary();
        run
    }

    /// The numbers of the run as JSON.
    pub(super) fn summary(&self) -> Json {
        let counts = self.counts();
        let slow = self.times.slow().into_iter();
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
            "known": self.known_failures(),
            "mended": self.mended().collect::<Vec<_>>(),
            "skipped": counts.skipped,
            "cutShort": self.cut_short,
            "incomplete": self.incomplete,
            "seconds": figure::seconds(self.took),
            "driverSeconds": figure::seconds(self.times.busy()),
            "slow": slow.collect::<Vec<_>>(),
        })
    }

    /// The numbers of cases by their ends.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for result in &self.results {
            match result.outcome {
                CaseOutcome::Passed => counts.passed += 1,
                CaseOutcome::Failed => counts.failed += 1,
                CaseOutcome::Skipped => counts.skipped += 1,
            }
            counts.warned += usize::from(result.is_warned());
        }
        counts
    }

    /// Takes the failures of a list for known. What they keep from being judged is as little known as what could not be tried, unless
    /// the list names it, too.
    pub fn knows(&mut self, known: BTreeSet<String>) {
        let is_open = |one: &&CaseResult| {
            let base = one.rests_on.as_ref().filter(|on| known.contains(*on));
            base.is_some() && !known.contains(&one.name)
        };
        let open = self.results.iter().filter(is_open).count();
        if open > 0 {
            let cases = figure::counted(open, "case");
            self.incomplete.push(format!(
                "known failures keep {cases} from being judged that the list does not name: --write-known-failures names them"
            ));
        }
        self.known = known;
    }

    /// Whether every case that could run has passed, or failed as is known, and the run is complete.
    pub fn is_success(&self) -> bool {
        self.is_complete() && self.new_failures().next().is_none()
    }

    /// Whether all could be tried, and nothing is left of it.
    pub fn is_complete(&self) -> bool {
        self.cut_short.is_none() && self.incomplete.is_empty()
    }

    /// The failures by their causes: what was expected and what came instead, with the results of the cases. Ids and
    /// names of things, which differ from case to case, do not tell causes apart.
    pub fn causes(&self) -> Vec<(&Failure, Vec<&CaseResult>)> {
        let mut causes: Vec<(String, &Failure, Vec<&CaseResult>)> = Vec::new();
        for result in self.new_failures() {
            let Some(failure) = &result.failure else {
                continue;
            };
            let key = self.without_names(&failure.expected) + &self.without_names(&failure.actual);
            match causes.iter_mut().find(|(known, ..)| *known == key) {
                Some((_, _, results)) => results.push(result),
                None => causes.push((key, failure, vec![result])),
            }
        }
        let causes = causes.into_iter();
        Vec::from_iter(causes.map(|(_, failure, results)| (failure, results)))
    }

    /// A text without the names that this run gave, and without words with digits.
    fn without_names(&self, text: &str) -> String {
        let mut parts = text.split(self.run.as_str());
        let mut out = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            out.push_str(part.trim_start_matches(|c: char| c == '-' || c.is_ascii_digit()));
        }
        // An id, or a part of one.
        let words = out.split_inclusive(|letter: char| !letter.is_alphanumeric());
        let is_word = |word: &&str| !word.contains(|letter: char| letter.is_ascii_digit());
        words.filter(is_word).collect()
    }

    /// The cases that failed and are not known to.
    pub(super) fn new_failures(&self) -> impl Iterator<Item = &CaseResult> {
        let results = self.results.iter();
        results.filter(|one| one.is_failed() && !self.known.contains(&one.name))
    }

    /// The number of cases that failed as is known.
    pub fn known_failures(&self) -> usize {
        self.failed().count() - self.new_failures().count()
    }

    /// The names of the cases that are known to fail and passed.
    pub fn mended(&self) -> impl Iterator<Item = &str> {
        let passed = self.results.iter();
        let passed = passed.filter(|one| one.outcome == CaseOutcome::Passed);
        let names = passed.map(|one| one.name.as_str());
        names.filter(|name| self.known.contains(*name))
    }

    /// The names of the cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &str> {
        let failed = self.results.iter().filter(|result| result.is_failed());
        failed.map(|result| result.name.as_str())
    }
}
