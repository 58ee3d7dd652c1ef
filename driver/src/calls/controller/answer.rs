//! Answers made from records: volumes, their contexts, and snapshots.

use super::measured;
use super::shares::Shares;
use crate::calls::parameters::{MOUNT_OPTIONS, SERVER, SHARE, SUB_DIR};
use crate::calls::volume_id::{Id, SNAPSHOT, SnapshotId, VOLUME, VolumeId};
use csi_nfs_store::export::Export;
use csi_nfs_store::share::compared::SizeKnown;
use csi_nfs_store::share::listing::{Listed, ListedVolume};
use csi_nfs_store::share::paths::sub_path::SubPath;
use csi_nfs_store::share::records::origin::{Origin, Source};
use csi_nfs_store::share::records::record::{Kind, Record, State};
use csi_nfs_store::share::records::snapshot::Snapshot;
use csi_nfs_store::share::records::store::Unreadable;
use csi_nfs_store::share::records::volume;
use csi_nfs_store::share::token::{NameKey, ShareUuid};
use csi_proto::duration;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::{self as csi, VolumeContentSource};
use csi_proto::v1::{Volume, VolumeCondition, list_volumes_response};
use std::collections::BTreeMap;
use std::iter;

/// A volume as it is told to an orchestrator.
pub(super) fn volume(
    shares: &Shares,
    export: &Export,
    uuid: ShareUuid,
    record: &Record<volume::Volume>,
) -> Volume {
    let id: VolumeId = id(shares, export, uuid, record);
    Volume {
        capacity_bytes: record.what.capacity_bytes,
        volume_id: id.to_string(),
        volume_context: context(export, &record.what.path, &record.what.wanted.mount_options),
        content_source: (record.what.wanted.source.as_ref())
            .map(|source| content_source(shares, export, uuid, source)),
        accessible_topology: Vec::new(),
    }
}

