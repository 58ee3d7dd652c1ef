//! Ids: whose they are, and when they are free again.

use crate::scene::{MIB, Share, Volume, bytes};
use crate::tools::write;
use csi_nfs::quota::error::QuotaError;
use csi_nfs::quota::project;
use csi_nfs::quota::project_id::ProjectId;
use csi_nfs::quota::reconcile::{self, Action, Hold, Holder, Trouble};
use csi_sys::project_quota::{self, Amounts};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::time::{Duration, SystemTime};

/// What is planned for a share with these volumes, when all entries of its ledger are old.
fn plan(share: &Share, volumes: &[(&Volume, Hold)]) -> BTreeMap<ProjectId, Vec<Action>> {
    let old = SystemTime::now() - Duration::from_secs(3600);
    for entry in fs::read_dir(&share.records).unwrap() {
        let entry = File::open(entry.unwrap().path()).unwrap();
        entry.set_modified(old).unwrap();
    }
    let holders = volumes.iter().map(|(volume, hold)| {
        let name = volume.folder.file_name().unwrap().to_str().unwrap();
        let holder = Holder {
            owner: name.to_owned(),
            hold: *hold,
        };
        let id = project::of(File::open(&volume.folder).unwrap()).unwrap();
        (id.unwrap(), holder)
    });
    let holders = holders.collect();
    let (entries, _) = share.ledger.entries().unwrap();
    reconcile::plan(share.root(), entries, |_| Ok::<_, QuotaError>(holders)).unwrap()
}

fn carry_out(share: &Share, plan: &BTreeMap<ProjectId, Vec<Action>>) {
    for (id, actions) in plan {
        reconcile::execute(share.root(), &share.ledger, *id, actions).unwrap();
    }
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
    let volume = Hold::Volume(bytes(4 * MIB));
    assert_eq!(plan(&one, &[(&ours, volume)]), BTreeMap::new());
    assert_eq!(plan(&other, &[(&theirs, volume)]), BTreeMap::new());
    // Also when a share has lost all that it had.
    fs::remove_dir(&ours.folder).unwrap();
    one.wait_for_usage(ours.id, |used| used == Amounts::default());
    let plan = plan(&one, &[]);
    assert_eq!(plan, BTreeMap::from([(ours.id, vec![Action::Free])]));
    carry_out(&one, &plan);
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
    let lifted = plan(&share, &[(&volume, Hold::Left)]);
    let expected = vec![Action::Limit(Amounts::default())];
    assert_eq!(lifted, BTreeMap::from([(volume.id, expected)]));
    carry_out(&share, &lifted);
    assert_eq!(plan(&share, &[(&volume, Hold::Left)]), BTreeMap::new());
    // A file of it lies elsewhere still.
    let elsewhere = share.folder.join("elsewhere");
    fs::rename(volume.folder.join("file"), &elsewhere).unwrap();
    fs::remove_dir(&volume.folder).unwrap();
    share.wait_for_usage(volume.id, |used| used.inodes == 1);
    assert_eq!(plan(&share, &[]), BTreeMap::new());
    fs::remove_file(&elsewhere).unwrap();
    share.wait_for_usage(volume.id, |used| used == Amounts::default());
    carry_out(&share, &plan(&share, &[]));
    assert_eq!(share.ledger.entry(volume.id).unwrap(), None);
}

#[test]
fn what_is_in_use_again_by_then_is_not_freed() {
    let share = Share::new("again");
    let volume = share.volume("v", bytes(4 * MIB));
    let freed = BTreeMap::from([(volume.id, vec![Action::Free])]);
    carry_out(&share, &freed);
    assert_eq!(share.quota(volume.id).limits, bytes(4 * MIB));
    assert!(share.ledger.entry(volume.id).unwrap().is_some());
}

#[test]
fn a_restored_backup_changes_nothing_that_it_does_not_know() {
    let mut share = Share::new("restored");
    let old = share.volume("old", bytes(4 * MIB));
    let gone = share.volume("gone", bytes(4 * MIB));
    let backup = |id: ProjectId| fs::read(share.records.join(id.to_string())).unwrap();
    let entries = [old.id, gone.id].map(|id| (id, backup(id)));
    // Since the backup: one is deleted, one is expanded, one is made.
    fs::remove_dir(&gone.folder).unwrap();
    share.wait_for_usage(gone.id, |used| used == Amounts::default());
    project::lift_limits(share.root(), gone.id).unwrap();
    project::set_limits(share.root(), old.id, bytes(8 * MIB)).unwrap();
    let new = share.volume("new", bytes(4 * MIB));
    fs::remove_dir_all(&share.records).unwrap();
    fs::create_dir(&share.records).unwrap();
    for (id, entry) in entries {
        fs::write(share.records.join(id.to_string()), entry).unwrap();
    }
    share.reopen();
    let recorded = Hold::Volume(bytes(4 * MIB));
    let back = plan(&share, &[(&old, recorded), (&new, Hold::Unrecorded)]);
    let expected = BTreeMap::from([
        (old.id, vec![Action::Limit(bytes(4 * MIB))]),
        (gone.id, vec![Action::Free]),
        (new.id, vec![Action::Enter("new".to_owned())]),
    ]);
    assert_eq!(back, expected);
    carry_out(&share, &back);
    assert_eq!(share.quota(old.id).limits, bytes(4 * MIB));
    assert_eq!(share.quota(new.id).limits, bytes(4 * MIB), "it is kept");
    // Had the id been given to another share meanwhile, whose files have it now, an administrator would be told.
    let other = Share::new("since");
    let theirs = other.volume("theirs", bytes(MIB));
    assert!(share.ledger.enter(theirs.id, "gone").unwrap());
    let known = [(&old, recorded), (&new, Hold::Unrecorded)];
    let told = vec![Action::Tell(Trouble::Stray)];
    assert_eq!(plan(&share, &known), BTreeMap::from([(theirs.id, told)]));
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
    let left = plan(&share, &[]);
    assert_eq!(left[&begun], [Action::Free]);
}
