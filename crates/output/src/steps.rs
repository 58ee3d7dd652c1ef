//! Prints the steps of a longer task as they happen: aligned lines for people, one JSON object a line for scripts.

use super::figure;
use csi_proto::escaped;
use serde_json::json;
use std::io::{self, Write};
use std::time::Duration;

/// Wide enough for the longest command that is a step.
const NAME_WIDTH: usize = 34;

/// Prints steps.
pub struct StepPrinter<W: Write> {
    out: W,
    json: bool,
}

/// A step that has ended.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The number of what it was done to, where it is done to several at once.
    pub of: Option<usize>,
    /// Its command.
    pub name: &'a str,
    /// Its end.
    pub outcome: StepOutcome,
    /// Its result.
    pub text: &'a str,
    /// Its duration.
    pub took: Duration,
}

/// The end of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepOutcome {
    /// The step succeeded.
    Done,
    /// The step was not needed, or could not be done here; the text says why.
    Skipped,
    /// The step failed; the error follows on stderr.
    Failed,
}

impl<W: Write> StepPrinter<W> {
    /// Steps on `out`, as JSON lines or for people.
    pub fn new(out: W, json: bool) -> Self {
        Self { out, json }
    }

    /// Prints a step.
    pub fn step(&mut self, step: &Step<'_>) -> io::Result<()> {
        let milliseconds = figure::milliseconds(step.took);
        let (name, text) = (step.name, step.text);
        if self.json {
            let outcome = match step.outcome {
                StepOutcome::Done => "done",
                StepOutcome::Skipped => "skipped",
                StepOutcome::Failed => "failed",
            };
            let mut line = json!({"step": name, "outcome": outcome, "text": text, "milliseconds": milliseconds});
            if let Some(number) = step.of {
                line["of"] = json!(number);
            }
            writeln!(self.out, "{line}")?;
        } else {
            let (mark, time) = match step.outcome {
                StepOutcome::Done => ("ok", format!("{milliseconds:8.1} ms")),
                StepOutcome::Skipped => ("--", format!("{:>11}", "skipped")),
                StepOutcome::Failed => ("!!", format!("{milliseconds:8.1} ms")),
            };
            let number = step.of.map(|number| format!("[{number}] "));
            let name = number.unwrap_or_default() + name;
            let line = format!("{mark} {name:NAME_WIDTH$} {time}  {}", escaped(text));
            writeln!(self.out, "{}", line.trim_end())?;
        }
        self.out.flush()
    }
}
