//! Writes one call as one line of JSON.

use super::call::{CallEnd, RecordedCall};
use crate::recording::framing::FramedMessage;
use crate::recording::status::CallStatus;
use csi_call::secrets::mask;
use csi_call::status_details;
use csi_output::figure::seconds;
use csi_output::{OutputError, json};
use csi_proto::codes::NAMES as CODE_NAMES;
use csi_proto::guess::guess;
use csi_proto::schema;
use csi_proto::value::{Key, MASK, Secrets, TimestampText, Value, decode};
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};
use std::borrow::Cow;

/// The largest message of an unknown method that is shown: its fields take many times its bytes.
const GUESSED_MAX: usize = 1 << 20;

/// What is shown of messages of methods that CSI does not have. They may hold secrets that nothing marks as such, so they
/// are shown only on request, and never recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unknown {
    /// Their size is shown.
    Size,
    /// Their fields are shown by number, secrets and all.
    Fields,
}

/// A call as one line, with its end.
///
/// # Errors
/// Never by what the call holds: what is not a message is said to be none.
pub fn call_line(call: &RecordedCall, unknown: Unknown) -> Result<Vec<u8>, OutputError> {
    let shown = CallLine::of(call, unknown);
    let mut line = Vec::with_capacity(512);
    let secrets = call.secrets();
    if secrets.is_empty() {
        json::line(&shown, &mut line)?;
        return Ok(line);
    }
    let mut shown = serde_json::to_value(shown).map_err(OutputError::Json)?;
    // What the driver says may repeat them. A code is the driver's too, but a word of gRPC's own.
    for answer in ["/reply", "/replies", "/status/message", "/status/details"] {
        if let Some(answer) = shown.pointer_mut(answer) {
            mask(answer, &secrets);
        }
    }
    json::line(&shown, &mut line)?;
    Ok(line)
}

/// A call as it stands in a line.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct CallLine<'a> {
    call: u64,
    time: String,
    at: f64,
    method: &'a str,
    #[serde(serialize_with = "as_map")]
    metadata: &'a [(String, String)],
    #[serde(skip_serializing_if = "Option::is_none")]
    request: Option<ShownMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    requests: Option<Vec<ShownMessage<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reply: Option<ShownMessage<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    replies: Option<Vec<ShownMessage<'a>>>,
    #[serde(serialize_with = "as_map", skip_serializing_if = "<[_]>::is_empty")]
    reply_metadata: &'a [(String, String)],
    status: Json,
    seconds: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    injected: Option<&'a String>,
    /// Said only of a call that was not passed on.
    #[serde(skip_serializing_if = "Option::is_none")]
    sent: Option<bool>,
}

impl<'a> CallLine<'a> {
    fn of(call: &'a RecordedCall, unknown: Unknown) -> Self {
        let (asked, replied) = (
            call.method.map(|method| method.request),
            call.method.map(|method| method.response),
        );
        let request = |message| request_value(message, asked, unknown).into();
        let reply = |message| message_value(message, replied, unknown).into();
        let streams = call.method.is_none_or(|method| method.server_streaming);
        let requests = call.requests.iter().map(request).collect();
        let (request, requests) = one_or_many(requests, call.method.is_none());
        let replies = call.replies.iter().map(reply).collect();
        let (reply, replies) = one_or_many(replies, streams);
        Self {
            call: call.number,
            time: time(call.began),
            at: seconds(call.at),
            method: &call.path,
            metadata: &call.metadata[0],
            request,
            requests,
            reply,
            replies,
            reply_metadata: &call.metadata[1],
            status: end(&call.end),
            seconds: seconds(call.took),
            injected: call.injected.as_ref(),
            sent: (!call.sent).then_some(false),
        }
    }
}

/// One message by itself; any other number of messages, or those of a stream, as a list.
fn one_or_many(
    mut all: Vec<ShownMessage<'_>>,
    streams: bool,
) -> (Option<ShownMessage<'_>>, Option<Vec<ShownMessage<'_>>>) {
    match all.len() {
        0 | 1 if !streams => (all.pop(), None),
        _ => (None, Some(all)),
    }
}

