//! The volumes of this node: what all node calls share. Owns nothing but the parts that it holds together.

use crate::calls::node::error::NodeError;
use crate::calls::node::questions::Questions;
use crate::calls::node::record::{PublishRecord, PublishRecords, record_error};
use crate::calls::operations::{Busy, Operation, Operations};
use crate::mount::helper::Helpers;
use crate::mount::mountinfo::{self, Mount};
use crate::mount::task::Usage;
use crate::process::config::Config;
use crate::process::disk_thread::DiskThread;
use crate::process::log::{Level, Log};
use csi_nfs_store::metrics::{METRICS, count};
use csi_proto::lock::lock;
use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use tokio::time::Instant;

/// The volumes of this node. Cheap to copy.
#[derive(Clone)]
pub struct Volumes {
    pub(super) config: Arc<Config>,
    pub(super) helpers: Helpers,
    pub(super) questions: Questions,
    /// Does what touches the work folder.
    work_folder: DiskThread,
    pub(super) records: PublishRecords,
    pub(super) stages: PublishRecords,
    /// What runs, by target.
    pub(super) operations: Arc<Operations<PathBuf, Result<Note, NodeError>>>,
    /// The last known usage, by volume and path.
    pub(super) usage: Arc<Mutex<HashMap<(String, PathBuf), Usage>>>,
    pub(super) log: Log,
}

/// Something that the caller should know though the call succeeded.
pub type Note = Option<String>;

impl Volumes {
    /// The volumes of the node that `config` describes. Blocks as long as the work folder's disk lets it wait.
    pub fn open(config: Arc<Config>, helpers: Helpers, log: Log) -> io::Result<Self> {
        let work_folder = DiskThread::default();
        let records = PublishRecords::open(&config.work_dir, "publishes", &work_folder, log)?;
        let stages = PublishRecords::open(&config.work_dir, "stages", &work_folder, log)?;
        records.forget_gone()?;
        stages.forget_gone()?;
        Ok(Self {
            config,
            questions: Questions::new(helpers.clone()),
            helpers,
            work_folder,
            records,
            stages,
            operations: Arc::default(),
            usage: Arc::default(),
            log,
        })
    }

    /// Waits until no operation runs.
    pub async fn settled(&self) {
        self.operations.settle().await;
    }

    /// Tells the metrics what is published and staged here. What cannot be read keeps its number.
    pub async fn observe(&self) {
        let places = [
            (&self.records, &METRICS.published_targets),
            (&self.stages, &METRICS.staged_volumes),
        ];
        for (records, gauge) in places {
            let (Ok(all), Ok(mounts)) = (records.all().await, self.mounts()) else {
                continue;
            };
            // A reboot takes the mounts and leaves the records. No path is looked at: its disk may hang.
            let mounted: HashSet<&Path> = mounts.iter().map(|it| it.target.as_path()).collect();
            let is_there = |record: &&PublishRecord| {
                record.symlink.is_some() || mounted.contains(record.target.as_path())
            };
            gauge.set(count(all.iter().filter(is_there).count()));
        }
    }

    /// What else `target` is used for, by the records: a stage asks for the volume that is published there, a publish for the one that is
    /// staged there. Returns the volume and the word. A path has one use, or the end of one would take the other away.
    pub(super) async fn other_use(
        &self,
        is_stage: bool,
        target: &Path,
    ) -> Result<Option<(String, &'static str)>, NodeError> {
        let (records, how) = match is_stage {
            true => (&self.records, "published"),
            false => (&self.stages, "staged"),
        };
        let record = records.get(target).await?;
        Ok(record.map(|record| (record.volume_id, how)))
    }

    /// Runs `work` at `target`, or joins the same that runs there, and waits for it until `deadline`. It goes on when
    /// its caller gives up.
    pub(super) async fn run<W>(
        &self,
        target: PathBuf,
        rpc: &'static str,
        arguments: String,
        deadline: Instant,
        work: impl FnOnce(Self, PathBuf) -> W,
    ) -> Result<Note, NodeError>
    where
        W: Future<Output = Result<Note, NodeError>> + Send + 'static,
    {
        let operation = Operation {
            rpc,
            arguments: arguments.into_bytes(),
        };
        let work = || work(self.clone(), target.clone());
        let timeout = deadline.saturating_duration_since(Instant::now());
        let run = self
            .operations
            .run(target.clone(), operation, timeout, work);
        match (run.await, self.work_folder.holdup()) {
            // The caller's time is over, and that is why.
            (Err(Busy::RunningOperation { .. }), Some(error)) => Err(record_error(error)),
            (ended, _) => ended?,
        }
    }

    /// Warns of something at a target, and says a word on it.
    pub(super) fn warn(&self, what: &str, target: &Path, (name, word): (&str, &str)) {
        let target = target.display().to_string();
        let fields = [("target", target.into()), (name, word.into())];
        self.log.event(Level::Warn, what, &fields);
    }

    /// The mounts of this process.
    pub(super) fn mounts(&self) -> Result<Vec<Mount>, NodeError> {
        mountinfo::read(self.log)
            .map_err(|error| NodeError::io("reading /proc/self/mountinfo", error))
    }

    /// The topmost mount at `target`.
    pub(super) fn mounted(&self, target: &Path) -> Result<Option<Mount>, NodeError> {
        let mounts = self.mounts()?;
        Ok(mountinfo::at(&mounts, target)
            .last()
            .map(|mount| (*mount).clone()))
    }

    /// Forgets the last known usage of what is gone.
    pub(super) fn forget_usage(&self, volume_id: &str, path: &Path) {
        let mut usage = lock(&self.usage);
        usage.remove(&(volume_id.to_owned(), path.to_owned()));
    }
}
