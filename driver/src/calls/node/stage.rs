//! Staging: a volume is mounted once on a node and bound from there for each pod. Owns what a publish may be bound from,
//! and how a staged volume goes. Staging itself is a publish at the staging path (`publish`).

use crate::calls::node::error::NodeError;
use crate::calls::node::ownership;
use crate::calls::node::record::{FileLock, PublishRecord};
use crate::calls::node::request::{PublishRequest, Purpose};
use crate::calls::node::second_publish::{Source, shows};
use crate::calls::node::target::{self, found_by, taken};
use crate::calls::node::volumes::{Note, Volumes};
use crate::mount::mountinfo::{self, Mount};
use crate::process::log::Level;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use tokio::time::Instant;

impl Volumes {
    /// The staging path that a publish at `target` has to be bound from; `None` where it is mounted by itself: when the
    /// driver does not stage, and for what was published before it did.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when the request has to name one and does not.
    pub(super) async fn staging_of(
        &self,
        request: &PublishRequest,
        target: &Path,
    ) -> Result<Option<PathBuf>, NodeError> {
        let Purpose::Publish { staging } = &request.purpose else {
            return Ok(None);
        };
        if !self.config.stage {
            return Ok(None);
        }
        let record = self.records.get(target).await?;
        if record.is_some_and(|record| record.staging.is_none()) && self.mounted(target)?.is_some()
        {
            return Ok(None);
        }
        let given = staging.as_ref().ok_or(NodeError::NoStagingPath)?;
        let found = target::locate(given).await?;
        if found.as_deref() == Some(target) {
            return Err(taken(target, "the volume is staged there"));
        }
        found.map(Some).ok_or_else(|| NodeError::NotStaged {
            volume: request.volume_id.clone(),
            path: given.clone(),
            detail: String::new(),
        })
    }

    /// What `request` can be bound from at `staging`. To be asked while records are locked, so that it stays.
    ///
    /// # Errors
    /// FAILED_PRECONDITION when the volume is not staged there, ALREADY_EXISTS when it is in another way.
    pub(super) async fn staged(
        &self,
        request: &PublishRequest,
        staging: &Path,
    ) -> Result<Source, NodeError> {
        let volume = &request.volume_id;
        let not_staged = |detail: String| NodeError::NotStaged {
            volume: volume.clone(),
            path: staging.to_owned(),
            detail,
        };
        // First: an unstage that has begun holds the record until that is gone, and no other one can begin.
        let is_held = self.stages.is_held(staging).await?;
        let record = self.stages.get(staging).await?;
        let mounts = self.mounts()?;
        let mount = mountinfo::at(&mounts, staging).last().copied();
        if let Some(record) = &record {
            if record.volume_id != *volume {
                let other = format!(", volume {} is", record.volume_id);
                return Err(not_staged(other));
            }
            if is_held {
                return Err(not_staged(" any more".into()));
            }
            let (here, wanted) = (record.arguments.export(), request.arguments.export());
            if here != wanted {
                return Err(NodeError::Different {
                    target: staging.to_owned(),
                    difference: format!("the source is {here} and {wanted} was asked for"),
                });
            }
        }
        let Some(mount) = mount else {
            return Err(not_staged(": nothing is mounted there".into()));
        };
        if mount.is_local_without_folder() {
            return Err(not_staged(
                ": the folder that is mounted there was deleted".into(),
            ));
        }
        // Without a record the mount has to tell, and of one share it may be another volume's.
        let whole = request.arguments.export();
        if record.is_none() && !self.proves(volume, Some(whole), mount, &mounts).await? {
            let source = mount.source.to_string_lossy();
            return Err(not_staged(format!(": it is a mount of {source}")));
        }
        if mount.flags.read_only && !request.options.flags.read_only {
            return Err(NodeError::Different {
                target: staging.to_owned(),
                difference: "it is staged read-only, and writing was asked for".into(),
            });
        }
        Ok(Source::Staged(mount.clone()))
    }

    /// Mounts a staged volume anew whose mount is gone, or whose folder the server does not know any more, as after its export was
    /// made anew: the orchestrator stages a volume once and would never do so again.
    pub(super) async fn renew(&self, staging: &Path) -> Result<(), NodeError> {
        let Some(record) = self.stages.get(staging).await? else {
            return Ok(());
        };
        if self.stages.is_held(staging).await? {
            return Ok(());
        }
        let request = PublishRequest::of_stage(&record, &self.config)?;
        let fingerprint = format!("renewal of {}", record.volume_id);
        let deadline = Instant::now() + self.config.bounds.mount;
        let work = |this: Self, staging| this.restage(request, record, staging);
        let renewed = self.run(
            staging.to_owned(),
            "NodeStageVolume",
            fingerprint,
            deadline,
            work,
        );
        renewed.await.map(drop)
    }

