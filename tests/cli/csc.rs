//! The face of `csc`: command lines that stand in scripts all over the world, through a symlink of that name and through
//! `csi` itself. What they print is in the golden files.

use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use serde_json::{Value, json};
use tonic::Code;

fn driver() -> ScriptedDriver {
    let driver = ScriptedDriver::tcp();
    driver
        .on("GetPluginInfo", "{}")
        .on("Probe", "{}")
        .on(
            "CreateVolume",
            r#"{"volume": {"volumeId": "id-1", "capacityBytes": 5}}"#,
        )
        .on("DeleteVolume", "{}")
        .on("ControllerPublishVolume", "{}")
        .on("ValidateVolumeCapabilities", "{}")
        .on("NodePublishVolume", "{}")
        .on("NodeGetVolumeStats", "{}");
    driver
}

/// Whether all that `part` has is in `whole`.
fn contains(whole: &Value, part: &Value) -> bool {
    match (whole, part) {
        (Value::Object(whole), Value::Object(part)) => part
            .iter()
            .all(|(key, value)| whole.get(key).is_some_and(|of| contains(of, value))),
        (Value::Array(whole), Value::Array(part)) => {
            whole.len() == part.len()
                && whole
                    .iter()
                    .zip(part)
                    .all(|(whole, part)| contains(whole, part))
        }
        _ => whole == part,
    }
}

#[test]
fn command_lines_found_in_the_wild() {
    let block = json!({"block": {}, "accessMode": {"mode": "SINGLE_NODE_WRITER"}});
    let shared = json!({"mount": {}, "accessMode": {"mode": "MULTI_NODE_MULTI_WRITER"}});
    let cases = [
        (
            "identity plugin-info --endpoint ENDPOINT",
            "GetPluginInfo",
            json!({}),
        ),
        ("-i -e ENDPOINT identity probe", "Probe", json!({})),
        (
            "controller new --endpoint ENDPOINT --cap 1,block pvc-1 --req-bytes 2147483648 --params a=b,c=d=e",
            "CreateVolume",
            json!({
                "name": "pvc-1", "capacityRange": {"requiredBytes": "2147483648"}, "volumeCapabilities": [block],
                "parameters": {"a": "b", "c": "d=e"},
            }),
        ),
        (
            "controller new -e ENDPOINT --cap MULTI_NODE_MULTI_WRITER,mount,,, pvc-1",
            "CreateVolume",
            json!({"volumeCapabilities": [shared]}),
        ),
        (
            "controller create-volume --cap 5,1 -l debug -e ENDPOINT name",
            "CreateVolume",
            json!({"name": "name", "volumeCapabilities": [{"block": {}}]}),
        ),
        (
            "node publish --endpoint ENDPOINT --target-path /mnt/nfs --pub-context server=10.0.0.4,share=nfs_share nfstestvol",
            "NodePublishVolume",
            json!({
                "volumeId": "nfstestvol", "targetPath": "/mnt/nfs",
                "publishContext": {"server": "10.0.0.4", "share": "nfs_share"},
            }),
        ),
        (
            "node publish -e ENDPOINT --cap 1,block --staging-target-path S --target-path T --vol-context a=b,c=d id-1",
            "NodePublishVolume",
            json!({
                "volumeCapability": block, "stagingTargetPath": "S", "targetPath": "T",
                "volumeContext": {"a": "b", "c": "d"},
            }),
        ),
        (
            "node stats --endpoint ENDPOINT id-1:/mnt/t:/mnt/s",
            "NodeGetVolumeStats",
            json!({"volumeId": "id-1", "volumePath": "/mnt/t", "stagingTargetPath": "/mnt/s"}),
        ),
        (
            "controller del --endpoint ENDPOINT id-1",
            "DeleteVolume",
            json!({"volumeId": "id-1"}),
        ),
        (
            "controller validate-volume-capabilities --endpoint ENDPOINT --cap 1,block id-1",
            "ValidateVolumeCapabilities",
            json!({"volumeId": "id-1", "volumeCapabilities": [block]}),
        ),
        // Short names, flags before and after.
        (
            "c att id-1 -e ENDPOINT --node-id n --read-only",
            "ControllerPublishVolume",
            json!({"nodeId": "n", "readonly": true}),
        ),
        (
            "n mnt -e ENDPOINT id-1 --target-path T",
            "NodePublishVolume",
            json!({"volumeId": "id-1"}),
        ),
    ];
    for (line, rpc, expected) in cases {
        for name in ["csc", "csi"] {
            let driver = driver();
            let csi = Csi::new().called(name);
            let output = csi
                .run(&line.replace("ENDPOINT", driver.endpoint()))
                .succeeds();
            let request = driver.request();
            assert_eq!(request.method().name, rpc, "{output}");
            let sent = request.json();
            assert!(
                contains(&sent, &expected),
                "{output}\nsent {sent:#}\nexpected {expected:#}"
            );
        }
    }
}

#[test]
fn flags_are_taken_as_by_csc() {
    let driver = driver();
    let line = format!(
        "-e /nowhere -t 1ns --with-request-logging=true --with-request-logging=false -i=0 -i=1 -t 1h -e {} \
         c att id-1 --node-id a --read-only=true --with-requires-creds=0 --node-id -b --vol-context a=b --vol-context c=d",
        driver.endpoint()
    );
    let output = Csi::new().called("csc").run(&line).succeeds();
    assert_eq!(output.stderr, "", "{output}");
    let expected = json!({"nodeId": "-b", "readonly": true, "volumeContext": {"a": "b", "c": "d"}});
    let sent = driver.request().json();
    assert!(contains(&sent, &expected), "sent {sent:#}");
    // These are mistakes where nobody is used to them.
    for flags in ["--read-only=true", "--node-id a --node-id b"] {
        Csi::at(driver.endpoint())
            .run(&format!("c att id-1 {flags}"))
            .exits(2);
    }
}

