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

/// The list of the failures of a run.
pub fn written(report: &Report) -> String {
    let mut out = format!(
        "# What csi sanity finds wrong with {} {}.\n",
        escaped(&report.driver),
        escaped(&report.version)
    );
    for result in &report.results {
        if let Some(failure) = &result.failure {
            let words = failure.to_string();
            let _ = writeln!(out, "{}  # {}", result.name, escaped(&words));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

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
