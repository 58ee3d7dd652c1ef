//! Words calls for people as they happen: one line for each event of a call.
//!
//! Owns how a call looks. Secrets are masked and untrusted text is escaped here; where the text goes is not decided here.

use crate::recording::call::{CallEnd, RecordedCall};
use crate::recording::framing::FramedMessage;
use crate::recording::status::CallStatus;
use crate::recording::{Hidden, Unknown, call_line, code_text, mask, message_value, request_value};
use csi_call::status_details;
use csi_output::colour::{Brush, Colour};
use csi_output::{OutputError, json};
use csi_proto::value::{MASK, Value};
use csi_proto::{Method, escaped};
use serde::Serialize;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

/// The most of a message that a line shows.
const SHOWN_MAX: usize = 4096;

/// Something to show.
#[derive(Debug)]
pub enum Event {
    /// A request has come in whole.
    Request {
        /// Which call, and when.
        mark: CallMark,
        /// The message.
        message: FramedMessage,
        /// The metadata of the call.
        metadata: Vec<(String, String)>,
    },
    /// The driver has sent a message of a stream.
    Reply {
        /// Which call, and when.
        mark: CallMark,
        /// The message.
        message: FramedMessage,
        /// Secret values, which are masked wherever they occur.
        secrets: Vec<String>,
    },
    /// A call has ended.
    Ended(CallMark, Arc<RecordedCall>),
}

impl Event {
    /// The bytes of memory that its messages take.
    pub fn memory(&self) -> usize {
        match self {
            Self::Request { message, .. } | Self::Reply { message, .. } => message.memory(),
            Self::Ended(_, call) => call.memory(),
        }
    }
}

/// The identity of a call, and the time of an event of it.
#[derive(Clone, Debug)]
pub(crate) struct CallMark {
    /// The time.
    pub time: SystemTime,
    /// The call's number.
    pub number: u64,
    /// The gRPC path: untrusted text.
    pub path: String,
    /// The method, if it is one of CSI.
    pub method: Option<&'static Method>,
}

/// Puts events into text.
#[derive(Clone, Copy, Debug)]
pub struct Display {
    /// Whether each call is shown as one JSON object, instead of lines for people.
    pub json: bool,
    /// Whether metadata is shown to people; in JSON it always is.
    pub metadata: bool,
    /// What is shown of messages of methods that CSI does not have.
    pub unknown: Unknown,
    /// For people.
    pub brush: Brush,
}

impl Display {
    /// Adds the text of `event` to `out`; `lost` events before it could not be shown.
    pub fn write(&self, event: &Event, lost: u64, out: &mut Vec<u8>) {
        if self.json {
            if let Event::Ended(_, call) = event {
                out.extend(call_line(call, self.unknown).unwrap_or_default());
            }
            return;
        }
        let mut text = String::new();
        if lost > 0 {
            let _ = writeln!(
                text,
                "... lines are missing, since this output was not read fast enough: {lost}"
            );
        }
        self.text(event, &mut text);
        out.extend(text.bytes());
    }

    fn text(&self, event: &Event, text: &mut String) {
        match event {
            Event::Request {
                mark,
                message,
                metadata,
            } => {
                let of = mark.method.map(|method| method.request);
                let _ = writeln!(
                    text,
                    "{} {}",
                    self.start(mark, "->"),
                    value_text(request_value(message, of, self.unknown), &[])
                );
                self.metadata(metadata, text);
            }
            Event::Reply {
                mark,
                message,
                secrets,
            } => {
                let of = mark.method.map(|method| method.response);
                let _ = writeln!(
                    text,
                    "{} {}",
                    self.start(mark, "<-"),
                    value_text(message_value(message, of, self.unknown), secrets)
                );
            }
            Event::Ended(mark, call) => self.ended(mark, call, text),
        }
    }

    fn start(&self, mark: &CallMark, arrow: &str) -> String {
        let time = clock(mark.time);
        let name = match mark.method {
            Some(method) => format!("{}/{}", method.service, method.name),
            None => escaped(&mark.path).into_owned(),
        };
        let time = self.brush.paint(Colour::Dim, &time);
        let name = self.brush.paint(Colour::Bold, &name);
        format!("{time} #{} {arrow} {name}", mark.number)
    }

    fn metadata(&self, metadata: &[(String, String)], text: &mut String) {
        if self.metadata {
            for (key, value) in metadata {
                let line = format!("    {}: {}", escaped(key), escaped(value));
                let _ = writeln!(text, "{}", self.brush.paint(Colour::Dim, &line));
            }
        }
    }

