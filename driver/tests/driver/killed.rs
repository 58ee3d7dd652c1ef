//! SIGKILL before each system call by which an operation changes something: of the driver, of a thread of it, or of its helper. The
//! call is repeated then, and what it has left is looked at: mounts, records, folders.
//!
//! strace kills, by name and number of the call. An undisturbed run tells both. Which of its threads makes a call differs from run
//! to run, so no thread may come to the last numbers.

use crate::rig::patience::Patience;
use crate::rig::{Client, Driver, Rig, publish_request, stage_request};
use crate::strace::{Kills, TRIES, counts, has_killed, kill_before, numbers, words};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{
    CreateSnapshotRequest, CreateVolumeRequest, DeleteSnapshotRequest, DeleteVolumeRequest,
    ListSnapshotsRequest, ListVolumesRequest, NodePublishVolumeRequest, Volume,
};
use rustix::process::Signal;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::Path;
use std::time::Duration;
use tonic::{Code, Status};

/// System calls that change something. Those that a processor does not have are left out by strace.
const CHANGING: &str = "?mkdir,?mkdirat,?rename,?renameat,?renameat2,?link,?linkat,?unlink,?unlinkat,?rmdir,?symlink,?symlinkat,\
    ?chmod,?fchmod,?fchmodat,?chown,?fchown,?fchownat,?utimensat,?setxattr,?fsetxattr,?copy_file_range,?ftruncate,?mknodat,\
    ?write,?pwrite64,?mount,?umount2,?move_mount,?unshare,?setns";

/// Between two looks at what no event tells.
const PAUSE: Duration = Duration::from_millis(5);

/// What is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Operation {
    Create,
    Delete,
    Snapshot,
    Publish,
    Unpublish,
    Stage,
    Unstage,
}

/// A rig with what the operation needs.
struct Scene {
    rig: Rig,
    operation: Operation,
    /// The volume's id, once there is one.
    volume: String,
    publish: NodePublishVolumeRequest,
}

impl Scene {
    async fn new(operation: Operation) -> Self {
        let rig = Rig::new();
        let publish = publish_request("v", &rig.path("target"), Mode::SingleNodeWriter);
        std::fs::create_dir(rig.path("staging")).unwrap();
        let mut scene = Self {
            rig,
            operation,
            volume: String::new(),
            publish,
        };
        let driver = scene.plain_driver();
        let client = Client::connect(&scene.rig).await;
        if operation != Operation::Create {
            let volume = scene.create(&client).await.unwrap();
            let folder = scene
                .rig
                .path("export")
                .join(&volume.volume_context["subDir"]);
            std::fs::write(folder.join("file"), "content").unwrap();
            scene.volume.clone_from(&volume.volume_id);
            scene.publish.volume_id = volume.volume_id;
            scene.publish.volume_context = volume.volume_context;
        }
        match operation {
            Operation::Unpublish => scene.publish(&client).await.unwrap(),
            Operation::Unstage => scene.stage(&client).await.unwrap(),
            _ => {}
        }
        driver.kill();
        scene
    }

