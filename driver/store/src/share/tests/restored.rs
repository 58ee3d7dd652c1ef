//! The records folder put back from a backup: with the volumes of that time, and with those of a later one.

use super::copies::full_volume;
use super::*;
use crate::share::records::volume::Changes;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

impl Trial {
    fn copy(&self, from: &str, to: &str) {
        let copied = Command::new("cp")
            .arg("-a")
            .args([self.at(from), self.at(to)])
            .status();
        assert!(copied.unwrap().success());
    }

    /// What a backup of the records alone takes, and what it brings back.
    fn back_up(&self) {
        self.copy(".csi-nfs", "backup");
    }

    fn restore(&self) {
        std::fs::remove_dir_all(self.at(".csi-nfs")).unwrap();
        std::fs::rename(self.at("backup"), self.at(".csi-nfs")).unwrap();
    }

    pub(super) fn trouble(&self, record: &Record<Volume>) -> Option<String> {
        let share = self.share();
        let found = store::find::<Volume>(&share, record.key()).unwrap();
        crate::share::volume::create::trouble(&share, &found.unwrap()).unwrap()
    }

    fn write(&self, record: &Record<Volume>, text: &str) {
        let folder = self.at(&record.what.path.to_string());
        std::fs::write(folder.join("file"), text).unwrap();
    }

    fn read(&self, record: &Record<Volume>) -> String {
        let folder = self.at(&record.what.path.to_string());
        std::fs::read_to_string(folder.join("file")).unwrap()
    }
}

#[test]
fn records_and_volumes_of_one_backup_are_as_they_were() {
    let trial = Trial::new();
    let [own, chosen] = ["", "team/v"].map(|path| {
        let record = trial.create(&wanted(&format!("v{path}"), path)).unwrap();
        trial.write(&record, "data");
        record
    });
    trial.back_up();
    trial.restore();
    trial.recover();
    trial.check();
    for record in [&own, &chosen] {
        assert_eq!(trial.trouble(record), None);
        assert_eq!(trial.create(&record.what.wanted).unwrap(), *record);
        trial.delete(record).unwrap();
    }
    assert_eq!(trial.records(), []);
    trial.check();
}

#[test]
fn volumes_that_are_newer_than_the_records_are_left_alone() {
    let trial = Trial::new();
    trial.back_up();
    let own = trial.create(&wanted("v", "")).unwrap();
    let chosen = trial.create(&wanted("w", "team/w")).unwrap();
    trial.write(&own, "own");
    trial.write(&chosen, "chosen");
    trial.restore();
    assert_eq!(trial.records(), []);
    // Their ids name nothing any more, and their folders stay.
    trial.delete(&own).unwrap();
    trial.delete(&chosen).unwrap();
    let again = trial.create(&own.what.wanted).unwrap();
    assert_ne!(again.what.path, own.what.path);
    let refused = trial.create(&chosen.what.wanted);
    assert!(matches!(refused, Err(ShareError::Foreign(_))));
    let adopting = Wanted {
        adopt: true,
        on_delete: OnDelete::Retain,
        ..chosen.what.wanted.clone()
    };
    trial.create(&adopting).unwrap();
    assert_eq!(trial.read(&own), "own");
    assert_eq!(trial.read(&chosen), "chosen");
    trial.check();
}

#[test]
fn volumes_that_were_deleted_since_can_be_put_back_or_deleted_again() {
    let trial = Trial::new();
    let volumes = [wanted("v", ""), wanted("w", "team/w")];
    let [own, chosen] = volumes.map(|wanted| trial.create(&wanted).unwrap());
    trial.back_up();
    trial.delete(&own).unwrap();
    trial.delete(&chosen).unwrap();
    // One of the same name, which the records do not know either.
    let newer = trial.create(&own.what.wanted).unwrap();
    trial.write(&newer, "newer");
    trial.restore();
    for record in [&own, &chosen] {
        assert!(trial.trouble(record).unwrap().contains("is missing"));
        let answer = trial.create(&record.what.wanted);
        assert!(matches!(answer, Err(ShareError::FolderGone(_))));
    }
    std::fs::create_dir(trial.at("team/w")).unwrap();
    assert_eq!(trial.create(&chosen.what.wanted).unwrap(), chosen);
    trial.delete(&own).unwrap();
    trial.delete(&chosen).unwrap();
    assert_eq!(trial.read(&newer), "newer");
    assert_eq!(trial.records(), []);
    trial.check();
}

