//! What came of the calls of a recording, one after the other: lines for people, one JSON object a call for scripts.

use super::json as careful;
use super::{OutputError, figure};
use csi_proto::text::escaped;
use serde_json::{Value as Json, json};
use std::io::{self, Write};
use std::time::Duration;

/// Wide enough for the longest name of an RPC with its service.
const NAME_WIDTH: usize = 42;

/// What came of a call.
#[derive(Clone, Debug)]
pub struct Replayed<'a> {
    /// Its number in the recording.
    pub number: u64,
    /// Its service and name, or its path: untrusted text.
    pub name: &'a str,
    /// How long it took now.
    pub took: Duration,
    /// What the comparison says.
    pub verdict: Verdict<'a>,
}

/// What a comparison says.
#[derive(Clone, Debug)]
pub enum Verdict<'a> {
    /// Nothing differs.
    Same,
    /// Something differs: where, what was recorded, what came now.
    Different(Vec<(&'a str, &'a Json, &'a Json)>),
    /// It was sent, and there is nothing to compare with: why.
    NotCompared(&'a str),
    /// It was not sent: why.
    Skipped(&'a str),
}

/// How many calls had which end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Those without a difference.
    pub same: usize,
    /// Those with one.
    pub different: usize,
    /// Those that were sent and not compared.
    pub not_compared: usize,
    /// Those that were not sent.
    pub skipped: usize,
    /// Values that the driver chose anew.
    pub taken_over: usize,
}

/// Prints them.
pub struct Printer<W: Write> {
    out: W,
    json: bool,
}

impl<W: Write> Printer<W> {
    /// On `out`, as JSON lines or for people.
    pub fn new(out: W, json: bool) -> Self {
        Self { out, json }
    }

    /// Prints a call.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn call(&mut self, call: &Replayed<'_>) -> io::Result<()> {
        let milliseconds = figure::milliseconds(call.took);
        if self.json {
            let (outcome, reason) = match &call.verdict {
                Verdict::Same => ("same", None),
                Verdict::Different(_) => ("different", None),
                Verdict::NotCompared(why) => ("not compared", Some(why)),
                Verdict::Skipped(why) => ("skipped", Some(why)),
            };
            let mut line = json!({
                "call": call.number, "method": call.name, "outcome": outcome, "milliseconds": milliseconds,
            });
            if let Some(reason) = reason {
                line["reason"] = json!(reason);
            }
            if let Verdict::Different(all) = &call.verdict {
                let one = |(at, recorded, now): &(&str, &Json, &Json)| json!({"at": at, "recorded": recorded, "now": now});
                line["differences"] = all.iter().map(one).collect();
            }
            return self.line(&line);
        }
        let (mark, words) = match &call.verdict {
            Verdict::Same => ("ok", String::new()),
            Verdict::Different(all) if all.len() == 1 => ("!!", "1 difference".to_owned()),
            Verdict::Different(all) => ("!!", format!("{} differences", all.len())),
            Verdict::NotCompared(why) => ("--", format!("not compared: {why}")),
            Verdict::Skipped(why) => ("--", format!("not sent: {why}")),
        };
        let name = format!("#{} {}", call.number, call.name);
        let name = escaped(&name);
        let time = match call.verdict {
            Verdict::Skipped(_) => format!("{:11}", ""),
            _ => format!("{milliseconds:8.1} ms"),
        };
        let line = format!("{mark} {name:NAME_WIDTH$} {time}  {}", escaped(&words));
        writeln!(self.out, "{}", line.trim_end())?;
        if let Verdict::Different(all) = &call.verdict {
            for (at, recorded, now) in all {
                let (recorded, now) = (shown(recorded), shown(now));
                writeln!(self.out, "     {}: {recorded} -> {now}", escaped(at))?;
            }
        }
        self.out.flush()
    }

    /// Prints the end of it all.
    ///
    /// # Errors
    /// When `out` cannot be written.
    pub fn end(&mut self, count: Count) -> io::Result<()> {
        let Count {
            same,
            different,
            not_compared,
            skipped,
            taken_over,
        } = count;
        if self.json {
            return self.line(&json!({"summary": {
                "calls": same + different + not_compared + skipped, "same": same, "different": different,
                "notCompared": not_compared, "skipped": skipped, "takenOver": taken_over,
            }}));
        }
        let mut parts = vec![format!("{same} the same"), format!("{different} different")];
        for (count, what) in [(not_compared, "not compared"), (skipped, "not sent")] {
            if count > 0 {
                parts.push(format!("{count} {what}"));
            }
        }
        let calls = same + different + not_compared + skipped;
        let calls = format!("{calls} {}", if calls == 1 { "call" } else { "calls" });
        writeln!(
            self.out,
            "{calls}: {}; taken over from the driver: {taken_over}",
            parts.join(", ")
        )?;
        self.out.flush()
    }

    fn line(&mut self, line: &Json) -> io::Result<()> {
        match careful::line(line, &mut self.out) {
            Err(OutputError::Io(error)) => Err(error),
            Err(error) => Err(io::Error::other(error)),
            Ok(()) => self.out.flush(),
        }
    }
}

fn shown(json: &Json) -> String {
    match json {
        Json::Null => "(nothing)".to_owned(),
        json => escaped(&json.to_string()).into_owned(),
    }
}
