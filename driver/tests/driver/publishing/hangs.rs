//! Publishes from a local share whose disk hangs.

use super::{code, make_volume};
use crate::frozen::Frozen;
use crate::rig::patience::Patience;
use crate::rig::{Client, Driver, Rig, publish_request};
use crate::strace::words;
use csi_proto::v1::volume_capability::access_mode::Mode;
use rustix::process::{Pid, Signal, kill_process};
use tonic::Code;

/// Threads of the driver that mount.
fn mounting(driver: &Driver) -> Vec<String> {
    let tasks = std::fs::read_dir(format!("/proc/{}/task", driver.pid())).unwrap();
    let tasks = tasks.flatten().map(|task| task.path());
    let names = tasks.filter(|task| {
        std::fs::read_to_string(task.join("comm")).is_ok_and(|name| name == "mounting\n")
    });
    names.map(|task| task.display().to_string()).collect()
}

/// What traces a driver, which goes on when this is dropped.
struct Tracer(Pid);

impl Tracer {
    fn of(driver: &Driver) -> Self {
        let status = std::fs::read_to_string(format!("/proc/{}/status", driver.pid())).unwrap();
        let line = status
            .lines()
            .find_map(|line| line.strip_prefix("TracerPid:"));
        let pid = line.unwrap().trim().parse().unwrap();
        Self(Pid::from_raw(pid).unwrap())
    }
}

impl Drop for Tracer {
    fn drop(&mut self) {
        let _ = kill_process(self.0, Signal::KILL);
    }
}

/// The tracer plays the disk: it keeps each mount from being moved to its target for as long as it lives.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn mounts_that_hang_hold_few_threads_and_one_at_each_target() {
    let rig = Rig::new();
    let hang = words(
        &rig.path("strace"),
        "move_mount",
        Some("inject=move_mount:delay_enter=2000000000"),
    );
    let mut command = rig.command(&hang[0]);
    command.args(&hang[1..]).arg(env!("CARGO_BIN_EXE_csi-nfs"));
    rig.add_flags(&mut command);
    let mut driver = Driver::start(&mut command);
    driver.wait_for("serving");
    let tracer = Tracer::of(&driver);
    let client = Client::connect(&rig).await;
    // As many as one disk gets, and others.
    let (first, others) = (["a", "b", "c", "d"], ["e", "f"]);
    let publish = |name: &str| {
        let (client, target) = (client.clone(), rig.path(&format!("target-{name}")));
        let request = publish_request(name, &target, Mode::SingleNodeWriter);
        tokio::spawn(async move { client.publish(request).await })
    };
    let until = |threads: usize| {
        let mut patience = Patience::default();
        while mounting(&driver).len() != threads {
            assert!(patience.lasts(), "{:#?}", driver.log());
            std::thread::yield_now();
        }
    };
    for name in first.iter().chain(&others) {
        make_volume(&rig, name);
    }
    let begun = first.map(publish);
    tokio::task::block_in_place(|| until(first.len()));
    for call in begun.into_iter().chain(others.map(publish)) {
        assert_eq!(code(call.await.unwrap()), Code::DeadlineExceeded);
    }
    for call in first.map(publish) {
        assert_eq!(code(call.await.unwrap()), Code::DeadlineExceeded);
    }
    assert_eq!(mounting(&driver).len(), first.len(), "{:#?}", driver.log());
    drop(tracer);
    until(0);
    for name in first.into_iter().chain(others) {
        publish(name).await.unwrap().unwrap();
        let target = format!("target-{name}");
        assert_eq!(rig.mounts(&target).len(), 1, "{:#?}", driver.log());
        client.unpublish(name, &rig.path(&target)).await.unwrap();
        assert!(!rig.path(&target).exists());
    }
}

/// A helper would hang as well, and where the kernel does not let it go it could not be ended.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn no_helper_is_sent_to_a_share_that_does_not_answer() {
    let rig = Rig::new();
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    std::fs::remove_dir(rig.path("export")).unwrap();
    std::fs::create_dir(rig.path("away")).unwrap();
    std::os::unix::fs::symlink("away/share", rig.path("export")).unwrap();
    let frozen = Frozen::over(&rig, "away");
    let target = rig.path("target");
    let request = publish_request("a", &target, Mode::SingleNodeWriter);
    let error = client.publish(request).await.unwrap_err();
    assert_eq!(error.code(), Code::Unavailable, "{error}");
    assert_eq!(driver.children(), Vec::<u32>::new(), "{:#?}", driver.log());
    assert!(!target.exists());
    drop(frozen);
}
