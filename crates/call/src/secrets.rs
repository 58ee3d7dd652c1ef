//! Masks secrets that a driver repeats: in its error texts and their details, wherever these are shown or kept.
//!
//! A driver may put the command that failed into its message, with a password in it. What a request held as a secret is
//! looked for in the answer; shorter values than [`SECRET_MIN`] occur by chance.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use csi_proto::Method;
use csi_proto::value::{MASK, secret_values};
use serde_json::Value as Json;
use std::borrow::Cow;

/// The least length of a secret that is looked for in other text.
const SECRET_MIN: usize = 4;

/// The secret values in the requests of a call, the longest first.
pub fn secrets_in<'a>(
    method: &'static Method,
    requests: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<String> {
    let requests = requests.into_iter();
    let mut all: Vec<String> = requests
        .flat_map(|bytes| secret_values(method.request, bytes))
        .collect();
    // The kubelet's tokens are JSON around what is secret by itself.
    let inner: Vec<String> = all
        .iter()
        .filter_map(|text| serde_json::from_str(text).ok())
        .flat_map(|json: Json| tokens(&json))
        .collect();
    all.extend(inner);
    looked_for(all)
}

/// The values that can be looked for. A secret that begins with another one is masked as a whole.
pub fn looked_for(mut values: Vec<String>) -> Vec<String> {
    values.retain(|secret| secret.len() >= SECRET_MIN);
    values.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    values.dedup();
    values
}

fn tokens(json: &Json) -> Vec<String> {
    match json {
        Json::Object(members) => members
            .iter()
            .flat_map(|(key, value)| match (key.as_str(), value) {
                ("token", Json::String(token)) => vec![token.clone()],
                (_, value) => tokens(value),
            })
            .collect(),
        _ => Vec::new(),
    }
}

/// The text with every secret masked.
pub fn masked<'a>(text: &'a str, secrets: &[String]) -> Cow<'a, str> {
    let mut text = Cow::Borrowed(text);
    for secret in secrets {
        if text.contains(secret.as_str()) {
            text = Cow::Owned(text.replace(secret.as_str(), MASK));
        }
    }
    text
}

/// Masks every secret in the texts of `json`, and texts that are base64 of bytes with a secret in them.
pub fn mask(json: &mut Json, secrets: &[String]) {
    match json {
        Json::String(text) => {
            // Bytes of a type that nobody knows; a secret may stand between other fields of theirs.
            let bytes = STANDARD.decode(text.as_str()).unwrap_or_default();
            let inside = String::from_utf8_lossy(&bytes);
            if secrets.iter().any(|secret| inside.contains(secret)) {
                *text = MASK.to_owned();
                return;
            }
            if let Cow::Owned(masked) = masked(text, secrets) {
                *text = masked;
            }
        }
        Json::Array(list) => list.iter_mut().for_each(|one| mask(one, secrets)),
        Json::Object(members) => members.values_mut().for_each(|one| mask(one, secrets)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::Request as _;
    use csi_proto::v1::NodePublishVolumeRequest;
    use prost::Message as _;
    use serde_json::json;

    #[test]
    fn the_secrets_of_a_request_are_its_secret_fields_and_the_tokens_inside_of_the_kubelet_s() {
        let tokens = r#"{"aud": {"token": "eyJhbGci", "expirationTimestamp": "2026"}}"#;
        let one = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        let request = NodePublishVolumeRequest {
            volume_id: "volume".to_owned(),
            secrets: [one("password", "hunter2"), one("pin", "123")].into(),
            volume_context: [
                one("csi.storage.k8s.io/serviceAccount.tokens", tokens),
                one("server", "example"),
            ]
            .into(),
            ..Default::default()
        };
        let bytes = request.encode_to_vec();
        let found = secrets_in(NodePublishVolumeRequest::METHOD, [&bytes[..]]);
        assert_eq!(found, [tokens, "eyJhbGci", "hunter2"]);
    }

    #[test]
    fn the_longest_secret_is_masked_first() {
        let values = ["pass", "pass", "password1", "abc"].map(str::to_owned);
        let secrets = looked_for(values.to_vec());
        assert_eq!(secrets, ["password1", "pass"]);
        for (text, expected) in [
            ("nothing", "nothing"),
            ("-o password1,abc", &format!("-o {MASK},abc")),
            ("password2", &format!("{MASK}word2")),
        ] {
            assert_eq!(masked(text, &secrets), expected);
        }
    }

    #[test]
    fn secrets_are_found_in_json_and_in_bytes() {
        let secrets = ["password".to_owned(), "hunter2".to_owned()];
        let bytes = STANDARD.encode(b"\x0a\x07hunter2");
        let mut json = json!({"a": ["is hunter2", {"b": bytes}], "c": 1, "d": "aGk="});
        mask(&mut json, &secrets);
        let expected = json!({"a": [format!("is {MASK}"), {"b": MASK}], "c": 1, "d": "aGk="});
        assert_eq!(json, expected);
    }
}
