//! The admission of work that may block on a server: the one place where work on shares waits for its turn. Must not know
//! what the work is.
//!
//! A thread that asks a dead server hangs until the server is back. So threads are given out by server. The fewer threads
//! are left, the fewer a server gets: two dead servers leave enough for every kind of work on others, six leave some for
//! calls. A job waits for its turn before it begins. It never waits for threads that only make it faster, and gives them
//! back when another job wants its part. All these threads together are far fewer than the runtime's pool has. Work that
//! asks no server, such as Probe and the node's look-ups, takes its threads from that pool and never waits here.

use csi_proto::lock::lock;
use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard};
use tokio::sync::oneshot;

/// What threads are for. Jobs of one kind never wait for those of another on a server that answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// A call's look at a share, or its change.
    Call,
    /// Going through a share's volumes or snapshots for a list.
    List,
    /// A copy.
    Copy,
    /// What no call waits for: recoveries, purges, and the ends of mounts.
    Upkeep,
}

const KINDS: [Work; 4] = [Work::Call, Work::List, Work::Copy, Work::Upkeep];

/// What one server may have for one kind of work.
struct Most {
    /// Jobs at a time.
    jobs: usize,
    /// Threads that each of them has for certain.
    threads: usize,
    /// Threads beside those, for all jobs together.
    extra: usize,
}

impl Work {
    const fn most(self) -> Most {
        let (jobs, threads, extra) = match self {
            Self::Call => (10, 1, 0),
            Self::List => (2, 1, 6),
            // One that copies, one that starts others, and one that renews the claim.
            Self::Copy => (3, 3, 31),
            Self::Upkeep => (2, 1, 7),
        };
        Most {
            jobs,
            threads,
            extra,
        }
    }
}

/// Threads of all jobs on all servers together, but the extra ones.
const THREADS: usize = 52;
/// Of those, how many are kept for calls when other work begins.
const KEPT_FOR_CALLS: usize = 8;
/// Extra threads on all servers together.
const EXTRA: usize = 47;

/// Whether one more job of a kind may begin on a server, on which so many jobs of each kind run, while `free` threads are
/// left for all servers.
fn may_begin(work: Work, running: &[usize; KINDS.len()], free: usize) -> bool {
    let most = work.most();
    let running_of = |work: Work| running[work as usize];
    if running_of(work) >= most.jobs || most.threads > free {
        return false;
    }
    if work == Work::Call {
        return running_of(work) < free.div_ceil(2);
    }
    let free = free.saturating_sub(KEPT_FOR_CALLS);
    let others: usize = KINDS
        .into_iter()
        .filter(|kind| *kind != Work::Call)
        .map(|kind| running_of(kind) * kind.most().threads)
        .sum();
    match running_of(work) {
        0 => most.threads <= free,
        _ => 3 * (others + most.threads) <= 2 * free,
    }
}

/// How many extra threads one of `jobs` may have.
fn fair_part(work: Work, jobs: usize) -> usize {
    work.most().extra.div_ceil(jobs.max(1))
}

/// Whether a job that has `own` extra threads may have one more, on a server where `jobs` of its kind have `taken`, while
/// `free` are left for all servers.
fn may_take(work: Work, own: usize, jobs: usize, taken: usize, free: usize) -> bool {
    own < fair_part(work, jobs) && taken < work.most().extra && taken < 2 * free
}

/// The turns of one process. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Admission {
    queues: Arc<Mutex<Queues>>,
}

#[derive(Debug, Default)]
struct Queues {
    /// Threads of all jobs.
    threads: usize,
    extra: usize,
    servers: BTreeMap<Arc<str>, Server>,
}

#[derive(Debug, Default)]
struct Server {
    running: [usize; KINDS.len()],
    extra: [usize; KINDS.len()],
    waiting: [VecDeque<oneshot::Sender<Turn>>; KINDS.len()],
}

impl Server {
    fn is_idle(&self) -> bool {
        self.running
            .iter()
            .chain(&self.extra)
            .all(|count| *count == 0)
            && self.waiting.iter().all(VecDeque::is_empty)
    }

    fn threads(&self) -> usize {
        let of = |kind: Work| self.running[kind as usize] * kind.most().threads;
        KINDS.into_iter().map(of).sum()
    }
}

