//! Reads a recording.

use super::VERSION;
use csi_arguments::text::LIMIT;
use csi_output::recorded::{Recorded, RecordedOutcome};
use csi_proto::codes::NAMES as CODE_NAMES;
use csi_proto::methods;
use csi_sys::waits;
use serde_json::Value as Json;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::time::Duration;
use thiserror::Error;

/// A recording that cannot be used.
#[derive(Debug, Error)]
pub(crate) enum ReadError {
    /// The file cannot be read.
    #[error("cannot read the recording {}", .0.display())]
    Io(PathBuf, #[source] io::Error),
    /// The first line of the file is not a recording's.
    #[error("{} is not a recording of `csi proxy --record`: its first line says no version", .0.display())]
    NotARecording(PathBuf),
    /// Another version of the format.
    #[error("{} is a recording of version {version}, and this csi reads version {VERSION}: use the csi that made it{made_by}", .path.display())]
    Version {
        /// The file.
        path: PathBuf,
        /// The version in the file.
        version: String,
        /// The version of the program that wrote it, as text to add.
        made_by: String,
    },
    /// A line that is not a call.
    #[error("{path}: line {1}: {2}", path = .0.display())]
    Line(PathBuf, usize, String),
}

/// A recording.
#[derive(Debug)]
pub struct Recording {
    /// The driver, as the proxy named it; untrusted text.
    pub target: String,
    /// When the recording began.
    pub started: String,
    /// The calls in the order in which they began.
    pub calls: Vec<Recorded>,
    /// Whether its last line is cut off, as when the program that wrote it was killed.
    pub is_cut: bool,
}

impl Recording {
    /// The recording in a file, or on standard input for `-`.
    ///
    /// # Errors
    /// When it cannot be read, is none, or is of another version. A last line that is cut off is none of these.
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let mut bytes = Vec::new();
        let mut read = |input: &mut dyn Read| {
            Read::take(&mut *input, LIMIT).read_to_end(&mut bytes)?;
            // What is no recording may have no end either.
            match bytes.len() as u64 == LIMIT && Self::parse(path, &bytes).is_ok() {
                true => input.read_to_end(&mut bytes),
                false => Ok(0),
            }
        };
        let read = match path.to_str() {
            Some("-") => read(&mut *waits::stdin()),
            _ => waits::open(path).and_then(|mut file| read(&mut file)),
        };
        read.map_err(|cause| ReadError::Io(path.to_owned(), cause))?;
        Self::parse(path, &bytes)
    }

    fn parse(path: &Path, bytes: &[u8]) -> Result<Self, ReadError> {
        let text = String::from_utf8_lossy(bytes);
        let lines = text.strip_prefix('\u{feff}').unwrap_or(&text).lines();
        let mut lines = lines
            .enumerate()
            .filter(|(_, line)| !line.trim().is_empty())
            .peekable();
        let none = || ReadError::NotARecording(path.to_owned());
        let (_, first) = lines.next().ok_or_else(none)?;
        let header: Json = serde_json::from_str(first).map_err(|_| none())?;
        match header.get("recording") {
            None => return Err(none()),
            Some(version) if version.as_u64() == Some(VERSION) => {}
            Some(version) => {
                let made_by = header.get("csi").and_then(Json::as_str);
                return Err(ReadError::Version {
                    path: path.to_owned(),
                    version: version.to_string(),
                    made_by: made_by.map_or_else(String::new, |made_by| format!(", {made_by}")),
                });
            }
        }
        let mut recording = Self {
            target: text_of(&header, "target"),
            started: text_of(&header, "started"),
            calls: Vec::new(),
            is_cut: false,
        };
        let whole = text.ends_with('\n');
        while let Some((index, line)) = lines.next() {
            let is_last = lines.peek().is_none();
            match call(line) {
                Ok(call) => recording.calls.push(call),
                Err(_) if is_last && !whole => recording.is_cut = true,
                Err(problem) => {
                    return Err(ReadError::Line(path.to_owned(), index + 1, problem));
                }
            }
        }
        recording.calls.sort_by_key(|call| (call.at, call.number));
        Ok(recording)
    }
}

fn text_of(json: &Json, name: &str) -> String {
    let text = json.get(name).and_then(Json::as_str);
    text.unwrap_or_default().to_owned()
}

