//! Masks secrets that a driver repeats: in its replies, its error texts and their details, wherever these are shown or kept.
//!
//! A driver may put the command that failed into its message, with a password in it, or the password into a volume's context. What a
//! request held as a secret is looked for in the answer; shorter values than [`SECRET_MIN`] occur by chance.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use csi_proto::Method;
use csi_proto::schema::{Cardinality, Kind, Message};
use csi_proto::value::{MASK, fits, secret_values};
use csi_proto::wire::{self, Raw, WireError};
use serde_json::Value as Json;
use std::borrow::Cow;

/// The least length of a secret that is looked for in other text.
const SECRET_MIN: usize = 4;

/// How the names of fields end that later calls need as they are.
const NEEDED: [&str; 3] = ["_id", "_ids", "_token"];

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

/// The values that can be looked for, also as they stand in quotes. A secret that begins with another one is masked as a whole.
pub fn looked_for(mut values: Vec<String>) -> Vec<String> {
    values.retain(|secret| secret.len() >= SECRET_MIN);
    let quoted: Vec<String> = values.iter().flat_map(|secret| in_quotes(secret)).collect();
    values.extend(quoted);
    values.sort_by_key(|secret| std::cmp::Reverse(secret.len()));
    values.dedup();
    values
}

/// A value as it stands within quotes, where that differs: in JSON, as Go writes it and of ASCII alone, too, and as Rust and Go show
/// a text.
fn in_quotes(value: &str) -> impl Iterator<Item = String> {
    let json = Json::from(value).to_string();
    let of_go = by_number(&json, |letter| matches!(letter, '<' | '>' | '&'));
    let ascii = by_number(&json, |letter| !letter.is_ascii());
    let inner = |quoted: String| quoted[1..quoted.len() - 1].to_owned();
    let ways = [json, of_go, ascii, format!("{value:?}")].map(inner);
    ways.into_iter().filter(move |way| way != value)
}

/// JSON in which these letters stand by their numbers.
fn by_number(json: &str, these: impl Fn(char) -> bool) -> String {
    let mut out = String::new();
    for letter in json.chars() {
        match these(letter) {
            true => {
                let mut units = [0; 2];
                let units = letter.encode_utf16(&mut units).iter();
                out.extend(units.map(|unit| format!("\\u{unit:04x}")));
            }
            false => out.push(letter),
        }
    }
    out
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

/// A reply as it can be shown: with every secret of its request masked, but for ids and tokens, which later calls need.
pub fn masked_reply<'a>(method: &'static Method, request: &[u8], reply: &'a [u8]) -> Cow<'a, [u8]> {
    let secrets = secrets_in(method, [request]);
    match secrets.is_empty() {
        true => Cow::Borrowed(reply),
        // Bytes that are no message are not shown as one.
        false => masked_message(method.response, reply, &secrets)
            .map_or(Cow::Borrowed(reply), Cow::Owned),
    }
}

fn masked_message(
    message: &'static Message,
    bytes: &[u8],
    secrets: &[String],
) -> Result<Vec<u8>, WireError> {
    let mut out = Vec::with_capacity(bytes.len());
    let without = |bytes: &[u8]| match std::str::from_utf8(bytes) {
        Ok(text) => masked(text, secrets).into_owned().into_bytes(),
        Err(_) => bytes.to_vec(),
    };
    for part in wire::fields(bytes) {
        let (number, raw) = part?;
        let Raw::Bytes(content) = raw else {
            wire::put(&mut out, number, raw);
            continue;
        };
        let mut fields = message.fields.iter();
        let known = fields.find(|field| field.number == number && fits(field, raw));
        let shown = match known.map(|field| (field.cardinality, field.kind, field.name)) {
            Some((Cardinality::Map, ..)) => {
                let entry: Result<Vec<_>, _> = wire::fields(content).collect();
                let (key, value) = wire::entry(entry?);
                let mut entry = Vec::new();
                wire::put_bytes(&mut entry, 1, key);
                wire::put_bytes(&mut entry, 2, &without(value));
                entry
            }
            Some((_, Kind::Message(of), _)) => masked_message(of, content, secrets)?,
            Some((_, Kind::String, name)) if !NEEDED.iter().any(|end| name.ends_with(end)) => {
                without(content)
            }
            Some(_) => content.to_vec(),
            // A secret may stand between other fields of a type that nobody knows.
            None if secrets.iter().any(|one| contains(content, one.as_bytes())) => MASK.into(),
            None => content.to_vec(),
        };
        wire::put_bytes(&mut out, number, &shown);
    }
    Ok(out)
}

/// Whether `part`, which is not empty, stands anywhere in `bytes`.
pub fn contains(bytes: &[u8], part: &[u8]) -> bool {
    bytes.windows(part.len()).any(|window| window == part)
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
    use csi_proto::v1::{
        CreateVolumeRequest, CreateVolumeResponse, NodePublishVolumeRequest, Volume,
    };
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
        let quoted = tokens.replace('"', "\\\"");
        assert_eq!(found, [&quoted, tokens, "eyJhbGci", "hunter2"]);
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
    fn a_secret_in_quotes_is_one_too() {
        for secret in ["BEGIN\nAAAA\nEND", "quo\"ted", "back\\slash", "schlüssel"] {
            let secrets = looked_for(vec![secret.to_owned()]);
            let json = serde_json::json!({"key": secret}).to_string();
            assert_eq!(masked(&json, &secrets), format!("{{\"key\":\"{MASK}\"}}"));
            let debug = format!("{:?}", [secret]);
            assert_eq!(masked(&debug, &secrets), format!("[\"{MASK}\"]"));
        }
        for (secret, quoted) in [
            ("ключ😀", r"\u043a\u043b\u044e\u0447\ud83d\ude00"),
            ("a<b>&c", r"a\u003cb\u003e\u0026c"),
        ] {
            let secrets = looked_for(vec![secret.to_owned()]);
            assert_eq!(masked(quoted, &secrets), MASK, "{secret}");
        }
    }

    #[test]
    fn a_reply_is_shown_without_the_secrets_of_its_request() {
        let password = [("password".to_owned(), "hunter2".to_owned())];
        let request = CreateVolumeRequest {
            secrets: password.clone().into(),
            ..Default::default()
        };
        let volume = |id: &str, value: &str| Volume {
            capacity_bytes: 5,
            volume_id: id.to_owned(),
            volume_context: [("options".to_owned(), value.to_owned())].into(),
            ..Default::default()
        };
        let reply = |volume: Volume, unknown: &[u8]| {
            let volume = Some(volume);
            let mut bytes = CreateVolumeResponse { volume }.encode_to_vec();
            wire::put_varint(&mut bytes, 98, 7);
            wire::put_bytes(&mut bytes, 99, unknown);
            bytes
        };
        let method = CreateVolumeRequest::METHOD;
        let masked = |request: &CreateVolumeRequest, reply: &[u8]| {
            masked_reply(method, &request.encode_to_vec(), reply).into_owned()
        };
        let told = reply(volume("of-hunter2", "p=hunter2,x"), b"\x0a\x07hunter2");
        let shown = reply(
            volume("of-hunter2", &format!("p={MASK},x")),
            MASK.as_bytes(),
        );
        assert_eq!(masked(&request, &told), shown);
        assert_eq!(masked(&CreateVolumeRequest::default(), &told), told);
        let harmless = reply(volume("v", "x"), b"\x0a\x01x");
        assert_eq!(masked(&request, &harmless), harmless);
        assert_eq!(masked(&request, b"\x0a\x07"), b"\x0a\x07");
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
