//! What the driver knows: volumes, snapshots, groups, and where they are in use. Plain values; nothing here checks a request.

use crate::Defect;
use csi_proto::v1::volume_content_source::Type as Source;
use csi_proto::v1::{self, CapacityRange, Topology, VolumeCapability, VolumeContentSource};
use prost::Message;
use prost_types::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub(crate) type Map = BTreeMap<String, String>;

/// Everything, by id.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) volumes: BTreeMap<String, Volume>,
    pub(crate) snapshots: BTreeMap<String, Snapshot>,
    pub(crate) groups: BTreeMap<String, Group>,
    /// By volume and node.
    pub(crate) attached: BTreeMap<(String, String), Use>,
    /// By volume and staging path.
    pub(crate) staged: BTreeMap<(String, PathBuf), Use>,
    /// By target path: a path holds one volume.
    pub(crate) published: BTreeMap<PathBuf, (String, Use)>,
    /// Names that a driver with a defect has begun to use, and may never end with.
    pub(crate) begun: BTreeSet<String>,
    /// The number of the newest id.
    pub(crate) last_id: u64,
    /// What a driver with a defect never gives back: the sizes of deleted volumes, and the nodes that volumes were on.
    pub(crate) kept_room: Vec<i64>,
    pub(crate) kept_places: Vec<String>,
    /// Whether the node of a driver with a defect has another id than it had at first.
    pub(crate) is_node_renamed: bool,
}

/// How a volume is used somewhere.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Use {
    #[prost(message, required, tag = "1")]
    pub(crate) capability: VolumeCapability,
    #[prost(bool, tag = "2")]
    pub(crate) readonly: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Volume {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(int64, tag = "3")]
    pub(crate) capacity: i64,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(crate) context: Map,
    #[prost(message, repeated, tag = "5")]
    pub(crate) topology: Vec<Topology>,
    #[prost(message, required, tag = "6")]
    pub(crate) asked: Asked,
    /// The settings now.
    #[prost(btree_map = "string, string", tag = "7")]
    pub(crate) mutable: Map,
}

/// What a volume was asked to be. A repeated call is compared with it, whatever has changed since.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct Asked {
    #[prost(message, optional, tag = "1")]
    pub(crate) range: Option<CapacityRange>,
    #[prost(message, repeated, tag = "2")]
    pub(crate) capabilities: Vec<VolumeCapability>,
    #[prost(btree_map = "string, string", tag = "3")]
    pub(crate) parameters: Map,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(crate) mutable: Map,
    #[prost(message, optional, tag = "5")]
    pub(crate) source: Option<VolumeContentSource>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Snapshot {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, tag = "3")]
    pub(crate) source: String,
    #[prost(int64, tag = "4")]
    pub(crate) size: i64,
    #[prost(message, required, tag = "5")]
    pub(crate) time: Timestamp,
    /// How often it will still be said to be not ready.
    #[prost(uint32, tag = "6")]
    pub(crate) looks_left: u32,
    /// Whether the last answer said that it is ready, for a driver that forgets that once.
    #[prost(bool, tag = "7")]
    pub(crate) was_shown_ready: bool,
    #[prost(string, optional, tag = "8")]
    pub(crate) group: Option<String>,
    /// The blocks that hold data, each with a checksum of it.
    #[prost(btree_map = "int64, fixed64", tag = "9")]
    pub(crate) blocks: BTreeMap<i64, u64>,
}

#[derive(Clone, PartialEq, Message)]
pub(crate) struct Group {
    #[prost(string, tag = "1")]
    pub(crate) id: String,
    #[prost(string, tag = "2")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "3")]
    pub(crate) sources: Vec<String>,
    #[prost(btree_map = "string, string", tag = "4")]
    pub(crate) parameters: Map,
    #[prost(message, required, tag = "5")]
    pub(crate) time: Timestamp,
    /// In the order of the sources.
    #[prost(string, repeated, tag = "6")]
    pub(crate) snapshots: Vec<String>,
}

impl State {
    /// The bytes that are taken.
    pub(crate) fn used(&self) -> i64 {
        let volumes = self.volumes.values().map(|volume| volume.capacity);
        volumes.chain(self.kept_room.iter().copied()).sum()
    }

    /// A new id; later ones are greater.
    pub(crate) fn new_id(&mut self, kind: &str) -> String {
        self.last_id += 1;
        format!("{kind}-{:08}", self.last_id)
    }

    pub(crate) fn volume_named(&self, name: &str) -> Option<&Volume> {
        self.volumes.values().find(|volume| volume.name == name)
    }

