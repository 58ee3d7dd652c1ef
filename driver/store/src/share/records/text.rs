//! The text of records, and the names of their files and of what lies beside them. Owns what becomes of fields that this
//! version does not know: an update leaves them as they are.

use crate::share::records::format::check_format;
use crate::share::records::record::{Kind, Record};
use crate::share::token::{NameKey, Nonce};
use serde_json::{Map, Value};

/// The longest record that is read, in bytes. Parameters have at most 4 KiB.
pub const MAX_RECORD: u64 = 64 * 1024;

/// The last generation of a record that is read. No share sees so many changes, and where numbers end nothing can follow.
const LAST: u64 = u64::MAX / 2;

/// What lies beside a record from its first generation on: the folder of an empty volume, until it is moved to its place.
const PREPARED: &str = "data";

/// Through what, beside its record, the folder of a volume leaves a path that a user has chosen.
pub(in crate::share) const LEAVING: &str = "leaving";

/// What a copy has beside the record, each with `.` and the nonce of the attempt: the data, the folder of links that copying
/// needs, and the sign of life.
pub(in crate::share) const COPYING: [&str; 3] = ["data", "links", "beat"];

/// The name of the data beside a record whose source was copied by the attempt `copy`, or that has no source.
pub(in crate::share) fn data_name(copy: Option<Nonce>) -> String {
    match copy {
        Some(attempt) => format!("{}.{attempt}", COPYING[0]),
        None => PREPARED.to_owned(),
    }
}

/// Whether it is the name of what a copy has beside a record.
pub(in crate::share) fn is_attempt(name: &str) -> bool {
    (name.split_once('.')).is_some_and(|(kind, _)| COPYING.contains(&kind))
}

/// The name of the file beside a volume's record that says what the volume takes on the disk.
pub(in crate::share) fn measure_name(nonce: Nonce) -> String {
    format!("measure.{nonce}")
}

/// Whose generation a file of that name is, and which.
pub(in crate::share) fn parse_file_name(name: &str) -> Option<(Nonce, u64)> {
    let (nonce, generation) = name.split_once('.')?;
    let number: u64 = generation.parse().ok()?;
    (number > 0 && number.to_string() == generation).then_some((nonce.parse().ok()?, number))
}

/// Reads a record that was found under `key` in a file that its name calls `nonce` and `generation`.
pub(in crate::share) fn read<K: Kind>(
    content: &[u8],
    key: NameKey,
    nonce: Nonce,
    generation: u64,
) -> Result<Record<K>, String> {
    check_format(content).map_err(|error| error.to_string())?;
    let record: Record<K> = serde_json::from_slice(content).map_err(|error| error.to_string())?;
    if (record.nonce, record.generation, record.key()) != (nonce, generation, key) {
        return Err("its content does not match its file's name".to_owned());
    }
    if !K::is_sound(&record) || generation > LAST {
        return Err(format!("it has values that no record in {} has", K::FOLDER));
    }
    Ok(record)
}

/// Where a record that cannot be read says that its share is.
pub(in crate::share) fn location(content: &[u8]) -> Option<String> {
    let record: Value = serde_json::from_slice(content).ok()?;
    record.get("location")?.as_str().map(str::to_owned)
}

/// The text of `record`, with the fields that `before`, the text of an earlier generation, has and this version does not know.
pub(in crate::share) fn write<K: Kind>(
    record: &Record<K>,
    before: Option<&[u8]>,
) -> serde_json::Result<Vec<u8>> {
    let mut unknown = Value::Null;
    if let Some(before) = before {
        unknown = serde_json::from_slice(before)?;
        let known: Record<K> = serde_json::from_slice(before)?;
        take_away(&mut unknown, &serde_json::to_value(known)?);
    }
    let mut text = match unknown {
        Value::Object(unknown) if !unknown.is_empty() => {
            let mut written = serde_json::to_value(record)?;
            add(&mut written, unknown);
            serde_json::to_vec_pretty(&written)?
        }
        _ => serde_json::to_vec_pretty(record)?,
    };
    text.push(b'\n');
    Ok(text)
}

/// Takes away from `all` what is in `known`, whatever its value, and objects of which nothing is left.
fn take_away(all: &mut Value, known: &Value) {
    if let (Value::Object(all), Value::Object(known)) = (all, known) {
        all.retain(|key, value| match known.get(key) {
            None => true,
            Some(known) => {
                take_away(value, known);
                known.is_object() && matches!(value, Value::Object(left) if !left.is_empty())
            }
        });
    }
}

/// Adds to `all` what is in `more` and not there.
fn add(all: &mut Value, more: Map<String, Value>) {
    let Value::Object(all) = all else { return };
    for (key, value) in more {
        match (all.get_mut(&key), value) {
            (Some(there), Value::Object(value)) => add(there, value),
            (Some(_), _) => {}
            (None, value) => drop(all.insert(key, value)),
        }
    }
}
