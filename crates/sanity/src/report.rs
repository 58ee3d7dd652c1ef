//! The results of a run, as plain data. `print.rs` and `junit.rs` print them.

use super::call_times::CallTimes;
use super::case::Case;
use super::settings::Access;
use super::verdict::Failure;
use csi_call::secrets::masked;
use std::collections::BTreeSet;
use std::time::Duration;

/// The results of a run.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Report {
    /// The driver's name.
    pub driver: String,
    /// The driver's version.
    pub version: String,
    /// The endpoint.
    pub endpoint: String,
    /// The prefix of all names that the run gave.
    pub run: String,
    /// The seed that makes the same order and the same choices.
    pub seed: u64,
    /// The results, in the order of the list of cases.
    pub results: Vec<CaseResult>,
    /// The names of the cases that are known to fail.
    pub known: BTreeSet<String>,
    /// Why the run ended before all cases had run.
    pub cut_short: Option<String>,
    /// Why the run is incomplete though it did not end early, in sentences: what could not be tried, what is left.
    pub incomplete: Vec<String>,
    /// The duration of the run.
    pub took: Duration,
    /// The driver's part of it.
    pub times: CallTimes,
}

/// The result of one case.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CaseResult {
    /// The case.
    pub case: &'static Case,
    /// The name; a case that runs for each access type has one with `@block` for that.
    pub name: String,
    /// The end of the case.
    pub outcome: CaseOutcome,
    /// The failed case that this one rests on, where that kept it from what it is about. It is skipped then.
    pub rests_on: Option<String>,
    /// Recommendations of the specification that the driver does not follow.
    pub warnings: Vec<Failure>,
    /// Command lines that do the same again; only where something was found.
    pub commands: Vec<String>,
    /// The duration of the case, without taking down what it made.
    pub took: Duration,
}

impl CaseResult {
    /// Whether the case failed.
    pub fn is_failed(&self) -> bool {
        self.failure().is_some()
    }

    /// How the driver broke the rule.
    pub(super) fn failure(&self) -> Option<&Failure> {
        match &self.outcome {
            CaseOutcome::Failed(failure) => Some(failure),
            _ => None,
        }
    }

    /// Whether the case passed with warnings.
    pub fn is_warned(&self) -> bool {
        self.outcome == CaseOutcome::Passed && !self.warnings.is_empty()
    }

    /// Takes the case for one that shows nothing.
    pub(super) fn skip(&mut self, reason: String) {
        self.outcome = CaseOutcome::Skipped(reason);
        self.commands.clear();
        self.warnings.clear();
    }
}

/// The end of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CaseOutcome {
    /// The driver keeps the rule.
    Passed,
    /// The driver breaks the rule.
    Failed(Failure),
    /// The rule cannot be tested here; the text says why.
    Skipped(String),
}

impl CaseOutcome {
    /// The same with secrets masked that a driver has repeated.
    pub(super) fn masked(self, secrets: &[String]) -> Self {
        match self {
            Self::Passed => Self::Passed,
            Self::Failed(failure) => Self::Failed(failure.masked(secrets)),
            Self::Skipped(reason) => Self::Skipped(masked(&reason, secrets).into_owned()),
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
    /// The numbers of cases by their ends.
    pub fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for result in &self.results {
            match result.outcome {
                CaseOutcome::Passed => counts.passed += 1,
                CaseOutcome::Failed(_) => counts.failed += 1,
                CaseOutcome::Skipped(_) => counts.skipped += 1,
            }
            counts.warned += usize::from(result.is_warned());
        }
        counts
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
            let Some(failure) = result.failure() else {
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

/// What ends the name of a case's run for block.
const OF_BLOCK: &str = "@block";

/// The name of a case's run for an access type.
pub(super) fn instance_name(case: &Case, access: Access) -> String {
    match access {
        Access::Mount => case.name.clone(),
        Access::Block => format!("{}{OF_BLOCK}", case.name),
    }
}

/// The case with this name, or with a run of this name.
pub(super) fn case_named(name: &str) -> Option<&'static Case> {
    let name = name.strip_suffix(OF_BLOCK).unwrap_or(name);
    super::cases().find(|case| case.name == name)
}
