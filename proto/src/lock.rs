//! Taking a lock, also one whose last holder has panicked.
//!
//! What such a holder has left half-done is still the best there is: the panic ends its own task, and no other.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// The value behind a lock, once nobody else has it.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
