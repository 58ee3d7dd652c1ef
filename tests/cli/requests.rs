//! Requests given whole, shown without being sent, and what they may not carry.

use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1::CreateVolumeRequest;
use prost::Message as _;
use serde_json::json;

fn driver() -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    driver.on("CreateVolume", r#"{"volume": {"volumeId": "vol-1"}}"#);
    driver
}

#[test]
fn what_a_dry_run_prints_can_be_sent() {
    let driver = driver();
    let flags = "controller create-volume pvc-1 --req-bytes 1Gi --cap 5,mount,nfs,hard --params a=b --requisite zone=a";
    let csi = Csi::at(driver.endpoint());
    let printed = csi.run(&format!("{flags} --dry-run -o json")).succeeds();
    assert_eq!(driver.calls(), [""; 0], "a dry run sends nothing");
    csi.run(flags).succeeds();
    let csi = Csi::at(driver.endpoint()).input(printed.stdout.as_bytes());
    csi.run("controller create-volume --request -").succeeds();
    let file = csi.file("request.json", &printed.stdout);
    csi.run(&format!(
        "controller create-volume --request {}",
        file.display()
    ))
    .succeeds();
    // Their bytes differ: a document says of every field that it has none.
    let requests = driver.requests().into_iter();
    let requests = requests.map(|request| CreateVolumeRequest::decode(&*request.message));
    let requests: Vec<_> = requests
        .map(|request| request.expect("a request"))
        .collect();
    assert_eq!(requests.len(), 3);
    assert_eq!(requests[0].parameters["a"], "b");
    assert!(requests.iter().all(|request| *request == requests[0]));
}

#[test]
fn a_dry_run_needs_no_driver_and_shows_no_secret() {
    let csi = Csi::new().env("X_CSI_SECRETS", "password=hunter2");
    let output = csi
        .run("controller create-volume pvc-1 --dry-run")
        .succeeds();
    assert!(!format!("{output:?}").contains("hunter2"), "{output}");
    // It says so on stderr.
    assert!(output.stderr.contains("secret"), "{output}");
    assert_eq!(output.json()["name"], "pvc-1");
    let name = "controller create-volume pvc-1 --dry-run -o name";
    let refused = csi.run(name).exits(2);
    refused.says("-o name has no meaning here: --dry-run prints the request as JSON");
}

#[test]
fn flags_override_the_request() {
    let driver = driver();
    let request = json!({"name": "from-json", "capacityRange": {"requiredBytes": "1"}, "parameters": {"a": "b", "c": "d"}});
    let csi = Csi::at(driver.endpoint());
    csi.run_args([
        "controller",
        "create-volume",
        "from-flag",
        "--request",
        &request.to_string(),
        "--params",
        "c=e",
    ])
    .succeeds();
    let sent = driver.request().json();
    assert_eq!(sent["name"], "from-flag");
    assert_eq!(sent["capacityRange"]["requiredBytes"], "1");
    assert_eq!(sent["parameters"], json!({"a": "b", "c": "e"}));
}

#[test]
fn secrets_never_stand_in_an_argument() {
    let driver = driver();
    let csi = Csi::at(driver.endpoint());
    let request = json!({"name": "pvc-1", "secrets": {"password": "hunter2"}}).to_string();
    let output = csi
        .run_args(["controller", "create-volume", "--request", &request])
        .exits(2);
    assert!(!output.stderr.contains("hunter2"), "{output}");
    assert_eq!(driver.calls(), [""; 0]);
    // From a file or from standard input it is welcome, and appears nowhere.
    let file = csi.file("request.json", &request);
    let secrets = csi.file("secrets", "token=hunter3\n");
    let output = csi
        .run(&format!(
            "controller create-volume --request {} --secrets-file {} -vvv",
            file.display(),
            secrets.display()
        ))
        .succeeds();
    let sent: csi_proto::v1::CreateVolumeRequest = driver.request().decode();
    assert_eq!(
        (
            sent.secrets["password"].as_str(),
            sent.secrets["token"].as_str()
        ),
        ("hunter2", "hunter3")
    );
    assert!(!format!("{output:?}").contains("hunter"), "{output}");
    // A verbose run shows the request all the same.
    assert!(output.stderr.contains("pvc-1"), "{output}");
}

#[test]
fn a_request_that_is_shown_says_when_secrets_are_left_out() {
    let csi = Csi::at("unix:///nowhere");
    let tokens = json!({"csi.storage.k8s.io/serviceAccount.tokens": "hunter2"});
    for (request, is_secret) in [
        (
            json!({"volumeId": "v", "secrets": {"password": "hunter2"}}),
            true,
        ),
        (json!({"volumeId": "v", "volumeContext": tokens}), true),
        (
            json!({"volumeId": "v", "volumeContext": {"server": "nas"}}),
            false,
        ),
    ] {
        let file = csi.file("request.json", request.to_string());
        let file = file.display();
        let output = csi
            .run(&format!("node publish --request {file} --dry-run"))
            .succeeds();
        assert!(!format!("{output:?}").contains("hunter2"), "{output}");
        let note = "note: secrets are left out of the request shown";
        assert_eq!(
            output.stderr.contains(note),
            is_secret,
            "{request}: {output}"
        );
    }
}

