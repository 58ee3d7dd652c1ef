//! The command line of `csi-nfs` and the environment variables beside it. Owns the words; `config::syntax` owns
//! that of values.

use crate::calls::defaults::Defaults;
use crate::calls::policy::Policy;
use crate::process::config::{self, Bounds, Config, ConfigError, Endpoint, Mode};
use crate::process::http::HttpAddress;
use crate::process::log::{Format, Level, Log};
use crate::process::registration::Kubelet;
use clap::{Args, Parser, ValueEnum};
use csi_nfs_store::share::records::volume::OnDelete;
use std::path::PathBuf;
use std::sync::LazyLock;
use std::time::Duration;

/// A CSI driver for NFS: volumes are folders of an NFS share.
///
/// Serves the Container Storage Interface on a unix socket. It mounts with the kernel's own calls and needs no other
/// program: neither nfs-utils nor a shell.
#[derive(Debug, Parser)]
#[command(name = "csi-nfs", version = version_text(), max_term_width = 100)]
#[command(
    after_help = "Every flag can be given by the environment variable that stands beside it; the flag wins.

At its start the driver raises its soft limit of open files to the hard one (ulimit -Hn,
LimitNOFILE= of systemd). Give it 4096 or more: each connection takes one, each share in use some
ten, all copies together up to half of them.

Commands of their own (--help tells more):
  csi-nfs agent            work on the NFS server itself, for the controllers elsewhere
  csi-nfs take-in          hold volumes that exist to their sizes from now on
  csi-nfs relay [SOCKET]   carry a connection between stdin and stdout and a driver's socket
  csi-nfs get ADDR PATH    ask the --http of a driver, as a probe does

Examples:
  # Controller and node in one process, for a test on one machine:
  csi-nfs --endpoint unix:///run/csi-nfs.sock --share home=10.0.0.4:/srv/home

  # On every node of a cluster, known to its kubelet without a sidecar:
  csi-nfs --mode node --endpoint unix:///var/lib/kubelet/plugins/nfs.csi.internal/csi.sock \\
    --node-id \"$NODE_NAME\" --kubelet-registration /var/lib/kubelet/plugins_registry

  # The controller on the NFS server itself, where the export is a local folder:
  csi-nfs --mode controller --endpoint unix:///run/csi-nfs.sock --local-share nas:/srv=/srv

  # In the place of kubernetes-csi's driver, for its volumes and snapshots too:
  csi-nfs --endpoint unix:///csi/csi.sock --driver-name nfs.csi.k8s.io --migrate-from csi-driver-nfs"
)]
pub struct Flags {
    #[command(flatten, next_help_heading = "Serving")]
    serving: ServingFlags,

    #[command(flatten, next_help_heading = "Kubernetes")]
    orchestrator: OrchestratorFlags,

    #[command(flatten, next_help_heading = "Shares")]
    shares: ShareFlags,

    #[command(flatten, next_help_heading = "Limits on requests")]
    limits: LimitFlags,

    #[command(flatten, next_help_heading = "Volumes whose class does not say")]
    volumes: VolumeFlags,

    #[command(flatten, next_help_heading = "Volumes of kubernetes-csi's driver")]
    upstream: UpstreamFlags,

    #[command(flatten, next_help_heading = "Bounds in time")]
    bounds: BoundFlags,

    #[command(flatten, next_help_heading = "Log")]
    log: LogFlags,
}

#[derive(Args, Debug)]
struct ServingFlags {
    /// Where to serve: unix:///PATH, or tcp://127.0.0.1:PORT
    #[arg(long, env = "CSI_ENDPOINT")]
    endpoint: Endpoint,

    /// Permissions of the unix socket, in octal [default: 0660]
    #[arg(long, env = "CSI_NFS_SOCKET_MODE", value_name = "MODE", value_parser = config::parse_socket_mode)]
    socket_mode: Option<u32>,

    /// Services to serve beside Identity
    #[arg(long, env = "CSI_NFS_MODE", default_value = "all")]
    mode: Mode,

