//! Places where a test can let an operation end as if the process had died: in a test of this package an operation alone
//! ends, in a debug build the whole process, by SIGKILL, where a plan says so. Nothing of it is in a release build.

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
    #[cfg(all(debug_assertions, not(test)))]
    plan::obey(step);
    let _ = step;
    Ok(())
}

/// Death as a file plans it, whose path is in `CSI_NFS_CRASH_PLAN`. The file says `trace`, and then the steps are written
/// to a file beside it, or `COUNT STEP`: the process dies at that step, after it has passed it COUNT times.
#[cfg(all(debug_assertions, not(test)))]
mod plan {
    use rustix::process::{Signal, getpid, kill_process};
    use std::fs::File;
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::{LazyLock, Mutex, PoisonError};

    static PLAN: LazyLock<Option<PathBuf>> =
        LazyLock::new(|| std::env::var_os("CSI_NFS_CRASH_PLAN").map(PathBuf::from));
    /// How often the planned step was passed.
    static PASSED: Mutex<usize> = Mutex::new(0);

    pub(super) fn obey(step: &str) {
        let Some(path) = &*PLAN else { return };
        let Ok(plan) = std::fs::read_to_string(path) else {
            return;
        };
        if plan == "trace" {
            let steps = File::options()
                .append(true)
                .create(true)
                .open(path.with_extension("steps"));
            // One write, so that the lines of several threads do not mix.
            let _ = steps.and_then(|mut steps| steps.write_all(format!("{step}\n").as_bytes()));
            return;
        }
        let Some((count, planned)) = plan.split_once(' ') else {
            return;
        };
        if planned != step {
            return;
        }
        let mut passed = PASSED.lock().unwrap_or_else(PoisonError::into_inner);
        if count.parse() == Ok(*passed) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        *passed += 1;
    }
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
