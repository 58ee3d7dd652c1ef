//! Holds the configuration of a driver instance, as plain values. Must not know files or sockets; how values are written is `syntax`.

mod syntax;

pub use syntax::{
    ConfigError, Endpoint, LocalShare, host_node_id, named, parse_bound, parse_driver_name,
    parse_export, parse_interval, parse_known_option, parse_local_shares, parse_mount_permissions,
    parse_node_id, parse_on_delete, parse_option_name, parse_server, parse_shares,
    parse_socket_mode, parse_switch,
};
pub(crate) use syntax::{ENDPOINT, socket_path};

use crate::calls::controller::NamedShare;
use crate::calls::defaults::Defaults;
use crate::calls::limits::{self, LimitError};
use crate::calls::policy::Policy;
use crate::upstream::ids;
use clap::ValueEnum;
use csi_nfs_store::export::Export;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the driver is called when nobody says otherwise.
pub const DEFAULT_NAME: &str = "nfs.csi.internal";

/// Everything that a driver instance is told.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The name that the driver gives in GetPluginInfo.
    pub driver_name: String,
    /// The name of this node in NodeGetInfo.
    pub node_id: String,
    /// The services that are served.
    pub mode: Mode,
    /// Shares with a name, which the controller knows without having been asked for them.
    pub shares: Vec<NamedShare>,
    /// Exports that are folders of this machine.
    pub local_shares: Vec<LocalShare>,
    /// Whether the controller enforces the sizes of the volumes on these.
    pub quotas: bool,
    /// Private folder for what must outlive a restart.
    pub work_dir: PathBuf,
    /// What a request may name.
    pub policy: Policy,
    /// How long things may take.
    pub bounds: Bounds,
    /// How often volumes are measured whose sizes nobody enforces; never, without it.
    pub measure: Option<Duration>,
    /// Whether a publish makes a symlink where mounting is refused.
    pub symlink_fallback: bool,
    /// Whether a volume is mounted once on a node, and bound from there for each pod.
    pub stage: bool,
    /// Whether ids, attributes and snapshots of kubernetes-csi's driver are understood.
    pub upstream: bool,
    /// What holds for volumes where neither id nor class says.
    pub defaults: Defaults,
}

/// The services that an instance serves beside Identity.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// Controller and Node
    #[default]
    All,
    /// Controller only
    Controller,
    /// Node only
    Node,
}

impl Mode {
    /// Whether the Controller service is served.
    pub fn controller(self) -> bool {
        self != Self::Node
    }

    /// Whether the Node service is served.
    pub fn node(self) -> bool {
        self != Self::Controller
    }
}

/// How long things may take.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// A mount.
    pub mount: Duration,
    /// An unmount.
    pub unmount: Duration,
    /// The usage of a volume.
    pub stats: Duration,
    /// Calls in progress after SIGTERM.
    pub drain: Duration,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            mount: Duration::from_secs(110),
            unmount: Duration::from_secs(30),
            stats: Duration::from_secs(5),
            drain: Duration::from_secs(30),
        }
    }
}

impl Config {
    /// Whether requests may name `server`: one that the configuration names itself, or one that the policy allows.
    pub fn may_use_server(&self, server: &str) -> bool {
        let named = self.shares.iter().map(|share| &share.export);
        let local = self.local_shares.iter().map(|share| &share.export);
        named.chain(local).any(|export| export.is_on(server)) || self.policy.allows_server(server)
    }

    /// Checks the length of a volume's id. Ids of kubernetes-csi's driver keep to no limit, and those of its static volumes
    /// are whatever somebody has made up.
    ///
    /// # Errors
    /// When it is missing or too long.
    pub fn check_volume_id(&self, id: &str) -> Result<(), LimitError> {
        match self.upstream {
            true if (1..=ids::MAX_LENGTH).contains(&id.len()) => Ok(()),
            _ => limits::required("volume_id", id),
        }
    }

    /// The local share that `export` is or lies in, and where in it.
    pub fn local_share(&self, export: &Export) -> Option<(&LocalShare, PathBuf)> {
        let all = self.local_shares.iter().filter_map(|share| {
            if !share.export.is_on(export.server()) {
                return None;
            }
            let below = Path::new(export.path()).strip_prefix(share.export.path());
            below.ok().map(|below| (share, below.to_owned()))
        });
        // Of one share in another the inner one: it may be on another disk.
        all.min_by_key(|(_, below)| below.components().count())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_local_shares_in_one_another_the_inner_one_is_meant() {
        let outer: LocalShare = "nas:/srv=/a".parse().unwrap();
        let inner: LocalShare = "nas:/srv/x=/b".parse().unwrap();
        for local_shares in [
            vec![outer.clone(), inner.clone()],
            vec![inner.clone(), outer.clone()],
        ] {
            let mut config = crate::calls::node::request::tests::config();
            config.local_shares = local_shares;
            let found = |path: &str| {
                let export = Export::parse("nas", path).unwrap();
                let (share, below) = config.local_share(&export).unwrap();
                share.path.join(below)
            };
            assert_eq!(found("/srv/x/y"), Path::new("/b/y"));
            assert_eq!(found("/srv/xy"), Path::new("/a/xy"));
        }
    }

    #[test]
    fn the_name_of_a_server_is_the_same_in_any_case() {
        let mut config = crate::calls::node::request::tests::config();
        config.policy.servers = vec!["other".to_owned()];
        config.local_shares = vec!["nas:/srv=/a".parse().unwrap()];
        assert!(config.may_use_server("NAS") && !config.may_use_server("nas2"));
        let export = Export::parse("Nas", "/srv/x").unwrap();
        let (_, below) = config.local_share(&export).unwrap();
        assert_eq!(below, Path::new("x"));
    }
}