    /// Name of the driver; in the place of kubernetes-csi's driver it is nfs.csi.k8s.io
    #[arg(long, env = "CSI_NFS_DRIVER_NAME", value_name = "NAME", default_value = config::DEFAULT_NAME,
          value_parser = config::parse_driver_name)]
    driver_name: String,

    /// Id of this node, unique in the cluster [default: the host name]
    #[arg(long, env = "CSI_NFS_NODE_ID", value_name = "ID", value_parser = config::parse_node_id)]
    node_id: Option<String>,

    /// Private folder for what must outlive a restart; one for each driver instance
    #[arg(long, env = "CSI_NFS_WORK_DIR")]
    #[arg(value_name = "DIR", default_value = "/var/lib/csi-nfs")]
    work_dir: PathBuf,

    /// Mount a volume once on a node and bind it from there for each pod: NodeStageVolume and NodeUnstageVolume
    #[arg(long, env = "CSI_NFS_STAGE", value_parser = config::parse_switch)]
    stage: bool,
}

#[derive(Args, Debug)]
struct OrchestratorFlags {
    /// Register with the kubelet of this node, without a sidecar: its folder plugins_registry, as this process sees it
    #[arg(long, env = "CSI_NFS_KUBELET_REGISTRATION", value_name = "DIR")]
    kubelet_registration: Option<PathBuf>,

    /// Path of the --endpoint as the kubelet sees it [default: that of --endpoint]
    #[arg(long, env = "CSI_NFS_KUBELET_ENDPOINT", value_name = "PATH")]
    kubelet_endpoint: Option<PathBuf>,

    /// Serve /healthz, /readyz and /metrics there by HTTP: IP:PORT, or unix:///PATH
    #[arg(long, env = "CSI_NFS_HTTP", value_name = "ADDR")]
    http: Option<HttpAddress>,
}

#[derive(Args, Debug)]
struct ShareFlags {
    /// A share that volume ids call NAME and that is listed and recovered from the start; repeatable (in the variable:
    /// one a line)
    #[arg(long = "share", env = "CSI_NFS_SHARES", value_delimiter = '\n')]
    #[arg(value_name = "NAME=SERVER:/PATH[,uuid=UUID][,OPTION...]")]
    shares: Vec<String>,

    /// An export that is a folder of this machine: used directly, without NFS; repeatable (in the variable: one a line)
    #[arg(long = "local-share", env = "CSI_NFS_LOCAL_SHARES")]
    #[arg(value_name = "SERVER:SHARE=PATH", value_delimiter = '\n')]
    local_shares: Vec<String>,

    /// Hold new volumes on local shares to their sizes, by project quotas of the file system (XFS, ext4). Only with --mode
    /// controller: bind mounts would lead out of a project
    #[arg(long, env = "CSI_NFS_QUOTAS", value_parser = config::parse_switch)]
    quotas: bool,

    /// Measure in the background, once in this time, the disk usage of each volume whose size nobody enforces
    #[arg(long, env = "CSI_NFS_MEASURE", value_name = "INTERVAL", value_parser = config::parse_interval)]
    measure: Option<Duration>,
}

#[derive(Args, Debug)]
struct LimitFlags {
    /// Servers that requests may name, at their NFS port: host, address or *.domain; repeatable, or separated by commas
    /// [default: every server]
    #[arg(long = "allow-server", visible_alias = "allow-servers")]
    #[arg(env = "CSI_NFS_ALLOW_SERVERS")]
    #[arg(value_name = "SERVER", value_delimiter = ',')]
    allow_servers: Vec<String>,

    /// Mount options that requests may name, without their values; repeatable, or separated by commas
    /// [default: all that are not denied]
    #[arg(long = "allow-mount-option", visible_alias = "allow-mount-options")]
    #[arg(env = "CSI_NFS_ALLOW_MOUNT_OPTIONS")]
    #[arg(value_name = "OPTION", value_delimiter = ',')]
    allow_mount_options: Vec<String>,

    /// Mount options that requests may not name; repeatable, or separated by commas
    #[arg(long = "deny-mount-option", visible_alias = "deny-mount-options")]
    #[arg(env = "CSI_NFS_DENY_MOUNT_OPTIONS")]
    #[arg(value_name = "OPTION", value_delimiter = ',')]
    deny_mount_options: Vec<String>,

    /// A folder that inline (ephemeral) volumes may be, or lie in; repeatable (in the variable: one a line)
    /// [default: no inline volumes]
    #[arg(long = "inline-share", env = "CSI_NFS_INLINE_SHARES")]
    #[arg(value_name = "SERVER:/PATH", value_delimiter = '\n')]
    inline_shares: Vec<String>,

    /// Mount options that inline volumes may have, without their values; repeatable, or separated by commas
    /// [default: none]
    #[arg(long = "inline-mount-option", visible_alias = "inline-mount-options")]
    #[arg(env = "CSI_NFS_INLINE_MOUNT_OPTIONS")]
    #[arg(value_name = "OPTION", value_delimiter = ',')]
    inline_mount_options: Vec<String>,
}

