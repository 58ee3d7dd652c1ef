//! The answers of a recording, by the requests that got them, and the fields that make one request another.

use crate::recording::framing::FramedMessage;
use crate::recording::{HIDDEN, Recorded, Recording, Unknown, request_value};
use csi_error::note;
use csi_mock::{Answers, Running, answer_of, message_of};
use csi_proto::schema::{Kind, Message};
use csi_proto::{Method, codes, escaped, json, lock, methods};
use http::{Request, Response};
use serde_json::Value as Json;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::body::Body;
use tonic::{Code, Status};

/// How many fields an error names that make a request another one.
const NAMED: usize = 3;

/// The answers of one request, in the order of the recording.
#[derive(Debug, Default)]
struct Known {
    answers: Vec<Answer>,
    given: usize,
}

#[derive(Clone, Debug)]
struct Answer {
    messages: Vec<Vec<u8>>,
    code: Code,
    text: String,
    took: Duration,
}

/// All answers of a recording. Clones share what has been given.
#[derive(Clone)]
pub(crate) struct RecordedAnswers {
    known: Arc<Mutex<HashMap<&'static str, HashMap<Json, Known>>>>,
    timing: bool,
}

impl RecordedAnswers {
    /// Those of the driver in a recording, and the calls that have none; with `timing` each takes as long as it took.
    pub fn of(recording: &Recording, timing: bool) -> (Self, Vec<(u64, String)>) {
        let mut known: HashMap<&'static str, HashMap<Json, Known>> = HashMap::new();
        let mut skipped = Vec::new();
        for call in &recording.calls {
            match usable(call) {
                Ok((method, request, answer)) => {
                    let all = known.entry(method.path).or_default();
                    all.entry(request).or_default().answers.push(answer);
                }
                Err(why) => skipped.push((call.number, why)),
            }
        }
        let known = Arc::new(Mutex::new(known));
        (Self { known, timing }, skipped)
    }

    /// The answer to a request.
    fn find(&self, path: &str, message: &[u8]) -> Result<Answer, Status> {
        let Some(method) = methods::by_path(path) else {
            return Err(Status::unimplemented("CSI has no such method"));
        };
        let name = method.name;
        let mut known = lock(&self.known);
        let Some(all) = known.get_mut(method.path) else {
            return Err(Status::unimplemented(format!(
                "the recording has no {name}"
            )));
        };
        let request = shown(method, message.to_vec()).map_err(Status::invalid_argument)?;
        if let Some(one) = all.get_mut(&request) {
            let answer = one.answers.get(one.given).or(one.answers.last()).cloned();
            one.given += 1;
            return answer.ok_or_else(|| Status::internal("there is no answer"));
        }
        let nearest = all
            .keys()
            .map(|one| differences(one, &request))
            .min_by(|one, other| (one.len(), one).cmp(&(other.len(), other)));
        let mut fields = nearest.unwrap_or_default();
        fields.truncate(NAMED);
        Err(Status::failed_precondition(format!(
            "the recording has no such {name}: the nearest one has another {}",
            fields.join(", ")
        )))
    }
}

impl Answers for RecordedAnswers {
    async fn answer(&self, request: Request<Body>, _running: Running) -> Response<Body> {
        let path = request.uri().path().to_owned();
        let message = message_of(request).await;
        match message.and_then(|message| self.find(&path, &message)) {
            Ok(answer) => {
                if self.timing {
                    tokio::time::sleep(answer.took).await;
                }
                answer_of(answer.messages, Status::new(answer.code, answer.text))
            }
            Err(status) => {
                // Whoever sits at the desk wants to know, whatever the caller says of it.
                note!("note: {}: {}", escaped(&path), escaped(status.message()));
                status.into_http()
            }
        }
    }
}

/// The request of a recorded call, and the driver's answer.
fn usable(call: &Recorded) -> Result<(&'static Method, Json, Answer), String> {
    let method = call.method.ok_or("its method is none of CSI")?;
    if call.outcome.by.is_some() {
        return Err("the driver did not answer it".to_owned());
    }
    let (code, message) = (&call.outcome.code, &call.outcome.message);
    let request = call.requests.first().ok_or("its request is missing")?;
    if request.get(HIDDEN).is_some() {
        return Err("its request is not in the recording".to_owned());
    }
    let request = shown(method, encoded(method.request, request, "request")?)?;
    let replies = call.replies.iter();
    let messages = replies.map(|reply| encoded(method.response, reply, "reply"));
    let number = codes::NAMES.iter().position(|name| name == code);
    let number = number.and_then(|number| i32::try_from(number).ok());
    Ok((
        method,
        request,
        Answer {
            messages: messages.collect::<Result<_, _>>()?,
            code: Code::from(number.or_else(|| code.parse().ok()).unwrap_or(2)),
            text: message.clone(),
            took: call.took,
        },
    ))
}

