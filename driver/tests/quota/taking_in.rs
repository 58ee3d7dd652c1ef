//! Volumes that were made without a project.

use crate::scene::{MIB, Share, bytes, file_system, shown};
use crate::site::{Site, is_enforced, says_enforced, volume};
use crate::tools::write;
use crate::tools::{USER, refusal};
use csi_nfs_store::quota::enable_quota::{Because, Former, enable_quota, look};
use csi_nfs_store::quota::error::QuotaError;
use csi_nfs_store::quota::project;
use csi_nfs_store::quota::project_id::ProjectId;
use csi_sys::file_attributes;
use csi_sys::project_quota::Amounts;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::process::{Command, Output};

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

    let found = look(open(), None, &Former::new()).unwrap();
    assert!(found.used.bytes >= 4 * MIB, "{found:?}");
    assert_eq!(found.used.inodes, 8);
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

    let taken = enable_quota(open(), id, &Former::new()).unwrap();
    assert_eq!((taken.folders, taken.files), (4, 4));
    assert_eq!(taken.outside_count, 3);
    assert_eq!(share.quota(id).used.inodes, 8);
    assert!(share.quota(id).used.bytes >= 4 * MIB);
    let again = enable_quota(open(), id, &Former::new()).unwrap();
    assert_eq!((again.folders, again.files), (0, 0));
    assert_eq!(look(open(), Some(id), &Former::new()).unwrap().files, 0);

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
    let is_refused = |result| matches!(result, Err(QuotaError::OtherProject(4343)));
    assert!(is_refused(look(open(), None, &Former::new())));
    assert!(is_refused(enable_quota(
        open(),
        ProjectId::new(99).unwrap(),
        &Former::new()
    )));
    assert_eq!(file_attributes::get(&opened).unwrap().project(), 4343);
}

/// What `csi-nfs take-in` says of a share, and whether it succeeds.
fn command(share: &Share, words: &[&str]) -> (bool, String) {
    let local = format!("nas:/srv={}", share.folder.display());
    let mut command = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
    command
        .args(["take-in", "--local-share", &local])
        .args(words);
    let Output {
        status,
        stdout,
        stderr,
    } = command.output().unwrap();
    let said = [stdout, stderr].concat();
    (status.success(), String::from_utf8(said).unwrap())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_of_the_time_before_is_held_to_its_size_from_now_on() {
    let mut site = Site::new("taken-in-later").await;
    let old = site.create(volume("old", 10, &[])).await.unwrap();
    let large = site.create(volume("large", 2, &[])).await.unwrap();
    write(USER, &site.folder(&old).join("file"), 4).unwrap();
    write(USER, &site.folder(&large).join("file"), 4).unwrap();
    symlink("file", site.folder(&old).join("link")).unwrap();

    if !is_enforced() {
        let (done, said) = command(&site.share, &["--unpublished"]);
        assert!(!done && said.contains("does not limit root"), "{said}");
        assert_eq!(site.id(&old), None);
        return;
    }
    let (done, said) = command(&site.share, &[]);
    assert!(done, "{said}");
    assert!(
        said.contains("old (") && said.contains("link is neither"),
        "{said}"
    );
    assert!(
        said.contains("large (") && said.contains("expand it first"),
        "{said}"
    );
    // The first volume of the share has no size.
    assert!(said.contains("can be taken in: 1, not: 2,"), "{said}");
    assert_eq!(site.id(&old), None, "it was a dry run");

    let (done, said) = command(&site.share, &["--unpublished", "old", &large.volume_id]);
    assert!(!done && said.contains("taken in: 1, not: 1"), "{said}");
    let id = site.id(&old).unwrap();
    let message = site.condition(&old).await.message;
    assert!(says_enforced(&message, id), "{message}");
    let expected = "; it cannot be expanded now: there is no agent";
    assert!(message.contains(expected), "{message}");
    assert_eq!(shown(&site.folder(&old)).0, 10 * MIB);
    let error = write(USER, &site.folder(&old).join("more"), 20).unwrap_err();
    assert!(error.contains(refusal(file_system())), "{error}");
    let (done, said) = command(&site.share, &["old", "--unpublished"]);
    assert!(
        said.contains("its size is enforced already"),
        "{done} {said}"
    );

    // It is a volume like all others now.
    let _agent = site.agent();
    site.expand(&old, 30).await.unwrap();
    assert_eq!(shown(&site.folder(&old)).0, 30 * MIB);
    site.expand(&large, 8).await.unwrap();
    let (done, said) = command(&site.share, &["--i-accept-exdev", "large"]);
    assert!(done, "{said}");
    assert_eq!(shown(&site.folder(&large)).0, 8 * MIB);
    site.delete(&old).await;
    site.share.wait_for_usage(id, |used| used.inodes == 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taking_in_that_dies_at_any_step_is_finished_by_a_repeat_on_xfs() {
    let mut site = Site::new("taken-in-killed").await;
    for (number, step) in [
        "the folder of a volume is a project",
        "all of a volume is in its project",
        "a volume that is taken in is limited",
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("v{number}");
        let made = site.create(volume(&name, 10, &[])).await.unwrap();
        write(USER, &site.folder(&made).join("file"), 1).unwrap();
        let plan = site.share.folder.join("plan");
        fs::write(&plan, format!("0 {step}")).unwrap();
        let local = format!("nas:/srv={}", site.share.folder.display());
        let mut dying = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
        dying.env("CSI_NFS_CRASH_PLAN", &plan);
        dying.args(["take-in", "--local-share", &local, "--unpublished", &name]);
        let died = dying.output().unwrap();
        assert!(!died.status.success(), "{step}: {died:?}");
        let id = site.id(&made).unwrap();
        let message = site.condition(&made).await.message;
        assert!(!message.contains("enforced"), "{step}: {message}");
        if step == "a volume that is taken in is limited" {
            // A comparison beside it takes nothing back: the record may be about to say so.
            let agent = site.agent();
            agent.compare(&site.share);
            assert_eq!(site.share.quota(id).limits.bytes, 10 * MIB);
        }
        let (done, said) = command(&site.share, &["--unpublished", &name]);
        assert!(done, "{step}: {said}");
        assert_eq!(site.id(&made), Some(id), "{step}");
        assert_eq!(shown(&site.folder(&made)).0, 10 * MIB, "{step}");
        let message = site.condition(&made).await.message;
        assert!(says_enforced(&message, id), "{step}: {message}");
    }
    let projects = fs::read_dir(site.share.folder.join(".csi-nfs/projects"));
    assert_eq!(projects.unwrap().count(), 3, "an id each");
}
