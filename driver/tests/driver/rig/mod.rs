//! A driver process in a mount namespace of its own, and calls to it. Whatever a test leaves mounted or running ends with
//! the test: the namespace's keeper is killed, and the kernel takes the mounts away.

#![allow(dead_code, clippy::unwrap_used)] // Every test file uses a part of it.

#[path = "../../../../tests/support/patience.rs"]
pub mod patience;
#[path = "../../../../tests/support/process.rs"]
mod process;

use crate::placed::of_volume;
use csi_proto::Request as _;
use csi_proto::schema::Method;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::{
    NodePublishVolumeRequest, NodePublishVolumeResponse, NodeStageVolumeRequest,
    NodeUnpublishVolumeRequest, NodeUnstageVolumeRequest, VolumeCapability,
};
use patience::{PATIENCE, Patience, patiently};
use process::Process;
use rustix::process::Signal;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Response, Status};

/// A folder and a mount namespace.
pub struct Rig {
    pub dir: tempfile::TempDir,
    keeper: Child,
}

impl Rig {
    /// A new folder with an export in `export`, and a new mount namespace.
    pub fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("export")).unwrap();
        let mut keeper = Command::new("setpriv");
        keeper.args([
            "--pdeathsig",
            "KILL",
            "unshare",
            "--mount",
            "--propagation",
            "private",
        ]);
        if !rustix::process::geteuid().is_root() {
            keeper.arg("--map-root-user");
        }
        let mut keeper = keeper
            .args(["sh", "-c", "echo ready; exec sleep infinity"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut ready = String::new();
        BufReader::new(keeper.stdout.as_mut().unwrap())
            .read_line(&mut ready)
            .unwrap();
        assert_eq!(
            ready, "ready\n",
            "no mount namespace of one's own here: run as root, or allow user namespaces"
        );
        Self { dir, keeper }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        of_volume(&self.dir.path().canonicalize().unwrap(), name)
    }

    /// The same path as processes of the namespace see it.
    pub fn inside(&self, name: &str) -> PathBuf {
        let path = self.path("");
        let below = path.strip_prefix("/").unwrap();
        let root = Path::new("/proc").join(self.keeper.id().to_string());
        of_volume(&root.join("root").join(below), name)
    }

    /// The lines of mountinfo that name `target`.
    pub fn mounts(&self, target: &str) -> Vec<String> {
        let path = format!("/proc/{}/mountinfo", self.keeper.id());
        let target = format!(" {} ", self.path(target).display());
        let text = std::fs::read_to_string(path).unwrap();
        text.lines()
            .filter(|line| line.contains(&target))
            .map(str::to_owned)
            .collect()
    }

    /// What is mounted below the rig's folder, as mountinfo spells it.
    pub fn mount_points(&self) -> Vec<String> {
        let path = format!("/proc/{}/mountinfo", self.keeper.id());
        let folder = self.path("").display().to_string();
        let text = std::fs::read_to_string(path).unwrap();
        let points = text.lines().filter_map(|line| line.split(' ').nth(4));
        points
            .filter(|point| point.starts_with(&folder))
            .map(str::to_owned)
            .collect()
    }

    /// A command that runs in the namespace and dies with the test.
    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new("setpriv");
        command.args([
            "--pdeathsig",
            "KILL",
            "nsenter",
            "--mount",
            "--target",
            &self.keeper.id().to_string(),
        ]);
        if !rustix::process::geteuid().is_root() {
            command.args(["--user", "--preserve-credentials"]);
        }
        command.arg(program);
        command
    }

    /// The driver's command, with the export `server:/` on the local folder.
    pub fn driver_command(&self) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_csi-nfs"));
        self.add_flags(&mut command);
        command
    }

    /// From now on what is mounted below the rig's folder is mounted in all namespaces that come of this one, as what a container
    /// mounts with bidirectional propagation is on its node. To be called before anything is mounted there.
    pub fn share_mounts(&self) {
        let folder = self.path("");
        let mut bind = self.command("mount");
        bind.arg("--bind").arg(&folder).arg(&folder);
        assert!(run(&mut bind).0.success());
        let mut share = self.command("mount");
        share.arg("--make-shared").arg(&folder);
        assert!(run(&mut share).0.success());
    }

    /// A driver that serves, started with these limits of open files.
    pub fn limited_driver(&self, soft: u32, hard: u32) -> Driver {
        let mut command = self.command("sh");
        let line = format!("ulimit -Sn {soft} && ulimit -Hn {hard} && exec \"$0\" \"$@\"");
        command
            .args(["-c", &line])
            .arg(env!("CARGO_BIN_EXE_csi-nfs"));
        self.add_flags(&mut command);
        let mut driver = Driver::start(&mut command);
        driver.wait_for("serving");
        driver
    }

    /// A driver that serves in a mount namespace of its own, as in a container.
    pub fn contained_driver(&self, flags: &[&str]) -> Driver {
        let mut command = self.command("unshare");
        command
            .args(["--mount", "--propagation", "unchanged"])
            .arg(env!("CARGO_BIN_EXE_csi-nfs"));
        self.add_flags(&mut command);
        let mut driver = Driver::start(command.args(flags));
        driver.wait_for("serving");
        driver
    }

    /// A driver's command without any share, for which the kernel has an NFS client as soon as the file `client` is there.
    pub fn clientless_command(&self) -> Command {
        let mut command = self.command(env!("CARGO_BIN_EXE_csi-nfs"));
        command.env("CSI_NFS_CLIENT", self.path("client"));
        self.add_places(&mut command);
        command
    }

    /// The flags of every driver of this rig.
    pub fn add_flags(&self, command: &mut Command) {
        self.add_places(command);
        command
            .arg("--local-share")
            .arg(format!("server:/={}", self.path("export").display()));
    }

    fn add_places(&self, command: &mut Command) {
        command
            .arg("--endpoint")
            .arg(self.path("csi.sock"))
            .arg("--work-dir")
            .arg(self.path("work"))
            .args(["--node-id", "node-1"]);
    }

    /// A driver that serves.
    pub fn driver(&self) -> Driver {
        self.driver_with(&[])
    }

    /// A driver that serves, with more flags.
    pub fn driver_with(&self, flags: &[&str]) -> Driver {
        let mut driver = Driver::start(self.driver_command().args(flags));
        driver.wait_for("serving");
        driver
    }
}

