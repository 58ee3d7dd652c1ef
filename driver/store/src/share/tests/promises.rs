//! What is promised, at each step of the life of volumes and snapshots, and in the memory of one controller beside another.

use super::copies::full_volume;
use super::*;
use crate::export::Export;
use crate::files::crash_points::{Gate, waiting};
use crate::share::promise_memory::Counting;
use crate::share::promised;
use crate::share::records::promise::Ratio;

const GIB: u64 = 1 << 30;

impl Trial {
    fn size(&self) -> u64 {
        promised::size_of(self.share().root()).unwrap()
    }

    /// What is promised, for who comes to the share now.
    fn promised(&self) -> u64 {
        let ratio = Ratio::parse("1000").unwrap();
        let size = self.size();
        ratio.of(size) - promised::left(&self.share(), ratio).unwrap()
    }

    fn purge(&self) {
        trash::purge(&self.share(), &Default::default(), &mut Default::default()).unwrap();
    }
}

/// A volume of so many bytes, of a file system that may be promised once.
fn bound(name: &str, bytes: u64) -> Wanted {
    Wanted {
        required_bytes: i64::try_from(bytes).unwrap(),
        overcommit: Ratio::parse("1"),
        ..wanted(name, "")
    }
}

#[test]
fn a_volume_counts_from_its_record_until_it_is_purged() {
    for policy in [OnDelete::Delete, OnDelete::Retain, OnDelete::Archive] {
        for sub_dir in ["team/v", ""] {
            let volume = Wanted {
                on_delete: policy,
                ..wanted("v", sub_dir)
            };
            at_each_step(
                7,
                |_| (),
                |trial, ()| trial.create(&volume).map(drop),
                |trial, ()| assert_eq!(trial.promised(), trial.records().len() as u64 * GIB),
            );
            at_each_step(
                5,
                |trial| {
                    let record = trial.create(&volume).unwrap();
                    let folder = trial.at(&record.what.path.to_string());
                    std::fs::create_dir_all(folder.join("a/b/c")).unwrap();
                    record
                },
                |trial, record| trial.delete(record),
                |trial, record| {
                    let is_kept = policy != OnDelete::Delete && trial.records().is_empty();
                    assert_eq!(trial.promised(), if is_kept { 0 } else { GIB });
                    trial.delete(record).unwrap();
                    trial.purge();
                    assert_eq!(trial.promised(), 0);
                },
            );
        }
    }
}

#[test]
fn a_copy_that_is_begun_again_counts_once() {
    at_each_step(
        12,
        |trial| full_volume(trial, "v"),
        |trial, volume| trial.snapshot("s", volume).map(drop),
        |trial, volume| {
            let begun = store::keys::<Snapshot>(&trial.share()).unwrap().len();
            assert_eq!(trial.promised(), (1 + begun as u64) * GIB);
            let snapshot = trial.snapshot("s", volume).unwrap();
            assert_eq!(trial.promised(), 2 * GIB);
            life::delete::<Snapshot>(&trial.share(), snapshot.key(), snapshot.nonce).unwrap();
            assert_eq!(trial.promised(), 2 * GIB, "it is in the trash");
            trial.purge();
            assert_eq!(trial.promised(), GIB);
        },
    );
}

#[test]
fn a_repeat_counts_nothing_twice() {
    at_each_step(
        7,
        |trial| (bound("v", trial.size()), Counting::default()),
        |trial, (volume, counting)| {
            let share = trial.share().counting(counting.clone());
            life::create(&share, volume, "s:/a", &Progress::default()).map(|_: Record<Volume>| ())
        },
        |trial, (volume, counting)| {
            for counting in [counting.clone(), Counting::default()] {
                let share = trial.share().counting(counting);
                let create = |volume: &Wanted| {
                    let made = life::create(&share, volume, "s:/a", &Progress::default());
                    made.map(|_: Record<Volume>| ())
                };
                create(volume).unwrap();
                create(&bound("none", 0)).unwrap();
                let refused = create(&bound("w", 1)).unwrap_err();
                assert!(
                    matches!(refused, ShareError::Overcommitted(_)),
                    "{refused:?}"
                );
            }
            assert_eq!(trial.promised(), trial.size());
        },
    );
}

