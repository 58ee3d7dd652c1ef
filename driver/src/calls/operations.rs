//! The table of operations that run in this process, by volume. Owns the rule that a retry joins the running operation and that a
//! different one is refused at once, and the bound on how many run. The work runs in a task of its own, since a server drops a call's handler when its
//! client goes away. Must not know what the work is.

use csi_proto::lock::lock;
use prost::Message;
use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;
use tokio::sync::{Semaphore, SemaphorePermit, watch};

/// The most operations of one table. On a dead server they outlive their calls, and sidecars take the next name: so a server gets the
/// fewer the fewer are left. A sidecar makes as many calls at once as it has workers (external-provisioner: 100, unless told otherwise), so
/// that on a server which lives only a crowd of other callers meets this. Each takes some 30 KiB.
pub const MOST: usize = 1000;

/// So many operations at once leave memory behind that is worth giving back.
const CROWD: usize = 100;

/// Lets a call go on that only reads, as long as the answer lives: so many at once have a bound too.
///
/// # Errors
/// [`Busy::Crowded`].
pub fn reading() -> Result<SemaphorePermit<'static>, Busy> {
    static READING: Semaphore = Semaphore::const_new(MOST);
    READING.try_acquire().map_err(|_| Busy::Crowded)
}

/// Why an operation's result cannot be had now: the call may be repeated.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Busy {
    /// Something else is going on with the volume.
    #[error(
        "{owner} of this volume has been running for {age:.1?}: repeat the call when it has ended"
    )]
    Other {
        /// The RPC that runs.
        owner: &'static str,
        /// For how long.
        age: Duration,
    },
    /// The operation goes on, the caller's time is over.
    #[error(
        "{owner} of this volume has been running for {age:.1?} and goes on: repeat the call to wait for it"
    )]
    RunningOperation {
        /// The RPC that runs.
        owner: &'static str,
        /// For how long.
        age: Duration,
    },
    /// So many run that this one was not begun.
    #[error("too many calls are in progress, and no more are begun meanwhile: repeat the call")]
    Crowded,
    /// The task that did the work has died.
    #[error("{owner} of this volume ended without a result: repeat the call")]
    Died {
        /// The RPC that ran.
        owner: &'static str,
    },
}

/// The pauses before the memory of a crowd of calls is given back, again and again: its replies hold some until they are sent, and
/// its last calls may begin after the table was empty for a moment.
const GIVE_BACK_AFTER: [Duration; 3] = [
    Duration::from_secs(2),
    Duration::from_secs(10),
    Duration::from_secs(50),
];

#[expect(clippy::disallowed_methods, reason = "a thread of its own sleeps")]
fn give_back() {
    for pause in GIVE_BACK_AFTER {
        std::thread::sleep(pause);
        csi_sys::heap::give_back();
    }
}

/// What runs: two are the same when they are equal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The RPC's name.
    pub rpc: &'static str,
    /// Its arguments, without secrets, in any form that is equal for equal ones.
    pub arguments: Vec<u8>,
}

impl Operation {
    /// A call of `rpc` with this request, of which the secrets have been taken away.
    pub fn of(rpc: &'static str, request: &impl Message) -> Self {
        Self {
            rpc,
            arguments: request.encode_to_vec(),
        }
    }
}

struct RunningOperation<T> {
    operation: Operation,
    since: Instant,
    result: watch::Receiver<Option<T>>,
}

type Table<K, T> = Arc<Mutex<HashMap<K, RunningOperation<T>>>>;

/// The running operations on volumes that keys of type `K` name, with results of type `T`.
pub struct Operations<K, T> {
    running: Table<K, T>,
    are_on_one_server: fn(&K, &K) -> bool,
}

impl<K, T> Default for Operations<K, T> {
    fn default() -> Self {
        Self {
            running: Table::default(),
            are_on_one_server: |_, _| false,
        }
    }
}

/// Takes the volume's entry away when the work ends, also by a panic.
struct TableEntry<K: Eq + Hash, T> {
    key: K,
    table: Table<K, T>,
}

impl<K: Eq + Hash, T> Drop for TableEntry<K, T> {
    fn drop(&mut self) {
        let mut table = lock(&self.table);
        table.remove(&self.key);
        if table.is_empty() && table.capacity() > CROWD {
            table.shrink_to_fit();
            // Without a thread the next crowd finds it in use.
            let _ = std::thread::Builder::new().spawn(give_back);
        }
    }
}

