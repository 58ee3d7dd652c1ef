//! Places where a test can let an operation end as if the process had died. Nothing of it is in the product.

use super::error::ShareError;

#[cfg(test)]
thread_local! {
    static AFTER: std::cell::RefCell<Inherited> = const { std::cell::RefCell::new(None) };
}

/// The count of steps that are left, which the threads of one operation share.
#[cfg(test)]
pub(crate) type Inherited = Option<std::sync::Arc<std::sync::atomic::AtomicIsize>>;

/// This thread's count, for the threads that work for it.
#[cfg(test)]
pub(crate) fn inherited() -> Inherited {
    AFTER.with_borrow(Clone::clone)
}

/// Makes this thread count with the one that `count` is from.
#[cfg(test)]
pub(crate) fn adopt(count: &Inherited) {
    AFTER.set(count.clone());
}

/// Marks that `step` is done and the next one begins.
#[inline]
#[cfg_attr(not(test), allow(clippy::unnecessary_wraps))]
pub(crate) fn step(step: &'static str) -> Result<(), ShareError> {
    #[cfg(test)]
    if let Some(left) = inherited()
        && left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) <= 0
    {
        return Err(ShareError::Crash(step));
    }
    let _ = step;
    Ok(())
}

/// Runs `work` and lets it die at its `count`th step, counted from 0.
#[cfg(test)]
pub(crate) fn crashing<T>(count: usize, work: impl FnOnce() -> T) -> T {
    AFTER.set(Some(std::sync::Arc::new(
        isize::try_from(count).unwrap().into(),
    )));
    let result = work();
    AFTER.set(None);
    result
}
