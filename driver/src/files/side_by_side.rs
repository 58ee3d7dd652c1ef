//! Does one piece of work with as many threads as it is given. Must not know what the work is.

use crate::calls::admission::ExtraThreads;
use std::panic::resume_unwind;
use std::thread::{Builder, scope};

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
