//! Lists of known failures: the names of cases, one a line, with comments after `#`.

use super::cases;
use super::report::Report;
use csi_proto::text::escaped;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The names in a list.
///
/// # Errors
/// The line, from 1, that names no case, and the name.
pub fn parse(text: &str) -> Result<BTreeSet<String>, (usize, String)> {
    let lines = text.lines().zip(1..);
    let names = lines.filter_map(|(line, number)| {
        let name = line.split('#').next().unwrap_or_default().trim();
        match cases::named(name) {
            Some(_) => Some(Ok(name.to_owned())),
            None if name.is_empty() => None,
            None => Some(Err((number, name.to_owned()))),
        }
    });
    names.collect()
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
        let names = parse(text).unwrap();
        let names: Vec<_> = names.iter().map(String::as_str).collect();
        assert_eq!(
            names,
            ["lifecycle/up-and-down@block", "node/info/is-constant"]
        );
        let wrong = parse("node/info/is-constant\nnode/info # x");
        assert_eq!(wrong, Err((2, "node/info".to_owned())));
    }
}
