//! The Node service: mounts for a node and for workloads, and takes them down again.

use super::answer::Problem;
use super::driver::Call;
use super::error::FlexError;
use super::options::{DEVICE, argument, options};
use super::paths::{self, MountPoint};
use super::plan::{Down, Refusal, down, up};
use super::request::{How, new_size, path};
use super::state::{Use, VolumeLocation};
use csi_proto::v1;
use csi_proto::v1::volume_usage::Unit;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub async fn stage(
    call: Call,
    request: v1::NodeStageVolumeRequest,
) -> Result<v1::NodeStageVolumeResponse, FlexError> {
    let staging = path(&request.staging_target_path, "staging_target_path")?;
    let how = How::of(request.volume_capability.as_ref(), false)?;
    let device = request.publish_context.get(DEVICE);
    let device = device.ok_or(Refusal::NotAttached)?.clone();
    let contexts = [&request.volume_context, &request.publish_context];
    let place = VolumeLocation::Staging(staging.clone());
    let Some(new) = begun(&call, place, how, contexts).await? else {
        return Ok(v1::NodeStageVolumeResponse {});
    };
    let argument = argument(&new.options, &request.secrets);
    let staged = bring_up(&call, new, |mut new| async {
        paths::make_folder(&staging, &call.bounds()).await?;
        let arguments = [device.as_str(), &argument];
        new.device = match call.out_if_supported("waitforattach", &arguments).await? {
            Some(answer) if !answer.device.is_empty() => answer.device,
            _ => device,
        };
        let arguments = [&text(&staging), new.device.as_str(), &argument];
        match call.out_if_supported("mountdevice", &arguments).await? {
            // As the kubelet has it, nothing is mounted where nothing is attached.
            None if !new.device.is_empty() => Err(FlexError::NoMountDevice(new.device)),
            _ => Ok(new),
        }
    });
    staged.await.map(|_| v1::NodeStageVolumeResponse {})
}

pub async fn publish(
    call: Call,
    request: v1::NodePublishVolumeRequest,
) -> Result<v1::NodePublishVolumeResponse, FlexError> {
    let target = path(&request.target_path, "target_path")?;
    let how = How::of(request.volume_capability.as_ref(), request.readonly)?;
    let staged = match call.flex.abilities.attaches {
        true => Some(staged_at(&call, &request.staging_target_path)?),
        false => None,
    };
    let (is_read_only, contexts) = (
        how.is_read_only(),
        [&request.volume_context, &request.publish_context],
    );
    let place = VolumeLocation::Target(target.clone());
    let Some(new) = begun(&call, place, how, contexts).await? else {
        return Ok(v1::NodePublishVolumeResponse {});
    };
    let argument = argument(&new.options, &request.secrets);
    let new = Use {
        device: staged.as_ref().map_or("", |(_, device)| device).to_owned(),
        ..new
    };
    let published = bring_up(&call, new, |new| async {
        paths::make_folder(&target, &call.bounds()).await?;
        match (
            call.out("mount", &[&text(&target), &argument]).await,
            staged,
        ) {
            (Ok(_), _) => Ok(new),
            (Err(error), Some((staging, _))) if error.is_not_supported() => {
                paths::bind(&staging, &target, is_read_only, &call.bounds()).await?;
                Ok(new)
            }
            (Err(error), _) => Err(error.into()),
        }
    });
    published.await.map(|_| v1::NodePublishVolumeResponse {})
}

/// Where the volume is staged, and its device.
fn staged_at(call: &Call, staging: &str) -> Result<(PathBuf, String), FlexError> {
    if staging.is_empty() {
        return Err(Refusal::NotStaged.into());
    }
    let staging = path(staging, "staging_target_path")?;
    let state = call.flex.store.now();
    let staged = state.at(&call.volume, &VolumeLocation::Staging(staging.clone()));
    match staged.filter(|staged| staged.done && staged.volume == call.volume) {
        Some(staged) => Ok((staging, staged.device.clone())),
        None => Err(Refusal::NotStaged.into()),
    }
}

/// What is to be noted before a volume is brought to a path, unless it is there already.
async fn begun(
    call: &Call,
    place: VolumeLocation,
    how: How,
    contexts: [&BTreeMap<String, String>; 2],
) -> Result<Option<Use>, FlexError> {
    let is_mounted = match place.path() {
        Some(path) => MountPoint::of(path, &call.bounds()).await?.is_mounted()?,
        None => false,
    };
    let options = options(&call.volume, &how, &contexts);
    let new = Use::begun(&call.volume, place, how, options);
    let is_there = up(&call.flex.store.now(), &new, is_mounted)?.is_some();
    Ok((!is_there).then_some(new))
}