#[test]
fn a_request_that_does_not_fit_is_explained() {
    let csi = Csi::at("unix:///nowhere");
    for (request, named) in [
        (json!({"nmae": "x"}), "nmae"),
        (json!({"name": 7}), "name"),
        (
            json!({"capacityRange": {"requiredBytes": "many"}}),
            "requiredBytes",
        ),
        (
            json!({"volumeCapabilities": [{"accessMode": {"mode": "SOMETIMES"}}]}),
            "SOMETIMES",
        ),
    ] {
        let output = csi.run_args([
            "controller",
            "create-volume",
            "--request",
            &request.to_string(),
        ]);
        output.exits(2).says(named);
    }
    csi.run("controller create-volume --request /no/such/file")
        .exits(2)
        .says("/no/such/file");
    csi.run_args(["controller", "create-volume", "--request", "{\"name\":"])
        .exits(2)
        .says("JSON");
}

#[test]
fn mistakes_on_the_command_line() {
    let csi = Csi::at("unix:///nowhere");
    for (line, said) in [
        ("controller", "Usage"),
        ("controller create-volumes", "create-volume"),
        ("controller create-volume pvc-1 --req-bytes 10Qi", "10Qi"),
        (
            "controller create-volume pvc-1 --cap sometimes,mount",
            "sometimes",
        ),
        ("controller create-volume", "NAME"),
        ("controller list-volumes surplus", "surplus"),
        ("identity probe --timeout soon", "soon"),
        ("node stats vol-1", "--volume-path"),
        ("identity probe -o yml", "yaml"),
    ] {
        csi.run(line).exits(2).says(said);
    }
}

#[test]
fn contexts_come_from_the_replies_that_gave_them() {
    let driver = driver();
    let context = json!({"share": "/a,b", "server": "x"});
    driver.on(
        "CreateVolume",
        json!({"volume": {"volumeId": "vol-1", "volumeContext": context}}),
    );
    driver.on(
        "ControllerPublishVolume",
        r#"{"publishContext": {"device": "/dev/x"}}"#,
    );
    driver.on("NodePublishVolume", "{}");
    let csi = Csi::at(driver.endpoint());
    let created = csi
        .run("controller create-volume pvc-1 -o json")
        .succeeds()
        .stdout;
    let volume = csi.file("volume.json", created);
    let from_volume = format!("--volume-context-from {}", volume.display());
    let publish = format!("controller publish vol-1 --node-id n {from_volume}");
    let published = csi.run(&format!("{publish} -o json")).succeeds().stdout;
    let csi = csi.input(published);
    let node = format!(
        "node publish vol-1 --target-path /t {from_volume} --vol-context server=y --publish-context-from -"
    );
    csi.run(&node).succeeds();
    let sent = driver.requests().pop().expect("a request").json();
    assert_eq!(
        sent["volumeContext"],
        json!({"share": "/a,b", "server": "y"})
    );
    assert_eq!(sent["publishContext"], json!({"device": "/dev/x"}));
    csi.run(&format!("{node} --request -"))
        .exits(2)
        .says("--request and --publish-context-from cannot both read stdin");
    csi.run("node publish vol-1 --target-path /t --publish-context-from /nowhere/f")
        .exits(2)
        .says("cannot read /nowhere/f");
    csi.run(&format!("node publish vol-1 --target-path /t --publish-context-from {}", volume.display()))
        .exits(2)
        .says("has no publishContext: it must be the reply of ControllerPublishVolume as -o json prints it");
}

#[test]
fn a_whole_request_names_what_it_is_about() {
    let driver = ScriptedDriver::unix();
    driver.on("DeleteVolume", "{}");
    let refused = Reply::error(tonic::Code::NotFound, "it is not there");
    driver.on("NodePublishVolume", refused);
    let csi = Csi::at(driver.endpoint());
    let file = csi.file("r.json", r#"{"volumeId": "vol-1", "targetPath": "/mnt/a"}"#);
    let file = file.display();
    let delete = csi.file("d.json", r#"{"volumeId": "vol-1"}"#);
    let delete = format!("controller delete-volume --request {}", delete.display());
    csi.run(&format!("{delete} -o name"))
        .succeeds()
        .prints("vol-1\n");
    csi.run(&delete).succeeds().prints("vol-1 deleted\n");
    csi.run(&format!("node publish --request {file}"))
        .exits(64 + 5)
        .says("error: node publish vol-1: NOT_FOUND");
}
