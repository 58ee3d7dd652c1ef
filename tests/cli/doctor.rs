//! `csi doctor`: on the real driver, and on sockets behind which something is wrong.

mod causes;

use crate::support::PATIENCE;
use crate::support::driver::Driver;
use crate::support::executable;
use crate::support::patience::{until, up_to_a_limit};
use crate::support::process::Process;
use crate::support::program::{BINARY, Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::unserved;
use csi_proto::SPEC_VERSION;
use rustix::process::{Signal, geteuid};
use serde_json::Value as Json;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::net::UnixListener;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The check of that name, as JSON.
fn check(run: &Output, name: &str) -> Json {
    let page = run.json();
    let checks = page["checks"].as_array().unwrap();
    let found = checks.iter().find(|check| check["check"] == name);
    found.unwrap_or_else(|| panic!("{name}\n{run}")).clone()
}

#[test]
fn a_healthy_driver_has_a_page_without_a_fault() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    csi.run("controller create-volume pvc-1 --params server=localhost,share=/share")
        .succeeds();
    let kubelet = csi.home().join("kubelet");
    let flags = format!(
        "--kubelet {} --mount-parent {}",
        kubelet.display(),
        csi.home().display()
    );
    let page = csi.run(&format!("doctor {flags}")).succeeds();
    let version = env!("CARGO_PKG_VERSION");
    for line in [
        "ok socket        /",
        "ok listener      csi-nfs, process ",
        &format!("ok plugin        nfs.csi.internal {version}, answered in "),
        "ok probe         ready\n",
        "ok capabilities  makes and deletes volumes; clones volumes;",
        "ok conditions    1 volume, none abnormal\n",
        "-- sizes         the driver does not say whether sizes are enforced\n",
        "-- registration  no kubelet's folder is visible here",
        "ok leftovers     no folders or volumes of earlier runs\n",
        "ok mounts        none of this driver are visible here\n",
        &format!("ok versions      csi {version}, CSI {SPEC_VERSION}, driver {version}, Linux "),
    ] {
        assert!(page.stdout.contains(line), "{line}\n{page}");
    }
    assert!(page.stdout.lines().count() <= 24, "{page}");
    assert!(
        page.stdout.lines().all(|line| line.chars().count() <= 100),
        "{page}"
    );
    // A kubelet that does not know it, and one whose socket nobody serves.
    let registry = kubelet.join("plugins_registry");
    fs::create_dir_all(&registry).unwrap();
    let run = csi.run(&format!("doctor {flags} -o json")).exits(3);
    assert_eq!(check(&run, "registration")["state"], "wrong", "{run}");
    let socket = registry.join("nfs.csi.internal-reg.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let run = csi.run(&format!("doctor {flags} -o json")).succeeds();
    assert_eq!(
        check(&run, "registration")["text"],
        "nfs.csi.internal-reg.sock"
    );
    unserved::stop_listening(&listener);
    let run = csi.run(&format!("doctor {flags} -o json")).exits(3);
    let text = check(&run, "registration")["text"].to_string();
    assert!(text.contains("nobody listens"), "{run}");
}

#[test]
fn what_the_driver_says_of_sizes_is_told() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let flags = "--params server=localhost,share=/share";
    csi.run(&format!("controller create-volume plain {flags}"))
        .succeeds();
    csi.run(&format!(
        "controller create-volume advised --req-bytes 1Mi {flags},quota=advise"
    ))
    .succeeds();
    let doctor = format!(
        "doctor -o json --kubelet /nowhere --mount-parent {}",
        csi.home().display()
    );
    let sizes = check(&csi.run(&doctor).succeeds(), "sizes");
    assert_eq!(sizes["state"], "ok", "{sizes}");
    assert_eq!(
        sizes["text"],
        "2 volumes: 1 advisory: its parameter quota says so; 1 about which it says nothing"
    );
    // A driver that has conditions, and says nothing of the kind.
    let mock = format!("-e mock:{}", csi.home().join("mock").display());
    csi.run(&format!("{mock} controller create-volume m"))
        .succeeds();
    let sizes = check(&csi.run(&format!("{mock} {doctor}")), "sizes");
    assert_eq!(sizes["state"], "unknown", "{sizes}");
    assert!(sizes["text"].as_str().unwrap().contains("does not say"));
}

