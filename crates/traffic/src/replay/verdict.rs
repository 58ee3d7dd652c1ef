//! The verdict on a replayed call: the same reply, a different one, or nothing to compare with.
//!
//! Decides alone. Who sends, counts and prints stands elsewhere.

use super::compare::{compare, ignores};
use super::names::{NamePlace, Names};
use crate::recording::Recorded;
use bytes::Bytes;
use csi_error::{Error, OrError, code_name};
use csi_output::recorded::{Difference, ReplayOutcome};
use csi_proto::Method;
use csi_proto::value::{Secrets, decode};
use serde_json::Value as Json;
use std::time::Duration;
use tonic::Code;

/// The end of a replayed call.
pub struct Now<'a> {
    /// The time within which no answer came; the code and message are this program's own then.
    pub unanswered: Option<Duration>,
    /// The code.
    pub code: Code,
    /// The message; empty where there is none.
    pub message: &'a str,
    /// The replies' bytes.
    pub replies: &'a [Bytes],
}

/// Compares the recorded end of a call with its end now, and learns the names that the new driver chose. `messages`:
/// whether messages of errors are compared too.
///
/// # Errors
/// When a reply is not the message that it should be.
pub fn verdict(
    call: &Recorded,
    now: &Now<'_>,
    messages: bool,
    ignored: &[String],
    names: &mut Names,
) -> Result<ReplayOutcome, Error> {
    if let Some(by) = &call.outcome.by {
        return Ok(ReplayOutcome::NotCompared(match by.as_str() {
            "caller" => "the caller gave it up then",
            "connection" => "the connection broke then",
            "reset" => "the driver ended it without a status then",
            _ => "the driver's answer is not known",
        }));
    }
    let (code, message) = (&call.outcome.code, &call.outcome.message);
    let Some(method) = call.method else {
        return Ok(ReplayOutcome::Same);
    };
    let expected = names.translate(NamePlace::Other, message);
    let is_other = now.unanswered.is_some()
        || *code != code_name(now.code)
        || (messages && expected != now.message);
    if is_other && !ignores(ignored, "status") {
        return Ok(ReplayOutcome::Different(vec![Difference {
            at: "status".to_owned(),
            recorded: status_json(code, message),
            now: match now.unanswered {
                Some(limit) => Json::from(format!("no answer within {limit:?}: see --timeout")),
                None => status_json(code_name(now.code), now.message),
            },
        }]));
    }
    let replies = json_of(method, call.number, now.replies)?;
    let differences = compare(method.response, &call.replies, &replies, names, ignored);
    Ok(match differences.is_empty() {
        true => ReplayOutcome::Same,
        false => ReplayOutcome::Different(differences),
    })
}

fn status_json(code: &str, message: &str) -> Json {
    match message {
        "" => Json::from(code),
        message => Json::from(format!("{code}: {message}")),
    }
}

