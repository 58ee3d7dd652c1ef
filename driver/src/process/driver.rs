//! One instance of the driver: its parts put together from a configuration, as services that can be served anywhere.

use crate::calls::controller::{Controller, ControllerConfig, Pace};
use crate::calls::node::volumes::Volumes;
use crate::mount::control::ControlMounts;
use crate::mount::helper::Helpers;
use crate::process::config::Config;
use crate::process::health::Health;
use crate::process::log::{Level, Log};
use crate::process::work_folder::{self, private_folder};
use crate::upstream::ids::{DRIVER_NAME, UpstreamIds};
use csi_nfs_store::files::admission::Admission;
use csi_proto::v1::controller_server::ControllerServer;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::NodeServer;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use thiserror::Error;
use tonic::service::Routes;

/// One instance of the driver.
#[derive(Clone)]
pub struct Driver {
    config: Arc<Config>,
    health: Health,
    control: ControlMounts,
    controller: Option<Controller>,
    volumes: Volumes,
}

/// The work folder cannot be used.
#[derive(Debug, Error)]
#[error("the work folder {}, which --work-dir chooses: {source}", .folder.display())]
pub struct WorkDirError {
    folder: PathBuf,
    source: io::Error,
}

impl Driver {
    /// The instance that `config` describes. Makes its work folder, and blocks as long as its disk lets it wait.
    pub fn new(config: Config, log: Log) -> Result<Self, WorkDirError> {
        let given = config.work_dir.clone();
        let work_dir_error = |source| WorkDirError {
            folder: given.clone(),
            source,
        };
        let work = work_folder::prepare(&given).map_err(work_dir_error)?;
        if work.is_below {
            let fields = [("folder", work.path.display().to_string().into())];
            let what = "others may write in the work folder: a private folder below it is used";
            log.event(Level::Info, what, &fields);
        }
        let scratch = work.path.join("scratch");
        let config = Arc::new(Config {
            work_dir: work.path,
            ..config
        });
        private_folder(&scratch).map_err(work_dir_error)?;
        let helpers = Helpers::new(log);
        let volumes =
            Volumes::open(Arc::clone(&config), helpers.clone(), log).map_err(work_dir_error)?;
        let admission = Admission::default();
        let control = ControlMounts::new(
            Arc::clone(&config),
            helpers.clone(),
            admission.clone(),
            log,
            scratch,
        );
        let controller = config.mode.controller().then(|| {
            let told = ControllerConfig {
                admission,
                ..controller_config(&config, &control, log)
            };
            Controller::new(told)
        });
        Ok(Self {
            health: Health::new(Arc::clone(&config), helpers),
            config,
            control,
            controller,
            volumes,
        })
    }

    /// The name that it gives in GetPluginInfo.
    pub fn name(&self) -> &str {
        &self.config.driver_name
    }

    /// Whether it can work.
    pub fn health(&self) -> &Health {
        &self.health
    }

    /// Tells the metrics what there is now: shares, copies, publishes. Waits for the work folder's disk and for nothing else.
    pub async fn observe(&self) {
        if let Some(controller) = &self.controller {
            controller.observe();
        }
        self.volumes.observe().await;
    }

    /// The services of the instance.
    pub fn routes(&self) -> Routes {
        let mut routes = Routes::new(IdentityServer::new(self.health.clone()));
        if let Some(controller) = &self.controller {
            routes = routes.add_service(ControllerServer::new(controller.clone()));
        }
        if self.config.mode.node() {
            routes = routes.add_service(NodeServer::new(self.volumes.clone()));
        }
        routes
    }

    /// Work that goes on beside the calls, for as long as the instance lives. To be spawned once.
    pub async fn housekeeping(self) {
        if let Some(controller) = &self.controller {
            controller.start();
            controller.measure();
        }
        self.volumes.release_stages().await;
        self.control.release_idle().await;
    }

    /// For the end of a process that is started again: gives up at once what the next start takes up, so that callers who
    /// wait for a copy are answered.
    pub fn give_up(&self) {
        if let Some(controller) = &self.controller {
            controller.give_up();
        }
    }

    /// After [`Driver::give_up`]: waits for mounts and operations whose callers have gone.
    pub async fn stopped(&self) {
        self.give_up();
        self.volumes.settled().await;
        if let Some(controller) = &self.controller {
            controller.stop().await;
        }
    }

    /// Waits until work that outlives its call is done.
    pub async fn settled(&self) {
        self.volumes.settled().await;
        if let Some(controller) = &self.controller {
            controller.settle().await;
        }
    }
}

/// What the controller has to know, in its own words.
fn controller_config(config: &Arc<Config>, control: &ControlMounts, log: Log) -> ControllerConfig {
    let local = config.local_shares.iter().map(|share| share.export.clone());
    ControllerConfig {
        named_shares: config.shares.clone(),
        other_exports: local.collect(),
        quotas: config.quotas,
        defaults: config.defaults,
        upstream: upstream_ids(config),
        policy: config.policy.clone(),
        measure: config.measure.map(Pace::every),
        timeout: config.bounds.mount,
        remember: Some(config.work_dir.join("share-options.json")),
        notice: Arc::new(move |text| {
            log.event(Level::Info, "controller", &[("notice", text.into())])
        }),
        debug: Arc::new(move |text| {
            log.event(Level::Debug, "controller", &[("notice", text.into())])
        }),
        ..ControllerConfig::new(Arc::new(control.clone()))
    }
}

/// Where ids of kubernetes-csi's driver may come from, they are served or refused; a build without that knows none.
fn upstream_ids(config: &Config) -> UpstreamIds {
    match cfg!(feature = "upstream") {
        true if config.upstream => UpstreamIds::Served,
        true if config.driver_name == DRIVER_NAME => UpstreamIds::Refused,
        _ => UpstreamIds::Unknown,
    }
}
