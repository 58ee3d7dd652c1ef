//! Counts the calls and refusals of all cases of a run, for the cases that judge them in the end.

use super::broken_rules::{ERRORS, SECRETS};
use super::room::required;
use bytes::Bytes;
use csi_call::secrets::{contains, looked_for};
use csi_call::status_details;
use csi_error::code_name;
use csi_proto::schema::Method;
use csi_rpc::draft::Draft;
use std::collections::{BTreeMap, BTreeSet};
use tonic::{Code, Status};

/// Observations that are of no single case. Each is kept once.
#[derive(Debug, Default)]
pub struct CallCounts {
    /// The number of calls.
    pub calls: usize,
    /// The number of refused calls.
    pub refusals: usize,
    /// Values that were sent as secrets beside those of the settings.
    pub made_up: Vec<String>,
    /// Values of secrets that were also sent where no secrets are.
    told: BTreeSet<String>,
    /// The RPCs that have answered OK.
    pub worked: BTreeSet<&'static str>,
    /// The largest size that was asked for and was there.
    pub largest: i64,
    /// The most volumes of the usual size that a case had at a time.
    pub most_volumes: usize,
    /// How often in a row an RPC has not answered that was to take something down.
    hung: BTreeMap<&'static str, usize>,
}

/// So many calls in a row without an answer, and an RPC hangs.
const HANGS: usize = 3;

/// Shorter values may stand in an answer by chance.
const SECRET_AT_LEAST: usize = 6;

impl CallCounts {
    /// The values that must not be shown.
    pub(super) fn secret_values(&self, secrets: &BTreeMap<String, String>) -> Vec<String> {
        let values = secrets.values().chain(&self.made_up);
        looked_for(values.cloned().collect())
    }

    /// Notes how many volumes of the usual size a case had at a time.
    pub(super) fn had_at_a_time(&mut self, volumes: usize) {
        self.most_volumes = self.most_volumes.max(volumes);
    }

    /// Counts how often in a row an RPC has not answered in the time that it had.
    pub(super) fn had_time(&mut self, method: &'static Method, has_hung: bool) {
        match has_hung {
            true => *self.hung.entry(method.name).or_default() += 1,
            false => drop(self.hung.remove(method.name)),
        }
    }

    /// Whether an RPC hangs: it has not answered three times in a row. It has less time to take something down then.
    pub(super) fn hangs(&self, method: &Method) -> bool {
        self.hung.get(method.name) >= Some(&HANGS)
    }

    /// Looks at the answer to a call: which rules about all answers it breaks, where, and whether they only recommend.
    pub(super) fn look(
        &mut self,
        secrets: &BTreeMap<String, String>,
        method: &'static Method,
        request: &Bytes,
        answer: &Result<Vec<Bytes>, Status>,
    ) -> Vec<(&'static str, String, bool)> {
        self.calls += 1;
        // A case may have given it too little time.
        if !is_late(answer.as_ref().err()) {
            self.hung.remove(method.name);
        }
        let mut found = Vec::new();
        let values = secrets.values().chain(&self.made_up);
        let values = values.filter(|value| value.len() >= SECRET_AT_LEAST);
        // A value that stands elsewhere in what was sent is no secret in an answer.
        let plain = told_by_the_caller(method, request);
        let told = values
            .clone()
            .filter(|value| contains(&plain, value.as_bytes()));
        self.told.extend(told.cloned());
        let values = values.filter(|value| !self.told.contains(*value));
        match answer {
            Ok(messages) => {
                self.worked.insert(method.name);
                self.largest = self.largest.max(required(method, request).unwrap_or(0));
                let mut values = values.map(String::as_bytes);
                if values.any(|value| messages.iter().any(|bytes| contains(bytes, value))) {
                    // Of both contexts the specification says that they SHOULD NOT hold any.
                    found.push((SECRETS, format!("{}: in its reply", method.name), true));
                }
            }
            Err(status) => {
                self.refusals += 1;
                let code = code_name(status.code());
                let (message, details) = (status.message().as_bytes(), status.details());
                let mut values = values.map(String::as_bytes);
                if values.any(|value| contains(message, value) || contains(details, value)) {
                    let words = format!("{}: in the message of {code}", method.name);
                    found.push((SECRETS, words, false));
                }
                // An UNIMPLEMENTED of the gRPC library has no words of the driver.
                if message.is_empty() && status.code() != Code::Unimplemented {
                    found.push((ERRORS, format!("{}: {code}", method.name), false));
                }
                if !status_details::decoded(details).is_empty() {
                    let words = format!("{}: {code} with details", method.name);
                    found.push((ERRORS, words, false));
                }
            }
        }
        found
    }
}

/// A request without its secrets, and without the contexts: what stands in these the driver has answered before.
fn told_by_the_caller(method: &Method, request: &Bytes) -> Vec<u8> {
    let mut draft = Draft::new(method.request, request.to_vec());
    let fields = method.request.fields.iter();
    let not_told = fields.filter(|field| field.secret || field.name.ends_with("_context"));
    not_told.for_each(|field| draft.clear(field.name));
    draft.bytes
}

