//! Purges of a trash: by several threads, over files held open, and cut short.

use super::*;
use crate::files::admission::{self, Admission};
use crate::share::database::Expect;
use std::fs::{File, create_dir_all, read_dir, write};
use std::task::{Context, Waker};

/// It only matters on failure.
const LONG: Duration = Duration::from_secs(600);
const UPKEEP: admission::Work = admission::Work::Upkeep;
const ALL: Purged = Purged::ButFor(0);

/// A share with one entry in its trash, of `folders` folders with 50 files in each.
fn with_entry(folders: usize) -> (tempfile::TempDir, Share) {
    // In memory where there is such a folder: thousands of files, and no disk that has to hold them.
    let dir = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir());
    let dir = dir.unwrap();
    for folder in 0..folders {
        let folder = dir.path().join(format!("volume/{}/{folder}", folder % 7));
        create_dir_all(&folder).unwrap();
        for file in 0..50 {
            write(folder.join(file.to_string()), "").unwrap();
        }
    }
    let root: std::sync::Arc<OwnedFd> = Arc::new(File::open(dir.path()).unwrap().into());
    let share = Share::open(Arc::clone(&root), Expect::Any).unwrap();
    assert!(discard(&share, &*root, "volume", promise(1000)).unwrap());
    (dir, share)
}

fn promise(bytes: i64) -> Promise {
    let nonce = Nonce::random().unwrap();
    Promise { nonce, bytes }
}

fn is_purged(dir: &tempfile::TempDir) -> bool {
    let trash = dir.path().join(".csi-nfs/trash");
    read_dir(trash).unwrap().next().is_none()
}

#[test]
fn several_purges_share_their_threads() {
    let admission = Admission::default();
    let threads = |number: usize| admission.extra_threads(["a", "b"][number % 2], UPKEEP);
    let shares: Vec<_> = (0..4).map(|_| with_entry(40)).collect();
    std::thread::scope(|scope| {
        let purges: Vec<_> = shares
            .iter()
            .enumerate()
            .map(|(number, (_, share))| {
                let threads = threads(number);
                scope.spawn(move || purge(share, &threads, &mut Tries::default()))
            })
            .collect();
        for purge in purges {
            assert_eq!(purge.join().unwrap().unwrap(), ALL);
        }
    });
    assert!(shares.iter().all(|(dir, _)| is_purged(dir)));
    // All were given back.
    let again = threads(0);
    assert_eq!(
        std::iter::from_fn(|| again.take())
            .collect::<Vec<_>>()
            .len(),
        7
    );
}

#[test]
fn a_purge_ends_when_others_wait() {
    let admission = Admission::default();
    let (dir, share) = with_entry(20);
    let threads = admission.extra_threads("a", UPKEEP);
    let mut context = Context::from_waker(Waker::noop());
    let mut enter = || {
        let mut entering = Box::pin(admission.enter("a", UPKEEP));
        let turn = entering.as_mut().poll(&mut context);
        (entering, turn)
    };
    let mut turns: Vec<_> = std::iter::repeat_with(&mut enter)
        .take_while(|(_, turn)| turn.is_ready())
        .collect();
    let waiting = enter();
    assert!(waiting.1.is_pending());
    let purged = || {
        let tries = &mut Tries::default();
        purge_for(&share, &threads, tries, Duration::ZERO, PASS).unwrap()
    };
    assert_eq!(purged(), Purged::InPart);
    assert!(!is_purged(&dir));
    drop((waiting, turns.pop()));
    assert_eq!(purged(), ALL);
    assert!(is_purged(&dir));
}