#[test]
fn what_earlier_runs_have_left_is_named() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let params = "--params server=localhost,share=/share";
    csi.run(&format!(
        "lifecycle --keep --name csi-lifecycle-1-0123456789abcdef {params}"
    ))
    .succeeds();
    csi.run(&format!(
        "controller create-volume csi-bench-results {params}"
    ))
    .succeeds();
    let folder = csi.home().join("csi-lifecycle-4294967295-ab");
    fs::create_dir_all(folder.join("target")).unwrap();
    fs::write(folder.join("data file"), "").unwrap();
    let flags = format!("--mount-parent {} --kubelet /nowhere", csi.home().display());
    let run = csi
        .run(&format!("doctor {flags} -o json"))
        .exits(3)
        .says("something is wrong");
    let text = check(&run, "leftovers")["text"].to_string();
    assert!(
        !text.contains("folder") && text.contains("1 volume of earlier runs"),
        "{run}"
    );
    // Nobody knows of which driver that folder is.
    assert!(run.stdout.contains("which is not known"), "{run}");
    let page = csi.run(&format!("doctor {flags}"));
    for number in [0, 1] {
        let command = &advised(&run, number)[0];
        assert!(page.stdout.contains(&format!("`{command}`")), "{page}");
        by_shell(&csi, command);
    }
    csi.run(&format!("doctor {flags}")).succeeds();
    let missing = csi.run("doctor --mount-parent /nowhere").exits(2);
    missing.says("--mount-parent: /nowhere cannot be read");
}

#[test]
fn what_only_looks_like_a_run_s_folder_holds_nobody_up() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let in_home = |name: &str| csi.home().join(name);
    // A FIFO in the place of a journal, a journal without an end, another user's folder, a link.
    for name in ["csi-sanity-1", "csi-sanity-2", "csi-sanity-3"] {
        fs::create_dir(in_home(name)).unwrap();
    }
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let fifo = in_home("csi-sanity-1/journal");
    rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, mode, 0).unwrap();
    symlink("/dev/zero", in_home("csi-sanity-2/journal")).unwrap();
    let told = "{\"endpoints\":[\"exec:sh -c evil\",\"exec:sh -c evil\"]}\n";
    fs::write(in_home("csi-sanity-3/journal"), told).unwrap();
    symlink(in_home("csi-sanity-3"), in_home("csi-sanity-4")).unwrap();
    let is_root = geteuid().is_root();
    if is_root {
        std::os::unix::fs::chown(in_home("csi-sanity-3"), Some(65534), None).unwrap();
    }
    let flags = format!("--mount-parent {} --kubelet /nowhere", csi.home().display());
    let run = csi.run(&format!("doctor {flags}")).succeeds();
    let others = if is_root { "2 folders" } else { "3 folders" };
    assert!(run.stdout.contains(others), "{run}");
    assert!(!run.stdout.contains("csi-sanity-4"), "{run}");
    assert!(!is_root || !run.stdout.contains("evil"), "{run}");
}

/// The commands that the finding of that number about leftovers advises.
fn advised(run: &Output, number: usize) -> Vec<String> {
    let page = run.json();
    let checks = page["checks"].as_array().unwrap().iter();
    let mut found = checks.filter(|check| check["check"] == "leftovers");
    let advice = found.nth(number).unwrap()["advice"].as_str().unwrap();
    let commands = advice.split('`').skip(1).step_by(2);
    commands.map(str::to_owned).collect()
}

