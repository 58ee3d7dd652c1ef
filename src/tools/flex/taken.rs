//! The rule that one call at a time has a volume.

use csi_proto::lock;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use thiserror::Error;

/// Another call has the volume.
#[derive(Debug, Error)]
#[error("{rpc} of this volume has been running for {age:.1?}: repeat the call when it has ended")]
pub struct Busy {
    /// Its RPC.
    pub rpc: &'static str,
    /// For how long.
    pub age: Duration,
}

/// The calls that run, by their volumes.
pub type Running = Arc<Mutex<HashMap<String, (&'static str, Instant)>>>;

/// A volume that is taken as long as a clone of this lives.
#[derive(Clone)]
pub struct Taken(#[allow(dead_code, reason = "it is dropped")] Arc<Entry>);

struct Entry {
    key: String,
    running: Running,
}

impl Drop for Entry {
    fn drop(&mut self) {
        lock(&self.running).remove(&self.key);
    }
}

impl Taken {
    /// Takes a volume for a call.
    ///
    /// # Errors
    /// When another one has it.
    pub fn take(running: &Running, key: String, rpc: &'static str) -> Result<Self, Busy> {
        let mut all = lock(running);
        if let Some((rpc, since)) = all.get(&key) {
            let age = since.elapsed();
            return Err(Busy { rpc, age });
        }
        all.insert(key.clone(), (rpc, Instant::now()));
        let running = running.clone();
        Ok(Self(Arc::new(Entry { key, running })))
    }

    /// Takes nothing, for a call-out that is about no volume.
    pub fn nothing() -> Self {
        Self(Arc::new(Entry {
            key: String::new(),
            running: Running::default(),
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_call_has_a_volume() {
        let running = Running::default();
        let take = |key: &str| Taken::take(&running, key.to_owned(), "Rpc");
        let first = take("a").ok();
        let clone = first.clone();
        assert!(take("a").is_err() && take("b").is_ok());
        drop(first);
        assert!(take("a").is_err());
        drop(clone);
        assert!(take("a").is_ok());
    }
}
