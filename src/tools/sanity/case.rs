//! What a case is: a declaration, a body, and how it ends.
//!
//! Owns the shape of declarations and the macro that writes them. Must not run anything.

use super::context::Context;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerType;
use csi_proto::v1::group_controller_service_capability::rpc::Type as GroupType;
use csi_proto::v1::node_service_capability::rpc::Type as NodeType;
use csi_proto::v1::plugin_capability::service::Type as ServiceType;
use std::sync::Arc;

/// One rule of the specification, and the calls that show whether a driver keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name that never changes, such as `controller/create-volume/is-idempotent`.
    pub name: &'static str,
    /// The rule as a sentence without its full stop.
    pub sentence: &'static str,
    /// The heading in the specification under which the rule stands.
    pub section: &'static str,
    /// What it does to the driver.
    pub kind: Kind,
    /// What the driver, the settings or the place must have; without it the case is skipped.
    pub needs: &'static [Need],
    pub(super) body: Body,
}

/// What a case does to a driver, and what it takes beside itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Asks, changes nothing: also for drivers in production. Runs beside others.
    Reads,
    /// Makes and removes things of its own. Runs beside others.
    Changes,
    /// As [`Kind::Changes`], with nothing else running: others would disturb what it looks at, or be disturbed.
    Alone,
    /// Calls nothing: judges what all cases before it have seen.
    Last,
}

/// What a case cannot do without.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// A capability of ControllerGetCapabilities.
    Controller(ControllerType),
    /// A capability of NodeGetCapabilities.
    Node(NodeType),
    /// A capability of GroupControllerGetCapabilities.
    Group(GroupType),
    /// A service or constraint of GetPluginCapabilities.
    Plugin(ServiceType),
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
    use super::{ControllerType as C, GroupType as G, Need, NodeType as N, ServiceType as S};

    pub const CREATE_DELETE_VOLUME: Need = Need::Controller(C::CreateDeleteVolume);
    pub const PUBLISH_UNPUBLISH_VOLUME: Need = Need::Controller(C::PublishUnpublishVolume);
    pub const LIST_VOLUMES: Need = Need::Controller(C::ListVolumes);
    pub const LIST_VOLUMES_PUBLISHED_NODES: Need = Need::Controller(C::ListVolumesPublishedNodes);
    pub const GET_CAPACITY: Need = Need::Controller(C::GetCapacity);
    pub const CREATE_DELETE_SNAPSHOT: Need = Need::Controller(C::CreateDeleteSnapshot);
    pub const LIST_SNAPSHOTS: Need = Need::Controller(C::ListSnapshots);
    pub const GET_SNAPSHOT: Need = Need::Controller(C::GetSnapshot);
    pub const CLONE_VOLUME: Need = Need::Controller(C::CloneVolume);
    pub const PUBLISH_READONLY: Need = Need::Controller(C::PublishReadonly);
    pub const EXPAND_VOLUME: Need = Need::Controller(C::ExpandVolume);
    pub const VOLUME_CONDITION: Need = Need::Controller(C::VolumeCondition);
    pub const GET_VOLUME: Need = Need::Controller(C::GetVolume);
    pub const MODIFY_VOLUME: Need = Need::Controller(C::ModifyVolume);
    pub const STAGE_UNSTAGE_VOLUME: Need = Need::Node(N::StageUnstageVolume);
    pub const GET_VOLUME_STATS: Need = Need::Node(N::GetVolumeStats);
    pub const NODE_EXPAND_VOLUME: Need = Need::Node(N::ExpandVolume);
    pub const NODE_VOLUME_CONDITION: Need = Need::Node(N::VolumeCondition);
    pub const GROUP_SNAPSHOTS: Need = Need::Group(G::CreateDeleteGetVolumeGroupSnapshot);
    pub const CONTROLLER_SERVICE: Need = Need::Plugin(S::ControllerService);
    pub const GROUP_CONTROLLER_SERVICE: Need = Need::Plugin(S::GroupControllerService);
    pub const SNAPSHOT_METADATA_SERVICE: Need = Need::Plugin(S::SnapshotMetadataService);
    pub const TOPOLOGY: Need = Need::Plugin(S::VolumeAccessibilityConstraints);
    pub const NODE_SERVICE: Need = Need::NodeService;
    pub const ANY_VOLUME: Need = Need::AnyVolume;
    pub const BLOCK: Need = Need::Block;
    pub const MOUNT: Need = Need::Mount;
    pub const EACH_ACCESS: Need = Need::EachAccess;
    pub const PATHS: Need = Need::Paths;
    pub const RESTART: Need = Need::Restart;
    pub const OTHER_NODE: Need = Need::OtherNode;
    pub const MUTABLE_PARAMETERS: Need = Need::MutableParameters;
}

