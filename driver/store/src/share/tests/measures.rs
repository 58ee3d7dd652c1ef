//! Measures are written whole, and go with their volumes.

use super::interleaved::{Operation, interleave};
use super::*;
use crate::share::measures::{self, Measure, Round};
use std::os::unix::fs::MetadataExt;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

const HOUR: Duration = Duration::from_secs(3600);
const ALWAYS: Duration = Duration::ZERO;

/// A volume with 30 files.
fn filled(trial: &Trial) -> Record<Volume> {
    let record = trial.create(&wanted("v", "team/v")).unwrap();
    for number in 0..30 {
        std::fs::write(trial.at("team/v").join(number.to_string()), [7; 5000]).unwrap();
    }
    record
}

fn begin(trial: &Trial, interval: Duration) -> Round {
    Round::begin(&trial.share(), interval).unwrap()
}

/// Goes on to the end. Returns how many were measured.
fn finish(trial: &Trial, mut round: Round) -> Result<usize, ShareError> {
    let measured = AtomicUsize::new(0);
    let tell = |what: &str| {
        measured.fetch_add(usize::from(what.starts_with("measured")), Ordering::Relaxed);
    };
    while round.go_on(&trial.share(), 7, tell) == 7 {}
    round.trouble.map_or(Ok(measured.into_inner()), Err)
}

/// Measures what is due. Returns how many were.
fn measure(trial: &Trial, interval: Duration) -> Result<usize, ShareError> {
    finish(trial, Round::begin(&trial.share(), interval)?)
}

fn kept(trial: &Trial, record: &Record<Volume>) -> Option<Measure> {
    let found = store::find::<Volume>(&trial.share(), record.key()).unwrap();
    measures::of(&found.unwrap())
}

fn is_right(trial: &Trial, measure: &Measure) {
    let entries = std::fs::read_dir(trial.at("team/v")).unwrap();
    let blocks = entries.map(|entry| entry.unwrap().metadata().unwrap().blocks());
    let own = trial.at("team/v").metadata().unwrap().blocks();
    assert_eq!(measure.bytes, (own + blocks.sum::<u64>()) * 512);
    assert_eq!((measure.files, measure.folders), (30, 1));
    assert_eq!(measure.short, None);
}

/// Makes what the dead have left in the drafts old enough to be swept.
fn age_drafts(trial: &Trial) {
    let old = SystemTime::now() - HOUR;
    for name in trial.files(".csi-nfs/drafts") {
        let draft = File::open(trial.at(".csi-nfs/drafts").join(name)).unwrap();
        draft.set_modified(old).unwrap();
    }
}

/// Deletes a volume, and clears up after all that have died.
fn nothing_stays_of(trial: &Trial, record: &Record<Volume>) {
    trial.delete(record).unwrap();
    age_drafts(trial);
    trial.recover();
    trial.check();
    trial.is_without(record);
}

#[test]
fn a_crash_leaves_the_last_measure_or_the_new_one() {
    at_each_step(
        2,
        |trial| {
            let record = filled(trial);
            assert_eq!(measure(trial, ALWAYS).unwrap(), 1);
            std::fs::write(trial.at("team/v/0"), [7; 50_000]).unwrap();
            record
        },
        |trial, _| measure(trial, ALWAYS).map(drop),
        |trial, record| {
            let left = kept(trial, record).unwrap();
            assert_eq!((left.files, left.folders), (30, 1));
            assert_eq!(measure(trial, ALWAYS).unwrap(), 1);
            is_right(trial, &kept(trial, record).unwrap());
            trial.check();
            nothing_stays_of(trial, record);
        },
    );
}

#[test]
fn a_crash_in_a_deletion_leaves_no_measure() {
    at_each_step(
        6,
        |trial| {
            let record = filled(trial);
            assert_eq!(measure(trial, ALWAYS).unwrap(), 1);
            record
        },
        |trial, record| trial.delete(record),
        nothing_stays_of,
    );
}

/// Its deletion is not heard of again, so nobody else takes the measure away.
#[test]
fn a_measure_that_comes_too_late_goes_again() {
    let late = AtomicUsize::new(0);
    at_each_step(
        6,
        |trial| {
            let record = filled(trial);
            let mut round = begin(trial, ALWAYS);
            // Its record, and all that is in it.
            assert_eq!(round.go_on(&trial.share(), 31, |_| ()), 31);
            (record, Mutex::new(Some(round)))
        },
        |trial, (record, _)| trial.delete(record),
        |trial, (record, measuring)| {
            let is_gone = trial.records().is_empty();
            let folder = trial.at(&format!(".csi-nfs/volumes/{}", record.key()));
            late.fetch_add(usize::from(is_gone && folder.exists()), Ordering::Relaxed);
            let round = measuring.lock().unwrap().take().unwrap();
            assert_eq!(finish(trial, round).unwrap(), usize::from(!is_gone));
            assert_eq!(folder.exists(), !is_gone);
            trial.delete(record).unwrap();
            age_drafts(trial);
            trial.recover();
            trial.is_without(record);
        },
    );
    assert!(
        late.into_inner() > 0,
        "no record was gone, and its folder not"
    );
}

