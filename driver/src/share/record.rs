//! What is remembered of one volume. Owns the record's text and its checks; a record that was forged or cut short is
//! refused here and its paths are checked again.

use super::database::{FORMAT, Share};
use super::fill::{Copying, Fill};
use super::source::Source;
use super::store::Keep;
use super::sub_path::SubPath;
use super::token::{NameKey, Nonce};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;

/// The longest record that is read, in bytes. Parameters have at most 4 KiB.
pub const MAX_RECORD: u64 = 64 * 1024;

/// Where a volume is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// CreateVolume has begun; a retry finishes it.
    Creating,
    /// The volume exists.
    Ready,
    /// DeleteVolume has begun and will be finished; there is no way back.
    Deleting,
}

/// What happens to the folder when its volume is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum OnDelete {
    /// It is removed with all that is in it.
    #[default]
    Delete,
    /// It stays where it is, and the driver forgets it.
    Retain,
    /// It is renamed to `archived-<folder>-<nonce>` beside its old place, and the driver forgets it.
    Archive,
}

impl OnDelete {
    /// The policy of that name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Delete, Self::Retain, Self::Archive]
            .into_iter()
            .find(|policy| policy.to_string().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for OnDelete {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Delete => "delete",
            Self::Retain => "retain",
            Self::Archive => "archive",
        })
    }
}

/// What a CreateVolume asked for, as far as a retry has to ask for the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The volume's name.
    pub name: String,
    /// At least so many bytes; 0 when not said.
    pub required_bytes: i64,
    /// At most so many bytes; 0 when not said.
    pub limit_bytes: i64,
    /// The folder, templates expanded.
    pub sub_dir: SubPath,
    /// What becomes of the folder.
    pub on_delete: OnDelete,
    /// The folder's permission bits; unset: as the source has them.
    pub mode: Option<u32>,
    /// The folder's owner; unset: whoever the server makes of this driver.
    pub uid: Option<u32>,
    /// The folder's group; unset as for the owner.
    pub gid: Option<u32>,
    /// Mount options for those who mount the volume.
    pub mount_options: Vec<String>,
    /// What the volume is a copy of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<Source>,
    /// Whether the folder is one that exists, which is never made and never removed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopt: bool,
}

/// What has been changed of a volume since it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Changes {
    /// What becomes of the folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_delete: Option<OnDelete>,
    /// The folder's permission bits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<u32>,
    /// The folder's owner.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<u32>,
    /// The folder's group.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gid: Option<u32>,
}

impl Changes {
    /// These changes, and `later` ones on top.
    pub(super) fn and(&self, later: &Self) -> Self {
        Self {
            on_delete: later.on_delete.or(self.on_delete),
            mode: later.mode.or(self.mode),
            uid: later.uid.or(self.uid),
            gid: later.gid.or(self.gid),
        }
    }

    fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl Wanted {
    /// The capacity that a new volume gets. NFS has no sizes, so it is what was asked for.
    pub fn capacity(&self) -> i64 {
        if self.required_bytes > 0 {
            self.required_bytes
        } else {
            self.limit_bytes
        }
    }
}

/// All that is known of a volume, complete in each generation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The format of this record.
    pub format: u64,
    /// The nonce in the volume's id.
    pub nonce: Nonce,
    /// 1 for the first, one more with each change.
    pub generation: u64,
    /// Where the volume is in its life.
    pub state: State,
    /// The share as it stands in the volume's id, so that the id is the same in every answer.
    pub location: String,
    /// The original request.
    pub wanted: Wanted,
    /// The size that was promised last. Advisory.
    pub capacity_bytes: i64,
    /// The folder's inode number when it was made. Helps to find whose a misplaced folder is; proves nothing.
    pub inode: u64,
    /// Seconds since 1970 when it was made, by the clock of the controller that made it.
    pub created: u64,
    /// Who copies the source, while it is copied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copying: Option<Copying>,
    /// The attempt that has copied the source.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copy: Option<Nonce>,
    /// What has been changed since.
    #[serde(default, skip_serializing_if = "Changes::is_none")]
    pub changes: Changes,
}

impl Record {
    /// The key that the record is kept under.
    pub fn key(&self) -> NameKey {
        NameKey::of(&self.wanted.name)
    }

