//! What the driver is asked to be: its capabilities, its pace, its one defect.

use crate::Defect;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;
use std::collections::BTreeMap;
use std::time::Duration;

/// The minor version of the specification that has everything.
pub(crate) const TODAY: u32 = 12;
/// The size of the smallest volume, in bytes.
pub(crate) const SMALLEST: i64 = 1 << 20;
/// The size of a volume for which none was asked, in bytes.
pub(crate) const USUAL: i64 = 1 << 30;

/// How the driver behaves. The default has every capability and no defect.
#[derive(Clone, Debug)]
pub struct Options {
    /// What is wrong with it.
    pub defect: Option<Defect>,
    /// The services that GetPluginCapabilities advertises; the others are not there.
    pub services: Vec<PluginService>,
    /// Whether volumes in use can be expanded.
    pub expansion: Option<Expansion>,
    /// What ControllerGetCapabilities advertises; RPCs without their capability are UNIMPLEMENTED.
    pub controller: Vec<ControllerCapability>,
    /// What NodeGetCapabilities advertises.
    pub node: Vec<NodeCapability>,
    /// How long a change takes. Whatever else arrives in that time meets it.
    pub pace: Duration,
    /// How often a snapshot is looked at before it is ready.
    pub looks_until_ready: u32,
    /// The secrets that every call must carry which can carry some; empty for none.
    pub secrets: BTreeMap<String, String>,
    /// The nodes that volumes can be attached to. The first is the driver's own.
    pub nodes: Vec<String>,
    /// How many volumes can be attached to one node; 0 for any number.
    pub max_volumes_per_node: i64,
    /// How many volumes there can be; 0 for any number.
    pub max_volumes: usize,
    /// The room for volumes, in bytes.
    pub capacity: i64,
    /// The bytes of the largest volume.
    pub largest: i64,
    /// The minor version of CSI 1 that it was written for: of later ones it knows nothing.
    pub specification: u32,
    /// Whether it takes every liberty that the specification leaves a driver, also those that few drivers take.
    pub at_liberty: bool,
}

impl Default for Options {
    fn default() -> Self {
        use ControllerCapability as C;
        use NodeCapability as N;
        Self {
            defect: None,
            services: vec![
                PluginService::ControllerService,
                PluginService::VolumeAccessibilityConstraints,
                PluginService::GroupControllerService,
                PluginService::SnapshotMetadataService,
            ],
            expansion: Some(Expansion::Online),
            controller: vec![
                C::CreateDeleteVolume,
                C::PublishUnpublishVolume,
                C::ListVolumes,
                C::GetCapacity,
                C::CreateDeleteSnapshot,
                C::ListSnapshots,
                C::CloneVolume,
                C::PublishReadonly,
                C::ExpandVolume,
                C::ListVolumesPublishedNodes,
                C::VolumeCondition,
                C::GetVolume,
                C::SingleNodeMultiWriter,
                C::ModifyVolume,
                C::GetSnapshot,
            ],
            node: vec![
                N::StageUnstageVolume,
                N::GetVolumeStats,
                N::ExpandVolume,
                N::VolumeCondition,
                N::SingleNodeMultiWriter,
                N::VolumeMountGroup,
            ],
            pace: Duration::from_millis(2),
            looks_until_ready: 0,
            secrets: BTreeMap::new(),
            nodes: vec!["node-1".into(), "node-2".into()],
            max_volumes_per_node: 0,
            max_volumes: 0,
            capacity: 1 << 44,
            largest: 1 << 40,
            specification: TODAY,
            at_liberty: false,
        }
    }
}

impl Options {
    /// A driver that has the Identity and Node services, and of them only what every driver has.
    pub fn minimal() -> Self {
        Self {
            services: Vec::new(),
            expansion: None,
            controller: Vec::new(),
            node: Vec::new(),
            ..Self::default()
        }
    }

    /// With that defect.
    #[must_use]
    pub fn with(mut self, defect: Defect) -> Self {
        self.defect = Some(defect);
        self
    }

    /// Without that service, and what belongs to it.
    #[must_use]
    pub fn without_service(mut self, service: PluginService) -> Self {
        self.services.retain(|other| *other != service);
        self
    }

    /// Without that capability of the controller.
    #[must_use]
    pub fn without_controller(mut self, capability: ControllerCapability) -> Self {
        self.controller.retain(|other| *other != capability);
        self
    }

    /// The names of what it advertises.
    pub fn advertised(&self) -> Vec<&'static str> {
        let services = self.services.iter().map(|one| one.as_str_name());
        let controller = self.controller.iter().map(|one| one.as_str_name());
        let node = self.node.iter().map(|one| one.as_str_name());
        services.chain(controller).chain(node).collect()
    }

    /// Without that capability of the node.
    #[must_use]
    pub fn without_node(mut self, capability: NodeCapability) -> Self {
        self.node.retain(|other| *other != capability);
        self
    }
}