/// Runs a command as somebody does who pastes it.
fn by_shell(csi: &Csi, command: &str) {
    let folder = Path::new(BINARY).parent().unwrap().display();
    let mut shell = Command::new("/bin/sh");
    shell
        .env("PATH", format!("{folder}:/usr/bin:/bin"))
        .env("HOME", csi.home())
        .env("TMPDIR", csi.home())
        .env_remove("CSI_ENDPOINT")
        .current_dir(csi.home())
        .args(["-c", command]);
    let ended = Process::start(&mut shell).wait(PATIENCE).unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert_eq!(ended.code(), 0, "{command}\n{said}");
}

#[test]
fn what_runs_against_other_drivers_have_left_is_no_fault_and_can_be_removed() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let settings = |text: &str| {
        fs::create_dir_all(csi.home().join("m")).unwrap();
        csi.file("m/settings.toml", text)
    };
    settings("delay = [\"NodeGetVolumeStats=1h\", \"DeleteVolume=1h\"]");
    // Killed in the middle, when both have made something.
    let is_there = |begins: &str, inside: &str| {
        let entries = fs::read_dir(csi.home()).unwrap().flatten();
        let mut paths = entries.map(|entry| entry.path());
        paths.any(|path| {
            let name = path
                .file_name()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            name.starts_with(begins)
                && path
                    .join(inside)
                    .symlink_metadata()
                    .is_ok_and(|it| it.len() > 0)
        })
    };
    for (command, begins, inside) in [
        ("-t 1h -e mock:m lifecycle", "csi-lifecycle-", "target"),
        (
            "-t 1h -e mock:m sanity --filter controller/delete-volume",
            "csi-sanity-",
            "journal",
        ),
    ] {
        let mut run = csi.spawn(command);
        until(command, || is_there(begins, inside));
        run.kill();
    }
    settings("");
    let has_attributes = csi.home().join("attributes");
    fs::create_dir(&has_attributes).unwrap();
    let flag = rustix::fs::XattrFlags::empty();
    let has_attributes = rustix::fs::lsetxattr(&has_attributes, "user.x", b"x", flag).is_ok();
    let doctor = format!(
        "doctor --mount-parent {} --kubelet /nowhere -o json",
        csi.home().display()
    );
    let run = csi.run(&doctor).succeeds();
    assert_eq!(
        check(&run, "leftovers")["text"],
        "no folders or volumes of earlier runs",
        "{run}"
    );
    let named = run
        .stdout
        .matches(&format!("(driver: mock:{}/m)", csi.home().display()))
        .count();
    assert_eq!(named, 1 + usize::from(has_attributes), "{run}");
    for command in advised(&run, 1) {
        by_shell(&csi, &command);
    }
    let run = csi.run(&doctor).succeeds();
    assert!(!run.stdout.contains("not of this driver"), "{run}");
    assert!(
        !is_there("csi-lifecycle-", "") && !is_there("csi-sanity-", ""),
        "{run}"
    );
}

#[test]
fn one_cause_is_one_fault_and_says_what_to_do() {
    let csi = Csi::new();
    for (endpoint, part, advice) in [
        ("exec:false", "exited with code 1", "carry the connection"),
        (
            "kubectl:/node-2",
            "cannot start kubectl: No such file",
            "found in PATH",
        ),
        ("tcp://127.0.0.1:1", "nobody listens on", "look at its log"),
    ] {
        let run = csi
            .command()
            .env(
                "PATH",
                if endpoint.starts_with("exec") {
                    "/usr/bin:/bin"
                } else {
                    "/nowhere"
                },
            )
            .args(["-o", "json", "doctor", "--kubelet", "/nowhere", endpoint])
            .output()
            .unwrap();
        let page: Json = serde_json::from_slice(&run.stdout).unwrap();
        let checks = page["checks"].as_array().unwrap().iter();
        let wrong: Vec<&Json> = checks.filter(|check| check["state"] == "wrong").collect();
        assert_eq!(wrong.len(), 1, "{page:#}");
        assert!(wrong[0]["text"].to_string().contains(part), "{page:#}");
        assert!(wrong[0]["advice"].to_string().contains(advice), "{page:#}");
    }
}

