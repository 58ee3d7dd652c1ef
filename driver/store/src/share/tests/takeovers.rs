//! Who takes over a copy that another process has begun: what the dead have left goes, what the living make stays.

use super::super::token::Nonce;
use super::copies::{full_volume, origin};
use super::*;
use crate::files::crash_points::{Gate, waiting};
use crate::share::attempt;
use crate::share::attempt::heartbeat::tests::let_a_period_pass;
use crate::share::records::origin::Source;
use crate::share::records::record::Copying;
use crate::share::records::removal;
use crate::share::records::store::Found;
use std::os::fd::OwnedFd;

/// A snapshot that another process has begun, with what it leaves when it dies while it copies.
fn begun_elsewhere(trial: &Trial, volume: &Record<Volume>) -> Copying {
    for count in 0.. {
        let _ = crashing(count, || trial.snapshot("s", volume));
        let begun = trial.snapshots();
        if begun.iter().any(|snapshot| snapshot.copying.is_some()) {
            break;
        }
    }
    let share = trial.share();
    let key = NameKey::of("s");
    let found = store::find::<Snapshot>(&share, key).unwrap().unwrap();
    let copying = Copying {
        attempt: Nonce::random().unwrap(),
        process: "another-machine/1/1/1".to_owned(),
    };
    let next = found.record.with_copying(Some(copying.clone()));
    store::update(&share, &found, &next).unwrap();
    for kind in ["data", "links"] {
        let left = trial.at(&format!(
            ".csi-nfs/snapshots/{key}/{kind}.{}",
            copying.attempt
        ));
        std::fs::create_dir(&left).unwrap();
        std::fs::write(left.join("half"), "half").unwrap();
    }
    copying
}

/// What a process of another machine does that takes the claim on a copy over: its own attempt is begun, and no other's is left.
fn taken_over(trial: &Trial, found: &Found<Snapshot>) -> PathBuf {
    let share = trial.share();
    let copying = Copying {
        attempt: Nonce::random().unwrap(),
        process: "another-machine/1/1/1".to_owned(),
    };
    let next = found.record.with_copying(Some(copying.clone()));
    let taken = store::update(&share, found, &next).unwrap();
    assert!(matches!(taken, Claimed::Won));
    removal::discard_attempts(&share, found).unwrap();
    let folder = trial.at(&format!(".csi-nfs/snapshots/{}", found.record.key()));
    let data = folder.join(format!("data.{}", copying.attempt));
    std::fs::create_dir(&data).unwrap();
    std::fs::write(data.join("begun"), "begun").unwrap();
    data
}

#[test]
fn a_copy_that_was_taken_over_leaves_the_other_one_alone() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    begun_elsewhere(&trial, &volume);
    let share = trial.share();
    let find = || store::find::<Snapshot>(&share, NameKey::of("s")).unwrap();
    let unclaimed = find().unwrap().record.with_copying(None);
    store::update(&share, &find().unwrap(), &unclaimed).unwrap();
    let mut theirs = None;
    let source = Source::Volume(origin(&volume));
    let progress = Progress::default();
    // Between the end of the copy and its move to its place.
    let late = |_: &OwnedFd| {
        theirs = Some(taken_over(&trial, &find().unwrap()));
        Ok(())
    };
    attempt::make(
        &share,
        &find().unwrap(),
        &source,
        None,
        &progress,
        (|_: &_, _| Ok(()), late),
    )
    .unwrap();
    assert!(theirs.unwrap().join("begun").exists());
    assert_eq!(find().unwrap().record.state, State::Creating);
}

/// A claim is found first, and what its holder has made only later, when it has died.
#[test]
fn what_an_attempt_has_begun_after_a_look_at_its_record_goes_when_it_is_taken_over() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    let copying = begun_elsewhere(&trial, &volume);
    let folder = trial.at(&format!(".csi-nfs/snapshots/{}", NameKey::of("s")));
    let kinds = ["data", "links"].map(|kind| format!("{kind}.{}", copying.attempt));
    for name in &kinds {
        std::fs::rename(folder.join(name), trial.at(name)).unwrap();
    }
    let share = trial.share();
    let found = store::find::<Snapshot>(&share, NameKey::of("s"));
    let found = found.unwrap().unwrap();
    for name in &kinds {
        std::fs::rename(trial.at(name), folder.join(name)).unwrap();
    }
    let source = Source::Volume(origin(&volume));
    let make = || {
        let nothing = (|_: &_, _| Ok(()), |_: &OwnedFd| Ok(()));
        attempt::make(&share, &found, &source, None, &Progress::default(), nothing)
    };
    assert!(make().is_err(), "it may live");
    let_a_period_pass();
    assert!(make().unwrap().is_some());
    trial.check_snapshots();
    for name in &kinds {
        assert!(!folder.join(name).exists(), "{name}");
    }
}

