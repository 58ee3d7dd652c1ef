//! A finding of a case in words: the rule, what was expected, what came, and the commands that show it again.
//!
//! Everything that a driver said is escaped. Prints nothing.

use super::report::CaseResult;
use super::verdict::Failure;
use csi_output::terminal::{columns_of, cut};
use csi_proto::text::escaped;
use std::fmt::Write as _;

/// The most lines of a finding, with that of its name.
const LINES: usize = 6;

impl CaseResult {
    /// The failure and then the warnings, each with whether the specification only recommends it.
    pub(super) fn evidence(&self) -> impl Iterator<Item = (bool, &Failure)> {
        let failure = self.failure.as_ref();
        // With --strict the warning is the failure.
        let warnings = self.warnings.iter();
        let warnings = warnings.filter(move |one| Some(*one) != failure);
        let warnings = warnings.map(|one| (true, one));
        failure.map(|one| (false, one)).into_iter().chain(warnings)
    }

    /// Whether the driver broke the rule, or does not follow a recommendation.
    pub(super) fn has_finding(&self) -> bool {
        self.evidence().next().is_some()
    }

    /// All of it.
    pub(super) fn whole(&self) -> String {
        let mut out = self.rule().join("\n");
        out.push('\n');
        for (recommended, failure) in self.evidence() {
            for line in lines(recommended, failure) {
                let _ = writeln!(out, "{line}");
            }
            if !failure.stderr.is_empty() {
                out.push_str("   the driver's stderr ended with:\n");
            }
            for line in &failure.stderr {
                let _ = writeln!(out, "     {}", escaped(line));
            }
        }
        if !self.commands.is_empty() {
            out.push_str("   to see it again:\n");
        }
        for command in &self.commands {
            let _ = writeln!(out, "     {command}");
        }
        out
    }

    /// The most important of it, in few lines, which stand below the names of the cases. Each fits so many columns, where
    /// there is a limit.
    pub(super) fn brief(&self, columns: Option<usize>) -> String {
        let room = LINES - 1;
        let mut evidence = self.evidence();
        let first = evidence.next();
        let more = evidence.count();
        let mut told: Vec<String> = first
            .iter()
            .flat_map(|(recommended, one)| lines(*recommended, one))
            .collect();
        let stderr = first.map_or(&[][..], |(_, one)| &one.stderr);
        if let Some(line) = stderr.first() {
            told.push(format!("   {:>11}: {}", "stderr", escaped(line)));
        } else if more > 0 {
            told.push(format!("   {:>11}: {more} more", "and"));
        }
        let mut out = fitting(&self.rule(), columns, room - told.len());
        // What does not fit one line goes on in those that are free.
        for (index, line) in told.iter().enumerate() {
            let free = room - out.len() - (told.len() - index - 1);
            out.extend(fitting(std::slice::from_ref(line), columns, free));
        }
        out.iter().map(|line| format!("{line}\n")).collect()
    }

    fn rule(&self) -> [String; 2] {
        let section = format!(
            "CSI {}, section {:?}",
            csi_proto::SPEC_VERSION,
            self.section
        );
        [format!("   {}.", self.sentence), format!("   {section}")]
    }
}

fn lines(recommended: bool, failure: &Failure) -> [String; 2] {
    let what = match recommended {
        true => "recommended",
        false => "expected",
    };
    [
        format!("   {what:>11}: {}", escaped(&failure.expected)),
        format!("   {:>11}: {}", "but", escaped(&failure.actual)),
    ]
}

/// Texts in so many columns, with at most so many lines: long ones are broken as long as there are lines, and then cut.
fn fitting(texts: &[String], columns: Option<usize>, most: usize) -> Vec<String> {
    let Some(columns) = columns else {
        return texts.to_vec();
    };
    let mut out: Vec<String> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let indent = text.find(": ").filter(|at| *at < 16).map_or(3, |at| at + 2);
        let mut rest = text.clone();
        // The other texts need a line each.
        while columns_of(&rest) > columns && out.len() + 1 + (texts.len() - index - 1) < most {
            let (line, next) = broken(&rest, columns);
            out.push(line);
            rest = format!("{}{next}", " ".repeat(indent));
        }
        out.push(cut(&rest, columns));
    }
    out
}

/// The first line of a text that takes more columns, and the rest. It is broken at a blank where the last third of the line has
/// one.
fn broken(text: &str, columns: usize) -> (String, String) {
    let mut end = 0;
    for (at, letter) in text.char_indices() {
        if columns_of(&text[..at + letter.len_utf8()]) > columns {
            break;
        }
        end = at + letter.len_utf8();
    }
    let blank = text[..end].rfind(' ').filter(|at| *at > end * 2 / 3);
    let end = blank.unwrap_or(end);
    (text[..end].to_owned(), text[end..].trim_start().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(failure: &Failure, warnings: &[Failure]) -> CaseResult {
        CaseResult {
            sentence:
                "DeleteVolume of a volume that is published answers OK or FAILED_PRECONDITION"
                    .to_owned(),
            section: "DeleteVolume Errors".to_owned(),
            failure: Some(failure.clone()),
            warnings: warnings.to_vec(),
            ..CaseResult::default()
        }
    }

    #[test]
    fn a_brief_finding_has_few_lines_that_fit() {
        let long = "x".repeat(500);
        let mut failure = Failure::new(format!("one {long}"), format!("another {long}"));
        failure.stderr = vec!["panic: no".to_owned(), "more".to_owned()];
        let warnings = [Failure::new("a", "b")];
        for (failure, warnings) in [
            (failure.clone(), &warnings[..]),
            (failure, &[]),
            (Failure::new("OK", format!("it answered {long}")), &[]),
            (Failure::new("OK", "it answered NOT_FOUND"), &warnings),
        ] {
            for columns in [40, 80, 120] {
                let text = finding(&failure, warnings).brief(Some(columns));
                assert!(text.lines().count() < LINES, "{text}");
                assert!(text.contains("but: "), "{text}");
                let widest = text.lines().map(columns_of).max();
                assert!(widest <= Some(columns), "{text}");
            }
        }
    }

    #[test]
    fn what_is_long_goes_on_where_there_is_room() {
        let failure = Failure::new(
            "CreateVolume answers OK",
            "it answered INTERNAL: no room for it here",
        );
        let text = finding(&failure, &[]).brief(Some(60));
        let expected = format!(
            "   DeleteVolume of a volume that is published answers OK or\n   \
                FAILED_PRECONDITION.\n   \
                CSI {}, section \"DeleteVolume Errors\"\n      \
                expected: CreateVolume answers OK\n           \
                but: it answered INTERNAL: no room for it here\n",
            csi_proto::SPEC_VERSION
        );
        assert_eq!(text, expected);
    }
}
