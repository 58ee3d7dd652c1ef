//! Whether a folder is a project of its own whose limits are enforced, as it is on the disk now, and what it lacks. Decides alone:
//! must neither look nor mend.

use crate::quota::amounts::is_beyond;
use crate::quota::error::amount;
use csi_sys::project_quota::Amounts;
use thiserror::Error;

/// A full volume may take so many bytes more than its limit, and what this part of the limit is, though all is as it should be.
///
/// ext4 counts what is written when it is in memory, and refuses what is beyond the limit. The blocks that describe where it lies it
/// counts when it writes it out, and never refuses those: 12 bytes for 4 KiB where each block lies by itself, and at least a block
/// for each file that is in five parts or more. Measured: 4 KiB more after a large file was refused.
const TOLERATED: u64 = 1 << 20;
const TOLERATED_PART: u64 = 256;

/// A folder that is to have limits, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folder {
    /// Its project; 0 is none.
    pub project: u32,
    /// Whether what is made in it gets its project.
    pub is_inherited: bool,
    /// Whether the ledger has the project for somebody else.
    pub is_of_others: bool,
    /// Whether the folder of another volume has the same one.
    pub is_shared: bool,
    /// The limits of the project.
    pub limits: Amounts,
    /// What is in the project.
    pub used: Amounts,
}

/// Why the limits of a folder are not enforced.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub enum Lack {
    /// There is none.
    #[error("it has no folder")]
    NoFolder,
    /// It is in no project, as what `cp -a` or tar has made.
    #[error("its folder is in no project")]
    NoProject,
    /// It is in somebody else's project.
    #[error("its folder is in project {0}, which is somebody else's")]
    OfOthers(u32),
    /// Several volumes are one project.
    #[error("another volume is project {0}, too")]
    Shared(u32),
    /// The record names another project, or none: not all in the folder is known to be in this one.
    #[error("its folder is in project {0}, and not all in the folder is known to be")]
    NotAllOfIt(u32),
    /// What is made in it is in no project.
    #[error("its folder is in project {0}, and what is made in the folder is in none")]
    NotInherited(u32),
    /// It has other limits.
    #[error("its limits are {}, and were to be {}", amount(*.found), amount(*.wanted))]
    OtherLimits {
        /// Those that it has.
        found: Amounts,
        /// Those that it is to have.
        wanted: Amounts,
    },
    /// It takes more than a full volume does.
    #[error(
        "it takes {}, more than the {} of its limits; nothing more fits: remove something in it, or expand it",
        amount(*.used),
        amount(*.limits)
    )]
    Beyond {
        /// What it takes.
        used: Amounts,
        /// Its limits.
        limits: Amounts,
    },
}

impl Lack {
    /// Whether it is mended by putting the folder, and all that is in it, into a project of its own.
    pub fn is_mended_by_a_project(self) -> bool {
        matches!(
            self,
            Self::NoProject | Self::NotAllOfIt(_) | Self::NotInherited(_)
        )
    }
}

/// What `folder` lacks that is to have the limits `wanted`, in the project that is `on_record`.
pub fn lack(folder: Option<Folder>, on_record: Option<u32>, wanted: Amounts) -> Option<Lack> {
    let Some(folder) = folder else {
        return Some(Lack::NoFolder);
    };
    let Folder {
        project,
        limits,
        used,
        ..
    } = folder;
    let mut tolerated = limits;
    if limits.bytes > 0 {
        let more = TOLERATED + limits.bytes / TOLERATED_PART;
        tolerated.bytes = limits.bytes.saturating_add(more);
    }
    let found = match project {
        0 => Lack::NoProject,
        _ if folder.is_of_others => Lack::OfOthers(project),
        _ if folder.is_shared => Lack::Shared(project),
        _ if on_record != Some(project) => Lack::NotAllOfIt(project),
        _ if !folder.is_inherited => Lack::NotInherited(project),
        _ if limits != wanted => Lack::OtherLimits {
            found: limits,
            wanted,
        },
        _ if is_beyond(used, tolerated) => Lack::Beyond { used, limits },
        _ => return None,
    };
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_folder_lacks_to_be_held_to_its_limits() {
        let bytes = |bytes| Amounts { bytes, inodes: 9 };
        const SIZE: u64 = 1 << 30;
        // 4 MiB are a part of 256.
        const MOST: u64 = SIZE + (5 << 20);
        let wanted = bytes(SIZE);
        let good = Folder {
            project: 7,
            is_inherited: true,
            is_of_others: false,
            is_shared: false,
            limits: wanted,
            used: bytes(SIZE),
        };
        let with = |change: fn(&mut Folder)| {
            let mut folder = good;
            change(&mut folder);
            Some(folder)
        };
        for (folder, on_record, expected) in [
            (Some(good), Some(7), None),
            // Full.
            (with(|it| it.used.bytes = SIZE + 4096), Some(7), None),
            (with(|it| it.used.bytes = MOST), Some(7), None),
            (None, Some(7), Some(Lack::NoFolder)),
            (with(|it| it.project = 0), Some(7), Some(Lack::NoProject)),
            (with(|it| it.project = 0), None, Some(Lack::NoProject)),
            (
                with(|it| it.is_of_others = true),
                Some(7),
                Some(Lack::OfOthers(7)),
            ),
            (
                with(|it| it.is_shared = true),
                Some(7),
                Some(Lack::Shared(7)),
            ),
            (Some(good), Some(8), Some(Lack::NotAllOfIt(7))),
            (Some(good), None, Some(Lack::NotAllOfIt(7))),
            (
                with(|it| it.is_inherited = false),
                Some(7),
                Some(Lack::NotInherited(7)),
            ),
            (
                with(|it| it.limits = Amounts::default()),
                Some(7),
                Some(Lack::OtherLimits {
                    found: Amounts::default(),
                    wanted,
                }),
            ),
            (
                with(|it| it.used.bytes = MOST + 1),
                Some(7),
                Some(Lack::Beyond {
                    used: bytes(MOST + 1),
                    limits: wanted,
                }),
            ),
            (
                with(|it| it.used.inodes = 10),
                Some(7),
                Some(Lack::Beyond {
                    used: Amounts {
                        bytes: SIZE,
                        inodes: 10,
                    },
                    limits: wanted,
                }),
            ),
        ] {
            assert_eq!(lack(folder, on_record, wanted), expected, "{folder:?}");
        }
    }
}