#[test]
fn a_measure_beside_a_deletion_or_another_one() {
    let measure = |trial: &Trial, _: &Record<Volume>| drop(measure(trial, ALWAYS));
    let delete = |trial: &Trial, record: &Record<Volume>| drop(trial.delete(record));
    let delete_and_create = |trial: &Trial, record: &Record<Volume>| {
        let _ = trial.delete(record);
        let _ = trial.create(&record.what.wanted);
    };
    let expand_twice = |trial: &Trial, record: &Record<Volume>| {
        for size in [2 << 30, 3 << 30] {
            let _ = change::expand(&trial.share(), record.key(), record.nonce, size, 0);
        }
    };
    let operations: [[Operation<'_, Record<Volume>>; 2]; 6] = [
        [&measure, &measure],
        [&measure, &delete],
        [&delete, &measure],
        [&measure, &delete_and_create],
        [&delete_and_create, &measure],
        [&measure, &expand_twice],
    ];
    for operations in operations {
        interleave(6, false, filled, operations, |trial, record| {
            for volume in trial.records() {
                if volume.nonce != record.nonce {
                    // It has no files, and no measure of the one before.
                    assert!(kept(trial, &volume).is_none_or(|it| it.files == 0));
                }
                trial.delete(&volume).unwrap();
            }
            trial.is_without(record);
            trial.check();
        });
    }
}

#[test]
fn a_young_measure_is_left_and_the_later_one_stays() {
    let trial = Trial::new();
    let record = filled(&trial);
    // Two that have begun before there was one both end.
    let mut rounds = [begin(&trial, HOUR), begin(&trial, HOUR)];
    for round in &mut rounds {
        assert_eq!(round.go_on(&trial.share(), 2, |_| ()), 2);
    }
    for round in rounds {
        assert_eq!(finish(&trial, round).unwrap(), 1);
        is_right(&trial, &kept(&trial, &record).unwrap());
    }
    assert_eq!(measure(&trial, HOUR).unwrap(), 0);
    assert_eq!(measure(&trial, ALWAYS).unwrap(), 1);
    assert_eq!(trial.files(".csi-nfs/drafts"), BTreeSet::new());
}

#[test]
fn a_measure_that_cannot_be_read_is_none() {
    let trial = Trial::new();
    let record = filled(&trial);
    assert_eq!(measure(&trial, ALWAYS).unwrap(), 1);
    let path = format!(".csi-nfs/volumes/{}/measure.{}", record.key(), record.nonce);
    let whole = std::fs::read(trial.at(&path)).unwrap();
    assert_eq!(measure(&trial, HOUR).unwrap(), 0);
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
    damaged.push(vec![0; whole.len()]);
    damaged.push(vec![b' '; 1 << 20]);
    damaged.push(
        String::from_utf8(whole.clone())
            .unwrap()
            .replace("\"format\":2", "\"format\":3")
            .into_bytes(),
    );
    for content in damaged {
        std::fs::write(trial.at(&path), &content).unwrap();
        assert_eq!(kept(&trial, &record), None, "{content:?}");
        assert_eq!(measure(&trial, HOUR).unwrap(), 1);
    }
    std::fs::remove_file(trial.at(&path)).unwrap();
    std::fs::create_dir(trial.at(&path)).unwrap();
    assert_eq!(kept(&trial, &record), None);
}

#[test]
fn what_is_held_to_its_size_or_not_ready_is_not_measured() {
    use crate::share::records::size::Size;
    let trial = Trial::new();
    let record = filled(&trial);
    assert_eq!(measure(&trial, ALWAYS).unwrap(), 1);
    let share = trial.share();
    let found = store::find::<Volume>(&share, record.key())
        .unwrap()
        .unwrap();
    let mut next = found.record.next();
    next.what.size = Some(Size::Enforced { project: Some(7) });
    assert!(matches!(
        store::update(&share, &found, &next).unwrap(),
        Claimed::Won
    ));
    assert_eq!(measure(&trial, ALWAYS).unwrap(), 0);
    assert_eq!(kept(&trial, &record), None);
    trial.delete(&record).unwrap();
    assert_eq!(measure(&trial, ALWAYS).unwrap(), 0);
    assert_eq!(trial.files(".csi-nfs/drafts"), BTreeSet::new());
    trial.is_without(&record);
}

/// A controller that knows no measures leaves one behind, with the folder of the record.
#[test]
fn a_measure_that_was_left_is_in_nobodys_way() {
    for recovers in [true, false] {
        let trial = Trial::new();
        let record = filled(&trial);
        assert_eq!(measure(&trial, ALWAYS).unwrap(), 1);
        let folder = format!(".csi-nfs/volumes/{}", record.key());
        let name = format!("measure.{}", record.nonce);
        trial.delete(&record).unwrap();
        std::fs::create_dir(trial.at(&folder)).unwrap();
        std::fs::write(trial.at(&folder).join(&name), "{}").unwrap();
        assert_eq!(trial.records(), Vec::new());
        if recovers {
            trial.recover();
            trial.is_without(&record);
        } else {
            let next = filled(&trial);
            assert!(!trial.files(&folder).contains(&name));
            assert_eq!(kept(&trial, &next), None);
        }
        trial.check();
    }
}
