//! The finding of a check, and the page of all findings, for people and as JSON.

use csi_output::terminal::{columns_of, wrapped};
use csi_proto::escaped;
use serde_json::{Value as Json, json};

/// How wide a line of the page may be, where no terminal is narrower.
pub const WIDTH: usize = 100;

/// The column at which texts begin.
const INDENT: usize = 17;

/// How a check ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// All is well.
    Fine,
    /// Something is wrong.
    Wrong,
    /// It could not be looked at, or there is nothing to look at.
    Unknown,
}

/// What a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The name of the check.
    pub check: &'static str,
    /// How it ended.
    pub state: State,
    /// What was found. Untrusted text.
    pub text: String,
    /// What to do; every finding that is wrong has some.
    pub advice: Option<String>,
}

impl Finding {
    /// All is well.
    pub fn fine(check: &'static str, text: impl Into<String>) -> Self {
        Self::of(check, State::Fine, text.into(), None)
    }

    /// Something is wrong, and what to do about it.
    pub fn wrong(check: &'static str, text: impl Into<String>, advice: impl Into<String>) -> Self {
        Self::of(check, State::Wrong, text.into(), Some(advice.into()))
    }

    /// Nothing is known, for this reason.
    pub fn unknown(check: &'static str, why: impl Into<String>) -> Self {
        Self::of(check, State::Unknown, why.into(), None)
    }

    /// The same with what may be done.
    pub fn advised(mut self, advice: impl Into<String>) -> Self {
        self.advice = Some(advice.into());
        self
    }

    fn of(check: &'static str, state: State, text: String, advice: Option<String>) -> Self {
        Self {
            check,
            state,
            text,
            advice,
        }
    }
}

/// The number of findings that are wrong.
pub fn wrong(findings: &[Finding]) -> usize {
    let wrong = findings.iter().filter(|one| one.state == State::Wrong);
    wrong.count()
}

/// The page: a line a finding, longer ones wrapped at `width` columns, with what to do beneath.
pub fn page(findings: &[Finding], width: usize) -> String {
    let mut page = String::new();
    for finding in findings {
        let mark = match finding.state {
            State::Fine => "ok",
            State::Wrong => "!!",
            State::Unknown => "--",
        };
        let head = format!("{mark} {:<width$}", finding.check, width = INDENT - 3);
        let mut add = |head: &str, text: &str| {
            let text = escaped(text);
            page.push_str(&wrapped(head, columns_of(head), unbroken(&text), width));
        };
        add(&head, &finding.text);
        if let Some(advice) = &finding.advice {
            add(&format!("{:INDENT$}> ", ""), advice);
        }
    }
    page
}

/// The words of a text. A command, which stands between two `, is one: it must be whole where it is copied.
fn unbroken(text: &str) -> impl Iterator<Item = String> {
    let mut words = text.split(' ');
    std::iter::from_fn(move || {
        let mut word = words.next()?.to_owned();
        while !word.matches('`').count().is_multiple_of(2) {
            match words.next() {
                Some(next) => word.extend([" ", next]),
                None => break,
            }
        }
        Some(word)
    })
}

/// The findings as JSON.
pub fn document(endpoint: &str, findings: &[Finding]) -> Json {
    let checks = findings.iter().map(|finding| {
        let state = match finding.state {
            State::Fine => "ok",
            State::Wrong => "wrong",
            State::Unknown => "unknown",
        };
        let mut shown = json!({"check": finding.check, "state": state, "text": finding.text});
        if let Some(advice) = &finding.advice {
            shown["advice"] = json!(advice);
        }
        shown
    });
    let checks: Vec<Json> = checks.collect();
    json!({"endpoint": endpoint, "ok": wrong(findings) == 0, "checks": checks})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_stays_on_its_line() {
        let command = "rm ".repeat(40);
        let finding = Finding::wrong(
            "x",
            "y",
            format!("unless a run goes on: `{command}`; `b c`"),
        );
        let page = page(&[finding], 80);
        assert!(page.contains(&format!("`{command}`;")), "{page}");
        assert!(page.lines().any(|line| line.trim() == "`b c`"), "{page}");
    }

    #[test]
    fn a_page_has_a_mark_a_line_and_what_to_do() {
        let findings = [
            Finding::fine("socket", "/csi/csi.sock"),
            Finding::wrong(
                "probe",
                "not\u{1b}ready",
                "x".repeat(60) + " " + &"y".repeat(60),
            ),
            Finding::unknown("mounts", "no kubelet here"),
        ];
        let blank = " ".repeat(INDENT);
        let expected = format!(
            "ok socket        /csi/csi.sock\n!! probe         not\\u{{1b}}ready\n{blank}> {}\n{blank}  {}\n\
             -- mounts        no kubelet here\n",
            "x".repeat(60),
            "y".repeat(60)
        );
        assert_eq!(page(&findings, 80), expected);
        assert_eq!(wrong(&findings), 1);
        let document = document("e", &findings);
        assert_eq!(document["ok"], false);
        assert_eq!(document["checks"][1]["state"], "wrong");
        assert_eq!(document["checks"][2].get("advice"), None);
    }
}
