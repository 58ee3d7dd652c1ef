//! The page of a run: its cases by group, each with its rule, the evidence against the driver, and the commands that show it
//! again.

use super::report::{CaseOutcome, CaseResult, Report};
use super::verdict::{Failure, list_text};
use csi_output::figure;
use csi_output::load::time;
use csi_output::page::{CASES_SCRIPT, Page, filter};
use maud::{Markup, html};
use serde_json::json;
use std::collections::BTreeMap;

/// The end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum CaseEnd {
    /// The driver breaks the rule.
    Failed,
    /// It does, as is known.
    Known,
    /// It keeps the rule, and not all recommendations.
    Warned,
    /// It keeps the rule.
    Passed,
    /// The rule could not be tried.
    Skipped,
}

impl CaseEnd {
    /// All of them, the worst first.
    const ALL: [Self; 5] = [
        Self::Failed,
        Self::Known,
        Self::Warned,
        Self::Passed,
        Self::Skipped,
    ];

    /// The name, the words for so many of them, and the sign.
    fn wording(self) -> (&'static str, &'static str, &'static str) {
        match self {
            Self::Failed => ("failed", "failed", "✗"),
            Self::Known => ("known", "known to fail", "~"),
            Self::Warned => ("warned", "with warnings", "!"),
            Self::Passed => ("passed", "passed", "✓"),
            Self::Skipped => ("skipped", "skipped", "–"),
        }
    }

    fn name(self) -> &'static str {
        self.wording().0
    }

    fn words(self) -> &'static str {
        self.wording().1
    }

    /// Whether one wants to see it before all others.
    fn is_found(self) -> bool {
        matches!(self, Self::Failed | Self::Warned)
    }

    /// That of a result, of a run that knows some failures.
    fn of(result: &CaseResult, report: &Report) -> Self {
        match result.outcome {
            CaseOutcome::Failed if report.known.contains(&result.name) => Self::Known,
            CaseOutcome::Failed => Self::Failed,
            CaseOutcome::Passed if result.is_warned() => Self::Warned,
            CaseOutcome::Passed => Self::Passed,
            CaseOutcome::Skipped => Self::Skipped,
        }
    }
}

/// A case of the page.
type Shown<'a> = (CaseEnd, &'a CaseResult);

/// The page.
pub fn page(report: &Report) -> Page {
    let cases = report.results.iter();
    let cases: Vec<Shown<'_>> = cases
        .map(|result| (CaseEnd::of(result, report), result))
        .collect();
    let ends = counts(&cases);
    let kinds: Vec<_> = CaseEnd::ALL
        .map(|end| (end.name(), end.words(), ends[&end]))
        .to_vec();
    let (driver, version, seed) = (&report.driver, &report.version, report.seed.to_string());
    let name = match driver.as_str() {
        "" => "a driver without a name",
        name => name,
    };
    Page {
        tool: "csi sanity",
        title: format!("{name} {version}").trim_end().to_owned(),
        facts: vec![
            ("Endpoint", report.endpoint.clone()),
            ("Specification", format!("CSI {}", csi_proto::SPEC_VERSION)),
            ("Cases", cases.len().to_string()),
            ("Took", time(report.took)),
            ("Seed", seed.clone()),
        ],
        body: html! {
            (verdict(report, &ends))
            (filter("Search names, rules and evidence", &kinds))
            @for (group, cases) in groups(&cases) { (self::group(group, &cases)) }
            p.none.muted hidden { "No case fits." }
        },
        data: json!({
            "driver": driver, "version": version, "endpoint": report.endpoint, "seed": seed,
            "cases": cases.iter().map(|(end, case)| json!({
                "name": case.name, "end": end.name(), "evidence": case.evidence().count(), "commands": case.commands,
                "milliseconds": figure::milliseconds(case.took),
            })).collect::<Vec<_>>(),
        }),
        script: CASES_SCRIPT,
    }
}

