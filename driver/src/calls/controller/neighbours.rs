//! What lies in what: shares in shares, shares in the folders of volumes, and folders for inline volumes beside both. Refuses an
//! export whose pods would see the records or volumes of others.

use super::error::ControllerError;
use super::looks::is_same_server;
use super::shares::Shares;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Work;
use csi_nfs_store::share::database::Share;
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::paths::claim;
use csi_nfs_store::share::paths::sub_path::SubPath;
use csi_proto::lock::lock;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The folder `path` of `export`, as its server calls it.
fn folder_of(export: &Export, path: &SubPath) -> PathBuf {
    Path::new(export.path()).join(path.to_path())
}

impl Shares {
    /// Shares other than `export` in which `folder` of its server lies, and where in them.
    fn around(&self, export: &Export, folder: &Path) -> Vec<(Export, SubPath)> {
        let others = self.on_the_server_of(export).into_iter();
        others
            .filter(|outer| outer.path() != export.path())
            .filter_map(|outer| {
                let below = folder.strip_prefix(outer.path()).ok()?;
                let below = SubPath::parse(below.to_str()?).ok()?;
                Some((outer, below))
            })
            .collect()
    }

    /// The shares on the server of `export` that are known, or were: lists forget one that is away, and its volumes are there all
    /// the same.
    fn on_the_server_of(&self, export: &Export) -> BTreeSet<Export> {
        let known = lock(&self.known);
        let lost = lock(&self.lost);
        let all = known.keys().chain(lost.keys());
        all.filter(|one| is_same_server(one, export))
            .cloned()
            .collect()
    }

    /// Known shares in which the folder `path` of `export` lies that lie in `export` themselves, and where in them.
    fn between(&self, export: &Export, path: &SubPath) -> Vec<(Export, SubPath)> {
        let mut around = self.around(export, &folder_of(export, path));
        around.retain(|(inner, _)| Path::new(inner.path()).starts_with(export.path()));
        around
    }

    /// Refuses a folder for a volume that others use without its share's records: another share, or inline volumes.
    pub(super) fn refuse_used_otherwise(
        &self,
        export: &Export,
        path: &SubPath,
    ) -> Result<(), ControllerError> {
        let around = || Some(self.between(export, path).pop()?.0);
        let (other, what) = match self.within(export, path).or_else(around) {
            Some(share) => (
                share,
                "is a share of its own: name that one, or keep the two apart",
            ),
            None => match self.inline_near(export, path) {
                Some(inline) => (
                    inline.clone(),
                    "--inline-share gives to inline volumes: keep the two apart",
                ),
                None => return Ok(()),
            },
        };
        Err(ControllerError::Invalid(format!(
            "the folder {path} on {export} cannot be a volume's: it is, holds or lies in {other}, which {what}"
        )))
    }

    /// Refuses to delete a folder that others may use: another share, inline volumes, or a volume of a share around it. Where such a
    /// share cannot be looked at, nothing is known of its volumes, and the folder stays.
    pub(super) async fn refuse_to_delete(
        self: &Arc<Self>,
        export: &Export,
        path: &SubPath,
    ) -> Result<(), ControllerError> {
        if let Some(share) = self.within(export, path) {
            return Err(ControllerError::Invalid(format!(
                "the folder {path} on {export} is not deleted: it is or holds {share}, which is a share of its own"
            )));
        }
        if let Some(inline) = self.inline_near(export, path) {
            return Err(ControllerError::Invalid(format!(
                "the folder {path} on {export} is not deleted: it is, holds or lies in {inline}, which --inline-share gives to inline volumes; if it may go, remove it by hand, or start the driver without that flag"
            )));
        }
        for (other, path) in self.around(export, &folder_of(export, path)) {
            let look = move |share: &Share| claim::refuse_taken(share, &path);
            self.with_records(Work::Call, &other, look).await?;
        }
        Ok(())
    }

    /// A share that is the folder `path` of `export`, or lies in it.
    fn within(&self, export: &Export, path: &SubPath) -> Option<Export> {
        let folder = folder_of(export, path);
        let mut others = self.on_the_server_of(export).into_iter();
        others.find(|inner| Path::new(inner.path()).starts_with(&folder))
    }

    /// A folder for inline volumes that the folder `path` of `export` is, holds, or lies in. It has no record, and pods may
    /// use it at any time.
    fn inline_near(&self, export: &Export, path: &SubPath) -> Option<&Export> {
        let folder = folder_of(export, path);
        self.config.policy.inline_shares.iter().find(|inline| {
            let other = Path::new(inline.path());
            is_same_server(inline, export)
                && (other.starts_with(&folder) || folder.starts_with(other))
        })
    }

    /// Refuses an export that inline volumes may be, or lie in: pods would see its records.
    pub(super) fn refuse_inline_as_share(&self, export: &Export) -> Result<(), ControllerError> {
        let mut all = self.config.policy.inline_shares.iter();
        let over = all.find(|inline| {
            is_same_server(inline, export) && Path::new(export.path()).starts_with(inline.path())
        });
        over.map_or(Ok(()), |inline| {
            Err(ControllerError::Invalid(format!(
                "{export} cannot be a share for volumes: it is or lies in {inline}, which --inline-share gives to inline volumes; keep the two apart"
            )))
        })
    }

    /// Refuses an export that is, lies in, or holds the folder of a volume of another known share. Where that one cannot be
    /// looked at, nothing is known of its volumes.
    pub(super) async fn refuse_volume_as_share(
        self: &Arc<Self>,
        export: &Export,
    ) -> Result<(), ControllerError> {
        for (outer, path) in self.around(export, Path::new(export.path())) {
            let looked = self.with_records(Work::Call, &outer, move |share| {
                claim::refuse_taken(share, &path)
            });
            let Err(ControllerError::Share { source, .. }) = looked.await else {
                continue;
            };
            if let ShareError::Overlap {
                path,
                relation,
                volume,
            } = &*source
            {
                return Err(ControllerError::Invalid(format!(
                    "{export} cannot be a share of its own: the folder {path} on {outer} {relation} volume {volume:?}; name {outer} as the share, or another folder"
                )));
            }
        }
        Ok(())
    }
}
