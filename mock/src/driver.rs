//! The driver as its users hold it: its services behind one gate, told at any time what to be.

use crate::Options;
use crate::core::Core;
use crate::serving::Server;
use crate::settings::{Rules, SettingsFile};
use crate::storage::Storage;
use crate::wire::Gate;
use csi_proto::v1::controller_server::ControllerServer;
use csi_proto::v1::group_controller_server::GroupControllerServer;
use csi_proto::v1::identity_server::IdentityServer;
use csi_proto::v1::node_server::NodeServer;
use csi_proto::v1::snapshot_metadata_server::SnapshotMetadataServer;
use tonic::service::Routes;

/// A mock driver. Clones are the same driver.
#[derive(Clone)]
pub struct Mock {
    core: Core,
    routes: Routes,
}

impl Mock {
    /// A driver that behaves as `options` say, over what `storage` holds.
    pub fn new(options: Options, storage: Storage) -> Self {
        Self::of(Core::new(options.into(), storage, None))
    }

    /// A driver that behaves as `file` says, which is read again when it has changed.
    pub fn following(file: SettingsFile, rules: Rules, storage: Storage) -> Self {
        Self::of(Core::new(rules, storage, Some(file)))
    }

    fn of(core: Core) -> Self {
        let routes = Routes::new(IdentityServer::new(core.clone()))
            .add_service(ControllerServer::new(core.clone()))
            .add_service(GroupControllerServer::new(core.clone()))
            .add_service(SnapshotMetadataServer::new(core.clone()))
            .add_service(NodeServer::new(core.clone()));
        Self { core, routes }
    }

    /// Makes the volumes `mock-1` to `mock-COUNT` that are not there yet. Each can be used as a file system and as a device;
    /// sizes differ.
    pub fn fill(&self, count: usize) {
        self.core.fill(count);
    }

    /// What answers its calls.
    pub fn server(&self) -> Server<Gate> {
        Server::new(Gate::new(self.core.clone(), self.routes.clone()))
    }
}
