//! Rules between a request and its reply, or between one message of a stream and the next.

use super::view::{Broken, MessageView, quoted};
use csi_proto::value::{Key, Value};

/// A request with one of its replies.
#[derive(Debug)]
pub struct Exchange<'a, 's> {
    /// The request.
    pub request: MessageView<'a>,
    /// The reply.
    pub reply: MessageView<'a>,
    /// The state of the stream after the messages before this one.
    pub stream: &'s mut Stream,
}

/// The state of a stream of snapshot metadata.
#[derive(Debug, Default)]
pub struct Stream {
    /// The type of the ranges and the capacity of the volume, of the first message.
    constant: Option<(i64, i64)>,
    /// The end of the last range; `None` before the first.
    end: Option<i64>,
    /// The size of the first range.
    size: Option<i64>,
}

/// An agreement between request and reply.
#[derive(Clone, Copy, Debug)]
pub enum Agreement {
    /// The reply's list has no more elements than the request's number, which comes second, allows; 0 allows any number.
    AtMost(&'static str, &'static str),
    /// The text at the path in the request, where it has one, equals that at the path in the reply.
    Same(&'static str, &'static str),
    /// The same agreement as [`Agreement::Same`], with a path in every entry of the reply.
    EveryEntry(&'static str, &'static str),
    /// The size at the path in the reply lies in the request's `capacity_range`; 0 means that it is not known.
    InCapacityRange(&'static str),
    /// The size at the path in the reply is at least what the request's `capacity_range` requires. It may exceed the limit, for
    /// the volume may have done so before.
    NotBelowRequired(&'static str),
    /// The token of the next page is not the one that this page was asked with: such a list has no end.
    NewToken,
    /// Whatever else must agree.
    Check(fn(&mut Exchange<'_, '_>, &mut Broken)),
}

impl Agreement {
    /// Checks this agreement and adds what is wrong to `found`.
    pub fn check(self, exchange: &mut Exchange<'_, '_>, found: &mut Broken) {
        let (request, reply) = (exchange.request, exchange.reply);
        match self {
            Self::AtMost(list, limit) => {
                let count = reply.elements(list).len();
                let most = request.number(limit);
                if usize::try_from(most).is_ok_and(|most| most > 0 && count > most) {
                    let rule = format!("has {count} elements, the request's {limit} is {most}");
                    found.push(list, rule);
                }
            }
            Self::Same(asked, got) => same(&request.text(asked), &reply, got, asked, got, found),
            Self::EveryEntry(asked, got) => {
                let wanted = request.text(asked);
                for (index, entry) in reply.elements("entries").iter().enumerate() {
                    let at = format!("entries[{index}].{got}");
                    same(&wanted, entry, got, asked, &at, found);
                }
            }
            Self::InCapacityRange(path) => {
                Self::NotBelowRequired(path).check(exchange, found);
                let limit = request.number("capacity_range.limit_bytes");
                let size = reply.number(path);
                if limit > 0 && size > limit {
                    let rule = format!("{size} is more than the request's limit_bytes, {limit}");
                    found.push(path, rule);
                }
            }
            Self::NotBelowRequired(path) => {
                let required = request.number("capacity_range.required_bytes");
                let size = reply.number(path);
                if size > 0 && size < required {
                    let rule =
                        format!("{size} is less than the request's required_bytes, {required}");
                    found.push(path, rule);
                }
            }
            Self::NewToken => {
                let token = reply.text("next_token");
                if !token.is_empty() && token == request.text("starting_token") {
                    let rule = format!("{} is the request's starting_token", quoted(&token));
                    found.push("next_token", rule);
                }
            }
            Self::Check(check) => check(exchange, found),
        }
    }
}

fn same(
    wanted: &str,
    reply: &MessageView<'_>,
    got: &str,
    asked: &str,
    at: &str,
    found: &mut Broken,
) {
    let got = reply.text(got);
    // A missing text is another rule's business.
    if !wanted.is_empty() && !got.is_empty() && got != wanted {
        let rule = format!(
            "{} is not the request's {asked}, {}",
            quoted(&got),
            quoted(wanted)
        );
        found.push(at, rule);
    }
}

/// The snapshots are of the volume that the request names. A request that also names a snapshot is left alone: no sentence says
/// that both filters hold together.
pub(crate) fn of_the_volume(exchange: &mut Exchange<'_, '_>, found: &mut Broken) {
    if exchange.request.text("snapshot_id").is_empty() {
        let agreement = Agreement::EveryEntry("source_volume_id", "snapshot.source_volume_id");
        agreement.check(exchange, found);
    }
}

/// The volume has no other source than the one that the request names, and is in a place that the request allows.
pub(crate) fn created_volume(exchange: &mut Exchange<'_, '_>, found: &mut Broken) {
    let (request, reply) = (exchange.request, exchange.reply);
    if !reply.is_set("volume") {
        return;
    }
    let source = |view: &MessageView<'_>, source: &str| {
        let id = |path: &str| view.text(&format!("{source}.{path}")).into_owned();
        (id("snapshot.snapshot_id"), id("volume.volume_id"))
    };
    // It is optional in the reply, and a repeated request may leave it out.
    let (asked, at) = ("volume_content_source", "volume.content_source");
    let are_set = request.is_set(asked) && reply.is_set(at);
    if are_set && source(&request, asked) != source(&reply, at) {
        found.push(at, "is not the request's volume_content_source");
    }
    let requisite = request.list("accessibility_requirements.requisite");
    let places = reply.list("volume.accessible_topology");
    let fits = |place: &Value<'_>| requisite.iter().any(|wanted| can_be_one(place, wanted));
    if !requisite.is_empty() && !places.is_empty() && !places.iter().any(fits) {
        let rule = "has no place that the request's accessibility_requirements.requisite has";
        found.push("volume.accessible_topology", rule);
    }
}

/// Whether no key has one value here and another there; a driver may leave keys out that it does not care about.
fn can_be_one(place: &Value<'_>, wanted: &Value<'_>) -> bool {
    let (Some(Value::Map(place)), Some(Value::Map(wanted))) =
        (place.get("segments"), wanted.get("segments"))
    else {
        return true;
    };
    place.iter().all(|(key, value)| {
        let mut others = wanted.iter();
        let other = others.find(|(other, _)| other.eq_ignore_ascii_case(key));
        other.is_none_or(|(_, other)| other == value)
    })
}

/// All capabilities that were asked for are among the confirmed ones: an older driver overlooks those it does not know.
pub(crate) fn confirmed_capabilities(exchange: &mut Exchange<'_, '_>, found: &mut Broken) {
    let at = "confirmed.volume_capabilities";
    if !exchange.reply.is_set(at) {
        return;
    }
    let confirmed: Vec<_> = exchange
        .reply
        .list(at)
        .into_iter()
        .map(without_unknown)
        .collect();
    let asked = exchange.request.list("volume_capabilities");
    for (index, asked) in asked.into_iter().enumerate() {
        if !confirmed.contains(&without_unknown(asked)) {
            found.push(
                at,
                format!("lacks the request's volume_capabilities[{index}]"),
            );
        }
    }
}

/// The value without what only a newer driver knows.
fn without_unknown(value: Value<'_>) -> Value<'_> {
    match value {
        Value::Message(fields) => Value::Message(
            fields
                .into_iter()
                .filter(|(key, _)| matches!(key, Key::Known(_)))
                .map(|(key, value)| (key, without_unknown(value)))
                .collect(),
        ),
        other => other,
    }
}

/// Every volume of the request has its snapshot.
pub(crate) fn group_is_complete(exchange: &mut Exchange<'_, '_>, found: &mut Broken) {
    if !exchange.reply.is_set("group_snapshot") {
        return;
    }
    let snapshots = exchange.reply.list("group_snapshot.snapshots");
    for volume in exchange.request.texts("source_volume_ids") {
        let is_of = |snapshot: &Value<'_>| matches!(snapshot.get("source_volume_id"), Some(Value::Text(id)) if *id == volume);
        if !snapshots.iter().any(is_of) {
            let rule = format!("none is of the request's volume {}", quoted(&volume));
            found.push("group_snapshot.snapshots", rule);
        }
    }
}

/// Ranges ascend without overlap and begin where the request says; type, capacity and fixed sizes stay what they are.
pub fn block_metadata(exchange: &mut Exchange<'_, '_>, found: &mut Broken) {
    let Exchange {
        request,
        reply,
        stream,
    } = exchange;
    let kind = reply.number("block_metadata_type");
    let capacity = reply.number("volume_capacity_bytes");
    let (first_kind, first_capacity) = *stream.constant.get_or_insert((kind, capacity));
    if kind != first_kind {
        found.push("block_metadata_type", "is not that of the first message");
    }
    if capacity != first_capacity {
        let rule = format!("{capacity} is not that of the first message, {first_capacity}");
        found.push("volume_capacity_bytes", rule);
    }
    let is_fixed = matches!(
        reply.read("block_metadata_type"),
        Value::Enum(_, Some("FIXED_LENGTH"))
    );
    for (index, range) in reply.elements("block_metadata").iter().enumerate() {
        let at = format!("block_metadata[{index}]");
        let (offset, size) = (range.number("byte_offset"), range.number("size_bytes"));
        let end = offset.saturating_add(size.max(0));
        match stream.end {
            None => {
                let start = request.number("starting_offset");
                if end <= start {
                    let rule =
                        format!("ends at {end}, not after the request's starting_offset, {start}");
                    found.push(&at, rule);
                }
            }
            Some(before) if offset < before => {
                let rule = format!("{offset} is less than {before}, where the range before ends");
                found.push(format!("{at}.byte_offset"), rule);
            }
            Some(_) => {}
        }
        stream.end = Some(end);
        let first_size = *stream.size.get_or_insert(size);
        if is_fixed && size != first_size {
            let rule = format!(
                "{size} is not that of the first range, {first_size}, as FIXED_LENGTH says"
            );
            found.push(format!("{at}.size_bytes"), rule);
        }
    }
}