/// Notes that a volume may be at a place from now on, brings it there, and notes how that went.
pub async fn bring_up<W>(
    call: &Call,
    new: Use,
    work: impl FnOnce(Use) -> W,
) -> Result<Use, FlexError>
where
    W: Future<Output = Result<Use, FlexError>>,
{
    let store = &call.flex.store;
    let point = match new.place.path() {
        Some(path) => Some(MountPoint::of(path, &call.bounds()).await?),
        None => None,
    };
    let was_begun = store.now().at(&new.volume, &new.place).is_some();
    store.change(|state| state.put(new.clone())).await?;
    let is_mounted = || point.as_ref().map_or(Ok(false), MountPoint::is_mounted);
    match work(new.clone()).await {
        Ok(there) => {
            let done = Use {
                done: true,
                mounted: is_mounted()?,
                ..there
            };
            store.change(|state| state.put(done.clone())).await?;
            Ok(done)
        }
        Err(error) => {
            if error.did_nothing() && !was_begun && !is_mounted()? {
                store
                    .change(|state| state.forget(&new.volume, &new.place))
                    .await?;
                if let VolumeLocation::Target(target) = &new.place
                    && let Err(left) = paths::remove_folder(target, &call.bounds()).await
                {
                    call.note(&left.to_string());
                }
            }
            Err(error)
        }
    }
}

pub async fn unstage(
    call: Call,
    request: v1::NodeUnstageVolumeRequest,
) -> Result<v1::NodeUnstageVolumeResponse, FlexError> {
    let place = path(&request.staging_target_path, "staging_target_path")?;
    take_down(&call, "unmountdevice", VolumeLocation::Staging(place)).await?;
    Ok(v1::NodeUnstageVolumeResponse {})
}

pub async fn unpublish(
    call: Call,
    request: v1::NodeUnpublishVolumeRequest,
) -> Result<v1::NodeUnpublishVolumeResponse, FlexError> {
    let place = path(&request.target_path, "target_path")?;
    take_down(&call, "unmount", VolumeLocation::Target(place)).await?;
    Ok(v1::NodeUnpublishVolumeResponse {})
}

/// Takes a volume down from a path, where it is or may be.
async fn take_down(
    call: &Call,
    call_out: &'static str,
    place: VolumeLocation,
) -> Result<(), FlexError> {
    let store = &call.flex.store;
    let Some(path) = place.path() else {
        return Ok(());
    };
    let point = MountPoint::of(path, &call.bounds()).await?;
    let is_mounted = point.is_mounted()?;
    let state = store.now();
    let known = match down(&state, &call.volume, &place, is_mounted) {
        Down::Nothing => return Ok(()),
        Down::Undo(known) => Some(known),
        Down::UndoUnknown => None,
    };
    match call.out(call_out, &[&text(path)]).await {
        Ok(_) => {}
        Err(error) if error.is_not_supported() => paths::take_off(path, &call.bounds()).await?,
        Err(error) => {
            // Many drivers fail to unmount what a restart of the machine, or a killed call-out, has left unmounted.
            let is_a_mount = known.is_none_or(|known| known.mounted || !known.done);
            let has_failed = matches!(error.problem, Problem::Failure { .. });
            if !has_failed || !is_a_mount || point.is_mounted()? {
                return Err(error.into());
            }
            call.note(&format!(
                "{error}; nothing is mounted at {}",
                path.display()
            ));
        }
    }
    if point.is_mounted()? {
        let path = path.to_owned();
        return Err(FlexError::StillMounted {
            call: call_out,
            path,
        });
    }
    if let VolumeLocation::Target(target) = &place {
        paths::remove_folder(target, &call.bounds()).await?;
    }
    let forgotten = store.change(|state| state.forget(&call.volume, &place));
    Ok(forgotten.await?)
}

pub async fn stats(
    call: Call,
    request: v1::NodeGetVolumeStatsRequest,
) -> Result<v1::NodeGetVolumeStatsResponse, FlexError> {
    let place = path(&request.volume_path, "volume_path")?;
    known_at(&call, &place)?;
    let usage = paths::usage(&place, &call.bounds()).await?;
    let of = |unit: Unit, [total, used, available]: [i64; 3]| v1::VolumeUsage {
        available,
        total,
        used,
        unit: unit.into(),
    };
    Ok(v1::NodeGetVolumeStatsResponse {
        usage: vec![of(Unit::Bytes, usage.bytes), of(Unit::Inodes, usage.inodes)],
        volume_condition: None,
    })
}

pub async fn expand(
    call: Call,
    request: v1::NodeExpandVolumeRequest,
) -> Result<v1::NodeExpandVolumeResponse, FlexError> {
    let place = path(&request.volume_path, "volume_path")?;
    let known = known_at(&call, &place)?;
    let [old, ..] = paths::usage(&place, &call.bounds()).await?.bytes;
    // Without a size, the volume has its size by now, and the file system is to fill it.
    let new = match &request.capacity_range {
        Some(range) if *range != v1::CapacityRange::default() => new_size(range, 0)?,
        _ => old,
    };
    let argument = argument(&known.options, &request.secrets);
    let sizes = [new.to_string(), old.to_string()];
    let arguments = [
        &argument,
        &known.device,
        &text(&place),
        &sizes[0],
        &sizes[1],
    ];
    let answer = call.out("expandfs", &arguments.map(String::as_str)).await?;
    Ok(v1::NodeExpandVolumeResponse {
        capacity_bytes: match answer.new_size {
            0 => new,
            size => size,
        },
    })
}

/// The volume at a path, as it was published or staged there.
fn known_at(call: &Call, path: &Path) -> Result<Use, FlexError> {
    let state = call.flex.store.now();
    let mut uses = state.of(&call.volume).filter(|one| one.done);
    let found = uses.find(|one| one.place.path() == Some(path));
    found.cloned().ok_or(FlexError::NotThere)
}

/// A path of a request, which is text.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
