//! Equal calls for lists share one walk through the shares. Owns which calls a walk answers, when it ends, and that it ends
//! when nobody waits for it any more; must not know what is listed.
//!
//! A list tells what there is after the call has come, so a call never joins a walk that has begun: it waits for the next
//! one, together with all that come meanwhile. A walk gives what it has when half of the time is over that its callers still
//! had when it began: then the answer reaches them, however slow the server is, and the next page goes on from there.

use csi_proto::lock::lock;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::time::Instant;
use tokio::sync::watch;
use tokio::task::AbortHandle;

/// A page of a list and the token of the next one, which is empty after the last.
pub(super) type Page<E> = (Vec<E>, String);

/// Until when a walk may go on.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    end: Instant,
    waiting: Arc<Waiting>,
}

impl Limit {
    /// Whether the walk is to give what it has.
    pub(super) fn is_over(&self) -> bool {
        self.waiting.is_abandoned.load(Ordering::Relaxed) || Instant::now() >= self.end
    }

    #[cfg(test)]
    pub(super) fn at(end: Instant) -> Self {
        Self {
            end,
            waiting: Waiting::of(end),
        }
    }
}

/// What equal calls have in common.
pub(super) type Question = Vec<u8>;

/// The walks of one kind of list, with results of type `T`.
pub(super) struct Lists<T>(Mutex<HashMap<Question, Line<T>>>);

/// The walks for one question.
struct Line<T> {
    /// The one that comes next, if anybody waits for it.
    next: Weak<Walk<T>>,
    /// Held by the one that runs.
    turn: Arc<tokio::sync::Mutex<()>>,
}

/// A walk, for as long as anybody waits for it.
struct Walk<T> {
    /// Its result when it has ended. Without a sender it has died.
    ended: watch::Receiver<Option<T>>,
    waiting: Arc<Waiting>,
    task: AbortHandle,
}

/// Those who wait for a walk.
#[derive(Debug)]
struct Waiting {
    /// Their deadlines; nothing when the walk has begun, and nobody joins it any more.
    deadlines: Mutex<Option<Vec<Instant>>>,
    /// Whether all have gone.
    is_abandoned: AtomicBool,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

/// When a walk that begins `now` has to end, for callers with these deadlines. Those whose time is over have gone.
fn end_of_walk(now: Instant, deadlines: &[Instant]) -> Instant {
    let left = deadlines.iter().filter(|deadline| **deadline > now);
    let halves = left.map(|deadline| now + (*deadline - now) / 2);
    halves.min().unwrap_or(now)
}

impl<T: Clone + Send + Sync + 'static> Lists<T> {
    /// The result of `work`, which answers `question` for all who ask it now, and has to end when its limit is over. Nothing
    /// when it has died. Whoever drops this waits no more; without anybody who waits the work is dropped as well.
    pub(super) async fn join<W>(
        &self,
        question: Question,
        deadline: Instant,
        work: impl FnOnce(Limit) -> W + Send + 'static,
    ) -> Option<T>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let walk = self.next(question, deadline, work);
        let mut ended = walk.ended.clone();
        let result = ended.wait_for(Option::is_some).await;
        let result = result.ok().and_then(|result| result.clone());
        drop(walk);
        let is_used =
            |line: &Line<T>| line.next.strong_count() > 0 || Arc::strong_count(&line.turn) > 1;
        lock(&self.0).retain(|_, line| is_used(line));
        result
    }

    /// The walk that answers `question` next.
    fn next<W>(
        &self,
        question: Question,
        deadline: Instant,
        work: impl FnOnce(Limit) -> W + Send + 'static,
    ) -> Arc<Walk<T>>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let mut lines = lock(&self.0);
        let line = lines.entry(question).or_insert_with(|| Line {
            next: Weak::new(),
            turn: Arc::default(),
        });
        if let Some(next) = line.next.upgrade()
            && let Some(deadlines) = &mut *lock(&next.waiting.deadlines)
        {
            deadlines.push(deadline);
            return Arc::clone(&next);
        }
        let (sender, ended) = watch::channel(None);
        let turn = Arc::clone(&line.turn);
        let waiting = Waiting::of(deadline);
        let those = Arc::clone(&waiting);
        let walking = tokio::spawn(async move {
            let turn = turn.lock_owned().await;
            let result = work(Waiting::begin(&those)).await;
            drop(turn);
            sender.send_replace(Some(result));
        });
        let walk = Arc::new(Walk {
            ended,
            waiting,
            task: walking.abort_handle(),
        });
        line.next = Arc::downgrade(&walk);
        walk
    }
}

impl Waiting {
    /// One, with this deadline.
    fn of(deadline: Instant) -> Arc<Self> {
        Arc::new(Self {
            deadlines: Mutex::new(Some(vec![deadline])),
            is_abandoned: AtomicBool::new(false),
        })
    }

