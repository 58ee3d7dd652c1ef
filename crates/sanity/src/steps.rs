//! The steps of a case: its calls, and what it does besides. `script.rs` makes command lines of them.

use super::own_driver::Restarter;
use bytes::Bytes;
use csi_output::json;
use csi_proto::schema::Method;
use csi_proto::value::{Secrets, Value, decode};
use std::time::{Duration, Instant};
use tonic::Code;

/// The comment above the lines that take down what the lines before them have made.
pub const TIDIES_UP: &str = "# to tidy up:";

/// A step of a case.
#[derive(Clone)]
pub enum Step {
    /// A call.
    Call(Call),
    /// A command of the shell.
    Shell(String),
    /// What restarts the driver, which then takes some time until it answers.
    Restart(Restarter),
}

/// A call.
#[derive(Clone, Debug)]
pub struct Call {
    /// The RPC.
    pub(super) method: &'static Method,
    /// The request.
    pub(super) request: Bytes,
    /// The deadline, where it is not that of every call.
    pub(super) limit: Option<Duration>,
    /// When it began.
    pub(super) began: Instant,
    /// The time and the kind of its end; `None` for a call that was given up.
    pub(super) ended: Option<(Instant, StepAnswer)>,
}

impl Step {
    /// The call, where it is one.
    pub(super) fn call(&self) -> Option<&Call> {
        match self {
            Self::Call(call) => Some(call),
            _ => None,
        }
    }
}

impl Call {
    /// The first message of the reply, where it was answered with OK.
    pub(super) fn reply(&self) -> Option<&Bytes> {
        self.ended.as_ref()?.1.as_ref().ok()
    }

    /// A call that is over and ran beside no other.
    pub(super) fn over(method: &'static Method, request: Bytes, answer: StepAnswer) -> Self {
        let now = Instant::now();
        Self {
            method,
            request,
            limit: None,
            began: now,
            ended: Some((now, answer)),
        }
    }
}

/// The end of a call: the first message that answered it, or another code than OK.
pub type StepAnswer = Result<Bytes, Code>;

/// The steps of a case, in the order of their beginnings.
#[derive(Clone, Default)]
pub struct Steps(Vec<Step>);

impl Steps {
    /// All of them.
    pub(super) fn all(&self) -> &[Step] {
        &self.0
    }

    /// Adds a step; its number.
    pub(super) fn push(&mut self, step: Step) -> usize {
        self.0.push(step);
        self.0.len() - 1
    }

    /// Adds a comment, before the lines of another case that tidy up.
    pub(super) fn remark(&mut self, line: String) {
        let tidies = |step: &Step| matches!(step, Step::Shell(line) if line == TIDIES_UP);
        let at = self.0.iter().rposition(tidies).unwrap_or(self.0.len());
        self.0.insert(at, Step::Shell(line));
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

    /// Says how a call ended.
    pub(super) fn end(&mut self, number: usize, answer: StepAnswer) {
        if let Some(Step::Call(call)) = self.0.get_mut(number) {
            call.ended = Some((Instant::now(), answer));
        }
    }

    fn calls(&self) -> impl DoubleEndedIterator<Item = &Call> {
        self.0.iter().filter_map(Step::call)
    }

    /// When the driver last answered a call.
    pub(super) fn last_answer(&self) -> Option<Instant> {
        let ends = self.calls().filter_map(|call| call.ended.as_ref());
        let ends = ends.filter(|(_, answer)| *answer != Err(Code::DeadlineExceeded));
        ends.map(|(end, _)| *end).max()
    }

    /// Whether one of them has made something.
    pub(super) fn have_made(&self) -> bool {
        let mut calls = self.calls();
        calls.any(|call| call.reply().is_some() && csi_rpc::making(call.method).is_some())
    }

    /// The last call that was refused, and its code.
    pub(super) fn last_refusal(&self) -> Option<(&'static Method, Code)> {
        let mut calls = self.calls().rev();
        calls.find_map(|call| Some((call.method, call.ended.as_ref()?.1.as_ref().err().copied()?)))
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
