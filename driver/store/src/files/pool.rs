//! Work that several threads do together: pieces on a stack, of which each may put down more. Owns how many threads there are:
//! the one that begins, and extra ones while there is more work than threads that wait for some. A thread costs more than a few
//! files, and most work is small. Must not know what the work is.

use crate::files::admission::{ExtraThread, ExtraThreads};
#[cfg(test)]
use crate::files::crash_points;
use crate::files::descriptors::{Held, THREAD};
use csi_proto::lock::{lock, wait_for};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::thread::{Builder, Scope, panicking, scope};
use std::time::Duration;

/// How long an extra thread waits for work: others on the server may have some for it.
const IDLE: Duration = Duration::from_millis(200);
/// Items of which each is soon done, for which one more thread is worth it.
const WORTH_A_THREAD: usize = 16;

/// Pieces of work, and the threads that do them.
pub(crate) struct Pool<'a, W> {
    extra: &'a ExtraThreads,
    most: usize,
    queue: Mutex<Queue<W>>,
    /// There is work, or there will be no more.
    changed: Condvar,
    over: AtomicBool,
    #[cfg(test)]
    crash: crash_points::Inherited,
}

struct Queue<W> {
    work: Vec<W>,
    /// Threads that wait for work or are about to begin, and those that do some.
    idle: usize,
    busy: usize,
}

/// Lets no thread wait for one that panics.
struct EndsByPanic<'a, 'p, W: Send>(&'a Pool<'p, W>);

impl<W: Send> Drop for EndsByPanic<'_, '_, W> {
    fn drop(&mut self) {
        if panicking() {
            self.0.end();
            self.0.changed.notify_all();
        }
    }
}