#[test]
fn an_expansion_counts_what_it_adds() {
    let expand = |trial: &Trial, record: &Record<Volume>, counting: &Counting, bytes: u64| {
        let share = trial.share().counting(counting.clone());
        let bytes = i64::try_from(bytes).unwrap();
        change::expand(&share, record.key(), record.nonce, bytes, 0).map(drop)
    };
    at_each_step(
        2,
        |trial| {
            let record = trial.create(&bound("v", trial.size() / 2)).unwrap();
            (record, Counting::default())
        },
        |trial, (record, counting)| expand(trial, record, counting, trial.size()),
        |trial, (record, counting)| {
            let refused = expand(trial, record, counting, trial.size() + 1).unwrap_err();
            assert!(matches!(refused, ShareError::CannotGrow(_)), "{refused:?}");
            expand(trial, record, counting, trial.size()).unwrap();
            assert_eq!(trial.promised(), trial.size());
        },
    );
}

#[test]
fn what_others_have_deleted_is_seen_before_a_refusal() {
    let trial = Trial::new();
    let half = bound("a", trial.size() / 2);
    let share = trial.share().counting(Counting::default());
    let create = |name: &str| {
        let wanted = Wanted {
            name: name.to_owned(),
            ..half.clone()
        };
        life::create(&share, &wanted, "s:/a", &Progress::default())
    };
    let first: Record<Volume> = create("a").unwrap();
    create("b").unwrap();
    create("c").unwrap_err();
    trial.delete(&first).unwrap();
    // It is in the trash.
    create("c").unwrap_err();
    trial.purge();
    create("c").unwrap();
    create("d").unwrap_err();
}

/// Opens a gate, also where the test has failed meanwhile.
struct Opening<'a>(&'a Gate);

impl Drop for Opening<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

#[test]
fn who_lists_at_one_address_keeps_nobody_waiting_at_another() {
    let trial = Trial::new();
    let ratio = Ratio::parse("1").unwrap();
    let half = trial.size() / 2;
    // Two addresses, one memory: turns are told apart by address.
    let memory = Arc::default();
    let [here, there] = ["a", "b"].map(|server| {
        let address = Export::parse(server, "/nfs").unwrap();
        Counting::at(&address, &memory, ExtraThreads::default())
    });
    let create = |counting: &Counting, wanted: &Wanted| -> Result<Record<Volume>, ShareError> {
        let share = trial.share().counting(counting.clone());
        life::create(&share, wanted, "s:/a", &Progress::default())
    };
    // While a server hangs that has listed the records, and not the trash yet.
    let while_listing = |work: &dyn Fn()| {
        let gate = Arc::new(Gate::default());
        std::thread::scope(|scope| {
            let left = scope.spawn(|| {
                let share = trial.share().counting(there.clone());
                waiting(0, &gate, || promised::left(&share, ratio).unwrap())
            });
            let opening = Opening(&gate);
            assert_eq!(gate.reached(), Some("the records are listed"));
            let memory = here.memory.of(trial.share().uuid());
            assert!(memory.try_lock().is_ok(), "a listing holds the lock");
            work();
            drop(opening);
            left.join().unwrap()
        })
    };
    // What that listing has not seen counts, whether it was made with a bound or without.
    let free = Wanted {
        overcommit: None,
        ..bound("free", half)
    };
    let left = while_listing(&|| drop(create(&here, &free).unwrap()));
    assert_eq!(left, trial.size() - half);
    let left = while_listing(&|| {
        create(&here, &bound("rest", left)).unwrap();
        create(&here, &bound("more", 1)).unwrap_err();
    });
    assert_eq!(left, 0);
    for counting in [&here, &there] {
        create(counting, &bound("more", 1)).unwrap_err();
    }
}