/// The right to do one job, until this is dropped. To be kept by the thread that does it: a caller may give up while that
/// hangs.
#[derive(Debug)]
pub struct Turn {
    admission: Admission,
    server: Arc<str>,
    work: Work,
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut queues = self.admission.lock();
        queues.threads -= self.work.most().threads;
        if let Some(server) = queues.servers.get_mut(&self.server) {
            server.running[self.work as usize] -= 1;
        }
        self.admission.call_up(queues);
    }
}

/// Servers are the same in any case of letters. By several names one server counts as several.
fn name_of(server: &str) -> Arc<str> {
    server.to_ascii_lowercase().into()
}

impl Admission {
    fn lock(&self) -> MutexGuard<'_, Queues> {
        lock(&self.queues)
    }

    /// Waits until one more job may begin on `server`; first come, first served among those of its kind.
    pub async fn enter(&self, server: &str, work: Work) -> Turn {
        let (sender, turn) = oneshot::channel();
        {
            let mut queues = self.lock();
            let waiting = &mut queues.servers.entry(name_of(server)).or_default().waiting;
            let line = &mut waiting[work as usize];
            // Callers that have given up, which nobody else would take away while the server is dead.
            line.retain(|sender| !sender.is_closed());
            line.push_back(sender);
            self.call_up(queues);
        }
        match turn.await {
            Ok(turn) => turn,
            // Senders are dropped with the queues alone, which `self` keeps.
            Err(_) => std::future::pending().await,
        }
    }

    /// Whether a job that comes now has to wait.
    pub fn would_wait(&self, server: &str, work: Work) -> bool {
        let queues = self.lock();
        let free = THREADS - queues.threads;
        match queues.servers.get(&*name_of(server)) {
            None => !may_begin(work, &[0; KINDS.len()], free),
            Some(server) => {
                let line = &server.waiting[work as usize];
                line.iter().any(|sender| !sender.is_closed())
                    || !may_begin(work, &server.running, free)
            }
        }
    }

    /// The extra threads that one job may ask for.
    pub fn extra_threads(&self, server: &str, work: Work) -> ExtraThreads {
        ExtraThreads(Some(Arc::new(Extra {
            admission: self.clone(),
            server: name_of(server),
            work,
            own: AtomicUsize::new(0),
        })))
    }

    /// Gives turns to those who wait, as far as they may begin: the server that has the fewest threads comes first.
    fn call_up(&self, mut queues: MutexGuard<'_, Queues>) {
        // Turns that nobody waits for any more give themselves back, which takes the lock.
        let mut unwanted = Vec::new();
        loop {
            let free = THREADS - queues.threads;
            let candidates = queues.servers.iter_mut().flat_map(|(name, server)| {
                let ready = KINDS.into_iter().filter(|kind| {
                    !server.waiting[*kind as usize].is_empty()
                        && may_begin(*kind, &server.running, free)
                });
                let ready: Vec<Work> = ready.collect();
                let threads = server.threads();
                ready
                    .into_iter()
                    .map(move |kind| (threads, kind, Arc::clone(name)))
            });
            let Some((_, work, name)) = candidates.min_by_key(|(threads, ..)| *threads) else {
                break;
            };
            queues.threads += work.most().threads;
            let next = queues.servers.get_mut(&name).and_then(|server| {
                server.running[work as usize] += 1;
                server.waiting[work as usize].pop_front()
            });
            let turn = Turn {
                admission: self.clone(),
                server: name,
                work,
            };
            match next {
                Some(sender) => unwanted.extend(sender.send(turn).err()),
                None => unwanted.push(turn),
            }
        }
        queues.servers.retain(|_, server| !server.is_idle());
        drop(queues);
        drop(unwanted);
    }
}

/// Where a job asks for threads that make it faster. The default gives as many as are asked for. Cheap to clone; the clones
/// are those of one job.
#[derive(Clone, Debug, Default)]
pub struct ExtraThreads(Option<Arc<Extra>>);

#[derive(Debug)]
struct Extra {
    admission: Admission,
    server: Arc<str>,
    work: Work,
    /// How many this job has. Changed under the queues's lock alone.
    own: AtomicUsize,
}

/// The right to one more thread, until this is dropped.
#[derive(Debug)]
pub struct ExtraThread(Option<Arc<Extra>>);

