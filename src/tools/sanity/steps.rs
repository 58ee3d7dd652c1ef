//! The steps of a case, and the command lines that repeat them.
//!
//! Requests are written as `--request` of the command for that RPC. Ids that the driver chose are taken over by shell
//! variables, so that the lines run again against a driver that chooses others. Secrets are left out; the file that they
//! come from is named.

use super::run::Run;
use crate::call::session::Connection;
use crate::error::code_name;
use crate::output::json;
use crate::output::shell_word::word;
use crate::rpc;
use bytes::Bytes;
use csi_proto::path::Path;
use csi_proto::schema::Method;
use csi_proto::text::escaped;
use csi_proto::value::{Secrets, Value, decode};
use std::fmt::Write as _;
use std::time::{Duration, Instant};
use tonic::Code;

/// The number of steps that are kept; of a case with more, the last ones.
const KEPT: usize = 40;

/// A step of a case.
#[derive(Clone, Debug)]
pub enum Step {
    /// A call.
    Call(Call),
    /// A command of the shell.
    Shell(String),
    /// The command that restarts the driver, which then takes some time until it answers.
    Restart(String),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    method: &'static Method,
    request: Bytes,
    limit: Option<Duration>,
    began: Instant,
    /// The time and the kind of its end; `None` for a call that was given up.
    ended: Option<(Instant, StepAnswer)>,
}

/// The end of a call: the first message that answered it, or another code than OK.
pub type StepAnswer = Result<Bytes, Code>;

/// The steps of a case, in the order of their beginnings.
#[derive(Clone, Debug, Default)]
pub struct Steps {
    all: Vec<Step>,
    dropped: usize,
}

impl Steps {
    /// Adds a step.
    pub(super) fn push(&mut self, step: Step) -> usize {
        if self.all.len() >= 2 * KEPT {
            self.all.drain(..KEPT);
            self.dropped += KEPT;
        }
        self.all.push(step);
        self.dropped + self.all.len() - 1
    }

    /// Adds a call that begins now; its number.
    pub(super) fn begin(
        &mut self,
        method: &'static Method,
        request: Bytes,
        limit: Option<Duration>,
    ) -> usize {
        self.push(Step::Call(Call {
            method,
            request,
            limit,
            began: Instant::now(),
            ended: None,
        }))
    }

    /// Adds a call that succeeded after the case, to tidy up.
    pub(super) fn tidy(&mut self, method: &'static Method, request: Bytes) {
        let number = self.begin(method, request, None);
        self.end(number, Ok(Bytes::new()));
    }

    /// Says how a call ended.
    pub(super) fn end(&mut self, number: usize, answer: StepAnswer) {
        let index = number.checked_sub(self.dropped);
        if let Some(Step::Call(call)) = index.and_then(|index| self.all.get_mut(index)) {
            call.ended = Some((Instant::now(), answer));
        }
    }

    /// The last call that was refused, and its code.
    pub(super) fn last_refusal(&self) -> Option<(&'static Method, Code)> {
        self.all.iter().rev().find_map(|step| match step {
            Step::Call(call) => match &call.ended {
                Some((_, Err(code))) => Some((call.method, *code)),
                _ => None,
            },
            _ => None,
        })
    }

    /// The command lines that do the same again. Calls that ran at the same time run at the same time there too.
    pub(super) fn commands(&self, run: &Run) -> Vec<String> {
        let mut writer = ScriptWriter {
            run,
            ids: Vec::new(),
            lines: Vec::new(),
        };
        let skipped = self.all.len().saturating_sub(KEPT);
        if self.dropped + skipped > 0 {
            writer.lines.push(format!(
                "# {} steps before these are left out",
                self.dropped + skipped
            ));
        }
        let steps = &self.all[skipped..];
        let mut beside = false;
        for (index, step) in steps.iter().enumerate() {
            match step {
                Step::Shell(command) => writer.lines.push(command.clone()),
                Step::Restart(command) => {
                    let csi = writer.csi(&run.node);
                    let ready = format!("{csi} --wait 1m identity probe");
                    writer.lines.extend([command.clone(), ready]);
                }
                Step::Call(call) => {
                    let next = steps.get(index + 1);
                    let overlaps = matches!((next, &call.ended), (Some(Step::Call(next)), Some((end, _))) if next.began < *end);
                    writer.call(call, overlaps || beside);
                    if beside && !overlaps {
                        writer.lines.push("wait".to_owned());
                    }
                    beside = overlaps;
                }
            }
        }
        writer.lines
    }
}