    fn flags(&self) -> &'static [&'static str] {
        match self.operation {
            Operation::Stage | Operation::Unstage => &["--stage"],
            _ => &[],
        }
    }

    fn plain_driver(&self) -> Driver {
        self.rig.driver_with(self.flags())
    }

    /// A driver whose calls strace writes down, and does `inject` to.
    fn traced_driver(&self, log: &Path, inject: Option<&str>) -> Driver {
        let words = words(log, CHANGING, inject);
        let mut command = self.rig.command(&words[0]);
        command.args(&words[1..]);
        command.arg(env!("CARGO_BIN_EXE_csi-nfs"));
        self.rig.add_flags(&mut command);
        Driver::start(command.args(self.flags()))
    }

    async fn create(&self, client: &Client) -> Result<Volume, Status> {
        let reply = client.call(CreateVolumeRequest {
            name: "v".to_owned(),
            volume_capabilities: self.publish.volume_capability.clone().into_iter().collect(),
            ..Default::default()
        });
        Ok(reply.await?.volume.unwrap())
    }

    async fn publish(&self, client: &Client) -> Result<(), Status> {
        client.publish(self.publish.clone()).await
    }

    async fn stage(&self, client: &Client) -> Result<(), Status> {
        let mut publish = self.publish.clone();
        let stage = stage_request(&mut publish, &self.rig.path("staging"));
        client.stage(stage).await
    }

    async fn call(&self, client: &Client) -> Result<(), Status> {
        let (target, staging) = (self.rig.path("target"), self.rig.path("staging"));
        match self.operation {
            Operation::Create => self.create(client).await.map(drop),
            Operation::Delete => delete_volume(client, &self.volume).await,
            Operation::Snapshot => {
                let reply = client.call(CreateSnapshotRequest {
                    source_volume_id: self.volume.clone(),
                    name: "s".to_owned(),
                    ..Default::default()
                });
                assert!(reply.await?.snapshot.unwrap().ready_to_use);
                Ok(())
            }
            Operation::Publish => self.publish(client).await,
            Operation::Unpublish => client.unpublish(&self.volume, &target).await,
            Operation::Stage => self.stage(client).await,
            Operation::Unstage => client.unstage(&self.volume, &staging).await,
        }
    }

    /// What the operation has led to, after which nothing of it goes on.
    async fn check_done(&self, client: &Client) {
        let (volumes, snapshots) = (volumes(client).await, snapshots(client).await);
        let mounts = |name| self.rig.mounts(name).len();
        let has_volume = self.operation != Operation::Delete;
        assert_eq!(volumes.len(), usize::from(has_volume), "{volumes:?}");
        let folders = names(&self.rig.path("export"));
        let folders = folders.iter().filter(|name| *name != ".csi-nfs");
        assert_eq!(folders.count(), usize::from(has_volume));
        let has_snapshot = self.operation == Operation::Snapshot;
        assert_eq!(snapshots.len(), usize::from(has_snapshot));
        let is_published = self.operation == Operation::Publish;
        assert_eq!(mounts("target"), usize::from(is_published));
        assert_eq!(self.rig.path("target").exists(), is_published);
        if is_published {
            let content = std::fs::read_to_string(self.rig.inside("target/file"));
            assert_eq!(content.unwrap(), "content");
        }
        let is_staged = self.operation == Operation::Stage;
        assert_eq!(mounts("staging"), usize::from(is_staged));
        let mut trash = Vec::new();
        let mut patience = Patience::default();
        while patience.lasts() {
            trash = names(&self.rig.path("export/.csi-nfs/trash"));
            if trash.is_empty() {
                return;
            }
            tokio::time::sleep(PAUSE).await;
        }
        panic!("the trash still has {trash:?}");
    }

    /// Takes back what is there, after which nothing at all is left.
    async fn check_undone(&self, client: &Client) {
        let (target, staging) = (self.rig.path("target"), self.rig.path("staging"));
        for volume in volumes(client).await {
            client.unpublish(&volume, &target).await.unwrap();
            if !self.flags().is_empty() {
                client.unstage(&volume, &staging).await.unwrap();
            }
        }
        for snapshot_id in snapshots(client).await {
            let request = DeleteSnapshotRequest {
                snapshot_id,
                ..Default::default()
            };
            client.call(request).await.unwrap();
        }
        for volume in volumes(client).await {
            delete_volume(client, &volume).await.unwrap();
        }
        assert_eq!(self.rig.mount_points(), Vec::<String>::new());
        assert!(!target.exists());
        for folder in ["publishes", "stages", "scratch"] {
            let left = names(&self.rig.path("work").join(folder));
            assert_eq!(left, Vec::<String>::new(), "{folder}");
        }
        assert_eq!(names(&self.rig.path("export")), [".csi-nfs"]);
        for folder in ["volumes", "snapshots", "folders"] {
            let left = names(&self.rig.path("export/.csi-nfs").join(folder));
            assert_eq!(left, Vec::<String>::new(), "{folder}");
        }
    }
}

async fn delete_volume(client: &Client, volume: &str) -> Result<(), Status> {
    let request = DeleteVolumeRequest {
        volume_id: volume.to_owned(),
        ..Default::default()
    };
    client.call(request).await.map(drop)
}

async fn volumes(client: &Client) -> Vec<String> {
    let list = until_done(async || client.call(ListVolumesRequest::default()).await).await;
    let volumes = list.entries.into_iter().filter_map(|entry| entry.volume);
    volumes.map(|volume| volume.volume_id).collect()
}

async fn snapshots(client: &Client) -> Vec<String> {
    let list = until_done(async || client.call(ListSnapshotsRequest::default()).await).await;
    let snapshots = list.entries.into_iter().filter_map(|entry| entry.snapshot);
    snapshots.map(|snapshot| snapshot.snapshot_id).collect()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.collect()
}

