//! Unpublishing: a volume disappears from a target, also when its server is gone. Owns the order of steps.

use crate::calls::node::error::NodeError;
use crate::calls::node::ownership;
use crate::calls::node::record::PublishRecord;
use crate::calls::node::target::{self, Bare, foreign_mount, found_by, taken};
use crate::calls::node::volumes::{Note, Volumes};
use crate::mount::helper::HelperError;
use crate::mount::mountinfo::{self, Mount};
use crate::mount::task::{FailureKind, Task};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long a plain unmount may take before the lazy one: a server that answers needs milliseconds.
const PLAIN_BOUND: Duration = Duration::from_secs(2);

/// How often an unmount is tried again while a process that ends still holds the mount.
const BUSY_PAUSE: Duration = Duration::from_millis(100);

/// Mounts on top of each other at one target that are taken away in one call; only somebody else makes more than one.
const MAX_STACK: usize = 16;

/// Why a plain unmount is refused.
const IN_USE: &str = "a process uses it, and the server does not answer";

impl Volumes {
    /// Takes `volume_id` away from `target`, and waits for that until `deadline`. Once it is gone, a repeat is fine.
    ///
    /// # Errors
    /// As the specification has it for NodeUnpublishVolume.
    pub async fn unpublish(
        &self,
        volume_id: String,
        target: &Path,
        deadline: Instant,
    ) -> Result<Note, NodeError> {
        let looking = async {
            let found = target::locate(target).await?;
            if found.is_none() {
                // The parent has gone, and the target with it.
                self.forget(&volume_id, target).await?;
            }
            Ok(found)
        };
        let Some(target) = found_by(deadline, target, looking).await? else {
            return Ok(None);
        };
        let arguments = volume_id.clone();
        let work = |this: Self, target: PathBuf| async move {
            this.unpublish_at(&volume_id, &target).await.map(|()| None)
        };
        self.run(target, "NodeUnpublishVolume", arguments, deadline, work)
            .await
    }

    /// Forgets that `volume_id` was published at `target`, which has gone.
    async fn forget(&self, volume_id: &str, target: &Path) -> Result<(), NodeError> {
        let record = self.records.get(target).await?;
        if record.is_some_and(|record| record.volume_id == volume_id) {
            self.records.remove(target).await?;
        }
        self.forget_usage(volume_id, target);
        Ok(())
    }

    async fn unpublish_at(&self, volume_id: &str, target: &Path) -> Result<(), NodeError> {
        let record = self.records.get(target).await?;
        let here = record.as_ref();
        if !self.may_go(volume_id, target, here, false).await? {
            return Ok(());
        }
        let is_mounted = self.mounted(target)?.is_some();
        if is_mounted {
            self.take_all_away(target).await?;
        }
        match target::look(target).await? {
            Bare::Nothing => {}
            Bare::EmptyFolder if is_mounted || record.is_some() => {
                target::remove_folder(target).await?;
            }
            // Somebody else's: the volume is not published there.
            Bare::EmptyFolder => {}
            Bare::Symlink(to) if self.made(volume_id, target, &to, record.as_ref()) => {
                target::remove_symlink(target).await?;
            }
            Bare::Symlink(to) => {
                return Err(taken(
                    target,
                    &format!(
                        "is a symlink to {} that this driver did not make; remove it",
                        to.display()
                    ),
                ));
            }
            Bare::FullFolder => {
                return Err(taken(
                    target,
                    "is not mounted and has files in it that are in no volume; move them away",
                ));
            }
            Bare::Other => return Err(taken(target, "is not a folder; remove it")),
        }
        self.records.remove(target).await?;
        self.forget_usage(volume_id, target);
        if record.is_some_and(|record| record.staging.is_some()) {
            self.release_stages().await;
        }
        Ok(())
    }

    /// Whether `volume_id`, of which `record` tells, may be taken away from `target`; `false` when there is nothing of it. It is to
    /// be unstaged where it `is_stage`, else unpublished.
    ///
    /// # Errors
    /// When another volume is there, or this one in another use, or a mount that is not proved to be this one's.
    pub(super) async fn may_go(
        &self,
        volume_id: &str,
        target: &Path,
        record: Option<&PublishRecord>,
        is_stage: bool,
    ) -> Result<bool, NodeError> {
        let mounts = self.mounts()?;
        let here = mountinfo::at(&mounts, target);
        match record {
            // Neither volume is there, and the record and its folder are the other one's.
            Some(other)
                if other.volume_id != volume_id && here.is_empty() && other.symlink.is_none() =>
            {
                Ok(false)
            }
            Some(other) if other.volume_id != volume_id => {
                let detail = format!("; volume {} is", other.volume_id);
                Err(NodeError::not_published(volume_id, target, &detail))
            }
            Some(_) => Ok(true),
            None => {
                if !here.is_empty()
                    && let Some((volume, how)) = self.other_use(is_stage, target).await?
                {
                    let what = format!("volume {volume} is {how} there");
                    return Err(match volume == volume_id {
                        true => taken(target, &format!("is in use: {what}")),
                        false => NodeError::not_published(volume_id, target, &format!("; {what}")),
                    });
                }
                for mount in here {
                    if !self.proves(volume_id, None, mount, &mounts).await? {
                        return Err(taken(target, &foreign_mount(mount)));
                    }
                }
                Ok(true)
            }
        }
    }