/// RFC 3339 in UTC.
pub(super) fn time(time: std::time::SystemTime) -> String {
    let since = time
        .duration_since(std::time::UNIX_EPOCH)
        .unwrap_or_default();
    TimestampText(prost_types::Timestamp {
        seconds: i64::try_from(since.as_secs()).unwrap_or_default(),
        nanos: i32::try_from(since.subsec_micros() * 1000).unwrap_or_default(),
    })
    .to_string()
}

fn as_map<S: Serializer>(entries: &[(String, String)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(entries.iter().map(|(key, value)| (key, value)))
}

/// A message, or why it is not shown.
#[derive(Serialize)]
#[serde(untagged)]
enum ShownMessage<'a> {
    Value(Value<'a>),
    Hidden(Hidden),
}

impl<'a> From<Result<Value<'a>, Hidden>> for ShownMessage<'a> {
    fn from(shown: Result<Value<'a>, Hidden>) -> Self {
        shown.map_or_else(Self::Hidden, Self::Value)
    }
}

/// A message of which only the size is shown.
#[derive(Serialize)]
pub struct Hidden {
    /// Why.
    #[serde(rename = "@hidden")]
    pub why: Cow<'static, str>,
    /// The size.
    #[serde(rename = "@bytes")]
    pub bytes: usize,
}

/// The value of a request: that of [`message_value`], and the texts and bytes of fields that nobody here knows are
/// masked too, because a later version may have secrets there.
///
/// # Errors
/// As [`message_value`].
pub fn request_value<'a>(
    message: &'a FramedMessage,
    of: Option<&'static schema::Message>,
    unknown: Unknown,
) -> Result<Value<'a>, Hidden> {
    let mut value = message_value(message, of, unknown)?;
    if of.is_some() {
        mask_unknown(&mut value, false);
    }
    Ok(value)
}

/// Masks the texts in fields that the tables do not have; `inside` of one, every text is in such a field.
fn mask_unknown(value: &mut Value<'_>, inside: bool) {
    match value {
        Value::Text(text) if inside => *text = MASK.into(),
        Value::List(list) => list.iter_mut().for_each(|one| mask_unknown(one, inside)),
        Value::Message(fields) => {
            for (key, value) in fields {
                mask_unknown(value, matches!(key, Key::Unknown(_)));
            }
        }
        _ => {}
    }
}

/// The value of a message with its secrets masked, or why it is not shown; `of` is nothing for methods that CSI does not
/// have.
///
/// # Errors
/// The reason and the size.
pub fn message_value<'a>(
    message: &'a FramedMessage,
    of: Option<&'static schema::Message>,
    unknown: Unknown,
) -> Result<Value<'a>, Hidden> {
    let hidden = |why: &'static str, bytes| Hidden {
        why: why.into(),
        bytes,
    };
    let not_valid = |error: &dyn std::fmt::Display, bytes| Hidden {
        why: format!("not valid: {error}").into(),
        bytes,
    };
    match (message, of) {
        (FramedMessage::Plain(bytes), Some(of)) => {
            decode(of, bytes, Secrets::Mask).map_err(|error| not_valid(&error, bytes.len()))
        }
        (FramedMessage::Plain(bytes), None) => match unknown {
            Unknown::Size => Err(hidden("unknown method", bytes.len())),
            Unknown::Fields if bytes.len() > GUESSED_MAX => Err(hidden("too large", bytes.len())),
            Unknown::Fields => guess(bytes).map_err(|error| not_valid(&error, bytes.len())),
        },
        (FramedMessage::Compressed(bytes), _) => Err(hidden("compressed", *bytes)),
        (FramedMessage::Omitted(bytes), _) => Err(hidden("too large", *bytes)),
    }
}

/// The end of a call: the driver's status, or who ended it.
fn end(end: &CallEnd) -> Json {
    match end {
        CallEnd::Status(status) => status_json(status, None),
        CallEnd::Proxy(status) => status_json(status, Some("proxy")),
        CallEnd::Broken(status) => status_json(status, Some("connection")),
        CallEnd::Reset(reason) => json!({"code": "UNKNOWN", "reset": reason}),
        CallEnd::Cancelled { deadline: true } => {
            json!({"code": "DEADLINE_EXCEEDED", "by": "caller"})
        }
        CallEnd::Cancelled { deadline: false } => json!({"code": "CANCELLED", "by": "caller"}),
        CallEnd::Dropped => json!({"by": "proxy"}),
    }
}

