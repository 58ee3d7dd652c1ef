//! Walks over a message and all messages in it. It checks the rules that hold everywhere, from the descriptors alone
//! (sizes, signs, paths, `oneof`s, required fields, keys of secrets), and the rules that `messages` has for single ones.
//!
//! What the descriptors do not know (fields, enum values) is let through: the other side may be newer.

use super::messages;
use super::rule::{MAP_LIMIT, Rule};
use super::syntax;
use super::view::{Broken, MessageView, inside, quoted};
use csi_proto::schema::{Cardinality, Field, Kind, Message};
use csi_proto::value::{self, Secrets, Value};
use csi_proto::wire::{self, Raw};
use std::collections::BTreeMap;

/// Spec, "Size Limits": a string where its field says nothing else.
const TEXT_LIMIT: usize = 128;
/// `node_id` has a limit of its own; the lists of published nodes hold such ids.
const NODE_ID_LIMIT: usize = 256;
/// Checks the `bytes` of a request or reply; `rules` are those for the message itself.
pub fn message(message: &'static Message, bytes: &[u8], rules: &[Rule], found: &mut Broken) {
    walk(message, bytes, "", rules, found);
}

fn walk(message: &'static Message, bytes: &[u8], at: &str, rules: &[Rule], found: &mut Broken) {
    let parts: Result<Vec<_>, _> = wire::fields(bytes).collect();
    let parts = match parts {
        Ok(parts) => parts,
        Err(error) => {
            let name = message.short_name();
            return found.push(at, format!("the bytes are not a {name}: {error}"));
        }
    };
    for field in message.fields {
        let mut occurrences = Vec::new();
        for (_, raw) in parts.iter().filter(|part| part.0 == field.number) {
            if value::fits(field, *raw) {
                occurrences.push(*raw);
            } else {
                let rule = format!("not encoded as the {field} that the specification says");
                found.push(inside(at, field.name), rule);
            }
        }
        check_field(message, field, &occurrences, at, found);
    }
    let newer = |part: &(u32, Raw<'_>)| message.fields.iter().all(|field| field.number != part.0);
    check_oneofs(message, &parts, parts.iter().any(newer), at, found);
    let view = MessageView::new(message, bytes);
    let required = message.required.iter().copied().map(Rule::Required);
    for rule in required.chain(rules.iter().copied()) {
        rule.check(&view, at, found);
    }
}

fn check_field(
    message: &'static Message,
    field: &'static Field,
    occurrences: &[Raw<'_>],
    at: &str,
    found: &mut Broken,
) {
    let here = || inside(at, field.name);
    if field.cardinality == Cardinality::Map {
        return check_map(field, occurrences, &here(), found);
    }
    let repeated = field.cardinality == Cardinality::Repeated;
    let element = |index: usize| match repeated {
        true => format!("{}[{index}]", here()),
        false => here(),
    };
    let contents = || wire::contents(occurrences);
    match field.kind {
        Kind::String => {
            for (index, bytes) in contents().into_iter().enumerate() {
                check_text(field, bytes, || element(index), found);
            }
        }
        Kind::Message(of) => {
            let rules = messages::of(of);
            if repeated {
                for (index, bytes) in contents().into_iter().enumerate() {
                    walk(of, bytes, &element(index), rules, found);
                }
            } else if !occurrences.is_empty() {
                // A message that occurs several times is the concatenation of its parts.
                walk(of, &contents().concat(), &here(), rules, found);
            }
        }
        Kind::Int32 | Kind::Int64 | Kind::Int64Value | Kind::Timestamp => {
            match Secrets::Mask.field(message, field, occurrences) {
                Ok(value) => check_number(&value, here, found),
                Err(error) => found.push(here(), format!("cannot be read: {error}")),
            }
        }
        Kind::Bool | Kind::BoolValue | Kind::Enum(_) => {}
    }
}

/// Every number of CSI is a size, a count or an offset, and must not be negative.
fn check_number(value: &Value<'_>, at: impl Fn() -> String, found: &mut Broken) {
    let number = match value {
        Value::Int32(number) => i64::from(*number),
        Value::Int64(number) => *number,
        Value::Timestamp(time) => {
            // The years 0001 to 9999, which is what protobuf allows.
            let years = -62_135_596_800..=253_402_300_799;
            if !years.contains(&time.seconds) || !(0..1_000_000_000).contains(&time.nanos) {
                found.push(at(), "not a time between the years 1 and 9999");
            }
            return;
        }
        _ => return,
    };
    if number < 0 {
        found.push(at(), format!("{number} is negative"));
    }
}

fn check_text(field: &Field, bytes: &[u8], at: impl Fn() -> String, found: &mut Broken) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return found.push(at(), "not valid UTF-8");
    };
    // Paths may be as long as the system allows; of mount flags only the total is limited.
    let is_path = field.name.ends_with("_path");
    let limit = match field.name {
        "node_id" | "published_node_ids" => NODE_ID_LIMIT,
        "mount_flags" => usize::MAX,
        _ if is_path => usize::MAX,
        _ => TEXT_LIMIT,
    };
    if text.len() > limit {
        let rule = format!("has {} bytes, at most {limit} are allowed", text.len());
        found.push(at(), rule);
    }
    if is_path && !text.is_empty() && !syntax::is_absolute_path(text) {
        found.push(at(), format!("{} is not an absolute path", quoted(text)));
    }
}

