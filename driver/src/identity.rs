//! The Identity service: who this driver is and whether this instance can work.

use crate::config::Config;
use crate::mount::helper::Helpers;
use crate::mount::task::{FailureKind, Task};
use csi_proto::v1::identity_server::Identity;
use csi_proto::v1::plugin_capability::service::Type as ServiceType;
use csi_proto::v1::plugin_capability::volume_expansion::Type as ExpansionType;
use csi_proto::v1::plugin_capability::{Service, Type, VolumeExpansion};
use csi_proto::v1::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse, plugin_capability,
};
use rustix::fs::{Access, access};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tokio::sync::Mutex;
use tonic::{Request, Response, Status};

/// How long asking the kernel may take; loading the module of its NFS client is part of it.
const KERNEL_BOUND: Duration = Duration::from_secs(10);

/// How long looking at the work folder and those of local shares may take.
const FOLDERS_BOUND: Duration = Duration::from_secs(5);

/// The Identity service of one instance.
#[derive(Debug)]
pub struct IdentityService {
    config: Arc<Config>,
    helpers: Helpers,
    /// Held by the one Probe that looks at folders.
    looking: Arc<Mutex<()>>,
    /// Whether a Probe has found that this process may mount NFS.
    may_mount: AtomicBool,
}

impl IdentityService {
    /// The service of the instance that `config` describes.
    pub fn new(config: Arc<Config>, helpers: Helpers) -> Self {
        Self {
            config,
            helpers,
            looking: Arc::default(),
            may_mount: AtomicBool::new(false),
        }
    }

    /// Why this instance cannot work; nothing here asks an NFS server, whose end must not end its drivers, and nothing waits
    /// for work on shares.
    async fn obstacle(&self) -> Option<String> {
        let config = Arc::clone(&self.config);
        let looking = Arc::clone(&self.looking);
        let looked = tokio::time::timeout(FOLDERS_BOUND, async move {
            // A look that hangs keeps its thread, and later ones take no other.
            let alone = looking.lock_owned().await;
            let look = move || {
                let found = obstacle_in_folders(&config);
                drop(alone);
                found
            };
            tokio::task::spawn_blocking(look).await
        });
        match looked.await {
            Ok(Ok(None)) => {}
            Ok(Ok(obstacle)) => return obstacle,
            Ok(Err(error)) => return Some(error.to_string()),
            Err(_) => {
                return Some(format!(
                    "the work folder, or the folder of a local share, does not answer for {FOLDERS_BOUND:?}: is its disk there?"
                ));
            }
        }
        // What this process may do, and the kernel has, it keeps.
        if self.config.symlink_fallback || self.may_mount.load(Ordering::Relaxed) {
            return None;
        }
        match self.helpers.run(&Task::TryNfsClient, KERNEL_BOUND).await {
            Ok(_) => {
                self.may_mount.store(true, Ordering::Relaxed);
                None
            }
            // Local shares need neither client nor, for the controller, a mount.
            Err(error) if error.kind() == Some(FailureKind::NoNfsClient) => self
                .config
                .local_shares
                .is_empty()
                .then(|| error.to_string()),
            Err(error) if error.kind() == Some(FailureKind::NotPermitted) => {
                let needed = self.config.mode.node() || self.config.local_shares.is_empty();
                needed.then(|| error.to_string())
            }
            Err(error) => Some(error.to_string()),
        }
    }
}

/// Why the work folder or a local share cannot be used.
fn obstacle_in_folders(config: &Config) -> Option<String> {
    // A name of its own for each probe: several drivers may have one work folder by mistake.
    match tempfile_in(&config.work_dir) {
        Ok(()) => {}
        // To restart does not help, and would interrupt what frees a full disk: unpublishing.
        Err(error) if is_full(&error) => {}
        Err(error) => {
            let folder = config.work_dir.display();
            return Some(format!(
                "the work folder {folder} cannot be written: {error}"
            ));
        }
    }
    for share in &config.local_shares {
        let (folder, export) = (share.path.display(), &share.export);
        if !share.path.is_dir() {
            return Some(format!("{folder}, the folder of {export}, does not exist"));
        }
        if config.mode.controller()
            && let Err(error) = access(&share.path, Access::WRITE_OK)
        {
            return Some(format!(
                "{folder}, the folder of {export}, cannot be written, so no volumes can be made: {error}"
            ));
        }
    }
    None
}

fn is_full(error: &io::Error) -> bool {
    use io::ErrorKind::{QuotaExceeded, StorageFull};
    matches!(error.kind(), StorageFull | QuotaExceeded)
}

/// Whether a file can be made in `folder`; it is gone afterwards.
fn tempfile_in(folder: &std::path::Path) -> io::Result<()> {
    use rustix::fs::{Mode, OFlags};
    static COUNT: std::sync::atomic::AtomicU64 = std::sync::atomic::AtomicU64::new(0);
    let count = COUNT.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    let path = folder.join(format!(".probe-{}-{count}", std::process::id()));
    let how = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    drop(rustix::fs::open(&path, how, Mode::RUSR | Mode::WUSR)?);
    std::fs::remove_file(&path)
}

#[tonic::async_trait]
impl Identity for IdentityService {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.config.driver_name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            manifest: [("csi".to_owned(), csi_proto::SPEC_VERSION.to_owned())].into(),
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        let mut capabilities = Vec::new();
        if self.config.mode.controller() {
            let service = ServiceType::ControllerService.into();
            let expansion = ExpansionType::Online.into();
            capabilities.push(Type::Service(Service { r#type: service }));
            capabilities.push(Type::VolumeExpansion(VolumeExpansion { r#type: expansion }));
        }
        let capabilities = capabilities
            .into_iter()
            .map(|kind: plugin_capability::Type| PluginCapability { r#type: Some(kind) });
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: capabilities.collect(),
        }))
    }

    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        match self.obstacle().await {
            None => Ok(Response::new(ProbeResponse { ready: Some(true) })),
            Some(obstacle) => Err(Status::failed_precondition(obstacle)),
        }
    }
}
