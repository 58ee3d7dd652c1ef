//! Work on shares that no call waits for: recovery at a share's first use, copies that are taken up again, and the purge of
//! the trash. Owns when it runs and how it ends; what it does is the share's business.

use super::Controller;
use super::changing::Operated;
use super::config::Role;
use super::error::ControllerError;
use super::known::Known;
use super::options::Options;
use super::shares::Shares;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::files::copying::Progress;
use csi_nfs_store::metrics::{InProgress, METRICS};
use csi_nfs_store::share::agents;
use csi_nfs_store::share::compared;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::life;
use csi_nfs_store::share::records::snapshot::Snapshot;
use csi_nfs_store::share::records::volume::Volume;
use csi_nfs_store::share::recovery::{self, Appeared};
use csi_nfs_store::share::token::NameKey;
use csi_nfs_store::share::trash::{self, DRAFT_LIFE, Purged, Tries};
use csi_proto::lock::lock;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How long to wait before a purge is tried again that files held open have stopped, or that is left to an agent. After the
/// last time a controller purges what the agent has not.
const PURGE_AGAIN: [Duration; 3] = [
    Duration::from_secs(1),
    Duration::from_secs(10),
    Duration::from_secs(60),
];

/// How many things that cannot be used are remembered, so that they are not told again.
const ODD_TOLD: usize = 1000;

/// What holds a volume that is taken up.
const RECOVERY: &str = "the recovery after a restart";

/// For clocks that go a little differently.
const SWEEP_MARGIN: Duration = Duration::from_secs(30);

impl Controller {
    /// For the end of a process: gives up all work in the background, which the next start takes up. Copies end where they
    /// are, their calls with ABORTED, those that are begun later at once.
    pub fn give_up(&self) {
        let background = &self.shares.background;
        {
            let mut tasks = lock(&background.tasks);
            background.stopping.store(true, Ordering::SeqCst);
            tasks.abort_all();
        }
        self.stop_copies();
    }

    /// The same, and waits for the operations that run, also those whose callers have gone.
    pub async fn stop(&self) {
        self.give_up();
        self.shares.operations.settle().await;
        self.shares.snapshot_operations.settle().await;
    }

    /// Waits until no work is left in the background: recoveries and purges. What can only be tried again later is tried at once,
    /// and left, as files that somebody holds open.
    pub async fn settle(&self) {
        let background = &self.shares.background;
        let _waiting = Waiting::begin(&background.hurry);
        loop {
            let mut running = std::mem::take(&mut *lock(&background.tasks));
            if running.is_empty() {
                return;
            }
            while running.join_next().await.is_some() {}
        }
    }
}

