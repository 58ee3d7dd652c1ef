//! The agent on a kernel NFS server: controllers that reach the share over NFS leave it what it does faster.

use crate::scene::{Share, Version, find};
use crate::server::Server;
use crate::support::calls::{self, Calls};
use crate::support::disk::{Disk, Expected};
use crate::support::driver::{self, Driver};
use crate::support::patience::until;
use crate::support::placed::of_volume;
use crate::support::process::Process;
use rustix::fs::XattrFlags;
use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;
use std::process::Command;

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

    /// Waits until it says that it has made a copy, which it does after others can see that copy.
    fn has_copied(&self) {
        self.0.wait_for_error_output(" copied ");
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

/// Makes an empty volume, and returns its id.
async fn made(calls: &Calls, share: &Share, name: &str) -> String {
    let made = calls.create(calls::volume(name, &share.parameters())).await;
    made.unwrap().volume_id
}

/// Makes the snapshot `s` of a volume, and of that the volume `w`. Returns both ids.
async fn snapshot_and_restore(calls: &Calls, share: &Share, volume: &str) -> [String; 2] {
    let snapshot = calls.ready_snapshot("s", volume).await.unwrap().snapshot_id;
    let mut restored = calls::volume("w", &share.parameters());
    restored.volume_content_source = calls::of_snapshot(&snapshot);
    [snapshot, calls.create(restored).await.unwrap().volume_id]
}

fn copies_and_purges(version: Version) {
    let share = Share::new("agent", version);
    let driver = controller();
    let disk = Disk::with_foreign_files(share.folder());
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let volume = made(&calls, &share, "v").await;
        let file = of_volume(share.folder(), "v/file");
        fs::write(&file, "content").unwrap();
        chown(&file, Some(1000), Some(1000)).unwrap();
        let agent = Agent::of(&share);
        snapshot_and_restore(&calls, &share, &volume).await;
        agent.has_copied();
        assert!(!driver.log().contains(" copied "), "{}", driver.log());
        let copy = of_volume(share.folder(), "w/file");
        assert_eq!(fs::read_to_string(&copy).unwrap(), "content");
        assert_eq!(fs::metadata(&copy).unwrap().uid(), 1000);
        calls.delete(&volume).await.unwrap();
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
        let volume = made(&calls, &share, "v").await;
        let file = of_volume(share.folder(), "v/file");
        fs::write(&file, "content").unwrap();
        // Nothing that the controller itself could read.
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        chown(&file, Some(1000), Some(1000)).unwrap();
        let agent = Agent::of(&share);
        let [snapshot, restored] = snapshot_and_restore(&calls, &share, &volume).await;
        let copy = of_volume(share.folder(), "w");
        assert_eq!(fs::metadata(&copy).unwrap().uid(), 65534);
        assert_eq!(fs::metadata(copy.join("file")).unwrap().uid(), 1000);
        // One that asks for an owner is refused, as without an agent.
        let mut owned = calls::volume("x", &share.parameters());
        owned.volume_content_source = calls::of_volume(&restored);
        owned.parameters.insert("uid".to_owned(), "1000".to_owned());
        let refusal = calls.create(owned).await.unwrap_err();
        assert_eq!(refusal.code(), tonic::Code::PermissionDenied, "{refusal}");
        disk.settles_with(&expected(&["v", "w"], 1));
        for id in [&volume, &restored] {
            calls.delete(id).await.unwrap();
        }
        calls.delete_snapshot(&snapshot).await.unwrap();
        disk.settles_with(&expected(&[], 0));
        drop(agent);
    });
}

/// XFS, as statfs(2) calls it.
const XFS: i64 = 0x5846_5342;

/// Whether a file has all its blocks in common with others.
fn shares_its_blocks(file: &Path) -> bool {
    let out = Command::new("filefrag")
        .arg("-v")
        .arg(file)
        .output()
        .unwrap();
    let text = String::from_utf8(out.stdout).unwrap();
    // A line for each extent: its number, where it lies, its flags behind the last colon.
    let is_extent = |line: &&str| {
        line.trim_start()
            .starts_with(|it: char| it.is_ascii_digit())
    };
    let extents = text.lines().filter(is_extent);
    let mut flags = extents
        .filter_map(|line| line.rsplit(':').next())
        .peekable();
    flags.peek().is_some() && flags.all(|it| it.contains("shared"))
}

#[test]
fn an_agent_copies_by_reflink_where_the_file_system_can() {
    const BYTES: usize = 8 << 20;
    let share = Share::new("agent-reflinks", Version::V4_2);
    let driver = controller();
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let volume = made(&calls, &share, "v").await;
        let file = of_volume(share.folder(), "v/large");
        fs::write(&file, vec![7; BYTES]).unwrap();
        File::open(&file).unwrap().sync_all().unwrap();
        let agent = Agent::of(&share);
        let is_xfs = rustix::fs::statfs(share.folder()).unwrap().f_type == XFS;
        let said = agent.0.error_output();
        assert_eq!(said.contains("detail=reflinks"), is_xfs, "{said}");
        calls.ready_snapshot("s", &volume).await.unwrap();
        agent.has_copied();
        let snapshots = share.folder().join(".csi-nfs/snapshots");
        let copies = find(&snapshots, "large");
        assert_eq!(fs::read(&copies[0]).unwrap(), vec![7; BYTES]);
        assert!(!is_xfs || shares_its_blocks(&copies[0]));
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
            volumes.push(made(&calls, &share, name).await);
        }
        assert_eq!(attended(&http), 0);
        let Agent(mut agent) = Agent::of(&share);
        calls.delete(&volumes[0]).await.unwrap();
        until("the agent is seen", || attended(&http) == 1);
        let log = driver.process();
        log.wait_for_error_output("an agent lives on its server: ");
        agent.kill();
        calls.delete(&volumes[1]).await.unwrap();
        until("its death is seen", || attended(&http) == 0);
        log.wait_for_error_output("no agent lives on its server any more");
    });
}

