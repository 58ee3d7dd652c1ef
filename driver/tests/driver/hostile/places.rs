//! Every place of a request that takes a text, from the descriptors: fields, elements, the keys of maps and their values.
//! Knows nothing of what the texts mean.

use csi_proto::schema::{Cardinality, Field, Kind, Message};
use csi_proto::wire::{self, Raw};
use serde_json::{Map, Value as Json};
use std::collections::BTreeSet;
use std::fmt;

/// Which text of a field.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Whole,
    Key,
    /// The value of this key.
    ValueOf(&'static str),
}

/// Where a text stands in a request.
#[derive(Clone)]
pub struct Place {
    /// The fields that lead there, the text's own at last.
    way: Vec<&'static Field>,
    part: Part,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<_> = self.way.iter().map(|field| field.name).collect();
        f.write_str(&names.join("."))?;
        match self.part {
            Part::Whole => Ok(()),
            Part::Key => f.write_str("(key)"),
            Part::ValueOf(key) => write!(f, "[{key}]"),
        }
    }
}

/// The places of a message. `keys` says which keys of a map mean something.
pub fn places(message: &'static Message, keys: fn(&Field) -> Vec<&'static str>) -> Vec<Place> {
    let mut found = Vec::new();
    collect(message, &[], keys, &mut found);
    found
}

fn collect(
    message: &'static Message,
    before: &[&'static Field],
    keys: fn(&Field) -> Vec<&'static str>,
    found: &mut Vec<Place>,
) {
    for field in message.fields {
        let way = [before, &[field]].concat();
        let place = |part| Place {
            way: way.clone(),
            part,
        };
        match (field.kind, field.cardinality) {
            (Kind::Message(of), _) => collect(of, &way, keys, found),
            (Kind::String, Cardinality::Map) => {
                found.push(place(Part::Key));
                found.extend(keys(field).into_iter().map(|key| place(Part::ValueOf(key))));
            }
            (Kind::String, _) => found.push(place(Part::Whole)),
            _ => {}
        }
    }
}

impl Place {
    /// Whether a path of the node is expected here.
    pub fn is_path(&self) -> bool {
        let name = self.way.last().map_or("", |field| field.name);
        name.ends_with("_path")
    }

    /// The text that stands here in a request of `message`.
    pub fn text(&self, request: &Json) -> Option<String> {
        let mut json = request;
        for field in &self.way {
            json = json.get(field.json_name)?;
            if field.cardinality == Cardinality::Repeated {
                json = json.get(0)?;
            }
        }
        let json = match self.part {
            Part::Whole => json,
            Part::Key => return None,
            Part::ValueOf(key) => json.get(key)?,
        };
        json.as_str().map(str::to_owned)
    }

    /// Puts `text` here. What leads here is made, and what cannot be beside it is removed.
    pub fn put(&self, message: &'static Message, request: &mut Json, text: &str) {
        let mut message = message;
        let mut json = request;
        for field in &self.way {
            let members = object(json);
            let excluded = message.fields.iter().filter(|other| {
                other.oneof.is_some() && other.oneof == field.oneof && other.name != field.name
            });
            for other in excluded {
                members.remove(other.json_name);
            }
            json = members.entry(field.json_name).or_insert(Json::Null);
            if field.cardinality == Cardinality::Repeated {
                if json.get(0).is_none() {
                    *json = Json::Array(vec![Json::Null]);
                }
                json = &mut json[0];
            }
            if let Kind::Message(of) = field.kind {
                message = of;
            }
        }
        match self.part {
            Part::Whole => *json = text.into(),
            Part::Key => drop(object(json).insert(text.to_owned(), "x".into())),
            Part::ValueOf(key) => drop(object(json).insert(key.to_owned(), text.into())),
        }
    }
}

fn object(json: &mut Json) -> &mut Map<String, Json> {
    if !json.is_object() {
        *json = Json::Object(Map::new());
    }
    json.as_object_mut().unwrap()
}

/// The text fields of `message`, by their paths; the key and the value of a map count as one each.
pub fn fields(message: &'static Message) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for field in message.fields {
        let below = match field.kind {
            Kind::Message(of) => fields(of),
            Kind::String if field.cardinality == Cardinality::Map => {
                ["key", "value"].map(str::to_owned).into()
            }
            Kind::String => [String::new()].into(),
            _ => BTreeSet::new(),
        };
        found.extend(below.iter().map(|below| join(field, below)));
    }
    found
}

/// Those of them that are `text` in the bytes of a request.
pub fn fields_with(message: &'static Message, bytes: &[u8], text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    for (number, raw) in wire::fields(bytes).map(Result::unwrap) {
        let field = message.fields.iter().find(|field| field.number == number);
        let (Some(field), Raw::Bytes(bytes)) = (field, raw) else {
            continue;
        };
        let below = match field.kind {
            Kind::Message(of) => fields_with(of, bytes, text),
            Kind::String if field.cardinality == Cardinality::Map => wire::fields(bytes)
                .map(Result::unwrap)
                .filter(|(_, raw)| *raw == Raw::Bytes(text.as_bytes()))
                .map(|(number, _)| if number == 1 { "key" } else { "value" }.to_owned())
                .collect(),
            Kind::String if bytes == text.as_bytes() => [String::new()].into(),
            _ => BTreeSet::new(),
        };
        found.extend(below.iter().map(|below| join(field, below)));
    }
    found
}

fn join(field: &Field, below: &str) -> String {
    match below {
        "" => field.name.to_owned(),
        below => format!("{}.{below}", field.name),
    }
}
