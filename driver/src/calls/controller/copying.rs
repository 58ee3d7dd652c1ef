//! Runs copies: when it is their turn, again while another controller or an agent does the same, and with notices about their progress.
//! Must not know what is copied.

use super::changing::Operated;
use super::copies::CopyKey;
use super::error::ControllerError;
use super::options::Options;
use super::outcome::{OperationKey, Outcome};
use super::shares::Shares;
use crate::calls::operations::Operation;
use crate::calls::volume_id::Location;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::files::copying::Progress;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::life::{self, Life};
use csi_nfs_store::share::records::record::Record;
use csi_nfs_store::share::token::{NameKey, ShareUuid};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How often the progress of a copy is told.
const TELL: Duration = Duration::from_secs(10);
/// How often it is looked whether another process has ended its copy: seldom where that takes long, and often at first, since
/// an agent copies what is small in no time.
const LOOK: RangeInclusive<Duration> = Duration::from_millis(20)..=Duration::from_secs(2);

/// How long to wait for the next look at a copy that has been waited for so long.
fn until_next_look(waited: Duration) -> Duration {
    (waited / 8).clamp(*LOOK.start(), *LOOK.end())
}

/// A volume or a snapshot that a call wants, as it was checked.
#[derive(Clone)]
pub(super) struct Creation<K: Life> {
    pub(super) export: Export,
    /// The share as it is to stand in the id.
    pub(super) location: Location,
    pub(super) expect: Expect,
    pub(super) options: Options,
    pub(super) wanted: K::Wanted,
    pub(super) operation: Operation,
}

impl<K: Life> Creation<K> {
    /// Its place in the table of running operations.
    pub(super) fn key(&self) -> OperationKey {
        (self.export.clone(), NameKey::of(K::name(&self.wanted)))
    }
}

/// Refuses a copy on another share than that of its `source`. Two shares may have the same records otherwise.
fn refuse_elsewhere(share: &Share, source: Option<ShareUuid>) -> Result<(), ShareError> {
    match source {
        Some(uuid) if uuid != share.uuid() => Err(ShareError::SourceElsewhere),
        _ => Ok(()),
    }
}

impl Shares {
    /// Makes what a call wants by `work`, or joins an equal call, and returns it with the UUID of its share. A failure that no
    /// caller has heard of is told first.
    pub(super) async fn create<K: Operated, W>(
        &self,
        creation: &Creation<K>,
        timeout: Duration,
        work: impl Fn() -> W,
    ) -> Result<(Record<K>, ShareUuid), ControllerError>
    where
        W: Future<Output = Outcome<K>> + Send + 'static,
    {
        let (key, operation) = (creation.key(), &creation.operation);
        let of = (K::WORD, key.clone());
        if let Some(error) = self.copies.take_failure(&of, operation) {
            return Err(error);
        }
        let is_made = |made: &Outcome<K>| matches!(made, Ok(Some(_)));
        let made = K::operations(self).run_anew(key, operation.clone(), timeout, is_made, work);
        let made = made
            .await
            .map_err(|busy| self.busy(&creation.export, busy))?;
        if made.is_err() {
            // It is heard now.
            self.copies.take_failure(&of, operation);
        }
        match (made?, self.expect_or(&creation.export, creation.expect)) {
            (Some(record), Expect::Known(uuid)) => Ok((record, uuid)),
            _ => Err(ControllerError::ShuttingDown),
        }
    }

    /// What a call wants where it was made before, in the place of `refused`, which is about what has come since. `source` is as for
    /// a copy.
    pub(super) async fn made_before<K: Operated>(
        self: &Arc<Self>,
        creation: &Creation<K>,
        source: Option<ShareUuid>,
        refused: ControllerError,
    ) -> Outcome<K> {
        let wanted = creation.wanted.clone();
        let look = move |share: &Share| {
            refuse_elsewhere(share, source)?;
            life::existing::<K>(share, &wanted)
        };
        let made = self.with_records(Work::Call, &creation.export, look).await;
        match made {
            Ok(Some(Some(made))) => Ok(Some(made)),
            _ => Err(refused),
        }
    }

