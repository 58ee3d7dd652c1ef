//! What each process that serves or attends shares does first: it raises its limit of open files, and gives up the capabilities
//! that it does not need. Owns the warnings about that; which capabilities are needed is said in `privileges`.

use crate::process::log::{self, Level, Log};
use crate::process::privileges::{self, Needs};
use csi_nfs_store::files::descriptors;
use std::error::Error;
use tokio::runtime::{Builder, Runtime};

/// Prepares this process, which keeps what it `needs`, and returns the runtime of its one thread: the work is waiting for the
/// kernel, and helpers must be started by a thread that stays.
pub fn prepare(needs: Needs, log: Log) -> Result<Runtime, Box<dyn Error>> {
    let raised = descriptors::raise_limit();
    // Before the first line of the log, which starts a thread.
    let missing = privileges::keep_only(needs)
        .map_err(|error| format!("giving up capabilities that are not needed: {error}"))?;
    log::take_panics(log);
    if let Err(error) = raised {
        let fields = [("error", error.to_string().into())];
        let what = "the limit of open files stays as it is";
        log.event(Level::Warn, what, &fields);
    }
    if !missing.is_empty() {
        // No reason not to start: a process may never be asked for what takes them, as one of a user's own local share.
        let fields = [("missing", missing.join(", ").into())];
        log.event(Level::Warn, "capabilities are missing", &fields);
    }
    Ok(Builder::new_current_thread().enable_all().build()?)
}
