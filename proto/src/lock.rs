//! Taking a lock, and waiting with one, also where a holder has panicked; how often to wait for another thread.
//!
//! What such a holder has left half-done is still the best there is: the panic ends its own task, and no other.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How often whoever waits for another thread waits for the whole time. By a clock alone, a process that stood still for as long
/// would not wait at all.
pub const ROUNDS: u32 = 3;

/// The value behind a lock, once nobody else has it.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits for `event`, without the lock meanwhile.
pub fn wait<'a, T>(event: &Condvar, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
    event.wait(guard).unwrap_or_else(PoisonError::into_inner)
}

/// The same, for at most so long. Returns whether that is over.
pub fn wait_for<'a, T>(
    event: &Condvar,
    guard: MutexGuard<'a, T>,
    time: Duration,
) -> (MutexGuard<'a, T>, bool) {
    let waited = event.wait_timeout(guard, time);
    let (guard, waited) = waited.unwrap_or_else(PoisonError::into_inner);
    (guard, waited.timed_out())
}
