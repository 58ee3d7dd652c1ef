//! Parses the ids of kubernetes-csi's driver: `server#share#subDir#uuid#onDelete` for a volume, older ones
//! `server/share/subDir`, and `server#share#name#name#source` for a snapshot. Owns their syntax, which is read strictly, since nothing in them is
//! escaped and a path out of them decides what is deleted. Must not do I/O.

use crate::calls::volume_id::{SnapshotId, VolumeId};
use csi_nfs_store::export::Export;
use csi_nfs_store::share::archives::ENDINGS;
use csi_nfs_store::share::paths::sub_path::{RECORDS_FOLDER, SubPath, SubPathError};
use csi_nfs_store::share::records::origin::Origin;
use csi_nfs_store::share::records::volume::OnDelete;
use thiserror::Error;

/// The name under which kubernetes-csi's driver is registered, and which a driver in its place has too.
pub const DRIVER_NAME: &str = "nfs.csi.k8s.io";

/// The longest id in bytes. That driver keeps to no limit, so its ids may have more than the 128 bytes of the specification.
pub const MAX_LENGTH: usize = csi_nfs_store::share::records::origin::MAX_UPSTREAM_ID;

const SEPARATOR: char = '#';

/// A volume that kubernetes-csi's driver has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamVolumeId {
    /// The id as it was given.
    pub text: String,
    /// The share.
    pub export: Export,
    /// The volume's folder.
    pub path: SubPath,
    /// What becomes of the folder; nothing when the id does not say.
    pub on_delete: Option<OnDelete>,
}

/// A snapshot that kubernetes-csi's driver has made: a folder on the share, and in it an archive named after its source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UpstreamSnapshotId {
    /// The id as it was given.
    pub text: String,
    /// The share.
    pub export: Export,
    /// The snapshot's folder, a child of the share's root.
    pub folder: SubPath,
    /// The name of the volume that was archived.
    pub source: String,
    /// The archive, without `.tar.gz` or `.tar` after it.
    pub archive: SubPath,
}

/// Text that is no id of kubernetes-csi's driver, or one that this driver does not follow: INVALID_ARGUMENT, but for the
/// first.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum UpstreamIdError {
    /// This driver has the name of that one, but was not told to serve its volumes: FAILED_PRECONDITION.
    #[error(
        "{0:?} is an id of kubernetes-csi's driver, whose name this driver has, and whose volumes and snapshots it does not serve: start it with --migrate-from csi-driver-nfs"
    )]
    NotServed(String),
    /// It has more or fewer parts than such an id has.
    #[error(
        "the id {0:?} is neither this driver's nor one of kubernetes-csi's driver, which are {1}, without '#' in a part"
    )]
    Form(String, &'static str),
    /// It is longer than any such id.
    #[error(
        "an id of kubernetes-csi's driver has at most {MAX_LENGTH} bytes here, this one has {0}"
    )]
    TooLong(usize),
    /// A part of it is not safe, or not what such an id has.
    #[error("the id {0:?} of kubernetes-csi's driver cannot be used: {1}")]
    Part(String, String),
}

const OF_VOLUMES: &str =
    "SERVER#SHARE#SUBDIR, with #UUID and #ONDELETE after it or not, or SERVER/SHARE/SUBDIR";
const OF_SNAPSHOTS: &str = "SERVER#SHARE#NAME#NAME#SOURCE";

/// What this driver makes of ids of kubernetes-csi's driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UpstreamIds {
    /// They are as any text that is no id of its own.
    #[default]
    Unknown,
    /// It has the name of that driver, and refuses them: nobody else would know them.
    Refused,
    /// It serves what they name.
    Served,
}

impl UpstreamIds {
    /// The volume of kubernetes-csi's driver that `id` means; nothing when `id` is none of its ids, good or bad: it finds no
    /// server in any without these characters.
    pub fn volume(self, id: &str) -> Result<Option<UpstreamVolumeId>, UpstreamIdError> {
        let is_one = id.contains([SEPARATOR, '/']) && id.parse::<VolumeId>().is_err();
        match is_one && self.serves(id)? {
            true => UpstreamVolumeId::parse(id).map(Some),
            false => Ok(None),
        }
    }

