//! Turns a recorded request into one that can be sent: with the new driver's names, and with secrets in their places.

use super::names::{NamePlace, Names};
use csi_proto::json::{self, JsonError};
use csi_proto::schema::{Cardinality, Field, Kind, Message};
use csi_proto::value::{MASK, SECRET_MAP_KEYS};
use csi_rpc::facts::IdKind;
use serde_json::{Map, Value as Json};
use std::collections::BTreeMap;
use thiserror::Error;

/// A request that cannot be sent.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(crate) enum ResendError {
    /// The recording has only its size.
    #[error("the request is not in the recording ({0})")]
    Hidden(String),
    /// The recording says something that is not the message.
    #[error("the recorded request is not valid: {0}")]
    Json(#[from] JsonError),
}

/// The values that replace those which the recording masks, and a list of those that are missing.
pub struct Sources<'a> {
    /// Names that were learned.
    pub names: &'a Names,
    /// The secrets by their keys.
    pub secrets: &'a BTreeMap<String, String>,
}

/// The parts of a request that could not be sent again.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingParts {
    /// Keys of secrets that were sent then and are not known now.
    pub secrets: Vec<String>,
    /// Fields that this program does not know.
    pub fields: Vec<String>,
}

/// The bytes of a recorded request, and what is missing in them.
pub fn encode(
    of: &'static Message,
    recorded: &Json,
    sources: &Sources<'_>,
) -> Result<(Vec<u8>, MissingParts), ResendError> {
    if let Some(why) = recorded
        .get(crate::recording::HIDDEN)
        .and_then(Json::as_str)
    {
        return Err(ResendError::Hidden(why.to_owned()));
    }
    let mut missing = MissingParts::default();
    let json = message(of, recorded, sources, &mut missing);
    Ok((json::encode(of, &json)?, missing))
}

fn message(
    of: &'static Message,
    json: &Json,
    sources: &Sources<'_>,
    missing: &mut MissingParts,
) -> Json {
    let Json::Object(members) = json else {
        return json.clone();
    };
    let mut out = Map::new();
    for (name, value) in members {
        match of.field(name) {
            Some(field) => {
                out.insert(name.clone(), field_value(field, value, sources, missing));
            }
            // The walk's sign of a field that the tables do not have.
            None if name.starts_with('#') => {
                missing.fields.push(format!("{}.{name}", of.short_name()))
            }
            None => {
                out.insert(name.clone(), value.clone());
            }
        }
    }
    Json::Object(out)
}

fn field_value(
    field: &'static Field,
    json: &Json,
    sources: &Sources<'_>,
    missing: &mut MissingParts,
) -> Json {
    match (json, field.kind, field.cardinality) {
        (Json::Object(entries), _, Cardinality::Map) => {
            let mut out = Map::new();
            for (key, value) in entries {
                if field.secret || (SECRET_MAP_KEYS.contains(&key.as_str()) && value == MASK) {
                    match sources.secrets.get(key) {
                        Some(secret) => {
                            out.insert(key.clone(), secret.as_str().into());
                        }
                        None => missing.secrets.push(key.clone()),
                    }
                    continue;
                }
                let place = NamePlace::Context(field.name, key);
                out.insert(key.clone(), text(place, value, sources));
            }
            Json::Object(out)
        }
        (Json::Array(list), _, _) => list
            .iter()
            .map(|one| match field.kind {
                Kind::Message(of) => message(of, one, sources, missing),
                _ => text(place_of(field), one, sources),
            })
            .collect(),
        (_, Kind::Message(of), _) => message(of, json, sources, missing),
        (_, Kind::String, _) => text(place_of(field), json, sources),
        _ => json.clone(),
    }
}

fn text(place: NamePlace<'_>, json: &Json, sources: &Sources<'_>) -> Json {
    match json {
        Json::String(text) => sources.names.translate(place, text).into(),
        other => other.clone(),
    }
}

/// The kind of text that a field holds, by the field's name.
pub(crate) fn place_of(field: &Field) -> NamePlace<'static> {
    match field.name {
        "starting_token" | "next_token" => NamePlace::Token,
        "target_path" | "staging_target_path" | "volume_path" => NamePlace::Path,
        name if IdKind::of_field(name).is_some() => NamePlace::Id,
        _ => NamePlace::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::methods;
    use csi_proto::value::{Secrets, decode};
    use serde_json::json;

    #[test]
    fn names_and_secrets_take_their_places() {
        let mut names = Names::new(vec![("/old".to_owned(), "/new".to_owned())]);
        names.learn(NamePlace::Id, "volume-1", "volume-A");
        let secrets = [("user".to_owned(), "hunter2".to_owned())].into();
        let sources = Sources {
            names: &names,
            secrets: &secrets,
        };
        let of = methods::by_name("NodePublishVolume")
            .expect("a method")
            .request;
        let recorded = json!({
            "volumeId": "volume-1",
            "targetPath": "/old/volume-1/mount",
            "secrets": {"user": MASK, "password": MASK},
            "volumeContext": {"csi.storage.k8s.io/serviceAccount.tokens": MASK, "of": "volume-1"},
            "readonly": true,
            "#99": "new",
        });
        let (bytes, missing) = encode(of, &recorded, &sources).expect("a request");
        assert_eq!(
            missing.secrets,
            ["password", "csi.storage.k8s.io/serviceAccount.tokens"]
        );
        assert_eq!(missing.fields, ["NodePublishVolumeRequest.#99"]);
        let sent =
            serde_json::to_value(decode(of, &bytes, Secrets::Omit).expect("valid")).expect("JSON");
        assert_eq!(sent["volumeId"], "volume-A");
        assert_eq!(sent["targetPath"], "/new/volume-A/mount");
        assert_eq!(sent["volumeContext"], json!({"of": "volume-A"}));
        assert!(String::from_utf8_lossy(&bytes).contains("hunter2"));
        assert!(!String::from_utf8_lossy(&bytes).contains("stripped"));
    }

    #[test]
    fn a_request_that_was_not_kept_cannot_be_sent() {
        let sources = Sources {
            names: &Names::default(),
            secrets: &BTreeMap::new(),
        };
        let of = methods::by_name("Probe").expect("a method").request;
        let hidden = json!({"@hidden": "compressed", "@bytes": 7});
        assert_eq!(
            encode(of, &hidden, &sources),
            Err(ResendError::Hidden("compressed".to_owned()))
        );
        let wrong = encode(of, &json!({"what": 1}), &sources)
            .expect_err("no such field")
            .to_string();
        assert!(
            wrong.contains("the recorded request is not valid"),
            "{wrong}"
        );
    }
}