/// Others have gone on while a process hung that had just claimed the copy, and have removed the generation after its own.
#[test]
fn who_has_claimed_a_copy_and_hung_since_takes_nothing_away() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    let hung = begun_elsewhere(&trial, &volume);
    let share = trial.share();
    let find = || store::find::<Snapshot>(&share, NameKey::of("s")).unwrap();
    let claimed = find().unwrap();
    let folder = trial.at(&format!(".csi-nfs/snapshots/{}", claimed.record.key()));
    let theirs = taken_over(&trial, &claimed);
    let attempt = theirs.extension().unwrap().to_str().unwrap().parse();
    let data = folder.join(format!("data.{}", hung.attempt));
    std::fs::create_dir(&data).unwrap();
    let take_away = || removal::discard_other_attempts(&share, &claimed, hung.attempt).unwrap();
    assert!(!take_away(), "the claim is lost");
    let found = find().unwrap();
    let given_back = found.record.with_copying(None);
    store::update(&share, &found, &given_back).unwrap();
    let found = find().unwrap();
    let filled = found.record.filled(attempt.unwrap(), None);
    store::update(&share, &found, &filled).unwrap();
    let next = format!("{}.{}", claimed.record.nonce, claimed.record.generation + 1);
    assert!(!folder.join(next).exists(), "it is pruned");
    assert!(!take_away());
    assert!(theirs.join("begun").exists() && data.exists());
}

/// Whose copy is moved away under his hands learns that from the copy, before the claim is due to be renewed.
#[test]
fn a_copy_that_fails_because_it_was_taken_over_withdraws_nothing() {
    const BEGUN: &str = "an entry is copied";
    // What is copied beside the entry that waits may be copied to the end, on a busy machine.
    let at = |cut: usize, files: u32| {
        let trial = Trial::new();
        let volume = full_volume(&trial, "v");
        for file in 0..files {
            std::fs::write(trial.at("v").join(file.to_string()), "").unwrap();
        }
        let gate = Arc::new(Gate::default());
        std::thread::scope(|scope| {
            let copying = scope.spawn(|| waiting(cut, &gate, || trial.snapshot("s", &volume)));
            let has_begun = gate.reached() == Some(BEGUN);
            if has_begun && files > 0 {
                let share = trial.share();
                let found = store::find::<Snapshot>(&share, NameKey::of("s")).unwrap();
                let theirs = taken_over(&trial, &found.unwrap());
                trash::purge(&share, &Default::default(), &mut Default::default()).unwrap();
                gate.open();
                let answer = copying.join().unwrap();
                assert!(
                    matches!(answer, Err(ShareError::CopiedElsewhere(_))),
                    "{answer:?}"
                );
                assert!(theirs.join("begun").exists());
            }
            gate.open();
            has_begun
        })
    };
    let cut = (0..).find(|cut| at(*cut, 0)).unwrap();
    assert!(at(cut, 3000));
}

#[test]
fn another_process_is_left_alone_while_its_heart_beats_and_not_longer() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    let copying = begun_elsewhere(&trial, &volume);
    let answer = trial.snapshot("s", &volume);
    assert!(
        matches!(answer, Err(ShareError::CopiedElsewhere(_))),
        "{answer:?}"
    );
    let folder = trial.at(&format!(".csi-nfs/snapshots/{}", NameKey::of("s")));
    let half = folder.join(format!("data.{}", copying.attempt));
    assert!(half.exists());
    let is_elsewhere = || {
        let answer = trial.snapshot("s", &volume);
        assert!(matches!(answer, Err(ShareError::CopiedElsewhere(_))));
    };
    // It gives a sign of life, whatever time it is on the server.
    let beat = folder.join(format!("beat.{}", copying.attempt));
    std::fs::write(&beat, "").unwrap();
    for seconds in [0, 1 << 33, 1] {
        let_a_period_pass();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(seconds);
        File::open(&beat).unwrap().set_modified(time).unwrap();
        is_elsewhere();
        is_elsewhere();
    }
    // And then no more.
    let_a_period_pass();
    trial.snapshot("s", &volume).unwrap();
    assert!(!half.exists());
    trial.check_snapshots();
}

/// One that was taken for dead comes back and finds that its copy is not wanted any more.
#[test]
fn who_comes_late_changes_nothing() {
    let trial = Trial::new();
    let volume = full_volume(&trial, "v");
    begun_elsewhere(&trial, &volume);
    let share = trial.share();
    let late = store::find::<Snapshot>(&share, NameKey::of("s"))
        .unwrap()
        .unwrap();
    assert!(trial.snapshot("s", &volume).is_err());
    let_a_period_pass();
    let made = trial.snapshot("s", &volume).unwrap();
    let next = late.record.filled(Nonce::random().unwrap(), None);
    assert!(matches!(
        store::update(&share, &late, &next),
        Ok(Claimed::Lost)
    ));
    assert_eq!(trial.snapshots(), [made]);
    trial.check_snapshots();
}

/// One share may be known at two addresses, of which one is dead.
#[test]
fn a_copy_that_hangs_in_this_process_is_taken_over_as_any_other() {
    const HUNG: &str = "the folder of the copy is made";
    let taken_over_at = |cut: usize| {
        let trial = Trial::new();
        let volume = full_volume(&trial, "v");
        let gate = Arc::new(Gate::default());
        std::thread::scope(|scope| {
            let copying = scope.spawn(|| waiting(cut, &gate, || trial.snapshot("s", &volume)));
            let hangs = gate.reached() == Some(HUNG);
            let answers = hangs.then(|| {
                let early = trial.snapshot("s", &volume);
                let_a_period_pass();
                (early, trial.snapshot("s", &volume))
            });
            gate.open();
            let late = copying.join().unwrap();
            if let Some((early, made)) = answers {
                assert!(
                    matches!(early, Err(ShareError::CopiedElsewhere(_))),
                    "{early:?}"
                );
                // Who has hung finds it made, and has changed nothing.
                assert_eq!(made.unwrap(), late.unwrap());
                trial.check_snapshots();
            }
            hangs
        })
    };
    assert!((0..100).any(taken_over_at));
}
