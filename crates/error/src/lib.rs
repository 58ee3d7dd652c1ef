//! The error of the whole program: one type with causes and hints. The only place that chooses exit codes, and that turns
//! an error into text: for people, for scripts (JSON), and for callers of `csc`.
//!
//! Modules return their own typed errors; they become this type on the way up. Nothing is printed here but what
//! `say` adds on stderr beside results.

pub mod say;

use csi_proto::escaped;
use csi_proto::text::Escaping;
use serde::Serialize;
use serde_json::ser::CompactFormatter;
use serde_json::{Value as Json, json as object};
use std::error::Error as StdError;
use std::fmt::{self, Write as _};
use std::io;
use std::process::ExitCode;
use tonic::Code;

/// Where all went well.
const SUCCESS: u8 = 0;
const LOCAL: u8 = 1;
const USAGE: u8 = 2;
const FAILED: u8 = 3;
const INCOMPLETE: u8 = 4;
/// What is added to a gRPC code, so that none is another kind's.
const OF_GRPC: u8 = 64;
/// What shells have for a program that SIGINT ended.
const INTERRUPTED: u8 = 130;

/// Begins the sentence about an exit code that stands for an answer of the driver; the name of a gRPC code follows.
pub const ANSWERED: &str = "the driver answered ";

/// All exit codes of the program, in order, with what each says. Help and manual pages have their lists from here. Some of
/// `csc`'s say two things.
pub fn exit_codes(style: Style) -> Vec<(u8, String)> {
    let (first, local, usage) = match style {
        Style::Csc => (0, "an error that is no answer of the driver", None),
        Style::Text | Style::Json => (
            OF_GRPC,
            "an error on this side",
            Some((
                USAGE,
                "the command line, the request, or a file that they name is wrong",
            )),
        ),
    };
    let answers = csi_proto::codes::NAMES.iter().zip(first..).skip(1);
    let answers = answers.map(|(name, code)| (code, format!("{ANSWERED}{name}")));
    let own = [(SUCCESS, "success"), (LOCAL, local)];
    let own = own.into_iter().chain(usage).chain([
        (
            FAILED,
            "a check ran, and something is wrong with the driver",
        ),
        (
            INCOMPLETE,
            "a check ran and found nothing wrong, but could not try everything, or left something",
        ),
        (INTERRUPTED, "interrupted by a signal"),
    ]);
    let own = own.map(|(code, text)| (code, text.to_owned()));
    let mut all: Vec<(u8, String)> = own.chain(answers).collect();
    all.sort_by_key(|(code, _)| *code);
    all
}

/// The kind of an error, in the terms that a script acts on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ErrorKind {
    /// Something on this side: a file, a pipe, an endpoint that does not exist.
    #[default]
    Local,
    /// The command line or the request given to it.
    Usage,
    /// The driver, or the way to it, answered with this gRPC code.
    Rpc(Code),
    /// A test of the program found a defect in its subject; the program itself did its work.
    Failed,
    /// A test of the program found no defect in its subject, and could not try everything or left something.
    Incomplete,
    /// Ctrl-C.
    Interrupted,
}

/// An error on its way to the person who typed the command.
#[derive(Debug)]
pub struct Error(Box<Parts>);

#[derive(Debug, Default)]
struct Parts {
    kind: ErrorKind,
    /// The operation, such as `controller create-volume pvc-1`.
    doing: Option<String>,
    /// The line of a script, such as `ci.csi:3`.
    place: Option<String>,
    message: String,
    /// Lines that follow the message for people, as they are.
    advice: String,
    causes: Vec<String>,
    /// The last lines that a command behind an `exec:` endpoint wrote to its stderr.
    stderr: Vec<String>,
    details: Vec<Json>,
    hints: Vec<String>,
    reported: bool,
}

/// The format of errors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Style {
    /// Lines for people.
    Text,
    /// One JSON object.
    Json,
    /// As `csc` does: the message alone, then a pointer to the help, and bare gRPC codes as exit codes.
    Csc,
}

impl Style {
    /// The style of a program of that name, where no flag asks for another.
    pub fn of_program(name: &str) -> Self {
        match name {
            "csc" => Self::Csc,
            _ => Self::Text,
        }
    }
}

