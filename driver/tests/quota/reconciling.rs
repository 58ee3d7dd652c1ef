//! Ids: whose they are, and when they are free again.

use crate::scene::{MIB, Share, bytes};
use crate::tools::write;
use csi_nfs_store::quota::error::QuotaError;
use csi_nfs_store::quota::ledger::Entry;
use csi_nfs_store::quota::leftover::{self, Fate};
use csi_nfs_store::quota::project;
use csi_nfs_store::quota::project_id::ProjectId;
use csi_sys::project_quota::{self, Amounts};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::time::Duration;

/// What becomes of the ids of a share's ledger, of which all entries are old, but of `held` ones. Volumes that are `recorded` have
/// records.
fn settle(share: &Share, held: &[ProjectId], recorded: &[&str]) -> BTreeMap<ProjectId, Fate> {
    let old = Duration::from_secs(3600);
    let (entries, _) = share.ledger.entries().unwrap();
    let loose = entries.into_iter().filter(|(id, _)| !held.contains(id));
    let settle = |(id, entry): (ProjectId, Entry)| {
        let has_record = recorded.contains(&&*entry.owner);
        let fate = leftover::settle(share.root(), &share.ledger, id, old, has_record);
        (id, fate.unwrap())
    };
    loose.map(settle).collect()
}

/// A limit that an administrator has set for himself.
fn foreign(share: &Share, id: u32) -> u32 {
    project_quota::set_limits(share.root(), id, bytes(3 * MIB)).unwrap();
    id
}

#[test]
fn nobody_touches_the_ids_of_others() {
    let (one, other) = (Share::new("one-share"), Share::new("other-share"));
    let ours = one.volume("a", bytes(4 * MIB));
    let theirs = other.volume("a", bytes(4 * MIB));
    assert_ne!(ours.id, theirs.id);
    let foreign = foreign(&one, 4242);
    assert_eq!(settle(&one, &[ours.id], &["a"]), BTreeMap::new());
    assert_eq!(settle(&other, &[theirs.id], &["a"]), BTreeMap::new());
    // Also when a share has lost all that it had.
    fs::remove_dir(&ours.folder).unwrap();
    one.wait_for_usage(ours.id, |used| used == Amounts::default());
    let settled = settle(&one, &[], &[]);
    assert_eq!(settled, BTreeMap::from([(ours.id, Fate::Free)]));
    assert_eq!(one.quota(ours.id).limits, Amounts::default());
    assert_eq!(one.ledger.entries().unwrap().0, BTreeMap::new());
    assert_eq!(other.quota(theirs.id).limits, bytes(4 * MIB));
    let kept = project_quota::get(one.root(), foreign).unwrap();
    assert_eq!(kept.limits, bytes(3 * MIB));
    project_quota::set_limits(one.root(), foreign, Amounts::default()).unwrap();
}

#[test]
fn an_id_is_free_when_its_last_file_is_gone() {
    let share = Share::new("freed");
    let volume = share.volume("v", bytes(4 * MIB));
    write(0, &volume.folder.join("file"), 1).unwrap();
    // Deleted, and being purged: the limit goes first.
    let fate = |fate| BTreeMap::from([(volume.id, fate)]);
    assert_eq!(settle(&share, &[], &[]), fate(Fate::Unlimited));
    assert_eq!(share.quota(volume.id).limits, Amounts::default());
    assert_eq!(settle(&share, &[], &[]), fate(Fate::Stays));
    // A file of it lies elsewhere still.
    let elsewhere = share.folder.join("elsewhere");
    fs::rename(volume.folder.join("file"), &elsewhere).unwrap();
    fs::remove_dir(&volume.folder).unwrap();
    share.wait_for_usage(volume.id, |used| used.inodes == 1);
    assert_eq!(settle(&share, &[], &[]), fate(Fate::Stays));
    fs::remove_file(&elsewhere).unwrap();
    share.wait_for_usage(volume.id, |used| used == Amounts::default());
    assert_eq!(settle(&share, &[], &[]), fate(Fate::Free));
    assert_eq!(share.ledger.entry(volume.id).unwrap(), None);
}

#[test]
fn an_id_with_files_and_limits_that_no_folder_has_is_told_and_left() {
    let share = Share::new("again");
    let volume = share.volume("v", bytes(4 * MIB));
    // Its record is there. The folder is not where it should be, or the id was given to another share meanwhile.
    let told = BTreeMap::from([(volume.id, Fate::Stray)]);
    assert_eq!(settle(&share, &[], &["v"]), told);
    assert_eq!(share.quota(volume.id).limits, bytes(4 * MIB));
    assert!(share.ledger.entry(volume.id).unwrap().is_some());
}

#[test]
fn a_try_that_was_cut_short_is_finished_by_a_repeat() {
    let share = Share::new("repeated");
    let folder = share.folder("v");
    let assign = || {
        let opened = File::open(&folder).unwrap();
        project::assign(&share.ledger, opened, "v", bytes(4 * MIB))
    };
    let id = assign().unwrap();
    // Before the limits.
    project::lift_limits(share.root(), id).unwrap();
    assert_eq!(assign().unwrap(), id);
    assert_eq!(share.quota(id).limits, bytes(4 * MIB));
    // Somebody has files in it by now.
    write(0, &folder.join("file"), 1).unwrap();
    assert_eq!(assign().unwrap(), id);
    // Without its entry nobody knows whose id it is.
    share.ledger.forget(id).unwrap();
    assert!(matches!(assign(), Err(QuotaError::NotEmpty)));
    fs::remove_file(folder.join("file")).unwrap();
    assert_ne!(assign().unwrap(), id);
    project::lift_limits(share.root(), id).unwrap();
    // One entry has no folder: it ended before the folder got the id.
    let begun = ProjectId::new(77_777).unwrap();
    assert!(share.ledger.enter(begun, "v").unwrap());
    assert_eq!(settle(&share, &[], &["v"])[&begun], Fate::Free);
}