    /// As [`UpstreamIds::volume`], for a snapshot.
    pub fn snapshot(self, id: &str) -> Result<Option<UpstreamSnapshotId>, UpstreamIdError> {
        let is_one = id.contains(SEPARATOR) && id.parse::<SnapshotId>().is_err();
        match is_one && self.serves(id)? {
            true => UpstreamSnapshotId::parse(id).map(Some),
            false => Ok(None),
        }
    }

    fn serves(self, id: &str) -> Result<bool, UpstreamIdError> {
        match self {
            Self::Unknown => Ok(false),
            Self::Refused => Err(UpstreamIdError::NotServed(id.chars().take(256).collect())),
            Self::Served => Ok(true),
        }
    }
}

impl UpstreamVolumeId {
    /// What a copy of the volume is made of.
    pub(crate) fn origin(&self) -> Origin {
        Origin::upstream(&self.text, self.path.clone())
    }

    /// Reads an id.
    ///
    /// # Errors
    /// When it has another form, or a part that could lead out of the share.
    pub fn parse(text: &str) -> Result<Self, UpstreamIdError> {
        check_length(text)?;
        let form = || UpstreamIdError::Form(text.to_owned(), OF_VOLUMES);
        let part = |why| UpstreamIdError::Part(text.to_owned(), why);
        let mut parts = text.split(SEPARATOR);
        let first = parts.next().unwrap_or_default();
        let (server, share, sub_dir) = match (parts.next(), parts.next()) {
            // The older form: the folder is the last component, the server the first.
            (None, _) => {
                let (server, rest) = first.split_once('/').ok_or_else(form)?;
                let (share, sub_dir) = rest.rsplit_once('/').ok_or_else(form)?;
                (server, share, sub_dir)
            }
            (Some(share), Some(sub_dir)) => (first, share, sub_dir),
            (Some(_), None) => return Err(form()),
        };
        let name = parts.next().unwrap_or_default();
        let policy = parts.next().unwrap_or_default();
        if parts.next().is_some() {
            return Err(form());
        }
        let export = export(server, share).map_err(part)?;
        let path = folder(sub_dir).map_err(part)?;
        if !name.is_empty() {
            component(name).map_err(part)?;
        }
        let on_delete = OnDelete::parse(policy);
        if on_delete.is_none() && !policy.is_empty() {
            return Err(part(format!(
                "it ends in {policy:?}, not in delete, retain or archive"
            )));
        }
        Ok(Self {
            text: text.to_owned(),
            export,
            path,
            on_delete,
        })
    }
}

impl UpstreamSnapshotId {
    /// Reads an id.
    ///
    /// # Errors
    /// As for [`UpstreamVolumeId::parse`].
    pub fn parse(text: &str) -> Result<Self, UpstreamIdError> {
        check_length(text)?;
        let part = |why| UpstreamIdError::Part(text.to_owned(), why);
        let parts: Vec<&str> = text.split(SEPARATOR).collect();
        let (server, share, name, source) = match parts[..] {
            [server, share, name, again, source] if name == again => (server, share, name, source),
            _ => return Err(UpstreamIdError::Form(text.to_owned(), OF_SNAPSHOTS)),
        };
        let export = export(server, share).map_err(part)?;
        component(source).map_err(part)?;
        let folder = component(name).map_err(part)?;
        let archive = SubPath::parse(&format!("{folder}/{source}"));
        let archive = archive.map_err(|error| part(error.to_string()))?;
        Ok(Self {
            text: text.to_owned(),
            export,
            folder,
            source: source.to_owned(),
            archive,
        })
    }

    /// The names that the archive may have in its folder, the likelier one first.
    pub fn archives(&self) -> [String; 2] {
        ENDINGS.map(|kind| format!("{}.{kind}", self.source))
    }
}

