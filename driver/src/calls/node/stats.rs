//! Asks a volume for its usage and its condition, within a bound. Owns the last known usage, which is all there is to
//! tell when the server is gone.

use crate::calls::node::error::NodeError;
use crate::calls::node::questions::NoAnswer;
use crate::calls::node::record::PublishRecord;
use crate::calls::node::target::{self, Bare, found_by};
use crate::calls::node::volumes::Volumes;
use crate::mount::mountinfo::{self, Mount};
use crate::mount::task::Usage;
use csi_proto::lock::lock;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::time::Instant;

/// What is known of a volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Condition {
    /// Its usage, now or when it last answered.
    pub usage: Usage,
    /// What is wrong, if anything.
    pub problem: Option<String>,
}

impl Volumes {
    /// How full the volume at `path` is. Waits for that until `deadline`, and for its server for no longer than is configured.
    ///
    /// # Errors
    /// As the specification has it for NodeGetVolumeStats; UNAVAILABLE when a server that never answered does not, or a disk of this
    /// machine.
    pub async fn condition(
        &self,
        volume_id: &str,
        path: &Path,
        deadline: Instant,
    ) -> Result<Condition, NodeError> {
        let not_published = |detail: &str| NodeError::not_published(volume_id, path, detail);
        let mounts = self.mounts()?;
        let looking = self.published_at(volume_id, path, &mounts);
        let (path, mounted) = found_by(deadline, path, looking).await?;
        let key = (volume_id.to_owned(), path.clone());
        let covering = mountinfo::covering(&mounts, &path);
        // A symlink may lead anywhere.
        let asks_no_server = mounted.is_some() && mountinfo::asks_no_server(&mounts, &path);
        let left = deadline.saturating_duration_since(Instant::now());
        let left = left.min(self.config.bounds.stats);
        let asking = self.questions.usage(&path, covering, asks_no_server, left);
        let answer = asking.await;
        // Unpublished meanwhile: what was asked was the folder below it, or nothing.
        if mountinfo::at(&mounts, &path).last() != mountinfo::at(&self.mounts()?, &path).last() {
            return Err(not_published(": it was unpublished in this moment"));
        }
        let mut known = lock(&self.usage);
        match answer {
            Ok(usage) => {
                known.insert(key, usage);
                Ok(Condition {
                    usage,
                    problem: mounted.and_then(loss),
                })
            }
            Err(NoAnswer::NoUsage) => Err(NodeError::NoUsage),
            Err(error) => match known.get(&key) {
                Some(usage) => {
                    let hint = match error.is_stale() {
                        true => {
                            " (the server does not know the folder any more: publish the volume again, which mounts it anew)"
                        }
                        false => "",
                    };
                    Ok(Condition {
                        usage: *usage,
                        problem: Some(format!("{error}{hint}; the usage is the last known")),
                    })
                }
                None => Err(NodeError::NoAnswer {
                    path,
                    cause: Arc::new(error),
                }),
            },
        }
    }

    /// Where `path` really is, and what is mounted there: nothing where a symlink leads to `volume_id`.
    async fn published_at<'a>(
        &self,
        volume_id: &str,
        path: &Path,
        mounts: &'a [Mount],
    ) -> Result<(PathBuf, Option<&'a Mount>), NodeError> {
        let not_published = |detail: &str| NodeError::not_published(volume_id, path, detail);
        let (path, record) = self.known_at(volume_id, path, mounts).await?;
        let mounted = mountinfo::at(mounts, &path).last().copied();
        match mounted {
            Some(_) if record.is_some() => {}
            Some(mount) if self.proves(volume_id, None, mount, mounts).await? => {}
            Some(mount) => {
                return Err(not_published(&format!(
                    ": it is a mount of {} ({}) that is not known to be this volume",
                    mount.source.to_string_lossy(),
                    mount.fs_type.to_string_lossy()
                )));
            }
            None => {
                let linked = record.is_some_and(|record| record.symlink.is_some());
                if !linked || !matches!(target::look(&path).await?, Bare::Symlink(_)) {
                    return Err(not_published(": nothing is mounted there"));
                }
            }
        }
        Ok((path, mounted))
    }

    /// Where `path` really is, and the record of `volume_id` there.
    async fn known_at(
        &self,
        volume_id: &str,
        path: &Path,
        mounts: &[Mount],
    ) -> Result<(PathBuf, Option<PublishRecord>), NodeError> {
        let shown = mountinfo::at(mounts, path).last().copied();
        // The kernel shows where a mount really is.
        let real = match shown {
            Some(mount) => Some(mount.target.clone()),
            None => target::locate(path).await?,
        };
        let Some(real) = real else {
            let detail = ": the folder above it does not exist";
            return Err(NodeError::not_published(volume_id, path, detail));
        };
        let record = match self.records.get(&real).await? {
            None => self.stages.get(&real).await?,
            published => published,
        };
        match record {
            Some(other) if other.volume_id != volume_id => {
                let detail = format!("; volume {} is", other.volume_id);
                Err(NodeError::not_published(volume_id, path, &detail))
            }
            record => Ok((real, record)),
        }
    }
}

/// What is wrong with a volume whose mount answers: its folder is not on the share any more.
fn loss(mount: &Mount) -> Option<String> {
    mount.has_lost_folder().then(|| {
        "the volume's folder was deleted on its share, and what is written to it now is lost: unpublish the volume, or publish it again if the folder is back".to_owned()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_has_gone_is_a_loss() {
        let shows = |root: &str| Mount {
            id: 2,
            parent: 1,
            device: "8:1".into(),
            root: root.into(),
            target: "/t".into(),
            read_only: false,
            flags: crate::mount::options::MountFlags::default(),
            fs_type: "ext4".into(),
            source: "/dev/sda1".into(),
        };
        for (root, is_lost) in [
            ("/srv/a", false),
            ("/srv/deleted", false),
            ("/srv/a//deleted", true),
            ("/srv/.csi-nfs/trash/x.purge/data", true),
            // Somebody's own folder of that name.
            ("/home/u/.csi-nfs/share/a", false),
        ] {
            assert_eq!(loss(&shows(root)).is_some(), is_lost, "{root}");
        }
    }
}