#[test]
fn a_newer_volume_at_the_path_of_a_deleted_one_is_taken_for_it_unless_it_is_moved_away() {
    for is_moved in [false, true] {
        let trial = Trial::new();
        let older = trial.create(&wanted("v", "team/v")).unwrap();
        trial.back_up();
        trial.delete(&older).unwrap();
        let newer = trial.create(&wanted("w", "team/v")).unwrap();
        trial.write(&newer, "newer");
        if is_moved {
            std::fs::rename(trial.at("team/v"), trial.at("team/aside")).unwrap();
        }
        trial.restore();
        assert_eq!(trial.trouble(&older).is_some(), is_moved);
        trial.delete(&older).unwrap();
        trial.recover();
        trial.check();
        assert!(!trial.at("team/v").exists());
        assert_eq!(trial.at("team/aside/file").exists(), is_moved);
    }
}

#[test]
fn a_volume_that_was_changed_since_has_its_old_record_and_its_new_folder() {
    let trial = Trial::new();
    let volume = trial.create(&wanted("v", "")).unwrap();
    trial.back_up();
    let (key, nonce) = (volume.key(), volume.nonce);
    change::expand(&trial.share(), key, nonce, 2 << 30, 0).unwrap();
    let changes = Changes {
        mode: Some(0o700),
        on_delete: Some(OnDelete::Retain),
        ..Changes::default()
    };
    change::modify(&trial.share(), key, nonce, &changes).unwrap();
    trial.restore();
    assert_eq!(trial.records(), std::slice::from_ref(&volume));
    let folder = trial.at(&volume.what.path.to_string());
    assert_eq!(
        folder.metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    trial.check();
}

#[test]
fn a_snapshot_that_was_made_since_is_gone_and_a_deleted_one_is_back_with_its_data() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    let deleted = trial.snapshot("deleted", &volume).unwrap();
    trial.back_up();
    trial.snapshot("made", &volume).unwrap();
    life::delete::<Snapshot>(&trial.share(), deleted.key(), deleted.nonce).unwrap();
    trial.restore();
    assert_eq!(trial.snapshots(), [deleted]);
    trial.check_snapshots();
}

#[test]
fn what_was_begun_at_the_backup_is_finished_after_it() {
    for count in 0.. {
        let trial = Trial::in_memory();
        let volume = wanted("v", "team/v");
        let ended = crashing(count, || {
            trial
                .create(&volume)
                .and_then(|record| trial.delete(&record))
        });
        trial.back_up();
        // Meanwhile others have finished it.
        trial.recover();
        trial.restore();
        // The folder that was placed since is not the one that lies beside the record again.
        let recovered = recovery::recover(&trial.share(), |_| Some(())).unwrap();
        let is_foreign = |error: &ShareError| matches!(error, ShareError::Foreign(_));
        assert!(recovered.failures.iter().all(is_foreign), "{recovered:?}");
        let record = trial.create(&volume);
        match record {
            Ok(record) => trial.delete(&record).unwrap(),
            // Placed since, or deleted since.
            Err(ShareError::Foreign(_) | ShareError::FolderGone(_)) => {
                for record in trial.records() {
                    trial.delete(&record).unwrap();
                }
            }
            Err(error) => panic!("step {count}: {error}"),
        }
        trial.check();
        if ended.is_ok() {
            break;
        }
    }
}
