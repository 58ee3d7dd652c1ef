//! Which capabilities a running driver has, and what it says and does where some are missing.

use crate::rig::{Client, Driver, Rig, publish_request};
use csi_proto::v1::volume_capability::access_mode::Mode;
use std::os::unix::fs::chown;
use std::process::Command;
use tonic::Code;

const CHOWN: u64 = 1 << 0;
const DAC_OVERRIDE: u64 = 1 << 1;
const FOWNER: u64 = 1 << 3;
const FSETID: u64 = 1 << 4;
const SYS_CHROOT: u64 = 1 << 18;
const SYS_ADMIN: u64 = 1 << 21;
const MKNOD: u64 = 1 << 27;
const SETFCAP: u64 = 1 << 31;

/// A set of a process, such as `CapEff`, as the kernel tells it.
fn set(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with(name)).unwrap();
    u64::from_str_radix(line.split_whitespace().nth(1).unwrap(), 16).unwrap()
}

/// `--mode MODE`, with or without a local share.
fn start(rig: &Rig, mode: &str, local: bool) -> Driver {
    let mut command = rig.command(env!("CARGO_BIN_EXE_csi-nfs"));
    command
        .args(["--node-id", "node-1", "--mode", mode, "--endpoint"])
        .arg(rig.path("csi.sock"))
        .arg("--work-dir")
        .arg(rig.path("work"));
    if local {
        let share = format!("server:/={}", rig.path("export").display());
        command.args(["--local-share", &share]);
    }
    let mut driver = Driver::start(&mut command);
    driver.wait_for("serving");
    driver
}

#[test]
fn each_mode_has_what_it_needs_and_no_more() {
    let rig = Rig::new();
    let local_files = CHOWN | DAC_OVERRIDE | FOWNER | FSETID | MKNOD | SETFCAP | SYS_ADMIN;
    let mounts = SYS_ADMIN | SYS_CHROOT;
    for (mode, local, own, helpers) in [
        ("node", false, 0, mounts),
        ("node", true, 0, mounts | DAC_OVERRIDE),
        ("controller", false, FOWNER | MKNOD, SYS_ADMIN),
        ("controller", true, local_files, SYS_ADMIN),
        (
            "all",
            false,
            FOWNER | MKNOD | DAC_OVERRIDE,
            mounts | DAC_OVERRIDE,
        ),
        ("all", true, local_files, mounts | DAC_OVERRIDE),
    ] {
        let driver = start(&rig, mode, local);
        let expected = [
            ("CapEff", own),
            ("CapPrm", own | helpers),
            ("CapBnd", own | helpers),
            ("CapInh", helpers),
            ("CapAmb", helpers),
        ];
        for (name, expected) in expected {
            let found = set(driver.pid(), name);
            assert_eq!(found, expected, "{name} of {mode}, {local}: {found:x}");
        }
        assert!(!driver.log().iter().any(|line| line.contains("missing")));
    }
}

/// A driver on the local share that `setpriv` starts with `flags`.
fn restricted(rig: &Rig, flags: &[&str]) -> Driver {
    let mut command = rig.command("setpriv");
    command.args(flags);
    let whole = rig.driver_command();
    // The driver and its flags, without what leads into the namespace, which has been entered.
    let driver = env!("CARGO_BIN_EXE_csi-nfs");
    let args: Vec<_> = whole.get_args().skip_while(|arg| *arg != driver).collect();
    command.args(args);
    let mut driver = Driver::start(&mut command);
    driver.wait_for("serving");
    driver
}

/// The user `nobody`, who owns the folders of `rig`.
const ORDINARY: [&str; 3] = ["--reuid=65534", "--regid=65534", "--clear-groups"];

fn give_to_nobody(rig: &Rig) {
    for folder in ["", "export", "export/a"] {
        chown(rig.path(folder), Some(65_534), Some(65_534)).unwrap();
    }
    // The checkout may lie where nobody may go.
    let binary = Command::new("setpriv")
        .args(ORDINARY)
        .args([env!("CARGO_BIN_EXE_csi-nfs"), "--version"])
        .output()
        .unwrap();
    assert!(binary.status.success(), "{binary:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_ordinary_user_mounts_with_two_capabilities() {
    if !rustix::process::geteuid().is_root() {
        // Nobody but root can become another user.
        return;
    }
    let rig = Rig::new();
    std::fs::create_dir(rig.path("export/a")).unwrap();
    give_to_nobody(&rig);
    let given = "+sys_admin,+sys_chroot";
    let mut flags = ORDINARY.map(str::to_owned).to_vec();
    flags.push(format!("--inh-caps=-all,{given}"));
    flags.push(format!("--ambient-caps=-all,{given}"));
    let flags: Vec<_> = flags.iter().map(String::as_str).collect();
    let driver = restricted(&rig, &flags);
    assert_eq!(set(driver.pid(), "CapAmb"), SYS_ADMIN | SYS_CHROOT);
    assert!(driver.log().iter().any(|line| {
        line.contains("missing") && line.contains("CAP_FOWNER") && !line.contains("CAP_SYS_ADMIN")
    }));
    let client = Client::connect(&rig).await;
    let target = rig.path("target");
    let mut request = publish_request("a", &target, Mode::SingleNodeWriter);
    request.readonly = true;
    client.publish(request).await.unwrap();
    assert_eq!(rig.mounts("target").len(), 1);
    client.unpublish("a", &target).await.unwrap();
    assert!(rig.mounts("target").is_empty() && !target.exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_is_missing_is_said_by_name() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    for root in [true, false] {
        let rig = Rig::new();
        std::fs::create_dir(rig.path("export/a")).unwrap();
        let driver = if root {
            let none = ["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
            restricted(&rig, &none)
        } else {
            give_to_nobody(&rig);
            restricted(&rig, &ORDINARY)
        };
        let log = driver.log();
        let warning = log.iter().find(|line| line.contains("missing")).unwrap();
        for name in ["CAP_SYS_ADMIN (mounts, quotas)", "CAP_CHOWN"] {
            assert!(warning.contains(name), "{warning}");
        }
        let client = Client::connect(&rig).await;
        let request = publish_request("a", &rig.path("target"), Mode::SingleNodeWriter);
        let error = client.publish(request).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
        assert!(error.message().contains("CAP_SYS_ADMIN"), "{error}");
        assert!(!rig.path("target").exists());
    }
}
