//! How a shell at a prompt ends when SIGTERM or SIGHUP asks it to: the line editor is woken, and what was deferred runs in a
//! bounded time.
//!
//! Owns who watches the signals, and how much time there is. What runs then is `statement`'s.

use crate::error::Error;
use crate::invocation::interrupt::{self, Signals};
use crate::output::redirect::Terminals;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::{sleep, sleep_until, timeout};

/// The time for what was deferred. Kubernetes gives a pod 30 s before it kills it, and a call that is cut off here the driver
/// may end all the same.
const LIMIT: Duration = Duration::from_secs(10);

/// What calls do not use: a pager that nobody reads, an editor, a tool that takes back what it made.
const GRACE: Duration = Duration::from_secs(2);

/// Between two tries to wake the line editor, which hears nothing before it has begun to read.
const AGAIN: Duration = Duration::from_millis(20);

/// The end of a session, once it is asked for.
pub struct Ending {
    terminals: Terminals,
    reading: AtomicBool,
    until: OnceLock<Instant>,
}

impl Ending {
    /// Watches the signals from now on.
    pub fn watch(runtime: &Runtime) -> Arc<Self> {
        let ending = Arc::new(Self {
            terminals: Terminals::now(),
            reading: AtomicBool::new(false),
            until: OnceLock::new(),
        });
        let signals = {
            let _context = runtime.enter();
            Signals::watch_end()
        };
        runtime.spawn(watched(Arc::clone(&ending), signals));
        ending
    }

    /// Reads a line; a signal ends that.
    pub fn reading<T>(&self, read: impl FnOnce() -> T) -> T {
        self.reading.store(true, Ordering::SeqCst);
        let line = read();
        self.reading.store(false, Ordering::SeqCst);
        line
    }

    /// When what runs then must be done, if the end was asked for.
    pub fn until(&self) -> Option<Instant> {
        self.until.get().copied()
    }

    /// Shows nothing any more where the terminal is gone.
    pub fn let_go_of_lost_terminal(&self) {
        self.terminals.let_go_of_lost();
    }
}

/// Waits for the first signal and wakes the line editor. The second signal, or the end of the time, ends the process.
async fn watched(ending: Arc<Ending>, mut signals: Signals) {
    signals.next().await;
    ending.let_go_of_lost_terminal();
    let _ = ending.until.set(Instant::now() + LIMIT);
    while ending.reading.load(Ordering::SeqCst) {
        interrupt::press_ctrl_c();
        sleep(AGAIN).await;
    }
    let _ = timeout(LIMIT + GRACE, signals.next()).await;
    interrupt::die();
}

/// What ends a call before its answer.
pub struct Interrupts {
    interrupt: Signals,
    end: Signals,
    bound: Option<Bound>,
}

/// A command that Ctrl-C ends, while a signal that ends the shell gives it a share of the time that is left.
struct Bound {
    ending: Arc<Ending>,
    /// This command, and those that follow.
    count: usize,
    until: Option<Instant>,
}

impl Interrupts {
    /// The signals that come from now on. Needs a runtime.
    pub fn watch() -> Self {
        Self {
            interrupt: Signals::watch_interrupt(),
            end: Signals::watch_end(),
            bound: None,
        }
    }

    /// Gives the calls that follow a share of the time for `count` commands, once `ending` is asked for: also while they run,
    /// because the terminal of a shell is gone before the signal comes that says so.
    pub fn share_time(&mut self, ending: Arc<Ending>, count: usize) {
        self.bound = Some(Bound {
            ending,
            count,
            until: None,
        });
    }

    /// Forgets the signals that have come; not those that end the shell, where they bound the time.
    pub async fn forget(&mut self) {
        self.interrupt.forget().await;
        if self.bound.is_none() {
            self.end.forget().await;
        }
    }

    /// Returns why a call ends, when it has to.
    pub async fn next(&mut self) -> Error {
        let Some(bound) = &mut self.bound else {
            tokio::select! {
                () = self.interrupt.next() => {}
                () = self.end.next() => {}
            }
            return Error::interrupted();
        };
        if bound.until.is_none() && bound.ending.until().is_none() {
            tokio::select! {
                // One that has woken the line editor may come late.
                () = self.interrupt.next() => if bound.ending.until().is_none() {
                    return Error::interrupted();
                },
                () = self.end.next() => {}
            }
        }
        let until = *bound.until.get_or_insert_with(|| {
            let now = Instant::now();
            let end = bound.ending.until().unwrap_or_else(|| now + LIMIT);
            share(now, end, bound.count)
        });
        sleep_until(until.into()).await;
        Error::local("there was no time left for it: the shell was asked to end")
    }
}

/// The end of the time for the first of `count` commands: an equal share for each.
fn share(now: Instant, until: Instant, count: usize) -> Instant {
    let left = until.saturating_duration_since(now);
    now + left / u32::try_from(count.max(1)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_the_time_is_shared() {
        let now = Instant::now();
        let seconds = Duration::from_secs;
        for (left, count, expected) in [(10, 2, 5), (5, 1, 5), (0, 3, 0), (9, 3, 3), (4, 0, 4)] {
            let end = share(now, now + seconds(left), count);
            assert_eq!(end, now + seconds(expected), "{left} s for {count}");
        }
        assert_eq!(share(now + seconds(1), now, 1), now + seconds(1));
    }
}
