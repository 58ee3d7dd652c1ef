//! The page of a check of a driver: its cases by group, each with its rule, the evidence against the driver, and the
//! commands that show it again.

use super::{Page, filter};
use crate::figure;
use crate::load::time;
use maud::{Markup, html};
use serde_json::json;
use std::collections::BTreeMap;
use std::time::Duration;

pub(super) const SCRIPT: &str = include_str!("cases.js");

/// A run, as it is shown.
#[derive(Debug, Default)]
pub struct CasesRun {
    /// The driver's name; untrusted text.
    pub driver: String,
    /// The driver's version; untrusted text.
    pub version: String,
    /// The endpoint.
    pub endpoint: String,
    /// What makes the same order and choices.
    pub seed: u64,
    /// The duration.
    pub took: Duration,
    /// Why it ended before all cases had run.
    pub cut_short: Option<String>,
    /// Failures that are alike: what was expected, what came, and the names of their cases.
    pub causes: Vec<(String, String, Vec<String>)>,
    /// The cases, in the order of their list.
    pub cases: Vec<ShownCase>,
}

/// A case.
#[derive(Debug)]
pub struct ShownCase {
    /// The name, with its group before the last `/`.
    pub name: String,
    /// The rule.
    pub sentence: String,
    /// The heading of the specification.
    pub section: String,
    /// The end.
    pub end: CaseEnd,
    /// Why it was skipped; nothing otherwise.
    pub reason: String,
    /// The duration.
    pub took: Duration,
    /// What was found; untrusted text.
    pub evidence: Vec<Evidence>,
    /// Command lines that show it again.
    pub commands: Vec<String>,
}

/// Something that the driver did otherwise.
#[derive(Debug)]
pub struct Evidence {
    /// Whether the specification only recommends it.
    pub recommended: bool,
    /// What the specification says.
    pub expected: String,
    /// What the driver did.
    pub actual: String,
}

/// The end of a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum CaseEnd {
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
}

/// The page.
pub fn page(run: &CasesRun) -> Page {
    let ends = counts(run.cases.iter());
    let kinds: Vec<_> = CaseEnd::ALL
        .map(|end| (end.name(), end.words(), ends[&end]))
        .to_vec();
    let name = if run.driver.is_empty() {
        "a driver without a name"
    } else {
        &run.driver
    };
    Page {
        tool: "csi sanity",
        title: format!("{name} {}", run.version).trim_end().to_owned(),
        facts: vec![
            ("Endpoint", run.endpoint.clone()),
            ("Specification", format!("CSI {}", csi_proto::SPEC_VERSION)),
            ("Cases", run.cases.len().to_string()),
            ("Took", time(run.took)),
            ("Seed", run.seed.to_string()),
        ],
        body: html! {
            (verdict(run, &ends))
            (filter("Search names, rules and evidence", &kinds))
            @for (group, cases) in groups(&run.cases) { (self::group(group, &cases)) }
            p.none.muted hidden { "No case fits." }
        },
        data: json!({
            "driver": run.driver, "version": run.version, "endpoint": run.endpoint, "seed": run.seed.to_string(),
            "cases": run.cases.iter().map(|case| json!({
                "name": case.name, "end": case.end.name(), "evidence": case.evidence.len(), "commands": case.commands,
                "milliseconds": figure::milliseconds(case.took),
            })).collect::<Vec<_>>(),
        }),
        script: SCRIPT,
    }
}

/// The numbers of cases by their ends, with 0 for an end that none has.
fn counts<'a>(cases: impl Iterator<Item = &'a ShownCase>) -> BTreeMap<CaseEnd, usize> {
    let mut counts: BTreeMap<_, _> = CaseEnd::ALL.map(|end| (end, 0)).into();
    cases.for_each(|case| *counts.entry(case.end).or_default() += 1);
    counts
}

/// The cases by the part of their names before the last `/`, in the order of their first; what was found before the rest.
fn groups(cases: &[ShownCase]) -> Vec<(&str, Vec<&ShownCase>)> {
    let mut groups: Vec<(&str, Vec<&ShownCase>)> = Vec::new();
    for case in cases {
        let group = case.name.rsplit_once('/').map_or("", |(group, _)| group);
        match groups.iter_mut().find(|(name, _)| *name == group) {
            Some((_, cases)) => cases.push(case),
            None => groups.push((group, vec![case])),
        }
    }
    let is_found = |case: &&ShownCase| case.end.is_found();
    for (_, cases) in &mut groups {
        cases.sort_by_key(|case| !is_found(case));
    }
    groups.sort_by_key(|(_, cases)| !cases.iter().any(is_found));
    groups
}

