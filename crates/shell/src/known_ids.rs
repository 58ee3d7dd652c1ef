//! The ids that a session offers for completion: those in replies it has received, and those that the driver listed a
//! moment ago.

use csi_invocation::live_ids;
use csi_proto::schema::Message;
use csi_rpc::facts::IdKind;
use std::collections::{BTreeSet, HashMap};
use std::time::{Duration, Instant};

/// The time for which a list of the driver's is kept.
const FRESH: Duration = Duration::from_secs(10);

/// Ids by driver and kind.
#[derive(Debug, Default)]
pub(crate) struct KnownIds {
    seen: HashMap<(String, IdKind), BTreeSet<String>>,
    listed: HashMap<(String, IdKind), (Instant, Vec<String>)>,
}

impl KnownIds {
    /// Remembers every id in a reply of the driver.
    pub fn see(&mut self, driver: &str, message: &'static Message, bytes: &[u8]) {
        live_ids::collect(message, bytes, &mut |kind, id| {
            let ids = self.seen.entry((driver.to_owned(), kind)).or_default();
            if !ids.contains(id) {
                ids.insert(id.to_owned());
            }
        });
    }

    /// Forgets an id that was deleted.
    pub fn forget(&mut self, driver: &str, kind: IdKind, id: &str) {
        if let Some(ids) = self.seen.get_mut(&(driver.to_owned(), kind)) {
            ids.remove(id);
        }
    }

    /// Lets what the driver listed be asked for again: something was changed.
    pub(crate) fn expire(&mut self) {
        self.listed.clear();
    }

    /// Whether the driver has to be asked for its list.
    pub fn is_stale(&self, driver: &str, kind: IdKind) -> bool {
        let listed = self.listed.get(&(driver.to_owned(), kind));
        listed.is_none_or(|(when, _)| when.elapsed() > FRESH)
    }

    /// Remembers the driver's list.
    pub fn list(&mut self, driver: &str, kind: IdKind, ids: Vec<String>) {
        let key = (driver.to_owned(), kind);
        self.listed.insert(key, (Instant::now(), ids));
    }

    /// All ids of a kind, the driver's own list first.
    pub fn all(&self, driver: &str, kind: IdKind) -> Vec<String> {
        let key = (driver.to_owned(), kind);
        let mut ids = match self.listed.get(&key) {
            Some((_, ids)) => ids.clone(),
            None => Vec::new(),
        };
        let listed: BTreeSet<&String> = ids.iter().collect();
        let seen = self.seen.get(&key).into_iter().flatten();
        let more: Vec<String> = seen.filter(|id| !listed.contains(id)).cloned().collect();
        ids.extend(more);
        ids
    }
}
