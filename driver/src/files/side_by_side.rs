//! Does one piece of work with as many threads as it is given. Must not know what the work is.

use crate::calls::admission::ExtraThreads;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, scope};

/// Items for which one more thread is worth it.
const WORTH_A_THREAD: usize = 16;

/// Does `work` with each of `items` from the first on, unless it `is_over` before its turn; with the first in any case. Returns what
/// was made of them, in their order, up to the first that was left out.
pub(crate) fn of_each<I: Sync, T: Send>(
    extra: &ExtraThreads,
    items: &[I],
    is_over: impl Fn() -> bool + Sync,
    work: impl Fn(&I) -> T + Sync,
) -> Vec<T> {
    let next = AtomicUsize::new(0);
    let working = || {
        let mut made = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            match items.get(index) {
                Some(item) if index == 0 || !is_over() => made.push((index, work(item))),
                _ => return made,
            }
        }
    };
    let made = side_by_side(extra, 1 + items.len() / WORTH_A_THREAD, working);
    let mut all: Vec<_> = made.into_iter().flatten().collect();
    all.sort_unstable_by_key(|(index, _)| *index);
    let in_order = all.into_iter().enumerate();
    let in_order = in_order.take_while(|(place, (index, _))| place == index);
    in_order.map(|(_, (_, made))| made).collect()
}

/// Does `work` in this thread and in those that `extra` gives now, `most` in all, and returns what each has made. Where no
/// thread can be had it takes longer.
pub(crate) fn side_by_side<T: Send>(
    extra: &ExtraThreads,
    most: usize,
    work: impl Fn() -> T + Sync,
) -> Vec<T> {
    let work = &work;
    scope(|scope| {
        let others: Vec<_> = (1..most)
            .map_while(|_| {
                let thread = extra.take()?;
                let works = move || {
                    let _thread = thread;
                    work()
                };
                Builder::new().spawn_scoped(scope, works).ok()
            })
            .collect();
        let mut made = vec![work()];
        for other in others {
            made.push(other.join().unwrap_or_else(|panic| resume_unwind(panic)));
        }
        made
    })
}