/// What came of all: a bar of the ends, the numbers, and the failures by their causes.
fn verdict(run: &CasesRun, ends: &BTreeMap<CaseEnd, usize>) -> Markup {
    html! {
        section {
            (bar(ends))
            p.keys {
                @for end in CaseEnd::ALL.iter().filter(|end| ends[*end] > 0) {
                    span.key.(end.name()) { b { (ends[end]) } " " (end.words()) } " "
                }
            }
            @if let Some(reason) = &run.cut_short { p.note { "The run ended early: " (reason) } }
            @for (expected, actual, names) in run.causes.iter().filter(|(.., names)| names.len() > 1) {
                div.cause {
                    p { b { (names.len()) } " failures are alike:" }
                    (evidence(&Evidence { recommended: false, expected: expected.clone(), actual: actual.clone() }))
                    p.muted.text { (names.join(", ")) }
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

fn group(name: &str, cases: &[&ShownCase]) -> Markup {
    let ends = counts(cases.iter().copied());
    let open = cases.iter().any(|case| case.end.is_found());
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
            @for case in cases { (self::case(case)) }
        }
    }
}

fn case(case: &ShownCase) -> Markup {
    let end = case.end;
    let own = case.name.rsplit('/').next().unwrap_or_default();
    html! {
        details.item.case.(end.name()) data-kinds=(end.name()) data-name=(case.name) open[end.is_found()] {
            summary {
                span.sign title=(end.words()) { (end.wording().2) }
                span.name { (own) }
                @match end {
                    CaseEnd::Skipped => { span.muted.why { (case.reason) } }
                    _ => { span.muted.n { (time(case.took)) } }
                }
            }
            div.inside {
                p { (case.sentence) "." }
                p.muted { "CSI " (csi_proto::SPEC_VERSION) ", section “" (case.section) "”" }
                @for found in &case.evidence { (evidence(found)) }
                @if !case.commands.is_empty() {
                    p.muted { "To see it again:" }
                    pre { (case.commands.join("\n")) }
                }
            }
        }
    }
}

fn evidence(found: &Evidence) -> Markup {
    html! {
        dl.evidence {
            dt { @if found.recommended { "Recommended" } @else { "Expected" } } dd.text { (found.expected) }
            dt { "But" } dd.text { (found.actual) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::tests::{HOSTILE, elements};

    fn case_of(name: &str, end: CaseEnd) -> ShownCase {
        ShownCase {
            name: name.to_owned(),
            sentence: "a rule".to_owned(),
            section: "CreateVolume".to_owned(),
            end,
            reason: HOSTILE.to_owned(),
            took: Duration::from_millis(3),
            evidence: vec![Evidence {
                recommended: false,
                expected: HOSTILE.to_owned(),
                actual: HOSTILE.to_owned(),
            }],
            commands: vec![HOSTILE.to_owned()],
        }
    }

    #[test]
    fn cases_stand_in_groups_in_their_order() {
        let names = ["a/b/one", "a/b/two", "c/three", "a/b/four", "five"];
        let mut cases = names.map(|name| case_of(name, CaseEnd::Passed));
        let first = |cases: &[ShownCase]| {
            let groups = groups(cases);
            let names = groups
                .iter()
                .map(|(name, cases)| (name.to_string(), cases[0].name.clone()));
            names.take(1).collect::<Vec<_>>()
        };
        cases[3].end = CaseEnd::Failed;
        assert_eq!(first(&cases)[0], ("a/b".to_owned(), "a/b/four".to_owned()));
        cases[3].end = CaseEnd::Passed;
        cases[4].end = CaseEnd::Warned;
        assert_eq!(first(&cases)[0], (String::new(), "five".to_owned()));
        cases[4].end = CaseEnd::Skipped;
        let groups = groups(&cases);
        let found: Vec<_> = groups
            .iter()
            .map(|(name, cases)| (*name, cases.len()))
            .collect();
        assert_eq!(found, [("a/b", 3), ("c", 1), ("", 1)]);
    }

    #[test]
    fn what_was_found_is_open_and_the_rest_is_one_click_away() {
        let ends = CaseEnd::ALL;
        let run = CasesRun {
            driver: HOSTILE.to_owned(),
            cut_short: Some(HOSTILE.to_owned()),
            causes: vec![(
                HOSTILE.to_owned(),
                HOSTILE.to_owned(),
                vec!["a/x".to_owned(), "b/x".to_owned()],
            )],
            cases: ends
                .map(|end| case_of(&format!("{}/x", end.name()), end))
                .into(),
            ..CasesRun::default()
        };
        let document = page(&run).document("n0nce");
        assert_eq!(elements(&document, "script").len(), 2);
        let details = elements(&document, "details");
        let open: Vec<_> = details
            .iter()
            .map(|one| one.split('>').next().unwrap().ends_with(" open"))
            .collect();
        // A group and its case, for each end; the known failure stands behind the warning.
        assert_eq!(open, [[true; 4].as_slice(), &[false; 6]].concat());
    }
}
