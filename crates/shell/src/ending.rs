//! What Ctrl-C, SIGTERM and SIGHUP do to a shell. They end the command that runs. SIGTERM and SIGHUP end the shell, too: at a prompt
//! the line editor is woken, and what was deferred has a bounded time.
//!
//! Owns who watches the signals, and how much time there is. What runs then is `statement`'s.

use csi_error::Error;
use csi_invocation::interrupt::{self, Signals};
use csi_output::pager;
use csi_output::redirected::Terminals;
use csi_proto::lock;
use csi_sys::waits;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use tokio::time::{sleep, sleep_until};

/// The time for what was deferred. Kubernetes gives a pod 30 s before it kills it, and a call that is cut off here the driver
/// may end all the same.
const LIMIT: Duration = Duration::from_secs(10);

/// What calls do not use: an editor, a tool that takes back what it made.
const GRACE: Duration = Duration::from_secs(2);

/// Between two tries to wake the line editor, which hears nothing before it has begun to read, and to end a pager.
const AGAIN: Duration = Duration::from_millis(20);

/// The end of a session, once it is asked for.
pub(crate) struct Ending {
    terminals: Terminals,
    reading: Mutex<bool>,
    asked: Arc<AtomicBool>,
    until: OnceLock<Instant>,
}

impl Ending {
    /// Watches the signals from now on, whose handlers set `asked`.
    pub fn watch(runtime: &Runtime, asked: Arc<AtomicBool>) -> Arc<Self> {
        let ending = Arc::new(Self {
            terminals: Terminals::now(),
            reading: Mutex::new(false),
            asked,
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
        *lock(&self.reading) = true;
        let line = read();
        *lock(&self.reading) = false;
        line
    }

    /// Wakes the line editor, and nothing that runs after it: says whether a line is read.
    fn wakes_reader(&self) -> bool {
        let reading = lock(&self.reading);
        if *reading {
            interrupt::press_ctrl_c();
        }
        *reading
    }

    /// When what runs then must be done, if the end was asked for.
    pub fn until(&self) -> Option<Instant> {
        let until = || *self.until.get_or_init(|| Instant::now() + LIMIT);
        self.asked.load(Ordering::SeqCst).then(until)
    }

    /// Shows nothing any more where the terminal is gone. Only the thread that runs commands may call it, between two of them: it
    /// would take stdout that a `> FILE` redirects for a terminal that is gone.
    pub(crate) fn let_go_of_lost_terminal(&self) {
        self.terminals.let_go_of_lost();
    }
}

/// Waits for SIGTERM or SIGHUP, wakes the line editor, and ends the process when the time is over.
async fn watched(ending: Arc<Ending>, mut signals: Signals) {
    signals.next().await;
    // The time begins with the signal, also for what was deferred.
    ending.until();
    while ending.wakes_reader() {
        sleep(AGAIN).await;
    }
    // Nobody waits until a person has read.
    let over = Instant::now() + LIMIT + GRACE;
    while Instant::now() < over {
        pager::end();
        sleep(AGAIN).await;
    }
    interrupt::die();
}

/// The signals that end a call before its answer, and keep the next command from beginning.
pub(crate) struct Interrupts {
    interrupt: Signals,
    end: Signals,
    /// Whether Ctrl-C was pressed since the last line, and whether a signal has asked to end.
    pressed: Arc<AtomicBool>,
    asked: Arc<AtomicBool>,
    /// Where somebody types.
    ending: Option<Arc<Ending>>,
    bound: Option<Bound>,
}

/// A command that was deferred. Ctrl-C ends it. A signal that ends the shell leaves it a share of the time at a prompt, and in a script
/// all the time that it takes.
struct Bound {
    /// This command, and those that follow.
    count: usize,
    until: Option<Instant>,
}

impl Interrupts {
    /// The signals that come from now on. `is_typed` says whether somebody types, who has time for what was deferred.
    pub fn watch(runtime: &Runtime, is_typed: bool) -> io::Result<Self> {
        // In this order: who is woken finds the flag set.
        let (pressed, asked) = (interrupt::note_interrupt()?, interrupt::note_end()?);
        interrupt::end_waits()?;
        if is_typed {
            interrupt::stop_in_background_unless(&asked)?;
        }
        let _context = runtime.enter();
        Ok(Self {
            // In a script, where a command may never end: it may write to somebody who does not read.
            interrupt: Signals::watch_each(is_typed)?,
            end: Signals::watch_end(),
            ending: is_typed.then(|| Ending::watch(runtime, Arc::clone(&asked))),
            pressed,
            asked,
            bound: None,
        })
    }

    /// How the session ends, where somebody types.
    pub fn ending(&self) -> Option<Arc<Ending>> {
        self.ending.clone()
    }

    /// Gives the calls that follow a share of the time for `count` commands, once the end is asked for: also while they run,
    /// because the terminal of a shell is gone before the signal comes that says so.
    pub(crate) fn share_time(&mut self, count: usize) {
        self.bound = Some(Bound { count, until: None });
    }

    /// Whether what runs was deferred: then it has its time after a signal, too.
    pub(crate) fn are_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// Whether a signal has asked to end.
    pub(crate) fn is_end_asked(&self) -> bool {
        self.asked.load(Ordering::SeqCst)
    }

    /// Forgets that Ctrl-C was pressed.
    pub async fn forget(&mut self) {
        waits::forget();
        self.interrupt.forget().await;
        self.pressed.store(false, Ordering::SeqCst);
    }

    /// Keeps the next command from beginning after a signal that came while no call ran.
    ///
    /// # Errors
    /// That one came.
    pub(crate) fn stop_if_asked(&self) -> Result<(), Error> {
        let stops = match (&self.bound, self.is_end_asked()) {
            // Ctrl-C that has woken the line editor may come late.
            (Some(_), true) => false,
            (None, true) => true,
            (_, false) => self.pressed.load(Ordering::SeqCst),
        };
        if stops {
            Err(Error::interrupted())
        } else {
            Ok(())
        }
    }

    /// Keeps what an editor has left from being sent, after a signal that has ended it.
    ///
    /// # Errors
    /// That one came.
    pub(crate) fn stop_if_end_asked(&self) -> Result<(), Error> {
        match self.is_end_asked() && !self.are_bound() {
            true => Err(Error::interrupted()),
            false => Ok(()),
        }
    }

    /// Returns why a call ends, when it has to.
    pub async fn next(&mut self) -> Error {
        let Some(bound) = &mut self.bound else {
            tokio::select! {
                () = press(&mut self.interrupt, &self.pressed) => {}
                () = self.end.next() => {}
            }
            return Error::interrupted();
        };
        let Some(ending) = &self.ending else {
            press(&mut self.interrupt, &self.pressed).await;
            return Error::interrupted();
        };
        if bound.until.is_none() && ending.until().is_none() {
            tokio::select! {
                // One that has woken the line editor may come late.
                () = press(&mut self.interrupt, &self.pressed) => if ending.until().is_none() {
                    return Error::interrupted();
                },
                () = self.end.next() => {}
            }
        }
        let until = *bound.until.get_or_insert_with(|| {
            let now = Instant::now();
            let end = ending.until().unwrap_or_else(|| now + LIMIT);
            share(now, end, bound.count)
        });
        sleep_until(until.into()).await;
        Error::local("there was no time left for it: the shell was asked to end")
    }
}

/// Waits for Ctrl-C. The runtime tells of one later than its handler does: what was forgotten meanwhile ends nothing.
async fn press(interrupt: &mut Signals, pressed: &AtomicBool) {
    while {
        interrupt.next().await;
        !pressed.load(Ordering::SeqCst)
    } {}
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
