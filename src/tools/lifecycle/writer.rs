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
use tokio::sync::oneshot;
use tokio::time::timeout;

/// Work in its thread.
#[derive(Debug)]
pub struct WriterThread<T> {
    stop: Arc<AtomicBool>,
    ended: oneshot::Receiver<T>,
}

impl<T: Send + 'static> WriterThread<T> {
    /// Starts `work`, which looks at the flag now and then and ends when it is set.
    ///
    /// # Errors
    /// When there is no thread to have.
    pub fn start(work: impl FnOnce(&AtomicBool) -> T + Send + 'static) -> io::Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let (end, ended) = oneshot::channel();
        thread::Builder::new().name("writer".to_owned()).spawn({
            let stop = Arc::clone(&stop);
            move || {
                let result = work(&stop);
                // Nobody may wait any more.
                let _ = end.send(result);
            }
        })?;
        Ok(Self { stop, ended })
    }

    /// The result of the work, which runs on when this future is dropped.
    ///
    /// # Errors
    /// When the thread panicked.
    pub async fn result(&mut self) -> io::Result<T> {
        (&mut self.ended).await.map_err(io::Error::other)
    }

    /// Asks the work to stop and waits for its end, but not longer than `limit`. Returns whether it has ended.
    pub async fn stop(&mut self, limit: Duration) -> bool {
        self.stop.store(true, Ordering::Relaxed);
        timeout(limit, &mut self.ended).await.is_ok()
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
            writer.unwrap().stop(Duration::from_secs(20)).await
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
            let mut writer = WriterThread::start(move |_| held.recv()).unwrap();
            let waited = timeout(Duration::from_millis(10), writer.result()).await;
            assert!(waited.is_err());
            writer.stop(Duration::from_millis(10)).await
        });
        assert!(!ended);
        // Still hanging: it had been held all the time.
        assert_eq!(release.send(()), Ok(()));
    }
}
