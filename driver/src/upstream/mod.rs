//! Everything about kubernetes-csi's driver, whose volumes and snapshots this driver can serve: their ids, their attributes, and
//! the calls about them, which never reach the controller. Owns who answers a call.

#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
#[cfg(feature = "upstream")]
mod archive;
pub(crate) mod attributes;
mod calls;
#[expect(clippy::disallowed_methods, reason = "threads of shares call it")]
pub(crate) mod folders;
pub mod front;
pub mod ids;

use crate::calls::controller::Controller;
use crate::process::config::Config;
use crate::share::archives::Archives;
use csi_proto::v1::controller_server::ControllerServer;
use front::UpstreamFront;
use tonic::service::Routes;

/// What unpacks the archives of kubernetes-csi's driver; nothing in a build without that.
pub fn archives() -> Option<&'static dyn Archives> {
    #[cfg(feature = "upstream")]
    return Some(&archive::UpstreamArchives);
    #[cfg(not(feature = "upstream"))]
    None
}

/// Adds the Controller service to `routes`: with the calls about kubernetes-csi's volumes in front of it, where they may come.
pub fn add_controller(routes: Routes, controller: Controller, config: &Config) -> Routes {
    let may_come = config.upstream || config.driver_name == ids::DRIVER_NAME;
    // Without the feature the compiler leaves all of it out.
    if cfg!(feature = "upstream") && may_come {
        let front = UpstreamFront::new(controller, config.upstream);
        return routes.add_service(ControllerServer::new(front));
    }
    routes.add_service(ControllerServer::new(controller))
}
