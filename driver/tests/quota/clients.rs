//! What a client sees of a volume's size.

use crate::scene::{MIB, Share, bytes, file_system, shown};
use crate::tools::{USER, refusal, write};
use csi_nfs_store::quota::ability::{self, FileSystem, Unable};
use csi_nfs_store::quota::project;
use csi_sys::project_quota::Amounts;
use std::fs::{self, File};
use std::io::Write as _;

#[test]
fn the_file_system_says_what_it_can() {
    let share = Share::new("ability");
    let root = share.root();
    let kind = ability::of(&root, true).unwrap();
    let as_root = match kind {
        FileSystem::Xfs => Ok(kind),
        FileSystem::Ext4 => Err(Unable::RootNotSquashed),
    };
    assert_eq!(ability::of(&root, false), as_root);
    let volume = share.volume("v", bytes(MIB));
    let inner = File::open(&volume.folder).unwrap();
    let inner = ability::of(&inner, true);
    assert_eq!(inner, Err(Unable::InProject(volume.id.number())));
    let memory = File::open("/run").unwrap();
    let memory = ability::of(&memory, true).unwrap_err();
    assert_eq!(memory.to_string(), "tmpfs has no project quotas");
}

#[test]
fn a_client_sees_the_size_and_cannot_write_beyond_it() {
    let kind = file_system();
    for version in ["3", "4.2"] {
        let share = Share::new(&format!("stopped-{version}"));
        let volume = share.volume("v", bytes(8 * MIB));
        share.volume("other", bytes(8 * MIB));
        let mount = share.mount(version, "v");
        assert_eq!(shown(&mount.0).0, 8 * MIB, "{version}");
        write(USER, &mount.0.join("fits"), 4).unwrap();
        let (_, free) = shown(&mount.0);
        // XFS allocates ahead of a file that grows, which counts, and gives it back when it is needed.
        assert!(free <= 4 * MIB, "{version}: {free}");
        write(USER, &mount.0.join("fits-too"), 3).unwrap();
        let error = write(USER, &mount.0.join("large"), 16).unwrap_err();
        assert!(error.contains(refusal(kind)), "{version}: {error}");
        assert!(share.quota(volume.id).used.bytes <= 8 * MIB);
        assert!(shown(&mount.0).1 < MIB, "{version}: it is full");
        // Nobody else is.
        let all = share.mount(version, "");
        assert_eq!(shown(&all.0.join("v")).0, 8 * MIB, "below a mount of all");
        assert_ne!(shown(&all.0).0, 8 * MIB);
        write(USER, &all.0.join("other/fits"), 4).unwrap();
    }
}

#[test]
fn root_is_held_to_the_size_where_the_file_system_does_so() {
    let share = Share::new("root");
    share.volume("v", bytes(8 * MIB));
    let mount = share.mount("4.2", "v");
    let mut file = File::create(mount.0.join("large")).unwrap();
    // The client learns of the limit when it brings it to the server: at the latest then, and at times while it still takes it.
    let written = file.write_all(&vec![1; 16 << 20]);
    let flushed = written.and_then(|()| file.sync_all());
    match file_system() {
        FileSystem::Xfs => assert_eq!(flushed.unwrap_err().kind(), std::io::ErrorKind::StorageFull),
        FileSystem::Ext4 => flushed.unwrap(),
    }
}

#[test]
fn an_expansion_shows_at_once_in_use() {
    for version in ["3", "4.2"] {
        let share = Share::new(&format!("expanded-{version}"));
        let volume = share.volume("v", bytes(4 * MIB));
        let mount = share.mount(version, "v");
        let file = mount.0.join("file");
        write(USER, &file, 8).unwrap_err();
        project::set_limits(share.root(), volume.id, bytes(16 * MIB)).unwrap();
        assert_eq!(shown(&mount.0).0, 16 * MIB, "{version}");
        write(USER, &file, 8).unwrap();
        project::lift_limits(share.root(), volume.id).unwrap();
        assert!(shown(&mount.0).0 > 64 * MIB, "{version}: the disk's");
        assert_eq!(share.quota(volume.id).limits, Amounts::default());
    }
}

#[test]
fn inodes_are_limited_too() {
    let share = Share::new("inodes");
    let limits = Amounts {
        bytes: 0,
        inodes: 10,
    };
    share.volume("v", limits);
    let mount = share.mount("4.2", "v");
    let made = (0..20).filter(|number| {
        let file = mount.0.join(number.to_string());
        write(USER, &file, 0).is_ok()
    });
    // One is the folder.
    assert_eq!(made.count(), 9);
    let shown = rustix::fs::statvfs(&mount.0).unwrap();
    assert_eq!((shown.f_files, shown.f_ffree), (10, 0));
    fs::remove_file(mount.0.join("0")).unwrap();
}
