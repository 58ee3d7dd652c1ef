//! Lists of known failures: the names of cases, one a line, with comments after `#`.

use super::cases;
use super::report::Report;
use csi_proto::text::escaped;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A line that names no case of this version: its number, from 1, and what stands there.
pub type NoCase = (usize, String);

/// The names in a list, and the lines with names of no case: it has gone, or is spelt otherwise, and a failure of it is not known.
///
/// # Errors
/// The line that can be the name of no case in any version.
pub fn parse(text: &str) -> Result<(BTreeSet<String>, Vec<NoCase>), NoCase> {
    let (mut known, mut gone) = (BTreeSet::new(), Vec::new());
    for (line, number) in text.lines().zip(1..) {
        let name = line.split('#').next().unwrap_or_default().trim().to_owned();
        let is_letter = |one: char| one.is_ascii_lowercase() || one.is_ascii_digit();
        let is_plain = |one: char| is_letter(one) || "-/@".contains(one);
        if cases::named(&name).is_some() {
            known.insert(name);
        } else if !name.contains('/') && !name.is_empty() || !name.chars().all(is_plain) {
            return Err((number, name));
        } else if !name.is_empty() {
            gone.push((number, name));
        }
    }
    Ok((known, gone))
}

/// The list of the failures of a run, and of what they keep from being judged.
pub fn written(report: &Report) -> String {
    let mut out = format!(
        "# What csi sanity finds wrong with {} {}.\n",
        escaped(&report.driver),
        escaped(&report.version)
    );
    for result in &report.results {
        let failure = result.failure.as_ref().map(ToString::to_string);
        let reason = result.rests_on.as_ref().and(result.reason.clone());
        if let Some(words) = failure.or(reason) {
            let _ = writeln!(out, "{}  # {}", result.name, escaped(&words));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::{CaseOutcome, CaseResult};
    use crate::verdict::Failure;

    #[test]
    fn what_a_known_failure_keeps_from_being_judged_is_known_where_the_list_names_it() {
        let report = || {
            let named = |name: &str, outcome| CaseResult {
                name: name.to_owned(),
                outcome,
                ..CaseResult::default()
            };
            let mut open = named("c", CaseOutcome::Skipped);
            open.rests_on = Some("a".to_owned());
            open.reason = Some("not judged: it rests on a, which failed".to_owned());
            let failed = CaseResult {
                failure: Some(Failure::new("one", "another")),
                ..named("a", CaseOutcome::Failed)
            };
            Report {
                results: vec![failed, named("b", CaseOutcome::Skipped), open],
                ..Report::default()
            }
        };
        for (known, is_success, is_complete) in [
            (&[][..], false, true),
            (&["a"], false, false),
            (&["a", "c"], true, true),
            // Where the failure is new, the run fails anyway.
            (&["c"], false, true),
        ] {
            let mut report = report();
            report.knows(known.iter().map(|name| (*name).to_owned()).collect());
            let found = (report.is_success(), report.is_complete());
            assert_eq!(found, (is_success, is_complete), "{known:?}");
        }
        let lines = "\na  # one, but another\nc  # not judged: it rests on a, which failed\n";
        assert!(written(&report()).ends_with(lines));
    }

    #[test]
    fn a_list_names_cases_and_nothing_else() {
        let text = "# all\n\nnode/info/is-constant  # why\nlifecycle/up-and-down@block\n";
        let names = ["lifecycle/up-and-down@block", "node/info/is-constant"];
        let names = BTreeSet::from(names.map(str::to_owned));
        assert_eq!(parse(text), Ok((names, Vec::new())));
        let (known, gone) = parse("node/info/is-constant\nnode/info # x").unwrap();
        assert_eq!(known.len(), 1);
        assert_eq!(gone, [(2, "node/info".to_owned())]);
        for line in [
            "constant",
            "node/info/is constant",
            "<testsuite name=\"csi/sanity\">",
        ] {
            assert_eq!(parse(&format!("\n{line}")), Err((2, line.to_owned())));
        }
    }
}
