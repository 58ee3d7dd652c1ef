//! What a case has made and must take down: told from the calls themselves, so that a case need not think of it, and so
//! that what a driver makes by mistake goes too.
//!
//! Owns which call makes what, and which call takes it back; `wrecker.rs` makes those calls.

use super::journal::Journal;
use super::verdict::Stop;
use crate::call::session::leaves_it_open;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use bytes::Bytes;
use csi_proto::methods;
use csi_proto::schema::Method;
use csi_proto::v1;
use prost::Message;
use serde_json::{Value as Json, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use tonic::Code;

/// One thing to take down.
#[derive(Clone, Debug, PartialEq)]
pub enum Made {
    /// A volume, snapshot or group that was asked for and whose id is not known: the request without its secrets.
    Asked(String, Bytes),
    /// A volume by its id.
    Volume(String),
    /// A snapshot by its id.
    Snapshot(String),
    /// A group snapshot by its id, and the ids of its snapshots.
    Group(String, Vec<String>),
    /// A volume that the controller has published to a node.
    Attached(String, String),
    /// A volume at a staging path.
    Staged(String, String),
    /// A volume at a target path.
    Published(String, String),
    /// A folder of ours.
    Folder(PathBuf),
}

/// What a case has made, in order.
#[derive(Debug, Default)]
pub struct Ledger {
    entries: Vec<(u64, Made)>,
}

impl Ledger {
    /// Writes down what a call may make, before it is made. The entry's number, when it is a new one.
    pub(super) fn before(
        &mut self,
        journal: &Journal,
        method: &Method,
        request: &Bytes,
    ) -> Result<Option<u64>, Stop> {
        match asked_for(method, request) {
            Some(made) => self.add(journal, made),
            None => Ok(None),
        }
    }

    /// Writes down a folder that is about to be made.
    pub(super) fn folder(&mut self, journal: &Journal, path: &Path) -> Result<(), Stop> {
        self.add(journal, Made::Folder(path.to_owned())).map(drop)
    }

    fn add(&mut self, journal: &Journal, made: Made) -> Result<Option<u64>, Stop> {
        if self.entries.iter().any(|(_, known)| *known == made) {
            return Ok(None);
        }
        let number = journal.add(&made).map_err(|error| {
            // A failure, though the driver is not to blame: a run that could try nothing must not pass.
            Stop::failed(
                "the journal of what is made can be written",
                error.to_string(),
            )
        })?;
        self.entries.push((number, made));
        Ok(Some(number))
    }

    /// Writes down what became of a call.
    pub(super) fn after(
        &mut self,
        journal: &Journal,
        entry: Option<u64>,
        method: &Method,
        request: &Bytes,
        code: Code,
        reply: Option<&Bytes>,
    ) {
        if code == Code::Ok {
            if let Some(made) = answered_with(method, reply) {
                // In this order: when the run is killed in between, the journal knows both.
                let _ = self.add(journal, made);
                // The name leads to that id, however often it was asked for.
                let name = name_of(method, request);
                self.retain(journal, |made| {
                    !matches!(made, Made::Asked(other, bytes) if *other == method.name && name_of(method, bytes) == name)
                });
            }
            let gone = taken_back(method, request);
            self.retain(journal, |made| !gone.iter().any(|gone| gone.covers(made)));
        } else if !leaves_it_open(code) {
            self.retain_entries(journal, |number, _| Some(number) != entry);
        }
    }

    fn retain(&mut self, journal: &Journal, keep: impl Fn(&Made) -> bool) {
        self.retain_entries(journal, |_, made| keep(made));
    }

    fn retain_entries(&mut self, journal: &Journal, keep: impl Fn(u64, &Made) -> bool) {
        self.entries.retain(|(number, made)| {
            let keep = keep(*number, made);
            if !keep {
                journal.remove(*number);
            }
            keep
        });
    }

    pub(super) fn take(&mut self) -> Vec<(u64, Made)> {
        std::mem::take(&mut self.entries)
    }
}

/// What a call may make.
fn asked_for(method: &Method, request: &Bytes) -> Option<Made> {
    Some(match method.name {
        "CreateVolume" | "CreateSnapshot" | "CreateVolumeGroupSnapshot" => {
            Made::Asked(method.name.to_owned(), without_secrets(method, request)?)
        }
        "ControllerPublishVolume" => {
            let request = v1::ControllerPublishVolumeRequest::decode(request.clone()).ok()?;
            (!request.volume_id.is_empty() && !request.node_id.is_empty())
                .then_some(Made::Attached(request.volume_id, request.node_id))?
        }
        "NodeStageVolume" => {
            let request = v1::NodeStageVolumeRequest::decode(request.clone()).ok()?;
            (!request.volume_id.is_empty() && !request.staging_target_path.is_empty())
                .then_some(Made::Staged(request.volume_id, request.staging_target_path))?
        }
        "NodePublishVolume" => {
            let request = v1::NodePublishVolumeRequest::decode(request.clone()).ok()?;
            (!request.volume_id.is_empty() && !request.target_path.is_empty())
                .then_some(Made::Published(request.volume_id, request.target_path))?
        }
        _ => return None,
    })
}

/// What a call has made according to its reply.
pub(super) fn answered_with(method: &Method, reply: Option<&Bytes>) -> Option<Made> {
    let reply = reply?.clone();
    match method.name {
        "CreateVolume" => {
            let id = v1::CreateVolumeResponse::decode(reply)
                .ok()?
                .volume?
                .volume_id;
            (!id.is_empty()).then_some(Made::Volume(id))
        }
        "CreateSnapshot" => {
            let id = v1::CreateSnapshotResponse::decode(reply)
                .ok()?
                .snapshot?
                .snapshot_id;
            (!id.is_empty()).then_some(Made::Snapshot(id))
        }
        "CreateVolumeGroupSnapshot" => {
            let reply = v1::CreateVolumeGroupSnapshotResponse::decode(reply).ok()?;
            let group = reply.group_snapshot?;
            let snapshots = group.snapshots.into_iter().map(|one| one.snapshot_id);
            (!group.group_snapshot_id.is_empty())
                .then(|| Made::Group(group.group_snapshot_id, snapshots.collect()))
        }
        _ => None,
    }
}

/// What a call that was answered with OK has taken back.
fn taken_back(method: &Method, request: &Bytes) -> Vec<Made> {
    let request = request.clone();
    let gone = match method.name {
        "DeleteVolume" => {
            v1::DeleteVolumeRequest::decode(request).map(|one| Made::Volume(one.volume_id))
        }
        "DeleteSnapshot" => {
            v1::DeleteSnapshotRequest::decode(request).map(|one| Made::Snapshot(one.snapshot_id))
        }
        "DeleteVolumeGroupSnapshot" => v1::DeleteVolumeGroupSnapshotRequest::decode(request)
            .map(|one| Made::Group(one.group_snapshot_id, one.snapshot_ids)),
        "ControllerUnpublishVolume" => v1::ControllerUnpublishVolumeRequest::decode(request)
            .map(|one| Made::Attached(one.volume_id, one.node_id)),
        "NodeUnstageVolume" => v1::NodeUnstageVolumeRequest::decode(request)
            .map(|one| Made::Staged(one.volume_id, one.staging_target_path)),
        "NodeUnpublishVolume" => v1::NodeUnpublishVolumeRequest::decode(request)
            .map(|one| Made::Published(one.volume_id, one.target_path)),
        _ => return Vec::new(),
    };
    gone.into_iter().collect()
}

/// The name that a creation asks for.
fn name_of(method: &Method, request: &Bytes) -> String {
    let request = request.clone();
    let name = match method.name {
        "CreateVolume" => v1::CreateVolumeRequest::decode(request).map(|one| one.name),
        "CreateSnapshot" => v1::CreateSnapshotRequest::decode(request).map(|one| one.name),
        _ => v1::CreateVolumeGroupSnapshotRequest::decode(request).map(|one| one.name),
    };
    name.unwrap_or_default()
}

fn without_secrets(method: &Method, request: &Bytes) -> Option<Bytes> {
    Some(with_secrets(method.name, request, &BTreeMap::new())?.1)
}

/// A creation with these secrets.
pub(super) fn with_secrets(
    method: &str,
    request: &Bytes,
    secrets: &BTreeMap<String, String>,
) -> Option<(&'static Method, Bytes)> {
    let request = request.clone();
    let bytes = match method {
        "CreateVolume" => {
            let mut request = v1::CreateVolumeRequest::decode(request).ok()?;
            request.secrets.clone_from(secrets);
            request.encode_to_vec()
        }
        "CreateSnapshot" => {
            let mut request = v1::CreateSnapshotRequest::decode(request).ok()?;
            request.secrets.clone_from(secrets);
            request.encode_to_vec()
        }
        "CreateVolumeGroupSnapshot" => {
            let mut request = v1::CreateVolumeGroupSnapshotRequest::decode(request).ok()?;
            request.secrets.clone_from(secrets);
            request.encode_to_vec()
        }
        _ => return None,
    };
    Some((methods::by_name(method)?, bytes.into()))
}

impl Made {
    /// Whether `other` is gone once this is.
    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Attached(volume, node), Self::Attached(of, _)) if node.is_empty() => {
                volume == of
            }
            (Self::Group(id, _), Self::Group(of, _)) => id == of,
            _ => self == other,
        }
    }

    /// The volume that must not be deleted as long as this is there.
    pub(super) fn holds(&self) -> Option<&str> {
        match self {
            Self::Attached(volume, _) | Self::Staged(volume, _) | Self::Published(volume, _) => {
                Some(volume)
            }
            _ => None,
        }
    }

    pub(super) fn to_json(&self) -> Json {
        match self {
            Self::Asked(method, request) => json!(["asked", method, BASE64.encode(request)]),
            Self::Volume(id) => json!(["volume", id]),
            Self::Snapshot(id) => json!(["snapshot", id]),
            Self::Group(id, snapshots) => json!(["group", id, snapshots]),
            Self::Attached(volume, node) => json!(["attached", volume, node]),
            Self::Staged(volume, path) => json!(["staged", volume, path]),
            Self::Published(volume, path) => json!(["published", volume, path]),
            Self::Folder(path) => json!(["folder", path.to_string_lossy()]),
        }
    }

    pub(super) fn from_json(json: &Json) -> Option<Self> {
        let text = |index: usize| json.get(index).and_then(Json::as_str).map(str::to_owned);
        Some(match json.get(0)?.as_str()? {
            "asked" => Self::Asked(text(1)?, BASE64.decode(text(2)?).ok()?.into()),
            "volume" => Self::Volume(text(1)?),
            "snapshot" => Self::Snapshot(text(1)?),
            "group" => {
                let ids = json.get(2)?.as_array()?.iter();
                let ids = ids.filter_map(|id| id.as_str().map(str::to_owned));
                Self::Group(text(1)?, ids.collect())
            }
            "attached" => Self::Attached(text(1)?, text(2)?),
            "staged" => Self::Staged(text(1)?, text(2)?),
            "published" => Self::Published(text(1)?, text(2)?),
            "folder" => Self::Folder(text(1)?.into()),
            _ => return None,
        })
    }
}

/// What it is, in words; ids are as they came.
impl std::fmt::Display for Made {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Asked(method, request) => {
                let name = methods::by_name(method).map(|method| name_of(method, request));
                write!(
                    f,
                    "what {method} made under the name {}",
                    name.unwrap_or_default()
                )
            }
            Self::Volume(id) => write!(f, "the volume {id}"),
            Self::Snapshot(id) => write!(f, "the snapshot {id}"),
            Self::Group(id, _) => write!(f, "the group snapshot {id}"),
            Self::Attached(volume, node) => write!(f, "the volume {volume} at the node {node}"),
            Self::Staged(volume, path) => write!(f, "the volume {volume} staged at {path}"),
            Self::Published(volume, path) => write!(f, "the volume {volume} published at {path}"),
            Self::Folder(path) => write!(f, "the folder {}", path.display()),
        }
    }
}