#[test]
fn a_bundle_has_the_log_and_no_secret() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint()).env("X_CSI_SECRETS", "password=hunter2");
    csi.run("doctor --kubelet /nowhere --bundle report.tar")
        .succeeds()
        .says("read it before you send it");
    let bundle = csi.home().join("report.tar");
    let mode = fs::metadata(&bundle).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let content = fs::read(&bundle).unwrap();
    let content = String::from_utf8_lossy(&content);
    for part in [
        "csi-doctor/doctor.txt",
        "csi-doctor/doctor.json",
        "X_CSI_SECRETS is set",
        "ok plugin",
    ] {
        assert!(content.contains(part), "{part}");
    }
    assert!(!content.contains("hunter2"));
    csi.run("doctor --kubelet /nowhere --bundle report.tar")
        .exits(2)
        .says("report.tar exists already: name another file");
}

#[test]
fn sockets_behind_which_something_is_wrong() {
    let csi = Csi::new();
    let file = csi.file("file", "");
    let dead = csi.home().join("dead.sock");
    unserved::socket_file(&dead);
    let missing = csi.home().join("missing.sock");
    let lost = csi.home().join("nowhere/missing.sock");
    for (path, text) in [
        (&file, "is no socket"),
        (&dead, "nobody listens"),
        (&missing, ": no such file"),
        (&PathBuf::from("missing.sock"), "missing.sock: no such file"),
        (&lost, "nor is its folder"),
        (&file.join("x.sock"), "Not a directory"),
    ] {
        let run = csi
            .run(&format!(
                "doctor {} -o json --kubelet /nowhere",
                path.display()
            ))
            .exits(3);
        let socket = check(&run, "socket");
        assert_eq!(socket["state"], "wrong", "{run}");
        assert!(socket["text"].as_str().unwrap().contains(text), "{run}");
        assert!(socket.get("advice").is_some(), "{run}");
        // One cause is one fault.
        assert_eq!(check(&run, "plugin")["state"], "unknown", "{run}");
    }
    csi.run("doctor").exits(2).says("no driver named");
}

