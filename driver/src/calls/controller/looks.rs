//! Which shares do not answer. While work on a share takes long, the share is looked at; a look that does not come back tells.
//! Owns the looks that are on their way; must not decide what a call is answered.

use csi_nfs_store::export::Export;
use csi_nfs_store::files::beneath;
use csi_nfs_store::files::roots::Root;
use csi_proto::lock::lock;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;
use std::pin::pin;
use std::sync::{Arc, Mutex, Weak};
use std::time::{Duration, Instant};
use tokio::task::spawn_blocking;

/// How long work on a share may take before the share is looked at, and again after that.
const LOOK_AFTER: Duration = Duration::from_secs(2);

/// How long a share that answers may take for a look: it reads the attributes of one folder.
const SILENT_AFTER: Duration = Duration::from_secs(2);

/// After so long a share counts as silent that does not answer.
pub(super) const SILENT_IN: Duration = LOOK_AFTER.saturating_add(SILENT_AFTER);

/// Looks at shares of one server that may hang at a time, each in a thread of its own.
const MOST_LOOKS: usize = 4;

/// A question to a share that is not answered yet.
#[derive(Clone, Copy, Debug)]
struct Look {
    since: Instant,
    /// When work on the share last waited.
    needed: Instant,
    /// How much work has waited for the answer.
    waiting: usize,
    /// Whether a thread asks. Else the share is being opened, or so many shares of its server are silent that this one is not
    /// asked too.
    asks: bool,
}

/// The looks of one process.
#[derive(Debug, Default)]
pub(super) struct Looks(Mutex<BTreeMap<Export, Look>>);

/// A share that does not answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Silent {
    pub(super) export: Export,
    pub(super) since: Instant,
    pub(super) needed: Instant,
}

impl Looks {
    /// Waits for `work` on a share, which is looked at while that takes long: by its `root`, once it is open.
    pub(super) async fn watch<T>(
        self: &Arc<Self>,
        export: &Export,
        root: Option<Weak<OwnedFd>>,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        let mut watched = Watched {
            looks: self,
            export,
            waits: false,
        };
        loop {
            tokio::select! {
                biased;
                done = &mut work => {
                    self.ended(export);
                    return done;
                }
                () = tokio::time::sleep(LOOK_AFTER) => {
                    // Work that is done has none to ask by.
                    let root = root.as_ref().and_then(Weak::upgrade);
                    let is_new = !std::mem::replace(&mut watched.waits, true);
                    if self.need(export, (root.is_some(), is_new), Instant::now())
                        && let Some(root) = root
                    {
                        self.look(export.clone(), root);
                    }
                }
            }
        }
    }

    /// Looks at the share in a thread of its own, which hangs as long as the server does.
    fn look(self: &Arc<Self>, export: Export, root: Root) {
        let looks = Arc::clone(self);
        spawn_blocking(move || {
            // Also an error is an answer.
            let _ = beneath::refresh(&*root);
            looks.answered(&export);
        });
    }

    /// Work on the share waits, for the first time if it `is_new`. Returns whether the share is to be asked now.
    fn need(&self, export: &Export, (is_open, is_new): (bool, bool), now: Instant) -> bool {
        let mut looks = lock(&self.0);
        let of_server = looks.iter().filter(|(it, _)| is_same_server(it, export));
        let asking = of_server.filter(|(_, look)| look.asks).count();
        let look = looks.entry(export.clone()).or_insert(Look {
            since: now,
            needed: now,
            waiting: 0,
            asks: false,
        });
        look.needed = now;
        look.waiting += usize::from(is_new);
        let asks = is_open && !look.asks && asking < MOST_LOOKS;
        look.asks |= asks;
        asks
    }

    /// The server has answered a look at the share, and so it may answer for those that were not asked.
    fn answered(&self, export: &Export) {
        let is_over =
            |it: &Export, look: &Look| it == export || (is_same_server(it, export) && !look.asks);
        lock(&self.0).retain(|it, look| !is_over(it, look));
    }

    /// Work on the share has ended.
    fn ended(&self, export: &Export) {
        lock(&self.0).retain(|it, look| it != export || look.asks);
    }

    /// Work that has waited for the share waits no more, with or without an answer. When it was the last, nobody would take note
    /// of one.
    fn left(&self, export: &Export) {
        let mut looks = lock(&self.0);
        if let Some(look) = looks.get_mut(export) {
            look.waiting = look.waiting.saturating_sub(1);
            if look.waiting == 0 && !look.asks {
                looks.remove(export);
            }
        }
    }

    /// The share, where it does not answer; else another one of its server that does not, for which this one's threads may wait.
    pub(super) fn silent_with(&self, export: &Export, now: Instant) -> Option<Silent> {
        let all = self.all_silent(now);
        let itself = all.iter().find(|it| it.export == *export);
        let beside = || all.iter().find(|it| is_same_server(&it.export, export));
        itself.or_else(beside).cloned()
    }