    /// From now on nobody joins them.
    fn begin(waiting: &Arc<Self>) -> Limit {
        let deadlines = lock(&waiting.deadlines).take().unwrap_or_default();
        Limit {
            end: end_of_walk(Instant::now(), &deadlines),
            waiting: Arc::clone(waiting),
        }
    }
}

impl<T> Drop for Walk<T> {
    fn drop(&mut self) {
        self.waiting.is_abandoned.store(true, Ordering::Relaxed);
        self.task.abort();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;
    use tokio::sync::Semaphore;
    use tokio::task::JoinHandle;

    const LONG: Duration = Duration::from_secs(600);

    /// Lists whose walks begin, and end when they are let go.
    #[derive(Clone)]
    struct Rig {
        lists: Arc<Lists<usize>>,
        begun: Arc<AtomicUsize>,
        go: Arc<Semaphore>,
        limits: Arc<Mutex<Vec<Limit>>>,
    }

    impl Rig {
        fn new() -> Self {
            Self {
                lists: Arc::default(),
                begun: Arc::default(),
                go: Arc::new(Semaphore::new(0)),
                limits: Arc::default(),
            }
        }

        fn ask(&self, question: &str) -> JoinHandle<Option<usize>> {
            let (rig, question) = (self.clone(), question.as_bytes().to_vec());
            tokio::spawn(async move {
                let Rig {
                    lists,
                    begun,
                    go,
                    limits,
                } = rig;
                let work = move |limit| async move {
                    let number = begun.fetch_add(1, Ordering::SeqCst) + 1;
                    lock(&limits).push(limit);
                    go.acquire().await.unwrap().forget();
                    number
                };
                lists.join(question, Instant::now() + LONG, work).await
            })
        }

        async fn until_begun(&self, walks: usize) {
            while self.begun.load(Ordering::SeqCst) < walks {
                tokio::task::yield_now().await;
            }
            // Whatever else may begin.
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
            assert_eq!(self.begun.load(Ordering::SeqCst), walks);
        }
    }

    #[tokio::test]
    async fn all_who_come_while_a_walk_runs_have_the_next_one() {
        let rig = Rig::new();
        let first = rig.ask("a");
        rig.until_begun(1).await;
        let others: Vec<_> = (0..5).map(|_| rig.ask("a")).collect();
        let different = rig.ask("b");
        rig.until_begun(2).await;
        rig.go.add_permits(2);
        assert_eq!(first.await.unwrap(), Some(1));
        assert_eq!(different.await.unwrap(), Some(2));
        rig.until_begun(3).await;
        rig.go.add_permits(1);
        for other in others {
            assert_eq!(other.await.unwrap(), Some(3));
        }
        assert!(lock(&rig.lists.0).is_empty());
    }

    #[tokio::test]
    async fn a_walk_ends_when_the_last_who_waits_for_it_has_gone() {
        let rig = Rig::new();
        let (one, two) = (rig.ask("a"), rig.ask("a"));
        rig.until_begun(1).await;
        let limit = lock(&rig.limits)[0].clone();
        // Those of the next walk go before it has begun.
        let next = rig.ask("a");
        rig.until_begun(1).await;
        next.abort();
        assert!(next.await.is_err());
        one.abort();
        assert!(one.await.is_err());
        rig.until_begun(1).await;
        assert!(!limit.is_over());
        two.abort();
        assert!(two.await.is_err());
        assert!(limit.is_over());
        // Whoever comes then has one of its own, at once.
        let last = rig.ask("a");
        rig.until_begun(2).await;
        rig.go.add_permits(1);
        assert_eq!(last.await.unwrap(), Some(2));
        assert!(lock(&rig.lists.0).is_empty());
    }

    #[tokio::test]
    async fn a_walk_that_dies_is_told_to_those_who_wait() {
        let lists = Lists::<u8>::default();
        let work = |_| async { panic!("on purpose") };
        let died = lists.join(b"a".to_vec(), Instant::now() + LONG, work).await;
        assert_eq!(died, None);
        let again = lists.join(b"a".to_vec(), Instant::now() + LONG, |_| async { 1 });
        assert_eq!(again.await, Some(1));
    }

    #[test]
    fn half_of_what_the_most_impatient_caller_has_left() {
        let now = Instant::now();
        let after = |seconds| now + Duration::from_secs(seconds);
        let end = |deadlines: &[Instant]| end_of_walk(now, deadlines);
        assert_eq!(end(&[after(10)]), after(5));
        assert_eq!(end(&[after(10), after(4), after(60)]), after(2));
        assert_eq!(end(&[now]), now);
        // Who has gone does not count.
        assert_eq!(end(&[now, after(4)]), after(2));
        assert_eq!(end(&[]), now);
    }
}
