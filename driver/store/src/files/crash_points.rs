//! Places where a test can let an operation end as if the process had died: in a test of this package an operation alone
//! ends, by unwinding, which no handling of errors sees, or waits, or meets an error; in a debug build the whole process ends,
//! by SIGKILL, where a plan says so. Nothing of it is in a release build.

/// A step that has failed, and how. Outside of tests none does.
pub(crate) type Crash = (&'static str, rustix::io::Errno);

#[cfg(test)]
thread_local! {
    static AFTER: std::cell::RefCell<Inherited> = const { std::cell::RefCell::new(None) };
}

/// The count of steps that are left, which the threads of one operation share.
#[cfg(test)]
pub(crate) type Inherited = Option<std::sync::Arc<Count>>;

/// How many steps are left to an operation, and what happens then.
#[cfg(test)]
pub(crate) struct Count {
    left: std::sync::atomic::AtomicIsize,
    then: Then,
}

/// What happens at the step for which none is left.
#[cfg(test)]
enum Then {
    /// It is the last one, of all threads.
    Die,
    /// It waits.
    Wait(std::sync::Arc<Gate>),
    /// It fails; the next one does not.
    Fail(rustix::io::Errno),
    /// It panics.
    Panic,
    /// Questions are counted instead, and one gets ESTALE.
    Forget,
}

#[cfg(test)]
impl Count {
    fn pass(&self, step: &'static str) -> Result<(), Crash> {
        if matches!(self.then, Then::Forget) {
            return Ok(());
        }
        let left = self.left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst);
        match &self.then {
            Then::Die if left <= 0 => std::panic::resume_unwind(Box::new(step)),
            Then::Wait(gate) if left == 0 => gate.pass(step),
            Then::Panic if left == 0 => panic!("on purpose, after {step}"),
            Then::Fail(errno) if left == 0 => return Err((step, *errno)),
            _ => {}
        }
        Ok(())
    }

    fn ask(&self) -> rustix::io::Result<()> {
        if matches!(self.then, Then::Forget)
            && self.left.fetch_sub(1, std::sync::atomic::Ordering::SeqCst) == 0
        {
            return Err(rustix::io::Errno::STALE);
        }
        Ok(())
    }
}

/// Where an operation waits at one of its steps while others go on.
#[cfg(test)]
#[derive(Default)]
pub(crate) struct Gate {
    state: std::sync::Mutex<GateState>,
    changed: std::sync::Condvar,
}

#[cfg(test)]
#[derive(Default)]
struct GateState {
    reached: Option<&'static str>,
    over: bool,
    open: bool,
}

#[cfg(test)]
impl Gate {
    fn change(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn pass(&self, step: &'static str) {
        self.change(|state| state.reached = Some(step));
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| !state.open).unwrap());
    }

    /// Waits until the operation is at the gate, and returns the step; nothing when it has ended before.
    pub(crate) fn reached(&self) -> Option<&'static str> {
        let state = self.state.lock().unwrap();
        let wait = |state: &mut GateState| state.reached.is_none() && !state.over;
        self.changed.wait_while(state, wait).unwrap().reached
    }

    /// Lets the operation go on.
    pub(crate) fn open(&self) {
        self.change(|state| state.open = true);
    }
}

/// This thread's count, for the threads that work for it.
#[cfg(test)]
pub(crate) fn inherited() -> Inherited {
    AFTER.with_borrow(Clone::clone)
}

/// Whether this thread's operation has come to the step that it was to meet.
#[cfg(test)]
pub(crate) fn is_past() -> bool {
    let left = |count: std::sync::Arc<Count>| count.left.load(std::sync::atomic::Ordering::SeqCst);
    inherited().is_some_and(|count| left(count) < 0)
}

/// Makes this thread count with the one that `count` is from.
#[cfg(test)]
pub(crate) fn adopt(count: &Inherited) {
    AFTER.set(count.clone());
}