struct ScriptWriter<'a> {
    run: &'a Run,
    /// Ids that the driver chose, with the variables that hold them.
    ids: Vec<(String, String)>,
    lines: Vec<String>,
}

impl ScriptWriter<'_> {
    fn call(&mut self, call: &Call, beside: bool) {
        let Some((group, rpc)) = rpc::of_method(call.method) else {
            let line = format!("# a call of {}, which no command makes", call.method.path);
            return self.lines.push(line);
        };
        let mut line = self.csi(self.run.peer(call.method));
        let cancelled = call.ended.is_none();
        if cancelled {
            line.insert_str(0, "timeout -s INT 0.1 ");
        }
        if let Some(limit) = call.limit {
            let _ = write!(line, " -t {limit:?}");
        }
        let has_secrets = call.method.request.fields.iter().any(|field| field.secret);
        let secrets = self.run.settings.secrets_file.as_deref();
        let file = secrets.filter(|file| has_secrets && *file != "-");
        let request = self.request(&request_text(call.method, &call.request));
        let _ = write!(line, " {} {}", group.name, rpc.verb());
        if let Some(file) = file {
            let _ = write!(line, " --secrets-file {}", word(file));
        }
        let _ = write!(line, " --request {request}");
        if let Some(id) = self.new_id(call) {
            let variable = format!("id{}", self.ids.len() + 1);
            line = match beside {
                // A variable that is set in the background is lost.
                true => format!("{line} &"),
                false => {
                    self.ids.push((id, variable.clone()));
                    format!("{variable}=$({line} -o name)")
                }
            };
        } else if beside {
            line.push_str(" &");
        }
        let outcome = match &call.ended {
            None => Some("given up"),
            Some((_, answer)) => answer.as_ref().err().map(|code| code_name(*code)),
        };
        if let Some(outcome) = outcome {
            let _ = write!(line, "  # {outcome}");
        }
        self.lines.push(line);
    }

    fn csi(&self, peer: &Connection) -> String {
        let mut line = format!("csi -e {}", word(&peer.endpoint.to_string()));
        for flag in &self.run.settings.connection_flags {
            let _ = write!(line, " {}", word(flag));
        }
        line
    }

    /// The document as a word of the shell, with variables in the place of ids that the driver chose.
    fn request(&self, json: &str) -> String {
        if json.contains('\'') || escaped(json) != json {
            return word(json);
        }
        let mut text = format!("'{json}'");
        for (id, variable) in &self.ids {
            text = text.replace(&format!("\"{id}\""), &format!("\"'\"${variable}\"'\""));
        }
        text
    }

    /// The id that a create answered with, when it is new and plain enough to stand for itself in JSON and in the shell.
    fn new_id(&self, call: &Call) -> Option<String> {
        let (_, path) = rpc::making(call.method)?.own_id()?;
        let Some((_, Ok(bytes))) = &call.ended else {
            return None;
        };
        let path = Path::parse(call.method.response, path).ok()?;
        let Ok(Value::Text(id)) = path.read(bytes) else {
            return None;
        };
        let plain =
            |letter: char| letter.is_ascii_graphic() && !matches!(letter, '"' | '\\' | '\'');
        let known = self.ids.iter().any(|(known, _)| **known == *id);
        (!id.is_empty() && !known && id.chars().all(plain)).then(|| id.into_owned())
    }
}

/// A request as JSON, without secrets.
pub fn request_text(method: &Method, request: &Bytes) -> String {
    let decoded = decode(method.request, request, Secrets::Omit);
    let mut json = Vec::new();
    let shown = decoded.map(|value| json::line(&lean(value), &mut json));
    match shown {
        Ok(_) => String::from_utf8_lossy(&json).trim_end().to_owned(),
        Err(_) => "{}".to_owned(),
    }
}

/// The value without what is as if it were not there, to keep the lines short.
fn lean(value: Value<'_>) -> Value<'_> {
    let says_nothing = |value: &Value<'_>| match value {
        Value::Absent | Value::Bool(false) | Value::Int32(0) | Value::Int64(0) => true,
        Value::Enum(number, _) => *number == 0,
        Value::Text(text) => text.is_empty(),
        Value::List(list) => list.is_empty(),
        Value::Map(map) => map.is_empty(),
        _ => false,
    };
    match value {
        Value::Message(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !says_nothing(value));
            Value::Message(fields.map(|(key, value)| (key, lean(value))).collect())
        }
        Value::List(list) => Value::List(list.into_iter().map(lean).collect()),
        other => other,
    }
}
