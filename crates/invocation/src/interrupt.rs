//! Ctrl-C, SIGTERM and SIGHUP: the first signal asks the program to stop, the second ends the process at once. A shell outlives
//! Ctrl-C, and notes what asks it to end.
//!
//! The first is an event that a future can wait for, so that calls are cancelled and commands behind `exec:` endpoints
//! ended. A process that does not come to wait, because it writes to somebody who does not read, dies of the second.

use csi_sys::end_signals::is_ignored;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};
use signal_hook::low_level::emulate_default_handler;
use std::future::poll_fn;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::task::Poll;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// What went wrong where [`Signals::watch_first`] fails.
pub const UNWATCHED: &str = "signals cannot be watched";

/// The signals that ask to stop. SIGHUP is none where whoever started the program has it ignored, as nohup does.
fn signals() -> Vec<i32> {
    let mut signals = vec![SIGINT, SIGTERM];
    if !is_ignored(SIGHUP) {
        signals.push(SIGHUP);
    }
    signals
}

/// The signals that end a shell, and not only what runs in it: all but Ctrl-C.
fn end_signals() -> Vec<i32> {
    let mut signals = signals();
    signals.retain(|number| *number != SIGINT);
    signals
}

/// A flag that the handlers of SIGTERM and SIGHUP set: whatever such a signal wakes finds it set.
///
/// From the first of these signals on, the terminal does not stop the process any more, and a SIGTERM ends it at once. Another SIGHUP
/// does nothing: a terminal that is closed sends two, one by the shell in it and one by the kernel.
///
/// # Errors
/// When the system refuses.
pub fn note_end() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::default();
    // In this order: the default acts only when an earlier signal has set the flag.
    register_conditional_default(SIGTERM, Arc::clone(&asked))?;
    csi_sys::end_signals::note(&end_signals(), &asked)?;
    Ok(asked)
}

/// The same for Ctrl-C: a flag that its handler sets.
///
/// # Errors
/// When the system refuses.
pub fn note_interrupt() -> io::Result<Arc<AtomicBool>> {
    let pressed = Arc::default();
    register(SIGINT, Arc::clone(&pressed))?;
    Ok(pressed)
}

/// Lets the terminal stop the process in the background, unless `asked` says that it is to end.
///
/// # Errors
/// When the system refuses.
pub fn stop_in_background_unless(asked: &Arc<AtomicBool>) -> io::Result<()> {
    csi_sys::end_signals::stop_unless_asked(asked)
}

/// Interrupts the line editor of this process, whose read returns for SIGINT alone.
pub fn press_ctrl_c() {
    // Nothing can keep a process from signalling itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
}

/// Ends the process as SIGTERM does where nobody watches it.
pub fn die() {
    let _ = emulate_default_handler(SIGTERM);
}

/// Signals that ask to stop, from the moment on in which this is made: none is lost while nobody waits.
pub struct Signals(Vec<Signal>);

impl Signals {
    /// Watches from now on. Needs a runtime.
    pub fn watch() -> Self {
        Self::of(signals())
    }

    /// Watches the first from now on; the second ends the process by its default action. Needs a runtime.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn watch_first() -> io::Result<Self> {
        // Before a signal ceases to end the process: one that comes between is not lost.
        let watched = Self::watch();
        let asked = Arc::new(AtomicBool::new(false));
        for number in signals() {
            // In this order: the default acts only when an earlier signal has set the flag.
            register_conditional_default(number, Arc::clone(&asked))?;
            register(number, Arc::clone(&asked))?;
        }
        Ok(watched)
    }

    /// Watches Ctrl-C alone from now on. Needs a runtime.
    pub fn watch_interrupt() -> Self {
        Self::of([SIGINT])
    }

    /// Watches all but Ctrl-C from now on. Needs a runtime.
    pub fn watch_end() -> Self {
        Self::of(end_signals())
    }

    fn of(numbers: impl IntoIterator<Item = i32>) -> Self {
        let watched = numbers
            .into_iter()
            // Where a signal cannot be watched, its default ends the process.
            .filter_map(|number| signal(SignalKind::from_raw(number)).ok());
        Self(watched.collect())
    }

    /// Forgets those that have come.
    pub async fn forget(&mut self) {
        poll_fn(|context| {
            for signal in &mut self.0 {
                while signal.poll_recv(context).is_ready() {}
            }
            Poll::Ready(())
        })
        .await;
    }

    /// Returns when the next of them comes, or has come since the last time.
    pub async fn next(&mut self) {
        poll_fn(|context| {
            let come = self
                .0
                .iter_mut()
                .any(|signal| signal.poll_recv(context).is_ready());
            if come { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}
