//! How long a test waits for what must happen: as long as anything moves.
//!
//! A clock would decide by how busy the machine is. So a wait looks now and then whether anybody wants a processor or a disk. It
//! gives up after many looks that found all at rest, or after half an hour of others.

#![allow(dead_code)] // Every test program uses a part of it.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Between two looks, at least.
pub const BETWEEN: Duration = Duration::from_secs(1);

/// What a thread has found out is true for so long.
const MOMENT: Duration = Duration::from_millis(50);

/// A wait is given up when all was at rest for so long: longer than the programs themselves wait before they try again. It only
/// matters on failure.
pub const PATIENCE: Duration = Duration::from_secs(90);

/// A wait in which somebody was busy so often, half an hour at least, is for what never ends.
const BUSY_LOOKS: u32 = 1800;

/// Between two questions whether it has happened, where no event tells: at first, and at most. Who asks for long asks seldom.
const FIRST_PAUSE: Duration = Duration::from_millis(4);
const LAST_PAUSE: Duration = Duration::from_millis(200);

/// The patience of one wait.
pub struct Patience {
    /// So many looks that find all at rest are left.
    left: u32,
    /// And so many that find somebody busy: what spins for ever is given up as well.
    left_busy: u32,
    looked: Instant,
    /// What this thread had wanted of the processors then.
    wanted: Duration,
    pause: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self::of(PATIENCE)
    }
}

impl Patience {
    /// One that ends when all was at rest for so long.
    pub fn of(rest: Duration) -> Self {
        let looks = rest.as_secs() / BETWEEN.as_secs();
        Self {
            left: u32::try_from(looks).unwrap_or(u32::MAX),
            left_busy: BUSY_LOOKS,
            looked: Instant::now(),
            wanted: wanted_by_this_thread(),
            pause: FIRST_PAUSE,
        }
    }

    /// How long to pause before it is asked again.
    pub fn pause(&mut self) -> Duration {
        let pause = self.pause;
        self.pause = LAST_PAUSE.min(pause * 5 / 4);
        pause
    }

    /// Whether to go on with waiting. To be asked again and again.
    pub fn lasts(&mut self) -> bool {
        let since = self.looked.elapsed();
        if since >= BETWEEN {
            // This thread may have done the work itself, as where a runtime has no other one: a wait alone takes little.
            let wanted = wanted_by_this_thread().saturating_sub(self.wanted);
            let left = match wanted > since / 4 || somebody_moves() {
                true => &mut self.left_busy,
                false => &mut self.left,
            };
            *left = left.saturating_sub(1);
            self.looked = Instant::now();
            self.wanted = wanted_by_this_thread();
        }
        self.left > 0 && self.left_busy > 0
    }
}

/// Waits until something is so.
#[track_caller]
pub fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let mut patience = Patience::default();
    while !is_so() {
        assert!(patience.lasts(), "never: {what}");
        std::thread::sleep(patience.pause());
    }
}

/// Waits until the value behind a lock is so, which `changed` tells of, or until nothing moves any more.
pub fn until_changed<'a, T>(
    changed: &Condvar,
    mut value: MutexGuard<'a, T>,
    mut is_so: impl FnMut(&T) -> bool,
) -> MutexGuard<'a, T> {
    let mut patience = Patience::default();
    while !is_so(&value) && patience.lasts() {
        let waited = changed.wait_timeout(value, BETWEEN);
        value = waited.unwrap_or_else(PoisonError::into_inner).0;
    }
    value
}

/// Awaits what must come.
pub async fn patiently<T>(what: &str, coming: impl Future<Output = T>) -> T {
    let mut patience = Patience::default();
    tokio::pin!(coming);
    loop {
        tokio::select! {
            come = &mut coming => return come,
            () = tokio::time::sleep(BETWEEN) => assert!(patience.lasts(), "never: {what}"),
        }
    }
}

/// Waits for what another thread sends.
#[track_caller]
pub fn received<T>(what: &str, from: &Receiver<T>) -> T {
    let mut patience = Patience::default();
    loop {
        match from.recv_timeout(BETWEEN) {
            Ok(value) => return value,
            Err(RecvTimeoutError::Timeout) if patience.lasts() => {}
            Err(why) => panic!("never: {what}: {why}"),
        }
    }
}