/// Keeps operations off a volume for as long as it lives.
pub struct Hold<K: Eq + Hash, T>(#[allow(dead_code)] TableEntry<K, T>);

impl<K, T> Operations<K, T>
where
    K: Eq + Hash + Clone + Debug + Send + 'static,
    T: Clone + Send + Sync + 'static,
{
    /// A table of which each server gets a part, as far as volumes `are_on_one_server`.
    pub fn by_server(are_on_one_server: fn(&K, &K) -> bool) -> Self {
        Self {
            running: Table::default(),
            are_on_one_server,
        }
    }

    /// Whether one more may be begun on the volume `key` beside those that run.
    fn may_begin(&self, key: &K, running: &HashMap<K, RunningOperation<T>>) -> bool {
        let free = MOST.saturating_sub(running.len());
        let others = running.keys();
        let beside = others.filter(|other| (self.are_on_one_server)(key, other));
        beside.count() < free.div_ceil(2)
    }

    /// Runs `work` as `operation` on the volume `key`, or joins the equal one that runs, and waits for the result for at
    /// most `timeout`. The work goes on when the caller gives up.
    ///
    /// # Errors
    /// [`Busy`], as it says.
    pub async fn run<W>(
        &self,
        key: K,
        operation: Operation,
        timeout: Duration,
        work: impl FnOnce() -> W,
    ) -> Result<T, Busy>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let (result, _) = self.run_or_join(key, operation, timeout, work).await?;
        Ok(result)
    }

    /// As [`Operations::run`], for a result that may be out of date when it was come to before this call, as `may_be_old`
    /// says: a volume that was found, and that another controller has deleted since. Who has joined asks once more then.
    ///
    /// # Errors
    /// [`Busy`], as it says.
    pub async fn run_anew<W>(
        &self,
        key: K,
        operation: Operation,
        timeout: Duration,
        may_be_old: impl FnOnce(&T) -> bool,
        work: impl Fn() -> W,
    ) -> Result<T, Busy>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let began = Instant::now();
        let first = self.run_or_join(key.clone(), operation.clone(), timeout, &work);
        match first.await? {
            (result, true) if may_be_old(&result) => {
                let left = timeout.saturating_sub(began.elapsed());
                self.run(key, operation, left, work).await
            }
            (result, _) => Ok(result),
        }
    }

    /// Returns the result, and whether it is that of an operation which was running before.
    async fn run_or_join<W>(
        &self,
        key: K,
        operation: Operation,
        timeout: Duration,
        work: impl FnOnce() -> W,
    ) -> Result<(T, bool), Busy>
    where
        W: Future<Output = T> + Send + 'static,
    {
        let owner = operation.rpc;
        let (since, mut result, joined) = {
            let mut running = lock(&self.running);
            match running.get(&key) {
                Some(other) if other.operation != operation => {
                    return Err(Busy::Other {
                        owner: other.operation.rpc,
                        age: other.since.elapsed(),
                    });
                }
                Some(same) => (same.since, same.result.clone(), true),
                None if !self.may_begin(&key, &running) => return Err(Busy::Crowded),
                None => {
                    let (sender, receiver) = watch::channel(None);
                    let since = Instant::now();
                    running.insert(
                        key.clone(),
                        RunningOperation {
                            operation,
                            since,
                            result: receiver.clone(),
                        },
                    );
                    let entry = TableEntry {
                        key,
                        table: Arc::clone(&self.running),
                    };
                    let work = work();
                    tokio::spawn(async move {
                        let result = work.await;
                        // First the entry, then the result: who has the result may start the next operation.
                        drop(entry);
                        sender.send_replace(Some(result));
                    });
                    (since, receiver, false)
                }
            }
        };
        let waited = tokio::time::timeout(timeout, result.wait_for(Option::is_some)).await;
        match waited {
            Ok(Ok(result)) => match result.clone() {
                Some(result) => Ok((result, joined)),
                None => Err(Busy::Died { owner }),
            },
            Ok(Err(_)) => Err(Busy::Died { owner }),
            Err(_) => Err(Busy::RunningOperation {
                owner,
                age: since.elapsed(),
            }),
        }
    }

    /// Whether an operation runs on the volume `key`.
    pub fn is_running(&self, key: &K) -> bool {
        let running = lock(&self.running);
        running.contains_key(key)
    }

    /// Waits until no operation runs. What only holds a volume is not waited for.
    pub async fn settle(&self) {
        loop {
            let next = {
                let running = lock(&self.running);
                let mut results = running.values().map(|entry| &entry.result);
                // A hold's result has no sender from the beginning.
                let operation = results.find(|result| result.has_changed().is_ok());
                operation.cloned()
            };
            let Some(mut result) = next else { return };
            // An error is the end of an operation too.
            let _ = result.wait_for(Option::is_some).await;
        }
    }

    /// Keeps every operation off the volume `key` while the guard lives; nothing when one runs.
    pub fn hold(&self, key: K, owner: &'static str) -> Option<Hold<K, T>> {
        let mut running = lock(&self.running);
        if running.contains_key(&key) {
            return None;
        }
        let (_, receiver) = watch::channel(None);
        running.insert(
            key.clone(),
            RunningOperation {
                operation: Operation {
                    rpc: owner,
                    arguments: Vec::new(),
                },
                since: Instant::now(),
                result: receiver,
            },
        );
        Some(Hold(TableEntry {
            key,
            table: Arc::clone(&self.running),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use tokio::sync::Notify;

    const LONG: Duration = Duration::from_secs(30);

    fn operation(rpc: &'static str, arguments: &str) -> Operation {
        Operation {
            rpc,
            arguments: arguments.into(),
        }
    }

    #[tokio::test]
    async fn who_joins_an_older_operation_asks_again_when_its_result_may_be_old() {
        for (may_be_old, expected) in [(true, [1, 2]), (false, [1, 1])] {
            let operations = Operations::<u8, usize>::default();
            let (runs, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
            let call = || {
                operations.run_anew(
                    1,
                    operation("a", ""),
                    LONG,
                    move |_| may_be_old,
                    || {
                        let (runs, go) = (runs.clone(), go.clone());
                        async move {
                            let run = runs.fetch_add(1, Ordering::SeqCst) + 1;
                            go.notified().await;
                            run
                        }
                    },
                )
            };
            let both = async { tokio::join!(call(), call()) };
            let opened = async {
                for _ in expected {
                    go.notify_one();
                    tokio::task::yield_now().await;
                }
                std::future::pending::<()>().await;
            };
            let (first, second) = tokio::select! {
                results = both => results,
                () = opened => unreachable!(),
            };
            assert_eq!([first.unwrap(), second.unwrap()], expected);
        }
    }

    #[tokio::test]
    async fn equal_calls_share_one_run() {
        let operations = Arc::new(Operations::<u8, u8>::default());
        let (runs, go) = (Arc::new(AtomicUsize::new(0)), Arc::new(Notify::new()));
        let call = |arguments: &'static str| {
            let (operations, runs, go) = (operations.clone(), runs.clone(), go.clone());
            async move {
                let work = || async move {
                    runs.fetch_add(1, Ordering::SeqCst);
                    go.notified().await;
                    7
                };
                operations
                    .run(1, operation("A", arguments), LONG, work)
                    .await
            }
        };
        let first = tokio::spawn(call("x"));
        let second = tokio::spawn(call("x"));
        while runs.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        tokio::task::yield_now().await;
        let different = call("y").await.unwrap_err();
        assert!(
            matches!(different, Busy::Other { owner: "A", .. }),
            "{different}"
        );
        assert!(operations.hold(1, "recovery").is_none());
        go.notify_one();
        assert_eq!(first.await.unwrap(), Ok(7));
        assert_eq!(second.await.unwrap(), Ok(7));
        assert_eq!(runs.load(Ordering::SeqCst), 1);
        let held = operations.hold(1, "recovery").unwrap();
        assert!(matches!(
            call("x").await,
            Err(Busy::Other {
                owner: "recovery",
                ..
            })
        ));
        drop(held);
        go.notify_one();
        assert_eq!(call("x").await, Ok(7));
    }

    #[tokio::test]
    async fn a_crowd_is_refused_but_for_those_that_join() {
        let operations = Operations::<usize, u8>::default();
        let go = Arc::new(Notify::new());
        let run = |key, arguments| {
            let go = go.clone();
            let work = || async move {
                go.notified().await;
                7
            };
            let timeout = Duration::from_millis(1);
            operations.run(key, operation("A", arguments), timeout, work)
        };
        for key in 0..MOST {
            let busy = run(key, "x").await.unwrap_err();
            assert!(matches!(busy, Busy::RunningOperation { .. }), "{busy}");
        }
        for (key, arguments, expected) in [
            (MOST, "x", "no more are begun"),
            (0, "x", "goes on"),
            (0, "y", "when it has ended"),
        ] {
            let busy = run(key, arguments).await.unwrap_err().to_string();
            assert!(busy.contains(expected), "{busy}");
        }
        go.notify_waiters();
        operations.settle().await;
        let busy = run(MOST, "x").await.unwrap_err();
        assert!(matches!(busy, Busy::RunningOperation { .. }), "{busy}");
        assert!(lock(&operations.running).capacity() <= CROWD);
    }

    #[tokio::test]
    async fn the_work_outlives_its_caller() {
        let operations = Operations::<u8, u8>::default();
        let go = Arc::new(Notify::new());
        let run = |timeout| {
            let go = go.clone();
            let work = || async move {
                go.notified().await;
                7
            };
            operations.run(1, operation("A", ""), timeout, work)
        };
        let busy = run(Duration::from_millis(1)).await.unwrap_err();
        assert!(matches!(busy, Busy::RunningOperation { .. }), "{busy}");
        assert!(operations.is_running(&1));
        go.notify_one();
        assert_eq!(run(LONG).await, Ok(7));
        operations.settle().await;
        assert!(!operations.is_running(&1));
        let _held = operations.hold(2, "recovery").unwrap();
        operations.settle().await;
    }

    #[tokio::test]
    async fn a_panic_frees_the_volume() {
        let operations = Operations::<u8, u8>::default();
        let died = operations
            .run(1, operation("A", ""), LONG, || async {
                panic!("on purpose")
            })
            .await;
        assert_eq!(died, Err(Busy::Died { owner: "A" }));
        assert_eq!(
            operations
                .run(1, operation("B", ""), LONG, || async { 1 })
                .await,
            Ok(1)
        );
    }
}