    /// All shares that do not answer, the longest silent one first.
    pub(super) fn all_silent(&self, now: Instant) -> Vec<Silent> {
        let looks = lock(&self.0);
        let silent = looks
            .iter()
            .filter(|(_, look)| now.saturating_duration_since(look.since) >= SILENT_AFTER);
        let silent = silent.map(|(export, look)| Silent {
            export: export.clone(),
            since: look.since,
            needed: look.needed,
        });
        let mut silent: Vec<_> = silent.collect();
        silent.sort_by_key(|it| it.since);
        silent
    }
}

/// Work on a share that is watched. A call that has waited long enough, or whose caller has gone, is dropped before it ends.
struct Watched<'a> {
    looks: &'a Looks,
    export: &'a Export,
    waits: bool,
}

impl Drop for Watched<'_> {
    fn drop(&mut self) {
        if self.waits {
            self.looks.left(self.export);
        }
    }
}

pub(super) fn is_same_server(one: &Export, other: &Export) -> bool {
    one.is_on(other.server())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;

    impl Looks {
        fn silent(&self, export: &Export, now: Instant) -> Option<Silent> {
            self.silent_with(export, now)
                .filter(|it| it.export == *export)
        }
    }

    /// A share that is open, and one that is being opened, of which work waits for the first time.
    const ASKED: (bool, bool) = (true, true);
    const OPENED: (bool, bool) = (false, true);

    fn shares(server: &str) -> Vec<Export> {
        let paths = (0..=MOST_LOOKS).map(|number| format!("/{number}"));
        paths
            .map(|path| Export::parse(server, &path).unwrap())
            .collect()
    }

    #[test]
    fn a_share_is_silent_until_its_look_comes_back() {
        let (looks, begun) = (Looks::default(), Instant::now());
        let (late, nas) = (begun + SILENT_AFTER, shares("nas"));
        let other = Export::parse("other", "/0").unwrap();
        assert!(looks.need(&nas[0], ASKED, begun));
        // One look at a time.
        assert!(!looks.need(&nas[0], ASKED, late));
        assert_eq!(looks.silent_with(&nas[0], begun), None);
        let silent = looks.silent_with(&nas[0], late).unwrap();
        assert_eq!((silent.since, silent.needed), (begun, late));
        // Its server is the other share's too.
        assert_eq!(looks.silent_with(&nas[1], late), Some(silent));
        assert_eq!(looks.silent(&nas[1], late), None);
        assert_eq!(looks.silent_with(&other, late), None);
        // Work that ends on another mount of the share tells nothing of this look.
        looks.ended(&nas[0]);
        assert!(looks.silent(&nas[0], late).is_some());
        looks.answered(&nas[0]);
        assert_eq!(looks.all_silent(late), []);
    }

    #[test]
    fn a_server_has_few_threads_for_looks_and_all_its_shares_are_told() {
        let (looks, begun) = (Looks::default(), Instant::now());
        let (late, nas) = (begun + SILENT_AFTER, shares("nas"));
        let (last, first) = nas.split_last().unwrap();
        assert!(first.iter().all(|share| looks.need(share, ASKED, begun)));
        assert!(!looks.need(last, ASKED, begun));
        assert!(looks.need(&shares("other")[0], ASKED, begun));
        assert!(nas.iter().all(|it| looks.silent(it, late).is_some()));
        looks.answered(&first[0]);
        assert!(looks.silent(last, late).is_none());
        assert!(looks.need(last, ASKED, late));
    }

    #[test]
    fn a_share_that_is_being_opened_is_not_asked() {
        let (looks, begun) = (Looks::default(), Instant::now());
        let (late, nas) = (begun + SILENT_AFTER, shares("nas"));
        assert!(!looks.need(&nas[0], OPENED, begun));
        assert!(looks.silent(&nas[0], late).is_some());
        looks.ended(&nas[0]);
        assert!(looks.silent(&nas[0], late).is_none());
    }

    async fn until(is_so: impl Fn() -> bool) {
        while !is_so() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }

    #[tokio::test]
    async fn work_that_is_given_up_leaves_no_share_silent() {
        let (looks, nas) = (Arc::<Looks>::default(), shares("nas"));
        let late = || Instant::now() + SILENT_AFTER;
        let begin = || {
            let (looks, share) = (Arc::clone(&looks), nas[0].clone());
            let opening = async move {
                looks
                    .watch(&share, None, std::future::pending::<()>())
                    .await
            };
            tokio::spawn(opening)
        };
        let calls = [begin(), begin()];
        let waiting = || lock(&looks.0).get(&nas[0]).map_or(0, |look| look.waiting);
        until(|| waiting() == calls.len()).await;
        for (call, others) in calls.into_iter().zip([1, 0]) {
            call.abort();
            assert!(call.await.unwrap_err().is_cancelled());
            // As long as another one waits, the share is silent.
            assert_eq!(looks.all_silent(late()).len(), others);
        }
    }

    #[tokio::test]
    async fn work_that_has_let_go_of_the_share_leaves_it_not_silent() {
        let (looks, nas) = (Arc::<Looks>::default(), shares("nas"));
        let root: Root = Arc::new(File::open("/").unwrap().into());
        let seen = Arc::downgrade(&root);
        drop(root);
        let work = until(|| !lock(&looks.0).is_empty());
        looks.watch(&nas[0], Some(seen), work).await;
        assert_eq!(looks.all_silent(Instant::now() + SILENT_AFTER), []);
    }
}