impl<'a, W: Send> Pool<'a, W> {
    /// One with this work, the last piece of which comes first, for `most` threads at the most, of which all but one are of `extra`.
    pub(crate) fn new(extra: &'a ExtraThreads, most: usize, work: Vec<W>) -> Self {
        Self {
            extra,
            most,
            queue: Mutex::new(Queue {
                work,
                idle: 1,
                busy: 0,
            }),
            changed: Condvar::new(),
            over: AtomicBool::new(false),
            #[cfg(test)]
            crash: crash_points::inherited(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue<W>> {
        lock(&self.queue)
    }

    /// Puts down more work, the last piece of which comes first.
    pub(crate) fn put(&self, work: impl IntoIterator<Item = W>) {
        let mut queue = self.lock();
        queue.work.extend(work);
        if queue.idle > 0 {
            drop(queue);
            self.changed.notify_all();
        }
    }

    /// How many threads there are now, those that are about to begin among them.
    pub(crate) fn threads(&self) -> usize {
        let queue = self.lock();
        queue.idle + queue.busy
    }

    /// How many pieces of work nobody has taken up.
    pub(crate) fn waiting(&self) -> usize {
        self.lock().work.len()
    }

    /// Whether threads have nothing to do, or soon will: then whoever has several pieces puts them down one by one.
    pub(crate) fn is_short_of_work(&self) -> bool {
        let queue = self.lock();
        queue.idle > 0 || queue.work.len() < 2 * self.most
    }

    /// Has no more work taken up.
    pub(crate) fn end(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    /// Does the work, each thread by what `worker` gives it, and returns when all is done, or what was begun when the pool was
    /// ended.
    pub(crate) fn work<P: FnMut(W)>(&self, worker: impl Fn() -> P + Sync) {
        let _held = Held::need(THREAD);
        scope(|scope| self.run(scope, &worker, None));
    }

    /// One thread. An extra one ends when another job wants it, or when it has nothing to do for a while.
    fn run<'scope, P: FnMut(W)>(
        &'scope self,
        scope: &'scope Scope<'scope, '_>,
        worker: &'scope (impl Fn() -> P + Sync),
        extra: Option<(ExtraThread, Held)>,
    ) {
        let _ends = EndsByPanic(self);
        #[cfg(test)]
        crash_points::adopt(&self.crash);
        let mut perform = worker();
        let mut queue = self.lock();
        queue.idle -= 1;
        while !self.over.load(Ordering::Relaxed) {
            if let Some(work) = queue.work.pop() {
                queue.busy += 1;
                let helper = self.find_helper(&mut queue);
                drop(queue);
                if let Some(helper) = helper {
                    let helps = move || self.run(scope, worker, Some(helper));
                    // With fewer threads it takes longer.
                    if Builder::new().spawn_scoped(scope, helps).is_err() {
                        self.lock().idle -= 1;
                    }
                }
                perform(work);
                queue = self.lock();
                queue.busy -= 1;
                if extra.as_ref().is_some_and(|(it, _)| it.is_wanted_back()) {
                    break;
                }
            } else if queue.busy == 0 {
                break;
            } else {
                queue.idle += 1;
                let is_over;
                (queue, is_over) = wait_for(&self.changed, queue, IDLE);
                queue.idle -= 1;
                if is_over && extra.is_some() && queue.work.is_empty() {
                    break;
                }
            }
        }
        drop(queue);
        self.changed.notify_all();
    }

    /// The right to one more thread, if there is work for it.
    fn find_helper(&self, queue: &mut Queue<W>) -> Option<(ExtraThread, Held)> {
        if queue.work.len() <= queue.idle || queue.idle + queue.busy >= self.most {
            return None;
        }
        let helper = (self.extra.take()?, Held::take(THREAD)?);
        queue.idle += 1;
        Some(helper)
    }
}

/// Does `work` with each of `items` from the first on, unless it `is_over` before its turn; with the first in any case. Returns what
/// was made of them, in their order, up to the first that was left out.
pub(crate) fn of_each<I: Sync, T: Send>(
    extra: &ExtraThreads,
    items: &[I],
    is_over: impl Fn() -> bool + Sync,
    work: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let made = Mutex::new(Vec::with_capacity(items.len()));
    let all: Vec<_> = items.iter().enumerate().rev().collect();
    let pool = Pool::new(extra, 1 + items.len() / WORTH_A_THREAD, all);
    pool.work(|| {
        |(index, item)| match index > 0 && is_over() {
            true => pool.end(),
            false => {
                let one = work(item);
                lock(&made).push((index, one));
            }
        }
    });
    let mut made = std::mem::take(&mut *lock(&made));
    made.sort_unstable_by_key(|(index, _)| *index);
    let in_order = made.into_iter().enumerate();
    let in_order = in_order.take_while(|(place, (index, _))| place == index);
    in_order.map(|(_, (_, made))| made).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::sync::mpsc::channel;

    #[test]
    fn all_is_done_also_what_is_put_down_meanwhile() {
        for most in [1, 3, 32] {
            let (extra, done) = (ExtraThreads::default(), AtomicUsize::new(0));
            let pool = Pool::new(&extra, most, vec![12_u32, 3]);
            pool.work(|| {
                |depth| {
                    done.fetch_add(1, Ordering::Relaxed);
                    if depth > 0 {
                        pool.put([depth - 1; 2]);
                    }
                }
            });
            assert_eq!(done.into_inner(), (1 << 13) - 1 + (1 << 4) - 1);
        }
    }

    #[test]
    fn a_pool_that_is_ended_leaves_the_rest() {
        let extra = ExtraThreads::default();
        let pool = Pool::new(&extra, 1, vec![1, 2, 3]);
        pool.work(|| {
            |number| {
                if number == 2 {
                    pool.end()
                }
            }
        });
        assert_eq!(pool.waiting(), 1);
    }

    #[test]
    fn a_thread_that_panics_is_not_waited_for() {
        let (ended, end) = channel();
        std::thread::spawn(move || {
            let extra = ExtraThreads::default();
            let has_begun = AtomicBool::new(false);
            // The first thread takes the last piece, and waits for its helper when that is done.
            let pool = Pool::new(&extra, 2, vec![true, false]);
            let piece = |panics: bool| {
                has_begun.fetch_or(panics, Ordering::SeqCst);
                let is_to_go_on = || match panics {
                    true => pool.lock().idle > 0,
                    false => has_begun.load(Ordering::SeqCst),
                };
                while !is_to_go_on() {
                    std::thread::yield_now();
                }
                assert!(!panics, "on purpose");
            };
            let worked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                pool.work(|| piece);
            }));
            ended.send(worked.is_err()).unwrap();
        });
        assert_eq!(end.recv_timeout(Duration::from_secs(30)), Ok(true));
    }

    #[test]
    fn what_is_made_of_items_comes_in_their_order_up_to_the_first_left_out() {
        let items: Vec<usize> = (0..100).collect();
        let doubled = of_each(&ExtraThreads::default(), &items, || false, |item| item * 2);
        assert_eq!(
            doubled,
            items.iter().map(|item| item * 2).collect::<Vec<_>>()
        );
        let first = of_each(&ExtraThreads::default(), &items, || true, |item| *item);
        assert_eq!(first, [0]);
    }
}