/// The bytes of a message of the recording, which is a request or a reply.
fn encoded(of: &'static Message, recorded: &Json, what: &str) -> Result<Vec<u8>, String> {
    let mut known = recorded.clone();
    leave_out_unknown(of, &mut known);
    json::encode(of, &known).map_err(|error| {
        let dot = if error.at.is_empty() { "" } else { "." };
        format!("its {what}{dot}{}: {}", error.at, error.problem)
    })
}

/// A request as recordings show it, with its secrets masked, and alike for two that mean the same.
fn shown(method: &'static Method, message: Vec<u8>) -> Result<Json, String> {
    let message = FramedMessage::Plain(message.into());
    let value = request_value(&message, Some(method.request), Unknown::Size);
    let value = value.map_err(|hidden| hidden.why.into_owned())?;
    let mut json = serde_json::to_value(value).map_err(|error| error.to_string())?;
    leave_out_unknown(method.request, &mut json);
    Ok(json)
}

/// A message without the fields that this program knows by their numbers alone: what they held is not in the recording. The keys
/// of a map are no fields.
fn leave_out_unknown(of: &Message, json: &mut Json) {
    let Json::Object(members) = json else {
        return;
    };
    members.retain(|name, _| !name.starts_with('#'));
    for (name, value) in members {
        if let Some(Kind::Message(of)) = of.field(name).map(|field| field.kind) {
            match value {
                Json::Array(list) => list.iter_mut().for_each(|one| leave_out_unknown(of, one)),
                one => leave_out_unknown(of, one),
            }
        }
    }
}

/// The paths of the values that differ, such as `capacityRange.requiredBytes`.
fn differences(one: &Json, other: &Json) -> Vec<String> {
    let mut found = Vec::new();
    compare(String::new(), one, other, &mut found);
    found
}

fn compare(path: String, one: &Json, other: &Json, found: &mut Vec<String>) {
    match (one, other) {
        (Json::Object(left), Json::Object(right)) => {
            let new = right.keys().filter(|key| !left.contains_key(*key));
            for key in left.keys().chain(new) {
                let at = match path.is_empty() {
                    true => key.clone(),
                    false => format!("{path}.{key}"),
                };
                compare(at, &one[key.as_str()], &other[key.as_str()], found);
            }
        }
        _ if one == other => {}
        _ => found.push(path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// As they come from a recording.
    #[test]
    fn unknown_fields_are_left_out_and_the_keys_of_maps_stay() {
        let method = methods::by_path("/csi.v1.Controller/CreateVolume").expect("a method");
        let recorded = json!({
            "#99": "1 byte", "name": "v", "parameters": {"#a": "b"},
            "volumeCapabilities": [{"#98": 1, "mount": {"#97": 2, "fsType": "#x"}}],
        });
        let bytes = encoded(method.request, &recorded, "request").expect("a request");
        let again = shown(method, bytes).expect("a request");
        let expected = json!({
            "name": "v", "parameters": {"#a": "b"},
            "volumeCapabilities": [{"mount": {"fsType": "#x"}}],
        });
        for (name, value) in expected.as_object().expect("an object") {
            let found = &again[name];
            match name.as_str() {
                "volumeCapabilities" => assert_eq!(found[0]["mount"]["fsType"], "#x", "{again}"),
                _ => assert_eq!(found, value, "{again}"),
            }
        }
    }

    #[test]
    fn the_fields_that_differ_are_named() {
        for (one, other, expected) in [
            (
                json!({"a": 1, "b": {"c": 2}}),
                json!({"b": {"c": 2}, "a": 1}),
                vec![],
            ),
            (
                json!({"a": 1, "b": {"c": 2}}),
                json!({"a": 1, "b": {"c": 3}}),
                vec!["b.c"],
            ),
            (json!({"a": 1}), json!({"d": 1}), vec!["a", "d"]),
            (json!({"l": [1, 2]}), json!({"l": [2, 1]}), vec!["l"]),
        ] {
            assert_eq!(differences(&one, &other), expected);
        }
    }
}
