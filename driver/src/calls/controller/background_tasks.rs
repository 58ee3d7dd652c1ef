//! The tasks that no call waits for, and how they are told to end. Must not know what they do.

use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tokio::sync::watch;
use tokio::task::JoinSet;

/// What runs in the background, and how it is told to come to an end.
#[derive(Default)]
pub(super) struct BackgroundTasks {
    pub(super) tasks: Mutex<JoinSet<()>>,
    /// How many wait for the background now: while above zero, background tasks skip their delays.
    pub(super) hurry: watch::Sender<usize>,
    pub(super) stopping: AtomicBool,
}