#[derive(Args, Debug)]
struct VolumeFlags {
    /// What becomes of a volume that is deleted, where neither its id nor its class says: delete, retain or archive
    /// [default: delete]
    #[arg(long, env = "CSI_NFS_DEFAULT_ONDELETE_POLICY", value_name = "POLICY",
          value_parser = config::parse_on_delete)]
    default_ondelete_policy: Option<OnDelete>,

    /// The mode of volumes' folders, in octal, where neither their attributes nor their class says; 0 for none
    #[arg(long, env = "CSI_NFS_MOUNT_PERMISSIONS", value_name = "MODE",
          value_parser = config::parse_mount_permissions)]
    mount_permissions: Option<u32>,

    /// What --default-ondelete-policy was called. Who still sets the variable wants the volumes kept
    #[arg(long, env = "CSI_NFS_MIGRATE_ON_DELETE", hide = true, value_parser = config::parse_on_delete,
          conflicts_with = "default_ondelete_policy")]
    migrate_on_delete: Option<OnDelete>,
}

#[derive(Args, Debug)]
struct UpstreamFlags {
    /// Serve volumes and snapshots of kubernetes-csi's driver too, by their ids, with its volume attributes and its mount
    /// defaults. Usually with --driver-name nfs.csi.k8s.io
    #[arg(long, env = "CSI_NFS_MIGRATE_FROM", value_name = "DRIVER")]
    migrate_from: Option<UpstreamFlag>,
}

#[derive(Args, Debug)]
struct BoundFlags {
    /// How long a mount may take [default: 110s]
    #[arg(long, env = "CSI_NFS_MOUNT_TIMEOUT", value_name = "TIME", value_parser = config::parse_bound)]
    mount_timeout: Option<Duration>,

    /// How long an unmount may take [default: 30s]
    #[arg(long, env = "CSI_NFS_UNMOUNT_TIMEOUT", value_name = "TIME", value_parser = config::parse_bound)]
    unmount_timeout: Option<Duration>,

    /// How long the usage of a volume may take [default: 5s]
    #[arg(long, env = "CSI_NFS_STATS_TIMEOUT", value_name = "TIME", value_parser = config::parse_bound)]
    stats_timeout: Option<Duration>,

    /// How long calls in progress may go on after SIGTERM; a second signal ends the driver at once [default: 30s]
    #[arg(long, env = "CSI_NFS_DRAIN_TIMEOUT", value_name = "TIME", value_parser = config::parse_bound)]
    drain_timeout: Option<Duration>,
}

impl BoundFlags {
    fn bounds(&self) -> Bounds {
        let default = Bounds::default();
        Bounds {
            mount: self.mount_timeout.unwrap_or(default.mount),
            unmount: self.unmount_timeout.unwrap_or(default.unmount),
            stats: self.stats_timeout.unwrap_or(default.stats),
            drain: self.drain_timeout.unwrap_or(default.drain),
        }
    }
}

/// Flags for the log.
#[derive(Args, Debug)]
pub(crate) struct LogFlags {
    /// Form of the log on stderr
    #[arg(long, env = "CSI_NFS_LOG_FORMAT")]
    #[arg(value_name = "FORMAT", default_value = "text")]
    log_format: Format,

    /// What the log holds: events of this level, and of the more urgent ones
    #[arg(long, env = "CSI_NFS_LOG_LEVEL")]
    #[arg(value_name = "LEVEL", default_value = "info")]
    log_level: Level,
}