fn json_of(method: &'static Method, number: u64, replies: &[Bytes]) -> Result<Vec<Json>, Error> {
    let json = |reply: &Bytes| {
        let value = decode(method.response, reply, Secrets::Mask)
            .or_because(format_args!("the reply to #{number} is not valid"))?;
        serde_json::to_value(&value).or_because("the reply cannot be compared")
    };
    replies.iter().map(json).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_output::recorded::RecordedOutcome;
    use csi_proto::methods;
    use csi_proto::v1::ProbeResponse;
    use prost::Message as _;
    use serde_json::json;

    fn recorded(outcome: RecordedOutcome, replies: Vec<Json>) -> Recorded {
        let method = methods::by_name("Probe");
        Recorded {
            number: 7,
            path: "/csi.v1.Identity/Probe".to_owned(),
            method,
            replies,
            outcome,
            sent: true,
            ..Recorded::default()
        }
    }

    fn answered(code: &str, message: &str) -> RecordedOutcome {
        RecordedOutcome {
            by: None,
            code: code.to_owned(),
            message: message.to_owned(),
        }
    }

    fn ended_by(by: &str) -> RecordedOutcome {
        RecordedOutcome {
            by: Some(by.to_owned()),
            ..RecordedOutcome::default()
        }
    }

    #[test]
    fn a_call_is_the_same_or_different_or_not_compared() {
        let reply = |ready| Bytes::from(ProbeResponse { ready: Some(ready) }.encode_to_vec());
        let (yes, no, none) = (&[reply(true)][..], &[reply(false)][..], &[][..]);
        let ready = || recorded(answered("OK", ""), vec![json!({"ready": true})]);
        let failed = || recorded(answered("INTERNAL", "x"), Vec::new());
        let different = |at: &str, recorded: &Json, now: &Json| {
            let (at, recorded, now) = (at.to_owned(), recorded.clone(), now.clone());
            ReplayOutcome::Different(vec![Difference { at, recorded, now }])
        };
        let same = &ReplayOutcome::Same;
        let unready = &different("ready", &json!(true), &json!(false));
        let broken = &different("status", &json!("OK"), &json!("INTERNAL: x"));
        let reworded = &different("status", &json!("INTERNAL: x"), &json!("INTERNAL: y"));
        // What was recorded; the code, message and replies of now; `--messages`; `--ignore`.
        for (then, code, message, replies, messages, ignored, expected) in [
            (ready(), Code::Ok, "", yes, true, "", same),
            (ready(), Code::Ok, "", no, true, "", unready),
            (ready(), Code::Ok, "", no, true, "ready", same),
            (ready(), Code::Internal, "x", none, false, "", broken),
            (failed(), Code::Internal, "y", none, false, "", same),
            (failed(), Code::Internal, "y", none, true, "", reworded),
            (failed(), Code::Aborted, "x", none, false, "status", same),
        ] {
            let ignored = Vec::from_iter(Some(ignored.to_owned()).filter(|path| !path.is_empty()));
            let now = Now {
                unanswered: None,
                code,
                message,
                replies,
            };
            let verdict = verdict(&then, &now, messages, &ignored, &mut Names::default());
            assert_eq!(&verdict.expect("a verdict"), expected, "{then:?}");
        }
        let now = Now {
            unanswered: None,
            code: Code::Ok,
            message: "",
            replies: yes,
        };
        for (by, why) in [
            ("caller", "the caller gave it up then"),
            ("connection", "the connection broke then"),
            ("reset", "the driver ended it without a status then"),
            ("moon", "the driver's answer is not known"),
        ] {
            let then = recorded(ended_by(by), Vec::new());
            let verdict = verdict(&then, &now, true, &[], &mut Names::default());
            assert_eq!(verdict.expect("a verdict"), ReplayOutcome::NotCompared(why));
        }
    }

    #[test]
    fn no_answer_in_time_is_not_the_driver_s_deadline_exceeded() {
        let call = recorded(answered("DEADLINE_EXCEEDED", ""), Vec::new());
        let now = Now {
            unanswered: Some(Duration::from_millis(300)),
            code: Code::DeadlineExceeded,
            message: "",
            replies: &[],
        };
        let verdict = verdict(&call, &now, false, &[], &mut Names::default());
        let expected = ReplayOutcome::Different(vec![Difference {
            at: "status".to_owned(),
            recorded: json!("DEADLINE_EXCEEDED"),
            now: json!("no answer within 300ms: see --timeout"),
        }]);
        assert_eq!(verdict.expect("a verdict"), expected);
    }

    #[test]
    fn a_method_of_another_version_is_the_same_and_a_reply_that_is_none_an_error() {
        let mut call = recorded(answered("OK", ""), Vec::new());
        let replies = [Bytes::from_static(b"\xff")];
        let now = Now {
            unanswered: None,
            code: Code::Ok,
            message: "",
            replies: &replies,
        };
        let mut names = Names::default();
        let error = verdict(&call, &now, false, &[], &mut names);
        let error = error.expect_err("no reply").render(csi_error::Style::Text);
        assert!(error.contains("the reply to #7 is not valid"), "{error}");
        call.method = None;
        let same = verdict(&call, &now, false, &[], &mut names);
        assert_eq!(same.expect("a verdict"), ReplayOutcome::Same);
    }
}