/// Its user has the deleted folder open, and writes new files faster than they are removed.
#[test]
fn a_folder_that_is_written_to_is_put_off() {
    // The purge may be the faster one.
    for _ in 0..1000 {
        let (dir, share) = with_entry(1);
        let entry = dir.path().join(".csi-nfs/trash/x.purge");
        create_dir_all(&entry).unwrap();
        let folder = Arc::new(File::open(&entry).unwrap());
        let (ended, end) = std::sync::mpsc::channel();
        let writers: Vec<_> = (0..4)
            .map(|writer| {
                let folder = Arc::clone(&folder);
                std::thread::spawn(move || {
                    let how = fs::OFlags::CREATE | fs::OFlags::WRONLY;
                    let write = |file: u32| {
                        let name = format!("{writer}-{file}");
                        fs::openat(&folder, name, how, Mode::RWXU).is_ok()
                    };
                    // Until the folder is gone, or the test has failed.
                    (0..)
                        .take_while(|file| write(*file))
                        .find(|_| Arc::strong_count(&folder) <= 4);
                })
            })
            .collect();
        std::thread::spawn(move || {
            let threads = Admission::default().extra_threads("a", UPKEEP);
            // Few names at a time: how long it takes is not a matter of how fast the others write.
            let purged = purge_for(&share, &threads, &mut Tries::default(), LONG, 4 * BATCH);
            let _ = ended.send(purged.unwrap());
        });
        let purged = end.recv_timeout(LONG).expect("an end of the purge");
        drop(folder);
        for writer in writers {
            writer.join().unwrap();
        }
        match purged {
            Purged::ButFor(1) => return,
            Purged::ButFor(0) => assert!(!entry.exists()),
            other => panic!("{other:?}"),
        }
    }
    panic!("the purge was faster each time");
}

#[test]
fn a_purge_goes_on_when_others_have_all_threads() {
    let admission = Admission::default();
    let others = admission.extra_threads("a", UPKEEP);
    let held: Vec<_> = std::iter::from_fn(|| others.take()).collect();
    let threads = admission.extra_threads("a", UPKEEP);
    assert!(threads.take().is_none());
    let (dir, share) = with_entry(20);
    assert_eq!(purge(&share, &threads, &mut Tries::default()).unwrap(), ALL);
    assert!(is_purged(&dir));
    drop(held);
    assert!(threads.take().is_some());
}

#[test]
fn an_entry_says_what_was_promised() {
    let promise = promise(1 << 40);
    let named = |promise| CString::new(entry_of(promise).unwrap()).unwrap();
    assert_eq!(promise_of(&named(Some(promise))), Some(promise));
    let none = Promise::none(promise.nonce);
    for silent in [named(Some(none)), named(None)] {
        assert_eq!(promise_of(&silent), None, "{silent:?}");
    }
    let (nonce, random) = (promise.nonce, Nonce::random().unwrap());
    for foreign in [
        format!("{nonce}-{random}-5"),
        format!("{nonce}-{random}-0.purge"),
        format!("{nonce}-{random}-05.purge"),
        format!("{nonce}-{random}-+5.purge"),
        format!("{nonce}-{random}--5.purge"),
        format!("{nonce}-{random}-5-5.purge"),
        format!("{nonce}-5.purge"),
        format!("x-{random}-5.purge"),
        "5.purge".to_owned(),
        ".purge".to_owned(),
    ] {
        let name = CString::new(foreign).unwrap();
        assert_eq!(promise_of(&name), None, "{name:?}");
    }
    assert_eq!(promise_of(c"\xff-x-5.purge"), None);
}

#[test]
fn a_part_of_an_entry_keeps_its_promise() {
    let (dir, share) = with_entry(1);
    let known = promises(&share).unwrap();
    assert_eq!(known.len(), 1);
    let name = entries(&share).unwrap().remove(0);
    let entry = OpenEntry {
        folder: beneath::folder(&share.trash, name.to_str().unwrap()).unwrap(),
        promise: promise_of(&name),
        name: name.clone(),
        read: AtomicUsize::new(0),
    };
    let threads = ExtraThreads::default();
    let purger = Purger::new(&share, &threads, Instant::now(), PASS, Vec::new());
    purger.raise(&entry, c"0").unwrap();
    drop(purger);
    fs::unlinkat(&share.trash, &*name, AtFlags::REMOVEDIR).unwrap();
    assert_eq!(promises(&share).unwrap(), known);
    assert_eq!(purge(&share, &threads, &mut Tries::default()).unwrap(), ALL);
    assert!(promises(&share).unwrap().is_empty() && is_purged(&dir));
}