#[test]
fn a_socket_without_permission() {
    let driver = ScriptedDriver::unix();
    let socket = driver
        .endpoint()
        .strip_prefix("unix://")
        .unwrap()
        .to_owned();
    let csi = Csi::new();
    let open = csi.home().join("open");
    fs::create_dir(&open).unwrap();
    let reached = open.join("csi.sock");
    fs::hard_link(&socket, &reached)
        .or_else(|_| fs::rename(&socket, &reached))
        .unwrap();
    let mode = |mode| fs::set_permissions(&reached, Permissions::from_mode(mode)).unwrap();
    let is_root = geteuid().is_root();
    mode(if is_root { 0o600 } else { 0o000 });
    for folder in [csi.home(), &open] {
        fs::set_permissions(folder, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = csi.command();
    command
        .current_dir("/")
        .args(["doctor", "--kubelet", "/nowhere"])
        .arg(&reached);
    if is_root {
        command.uid(65_534).gid(65_534);
    }
    let ended = Process::start(&mut command).wait(PATIENCE).unwrap();
    let page = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.code(), 3, "{page}");
    assert!(page.contains("may not use it"), "{page}");
    // Whether one is in a folder that may not be entered, nobody can tell.
    let shut = |mode| fs::set_permissions(&open, Permissions::from_mode(mode)).unwrap();
    shut(if is_root { 0o700 } else { 0o000 });
    for name in ["csi.sock", "none.sock"] {
        let mut command = csi.command();
        command.current_dir("/").args(["identity", "probe", "-e"]);
        command.arg(open.join(name));
        if is_root {
            command.uid(65_534).gid(65_534);
        }
        let ended = Process::start(&mut command).wait(PATIENCE).unwrap();
        let told = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert!(told.contains("no permission to look for"), "{told}");
        assert!(told.contains("hint: a folder above it"), "{told}");
    }
    // And one that everybody may use, once everybody may enter its folder.
    mode(0o777);
    shut(0o700);
    let run = csi.run(&format!("doctor {} --kubelet /nowhere", reached.display()));
    assert!(!run.stdout.contains("every user of this machine"), "{run}");
    shut(0o755);
    let run = csi
        .run(&format!("doctor {} --kubelet /nowhere", reached.display()))
        .exits(3);
    assert!(run.stdout.contains("every user of this machine"), "{run}");
}

#[test]
fn a_driver_with_an_abstract_name_and_one_that_is_stopped() {
    let abstract_ = ScriptedDriver::unix_abstract();
    let csi = Csi::new();
    let doctor = |endpoint: &str| {
        csi.run(&format!("doctor {endpoint} -o json --kubelet /nowhere"))
            .exits(3)
    };
    let run = doctor(abstract_.endpoint());
    let socket = check(&run, "socket");
    let shown = format!("{}: every user", abstract_.endpoint());
    assert!(socket["text"].to_string().contains(&shown), "{run}");
    let listener = check(&run, "listener");
    let own = format!("process {}", std::process::id());
    assert!(listener["text"].to_string().contains(&own), "{run}");
    let mut driver = csi.spawn("mock --endpoint unix:m.sock");
    csi.run("-e unix:m.sock --wait 1m identity probe")
        .succeeds();
    driver.signal(Signal::STOP);
    let stat = format!("/proc/{}/stat", driver.pid().as_raw_nonzero());
    until("stopped", || {
        fs::read_to_string(&stat).is_ok_and(|stat| stat.contains(") T "))
    });
    let run = doctor("unix:m.sock");
    let listener = check(&run, "listener");
    assert!(listener["text"].to_string().contains("is stopped"), "{run}");
    assert!(listener["advice"].to_string().contains("kill -CONT"));
    // One cause is one fault.
    let plugin = check(&run, "plugin");
    assert_eq!(plugin["text"], "not asked: it is stopped", "{run}");
    driver.kill();
}

#[test]
fn a_driver_that_hangs_holds_nobody_up() {
    let silent = ScriptedDriver::silent();
    let csi = Csi::new();
    up_to_a_limit("the driver is asked", |limit| {
        let hanging = ScriptedDriver::unix();
        hanging.on("GetPluginInfo", Reply::never());
        let doctor = |driver: &ScriptedDriver, more: &str| {
            let driver = driver.endpoint();
            csi.run(&format!(
                "-t {limit} doctor {driver} --kubelet /nowhere {more}"
            ))
        };
        for driver in [&silent, &hanging] {
            let run = doctor(driver, "-o json").exits(3);
            let plugin = check(&run, "plugin");
            assert_eq!(plugin["state"], "wrong", "{run}");
            let within = format!("within {limit}");
            assert!(plugin["text"].as_str().unwrap().contains(&within), "{run}");
        }
        let run = doctor(&hanging, "");
        assert!(
            run.stdout
                .contains("-- probe         not asked: the driver does not answer"),
            "{run}"
        );
        let calls = hanging.calls();
        assert!(
            calls.iter().all(|call| call == "GetPluginInfo"),
            "{calls:?}"
        );
        (calls.len() == 2).then_some(())
    });
}

/// A `kubectl` that has one pod, which reaches a driver; each of its other answers is a file beside it.
fn kubectl(driver: &ScriptedDriver) -> Csi {
    let csi = Csi::new().called("kubectl-csi");
    let relay = crate::support::driver::binary();
    let script = format!(
        "#!/bin/sh\n\
         case $1-$2 in\n\
         exec-*) while [ \"$1\" != -- ]; do shift; done; shift 2\n\
         \texec env CSI_ENDPOINT={} {} \"$@\";;\n\
         get-pods) echo 'csi nfs-x nfs';;\n\
         logs-*) case $* in *--previous*) echo 'ended, token=abc';; *) echo 'serves, password=hunter2';; esac;;\n\
         *) cat \"$0.$1-$2\" 2>/dev/null || {{ echo \"Forbidden: $1 $2\" >&2; exit 1; }};;\n\
         esac\n",
        driver.endpoint(),
        relay.display(),
    );
    let path = csi.home().join("kubectl");
    executable::script(&path, &script);
    for (of, answer) in [
        (
            "get-pod",
            r#"{"spec": {"nodeName": "node-2"}, "status": {"phase": "Running", "containerStatuses":
            [{"name": "csi-nfs", "ready": true, "restartCount": 1}]}}"#,
        ),
        (
            "get-events",
            r#"{"items": [{"lastTimestamp": "2026", "reason": "Unhealthy", "message": "not ready"}]}"#,
        ),
        (
            "get-csinodes",
            r#"{"items": [{"metadata": {"name": "node-2"}, "spec": {"drivers": [{"name": "in.a.pod"}]}}]}"#,
        ),
        ("get-csidriver", "csidriver.storage.k8s.io/in.a.pod\n"),
        ("describe-pod", "Name: nfs-x\nEvents: Unhealthy\n"),
    ] {
        csi.file(&format!("kubectl.{of}"), answer);
    }
    let path = format!("{}:/usr/bin:/bin", csi.home().display());
    csi.env("PATH", &path)
}