fn check_length(text: &str) -> Result<(), UpstreamIdError> {
    match text.len() {
        length if length > MAX_LENGTH => Err(UpstreamIdError::TooLong(length)),
        _ => Ok(()),
    }
}

fn export(server: &str, share: &str) -> Result<Export, String> {
    let odd = |part: &str| matches!(part, "" | "." | "..");
    // Without slashes at its ends, so the root of a server's exports is nothing at all.
    if !share.is_empty() && share.split('/').any(odd) {
        return Err("its share has an empty component, '.' or '..'".to_owned());
    }
    let export = Export::parse(server, &format!("/{share}")).map_err(|error| error.to_string())?;
    match export.is_private() {
        true => Err(format!(
            "its share is in the driver's own folder {RECORDS_FOLDER}"
        )),
        false => Ok(export),
    }
}

/// A template that was never filled in, so that several volumes may share the folder.
const TEMPLATE: &str = "its folder is a template that was never filled in";

fn folder(text: &str) -> Result<SubPath, String> {
    let path = SubPath::parse(text).map_err(|error| error.to_string())?;
    if path.to_string() != text {
        return Err(SubPathError::Empty(text.chars().take(128).collect()).to_string());
    }
    match text.contains("${") {
        true => Err(TEMPLATE.to_owned()),
        false => Ok(path),
    }
}

