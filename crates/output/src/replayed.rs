//! The results of replayed calls, one after the other: lines for people, one JSON object a call for scripts.

use super::json as careful;
use super::recorded::{Difference, Recorded, ReplayOutcome, Replayed};
use super::{OutputError, figure};
use csi_proto::escaped;
use serde_json::{Value as Json, json};
use std::io::{self, Write};

/// Wide enough for the longest name of an RPC with its service.
const NAME_WIDTH: usize = 42;

/// The numbers of calls by their results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Calls without a difference.
    pub same: usize,
    /// Calls with a difference.
    pub different: usize,
    /// Calls that were sent and not compared.
    pub not_compared: usize,
    /// Calls that were not sent.
    pub skipped: usize,
    /// Values that the driver chose anew.
    pub taken_over: usize,
}

impl Count {
    /// Counts a call.
    pub fn add(&mut self, verdict: &ReplayOutcome) {
        *match verdict {
            ReplayOutcome::Same => &mut self.same,
            ReplayOutcome::Different(_) => &mut self.different,
            ReplayOutcome::NotCompared(_) => &mut self.not_compared,
            ReplayOutcome::Skipped(_) => &mut self.skipped,
        } += 1;
    }
}

/// Prints the results of replayed calls.
pub struct ReplayPrinter<W: Write> {
    out: W,
    json: bool,
}

impl<W: Write> ReplayPrinter<W> {
    /// On `out`, as JSON lines or for people.
    pub fn new(out: W, json: bool) -> Self {
        Self { out, json }
    }

    /// Prints a call.
    pub fn call(&mut self, call: &Recorded, replayed: &Replayed) -> io::Result<()> {
        if self.json {
            return self.line(&object(call, replayed));
        }
        self.out.write_all(lines(call, replayed).as_bytes())?;
        self.out.flush()
    }

    /// Prints the end of it all.
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
        let calls = figure::counted(same + different + not_compared + skipped, "call");
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

/// A call for scripts.
fn object(call: &Recorded, (outcome, took): &Replayed) -> Json {
    let (word, reason) = match outcome {
        ReplayOutcome::Same => ("same", None),
        ReplayOutcome::Different(_) => ("different", None),
        ReplayOutcome::NotCompared(why) => ("not compared", Some(*why)),
        ReplayOutcome::Skipped(why) => ("skipped", Some(why.as_str())),
    };
    let mut object = json!({
        "call": call.number, "method": call.name(), "outcome": word, "milliseconds": figure::milliseconds(*took),
    });
    if let Some(reason) = reason {
        object["reason"] = json!(reason);
    }
    if let ReplayOutcome::Different(all) = outcome {
        let one =
            |one: &Difference| json!({"at": one.at, "recorded": one.recorded, "now": one.now});
        object["differences"] = all.iter().map(one).collect();
    }
    object
}

/// A call for people: its line, and one for each difference.
fn lines(call: &Recorded, (outcome, took): &Replayed) -> String {
    let (mark, words) = match outcome {
        ReplayOutcome::Same => ("ok", String::new()),
        ReplayOutcome::Different(all) => ("!!", figure::counted(all.len(), "difference")),
        ReplayOutcome::NotCompared(why) => ("--", format!("not compared: {why}")),
        ReplayOutcome::Skipped(why) => ("--", format!("not sent: {why}")),
    };
    let time = match outcome {
        ReplayOutcome::Skipped(_) => format!("{:11}", ""),
        _ => format!("{:8.1} ms", figure::milliseconds(*took)),
    };
    let name = format!("#{} {}", call.number, call.name());
    let name = escaped(&name);
    let line = format!("{mark} {name:NAME_WIDTH$} {time}  {}", escaped(&words));
    let mut lines = format!("{}\n", line.trim_end());
    if let ReplayOutcome::Different(all) = outcome {
        for one in all {
            let (recorded, now) = (json_text(&one.recorded), json_text(&one.now));
            let at = escaped(&one.at);
            lines.push_str(&format!("     {at}: {recorded} -> {now}\n"));
        }
    }
    lines
}

fn json_text(json: &Json) -> String {
    match json {
        Json::Null => "(nothing)".to_owned(),
        json => escaped(&json.to_string()).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn every_end_of_a_call_has_its_line_and_its_object() {
        let differs = |at: &str, recorded, now| Difference {
            at: at.to_owned(),
            recorded,
            now,
        };
        let one = differs("a", json!("1\u{1b}"), json!(2));
        let both = vec![one.clone(), differs("b", Json::Null, json!([]))];
        for (verdict, line, outcome) in [
            (
                ReplayOutcome::Same,
                "ok #3 Node/Stage                                   1.5 ms\n",
                "same",
            ),
            (
                ReplayOutcome::Different(both),
                "!! #3 Node/Stage                                   1.5 ms  2 differences\n     a: \"1\\u001b\" -> 2\n     b: (nothing) -> []\n",
                "different",
            ),
            (
                ReplayOutcome::Different(vec![one]),
                "!! #3 Node/Stage                                   1.5 ms  1 difference\n     a: \"1\\u001b\" -> 2\n",
                "different",
            ),
            (
                ReplayOutcome::NotCompared("no"),
                "-- #3 Node/Stage                                   1.5 ms  not compared: no\n",
                "not compared",
            ),
            (
                ReplayOutcome::Skipped("no\n".to_owned()),
                "-- #3 Node/Stage                                           not sent: no\\n\n",
                "skipped",
            ),
        ] {
            let call = Recorded {
                number: 3,
                path: "Node/Stage".to_owned(),
                ..Recorded::default()
            };
            let replayed = (verdict, Duration::from_micros(1500));
            assert_eq!(lines(&call, &replayed), line);
            let object = object(&call, &replayed);
            assert_eq!(object["outcome"], outcome);
            assert_eq!(
                object["reason"].is_string(),
                line.starts_with("--"),
                "{object}"
            );
            assert_eq!(
                object["differences"].is_array(),
                line.starts_with("!!"),
                "{object}"
            );
            let mut count = Count::default();
            count.add(&replayed.0);
            let all = [
                count.same,
                count.different,
                count.not_compared,
                count.skipped,
            ];
            assert_eq!(all.iter().sum::<usize>(), 1);
        }
    }
}
