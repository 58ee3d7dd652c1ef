//! The driver as a process: its socket, its signals and its log.

use crate::rig::patience::{Patience, until};
use crate::rig::{Client, Driver, Rig, publish_request, run};
use crate::unserved;
use csi_proto::v1::volume_capability::{AccessType, MountVolume, access_mode::Mode};
use csi_proto::v1::{
    CreateVolumeRequest, GetPluginCapabilitiesRequest, GetPluginInfoRequest, ListVolumesRequest,
    NodeGetCapabilitiesRequest, NodeGetInfoRequest, ProbeRequest,
};
use rustix::process::Signal;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use tonic::{Code, Status};

async fn name(client: &Client) -> String {
    let info = client.call(GetPluginInfoRequest {}).await.unwrap();
    info.name
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_new_socket_has_its_mode_and_goes_away_at_the_end() {
    let rig = Rig::new();
    let mut driver = rig.driver();
    let mode = rig
        .path("csi.sock")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o660);
    assert_eq!(
        rig.path("work").metadata().unwrap().permissions().mode() & 0o777,
        0o700
    );
    let client = Client::connect(&rig).await;
    assert_eq!(name(&client).await, "nfs.csi.internal");
    let probe = client.call(ProbeRequest {}).await.unwrap();
    assert_eq!(probe.ready, Some(true));
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
    assert!(!rig.path("csi.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_stale_socket_is_replaced_and_a_live_one_is_not() {
    let rig = Rig::new();
    unserved::socket_file(rig.path("csi.sock"));
    let driver = rig.driver_with(&["--socket-mode", "0600"]);
    let mode = rig
        .path("csi.sock")
        .metadata()
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
    let (status, text) = run(&mut rig.driver_command());
    assert!(!status.success());
    assert!(text.contains("another process serves"), "{text}");
    // The first is not disturbed, and neither SIGKILL nor what it leaves stops the next.
    assert_eq!(name(&Client::connect(&rig).await).await, "nfs.csi.internal");
    driver.kill();
    assert!(rig.path("csi.sock").exists());
    let _next = rig.driver();
    assert_eq!(name(&Client::connect(&rig).await).await, "nfs.csi.internal");
}

#[test]
fn what_is_no_socket_is_left_alone() {
    let rig = Rig::new();
    std::fs::write(rig.path("csi.sock"), "precious").unwrap();
    let (status, text) = run(&mut rig.driver_command());
    assert!(!status.success());
    assert!(text.contains("not a socket"), "{text}");
    assert_eq!(
        std::fs::read_to_string(rig.path("csi.sock")).unwrap(),
        "precious"
    );
    let mut command = rig.driver_command();
    let (_, text) = run(command.arg("--endpoint=/nonexistent/csi.sock"));
    assert!(
        text.contains("/nonexistent: the folder does not exist")
            || text.contains("cannot be used multiple"),
        "{text}"
    );
}

#[test]
fn a_socket_of_somebody_else_outlives_the_driver() {
    let rig = Rig::new();
    let mut driver = rig.driver();
    std::fs::remove_file(rig.path("csi.sock")).unwrap();
    let _other = UnixListener::bind(rig.path("csi.sock")).unwrap();
    driver.signal(Signal::INT);
    assert!(driver.wait().success());
    let place = rig.path("csi.sock").metadata().unwrap();
    assert!(place.file_type().is_socket());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_loopback_port_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
    command
        .env("CSI_ENDPOINT", "tcp://127.0.0.1:0")
        .env("CSI_NFS_WORK_DIR", dir.path())
        .env("CSI_NFS_STAGE", "")
        .env("CSI_NFS_SHARES", "");
    let mut driver = Driver::start(&mut command);
    let line = driver.wait_for("endpoint=tcp://127.0.0.1:");
    let (_, rest) = line.split_once("endpoint=tcp").unwrap();
    let uri = format!("http{}", rest.split(' ').next().unwrap());
    let channel = tonic::transport::Endpoint::try_from(uri)
        .unwrap()
        .connect()
        .await
        .unwrap();
    assert_eq!(name(&Client::over(channel)).await, "nfs.csi.internal");
}

/// Makes publishes wait, as another process with the same work folder would.
fn hold_the_records(rig: &Rig) -> std::fs::File {
    let folder = std::fs::File::open(rig.path("work/publishes")).unwrap();
    folder.lock().unwrap();
    folder
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_call_in_progress_is_answered_before_the_end() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("export/v")).unwrap();
    let mut driver = rig.driver_with(&["--log-level", "debug"]);
    let client = Client::connect(&rig).await;
    let lock = hold_the_records(&rig);
    let request = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
    let call = tokio::spawn(async move { client.publish(request).await });
    driver.wait_for("publishing");
    driver.signal(Signal::TERM);
    driver.wait_for("draining");
    drop(lock);
    call.await.unwrap().unwrap();
    assert!(driver.wait().success());
    assert_eq!(rig.mounts("target").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_caller_gets_its_answer_in_time_and_a_repeat_joins() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("export/v")).unwrap();
    let mut driver = rig.driver_with(&["--log-level", "debug"]);
    let client = Client::connect(&rig).await;
    let lock = hold_the_records(&rig);
    let request = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
    // The second call joins the work of the first, which waits for the lock.
    for _ in 0..2 {
        let second = std::time::Duration::from_secs(1);
        let mut patience = Patience::default();
        let error = loop {
            let answer = client.publish_within(request.clone(), second).await;
            let error = answer.unwrap_err();
            // The client's own word: the driver's came too late for it, as on a machine that is busy. One that never comes fails.
            if error.code() != Code::Cancelled || !patience.lasts() {
                break error;
            }
        };
        assert_eq!(error.code(), Code::Aborted, "{error}");
        assert!(error.message().contains("NodePublishVolume"), "{error}");
        driver.wait_for("ABORTED");
    }
    let begun = driver.log();
    let begun = begun.iter().filter(|line| line.contains("publishing"));
    assert_eq!(begun.count(), 1);
    drop(lock);
    client.publish(request).await.unwrap();
    assert_eq!(rig.mounts("target").len(), 1);
}

/// Takes the place of the driver's socket, as another driver would that starts at the same time.
fn hold_the_place(rig: &Rig) -> std::fs::File {
    let mut how = std::fs::File::options();
    how.create(true).truncate(false).write(true).mode(0o600);
    let lock = how.open(rig.path(".csi.sock.lock")).unwrap();
    lock.lock().unwrap();
    lock
}

/// Two that start at once both find the dead socket of a third. The slower one must not remove the faster one's.
#[test]
fn a_socket_that_comes_while_a_driver_starts_is_not_replaced() {
    let rig = Rig::new();
    unserved::socket_file(rig.path("csi.sock"));
    // In the place of the faster one.
    let lock = hold_the_place(&rig);
    let path = rig.path(".csi.sock.lock");
    let mut slower = Driver::start(&mut rig.driver_command());
    let mut patience = Patience::default();
    while !slower.has_open(&path) {
        assert!(patience.lasts(), "{:#?}", slower.log());
        std::thread::yield_now();
    }
    std::fs::remove_file(rig.path("csi.sock")).unwrap();
    let _faster = UnixListener::bind(rig.path("csi.sock")).unwrap();
    drop(lock);
    slower.wait_for("another process serves");
    assert!(!slower.wait().success());
    assert!(rig.path("csi.sock").exists());
    assert!(!path.exists());
}

#[test]
fn who_takes_the_place_for_too_long_is_named() {
    let rig = Rig::new();
    let _lock = hold_the_place(&rig);
    let (status, text) = run(&mut rig.driver_command());
    assert!(!status.success());
    let here = format!("process {} (", std::process::id());
    assert!(
        text.contains(&here) && text.contains(".csi.sock.lock"),
        "{text}"
    );
}

#[test]
fn a_lock_of_the_folder_keeps_no_driver_from_its_place() {
    let rig = Rig::new();
    // Whoever may read a folder may lock it.
    let folder = std::fs::File::open(rig.path("")).unwrap();
    folder.lock().unwrap();
    let _driver = rig.driver();
    let left = rig.path("").read_dir().unwrap().flatten();
    let mut names = left.map(|entry| entry.file_name());
    assert!(names.all(|name| name.as_encoded_bytes()[0] != b'.'));
}

#[test]
fn a_lock_that_others_may_hold_is_refused() {
    let rig = Rig::new();
    let path = rig.path(".csi.sock.lock");
    std::fs::write(&path, "").unwrap();
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    let (status, text) = run(&mut rig.driver_command());
    assert!(!status.success());
    assert!(
        text.contains("mode 0644") && text.contains("remove it"),
        "{text}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_client_gave_up_is_finished_before_the_end() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("export/v")).unwrap();
    let mut driver = rig.driver_with(&["--log-level", "debug"]);
    let client = Client::connect(&rig).await;
    let lock = hold_the_records(&rig);
    let request = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
    let call = tokio::spawn(async move { client.publish(request).await });
    driver.wait_for("publishing");
    call.abort();
    driver.wait_for("CANCELLED");
    driver.signal(Signal::TERM);
    driver.wait_for("draining");
    drop(lock);
    assert!(driver.wait().success());
    assert_eq!(rig.mounts("target").len(), 1);
}

#[test]
fn a_share_that_is_away_does_not_hold_up_the_end() {
    let rig = Rig::new();
    let missing = format!("gone:/={}", rig.path("missing").display());
    let mut driver = rig.driver_with(&["--local-share", &missing, "--drain-timeout", "10s"]);
    driver.wait_for("recovery is put off");
    driver.signal(Signal::TERM);
    assert!(driver.wait().success());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_second_signal_or_the_bound_ends_the_driver_at_once() {
    for bound in ["600s", "100ms"] {
        let rig = Rig::new();
        let mut driver = rig.driver_with(&["--log-level", "debug", "--drain-timeout", bound]);
        let client = Client::connect(&rig).await;
        let _lock = hold_the_records(&rig);
        let request = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
        let call = tokio::spawn(async move { client.publish(request).await });
        driver.wait_for("publishing");
        driver.signal(Signal::TERM);
        driver.wait_for("draining");
        if bound == "600s" {
            driver.signal(Signal::TERM);
        }
        assert!(!driver.wait().success());
        assert!(call.await.unwrap().is_err());
        assert!(!rig.path("csi.sock").exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn one_line_a_call_and_no_secret_in_it() {
    let rig = Rig::new();
    let mut driver = rig.driver_with(&["--log-format", "json"]);
    let client = Client::connect(&rig).await;
    let mut request = publish_request(
        "none\n\u{1b}[31m",
        &rig.path("target"),
        Mode::MultiNodeMultiWriter,
    );
    request
        .volume_context
        .insert("subDir".into(), "missing".into());
    request.secrets.insert("key".into(), "hunter2".into());
    let error = client.publish(request).await.unwrap_err();
    assert_eq!(error.code(), Code::NotFound, "{error}");
    let line = driver.wait_for("NodePublishVolume");
    let value: serde_json::Value = serde_json::from_str(&line).unwrap();
    assert_eq!(value["method"], "Node/NodePublishVolume");
    assert_eq!(value["code"], "NOT_FOUND");
    assert_eq!(value["request"]["volumeId"], "none\n\u{1b}[31m");
    assert!(value["ms"].as_f64().unwrap() > 0.0);
    let keys: Vec<_> = value.as_object().unwrap().keys().collect();
    let order = [
        "time", "level", "event", "code", "ms", "message", "method", "request",
    ];
    assert_eq!(keys, order);
    assert!(!driver.log().join("\n").contains("hunter2"));
}

/// A volume with these mount options, of its class and of a secret.
fn creation(of_class: &[&str], of_secret: &str) -> CreateVolumeRequest {
    let publish = publish_request("v", Path::new("/target"), Mode::MultiNodeMultiWriter);
    let mut access = publish.volume_capability.unwrap();
    access.access_type = Some(AccessType::Mount(MountVolume {
        mount_flags: of_class.iter().map(|&option| option.to_owned()).collect(),
        ..Default::default()
    }));
    CreateVolumeRequest {
        name: "v".to_owned(),
        volume_capabilities: vec![access],
        parameters: [
            ("server".to_owned(), "server".to_owned()),
            ("share".to_owned(), "/".to_owned()),
        ]
        .into(),
        secrets: [("mountOptions".to_owned(), of_secret.to_owned())].into(),
        ..Default::default()
    }
}

/// Mount options may come from a secret, and then are one. On a local share, which is not mounted, the same are refused.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_refused_option_of_a_secret_is_told_without_its_words() {
    let rig = Rig::new();
    let mut driver = rig.driver();
    let client = Client::connect(&rig).await;
    for (options, named) in [
        ("sec=hunter two", "sec"),
        ("vers=hunter3", "vers"),
        ("rsize=1048576,hunter2,soft", "number 2"),
        ("soft,hunter2=hunter3", "number 2"),
        ("..", "number 1"),
        ("remount", "number 1"),
        ("loop=/etc/hunter", "number 1"),
    ] {
        let created = client.call(creation(&[], options)).await;
        let error = created.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().contains(named), "{error}");
        assert!(!error.message().contains("hunter"), "{error}");
        driver.wait_for("CreateVolume");
    }
    assert!(!driver.log().join("\n").contains("hunter"));
}

/// Not first by the pod. What only the newest kernels know may be a node's, and passes.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_mistyped_option_of_a_class_is_told_when_its_volume_is_made() {
    let rig = Rig::new();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    for (options, problem) in [
        (["nconnect=4", "hrad"], Some("number 2")),
        (["hrad", "ro"], Some("did you mean hard?")),
        (["nfsver=4.1", "ro"], Some("did you mean nfsvers?")),
        (["hard", "fatal_neterrors=ENETDOWN"], None),
    ] {
        let answer = client.call(creation(&options, "")).await;
        let code = problem.map(|_| Code::InvalidArgument);
        assert_eq!(answer.as_ref().err().map(Status::code), code, "{options:?}");
        let message = answer.err().map(|error| error.message().to_owned());
        assert!(message.unwrap_or_default().contains(problem.unwrap_or("")));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_mode_serves_its_services_only() {
    let rig = Rig::new();
    let driver = rig.driver_with(&["--mode", "node"]);
    let client = Client::connect(&rig).await;
    let info = client.call(NodeGetInfoRequest {}).await.unwrap();
    assert_eq!(info.node_id, "node-1");
    let list = client.call(ListVolumesRequest::default()).await;
    assert_eq!(list.unwrap_err().code(), Code::Unimplemented);
    let capabilities = client.call(GetPluginCapabilitiesRequest {}).await.unwrap();
    driver.kill();
    let _controller = rig.driver_with(&["--mode", "controller"]);
    let client = Client::connect(&rig).await;
    let info = client.call(NodeGetInfoRequest {}).await;
    assert_eq!(info.unwrap_err().code(), Code::Unimplemented);
    // What the plugin can do is told by all of its instances alike.
    let same = client.call(GetPluginCapabilitiesRequest {}).await.unwrap();
    assert_eq!(same, capabilities);
}

#[test]
fn bad_flags_are_explained() {
    let binary = env!("CARGO_BIN_EXE_csi-nfs");
    for (flags, words) in [
        (
            vec!["--endpoint", "tcp://0.0.0.0:1"],
            "not a loopback address",
        ),
        (
            vec!["--endpoint", "/tmp/x", "--share", "x"],
            "NAME=SERVER:/PATH",
        ),
        (
            vec!["--endpoint", "/tmp/x", "--mount-timeout", "5"],
            "write 5s for seconds",
        ),
        (
            vec!["--endpoint", "/tmp/x", "--mount-timeout", "0s"],
            "more than 0 and at most a year",
        ),
        (vec!["--endpoint", "unix://run/x.sock"], "no endpoint"),
        (
            vec!["--endpoint", "/tmp/x", "--socket-mode", "+7"],
            "socket mode",
        ),
        (
            vec!["--endpoint", "/tmp/x", "--allow-server", " ,"],
            "--allow-server",
        ),
        (vec![], "--endpoint"),
    ] {
        let (status, text) = run(std::process::Command::new(binary)
            .args(&flags)
            .env_remove("CSI_ENDPOINT"));
        assert_eq!(status.code(), Some(2), "{flags:?}: {text}");
        assert!(text.contains(words), "{flags:?}: {text}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_log_holds_what_its_level_says() {
    let rig = Rig::new();
    std::fs::create_dir(rig.path("export/v")).unwrap();
    for (level, polled, changing, failing) in [
        ("debug", true, true, true),
        ("info", false, true, true),
        ("warn", false, false, true),
        ("error", false, false, false),
    ] {
        let mut command = rig.driver_command();
        // By the variable, since all others are given by flags.
        let mut driver = Driver::start(command.env("CSI_NFS_LOG_LEVEL", level));
        let client = Client::connect_soon(&rig, &mut driver).await.unwrap();
        client.call(ProbeRequest {}).await.unwrap();
        let capabilities = client.call(NodeGetCapabilitiesRequest {}).await.unwrap();
        assert!(!capabilities.capabilities.is_empty());
        let request = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
        client.publish(request.clone()).await.unwrap();
        client.unpublish("v", &rig.path("target")).await.unwrap();
        let mut missing = request;
        missing
            .volume_context
            .insert("subDir".into(), "missing".into());
        client.publish(missing).await.unwrap_err();
        driver.signal(Signal::TERM);
        assert!(driver.wait().success());
        let log = driver.log();
        let has = |words: [&str; 2]| {
            let mut lines = log.iter();
            lines.any(|line| words.iter().all(|word| line.contains(word)))
        };
        for (words, expected) in [
            (["debug call", "Probe"], polled),
            (["debug call", "NodeGetCapabilities"], polled),
            (["debug task", "binding"], polled),
            (["info call", "NodeUnpublishVolume"], changing),
            (["info serving", ""], changing),
            (["warn call", "NOT_FOUND"], failing),
        ] {
            assert_eq!(has(words), expected, "{level}: {words:?} in {log:#?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_empty_dir_is_enough_for_a_work_folder() {
    let rig = Rig::new();
    let work = rig.path("work");
    std::fs::create_dir(&work).unwrap();
    std::fs::create_dir(rig.path("export/v")).unwrap();
    std::fs::set_permissions(&work, std::fs::Permissions::from_mode(0o777)).unwrap();
    let mode = |path: &std::path::Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    let request = publish_request("v", &rig.path("target"), Mode::MultiNodeMultiWriter);
    // The second one finds the folder of the first.
    for _ in 0..2 {
        let driver = rig.driver();
        let log = driver.log().join("\n");
        assert!(
            log.contains(&format!("{}/csi-nfs", work.display())),
            "{log}"
        );
        let client = Client::connect(&rig).await;
        client.call(ProbeRequest {}).await.unwrap();
        client.publish(request.clone()).await.unwrap();
        driver.kill();
    }
    assert_eq!(mode(&work), 0o777);
    assert_eq!(mode(&work.join("csi-nfs")), 0o700);
    assert_eq!(work.read_dir().unwrap().count(), 1);
}

#[test]
fn a_planted_private_folder_is_refused_and_left_as_it_is() {
    let rig = Rig::new();
    let work = rig.path("work");
    std::fs::create_dir(&work).unwrap();
    let open = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(&work, open).unwrap();
    std::fs::create_dir(rig.path("elsewhere")).unwrap();
    std::os::unix::fs::symlink(rig.path("elsewhere"), work.join("csi-nfs")).unwrap();
    let (status, text) = run(&mut rig.driver_command());
    assert!(!status.success());
    for words in ["--work-dir", "work/csi-nfs", "symlink"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    let mode = work.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o1777);
    assert_eq!(rig.path("elsewhere").read_dir().unwrap().count(), 0);
    assert!(!rig.path("csi.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_limit_of_open_files_is_raised_and_said_when_it_is_reached() {
    let rig = Rig::new();
    let mut driver = rig.limited_driver(24, 48);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", driver.pid())).unwrap();
    let line = limits
        .lines()
        .find(|line| line.starts_with("Max open files"));
    let words: Vec<_> = line.unwrap().split_whitespace().collect();
    assert_eq!(words[3..5], ["48", "48"], "{line:?}");
    // The kernel takes connections for it, which it cannot have all.
    let crowd: Vec<_> = (0..60)
        .map(|_| UnixStream::connect(rig.path("csi.sock")).unwrap())
        .collect();
    let said = driver.wait_for("connections cannot be accepted");
    assert!(said.contains("48"), "{said}");
    drop(crowd);
    // Some connection is the first after a while without a failure.
    until("connections are accepted again", || {
        UnixStream::connect(rig.path("csi.sock")).unwrap();
        let log = driver.log();
        log.iter().any(|line| line.contains("accepted again"))
    });
    assert_eq!(name(&Client::connect(&rig).await).await, "nfs.csi.internal");
    let log = driver.log();
    let told = log
        .iter()
        .filter(|line| line.contains("cannot be accepted"));
    assert_eq!(told.count(), 1, "{log:#?}");
}