    /// Boxed, because a publish that stages would be a future that holds itself.
    fn restage(
        self,
        request: PublishRequest,
        record: PublishRecord,
        staging: PathBuf,
    ) -> Pin<Box<dyn Future<Output = Result<Note, NodeError>> + Send>> {
        Box::pin(async move {
            // It may have been unstaged before this was its turn.
            let now = self.stages.get(&staging).await?;
            if now.as_ref() != Some(&record) {
                return Ok(None);
            }
            self.publish_at(&request, &staging).await
        })
    }

    /// Takes the staged `volume_id` away from `staging`, and waits for that until `deadline`. Once it is gone, a repeat
    /// is fine.
    ///
    /// # Errors
    /// As the specification has it for NodeUnstageVolume.
    pub async fn unstage(
        &self,
        volume_id: String,
        staging: &Path,
        deadline: Instant,
    ) -> Result<Note, NodeError> {
        let looking = target::locate(staging);
        let Some(staging) = found_by(deadline, staging, looking).await? else {
            return Ok(None);
        };
        let arguments = volume_id.clone();
        let work = |this: Self, staging: PathBuf| async move {
            this.unstage_at(&volume_id, &staging).await.map(|()| None)
        };
        self.run(staging, "NodeUnstageVolume", arguments, deadline, work)
            .await
    }

    /// Whether something may be staged at `staging`, as by a driver that staged before this one: a record says so, or something is
    /// mounted there that was not published.
    ///
    /// # Errors
    /// When the records, the mounts or the path cannot be read by `deadline`.
    pub async fn has_stage(&self, staging: &Path, deadline: Instant) -> Result<bool, NodeError> {
        let looking = async {
            let Some(staging) = target::locate(staging).await? else {
                return Ok(false);
            };
            if self.stages.get(&staging).await?.is_some() {
                return Ok(true);
            }
            let is_published = self.records.get(&staging).await?.is_some();
            Ok(!is_published && self.mounted(&staging)?.is_some())
        };
        found_by(deadline, staging, looking).await
    }

    pub(super) async fn unstage_at(
        &self,
        volume_id: &str,
        staging: &Path,
    ) -> Result<(), NodeError> {
        let Some(_held) = self.begin_unstage(volume_id, staging).await? else {
            return Ok(());
        };
        self.take_all_away(staging).await?;
        // The folder is the caller's, who has made it.
        self.stages.remove(staging).await?;
        self.forget_usage(volume_id, staging);
        Ok(())
    }

    /// Whether the volume may go from `staging`, as one step among all publishes: nothing is published from it while the answer
    /// lives, if there is a record. `None` when there is nothing of it.
    async fn begin_unstage(
        &self,
        volume_id: &str,
        staging: &Path,
    ) -> Result<Option<Option<FileLock>>, NodeError> {
        let _lock = self.records.lock().await?;
        let record = self.stages.get(staging).await?;
        let here = record.as_ref();
        if !self.may_go(volume_id, staging, here, true).await? {
            return Ok(None);
        }
        if let Some(target) = self.published_from(staging).await? {
            return Err(NodeError::StillPublished {
                volume: volume_id.to_owned(),
                target,
            });
        }
        Ok(Some(self.stages.hold(staging).await?))
    }

    /// A target that shows what is staged at `staging`.
    async fn published_from(&self, staging: &Path) -> Result<Option<PathBuf>, NodeError> {
        let records = self.records.all().await?;
        for record in &records {
            if record.staging.as_deref() == Some(staging) && self.is_there(record).await? {
                return Ok(Some(record.target.clone()));
            }
        }
        // Without records, as after a lost work folder, where the kubelet puts the volumes of pods has to tell.
        let mounts = self.mounts()?;
        let Some(staged) = mountinfo::at(&mounts, staging).last().copied() else {
            return Ok(None);
        };
        let known = |mount: &Mount| records.iter().any(|record| record.target == mount.target);
        let mut pods = mounts.iter().filter(|mount| {
            ownership::is_pods_target(&mount.target) && shows(mount, staged) && !known(mount)
        });
        Ok(pods.next().map(|mount| mount.target.clone()))
    }

    /// Unstages what was staged by a driver with `--stage`, when this one has it not and nothing is published from it any
    /// more: the orchestrator will not ask for it. Does nothing in a driver that stages.
    pub async fn release_stages(&self) {
        if self.config.stage {
            return;
        }
        let stages = match self.stages.all().await {
            Ok(stages) => stages,
            Err(error) => {
                let fields = [("error", error.to_string().into())];
                self.log
                    .event(Level::Warn, "cannot read what was staged", &fields);
                return;
            }
        };
        for stage in stages {
            let staging = ("staging", stage.target.display().to_string().into());
            match self.unstage_at(&stage.volume_id, &stage.target).await {
                Ok(()) => self
                    .log
                    .event(Level::Info, "unstaged what was left", &[staging]),
                Err(NodeError::StillPublished { .. }) => {}
                Err(error) => {
                    let fields = [staging, ("error", error.to_string().into())];
                    self.log
                        .event(Level::Warn, "cannot unstage what was left", &fields);
                }
            }
        }
    }
}
