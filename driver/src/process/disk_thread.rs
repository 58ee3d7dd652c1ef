//! File system calls off the thread that serves all calls of the driver: each of them hangs where its disk does, as a suspended one.
//! Owns the bound on the threads that hang, and how long they are waited for. Must not know what is done on the disk.

use csi_proto::lock::lock;
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::runtime::Handle;
use tokio::sync::{OwnedMutexGuard, Semaphore};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, timeout, timeout_at};

/// How long one piece of work may take: it is done on the node's own disks, so only a fault takes longer.
pub const BOUND: Duration = Duration::from_secs(5);

/// After how long a piece of work is told as the reason why a call does not end.
const SLOW: Duration = Duration::from_secs(1);

/// The most threads of one [`DiskThreads`].
const MOST: usize = 64;

/// One thread for what lies in one place. Pieces of work are done one after the other, in the order in which they were asked for, so
/// that one which hangs holds no second thread, and is not overtaken by a later one. Cheap to clone; the clones are one.
#[derive(Clone, Debug, Default)]
pub struct DiskThread {
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Since when the work goes on that has its turn.
    since: Arc<Mutex<Option<Instant>>>,
}

/// The right to work, until this is dropped. It goes with the work to its thread.
#[derive(Debug)]
struct Turn {
    since: Arc<Mutex<Option<Instant>>>,
    _turn: OwnedMutexGuard<()>,
}

impl Drop for Turn {
    fn drop(&mut self) {
        *lock(&self.since) = None;
    }
}

impl DiskThread {
    /// Does `work`, which may hang. It goes on when its caller gives up.
    ///
    /// # Errors
    /// Those of `work`; `TimedOut` when it, or what was asked for before it, does not end in time.
    pub async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        work_on(self.turn().await?, work).await
    }

    /// Drops `file` behind all that was asked for before: to close a file may hang as well.
    pub fn close(&self, file: impl Send + 'static) {
        let this = self.clone();
        let Ok(runtime) = Handle::try_current() else {
            return drop_aside(file);
        };
        runtime.spawn(async move {
            let Ok(turn) = this.turn().await else {
                return drop_aside(file);
            };
            let closing = move || {
                drop(file);
                Ok(())
            };
            // What hangs goes on.
            let _ = work_on(turn, closing).await;
        });
    }

    /// Why a call does not end that waits for this thread, where the work that has its turn is the reason.
    pub fn holdup(&self) -> Option<io::Error> {
        let since = (*lock(&self.since))?;
        (since.elapsed() >= SLOW).then(|| no_answer(since.elapsed()))
    }

    /// Waits as long as the work before this one goes on: many callers do not make a disk one that hangs.
    async fn turn(&self) -> io::Result<Turn> {
        let mut waiting = Box::pin(Arc::clone(&self.turn).lock_owned());
        let turn = loop {
            let since = lock(&self.since).unwrap_or_else(Instant::now);
            match timeout_at(since + BOUND, &mut waiting).await {
                Ok(turn) => break turn,
                Err(_) if *lock(&self.since) == Some(since) => {
                    return Err(no_answer(since.elapsed()));
                }
                Err(_) => {}
            }
        };
        *lock(&self.since) = Some(Instant::now());
        Ok(Turn {
            since: Arc::clone(&self.since),
            _turn: turn,
        })
    }

    fn is_used(&self) -> bool {
        Arc::strong_count(&self.turn) > 1
    }
}

/// Threads for what lies in many places, by their paths: one that hangs keeps no other waiting, as long as there are not many.
#[derive(Debug)]
pub struct DiskThreads {
    free: Arc<Semaphore>,
    used: Mutex<HashMap<PathBuf, DiskThread>>,
}

impl Default for DiskThreads {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(MOST)),
            used: Mutex::default(),
        }
    }
}

impl DiskThreads {
    /// Does `work` at `path`, as [`DiskThread::run`] does.
    ///
    /// # Errors
    /// As there; `TimedOut` also when work in many other places hangs.
    pub async fn run<T: Send + 'static>(
        &self,
        path: &Path,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let turn = self.at(path).turn().await?;
        let free = timeout(BOUND, Arc::clone(&self.free).acquire_owned()).await;
        let crowded = || {
            let words =
                format!("disks hang at {MOST} other places, and no more is begun meanwhile");
            io::Error::new(io::ErrorKind::TimedOut, words)
        };
        let free = free.map_err(|_| crowded())?.map_err(io::Error::other)?;
        let freeing = move || {
            let done = work();
            drop(free);
            done
        };
        work_on(turn, freeing).await
    }

    fn at(&self, path: &Path) -> DiskThread {
        let mut used = lock(&self.used);
        used.retain(|_, thread| thread.is_used());
        used.entry(path.to_owned()).or_default().clone()
    }
}

