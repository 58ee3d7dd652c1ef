//! A controller on the server that enforces the sizes of volumes by itself (`--mode controller --local-share --quotas`), as a process,
//! and clients that have its volumes over NFS.

use crate::hazards::Squashed;
use crate::patience::{Patience, patiently};
use crate::scene::{MIB, Mount, Share, file_system, run, shown};
use crate::site::{Site, is_enforced, project_of, range, says_enforced, until, volume};
use crate::tools::{USER, refusal, write};
use csi_nfs::calls::volume_id::VolumeId;
use csi_nfs_store::quota::ability::FileSystem;
use csi_nfs_store::quota::project_id::ProjectId;
use csi_nfs_store::share::comparison;
use csi_nfs_store::share::database::{Expect, Share as Records};
use csi_nfs_store::share::volume::change;
use csi_proto::v1::volume_content_source::{Type, VolumeSource};
use csi_proto::v1::*;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Status};

const ENFORCE: &[(&str, &str)] = &[("quota", "enforce")];

/// A controller that has the folder of a share itself, until it is killed.
struct Local {
    process: Child,
    calls: Grpc<Channel>,
    /// Its sockets and its work folder.
    own: tempfile::TempDir,
}

impl Drop for Local {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A share that nobody has used, and a mount of it.
struct Server {
    mount: Mount,
    share: Share,
}

impl Server {
    fn on(mut share: Share) -> Self {
        fs::remove_dir(&share.records).unwrap();
        share.records = share.folder.join(".csi-nfs/projects");
        let mount = share.mount("4.2", "");
        Self { mount, share }
    }

    fn new(name: &str) -> Self {
        Self::on(Share::new(name))
    }

    /// The plan of a death, and the steps that were taken where it asks for them.
    fn plan(&self) -> PathBuf {
        self.share.folder.join("plan")
    }

    async fn controller(&self) -> Local {
        let own = tempfile::tempdir().unwrap();
        let socket = own.path().join("csi.sock");
        let share = format!("nas:/srv={}", self.share.folder.display());
        let mut command = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
        command
            .args(["--mode", "controller", "--quotas", "--local-share", &share])
            .args(["--node-id", "nas", "--endpoint"])
            .arg(&socket)
            .arg("--work-dir")
            .arg(own.path().join("work"))
            .arg("--http")
            .arg(format!("unix://{}", own.path().join("http.sock").display()))
            .env("CSI_NFS_CRASH_PLAN", self.plan());
        let process = command.spawn().unwrap();
        until("a controller", || UnixStream::connect(&socket).is_ok());
        let channel = Endpoint::try_from(format!("unix://{}", socket.display())).unwrap();
        Local {
            process,
            calls: Grpc::new(channel.connect().await.unwrap()),
            own,
        }
    }

    /// The same, of a share that has records, when it has compared for the first time: nothing else than calls takes steps then.
    async fn settled_controller(&self) -> Local {
        let report = self.share.folder.join(".csi-nfs/compared.json");
        let seen = || {
            fs::metadata(&report)
                .map(|it| (it.ino(), it.mtime_nsec()))
                .ok()
        };
        let before = seen();
        let local = self.controller().await;
        until("a comparison", || seen() != before);
        local
    }

    /// The folder as clients have it.
    fn folder(&self, volume: &Volume) -> PathBuf {
        self.mount.0.join(&volume.volume_context["subDir"])
    }

    /// The project of the folder on the server.
    fn id(&self, volume: &Volume) -> Option<ProjectId> {
        project_of(&self.share.folder.join(&volume.volume_context["subDir"]))
    }

    /// Starts another controller, and waits until these volumes alone have limits.
    async fn check(&mut self, volumes: &[Volume], mib: u64) {
        let ids: BTreeSet<_> = volumes.iter().map(|it| self.id(it).unwrap()).collect();
        assert_eq!(ids.len(), volumes.len());
        self.share.age_ledger();
        let _local = self.controller().await;
        self.share.has_these_limits_alone(&ids, mib);
    }
}

impl Local {
    /// Repeats what is aborted, as orchestrators do: a controller that has just begun may be finishing what it finds.
    async fn call<Q: csi_proto::Request + Clone>(&self, request: Q) -> Result<Q::Reply, Status> {
        let mut patience = Patience::default();
        loop {
            match self.call_once(request.clone()).await {
                Err(busy) if busy.code() == Code::Aborted && patience.lasts() => {
                    tokio::time::sleep(patience.pause()).await;
                }
                answer => return answer,
            }
        }
    }

