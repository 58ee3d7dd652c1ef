//! Ctrl-C, SIGTERM and SIGHUP: the first signal asks the program to stop, the second ends the process at once. A shell outlives
//! Ctrl-C, and notes what asks it to end.
//!
//! The first is an event that a future can wait for, so that calls are cancelled and commands behind `exec:` endpoints
//! ended. A process that does not come to wait, because it writes to somebody who does not read, dies of the second. Programs that it
//! has started then die with it.

use csi_proto::lock::ROUNDS;
use csi_sys::end_signals::is_ignored;
use csi_sys::{process_groups, waits};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::register;
use signal_hook::low_level::emulate_default_handler;
use std::future::poll_fn;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};
use tokio::time::sleep;

/// What went wrong where [`Signals::watch_first`] fails.
pub const UNWATCHED: &str = "signals cannot be watched";

/// How long a second signal may wait to be heard, [`ROUNDS`] times.
const HEARD_WITHIN: Duration = Duration::from_millis(350);

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
/// does not: a terminal that is closed sends two, one by the shell in it and one by the kernel.
pub fn note_end() -> io::Result<Arc<AtomicBool>> {
    let asked = Arc::default();
    // In this order: the default acts only when an earlier signal has set the flag.
    process_groups::die_by(SIGTERM, &asked)?;
    csi_sys::end_signals::note(&end_signals(), &asked)?;
    Ok(asked)
}

/// Lets signals end what waits for a file that stands still, from now on: they do not end the process any more. Whoever watches
/// signals later finds them.
pub fn end_waits() -> io::Result<()> {
    waits::end_by(&signals())
}

/// The same for Ctrl-C: a flag that its handler sets.
pub fn note_interrupt() -> io::Result<Arc<AtomicBool>> {
    let pressed = Arc::default();
    register(SIGINT, Arc::clone(&pressed))?;
    Ok(pressed)
}

/// Lets the terminal stop the process in the background, unless `asked` says that it is to end.
pub fn stop_in_background_unless(asked: &Arc<AtomicBool>) -> io::Result<()> {
    csi_sys::end_signals::stop_unless_asked(asked)
}

/// Interrupts the line editor of this process, whose read returns for SIGINT alone.
pub fn press_ctrl_c() {
    // Nothing can keep a process from signalling itself.
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::INT);
}

/// Ends the process as SIGTERM does where nobody watches it, and what it has started.
pub fn die() {
    process_groups::kill();
    let _ = emulate_default_handler(SIGTERM);
}

/// Tells `begun` whether a signal came before, and `sender` of each that comes, without end. One after the first that is not `heard`
/// in time ends the process.
///
/// The runtime is made and dropped in this thread: dropped within another runtime it would panic.
fn hear(
    sender: &UnboundedSender<()>,
    heard: &AtomicUsize,
    begun: &mpsc::Sender<io::Result<bool>>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::watch();
        // Right after the signals are watched: one that comes between counts twice.
        let _ = begun.send(Ok(waits::are_asked_to_end()));
        let mut count = 0;
        loop {
            signals.next().await;
            count += 1;
            if sender.send(()).is_ok() && count > 1 {
                for _ in 0..ROUNDS {
                    sleep(HEARD_WITHIN).await;
                }
                if heard.load(Ordering::SeqCst) < count {
                    die();
                }
            }
        }
    })
}

/// Signals that ask to stop, from the moment on in which this is made: none is lost while nobody waits.
pub struct Signals {
    origin: Origin,
    /// Whether one came before, while a file was waited for.
    has_come: bool,
}

enum Origin {
    System(Vec<Signal>),
    /// The thread of [`Signals::watch_each`], and how many of its signals were heard.
    Thread(UnboundedReceiver<()>, Arc<AtomicUsize>),
}

impl Signals {
    /// Watches from now on. Needs a runtime.
    pub fn watch() -> Self {
        Self::of(signals())
    }

    /// Watches from now on, for work of which each further signal ends a part. From the second on, one that nobody comes to hear within a
    /// second ends the process, unless it is a shell: a thread of its own waits for them. Needs a runtime.
    pub fn watch_each(in_shell: bool) -> io::Result<Self> {
        if in_shell {
            return Ok(Self::watch());
        }
        end_waits()?;
        let (sender, receiver) = unbounded_channel();
        let heard = Arc::new(AtomicUsize::new(0));
        let of_work = Arc::clone(&heard);
        let (tell, told) = mpsc::channel();
        std::thread::Builder::new().spawn(move || {
            if let Err(error) = hear(&sender, &of_work, &tell) {
                let _ = tell.send(Err(error));
            }
        })?;
        Ok(Self {
            has_come: told.recv().map_err(io::Error::other)??,
            origin: Origin::Thread(receiver, heard),
        })
    }

    /// Watches the first from now on; the second ends the process by its default action. Needs a runtime.
    pub fn watch_first() -> io::Result<Self> {
        // Before a signal ceases to end the process: one that comes between is not lost.
        let mut watched = Self::watch();
        let asked = Arc::new(AtomicBool::new(false));
        for number in signals() {
            // In this order: the default acts only when an earlier signal has set the flag.
            process_groups::die_by(number, &asked)?;
            register(number, Arc::clone(&asked))?;
        }
        end_waits()?;
        watched.has_come = waits::are_asked_to_end();
        Ok(watched)
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
        Self {
            origin: Origin::System(watched.collect()),
            has_come: false,
        }
    }

    /// Forgets those that have come.
    pub async fn forget(&mut self) {
        poll_fn(|context| {
            while self.poll_next(context).is_ready() {}
            Poll::Ready(())
        })
        .await;
    }

    /// Returns when the next of them comes, or has come since the last time.
    pub async fn next(&mut self) {
        poll_fn(|context| self.poll_next(context)).await;
    }

    fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<()> {
        if std::mem::take(&mut self.has_come) {
            return Poll::Ready(());
        }
        let has_come = match &mut self.origin {
            Origin::System(signals) => signals
                .iter_mut()
                .any(|signal| signal.poll_recv(context).is_ready()),
            Origin::Thread(signals, heard) => {
                let is_heard = signals.poll_recv(context) == Poll::Ready(Some(()));
                heard.fetch_add(is_heard.into(), Ordering::SeqCst);
                is_heard
            }
        };
        if has_come {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}
