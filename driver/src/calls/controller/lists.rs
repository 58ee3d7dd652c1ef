//! Equal calls for lists share one walk through the shares. Owns which calls a walk answers, when it ends, and that it ends
//! when nobody waits for it any more; must not know what is listed.
//!
//! A list tells what there is after the call has come, so a call never joins a walk that has begun: it waits for the next
//! one, together with all that come meanwhile. A walk gives what it has when half of the time is over that its callers still
//! had when it began: then the answer reaches them, however slow the server is, and the next page goes on from there.

use csi_proto::lock::lock;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;
use tokio::sync::{Notify, watch};

/// A page of a list and the token of the next one, which is empty after the last.
pub(super) type Page<E> = (Vec<E>, String);

/// Until when a walk may go on.
#[derive(Clone, Debug)]
pub(super) struct Limit {
    end: Instant,
    is_abandoned: Arc<AtomicBool>,
}

impl Limit {
    /// Whether the walk is to give what it has.
    pub(super) fn is_over(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed) || Instant::now() >= self.end
    }

    #[cfg(test)]
    pub(super) fn at(end: Instant) -> Self {
        Self {
            end,
            is_abandoned: Arc::default(),
        }
    }
}

/// What equal calls have in common.
pub(super) type Question = Vec<u8>;

/// The walks of one kind of list, with results of type `T`.
pub(super) struct Lists<T> {
    lines: Lines<T>,
}

type Lines<T> = Arc<Mutex<HashMap<Question, Line<T>>>>;

/// The walks for one question: one that runs, and one that comes next.
struct Line<T> {
    next: Option<Arc<Walk<T>>>,
    /// Held by the one that runs.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Walks that have not ended.
    walks: usize,
}

struct Walk<T> {
    /// Its result when it has ended, and nothing in that when it has died.
    ended: watch::Sender<Option<Option<T>>>,
    is_abandoned: Arc<AtomicBool>,
    abandoned: Notify,
    /// The deadlines of those who wait for it. Changed under the lock of the lines alone.
    callers: Mutex<BTreeMap<u64, Instant>>,
}

impl<T> Default for Lists<T> {
    fn default() -> Self {
        Self {
            lines: Arc::default(),
        }
    }
}

/// When a walk that begins `now` has to end, for callers with these deadlines.
fn end_of_walk(now: Instant, deadlines: impl Iterator<Item = Instant>) -> Instant {
    let halves = deadlines.map(|deadline| now + deadline.saturating_duration_since(now) / 2);
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
        let (caller, mut ended) = {
            let mut lines = lock(&self.lines);
            let line = lines.entry(question.clone()).or_insert_with(|| Line {
                next: None,
                turn: Arc::default(),
                walks: 0,
            });
            let walk = match &line.next {
                Some(next) => Arc::clone(next),
                None => {
                    let walk = Arc::new(Walk {
                        ended: watch::Sender::new(None),
                        is_abandoned: Arc::default(),
                        abandoned: Notify::new(),
                        callers: Mutex::default(),
                    });
                    line.next = Some(Arc::clone(&walk));
                    line.walks += 1;
                    let turn = Arc::clone(&line.turn);
                    let running = RunningWalk {
                        lines: Arc::clone(&self.lines),
                        question: question.clone(),
                        walk: Arc::clone(&walk),
                    };
                    tokio::spawn(running.run(turn, work));
                    walk
                }
            };
            let ended = walk.ended.subscribe();
            (Caller::new(&self.lines, question, walk, deadline), ended)
        };
        let result = ended.wait_for(Option::is_some).await;
        let result = result.ok().and_then(|result| result.clone());
        drop(caller);
        result.flatten()
    }
}

/// A walk that has not ended.
struct RunningWalk<T> {
    lines: Lines<T>,
    question: Question,
    walk: Arc<Walk<T>>,
}

impl<T> RunningWalk<T> {
    async fn run<W>(self, turn: Arc<tokio::sync::Mutex<()>>, work: impl FnOnce(Limit) -> W)
    where
        W: Future<Output = T>,
    {
        let working = async {
            let _turn = turn.lock_owned().await;
            work(self.begin()).await
        };
        tokio::select! {
            biased;
            () = self.walk.abandoned.notified() => {}
            result = working => {
                self.walk.ended.send_replace(Some(Some(result)));
            }
        }
    }

    /// From now on nobody joins it.
    fn begin(&self) -> Limit {
        let mut lines = lock(&self.lines);
        if let Some(line) = lines.get_mut(&self.question)
            && line.is_next(&self.walk)
        {
            line.next = None;
        }
        let deadlines = lock(&self.walk.callers);
        Limit {
            end: end_of_walk(Instant::now(), deadlines.values().copied()),
            is_abandoned: Arc::clone(&self.walk.is_abandoned),
        }
    }
}

impl<T> Line<T> {
    fn is_next(&self, walk: &Arc<Walk<T>>) -> bool {
        let next = self.next.as_ref();
        next.is_some_and(|next| Arc::ptr_eq(next, walk))
    }
}

impl<T> Drop for RunningWalk<T> {
    /// Also by a panic.
    fn drop(&mut self) {
        let mut lines = lock(&self.lines);
        if let Some(line) = lines.get_mut(&self.question) {
            if line.is_next(&self.walk) {
                line.next = None;
            }
            line.walks -= 1;
            if line.walks == 0 {
                lines.remove(&self.question);
            }
        }
        self.walk.ended.send_if_modified(|ended| {
            let died = ended.is_none();
            ended.get_or_insert(None);
            died
        });
    }
}

/// One who waits for a walk, for as long as it waits.
struct Caller<T> {
    lines: Lines<T>,
    question: Question,
    walk: Arc<Walk<T>>,
    number: u64,
}

impl<T> Caller<T> {
    /// To be called under the lock of the lines.
    fn new(lines: &Lines<T>, question: Question, walk: Arc<Walk<T>>, deadline: Instant) -> Self {
        let number = {
            let mut callers = lock(&walk.callers);
            let number = callers.last_key_value().map_or(0, |(last, _)| last + 1);
            callers.insert(number, deadline);
            number
        };
        Self {
            lines: Arc::clone(lines),
            question,
            walk,
            number,
        }
    }
}

impl<T> Drop for Caller<T> {
    fn drop(&mut self) {
        let mut lines = lock(&self.lines);
        let mut callers = lock(&self.walk.callers);
        callers.remove(&self.number);
        if !callers.is_empty() {
            return;
        }
        if let Some(line) = lines.get_mut(&self.question)
            && line.is_next(&self.walk)
        {
            line.next = None;
        }
        self.walk.is_abandoned.store(true, Ordering::Relaxed);
        self.walk.abandoned.notify_one();
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
        assert!(lock(&rig.lists.lines).is_empty());
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
        assert!(lock(&rig.lists.lines).is_empty());
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
        let end = |deadlines: &[Instant]| end_of_walk(now, deadlines.iter().copied());
        assert_eq!(end(&[after(10)]), after(5));
        assert_eq!(end(&[after(10), after(4), after(60)]), after(2));
        assert_eq!(end(&[now]), now);
        assert_eq!(end(&[]), now);
    }
}
