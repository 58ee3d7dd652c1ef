//! Places where a test can let an operation end as if the process had died. Nothing of it is in the product.

use super::error::ShareError;

#[cfg(test)]
thread_local! {
    static AFTER: std::cell::Cell<Option<usize>> = const { std::cell::Cell::new(None) };
}

/// Marks that `step` is done and the next one begins.
#[inline]
#[cfg_attr(not(test), allow(clippy::unnecessary_wraps))]
pub(crate) fn step(step: &'static str) -> Result<(), ShareError> {
    #[cfg(test)]
    if let Some(left) = AFTER.get() {
        if left == 0 {
            return Err(ShareError::Crash(step));
        }
        AFTER.set(Some(left - 1));
    }
    let _ = step;
    Ok(())
}

/// Runs `work` and lets it die at its `count`th step, counted from 0.
#[cfg(test)]
pub(crate) fn crashing<T>(count: usize, work: impl FnOnce() -> T) -> T {
    AFTER.set(Some(count));
    let result = work();
    AFTER.set(None);
    result
}