/// Marks that `step` is done and the next one begins.
#[inline]
#[cfg_attr(not(test), allow(clippy::unnecessary_wraps))]
pub(crate) fn step(step: &'static str) -> Result<(), Crash> {
    #[cfg(test)]
    if let Some(count) = inherited() {
        count.pass(step)?;
    }
    #[cfg(all(debug_assertions, not(test)))]
    plan::obey(step);
    let _ = step;
    Ok(())
}

/// Marks that a server is asked for what is copied, which it may not know for a moment.
#[inline]
#[cfg_attr(not(test), allow(clippy::unnecessary_wraps))]
pub(crate) fn ask() -> rustix::io::Result<()> {
    #[cfg(test)]
    if let Some(count) = inherited() {
        count.ask()?;
    }
    Ok(())
}

/// Death as a file plans it, whose path is in `CSI_NFS_CRASH_PLAN`. The file says `trace`, and then the steps are written
/// to a file beside it, or `COUNT STEP`: the process dies at that step, after it has passed it COUNT times.
#[expect(clippy::disallowed_methods, reason = "in builds for tests alone")]
#[cfg(all(debug_assertions, not(test)))]
mod plan {
    use csi_proto::lock::lock;
    use rustix::process::{Signal, getpid, kill_process};
    use std::fs::File;
    use std::io::Write;
    use std::path::PathBuf;
    use std::sync::{LazyLock, Mutex};

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
        let mut passed = lock(&PASSED);
        if count.parse() == Ok(*passed) {
            let _ = kill_process(getpid(), Signal::KILL);
        }
        *passed += 1;
    }
}

/// An operation has died.
#[cfg(test)]
#[derive(Debug)]
pub(crate) struct Died;

/// Runs `work` and lets it die at its `count`th step, counted from 0.
#[cfg(test)]
pub(crate) fn crashing<T>(count: usize, work: impl FnOnce() -> T) -> Result<T, Died> {
    let work = std::panic::AssertUnwindSafe(work);
    counted(count, Then::Die, || {
        std::panic::catch_unwind(work).map_err(|panic| match is_past() {
            true => Died,
            false => std::panic::resume_unwind(panic),
        })
    })
}

/// Runs `work` and lets its `count`th step, counted from 0, fail with `errno`.
#[cfg(test)]
pub(crate) fn failing<T>(count: usize, errno: rustix::io::Errno, work: impl FnOnce() -> T) -> T {
    counted(count, Then::Fail(errno), work)
}

/// Runs `work` and lets it panic at its `count`th step, counted from 0.
#[cfg(test)]
pub(crate) fn panicking<T>(count: usize, work: impl FnOnce() -> T) -> T {
    counted(count, Then::Panic, work)
}

/// Runs `work` and lets a server not know what its `count`th question, counted from 0, is about.
#[cfg(test)]
pub(crate) fn forgetting<T>(count: usize, work: impl FnOnce() -> T) -> T {
    counted(count, Then::Forget, work)
}

/// Runs `work` and lets it wait at its `count`th step, counted from 0, until the gate is opened.
#[cfg(test)]
pub(crate) fn waiting<T>(count: usize, gate: &std::sync::Arc<Gate>, work: impl FnOnce() -> T) -> T {
    /// Tells the end, also of work that panics.
    struct Over<'a>(&'a Gate);
    impl Drop for Over<'_> {
        fn drop(&mut self) {
            self.0.change(|state| state.over = true);
        }
    }
    let _over = Over(gate);
    counted(count, Then::Wait(std::sync::Arc::clone(gate)), work)
}

#[cfg(test)]
fn counted<T>(count: usize, then: Then, work: impl FnOnce() -> T) -> T {
    let left = isize::try_from(count).unwrap().into();
    AFTER.set(Some(std::sync::Arc::new(Count { left, then })));
    let result = work();
    AFTER.set(None);
    result
}
