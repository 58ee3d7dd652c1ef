//! Checks that a VolumeCapability is one that this driver has, for the controller and the node alike. Must not mount or look at a share.

use crate::calls::limits::{MAX_MAP, MAX_STRING};
use csi_proto::v1::VolumeCapability;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessType, MountVolume};
use thiserror::Error;

/// A capability that this driver cannot satisfy. All of them are INVALID_ARGUMENT.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum CapabilityError {
    /// None was given.
    #[error("volume_capabilities is missing: give at least one")]
    NoneGiven,
    /// The one capability of a call was not given.
    #[error("volume_capability is missing")]
    Missing,
    /// Raw block access.
    #[error("access type block: NFS volumes are folders, only access type mount is supported")]
    Block,
    /// Neither mount nor block.
    #[error("the access type of a volume capability is missing: say mount")]
    NoAccessType,
    /// No access mode.
    #[error("the access mode of a volume capability is missing")]
    NoAccessMode,
    /// A mode that this driver does not know.
    #[error("access mode {0} is not known to this driver")]
    UnknownMode(i32),
    /// A group that the volume's files are to have on the node.
    #[error(
        "volume_mount_group is {0:?}: this driver does not change owners on a node; give the volume its group with the parameter gid"
    )]
    MountGroup(String),
    /// Part of it is longer than the specification allows.
    #[error("{field} of a volume capability has {length} bytes, at most {limit} are allowed")]
    TooLong {
        /// Which field.
        field: &'static str,
        /// Its length.
        length: usize,
        /// The longest allowed.
        limit: usize,
    },
}

/// A checked capability: a mount with an access mode.
#[derive(Clone, Copy, Debug)]
pub struct MountAccess<'a> {
    /// The access mode, never UNKNOWN.
    pub mode: Mode,
    /// File system type, mount flags and mount group as given.
    pub mount: &'a MountVolume,
}

impl MountAccess<'_> {
    /// Whether the mode allows reading only.
    pub fn is_reader_only(&self) -> bool {
        is_reader_only(self.mode)
    }
}

/// Whether `mode` allows reading only.
pub fn is_reader_only(mode: Mode) -> bool {
    matches!(mode, Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)
}

/// Checks the one capability of a call.
///
/// # Errors
/// When it is missing or cannot be satisfied.
pub fn check(capability: Option<&VolumeCapability>) -> Result<MountAccess<'_>, CapabilityError> {
    let capability = capability.ok_or(CapabilityError::Missing)?;
    let mount = match &capability.access_type {
        Some(AccessType::Mount(mount)) => mount,
        Some(AccessType::Block(_)) => return Err(CapabilityError::Block),
        None => return Err(CapabilityError::NoAccessType),
    };
    let number = capability
        .access_mode
        .as_ref()
        .ok_or(CapabilityError::NoAccessMode)?
        .mode;
    let mode = match Mode::try_from(number) {
        Ok(Mode::Unknown) => return Err(CapabilityError::NoAccessMode),
        Ok(mode) => mode,
        Err(_) => return Err(CapabilityError::UnknownMode(number)),
    };
    check_lengths(capability)?;
    if !mount.volume_mount_group.is_empty() {
        return Err(CapabilityError::MountGroup(
            mount.volume_mount_group.clone(),
        ));
    }
    Ok(MountAccess { mode, mount })
}

/// Checks the texts of a capability, whether or not it can be satisfied.
///
/// # Errors
/// When one is longer than the specification allows.
pub fn check_lengths(capability: &VolumeCapability) -> Result<(), CapabilityError> {
    let Some(AccessType::Mount(mount)) = &capability.access_type else {
        return Ok(());
    };
    let flags = mount.mount_flags.iter().map(String::len).sum();
    for (field, length, limit) in [
        ("fs_type", mount.fs_type.len(), MAX_STRING),
        (
            "volume_mount_group",
            mount.volume_mount_group.len(),
            MAX_STRING,
        ),
        ("mount_flags", flags, MAX_MAP),
    ] {
        if length > limit {
            return Err(CapabilityError::TooLong {
                field,
                length,
                limit,
            });
        }
    }
    Ok(())
}

/// Checks a call's list of capabilities.
///
/// # Errors
/// When it is empty or one of them cannot be satisfied.
pub fn check_all(
    capabilities: &[VolumeCapability],
) -> Result<Vec<MountAccess<'_>>, CapabilityError> {
    if capabilities.is_empty() {
        return Err(CapabilityError::NoneGiven);
    }
    capabilities.iter().map(|one| check(Some(one))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::v1::volume_capability::{AccessMode, BlockVolume};

    fn capability(mode: i32, access_type: Option<AccessType>) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode { mode }),
            access_type,
        }
    }

    #[test]
    fn mounts_in_every_known_mode_pass() {
        for mode in 1..=7 {
            let one = capability(mode, Some(AccessType::Mount(MountVolume::default())));
            let access = check(Some(&one)).unwrap();
            assert_eq!(access.is_reader_only(), mode == 2 || mode == 3);
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let mount = || Some(AccessType::Mount(MountVolume::default()));
        let block = Some(AccessType::Block(BlockVolume {}));
        assert_eq!(check_all(&[]).unwrap_err(), CapabilityError::NoneGiven);
        assert_eq!(check(None).unwrap_err(), CapabilityError::Missing);
        for (one, error) in [
            (capability(1, block), CapabilityError::Block),
            (capability(1, None), CapabilityError::NoAccessType),
            (capability(0, mount()), CapabilityError::NoAccessMode),
            (capability(42, mount()), CapabilityError::UnknownMode(42)),
        ] {
            assert_eq!(check(Some(&one)).unwrap_err(), error);
        }
        let group = MountVolume {
            volume_mount_group: "1000".to_owned(),
            ..Default::default()
        };
        let one = capability(1, Some(AccessType::Mount(group)));
        assert_eq!(
            check(Some(&one)).unwrap_err(),
            CapabilityError::MountGroup("1000".to_owned())
        );
        let long = MountVolume {
            mount_flags: vec!["x".repeat(4097)],
            ..Default::default()
        };
        let one = capability(1, Some(AccessType::Mount(long)));
        assert!(matches!(
            check(Some(&one)),
            Err(CapabilityError::TooLong { .. })
        ));
    }
}