    /// Whether a symlink at a target is one that a publish made.
    fn made(
        &self,
        volume_id: &str,
        target: &Path,
        to: &Path,
        record: Option<&PublishRecord>,
    ) -> bool {
        match record {
            Some(record) => record.symlink.as_deref() == Some(to),
            None => ownership::is_link_of(volume_id, target, to, &self.config),
        }
    }

    pub(super) async fn take_all_away(&self, target: &Path) -> Result<(), NodeError> {
        for _ in 0..MAX_STACK {
            let mounts = self.mounts()?;
            let Some(mount) = mountinfo::at(&mounts, target).last().copied() else {
                return Ok(());
            };
            self.take_one_away(mount).await?;
        }
        Err(taken(
            target,
            "has too many mounts on top of each other; unmount some by hand",
        ))
    }

    /// A plain unmount, which also writes back what is dirty; a lazy one when that takes long, as where the server does not answer. Never a forced
    /// one: it would fail the other volumes of that export, which share its connection.
    async fn take_one_away(&self, mount: &Mount) -> Result<(), NodeError> {
        let target = &mount.target;
        let bound = self.config.bounds.unmount;
        // Where there is no server, it is the machine that is slow. At most a third each is for the plain unmount, a question, and the
        // lazy one.
        let plain = match mount.is_nfs() {
            true => PLAIN_BOUND.min(bound / 3),
            false => bound / 2,
        };
        let begun = tokio::time::Instant::now();
        let deadline = begun + plain;
        let mut busy_before = false;
        let lazy_why = loop {
            let left = deadline.saturating_duration_since(tokio::time::Instant::now());
            if left.is_zero() {
                break IN_USE;
            }
            match self.take_away(target, false, left).await {
                Ok(()) => return Ok(()),
                Err(error) if busy(&error) && !mount.is_nfs() => {
                    return Err(NodeError::InUse(target.clone()));
                }
                Err(error) if busy(&error) => {
                    busy_before = true;
                    tokio::time::sleep(BUSY_PAUSE.min(left)).await;
                }
                // The last try of a busy one gets too little time to tell anything.
                Err(error) if timed_out(&error) && busy_before => break IN_USE,
                Err(error) if timed_out(&error) => {
                    break "it takes long, as where the server does not answer";
                }
                Err(error) => return Err(error),
            }
        };
        let mut lazy_why = lazy_why.to_owned();
        if lazy_why == IN_USE {
            // On a live server that process must end first, else it would go on writing to a volume that counts as
            // unpublished. On a dead one it may be unable to. One that does not know the folder is alive, and knows it again when an
            // export comes back that was away.
            let path = target.clone();
            match self.helpers.run(&Task::Usage { path }, plain).await {
                Ok(_) => return Err(NodeError::InUse(target.clone())),
                Err(error) if error.is_stale() => return Err(NodeError::InUse(target.clone())),
                Err(HelperError::Deadline { .. } | HelperError::Hangs { .. }) => {}
                Err(error) => lazy_why = format!("a process uses it, and {error}"),
            }
        }
        let lazy_why = lazy_why.as_str();
        self.warn("lazy unmount", target, ("why", lazy_why));
        // A helper that could not be ended has taken longer than its bound; the lazy unmount must have time all the same.
        let left = bound.saturating_sub(begun.elapsed());
        self.take_away(target, true, left.max(bound / 3)).await
    }

    /// One unmount in a helper: it may have to write back.
    pub(super) async fn take_away(
        &self,
        target: &Path,
        lazy: bool,
        bound: Duration,
    ) -> Result<(), NodeError> {
        let task = Task::Unmount {
            target: target.to_owned(),
            lazy,
        };
        match self.helpers.run(&task, bound).await {
            Ok(_) => Ok(()),
            // Somebody else was faster.
            Err(error) if error.kind() == Some(FailureKind::NotMounted) => Ok(()),
            Err(error) => Err(NodeError::Mount {
                what: target.display().to_string(),
                cause: Arc::new(error),
            }),
        }
    }
}

fn busy(error: &NodeError) -> bool {
    matches!(error, NodeError::Mount { cause, .. } if cause.kind() == Some(FailureKind::Busy))
}

fn timed_out(error: &NodeError) -> bool {
    matches!(error, NodeError::Mount { cause, .. } if matches!(**cause, HelperError::Deadline { .. }))
}