impl LogFlags {
    /// The log that they ask for.
    pub(crate) fn log(&self) -> Log {
        Log::to_stderr(self.log_format, self.log_level)
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum UpstreamFlag {
    /// Kubernetes-csi's driver, which is registered as nfs.csi.k8s.io
    CsiDriverNfs,
}

/// What `--version` says after the name.
fn version_text() -> &'static str {
    static TEXT: LazyLock<String> = LazyLock::new(|| {
        format!(
            "{} (CSI {})",
            env!("CARGO_PKG_VERSION"),
            csi_proto::SPEC_VERSION
        )
    });
    &TEXT
}

/// Where and how to serve, apart from what the driver does.
#[derive(Clone, Debug)]
pub struct Serving {
    /// Where to serve.
    pub endpoint: Endpoint,
    /// Permission bits of a unix socket.
    pub socket_mode: u32,
    /// The kubelet to register with.
    pub kubelet: Option<Kubelet>,
    /// Where health and metrics are served.
    pub http: Option<HttpAddress>,
}

impl Flags {
    /// The values, with defaults that come from this machine.
    ///
    /// # Errors
    /// When a share is none, a flag has no effect beside the others, or the host's name is needed and is no node id.
    pub fn resolve(self) -> Result<(Serving, Config, Log), ConfigError> {
        if let Some((flag, why)) = self.without_effect() {
            return Err(ConfigError::NoEffect(flag, why));
        }
        // Of port 0 the kernel gives each another one.
        let is_one = |http: &Endpoint| match http {
            Endpoint::Tcp(address) if address.port() == 0 => false,
            _ => *http == self.serving.endpoint,
        };
        let http = self.orchestrator.http.as_ref();
        if let Some(http) = http.filter(|http| is_one(&http.0)) {
            return Err(ConfigError::OnePlace(http.to_string()));
        }
        let Self {
            serving,
            shares,
            volumes,
            ..
        } = self;
        let upstream = self.upstream.migrate_from.is_some();
        let on_delete = volumes
            .default_ondelete_policy
            .or(volumes.migrate_on_delete);
        let config = Config {
            driver_name: serving.driver_name,
            node_id: match serving.node_id {
                Some(id) => id,
                None => config::host_node_id()?,
            },
            mode: serving.mode,
            shares: config::parse_shares(&shares.shares)?,
            local_shares: config::parse_local_shares(&shares.local_shares)?,
            quotas: shares.quotas,
            work_dir: serving.work_dir,
            policy: self.limits.policy(upstream)?,
            bounds: self.bounds.bounds(),
            measure: shares.measure,
            symlink_fallback: false,
            stage: serving.stage,
            upstream,
            defaults: Defaults {
                on_delete: on_delete.unwrap_or_default(),
                mode: volumes.mount_permissions.filter(|mode| *mode != 0),
            },
        };
        let serving = Serving {
            http: self.orchestrator.http.clone(),
            kubelet: self.orchestrator.kubelet(&serving.endpoint)?,
            endpoint: serving.endpoint,
            socket_mode: serving.socket_mode.unwrap_or(0o660),
        };
        Ok((serving, config, self.log.log()))
    }

    /// The first flag that has no effect beside the others, and what to do.
    fn without_effect(&self) -> Option<(&'static str, &'static str)> {
        let all = self.effects();
        all.into_iter().find_map(|(flag, is_given, why)| {
            let why = why.filter(|_| is_given)?;
            Some((flag, why))
        })
    }

    /// Of each flag that may have no effect, whether it was given, and why it has none beside the others, where that is so.
    fn effects(&self) -> [(&'static str, bool, Option<&'static str>); 12] {
        let Self {
            serving,
            orchestrator,
            shares,
            limits,
            volumes,
            upstream,
            bounds,
            log: _,
        } = self;
        let (mode, upstream) = (serving.mode, upstream.migrate_from.is_some());
        let is_port = matches!(serving.endpoint, Endpoint::Tcp(_));
        let of_nodes = (!mode.node()).then_some(OF_NODES);
        let of_controllers = (!mode.controller()).then_some(OF_CONTROLLERS);
        let no_inline = config::named(&limits.inline_shares).is_empty();
        // An empty list has an error of its own.
        let has_options = !config::named(&limits.inline_mount_options).is_empty();
        [
            (
                "--socket-mode",
                serving.socket_mode.is_some(),
                is_port.then_some("with a port, which has no permissions: leave it out"),
            ),
            ("--stage", serving.stage, of_nodes),
            (
                "--kubelet-endpoint",
                orchestrator.kubelet_endpoint.is_some(),
                (orchestrator.kubelet_registration.is_none())
                    .then_some("without --kubelet-registration: leave it out"),
            ),
            (
                "--kubelet-registration",
                orchestrator.kubelet_registration.is_some(),
                of_nodes.or(is_port.then_some(
                    "with a port: the kubelet calls a unix socket; leave it out, or serve one",
                )),
            ),
            ("--quotas", shares.quotas, self.no_quotas()),
            ("--measure", shares.measure.is_some(), of_controllers),
            (
                "--inline-mount-option",
                has_options,
                of_nodes.or(no_inline.then_some(
                    "without --inline-share: leave it out, or name the folders that inline volumes may be",
                )),
            ),
            (
                "--default-ondelete-policy",
                volumes.default_ondelete_policy.is_some(),
                of_controllers,
            ),
            (
                "--mount-permissions",
                volumes.mount_permissions.is_some(),
                // A node gives the mode to volumes of kubernetes-csi's driver.
                (mode == Mode::Node && !upstream).then_some(
                    "with --mode node, unless --migrate-from is given: volumes get their mode when they are made; give it to the controller and leave it out here",
                ),
            ),
            (
                "--migrate-from",
                upstream,
                cfg!(not(feature = "upstream")).then_some(
                    "because this build has not the feature upstream: leave it out, or build the driver with that feature",
                ),
            ),
            ("--unmount-timeout", bounds.unmount_timeout.is_some(), of_nodes),
            ("--stats-timeout", bounds.stats_timeout.is_some(), of_nodes),
        ]
    }

