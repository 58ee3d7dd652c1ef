//! What requests say, checked: how a volume is to be used, and where. Pure.

use csi_proto::v1::volume_capability::AccessType;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{CapacityRange, VolumeCapability};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a request cannot be meant.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum RequestError {
    /// A required field is missing.
    #[error("{0} is missing")]
    Missing(&'static str),
    /// A field holds what nobody can do.
    #[error("{0}")]
    Invalid(String),
    /// The volume is larger than it may become.
    #[error("the volume has {has} bytes already, and limit_bytes is {limit}")]
    TooLarge {
        /// Its size.
        has: i64,
        /// The largest that it may have.
        limit: i64,
    },
}

fn invalid<T>(text: impl Into<String>) -> Result<T, RequestError> {
    Err(RequestError::Invalid(text.into()))
}

/// How long a name of Kubernetes can be, and little less than that of a file.
const NAME_MAX: usize = 253;

/// How a volume is used at a place: two calls that say the same ask for the same.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct How {
    /// The access mode, by its name in CSI.
    pub mode: String,
    /// The file system, where the request names one.
    pub fs_type: String,
    /// The group that is to have the files.
    pub group: String,
    /// Whether it is published for reading alone.
    pub readonly: bool,
}

impl How {
    /// How a capability says that a volume is to be used.
    ///
    /// # Errors
    /// When it is missing, incomplete, or nothing that FlexVolume has.
    pub fn of(capability: Option<&VolumeCapability>, readonly: bool) -> Result<Self, RequestError> {
        let capability = capability.ok_or(RequestError::Missing("volume_capability"))?;
        let Some(mode) = capability.access_mode.filter(|one| one.mode != 0) else {
            return Err(RequestError::Missing("volume_capability.access_mode"));
        };
        let mode = Mode::try_from(mode.mode).map_err(|_| {
            RequestError::Invalid(format!("access mode {} is not known", mode.mode))
        })?;
        let mount = match &capability.access_type {
            Some(AccessType::Mount(mount)) => mount,
            Some(AccessType::Block(_)) => {
                return invalid("access type block: FlexVolume has file systems alone");
            }
            None => return Err(RequestError::Missing("volume_capability.access_type")),
        };
        if !mount.mount_flags.is_empty() {
            return invalid(
                "mount_flags: FlexVolume has none; options of a driver stand in the volume's context",
            );
        }
        Ok(Self {
            mode: mode.as_str_name().to_owned(),
            fs_type: mount.fs_type.clone(),
            group: mount.volume_mount_group.clone(),
            readonly,
        })
    }

    /// Whether nothing is to be written.
    pub fn is_read_only(&self) -> bool {
        let is_reader = |mode: Mode| mode.as_str_name() == self.mode;
        self.readonly
            || is_reader(Mode::SingleNodeReaderOnly)
            || is_reader(Mode::MultiNodeReaderOnly)
    }

    /// Whether one node at a time may have the volume.
    pub fn is_of_one_node(&self) -> bool {
        self.mode.starts_with("SINGLE_NODE_")
    }

    /// Whether one path at a time may have the volume.
    pub fn is_of_one_path(&self) -> bool {
        self.mode == Mode::SingleNodeSingleWriter.as_str_name()
    }
}

/// The id of a volume or a node, as a name: most FlexVolume drivers are scripts, which make paths and command lines of it.
///
/// # Errors
/// When it is missing, or could be more than a name there.
pub fn name(id: &str, field: &'static str) -> Result<String, RequestError> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-._:@#~+=,".contains(letter);
    match id {
        "" => Err(RequestError::Missing(field)),
        _ if id.len() > NAME_MAX => invalid(format!("{field} has more than {NAME_MAX} characters")),
        _ if id.starts_with(['-', '.']) || !id.chars().all(is_plain) => invalid(format!(
            "{field} is no name: letters, digits and -._:@#~+=, and neither - nor . at its beginning"
        )),
        _ => Ok(id.to_owned()),
    }
}

/// The size that an expansion is to lead to, from one that is 0 where it is not known: what is required, or without that what is
/// allowed at most.
///
/// # Errors
/// When the range is none, or the volume is larger than it allows.
pub fn new_size(range: &CapacityRange, has: i64) -> Result<i64, RequestError> {
    let (required, limit) = (range.required_bytes, range.limit_bytes);
    if required < 0 || limit < 0 {
        return invalid("capacity_range has a negative size");
    }
    if limit > 0 && limit < required {
        return invalid("capacity_range: limit_bytes is less than required_bytes");
    }
    if limit > 0 && limit < has {
        return Err(RequestError::TooLarge { has, limit });
    }
    match (required, limit) {
        (0, 0) => Err(RequestError::Missing("capacity_range.required_bytes")),
        (0, limit) => Ok(limit),
        (required, _) => Ok(required),
    }
}

