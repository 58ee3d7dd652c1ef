//! The results of a run, as plain data. `print.rs` and `junit.rs` print them.

use super::case::Case;
use super::settings::Access;
use super::verdict::Failure;
use std::time::Duration;

/// The number of equal failures from which they count as having one cause.
const COMMON_FROM: usize = 5;

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
    /// Why the run ended before all cases had run.
    pub cut_short: Option<String>,
    /// The duration of the run.
    pub took: Duration,
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
    /// Recommendations of the specification that the driver does not follow.
    pub warnings: Vec<Failure>,
    /// Command lines that do the same again; only where something was found.
    pub commands: Vec<String>,
    /// The duration of the case, without taking down what it made.
    pub took: Duration,
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
            let warned = !result.warnings.is_empty() && result.outcome == CaseOutcome::Passed;
            counts.warned += usize::from(warned);
        }
        counts
    }

    /// Whether every case that could run has passed, and all could be tried.
    pub fn is_success(&self) -> bool {
        self.cut_short.is_none() && self.counts().failed == 0
    }

    /// The failure that more than half of the failed cases have alike, and how many do: what the driver was sent is
    /// wrong, rather than what it did. `None` where few failed.
    pub fn common_failure(&self) -> Option<(&Failure, usize)> {
        let failures = self.results.iter().filter_map(|one| match &one.outcome {
            CaseOutcome::Failed(failure) => Some(failure),
            _ => None,
        });
        let mut counts: Vec<(&Failure, usize)> = Vec::new();
        for failure in failures {
            match counts.iter_mut().find(|(known, _)| *known == failure) {
                Some((_, count)) => *count += 1,
                None => counts.push((failure, 1)),
            }
        }
        let failed: usize = counts.iter().map(|(_, count)| count).sum();
        let most = counts.into_iter().max_by_key(|(_, count)| *count)?;
        (most.1 >= COMMON_FROM && 2 * most.1 > failed).then_some(most)
    }

    /// The names of the cases that failed.
    pub fn failed(&self) -> impl Iterator<Item = &str> {
        let failed = self.results.iter();
        let failed = failed.filter(|result| matches!(result.outcome, CaseOutcome::Failed(_)));
        failed.map(|result| result.name.as_str())
    }
}

/// The name of a case's run for an access type.
pub(super) fn instance_name(case: &Case, access: Access) -> String {
    match access {
        Access::Mount => case.name.clone(),
        Access::Block => format!("{}@block", case.name),
    }
}
