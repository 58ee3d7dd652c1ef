//! Makes the requests that take things back, from the requests and replies of the calls that made them.
//!
//! Works on bytes with the facts of the RPCs: no message is decoded whole, and no RPC is known by name.

use bytes::Bytes;
use csi_proto::schema::Field;
use csi_proto::{Method, contents, wire};
use csi_rpc::draft::Draft;
use csi_rpc::facts::{Making, NAME};
use std::collections::BTreeMap;

/// The request that takes back what a call made; `None` where an id is missing that says what to take back.
pub fn undoing(
    method: &Method,
    making: &Making,
    request: &Bytes,
    reply: Option<&Bytes>,
) -> Option<Bytes> {
    let mut out = Vec::new();
    for field in making.undone_by.request.fields {
        let contents = match making.source(field) {
            Some(path) => contents(method.response, reply?, path),
            None => contents(method.request, request, field.name),
        };
        for content in contents {
            wire::put_bytes(&mut out, field.number, content);
        }
    }
    let out = Bytes::from(out);
    identity(making, &out).map(|_| out)
}

/// The part of an undoing request that tells its thing from all others; `None` where one of the ids is missing.
pub fn identity(making: &Making, undo: &Bytes) -> Option<Bytes> {
    let mut out = Vec::new();
    for field in making.identity() {
        wire::put_bytes(&mut out, field.number, &id(making, undo, field)?);
    }
    Some(out.into())
}

/// One of the ids in an undoing request; `None` where it is empty.
pub fn id(making: &Making, undo: &Bytes, field: &Field) -> Option<Bytes> {
    let last = contents(making.undone_by.request, undo, field.name).pop();
    last.filter(|id| !id.is_empty())
        .map(|id| undo.slice_ref(id))
}

/// The name under which a request asks for something.
pub fn name(method: &Method, request: &Bytes) -> Bytes {
    let last = contents(method.request, request, NAME).pop();
    last.map(|name| request.slice_ref(name)).unwrap_or_default()
}

/// A request with these secrets in the place of its own, where the RPC takes some.
pub fn with_secrets(method: &Method, request: &Bytes, secrets: &BTreeMap<String, String>) -> Bytes {
    let mut draft = Draft::new(method.request, request.to_vec());
    for field in method.request.fields.iter().filter(|field| field.secret) {
        draft.clear(field.name);
    }
    draft.put_secrets(secrets);
    draft.bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::{tables, v1};
    use prost::Message as _;

    fn undone<M: prost::Message + Default>(
        method: &Method,
        request: &impl prost::Message,
        reply: Option<&dyn Fn() -> Vec<u8>>,
    ) -> Option<M> {
        let reply = reply.map(|reply| Bytes::from(reply()));
        let request = request.encode_to_vec().into();
        let making = csi_rpc::making(method).unwrap();
        let undo = undoing(method, making, &request, reply.as_ref())?;
        Some(M::decode(undo).unwrap())
    }

    fn secrets() -> BTreeMap<String, String> {
        [("k".to_owned(), "v".to_owned())].into()
    }

    #[test]
    fn every_thing_is_taken_back_with_what_it_was_made_with() {
        let method = &tables::NODE_NODE_PUBLISH_VOLUME;
        let mut request = v1::NodePublishVolumeRequest {
            volume_id: "v".into(),
            target_path: "/t".into(),
            staging_target_path: "/s".into(),
            secrets: secrets(),
            ..Default::default()
        };
        let got: v1::NodeUnpublishVolumeRequest = undone(method, &request, None).unwrap();
        assert_eq!((&*got.volume_id, &*got.target_path), ("v", "/t"));
        request.target_path.clear();
        assert!(undone::<v1::NodeUnpublishVolumeRequest>(method, &request, None).is_none());

        let method = &tables::CONTROLLER_CONTROLLER_PUBLISH_VOLUME;
        let request = v1::ControllerPublishVolumeRequest {
            volume_id: "v".into(),
            node_id: "n".into(),
            secrets: secrets(),
            ..Default::default()
        };
        let got: v1::ControllerUnpublishVolumeRequest = undone(method, &request, None).unwrap();
        assert_eq!((&*got.volume_id, &*got.node_id), ("v", "n"));
        assert_eq!(got.secrets, secrets());

        let method = &tables::CONTROLLER_CREATE_VOLUME;
        let request = v1::CreateVolumeRequest {
            name: "n".into(),
            secrets: secrets(),
            ..Default::default()
        };
        let reply = || {
            let volume = Some(v1::Volume {
                volume_id: "v".into(),
                ..Default::default()
            });
            v1::CreateVolumeResponse { volume }.encode_to_vec()
        };
        let got: v1::DeleteVolumeRequest = undone(method, &request, Some(&reply)).unwrap();
        assert_eq!((&*got.volume_id, got.secrets), ("v", secrets()));
        assert!(undone::<v1::DeleteVolumeRequest>(method, &request, None).is_none());
        let empty = || v1::CreateVolumeResponse::default().encode_to_vec();
        assert!(undone::<v1::DeleteVolumeRequest>(method, &request, Some(&empty)).is_none());

        let method = &tables::GROUP_CONTROLLER_CREATE_VOLUME_GROUP_SNAPSHOT;
        let request = v1::CreateVolumeGroupSnapshotRequest::default();
        let reply = || {
            let snapshots = ["a", "b"].map(|id| v1::Snapshot {
                snapshot_id: id.into(),
                ..Default::default()
            });
            let group_snapshot = Some(v1::VolumeGroupSnapshot {
                group_snapshot_id: "g".into(),
                snapshots: snapshots.into(),
                ..Default::default()
            });
            v1::CreateVolumeGroupSnapshotResponse { group_snapshot }.encode_to_vec()
        };
        let got: v1::DeleteVolumeGroupSnapshotRequest =
            undone(method, &request, Some(&reply)).unwrap();
        assert_eq!(got.group_snapshot_id, "g");
        assert_eq!(got.snapshot_ids, ["a", "b"]);
    }

    #[test]
    fn secrets_are_replaced_and_the_rest_stays() {
        let old = v1::DeleteVolumeRequest {
            volume_id: "v".into(),
            secrets: [("old".to_owned(), "hunter2".to_owned())].into(),
        };
        let new = v1::DeleteVolumeRequest {
            secrets: secrets(),
            ..old.clone()
        };
        let old = Bytes::from(old.encode_to_vec());
        let got = with_secrets(&tables::CONTROLLER_DELETE_VOLUME, &old, &secrets());
        assert_eq!(v1::DeleteVolumeRequest::decode(got).unwrap(), new);
        // NodeUnpublishVolume takes none.
        let request = v1::NodeUnpublishVolumeRequest {
            volume_id: "v".into(),
            target_path: "/t".into(),
        };
        let bytes = Bytes::from(request.encode_to_vec());
        let got = with_secrets(&tables::NODE_NODE_UNPUBLISH_VOLUME, &bytes, &secrets());
        assert_eq!(got, bytes);
    }
}