/// A path that is there and absolute.
pub fn path(path: &str, field: &'static str) -> Result<PathBuf, RequestError> {
    if path.is_empty() {
        return Err(RequestError::Missing(field));
    }
    let path = PathBuf::from(path);
    let is_text = !path.as_os_str().as_encoded_bytes().contains(&0);
    match is_text && path.is_absolute() && path != Path::new("/") {
        true => Ok(path),
        false => invalid(format!("{field} is no absolute path below /")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};

    fn capability(mode: i32, access: Option<AccessType>) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode { mode }),
            access_type: access,
        }
    }

    #[test]
    fn capabilities_are_taken_or_refused() {
        let mount = |flag: &str| {
            let flags = Some(flag.to_owned()).filter(|flag| !flag.is_empty());
            Some(AccessType::Mount(MountVolume {
                fs_type: "xfs".to_owned(),
                mount_flags: flags.into_iter().collect(),
                volume_mount_group: "7".to_owned(),
            }))
        };
        let (writer, block) = (1, Some(AccessType::Block(BlockVolume {})));
        let taken = How::of(Some(&capability(writer, mount(""))), true).unwrap();
        assert_eq!((taken.fs_type.as_str(), taken.group.as_str()), ("xfs", "7"));
        assert!(taken.is_read_only() && taken.is_of_one_node() && !taken.is_of_one_path());
        let single = How::of(Some(&capability(6, mount(""))), false).unwrap();
        assert!(single.is_of_one_path() && !single.is_read_only());
        let many = How::of(Some(&capability(5, mount(""))), false).unwrap();
        assert!(!many.is_of_one_node());
        for (one, expected) in [
            (None, "volume_capability is missing"),
            (
                Some(capability(0, mount(""))),
                "volume_capability.access_mode is missing",
            ),
            (
                Some(capability(writer, None)),
                "volume_capability.access_type is missing",
            ),
            (Some(capability(99, mount(""))), "access mode 99"),
            (Some(capability(writer, block)), "access type block"),
            (Some(capability(writer, mount("noatime"))), "mount_flags"),
        ] {
            let error = How::of(one.as_ref(), false).unwrap_err().to_string();
            assert!(error.starts_with(expected), "{error}");
        }
    }

    #[test]
    fn an_expansion_leads_to_what_is_required_or_else_to_what_is_allowed() {
        for (required, limit, has, expected) in [
            (4096, 0, 0, "4096"),
            (4096, 8192, 0, "4096"),
            (0, 8192, 0, "8192"),
            (0, 8192, 8192, "8192"),
            (
                0,
                8192,
                8193,
                "the volume has 8193 bytes already, and limit_bytes is 8192",
            ),
            (0, 0, 0, "capacity_range.required_bytes is missing"),
            (-1, 0, 0, "capacity_range has a negative size"),
            (0, -1, 0, "capacity_range has a negative size"),
            (
                2,
                1,
                0,
                "capacity_range: limit_bytes is less than required_bytes",
            ),
        ] {
            let range = CapacityRange {
                required_bytes: required,
                limit_bytes: limit,
            };
            let found = new_size(&range, has);
            let found = found.map_or_else(|error| error.to_string(), |size| size.to_string());
            assert_eq!(found, expected, "{required} {limit} {has}");
        }
    }

    #[test]
    fn names_and_paths() {
        assert_eq!(name("pvc-1.a:b", "volume_id").unwrap(), "pvc-1.a:b");
        for id in [
            "", "..", ".a", "-o", "a/b", "a b", "a\n", "a\0", "$(id)", "*", "\u{fc}",
        ] {
            assert!(name(id, "volume_id").is_err(), "{id}");
        }
        let long = |length: usize| name(&"x".repeat(length), "volume_id").is_ok();
        assert!(long(NAME_MAX) && !long(NAME_MAX + 1));
        assert_eq!(path("/a/b", "target_path").unwrap(), Path::new("/a/b"));
        for (given, expected) in [
            ("", "target_path is missing"),
            ("a", "target_path is no absolute path below /"),
            ("/", "target_path is no absolute path below /"),
            ("/\0", "target_path is no absolute path below /"),
        ] {
            let error = path(given, "target_path").unwrap_err();
            assert_eq!(error.to_string(), expected);
        }
    }
}