    fn ended(&self, mark: &CallMark, call: &RecordedCall, text: &mut String) {
        let secrets = call.secrets();
        let took = milliseconds(call.took);
        let _ = write!(text, "{} ", self.start(mark, "<-"));
        let (colour, words, status) = match &call.end {
            CallEnd::Status(status) if status.code == 0 => (Colour::Green, "OK".into(), None),
            CallEnd::Status(status) => (Colour::Red, code_text(status.code), Some(status)),
            CallEnd::Proxy(status) | CallEnd::Broken(status) => {
                (Colour::Red, code_text(status.code), Some(status))
            }
            CallEnd::Reset(reason) => (
                Colour::Red,
                format!("ended by the driver without a status ({})", escaped(reason)).into(),
                None,
            ),
            CallEnd::Cancelled { deadline: true } => (
                Colour::Yellow,
                "given up by the caller: its deadline has passed".into(),
                None,
            ),
            CallEnd::Cancelled { deadline: false } => {
                (Colour::Yellow, "given up by the caller".into(), None)
            }
            CallEnd::Dropped => (Colour::Yellow, "never answered".into(), None),
        };
        let _ = write!(text, "{} {took}", self.brush.paint(colour, &words));
        if let Some(injected) = &call.injected {
            let injected = format!("[injected: {injected}]");
            let _ = write!(text, " {}", self.brush.paint(Colour::Yellow, &injected));
        }
        if let Some(message) = status
            .map(|status| &status.message)
            .filter(|text| !text.is_empty())
        {
            let _ = write!(text, " {}", without(secrets.as_slice(), &escaped(message)));
        }
        let streams = call.method.is_none_or(|method| method.server_streaming);
        if !streams {
            for message in &call.replies {
                let of = call.method.map(|method| method.response);
                let value = message_value(message, of, self.unknown);
                let _ = write!(text, " {}", value_text(value, &secrets));
            }
        }
        text.push('\n');
        self.metadata(&call.metadata[1], text);
        for detail in status.map_or(Vec::new(), |status| details(status, &secrets)) {
            let _ = writeln!(text, "    detail: {detail}");
        }
    }
}

/// A message in JSON on one line: what is set, no secrets, and not without end.
fn value_text(value: Result<Value<'_>, Hidden>, secrets: &[String]) -> String {
    let value = match value {
        Ok(value) => value,
        Err(hidden) => return format!("({} bytes, {})", hidden.bytes, hidden.why),
    };
    let text = match line(&value.lean(), secrets) {
        Ok(text) => text,
        Err(error) => return format!("({error})"),
    };
    let end = text.floor_char_boundary(SHOWN_MAX);
    match end < text.len() {
        true => format!(
            "{}… ({} bytes in all; -o json shows them)",
            &text[..end],
            text.len()
        ),
        false => text,
    }
}

/// A line of JSON without its end. Secrets are looked for before JSON escapes them.
fn line(value: &impl Serialize, secrets: &[String]) -> Result<String, OutputError> {
    if secrets.is_empty() {
        return json::line_text(value);
    }
    let mut value = serde_json::to_value(value).map_err(OutputError::Json)?;
    mask(&mut value, secrets);
    json::line_text(&value)
}

fn details(status: &CallStatus, secrets: &[String]) -> Vec<String> {
    let details = status_details::decoded(&status.details);
    let shown = details.iter().map(|detail| line(detail, secrets));
    shown
        .map(|line| line.unwrap_or_else(|error| format!("({error})")))
        .collect()
}

/// The time of day in UTC: what a log in the same cluster shows.
fn clock(time: SystemTime) -> String {
    let since = time
        .duration_since(SystemTime::UNIX_EPOCH)
        .unwrap_or_default();
    let (seconds, milliseconds) = (since.as_secs() % 86_400, since.subsec_millis());
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    format!(
        "{hours:02}:{minutes:02}:{:02}.{milliseconds:03}Z",
        seconds % 60
    )
}

fn milliseconds(took: Duration) -> String {
    format!("{:.1} ms", took.as_secs_f64() * 1000.0)
}

fn without(secrets: &[String], text: &str) -> String {
    let replace = |text: String, secret: &String| text.replace(escaped(secret).as_ref(), MASK);
    secrets.iter().fold(text.to_owned(), replace)
}