#[test]
fn a_driver_in_a_pod_is_looked_at_by_kubectl() {
    let driver = ScriptedDriver::unix();
    driver.on("GetPluginInfo", r#"{"name": "in.a.pod"}"#);
    driver.on("Probe", "{}");
    driver.on("NodeGetCapabilities", "{}");
    let csi = kubectl(&driver);
    // A kubelet of this machine has nothing to say.
    fs::create_dir_all(csi.home().join("kubelet/plugins_registry")).unwrap();
    let doctor = "--node node-2 doctor --kubelet kubelet";
    let page = csi.run(doctor).succeeds();
    for line in [
        "ok pod           csi/nfs-x on node-2, ready; 1 restart of csi-nfs\n",
        "-- events        1 warning, the last at 2026: Unhealthy: not ready\n",
        "ok plugin        in.a.pod",
        "ok registration  CSINode node-2 lists it; its CSIDriver is there\n",
        "-- mounts        not known from here: they are on its node\n",
    ] {
        assert!(page.stdout.contains(line), "{line}\n{page}");
    }
    assert!(
        !page.stdout.contains("Linux") && !page.stdout.contains("socket"),
        "{page}"
    );
    csi.run(&format!("{doctor} --bundle b.tar")).succeeds();
    let bundle = fs::read(csi.home().join("b.tar")).unwrap();
    let bundle = String::from_utf8_lossy(&bundle);
    for part in [
        "csi-doctor/driver.log",
        "serves, password=",
        "csi-doctor/previous-csi-nfs.log",
        "ended, token=",
        "csi-doctor/pod.txt",
        "Events: Unhealthy",
    ] {
        assert!(bundle.contains(part), "{part}");
    }
    assert!(!bundle.contains("hunter2") && !bundle.contains("abc"));
    // Another node's kubelet does not know it; and nobody may be asked.
    csi.file("kubectl.get-csinodes", r#"{"items": []}"#);
    let run = csi.run(&format!("{doctor} -o json")).exits(3);
    assert_eq!(
        check(&run, "registration")["text"],
        "CSINode node-2 does not list in.a.pod: its kubelet does not know it"
    );
    fs::remove_file(csi.home().join("kubectl.get-csinodes")).unwrap();
    let run = csi.run(&format!("{doctor} -o json")).succeeds();
    assert_eq!(
        check(&run, "registration")["text"],
        "kubectl get csinodes exited with code 1: Forbidden: get csinodes"
    );
}