/// One component, which is a name.
fn component(text: &str) -> Result<SubPath, String> {
    // The archive's name has an ending.
    match SubPath::parse(text) {
        Ok(_) if text.contains("${") => Err(TEMPLATE.to_owned()),
        Ok(path) if path.components().len() == 1 && path.leaf() == text && text.len() <= 240 => {
            Ok(path)
        }
        _ => Err(format!("{text:?} in it is not the name of a volume")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn volume(text: &str) -> Result<(String, String, Option<OnDelete>), UpstreamIdError> {
        UpstreamVolumeId::parse(text)
            .map(|id| (id.export.to_string(), id.path.to_string(), id.on_delete))
    }

    #[test]
    fn every_form_that_was_ever_given_out_is_read() {
        let read = |text: &str| volume(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let is = |export: &str, path: &str, policy| (export.to_owned(), path.to_owned(), policy);
        assert_eq!(read("nas#srv#pvc-1##"), is("nas:/srv", "pvc-1", None));
        assert_eq!(read("nas#srv#pvc-1#"), is("nas:/srv", "pvc-1", None));
        assert_eq!(read("nas#srv#pvc-1"), is("nas:/srv", "pvc-1", None));
        // The root of a server.
        assert_eq!(read("nas##pvc-1##"), is("nas:/", "pvc-1", None));
        assert_eq!(
            read("nas#srv/k8s#team/data#pvc-1#retain"),
            is("nas:/srv/k8s", "team/data", Some(OnDelete::Retain))
        );
        assert_eq!(
            read("nas#srv#pvc-1##Archive"),
            is("nas:/srv", "pvc-1", Some(OnDelete::Archive))
        );
        assert_eq!(read("fe80::1#srv#v##"), is("[fe80::1]:/srv", "v", None));
        assert_eq!(read("[fe80::1]#srv#v##"), is("[fe80::1]:/srv", "v", None));
        assert_eq!(read("nas/srv/pvc-1"), is("nas:/srv", "pvc-1", None));
        assert_eq!(read("nas/srv/k8s/pvc-1"), is("nas:/srv/k8s", "pvc-1", None));
        assert_eq!(read("nas//pvc-1"), is("nas:/", "pvc-1", None));
        let long = format!(
            "{}#srv#{}#{}#retain",
            "n".repeat(60),
            "d".repeat(60),
            "u".repeat(60)
        );
        assert!(volume(&long).is_ok(), "its ids keep to no limit");
    }

    #[test]
    fn what_could_leave_its_place_is_refused() {
        for text in [
            // CVE-2026-3864, and what is like it.
            "nas#srv#../../etc#pvc-1#",
            "nas#srv#a/../../b##",
            "nas#srv#..##",
            "nas#../etc#v##",
            "nas#srv/../../etc#v##",
            "nas#srv#v#../x#",
            "nas#srv#v#a/b#",
            "nas/srv/../pvc-1",
            "nas/../pvc-1",
            "nas/srv/..",
            // The share itself.
            "nas#srv###",
            "nas#srv#/##",
            "nas#srv#.##",
            "nas/srv/",
            // Nothing between two slashes, or at an end.
            "nas#srv#a//b##",
            "nas#srv#/a##",
            "nas#srv#a/##",
            "nas#/srv#a##",
            "nas#s//rv#a##",
            "nas#s/./rv#a##",
            // The driver's own folder.
            "nas#srv#.csi-nfs##",
            "nas#srv#.csi-nfs/volumes##",
            "nas#srv#a/.CSI-NFS##",
            "nas#.csi-nfs#v##",
            "nas#srv/.CSI-nfs/volumes#v##",
            "nas/srv/.csi-nfs/v",
            // Characters that are in no name.
            "nas#srv#a\0b##",
            "nas#srv#a\nb##",
            "nas#s\nrv#a##",
            "n as#srv#a##",
            "#srv#a##",
            "/srv/a",
            // Templates that nobody filled in.
            "nas#srv#${pvc.metadata.name}##",
            "nas#srv#v#${pv.metadata.name}#",
            // A '#' in a name: which one it is cannot be told.
            "nas#srv#a#b#retain#c",
            "nas#srv",
            "nas#srv/a",
            "nas#srv#v##destroy",
            "vol-1",
            "",
        ] {
            assert!(UpstreamVolumeId::parse(text).is_err(), "{text:?}");
        }
        let long = format!("nas#srv#v#{}#", "x".repeat(1 << 20));
        let error = UpstreamVolumeId::parse(&long).unwrap_err().to_string();
        assert!(error.len() < 200, "{}", error.len());
    }

    #[test]
    fn snapshots_have_five_parts_and_two_are_equal() {
        let id = UpstreamSnapshotId::parse("nas#srv#snapshot-1#snapshot-1#pvc-1").unwrap();
        assert_eq!(id.export.to_string(), "nas:/srv");
        assert_eq!(id.folder.to_string(), "snapshot-1");
        assert_eq!(id.archives(), ["pvc-1.tar.gz", "pvc-1.tar"]);
        for text in [
            "nas#srv#s#s",
            "nas#srv#s#t#v",
            "nas#srv#s#s#v#",
            "nas#srv#..#..#v",
            "nas#srv#.#.#v",
            "nas#srv#a/b#a/b#v",
            "nas#srv#s#s#../v",
            "nas#srv#s#s#a/b",
            "nas#srv#s#s#",
            "nas#srv###v",
            "nas#srv#.csi-nfs#.csi-nfs#v",
            "nas#srv/.csi-nfs#s#s#v",
            "nas#srv#s#s#v\0",
            "nas#../srv#s#s#v",
            "#srv#s#s#v",
            "nas/srv/s",
        ] {
            assert!(UpstreamSnapshotId::parse(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn what_upstream_writes_is_read_back(
            share in "[a-z]{1,9}(/[a-z]{1,9}){0,3}",
            path in "[a-z]{1,9}(/[a-z]{1,9}){0,3}",
            name in "(pvc-[0-9a-f]{8})?",
            policy in "(|retain|archive)",
        ) {
            let text = format!("nas#{share}#{path}#{name}#{policy}");
            let id = UpstreamVolumeId::parse(&text).unwrap();
            let on_delete = id.on_delete.map(|policy| policy.to_string()).unwrap_or_default();
            let (export, path) = (id.export.path().trim_start_matches('/').to_owned(), id.path);
            prop_assert_eq!(format!("nas#{export}#{path}#{name}#{on_delete}"), text);
        }
    }
}