/// Repeats a call for as long as an orchestrator would.
async fn until_done<T>(call: impl AsyncFn() -> Result<T, Status>) -> T {
    let mut patience = Patience::default();
    loop {
        match call().await {
            Ok(done) => return done,
            Err(status) => {
                let again = matches!(
                    status.code(),
                    Code::Aborted | Code::Unavailable | Code::DeadlineExceeded
                );
                assert!(again && patience.lasts(), "{status}");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

/// The calls that the operation makes undisturbed: their names, and their numbers in their threads.
async fn calls_of(operation: Operation) -> BTreeMap<String, RangeInclusive<u32>> {
    let scene = Scene::new(operation).await;
    let log = scene.rig.path("strace");
    let mut driver = scene.traced_driver(&log, None);
    let client = Client::connect_soon(&scene.rig, &mut driver).await.unwrap();
    let before = counts(&log);
    scene.call(&client).await.unwrap();
    scene.check_done(&client).await;
    let mut patience = Patience::default();
    let pid = driver.pid();
    driver.kill();
    while !has_killed(&log) {
        assert!(patience.lasts(), "the tracer of {pid} goes on");
        tokio::time::sleep(PAUSE).await;
    }
    numbers(&before, &counts(&log))
}

/// Kills before one call, repeats the operation, and looks. Returns whether something was killed.
async fn survive(operation: Operation, call: &str, number: u32) -> bool {
    let scene = Scene::new(operation).await;
    let log = scene.rig.path("strace");
    let mut traced = scene.traced_driver(&log, Some(&kill_before(call, number)));
    if let Some(client) = Client::connect_soon(&scene.rig, &mut traced).await {
        // Its answer does not count: it may have gone with the driver.
        let _ = scene.call(&client).await;
        if traced.is_running() {
            // What it does after the answer may be killed as well.
            let _ = client.call(ListVolumesRequest::default()).await;
        }
    }
    // The driver, or its helper.
    let was_hit = !traced.is_running() || has_killed(&log);
    traced.kill();
    repeat(&scene).await;
    was_hit
}

/// Repeats the call to a new driver, looks at what is there, takes all of it back, and looks at what is left.
async fn repeat(scene: &Scene) {
    let driver = scene.plain_driver();
    let client = Client::connect(&scene.rig).await;
    until_done(async || scene.call(&client).await).await;
    scene.check_done(&client).await;
    scene.check_undone(&client).await;
    driver.kill();
}

/// The same, until something was killed.
async fn survive_a_hit(operation: Operation, call: &str, number: u32) -> bool {
    for _ in 0..TRIES {
        if survive(operation, call, number).await {
            return true;
        }
    }
    false
}

async fn survives_every_kill(operation: Operation) {
    let calls = calls_of(operation).await;
    assert!(calls.len() > 1, "{calls:?}");
    let mut hit = BTreeSet::new();
    for (call, numbers) in calls {
        let mut kills = Kills::new(numbers.clone());
        while let Some(number) = kills.number() {
            kills.was_hit(survive_a_hit(operation, &call, number).await);
        }
        eprintln!(
            "{operation:?}: {} kills before {call}, of {numbers:?}",
            kills.hits
        );
        hit.extend((kills.hits > 0).then_some(call));
    }
    // Some calls are made in some runs only, such as the write by which a thread wakes another.
    assert!(hit.len() > 1, "{hit:?}");
}

/// The driver is killed alone, while its helper is about to unmount, or has just done so and was not heard.
async fn survives_while_its_helper_works(operation: Operation) {
    for delay in ["delay_enter", "delay_exit"] {
        let scene = Scene::new(operation).await;
        let inject = format!("inject=umount2:{delay}=60000000:when=1");
        let log = scene.rig.path("strace");
        let mut driver = scene.traced_driver(&log, Some(&inject));
        let client = Client::connect_soon(&scene.rig, &mut driver).await.unwrap();
        let calling = async {
            let _ = scene.call(&client).await;
            panic!("the helper was not delayed");
        };
        let target = match operation {
            Operation::Unpublish => "target",
            _ => "staging",
        };
        let working = async {
            let mut patience = Patience::default();
            let is_unmounting = || match delay {
                "delay_exit" => scene.rig.mounts(target).is_empty(),
                _ => driver.children().iter().any(|nursery| has_child(*nursery)),
            };
            while !is_unmounting() {
                assert!(patience.lasts(), "no helper");
                tokio::time::sleep(PAUSE).await;
            }
        };
        tokio::select! {
            () = working => {}
            () = calling => {}
        }
        driver.signal(Signal::KILL);
        driver.wait();
        repeat(&scene).await;
    }
}

fn has_child(pid: u32) -> bool {
    let path = format!("/proc/{pid}/task/{pid}/children");
    std::fs::read_to_string(path).is_ok_and(|children| !children.trim().is_empty())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_driver_killed_while_its_helper_unmounts() {
    survives_while_its_helper_works(Operation::Unpublish).await;
    survives_while_its_helper_works(Operation::Unstage).await;
}

macro_rules! killed {
    ($($name:ident: $operation:ident),* $(,)?) => { $(
        #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
        async fn $name() {
            survives_every_kill(Operation::$operation).await;
        }
    )* };
}

killed! {
    a_driver_killed_before_any_change_of_a_creation: Create,
    a_driver_killed_before_any_change_of_a_deletion: Delete,
    a_driver_killed_before_any_change_of_a_snapshot: Snapshot,
    a_driver_killed_before_any_change_of_a_publish: Publish,
    a_driver_killed_before_any_change_of_an_unpublish: Unpublish,
    a_driver_killed_before_any_change_of_a_stage: Stage,
    a_driver_killed_before_any_change_of_an_unstage: Unstage,
}
