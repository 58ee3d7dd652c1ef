//! What `csc` prints, byte by byte, for scripts that were written for it. The facts of its format stand here alone.

use super::cell;
use super::cell::Row;
use super::layout::Layout;
use super::reply::{OutputError, Reply};
use super::view::{Format, View};
use csi_proto::path::Path;
use csi_proto::schema::{Cardinality, Kind};
use csi_proto::v1;
use csi_proto::value::{Key, Secrets, Value, decode, enum_name, enum_text};
use prost::Message;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Appends what `csc` prints for one reply.
pub type Writer = fn(&Layout, &Reply<'_>, &mut String) -> Result<(), OutputError>;

/// The writer for the replies of an RPC that csc does not have, or whose reply is empty.
pub fn default_of(view: &View) -> Writer {
    if view.done.is_empty() { tabs } else { subject }
}

fn row<'a>(reply: &Reply<'a>, row: &'a [u8]) -> Row<'a> {
    Row {
        request: reply.request,
        reply: reply.bytes,
        row,
    }
}

/// RPCs that csc does not have: the columns of a wide table, separated by tabs, one row a line.
pub fn tabs(layout: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let columns = layout.columns(true)?;
    for bytes in layout.rows(reply.bytes)? {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.push('\t');
            }
            cell::write(&column.value(row(reply, bytes))?, Format::Plain, out);
        }
        out.push('\n');
    }
    Ok(())
}

/// The argument as it was given, for replies without content.
pub fn subject(_: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    out.push_str(reply.subject);
    out.push('\n');
    Ok(())
}

/// `"name"⇥"version"`, then the manifest.
pub fn plugin_info(_: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let info = v1::GetPluginInfoResponse::decode(reply.bytes)?;
    let _ = write!(
        out,
        "{}\t{}",
        quoted(&info.name),
        quoted(&info.vendor_version)
    );
    entries(&info.manifest, "\t", "", out);
    out.push('\n');
    Ok(())
}