impl Shares {
    pub(crate) fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let mut background = lock(&self.background.tasks);
        if self.background.stopping.load(Ordering::SeqCst) {
            return;
        }
        // What has ended is taken away here, since nobody waits for it.
        while background.try_join_next().is_some() {}
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            background.spawn_on(work, &runtime);
        }
    }

    /// Whether the process ends, and what can be begun anew is to be given up.
    pub(super) fn is_stopping(&self) -> bool {
        self.background.stopping.load(Ordering::SeqCst)
    }

    /// Waits for `rest`, unless somebody waits for the background: then for nothing.
    pub(super) async fn unhurried<T>(&self, rest: impl Future<Output = T>) -> Option<T> {
        let mut hurry = self.background.hurry.subscribe();
        tokio::select! {
            rested = rest => Some(rested),
            _ = hurry.wait_for(|count| *count > 0) => None,
        }
    }

    /// Starts the recovery of the shares that were named at the start.
    pub(super) fn recover_configured(self: &Arc<Self>) {
        for export in self.configured() {
            let recovers = |share: &mut Known| std::mem::replace(&mut share.recovered, true);
            if self.on_known(&export, recovers) == Some(false) {
                self.spawn(Arc::clone(self).recover(export));
            }
        }
    }

    /// Recovers a share. Boxed, since it uses the share, and the first use of a share begins this.
    pub(super) fn recover(
        self: Arc<Self>,
        export: Export,
    ) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        Box::pin(async move {
            if self.take_up(&export).await {
                self.sweep_later(export);
            } else {
                self.on_known(&export, |share| share.recovered = false);
            }
        })
    }

    /// Goes through the share once and takes up what is not finished: all of it, or the part that is an agent's. Returns
    /// whether it could.
    pub(crate) async fn take_up(self: &Arc<Self>, export: &Export) -> bool {
        let shares = Arc::clone(self);
        let address = export.clone();
        let recover = move |share: &Share| match shares.config.role {
            Role::Agent => recovery::recover_copies(share),
            Role::Controller => recovery::recover(share, |key| {
                let volume = (address.clone(), key);
                shares.operations.hold(volume, RECOVERY)
            }),
        };
        match self.with_records(Work::Upkeep, export, recover).await {
            Ok(None) => {}
            Ok(Some(recovered)) => {
                self.resume_copies(export, recovered.volumes, recovered.snapshots);
                for failure in recovered.failures {
                    self.tell_once(export, format!("left as it is for now: {failure}"));
                }
            }
            Err(error) => {
                (self.config.notice)(&format!("recovery is put off: {error}"));
                return false;
            }
        }
        self.purge_soon(export);
        true
    }

    /// Tells of something on a share that cannot be used. Once, though each look finds it again.
    pub(super) fn tell_once(&self, export: &Export, what: String) {
        let is_new = self.on_known(export, |share| {
            if share.odd_told.len() >= ODD_TOLD {
                share.odd_told.clear();
            }
            share.odd_told.insert(what.clone())
        });
        if is_new.unwrap_or(true) {
            (self.config.notice)(&format!("{export}: {what}"));
        }
    }

    /// As an agent: takes up what has appeared. Returns whether a request was refused, or waits for a volume that others are changing.
    pub(crate) async fn take_up_appeared(
        self: &Arc<Self>,
        export: &Export,
        appeared: Appeared,
    ) -> bool {
        let take_up = move |share: &Share| recovery::take_up(share, appeared);
        let taken = self.with_records(Work::Call, export, take_up);
        match taken.await {
            Ok(None) => false,
            Ok(Some((copies, all))) => {
                self.resume_copies(export, copies.volumes, copies.snapshots);
                let is_refused = all.iter().any(|it| it.is_refused);
                for answered in all {
                    (self.config.notice)(&format!("{export}: {}", answered.words));
                }
                let mut is_put_off = false;
                for failure in copies.failures {
                    is_put_off |= matches!(failure, ShareError::NotHeldYet(_));
                    (self.config.notice)(&format!("{export}: a request is put off: {failure}"));
                }
                is_refused || is_put_off
            }
            Err(error) => {
                (self.config.notice)(&format!("what has appeared is put off: {error}"));
                false
            }
        }
    }

    fn resume_copies(
        self: &Arc<Self>,
        export: &Export,
        volumes: Vec<NameKey>,
        snapshots: Vec<NameKey>,
    ) {
        for key in volumes {
            self.resume::<Volume>(export, key);
        }
        for key in snapshots {
            self.resume::<Snapshot>(export, key);
        }
    }

    /// Sweeps the drafts when those that the crash before this start has left are old enough to be told from live ones.
    fn sweep_later(self: &Arc<Self>, export: Export) {
        let shares = Arc::clone(self);
        self.spawn(async move {
            let waiting = tokio::time::sleep(DRAFT_LIFE + SWEEP_MARGIN);
            if shares.unhurried(waiting).await.is_none() {
                return;
            }
            let swept = shares.with_records(Work::Upkeep, &export, trash::sweep_drafts);
            match swept.await {
                Ok(_) => shares.purge_soon(&export),
                Err(error) => (shares.config.notice)(&format!("drafts are not swept: {error}")),
            }
        });
    }

    /// Goes on in the background with a copy that was being made, unless this process does so already.
    fn resume<K: Operated>(self: &Arc<Self>, export: &Export, key: NameKey) {
        let shares = Arc::clone(self);
        let what = format!("the {} with the key {key}", K::WORD);
        let of = (export.clone(), key);
        self.spawn(async move {
            // A call makes the copy itself, and purges what an earlier process had copied.
            let Some(_guard) = K::operations(&shares).hold(of.clone(), RECOVERY) else {
                return;
            };
            let expect = shares.expect_or(&of.0, Expect::Initialised);
            let resume = match shares.config.role {
                Role::Controller => life::resume::<K>,
                Role::Agent => life::assist::<K>,
            };
            let resume = move |share: &Share, progress: &Progress| resume(share, key, progress);
            let how = (&Options::Own, expect);
            // Its failure is told as a notice, and met again by the retry.
            let _ = shares.copy((K::WORD, of), None, how, what, resume).await;
        });
    }

    /// Purges the share's trash in the background. One purge a share runs at a time.
    pub(crate) fn purge_soon(self: &Arc<Self>, export: &Export) {
        let ask = |share: &mut Known| {
            let is_asked = std::mem::replace(&mut share.purge_asked, true);
            (!is_asked).then(|| Arc::clone(&share.purging))
        };
        let Some(purging) = self.on_known(export, ask).flatten() else {
            return;
        };
        let shares = Arc::clone(self);
        let export = export.clone();
        self.spawn(async move {
            let _one_at_a_time = purging.lock().await;
            let _counted = InProgress::of(&METRICS.purges_in_progress);
            for wait in PURGE_AGAIN.into_iter().map(Some).chain([None]) {
                shares.on_known(&export, |share| share.purge_asked = false);
                match (shares.purge(&export, wait.is_some()).await, wait) {
                    (Ok(0), _) => return shares.tell(&export, "trash", Vec::new()),
                    (_, Some(wait)) => {
                        shares.unhurried(tokio::time::sleep(wait)).await;
                    }
                    // Once, though it is tried again and again.
                    (Ok(left), None) => shares.tell(&export, "trash", vec![format!(
                        "{export}: {left} entries of the trash cannot be removed now: files in them are held open or may not be removed, or somebody goes on writing into them; it is tried again every few minutes"
                    )]),
                    (Err(error), None) => {
                        (shares.config.notice)(&format!("the purge of the trash is put off: {error}"));
                    }
                }
            }
        });
    }
}

