//! Volumes that were made without a project.

use crate::scene::{MIB, Share, bytes};
use crate::tools::write;
use csi_nfs::quota::error::QuotaError;
use csi_nfs::quota::project;
use csi_nfs::quota::project_id::ProjectId;
use csi_nfs::quota::take_in::{Because, look, take_in};
use csi_sys::file_attributes;
use csi_sys::project_quota::Amounts;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, File};
use std::os::unix::fs::symlink;

#[test]
fn a_volume_with_files_becomes_a_project() {
    let share = Share::new("taken-in");
    let folder = share.folder("v");
    fs::create_dir_all(folder.join("a/b/c")).unwrap();
    for name in ["file", "a/file", "a/b/c/file", "linked"] {
        write(0, &folder.join(name), 1).unwrap();
    }
    fs::hard_link(folder.join("file"), folder.join("a/second")).unwrap();
    fs::hard_link(folder.join("linked"), share.folder.join("outside")).unwrap();
    symlink("file", folder.join("symlink")).unwrap();
    let (kind, mode) = (FileType::Fifo, Mode::RUSR);
    mknodat(CWD, folder.join("a/fifo"), kind, mode, 0).unwrap();
    let open = || File::open(&folder).unwrap();
    let id = ProjectId::new(123_456_789).unwrap();

    let found = look(open(), None).unwrap();
    // Two of the names are one file.
    assert_eq!((found.folders, found.files), (4, 4));
    assert_eq!(project::of(open()).unwrap(), None, "it was a look");
    let mut outside = found.outside.clone();
    outside.sort();
    let expected = [
        ("a/fifo", Because::Kind),
        ("linked", Because::LinkedOutside),
        ("symlink", Because::Kind),
    ];
    assert_eq!(outside, expected.map(|(path, why)| (path.into(), why)));

    let taken = take_in(open(), id).unwrap();
    assert_eq!((taken.folders, taken.files), (4, 4));
    assert_eq!(taken.outside_count, 3);
    assert_eq!(share.quota(id).used.inodes, 8);
    assert!(share.quota(id).used.bytes >= 4 * MIB);
    let again = take_in(open(), id).unwrap();
    assert_eq!((again.folders, again.files), (0, 0));
    assert_eq!(look(open(), Some(id)).unwrap().files, 0);

    // What is made later is in it, and the limit holds.
    project::set_limits(share.root(), id, bytes(6 * MIB)).unwrap();
    fs::create_dir(folder.join("a/b/new")).unwrap();
    let new = File::open(folder.join("a/b/new")).unwrap();
    assert_eq!(project::of(&new).unwrap(), Some(id));
    project::set_limits(share.root(), id, Amounts::default()).unwrap();
}

#[test]
fn files_of_somebody_elses_project_stay_as_they_are() {
    let share = Share::new("not-taken-in");
    let folder = share.folder("v");
    let file = folder.join("file");
    write(0, &file, 1).unwrap();
    let opened = File::open(&file).unwrap();
    let attributes = file_attributes::get(&opened).unwrap();
    file_attributes::set(&opened, attributes.with_project(4343)).unwrap();
    let open = || File::open(&folder).unwrap();
    let is_refused = |result| matches!(result, Err(QuotaError::OtherProject { found: 4343 }));
    assert!(is_refused(look(open(), None)));
    assert!(is_refused(take_in(open(), ProjectId::new(99).unwrap())));
    assert_eq!(file_attributes::get(&opened).unwrap().project(), 4343);
}
