//! `csi-nfs agent` as a process, and a controller that takes its share for one on another machine.

use crate::away::Away;
use crate::controller::calls::*;
use crate::controller::snapshots::{from_snapshot, ready, snapshot};
use crate::rig::Driver;
use crate::rig::patience::Patience;
use csi_nfs::calls::controller::Controller;
use csi_proto::v1::Volume;
use rustix::process::Signal;
use std::path::PathBuf;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// A controller elsewhere, and what it says.
struct Elsewhere {
    controller: Controller,
    notices: Arc<Mutex<Vec<String>>>,
}

impl Elsewhere {
    fn of(host: &Host) -> Self {
        let notices = Arc::new(Mutex::new(Vec::new()));
        let mut config = host.config();
        let export = config.other_exports[0].clone();
        config.roots = Arc::new(Away::of(export, host.folder.path().to_owned()));
        let heard = Arc::clone(&notices);
        config.notice = Arc::new(move |text| heard.lock().unwrap().push(text.to_owned()));
        Self {
            controller: Controller::new(config),
            notices,
        }
    }

    /// Whether it has copied something itself.
    fn has_copied(&self) -> bool {
        let notices = self.notices.lock().unwrap();
        notices.iter().any(|text| text.contains(": copied "))
    }
}

fn agent_command(host: &Host) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
    command.args(["agent", "--drain-timeout", "5s", "--local-share"]);
    command.arg(format!("10.0.0.4:/nfs_share={}", host.at("").display()));
    command
}

fn agent(host: &Host) -> Driver {
    let mut agent = Driver::start(&mut agent_command(host));
    agent.wait_for("attended");
    agent
}

/// An agent that dies at this step of what it does, the first time.
fn agent_that_dies_at(host: &Host, step: &str) -> (tempfile::TempDir, Driver) {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan");
    std::fs::write(&plan, format!("0 {step}")).unwrap();
    let mut agent = Driver::start(agent_command(host).env("CSI_NFS_CRASH_PLAN", plan));
    agent.wait_for("attended");
    (folder, agent)
}

/// A volume with two files.
async fn full_volume(host: &Host, controller: &Controller) -> Volume {
    let volume = create(controller, request("v")).await.unwrap();
    let folder = folder_of(host, &volume);
    std::fs::write(folder.join("file"), "content").unwrap();
    std::fs::create_dir(folder.join("folder")).unwrap();
    std::fs::write(folder.join("folder/other"), "more").unwrap();
    volume
}

fn folder_of(host: &Host, volume: &Volume) -> PathBuf {
    host.at(&volume.volume_context["subDir"])
}