impl Shares {
    /// Purges again and again, from now on, where the trash was not empty or the size of a volume not enforced. That may have been put
    /// right by somebody else, who does not tell this process; and the metrics tell of nothing that was not looked at for long.
    pub(super) fn look_again(self: &Arc<Self>) {
        let pause = (self.config.forget_after / 2).max(Duration::from_secs(1));
        let shares = Arc::clone(self);
        self.spawn(async move {
            while shares.unhurried(tokio::time::sleep(pause)).await.is_some() {
                for export in shares.troubled() {
                    shares.purge_soon(&export);
                }
            }
        });
    }

    /// Purges the share's trash, in as many turns as it takes, unless there is an agent to which that `may_be_left`. Returns how
    /// many entries stay.
    async fn purge(
        self: &Arc<Self>,
        export: &Export,
        may_be_left: bool,
    ) -> Result<usize, ControllerError> {
        let tries = Arc::new(Mutex::new(Tries::default()));
        loop {
            let admission = &self.config.admission;
            let threads = admission.extra_threads(export.server(), Work::Upkeep);
            let tries = Arc::clone(&tries);
            let (shares, address) = (Arc::clone(self), export.clone());
            let purge = move |share: &Share| {
                let agent = agents::at_work(share)?;
                // For the metrics.
                compared::last(share);
                let lives = agent.is_some();
                shares.saw_agent(&address, agent.map(|agent| agent.capabilities));
                match lives && may_be_left {
                    true => trash::count(share).map(Purged::ButFor),
                    false => trash::purge(share, &threads, &mut lock(&tries)),
                }
            };
            let purged = self.with_records(Work::Upkeep, export, purge);
            if let Purged::ButFor(left) = purged.await?.unwrap_or(Purged::ButFor(0)) {
                self.on_known(export, |share| share.trash = Some((Instant::now(), left)));
                return Ok(left);
            }
        }
    }
}

/// One who waits for the background, for as long as it waits.
struct Waiting<'a>(&'a watch::Sender<usize>);

impl<'a> Waiting<'a> {
    fn begin(hurry: &'a watch::Sender<usize>) -> Self {
        hurry.send_modify(|count| *count += 1);
        Self(hurry)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count -= 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::controller::ControllerConfig;
    use csi_nfs_store::files::roots::local::LocalRoots;

    /// Another controller has emptied the trash, and this one is asked for nothing any more.
    #[tokio::test]
    async fn a_trash_that_was_not_empty_is_looked_at_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = std::fs::File::open(folder.path()).unwrap();
        Share::open(Arc::new(root.into()), Expect::Any).unwrap();
        let export = Export::parse("nas", "/x").unwrap();
        let roots = LocalRoots::new([(export.clone(), folder.path().to_owned())]);
        let mut config = ControllerConfig::new(Arc::new(roots));
        config.other_exports = vec![export.clone()];
        config.forget_after = Duration::from_secs(2);
        let controller = Controller::new(config);
        let shares = &controller.shares;
        // However long this takes, it was lately.
        let lately = Instant::now() + Duration::from_secs(3600);
        let found = shares.with_records(Work::Upkeep, &export, |_| Ok(()));
        found.await.unwrap().unwrap();
        shares.on_known(&export, |share| share.trash = Some((lately, 3)));
        shares.look_again();
        let left = || shares.on_known(&export, |share| share.trash);
        while left().flatten().is_none_or(|(_, left)| left > 0) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        controller.settle().await;
    }
}
