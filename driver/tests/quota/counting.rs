//! What counts, and how.

use crate::scene::{MIB, Share, bytes, file_system, run};
use crate::tools::{USER, write};
use csi_nfs_store::quota::ability::FileSystem;
use std::fs::{self, File};
use std::process::Command;

/// What a few inodes and blocks of folders take.
const LITTLE: u64 = 64 << 10;

fn about(used: u64, wanted: u64) -> bool {
    used.abs_diff(wanted) <= LITTLE
}

#[test]
fn what_counts_is_what_the_files_of_a_volume_take() {
    let share = Share::new("counting");
    let volume = share.volume("v", bytes(64 * MIB));
    let mount = share.mount("4.2", "v");
    let [file, link, sparse, clone, renamed] =
        ["file", "link", "sparse", "clone", "renamed"].map(|name| mount.0.join(name));
    let wait_for = |bytes, inodes| {
        share.wait_for_usage(volume.id, |used| {
            about(used.bytes, bytes) && used.inodes == inodes
        });
    };
    wait_for(0, 1);
    write(USER, &file, 4).unwrap();
    wait_for(4 * MIB, 2);
    // A second name counts nothing.
    fs::hard_link(&file, &link).unwrap();
    wait_for(4 * MIB, 2);
    // Of a sparse file, what is written.
    File::create(&sparse).unwrap().set_len(32 * MIB).unwrap();
    wait_for(4 * MIB, 3);
    write(0, &sparse, 1).unwrap();
    wait_for(5 * MIB, 3);
    // A rename within the volume changes nothing.
    fs::rename(&file, &renamed).unwrap();
    wait_for(5 * MIB, 3);
    // A reflink counts in full, though the disk has it once.
    if file_system() == FileSystem::Xfs {
        run(Command::new("cp")
            .arg("--reflink=always")
            .args([&renamed, &clone]));
        wait_for(9 * MIB, 4);
        fs::remove_file(&clone).unwrap();
    }
    // Deleting gives back the last name's space.
    fs::remove_file(&renamed).unwrap();
    wait_for(5 * MIB, 3);
    fs::remove_file(&link).unwrap();
    wait_for(MIB, 2);
}

#[test]
fn what_leaves_a_volume_on_the_server_stays_charged_to_it() {
    let share = Share::new("leaving");
    let volume = share.volume("v", bytes(64 * MIB));
    let trash = share.folder("trash");
    let file = volume.folder.join("folder/file");
    fs::create_dir(volume.folder.join("folder")).unwrap();
    write(0, &file, 4).unwrap();
    fs::rename(volume.folder.join("folder"), trash.join("folder")).unwrap();
    let is_charged = |inodes| {
        move |used: csi_sys::project_quota::Amounts| {
            about(used.bytes, 4 * MIB) && used.inodes == inodes
        }
    };
    share.wait_for_usage(volume.id, is_charged(3));
    // The volume itself, too, until all of it is purged.
    fs::rename(&volume.folder, trash.join("v")).unwrap();
    share.wait_for_usage(volume.id, is_charged(3));
    fs::remove_dir_all(&trash).unwrap();
    share.wait_for_usage(volume.id, |used| used.inodes == 0 && used.bytes == 0);
}
