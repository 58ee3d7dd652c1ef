//! The syntax of ids: `<share>#<share's UUID>.<name key>.<nonce>` for a volume, the same with `@` instead of `#` for a
//! snapshot, at most 128 bytes, where the share is a name or `server/path`. Must not do I/O.

use crate::calls::limits::MAX_STRING;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::token::{NameKey, Nonce, ShareUuid};
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// How an id says where its share is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Location {
    /// By server and path.
    Export(Export),
    /// By the name that `--share NAME=SERVER:/PATH` gives it.
    Named(String),
}

/// The id of one volume or snapshot, with this mark before the tokens: enough to find its share, to know the share again, and to
/// find the record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id<const MARK: char> {
    /// Where the share is.
    pub location: Location,
    /// Which share it is.
    pub uuid: ShareUuid,
    /// Where the record is kept.
    pub key: NameKey,
    /// Which of those that had this name.
    pub nonce: Nonce,
}

pub(crate) const VOLUME: char = '#';
pub(crate) const SNAPSHOT: char = '@';

/// The id of one volume.
pub type VolumeId = Id<VOLUME>;
/// The id of one snapshot.
pub type SnapshotId = Id<SNAPSHOT>;

/// Text that is no such id of this driver.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("the {} id {text:?} is not one of this driver's: they are SHARE{mark}UUID.KEY.NONCE",
    if *mark == VOLUME { "volume" } else { "snapshot" })]
pub struct ForeignId {
    text: String,
    mark: char,
}

/// A name or an address for which ids would be too long.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error(
    "volume ids of {location} would have {length} bytes, the specification allows {MAX_STRING}: start the driver with --share NAME={location} and a short NAME, and ids bear the name"
)]
pub struct IdTooLong {
    location: String,
    length: usize,
}

/// The longest name of a share in bytes.
pub const MAX_NAME: usize = 63;

/// Whether `name` can be the NAME of `--share`: letters, digits, `.`, `_` and `-`, a letter or digit first.
pub fn is_share_name(name: &str) -> bool {
    name.len() <= MAX_NAME
        && name.starts_with(|first: char| first.is_ascii_alphanumeric())
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

impl Location {
    /// Refuses a location that cannot be in an id.
    ///
    /// # Errors
    /// When ids with it would be too long.
    pub fn check_length(&self) -> Result<(), IdTooLong> {
        let location = self.to_string();
        let length = location.len() + ShareUuid::LENGTH + NameKey::LENGTH + Nonce::LENGTH + 3;
        if length > MAX_STRING {
            return Err(IdTooLong { location, length });
        }
        Ok(())
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // No colon between the two: csc and its like split `ID:PATH` at colons.
            Self::Export(export) if export.server().contains(':') => {
                write!(f, "[{}]{}", export.server(), export.path())
            }
            Self::Export(export) => write!(f, "{}{}", export.server(), export.path()),
            Self::Named(name) => f.write_str(name),
        }
    }
}

impl FromStr for Location {
    type Err = ();

    /// Strict: one share has one spelling.
    fn from_str(text: &str) -> Result<Self, ()> {
        if is_share_name(text) {
            return Ok(Self::Named(text.to_owned()));
        }
        let (server, path) = text.split_once('/').ok_or(())?;
        let export = Export::parse(server, &format!("/{path}")).map_err(|_| ())?;
        let location = Self::Export(export);
        (location.to_string() == text).then_some(location).ok_or(())
    }
}

impl<const MARK: char> fmt::Display for Id<MARK> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            location,
            uuid,
            key,
            nonce,
        } = self;
        write!(f, "{location}{MARK}{uuid}.{key}.{nonce}")
    }
}

impl<const MARK: char> FromStr for Id<MARK> {
    type Err = ForeignId;

    fn from_str(text: &str) -> Result<Self, ForeignId> {
        parse(text).ok_or_else(|| ForeignId {
            text: text.chars().take(MAX_STRING).collect(),
            mark: MARK,
        })
    }
}

