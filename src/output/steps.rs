//! Prints the steps of a longer task as they happen: aligned lines for people, one JSON object a line for scripts.

use super::figure;
use csi_proto::text::escaped;
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

    /// Prints a step: its command, its result, its duration.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn step(
        &mut self,
        name: &str,
        outcome: StepOutcome,
        text: &str,
        took: Duration,
    ) -> io::Result<()> {
        let milliseconds = figure::milliseconds(took);
        if self.json {
            let outcome = match outcome {
                StepOutcome::Done => "done",
                StepOutcome::Skipped => "skipped",
                StepOutcome::Failed => "failed",
            };
            let line = json!({"step": name, "outcome": outcome, "text": text, "milliseconds": milliseconds});
            writeln!(self.out, "{line}")?;
        } else {
            let (mark, time) = match outcome {
                StepOutcome::Done => ("ok", format!("{milliseconds:8.1} ms")),
                StepOutcome::Skipped => ("--", format!("{:>11}", "skipped")),
                StepOutcome::Failed => ("!!", format!("{milliseconds:8.1} ms")),
            };
            let line = format!("{mark} {name:NAME_WIDTH$} {time}  {}", escaped(text));
            writeln!(self.out, "{}", line.trim_end())?;
        }
        self.out.flush()
    }
}
