//! Calls about volumes and snapshots of kubernetes-csi's driver; `upstream::folders` does the work. They have no record: the share
//! itself says what they are.

use super::answer::context;
use super::changing::Operated;
use super::error::ControllerError;
use super::options::Options;
use super::shares::Shares;
use super::validation::{Objection, check_capabilities, check_parameters};
use crate::calls::operations::Operation;
use crate::calls::parameters::{SERVER, SHARE, SUB_DIR, value_of};
use crate::calls::volume_id::Location;
use crate::upstream::ids::{UpstreamSnapshotId, UpstreamVolumeId};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::Root;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::paths::sub_path::SubPath;
use csi_nfs_store::share::records::snapshot::Snapshot;
use csi_nfs_store::share::records::volume::{OnDelete, Volume};
use csi_nfs_store::share::token::NameKey;
use csi_nfs_store::upstream::folders;
use csi_nfs_store::upstream::other_shares::ShareSearch;
use csi_proto::lock::lock;
use csi_proto::v1 as csi;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The options to open a share with on which kubernetes-csi's driver has made something.
fn as_mounted(given: &Options) -> Options {
    match given {
        Options::None => Options::Upstream,
        given => given.clone(),
    }
}

/// Looks at a share through its root alone: it may have no records yet.
async fn look<T: Send + 'static>(
    shares: &Arc<Shares>,
    export: &Export,
    options: &Options,
    work: impl Fn(&Root) -> Result<Option<T>, ShareError> + Clone + Send + 'static,
) -> Result<Option<T>, ControllerError> {
    shares.locate(&Location::Export(export.clone()))?;
    let found = move |root: Root| match work(&root)? {
        Some(found) => Ok(Some(found)),
        // Not gone, but not there: its disk is away.
        None if folders::is_empty(&root)? => Err(ShareError::Empty),
        None => Ok(None),
    };
    shares.with_root(export, &as_mounted(options), found).await
}

/// Whether the folder `path` is there, for [`look`].
fn there(path: &SubPath) -> impl Fn(&Root) -> Result<Option<()>, ShareError> + Clone + use<> {
    let path = path.clone();
    move |root| Ok(folders::is_there(root, &path)?.then_some(()))
}

/// Makes sure that the volume is there.
pub(super) async fn find_volume(
    shares: &Arc<Shares>,
    id: &UpstreamVolumeId,
    options: &Options,
) -> Result<(), ControllerError> {
    let found = look(shares, &id.export, options, there(&id.path)).await?;
    found.ok_or_else(|| missing(&id.export, ShareError::NoVolume))
}

fn missing(export: &Export, source: ShareError) -> ControllerError {
    ControllerError::Share {
        export: export.clone(),
        source: Arc::new(source),
    }
}

/// The volume as an orchestrator is told of it. Its size is on record nowhere.
pub(super) fn volume(id: &UpstreamVolumeId) -> csi::Volume {
    csi::Volume {
        volume_id: id.text.clone(),
        volume_context: context(&id.export, &id.path, &[]),
        ..Default::default()
    }
}

/// Objects to a request that does not describe the volume.
pub(super) fn check(
    shares: &Shares,
    id: &UpstreamVolumeId,
    request: &csi::ValidateVolumeCapabilitiesRequest,
) -> Result<(), Objection> {
    check_capabilities(shares, &request.volume_capabilities)?;
    if !request.mutable_parameters.is_empty() {
        return Err("a volume of kubernetes-csi's driver has no mutable parameters".into());
    }
    let given = |key| value_of(&request.volume_context, key);
    let export = given(SERVER).zip(given(SHARE));
    let export = export.map(|(server, share)| Export::parse(server, share));
    if export.is_some_and(|export| export.as_ref() != Ok(&id.export)) {
        let own = &id.export;
        return Err(format!("volume_context differs: the volume is on {own}").into());
    }
    if given(SUB_DIR).is_some_and(|path| SubPath::parse(path).as_ref() != Ok(&id.path)) {
        let own = id.path.to_string();
        return Err(format!("volume_context differs: {SUB_DIR} is {own:?}").into());
    }
    check_parameters(shares, &id.export, &request.parameters)?;
    Ok(())
}

