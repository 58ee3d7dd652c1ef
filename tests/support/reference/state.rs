//! What the driver knows: volumes, snapshots, groups, and where they are in use. Plain values; nothing here checks a request.

use csi_proto::v1::volume_content_source::Type as Source;
use csi_proto::v1::{self, CapacityRange, Topology, VolumeCapability, VolumeContentSource};
use prost_types::Timestamp;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

pub(super) type Map = BTreeMap<String, String>;

/// Everything, by id.
#[derive(Default)]
pub(super) struct State {
    pub(super) volumes: BTreeMap<String, Volume>,
    pub(super) snapshots: BTreeMap<String, Snapshot>,
    pub(super) groups: BTreeMap<String, Group>,
    /// By volume and node.
    pub(super) attached: BTreeMap<(String, String), Use>,
    /// By volume and staging path.
    pub(super) staged: BTreeMap<(String, PathBuf), Use>,
    /// By target path: a path holds one volume.
    pub(super) published: BTreeMap<PathBuf, (String, Use)>,
    /// Names that a driver with a defect has begun to use, and may never end with.
    pub(super) begun: BTreeSet<String>,
    next_id: u64,
}

/// How a volume is used somewhere.
#[derive(Clone, PartialEq)]
pub(super) struct Use {
    pub(super) capability: VolumeCapability,
    pub(super) readonly: bool,
}

#[derive(Clone)]
pub(super) struct Volume {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) capacity: i64,
    pub(super) context: Map,
    pub(super) topology: Vec<Topology>,
    pub(super) asked: Asked,
    /// The settings now.
    pub(super) mutable: Map,
}

/// What a volume was asked to be. A repeated call is compared with it, whatever has changed since.
#[derive(Clone, PartialEq)]
pub(super) struct Asked {
    pub(super) range: Option<CapacityRange>,
    pub(super) capabilities: Vec<VolumeCapability>,
    pub(super) parameters: Map,
    pub(super) mutable: Map,
    pub(super) source: Option<VolumeContentSource>,
}

#[derive(Clone)]
pub(super) struct Snapshot {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) source: String,
    pub(super) size: i64,
    pub(super) time: Timestamp,
    /// How often it will still be said to be not ready.
    pub(super) looks_left: u32,
    /// Whether the last answer said that it is ready, for a driver that forgets that once.
    pub(super) was_shown_ready: bool,
    pub(super) group: Option<String>,
    /// The blocks that hold data, each with a checksum of it.
    pub(super) blocks: BTreeMap<i64, u64>,
}

#[derive(Clone)]
pub(super) struct Group {
    pub(super) id: String,
    pub(super) name: String,
    pub(super) sources: Vec<String>,
    pub(super) parameters: Map,
    pub(super) time: Timestamp,
    /// In the order of the sources.
    pub(super) snapshots: Vec<String>,
}

impl State {
    /// A new id; later ones are greater.
    pub(super) fn new_id(&mut self, kind: &str) -> String {
        self.next_id += 1;
        format!("{kind}-{:08}", self.next_id)
    }

    pub(super) fn volume_named(&self, name: &str) -> Option<&Volume> {
        self.volumes.values().find(|volume| volume.name == name)
    }

    pub(super) fn snapshot_named(&self, name: &str) -> Option<&Snapshot> {
        let mut alone = self.snapshots.values().filter(|one| one.group.is_none());
        alone.find(|snapshot| snapshot.name == name)
    }

    pub(super) fn group_named(&self, name: &str) -> Option<&Group> {
        self.groups.values().find(|group| group.name == name)
    }

    pub(super) fn nodes_of(&self, volume: &str) -> Vec<String> {
        let attached = self.attached.keys().filter(|(id, _)| id == volume);
        attached.map(|(_, node)| node.clone()).collect()
    }

    pub(super) fn targets_of(&self, volume: &str) -> Vec<PathBuf> {
        let published = self.published.iter().filter(|(_, (id, _))| id == volume);
        published.map(|(target, _)| target.clone()).collect()
    }

    pub(super) fn is_in_use(&self, volume: &str) -> bool {
        self.attached.keys().any(|(id, _)| id == volume)
            || self.staged.keys().any(|(id, _)| id == volume)
            || self.published.values().any(|(id, _)| id == volume)
    }

    /// How the volume is used where a path of it is, staged or published.
    pub(super) fn use_at(&self, volume: &str, path: &str) -> Option<&Use> {
        let path = PathBuf::from(path);
        let published = self.published.get(&path).filter(|(id, _)| id == volume);
        let published = published.map(|(_, how)| how);
        published.or_else(|| self.staged.get(&(volume.to_owned(), path)))
    }

    pub(super) fn names(&self) -> Vec<String> {
        let volumes = self.volumes.values();
        let volumes = volumes.map(|one| format!("volume {} {:?}", one.id, one.name));
        let snapshots = self.snapshots.values();
        let snapshots = snapshots.map(|one| format!("snapshot {} {:?}", one.id, one.name));
        let groups = self.groups.values();
        let groups = groups.map(|one| format!("group snapshot {} {:?}", one.id, one.name));
        let attached = self.attached.keys();
        let attached = attached.map(|(id, node)| format!("{id} attached to {node}"));
        let staged = self.staged.keys();
        let staged = staged.map(|(id, path)| format!("{id} staged at {}", path.display()));
        let published = self.published.iter();
        let published =
            published.map(|(path, (id, _))| format!("{id} published at {}", path.display()));
        volumes
            .chain(snapshots)
            .chain(groups)
            .chain(attached)
            .chain(staged)
            .chain(published)
            .collect()
    }
}

impl Volume {
    pub(super) fn is_from_snapshot(&self, id: &str) -> bool {
        let source = self.asked.source.as_ref();
        match source.and_then(|source| source.r#type.as_ref()) {
            Some(Source::Snapshot(snapshot)) => snapshot.snapshot_id == id,
            _ => false,
        }
    }

    pub(super) fn reply(&self) -> v1::Volume {
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
    pub(super) fn is_ready(&self) -> bool {
        self.looks_left == 0
    }

    /// One more answer shows it; the one after the last of them finds it ready.
    pub(super) fn look(&mut self) {
        self.looks_left = self.looks_left.saturating_sub(1);
    }
}
