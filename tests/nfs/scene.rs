//! What the tests of this program start from: a share of the kernel's NFS server, a driver, and what they leave.

use crate::support::calls::{self, Calls, Map};
use crate::support::driver::Driver;
use crate::support::patience::Patience;
use csi_proto::v1::*;
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use tonic::{Code, Status};

/// A version of NFS, as the mount option `vers` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    V3,
    V4_0,
    V4_2,
}

impl Version {
    fn option(self) -> &'static str {
        match self {
            Self::V3 => "3",
            Self::V4_0 => "4.0",
            Self::V4_2 => "4.2",
        }
    }
}

/// Options that let a client answer from what it knew minutes ago, give up calls that may still take effect, and share
/// caches with every mount on the machine. They are a pod's business, and must not reach the controller's own mount.
pub const HOSTILE_OPTIONS: &str = "nocto,actimeo=600,lookupcache=all,sharecache,soft,ro";

/// A folder of the export, made for one test.
pub struct Share {
    server: String,
    folder: PathBuf,
    path: String,
    /// The mount options of its volumes.
    options: String,
}

impl Share {
    /// A new share; `name` is the test's.
    pub fn new(name: &str, version: Version) -> Self {
        let variable = |name: &str| {
            std::env::var(name).unwrap_or_else(|_| {
                panic!("{name} is not set: these tests need an NFS server, so start them with tests/run")
            })
        };
        let (export, export_v4) = (variable("EXPORT"), variable("EXPORT_V4"));
        let name = format!("{name}-{}", version.option());
        let folder = Path::new(&export).join(&name);
        fs::create_dir(&folder).unwrap();
        // As a server's administrator would leave a share that pods of any user write to.
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o777)).unwrap();
        // The server's versions name the same folder differently.
        let root = match version {
            Version::V3 => export,
            Version::V4_0 | Version::V4_2 => export_v4,
        };
        Self {
            server: "127.0.0.1".to_owned(),
            path: format!("{}/{name}", root.trim_end_matches('/')),
            folder,
            options: format!("vers={}", version.option()),
        }
    }

    /// The same, whose volumes have more mount options.
    pub fn with_options(self, more: &str) -> Self {
        let options = format!("{},{more}", self.options);
        Self { options, ..self }
    }

    /// All that a server exports, which is `folder` on its disk.
    pub fn whole(server: &str, folder: &Path) -> Self {
        Self {
            server: server.to_owned(),
            path: "/".to_owned(),
            folder: folder.to_owned(),
            options: format!("vers={}", Version::V4_2.option()),
        }
    }

    /// The parameters of a volume on this share, and the context of one that was made by hand.
    pub fn parameters(&self) -> Map {
        calls::map(&[
            ("server", &self.server),
            ("share", &self.path),
            ("mountOptions", &self.options),
        ])
    }

    /// The mount options of its volumes.
    pub fn options(&self) -> &str {
        &self.options
    }

    /// The folder on the server's disk.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The path that a client mounts.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The parameters of a volume on this share, for `--params`.
    pub fn params(&self) -> String {
        format!(
            "server={},share={},\"mountOptions={}\"",
            self.server, self.path, self.options
        )
    }

    /// The names in the share beside the driver's own folder.
    pub fn entries(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.folder).unwrap();
        let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
        names.filter(|name| name != RECORDS).collect()
    }

    /// Waits until what was deleted is really gone: nothing but the driver's own folder is left, and in it no file of a
    /// user's. A purge goes on behind the answer, and the driver announces its end nowhere: the folder is looked at.
    pub fn wait_until_empty(&self, file: &str) {
        let mut patience = Patience::default();
        loop {
            let (entries, left) = (self.entries(), find(&self.folder, file));
            if entries.is_empty() && left.is_empty() {
                return;
            }
            assert!(patience.lasts(), "still there: {entries:?} {left:?}");
            std::thread::sleep(patience.pause());
        }
    }
}

/// The driver's own folder on a share.
const RECORDS: &str = ".csi-nfs";

/// All files of that name below a folder.
pub fn find(folder: &Path, name: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    // What vanishes meanwhile has been purged.
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            found.extend(find(&path, name));
        } else if entry.file_name() == name {
            found.push(path);
        }
    }
    found
}