fn content_source(
    shares: &Shares,
    export: &Export,
    uuid: ShareUuid,
    source: &Source,
) -> VolumeContentSource {
    let kind = match source {
        Source::Volume(origin) => Type::Volume(VolumeSource {
            volume_id: source_id::<VOLUME>(shares, export, uuid, origin),
        }),
        Source::Snapshot(origin) | Source::Archive(origin) => Type::Snapshot(SnapshotSource {
            snapshot_id: source_id::<SNAPSHOT>(shares, export, uuid, origin),
        }),
    };
    VolumeContentSource { r#type: Some(kind) }
}

/// The id of a source, which is on the share of its copy: as it was given, unless that share got a UUID of its own since. An id of
/// kubernetes-csi's driver has no UUID, and is told as it was given.
fn source_id<const MARK: char>(
    shares: &Shares,
    export: &Export,
    uuid: ShareUuid,
    origin: &Origin,
) -> String {
    match origin.id.parse::<Id<MARK>>() {
        Ok(given) if origin.path.is_none() => Id::<MARK> {
            location: shares.location(export, uuid, &given.location.to_string()),
            uuid,
            key: origin.key,
            nonce: origin.nonce,
        }
        .to_string(),
        _ => origin.id.clone(),
    }
}

/// A snapshot as it is told to an orchestrator.
pub(super) fn snapshot(
    shares: &Shares,
    export: &Export,
    uuid: ShareUuid,
    record: &Record<Snapshot>,
) -> csi::Snapshot {
    let id: SnapshotId = id(shares, export, uuid, record);
    csi::Snapshot {
        size_bytes: record.what.size_bytes,
        snapshot_id: id.to_string(),
        source_volume_id: source_id::<VOLUME>(shares, export, uuid, &record.what.wanted.source),
        creation_time: Some(prost_types::Timestamp {
            seconds: i64::try_from(record.created).unwrap_or(i64::MAX),
            nanos: 0,
        }),
        ready_to_use: record.state == State::Ready,
        group_snapshot_id: String::new(),
    }
}

/// The id of what `record` is about.
fn id<K: Kind, const MARK: char>(
    shares: &Shares,
    export: &Export,
    uuid: ShareUuid,
    record: &Record<K>,
) -> Id<MARK> {
    Id {
        location: shares.location(export, uuid, &record.location),
        uuid,
        key: record.key(),
        nonce: record.nonce,
    }
}

/// All that a node needs to publish the volume. A PersistentVolume keeps it as long as it lives.
pub(crate) fn context(
    export: &Export,
    path: &SubPath,
    mount_options: &[String],
) -> BTreeMap<String, String> {
    let mut context = BTreeMap::from([
        (SERVER.to_owned(), export.server().to_owned()),
        (SHARE.to_owned(), export.path().to_owned()),
        (SUB_DIR.to_owned(), path.to_string()),
    ]);
    if !mount_options.is_empty() {
        context.insert(MOUNT_OPTIONS.to_owned(), mount_options.join(","));
    }
    context
}

/// What is wrong with a volume, or that nothing is; what its size means, where that was decided; what it takes, where somebody has
/// measured that; and the `obstacle` to its expansion, where there is one. A volume that takes more than an advisory size
/// works, so that is nothing wrong.
pub(super) fn condition(listed: ListedVolume, obstacle: Option<String>) -> VolumeCondition {
    let what = &listed.record.what;
    // Where nothing else is wrong, a size that is not enforced is said first.
    let words = listed.size.as_ref().map(size_words);
    let (trouble, size) = match (listed.trouble, &listed.size) {
        (None, Some(SizeKnown::NotHeld(_))) => (words, None),
        (trouble, _) => (trouble, words),
    };
    let measure = listed.measure.as_ref();
    let measure = measure.map(|it| measured::words(it, what.capacity_bytes, it.age()));
    let obstacle = obstacle.map(|why| format!("it cannot be expanded now: {why}"));
    let more = [size, measure, obstacle].into_iter().flatten();
    trouble_and(trouble, more)
}

fn size_words(known: &SizeKnown) -> String {
    match known {
        SizeKnown::Recorded(size) => format!("its size is {size}"),
        SizeKnown::NotHeld(why) => format!("its size is not enforced: {why}"),
        SizeKnown::Held(project, age) => format!(
            "its size is enforced, by project {project}, as was found {} ago",
            duration::human(*age)
        ),
        SizeKnown::WasHeld(project, age) => format!(
            "its size is not known to be enforced: it was, by project {project}, {} ago, and nobody has looked since",
            duration::human(*age)
        ),
    }
}

fn trouble_and(trouble: Option<String>, more: impl IntoIterator<Item = String>) -> VolumeCondition {
    let abnormal = trouble.is_some();
    let message = trouble.unwrap_or_else(|| "the volume's folder is on the share".to_owned());
    let all: Vec<String> = iter::once(message).chain(more).collect();
    VolumeCondition {
        abnormal,
        message: all.join("; "),
    }
}

/// The condition of a volume of which nothing is known but that its folder is there.
pub(crate) fn is_there() -> VolumeCondition {
    trouble_and(None, [])
}

/// A volume as an entry of a list.
///
/// Nothing of what lies in a record's place and of which not even the nonce is known, but what is to be told of it.
pub(super) fn entry(
    shares: &Shares,
    export: &Export,
    uuid: ShareUuid,
    key: NameKey,
    listed: Listed,
) -> Result<list_volumes_response::Entry, String> {
    let (volume, condition) = match listed {
        Ok(listed) => (
            volume(shares, export, uuid, &listed.record),
            condition(listed, None),
        ),
        Err(Unreadable {
            nonce: None,
            detail,
            ..
        }) => return Err(detail),
        // Only the names of its files are known for certain.
        Err(Unreadable {
            nonce: Some(nonce),
            location,
            detail: trouble,
        }) => {
            let location = location.as_deref().unwrap_or_default();
            let id = VolumeId {
                location: shares.location(export, uuid, location),
                uuid,
                key,
                nonce,
            };
            let volume = Volume {
                volume_id: id.to_string(),
                ..Volume::default()
            };
            (volume, trouble_and(Some(trouble), []))
        }
    };
    Ok(list_volumes_response::Entry {
        volume: Some(volume),
        status: Some(list_volumes_response::VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition),
        }),
    })
}

/// A volume and its condition, as ControllerGetVolume tells them.
pub(crate) fn one_volume(
    volume: Volume,
    condition: VolumeCondition,
) -> csi::ControllerGetVolumeResponse {
    csi::ControllerGetVolumeResponse {
        volume: Some(volume),
        status: Some(csi::controller_get_volume_response::VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition),
        }),
    }
}