#[test]
fn exit_codes_and_errors() {
    let driver = ScriptedDriver::unix();
    driver.on(
        "DeleteVolume",
        Reply::error(Code::FailedPrecondition, "in use"),
    );
    let csc = Csi::at(driver.endpoint()).called("csc");
    let output = csc.run("controller delete-volume id-1").exits(9);
    assert_eq!(
        output.stderr,
        "in use\n\nPlease use -h,--help for more information\n"
    );
    csc.run("controller create-volume pvc-1").exits(12);
    csc.run("controller no-such-command").exits(1);
    csc.run("controller").exits(1);
    csc.run("controller list-volumes --format {{.}}")
        .exits(1)
        .says("-o json");
}

/// Where `csi` once said more than csc, or on one line what takes several.
#[test]
fn lines_end_where_those_of_csc_do() {
    let driver = ScriptedDriver::unix();
    driver.on("ValidateVolumeCapabilities", "{}");
    let all = [1, 14, 15, 99].map(|number| json!({"rpc": {"type": number}}));
    driver.on("ControllerGetCapabilities", json!({ "capabilities": all }));
    let csc = Csi::at(driver.endpoint()).called("csc");
    csc.run("controller validate id-1 --cap 1,block")
        .succeeds()
        .prints("\"id-1\"\t<nil>\n");
    csc.run("controller get-capabilities")
        .succeeds()
        .prints("&{type:CREATE_DELETE_VOLUME}\n&{type:MODIFY_VOLUME}\n&{type:15}\n&{type:99}\n");
    let pointer = "\n\nPlease use -h,--help for more information\n";
    for (line, message) in [
        ("controller", "a command is missing"),
        (
            "controller list-volumes --max-entries x",
            "invalid value 'x' for '--max-entries <N>': invalid digit found in string",
        ),
        (
            "node publish v --bogus",
            "unexpected argument '--bogus' found",
        ),
        ("controller nope", "unrecognized subcommand 'nope'"),
        // An empty name is no driver's.
        (
            "identity probe --endpoint=",
            "a value is required for '--endpoint <ENDPOINT>' but none was supplied",
        ),
    ] {
        let output = csc.run(line).exits(1);
        assert_eq!(output.stderr, format!("{message}{pointer}"));
    }
}

#[test]
fn an_unset_ready_is_ready() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    Csi::at(driver.endpoint())
        .called("csc")
        .run("identity probe")
        .succeeds()
        .prints("true\n");
}

#[test]
fn several_at_once_stop_at_the_first_error() {
    let driver = ScriptedDriver::unix();
    driver.answer("DeleteVolume", |request| {
        let request: csi_proto::v1::DeleteVolumeRequest = request.decode();
        match request.volume_id.as_str() {
            "bad" => Reply::error(Code::Internal, "no"),
            _ => Reply::json("{}"),
        }
    });
    let csc = Csi::at(driver.endpoint()).called("csc");
    csc.run("controller delete-volume a bad c")
        .exits(13)
        .prints("a\n");
    let csi = Csi::at(driver.endpoint());
    csi.run("controller delete-volume a bad c -o name")
        .exits(64 + 13)
        .prints("a\n");
    csi.run("controller delete-volume a bad c -o name --keep-going")
        .exits(64 + 13)
        .prints("a\nc\n")
        .says("bad");
}

#[test]
fn paging_prints_every_row_and_no_token() {
    let driver = ScriptedDriver::unix();
    let pages = [Reply::volumes(["a"], 2), Reply::volumes(["b"], "")];
    driver.on_each("ListVolumes", pages);
    let csc = Csi::at(driver.endpoint()).called("csc");
    csc.run("controller ls --paging --max-entries 1")
        .succeeds()
        .prints("\"a\"\t0\n\"b\"\t0\n");
    let asked: Vec<_> = driver
        .requests()
        .iter()
        .map(|request| request.json()["startingToken"].clone())
        .collect();
    assert_eq!(asked, ["", "2"]);
}

#[test]
fn secrets_of_the_environment() {
    let driver = driver();
    let csc = Csi::at(driver.endpoint())
        .called("csc")
        .env("X_CSI_SECRETS", "user=admin, \"password=a , b=c\"")
        .env("X_CSI_DEBUG", "true");
    let output = csc.run("controller new pvc-1 --cap 1,mount,").succeeds();
    let request: csi_proto::v1::CreateVolumeRequest = driver.request().decode();
    assert_eq!(request.secrets["user"], "admin");
    assert_eq!(request.secrets["password"], "a , b=c");
    // Debugging shows the request, and not the secret.
    assert!(
        output.stderr.contains("pvc-1") && !output.stderr.contains("a , b"),
        "{output}"
    );
    let malformed = csc.env("X_CSI_SECRETS", "a=\"b");
    let output = malformed.run("controller new pvc-1");
    assert!(!output.stderr.contains("panicked"), "{output}");
    output.exits(1).says("X_CSI_SECRETS");
}
