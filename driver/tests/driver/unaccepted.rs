//! A process that listens on a unix socket and does not accept: where a socket's queue is full, nobody waits for it without end.

use crate::frozen::Frozen;
use crate::rig::patience::until;
use crate::rig::{Client, Driver, Rig, run};
use csi_proto::socket_file::connect;
use csi_proto::v1::ProbeRequest;
use rustix::process::Signal;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// A socket that has no room for another connection.
struct Full {
    _listener: UnixListener,
    _waiting: Vec<UnixStream>,
}

impl Full {
    fn at(path: &Path) -> Self {
        let listener = UnixListener::bind(path).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let mut waiting = Vec::new();
        while let Ok(stream) = connect(path, Duration::ZERO) {
            waiting.push(stream);
        }
        Self {
            _listener: listener,
            _waiting: waiting,
        }
    }
}

#[test]
fn a_socket_with_a_full_queue_is_one_that_somebody_serves() {
    let rig = Rig::new();
    let _full = Full::at(&rig.path("csi.sock"));
    let (status, text) = run(&mut rig.driver_command());
    assert!(!status.success());
    assert!(text.contains("csi.sock: another process serves"), "{text}");
    let _http = Full::at(&rig.path("http.sock"));
    let address = format!("unix://{}", rig.path("http.sock").display());
    let mut driver = rig.command(env!("CARGO_BIN_EXE_csi-nfs"));
    driver.arg("--endpoint").arg(rig.path("other.sock"));
    driver.arg("--work-dir").arg(rig.path("work"));
    let (status, text) = run(driver.args(["--node-id", "n", "--http", &address]));
    assert!(!status.success());
    assert!(text.contains("http.sock: another process serves"), "{text}");
    for words in [
        ["get", &address, "/healthz"].as_slice(),
        &["relay", &address],
    ] {
        let (status, text) = run(Command::new(env!("CARGO_BIN_EXE_csi-nfs")).args(words));
        assert!(!status.success());
        assert!(text.contains("accepts no connections"), "{text}");
    }
}

/// As by job control, or by a freezer of containers.
#[test]
fn who_is_stopped_while_it_waits_for_room_goes_on() {
    let rig = Rig::new();
    let _full = Full::at(&rig.path("csi.sock"));
    let mut relay = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
    let mut relay = Driver::start(relay.arg("relay").arg(rig.path("csi.sock")));
    let of_relay = |file: &str| {
        let path = format!("/proc/{}/{file}", relay.pid());
        std::fs::read_to_string(path).unwrap_or_default()
    };
    until("it connects", || of_relay("wchan").contains("unix"));
    relay.signal(Signal::STOP);
    until("it is stopped", || of_relay("stat").contains(") T "));
    relay.signal(Signal::CONT);
    relay.wait_for("accepts no connections");
}

/// A driver that registers in `plugins_registry`, and serves HTTP.
fn registered(rig: &Rig) -> (Driver, String) {
    std::fs::create_dir(rig.path("plugins_registry")).unwrap();
    let (mut driver, http) = starting(rig);
    driver.wait_for("waiting for the kubelet to register");
    (driver, http)
}

/// The same, which may not be as far yet.
fn starting(rig: &Rig) -> (Driver, String) {
    let folder = rig.path("plugins_registry");
    let http = format!("unix://{}", rig.path("http.sock").display());
    let driver = rig.driver_with(&[
        "--mode",
        "node",
        "--http",
        &http,
        "--kubelet-registration",
        &folder.display().to_string(),
    ]);
    (driver, http)
}

/// It answers calls and probes.
async fn answers(rig: &Rig, http: &str) {
    let client = Client::connect(rig).await;
    let probe = client.call(ProbeRequest {}).await.unwrap();
    assert_eq!(probe.ready, Some(true));
    let address = http.parse().unwrap();
    let health =
        tokio::task::spawn_blocking(move || csi_nfs::process::http::get(&address, "/healthz"));
    assert!(health.await.unwrap().unwrap().0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_registration_socket_that_is_taken_and_not_served_holds_up_nothing() {
    let rig = Rig::new();
    let (mut driver, http) = registered(&rig);
    let socket = rig.path("plugins_registry/nfs.csi.internal@reg.sock");
    // In one step: the driver makes a lost socket anew.
    let full = Full::at(&rig.path("plugins_registry/full"));
    std::fs::rename(rig.path("plugins_registry/full"), &socket).unwrap();
    driver.wait_for("another process serves on this socket");
    answers(&rig, &http).await;
    drop(full);
    driver.wait_for("waiting for the kubelet to register");
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
    assert!(!socket.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_registration_folder_that_hangs_holds_up_nothing() {
    let rig = Rig::new();
    let (mut driver, http) = registered(&rig);
    let frozen = Frozen::over(&rig, "plugins_registry");
    frozen.wait_for_victim(&driver);
    answers(&rig, &http).await;
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_driver_that_starts_at_a_folder_which_hangs_works_and_can_be_ended() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("plugins_registry")).unwrap();
    let frozen = Frozen::over(&rig, "plugins_registry");
    let (mut driver, http) = starting(&rig);
    frozen.wait_for_victim(&driver);
    driver.wait_for("plugins_registry does not answer yet");
    answers(&rig, &http).await;
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
    assert!(!rig.path("csi.sock").exists());
}

#[test]
fn a_driver_that_starts_at_a_work_folder_which_hangs_says_so_and_can_be_ended() {
    let rig = Rig::new();
    std::fs::create_dir_all(rig.path("work")).unwrap();
    let frozen = Frozen::over(&rig, "work");
    let mut driver = Driver::start(&mut rig.driver_command());
    frozen.wait_for_victim(&driver);
    driver.wait_for("waiting for the work folder's disk");
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
}
