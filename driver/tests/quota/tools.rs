//! Programs that a user of a volume runs, as a user.

use csi_nfs_store::quota::ability::FileSystem;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::Command;

/// Somebody who is not root.
pub const USER: u32 = 1000;

/// Writes so many MiB to a file and flushes them, as `user`. Returns what the kernel said.
pub fn write(user: u32, file: &Path, mib: u64) -> Result<(), String> {
    let mut command = Command::new("dd");
    command
        .args(["if=/dev/zero", "bs=1M", "conv=fsync,notrunc"])
        .arg(format!("of={}", file.display()))
        .arg(format!("count={mib}"));
    let output = command.uid(user).gid(user).output().unwrap();
    match output.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
    }
}

/// How a write beyond the limit fails.
pub fn refusal(kind: FileSystem) -> &'static str {
    match kind {
        FileSystem::Xfs => "No space left on device",
        FileSystem::Ext4 => "Disk quota exceeded",
    }
}