async fn until(what: &str, is_so: impl Fn() -> bool) {
    let mut patience = Patience::default();
    while !is_so() {
        assert!(patience.lasts(), "never: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn announcements(host: &Host) -> usize {
    std::fs::read_dir(host.at(".csi-nfs/agents"))
        .unwrap()
        .count()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_agent_copies_and_purges_for_a_controller_elsewhere() {
    let host = Host::new();
    let elsewhere = Elsewhere::of(&host);
    let controller = &elsewhere.controller;
    // The share is made by the controller; the agent waits for that.
    let mut agent = Driver::start(&mut agent_command(&host));
    agent.wait_for("not attended");
    let volume = full_volume(&host, controller).await;
    agent.wait_for("attended");
    let made = ready(controller, "s", &volume.volume_id).await;
    agent.wait_for("copied ");
    let restored = create(controller, from_snapshot("restored", &made.snapshot_id)).await;
    agent.wait_for("copied ");
    let folder = folder_of(&host, &restored.unwrap());
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    assert_eq!(
        (read("file"), read("folder/other")),
        ("content".to_owned(), "more".to_owned())
    );
    assert!(!elsewhere.has_copied());
    // What is deleted is gone though the controller does nothing more.
    delete(controller, &volume.volume_id).await.unwrap();
    controller.give_up();
    let trash = host.at(".csi-nfs/trash");
    until("the trash is empty", || {
        std::fs::read_dir(&trash).unwrap().count() == 0
    })
    .await;
    assert_eq!(announcements(&host), 1);
    agent.signal(Signal::TERM);
    assert!(agent.wait().success(), "{:?}", agent.log());
    assert_eq!(announcements(&host), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_an_agent_has_begun_is_finished_without_it() {
    for step in [
        "the copy is claimed",
        "the folder of the copy is made",
        "the copy is made",
        "the copy is on record",
    ] {
        let host = Host::new();
        let elsewhere = Elsewhere::of(&host);
        let controller = &elsewhere.controller;
        let volume = full_volume(&host, controller).await;
        let (_plan, mut agent) = agent_that_dies_at(&host, step);
        // One that nobody has waited for is there still.
        let died = tokio::task::spawn_blocking(move || agent.wait());
        let made = ready(controller, "s", &volume.volume_id).await;
        assert!(!died.await.unwrap().success());
        assert_eq!(
            elsewhere.has_copied(),
            step != "the copy is on record",
            "{step}"
        );
        // What it has begun is cleared away by who has taken that over.
        let trash = host.at(".csi-nfs/trash");
        let is_empty = || std::fs::read_dir(&trash).unwrap().count() == 0;
        until("the trash is empty", is_empty).await;
        // A dead agent is left nothing, and the next one clears up after it.
        ready(controller, "t", &volume.volume_id).await;
        assert!(elsewhere.has_copied());
        assert_eq!(announcements(&host), 1);
        let mut next = self::agent(&host);
        until("what the dead agent has announced is gone", || {
            announcements(&host) == 1
        })
        .await;
        let restored = create(controller, from_snapshot("restored", &made.snapshot_id)).await;
        next.wait_for("copied ");
        let folder = folder_of(&host, &restored.unwrap());
        assert_eq!(
            std::fs::read_to_string(folder.join("file")).unwrap(),
            "content"
        );
    }
}

/// Stopped, it may live for all that can be known; so it is waited for, until it is known to be dead.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_copy_that_an_agent_does_not_take_is_made_without_it() {
    let host = Host::new();
    let elsewhere = Elsewhere::of(&host);
    let controller = elsewhere.controller.clone();
    let volume = full_volume(&host, &controller).await;
    let agent = agent(&host);
    agent.signal(Signal::STOP);
    let id = volume.volume_id.clone();
    let making = tokio::spawn(async move { snapshot(&controller, "s", &id).await });
    let snapshots = host.at(".csi-nfs/snapshots");
    until("the copy is left to the agent", || {
        std::fs::read_dir(&snapshots).unwrap().count() == 1
    })
    .await;
    assert!(!making.is_finished() && !elsewhere.has_copied());
    agent.kill();
    assert!(making.await.unwrap().unwrap().ready_to_use);
    assert!(elsewhere.has_copied());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn two_agents_on_one_share_do_no_harm() {
    let host = Host::new();
    let elsewhere = Elsewhere::of(&host);
    let controller = &elsewhere.controller;
    let volume = full_volume(&host, controller).await;
    let agents = [agent(&host), agent(&host)];
    assert_eq!(announcements(&host), 2);
    for count in 0..10 {
        let made = ready(controller, &format!("s{count}"), &volume.volume_id).await;
        let name = format!("r{count}");
        let restored = create(controller, from_snapshot(&name, &made.snapshot_id)).await;
        let folder = folder_of(&host, &restored.unwrap());
        assert_eq!(
            std::fs::read_to_string(folder.join("file")).unwrap(),
            "content"
        );
    }
    assert!(!elsewhere.has_copied());
    drop(agents);
}

/// A controller that has the folder itself waits for nobody.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_controller_on_the_server_copies_by_itself() {
    let host = Host::new();
    let controller = host.controller();
    let volume = full_volume(&host, &controller).await;
    let agent = agent(&host);
    agent.signal(Signal::STOP);
    ready(&controller, "s", &volume.volume_id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_id_of_a_deleted_volume_takes_no_newer_one_in() {
    let host = Host::new();
    let controller = host.controller();
    let old = full_volume(&host, &controller).await;
    delete(&controller, &old.volume_id).await.unwrap();
    full_volume(&host, &controller).await;
    let output = Command::new(env!("CARGO_BIN_EXE_csi-nfs"))
        .args(["take-in", "--local-share"])
        .arg(format!("10.0.0.4:/nfs_share={}", host.at("").display()))
        .arg(&old.volume_id)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let expected = format!(
        "{}: was deleted, and a newer volume has its name",
        old.volume_id
    );
    assert!(said.contains(&expected), "{said}");
    assert!(output.stdout.is_empty() && !output.status.success());
}

/// What `csi-nfs take-in` of a volume that is not there ends with and says, where the variable names these shares.
fn take_in_nothing(shares: &str) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_csi-nfs"))
        .args(["take-in", "nosuchvolume"])
        .env("CSI_NFS_LOCAL_SHARES", shares)
        .output()
        .unwrap();
    assert!(output.stdout.is_empty(), "{output:?}");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    (output.status.code(), said)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_name_that_no_volume_has_is_said_before_anything_is_taken_in() {
    let host = Host::new();
    full_volume(&host, &host.controller()).await;
    let share = format!("10.0.0.4:/nfs_share={}", host.at("").display());
    let (code, said) = take_in_nothing(&share);
    assert!(
        said.contains("nosuchvolume: there is no such volume"),
        "{said}"
    );
    assert_eq!(code, Some(1));
}

#[test]
fn the_variable_of_an_agent_names_the_share_of_volumes_to_take_in() {
    let (code, said) = take_in_nothing("nas:/srv=/nowhere\n");
    assert!(said.contains("/nowhere: No such file"), "{said}");
    assert_eq!(code, Some(1));
    let (code, said) = take_in_nothing("nas:/srv=/nowhere\nnas:/b=/b");
    assert!(said.contains("2 shares are given"), "{said}");
    assert_eq!(code, Some(2));
}
