//! The driver as a monitoring system and a kubelet's probes see it: health, readiness and metrics over HTTP.

use crate::frozen::Frozen;
use crate::rig::patience::{Patience, in_time};
use crate::rig::{Client, Driver, Rig, publish_request, run, stage_request};
use csi_nfs::process::config::Endpoint as Place;
use csi_nfs::process::http::{HttpAddress, get};
use csi_proto::pluginregistration::{RegistrationStatus, RegistrationStatusResponse};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_content_source::{Type, VolumeSource};
use csi_proto::v1::{
    CreateVolumeRequest, DeleteVolumeRequest, ListVolumesRequest, ProbeRequest, VolumeContentSource,
};
use http::uri::PathAndQuery;
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tonic::transport::Endpoint;
use tonic::{Code, Request};

/// A driver with HTTP on a port that the kernel chooses, and where that is.
fn watched(rig: &Rig, flags: &[&str]) -> (Driver, HttpAddress) {
    listening(rig.driver_command().args(flags))
}

/// The same for the command of a driver.
fn listening(command: &mut Command) -> (Driver, HttpAddress) {
    let mut driver = Driver::start(command.args(["--http", "127.0.0.1:0"]));
    let line = driver.wait_for("serving");
    let (_, address) = line.split_once("http=").unwrap();
    let address = address.split(' ').next().unwrap();
    (driver, address.parse().unwrap())
}

fn ask(address: &HttpAddress, path: &str) -> (bool, String) {
    get(address, path).unwrap()
}

/// The number that a series has now.
fn value(address: &HttpAddress, series: &str) -> f64 {
    let (success, text) = ask(address, "/metrics");
    assert!(success, "{text}");
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    let number = line.and_then(|rest| rest.strip_prefix(' '));
    let number = number.unwrap_or_else(|| panic!("no {series} in\n{text}"));
    number.parse().unwrap()
}

