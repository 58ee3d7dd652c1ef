//! The report as JUnit XML, which every CI reads.
//!
//! One test suite, one test case a case; the class is the first part of its name. Warnings and the commands that reproduce a
//! finding are in the case's output. A failure that is known is skipped: JUnit has no other word that fails no build. Whatever
//! a driver said, the document is well-formed.

use super::report::{CaseResult, Report};
use std::fmt::Write as _;
use std::time::Duration;

/// The document.
pub fn document(report: &Report) -> String {
    let counts = report.counts();
    let known = report.known_failures();
    let errors = usize::from(!report.is_complete());
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let totals = format!(
        "tests=\"{}\" failures=\"{}\" errors=\"{errors}\" skipped=\"{}\" time=\"{}\"",
        report.results.len() + errors,
        counts.failed - known,
        counts.skipped + known,
        seconds(report.took)
    );
    let _ = writeln!(out, "<testsuites {totals}>");
    let _ = writeln!(out, "  <testsuite name=\"csi sanity\" {totals}>");
    out.push_str("    <properties>\n");
    for (name, value) in [
        ("driver", report.driver.as_str()),
        ("version", &report.version),
        ("endpoint", &report.endpoint),
        ("specification", csi_proto::SPEC_VERSION),
        ("seed", &report.seed.to_string()),
    ] {
        let value = attribute(value);
        let _ = writeln!(out, "      <property name=\"{name}\" value=\"{value}\"/>");
    }
    out.push_str("    </properties>\n");
    for result in &report.results {
        case(&mut out, result, report.known.contains(&result.name));
    }
    if !report.is_complete() {
        let reasons = report.cut_short.iter().chain(&report.incomplete);
        let reasons = reasons.map(String::as_str);
        let reason = attribute(&Vec::from_iter(reasons).join("; "));
        let _ = writeln!(
            out,
            "    <testcase classname=\"csi sanity\" name=\"the run is complete\"><error message=\"{reason}\"/></testcase>"
        );
    }
    out.push_str("  </testsuite>\n</testsuites>\n");
    out
}

fn case(out: &mut String, result: &CaseResult, is_known: bool) {
    let (class, _) = result.name.split_once('/').unwrap_or_default();
    let _ = write!(
        out,
        "    <testcase classname=\"{}\" name=\"{}\" time=\"{}\"",
        attribute(class),
        attribute(&result.name),
        seconds(result.took)
    );
    let known = if is_known { "known to fail: " } else { "" };
    let failure = result.failure.as_ref();
    let message = failure.map(|failure| format!("{known}expected: {failure}"));
    let message = message.or_else(|| result.reason.clone());
    let message = message.map(|message| attribute(&message));
    let details = result.has_finding().then(|| text(&result.whole()));
    let mut inside = String::new();
    match (message, details) {
        (Some(message), Some(details)) if result.is_failed() && !is_known => {
            let _ = writeln!(
                inside,
                "      <failure message=\"{message}\">{details}</failure>"
            );
        }
        (message, details) => {
            if let Some(message) = message {
                let _ = writeln!(inside, "      <skipped message=\"{message}\"/>");
            }
            if let Some(details) = details {
                let _ = writeln!(inside, "      <system-out>{details}</system-out>");
            }
        }
    }
    match inside.is_empty() {
        true => out.push_str("/>\n"),
        false => {
            let _ = write!(out, ">\n{inside}    </testcase>\n");
        }
    }
}

fn seconds(time: Duration) -> String {
    format!("{:.3}", time.as_secs_f64())
}

/// Text between tags.
fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\n' | '\t' => out.push(letter),
            // XML has no way to write most control characters, and none to write these two.
            '\u{fffe}' | '\u{ffff}' => out.extend(letter.escape_unicode()),
            letter if letter.is_control() => out.extend(letter.escape_default()),
            letter => out.push(letter),
        }
    }
    out
}

/// Text as an attribute's value, where parsers turn line ends into blanks.
fn attribute(value: &str) -> String {
    text(value).replace('\n', "&#10;").replace('\t', "&#9;")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Failure, Stop};

    #[test]
    fn a_hostile_driver_cannot_break_the_document() {
        let hostile = "]]><x a='1' b=\"2\">&amp;\u{1b}[31m\0\u{fffe}\r\nend";
        let cases: Vec<_> = crate::cases().take(3).collect();
        let result = |index: usize, end| CaseResult {
            commands: vec![hostile.to_owned()],
            took: Duration::from_millis(1500),
            ..CaseResult::of(cases[index], cases[index].name.clone(), end)
        };
        let failure = Failure::new(hostile, hostile);
        let mut warned = result(0, Ok(()));
        warned.warnings.push(failure.clone());
        let report = Report {
            driver: hostile.to_owned(),
            version: hostile.to_owned(),
            endpoint: hostile.to_owned(),
            seed: 1,
            results: vec![
                warned,
                result(1, Err(Stop::Failed(failure))),
                result(2, Err(Stop::skipped(hostile))),
            ],
            cut_short: Some(hostile.to_owned()),
            took: Duration::from_secs(2),
            ..Report::default()
        };
        let document = document(&report);
        for banned in ["]]>", "\u{1b}", "\0", "\u{fffe}", "\r", "<x"] {
            assert!(!document.contains(banned), "{banned:?}\n{document}");
        }
        // Every tag is one of ours, and closed in its order.
        let mut open: Vec<&str> = Vec::new();
        for tag in document
            .split('<')
            .skip(2)
            .map(|rest| rest.split('>').next().unwrap())
        {
            let name = tag.split(' ').next().unwrap().trim_end_matches('/');
            if let Some(closed) = tag.strip_prefix('/') {
                assert_eq!(open.pop(), Some(closed), "{document}");
            } else if !tag.ends_with('/') {
                open.push(name);
            }
        }
        assert_eq!(open, [""; 0]);
        assert!(
            document
                .contains("tests=\"4\" failures=\"1\" errors=\"1\" skipped=\"1\" time=\"2.000\"")
        );
    }
}
