//! Ctrl-C, SIGTERM and SIGHUP: the first asks, the second ends the process at once.
//!
//! The first is an event that a future can wait for, so that calls are cancelled and commands behind `exec:` endpoints
//! ended. A process that does not come to wait, because it writes to somebody who does not read, dies of the second.

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag::{register, register_conditional_default};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals that ask to stop.
const SIGNALS: [i32; 3] = [SIGHUP, SIGINT, SIGTERM];

/// Makes the second signal end the process by its default action.
///
/// # Errors
/// When the system refuses.
pub fn second_signal_kills() -> io::Result<()> {
    let asked = Arc::new(AtomicBool::new(false));
    for number in SIGNALS {
        // In this order: the default acts only when an earlier signal has set the flag.
        register_conditional_default(number, Arc::clone(&asked))?;
        register(number, Arc::clone(&asked))?;
    }
    Ok(())
}

/// Returns when a signal asks to stop.
pub async fn asked_to_stop() {
    let mut signals: Vec<Signal> = SIGNALS
        .into_iter()
        // Where a signal cannot be watched, its default ends the process.
        .filter_map(|number| signal(SignalKind::from_raw(number)).ok())
        .collect();
    std::future::poll_fn(|context| {
        let come = signals
            .iter_mut()
            .any(|signal| signal.poll_recv(context).is_ready());
        if come {
            std::task::Poll::Ready(())
        } else {
            std::task::Poll::Pending
        }
    })
    .await;
}
