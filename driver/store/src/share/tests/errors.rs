//! Errors of the file system at each step of a copy: what may pass is left to a retry, what lasts leaves nothing behind.

use super::copies::{assert_full, copy_of, full_volume, origin};
use super::*;
use crate::files::crash_points::{failing, is_past};
use crate::share::records::origin::Source;
use crate::share::records::snapshot::Snapshot;
use crate::share::records::volume::Changes;
use rustix::io::Errno;
use std::os::unix::fs::PermissionsExt as _;

const PASSING: [Errno; 3] = [Errno::IO, Errno::TIMEDOUT, Errno::STALE];
const LASTING: [Errno; 3] = [Errno::NOSPC, Errno::ACCESS, Errno::ROFS];

/// After these nothing fails any more: all that follows is said to be unfinished, or of no account.
const LAST: [&str; 2] = ["the record is published", "the copy is on record"];

/// Lets `work` meet `errno` at each of its steps in turn, on a trial made by `before`, and looks at what follows with `after`.
fn at_each_step<B, T>(
    errno: Errno,
    before: impl Fn(&Trial) -> B,
    work: impl Fn(&Trial, &B) -> Result<T, ShareError>,
    after: impl Fn(&Trial, &B, Result<T, ShareError>),
) {
    let mut failed = 0;
    for count in 0.. {
        let trial = Trial::in_memory();
        let made = before(&trial);
        let (answer, met) = failing(count, errno, || (work(&trial, &made), is_past()));
        failed += usize::from(answer.is_err());
        if !matches!(&answer, Err(ShareError::Io { context, .. }) if LAST.contains(&&**context)) {
            after(&trial, &made, answer);
        }
        if !met {
            break;
        }
    }
    // Who meets ESTALE looks again at once.
    assert!(
        failed > if errno == Errno::STALE { 2 } else { 8 },
        "only {failed} steps"
    );
}

fn stopped() -> Progress {
    let progress = Progress::default();
    progress.stop();
    progress
}

/// The records of volumes that have a source.
fn copies_among(trial: &Trial) -> Vec<Record<Volume>> {
    let mut records = trial.records();
    records.retain(|record| record.what.wanted.source.is_some());
    records
}

/// A volume, and a snapshot of it that was begun by a controller which has stopped since.
fn begun(trial: &Trial) -> (Record<Volume>, Record<Snapshot>) {
    let volume = full_volume(trial, "v");
    let answer = trial.snapshot_of("s", origin(&volume), &stopped());
    assert!(matches!(answer, Err(ShareError::Copy(_))), "{answer:?}");
    let [snapshot] = trial.snapshots().try_into().unwrap();
    (volume, snapshot)
}

#[test]
fn an_error_that_may_pass_leaves_a_snapshot_to_a_retry() {
    for errno in PASSING {
        at_each_step(
            errno,
            begun,
            |trial, (volume, _)| trial.snapshot("s", volume),
            |trial, (volume, snapshot), answer| {
                if let Err(error) = answer {
                    assert!(matches!(error, ShareError::Unfinished { .. }), "{error}");
                }
                assert_eq!(trial.snapshots()[0].nonce, snapshot.nonce);
                let made = trial.snapshot("s", volume).unwrap();
                assert_eq!(made.nonce, snapshot.nonce);
                trial.check_snapshots();
            },
        );
    }
}

#[test]
fn an_error_that_may_pass_leaves_a_volume_to_a_retry() {
    for errno in PASSING {
        at_each_step(
            errno,
            |trial| {
                let wanted = copy_of(Source::Volume(origin(&full_volume(trial, "v"))));
                let answer = life::create::<Volume>(&trial.share(), &wanted, "s:/a", &stopped());
                assert!(matches!(answer, Err(ShareError::Copy(_))), "{answer:?}");
                (copies_among(trial).remove(0), wanted)
            },
            |trial, (_, wanted)| trial.create(wanted),
            |trial, (copy, wanted), answer| {
                if let Err(error) = answer {
                    assert!(matches!(error, ShareError::Unfinished { .. }), "{error}");
                }
                assert_eq!(copies_among(trial)[0].nonce, copy.nonce);
                assert_eq!(trial.create(wanted).unwrap().nonce, copy.nonce);
                assert_full(&trial.at("team/copy"));
                trial.check_snapshots();
            },
        );
    }
}

#[test]
fn an_error_that_lasts_leaves_nothing_or_wants_a_retry() {
    for errno in LASTING {
        at_each_step(
            errno,
            begun,
            |trial, (volume, _)| trial.snapshot("s", volume),
            |trial, (volume, snapshot), answer| {
                let left = trial.snapshots();
                match answer {
                    Ok(_) | Err(ShareError::Unfinished { .. }) => {
                        assert_eq!(left[0].nonce, snapshot.nonce);
                    }
                    Err(error) => assert_eq!(left, [], "{error}"),
                }
                trial.snapshot("s", volume).unwrap();
                trial.check_snapshots();
            },
        );
        at_each_step(
            errno,
            |trial| copy_of(Source::Volume(origin(&full_volume(trial, "v")))),
            |trial, wanted| trial.create(wanted),
            |trial, wanted, answer| {
                let left = copies_among(trial).len();
                match answer {
                    Ok(_) | Err(ShareError::Unfinished { .. }) => assert_eq!(left, 1),
                    Err(error) => assert_eq!(left, 0, "{error}"),
                }
                trial.create(wanted).unwrap();
                assert_full(&trial.at("team/copy"));
                trial.check_snapshots();
            },
        );
    }
}

#[test]
fn a_folder_that_was_changed_is_never_said_to_be_as_it_was() {
    let changes = Changes {
        mode: Some(0o700),
        ..Changes::default()
    };
    let mut changed = 0;
    for count in 0.. {
        let trial = Trial::in_memory();
        let volume = trial.create(&wanted("v", "v")).unwrap();
        let modify = || change::modify(&trial.share(), volume.key(), volume.nonce, &changes);
        let (answer, met) = failing(count, Errno::NOSPC, || (modify(), is_past()));
        let mode = std::fs::metadata(trial.at("v")).unwrap().permissions();
        if let Err(error) = answer
            && mode.mode() & 0o777 == 0o700
        {
            assert!(matches!(error, ShareError::Unfinished { .. }), "{error}");
            changed += 1;
        }
        modify().unwrap();
        if !met {
            break;
        }
    }
    assert!(changed > 0);
}