impl Drop for Rig {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}

/// A driver process and its log.
pub struct Driver {
    process: Process,
    /// How many bytes of the log [`Driver::wait_for`] has passed.
    read: usize,
}

impl Driver {
    pub fn start(command: &mut Command) -> Self {
        // Five seconds are short, where the machine is busy. Who tests the bound gives its own.
        if command.get_args().all(|arg| arg != "controller") {
            command.env("CSI_NFS_STATS_TIMEOUT", "60s");
        }
        let process = Process::start(command);
        Self { process, read: 0 }
    }

    /// Waits for a log line that holds `text`, after the one that the last wait has found.
    pub fn wait_for(&mut self, text: &str) -> String {
        self.process.wait_for_error_line(&mut self.read, text)
    }

    pub fn pid(&self) -> u32 {
        self.process.pid().as_raw_pid().unsigned_abs()
    }

    /// The processes that it has started: the nursery of helpers, once there was one.
    pub fn children(&self) -> Vec<u32> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let children = tasks.flatten().map(|task| {
            let text = std::fs::read_to_string(task.path().join("children"));
            text.unwrap_or_default()
        });
        let all: Vec<String> = children.collect();
        let words = all.iter().flat_map(|text| text.split_whitespace());
        words.map(|pid| pid.parse().unwrap()).collect()
    }

    pub fn log(&self) -> Vec<String> {
        let log = self.process.error_output();
        log.lines().map(str::to_owned).collect()
    }

    /// Whether the process has `path` open.
    pub fn has_open(&self, path: &Path) -> bool {
        let descriptors = std::fs::read_dir(format!("/proc/{}/fd", self.pid()));
        let mut open = descriptors.into_iter().flatten().flatten();
        open.any(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == path))
    }

    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    pub fn wait(&mut self) -> ExitStatus {
        self.process.wait_for_death()
    }

    /// Kills it as the kernel would when memory is short.
    pub fn kill(mut self) {
        self.process.kill();
    }
}

/// Calls over a unix socket.
#[derive(Clone)]
pub struct Client(tonic::client::Grpc<Channel>);

impl Client {
    pub async fn connect(rig: &Rig) -> Self {
        Self::try_connect(rig).await.unwrap()
    }

    async fn try_connect(rig: &Rig) -> Result<Self, tonic::transport::Error> {
        let uri = format!("unix://{}", rig.path("csi.sock").display());
        let channel = Endpoint::try_from(uri).unwrap().connect().await?;
        Ok(Self::over(channel))
    }