impl Error {
    /// Something on this side failed.
    pub fn local(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Local, message.into())
    }

    /// The command line asks for something that cannot be.
    pub fn usage(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Usage, message.into())
    }

    /// The command line does not fit: the parser's own text, whose first line is the error and the rest usage and tips.
    pub fn unparsed(text: &str) -> Self {
        let text = text.strip_prefix("error: ").unwrap_or(text);
        let (message, advice) = text.split_once('\n').unwrap_or((text, ""));
        let mut error = Self::usage(message);
        advice.trim_end().clone_into(&mut error.0.advice);
        error
    }

    /// The error of a tool whose subject fails its test.
    pub fn failed(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Failed, message.into())
    }

    /// The error of a tool that could not try all of its subject.
    pub fn incomplete(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Incomplete, message.into())
    }

    /// Nobody reads stdout any more: nothing to tell, as the tools of a pipe do not.
    pub fn unread() -> Self {
        Self::local("nobody reads stdout any more").reported()
    }

    /// Ctrl-C.
    pub fn interrupted() -> Self {
        Self::new(ErrorKind::Interrupted, "interrupted".to_owned())
    }

    /// A call ended with `code`; `message` is the driver's own, untrusted text.
    pub fn rpc(code: Code, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Rpc(code), message.into())
    }

    fn new(kind: ErrorKind, message: String) -> Self {
        Self(Box::new(Parts {
            kind,
            message,
            ..Parts::default()
        }))
    }

    /// Marks the error as already reported to the person: only its exit code still counts.
    #[must_use]
    pub fn reported(mut self) -> Self {
        self.0.reported = true;
        self
    }

    /// Whether the error was already reported to the person.
    pub fn is_reported(&self) -> bool {
        self.0.reported
    }

    /// Something on this side failed because of `source`.
    pub fn because(message: impl Into<String>, source: &(dyn StdError + 'static)) -> Self {
        Self::local(message).caused_by(source)
    }

    /// A file or folder that the command line names cannot be used because of `source`. That is an error of the command line, but one
    /// of this side where the system fails.
    pub fn unusable(message: impl Into<String>, source: &(dyn StdError + 'static)) -> Self {
        let kind = match system_fails(source) {
            true => ErrorKind::Local,
            false => ErrorKind::Usage,
        };
        Self::new(kind, message.into()).caused_by(source)
    }

    /// An error of this side that this one has caused, with its causes, hints and advice.
    #[must_use]
    pub fn led_to(self, message: impl Into<String>) -> Self {
        let mut causes = vec![self.first_line()];
        let parts = *self.0;
        causes.extend(parts.causes);
        Self(Box::new(Parts {
            kind: ErrorKind::Local,
            doing: None,
            place: None,
            message: message.into(),
            causes,
            reported: false,
            ..parts
        }))
    }

    /// Adds `source` and what lies behind it, leaving out what repeats the line before it.
    #[must_use]
    pub fn caused_by(mut self, source: &(dyn StdError + 'static)) -> Self {
        let mut next = Some(source);
        while let Some(error) = next {
            if let Some(stderr) = error.downcast_ref::<StderrLines>() {
                self.0.stderr.extend(stderr.lines().map(str::to_owned));
                next = error.source();
                continue;
            }
            let text = error.to_string();
            let known = self.0.causes.last().unwrap_or(&self.0.message);
            if !known.contains(&text) {
                self.0.causes.push(text);
            }
            next = error.source();
        }
        self
    }

    /// Says what was being done.
    #[must_use]
    pub fn doing(mut self, what: impl Into<String>) -> Self {
        self.0.doing.get_or_insert(what.into());
        self
    }

    /// Adds advice.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hints.push(hint.into());
        self
    }

    /// Adds advice, where there is some.
    #[must_use]
    pub fn with_hint(self, hint: Option<impl Into<String>>) -> Self {
        match hint {
            Some(hint) => self.hint(hint),
            None => self,
        }
    }

    /// Adds a decoded status detail.
    #[must_use]
    pub fn detail(mut self, detail: Json) -> Self {
        self.0.details.push(detail);
        self
    }

    /// Says which line of a script failed; the innermost script counts.
    #[must_use]
    pub fn at(mut self, place: impl Into<String>) -> Self {
        self.0.place.get_or_insert(place.into());
        self
    }

    /// The kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The process's exit status, one of [`exit_codes`]. `csc` has the bare gRPC code, and 1 for all that is not a reply.
    pub fn exit_code(&self, style: Style) -> ExitCode {
        let code = self.0.kind;
        ExitCode::from(match (code, style) {
            (ErrorKind::Interrupted, _) => INTERRUPTED,
            (ErrorKind::Failed, _) => FAILED,
            (ErrorKind::Incomplete, _) => INCOMPLETE,
            (ErrorKind::Rpc(code), Style::Csc) => code_number(code),
            (ErrorKind::Rpc(code), _) => OF_GRPC + code_number(code),
            (ErrorKind::Usage, Style::Csc) | (ErrorKind::Local, _) => LOCAL,
            (ErrorKind::Usage, _) => USAGE,
        })
    }

    /// The first line of the text for people, without the word that it is an error.
    pub fn first_line(&self) -> String {
        let text = self.render(Style::Text);
        let line = text.lines().next().unwrap_or_default();
        line.trim_start_matches("error: ").to_owned()
    }

    /// The message and its causes in one line.
    pub fn in_one_line(&self) -> String {
        let lines = [self.first_line()].into_iter();
        let lines = lines.chain(self.0.causes.iter().cloned());
        let last = self.0.stderr.last().cloned();
        lines.chain(last).collect::<Vec<_>>().join(": ")
    }

    /// The first advice, where there is some.
    pub fn advice(&self) -> Option<&str> {
        self.0.hints.first().map(String::as_str)
    }

    /// The text for stderr, ending in a newline.
    pub fn render(&self, style: Style) -> String {
        match style {
            Style::Text => self.text(),
            Style::Json => {
                let mut line = Vec::new();
                let mut writer =
                    serde_json::Serializer::with_formatter(&mut line, Escaping(CompactFormatter));
                // A vector takes every byte.
                let _ = self.json().serialize(&mut writer);
                line.push(b'\n');
                String::from_utf8_lossy(&line).into_owned()
            }
            Style::Csc => {
                // csc's one line, with what it was missing: the cause.
                let mut lines = vec![self.0.message.as_str()];
                lines.extend(self.0.causes.iter().map(String::as_str));
                let line = lines.join(": ");
                format!(
                    "{}\n\nPlease use -h,--help for more information\n",
                    escaped(&line)
                )
            }
        }
    }

    fn text(&self) -> String {
        let mut out = String::new();
        if let Some(place) = &self.0.place {
            let _ = write!(out, "{}: ", escaped(place));
        }
        out.push_str("error: ");
        if let Some(doing) = &self.0.doing {
            let _ = write!(out, "{}: ", escaped(doing));
        }
        if let ErrorKind::Rpc(code) = self.0.kind {
            let _ = write!(out, "{}: ", code_name(code));
        }
        let message = match self.0.message.is_empty() {
            true => "(the driver gave no message)",
            false => &self.0.message,
        };
        let _ = writeln!(out, "{}", escaped(message));
        if !self.0.advice.is_empty() {
            let _ = writeln!(out, "{}", self.0.advice);
        }
        for cause in &self.0.causes {
            let _ = writeln!(out, "  caused by: {}", escaped(cause));
        }
        for line in &self.0.stderr {
            let _ = writeln!(out, "  stderr: {}", escaped(line));
        }
        for detail in &self.0.details {
            let _ = writeln!(out, "  detail: {}", escaped(&detail.to_string()));
        }
        for hint in &self.0.hints {
            let _ = writeln!(out, "  hint: {hint}");
        }
        out
    }

    fn json(&self) -> Json {
        let mut error = object!({
            "kind": match self.0.kind {
                ErrorKind::Local => "local",
                ErrorKind::Usage => "usage",
                ErrorKind::Failed => "failed",
                ErrorKind::Incomplete => "incomplete",
                ErrorKind::Rpc(_) => "rpc",
                ErrorKind::Interrupted => "interrupted",
            },
            "message": self.0.message,
        });
        if let ErrorKind::Rpc(code) = self.0.kind {
            error["code"] = object!(code_name(code));
            error["number"] = object!(code_number(code));
        }
        for (name, text) in [("command", &self.0.doing), ("place", &self.0.place)] {
            if let Some(text) = text {
                error[name] = object!(text);
            }
        }
        let hints = self.0.hints.iter().cloned();
        let hints: Vec<String> = hints.chain(advised(&self.0.advice)).collect();
        let lists = [
            ("causes", &self.0.causes),
            ("stderr", &self.0.stderr),
            ("hints", &hints),
        ];
        for (name, list) in lists {
            if !list.is_empty() {
                error[name] = object!(list);
            }
        }
        if !self.0.details.is_empty() {
            error["details"] = object!(self.0.details);
        }
        object!({ "error": error })
    }
}

/// What the parser's advice says of the mistake, without the usage and the way to the help that follow.
fn advised(advice: &str) -> impl Iterator<Item = String> {
    let lines = advice.lines().map(str::trim);
    let of_mistake = lines.take_while(|line| {
        let ends = ["Usage:", "Commands:", "For more information"];
        !ends.iter().any(|end| line.starts_with(end))
    });
    let said = of_mistake.filter(|line| !line.is_empty());
    said.map(str::to_owned)
}

/// Whether an error comes from the system and not from what is named: a full disk, but not a missing file.
fn system_fails(error: &(dyn StdError + 'static)) -> bool {
    let mut causes = std::iter::successors(Some(error), |&error| error.source());
    causes.any(|error| {
        let error = error.downcast_ref::<io::Error>();
        error.is_some_and(|error| !is_of_name(error.kind()))
    })
}

/// Whether an error of the system is about what is named: a missing file, but not a full disk.
fn is_of_name(kind: io::ErrorKind) -> bool {
    matches!(
        kind,
        io::ErrorKind::NotFound
            | io::ErrorKind::AlreadyExists
            | io::ErrorKind::NotADirectory
            | io::ErrorKind::IsADirectory
            | io::ErrorKind::PermissionDenied
            | io::ErrorKind::InvalidInput
            | io::ErrorKind::InvalidData
            | io::ErrorKind::InvalidFilename
    )
}

/// A failure on its way to become an [`Error`].
pub trait OrError<T> {
    /// The command line asks for something that cannot be, in the failure's own words.
    fn or_usage(self) -> Result<T, Error>;

    /// Something on this side failed because of it.
    fn or_because(self, message: impl fmt::Display) -> Result<T, Error>;

    /// A file or folder that the command line names cannot be used because of it.
    fn or_unusable(self, message: impl fmt::Display) -> Result<T, Error>;
}

impl<T, E: StdError + 'static> OrError<T> for Result<T, E> {
    fn or_usage(self) -> Result<T, Error> {
        self.map_err(|error| Error::usage(error.to_string()))
    }

    fn or_because(self, message: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| Error::because(message.to_string(), &error))
    }

    fn or_unusable(self, message: impl fmt::Display) -> Result<T, Error> {
        self.map_err(|error| Error::unusable(message.to_string(), &error))
    }
}

