//! The needs of a case: a capability of the driver, a setting, or a property of the machine that runs it.

use csi_rpc::facts::Capability;
use std::fmt;

/// A need of a case: without it the case is skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A capability that the driver advertises.
    Advertised(Capability),
    /// At least one of these capabilities.
    OneOf(&'static [Capability]),
    /// The Node service at the endpoint.
    NodeService,
    /// Any way to have a volume: one that can be created, or one that the settings name.
    AnyVolume,
    /// Volumes of the access type `block`.
    Block,
    /// Volumes of the access type `mount`.
    Mount,
    /// The case runs once for each access type that the driver supports.
    EachAccess,
    /// The paths of the node are visible here.
    Paths,
    /// A command that restarts the driver.
    Restart,
    /// Mutable parameters in the settings.
    MutableParameters,
    /// A second node in the settings.
    OtherNode,
}

/// Needs by the names of the specification, for the tables of cases.
#[allow(missing_docs)]
pub mod needs {
    use super::Need;
    use csi_rpc::facts::Capability::{Controller, Group, Node, Plugin};
    use csi_rpc::facts::{
        ControllerCapability as C, GroupCapability as G, NodeCapability as N, PluginCapability as S,
    };

    pub const CREATE_DELETE_VOLUME: Need = Need::Advertised(Controller(C::CreateDeleteVolume));
    pub const PUBLISH_UNPUBLISH_VOLUME: Need =
        Need::Advertised(Controller(C::PublishUnpublishVolume));
    pub const LIST_VOLUMES: Need = Need::Advertised(Controller(C::ListVolumes));
    pub const LIST_VOLUMES_PUBLISHED_NODES: Need =
        Need::Advertised(Controller(C::ListVolumesPublishedNodes));
    pub const GET_CAPACITY: Need = Need::Advertised(Controller(C::GetCapacity));
    pub const CREATE_DELETE_SNAPSHOT: Need = Need::Advertised(Controller(C::CreateDeleteSnapshot));
    pub const LIST_SNAPSHOTS: Need = Need::Advertised(Controller(C::ListSnapshots));
    pub const GET_SNAPSHOT: Need = Need::Advertised(Controller(C::GetSnapshot));
    pub const CLONE_VOLUME: Need = Need::Advertised(Controller(C::CloneVolume));
    pub const PUBLISH_READONLY: Need = Need::Advertised(Controller(C::PublishReadonly));
    pub const EXPAND_VOLUME: Need = Need::Advertised(Controller(C::ExpandVolume));
    pub const VOLUME_CONDITION: Need = Need::Advertised(Controller(C::VolumeCondition));
    pub const GET_VOLUME: Need = Need::Advertised(Controller(C::GetVolume));
    pub const MODIFY_VOLUME: Need = Need::Advertised(Controller(C::ModifyVolume));
    pub const STAGE_UNSTAGE_VOLUME: Need = Need::Advertised(Node(N::StageUnstageVolume));
    pub const GET_VOLUME_STATS: Need = Need::Advertised(Node(N::GetVolumeStats));
    pub const NODE_EXPAND_VOLUME: Need = Need::Advertised(Node(N::ExpandVolume));
    pub const NODE_VOLUME_CONDITION: Need = Need::Advertised(Node(N::VolumeCondition));
    pub const NODE_SINGLE_NODE_MULTI_WRITER: Need =
        Need::Advertised(Node(N::SingleNodeMultiWriter));
    pub const GROUP_SNAPSHOTS: Need =
        Need::Advertised(Group(G::CreateDeleteGetVolumeGroupSnapshot));
    pub const CONTROLLER_SERVICE: Need = Need::Advertised(Plugin(S::ControllerService));
    pub const GROUP_CONTROLLER_SERVICE: Need = Need::Advertised(Plugin(S::GroupControllerService));
    pub const SNAPSHOT_METADATA_SERVICE: Need =
        Need::Advertised(Plugin(S::SnapshotMetadataService));
    pub const TOPOLOGY: Need = Need::Advertised(Plugin(S::VolumeAccessibilityConstraints));
    /// Something that CSI 1.2 does not have. A driver without any of it may be of that age.
    pub const NEWER_THAN_1_2: Need = Need::OneOf(&[
        Controller(C::VolumeCondition),
        Controller(C::GetVolume),
        Controller(C::SingleNodeMultiWriter),
        Controller(C::ModifyVolume),
        Controller(C::GetSnapshot),
        Node(N::VolumeCondition),
        Node(N::SingleNodeMultiWriter),
        Node(N::VolumeMountGroup),
        Plugin(S::GroupControllerService),
        Plugin(S::SnapshotMetadataService),
    ]);
    pub const NODE_SERVICE: Need = Need::NodeService;
    pub const ANY_VOLUME: Need = Need::AnyVolume;
    pub const BLOCK: Need = Need::Block;
    pub const MOUNT: Need = Need::Mount;
    pub const PATHS: Need = Need::Paths;
    pub const RESTART: Need = Need::Restart;
    pub const OTHER_NODE: Need = Need::OtherNode;
    pub const MUTABLE_PARAMETERS: Need = Need::MutableParameters;
    pub const EACH_ACCESS: &[Need] = &[Need::EachAccess];
    pub const SEEN: &[Need] = &[Need::EachAccess, PATHS];
}

/// The words before the name of a missing capability.
pub const NOT_ADVERTISED: &str = "not advertised: ";

impl Need {
    /// The name of the need, in the words of the specification where it has some.
    pub fn name(self) -> &'static str {
        match self {
            Self::Advertised(capability) => capability.name(),
            Self::OneOf(capabilities) => capabilities.first().map_or("", |one| one.name()),
            Self::NodeService => "Node",
            Self::AnyVolume => "a volume",
            Self::Block => "block",
            Self::Mount => "mount",
            Self::EachAccess => "each access type",
            Self::Paths => "paths",
            Self::Restart => "--restart-command",
            Self::MutableParameters => "--mutable-params",
            Self::OtherNode => "--other-node-id",
        }
    }
}

impl fmt::Display for Need {
    /// Writes the missing need, as the end of "skipped: ".
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name();
        match self {
            Self::Advertised(Capability::Controller(_) | Capability::Plugin(_)) => {
                write!(f, "{NOT_ADVERTISED}{name}")
            }
            Self::Advertised(Capability::Node(_)) => write!(f, "{NOT_ADVERTISED}Node {name}"),
            Self::Advertised(Capability::Group(_)) => {
                write!(f, "{NOT_ADVERTISED}GroupController {name}")
            }
            Self::OneOf(capabilities) => {
                let (first, others) = capabilities.split_first().ok_or(fmt::Error)?;
                Self::Advertised(*first).fmt(f)?;
                for capability in others {
                    write!(f, " or {capability}")?;
                }
                Ok(())
            }
            Self::NodeService => f.write_str("the endpoint serves no Node service"),
            Self::AnyVolume => f.write_str("no volume to ask about: name one with --volume-id"),
            Self::Block | Self::Mount => write!(f, "the driver has no {name} volumes"),
            Self::EachAccess => f.write_str("the driver has no volumes of any access type"),
            Self::Paths => f.write_str("the node's paths are not visible here"),
            Self::Restart => f.write_str("neither --restart-command nor -- COMMAND is given"),
            Self::MutableParameters | Self::OtherNode => {
                write!(f, "{name} is not given")
            }
        }
    }
}