/// A share with a driver. Tests call it themselves: to start the client takes a guest longer than most calls do, and what the client
/// is to do with them is looked at where the client is the subject (`lifecycle.rs`).
pub struct Scene {
    pub share: Share,
    pub driver: Driver,
}

/// A volume as CreateVolume answered it, or one that was made by hand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub id: String,
    pub context: Map,
}

/// One call to a driver.
pub fn call<Q: csi_proto::Request>(driver: &Driver, request: Q) -> Result<Q::Reply, Status> {
    calls::runtime().block_on(async { Calls::to(&driver.endpoint()).call(request).await })
}

impl Scene {
    /// A share and a driver that knows nothing of it yet.
    pub fn new(name: &str, version: Version) -> Self {
        Self::with_driver(name, version, &[])
    }

    /// The same, the driver with more arguments.
    pub fn with_driver(name: &str, version: Version, args: &[&str]) -> Self {
        Self {
            driver: Driver::with_args(args),
            share: Share::new(name, version),
        }
    }

    /// The same, its volumes with more mount options.
    pub fn with_options(self, more: &str) -> Self {
        let share = self.share.with_options(more);
        Self { share, ..self }
    }

    /// One call to the driver.
    pub fn call<Q: csi_proto::Request>(&self, request: Q) -> Result<Q::Reply, Status> {
        call(&self.driver, request)
    }

    /// CreateVolume on the share, of 1 GiB.
    pub fn try_create(&self, name: &str) -> Result<Volume, Status> {
        try_create(&self.driver, &self.share, name)
    }

    /// The same, and it must succeed.
    pub fn create(&self, name: &str) -> Volume {
        self.try_create(name).unwrap()
    }

    /// The request to publish a volume at the target of that name.
    pub fn publishing(&self, volume: &Volume, target: &str) -> NodePublishVolumeRequest {
        NodePublishVolumeRequest {
            volume_id: volume.id.clone(),
            volume_context: volume.context.clone(),
            target_path: self.target(target),
            volume_capability: Some(calls::capability()),
            ..Default::default()
        }
    }

    /// NodePublishVolume at the target of that name.
    pub fn try_publish(&self, volume: &Volume, target: &str) -> Result<(), Status> {
        self.call(self.publishing(volume, target)).map(drop)
    }

    /// The same, read-only.
    pub fn try_publish_read_only(&self, volume: &Volume, target: &str) -> Result<(), Status> {
        let readonly = true;
        let request = NodePublishVolumeRequest {
            readonly,
            ..self.publishing(volume, target)
        };
        self.call(request).map(drop)
    }

    /// NodePublishVolume, and it must succeed. The mount's path.
    pub fn publish(&self, volume: &Volume, target: &str) -> PathBuf {
        self.try_publish(volume, target).unwrap();
        self.driver.target(target)
    }

    /// NodeUnpublishVolume.
    pub fn try_unpublish(&self, volume: &Volume, target: &str) -> Result<(), Status> {
        let request = NodeUnpublishVolumeRequest {
            volume_id: volume.id.clone(),
            target_path: self.target(target),
        };
        self.call(request).map(drop)
    }

    /// NodeGetVolumeStats of the target of that name.
    pub fn try_stats(
        &self,
        volume: &Volume,
        target: &str,
    ) -> Result<NodeGetVolumeStatsResponse, Status> {
        self.call(NodeGetVolumeStatsRequest {
            volume_id: volume.id.clone(),
            volume_path: self.target(target),
            ..Default::default()
        })
    }

    /// The staging folder of the driver's only staged volume.
    pub fn staging(&self) -> String {
        self.target("staging")
    }