/// Deletes the volume as its id says; as the driver was started with where it does not.
pub(super) async fn delete_volume(
    shares: &Arc<Shares>,
    timeout: Duration,
    id: UpstreamVolumeId,
    secrets: &BTreeMap<String, String>,
) -> Result<(), ControllerError> {
    let on_delete = (id.on_delete).unwrap_or(shares.config.defaults.on_delete);
    if on_delete == OnDelete::Retain {
        // Nothing to do, and so nothing to mount.
        return Ok(());
    }
    let (text, path) = (id.text.clone(), id.path.clone());
    let search = Arc::new(Mutex::new(ShareSearch::default()));
    let work = move |share: &Share| {
        folders::delete_volume(share, &text, &path, on_delete, &mut lock(&search))
    };
    let what = (id.export, id.text, id.path);
    delete::<Volume>(shares, timeout, "DeleteVolume", what, secrets, work).await
}

/// Deletes the snapshot's folder with its archive.
pub(super) async fn delete_snapshot(
    shares: &Arc<Shares>,
    timeout: Duration,
    id: UpstreamSnapshotId,
    secrets: &BTreeMap<String, String>,
) -> Result<(), ControllerError> {
    let (text, path, archives) = (id.text.clone(), id.folder.clone(), id.archives());
    let work = move |share: &Share| {
        folders::delete_snapshot(share, &text, &path, &archives).map(|()| true)
    };
    let what = (id.export, id.text, id.folder);
    delete::<Snapshot>(shares, timeout, "DeleteSnapshot", what, secrets, work).await
}

/// Does `work` for a call of `rpc`, which deletes what has the id `text`: the folder `path` of `export`. It is done in turns until it
/// says that it has ended. The share gets records for it when it has none and that folder is there.
async fn delete<K: Operated>(
    shares: &Arc<Shares>,
    timeout: Duration,
    rpc: &'static str,
    (export, text, path): (Export, String, SubPath),
    secrets: &BTreeMap<String, String>,
    work: impl Fn(&Share) -> Result<bool, ShareError> + Clone + Send + 'static,
) -> Result<(), ControllerError> {
    let options = shares.secret_options(secrets)?;
    let key = (export.clone(), NameKey::of(&folders::deletion_name(&text)));
    let arguments = text.into_bytes();
    let operation = Operation { rpc, arguments };
    let of = Arc::clone(shares);
    let take_away = || async move {
        of.locate(&Location::Export(export.clone()))?;
        let options = as_mounted(&options);
        let taken = loop {
            // Here, where it has the operation's bound and equal calls join it: it may ask shares that hang. In each turn, since a
            // volume may have been made there during the one before.
            of.refuse_to_delete(&export, &path).await?;
            match take_turn(&of, (&export, &path), &options, work.clone()).await {
                Ok(false) if of.is_stopping() => break Err(ControllerError::ShuttingDown),
                Ok(false) => {}
                ended => break ended.map(|_| None),
            }
        };
        of.purge_soon(&export);
        taken
    };
    let done = shares.run::<K, _>(key, operation, timeout, take_away);
    done.await.map(drop)
}

/// Does `work` of a deletion once.
async fn take_turn(
    shares: &Arc<Shares>,
    (export, path): (&Export, &SubPath),
    options: &Options,
    work: impl Fn(&Share) -> Result<bool, ShareError> + Clone + Send + 'static,
) -> Result<bool, ControllerError> {
    let expect = shares.expect_or(export, Expect::Initialised);
    let taken = shares.with_share(export, options, expect, work.clone());
    match taken.await {
        Err(none) if none.is_no_records() => {
            match look(shares, export, options, there(path)).await? {
                Some(()) => shares.with_share(export, options, Expect::Any, work).await,
                None => Ok(true),
            }
        }
        taken => taken,
    }
}

/// The snapshot as an orchestrator is told of it, when its archive is there.
pub(super) async fn find_snapshot(
    shares: &Arc<Shares>,
    id: &UpstreamSnapshotId,
    options: &Options,
) -> Result<csi::Snapshot, ControllerError> {
    let path = id.archive.clone();
    let found = look(shares, &id.export, options, move |root| {
        folders::archive_time(root, &path)
    });
    let seconds = found
        .await?
        .ok_or_else(|| missing(&id.export, ShareError::NoSnapshot))?;
    let share = id.export.path().trim_start_matches('/');
    Ok(csi::Snapshot {
        snapshot_id: id.text.clone(),
        // Of the volume's id only its name was kept. This is its id where the name is that of its folder.
        source_volume_id: format!("{}#{share}#{}##", id.export.server(), id.source),
        creation_time: Some(prost_types::Timestamp { seconds, nanos: 0 }),
        ready_to_use: true,
        ..Default::default()
    })
}
