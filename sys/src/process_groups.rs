//! The process groups that end with this process, whatever ends it: also where a signal does so at once, and no destructor runs.
#![allow(unsafe_code)]

use libc::c_int;
use signal_hook::low_level::{emulate_default_handler, register};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Their ids; zero is none. A handler of signals may read it.
static GROUPS: [AtomicI32; 64] = [const { AtomicI32::new(0) }; 64];

/// A group that is noted until this is dropped. Of more than 64 at a time some are not.
#[derive(Debug)]
pub struct Noted(Option<&'static AtomicI32>);

/// Notes a group.
pub fn note(group: i32) -> Noted {
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
///
/// # Errors
/// When the system refuses.
pub fn die_by(signal: c_int, asked: &Arc<AtomicBool>) -> io::Result<()> {
    let asked = Arc::clone(asked);
    let action = move || {
        if asked.load(Ordering::SeqCst) {
            kill();
            let _ = emulate_default_handler(signal);
        }
    };
    // SAFETY: the action reads flags, calls kill(2) and what signal_hook has for handlers: it allocates nothing, locks nothing and cannot panic.
    unsafe { register(signal, action) }.map(drop)
}