    /// What becomes of the folder, as of now.
    pub fn on_delete(&self) -> OnDelete {
        self.changes.on_delete.unwrap_or(self.wanted.on_delete)
    }

    /// Whether a source waits to be copied before the folder can be placed.
    pub fn needs_copy(&self) -> bool {
        self.state == State::Creating && self.wanted.source.is_some() && self.copy.is_none()
    }

    /// The same volume, one generation on.
    pub(super) fn next(&self) -> Self {
        Self {
            generation: self.generation + 1,
            ..self.clone()
        }
    }

    /// The record's text.
    pub(super) fn to_bytes(&self) -> Result<Vec<u8>, String> {
        let mut text = serde_json::to_vec_pretty(self).map_err(|error| error.to_string())?;
        text.push(b'\n');
        Ok(text)
    }

    /// Reads a record that was found under `key` in a file that its name calls `nonce` and `generation`.
    pub(super) fn from_bytes(
        content: &[u8],
        key: NameKey,
        nonce: Nonce,
        generation: u64,
    ) -> Result<Self, String> {
        let record: Self = serde_json::from_slice(content).map_err(|error| error.to_string())?;
        if record.format > FORMAT {
            return Err(format!(
                "it has format {}, this driver knows up to {FORMAT}: upgrade the driver",
                record.format
            ));
        }
        if record.nonce != nonce || record.generation != generation || record.key() != key {
            return Err("its content does not match its file's name".to_owned());
        }
        if record.wanted.name.len() > 128
            || record.wanted.mode.is_some_and(|mode| mode > 0o7777)
            || record.changes.mode.is_some_and(|mode| mode > 0o7777)
            || (record.wanted.adopt && record.on_delete() != OnDelete::Retain)
            || record.capacity_bytes < 0
        {
            return Err("it has values that no volume has".to_owned());
        }
        Ok(record)
    }

    /// How `wanted` differs from what this volume was made for, or nothing when this volume answers it.
    ///
    /// The server and share need no look: they led to this record. Capabilities need none either: an NFS folder can do
    /// all that passes the request's own check.
    pub fn difference(&self, wanted: &Wanted) -> Option<String> {
        let own = &self.wanted;
        let same_range =
            (own.required_bytes, own.limit_bytes) == (wanted.required_bytes, wanted.limit_bytes);
        let fits = self.capacity_bytes >= wanted.required_bytes
            && (wanted.limit_bytes == 0 || self.capacity_bytes <= wanted.limit_bytes);
        if !same_range && !fits {
            return Some(format!(
                "it has {} bytes, asked for were at least {} and at most {} (0: any)",
                self.capacity_bytes, wanted.required_bytes, wanted.limit_bytes
            ));
        }
        if own.source != wanted.source {
            let source = |source: &Option<Source>| match source {
                Some(source) => source.to_string(),
                None => "nothing".to_owned(),
            };
            return Some(format!(
                "it is a copy of {}, asked for was one of {}",
                source(&own.source),
                source(&wanted.source)
            ));
        }
        let octal =
            |mode: Option<u32>| mode.map_or_else(|| "unset".to_owned(), |mode| format!("{mode:o}"));
        let id = |id: Option<u32>| id.map_or_else(|| "unset".to_owned(), |id| id.to_string());
        let parameters = [
            (
                "subDir",
                own.sub_dir.to_string(),
                wanted.sub_dir.to_string(),
            ),
            (
                "onDelete",
                own.on_delete.to_string(),
                wanted.on_delete.to_string(),
            ),
            ("mountPermissions", octal(own.mode), octal(wanted.mode)),
            ("adopt", own.adopt.to_string(), wanted.adopt.to_string()),
            ("uid", id(own.uid), id(wanted.uid)),
            ("gid", id(own.gid), id(wanted.gid)),
            (
                "mountOptions",
                own.mount_options.join(","),
                wanted.mount_options.join(","),
            ),
        ];
        parameters
            .into_iter()
            .find(|(_, own, wanted)| own != wanted)
            .map(|(parameter, own, wanted)| {
                format!("its {parameter} is {own:?}, asked for was {wanted:?}")
            })
    }
}

