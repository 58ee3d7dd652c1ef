//! A tenant tries to get more than its volume's size.

use crate::scene::{MIB, Share, bytes, file_system, run};
use crate::tools::{USER, refusal, write};
use csi_nfs_store::quota::project;
use csi_sys::{file_attributes, project_quota};
use rustix::io::Errno;
use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

#[test]
fn a_client_cannot_change_the_project_of_its_files() {
    for version in ["3", "4.2"] {
        let share = Share::new(&format!("chattr-{version}"));
        let volume = share.volume("v", bytes(4 * MIB));
        let mount = share.mount(version, "v");
        let file = mount.0.join("file");
        write(USER, &file, 1).unwrap();
        for path in [&mount.0, &file] {
            // Not even root of a client: NFS has no such thing.
            let error = file_attributes::get(File::open(path).unwrap()).unwrap_err();
            assert!(
                matches!(error, Errno::NOTTY | Errno::OPNOTSUPP),
                "{error:?}"
            );
            let chattr = Command::new("chattr")
                .args(["-p", "0"])
                .arg(path)
                .uid(USER)
                .gid(USER)
                .output()
                .unwrap();
            assert!(!chattr.status.success(), "{version}");
        }
        let opened = File::open(&mount.0).unwrap();
        let limits = project_quota::set_limits(&opened, volume.id.number(), bytes(0));
        assert!(limits.is_err(), "{version}");
        let there = project::of(File::open(volume.folder.join("file")).unwrap());
        assert_eq!(there.unwrap(), Some(volume.id));
    }
}

#[test]
fn files_do_not_pass_from_volume_to_volume() {
    let share = Share::new("passing");
    let one = share.volume("one", bytes(4 * MIB));
    let other = share.volume("other", bytes(4 * MIB));
    share.folder("plain");
    let all = share.mount("4.2", "");
    let file = all.0.join("one/file");
    write(USER, &file, 2).unwrap();
    let error = |result: std::io::Result<()>| Errno::from_io_error(&result.unwrap_err()).unwrap();
    let to = all.0.join("other/file");
    assert_eq!(error(fs::rename(&file, &to)), Errno::XDEV);
    assert_eq!(error(fs::hard_link(&file, &to)), Errno::XDEV);
    // From outside neither: what is free of charge there would be counted nowhere.
    let outside = all.0.join("plain/file");
    write(USER, &outside, 2).unwrap();
    assert_eq!(error(fs::rename(&outside, &to)), Errno::XDEV);
    assert_eq!(error(fs::hard_link(&outside, &to)), Errno::XDEV);
    // To the outside it may go where a mount shows the outside, and stays charged.
    fs::rename(&file, all.0.join("plain/moved")).unwrap();
    assert!(share.quota(one.id).used.bytes >= 2 * MIB);
    assert_eq!(share.quota(other.id).used.inodes, 1);
    let kept = all.0.join("one/large");
    let refused = write(USER, &kept, 4).unwrap_err();
    assert!(refused.contains(refusal(file_system())), "{refused}");
}

#[test]
fn preallocated_space_counts() {
    let share = Share::new("preallocated");
    let volume = share.volume("v", bytes(4 * MIB));
    let mount = share.mount("4.2", "v");
    let file = mount.0.join("file");
    let allocate = |size: &str| {
        let mut command = Command::new("fallocate");
        command.args(["-l", size]).arg(&file).uid(USER).gid(USER);
        command
    };
    let refused = allocate("16M").output().unwrap();
    assert!(!refused.status.success());
    run(&mut allocate("2M"));
    assert!(share.quota(volume.id).used.bytes >= 2 * MIB);
}
