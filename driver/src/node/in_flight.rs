//! One operation a target at a time: a repeat joins the one that runs, anything else is told to come later. The work
//! goes on when its caller goes away. Owns the table of what runs; must not know what the work is.

use crate::node::error::NodeError;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::watch;

type Outcome<T> = Result<T, NodeError>;

/// The operations that run, by target.
#[derive(Debug)]
pub struct InFlight<T> {
    running: Arc<Mutex<HashMap<PathBuf, Running<T>>>>,
}

impl<T> Clone for InFlight<T> {
    fn clone(&self) -> Self {
        Self {
            running: Arc::clone(&self.running),
        }
    }
}

impl<T> Default for InFlight<T> {
    fn default() -> Self {
        Self {
            running: Arc::default(),
        }
    }
}

#[derive(Debug)]
struct Running<T> {
    what: &'static str,
    fingerprint: String,
    since: Instant,
    outcome: watch::Receiver<Option<Outcome<T>>>,
}

impl<T: Clone + Send + Sync + 'static> InFlight<T> {
    /// Runs `work` on `target`, or joins the operation of the same name and fingerprint that runs there already.
    ///
    /// # Errors
    /// `Busy` when another operation runs there; else what the work returns.
    pub async fn run<W>(
        &self,
        target: &Path,
        what: &'static str,
        fingerprint: String,
        work: W,
    ) -> Outcome<T>
    where
        W: Future<Output = Outcome<T>> + Send + 'static,
    {
        let mut outcome = self.start_or_join(target, what, fingerprint, work)?;
        let done = outcome.wait_for(Option::is_some).await;
        // The sender goes away without a result only when the work panicked.
        done.map_err(|_| NodeError::Vanished)?
            .clone()
            .unwrap_or(Err(NodeError::Vanished))
    }

    fn start_or_join<W>(
        &self,
        target: &Path,
        what: &'static str,
        fingerprint: String,
        work: W,
    ) -> Result<watch::Receiver<Option<Outcome<T>>>, NodeError>
    where
        W: Future<Output = Outcome<T>> + Send + 'static,
    {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(there) = running.get(target) {
            return if there.what == what && there.fingerprint == fingerprint {
                Ok(there.outcome.clone())
            } else {
                Err(NodeError::Busy {
                    target: target.to_owned(),
                    what: there.what,
                    age: there.since.elapsed(),
                })
            };
        }
        let (sender, outcome) = watch::channel(None);
        let entry = Running {
            what,
            fingerprint,
            since: Instant::now(),
            outcome: outcome.clone(),
        };
        running.insert(target.to_owned(), entry);
        let ended = Ended {
            running: Arc::clone(&self.running),
            target: target.to_owned(),
        };
        tokio::spawn(async move {
            let result = work.await;
            // Whoever sees the result may start the next operation at once.
            drop(ended);
            sender.send_replace(Some(result));
        });
        Ok(outcome)
    }

    /// Whether an operation runs on `target`.
    pub fn is_running(&self, target: &Path) -> bool {
        let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.contains_key(target)
    }

    /// Waits until nothing runs.
    pub async fn settled(&self) {
        loop {
            let next = {
                let running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
                running.values().next().map(|entry| entry.outcome.clone())
            };
            let Some(mut outcome) = next else { return };
            let _ = outcome.wait_for(Option::is_some).await;
        }
    }
}

/// Frees the target, also when the work panics.
struct Ended<T> {
    running: Arc<Mutex<HashMap<PathBuf, Running<T>>>>,
    target: PathBuf,
}

impl<T> Drop for Ended<T> {
    fn drop(&mut self) {
        let mut running = self.running.lock().unwrap_or_else(PoisonError::into_inner);
        running.remove(&self.target);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};
    use tokio::sync::oneshot;

    #[tokio::test]
    async fn equal_operations_join_and_others_are_sent_away() {
        let table = InFlight::<u32>::default();
        let count = Arc::new(AtomicU32::new(0));
        let (open, gate) = oneshot::channel::<()>();
        let target = Path::new("/t");
        let work = {
            let count = Arc::clone(&count);
            async move {
                gate.await.unwrap();
                Ok(count.fetch_add(1, Ordering::SeqCst) + 1)
            }
        };
        let first = table
            .start_or_join(target, "publish", "a".into(), work)
            .unwrap();
        let never = || async { Err(NodeError::Vanished) };
        let second = table
            .start_or_join(target, "publish", "a".into(), never())
            .unwrap();
        for (what, fingerprint) in [("publish", "b"), ("unpublish", "a")] {
            let other = table.start_or_join(target, what, fingerprint.into(), never());
            assert!(matches!(other, Err(NodeError::Busy { .. })));
        }
        assert!(table.is_running(target));
        open.send(()).unwrap();
        for mut outcome in [first, second] {
            let done = outcome.wait_for(Option::is_some).await.unwrap().clone();
            assert_eq!(done.unwrap().unwrap(), 1);
        }
        table.settled().await;
        assert!(!table.is_running(target));
    }

    #[tokio::test]
    async fn work_goes_on_without_its_caller_and_frees_its_target() {
        let table = InFlight::<u32>::default();
        let (open, gate) = oneshot::channel::<()>();
        let (tell, told) = oneshot::channel();
        let work = async move {
            gate.await.unwrap();
            tell.send(()).unwrap();
            Ok(1)
        };
        let call = table.run(Path::new("/t"), "publish", String::new(), work);
        let timeout = std::time::Duration::from_millis(1);
        assert!(tokio::time::timeout(timeout, call).await.is_err());
        open.send(()).unwrap();
        told.await.unwrap();
        table.settled().await;
        let next = table.run(Path::new("/t"), "unpublish", String::new(), async { Ok(2) });
        assert_eq!(next.await.unwrap(), 2);
    }
}