async fn register(socket: &Path) {
    let uri = format!("unix://{}", socket.display());
    let endpoint = Endpoint::try_from(uri).unwrap();
    let mut grpc = tonic::client::Grpc::new(endpoint.connect().await.unwrap());
    grpc.ready().await.unwrap();
    let rpc = "/pluginregistration.Registration/NotifyRegistrationStatus";
    let codec =
        tonic_prost::ProstCodec::<RegistrationStatus, RegistrationStatusResponse>::default();
    let status = Request::new(RegistrationStatus {
        plugin_registered: true,
        error: String::new(),
    });
    let sent = grpc.unary(status, PathAndQuery::from_static(rpc), codec);
    sent.await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_is_ready_when_its_kubelet_knows_it() {
    let rig = Rig::new();
    let folder = rig.path("plugins_registry");
    std::fs::create_dir(&folder).unwrap();
    let socket = folder.join("nfs.csi.internal@reg.sock");
    let folder = folder.display().to_string();
    let flags = ["--mode", "node", "--kubelet-registration", &folder];
    let (mut driver, http) = watched(&rig, &flags);
    driver.wait_for("waiting for the kubelet");
    assert_eq!(ask(&http, "/healthz"), (true, "ok\n".to_owned()));
    let (ready, why) = ask(&http, "/readyz");
    assert!(!ready && why.contains("has not registered"), "{why}");
    assert_eq!(value(&http, "csi_nfs_registered"), 0.0);
    register(&socket).await;
    assert_eq!(ask(&http, "/readyz"), (true, "ok\n".to_owned()));
    assert_eq!(value(&http, "csi_nfs_registered"), 1.0);
    // In one step: the driver makes a lost socket anew.
    std::fs::rename(rig.path("plugins_registry"), rig.path("before")).unwrap();
    driver.wait_for("the registration socket is lost");
    let (ready, why) = ask(&http, "/readyz");
    assert!(!ready && why.contains("socket is gone"), "{why}");
    assert!(ask(&http, "/healthz").0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_socket_that_is_lost_is_made_anew_and_told_of() {
    let rig = Rig::new();
    let (mut driver, http) = watched(&rig, &[]);
    let socket = rig.path("csi.sock");
    std::fs::remove_file(&socket).unwrap();
    driver.wait_for("the driver's socket is lost");
    driver.wait_for("serving again");
    let client = Client::connect(&rig).await;
    client.call(ProbeRequest {}).await.unwrap();
    assert_eq!(ask(&http, "/healthz"), (true, "ok\n".to_owned()));
    // In one step: the driver would be faster now and then.
    let other = UnixListener::bind(rig.path("other")).unwrap();
    std::fs::rename(rig.path("other"), &socket).unwrap();
    driver.wait_for("another process serves on this socket");
    let (healthy, why) = ask(&http, "/healthz");
    assert!(!healthy && why.contains("csi.sock"), "{why}");
    drop(other);
    driver.wait_for("serving again");
    assert_eq!(ask(&http, "/healthz"), (true, "ok\n".to_owned()));
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
    assert!(!socket.exists());
}

const NO_CLIENT: &str = "this kernel has no NFS client: load the module nfsv4";

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_node_waits_for_its_kernel_to_have_an_nfs_client() {
    let rig = Rig::new();
    let folder = rig.path("plugins_registry");
    std::fs::create_dir(&folder).unwrap();
    let socket = folder.join("nfs.csi.internal@reg.sock");
    let mut command = rig.clientless_command();
    command.args(["--mode", "node", "--kubelet-registration"]);
    command.arg(&folder);
    let (mut driver, http) = listening(&mut command);
    let line = driver.wait_for("waiting for an NFS client");
    assert!(line.contains(NO_CLIENT), "{line}");
    let (ready, why) = ask(&http, "/readyz");
    assert!(!ready && why.contains(NO_CLIENT), "{why}");
    // To start it anew would help nobody.
    assert_eq!(ask(&http, "/healthz"), (true, "ok\n".to_owned()));
    let client = Client::connect(&rig).await;
    let probe = client.call(ProbeRequest {}).await.unwrap();
    assert_eq!(probe.ready, Some(false));
    assert!(!socket.exists());
    assert_eq!(value(&http, "csi_nfs_registered"), 0.0);
    std::fs::write(rig.path("client"), "").unwrap();
    driver.wait_for("the kernel has an NFS client now");
    driver.wait_for("waiting for the kubelet");
    let probe = client.call(ProbeRequest {}).await.unwrap();
    assert_eq!(probe.ready, Some(true));
    register(&socket).await;
    assert_eq!(ask(&http, "/readyz"), (true, "ok\n".to_owned()));
    let told = |line: &&String| line.contains(NO_CLIENT);
    assert_eq!(driver.log().iter().filter(told).count(), 1);
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
}

#[test]
fn a_node_that_has_never_had_an_nfs_client_ends_with_the_reason() {
    let rig = Rig::new();
    let folder = rig.path("plugins_registry");
    std::fs::create_dir(&folder).unwrap();
    let mut command = rig.clientless_command();
    command.args(["--mode", "node", "--kubelet-registration"]);
    let mut driver = Driver::start(command.arg(&folder));
    driver.wait_for("waiting for an NFS client");
    driver.signal(Signal::TERM);
    assert!(!driver.wait().success());
    let last = driver.log().pop().unwrap();
    assert!(last.starts_with(&format!("csi-nfs: {NO_CLIENT}")), "{last}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn only_a_node_waits_for_an_nfs_client_and_may_be_stopped_meanwhile() {
    for (mode, waits) in [("all", true), ("node", true), ("controller", false)] {
        let rig = Rig::new();
        let (mut driver, http) = listening(rig.clientless_command().args(["--mode", mode]));
        assert_eq!(ask(&http, "/healthz").0, waits, "{mode}");
        let (ready, why) = ask(&http, "/readyz");
        assert!(!ready && why.contains(NO_CLIENT), "{mode}: {why}");
        let probe = Client::connect(&rig).await.call(ProbeRequest {}).await;
        let said = probe.map(|reply| reply.ready).map_err(|error| error.code());
        let expected = if waits {
            Ok(Some(false))
        } else {
            Err(Code::FailedPrecondition)
        };
        assert_eq!(said, expected, "{mode}");
        if waits {
            // It is said when the kernel was asked, of which the answers know before.
            driver.wait_for("waiting for an NFS client");
        }
        driver.signal(Signal::TERM);
        assert!(driver.wait().success(), "{mode}");
        let log = driver.log().join("\n");
        assert_eq!(log.contains("waiting for an NFS client"), waits, "{log}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_driver_that_ends_is_not_ready() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("export/v")).unwrap();
    let (mut driver, http) = watched(&rig, &["--log-level", "debug"]);
    assert!(ask(&http, "/readyz").0);
    let client = Client::connect(&rig).await;
    let records = std::fs::File::open(rig.path("work/publishes")).unwrap();
    records.lock().unwrap();
    let request = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
    let call = tokio::spawn(async move { client.publish(request).await });
    driver.wait_for("publishing");
    assert_eq!(value(&http, "csi_nfs_calls_in_progress"), 1.0);
    driver.signal(Signal::TERM);
    driver.wait_for("draining");
    assert_eq!(
        ask(&http, "/readyz"),
        (false, "this driver ends\n".to_owned())
    );
    assert!(ask(&http, "/healthz").0);
    drop(records);
    call.await.unwrap().unwrap();
    assert!(driver.wait().success());
}

#[test]
fn an_instance_that_cannot_work_is_not_healthy() {
    let rig = Rig::new();
    let (_driver, http) = watched(&rig, &[]);
    std::fs::rename(rig.path("work"), rig.path("aside")).unwrap();
    let folder = format!("the work folder {} cannot be", rig.path("work").display());
    for path in ["/healthz", "/readyz"] {
        let (well, why) = ask(&http, path);
        assert!(!well && why.contains(&folder), "{path}: {why}");
    }
    assert!(ask(&http, "/metrics").0);
}

/// The driver serves the others, and to start it anew brings no disk back.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn local_shares_that_are_away_are_no_reason_to_start_the_driver_anew() {
    let rig = Rig::new();
    let at = |name: &str| rig.path(name).display().to_string();
    std::fs::create_dir_all(rig.path("hangs")).unwrap();
    std::fs::create_dir_all(rig.path("export/v")).unwrap();
    let shares = ["gone", "hangs"].map(|name| format!("{name}:/x={}", at(name)));
    let flags = ["--local-share", &shares[0], "--local-share", &shares[1]];
    let (_driver, http) = watched(&rig, &flags);
    let frozen = Frozen::over(&rig, "hangs");
    assert_eq!(ask(&http, "/healthz"), (true, "ok\n".to_owned()));
    let client = Client::connect(&rig).await;
    let probe = client.call(ProbeRequest {}).await.unwrap();
    assert_eq!(probe.ready, Some(true));
    let request = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
    client.publish(request).await.unwrap();
    let (ready, why) = ask(&http, "/readyz");
    let words = [
        format!("{}, the folder of gone:/x, does not exist", at("gone")),
        format!("{}, the folder of hangs:/x: no answer", at("hangs")),
    ];
    let all = words.iter().all(|words| why.contains(words));
    assert!(!ready && all && !why.contains("export"), "{why}");
    assert_eq!(ask(&http, "/healthz"), (true, "ok\n".to_owned()));
    drop(frozen);
}

#[test]
fn a_controller_that_cannot_write_its_local_share_is_not_ready() {
    let rig = Rig::new();
    let export = rig.path("export");
    for flags in ["bind", "remount,bind,ro"] {
        let mut mount = rig.command("mount");
        mount.arg("-o").arg(flags).arg(&export).arg(&export);
        assert!(mount.status().unwrap().success());
    }
    let (driver, http) = watched(&rig, &[]);
    let (ready, why) = ask(&http, "/readyz");
    assert!(!ready && why.contains("cannot be written"), "{why}");
    driver.kill();
    // A node only reads what it mounts.
    let (_node, http) = watched(&rig, &["--mode", "node"]);
    assert_eq!(ask(&http, "/readyz"), (true, "ok\n".to_owned()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_happens_is_counted() {
    let rig = Rig::new();
    let (_driver, http) = watched(&rig, &[]);
    let client = Client::connect(&rig).await;
    // A helper tries whether this process may mount.
    assert!(ask(&http, "/healthz").0);
    let mut publish = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    let capabilities: Vec<_> = publish.volume_capability.clone().into_iter().collect();
    let request = |name: &str| CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: capabilities.clone(),
        parameters: [pair("server", "server"), pair("share", "/")].into(),
        ..Default::default()
    };
    let volume = client.call(request("v")).await.unwrap().volume.unwrap();
    let folder = rig.path("export").join(&volume.volume_context["subDir"]);
    std::fs::write(folder.join("file"), [7; 1000]).unwrap();
    let source = VolumeSource {
        volume_id: volume.volume_id.clone(),
    };
    let clone = client.call(CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource {
            r#type: Some(Type::Volume(source)),
        }),
        ..request("clone")
    });
    let clone = clone.await.unwrap().volume.unwrap();
    publish.volume_id = volume.volume_id;
    publish.volume_context = volume.volume_context;
    client.publish(publish).await.unwrap();
    let series = |method: &str, code: &str| {
        format!(
            "csi_plugin_operations_seconds_count{{driver_name=\"nfs.csi.internal\",method_name=\"/csi.v1.{method}\",grpc_status_code=\"{code}\"}}"
        )
    };
    assert_eq!(value(&http, &series("Controller/CreateVolume", "OK")), 2.0);
    assert_eq!(value(&http, &series("Node/NodePublishVolume", "OK")), 1.0);
    let refused = client.call(ListVolumesRequest {
        starting_token: "none".to_owned(),
        ..Default::default()
    });
    refused.await.unwrap_err();
    let aborted = series("Controller/ListVolumes", "Aborted");
    assert_eq!(value(&http, &aborted), 1.0);
    let build = format!(
        "build_info{{version=\"{}\",csi=\"{}\"}}",
        env!("CARGO_PKG_VERSION"),
        csi_proto::SPEC_VERSION
    );
    for (name, least) in [
        ("shares", 1.0),
        ("shares_reachable", 1.0),
        ("copied_bytes_total", 1000.0),
        ("copied_files_total", 1.0),
        ("published_targets", 1.0),
        ("helpers_started_total", 1.0),
        (build.as_str(), 1.0),
    ] {
        let found = value(&http, &format!("csi_nfs_{name}"));
        assert!(found >= least, "{name}: {found}");
    }
    // Nobody has to register it.
    assert!(!ask(&http, "/metrics").1.contains("csi_nfs_registered"));
    for name in [
        "calls_in_progress",
        "copies_in_progress",
        "helpers_killed_total",
        "helpers_stuck",
        // The folder is this process's own: it leaves nothing to an agent.
        "shares_attended",
        "staged_volumes",
    ] {
        assert_eq!(value(&http, &format!("csi_nfs_{name}")), 0.0, "{name}");
    }
    let delete = DeleteVolumeRequest {
        volume_id: clone.volume_id,
        ..Default::default()
    };
    client.call(delete).await.unwrap();
    let mut patience = Patience::default();
    while value(&http, "csi_nfs_purged_files_total") < 2.0
        || value(&http, "csi_nfs_purges_in_progress") > 0.0
    {
        assert!(patience.lasts(), "{}", ask(&http, "/metrics").1);
        tokio::task::yield_now().await;
    }
    assert_eq!(value(&http, "csi_nfs_trash_entries"), 0.0);
    // A method that nobody has declared makes no series of its own.
    let channel = Endpoint::try_from(format!("unix://{}", rig.path("csi.sock").display()));
    let mut grpc = tonic::client::Grpc::new(channel.unwrap().connect().await.unwrap());
    grpc.ready().await.unwrap();
    let codec = tonic_prost::ProstCodec::<ProbeRequest, ProbeRequest>::default();
    let path = PathAndQuery::from_static("/csi.v1.Node/Invented");
    let answer = grpc.unary(Request::new(ProbeRequest {}), path, codec).await;
    answer.unwrap_err();
    let text = ask(&http, "/metrics").1;
    assert!(text.contains("method_name=\"unknown\",grpc_status_code=\"Unimplemented\""));
    assert!(!text.contains("Invented"), "{text}");
}

/// Names of metrics in a text.
/// As after a reboot, the records are there and the mounts are not.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_mounted_no_more_is_not_counted_as_published() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path("export/v")).unwrap();
    let (_driver, http) = watched(&rig, &["--stage"]);
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let staging = rig.path("staging");
    std::fs::create_dir(&staging).unwrap();
    let mut publish = publish_request("v", &target, Mode::SingleNodeWriter);
    let stage = stage_request(&mut publish, &staging);
    client.stage(stage).await.unwrap();
    client.publish(publish.clone()).await.unwrap();
    let counted = || {
        ["published_targets", "staged_volumes"].map(|name| value(&http, &format!("csi_nfs_{name}")))
    };
    assert_eq!(counted(), [1.0, 1.0]);
    assert!(run(rig.command("umount").arg(&target)).0.success());
    assert_eq!(counted(), [0.0, 1.0]);
    assert!(run(rig.command("umount").arg(&staging)).0.success());
    assert_eq!(counted(), [0.0, 0.0]);
    // A publish mounts both again.
    client.publish(publish).await.unwrap();
    assert_eq!(counted(), [1.0, 1.0]);
    client.unpublish("v", &target).await.unwrap();
    client.unstage("v", &staging).await.unwrap();
    assert_eq!(counted(), [0.0, 0.0]);
}

fn names(text: &str) -> BTreeSet<&str> {
    let is_of_a_name = |letter: char| letter.is_ascii_lowercase() || letter == '_';
    let words = text.split(|letter| !is_of_a_name(letter));
    words
        .filter(|word| word.starts_with("csi_nfs_") || word.starts_with("csi_plugin_"))
        .collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn every_metric_is_documented_and_no_other() {
    let rig = Rig::new();
    let folder = rig.path("plugins_registry");
    std::fs::create_dir(&folder).unwrap();
    let folder = folder.display().to_string();
    let (_driver, http) = watched(&rig, &["--kubelet-registration", &folder]);
    Client::connect(&rig)
        .await
        .call(ProbeRequest {})
        .await
        .unwrap();
    let text = ask(&http, "/metrics").1;
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    let found: BTreeSet<&str> = lines
        .map(|line| line.split(['{', ' ']).next().unwrap())
        .map(|name| {
            let part = ["_bucket", "_count", "_sum"];
            part.iter()
                .find_map(|part| name.strip_suffix(part))
                .unwrap_or(name)
        })
        .collect();
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/driver.md");
    let page = std::fs::read_to_string(page).unwrap();
    assert_eq!(names(&page), found);
}

#[test]
fn a_socket_serves_http_too_and_a_probe_asks_it() {
    let rig = Rig::new();
    let socket = rig.path("http.sock");
    let address = format!("unix://{}", socket.display());
    let mut driver = rig.driver_with(&["--http", &address]);
    let probe = |path: &str| {
        let mut probe = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
        let ended = probe.args(["get", &address, path]).output().unwrap();
        (
            ended.status.code(),
            String::from_utf8(ended.stdout).unwrap(),
        )
    };
    assert_eq!(probe("/readyz"), (Some(0), "ok\n".to_owned()));
    let (code, text) = probe("/nothing");
    assert!(code == Some(1) && text.contains("/metrics"), "{text}");
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
    assert!(!socket.exists());
    assert_eq!(probe("/readyz").0, Some(1));
}

#[test]
fn http_answers_what_it_is_asked_and_nothing_else() {
    let rig = Rig::new();
    let (_driver, http) = watched(&rig, &[]);
    let HttpAddress(Place::Tcp(address)) = http else {
        panic!("a port");
    };
    let say = |text: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        in_time("an answer", move || {
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            answer
        })
    };
    let metrics = say("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(metrics.starts_with("HTTP/1.1 200 OK\r\n"), "{metrics}");
    let kind = "content-type: application/openmetrics-text; version=1.0.0; charset=utf-8\r\n";
    assert!(
        metrics.contains(kind) && metrics.ends_with("# EOF\n"),
        "{metrics}"
    );
    let post = say("POST /metrics HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    assert!(post.starts_with("HTTP/1.1 405 "), "{post}");
    assert!(say("GET / HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 404 "));
    assert!(say("nonsense\r\n\r\n").starts_with("HTTP/1.1 400 "));
    // Whoever connects and says nothing keeps nobody else waiting.
    let silent: Vec<_> = (0..8)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    assert!(say("HEAD /healthz HTTP/1.1\r\nHost: x\r\n\r\n").starts_with("HTTP/1.1 200 "));
    drop(silent);
    let (status, text) = run(rig.driver_command().args(["--http", "localhost:1"]));
    assert_eq!(status.code(), Some(2));
    assert!(text.contains("no address for HTTP"), "{text}");
    let taken = address.to_string();
    let other = Rig::new();
    let (status, text) = run(other.driver_command().args(["--http", &taken]));
    assert!(!status.success());
    assert!(
        text.contains(&format!("cannot listen on {taken}")),
        "{text}"
    );
}

#[test]
fn connections_that_say_nothing_keep_no_probe_out() {
    let rig = Rig::new();
    let (_driver, http) = watched(&rig, &[]);
    let HttpAddress(Place::Tcp(address)) = http else {
        panic!("a port");
    };
    let mut idle = Vec::new();
    for _ in 0..20 {
        for _ in 0..20 {
            let mut silent = TcpStream::connect(address).unwrap();
            // Some of them begin to ask.
            let begun = idle.len() % 2 * "GET /healthz HTTP/1.1\r\nHo".len();
            let words = &"GET /healthz HTTP/1.1\r\nHo"[..begun];
            silent.write_all(words.as_bytes()).unwrap();
            idle.push(silent);
        }
        assert_eq!(ask(&http, "/healthz"), (true, "ok\n".to_owned()));
    }
    // The youngest is not put out: its time ends. Of five seconds, and not of thirty: as others here sleep.
    let begun = Instant::now();
    let sleeper = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_secs(5));
        begun.elapsed()
    });
    let mut last = idle.pop().unwrap();
    in_time("the end of a silent connection", move || {
        let _ = last.read_to_end(&mut Vec::new());
    });
    let (took, slept) = (begun.elapsed(), sleeper.join().unwrap());
    assert!(took < 4 * slept, "{took:?}, and a sleep {slept:?}");
}
