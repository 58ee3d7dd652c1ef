//! What a load makes, and how each thing is taken back: which RPC undoes which, in which order, and what the request of that
//! is made of. A thing is noted before its call is sent and forgotten when it is known to be gone.
//!
//! Calls nothing itself; `cleanup.rs` does.

use super::template::Learnt;
use crate::call::session::leaves_it_open;
use bytes::Bytes;
use csi_proto::schema::{Kind, Message, Method};
use csi_proto::tables;
use csi_proto::wire::{self, Raw};
use std::collections::BTreeMap;
use tonic::Code;

/// An RPC that makes something.
pub struct Maker {
    /// The RPC.
    pub method: &'static Method,
    /// The one that takes it back.
    pub undo: &'static Method,
    /// What only the reply tells: the path there and the field of the undoing request; empty where the request says all.
    told: &'static [(&'static str, &'static str)],
    /// What it is called, one and several.
    pub noun: (&'static str, &'static str),
}

/// All of them, in the order in which they are taken back.
pub static MAKERS: [Maker; 6] = [
    Maker {
        method: &tables::NODE_NODE_PUBLISH_VOLUME,
        undo: &tables::NODE_NODE_UNPUBLISH_VOLUME,
        told: &[],
        noun: ("published volume", "published volumes"),
    },
    Maker {
        method: &tables::NODE_NODE_STAGE_VOLUME,
        undo: &tables::NODE_NODE_UNSTAGE_VOLUME,
        told: &[],
        noun: ("staged volume", "staged volumes"),
    },
    Maker {
        method: &tables::CONTROLLER_CONTROLLER_PUBLISH_VOLUME,
        undo: &tables::CONTROLLER_CONTROLLER_UNPUBLISH_VOLUME,
        told: &[],
        noun: ("volume attached to a node", "volumes attached to nodes"),
    },
    Maker {
        method: &tables::GROUP_CONTROLLER_CREATE_VOLUME_GROUP_SNAPSHOT,
        undo: &tables::GROUP_CONTROLLER_DELETE_VOLUME_GROUP_SNAPSHOT,
        told: &[
            ("group_snapshot.group_snapshot_id", "group_snapshot_id"),
            ("group_snapshot.snapshots.snapshot_id", "snapshot_ids"),
        ],
        noun: ("group snapshot", "group snapshots"),
    },
    Maker {
        method: &tables::CONTROLLER_CREATE_SNAPSHOT,
        undo: &tables::CONTROLLER_DELETE_SNAPSHOT,
        told: &[("snapshot.snapshot_id", "snapshot_id")],
        noun: ("snapshot", "snapshots"),
    },
    Maker {
        method: &tables::CONTROLLER_CREATE_VOLUME,
        undo: &tables::CONTROLLER_DELETE_VOLUME,
        told: &[("volume.volume_id", "volume_id")],
        noun: ("volume", "volumes"),
    },
];

/// The RPC as a maker, with its place in the order.
pub fn maker(method: &Method) -> Option<usize> {
    MAKERS
        .iter()
        .position(|maker| maker.method.path == method.path)
}

/// What the reply of an RPC tells that others may need.
pub fn lessons(method: &Method) -> &'static [(Learnt, &'static str)] {
    match method.name {
        "CreateVolume" => &[
            (Learnt::VolumeId, "volume.volume_id"),
            (Learnt::VolumeContext, "volume.volume_context"),
        ],
        "ControllerPublishVolume" => &[(Learnt::PublishContext, "publish_context")],
        "CreateSnapshot" => &[(Learnt::SnapshotId, "snapshot.snapshot_id")],
        "CreateVolumeGroupSnapshot" => {
            &[(Learnt::GroupSnapshotId, "group_snapshot.group_snapshot_id")]
        }
        "NodeGetInfo" => &[(Learnt::NodeId, "node_id")],
        _ => &[],
    }
}

/// The contents of every field at a path into a message, through lists.
pub fn contents(message: &'static Message, bytes: &Bytes, path: &str) -> Vec<Bytes> {
    let (name, rest) = match path.split_once('.') {
        Some((name, rest)) => (name, Some(rest)),
        None => (path, None),
    };
    let Some(field) = message.field(name) else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for (number, raw) in wire::fields(bytes).map_while(Result::ok) {
        let Raw::Bytes(content) = raw else { continue };
        if number != field.number {
            continue;
        }
        let content = bytes.slice_ref(content);
        match (rest, field.kind) {
            (Some(rest), Kind::Message(of)) => found.extend(contents(of, &content, rest)),
            _ => found.push(content),
        }
    }
    found
}

