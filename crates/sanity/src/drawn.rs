//! A run as the data of a page, which `output::page` draws.

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
    let evidence = result.evidence().map(|(recommended, failure)| Evidence {
        recommended,
        expected: failure.expected.clone(),
        actual: failure.actual.clone(),
    });
    ShownCase {
        name: result.name.clone(),
        sentence: result.sentence.clone(),
        section: result.section.clone(),
        end: end(result, report),
        reason: result.reason.clone().unwrap_or_default(),
        took: result.took,
        evidence: evidence.collect(),
        commands: result.commands.clone(),
    }
}

fn end(result: &CaseResult, report: &Report) -> CaseEnd {
    match result.outcome {
        CaseOutcome::Failed if report.known.contains(&result.name) => CaseEnd::Known,
        CaseOutcome::Failed => CaseEnd::Failed,
        CaseOutcome::Passed if !result.warnings.is_empty() => CaseEnd::Warned,
        CaseOutcome::Passed => CaseEnd::Passed,
        CaseOutcome::Skipped => CaseEnd::Skipped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::{Failure, Stop};

    #[test]
    fn every_end_of_a_case_has_its_own_on_the_page() {
        let failure = |text: &str| Failure::new(text, text);
        let cases: Vec<_> = crate::cases().take(6).collect();
        let result = |index: usize, end, warnings| CaseResult {
            warnings,
            ..CaseResult::of(cases[index], cases[index].name.clone(), end)
        };
        let failed = || Err(Stop::Failed(failure("a")));
        let report = Report {
            run: "run".to_owned(),
            results: vec![
                result(0, Ok(()), Vec::new()),
                result(1, Ok(()), vec![failure("b")]),
                result(2, failed(), vec![failure("a"), failure("b")]),
                result(3, failed(), Vec::new()),
                result(4, Err(Stop::skipped("why")), Vec::new()),
            ],
            known: [cases[3].name.clone()].into(),
            ..Report::default()
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