impl ExtraThreads {
    /// One more thread, if there is one now.
    pub fn take(&self) -> Option<ExtraThread> {
        let Some(extra) = &self.0 else {
            return Some(ExtraThread(None));
        };
        let mut queues = extra.admission.lock();
        let free = EXTRA - queues.extra;
        let kind = extra.work as usize;
        let server = queues.servers.entry(Arc::clone(&extra.server)).or_default();
        let (jobs, taken) = (server.running[kind], server.extra[kind]);
        if !may_take(extra.work, extra.own.load(Relaxed), jobs, taken, free) {
            return None;
        }
        server.extra[kind] += 1;
        queues.extra += 1;
        extra.own.fetch_add(1, Relaxed);
        Some(ExtraThread(Some(Arc::clone(extra))))
    }

    /// Whether other jobs of this kind wait for their turn on this server.
    pub fn others_wait(&self) -> bool {
        let Some(extra) = &self.0 else { return false };
        let queues = extra.admission.lock();
        let server = queues.servers.get(&extra.server);
        let mut line = server
            .into_iter()
            .flat_map(|it| &it.waiting[extra.work as usize]);
        line.any(|sender| !sender.is_closed())
    }
}

impl ExtraThread {
    /// Whether this job has more of them than its part is now, since others have come.
    pub fn is_wanted_back(&self) -> bool {
        let Some(extra) = &self.0 else { return false };
        let queues = extra.admission.lock();
        let server = queues.servers.get(&extra.server);
        let jobs = server.map_or(0, |server| server.running[extra.work as usize]);
        extra.own.load(Relaxed) > fair_part(extra.work, jobs)
    }
}

impl Drop for ExtraThread {
    fn drop(&mut self) {
        let Some(extra) = &self.0 else { return };
        let mut queues = extra.admission.lock();
        queues.extra -= 1;
        if let Some(server) = queues.servers.get_mut(&extra.server) {
            server.extra[extra.work as usize] -= 1;
            if server.is_idle() {
                queues.servers.remove(&extra.server);
            }
        }
        extra.own.fetch_sub(1, Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::pin::pin;
    use std::task::{Context, Poll, Waker};

    /// The turn that `enter` gives at once; nothing when it has to wait.
    fn at_once(admission: &Admission, server: &str, work: Work) -> Option<Turn> {
        let entering = pin!(admission.enter(server, work));
        match entering.poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(turn) => Some(turn),
            Poll::Pending => None,
        }
    }

    /// All that a server can have: what a dead one holds when every kind of work hangs on it.
    #[derive(Default)]
    struct Held {
        turns: Vec<Turn>,
        extra: Vec<ExtraThread>,
    }

    fn hold_everything(admission: &Admission, server: &str, kinds: &[Work]) -> Held {
        let mut held = Held::default();
        loop {
            let before = (held.turns.len(), held.extra.len());
            for kind in kinds {
                if let Some(turn) = at_once(admission, server, *kind) {
                    held.turns.push(turn);
                    let threads = admission.extra_threads(server, *kind);
                    held.extra.extend(std::iter::from_fn(|| threads.take()));
                }
            }
            if (held.turns.len(), held.extra.len()) == before {
                return held;
            }
        }
    }

    fn threads(held: &[Held]) -> usize {
        let of = |held: &Held| {
            let jobs = held.turns.iter().map(|turn| turn.work.most().threads);
            jobs.sum::<usize>() + held.extra.len()
        };
        held.iter().map(of).sum()
    }

    #[test]
    fn one_server_has_all_that_it_may_and_no_kind_takes_from_another() {
        for order in [KINDS, [Work::Upkeep, Work::Copy, Work::List, Work::Call]] {
            let admission = Admission::default();
            let held = order.map(|kind| hold_everything(&admission, "nas", &[kind]));
            for (kind, held) in order.into_iter().zip(&held) {
                assert_eq!(held.turns.len(), kind.most().jobs, "{kind:?}");
            }
        }
        let admission = Admission::default();
        let _turn = at_once(&admission, "nas", Work::Copy).unwrap();
        let copy = admission.extra_threads("nas", Work::Copy);
        let all: Vec<_> = std::iter::from_fn(|| copy.take()).collect();
        assert_eq!(all.len(), Work::Copy.most().extra);
    }

    #[test]
    fn a_server_that_lives_has_its_turn_beside_six_that_are_dead() {
        for order in [KINDS, [Work::Upkeep, Work::Copy, Work::List, Work::Call]] {
            let admission = Admission::default();
            let mut dead = Vec::new();
            for number in 1..=20 {
                let server = format!("dead-{number}");
                dead.push(hold_everything(&admission, &server, &order));
                let turn = at_once(&admission, "alive", Work::Call);
                assert!(turn.is_some() || number > 6, "{number} dead servers");
            }
            assert!(threads(&dead[..3]) < 95, "{}", threads(&dead[..3]));
            assert!(threads(&dead) <= THREADS + EXTRA);
        }
    }

    #[test]
    fn all_kinds_of_work_begin_beside_two_dead_servers() {
        let admission = Admission::default();
        let _dead = ["a", "b"].map(|server| hold_everything(&admission, server, &KINDS));
        let calls = hold_everything(&admission, "alive", &[Work::Call]);
        assert!(calls.turns.len() >= 4, "{}", calls.turns.len());
        drop(calls);
        for kind in KINDS {
            assert!(at_once(&admission, "alive", kind).is_some(), "{kind:?}");
        }
    }

    #[tokio::test]
    async fn who_comes_first_has_the_first_turn_and_who_has_gone_has_none() {
        let admission = Admission::default();
        let mut held = hold_everything(&admission, "nas", &[Work::Call]).turns;
        assert!(admission.would_wait("NAS", Work::Call));
        assert!(!admission.would_wait("nas", Work::List));
        assert!(!admission.would_wait("other", Work::Call));
        let enter = || Box::pin(admission.enter("nas", Work::Call));
        let (mut first, mut gone, mut last) = (enter(), enter(), enter());
        for waiting in [&mut first, &mut gone, &mut last] {
            assert!(poll_once(waiting).is_none());
        }
        drop(gone);
        held.pop();
        let turn = poll_once(&mut first).expect("it is its turn");
        assert!(poll_once(&mut last).is_none());
        drop(turn);
        assert!(poll_once(&mut last).is_some());
        drop(held);
        assert!(admission.lock().servers.is_empty());
        assert_eq!(admission.lock().threads, 0);
    }

    fn poll_once<F: Future + Unpin>(future: &mut F) -> Option<F::Output> {
        match std::pin::Pin::new(future).poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(output) => Some(output),
            Poll::Pending => None,
        }
    }

