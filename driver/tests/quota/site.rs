//! A share with an agent on the server and a controller that has the share over NFS. Owns how both are started and called.

use crate::away::Away;
pub use crate::patience::until;
use crate::scene::{MIB, Mount, Share, file_system};
use csi_nfs::calls::controller::{Controller, ControllerConfig};
use csi_nfs_store::export::Export;
use csi_nfs_store::quota::ability::FileSystem;
use csi_nfs_store::quota::project;
use csi_nfs_store::quota::project_id::ProjectId;
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::*;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tonic::{Request, Status};

/// An agent, until it is killed.
pub struct Agent(pub Child);

impl Agent {
    pub fn kill(mut self) {
        self.0.kill().unwrap();
    }

    /// Tells it to compare now.
    pub fn hang_up(&self) {
        kill_process(Pid::from_child(&self.0), Signal::HUP).unwrap();
    }

    /// The same, and waits until it has.
    pub fn compare(&self, share: &Share) {
        let report = share.folder.join(".csi-nfs/compared.json");
        let seen = || {
            fs::metadata(&report)
                .map(|it| (it.ino(), it.mtime_nsec()))
                .ok()
        };
        // The second one began after this call.
        for _ in 0..2 {
            let before = seen();
            self.hang_up();
            until("a comparison", || seen() != before);
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Share {
    /// Makes all entries of the ledger that is there now old, so that the next comparison decides about each.
    pub fn age_ledger(&mut self) {
        self.reopen();
        let old = SystemTime::now() - Duration::from_secs(3600);
        for entry in fs::read_dir(&self.records).unwrap() {
            let entry = File::open(entry.unwrap().path()).unwrap();
            entry.set_modified(old).unwrap();
        }
    }

    /// Waits until these projects alone are in the ledger and have limits, and looks at those.
    pub fn has_these_limits_alone(&self, ids: &BTreeSet<ProjectId>, mib: u64) {
        let entered = || -> BTreeSet<_> { self.ledger.entries().unwrap().0.into_keys().collect() };
        until("a ledger of what is there", || entered() == *ids);
        until("no limit that is nobody's", || {
            let report = self.report();
            let limited = report.iter().filter(|it| it.limits != Default::default());
            limited
                .filter_map(|it| ProjectId::new(it.id))
                .collect::<BTreeSet<_>>()
                == *ids
        });
        for id in ids {
            assert_eq!(self.quota(*id).limits.bytes, mib * MIB);
        }
    }
}

/// A share, and a controller that has it over NFS.
pub struct Site {
    pub controller: Controller,
    pub mount: Mount,
    pub share: Share,
}

impl Site {
    /// A share that a controller has used once, before any agent.
    pub async fn new(name: &str) -> Self {
        Self::on(Share::new(name)).await
    }

    /// The same, with the disk for this test alone.
    pub async fn alone(name: &str) -> Self {
        Self::on(Share::alone(name)).await
    }

    /// The same, of a share that nobody has used.
    pub async fn on(mut share: Share) -> Self {
        let mount = share.mount("4.2", "");
        let export = Export::parse("nas", "/srv").unwrap();
        let roots = Away::of(export.clone(), mount.0.clone());
        let mut config = ControllerConfig::new(Arc::new(roots));
        config.other_exports = vec![export];
        let controller = Controller::new(config);
        let first = volume("first", 0, &[]);
        let answer = controller.create_volume(Request::new(first)).await;
        answer.unwrap();
        fs::remove_dir(&share.records).unwrap();
        share.records = share.folder.join(".csi-nfs/projects");
        Self {
            controller,
            mount,
            share,
        }
    }

    pub fn command(&self) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_csi-nfs"));
        let share = format!("nas:/srv={}", self.share.folder.display());
        command.args(["agent", "--quotas", "--local-share", &share]);
        command
    }

    /// Starts an agent, and waits until it says that it is there.
    pub fn agent(&mut self) -> Agent {
        let command = self.command();
        self.start(command)
    }

    /// An agent that dies at this step of what it does, the first time.
    pub fn agent_that_dies_at(&mut self, step: &str) -> Agent {
        let plan = self.share.folder.join("plan");
        fs::write(&plan, format!("0 {step}")).unwrap();
        let mut command = self.command();
        command.env("CSI_NFS_CRASH_PLAN", plan);
        self.start(command)
    }

    pub fn start(&mut self, mut command: Command) -> Agent {
        let before = self.announced();
        let agent = Agent(command.spawn().unwrap());
        until("an agent", || {
            self.announced().difference(&before).count() > 0
        });
        if self.share.records.exists() {
            self.share.reopen();
        }
        agent
    }

    pub fn announced(&self) -> BTreeSet<PathBuf> {
        let agents = fs::read_dir(self.share.folder.join(".csi-nfs/agents"));
        let agents = agents.into_iter().flatten();
        agents.map(|agent| agent.unwrap().path()).collect()
    }

    pub async fn create(&self, request: CreateVolumeRequest) -> Result<Volume, Status> {
        let answer = self.controller.create_volume(Request::new(request)).await?;
        Ok(answer.into_inner().volume.unwrap())
    }

    pub async fn expand(&self, volume: &Volume, mib: u64) -> Result<(), Status> {
        let request = ControllerExpandVolumeRequest {
            volume_id: volume.volume_id.clone(),
            capacity_range: range(mib),
            ..Default::default()
        };
        let answer = self
            .controller
            .controller_expand_volume(Request::new(request));
        answer.await.map(drop)
    }

    pub async fn delete(&self, volume: &Volume) {
        let request = DeleteVolumeRequest {
            volume_id: volume.volume_id.clone(),
            ..Default::default()
        };
        let answer = self.controller.delete_volume(Request::new(request));
        answer.await.unwrap();
    }

    /// The names and conditions of all volumes, as they are listed.
    pub async fn listed(&self) -> Vec<(String, VolumeCondition)> {
        let answer = self
            .controller
            .list_volumes(Request::new(Default::default()));
        let entries = answer.await.unwrap().into_inner().entries;
        let condition = |entry: list_volumes_response::Entry| {
            let condition = entry.status.unwrap().volume_condition.unwrap();
            (entry.volume.unwrap().volume_id, condition)
        };
        entries.into_iter().map(condition).collect()
    }

    pub async fn condition(&self, volume: &Volume) -> VolumeCondition {
        let request = ControllerGetVolumeRequest {
            volume_id: volume.volume_id.clone(),
        };
        let answer = self.controller.controller_get_volume(Request::new(request));
        let answer = answer.await.unwrap().into_inner();
        answer.status.unwrap().volume_condition.unwrap()
    }

    /// The folder as clients have it.
    pub fn folder(&self, volume: &Volume) -> PathBuf {
        self.mount.0.join(&volume.volume_context["subDir"])
    }

    /// The project of the folder on the server.
    pub fn id(&self, volume: &Volume) -> Option<ProjectId> {
        project_of(&self.share.folder.join(&volume.volume_context["subDir"]))
    }
}

/// Whether a condition's message says that a volume's size is enforced by this project.
pub fn says_enforced(message: &str, id: ProjectId) -> bool {
    message.contains(&format!(
        "its size is enforced, by project {id}, as was found "
    ))
}

pub fn project_of(folder: &Path) -> Option<ProjectId> {
    project::of(File::open(folder).unwrap()).unwrap()
}

pub fn range(mib: u64) -> Option<CapacityRange> {
    Some(CapacityRange {
        required_bytes: i64::try_from(mib * MIB).unwrap(),
        limit_bytes: 0,
    })
}

pub fn volume(name: &str, mib: u64, parameters: &[(&str, &str)]) -> CreateVolumeRequest {
    let own = [("mountPermissions", "0777")];
    let parameters = own.iter().chain(parameters);
    let owned = parameters.map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    CreateVolumeRequest {
        name: name.to_owned(),
        capacity_range: range(mib).filter(|_| mib > 0),
        volume_capabilities: vec![VolumeCapability {
            access_mode: Some(AccessMode { mode: 1 }),
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }],
        parameters: owned.collect::<BTreeMap<_, _>>(),
        ..Default::default()
    }
}

/// Whether these tests are about limits here. On ext4 they do not limit root, and the export does not squash it.
pub fn is_enforced() -> bool {
    file_system() == FileSystem::Xfs
}
