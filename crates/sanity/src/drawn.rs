//! A run as the data of a page, which `output::page` draws.

use super::finding::Finding;
use super::report::{CaseOutcome, CaseResult, Report};
use csi_output::page::cases::{CaseEnd, CasesRun, Evidence, ShownCase};

/// The run.
pub fn run(report: &Report) -> CasesRun {
    let causes = report.causes().into_iter().map(|(failure, names)| {
        let names = names.into_iter().map(|one| one.name.clone()).collect();
        (failure.expected.clone(), failure.actual.clone(), names)
    });
    CasesRun {
        driver: report.driver.clone(),
        version: report.version.clone(),
        endpoint: report.endpoint.clone(),
        seed: report.seed,
        took: report.took,
        cut_short: report.cut_short.clone(),
        causes: causes.collect(),
        cases: report
            .results
            .iter()
            .map(|result| case(result, report))
            .collect(),
    }
}

fn case(result: &CaseResult, report: &Report) -> ShownCase {
    let found = Finding::of(result).into_iter().flat_map(Finding::evidence);
    let evidence = found.map(|(recommended, failure)| Evidence {
        recommended,
        expected: failure.expected.clone(),
        actual: failure.actual.clone(),
    });
    ShownCase {
        name: result.name.clone(),
        sentence: result.case.sentence.to_string(),
        section: result.case.section.to_string(),
        end: end(result, report),
        reason: match &result.outcome {
            CaseOutcome::Skipped(reason) => reason.clone(),
            _ => String::new(),
        },
        took: result.took,
        evidence: evidence.collect(),
        commands: result.commands.clone(),
    }
}

fn end(result: &CaseResult, report: &Report) -> CaseEnd {
    match &result.outcome {
        CaseOutcome::Failed(_) if report.known.contains(&result.name) => CaseEnd::Known,
        CaseOutcome::Failed(_) => CaseEnd::Failed,
        CaseOutcome::Passed if !result.warnings.is_empty() => CaseEnd::Warned,
        CaseOutcome::Passed => CaseEnd::Passed,
        CaseOutcome::Skipped(_) => CaseEnd::Skipped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::Failure;
    use std::time::Duration;

    #[test]
    fn every_end_of_a_case_has_its_own_on_the_page() {
        let failure = |text: &str| Failure::new(text, text);
        let cases: Vec<_> = crate::cases().take(6).collect();
        let result = |index: usize, outcome: CaseOutcome, warnings: Vec<Failure>| CaseResult {
            case: cases[index],
            name: cases[index].name.clone(),
            outcome,
            warnings,
            rests_on: None,
            commands: Vec::new(),
            took: Duration::ZERO,
        };
        let failed = || CaseOutcome::Failed(failure("a"));
        let report = Report {
            driver: String::new(),
            version: String::new(),
            endpoint: String::new(),
            run: "run".to_owned(),
            seed: 1,
            results: vec![
                result(0, CaseOutcome::Passed, Vec::new()),
                result(1, CaseOutcome::Passed, vec![failure("b")]),
                result(2, failed(), vec![failure("a"), failure("b")]),
                result(3, failed(), Vec::new()),
                result(4, CaseOutcome::Skipped("why".to_owned()), Vec::new()),
            ],
            known: [cases[3].name.clone()].into(),
            cut_short: None,
            incomplete: Vec::new(),
            took: Duration::ZERO,
            times: Default::default(),
        };
        let run = run(&report);
        let found: Vec<_> = run
            .cases
            .iter()
            .map(|case| (case.end, case.evidence.len(), case.reason.as_str()))
            .collect();
        assert_eq!(
            found,
            [
                (CaseEnd::Passed, 0, ""),
                (CaseEnd::Warned, 1, ""),
                (CaseEnd::Failed, 2, ""),
                (CaseEnd::Known, 1, ""),
                (CaseEnd::Skipped, 0, "why"),
            ]
        );
        assert_eq!(run.causes.len(), 1);
    }
}
