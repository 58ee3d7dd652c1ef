//! The log: one line an event on stderr, as text or JSON, in which no text from outside can start a line of its own.
//! Owns the line's form; must not know what the events are.
//!
//! Whoever logs never waits for the reader: a thread writes the lines.

use clap::ValueEnum;
use csi_nfs_store::metrics::METRICS;
use csi_proto::line_queue::LineQueue;
use csi_proto::text::is_hazardous;
use serde_json::Value;
use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

/// The lines of this process on their way to stderr.
static LINES: LineQueue = LineQueue::new();

/// How long the end of the process waits for a reader who takes no line, [`ROUNDS`](csi_proto::lock::ROUNDS) times.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// The form of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people: time, level, event, then `key=value`.
    Text,
    /// For machines: one JSON object.
    Json,
}

/// How much an event matters. The most urgent level is the least one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum Level {
    /// The driver, or the node that it runs on, does not work.
    Error,
    /// Somebody should look.
    Warn,
    /// The normal course of things: calls that change something.
    Info,
    /// Calls that an orchestrator repeats by itself, mounts, and the steps of helper processes.
    Debug,
}

impl Level {
    /// The word that stands on a line.
    fn word(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// Where events go. Cheap to copy.
#[derive(Clone, Copy, Debug)]
pub struct Log {
    format: Option<Format>,
    last: Level,
}

impl Log {
    /// To stderr in that form: events of the level `last` and of the more urgent ones.
    pub fn to_stderr(format: Format, last: Level) -> Self {
        Self {
            format: Some(format),
            last,
        }
    }

    /// Nowhere.
    pub fn off() -> Self {
        Self {
            format: None,
            last: Level::Error,
        }
    }

    /// Whether an event of that level is written.
    pub fn writes(&self, level: Level) -> bool {
        self.format.is_some() && level <= self.last
    }

    /// Writes one event: what happened, in a few constant words, and the values that tell one from another.
    pub fn event(&self, level: Level, what: &str, fields: &[(&str, Value)]) {
        let Some(format) = self.format else { return };
        if !self.writes(level) {
            return;
        }
        add(
            &line(format, SystemTime::now(), level, what, fields),
            format,
        );
    }
}

/// Writes an error that ends this process, behind what was logged.
pub fn tell(error: &str) {
    add(&format!("{error}\n"), Format::Text);
}

#[expect(clippy::disallowed_methods, reason = "its own thread writes to it")]
fn add(text: &str, format: Format) {
    LINES.start(std::io::stderr(), move |dropped| {
        let what = "log lines were dropped, since nobody read the log";
        let fields = [("lines", dropped.into())];
        line(format, SystemTime::now(), Level::Warn, what, &fields)
    });
    if !LINES.add(text) {
        METRICS.log_lines_dropped.inc();
    }
}

/// Waits until what was logged is written, or the reader has taken nothing for a while. To be called at the end of the process.
pub fn flush() {
    LINES.flush(FLUSH_PATIENCE);
}

/// Logs a panic like any other event, where the library would write to stderr itself and wait for whoever reads it.
pub fn take_panics(log: Log) {
    std::panic::set_hook(Box::new(move |panic| {
        let fields = [("panic", panic.to_string().into())];
        log.event(Level::Error, "a defect of this driver", &fields);
        flush();
    }));
}

fn line(
    format: Format,
    now: SystemTime,
    level: Level,
    what: &str,
    fields: &[(&str, Value)],
) -> String {
    let time = prost_types::Timestamp::from(now).to_string();
    let level = level.word();
    let line = match format {
        Format::Json => {
            let own = [("time", time), ("level", level), ("event", what.to_owned())];
            let own = own.map(|(key, text)| (key, Value::String(text)));
            let all = own.into_iter().chain(fields.iter().cloned());
            Value::from_iter(all).to_string()
        }
        Format::Text => {
            let mut line = format!("{time} {level} {what}");
            for (key, value) in fields {
                let _ = match value {
                    Value::String(text) if plain(text) => write!(line, " {key}={text}"),
                    other => write!(line, " {key}={other}"),
                };
            }
            line
        }
    };
    let mut safe = String::with_capacity(line.len() + 1);
    for character in line.chars() {
        // serde_json escapes only what ASCII has of them.
        if is_hazardous(character) {
            let _ = write!(safe, "\\u{:04x}", u32::from(character));
        } else {
            safe.push(character);
        }
    }
    safe.push('\n');
    safe
}

/// Text that is one word on a line without quotes.
fn plain(text: &str) -> bool {
    !text.is_empty()
        && !text
            .chars()
            .any(|c| c.is_whitespace() || c.is_control() || matches!(c, '"' | '\\' | '='))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn render(format: Format, fields: &[(&str, Value)]) -> String {
        let now = UNIX_EPOCH + Duration::from_secs(1);
        line(format, now, Level::Info, "call", fields)
    }

    #[test]
    fn text_quotes_what_is_not_one_word() {
        let fields = [("a", "b".into()), ("c", "d e".into()), ("n", 3.into())];
        assert_eq!(
            render(Format::Text, &fields),
            "1970-01-01T00:00:01Z info call a=b c=\"d e\" n=3\n"
        );
    }

    #[test]
    fn no_value_starts_a_line_or_reaches_the_terminal() {
        let evil = "x\ny\u{1b}[2J\u{9b}31m\u{2028}\u{202e}\u{200f}\0";
        for format in [Format::Text, Format::Json] {
            let line = render(format, &[("v", evil.into())]);
            assert_eq!(line.lines().count(), 1, "{line:?}");
            let body = line.trim_end_matches('\n');
            assert!(!body.chars().any(char::is_control), "{line:?}");
            assert!(
                !body.contains(['\u{2028}', '\u{202e}', '\u{200f}']),
                "{line:?}"
            );
        }
    }

    #[test]
    fn a_level_writes_the_more_urgent_ones_too() {
        let all = Level::value_variants();
        for (place, last) in all.iter().enumerate() {
            let log = Log::to_stderr(Format::Text, *last);
            let written: Vec<bool> = all.iter().map(|level| log.writes(*level)).collect();
            let expected: Vec<bool> = (0..all.len()).map(|other| other <= place).collect();
            assert_eq!(written, expected, "{last:?}");
        }
        assert!(!Log::off().writes(Level::Error));
        // The words of the flag are those of the lines.
        for level in all {
            let of_flag = level.to_possible_value().unwrap();
            assert!(of_flag.matches(&level.word(), false));
        }
    }

    #[test]
    fn json_is_json() {
        let line = render(Format::Json, &[("v", "\u{9b}".into())]);
        let value: Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["event"], "call");
        assert_eq!(value["v"], "\u{9b}");
    }
}
