//! A driver that repeats secrets in its errors: no tool shows them.

use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1;
use prost::Message as _;
use serde_json::json;
use std::fs;
use tonic::Code;
use tonic_types::pb;

const SECRET: &str = "hunter2-and-more";

/// Every call fails with the password in its message and in a detail.
fn driver() -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    let info = pb::ErrorInfo {
        reason: format!("password={SECRET}"),
        ..Default::default()
    };
    let status = pb::Status {
        details: vec![prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.ErrorInfo".to_owned(),
            value: info.encode_to_vec(),
        }],
        ..Default::default()
    };
    let message = format!("mount -o password={SECRET} failed");
    for rpc in ["CreateVolume", "DeleteVolume", "GetMetadataAllocated"] {
        let reply =
            Reply::error_with_details(Code::Internal, message.clone(), status.encode_to_vec());
        driver.on(rpc, reply);
    }
    driver.on("GetPluginInfo", r#"{"name": "own.example"}"#);
    // Sanity calls what is advertised.
    let plugin = r#"{"capabilities": [{"service": {"type": "CONTROLLER_SERVICE"}}]}"#;
    driver.on("GetPluginCapabilities", plugin);
    let creates = Reply::capabilities("CREATE_DELETE_VOLUME");
    driver.on("ControllerGetCapabilities", creates);
    driver
}

#[test]
fn a_reply_is_shown_without_the_secrets_of_its_request() {
    let driver = ScriptedDriver::unix();
    let context = json!({"options": format!("password={SECRET}")});
    driver.on(
        "CreateVolume",
        json!({"volume": {"volumeId": "vol-1", "volumeContext": context}}),
    );
    let csi = Csi::at(driver.endpoint()).env("X_CSI_SECRETS", format!("password={SECRET}"));
    csi.file("s.csi", "v = create-volume pvc-1 --cap 5,mount\nprint $v\n");
    for line in [
        "controller create-volume pvc-1 --cap 5,mount -vv --columns CONTEXT",
        "controller create-volume pvc-1 --cap 5,mount -o json",
        "controller create-volume pvc-1 --cap 5,mount -o jsonpath={.volume.volumeContext.options}",
        "controller create-volume pvc-1 --cap 5,mount -o csc",
        "shell --file s.csi",
    ] {
        let output = csi.run(line).succeeds();
        let all = format!("{output}");
        assert!(!all.contains("hunter2"), "{all}");
        assert!(output.stdout.contains("password=***stripped***"), "{all}");
    }
}

#[test]
fn no_tool_shows_a_secret_that_a_driver_repeats() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint()).env("X_CSI_SECRETS", format!("password={SECRET}"));
    csi.file("s.json", format!("{{\"password\":\"{SECRET}\"}}"));
    csi.file("s.csi", "create-volume pvc-1 --cap 5,mount\n");
    let shows = |line: &str| {
        let output = csi.run(line);
        let page = fs::read_to_string(csi.home().join("p.html")).unwrap_or_default();
        let all = format!("{output}{page}");
        assert!(!all.contains("hunter2"), "{all}");
        assert_ne!(output.code, 0, "{output}");
        all
    };
    for line in [
        "controller create-volume pvc-1 --cap 5,mount",
        "controller create-volume pvc-1 --cap 5,mount -o json -vvv",
        "controller create-volume pvc-1 --cap 5,mount -o csc",
        "snapshot-metadata get-metadata-allocated snap-1",
        "bench controller create-volume 'v-{run}-{i}' --cap 5,mount --count 2 --html p.html",
        "bench controller create-volume 'v-{run}-{i}' --cap 5,mount --count 2 -o json",
        "shell --file s.csi",
    ] {
        let shown = shows(line);
        assert!(shown.contains("password=***stripped***"), "{shown}");
    }
    shows(
        "sanity --filter controller/create-volume/ --paths=false --secrets-file s.json --html p.html",
    );
    // The driver got it every time.
    let requests = driver.requests();
    let created = requests
        .iter()
        .find(|request| request.path.ends_with("/CreateVolume"));
    let sent: v1::CreateVolumeRequest = created.unwrap().decode();
    assert_eq!(sent.secrets["password"], SECRET);
}
