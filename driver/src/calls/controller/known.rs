//! What this process knows of one share: what it has learned since the start, and what it has told. Plain values; must not ask a share.

use super::looks::SILENT_IN;
use super::options::KnownOptions;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::agents::Capabilities;
use csi_nfs_store::share::comparison::Comparison;
use csi_nfs_store::share::measures::MeasuredShare;
use csi_nfs_store::share::token::ShareUuid;
use csi_proto::lock::lock;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// What is known of a share that was named at the start or has been opened since. What a request merely names is not kept.
#[derive(Default)]
pub(super) struct Known {
    pub(super) uuid: Option<ShareUuid>,
    /// Its place among all that were known.
    pub(super) order: usize,
    /// When it was last opened.
    pub(super) used: Option<Instant>,
    pub(super) options: KnownOptions,
    pub(super) recovered: bool,
    pub(super) purge_asked: bool,
    /// What was told last of subjects that are looked at again and again.
    pub(super) told: BTreeMap<&'static str, Vec<String>>,
    /// What has come of the last comparison of its limits by this process.
    pub(super) limits: Comparison,
    /// What was told of things on it that cannot be used.
    pub(super) odd_told: BTreeSet<String>,
    pub(super) purging: Arc<tokio::sync::Mutex<()>>,
    /// How the last attempt to open it ended; nothing before.
    pub(super) tried: Option<Tried>,
    /// What the agent can that lived on its server at its last purge, if one did, and when that was.
    pub(super) agent: Option<(Instant, Option<Capabilities>)>,
    /// What its last purge had to leave, and when that was.
    pub(super) trash: Option<(Instant, usize)>,
    /// What was found of its measures last, and when.
    pub(super) measured: Option<(Instant, MeasuredShare)>,
    /// Addresses that were known later, and the UUID that was found at both, which lead to this share, too; or that could not be
    /// compared then.
    pub(super) compared: BTreeMap<(Export, ShareUuid), Option<Instant>>,
}

/// How an attempt to open a share ended, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    pub(super) at: Instant,
    pub(super) opened: bool,
}

/// Whether a share counts as reachable; nothing when it does not count at all, for it could not be opened and nobody has asked for
/// it since: it may be gone for good, or another controller leads by now, and an old failure would sound an alarm for ever.
pub(super) fn reachable(
    tried: Option<Tried>,
    now: Instant,
    forget_after: Duration,
) -> Option<bool> {
    match tried {
        Some(last) if !last.opened && now.duration_since(last.at) >= forget_after => None,
        Some(last) => Some(last.opened),
        None => Some(false),
    }
}

/// An attempt to open a share. One that is given up when the share counts as silent has failed.
pub(super) struct Attempt<'a> {
    known: &'a Mutex<BTreeMap<Export, Known>>,
    export: &'a Export,
    begun: Instant,
    /// How it has ended.
    pub(super) opened: Option<bool>,
}

impl<'a> Attempt<'a> {
    pub(super) fn begin(known: &'a Mutex<BTreeMap<Export, Known>>, export: &'a Export) -> Self {
        Self {
            known,
            export,
            begun: Instant::now(),
            opened: None,
        }
    }
}

impl Drop for Attempt<'_> {
    fn drop(&mut self) {
        let at = Instant::now();
        let is_silent = at.saturating_duration_since(self.begun) >= SILENT_IN;
        if let Some(opened) = self.opened.or(is_silent.then_some(false))
            && let Some(share) = lock(self.known).get_mut(self.export)
        {
            share.tried = Some(Tried { at, opened });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_failure_counts_no_more() {
        let limit = Duration::from_secs(600);
        let at = Instant::now();
        for (opened, seconds, expected) in [
            (true, 0, Some(true)),
            (true, 601, Some(true)),
            (false, 0, Some(false)),
            (false, 599, Some(false)),
            (false, 600, None),
        ] {
            let now = at + Duration::from_secs(seconds);
            let tried = Some(Tried { at, opened });
            assert_eq!(reachable(tried, now, limit), expected, "{opened} {seconds}");
        }
        assert_eq!(reachable(None, at, limit), Some(false));
    }

    #[test]
    fn an_attempt_that_is_given_up_late_has_failed() {
        let export = Export::parse("nas", "/x").unwrap();
        let known = Mutex::new(BTreeMap::from([(export.clone(), Known::default())]));
        let seen = || lock(&known)[&export].tried.map(|last| last.opened);
        let begin = || Attempt::begin(&known, &export);
        let late = || {
            let mut late = begin();
            late.begun = late.begun.checked_sub(SILENT_IN).unwrap();
            late
        };
        begin().opened = Some(true);
        assert_eq!(seen(), Some(true));
        // Its caller has not waited for long.
        drop(begin());
        assert_eq!(seen(), Some(true));
        drop(late());
        assert_eq!(seen(), Some(false));
        late().opened = Some(true);
        assert_eq!(seen(), Some(true));
    }
}
