//! The process groups that end with this process, whatever ends it: also where a signal does so at once, and no destructor runs.
#![allow(unsafe_code)]

use libc::c_int;
use signal_hook::low_level::{emulate_default_handler, register};
use std::io;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicUsize, Ordering};

/// Their ids; zero is none. A handler of signals may read it.
static GROUPS: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// How many programs are about to be noted, and the signal that waits for that.
static STARTING: AtomicUsize = AtomicUsize::new(0);
static WAITS: AtomicI32 = AtomicI32::new(0);

/// A group that is noted until this is dropped. Of more than 64 at a time some are not.
#[derive(Debug)]
pub struct Noted(Option<&'static AtomicI32>);

/// Starts a program that has a group of its own, and notes that; the first signal to die by waits so long.
pub fn start(command: &mut Command) -> io::Result<(Child, Noted)> {
    STARTING.fetch_add(1, Ordering::SeqCst);
    let started = command.spawn().map(|child| {
        let noted = note(i32::try_from(child.id()).unwrap_or(0));
        (child, noted)
    });
    let is_last = STARTING.fetch_sub(1, Ordering::SeqCst) == 1;
    match WAITS.load(Ordering::SeqCst) {
        signal if signal != 0 && is_last => die(signal),
        _ => {}
    }
    started
}

fn note(group: i32) -> Noted {
    let take = |place: &&AtomicI32| {
        let taken = place.compare_exchange(0, group, Ordering::SeqCst, Ordering::SeqCst);
        taken.is_ok()
    };
    Noted(GROUPS.iter().find(take))
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(place) = self.0 {
            place.store(0, Ordering::SeqCst);
        }
    }
}

/// Kills all of them.
pub fn kill() {
    for group in &GROUPS {
        let group = group.load(Ordering::SeqCst);
        if group > 1 {
            // SAFETY: it takes no pointer.
            unsafe { libc::kill(-group, libc::SIGKILL) };
        }
    }
}

/// Kills them, and ends the process by the signal's default action, when it comes while `asked` is set. Both or neither: another thread
/// may set it meanwhile.
pub fn die_by(signal: c_int, asked: &Arc<AtomicBool>) -> io::Result<()> {
    let asked = Arc::clone(asked);
    let is_starting = || STARTING.load(Ordering::SeqCst) > 0;
    let action = move || {
        if asked.load(Ordering::SeqCst) {
            // Whoever starts looks for the signal after that. A program may be long in starting: one signal waits.
            let waits = is_starting() && WAITS.swap(signal, Ordering::SeqCst) == 0 && is_starting();
            if !waits {
                die(signal);
            }
        }
    };
    // SAFETY: the action reads flags, calls kill(2) and what signal_hook has for handlers: it allocates nothing, locks nothing and cannot panic.
    unsafe { register(signal, action) }.map(drop)
}

fn die(signal: c_int) {
    kill();
    let _ = emulate_default_handler(signal);
}