/// One thing that this run has made, or asked for.
#[derive(Clone, Debug, Default)]
pub struct Thing {
    /// The reply of its making; absent while nobody knows whether it was made.
    pub reply: Option<Bytes>,
    /// Calls that ask for it at the moment.
    pending: u32,
    /// Whether a call that asked for it ended in a way that leaves open what became of it.
    doubtful: bool,
}

/// What tells things apart: what makes them, and the whole request.
pub type Key = (usize, Bytes);

/// Everything that is there because of this run.
#[derive(Debug, Default)]
pub struct Made(BTreeMap<Key, Thing>);

impl Made {
    /// A call is about to ask for it.
    pub fn asked(&mut self, key: Key) {
        self.0.entry(key).or_default().pending += 1;
    }

    /// That call has ended.
    pub fn answered(&mut self, key: &Key, code: Code, reply: &Bytes) {
        let Some(thing) = self.0.get_mut(key) else {
            return;
        };
        thing.pending = thing.pending.saturating_sub(1);
        match code {
            Code::Ok => thing.reply = Some(reply.clone()),
            code if leaves_it_open(code) => thing.doubtful = true,
            _ => {}
        }
        if thing.pending == 0 && thing.reply.is_none() && !thing.doubtful {
            self.0.remove(key);
        }
    }

    /// It is gone.
    pub fn gone(&mut self, key: &Key) {
        self.0.remove(key);
    }

    /// The thing, if it is there and nobody asks for it at the moment.
    pub fn at_rest(&self, key: &Key) -> Option<Thing> {
        self.0.get(key).filter(|thing| thing.pending == 0).cloned()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// How many of each maker there are.
    pub fn counts(&self) -> [usize; MAKERS.len()] {
        let mut counts = [0; MAKERS.len()];
        for (maker, _) in self.0.keys() {
            counts[*maker] += 1;
        }
        counts
    }

    /// All that one maker made.
    pub fn of(&self, maker: usize) -> Vec<(Key, Thing)> {
        let all = self.0.iter().filter(|((of, _), _)| *of == maker);
        all.map(|(key, thing)| (key.clone(), thing.clone()))
            .collect()
    }
}

impl Maker {
    /// Whether only a reply tells what to take back.
    pub fn needs_reply(&self) -> bool {
        !self.told.is_empty()
    }

    /// Whether the request that takes something back has more than one id of it.
    pub fn needs_ids(&self) -> bool {
        self.told.len() > 1
    }

