//! Project quotas of the file system that an open file lies on.
//!
//! quotactl_fd(2), Linux 5.14, is quotactl(2) with an open file (O_PATH will do) in place of the block device: it needs no device
//! node, and works below a bind mount. Its commands for XFS are answered by every file system that keeps quotas in the kernel, ext4
//! among them (fs/quota/quota.c translates). Blocks are of 512 bytes.
//!
//! - Q_XGETQSTATV asks what is accounted and enforced; everybody may. ENOSYS where the file system has no quotas, or the
//!   kernel no such call.
//! - Q_XGETQUOTA reads the limits and the usage of one id, Q_XGETNEXTQUOTA of the first id that is not smaller and has any
//!   (ENOENT: none has), Q_XSETQLIM sets the limits that its mask names. For projects they need CAP_SYS_ADMIN in the initial user
//!   namespace (EPERM). ESRCH: quotas of this type are off. XFS answers ENOENT for an id without limit and usage.
#![allow(unsafe_code)]

use rustix::io::Errno;
use std::ffi::{c_int, c_long, c_void};
use std::os::fd::{AsFd, AsRawFd};

/// PRJQUOTA.
const PROJECT: c_int = 2;
/// `QCMD(command, PRJQUOTA)` of `XQM_CMD(number)`.
const fn command(number: c_int) -> c_int {
    ((((b'X' as c_int) << 8) + number) << 8) | PROJECT
}
const GET: c_int = command(3);
const SET_LIMITS: c_int = command(4);
const STATE: c_int = command(8);
const NEXT: c_int = command(9);

/// FS_QUOTA_PDQ_ACCT and FS_QUOTA_PDQ_ENFD.
const ACCOUNTED: u16 = 1 << 4;
const ENFORCED: u16 = 1 << 5;

/// FS_DQUOT_VERSION, FS_PROJ_QUOTA, FS_QSTATV_VERSION1.
const DQUOT_VERSION: i8 = 1;
const OF_PROJECT: i8 = 1 << 1;
const STATE_VERSION: i8 = 1;

/// FS_DQ_ISOFT, FS_DQ_IHARD, FS_DQ_BSOFT and FS_DQ_BHARD.
const LIMITS: u16 = 0b1111;

/// Bytes of a block in these calls, whatever the file system's own blocks are.
const BLOCK: u64 = 512;

/// `struct fs_disk_quota` of linux/dqblk_xfs.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct DiskQuota {
    version: i8,
    flags: i8,
    field_mask: u16,
    id: u32,
    blocks_hard: u64,
    blocks_soft: u64,
    inodes_hard: u64,
    inodes_soft: u64,
    blocks_used: u64,
    inodes_used: u64,
    /// Timers, warnings, and the realtime device, which this module does not use.
    rest: [u64; 7],
}

/// `struct fs_quota_statv` of linux/dqblk_xfs.h.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct QuotaState {
    version: i8,
    pad: u8,
    flags: u16,
    in_core: u32,
    /// The quota files, limits of time and of warnings, which this module does not use.
    rest: [u64; 19],
}

/// What a file system does with projects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// It counts what is in each project.
    pub accounts: bool,
    /// It holds projects to their limits.
    pub enforces: bool,
}

/// The bytes and inodes of a project: its limits, where 0 is none, or its usage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    /// Bytes on the disk: whole blocks of the file system.
    pub bytes: u64,
    /// Files, folders, and all else that has an inode.
    pub inodes: u64,
}

/// What a file system knows of one project.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// The project.
    pub id: u32,
    /// The hard limits.
    pub limits: Amounts,
    /// The usage.
    pub used: Amounts,
}

/// What the file system of `file` does with projects.
///
/// # Errors
/// As the head of this file has them.
pub fn state(file: impl AsFd) -> Result<State, Errno> {
    let mut state = QuotaState {
        version: STATE_VERSION,
        ..QuotaState::default()
    };
    // SAFETY: the command reads the version and writes one `struct fs_quota_statv`, which `QuotaState` is.
    unsafe { quotactl(file, STATE, 0, &mut state) }?;
    Ok(State {
        accounts: state.flags & ACCOUNTED != 0,
        enforces: state.flags & ENFORCED != 0,
    })
}

/// The limits and usage of a project; all 0 where it has none.
///
/// # Errors
/// As the head of this file has them.
pub fn get(file: impl AsFd, id: u32) -> Result<Quota, Errno> {
    let empty = Quota {
        id,
        ..Quota::default()
    };
    match read(file, GET, id) {
        Err(Errno::NOENT) => Ok(empty),
        read => read,
    }
}

