//! A call of a recording, as it is read, sent again and shown, and what came of it when it was sent again.
//!
//! Must not know how recordings are written or read.

use csi_proto::Method;
use serde_json::Value as Json;
use std::time::Duration;

/// A call that was recorded.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// The call's number.
    pub number: u64,
    /// The time between the beginning of the recording and that of the call.
    pub at: Duration,
    /// The duration of the call.
    pub took: Duration,
    /// The gRPC path: untrusted text.
    pub path: String,
    /// The method of CSI that it is, if any.
    pub method: Option<&'static Method>,
    /// The requests, without secrets.
    pub requests: Vec<Json>,
    /// The replies, without secrets.
    pub replies: Vec<Json>,
    /// The end of the call.
    pub outcome: RecordedOutcome,
    /// Whether it was passed on to the driver.
    pub sent: bool,
    /// The fault that was injected.
    pub injected: Option<String>,
    /// What came of it when it was sent again, and how long that took.
    pub replayed: Option<Replayed>,
}

/// The end of a recorded call.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RecordedOutcome {
    /// Who ended it, where that is no answer of the driver: `caller`, `proxy`, `connection`, or `reset` for a driver that gave no
    /// status.
    pub by: Option<String>,
    /// The name of the code that the caller got, or would have got; empty where there was none.
    pub code: String,
    /// The message, or the reason: untrusted text; empty where there was none.
    pub message: String,
}

/// What came of a recorded call when it was sent again, and how long that took.
pub type Replayed = (ReplayOutcome, Duration);

/// The result of the comparison of a replayed call with the recorded one.
#[derive(Clone, Debug, PartialEq)]
pub enum ReplayOutcome {
    /// Nothing differs.
    Same,
    /// These differ.
    Different(Vec<Difference>),
    /// The call was sent, and there is nothing to compare with: the reason.
    NotCompared(&'static str),
    /// The call was not sent: the reason.
    Skipped(String),
}

/// A difference.
#[derive(Clone, Debug, PartialEq)]
pub struct Difference {
    /// The place, such as `volume.capacity_bytes` or `entries[2].volume.volume_id`.
    pub at: String,
    /// The recorded value; `null` for none.
    pub recorded: Json,
    /// The value now; `null` for none.
    pub now: Json,
}

impl RecordedOutcome {
    /// Whether the driver answered OK.
    pub fn is_ok(&self) -> bool {
        self.by.is_none() && self.code == "OK"
    }

    /// A code, or who ended the call.
    pub fn in_words(&self) -> String {
        let Some(by) = &self.by else {
            return self.code.clone();
        };
        let who = match (by.as_str(), self.code.as_str()) {
            ("caller", "DEADLINE_EXCEEDED") => "the caller, whose deadline had passed",
            ("caller", _) => "the caller",
            ("proxy", "") => return "never answered, by the proxy".to_owned(),
            ("proxy", _) => "the proxy",
            ("connection", _) => "the connection, which broke",
            ("reset", _) => return "ended by the driver without a status".to_owned(),
            (other, _) => other,
        };
        match self.code.as_str() {
            "" => format!("ended by {who}"),
            code => format!("{code} by {who}"),
        }
    }
}

impl Recorded {
    /// The service and the RPC, or the path; untrusted text.
    pub fn name(&self) -> String {
        match self.method {
            Some(method) => format!("{}/{}", method.service, method.name),
            None => self.path.clone(),
        }
    }

    /// The time between the beginning of the recording and the end of the call.
    pub fn end(&self) -> Duration {
        self.at.saturating_add(self.took)
    }
}