/// The numbers of cases by their ends, with 0 for an end that none has.
fn counts(cases: &[Shown<'_>]) -> BTreeMap<CaseEnd, usize> {
    let mut counts: BTreeMap<_, _> = CaseEnd::ALL.map(|end| (end, 0)).into();
    for (end, _) in cases {
        *counts.entry(*end).or_default() += 1;
    }
    counts
}

/// The cases by the part of their names before the last `/`, in the order of their first; what was found before the rest.
fn groups<'a>(cases: &[Shown<'a>]) -> Vec<(&'a str, Vec<Shown<'a>>)> {
    let mut groups: Vec<(&str, Vec<Shown<'_>>)> = Vec::new();
    for &(end, case) in cases {
        let group = case.name.rsplit_once('/').map_or("", |(group, _)| group);
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, cases)) => cases.push((end, case)),
            None => groups.push((group, vec![(end, case)])),
        }
    }
    let is_found = |(end, _): &Shown<'_>| end.is_found();
    for (_, cases) in &mut groups {
        cases.sort_by_key(|case| !is_found(case));
    }
    groups.sort_by_key(|(_, cases)| !cases.iter().any(is_found));
    groups
}

/// What came of all: a bar of the ends, the numbers, and the failures by their causes.
fn verdict(report: &Report, ends: &BTreeMap<CaseEnd, usize>) -> Markup {
    html! {
        section {
            (bar(ends))
            p.keys {
                @for end in CaseEnd::ALL.iter().filter(|end| ends[*end] > 0) {
                    span.key.(end.name()) { b { (ends[end]) } " " (end.words()) } " "
                }
            }
            @if let Some(reason) = &report.cut_short { p.note { "The run ended early: " (reason) } }
            @for (failure, alike) in report.causes().iter().filter(|(_, alike)| alike.len() > 1) {
                div.cause {
                    p { b { (alike.len()) } " failures are alike:" }
                    (evidence(false, failure))
                    p.muted.text { (list_text(alike.iter().map(|one| &one.name))) }
                }
            }
        }
    }
}

/// The ends as parts of one bar.
fn bar(ends: &BTreeMap<CaseEnd, usize>) -> Markup {
    let total: usize = ends.values().sum();
    html! {
        div.ends {
            @for (end, count) in ends.iter().filter(|(_, count)| **count > 0) {
                span.(end.name()) style={ "flex-grow:" (count) } title={ (count) " of " (total) " " (end.words()) } {}
            }
        }
    }
}

