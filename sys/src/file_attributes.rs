//! The attributes that file systems keep beside those of stat(2), and among them the project of a file.
//!
//! FS_IOC_FSGETXATTR and FS_IOC_FSSETXATTR, see ioctl_fs(2) and ioctl_xfs_fsgetxattr(2), work on a `struct fsxattr` of an open
//! regular file or folder: not on a descriptor of O_PATH, and so on no symlink, FIFO, socket or device. Reading takes nothing but
//! the descriptor, whose access mode does not matter. Writing takes the file's owner or CAP_FOWNER (EPERM), a file system
//! that is not mounted read-only (EROFS), and for the project the initial user namespace (EINVAL). The set replaces all fields,
//! so that it begins with what was read. File systems without such attributes answer ENOTTY or EOPNOTSUPP.
#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::ioctl::{Getter, Opcode, Setter, ioctl, opcode};
use std::os::fd::AsFd;

/// `struct fsxattr` of linux/fs.h: 28 bytes, without padding.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Fsxattr {
    flags: u32,
    extent_size: u32,
    extents: u32,
    project: u32,
    copy_on_write_extent_size: u32,
    reserved: [u8; 8],
}

const GET: Opcode = opcode::read::<Fsxattr>(b'X', 31);
const SET: Opcode = opcode::write::<Fsxattr>(b'X', 32);

/// FS_XFLAG_PROJINHERIT: what is made in this folder gets its project.
const PROJECT_IS_INHERITED: u32 = 0x200;

/// The attributes of one file, as they were read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes(Fsxattr);

impl Attributes {
    /// The project of the file; 0 where it is in none.
    pub fn project(&self) -> u32 {
        self.0.project
    }

    /// Whether what is made in this folder gets its project, and whether what has another one cannot be renamed or linked
    /// into it (EXDEV).
    pub fn is_inherited(&self) -> bool {
        self.0.flags & PROJECT_IS_INHERITED != 0
    }

    /// The same, with the file in `project`.
    #[must_use]
    pub fn with_project(self, project: u32) -> Self {
        Self(Fsxattr { project, ..self.0 })
    }

    /// The same, with the project inherited by what is made in it. For folders: the kernel drops it from files.
    #[must_use]
    pub fn with_inheritance(self) -> Self {
        let flags = self.0.flags | PROJECT_IS_INHERITED;
        Self(Fsxattr { flags, ..self.0 })
    }
}

/// The attributes of an open file.
///
/// # Errors
/// As the head of this file has them.
pub fn get(file: impl AsFd) -> Result<Attributes, Errno> {
    // SAFETY: this number stands for a request that writes one `struct fsxattr`, which `Fsxattr` is.
    let request = unsafe { Getter::<GET, Fsxattr>::new() };
    // SAFETY: as above; the request reads nothing of this process.
    unsafe { ioctl(file, request) }.map(Attributes)
}

/// Gives an open file these attributes, which have been read from it.
///
/// # Errors
/// As the head of this file has them; ENOSPC or EDQUOT where the new project's limits do not allow the file.
pub fn set(file: impl AsFd, attributes: Attributes) -> Result<(), Errno> {
    // SAFETY: this number stands for a request that reads one `struct fsxattr`, which `Fsxattr` is.
    let request = unsafe { Setter::<SET, Fsxattr>::new(attributes.0) };
    // SAFETY: as above; the request writes nothing of this process.
    unsafe { ioctl(file, request) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    #[test]
    fn the_request_has_the_size_that_its_number_says() {
        assert_eq!(size_of::<Fsxattr>(), 28);
        // As linux/fs.h has them on x86 and ARM.
        assert_eq!((GET, SET), (0x801c_581f, 0x401c_5820));
    }

    #[test]
    fn a_change_leaves_all_other_fields() {
        let read = Attributes(Fsxattr {
            flags: 0x80,
            extent_size: 1,
            extents: 2,
            project: 3,
            copy_on_write_extent_size: 4,
            reserved: [5; 8],
        });
        let changed = read.with_project(7).with_inheritance();
        assert_eq!((changed.project(), changed.is_inherited()), (7, true));
        let mut expected = read.0;
        (expected.flags, expected.project) = (0x280, 7);
        assert_eq!(changed.0, expected);
        assert!(!read.is_inherited());
    }

    #[test]
    fn a_file_without_attributes_says_so() {
        let proc = File::open("/proc/self").unwrap();
        let error = get(&proc).unwrap_err();
        assert!(
            matches!(error, Errno::NOTTY | Errno::OPNOTSUPP | Errno::INVAL),
            "{error:?}"
        );
    }
}
