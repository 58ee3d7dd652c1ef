//! A thread for file operations that may never return: a dead NFS server can hold a thread in the kernel for any length
//! of time. Nobody joins it, neither the runtime nor the process at its end; it is asked to stop, and awaited for a
//! bounded time.
//!
//! Knows neither files nor CSI.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;
use tokio::sync::{oneshot, watch};
use tokio::time::timeout;

/// A thread that works. Each clone means the same one.
#[derive(Clone, Debug)]
pub struct WriterThread {
    stop: Arc<AtomicBool>,
    /// Closed by the thread's end.
    alive: watch::Receiver<()>,
}

impl WriterThread {
    /// Starts `work`, which looks at the flag now and then and ends when it is set. Its result comes through a channel; it runs
    /// on when nobody waits for that.
    ///
    /// # Errors
    /// When there is no thread to have.
    pub fn start<T: Send + 'static>(
        work: impl FnOnce(&AtomicBool) -> T + Send + 'static,
    ) -> io::Result<(Self, oneshot::Receiver<T>)> {
        let stop = Arc::new(AtomicBool::new(false));
        let (end, result) = oneshot::channel();
        let (living, alive) = watch::channel(());
        thread::Builder::new().name("writer".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || {
                let result = work(&stop);
                drop(living);
                // Nobody may wait any more.
                let _ = end.send(result);
            }
        })?;
        Ok((Self { stop, alive }, result))
    }

    /// Whether it has not ended.
    pub fn is_alive(&self) -> bool {
        self.alive.has_changed().is_ok()
    }

    /// Asks the work to stop and waits for its end, but not longer than `limit`. Returns whether it has ended.
    pub async fn stop(mut self, limit: Duration) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        timeout(limit, self.alive.changed()).await.is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    fn run<R>(test: impl Future<Output = R>) -> R {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build();
        runtime.unwrap().block_on(test)
    }

    #[test]
    fn work_stops_when_it_is_asked_to() {
        let (chunks, seen) = mpsc::channel();
        let ended = run(async {
            let writer = WriterThread::start(move |stop| {
                while !stop.load(Ordering::Relaxed) {
                    // A chunk.
                    thread::yield_now();
                }
                chunks.send("cleaned up").unwrap();
            });
            let (writer, _) = writer.unwrap();
            writer.stop(Duration::from_secs(20)).await
        });
        assert!(ended);
        // Not before the work has cleaned up.
        assert_eq!(seen.try_recv(), Ok("cleaned up"));
    }

    #[test]
    fn work_that_hangs_holds_nobody_up() {
        let (release, held) = mpsc::channel::<()>();
        // The runtime is dropped in `run`, which would wait for a blocking task of its own.
        let ended = run(async {
            let (writer, result) = WriterThread::start(move |_| held.recv()).unwrap();
            let waited = timeout(Duration::from_millis(10), result).await;
            assert!(waited.is_err() && writer.is_alive());
            writer.stop(Duration::from_millis(10)).await
        });
        assert!(!ended);
        // Still hanging: it had been held all the time.
        assert_eq!(release.send(()), Ok(()));
    }
}