/// Says nothing of a map's contents when they are secret.
fn check_map(field: &Field, occurrences: &[Raw<'_>], at: &str, found: &mut Broken) {
    // Of two entries with the same key the last counts.
    let mut entries: BTreeMap<&[u8], &[u8]> = BTreeMap::new();
    for bytes in wire::contents(occurrences) {
        let parts: Result<Vec<_>, _> = wire::fields(bytes).collect();
        let (key, value) = match parts {
            Ok(parts) => wire::entry(parts),
            Err(error) => return found.push(at, format!("has a broken entry: {error}")),
        };
        entries.insert(key, value);
    }
    let size: usize = entries
        .iter()
        .map(|(key, value)| key.len() + value.len())
        .sum();
    if size > MAP_LIMIT {
        let rule = format!("has {size} bytes of keys and values, at most {MAP_LIMIT} are allowed");
        found.push(at, rule);
    }
    let is_text = |bytes: &[u8]| std::str::from_utf8(bytes).is_ok();
    if !entries
        .iter()
        .all(|(key, value)| is_text(key) && is_text(value))
    {
        found.push(at, "has a key or value that is not valid UTF-8");
    }
    if field.secret && !entries.keys().all(|key| syntax::is_secret_key(key)) {
        let rule = "has a key with other characters than letters, digits, '-', '_' and '.'";
        found.push(at, rule);
    }
}

/// Every `oneof` of CSI demands exactly one of its fields; a field that the descriptors do not know may be that one.
fn check_oneofs(
    message: &'static Message,
    parts: &[(u32, Raw<'_>)],
    has_newer: bool,
    at: &str,
    found: &mut Broken,
) {
    let mut seen: Vec<&str> = Vec::new();
    for oneof in message.fields.iter().filter_map(|field| field.oneof) {
        if seen.contains(&oneof) {
            continue;
        }
        seen.push(oneof);
        let members: Vec<&Field> = message
            .fields
            .iter()
            .filter(|field| field.oneof == Some(oneof))
            .collect();
        let set = members
            .iter()
            .filter(|field| parts.iter().any(|part| part.0 == field.number));
        let names: Vec<&str> = members.iter().map(|field| field.name).collect();
        match set.count() {
            1 => {}
            0 if has_newer => {}
            0 => found.push(
                inside(at, oneof),
                format!("required: {}", names.join(" or ")),
            ),
            _ => found.push(
                inside(at, oneof),
                format!("only one of {} may be set", names.join(", ")),
            ),
        }
    }
}
