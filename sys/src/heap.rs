//! The memory that this process has freed.
#![allow(unsafe_code)]

/// Gives the memory back to the system that was freed and is kept for later, by malloc_trim(3). It takes the longer the more there is,
/// and whoever asks for memory meanwhile may wait. Does nothing with another C library than glibc.
pub fn give_back() {
    #[cfg(target_env = "gnu")]
    // SAFETY: it takes a number and no pointer, may be called at any time by any thread, and touches freed memory alone.
    unsafe {
        libc::malloc_trim(0);
    }
}
