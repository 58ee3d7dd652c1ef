//! The types of the facts beside each RPC's block: the effect of a call, the capability it needs, the fields its
//! request requires, the ids that later calls take from its reply.
//!
//! Owns the shape of these facts and what follows from them. Knows no command line, no table and no connection.

use csi_proto::Method;
use csi_proto::schema::{Cardinality, Field, Kind};
pub use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
pub use csi_proto::v1::group_controller_service_capability::rpc::Type as GroupCapability;
pub use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
pub use csi_proto::v1::plugin_capability::service::Type as PluginCapability;
use std::fmt;

/// The facts of one RPC, from the specification.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// The effect of a call on the driver's volumes and snapshots.
    pub effect: Effect,
    /// A driver that advertises one of these has the RPC. Empty: every driver that serves the service has it.
    pub needs: &'static [Capability],
    /// The ids and contexts that later calls take from the reply, each with its path there. The id of a thing that the RPC
    /// makes is in [`Making::id_path`].
    pub gives: &'static [(Given, &'static str)],
}

/// The effect of a call on the driver's volumes and snapshots.
#[derive(Clone, Copy, Debug)]
pub enum Effect {
    /// The call changes nothing.
    Reads,
    /// The call makes something that stays until another RPC takes it back.
    Makes(Making),
    /// The call takes back what another RPC has made.
    Undoes,
    /// The call changes an existing thing; nothing takes that back.
    Changes,
}

/// The undoing of an RPC that makes something. Each field of the undoing request has its [source](Self::source).
#[derive(Clone, Copy, Debug)]
pub struct Making {
    /// The thing that is made.
    pub thing: Thing,
    /// The RPC that takes it back.
    pub undone_by: &'static Method,
    /// The fields of the undoing request that only the reply tells, each with its path there, through lists. Empty where
    /// the making request says everything. Otherwise the thing's own id comes first, and equal arguments under the same
    /// [`NAME`] lead to the same thing.
    pub id_path: &'static [(&'static str, &'static str)],
}

/// The field of a request under which a thing is made whose id the driver chooses.
pub const NAME: &str = "name";

/// The things that RPCs make, in the order in which they are taken back: nothing is taken from under something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Thing {
    /// A volume at its target path.
    PublishedVolume,
    /// A volume at its staging path.
    StagedVolume,
    /// A volume that the controller has attached to a node.
    AttachedVolume,
    /// A group snapshot with its snapshots.
    GroupSnapshot,
    /// A snapshot.
    Snapshot,
    /// A volume.
    Volume,
}

/// A capability that a driver advertises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Capability {
    /// A service of GetPluginCapabilities.
    Plugin(PluginCapability),
    /// A capability of ControllerGetCapabilities.
    Controller(ControllerCapability),
    /// A capability of NodeGetCapabilities.
    Node(NodeCapability),
    /// A capability of GroupControllerGetCapabilities.
    Group(GroupCapability),
}

/// A value that later calls take from a reply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Given {
    /// Ids of things that are there.
    Ids(IdKind),
    /// The context of a new volume.
    VolumeContext,
    /// The context of a volume that is attached to a node.
    PublishContext,
}

/// The kind of thing that an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
    /// A group snapshot.
    GroupSnapshot,
    /// A node.
    Node,
}

impl Facts {
    /// The path at which the reply gives `what`.
    pub(crate) fn path_of(&self, what: Given) -> Option<&'static str> {
        let mut all = self.gives.iter();
        all.find_map(|(given, path)| (*given == what).then_some(*path))
    }
}

impl Effect {
    /// Whether it changes nothing.
    pub fn is_reads(&self) -> bool {
        matches!(self, Self::Reads)
    }

    /// The undoing of the thing that the RPC makes.
    pub fn making(&self) -> Option<&Making> {
        match self {
            Self::Makes(making) => Some(making),
            _ => None,
        }
    }
}

impl Making {
    /// The path in the reply of the making call from which a field of the undoing request comes; `None` for one that is the field of
    /// the same name in its request.
    pub fn source(&self, field: &Field) -> Option<&'static str> {
        let found = self.id_path.iter().find(|(name, _)| *name == field.name);
        found.map(|(_, path)| *path)
    }

    /// Whether the thing has an id of its own, which the driver chooses: only the reply holds it.
    pub fn has_own_id(&self) -> bool {
        !self.id_path.is_empty()
    }

    /// The kind of the thing's id, and its path in the reply; `None` where the thing has no id of its own.
    pub fn own_id(&self) -> Option<(IdKind, &'static str)> {
        let (field, path) = self.id_path.first()?;
        Some((IdKind::of_field(field)?, path))
    }

    /// The fields of the undoing request that tell one thing from another. A list of parts adds nothing to the id of the
    /// whole, and secrets are no part of an identity.
    pub fn identity(&self) -> impl Iterator<Item = &'static Field> {
        let fields = self.undone_by.request.fields.iter();
        fields.filter(|field| {
            !field.secret
                && field.cardinality == Cardinality::Singular
                && matches!(field.kind, Kind::String)
        })
    }

    /// The field of the undoing request that holds the thing's path on the node; `None` for what is no mount.
    pub fn path_field(&self) -> Option<&'static Field> {
        let mut fields = self.identity();
        fields.find(|field| IdKind::of_field(field.name).is_none())
    }
}

impl Thing {
    /// The noun for one thing, and for several.
    pub fn noun(self) -> (&'static str, &'static str) {
        match self {
            Self::PublishedVolume => ("published volume", "published volumes"),
            Self::StagedVolume => ("staged volume", "staged volumes"),
            Self::AttachedVolume => ("volume attached to a node", "volumes attached to nodes"),
            Self::GroupSnapshot => ("group snapshot", "group snapshots"),
            Self::Snapshot => ("snapshot", "snapshots"),
            Self::Volume => ("volume", "volumes"),
        }
    }

    /// Whether a volume is in use as long as this is there.
    pub fn holds_volume(self) -> bool {
        matches!(
            self,
            Self::PublishedVolume | Self::StagedVolume | Self::AttachedVolume
        )
    }

    /// Whether it is a mount on the node.
    pub fn is_mount(self) -> bool {
        matches!(self, Self::PublishedVolume | Self::StagedVolume)
    }
}

impl IdKind {
    /// The kind of ids in a field, by its name in snake case as in `csi.proto`.
    pub fn of_field(name: &str) -> Option<Self> {
        match name {
            "volume_id" | "source_volume_id" | "source_volume_ids" | "source_volume" => {
                Some(Self::Volume)
            }
            "snapshot_id" | "snapshot_ids" | "base_snapshot_id" | "target_snapshot_id"
            | "source_snapshot" => Some(Self::Snapshot),
            "group_snapshot_id" => Some(Self::GroupSnapshot),
            "node_id" | "published_node_ids" => Some(Self::Node),
            _ => None,
        }
    }
}

impl Capability {
    /// The name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Plugin(one) => one.as_str_name(),
            Self::Controller(one) => one.as_str_name(),
            Self::Node(one) => one.as_str_name(),
            Self::Group(one) => one.as_str_name(),
        }
    }
}

impl fmt::Display for Capability {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