    /// The same for a driver that has just been started, and may not say when it serves. `None` when it has ended.
    pub async fn connect_soon(rig: &Rig, driver: &mut Driver) -> Option<Self> {
        let mut patience = Patience::default();
        while std::os::unix::net::UnixStream::connect(rig.path("csi.sock")).is_err() {
            if !driver.is_running() {
                return None;
            }
            assert!(patience.lasts(), "nobody serves");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Self::try_connect(rig).await.ok()
    }

    pub fn over(channel: Channel) -> Self {
        Self(tonic::client::Grpc::new(channel))
    }

    /// One unary call.
    pub async fn call<Q: csi_proto::Request>(&self, request: Q) -> Result<Q::Reply, Status> {
        let reply = self.send(Q::METHOD, Request::new(request)).await?;
        Ok(reply.into_inner())
    }

    /// The same, with metadata both ways, and for messages that need not be those of the method.
    pub async fn send<Q, R>(
        &self,
        method: &Method,
        request: Request<Q>,
    ) -> Result<Response<R>, Status>
    where
        Q: prost::Message + 'static,
        R: prost::Message + Default + 'static,
    {
        let mut grpc = self.0.clone();
        grpc.ready()
            .await
            .map_err(|error| Status::unavailable(error.to_string()))?;
        let path = http::uri::PathAndQuery::from_static(method.path);
        let codec = tonic_prost::ProstCodec::<Q, R>::default();
        patiently(method.path, grpc.unary(request, path, codec)).await
    }

    /// Publishes, and returns what the driver wants to be told to the user.
    pub async fn publish_with_note(
        &self,
        request: NodePublishVolumeRequest,
    ) -> Result<Option<String>, Status> {
        let reply: Response<NodePublishVolumeResponse> = self
            .send(NodePublishVolumeRequest::METHOD, Request::new(request))
            .await?;
        let note = reply.metadata().get("csi-nfs-note");
        Ok(note.map(|note| note.to_str().unwrap().to_owned()))
    }

    pub async fn publish(&self, request: NodePublishVolumeRequest) -> Result<(), Status> {
        self.call(request).await.map(drop)
    }

    /// A publish by a caller who waits no longer than `bound`.
    pub async fn publish_within(
        &self,
        request: NodePublishVolumeRequest,
        bound: Duration,
    ) -> Result<(), Status> {
        let mut request = Request::new(request);
        request.set_timeout(bound);
        let reply: Result<Response<NodePublishVolumeResponse>, _> =
            self.send(NodePublishVolumeRequest::METHOD, request).await;
        reply.map(drop)
    }

    pub async fn stage(&self, request: NodeStageVolumeRequest) -> Result<(), Status> {
        self.call(request).await.map(drop)
    }

    pub async fn unstage(&self, volume: &str, staging: &Path) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest {
            volume_id: volume.to_owned(),
            staging_target_path: staging.display().to_string(),
        };
        self.call(request).await.map(drop)
    }

    pub async fn unpublish(&self, volume: &str, target: &Path) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: volume.to_owned(),
            target_path: target.display().to_string(),
        };
        self.call(request).await.map(drop)
    }
}

/// A publish of `volume`, which is the folder of that name below the local export.
pub fn publish_request(volume: &str, target: &Path, mode: Mode) -> NodePublishVolumeRequest {
    let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
    NodePublishVolumeRequest {
        volume_id: volume.to_owned(),
        target_path: target.display().to_string(),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(AccessMode { mode: mode.into() }),
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }),
        volume_context: [
            pair("server", "server"),
            pair("share", "/"),
            pair("subDir", volume),
        ]
        .into(),
        ..Default::default()
    }
}

/// What stages the volume of `publish` at `staging`; `publish` is from there then.
pub fn stage_request(
    publish: &mut NodePublishVolumeRequest,
    staging: &Path,
) -> NodeStageVolumeRequest {
    publish.staging_target_path = staging.display().to_string();
    NodeStageVolumeRequest {
        volume_id: publish.volume_id.clone(),
        staging_target_path: publish.staging_target_path.clone(),
        volume_capability: publish.volume_capability.clone(),
        volume_context: publish.volume_context.clone(),
        ..Default::default()
    }
}

/// All that a command writes to stderr until it ends, and how it ended.
pub fn run(command: &mut Command) -> (ExitStatus, String) {
    let ended = Process::start(command).wait(PATIENCE).unwrap();
    (ended.status, String::from_utf8(ended.stderr).unwrap())
}
