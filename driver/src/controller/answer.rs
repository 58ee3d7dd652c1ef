//! Answers made from records: volumes, their contexts, and snapshots.

use crate::export::Export;
use crate::parameters::{MOUNT_OPTIONS, SERVER, SHARE, SUB_DIR};
use crate::share::listing::Listed;
use crate::share::records::origin::Source;
use crate::share::records::record::{Record, State};
use crate::share::records::size::Size;
use crate::share::records::snapshot::Snapshot;
use crate::share::records::volume;
use crate::share::token::{NameKey, Nonce, ShareUuid};
use crate::volume_id::{Location, SnapshotId, VolumeId};
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::{self as csi, VolumeContentSource};
use csi_proto::v1::{Volume, VolumeCondition, list_volumes_response};
use std::collections::BTreeMap;

/// A volume as it is told to an orchestrator.
pub(super) fn volume(export: &Export, uuid: ShareUuid, record: &Record<volume::Volume>) -> Volume {
    Volume {
        capacity_bytes: record.what.capacity_bytes,
        volume_id: id(export, uuid, record).to_string(),
        volume_context: context(export, record),
        content_source: record.what.wanted.source.as_ref().map(content_source),
        accessible_topology: Vec::new(),
    }
}

fn content_source(source: &Source) -> VolumeContentSource {
    let kind = match source {
        Source::Volume(origin) => Type::Volume(VolumeSource {
            volume_id: origin.id.clone(),
        }),
        Source::Snapshot(origin) | Source::Archive(origin) => Type::Snapshot(SnapshotSource {
            snapshot_id: origin.id.clone(),
        }),
    };
    VolumeContentSource { r#type: Some(kind) }
}

/// A snapshot as it is told to an orchestrator.
pub(super) fn snapshot(
    export: &Export,
    uuid: ShareUuid,
    record: &Record<Snapshot>,
) -> csi::Snapshot {
    let id = SnapshotId {
        location: record
            .location
            .parse()
            .unwrap_or_else(|()| Location::Export(export.clone())),
        uuid,
        key: record.key(),
        nonce: record.nonce,
    };
    csi::Snapshot {
        size_bytes: record.what.size_bytes,
        snapshot_id: id.to_string(),
        source_volume_id: record.what.wanted.source.id.clone(),
        creation_time: Some(prost_types::Timestamp {
            seconds: i64::try_from(record.created).unwrap_or(i64::MAX),
            nanos: 0,
        }),
        ready_to_use: record.state == State::Ready,
        group_snapshot_id: String::new(),
    }
}

fn id(export: &Export, uuid: ShareUuid, record: &Record<volume::Volume>) -> VolumeId {
    VolumeId {
        location: record
            .location
            .parse()
            .unwrap_or_else(|()| Location::Export(export.clone())),
        uuid,
        key: record.key(),
        nonce: record.nonce,
    }
}

/// All that a node needs to publish the volume.
pub(super) fn context(
    export: &Export,
    record: &Record<volume::Volume>,
) -> BTreeMap<String, String> {
    let wanted = &record.what.wanted;
    let mut context = BTreeMap::from([
        (SERVER.to_owned(), export.server().to_owned()),
        (SHARE.to_owned(), export.path().to_owned()),
        (SUB_DIR.to_owned(), record.what.path.to_string()),
    ]);
    if !wanted.mount_options.is_empty() {
        context.insert(MOUNT_OPTIONS.to_owned(), wanted.mount_options.join(","));
    }
    context
}

/// The condition for what is wrong with a volume, or that nothing is; and what its size means, where that was decided.
fn condition(trouble: Option<String>, size: Option<&Size>) -> VolumeCondition {
    let abnormal = trouble.is_some();
    let mut message = trouble.unwrap_or_else(|| "the volume's folder is on the share".to_owned());
    if let Some(size) = size {
        message = format!("{message}; {size}");
    }
    VolumeCondition { abnormal, message }
}

/// A volume as an entry of a list.
pub(super) fn entry(
    export: &Export,
    uuid: ShareUuid,
    key: NameKey,
    listed: Listed,
) -> list_volumes_response::Entry {
    let (volume, condition) = match listed {
        Listed::Volume(record, trouble) => (
            volume(export, uuid, &record),
            condition(trouble, record.what.size.as_ref()),
        ),
        Listed::Unreadable(nonce, trouble) => (
            unreadable(export, uuid, key, nonce),
            condition(Some(trouble), None),
        ),
    };
    list_volumes_response::Entry {
        volume: Some(volume),
        status: Some(list_volumes_response::VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition),
        }),
    }
}

/// A volume of which only the names of its files are known.
fn unreadable(export: &Export, uuid: ShareUuid, key: NameKey, nonce: Nonce) -> Volume {
    let location = Location::Export(export.clone());
    Volume {
        volume_id: VolumeId {
            location,
            uuid,
            key,
            nonce,
        }
        .to_string(),
        ..Volume::default()
    }
}

/// A volume, what is wrong with it, and what its size means, as ControllerGetVolume tells them.
pub(crate) fn one_volume(
    volume: Volume,
    trouble: Option<String>,
    size: Option<&Size>,
) -> csi::ControllerGetVolumeResponse {
    csi::ControllerGetVolumeResponse {
        volume: Some(volume),
        status: Some(csi::controller_get_volume_response::VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition(trouble, size)),
        }),
    }
}

/// Adds to what is told of a volume's condition.
pub(super) fn remark(answer: &mut csi::ControllerGetVolumeResponse, remark: &str) {
    let status = answer.status.as_mut();
    if let Some(condition) = status.and_then(|status| status.volume_condition.as_mut()) {
        condition.message = format!("{}; {remark}", condition.message);
    }
}