    /// The request that takes back what `request` made; `None` where the reply, which would tell, has no id.
    pub fn undoing(&self, request: &Bytes, reply: Option<&Bytes>) -> Option<Bytes> {
        let mut out = Vec::new();
        for field in self.undo.request.fields {
            let told = self.told.iter().find(|(_, name)| *name == field.name);
            let contents = match told {
                Some((path, _)) => contents(self.method.response, reply?, path),
                None => contents(self.method.request, request, field.name),
            };
            if told.is_some_and(|(_, name)| !name.ends_with("_ids")) && contents.is_empty() {
                return None;
            }
            for content in contents {
                wire::put_bytes(&mut out, field.number, &content);
            }
        }
        Some(out.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::v1;
    use prost::Message as _;

    fn undone<M: prost::Message + Default>(
        rpc: &str,
        request: &impl prost::Message,
        reply: Option<&dyn Fn() -> Vec<u8>>,
    ) -> Option<M> {
        let maker = MAKERS
            .iter()
            .find(|maker| maker.method.name == rpc)
            .unwrap();
        let reply = reply.map(|reply| Bytes::from(reply()));
        let bytes = maker.undoing(&request.encode_to_vec().into(), reply.as_ref())?;
        Some(M::decode(bytes).unwrap())
    }

    #[test]
    fn every_thing_is_taken_back_with_what_it_was_made_with() {
        let secrets = || [("k".to_owned(), "v".to_owned())].into();
        let request = v1::NodePublishVolumeRequest {
            volume_id: "v".into(),
            target_path: "/t".into(),
            staging_target_path: "/s".into(),
            secrets: secrets(),
            ..Default::default()
        };
        let got: v1::NodeUnpublishVolumeRequest =
            undone("NodePublishVolume", &request, None).unwrap();
        assert_eq!(
            (got.volume_id.as_str(), got.target_path.as_str()),
            ("v", "/t")
        );

        let request = v1::ControllerPublishVolumeRequest {
            volume_id: "v".into(),
            node_id: "n".into(),
            secrets: secrets(),
            ..Default::default()
        };
        let got: v1::ControllerUnpublishVolumeRequest =
            undone("ControllerPublishVolume", &request, None).unwrap();
        assert_eq!((got.volume_id.as_str(), got.node_id.as_str()), ("v", "n"));
        assert_eq!(got.secrets, secrets());

        let request = v1::CreateVolumeRequest {
            name: "n".into(),
            secrets: secrets(),
            ..Default::default()
        };
        let reply = || {
            let volume = v1::Volume {
                volume_id: "v".into(),
                ..Default::default()
            };
            v1::CreateVolumeResponse {
                volume: Some(volume),
            }
            .encode_to_vec()
        };
        let got: v1::DeleteVolumeRequest = undone("CreateVolume", &request, Some(&reply)).unwrap();
        assert_eq!((got.volume_id.as_str(), got.secrets), ("v", secrets()));
        assert!(undone::<v1::DeleteVolumeRequest>("CreateVolume", &request, None).is_none());
        let empty = || v1::CreateVolumeResponse::default().encode_to_vec();
        let none = undone::<v1::DeleteVolumeRequest>("CreateVolume", &request, Some(&empty));
        assert!(none.is_none());

        let request = v1::CreateVolumeGroupSnapshotRequest::default();
        let reply = || {
            let snapshot = |id: &str| v1::Snapshot {
                snapshot_id: id.into(),
                ..Default::default()
            };
            v1::CreateVolumeGroupSnapshotResponse {
                group_snapshot: Some(v1::VolumeGroupSnapshot {
                    group_snapshot_id: "g".into(),
                    snapshots: vec![snapshot("a"), snapshot("b")],
                    ..Default::default()
                }),
            }
            .encode_to_vec()
        };
        let got: v1::DeleteVolumeGroupSnapshotRequest =
            undone("CreateVolumeGroupSnapshot", &request, Some(&reply)).unwrap();
        assert_eq!(got.group_snapshot_id, "g");
        assert_eq!(got.snapshot_ids, ["a", "b"]);
    }

    #[test]
    fn every_creating_rpc_of_the_specification_is_a_maker() {
        for method in tables::METHODS {
            let makes = method.name.starts_with("Create")
                || method.name.contains("PublishVolume")
                || method.name == "NodeStageVolume";
            assert_eq!(maker(method).is_some(), makes, "{}", method.name);
        }
        for (one, path) in MAKERS.iter().flat_map(|maker| {
            maker
                .told
                .iter()
                .map(move |(path, _)| (maker.method.response, *path))
        }) {
            let mut message = one;
            for name in path.split('.') {
                let field = message.field(name).unwrap();
                if let Kind::Message(of) = field.kind {
                    message = of;
                }
            }
        }
    }

    #[test]
    fn a_thing_is_forgotten_only_when_it_cannot_be_there() {
        let key = || (5, Bytes::from_static(b"x"));
        let reply = Bytes::new();
        let mut made = Made::default();
        made.asked(key());
        made.answered(&key(), Code::InvalidArgument, &reply);
        assert_eq!(made.len(), 0);
        // Refused, while another call for the same is under way.
        made.asked(key());
        made.asked(key());
        made.answered(&key(), Code::InvalidArgument, &reply);
        assert_eq!(made.len(), 1);
        assert!(made.at_rest(&key()).is_none());
        made.answered(&key(), Code::DeadlineExceeded, &reply);
        assert_eq!(made.len(), 1);
        assert!(made.at_rest(&key()).is_some());
        // Refused later, which does not tell what became of the earlier one.
        made.asked(key());
        made.answered(&key(), Code::AlreadyExists, &reply);
        assert_eq!(made.len(), 1);
        made.asked(key());
        made.answered(&key(), Code::Ok, &reply);
        assert!(made.of(5)[0].1.reply.is_some());
        assert_eq!(made.counts(), [0, 0, 0, 0, 0, 1]);
        made.gone(&key());
        assert_eq!(made.len(), 0);
    }
}