    #[test]
    fn a_second_job_gets_its_part_of_the_extra_threads() {
        let admission = Admission::default();
        let job = || {
            let turn = at_once(&admission, "nas", Work::Copy).unwrap();
            (turn, admission.extra_threads("nas", Work::Copy))
        };
        let (_first, threads) = job();
        let mut all: Vec<_> = std::iter::from_fn(|| threads.take()).collect();
        assert!(!all[0].is_wanted_back());
        let (_second, others) = job();
        assert!(others.take().is_none());
        while all[0].is_wanted_back() {
            all.pop();
        }
        let half = Work::Copy.most().extra.div_ceil(2);
        assert_eq!(all.len(), half);
        let theirs: Vec<_> = std::iter::from_fn(|| others.take()).collect();
        assert_eq!(theirs.len(), Work::Copy.most().extra - half);
        drop((all, theirs));
        assert_eq!(admission.lock().extra, 0);
    }

    #[test]
    fn who_works_long_sees_that_others_wait() {
        let admission = Admission::default();
        let threads = admission.extra_threads("nas", Work::Upkeep);
        let _held = hold_everything(&admission, "nas", &[Work::Upkeep]);
        assert!(!threads.others_wait());
        let mut waiting = Box::pin(admission.enter("nas", Work::Upkeep));
        assert!(poll_once(&mut waiting).is_none());
        assert!(threads.others_wait());
        drop(waiting);
        assert!(!threads.others_wait());
    }

    #[test]
    fn without_a_bound_there_is_always_one_more() {
        let threads = ExtraThreads::default();
        let all: Vec<_> = (0..1000).map(|_| threads.take().unwrap()).collect();
        assert!(!all[0].is_wanted_back() && !threads.others_wait());
    }
}