    /// Makes what a call wants, which is a copy, when it is its turn. What is there already need not wait for that. `source` is
    /// the share of the original, where it may be another one.
    pub(super) async fn create_copy<K: Operated>(
        self: &Arc<Self>,
        creation: Creation<K>,
        source: Option<ShareUuid>,
    ) -> Outcome<K> {
        let (key, wanted) = (creation.key(), creation.wanted);
        let (export, location) = (&creation.export, creation.location.to_string());
        let (options, expect) = (&creation.options, self.expect_or(export, creation.expect));
        // Without a wait the copy itself looks.
        if (self.config.admission).would_wait(export.server(), Work::Copy) {
            let wanted = wanted.clone();
            let look = move |share: &Share| {
                refuse_elsewhere(share, source)?;
                life::existing(share, &wanted)
            };
            let existing = self.with_share(export, options, expect, look).await;
            let existing = self.taught(export, existing)?;
            if existing.is_some() {
                return Ok(existing);
            }
        }
        let what = format!("{} {:?}", K::WORD, K::name(&wanted));
        let copy = move |share: &Share, progress: &Progress| {
            refuse_elsewhere(share, source)?;
            life::create(share, &wanted, &location, progress)
        };
        let how = (options, expect);
        let copied = self.copy((K::WORD, key), Some(creation.operation), how, what, copy);
        self.taught(export, copied.await).map(Some)
    }

    /// Does `work`, which copies, when it is its turn, and again while another process does the same: then it has no turn
    /// in between, so that others need not wait for that one. Its progress is
    /// told as notices about `what`. A failure is kept for the next call that wants the same `operation`, where one has asked.
    pub(super) async fn copy<T: Send + 'static>(
        self: &Arc<Self>,
        of: CopyKey,
        operation: Option<Operation>,
        (given, expect): (&Options, Expect),
        what: String,
        work: impl Fn(&Share, &Progress) -> Result<T, ShareError> + Send + Sync + 'static,
    ) -> Result<T, ControllerError> {
        let export = &of.1.0;
        let threads = (self.config.admission).extra_threads(export.server(), Work::Copy);
        let progress = self.copies.begin(threads);
        let work = Arc::new(work);
        let began = Instant::now();
        loop {
            let once = {
                let (work, progress) = (Arc::clone(&work), Arc::clone(&progress));
                let work = move |share: &Share| work(share, &progress);
                self.with_share_for(Work::Copy, export, given, expect, work)
            };
            let result = self.told(export, &what, &progress, once).await;
            match &result {
                Err(ControllerError::Share { source, .. })
                    if matches!(**source, ShareError::CopiedElsewhere(_))
                        && !progress.is_stopped() =>
                {
                    tokio::time::sleep(until_next_look(began.elapsed())).await;
                    continue;
                }
                Ok(_) if progress.files() > 0 => (self.config.notice)(&format!(
                    "{export}: {what}: copied {} entries, {} bytes, in {:.1?}",
                    progress.files(),
                    progress.bytes(),
                    began.elapsed()
                )),
                Ok(_) => {}
                Err(error) => {
                    (self.config.notice)(&format!("{what}: not copied: {error}"));
                    if let Some(operation) = operation {
                        self.copies.keep_failure(of.clone(), operation, error);
                    }
                }
            }
            // A copy that failed is in the trash now, and so is the attempt of a dead process that this one took over. That
            // process may have died before the first look, so the purge does not depend on a wait.
            self.purge_soon(export);
            return result;
        }
    }

    /// Waits for `work`, and tells how far it is now and then.
    async fn told<T>(
        &self,
        export: &Export,
        what: &str,
        progress: &Progress,
        work: impl Future<Output = T>,
    ) -> T {
        tokio::pin!(work);
        loop {
            match tokio::time::timeout(TELL, &mut work).await {
                Ok(result) => return result,
                // It waits for its turn, or for the server.
                Err(_) if progress.files() == 0 => {}
                Err(_) => (self.config.notice)(&format!(
                    "{export}: {what}: {} entries and {} bytes copied so far",
                    progress.files(),
                    progress.bytes()
                )),
            }
        }
    }
}