    pub(crate) fn snapshot_named(&self, name: &str) -> Option<&Snapshot> {
        let mut alone = self.snapshots.values().filter(|one| one.group.is_none());
        alone.find(|snapshot| snapshot.name == name)
    }

    pub(crate) fn group_named(&self, name: &str) -> Option<&Group> {
        self.groups.values().find(|group| group.name == name)
    }

    pub(crate) fn nodes_of(&self, volume: &str) -> Vec<String> {
        let first = (volume.to_owned(), String::new());
        let attached = self.attached.range(first..).map(|(place, _)| place);
        let here = attached.take_while(|(id, _)| id == volume);
        here.map(|(_, node)| node.clone()).collect()
    }

    pub(crate) fn targets_of(&self, volume: &str) -> Vec<PathBuf> {
        let published = self.published.iter().filter(|(_, (id, _))| id == volume);
        published.map(|(target, _)| target.clone()).collect()
    }

    pub(crate) fn is_in_use(&self, volume: &str) -> bool {
        self.attached.keys().any(|(id, _)| id == volume)
            || self.staged.keys().any(|(id, _)| id == volume)
            || self.published.values().any(|(id, _)| id == volume)
    }

    /// How the volume is used where a path of it is, staged or published.
    pub(crate) fn use_at(&self, volume: &str, path: &str) -> Option<&Use> {
        let path = PathBuf::from(path);
        let published = self.published.get(&path).filter(|(id, _)| id == volume);
        let published = published.map(|(_, how)| how);
        published.or_else(|| self.staged.get(&(volume.to_owned(), path)))
    }

    /// Forgets what a driver with that defect has forgotten when it starts again.
    pub(crate) fn forget(&mut self, defect: Defect) {
        match defect {
            Defect::VolumesLostOnRestart => {
                (self.volumes, self.snapshots, self.groups) = Default::default();
            }
            Defect::NodeStateLostOnRestart => (self.staged, self.published) = Default::default(),
            Defect::AttachmentsLostOnRestart => self.attached.clear(),
            Defect::VolumeContextChangesOnRestart => {
                for volume in self.volumes.values_mut() {
                    volume
                        .context
                        .insert("since".to_owned(), "restart".to_owned());
                }
            }
            Defect::NodeIdChangesOnRestart => self.is_node_renamed = true,
            Defect::ExpansionsLostOnRestart => {
                for volume in self.volumes.values_mut() {
                    let asked = volume.asked.range.unwrap_or_default();
                    volume.capacity = asked.required_bytes;
                }
            }
            _ => {}
        }
    }

    pub(crate) fn names(&self) -> Vec<String> {
        let mut names = Vec::new();
        let volumes = self.volumes.values();
        names.extend(volumes.map(|one| format!("volume {} {:?}", one.id, one.name)));
        let snapshots = self.snapshots.values();
        names.extend(snapshots.map(|one| format!("snapshot {} {:?}", one.id, one.name)));
        let groups = self.groups.values();
        names.extend(groups.map(|one| format!("group snapshot {} {:?}", one.id, one.name)));
        let attached = self.attached.keys();
        names.extend(attached.map(|(id, node)| format!("{id} attached to {node}")));
        let staged = self.staged.keys();
        names.extend(staged.map(|(id, path)| format!("{id} staged at {}", path.display())));
        let published = self.published.iter();
        names.extend(
            published.map(|(path, (id, _))| format!("{id} published at {}", path.display())),
        );
        names
    }
}

impl Volume {
    fn source(&self) -> Option<&Source> {
        self.asked.source.as_ref()?.r#type.as_ref()
    }

    pub(crate) fn is_from_snapshot(&self, id: &str) -> bool {
        matches!(self.source(), Some(Source::Snapshot(one)) if one.snapshot_id == id)
    }

    pub(crate) fn is_clone_of(&self, id: &str) -> bool {
        matches!(self.source(), Some(Source::Volume(one)) if one.volume_id == id)
    }

    pub(crate) fn reply(&self) -> v1::Volume {
        v1::Volume {
            capacity_bytes: self.capacity,
            volume_id: self.id.clone(),
            volume_context: self.context.clone(),
            content_source: self.asked.source.clone(),
            accessible_topology: self.topology.clone(),
        }
    }
}

impl Snapshot {
    pub(crate) fn is_ready(&self) -> bool {
        self.looks_left == 0
    }

    /// One more answer shows it; the one after the last of them finds it ready.
    pub(crate) fn look(&mut self) {
        self.looks_left = self.looks_left.saturating_sub(1);
    }
}