/// One name a line, services and expansion types alike.
pub fn plugin_capabilities(
    _: &Layout,
    reply: &Reply<'_>,
    out: &mut String,
) -> Result<(), OutputError> {
    use csi_proto::tables::{
        PLUGIN_CAPABILITY_SERVICE_TYPE as SERVICE,
        PLUGIN_CAPABILITY_VOLUME_EXPANSION_TYPE as EXPANSION,
    };
    use v1::plugin_capability::Type;
    for capability in v1::GetPluginCapabilitiesResponse::decode(reply.bytes)?.capabilities {
        let name = match capability.r#type {
            Some(Type::Service(service)) => enum_name(&SERVICE, service.r#type),
            Some(Type::VolumeExpansion(expansion)) => enum_name(&EXPANSION, expansion.r#type),
            None => continue,
        };
        let _ = writeln!(out, "{name}");
    }
    Ok(())
}

/// `true` or `false`; a driver that leaves `ready` out is ready.
pub fn probe(_: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let ready = v1::ProbeResponse::decode(reply.bytes)?.ready;
    let _ = writeln!(out, "{}", ready.unwrap_or(true));
    Ok(())
}

/// `&{type:NAME}` a line, for the controller's, the node's and the group controller's capabilities.
pub fn capabilities(
    layout: &Layout,
    reply: &Reply<'_>,
    out: &mut String,
) -> Result<(), OutputError> {
    let name = layout.name()?;
    for bytes in layout.rows(reply.bytes)? {
        if let Value::Enum(number, name) = name.read(row(reply, bytes))? {
            let _ = writeln!(out, "&{{type:{}}}", enum_text(number, name));
        }
    }
    Ok(())
}

/// The row of one volume.
pub fn created_volume(_: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    // CreateVolume and ControllerGetVolume both have the volume in field 1.
    let volume = v1::CreateVolumeResponse::decode(reply.bytes)?.volume;
    volume_row(&volume.unwrap_or_default(), out);
    Ok(())
}

/// A row a volume, then the token.
pub fn volumes(layout: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    for row in layout.rows(reply.bytes)? {
        let entry = v1::list_volumes_response::Entry::decode(row)?;
        volume_row(&entry.volume.unwrap_or_default(), out);
    }
    token(layout, reply, out)
}

/// The row of one snapshot.
pub fn created_snapshot(
    _: &Layout,
    reply: &Reply<'_>,
    out: &mut String,
) -> Result<(), OutputError> {
    // CreateSnapshot and GetSnapshot both have the snapshot in field 1.
    let snapshot = v1::CreateSnapshotResponse::decode(reply.bytes)?.snapshot;
    snapshot_row(&snapshot.unwrap_or_default(), out);
    Ok(())
}

/// A row a snapshot, then the token.
pub fn snapshots(layout: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    for row in layout.rows(reply.bytes)? {
        let entry = v1::list_snapshots_response::Entry::decode(row)?;
        snapshot_row(&entry.snapshot.unwrap_or_default(), out);
    }
    token(layout, reply, out)
}

/// `"id"`, then the publish context.
pub fn published(_: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let context = v1::ControllerPublishVolumeResponse::decode(reply.bytes)?.publish_context;
    out.push_str(&quoted(reply.subject));
    entries(&context, "\t", "", out);
    out.push('\n');
    Ok(())
}

/// `"id"`, what was confirmed as proto text or `<nil>`, and the message.
pub fn validated(layout: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let value = decode(layout.method.response, reply.bytes, Secrets::Mask)?;
    let confirmed = match value.get("confirmed") {
        Some(confirmed) => proto_text(confirmed),
        None => "<nil>".to_owned(),
    };
    let message = match value.get("message") {
        Some(Value::Text(message)) => message,
        _ => "",
    };
    let _ = writeln!(
        out,
        "{}\t{confirmed}\t{}",
        quoted(reply.subject),
        quoted(message)
    );
    Ok(())
}

/// The bare number of an expanded volume's capacity, of the controller or the node: both have it in field 1.
pub fn capacity(_: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let bytes = v1::NodeExpandVolumeResponse::decode(reply.bytes)?.capacity_bytes;
    let _ = writeln!(out, "{bytes}");
    Ok(())
}

/// The bare number of the available capacity.
pub fn available_capacity(
    _: &Layout,
    reply: &Reply<'_>,
    out: &mut String,
) -> Result<(), OutputError> {
    let bytes = v1::GetCapacityResponse::decode(reply.bytes)?.available_capacity;
    let _ = writeln!(out, "{bytes}");
    Ok(())
}

/// `id⇥max_volumes⇥`, then the topology where there is one.
pub fn node_info(layout: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let info = v1::NodeGetInfoResponse::decode(reply.bytes)?;
    let value = decode(layout.method.response, reply.bytes, Secrets::Mask)?;
    let topology = value.get("accessible_topology").map(proto_text);
    let _ = writeln!(
        out,
        "{}\t{}\t{}",
        info.node_id,
        info.max_volumes_per_node,
        topology.unwrap_or_default()
    );
    Ok(())
}

/// `id⇥path⇥` once, then a line a usage.
pub fn stats(_: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let request = v1::NodeGetVolumeStatsRequest::decode(reply.request)?;
    let _ = write!(out, "{}\t{}\t", request.volume_id, request.volume_path);
    let usages = v1::NodeGetVolumeStatsResponse::decode(reply.bytes)?.usage;
    if usages.is_empty() {
        out.push('\n');
    }
    for usage in usages {
        let unit = enum_name(&csi_proto::tables::VOLUME_USAGE_UNIT, usage.unit);
        let _ = writeln!(
            out,
            "{}\t{}\t{}\t{unit}",
            usage.available, usage.total, usage.used
        );
    }
    Ok(())
}

fn volume_row(volume: &v1::Volume, out: &mut String) {
    let _ = write!(
        out,
        "{}\t{}",
        quoted(&volume.volume_id),
        volume.capacity_bytes
    );
    if !volume.volume_context.is_empty() {
        out.push('\t');
        entries(&volume.volume_context, "", "\t", out);
    }
    out.push('\n');
}

fn snapshot_row(snapshot: &v1::Snapshot, out: &mut String) {
    let time = match snapshot.creation_time {
        None => "<nil>".to_owned(),
        Some(time) => {
            let parts = [("seconds", time.seconds), ("nanos", i64::from(time.nanos))];
            let set = parts.iter().filter(|(_, number)| *number != 0);
            let texts: Vec<String> = set
                .map(|(name, number)| format!("{name}:{number}"))
                .collect();
            texts.join(" ")
        }
    };
    let _ = writeln!(
        out,
        "{}\t{}\t{}\t{time}\t{}",
        quoted(&snapshot.snapshot_id),
        snapshot.size_bytes,
        snapshot.source_volume_id,
        snapshot.ready_to_use
    );
}

fn token(layout: &Layout, reply: &Reply<'_>, out: &mut String) -> Result<(), OutputError> {
    let path = Path::parse(layout.method.response, "next_token")?;
    if let Value::Text(next) = path.read(reply.bytes)?
        && !next.is_empty()
        && !reply.more
    {
        let _ = writeln!(out, "token={}", quoted(&next));
    }
    Ok(())
}

fn entries(map: &BTreeMap<String, String>, before: &str, after: &str, out: &mut String) {
    for (key, value) in map {
        let _ = write!(out, "{before}{}={}{after}", quoted(key), quoted(value));
    }
}

/// Text in double quotes as Go's `%q` has it.
fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' | '\\' => {
                out.push('\\');
                out.push(letter);
            }
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            ' '..='~' => out.push(letter),
            '\0'..='\x7f' => {
                let _ = write!(out, "\\x{:02x}", u32::from(letter));
            }
            _ if csi_proto::text::escaped(letter.encode_utf8(&mut [0; 4])).len()
                == letter.len_utf8() =>
            {
                out.push(letter);
            }
            _ => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
        }
    }
    out.push('"');
    out
}

