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
    /// Raw block access.
    #[error("access type block: NFS volumes are folders, only access type mount is supported")]
    Block,
    /// Part of it is missing, not known, too long or not possible.
    #[error("{0}")]
    Other(String),
}

/// A checked capability: a mount with an access mode.
#[derive(Clone, Copy, Debug)]
pub struct MountAccess<'a> {
    /// The access mode, never UNKNOWN.
    pub mode: Mode,
    /// File system type, mount flags and mount group as given.
    pub mount: &'a MountVolume,
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
    let other = |problem: &str| CapabilityError::Other(problem.to_owned());
    let capability = capability.ok_or_else(|| other("volume_capability is missing"))?;
    let mount = match &capability.access_type {
        Some(AccessType::Mount(mount)) => mount,
        Some(AccessType::Block(_)) => return Err(CapabilityError::Block),
        None => {
            let problem = "the access type of a volume capability is missing: say mount";
            return Err(other(problem));
        }
    };
    let number = capability.access_mode.map_or(0, |mode| mode.mode);
    let mode = match Mode::try_from(number) {
        Ok(Mode::Unknown) => {
            return Err(other("the access mode of a volume capability is missing"));
        }
        Ok(mode) => mode,
        Err(_) => {
            let problem = format!("access mode {number} is not known to this driver");
            return Err(CapabilityError::Other(problem));
        }
    };
    check_lengths(capability)?;
    if !mount.volume_mount_group.is_empty() {
        return Err(CapabilityError::Other(format!(
            "volume_mount_group is {:?}: this driver does not change owners on a node; give the volume its group with the parameter gid",
            mount.volume_mount_group
        )));
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
    let group = mount.volume_mount_group.len();
    let texts = [
        ("fs_type", mount.fs_type.len(), MAX_STRING),
        ("volume_mount_group", group, MAX_STRING),
        ("mount_flags", flags, MAX_MAP),
    ];
    match texts.iter().find(|(_, length, limit)| length > limit) {
        None => Ok(()),
        Some((field, length, limit)) => Err(CapabilityError::Other(format!(
            "{field} of a volume capability has {length} bytes, at most {limit} are allowed"
        ))),
    }
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
            assert_eq!(is_reader_only(access.mode), mode == 2 || mode == 3);
        }
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        let mount = || Some(AccessType::Mount(MountVolume::default()));
        let block = Some(AccessType::Block(BlockVolume {}));
        assert_eq!(check_all(&[]).unwrap_err(), CapabilityError::NoneGiven);
        let says = |one: Option<&VolumeCapability>, words: &str| {
            let error = check(one).unwrap_err().to_string();
            assert!(error.contains(words), "{error}");
        };
        says(None, "volume_capability is missing");
        for (one, words) in [
            (capability(1, block), "access type block"),
            (
                capability(1, None),
                "access type of a volume capability is missing",
            ),
            (
                capability(0, mount()),
                "access mode of a volume capability is missing",
            ),
            (capability(42, mount()), "access mode 42"),
        ] {
            says(Some(&one), words);
        }
        let group = MountVolume {
            volume_mount_group: "1000".to_owned(),
            ..Default::default()
        };
        let one = capability(1, Some(AccessType::Mount(group)));
        says(Some(&one), "volume_mount_group is \"1000\"");
        let long = MountVolume {
            mount_flags: vec!["x".repeat(4097)],
            ..Default::default()
        };
        let one = capability(1, Some(AccessType::Mount(long)));
        says(
            Some(&one),
            "mount_flags of a volume capability has 4097 bytes",
        );
    }
}
