//! The record of one volume. Owns its values and their checks: the paths of a record that was forged are refused here.

use crate::share::database::Share;
use crate::share::paths::identity::FolderIdentity;
use crate::share::paths::sub_path::SubPath;
use crate::share::records::origin::Source;
use crate::share::records::promise::Ratio;
use crate::share::records::record::{Kind, Record};
use crate::share::records::size::{Quota, Size};
use crate::share::token::Nonce;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::os::fd::OwnedFd;

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
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// The volume's name.
    pub name: String,
    /// At least so many bytes; 0 when not said.
    pub required_bytes: i64,
    /// At most so many bytes; 0 when not said.
    pub limit_bytes: i64,
    /// The folder, templates expanded; unset: one that the driver names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sub_dir: Option<SubPath>,
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
    /// Whether the size is to be enforced; unset: where that can be had.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<Quota>,
    /// How many files and folders it may have; unset: any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inodes: Option<u64>,
    /// How often its file system may be promised, itself included; unset: without end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub overcommit: Option<Ratio>,
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
    pub(in crate::share) fn and(&self, later: &Self) -> Self {
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
    /// What no CreateVolume asked for: a folder without a record, at `path`, that is to be deleted under `name`.
    pub(in crate::share) fn unrecorded(name: &str, path: &SubPath, on_delete: OnDelete) -> Self {
        Self {
            name: name.to_owned(),
            sub_dir: Some(path.clone()),
            on_delete,
            ..Self::default()
        }
    }
}

/// What is remembered of a volume alone.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Volume {
    /// The original request.
    pub wanted: Wanted,
    /// Where the volume's folder is: where the request wants it, or a path that no other volume ever has.
    pub path: SubPath,
    /// The size that was promised last.
    pub capacity_bytes: i64,
    /// Whether that is enforced; none where nobody could say, as without an agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Size>,
    /// What has been changed since.
    #[serde(default, skip_serializing_if = "Changes::is_none")]
    pub changes: Changes,
    /// The folder that a deletion takes away from a path that a user has chosen; none of all where none was there when that began.
    /// Nothing where it does not matter, and where an earlier version could not tell.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaving: Option<FolderIdentity>,
}

impl Volume {
    /// The volume `nonce` that `wanted` describes.
    pub(in crate::share) fn new(wanted: Wanted, nonce: Nonce) -> Self {
        Self {
            path: match &wanted.sub_dir {
                Some(path) => path.clone(),
                None => SubPath::of_volume(&wanted.name, nonce),
            },
            capacity_bytes: 0,
            size: None,
            changes: Changes::default(),
            leaving: None,
            wanted,
        }
    }

    /// What becomes of the folder, as of now.
    pub fn on_delete(&self) -> OnDelete {
        self.changes.on_delete.unwrap_or(self.wanted.on_delete)
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
            let size = match self.capacity_bytes {
                0 => "no size".to_owned(),
                bytes => format!("{bytes} bytes"),
            };
            return Some(format!(
                "it has {size}, asked for were at least {} and at most {} (0: any)",
                wanted.required_bytes, wanted.limit_bytes
            ));
        }
        let same_source = match (&own.source, &wanted.source) {
            (Some(own), Some(wanted)) => own.is_same(wanted),
            (own, wanted) => own.is_none() && wanted.is_none(),
        };
        if !same_source {
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
        let path = |path: &Option<SubPath>| {
            let unset = || "unset".to_owned();
            path.as_ref().map_or_else(unset, SubPath::to_string)
        };
        let parameters = [
            ("subDir", path(&own.sub_dir), path(&wanted.sub_dir)),
            (
                "onDelete",
                own.on_delete.to_string(),
                wanted.on_delete.to_string(),
            ),
            ("mountPermissions", octal(own.mode), octal(wanted.mode)),
            ("adopt", own.adopt.to_string(), wanted.adopt.to_string()),
            ("uid", text(own.uid), text(wanted.uid)),
            ("gid", text(own.gid), text(wanted.gid)),
            ("quota", text(own.quota), text(wanted.quota)),
            ("quotaInodes", text(own.inodes), text(wanted.inodes)),
            ("overcommit", text(own.overcommit), text(wanted.overcommit)),
        ];
        let differing = parameters
            .into_iter()
            .find(|(_, own, wanted)| own != wanted)
            .map(|(parameter, own, wanted)| {
                format!("its {parameter} is {own:?}, asked for was {wanted:?}")
            });
        // Values are told of no option.
        differing.or_else(|| {
            (own.mount_options != wanted.mount_options)
                .then(|| "its mountOptions are not those that were asked for".to_owned())
        })
    }
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map_or_else(|| "unset".to_owned(), |value| value.to_string())
}