/// Go's text form of a message, with the single spaces that it has in one build of two.
fn proto_text(value: &Value<'_>) -> String {
    let mut parts = Vec::new();
    if let Value::Message(fields) = value {
        let mut by_number: Vec<_> = fields.iter().collect();
        by_number.sort_by_key(|(key, _)| key.number());
        for (key, value) in by_number {
            let Key::Known(field) = key else { continue };
            let mut add = |text: String| parts.push(format!("{}:{text}", field.name));
            let is_default = field.oneof.is_none() && field.cardinality == Cardinality::Singular;
            match value {
                Value::List(list) => list.iter().for_each(|one| add(scalar_text(one))),
                Value::Map(map) => {
                    for (key, value) in map {
                        add(format!("{{key:{} value:{}}}", quoted(key), quoted(value)));
                    }
                }
                Value::Bool(false) | Value::Int32(0) | Value::Int64(0) | Value::Enum(0, _)
                    if is_default => {}
                Value::Text(text) if text.is_empty() && is_default => {}
                _ => match field.kind {
                    Kind::BoolValue | Kind::Int64Value => {
                        add(format!("{{value:{}}}", scalar_text(value)))
                    }
                    _ => add(scalar_text(value)),
                },
            }
        }
    }
    parts.join(" ")
}

fn scalar_text(value: &Value<'_>) -> String {
    match value {
        Value::Message(_) => format!("{{{}}}", proto_text(value)),
        Value::Text(text) => quoted(text),
        other => {
            let mut out = String::new();
            cell::write(other, Format::Plain, &mut out);
            out
        }
    }
}