/// The limits of what must run into one, the next where the one before was over too soon.
const LIMITS: [&str; 4] = ["300ms", "3s", "15s", "60s"];

/// Does what must run into a limit of time, but not before something else has come: with a short one first, and with longer ones
/// where that came too late, as on a busy machine. It returns nothing where it did.
#[track_caller]
pub fn up_to_a_limit<T>(what: &str, mut work: impl FnMut(&'static str) -> Option<T>) -> T {
    let done = LIMITS.into_iter().find_map(&mut work);
    done.unwrap_or_else(|| panic!("not in {}: {what}", LIMITS[LIMITS.len() - 1]))
}

/// Waits for what a call returns that cannot be told to give up, such as a read. It goes on when the test has failed.
#[track_caller]
pub fn in_time<T: Send + 'static>(what: &str, call: impl FnOnce() -> T + Send + 'static) -> T {
    let called = std::thread::spawn(call);
    until(what, || called.is_finished());
    let returned = called.join();
    returned.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

/// How long this thread has run, or would have if it had been let, as of the last moment: a runtime may have hundreds of waits in one
/// thread, which look at the same time.
fn wanted_by_this_thread() -> Duration {
    thread_local! {
        static LAST: Cell<Option<(Instant, Duration)>> = const { Cell::new(None) };
    }
    let known = LAST.get().filter(|(when, _)| when.elapsed() < MOMENT);
    if let Some((_, wanted)) = known {
        return wanted;
    }
    let spent = fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let spent = spent.split(' ').take(2).flat_map(str::parse::<u64>);
    let wanted = Duration::from_nanos(spent.sum());
    LAST.set(Some((Instant::now(), wanted)));
    wanted
}

/// Whether anybody moves, as the last look has found; there is one a second, however many wait.
fn somebody_moves() -> bool {
    static LAST: Mutex<Option<(Instant, bool)>> = Mutex::new(None);
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    let known = last.filter(|(when, _)| when.elapsed() < BETWEEN);
    let moves = known.map_or_else(somebody_is_seen_to_move, |(_, moves)| moves);
    if known.is_none() {
        *last = Some((Instant::now(), moves));
    }
    moves
}

/// Whether any thread of this process or its descendants runs, would if it were let, or waits for a disk, which others may keep
/// busy. In a guest, where the kernel works for the tests too, and a server that is gone is waited for as a disk is: whether any
/// thread at all runs.
fn somebody_is_seen_to_move() -> bool {
    if std::env::var_os("NFS_GUEST").is_some() {
        let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
        let running = load.split(' ').nth(3).and_then(|it| it.split_once('/'));
        // This thread is one of them.
        return running.is_none_or(|(running, _)| running != "1");
    }
    let own = std::process::id();
    let processes = numbers("/proc");
    let parents: BTreeMap<u32, u32> = processes
        .into_iter()
        .filter_map(|pid| {
            let parent = stat(&format!("/proc/{pid}/stat"))?.1;
            Some((pid, parent))
        })
        .collect();
    let is_ours = |pid: &u32| {
        std::iter::successors(Some(pid), |pid| parents.get(pid)).any(|ancestor| *ancestor == own)
    };
    parents.keys().filter(|pid| is_ours(pid)).any(|pid| {
        let threads = format!("/proc/{pid}/task");
        let states = numbers(&threads)
            .into_iter()
            .filter_map(|thread| stat(&format!("{threads}/{thread}/stat")))
            .map(|(state, _)| state);
        // `t` is a thread whose tracer has the next move.
        let busy = states
            .filter(|state| matches!(state, 'R' | 'D' | 't'))
            .count();
        busy > usize::from(*pid == own)
    })
}

/// The names in a folder that are numbers.
fn numbers(folder: &str) -> Vec<u32> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .collect()
}

/// The state of a process or thread, and its parent.
fn stat(path: &str) -> Option<(char, u32)> {
    let stat = fs::read_to_string(path).ok()?;
    // Its name may have blanks and brackets.
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut words = rest.split(' ');
    Some((words.next()?.chars().next()?, words.next()?.parse().ok()?))
}
