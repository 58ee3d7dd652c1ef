//! The drivers of these tests: scripted, each with what a test needs to go wrong.

use crate::support::scripted::{Reply, ScriptedDriver};
use serde_json::json;
use tonic::Code;

/// A driver that has what it takes to get a volume to a node, and says OK to everything. It advertises these capabilities.
pub fn driver(controller: &str, node: &str) -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    let plugin = r#"{"capabilities": [{"service": {"type": "CONTROLLER_SERVICE"}}]}"#;
    driver
        .on(
            "GetPluginInfo",
            r#"{"name": "half.example.org", "vendorVersion": "1"}"#,
        )
        .on("GetPluginCapabilities", plugin)
        .on("Probe", "{}")
        .on("ControllerGetCapabilities", Reply::capabilities(controller))
        .on("NodeGetCapabilities", Reply::capabilities(node))
        .on("NodeGetInfo", r#"{"nodeId": "node-1"}"#)
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
        driver.on(rpc, "{}");
    }
    driver
}

pub fn created(id: &str) -> Reply {
    Reply::json(json!({"volume": {"volumeId": id}}))
}

/// A driver without staging, of whose publishing nobody knows what became.
pub fn failing() -> ScriptedDriver {
    let driver = driver("CREATE_DELETE_VOLUME", "");
    driver.on(
        "NodePublishVolume",
        Reply::error(Code::Internal, "the mount failed"),
    );
    driver
}

/// A driver with every step.
pub fn thorough() -> ScriptedDriver {
    driver(
        "CREATE_DELETE_VOLUME PUBLISH_UNPUBLISH_VOLUME",
        "STAGE_UNSTAGE_VOLUME",
    )
}

pub fn called(driver: &ScriptedDriver, rpc: &str) -> bool {
    times_called(driver, rpc) > 0
}

/// How often the RPC was called.
pub fn times_called(driver: &ScriptedDriver, rpc: &str) -> usize {
    driver.calls().iter().filter(|call| *call == rpc).count()
}
