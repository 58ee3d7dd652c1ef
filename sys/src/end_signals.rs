//! The signals that ask a process to end, and what its terminal may do to it meanwhile.
#![allow(unsafe_code)]

use libc::{c_int, pid_t};
use signal_hook::low_level::register;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The signals by which a terminal stops those in the background that read it or change how it works.
const STOPS: [c_int; 2] = [libc::SIGTTIN, libc::SIGTTOU];

/// How often a continued process looks whether it was asked to end, and the pause between two looks.
const LOOKS: usize = 100;
const PAUSE_MS: c_int = 10;

/// Whether the process ignores the signal.
pub fn is_ignored(signal: c_int) -> bool {
    // SAFETY: zeroes are a value of this type.
    let mut action: libc::sigaction = unsafe { std::mem::zeroed() };
    // SAFETY: without a new action it tells the present one.
    let told = unsafe { libc::sigaction(signal, std::ptr::null(), &raw mut action) };
    told == 0 && action.sa_sigaction == libc::SIG_IGN
}

/// Lets the handlers of `signals` set a flag: whatever such a signal wakes finds it set.
///
/// From the first of these signals on, SIGTTIN and SIGTTOU are ignored (signal(7)). Else a process in the background that touches its
/// terminal on the way to its end would be stopped for good. Reading the terminal fails with EIO then.
pub fn note(signals: &[c_int], asked: &Arc<AtomicBool>) -> io::Result<()> {
    for signal in signals {
        let asked = Arc::clone(asked);
        let action = move || {
            ignore_stops();
            asked.store(true, Ordering::SeqCst);
        };
        // SAFETY: the action stores a flag and calls signal(2): it allocates nothing, locks nothing and cannot panic.
        unsafe { register(*signal, action) }?;
    }
    Ok(())
}

/// Stops the process as its terminal does in the background. When it goes on in the background, it waits up to a second for `asked`:
/// a shell that ends a stopped job sends SIGTERM and continues it, another thread may handle that signal, and meanwhile this thread would
/// touch the terminal, which would stop all threads again.
pub fn stop_unless_asked(asked: &Arc<AtomicBool>) -> io::Result<()> {
    for stop in STOPS {
        let asked = Arc::clone(asked);
        let action = move || {
            if asked.load(Ordering::SeqCst) {
                // A signal of `note` came while this handler was registered.
                ignore_stops();
                return;
            }
            // SAFETY: it takes nothing.
            let errno = unsafe { libc::__errno_location() };
            // SAFETY: it is this thread's own, and lives as long.
            let before = unsafe { *errno };
            stop_here();
            let mut looks = LOOKS;
            while looks > 0 && !asked.load(Ordering::SeqCst) && !is_in_foreground() {
                // SAFETY: handlers may call it, and of no files it reads none.
                unsafe { libc::poll(std::ptr::null_mut(), 0, PAUSE_MS) };
                looks -= 1;
            }
            // SAFETY: it is this thread's own, and lives as long.
            unsafe { *errno = before };
        };
        // SAFETY: the action calls signal(2), kill(2), poll(2), getpid(2), getpgrp(2) and tcgetpgrp(3), which handlers may call: it allocates
        // nothing, locks nothing, cannot panic, and leaves errno as it was.
        unsafe { register(stop, action) }?;
    }
    Ok(())
}

fn ignore_stops() {
    for stop in STOPS {
        // SAFETY: handlers may call it, signal-safety(7), and SIG_IGN is no pointer to a function.
        unsafe { libc::signal(stop, libc::SIG_IGN) };
    }
}

/// Returns when the process is continued.
fn stop_here() {
    // SAFETY: it takes no pointer.
    let own = unsafe { libc::getpid() };
    // SAFETY: it takes no pointer.
    unsafe { libc::kill(own, libc::SIGSTOP) };
}

/// Whether the process may use the terminal that is its stdin.
fn is_in_foreground() -> bool {
    // SAFETY: it takes no pointer.
    let own: pid_t = unsafe { libc::getpgrp() };
    // SAFETY: it takes no pointer; of what is no terminal the answer is -1.
    let foreground = unsafe { libc::tcgetpgrp(libc::STDIN_FILENO) };
    own == foreground
}