fn status_json(status: &CallStatus, by: Option<&str>) -> Json {
    let mut out = json!({"code": code_text(status.code)});
    if !status.message.is_empty() {
        out["message"] = json!(status.message);
    }
    let details = status_details::decoded(&status.details);
    if !details.is_empty() {
        out["details"] = json!(details);
    }
    if let Some(by) = by {
        out["by"] = json!(by);
    }
    out
}

/// A code's name, or its number where gRPC has no name for it.
pub fn code_text(code: i32) -> Cow<'static, str> {
    let name = usize::try_from(code)
        .ok()
        .and_then(|code| CODE_NAMES.get(code));
    name.map_or_else(|| code.to_string().into(), |name| (*name).into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use csi_proto::methods;
    use csi_proto::v1::CreateVolumeRequest;
    use csi_proto::wire::put_bytes;
    use prost::Message as _;
    use std::time::{Duration, SystemTime};

    fn create_volume(end: CallEnd) -> RecordedCall {
        RecordedCall {
            number: 1,
            began: SystemTime::UNIX_EPOCH,
            at: Duration::ZERO,
            path: "/csi.v1.Controller/CreateVolume".to_owned(),
            method: methods::by_name("CreateVolume"),
            metadata: [Vec::new(), Vec::new()],
            requests: Vec::new(),
            replies: Vec::new(),
            end,
            took: Duration::ZERO,
            injected: None,
            sent: true,
        }
    }

    #[test]
    fn a_secret_that_is_a_common_word_spoils_no_line() {
        let request = CreateVolumeRequest {
            name: "status of call 1".to_owned(),
            secrets: [("a", "status"), ("b", "UNAVAILABLE"), ("c", "code")]
                .map(|(key, value)| (key.to_owned(), value.to_owned()))
                .into(),
            ..Default::default()
        };
        let status = CallStatus::new(tonic::Code::Unavailable, "bad status");
        let call = RecordedCall {
            requests: vec![FramedMessage::Plain(request.encode_to_vec().into())],
            ..create_volume(CallEnd::Status(status))
        };
        let line = call_line(&call, Unknown::Size).expect("a line");
        let line: Json = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(line["status"]["code"], "UNAVAILABLE");
        assert_eq!(line["status"]["message"], format!("bad {MASK}"));
        assert_eq!(line["request"]["name"], "status of call 1");
        assert_eq!(line["request"]["secrets"]["a"], MASK);
    }

    #[test]
    fn secrets_in_bytes_and_in_fields_of_later_versions_are_masked() {
        let request = CreateVolumeRequest {
            name: "pvc-1".to_owned(),
            secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
            ..Default::default()
        };
        let mut request = request.encode_to_vec();
        put_bytes(&mut request, 99, b"a secret of CSI 2");
        put_bytes(&mut request, 99, b"\x0a\x03one");
        let mut reply = Vec::new();
        put_bytes(&mut reply, 98, b"\x0a\x07hunter2");
        put_bytes(&mut reply, 99, b"\x0a\x03one");
        let detail = prost_types::Any {
            type_url: "own.example/Detail".to_owned(),
            value: b"\x0a\x07hunter2".to_vec(),
        };
        let details = tonic_types::pb::Status {
            details: vec![detail],
            ..Default::default()
        };
        let mut status = CallStatus::new(tonic::Code::Internal, "failed");
        status.details = details.encode_to_vec();
        let call = RecordedCall {
            requests: vec![FramedMessage::Plain(request.into())],
            replies: vec![FramedMessage::Plain(reply.into())],
            ..create_volume(CallEnd::Status(status))
        };
        let line = call_line(&call, Unknown::Size).expect("a line");
        let line: Json = serde_json::from_slice(&line).expect("JSON");
        assert_eq!(line["request"]["name"], "pvc-1");
        assert_eq!(line["request"]["#99"], serde_json::json!([MASK, MASK]));
        assert_eq!(line["reply"]["#98"], MASK);
        assert_eq!(line["reply"]["#99"], STANDARD.encode(b"\x0a\x03one"));
        assert_eq!(line["status"]["details"][0]["value"], MASK);
    }
}