    /// NodeStageVolume in the staging folder, which is made for it.
    pub fn try_stage(&self, volume: &Volume) -> Result<(), Status> {
        let staging = self.staging();
        // One that is there may be a stale mount, which a look at it would fail on.
        match fs::create_dir(&staging) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            made => made.unwrap(),
        }
        let request = NodeStageVolumeRequest {
            volume_id: volume.id.clone(),
            volume_context: volume.context.clone(),
            staging_target_path: staging,
            volume_capability: Some(calls::capability()),
            ..Default::default()
        };
        self.call(request).map(drop)
    }

    /// NodeUnstageVolume.
    pub fn try_unstage(&self, volume: &Volume) -> Result<(), Status> {
        let request = NodeUnstageVolumeRequest {
            volume_id: volume.id.clone(),
            staging_target_path: self.staging(),
        };
        self.call(request).map(drop)
    }

    /// ControllerGetVolume.
    pub fn try_get(&self, volume: &Volume) -> Result<ControllerGetVolumeResponse, Status> {
        self.call(ControllerGetVolumeRequest {
            volume_id: volume.id.clone(),
        })
    }

    /// ControllerExpandVolume; the size that it has then.
    pub fn try_expand(&self, volume: &Volume, bytes: i64) -> Result<i64, Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: volume.id.clone(),
            capacity_range: Some(CapacityRange {
                required_bytes: bytes,
                limit_bytes: 0,
            }),
            ..Default::default()
        };
        self.call(request).map(|reply| reply.capacity_bytes)
    }

    /// DeleteVolume.
    pub fn try_delete(&self, volume: &Volume) -> Result<(), Status> {
        try_delete(&self.driver, volume)
    }

    /// The ids of ListVolumes.
    pub fn list(&self) -> Vec<String> {
        list(&self.driver)
    }

    /// Demands that nothing is mounted any more, by this driver or of this share, in any process that this one sees.
    pub fn has_no_mounts(&self) {
        assert_eq!(self.driver.mounts(), [] as [PathBuf; 0]);
        // A test beside this one that makes a namespace has copies there of what was mounted then, until it ends.
        let mut patience = Patience::default();
        while let Some(left) = self.mounted_in_a_process() {
            assert!(patience.lasts(), "{left}");
            std::thread::sleep(patience.pause());
        }
    }

    /// A mount of the share in any process that this one sees.
    fn mounted_in_a_process(&self) -> Option<String> {
        let processes = fs::read_dir("/proc").unwrap().flatten();
        let mut mounts = processes.filter_map(|process| {
            let mounts = fs::read_to_string(process.path().join("mountinfo")).ok()?;
            let mut lines = mounts.lines();
            let left = lines.find(|line| line.contains(&self.share.path))?;
            Some(format!("in process {:?}: {left}", process.file_name()))
        });
        mounts.next()
    }

    fn target(&self, name: &str) -> String {
        self.driver.target(name).to_str().unwrap().to_owned()
    }
}

/// Repeats a call until it is answered with OK, for as long as an orchestrator would.
pub fn repeated<T>(call: impl Fn() -> Result<T, Status>) -> T {
    let mut patience = Patience::default();
    loop {
        match call() {
            Ok(answer) => return answer,
            Err(status) => assert!(patience.lasts(), "{status}"),
        }
        std::thread::sleep(patience.pause());
    }
}

/// Demands that a call is refused, with this code and a message that has these words.
#[track_caller]
pub fn refused<T: std::fmt::Debug>(answer: Result<T, Status>, code: Code, words: &[&str]) {
    let status = answer.unwrap_err();
    assert_eq!(status.code(), code, "{status}");
    for word in words {
        assert!(
            status.message().contains(word),
            "{word:?} is not said: {status}"
        );
    }
}

/// CreateVolume on a share, of 1 GiB.
pub fn try_create(driver: &Driver, share: &Share, name: &str) -> Result<Volume, Status> {
    try_create_with(driver, calls::volume(name, &share.parameters()))
}

/// CreateVolume.
pub fn try_create_with(driver: &Driver, request: CreateVolumeRequest) -> Result<Volume, Status> {
    let volume = call(driver, request)?.volume.unwrap();
    Ok(Volume {
        id: volume.volume_id,
        context: volume.volume_context,
    })
}

/// DeleteVolume.
pub fn try_delete(driver: &Driver, volume: &Volume) -> Result<(), Status> {
    let request = DeleteVolumeRequest {
        volume_id: volume.id.clone(),
        ..Default::default()
    };
    call(driver, request).map(drop)
}

/// The ids of ListVolumes.
pub fn list(driver: &Driver) -> Vec<String> {
    let listed = call(driver, ListVolumesRequest::default()).unwrap();
    let volumes = listed.entries.into_iter().filter_map(|entry| entry.volume);
    volumes.map(|volume| volume.volume_id).collect()
}
