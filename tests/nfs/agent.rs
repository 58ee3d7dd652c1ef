//! The agent on a kernel NFS server: controllers that reach the share over NFS leave it what it does faster.

use crate::scene::{Share, Version, find};
use crate::server::Server;
use crate::support::PATIENCE;
use crate::support::calls::{self, Calls};
use crate::support::disk::{Disk, Expected};
use crate::support::driver::{self, Driver};
use crate::support::placed::of_volume;
use crate::support::process::Process;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

/// An agent of one share, which attends it.
struct Agent(Process);

impl Agent {
    fn of(share: &Share) -> Self {
        let parameters = share.parameters();
        let (server, path) = (&parameters["server"], &parameters["share"]);
        let local = format!("{server}:{path}={}", share.folder().display());
        let mut command = Command::new(driver::binary());
        command.args(["agent", "--local-share", &local]).env_clear();
        let process = Process::start(&mut command);
        process.wait_for_error_output(" attended ");
        Self(process)
    }

    fn has_copied(&self) -> bool {
        self.0.error_output().contains(" copied ")
    }
}

fn controller() -> Driver {
    Driver::with_args(&["--mode", "controller"])
}

fn expected(volumes: &[&str], snapshots: usize) -> Expected {
    Expected {
        folders: volumes.iter().map(ToString::to_string).collect(),
        volumes: volumes.len(),
        snapshots,
    }
}

fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn copies_and_purges(version: Version) {
    let share = Share::new("agent", version);
    let driver = controller();
    let disk = Disk::with_foreign_files(share.folder());
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let volume = calls.create(calls::volume("v", &share.parameters())).await;
        let volume = volume.unwrap();
        let file = of_volume(share.folder(), "v/file");
        fs::write(&file, "content").unwrap();
        chown(&file, Some(1000), Some(1000)).unwrap();
        let agent = Agent::of(&share);
        let made = calls.ready_snapshot("s", &volume.volume_id).await.unwrap();
        let mut restored = calls::volume("w", &share.parameters());
        restored.volume_content_source = calls::of_snapshot(&made.snapshot_id);
        calls.create(restored).await.unwrap();
        assert!(agent.has_copied());
        assert!(!driver.log().contains(" copied "), "{}", driver.log());
        let copy = of_volume(share.folder(), "w/file");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "content");
        assert_eq!(fs::metadata(&copy).unwrap().uid(), 1000);
        calls.delete(&volume.volume_id).await.unwrap();
        disk.settles_with(&expected(&["w"], 1));
    });
}

#[test]
fn an_agent_copies_and_purges_over_v3() {
    copies_and_purges(Version::V3);
}

#[test]
fn an_agent_copies_and_purges_over_v4_2() {
    copies_and_purges(Version::V4_2);
}

/// A controller that may do no more than the anonymous user reads, places and deletes what the agent has made as root; also when
/// the agent is killed in the middle of it.
#[test]
fn an_agent_serves_a_controller_whose_root_is_squashed() {
    let server = Server::exporting("agent-squash", "rw,root_squash", None);
    let share = server.share();
    let driver = controller();
    let disk = Disk::with_foreign_files(share.folder());
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let volume = calls.create(calls::volume("v", &share.parameters())).await;
        let volume = volume.unwrap();
        let file = of_volume(share.folder(), "v/file");
        fs::write(&file, "content").unwrap();
        // Nothing that the controller itself could read.
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(1000), Some(1000)).unwrap();
        let agent = Agent::of(&share);
        let made = calls.ready_snapshot("s", &volume.volume_id).await.unwrap();
        let mut restored = calls::volume("w", &share.parameters());
        restored.volume_content_source = calls::of_snapshot(&made.snapshot_id);
        let restored = calls.create(restored).await.unwrap();
        let copy = of_volume(share.folder(), "w");
        assert_eq!(fs::metadata(&copy).unwrap().uid(), 65534);
        assert_eq!(fs::metadata(copy.join("file")).unwrap().uid(), 1000);
        // One that asks for an owner is refused, as without an agent.
        let mut owned = calls::volume("x", &share.parameters());
        owned.volume_content_source = calls::of_volume(&restored.volume_id);
        owned.parameters.insert("uid".to_owned(), "1000".to_owned());
        let refusal = calls.create(owned).await.unwrap_err();
        assert_eq!(refusal.code(), tonic::Code::PermissionDenied, "{refusal}");
        disk.settles_with(&expected(&["v", "w"], 1));
        for id in [&volume.volume_id, &restored.volume_id] {
            calls.delete(id).await.unwrap();
        }
        calls.delete_snapshot(&made.snapshot_id).await.unwrap();
        disk.settles_with(&expected(&[], 0));
        drop(agent);
    });
}