/// The end of what an `exec:` command wrote to stderr, at most 8 KiB: untrusted text of one line or many.
///
/// It stands in the chain of causes; [`Error::caused_by`] shows it line by line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StderrLines(String);

impl StderrLines {
    /// The lines of `text`; `None` where it shows nothing.
    pub fn new(text: String) -> Option<Self> {
        (!text.trim().is_empty()).then_some(Self(text))
    }

    /// The lines of the details, in order, without empty ones.
    pub fn lines(&self) -> impl Iterator<Item = &str> {
        self.0
            .lines()
            .map(str::trim_end)
            .filter(|line| !line.is_empty())
    }
}

impl fmt::Display for StderrLines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, line) in self.lines().enumerate() {
            let newline = if index == 0 { "" } else { "\n" };
            write!(f, "{newline}{line}")?;
        }
        Ok(())
    }
}

impl std::error::Error for StderrLines {}

/// The code's number on the wire, 0 to 16.
pub fn code_number(code: Code) -> u8 {
    u8::try_from(i32::from(code)).unwrap_or(2)
}

/// The code's name as the gRPC and CSI documents spell it, such as `NOT_FOUND`.
pub fn code_name(code: Code) -> &'static str {
    csi_proto::codes::name(code.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_exit_code_stands_in_the_list_and_in_the_reference() {
        let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/client.md");
        let page = std::fs::read_to_string(page).unwrap();
        let page = page.split("## Errors and exit codes").nth(1).unwrap();
        let page = page.split("\n## ").next().unwrap();
        for (code, text) in exit_codes(Style::Text) {
            let row = match text.strip_prefix(ANSWERED) {
                Some(name) => format!("\n| {code} | {name}"),
                None => format!("\n| {code} | {text}"),
            };
            assert!(page.contains(&row), "{row:?} is not in docs/client.md");
        }
        let rows = page.lines().filter(|line| {
            let cell = line.strip_prefix("| ").unwrap_or_default();
            cell.starts_with(|letter: char| letter.is_ascii_digit())
        });
        assert_eq!(rows.count(), exit_codes(Style::Text).len());
        let kinds = (0..=16).map(|code| ErrorKind::Rpc(Code::from_i32(code)));
        let kinds = kinds.skip(1).chain([
            ErrorKind::Local,
            ErrorKind::Usage,
            ErrorKind::Failed,
            ErrorKind::Interrupted,
        ]);
        for (kind, style) in kinds.flat_map(|kind| [(kind, Style::Text), (kind, Style::Csc)]) {
            let code = Error::new(kind, String::new()).exit_code(style);
            let known = exit_codes(style);
            let mut known = known.iter().map(|(known, _)| ExitCode::from(*known));
            assert!(known.any(|known| known == code), "{kind:?}");
        }
        let not_found = (5, "the driver answered NOT_FOUND".to_owned());
        assert!(exit_codes(Style::Csc).contains(&not_found));
        assert!(
            exit_codes(Style::Csc)
                .iter()
                .all(|(code, _)| *code <= 16 || *code == INTERRUPTED)
        );
    }
}