async fn work_on<T: Send + 'static>(
    turn: Turn,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let working = spawn_blocking(move || {
        let done = work();
        drop(turn);
        done
    });
    match timeout(BOUND, working).await {
        Ok(done) => done.map_err(io::Error::other)?,
        Err(_) => Err(no_answer(BOUND)),
    }
}

/// Drops, in a thread of its own, what may wait at its end: for a disk, or for the server of what is unmounted by that.
pub fn drop_aside(file: impl Send + 'static) {
    // Without a thread it is dropped here.
    let _ = std::thread::Builder::new().spawn(move || drop(file));
}

fn no_answer(after: Duration) -> io::Error {
    let words = format!("no answer from the disk for {after:.1?}");
    io::Error::new(io::ErrorKind::TimedOut, words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    /// Work that hangs until the sender is dropped, and then adds to `done`.
    fn hanging(
        done: &Arc<Mutex<Vec<u32>>>,
    ) -> (
        mpsc::Sender<()>,
        impl FnOnce() -> io::Result<()> + Send + 'static,
    ) {
        let (release, released) = mpsc::channel();
        let done = Arc::clone(done);
        let work = move || {
            let _ = released.recv();
            lock(&done).push(0);
            Ok(())
        };
        (release, work)
    }

    #[tokio::test]
    async fn what_hangs_holds_one_thread_and_is_not_overtaken() {
        let (thread, done) = (DiskThread::default(), Arc::<Mutex<Vec<u32>>>::default());
        let push = |number| {
            let done = Arc::clone(&done);
            thread.run(move || {
                lock(&done).push(number);
                Ok(())
            })
        };
        let (release, work) = hanging(&done);
        let (first, second) = tokio::join!(thread.run(work), push(1));
        for error in [first.unwrap_err(), second.unwrap_err()] {
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{error}");
        }
        // From then on nobody waits.
        for number in [2, 3] {
            let mut asking = std::pin::pin!(push(number));
            let mut context = std::task::Context::from_waker(std::task::Waker::noop());
            let asked = asking.as_mut().poll(&mut context);
            assert!(matches!(asked, std::task::Poll::Ready(Err(_))));
        }
        assert!(thread.holdup().is_some());
        drop(release);
        // It comes after the work that hung, and those that were refused have not been done.
        while push(4).await.is_err() {}
        assert!(thread.holdup().is_none());
        // One that was done too late for its caller was asked for again.
        lock(&done).dedup();
        assert_eq!(*lock(&done), [0, 4]);
    }

    #[tokio::test]
    async fn what_waits_behind_many_is_not_refused_because_of_them() {
        let thread = DiskThread::default();
        let short = async |thread: DiskThread| {
            let sleeping = || {
                std::thread::sleep(BOUND / 20);
                Ok(())
            };
            thread.run(sleeping).await
        };
        let all: Vec<_> = (0..25)
            .map(|_| tokio::spawn(short(thread.clone())))
            .collect();
        for done in all {
            done.await.unwrap().unwrap();
        }
    }

    #[tokio::test]
    async fn a_place_that_hangs_keeps_no_other_waiting() {
        let (threads, done) = (DiskThreads::default(), Arc::default());
        let (release, work) = hanging(&done);
        let hung = threads.run(Path::new("/hangs"), work).await;
        assert_eq!(hung.unwrap_err().kind(), io::ErrorKind::TimedOut);
        assert!(threads.run(Path::new("/hangs"), || Ok(())).await.is_err());
        threads.run(Path::new("/other"), || Ok(())).await.unwrap();
        assert_eq!(threads.free.available_permits(), MOST - 1);
        drop(release);
        while threads.run(Path::new("/hangs"), || Ok(())).await.is_err() {}
        assert_eq!(lock(&threads.used).len(), 1);
    }

    #[tokio::test]
    async fn many_places_that_hang_are_not_said_to_be_another_ones_disk() {
        let threads = DiskThreads::default();
        let _hang = threads.free.acquire_many(MOST as u32).await.unwrap();
        let error = threads.run(Path::new("/sound"), || Ok(())).await;
        let error = error.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(error.to_string().contains("64 other places"), "{error}");
    }
}
