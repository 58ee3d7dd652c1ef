//! The output of `csc`, byte by byte, for scripts that were written for it: the parts of its format. The output for one
//! RPC is declared beside that RPC's block.

use super::cell;
use super::layout::Layout;
use super::reply::{Format, OutputError, ShownReply};
use super::view::{CellFormat, View};
use csi_proto::path::Path;
use csi_proto::schema::{Cardinality, Kind};
use csi_proto::value::{Key, Value, enum_text};
use csi_proto::{contents, v1};
use prost::Message;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Appends what `csc` prints for one reply.
pub type CscWriter = fn(&Layout, &ShownReply<'_>, &mut String) -> Result<(), OutputError>;

/// The writer of an RPC; `None` where csc does not have it, or its reply is empty.
pub type Csc = Option<CscWriter>;

/// The writer for the replies of an RPC that csc does not have, or whose reply is empty.
pub(crate) fn default_of(view: &View) -> CscWriter {
    if view.done.is_empty() { tabs } else { subject }
}

/// RPCs that csc does not have: the columns of a wide table, separated by tabs, one row a line.
pub(crate) fn tabs(
    layout: &Layout,
    reply: &ShownReply<'_>,
    out: &mut String,
) -> Result<(), OutputError> {
    let columns = layout.columns(Format::Wide)?;
    for bytes in layout.rows(reply.bytes)? {
        for (index, column) in columns.iter().enumerate() {
            if index > 0 {
                out.push('\t');
            }
            cell::write(&column.value(reply.row(bytes))?, CellFormat::Plain, out);
        }
        out.push('\n');
    }
    Ok(())
}

/// The argument as it was given, for replies without content.
pub fn subject(_: &Layout, reply: &ShownReply<'_>, out: &mut String) -> Result<(), OutputError> {
    out.push_str(reply.subject);
    out.push('\n');
    Ok(())
}

/// The first capability of a controller that is younger than csc, which prints its number. The node and the group controller
/// have none of that number.
const NEWER: i32 = 15;

/// `&{type:NAME}` a line, for the controller's, the node's and the group controller's capabilities.
pub fn capabilities(
    layout: &Layout,
    reply: &ShownReply<'_>,
    out: &mut String,
) -> Result<(), OutputError> {
    let name = layout.name()?;
    for bytes in layout.rows(reply.bytes)? {
        if let Value::Enum(number, name) = name.read(reply.row(bytes))? {
            let text = match number {
                NEWER.. => number.to_string().into(),
                _ => enum_text(number, name),
            };
            let _ = writeln!(out, "&{{type:{text}}}");
        }
    }
    Ok(())
}

/// A field of the reply.
pub fn field(
    layout: &Layout,
    reply: &ShownReply<'_>,
    path: &str,
    out: &mut String,
) -> Result<(), OutputError> {
    let value = Path::parse(layout.method.response, path)?.read(reply.bytes)?;
    cell::write(&value, CellFormat::Plain, out);
    out.push('\n');
    Ok(())
}

/// The `volume` of each row, one a line, and the token of the next page.
pub fn volumes(
    layout: &Layout,
    reply: &ShownReply<'_>,
    out: &mut String,
) -> Result<(), OutputError> {
    each(layout, reply, "volume", out, |volume: v1::Volume, out| {
        let (id, size) = (quoted(&volume.volume_id), volume.capacity_bytes);
        let _ = write!(out, "{id}\t{size}");
        if !volume.volume_context.is_empty() {
            out.push('\t');
            entries(&volume.volume_context, "", "\t", out);
        }
        out.push('\n');
    })
}

/// The `snapshot` of each row, one a line, and the token of the next page.
pub fn snapshots(
    layout: &Layout,
    reply: &ShownReply<'_>,
    out: &mut String,
) -> Result<(), OutputError> {
    each(
        layout,
        reply,
        "snapshot",
        out,
        |snapshot: v1::Snapshot, out| {
            let time = snapshot.creation_time.map_or("<nil>".to_owned(), |time| {
                let parts = [("seconds", time.seconds), ("nanos", i64::from(time.nanos))];
                let set = parts.iter().filter(|(_, number)| *number != 0);
                let texts: Vec<_> = set
                    .map(|(name, number)| format!("{name}:{number}"))
                    .collect();
                texts.join(" ")
            });
            let _ = writeln!(
                out,
                "{}\t{}\t{}\t{time}\t{}",
                quoted(&snapshot.snapshot_id),
                snapshot.size_bytes,
                snapshot.source_volume_id,
                snapshot.ready_to_use
            );
        },
    )
}

/// Writes the message in a field of each row, and the token of the next page, where no such page follows.
fn each<T: Message + Default>(
    layout: &Layout,
    reply: &ShownReply<'_>,
    field: &str,
    out: &mut String,
    write: impl Fn(T, &mut String),
) -> Result<(), OutputError> {
    for row in layout.rows(reply.bytes)? {
        let message = contents(layout.types.row, row, field).concat();
        write(T::decode(&*message)?, out);
    }
    let next = contents(layout.method.response, reply.bytes, "next_token").pop();
    if let Some(next) = next.filter(|next| !next.is_empty() && !reply.more) {
        let _ = writeln!(out, "token={}", quoted(&String::from_utf8_lossy(next)));
    }
    Ok(())
}

/// The entries of a map, each between two texts.
pub fn entries(map: &BTreeMap<String, String>, before: &str, after: &str, out: &mut String) {
    for (key, value) in map {
        let _ = write!(out, "{before}{}={}{after}", quoted(key), quoted(value));
    }
}

/// Text in double quotes as Go's `%q` has it.
pub fn quoted(text: &str) -> String {
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
            _ if is_printed(letter) => out.push(letter),
            ..='\u{ffff}' => {
                let _ = write!(out, "\\u{:04x}", u32::from(letter));
            }
            _ => {
                let _ = write!(out, "\\U{:08x}", u32::from(letter));
            }
        }
    }
    out.push('"');
    out
}

/// Whether Go takes the letter for one that can be seen. Rust has the same categories, but escapes marks that nothing precedes.
fn is_printed(letter: char) -> bool {
    let behind_another = String::from_iter(['a', letter]);
    behind_another.escape_debug().eq(behind_another.chars())
}

/// Go's text form of a message, with the single spaces that it has in one build of two.
pub fn proto_text(value: &Value<'_>) -> String {
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
            cell::write(other, CellFormat::Plain, &mut out);
            out
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_quoted_as_go_quotes_it() {
        for (text, expected) in [
            ("größe 漢 e\u{301}", "größe 漢 e\u{301}"),
            ("\u{301}\u{e0100}\u{1f980}", "\u{301}\u{e0100}\u{1f980}"),
            ("a\"b\\'\n\x1b\x7f", "a\\\"b\\\\'\\n\\x1b\\x7f"),
            ("\u{9b}\u{202e}\u{2028}", "\\u009b\\u202e\\u2028"),
            // Spaces, what has no width, and what nobody has given a meaning.
            (
                "\u{a0}\u{3000}\u{200b}\u{ad}",
                "\\u00a0\\u3000\\u200b\\u00ad",
            ),
            ("\u{e000}\u{378}\u{e0001}", "\\ue000\\u0378\\U000e0001"),
        ] {
            assert_eq!(quoted(text), format!("\"{expected}\""));
        }
    }
}
