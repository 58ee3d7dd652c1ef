//! Runs copies: when it is their turn, again while another controller or an agent does the same, and with notices about their progress.
//! Must not know what is copied.

use super::copies::{CopyKey, Purpose};
use super::error::ControllerError;
use super::options::Options;
use super::outcome::{OperationKey, Outcome};
use super::shares::Shares;
use crate::calls::admission::Work;
use crate::calls::export::Export;
use crate::calls::operations::{Operation, Operations};
use crate::files::copying::Progress;
use crate::share::database::{Expect, Share};
use crate::share::error::ShareError;
use crate::share::life::{self, Life};
use crate::share::records::record::Record;
use crate::share::token::ShareUuid;
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

impl Shares {
    /// Whether a copy that begins on `export` now has to wait for its turn.
    fn copies_wait(&self, export: &Export) -> bool {
        (self.config.admission).would_wait(export.server(), Work::Copy)
    }

    /// Makes what an operation of a call is for, or joins an equal one, and returns it with the UUID of its share. A failure that
    /// no caller has heard of is told first.
    pub(super) async fn create<K: Life, W>(
        &self,
        (purpose, operations): (Purpose, &Operations<OperationKey, Outcome<K>>),
        key: OperationKey,
        operation: Operation,
        timeout: Duration,
        otherwise: Expect,
        work: impl Fn() -> W,
    ) -> Result<(Record<K>, ShareUuid), ControllerError>
    where
        Record<K>: Clone + Send + Sync + 'static,
        W: Future<Output = Outcome<K>> + Send + 'static,
    {
        let of = (purpose, key.clone());
        if let Some(error) = self.copies.take_failure(&of, &operation) {
            return Err(error);
        }
        let is_made = |made: &Outcome<K>| matches!(made, Ok(Some(_)));
        let made = operations.run_anew(key.clone(), operation.clone(), timeout, is_made, work);
        let made = made.await.map_err(|busy| self.busy(&key.0, busy))?;
        if made.is_err() {
            // It is heard now.
            self.copies.take_failure(&of, &operation);
        }
        match (made?, self.expect_or(&key.0, otherwise)) {
            (Some(record), Expect::Known(uuid)) => Ok((record, uuid)),
            _ => Err(ControllerError::ShuttingDown),
        }
    }

    /// What is there already of what is to be a copy, and so need not wait for its turn. Without a wait the copy itself looks.
    pub(super) async fn existing<K: Life>(
        self: &Arc<Self>,
        export: &Export,
        (given, expect): (&Options, Expect),
        wanted: &K::Wanted,
    ) -> Outcome<K>
    where
        Record<K>: Send + 'static,
        K::Wanted: Clone + Send + 'static,
    {
        if !self.copies_wait(export) {
            return Ok(None);
        }
        let wanted = wanted.clone();
        let look = move |share: &Share| life::existing(share, &wanted);
        self.with_share(export, given, expect, look).await
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
                    if matches!(**source, ShareError::CopiedElsewhere { .. })
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