fn parse<const MARK: char>(text: &str) -> Option<Id<MARK>> {
    if text.len() > MAX_STRING {
        return None;
    }
    // A path may hold the mark, the tokens cannot.
    let (location, tokens) = text.rsplit_once(MARK)?;
    let mut tokens = tokens.split('.');
    let id = Id {
        location: location.parse().ok()?,
        uuid: tokens.next()?.parse().ok()?,
        key: tokens.next()?.parse().ok()?,
        nonce: tokens.next()?.parse().ok()?,
    };
    tokens.next().is_none().then_some(id)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::corpus;
    use proptest::prelude::*;

    fn id(location: Location) -> VolumeId {
        VolumeId {
            location,
            uuid: ShareUuid::random().unwrap(),
            key: NameKey::of("v"),
            nonce: Nonce::random().unwrap(),
        }
    }

    pub(crate) fn some_id() -> VolumeId {
        id(Location::Named("home".to_owned()))
    }

    #[test]
    fn ids_are_read_back() {
        for (server, path) in [
            ("10.0.0.4", "/nfs_share"),
            ("fs-0123456789abcdef0.efs.us-east-1.amazonaws.com", "/"),
            ("fe80::1%eth0", "/a#b/c d"),
        ] {
            let id = id(Location::Export(Export::parse(server, path).unwrap()));
            let text = id.to_string();
            assert!(text.len() <= 128, "{text}");
            assert_eq!(text.parse::<VolumeId>().unwrap(), id, "{text}");
        }
        let id = id(Location::Named("a.b-C_1".to_owned()));
        assert_eq!(id.to_string().parse::<VolumeId>().unwrap(), id);
    }

    #[test]
    fn formats_of_ids_are_as_in_the_newest_version_and_all_are_read() {
        let export = |server, path| Location::Export(Export::parse(server, path).unwrap());
        let id = |location: &Location| VolumeId {
            location: location.clone(),
            uuid: "0123456789abcdefghijklmno0".parse().unwrap(),
            key: NameKey::of("v"),
            nonce: "n7vpngkb6itntiqn".parse().unwrap(),
        };
        let locations = [
            Location::Named("a.b-C_1".to_owned()),
            export("10.0.0.4", "/srv"),
            export("fe80::1%eth0", "/a#b/c d"),
        ];
        let volumes = Vec::from_iter(locations.iter().map(id));
        let snapshots = Vec::from_iter(volumes.iter().cloned().map(|id| SnapshotId {
            location: id.location,
            uuid: id.uuid,
            key: id.key,
            nonce: id.nonce,
        }));
        let volumes_text: String = volumes.iter().map(|id| format!("{id}\n")).collect();
        let snapshots_text: String = snapshots.iter().map(|id| format!("{id}\n")).collect();
        corpus::holds(
            "ids",
            [
                ("volumes", volumes_text.into_bytes()),
                ("snapshots", snapshots_text.into_bytes()),
            ],
        );
        for (version, folder) in corpus::versions("ids") {
            let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
            let found: Vec<VolumeId> = read("volumes").lines().flat_map(str::parse).collect();
            assert_eq!(found, volumes, "{version}");
            let found: Vec<SnapshotId> = read("snapshots").lines().flat_map(str::parse).collect();
            assert_eq!(found, snapshots, "{version}");
        }
    }

    #[test]
    fn a_snapshot_is_no_volume() {
        for (server, path) in [("s", "/a@b"), ("s", "/a#b"), ("fe80::1", "/@#")] {
            let volume = id(Location::Export(Export::parse(server, path).unwrap()));
            let text = volume.to_string();
            assert!(text.parse::<SnapshotId>().is_err(), "{text}");
            let snapshot = SnapshotId {
                location: volume.location,
                uuid: volume.uuid,
                key: volume.key,
                nonce: volume.nonce,
            };
            let text = snapshot.to_string();
            assert_eq!(text.parse::<SnapshotId>().unwrap(), snapshot, "{text}");
            assert!(text.parse::<VolumeId>().is_err(), "{text}");
        }
    }

    #[test]
    fn ids_of_others_are_refused() {
        let own = id(Location::Named("n".to_owned())).to_string();
        for text in [
            "",
            "vol-1",
            "10.0.0.4#share#sub#uuid#delete",
            "10.0.0.4/share/sub",
            &own[1..],
            &own[..own.len() - 1],
            &format!("{own}x"),
            &format!("{own}.x"),
            &own.to_uppercase(),
            &own.replacen('n', "s/a/", 1),
            &own.replacen('n', "s/../etc", 1),
            &own.replacen('n', "s:/a", 1),
            &own.replacen('n', "-n", 1),
        ] {
            assert!(text.parse::<VolumeId>().is_err(), "{text}");
        }
    }

    #[test]
    fn too_long_a_path_names_the_way_out() {
        let export = Export::parse("server.example.org", &format!("/{}", "x".repeat(60))).unwrap();
        let error = Location::Export(export).check_length().unwrap_err();
        assert!(error.to_string().contains("--share NAME="), "{error}");
        assert!(Location::Named("x".repeat(63)).check_length().is_ok());
    }

    proptest! {
        #[test]
        fn near_ids_have_one_spelling(location in "[a-z:/#.\\[\\]%]{1,20}", tail in "[0-9a-v]{26}\\.[0-9a-v]{16}\\.[0-9a-v]{16}") {
            let text = format!("{location}#{tail}");
            if let Ok(id) = text.parse::<VolumeId>() {
                prop_assert_eq!(id.to_string(), text);
            }
        }
    }
}