impl Kind for Volume {
    const FOLDER: &'static str = "volumes";
    type Wanted = Wanted;

    fn folder(share: &Share) -> &OwnedFd {
        &share.volumes
    }

    fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    fn name(wanted: &Wanted) -> &str {
        &wanted.name
    }

    fn promised_bytes(&self) -> i64 {
        self.capacity_bytes
    }

    fn source(wanted: &Wanted) -> Option<Source> {
        wanted.source.clone()
    }

    fn difference(record: &Record<Self>, wanted: &Wanted) -> Option<String> {
        record.what.difference(wanted)
    }

    fn is_sound(record: &Record<Self>) -> bool {
        let (nonce, what) = (record.nonce, &record.what);
        let path_is_own = match &what.wanted.sub_dir {
            Some(path) => *path == what.path && path.own_name().is_none(),
            None => what.path.is_of_volume(nonce) && !what.wanted.adopt,
        };
        let modes = [what.wanted.mode, what.changes.mode];
        path_is_own
            && what.wanted.name.len() <= 128
            && modes.into_iter().flatten().all(|mode| mode <= 0o7777)
            && (!what.wanted.adopt || what.on_delete() == OnDelete::Retain)
            && what.capacity_bytes >= 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::share::records::record::State;
    use crate::share::records::text;

    fn record() -> Record<Volume> {
        let wanted = Wanted {
            name: "v".to_owned(),
            required_bytes: 10,
            limit_bytes: 20,
            sub_dir: Some(SubPath::parse("v").unwrap()),
            on_delete: OnDelete::Delete,
            mode: Some(0o755),
            uid: None,
            gid: Some(7),
            mount_options: vec![],
            source: None,
            adopt: false,
            quota: None,
            inodes: None,
            overcommit: Ratio::parse("1.5"),
        };
        made(wanted, Nonce::random().unwrap(), State::Creating)
    }

    fn made(wanted: Wanted, nonce: Nonce, state: State) -> Record<Volume> {
        Record::new(Volume::new(wanted, nonce), nonce, state)
    }

    fn written(record: &Record<Volume>) -> String {
        String::from_utf8(text::write(record, None).unwrap()).unwrap()
    }

    fn read(text: &str, record: &Record<Volume>) -> Result<Record<Volume>, String> {
        let content = text.as_bytes();
        text::read(content, record.key(), record.nonce, record.generation)
    }

    #[test]
    fn a_record_survives_its_text() {
        let mut record = record();
        assert_eq!(read(&written(&record), &record).unwrap(), record);
        record.what.wanted.sub_dir = None;
        let record = made(record.what.wanted, record.nonce, State::Ready);
        assert_eq!(read(&written(&record), &record).unwrap(), record);
    }

    /// Versions before this one wrote no `leaving` where none was there. They read what this one writes, and take it for a folder that
    /// is not the one at the path.
    #[test]
    fn a_deletion_that_found_no_folder_says_so_in_the_shape_of_one() {
        let mut record = record();
        record.state = State::Deleting;
        let before = written(&record);
        assert!(!before.contains("leaving"), "{before}");
        assert_eq!(read(&before, &record).unwrap(), record);
        record.what.leaving = Some(FolderIdentity::NONE);
        let text = written(&record);
        let json: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(json["leaving"], serde_json::json!({ "inode": 0 }));
        assert_eq!(read(&text, &record).unwrap(), record);
    }

    #[test]
    fn forged_and_cut_records_are_refused() {
        let record = record();
        let text = written(&record);
        for length in 0..text.trim_end().len() {
            assert!(read(&text[..length], &record).is_err(), "{length}");
        }
        for (from, to) in [
            (r#""overcommit": "1.5""#, r#""overcommit": "0""#),
            (r#""generation": 1"#, r#""generation": 2"#),
        ] {
            let forged = text.replacen(from, to, 1);
            assert_ne!(forged, text, "{from}");
            assert!(read(&forged, &record).is_err(), "{to}");
        }
    }

    #[test]
    fn the_paths_of_volumes_without_a_subdir_are_nobody_elses() {
        let mut own = record();
        own.what.wanted.sub_dir = None;
        let own = made(own.what.wanted, own.nonce, State::Ready);
        assert!(Volume::is_sound(&own));
        let other = Nonce::random().unwrap();
        for path in [SubPath::of_volume("v", other), SubPath::parse("v").unwrap()] {
            let mut path_of_another = own.clone();
            path_of_another.what.path = path;
            assert!(!Volume::is_sound(&path_of_another));
        }
        let mut claimed = own.clone();
        claimed.what.wanted.sub_dir = Some(own.what.path.clone());
        assert!(!Volume::is_sound(&claimed), "a user chooses no such path");
    }

    /// As a newer version may write it, one that keeps the format.
    #[test]
    fn fields_that_this_version_does_not_know_survive_an_update() {
        let record = record();
        let newer = written(&record)
            .replacen(r#""name": "v""#, r#""name": "v", "color": {"a": [1]}"#, 1)
            .replacen(
                r#""state""#,
                r#""quota": 7, "changes": {"later": 1}, "state""#,
                1,
            );
        let mut next = read(&newer, &record).unwrap().next();
        next.what.changes.mode = Some(0o700);
        let updated = text::write(&next, Some(newer.as_bytes())).unwrap();
        let again = String::from_utf8(updated.clone()).unwrap();
        assert_eq!(read(&again, &next).unwrap(), next);
        let updated: serde_json::Value = serde_json::from_slice(&updated).unwrap();
        assert_eq!(updated["wanted"]["color"]["a"][0], 1);
        assert_eq!(
            (&updated["quota"], &updated["changes"]["later"]),
            (&7.into(), &1.into())
        );
        assert_eq!(
            (&updated["generation"], &updated["changes"]["mode"]),
            (&2.into(), &0o700.into())
        );
        // What this version knows and has taken back is gone.
        let claimed = r#""copying": {"attempt": "0123456789abcdef", "process": "p"}, "state""#;
        let claimed = written(&record).replacen(r#""state""#, claimed, 1);
        let mut next = read(&claimed, &record).unwrap().next();
        assert!(next.copying.take().is_some());
        let updated = text::write(&next, Some(claimed.as_bytes())).unwrap();
        assert!(!String::from_utf8(updated).unwrap().contains("copying"));
    }

    #[test]
    fn later_changes_lie_on_top_of_earlier_ones() {
        let earlier = Changes {
            on_delete: Some(OnDelete::Retain),
            mode: Some(0o700),
            uid: Some(1),
            gid: None,
        };
        let later = Changes {
            on_delete: None,
            mode: Some(0o750),
            uid: None,
            gid: Some(2),
        };
        let expected = Changes {
            mode: later.mode,
            gid: later.gid,
            ..earlier.clone()
        };
        assert_eq!(earlier.and(&later), expected);
    }

    #[test]
    fn a_retry_matches_the_original_or_what_fits() {
        let mut record = record();
        assert_eq!(record.what.difference(&record.what.wanted.clone()), None);
        record.what.capacity_bytes = 100;
        assert_eq!(
            record.what.difference(&record.what.wanted.clone()),
            None,
            "after an expansion"
        );
        let mut other = record.what.wanted.clone();
        (other.required_bytes, other.limit_bytes) = (50, 0);
        assert_eq!(record.what.difference(&other), None);
        other.limit_bytes = 60;
        assert!(
            record
                .what
                .difference(&other)
                .unwrap()
                .contains("100 bytes")
        );
        record.what.capacity_bytes = 0;
        other.limit_bytes = 0;
        let difference = record.what.difference(&other).unwrap();
        assert!(
            difference.starts_with("it has no size, asked"),
            "{difference}"
        );
        let mut other = record.what.wanted.clone();
        other.gid = None;
        assert!(record.what.difference(&other).unwrap().contains("gid"));
        let mut other = record.what.wanted.clone();
        other.mount_options = vec!["sec=hunter2".to_owned()];
        let difference = record.what.difference(&other).unwrap();
        assert!(difference.contains("mountOptions"), "{difference}");
        assert!(!difference.contains("hunter2"), "{difference}");
    }
}