    async fn call_once<Q: csi_proto::Request>(&self, request: Q) -> Result<Q::Reply, Status> {
        let mut calls = self.calls.clone();
        let ready = calls.ready().await;
        ready.map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(Q::METHOD.path);
        let codec = tonic_prost::ProstCodec::<Q, Q::Reply>::default();
        let answer = calls.unary(tonic::Request::new(request), path, codec);
        let answer = patiently(Q::METHOD.path, answer).await;
        answer.map(tonic::Response::into_inner)
    }

    /// What a metric says now.
    fn metric(&self, name: &str) -> f64 {
        let address = format!("unix://{}", self.own.path().join("http.sock").display());
        let mut ask = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
        let text = run(ask.args(["get", &address, "/metrics"]));
        let mut lines = text.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value.unwrap().parse().unwrap()
    }

    async fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let answer = self.call(request).await?;
        Ok(answer.volume.unwrap())
    }

    async fn expand(&self, volume: &Volume, mib: u64) -> Result<(), Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: volume.volume_id.clone(),
            capacity_range: range(mib),
            ..Default::default()
        };
        self.call(request).await.map(drop)
    }

    async fn delete(&self, volume: &Volume) {
        let request = DeleteVolumeRequest {
            volume_id: volume.volume_id.clone(),
            ..Default::default()
        };
        self.call(request).await.unwrap();
    }

    async fn condition(&self, volume: &Volume) -> VolumeCondition {
        let request = ControllerGetVolumeRequest {
            volume_id: volume.volume_id.clone(),
        };
        let answer = self.call(request).await.unwrap();
        answer.status.unwrap().volume_condition.unwrap()
    }
}