fn call(line: &str) -> Result<Recorded, String> {
    // What was read is one line, and its number in the file is said elsewhere.
    let json: Json = serde_json::from_str(line).map_err(|error| {
        error
            .to_string()
            .replace(" at line 1 column ", " at column ")
    })?;
    let missing = |name: &str| format!("it has no {name:?} that can be used");
    let seconds = |name: &str| {
        let seconds = json.get(name).and_then(Json::as_f64);
        let seconds = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        seconds.ok_or_else(|| missing(name))
    };
    let path = json.get("method").and_then(Json::as_str);
    let path = path.ok_or_else(|| missing("method"))?.to_owned();
    let status = json.get("status").ok_or_else(|| missing("status"))?;
    let code = text_of(status, "code");
    let is_reset = status.get("reset").is_some();
    let by = status.get("by").and_then(Json::as_str);
    let by = by.or(is_reset.then_some("reset"));
    let is_code = code.parse::<i32>().is_ok() || CODE_NAMES.contains(&code.as_str());
    if by.is_none() && !is_code {
        return Err(format!("{code:?} is no status code"));
    }
    let outcome = RecordedOutcome {
        by: by.map(str::to_owned),
        code,
        message: text_of(status, if is_reset { "reset" } else { "message" }),
    };
    let messages = |one: &str, many: &str| match (json.get(one), json.get(many)) {
        (Some(message), _) => vec![message.clone()],
        (None, Some(Json::Array(all))) => all.clone(),
        _ => Vec::new(),
    };
    Ok(Recorded {
        number: json
            .get("call")
            .and_then(Json::as_u64)
            .ok_or_else(|| missing("call"))?,
        at: seconds("at")?,
        took: seconds("seconds")?,
        method: methods::by_path(&path),
        path,
        requests: messages("request", "requests"),
        replies: messages("reply", "replies"),
        outcome,
        replayed: None,
        sent: json.get("sent").and_then(Json::as_bool).unwrap_or(true),
        injected: json
            .get("injected")
            .and_then(Json::as_str)
            .map(str::to_owned),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = r#"{"recording":1,"csi":"0.1.0","spec":"1.0.0","target":"unix:///s","started":"2026-01-31T12:00:00Z"}"#;
    const CALL: &str = r#"{"call":1,"at":1.5,"method":"/csi.v1.Identity/Probe","request":{},"reply":{"ready":true},"status":{"code":"OK"},"seconds":0.25}"#;

    fn parse(text: &str) -> Result<Recording, String> {
        Recording::parse(Path::new("r.jsonl"), text.as_bytes()).map_err(|error| error.to_string())
    }

    #[test]
    fn a_recording_is_read_and_a_cut_last_line_is_noticed() {
        let whole = parse(&format!("{HEADER}\n{CALL}\n")).expect("a recording");
        assert!(!whole.is_cut);
        let call = &whole.calls[0];
        assert_eq!(call.end(), Duration::from_millis(1750));
        assert_eq!(call.method.map(|method| method.name), Some("Probe"));
        assert_eq!((call.requests.len(), call.replies.len()), (1, 1));
        for end in 1..CALL.len() {
            let cut = parse(&format!("{HEADER}\n{CALL}\n{}", &CALL[..end])).expect("a recording");
            assert_eq!((cut.calls.len(), cut.is_cut), (1, true), "{end}");
        }
    }

    #[test]
    fn what_an_editor_adds_is_no_harm() {
        let edited = format!("\u{feff}{HEADER}\r\n\r\n \n{CALL}\r\n\n");
        let read = parse(&edited).expect("a recording");
        assert_eq!((read.calls.len(), read.is_cut), (1, false));
    }

    #[test]
    fn calls_are_in_the_order_of_their_beginning() {
        let earlier = CALL
            .replace("1.5", "0.5")
            .replace("\"call\":1", "\"call\":2");
        let both = parse(&format!("{HEADER}\n{CALL}\n{earlier}\n")).expect("a recording");
        let numbers: Vec<_> = both.calls.iter().map(|call| call.number).collect();
        assert_eq!(numbers, [2, 1]);
    }

    #[test]
    fn every_code_that_can_be_written_is_read() {
        for code in [-1, 0, 16, 17, i32::MAX] {
            let text = crate::recording::code_text(code);
            let line = CALL.replace("\"OK\"", &format!("{text:?}"));
            let read = parse(&format!("{HEADER}\n{line}\n")).expect("a recording");
            let expected = RecordedOutcome {
                code: text.into_owned(),
                ..RecordedOutcome::default()
            };
            assert_eq!(read.calls[0].outcome, expected);
        }
    }

    #[test]
    fn what_never_ends_is_no_recording() {
        let error = Recording::read(Path::new("/dev/zero")).expect_err("endless");
        assert!(error.to_string().contains("is not a recording"), "{error}");
    }

    #[test]
    fn one_that_is_long_is_read_to_its_end() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let call = CALL.replace("true", &format!("\"{}\"", "x".repeat(1 << 20)));
        let calls = format!("{call}\n").repeat(20);
        std::fs::write(file.path(), format!("{HEADER}\n{calls}")).expect("written");
        let read = Recording::read(file.path()).expect("a recording");
        assert_eq!((read.calls.len(), read.is_cut), (20, false));
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let cases = [
            (String::new(), "is not a recording"),
            ("hello\n".to_owned(), "is not a recording"),
            ("{\"a\":1}\n".to_owned(), "is not a recording"),
            (
                HEADER.replace(":1,", ":2,"),
                "is a recording of version 2, and this csi reads version 1: use the csi that made it, 0.1.0",
            ),
            (
                format!("{HEADER}\n{{}}\n{CALL}\n"),
                "line 2: it has no \"method\"",
            ),
            (
                format!("{HEADER}\n\n{}\n{CALL}\n", &CALL[..100]),
                "line 3: EOF while parsing a string at column 100",
            ),
            (
                format!("{HEADER}\n{}\n", CALL.replace("\"OK\"", "\"FINE\"")),
                "line 2: \"FINE\" is no status code",
            ),
            (
                format!("{HEADER}\n{}\n", CALL.replace("1.5", "-1")),
                "line 2: it has no \"at\"",
            ),
        ];
        for (text, part) in cases {
            let error = parse(&text).expect_err(part);
            assert!(error.contains(part), "{error}");
        }
    }
}