/// The number that a scrape gives of shares with an agent.
fn attended(http: &str) -> u64 {
    let mut get = Command::new(driver::binary());
    let asked = get.args(["get", http, "/metrics"]).output().unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    let mut lines = text.lines();
    let number = lines.find_map(|line| line.strip_prefix("csi_nfs_shares_attended "));
    number.unwrap_or_else(|| panic!("{text}")).parse().unwrap()
}

#[test]
fn a_scrape_tells_whether_an_agent_lives() {
    let share = Share::new("agent-scrape", Version::V4_2);
    let folder = tempfile::tempdir().unwrap();
    let http = format!("unix://{}", folder.path().join("http.sock").display());
    let driver = Driver::with_args(&["--mode", "controller", "--http", &http]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let mut volumes = Vec::new();
        for name in ["v", "w"] {
            let made = calls.create(calls::volume(name, &share.parameters())).await;
            volumes.push(made.unwrap().volume_id);
        }
        assert_eq!(attended(&http), 0);
        let Agent(mut agent) = Agent::of(&share);
        calls.delete(&volumes[0]).await.unwrap();
        until("the agent is seen", || attended(&http) == 1);
        agent.kill();
        calls.delete(&volumes[1]).await.unwrap();
        until("its death is seen", || attended(&http) == 0);
    });
}

/// Whether a copy has begun on the share.
fn is_copying(share: &Path) -> bool {
    let folder = share.join(".csi-nfs/snapshots");
    let records = fs::read_dir(folder).unwrap().flatten();
    let mut beside = records.flat_map(|record| fs::read_dir(record.path()).into_iter().flatten());
    beside.any(|entry| {
        let name = entry.unwrap().file_name().into_string().unwrap();
        name.starts_with("data.")
    })
}

#[test]
fn a_copy_is_finished_when_its_agent_is_killed() {
    const FILES: usize = 3000;
    for options in ["rw,no_root_squash", "rw,root_squash"] {
        let server = Server::exporting("agent-killed", options, None);
        let share = server.share();
        let driver = controller();
        let disk = Disk::with_foreign_files(share.folder());
        calls::runtime().block_on(async {
            let calls = Calls::to(&driver.endpoint());
            let volume = calls.create(calls::volume("v", &share.parameters())).await;
            let volume = volume.unwrap();
            for number in 0..FILES {
                let file = of_volume(share.folder(), "v").join(number.to_string());
                fs::write(file, "content").unwrap();
            }
            let Agent(mut agent) = Agent::of(&share);
            let (calls, id) = (calls.clone(), volume.volume_id.clone());
            let making = {
                let (calls, id) = (calls.clone(), id.clone());
                tokio::spawn(async move { calls.ready_snapshot("s", &id).await })
            };
            let folder = share.folder().to_owned();
            let begun = move || until("the copy has begun", || is_copying(&folder));
            tokio::task::spawn_blocking(begun).await.unwrap();
            agent.kill();
            let made = making.await.unwrap().unwrap();
            let snapshots = share.folder().join(".csi-nfs/snapshots");
            assert_eq!(find(&snapshots, "2999").len(), 1);
            disk.settles_with(&expected(&["v"], 1));
            calls.delete_snapshot(&made.snapshot_id).await.unwrap();
            calls.delete(&id).await.unwrap();
            disk.settles_with(&expected(&[], 0));
        });
    }
}