/// A volume that is a copy of `source`.
fn copy_of(source: &Volume, request: CreateVolumeRequest) -> CreateVolumeRequest {
    let volume_id = source.volume_id.clone();
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource {
            r#type: Some(Type::Volume(VolumeSource { volume_id })),
        }),
        ..request
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_on_the_server_holds_volumes_to_their_sizes_without_an_agent() {
    let mut server = Server::new("local-size");
    let local = server.controller().await;
    let made = local.create(volume("v", 10, &[])).await.unwrap();
    if !is_enforced() {
        let message = local.condition(&made).await.message;
        let why = "advisory: ext4 does not limit root";
        assert!(message.contains(why), "{message}");
        assert_eq!(server.id(&made), None);
        let refused = local.create(volume("e", 10, ENFORCE)).await.unwrap_err();
        assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
        assert_eq!(local.metric("csi_nfs_shares_limited"), 0.0);
        return;
    }
    let id = server.id(&made).unwrap();
    let message = local.condition(&made).await.message;
    assert!(says_enforced(&message, id), "{message}");
    let folder = server.folder(&made);
    assert_eq!(shown(&folder).0, 10 * MIB);
    let error = write(USER, &folder.join("large"), 20).unwrap_err();
    assert!(error.contains(refusal(file_system())), "{error}");
    write(USER, &folder.join("small"), 1).unwrap_err();
    let left = shown(&folder).1;
    assert!(
        local.condition(&made).await.abnormal,
        "{left} bytes are left"
    );
    local.expand(&made, 30).await.unwrap();
    assert_eq!(shown(&folder).0, 30 * MIB, "in use");
    write(USER, &folder.join("more"), 10).unwrap();
    assert_eq!(local.metric("csi_nfs_limit_seconds_count"), 2.0);
    let advised = [("quota", "advise")];
    let advised = local.create(volume("a", 10, &advised)).await.unwrap();
    assert_eq!(server.id(&advised), None);

    // A copy is limited from its first byte, and what is kept has no limit.
    let retain = [("onDelete", "retain")];
    let copy = copy_of(&made, volume("copy", 40, &retain));
    let copy = local.create(copy).await.unwrap();
    let copied = server.id(&copy).unwrap();
    assert_eq!(server.share.quota(copied).limits.bytes, 40 * MIB);
    assert!(server.share.quota(copied).used.bytes >= 10 * MIB);
    local.delete(&copy).await;
    local.delete(&made).await;
    server.share.reopen();
    server.share.wait_for_usage(id, |used| used.inodes == 0);
    drop(local);
    let next = server.controller().await;
    until("a share whose volumes have limits", || {
        next.metric("csi_nfs_shares_limited") == 1.0
    });
    until("the limit of what is kept is lifted", || {
        server.share.quota(copied).limits.bytes == 0
    });
    assert!(server.share.quota(copied).used.bytes >= 10 * MIB);
    // Nobody was asked, and nobody has announced itself.
    for part in ["requests", "agents"] {
        assert!(!server.share.folder.join(".csi-nfs").join(part).exists());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_on_the_server_enforces_sizes_on_ext4_where_root_is_squashed() {
    let mut server = Server::on(Share::alone("local-ext4"));
    // Declared last: all is as it was when another test gets the disk.
    let _squashed = Squashed::begin();
    let local = server.controller().await;
    let made = local.create(volume("v", 10, ENFORCE)).await.unwrap();
    let folder = server.folder(&made);
    assert_eq!(shown(&folder).0, 10 * MIB);
    let id = server.id(&made).unwrap();
    for (user, file) in [(USER, "user"), (0, "root")] {
        let error = write(user, &folder.join(file), 20).unwrap_err();
        assert!(error.contains(refusal(FileSystem::Ext4)), "{error}");
        fs::remove_file(folder.join(file)).unwrap();
        server.share.wait_for_usage(id, |used| used.bytes < MIB);
    }
    // Nor does the controller itself get beyond it.
    write(USER, &folder.join("file"), 8).unwrap();
    let second = copy_of(&made, volume("copy", 10, ENFORCE));
    let second = local.create(second).await.unwrap();
    local.expand(&made, 30).await.unwrap();
    local.expand(&second, 30).await.unwrap();
    write(USER, &folder.join("more"), 16).unwrap();
    drop(local);
    server.check(&[made, second], 30).await;
}

/// The steps that an operation takes, each with how often it was taken before.
fn steps(server: &Server) -> Vec<(usize, String)> {
    let taken = fs::read_to_string(server.plan().with_extension("steps")).unwrap();
    let mut counts = BTreeMap::<&str, usize>::new();
    let mut steps = Vec::new();
    for step in taken.lines() {
        let count = counts.entry(step).or_default();
        steps.push((*count, step.to_owned()));
        *count += 1;
    }
    steps
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_dies_at_any_step_leaves_no_volume_without_its_limit_on_xfs() {
    let mut server = Server::on(Share::alone("local-killed"));
    let mut made = Vec::new();
    let local = server.controller().await;
    let expanded = local.create(volume("expanded", 10, ENFORCE)).await.unwrap();
    drop(local);
    for is_expansion in [false, true] {
        let local = server.settled_controller().await;
        fs::write(server.plan(), "trace").unwrap();
        match is_expansion {
            false => made.push(
                local
                    .create(volume("undisturbed", 30, ENFORCE))
                    .await
                    .unwrap(),
            ),
            true => local.expand(&expanded, 11).await.unwrap(),
        }
        let steps = steps(&server);
        fs::remove_file(server.plan()).unwrap();
        fs::remove_file(server.plan().with_extension("steps")).unwrap();
        let taken: Vec<_> = steps.iter().map(|(_, step)| step.as_str()).collect();
        assert!(taken.contains(&"the folder is limited"), "{taken:?}");
        drop(local);
        for (number, (count, step)) in steps.into_iter().enumerate() {
            let name = format!("killed-{number}");
            let larger = 12 + u64::try_from(number).unwrap();
            let request = volume(&name, 30, ENFORCE);
            let mut dying = server.settled_controller().await;
            fs::write(server.plan(), format!("{count} {step}")).unwrap();
            let refused = match is_expansion {
                false => dying.create(request.clone()).await.map(drop),
                true => dying.expand(&expanded, larger).await,
            };
            refused.unwrap_err();
            until(&step, || dying.process.try_wait().unwrap().is_some());
            fs::remove_file(server.plan()).unwrap();
            // What it has left is finished by the next one, also by a repeat of the call.
            let next = server.controller().await;
            let volume = match is_expansion {
                false => {
                    made.push(next.create(request).await.unwrap());
                    made.last().unwrap()
                }
                true => {
                    next.expand(&expanded, larger).await.unwrap();
                    &expanded
                }
            };
            let mib = if is_expansion { larger } else { 30 };
            assert_eq!(shown(&server.folder(volume)).0, mib * MIB, "{step}");
            let id = server.id(volume).unwrap();
            let message = next.condition(volume).await.message;
            assert!(says_enforced(&message, id), "{step}: {message}");
        }
    }
    let local = server.controller().await;
    local.expand(&expanded, 30).await.unwrap();
    made.push(expanded);
    // A restart puts right what somebody has changed meanwhile.
    drop(local);
    let changed = server.id(&made[0]).unwrap();
    csi_nfs_store::quota::project::lift_limits(server.share.root(), changed).unwrap();
    server.check(&made, 30).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_beside_a_controller_that_sets_limits_does_no_harm_on_xfs() {
    let mut site = Site::alone("local-agent").await;
    let agent = site.agent();
    let mut server = Server {
        mount: site.share.mount("4.2", ""),
        share: site.share,
    };
    let local = Arc::new(server.controller().await);
    let mut calls = tokio::task::JoinSet::new();
    for number in 0..24 {
        let (local, away) = (Arc::clone(&local), site.controller.clone());
        calls.spawn(async move {
            // Half of them by a controller elsewhere, which asks the agent.
            let request = volume(&format!("v-{number}"), 4, ENFORCE);
            use csi_proto::v1::controller_server::Controller as _;
            let made = match number % 2 {
                0 => local.create(request).await.unwrap(),
                _ => {
                    let request = tonic::Request::new(request);
                    let answer = away.create_volume(request).await.unwrap();
                    answer.into_inner().volume.unwrap()
                }
            };
            local.expand(&made, 8).await.unwrap();
            made
        });
    }
    let made = calls.join_all().await;
    for volume in &made {
        let id = server.id(volume).unwrap();
        assert_eq!(server.share.quota(id).limits.bytes, 8 * MIB);
    }
    drop(agent);
    drop(local);
    server.check(&made, 8).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_comparison_beside_an_expansion_takes_nothing_back_on_xfs() {
    let mut server = Server::new("local-compared");
    let local = server.controller().await;
    let made = local.create(volume("v", 4, ENFORCE)).await.unwrap();
    drop(local);
    server.share.reopen();
    let id = server.id(&made).unwrap();
    let known: VolumeId = made.volume_id.parse().unwrap();
    let open = |folder: &PathBuf| {
        let root = Arc::new(File::open(folder).unwrap().into());
        let share = Records::open(root, Expect::Initialised).unwrap();
        share.with_quotas()
    };
    let is_done = Arc::new(AtomicBool::new(false));
    let comparing = std::thread::spawn({
        let (folder, is_done) = (server.share.folder.clone(), Arc::clone(&is_done));
        move || {
            let mut count = 0;
            while !is_done.load(Ordering::Relaxed) {
                comparison::keep_up(&open(&folder)).unwrap();
                count += 1;
            }
            count
        }
    });
    for mib in 5..105 {
        let share = open(&server.share.folder);
        let bytes = i64::try_from(mib * MIB).unwrap();
        change::expand(&share, known.key, known.nonce, bytes, 0).unwrap();
        assert_eq!(server.share.quota(id).limits.bytes, mib * MIB);
    }
    is_done.store(true, Ordering::Relaxed);
    let compared = comparing.join().unwrap();
    assert!(compared > 10, "{compared}");
}

#[test]
fn a_process_that_gives_pods_bind_mounts_does_not_begin() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
    command.args(["--endpoint", "/run/never.sock", "--mode", "all", "--quotas"]);
    let ended = command.args(["--local-share", "nas:/srv=/srv"]).output();
    let ended = ended.unwrap();
    let said = String::from_utf8_lossy(&ended.stderr);
    assert_eq!(ended.status.code(), Some(2), "{said}");
    assert!(
        said.contains("bind mounts") && said.contains("--mode controller"),
        "{said}"
    );
}