impl Keep for Record {
    const SHELF: &'static str = "volumes";

    fn shelf(share: &Share) -> &OwnedFd {
        &share.volumes
    }

    fn key(&self) -> NameKey {
        self.key()
    }

    fn nonce(&self) -> Nonce {
        self.nonce
    }

    fn generation(&self) -> u64 {
        self.generation
    }

    fn copy(&self) -> Option<Nonce> {
        self.copy
    }

    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        self.to_bytes()
    }

    fn from_bytes(
        content: &[u8],
        key: NameKey,
        nonce: Nonce,
        generation: u64,
    ) -> Result<Self, String> {
        Self::from_bytes(content, key, nonce, generation)
    }
}

impl Fill for Record {
    fn copying(&self) -> Option<&Copying> {
        self.copying.as_ref()
    }

    fn with_copying(&self, copying: Option<Copying>) -> Self {
        Self {
            copying,
            ..self.next()
        }
    }

    fn filled(&self, copy: Nonce, inode: u64, _left_out: Option<String>) -> Self {
        Self {
            copying: None,
            copy: Some(copy),
            inode,
            ..self.next()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn record() -> Record {
        Record {
            format: 1,
            nonce: Nonce::random().unwrap(),
            generation: 1,
            state: State::Creating,
            location: "s:/a".to_owned(),
            wanted: Wanted {
                name: "v".to_owned(),
                required_bytes: 10,
                limit_bytes: 20,
                sub_dir: SubPath::of_name("v"),
                on_delete: OnDelete::Delete,
                mode: Some(0o755),
                uid: None,
                gid: Some(7),
                mount_options: vec![],
                source: None,
                adopt: false,
            },
            capacity_bytes: 10,
            inode: 1,
            created: 1,
            copying: None,
            copy: None,
            changes: Changes::default(),
        }
    }

    fn read(text: &str, record: &Record) -> Result<Record, String> {
        Record::from_bytes(
            text.as_bytes(),
            record.key(),
            record.nonce,
            record.generation,
        )
    }

    #[test]
    fn a_record_survives_its_text() {
        let record = record();
        let text = String::from_utf8(record.to_bytes().unwrap()).unwrap();
        assert_eq!(read(&text, &record).unwrap(), record);
    }

    #[test]
    fn forged_and_cut_records_are_refused() {
        let record = record();
        let text = String::from_utf8(record.to_bytes().unwrap()).unwrap();
        for length in 0..text.trim_end().len() {
            assert!(read(&text[..length], &record).is_err(), "{length}");
        }
        for (from, to) in [
            (r#""sub_dir": "v""#, r#""sub_dir": "../v""#),
            (r#""sub_dir": "v""#, r#""sub_dir": "/""#),
            (r#""sub_dir": "v""#, r#""sub_dir": ".csi-nfs/volumes""#),
            (r#""name": "v""#, r#""name": "w""#),
            (r#""mode": 493"#, r#""mode": 70000"#),
            (r#""generation": 1"#, r#""generation": 2"#),
            (r#""format": 1"#, r#""format": 2"#),
        ] {
            let forged = text.replacen(from, to, 1);
            assert_ne!(forged, text, "{from}");
            assert!(read(&forged, &record).is_err(), "{to}");
        }
    }

    #[test]
    fn a_retry_matches_the_original_or_what_fits() {
        let mut record = record();
        assert_eq!(record.difference(&record.wanted.clone()), None);
        record.capacity_bytes = 100;
        assert_eq!(
            record.difference(&record.wanted.clone()),
            None,
            "after an expansion"
        );
        let mut other = record.wanted.clone();
        (other.required_bytes, other.limit_bytes) = (50, 0);
        assert_eq!(record.difference(&other), None);
        other.limit_bytes = 60;
        assert!(record.difference(&other).unwrap().contains("100 bytes"));
        let mut other = record.wanted.clone();
        other.gid = None;
        assert!(record.difference(&other).unwrap().contains("gid"));
    }

    proptest! {
        #[test]
        fn any_bytes_are_answered(content in proptest::collection::vec(any::<u8>(), 0..300)) {
            let record = record();
            prop_assert!(Record::from_bytes(&content, record.key(), record.nonce, 1).is_err());
        }
    }
}
