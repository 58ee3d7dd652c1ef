//! How often, and at which intervals, an operation looks again at files that other controllers change.

use std::time::Duration;

/// How often a look is repeated when others change what is looked at.
pub(super) const ATTEMPTS: usize = 64;

/// Waits a little before the second and later attempts, longer each time and not in step with others.
pub(super) fn pause(attempt: usize) {
    if attempt > 2 {
        let spread = u64::from(std::process::id()) % 7 + attempt as u64 % 5;
        std::thread::sleep(Duration::from_millis((attempt as u64).min(20) + spread));
    }
}