/// The first project from `id` on that has a limit or usage.
///
/// # Errors
/// As the head of this file has them.
pub fn next(file: impl AsFd, id: u32) -> Result<Option<Quota>, Errno> {
    match read(file, NEXT, id) {
        Err(Errno::NOENT) => Ok(None),
        read => read.map(Some),
    }
}

/// Gives a project these hard limits, in whole blocks of 512 bytes, rounded up, and takes its soft limits. Project 0 is
/// refused: its limits are the defaults of all others.
///
/// # Errors
/// As the head of this file has them; EINVAL for project 0.
pub fn set_limits(file: impl AsFd, id: u32, limits: Amounts) -> Result<(), Errno> {
    if id == 0 {
        return Err(Errno::INVAL);
    }
    let mut quota = DiskQuota {
        version: DQUOT_VERSION,
        flags: OF_PROJECT,
        field_mask: LIMITS,
        id,
        blocks_hard: limits.bytes.div_ceil(BLOCK),
        inodes_hard: limits.inodes,
        ..DiskQuota::default()
    };
    // SAFETY: the command reads one `struct fs_disk_quota`, which `DiskQuota` is.
    unsafe { quotactl(file, SET_LIMITS, id, &mut quota) }
}

fn read(file: impl AsFd, command: c_int, id: u32) -> Result<Quota, Errno> {
    let mut quota = DiskQuota::default();
    // SAFETY: the commands that this function is called for write one `struct fs_disk_quota`, which `DiskQuota` is.
    unsafe { quotactl(file, command, id, &mut quota) }?;
    Ok(Quota {
        id: quota.id,
        limits: Amounts {
            bytes: quota.blocks_hard.saturating_mul(BLOCK),
            inodes: quota.inodes_hard,
        },
        used: Amounts {
            bytes: quota.blocks_used.saturating_mul(BLOCK),
            inodes: quota.inodes_used,
        },
    })
}

/// quotactl_fd(2).
///
/// # Safety
/// `data` is what the command reads and writes.
unsafe fn quotactl<T>(file: impl AsFd, command: c_int, id: u32, data: &mut T) -> Result<(), Errno> {
    let file = file.as_fd().as_raw_fd();
    let data: *mut c_void = std::ptr::from_mut(data).cast();
    // The kernel takes `fd` and `cmd` as unsigned int and `id` as qid_t: the upper halves of the registers do not count.
    let (file, command, id) = (
        c_long::from(file),
        c_long::from(command),
        c_long::from(id.cast_signed()),
    );
    // SAFETY: the descriptor is open as long as `file` is borrowed, and the caller answers for `data`.
    let answer = unsafe { libc::syscall(libc::SYS_quotactl_fd, file, command, id, data) };
    match answer {
        -1 => Err(Errno::from_io_error(&std::io::Error::last_os_error()).unwrap_or(Errno::IO)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::mem::offset_of;

    #[test]
    fn the_structures_are_the_kernels() {
        assert_eq!(size_of::<DiskQuota>(), 112);
        assert_eq!(offset_of!(DiskQuota, blocks_hard), 8);
        assert_eq!(offset_of!(DiskQuota, blocks_used), 40);
        assert_eq!(offset_of!(DiskQuota, rest), 56);
        assert_eq!(size_of::<QuotaState>(), 160);
        assert_eq!(offset_of!(QuotaState, flags), 2);
        // Q_XGETQSTATV of linux/dqblk_xfs.h, and QCMD of linux/quota.h.
        assert_eq!(STATE, (0x5808 << 8) | 2);
    }

    #[test]
    fn a_file_system_without_quotas_says_so() {
        let proc = File::open("/proc").unwrap();
        let errors = [
            state(&proc).unwrap_err(),
            get(&proc, 1).unwrap_err(),
            next(&proc, 1).unwrap_err(),
            set_limits(&proc, 1, Amounts::default()).unwrap_err(),
        ];
        for error in errors {
            // A file system without a block device; one without quotas; somebody who may not.
            let known = [Errno::NOTBLK, Errno::NOSYS, Errno::PERM, Errno::NODEV];
            assert!(known.contains(&error), "{error:?}");
        }
    }

    #[test]
    fn the_limits_of_all_projects_are_never_set() {
        let folder = tempfile::tempfile().unwrap();
        let error = set_limits(&folder, 0, Amounts::default()).unwrap_err();
        assert_eq!(error, Errno::INVAL);
    }
}
