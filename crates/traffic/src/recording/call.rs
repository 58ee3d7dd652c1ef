//! A complete call as a proxy records it: plain data.

use crate::recording::framing::FramedMessage;
use crate::recording::status::CallStatus;
use csi_call::secrets;
use csi_proto::Method;
use csi_proto::value::MASK;
use http::{HeaderMap, HeaderName};
use std::time::{Duration, SystemTime};

/// Metadata whose values are no secrets. Of all other metadata only the key is shown: a value may be a token.
const HARMLESS: [&str; 9] = [
    "date",
    "user-agent",
    "content-type",
    "te",
    "grpc-timeout",
    "grpc-encoding",
    "grpc-accept-encoding",
    "traceparent",
    "x-request-id",
];

/// A call.
#[derive(Clone, Debug)]
pub(crate) struct RecordedCall {
    /// The call's number, from 1 on.
    pub number: u64,
    /// The time at which the call began.
    pub began: SystemTime,
    /// The time between the beginning of the recording and that of the call.
    pub at: Duration,
    /// The gRPC path: untrusted text.
    pub path: String,
    /// The method of CSI that it is, if any.
    pub method: Option<&'static Method>,
    /// The metadata of the request and of the reply: keys, and values that may be shown.
    pub metadata: [Vec<(String, String)>; 2],
    /// The messages of the caller.
    pub requests: Vec<FramedMessage>,
    /// The messages of the driver.
    pub replies: Vec<FramedMessage>,
    /// The end of the call.
    pub end: CallEnd,
    /// The duration of the call.
    pub took: Duration,
    /// The fault that was injected.
    pub injected: Option<String>,
    /// Whether it was passed on to the driver.
    pub sent: bool,
}

/// The end of a call.
#[derive(Clone, Debug)]
pub(crate) enum CallEnd {
    /// With a status of the driver's.
    Status(CallStatus),
    /// The driver ended it without a status: why.
    Reset(String),
    /// The caller gave it up; whether its deadline had passed then.
    Cancelled {
        /// Whether the deadline that the caller set had passed.
        deadline: bool,
    },
    /// With a status of the proxy's, which did not reach the driver or failed the call on purpose.
    Proxy(CallStatus),
    /// The connection to the driver broke in mid-call.
    Broken(CallStatus),
    /// The caller never got an answer, on purpose.
    Dropped,
}

impl RecordedCall {
    /// The secret values in the requests, which must be masked wherever they occur.
    pub fn secrets(&self) -> Vec<String> {
        secrets_in(self.method, &self.requests)
    }

    /// The bytes of memory that its messages take.
    pub fn memory(&self) -> usize {
        let messages = self.requests.iter().chain(&self.replies);
        messages.map(FramedMessage::memory).sum()
    }
}

/// The secret values in requests, which must be masked wherever they occur.
pub fn secrets_in(method: Option<&'static Method>, requests: &[FramedMessage]) -> Vec<String> {
    let plain = requests.iter().filter_map(|message| match message {
        FramedMessage::Plain(bytes) => Some(&bytes[..]),
        _ => None,
    });
    method.map_or_else(Vec::new, |method| secrets::secrets_in(method, plain))
}

/// The metadata in `headers`, with the values that may be shown.
pub fn metadata(headers: &HeaderMap) -> Vec<(String, String)> {
    let shown = |(name, value): (&HeaderName, &http::HeaderValue)| {
        let text = match HARMLESS.contains(&name.as_str()) {
            true => String::from_utf8_lossy(value.as_bytes()).into_owned(),
            false => MASK.to_owned(),
        };
        (name.as_str().to_owned(), text)
    };
    let status = ["grpc-status", "grpc-message", "grpc-status-details-bin"];
    let entries = headers
        .iter()
        .filter(|(name, _)| !status.contains(&name.as_str()));
    entries.map(shown).collect()
}