/// Why a case ended before its end.
#[derive(Clone, Debug)]
pub enum Stop {
    /// The driver broke the rule.
    Failed(Failure),
    /// The rule cannot be shown here; the text says why.
    Skipped(String),
}

/// What was expected, and what came instead. Texts of a driver in it are as they came: escape them before showing them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What the specification demands.
    pub expected: String,
    /// What the driver did.
    pub actual: String,
}

impl Stop {
    /// The driver broke the rule.
    pub fn failed(expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self::Failed(Failure {
            expected: expected.into(),
            actual: actual.into(),
        })
    }
}

/// How a case ends.
pub type Verdict = Result<(), Stop>;

/// What a case does.
pub type Body = fn(&Arc<Context>) -> Verdict;

/// Demands that `kept` holds.
///
/// # Errors
/// Otherwise, with the two texts.
pub fn ensure(kept: bool, expected: &str, actual: impl Into<String>) -> Verdict {
    match kept {
        true => Ok(()),
        false => Err(Stop::failed(expected, actual)),
    }
}

/// Demands that an answer has the same id as one before it.
///
/// # Errors
/// Otherwise, with both ids and `what` they name.
pub fn same_id(what: &str, wanted: &str, found: &str) -> Verdict {
    ensure(
        wanted == found,
        &format!("the {what} {wanted} again"),
        format!("the {what} {found}"),
    )
}

/// Declares a case: `case!(Kind, name, sentence, section, [needs], |c| { … })`. The body runs in a
/// thread of its own and may use `?` on a [`Verdict`]; it passes when it comes to its end.
macro_rules! case {
    ($kind:ident, $name:literal, $sentence:literal, $section:literal, [$($need:expr),* $(,)?], |$c:ident| $body:block $(,)?) => {
        case!($kind, $name, $sentence, $section, &[$($need),*], |$c| $body)
    };
    ($kind:ident, $name:literal, $sentence:literal, $section:literal, $needs:expr, |$c:ident| $body:block $(,)?) => {
        $crate::tools::sanity::case::Case {
            name: $name,
            sentence: $sentence,
            section: $section,
            kind: $crate::tools::sanity::case::Kind::$kind,
            needs: $needs,
            body: |$c| {
                $body
                Ok(())
            },
        }
    };
}
pub(super) use case;

/// How a missing capability is said.
pub const NOT_ADVERTISED: &str = "not advertised: ";

impl Need {
    /// What it is, in the words of the specification where it has some.
    pub fn name(self) -> &'static str {
        match self {
            Self::Controller(one) => one.as_str_name(),
            Self::Node(one) => one.as_str_name(),
            Self::Group(one) => one.as_str_name(),
            Self::Plugin(one) => one.as_str_name(),
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

impl std::fmt::Display for Need {
    /// What is missing when it is not there, as the end of "skipped: ".
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let name = self.name();
        match self {
            Self::Controller(_) | Self::Plugin(_) => write!(f, "{NOT_ADVERTISED}{name}"),
            Self::Node(_) => write!(f, "{NOT_ADVERTISED}Node {name}"),
            Self::Group(_) => write!(f, "{NOT_ADVERTISED}GroupController {name}"),
            Self::NodeService => f.write_str("the endpoint serves no Node service"),
            Self::AnyVolume => f.write_str("no volume to ask about: name one with --volume-id"),
            Self::Block | Self::Mount => write!(f, "the driver has no {name} volumes"),
            Self::EachAccess => f.write_str("the driver has no volumes of any access type"),
            Self::Paths => f.write_str("the node's paths are not visible here"),
            Self::Restart | Self::MutableParameters | Self::OtherNode => {
                write!(f, "{name} is not given")
            }
        }
    }
}