    /// Why --quotas has no effect: nothing could enforce sizes there, or pods of this very process would get round it.
    fn no_quotas(&self) -> Option<&'static str> {
        let is_away = config::named(&self.shares.local_shares).is_empty();
        match (self.serving.mode, is_away) {
            (Mode::Controller, false) => None,
            (Mode::Controller, true) => Some(
                "without --local-share: limits are set where the folder lies; run csi-nfs agent --quotas on the NFS server, and leave it out here",
            ),
            (Mode::Node, _) => Some(
                "with --mode node: volumes get their limits when they are made; give it to the controller on the NFS server, or to csi-nfs agent, and leave it out here",
            ),
            (Mode::All, _) => Some(
                "with --mode all: this process gives pods bind mounts of local shares, through which the owner of a file takes it out of its limit; start the controller by itself (--mode controller) and nodes that mount over NFS, or leave it out",
            ),
        }
    }
}

const OF_NODES: &str = "with --mode controller: it is about the node service; give it to the driver on the nodes and leave it out here";
const OF_CONTROLLERS: &str = "with --mode node: it is about the controller service; give it to the controller and leave it out here";

/// What lists without an entry would do.
const ALLOW_ALL: &str = "allow everything";
const ALLOW_NOTHING: &str = "allow nothing";

impl OrchestratorFlags {
    /// The kubelet to register with, if any. `endpoint` is the driver's own.
    fn kubelet(self, endpoint: &Endpoint) -> Result<Option<Kubelet>, ConfigError> {
        let (Some(folder), Endpoint::Unix(own)) = (self.kubelet_registration, endpoint) else {
            return Ok(None);
        };
        let seen = self.kubelet_endpoint.as_ref().unwrap_or(own);
        let endpoint = std::path::absolute(seen)
            .map_err(|_| ConfigError::Value(seen.display().to_string(), config::ENDPOINT))?;
        Ok(Some(Kubelet { folder, endpoint }))
    }
}

impl LimitFlags {
    /// What requests may name.
    fn policy(&self, upstream_mounts: bool) -> Result<Policy, ConfigError> {
        let allowed = listed(
            "--allow-mount-option",
            ALLOW_ALL,
            &self.allow_mount_options,
            config::parse_option_name,
        )?;
        let known = |word: &str| config::parse_known_option(word, &allowed);
        Ok(Policy {
            servers: listed(
                "--allow-server",
                ALLOW_ALL,
                &self.allow_servers,
                config::parse_server,
            )?,
            denied_options: listed(
                "--deny-mount-option",
                "deny nothing",
                &self.deny_mount_options,
                known,
            )?,
            inline_shares: listed(
                "--inline-share",
                ALLOW_NOTHING,
                &self.inline_shares,
                config::parse_export,
            )?,
            inline_options: listed(
                "--inline-mount-option",
                ALLOW_NOTHING,
                &self.inline_mount_options,
                known,
            )?,
            allowed_options: allowed,
            upstream_mounts,
        })
    }
}

/// The entries of a list of what is allowed or denied. What no entry `would` do, nobody says with an empty list: it is a
/// variable that was not set.
fn listed<T>(
    flag: &'static str,
    would: &'static str,
    words: &[String],
    parse: impl Fn(&str) -> Result<T, ConfigError>,
) -> Result<Vec<T>, ConfigError> {
    let entries = config::named(words);
    if !words.is_empty() && entries.is_empty() {
        return Err(ConfigError::EmptyList(flag, would));
    }
    entries.into_iter().map(parse).collect()
}

#[cfg(test)]
mod tests;
