//! One instance of the driver: its parts put together from a configuration, as services that can be served anywhere.

use crate::config::Config;
use crate::identity::IdentityService;
use crate::log::Log;
use crate::mount::control::ControlMounts;
use crate::mount::helper::Helpers;
use crate::node::NodeService;
use crate::node::record::private_folder;
use crate::node::volumes::Volumes;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::NodeServer;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use tonic::service::Routes;

/// One instance of the driver.
#[derive(Clone, Debug)]
pub struct Driver {
    config: Arc<Config>,
    helpers: Helpers,
    control: ControlMounts,
    volumes: Volumes,
}

/// The work folder cannot be used.
#[derive(Debug, Error)]
#[error("the work folder {}: {source}: make it writable for this user, or choose another --work-dir", .folder.display())]
pub struct WorkDirError {
    folder: PathBuf,
    source: io::Error,
}

impl Driver {
    /// The instance that `config` describes. Makes its work folder.
    ///
    /// # Errors
    /// When the work folder cannot be used.
    pub fn new(config: Config, log: Log) -> Result<Self, WorkDirError> {
        let config = Arc::new(config);
        let work_dir_error = |source| WorkDirError {
            folder: config.work_dir.clone(),
            source,
        };
        let scratch = config.work_dir.join("scratch");
        private_folder(&config.work_dir).map_err(work_dir_error)?;
        private_folder(&scratch).map_err(work_dir_error)?;
        let helpers = Helpers::new(log);
        let volumes =
            Volumes::open(Arc::clone(&config), helpers.clone(), log).map_err(work_dir_error)?;
        let control = ControlMounts::new(Arc::clone(&config), helpers.clone(), log, scratch);
        Ok(Self {
            config,
            helpers,
            control,
            volumes,
        })
    }

    /// The services of the instance.
    pub fn routes(&self) -> Routes {
        let identity = IdentityService::new(Arc::clone(&self.config), self.helpers.clone());
        let mut routes = Routes::new(IdentityServer::new(identity));
        if self.config.mode.node() {
            let node = NodeService::new(Arc::clone(&self.config), self.volumes.clone());
            routes = routes.add_service(NodeServer::new(node));
        }
        routes
    }

    /// Work that goes on beside the calls, for as long as the instance lives. To be spawned once.
    pub async fn housekeeping(self) {
        self.control.release_idle().await;
    }

    /// Waits until work that outlives its call is done.
    pub async fn settled(&self) {
        self.volumes.settled().await;
    }
}