/// Its unlink waits until the server gives up waiting for the client, in a thread of the purge; copies are made meanwhile.
#[test]
fn an_agent_copies_while_a_vanished_client_holds_a_delegation() {
    let mut server = Server::new("agent-delegation");
    server.wait_for_ever();
    let share = server.share();
    let driver = controller();
    let disk = Disk::with_foreign_files(share.folder());
    let mount = tempfile::tempdir().unwrap();
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let mut volumes = Vec::new();
        for name in ["v", "w"] {
            volumes.push(made(&calls, &share, name).await);
            let file = of_volume(share.folder(), name).join(format!("file-of-{name}"));
            fs::write(file, "content").unwrap();
        }
        let agent = Agent::of(&share);
        let client = server.client_beside(mount.path());
        let file = of_volume(mount.path(), "v/file-of-v");
        until("the client gets a delegation", || {
            // Not the first open must be given one: the way back to the client is tried before.
            assert_eq!(fs::read_to_string(&file).unwrap(), "content");
            server.has_delegated("file-of-v")
        });
        server.lose_client_beside();
        calls.delete(&volumes[0]).await.unwrap();
        calls.ready_snapshot("s", &volumes[1]).await.unwrap();
        agent.has_copied();
        assert!(!driver.log().contains(" copied "), "{}", driver.log());
        let trash = share.folder().join(".csi-nfs/trash");
        assert_eq!(find(&trash, "file-of-v").len(), 1, "held up by nobody");
        server.give_up_client_beside();
        disk.settles_with(&expected(&["w"], 1));
        server.find_client_beside();
        drop(client);
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
    const FILES: usize = 1000;
    for options in ["rw,no_root_squash", "rw,root_squash"] {
        let server = Server::exporting("agent-killed", options, None);
        let share = server.share();
        let driver = controller();
        let disk = Disk::with_foreign_files(share.folder());
        calls::runtime().block_on(async {
            let calls = Calls::to(&driver.endpoint());
            let volume = made(&calls, &share, "v").await;
            for number in 0..FILES {
                let file = of_volume(share.folder(), "v").join(number.to_string());
                fs::write(file, "content").unwrap();
            }
            let Agent(mut agent) = Agent::of(&share);
            let (calls, id) = (calls.clone(), volume);
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
            assert_eq!(find(&snapshots, "999").len(), 1);
            disk.settles_with(&expected(&["v"], 1));
            calls.delete_snapshot(&made.snapshot_id).await.unwrap();
            calls.delete(&id).await.unwrap();
            disk.settles_with(&expected(&[], 0));
        });
    }
}

/// What a tenant hangs on one file, or on many, is never in memory all at once.
#[test]
fn a_file_with_many_attributes_takes_no_memory() {
    const VALUE: usize = 60_000;
    let share = Share::new("attributes", Version::V4_2);
    let driver = controller();
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let volume = made(&calls, &share, "v").await;
        let file = of_volume(share.folder(), "v/file");
        fs::write(&file, "content").unwrap();
        // As many as there is room for, which is few on other file systems than XFS.
        let set = |number: usize| {
            let (name, value) = (format!("user.{number}"), vec![7; VALUE]);
            rustix::fs::setxattr(&file, name, &value, XattrFlags::CREATE)
        };
        let count = (0..1000).take_while(|number| set(*number).is_ok()).count();
        let is_xfs = rustix::fs::statfs(&file).unwrap().f_type == XFS;
        assert_eq!(count == 1000, is_xfs, "{count}");
        let agent = Agent::of(&share);
        let peak = || {
            let status = fs::read_to_string(format!("/proc/{}/status", agent.0.pid())).unwrap();
            let line = status.lines().find_map(|it| it.strip_prefix("VmHWM:"));
            let kib = line.unwrap().trim().strip_suffix(" kB").unwrap();
            kib.parse::<usize>().unwrap() << 10
        };
        let before = peak();
        calls.ready_snapshot("s", &volume).await.unwrap();
        agent.has_copied();
        let mut copied = find(share.folder(), "file").into_iter();
        let copied = copied.rfind(|path| *path != file).unwrap();
        for number in [0, count / 2, count.saturating_sub(1)] {
            let mut value = vec![0; VALUE];
            let name = format!("user.{number}");
            let length = rustix::fs::getxattr(&copied, name, &mut value[..]);
            assert_eq!(length.ok(), (count > 0).then_some(VALUE), "{number}");
        }
        let (more, all) = (peak() - before, count * VALUE);
        assert!(more < (8 << 20) + all / 4, "{more} more for {all}");
    });
}