fn group(name: &str, cases: &[Shown<'_>]) -> Markup {
    let ends = counts(cases);
    let open = cases.iter().any(|(end, _)| end.is_found());
    html! {
        details.group open[open] {
            summary {
                h2 { (name) }
                span.muted {
                    @for (index, end) in CaseEnd::ALL.iter().filter(|end| ends[*end] > 0).enumerate() {
                        @if index > 0 { ", " }
                        span.(end.name()) { (ends[end]) " " (end.words()) }
                    }
                }
                (bar(&ends))
            }
            @for (end, case) in cases { (self::case(*end, case)) }
        }
    }
}

fn case(end: CaseEnd, case: &CaseResult) -> Markup {
    let own = case.name.rsplit('/').next().unwrap_or_default();
    html! {
        details.item.case.(end.name()) data-kinds=(end.name()) data-name=(case.name) open[end.is_found()] {
            summary {
                span.sign title=(end.words()) { (end.wording().2) }
                span.name { (own) }
                @match end {
                    CaseEnd::Skipped => { span.muted.why { (case.reason.as_deref().unwrap_or_default()) } }
                    _ => { span.muted.n { (time(case.took)) } }
                }
            }
            div.inside {
                p { (case.sentence) "." }
                p.muted { "CSI " (csi_proto::SPEC_VERSION) ", section “" (case.section) "”" }
                @for (recommended, failure) in case.evidence() { (evidence(recommended, failure)) }
                @if !case.commands.is_empty() {
                    p.muted { "To see it again:" }
                    pre { (case.commands.join("\n")) }
                }
            }
        }
    }
}

fn evidence(recommended: bool, failure: &Failure) -> Markup {
    html! {
        dl.evidence {
            dt { @if recommended { "Recommended" } @else { "Expected" } } dd.text { (failure.expected) }
            dt { "But" } dd.text { (failure.actual) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a driver may say.
    const HOSTILE: &str = "</script><details open><!-- \"'&amp; \u{202e}";

    fn result_of(name: &str, outcome: CaseOutcome) -> CaseResult {
        CaseResult {
            name: name.to_owned(),
            outcome,
            reason: Some(HOSTILE.to_owned()),
            commands: vec![HOSTILE.to_owned()],
            ..CaseResult::default()
        }
    }

    /// A report with a case for each end: `failed/x`, `known/x` and so on.
    fn report() -> Report {
        let failure = |text: &str| Failure::new(format!("{HOSTILE}{text}"), HOSTILE);
        let failed = |name| CaseResult {
            failure: Some(failure("a")),
            ..result_of(name, CaseOutcome::Failed)
        };
        Report {
            driver: HOSTILE.to_owned(),
            run: "run".to_owned(),
            cut_short: Some(HOSTILE.to_owned()),
            results: vec![
                CaseResult {
                    warnings: vec![failure("a"), failure("b")],
                    ..failed("failed/x")
                },
                failed("known/x"),
                CaseResult {
                    warnings: vec![failure("b")],
                    ..result_of("warned/x", CaseOutcome::Passed)
                },
                result_of("passed/x", CaseOutcome::Passed),
                result_of("skipped/x", CaseOutcome::Skipped),
            ],
            known: ["known/x".to_owned()].into(),
            ..Report::default()
        }
    }

    #[test]
    fn every_end_of_a_case_has_its_own_on_the_page() {
        let page = page(&report());
        let cases = page.data["cases"].as_array().unwrap().iter();
        let found: Vec<_> = cases
            .map(|case| (case["end"].as_str().unwrap(), case["evidence"].as_u64()))
            .collect();
        let expected = CaseEnd::ALL.map(CaseEnd::name).into_iter();
        let expected: Vec<_> = expected.zip([2, 1, 1, 0, 0].map(Some)).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn cases_stand_in_groups_in_their_order() {
        let names = ["a/b/one", "a/b/two", "c/three", "a/b/four", "five"];
        let results = names.map(|name| result_of(name, CaseOutcome::Passed));
        let mut cases = Vec::from_iter(results.iter().map(|one| (CaseEnd::Passed, one)));
        let first = |cases: &[Shown<'_>]| {
            let groups = groups(cases);
            (groups[0].0.to_owned(), groups[0].1[0].1.name.clone())
        };
        cases[3].0 = CaseEnd::Failed;
        assert_eq!(first(&cases), ("a/b".to_owned(), "a/b/four".to_owned()));
        cases[3].0 = CaseEnd::Passed;
        cases[4].0 = CaseEnd::Warned;
        assert_eq!(first(&cases), (String::new(), "five".to_owned()));
        cases[4].0 = CaseEnd::Skipped;
        let groups = groups(&cases);
        let found: Vec<_> = groups
            .iter()
            .map(|(name, cases)| (*name, cases.len()))
            .collect();
        assert_eq!(found, [("a/b", 3), ("c", 1), ("", 1)]);
    }

    #[test]
    fn what_was_found_is_open_and_the_rest_is_one_click_away() {
        let document = page(&report()).document("n0nce");
        let details = document.split("<details ").skip(1);
        let open: Vec<_> = details
            .map(|one| one.split('>').next().unwrap().ends_with(" open"))
            .collect();
        // A group and its case, for each end; the known failure stands behind the warning.
        assert_eq!(open, [[true; 4].as_slice(), &[false; 6]].concat());
    }
}
