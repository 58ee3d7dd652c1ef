//! The drivers of these tests: scripted, each with what a test needs to go wrong.

use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::{self, plugin_capability};
use tonic::Code;

/// A driver that has what it takes to get a volume to a node, and says OK to everything.
pub fn driver(controller: &[ControllerCapability], node: &[NodeCapability]) -> ScriptedDriver {
    let service = plugin_capability::Service {
        r#type: plugin_capability::service::Type::ControllerService.into(),
    };
    let plugin = v1::GetPluginCapabilitiesResponse {
        capabilities: vec![v1::PluginCapability {
            r#type: Some(plugin_capability::Type::Service(service)),
        }],
    };
    let controller = controller.iter().map(|one| {
        let rpc = v1::controller_service_capability::Rpc {
            r#type: (*one).into(),
        };
        v1::ControllerServiceCapability {
            r#type: Some(v1::controller_service_capability::Type::Rpc(rpc)),
        }
    });
    let controller = v1::ControllerGetCapabilitiesResponse {
        capabilities: controller.collect(),
    };
    let node = node.iter().map(|one| {
        let rpc = v1::node_service_capability::Rpc {
            r#type: (*one).into(),
        };
        v1::NodeServiceCapability {
            r#type: Some(v1::node_service_capability::Type::Rpc(rpc)),
        }
    });
    let node = v1::NodeGetCapabilitiesResponse {
        capabilities: node.collect(),
    };
    let driver = ScriptedDriver::unix();
    let info = v1::GetPluginInfoResponse {
        name: "half.example.org".into(),
        vendor_version: "1".into(),
        ..Default::default()
    };
    let node_info = v1::NodeGetInfoResponse {
        node_id: "node-1".into(),
        ..Default::default()
    };
    driver
        .on("GetPluginInfo", Reply::message(&info))
        .on("GetPluginCapabilities", Reply::message(&plugin))
        .on("Probe", Reply::message(&v1::ProbeResponse::default()))
        .on("ControllerGetCapabilities", Reply::message(&controller))
        .on("NodeGetCapabilities", Reply::message(&node))
        .on("NodeGetInfo", Reply::message(&node_info))
        .on("CreateVolume", created("vol-7"));
    for rpc in [
        "ControllerPublishVolume",
        "NodeStageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeUnstageVolume",
        "ControllerUnpublishVolume",
        "DeleteVolume",
    ] {
        // These replies may be empty.
        driver.on(rpc, Reply::bytes(Vec::new()));
    }
    driver
}

pub fn created(id: &str) -> Reply {
    Reply::message(&v1::CreateVolumeResponse {
        volume: Some(v1::Volume {
            volume_id: id.into(),
            ..Default::default()
        }),
    })
}

/// A driver without staging, of whose publishing nobody knows what became.
pub fn failing() -> ScriptedDriver {
    let driver = driver(&[ControllerCapability::CreateDeleteVolume], &[]);
    driver.on(
        "NodePublishVolume",
        Reply::error(Code::Internal, "the mount failed"),
    );
    driver
}

/// A driver with every step.
pub fn thorough() -> ScriptedDriver {
    driver(
        &[
            ControllerCapability::CreateDeleteVolume,
            ControllerCapability::PublishUnpublishVolume,
        ],
        &[NodeCapability::StageUnstageVolume],
    )
}

pub fn called(driver: &ScriptedDriver, rpc: &str) -> bool {
    times_called(driver, rpc) > 0
}

/// How often the RPC was called.
pub fn times_called(driver: &ScriptedDriver, rpc: &str) -> usize {
    driver.calls().iter().filter(|call| *call == rpc).count()
}
