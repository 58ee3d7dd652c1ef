//! What a user of a volume does, as that user.

use csi_nfs_store::quota::ability::FileSystem;
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_uid};
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;

/// Somebody who is not root.
pub const USER: u32 = 1000;

/// Writes so many MiB to a file and flushes them, as `user`. Returns what the kernel said.
pub fn write(user: u32, file: &Path, mib: u64) -> Result<(), String> {
    let writing = || -> io::Result<()> {
        let mut options = File::options();
        let mut file = options
            .write(true)
            .create(true)
            .truncate(false)
            .open(file)?;
        let piece = vec![0; 1 << 20];
        for _ in 0..mib {
            file.write_all(&piece)?;
        }
        file.sync_all()
    };
    // A thread has a user of its own; what is started as that user takes the guest longer than to write.
    let written = std::thread::scope(|threads| {
        let it = threads.spawn(|| {
            become_user(user).unwrap();
            writing()
        });
        it.join().unwrap()
    });
    written.map_err(|error| error.to_string())
}

/// This thread is the user's from now on.
fn become_user(user: u32) -> rustix::io::Result<()> {
    let group = Gid::from_raw(user);
    set_thread_groups(&[group])?;
    set_thread_res_gid(group, group, group)?;
    set_thread_uid(Uid::from_raw(user))
}

/// How a write beyond the limit fails.
pub fn refusal(kind: FileSystem) -> &'static str {
    match kind {
        FileSystem::Xfs => "No space left on device",
        FileSystem::Ext4 => "Disk quota exceeded",
    }
}
