//! What a scripted driver answers to one call: steps, most of which a gRPC library would not let one take.

use base64::Engine as _;
use csi_proto::json;
use csi_proto::schema::Method;
use prost::Message;
use prost::bytes::{BufMut as _, Bytes, BytesMut};
use serde_json::{Value as Json, json};
use std::fmt::Display;
use std::time::Duration;
use tonic::Code;

/// The answer to one call.
#[derive(Clone, Debug)]
pub struct Reply {
    pub(super) headers: Vec<(&'static str, String)>,
    pub(super) steps: Vec<Step>,
}

#[derive(Clone, Debug)]
pub(super) enum Step {
    /// A message that is not encoded yet.
    Json(Json),
    /// Bytes of the reply's body: one message with gRPC's five bytes before it.
    Frame(Bytes),
    /// Nothing for that long.
    Pause(Duration),
    /// The end, with a status. Steps without one end with OK.
    End(Status),
    /// Nothing, until the client gives up.
    Hang,
    /// The connection closes.
    Disconnect,
    /// An answer of HTTP that has nothing to do with gRPC, as proxies give.
    Http(http::StatusCode, Bytes),
}

#[derive(Clone, Debug)]
pub(super) struct Status {
    pub(super) code: Code,
    pub(super) message: String,
    pub(super) details: Vec<u8>,
}

impl Reply {
    fn new(steps: Vec<Step>) -> Self {
        Self {
            headers: Vec::new(),
            steps,
        }
    }

    /// One message of the RPC that is answered, in JSON, and OK.
    pub fn json(message: impl Display) -> Self {
        let message = message.to_string();
        let json = serde_json::from_str(&message);
        let json = json.unwrap_or_else(|error| panic!("{message}: {error}"));
        Self::new(vec![Step::Json(json)])
    }

    /// The capabilities of a controller or of a node, with blanks between their names.
    pub fn capabilities(names: &str) -> Self {
        let names = names.split_whitespace();
        let all: Vec<_> = names.map(|name| json!({"rpc": {"type": name}})).collect();
        Self::json(json!({ "capabilities": all }))
    }

    /// A page of a list: the ids of volumes, and the token of the next page.
    pub fn volumes<I: AsRef<str>>(
        ids: impl IntoIterator<Item = I>,
        next_token: impl Display,
    ) -> Self {
        let ids = ids.into_iter();
        let entries: Vec<_> = ids
            .map(|id| json!({"volume": {"volumeId": id.as_ref()}}))
            .collect();
        Self::json(json!({"entries": entries, "nextToken": next_token.to_string()}))
    }

    /// The same for this RPC, with its messages encoded.
    pub(super) fn of(mut self, rpc: &Method) -> Self {
        for step in &mut self.steps {
            if let Step::Json(json) = step {
                let message = json::encode(rpc.response, json);
                let message =
                    message.unwrap_or_else(|error| panic!("a reply of {}: {error}", rpc.name));
                *step = Step::Frame(frame(&message));
            }
        }
        self
    }

    /// One message, and OK.
    pub fn message(message: &impl Message) -> Self {
        Self::bytes(message.encode_to_vec())
    }

    /// One message, given as its bytes, and OK.
    pub fn bytes(message: impl Into<Bytes>) -> Self {
        Self::new(vec![Step::Frame(frame(&message.into()))])
    }

    /// A stream of messages in JSON, and OK.
    pub fn messages(messages: impl IntoIterator<Item: Display>) -> Self {
        let replies = messages.into_iter().map(Self::json);
        Self::new(replies.flat_map(|one| one.steps).collect())
    }

    /// A stream of messages, and OK.
    pub fn encoded<'a, M: Message + 'a>(messages: impl IntoIterator<Item = &'a M>) -> Self {
        let replies = messages.into_iter().map(Self::message);
        Self::new(replies.flat_map(|one| one.steps).collect())
    }

    /// A status other than OK, and no message.
    pub fn error(code: Code, message: impl Into<String>) -> Self {
        Self::new(Vec::new()).then_error(code, message)
    }

    /// As [`Reply::error`], with an encoded `google.rpc.Status` as its details.
    pub fn error_with_details(code: Code, message: impl Into<String>, details: Vec<u8>) -> Self {
        Self::new(vec![Step::End(Status {
            code,
            message: message.into(),
            details,
        })])
    }

    /// No answer at all, until the client gives up.
    pub fn never() -> Self {
        Self::new(vec![Step::Hang])
    }

    /// No answer: the connection closes in mid-call.
    pub fn disconnect() -> Self {
        Self::new(vec![Step::Disconnect])
    }

    /// An answer of HTTP that is not gRPC.
    pub fn http(status: u16, body: &'static str) -> Self {
        let status = http::StatusCode::from_u16(status).expect("a status of HTTP");
        Self::new(vec![Step::Http(
            status,
            Bytes::from_static(body.as_bytes()),
        )])
    }

    /// The same after a pause.
    pub fn after(mut self, pause: Duration) -> Self {
        self.steps.insert(0, Step::Pause(pause));
        self
    }

    /// The same with a pause before each message.
    pub fn spaced(mut self, pause: Duration) -> Self {
        let steps = self.steps.into_iter();
        self.steps = steps.flat_map(|step| [Step::Pause(pause), step]).collect();
        self
    }

    /// The same with one more header before it.
    pub fn with_header(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// An error after what was sent so far.
    pub fn then_error(self, code: Code, message: impl Into<String>) -> Self {
        self.then(Step::End(Status {
            code,
            message: message.into(),
            details: Vec::new(),
        }))
    }

    /// No end after what was sent so far.
    pub fn then_hang(self) -> Self {
        self.then(Step::Hang)
    }

    /// The end of the connection after what was sent so far.
    pub fn then_disconnect(self) -> Self {
        self.then(Step::Disconnect)
    }

    /// The end of the connection soon after OK.
    pub fn then_gone(self) -> Self {
        self.then_error(Code::Ok, "").then_disconnect()
    }

    fn then(mut self, step: Step) -> Self {
        self.steps.push(step);
        self
    }
}

impl From<&str> for Reply {
    fn from(json: &str) -> Self {
        Self::json(json)
    }
}

impl From<Json> for Reply {
    fn from(json: Json) -> Self {
        Self::json(json)
    }
}

impl Status {
    pub(super) const OK: Self = Self {
        code: Code::Ok,
        message: String::new(),
        details: Vec::new(),
    };

    pub(super) fn headers(&self) -> http::HeaderMap {
        let value = |text: String| {
            http::HeaderValue::from_str(&text).expect("encoded text is a header's value")
        };
        let mut headers = http::HeaderMap::new();
        headers.insert("grpc-status", value(i32::from(self.code).to_string()));
        if !self.message.is_empty() {
            headers.insert("grpc-message", value(percent_encoded(&self.message)));
        }
        if !self.details.is_empty() {
            let encoded = base64::engine::general_purpose::STANDARD_NO_PAD.encode(&self.details);
            headers.insert("grpc-status-details-bin", value(encoded));
        }
        headers
    }
}

/// A message as it stands in a body of gRPC: a byte that says "not compressed", the length, the message.
fn frame(message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(message.len() + 5);
    frame.put_u8(0);
    frame.put_u32(u32::try_from(message.len()).expect("less than 4 GiB"));
    frame.put_slice(message);
    frame.freeze()
}

/// gRPC's encoding of a status message: all but printable ASCII, and `%`, as `%XX`.
fn percent_encoded(text: &str) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'%' => encoded.push(char::from(byte)),
            _ => encoded.push_str(&format!("%{byte:02X}")),
        }
    }
    encoded
}
