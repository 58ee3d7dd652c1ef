//! Maps out of the JSON of earlier replies, as `--publish-context-from FILE` takes them.
//!
//! Which replies hold such a map follows from the protocol's tables: those that have a map of the field's name, and not in
//! a list. Which fields have such a flag is said in `flags.rs`.

use clap::{Arg, ArgMatches};
use csi_arguments::text::{TextError, TextOrigin};
use csi_proto::Method;
use csi_proto::schema::{Cardinality, Field, Message};
use csi_proto::tables::METHODS;
use serde::Deserialize;
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::convert::Infallible;
use thiserror::Error;

/// A file that does not hold the reply.
#[derive(Debug, Error)]
pub enum FromReplyError {
    /// It cannot be read.
    #[error("{0}")]
    Text(#[from] TextError),
    /// It is no JSON, or more than one document.
    #[error("{0} is not the JSON of one reply: {1}")]
    Syntax(TextOrigin, serde_json::Error),
    /// The JSON of something else.
    #[error("{origin} has no {field}: it must be the reply of {methods} as -o json prints it")]
    Missing {
        /// The file.
        origin: TextOrigin,
        /// The field in JSON.
        field: &'static str,
        /// The RPCs whose replies have it.
        methods: String,
    },
    /// The map has other values than text.
    #[error("{0}: {1} is no map of text: {2}")]
    NoMap(TextOrigin, &'static str, serde_json::Error),
}

/// The flag of that name for a field.
pub fn arg(long: &'static str, field: &'static Field) -> Arg {
    let origin = |text: &str| Ok::<_, Infallible>(TextOrigin::parse(text));
    let help = format!(
        "The same from the JSON of the reply that gave it, of {}; - for stdin",
        names(field)
    );
    let arg = Arg::new(long).long(long).value_name("FILE|-");
    arg.value_parser(origin).help(help)
}

/// The map, where the flag of that name is given.
///
/// # Errors
/// When the file does not hold the reply.
pub fn given(
    matches: &ArgMatches,
    long: &str,
    field: &'static Field,
) -> Result<BTreeMap<String, String>, FromReplyError> {
    let Some(origin) = matches.get_one::<TextOrigin>(long) else {
        return Ok(BTreeMap::new());
    };
    let text = origin.read()?;
    let reply: Json = serde_json::from_str(&text)
        .map_err(|error| FromReplyError::Syntax(origin.clone(), error))?;
    find(field, &reply, origin)
}

fn find(
    field: &'static Field,
    reply: &Json,
    origin: &TextOrigin,
) -> Result<BTreeMap<String, String>, FromReplyError> {
    let value = givers(field).find_map(|(_, path)| {
        path.iter().try_fold(reply, |json, field| {
            json.get(field.json_name).or_else(|| json.get(field.name))
        })
    });
    let value = value.ok_or_else(|| FromReplyError::Missing {
        origin: origin.clone(),
        field: field.json_name,
        methods: names(field),
    })?;
    let map = BTreeMap::deserialize(value);
    map.map_err(|error| FromReplyError::NoMap(origin.clone(), field.json_name, error))
}

/// The RPCs whose replies have a map of that name.
fn names(field: &'static Field) -> String {
    let names: Vec<&str> = givers(field).map(|(method, _)| method.name).collect();
    names.join(" or ")
}

/// The RPCs whose replies have a map of that name, with the fields that lead to it.
fn givers(field: &'static Field) -> impl Iterator<Item = (&'static Method, Vec<&'static Field>)> {
    METHODS.iter().filter_map(|method| {
        let path = path_to(field, method.response)?;
        Some((*method, path))
    })
}

fn path_to(field: &Field, message: &'static Message) -> Option<Vec<&'static Field>> {
    let own = |message: &'static Message| {
        let found = message.field(field.name);
        found.filter(|found| found.cardinality == Cardinality::Map)
    };
    if let Some(found) = own(message) {
        return Some(vec![found]);
    }
    let mut single = message.fields.iter();
    single.find_map(|outer| {
        let is_single = outer.cardinality == Cardinality::Singular;
        let found = own(outer.message().filter(|_| is_single)?)?;
        Some(vec![outer, found])
    })
}

/// The flags of a command that read all of standard input for a reply.
pub fn from_stdin(matches: &ArgMatches) -> impl Iterator<Item = &str> {
    let ids = matches.ids().map(|id| id.as_str());
    ids.filter(|id| {
        let origin = matches.try_get_one::<TextOrigin>(id).ok().flatten();
        origin == Some(&TextOrigin::Stdin)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::tables;
    use serde_json::json;

    fn found(field: &'static str, reply: &Json) -> Result<BTreeMap<String, String>, String> {
        let field = tables::NODE_PUBLISH_VOLUME_REQUEST.field(field);
        let field = field.expect("a field of the request");
        find(field, reply, &TextOrigin::Stdin).map_err(|error| error.to_string())
    }

    #[test]
    fn maps_are_found_where_replies_have_them() {
        let map = json!({"k": "v"});
        for (field, reply) in [
            ("publish_context", json!({"publishContext": map})),
            ("publish_context", json!({"publish_context": map})),
            ("volume_context", json!({"volume": {"volumeContext": map}})),
            (
                "volume_context",
                json!({"confirmed": {"volumeContext": map}}),
            ),
        ] {
            let map = found(field, &reply).expect("a map");
            assert_eq!(
                map.into_iter().collect::<Vec<_>>(),
                [("k".into(), "v".into())]
            );
        }
        assert_eq!(
            found("publish_context", &json!({"publishContext": {}})),
            Ok(BTreeMap::new())
        );
    }

    #[test]
    fn other_documents_are_refused() {
        let list = json!({"entries": [{"volume": {"volumeContext": {}}}]});
        for (field, reply, problem) in [
            (
                "publish_context",
                json!({}),
                "has no publishContext: it must be the reply of ControllerPublishVolume as",
            ),
            (
                "volume_context",
                list,
                "the reply of CreateVolume or ValidateVolumeCapabilities or ControllerGetVolume as",
            ),
            (
                "publish_context",
                json!({"publishContext": {"k": 1}}),
                "publishContext is no map of text",
            ),
        ] {
            let error = found(field, &reply).expect_err(problem);
            assert!(error.contains(problem), "{error}");
        }
    }
}