fn is_late(error: Option<&Status>) -> bool {
    error.is_some_and(|status| status.code() == Code::DeadlineExceeded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::{Request as _, v1};
    use prost::Message as _;

    #[test]
    fn a_value_that_was_sent_elsewhere_is_no_secret() {
        let secrets = ["hunter2", "sanity"].map(|value| (value.to_owned(), value.to_owned()));
        let secrets = BTreeMap::from(secrets);
        let request = v1::CreateVolumeRequest {
            name: "csi-sanity-1".to_owned(),
            secrets: secrets.clone(),
            ..Default::default()
        };
        let request = Bytes::from(request.encode_to_vec());
        for (answer, expected) in [("csi-sanity-1", 0), ("its hunter2", 1)] {
            let answer = Ok(vec![Bytes::from(answer)]);
            let method = v1::CreateVolumeRequest::METHOD;
            let found = CallCounts::default().look(&secrets, method, &request, &answer);
            assert_eq!(found.len(), expected, "{found:?}");
        }
    }

    #[test]
    fn answers_are_counted_and_hold_words_but_no_secrets() {
        let secrets = ["hunter2", "password"].map(|value| (value.to_owned(), value.to_owned()));
        let secrets = BTreeMap::from(secrets);
        let method = v1::CreateVolumeRequest::METHOD;
        let request = v1::CreateVolumeRequest {
            capacity_range: Some(v1::CapacityRange {
                required_bytes: 9,
                ..Default::default()
            }),
            secrets: secrets.clone(),
            ..Default::default()
        };
        let request = Bytes::from(request.encode_to_vec());
        let refused = |code, message: &str| Err(Status::new(code, message));
        let details = Bytes::from("its hunter2");
        // One of the type t/E.
        let typed = Bytes::from("\x1a\x05\x0a\x03t/E");
        let mut counts = CallCounts::default();
        for (answer, rule) in [
            (refused(Code::NotFound, "words"), None),
            (refused(Code::NotFound, ""), Some(ERRORS)),
            (refused(Code::Unimplemented, ""), None),
            (refused(Code::NotFound, "its hunter2"), Some(SECRETS)),
            (
                Err(Status::with_details(Code::NotFound, "words", details)),
                Some(SECRETS),
            ),
            (
                Err(Status::with_details(Code::NotFound, "words", typed)),
                Some(ERRORS),
            ),
        ] {
            let found = counts.look(&secrets, method, &request, &answer);
            let found: Vec<&str> = found.into_iter().map(|(rule, ..)| rule).collect();
            assert_eq!(found, Vec::from_iter(rule), "{answer:?}");
        }
        assert_eq!((counts.calls, counts.refusals), (6, 6));
        assert_eq!((counts.worked.len(), counts.largest), (0, 0));
        let stream = Ok(vec![Bytes::new(), Bytes::from("its hunter2")]);
        let found = counts.look(&secrets, method, &request, &stream);
        assert_eq!(found.len(), 1);
        assert_eq!((counts.calls, counts.refusals), (7, 6));
        assert_eq!((counts.worked.len(), counts.largest), (1, 9));
    }

    #[test]
    fn what_the_driver_has_put_into_a_context_is_a_secret_still() {
        let secrets = BTreeMap::from([("key".to_owned(), "hunter2".to_owned())]);
        let reply = v1::ControllerPublishVolumeResponse {
            publish_context: secrets.clone(),
        };
        let answer = Ok(vec![Bytes::from(reply.encode_to_vec())]);
        let request = v1::NodePublishVolumeRequest {
            publish_context: secrets.clone(),
            ..Default::default()
        };
        let mut counts = CallCounts::default();
        let sent_back = Bytes::from(request.encode_to_vec());
        let method = v1::NodePublishVolumeRequest::METHOD;
        counts.look(&secrets, method, &sent_back, &Ok(Vec::new()));
        let method = v1::ControllerPublishVolumeRequest::METHOD;
        let found = counts.look(&secrets, method, &Bytes::new(), &answer);
        assert_eq!(found.len(), 1, "{found:?}");
    }

    #[test]
    fn an_rpc_hangs_that_has_not_answered_three_times_in_a_row() {
        let mut counts = CallCounts::default();
        let method = v1::DeleteVolumeRequest::METHOD;
        for (has_hung, hangs) in [
            (true, false),
            (true, false),
            (false, false),
            (true, false),
            (true, false),
            (true, true),
            (true, true),
            (false, false),
        ] {
            counts.had_time(method, has_hung);
            assert_eq!(counts.hangs(method), hangs);
        }
        // A case may have given it too little time; any other answer shows that it lives.
        for (code, hangs) in [(Code::DeadlineExceeded, true), (Code::Internal, false)] {
            (0..3).for_each(|_| counts.had_time(method, true));
            let answer = Err(Status::new(code, "words"));
            counts.look(&BTreeMap::new(), method, &Bytes::new(), &answer);
            assert_eq!(counts.hangs(method), hangs, "{code}");
        }
    }
}
