//! Checks of requests and replies against the CSI specification, for `--with-spec-validation` and for csc's flags that
//! demand secrets or contexts.
//!
//! Owns what is checked when, and the list of what is wrong. What holds for every message is in `walk`, the rules of
//! single messages in `messages`, those of single RPCs in `methods`. Rules that depend on what a driver says it can do
//! (its capabilities) are not checked: one message does not tell. Nothing is printed here.

mod exchange;
mod messages;
mod methods;
mod syntax;
mod view;
mod walk;

use csi_proto::schema::Method;
use csi_proto::value::Value;
use exchange::{Exchange, Stream};
use std::fmt;
use view::View;

/// What to check.
#[derive(Clone, Copy, Debug, Default)]
pub struct Checks {
    /// The rules of the specification.
    pub spec: bool,
    /// Requests that can carry secrets do.
    pub credentials: bool,
    /// Requests that can carry a volume context do, and so does the volume that CreateVolume answers with.
    pub volume_context: bool,
    /// Requests that can carry a publish context do, and so does the answer of ControllerPublishVolume.
    pub publish_context: bool,
}

/// Everything that is wrong with one message. Never empty; holds no secret, neither value nor key.
#[derive(Debug)]
pub struct Violations {
    message: &'static str,
    found: Found,
}

impl std::error::Error for Violations {}

impl fmt::Display for Violations {
    /// The message's name, then each field's path with the rule that it breaks.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} is not valid: ", self.message)?;
        for (index, (at, rule)) in self.found.shown.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            let colon = if at.is_empty() { "" } else { ": " };
            write!(f, "{separator}{at}{colon}{rule}")?;
        }
        match self.found.count - self.found.shown.len() {
            0 => Ok(()),
            more => write!(f, "; and {more} more"),
        }
    }
}

/// Checks a request's `bytes`.
///
/// # Errors
/// Everything that is wrong with it.
pub fn request(method: &'static Method, bytes: &[u8], checks: &Checks) -> Result<(), Violations> {
    let mut found = Found::default();
    let message = method.request;
    if checks.spec {
        walk::message(message, bytes, methods::of(method).request, &mut found);
    }
    let view = View::new(message, bytes);
    let secrets = message.fields.iter().filter(|field| field.secret);
    let secrets = secrets.map(|field| (checks.credentials, field.name));
    let contexts = [
        (checks.volume_context, "volume_context"),
        (checks.publish_context, "publish_context"),
    ];
    for (check, name) in secrets.chain(contexts) {
        // A call whose message has no such field cannot be asked for it.
        if check && message.field(name).is_some() && !view.is_set(name) {
            found.push(name, "required by the checks that were asked for");
        }
    }
    found.into_result(message.short_name())
}

/// Checks the replies of one call; of a stream also what holds from one message to the next.
#[derive(Debug)]
pub struct Replies<'a> {
    method: &'static Method,
    request: &'a [u8],
    checks: Checks,
    stream: Stream,
}

impl<'a> Replies<'a> {
    /// For the replies to `request`.
    pub fn new(method: &'static Method, request: &'a [u8], checks: &Checks) -> Self {
        Self {
            method,
            request,
            checks: *checks,
            stream: Stream::default(),
        }
    }

    /// Checks the `bytes` of the next reply.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn check(&mut self, bytes: &[u8]) -> Result<(), Violations> {
        let mut found = Found::default();
        let message = self.method.response;
        let rules = methods::of(self.method);
        let reply = View::new(message, bytes);
        if self.checks.spec {
            walk::message(message, bytes, rules.reply, &mut found);
            let mut exchange = Exchange {
                request: View::new(self.method.request, self.request),
                reply,
                stream: &mut self.stream,
            };
            for agreement in rules.exchange {
                agreement.check(&mut exchange, &mut found);
            }
        }
        let contexts = [
            (self.checks.volume_context, rules.gives_volume_context),
            (self.checks.publish_context, rules.gives_publish_context),
        ];
        for (check, path) in contexts {
            if let (true, Some(path)) = (check, path)
                && !reply.is_set(path)
            {
                found.push(path, "required by the checks that were asked for");
            }
        }
        found.into_result(message.short_name())
    }
}

/// How many violations are shown; a list of thousands of bad entries would bury the rest of the output.
const SHOWN: usize = 20;

/// Violations on their way into an error: the path of a field, empty for the whole message, and the rule that it breaks.
#[derive(Debug, Default)]
struct Found {
    shown: Vec<(String, String)>,
    count: usize,
}

impl Found {
    fn push(&mut self, at: impl Into<String>, rule: impl Into<String>) {
        self.count += 1;
        if self.shown.len() < SHOWN {
            self.shown.push((at.into(), rule.into()));
        }
    }

    fn into_result(self, message: &'static str) -> Result<(), Violations> {
        match self.count {
            0 => Ok(()),
            _ => Err(Violations {
                message,
                found: self,
            }),
        }
    }
}

/// Whether a value counts as specified in the sense of the specification's section "REQUIRED vs. OPTIONAL". A truth value
/// always does: proto3 does not tell false from missing.
fn is_specified(value: &Value<'_>) -> bool {
    match value {
        Value::Absent => false,
        Value::Text(text) => !text.is_empty(),
        Value::Enum(number, _) | Value::Int32(number) => *number != 0,
        Value::Int64(number) => *number != 0,
        Value::List(list) => !list.is_empty(),
        Value::Map(map) => !map.is_empty(),
        Value::Bool(_) | Value::Timestamp(_) | Value::Message(_) => true,
    }
}

/// Text as a violation shows it: escaped, and cut where it is longer than anything valid.
fn quoted(text: &str) -> String {
    let mut shown = text.chars();
    let start: String = shown.by_ref().take(128).collect();
    let more = if shown.next().is_some() { "…" } else { "" };
    format!("{start:?}{more}")
}

/// `name` inside `at`.
fn inside(at: &str, name: &str) -> String {
    match at {
        "" => name.to_owned(),
        _ => format!("{at}.{name}"),
    }
}

#[cfg(test)]
mod tests;
