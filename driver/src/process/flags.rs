//! The command line of `csi-nfs` and the environment variables beside it. Owns the words; `config` owns the
//! values' syntax.

mod orchestrator;

use crate::calls::controller::NamedShare;
use crate::calls::defaults::Defaults;
use crate::calls::policy::Policy;
use crate::process::config::{self, Bounds, Config, ConfigError, Endpoint, LocalShare, Mode};
use crate::process::http::HttpAddress;
use crate::process::log::{Format, Level, Log};
use crate::process::registration::Kubelet;
use crate::share::records::volume::OnDelete;
use clap::{Parser, ValueEnum};
use orchestrator::OrchestratorFlags;
use std::path::PathBuf;
use std::str::FromStr;
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

At its start the driver raises its soft limit of open files to the hard one (ulimit -Hn, LimitNOFILE= of systemd). Give it 4096
or more: each connection takes one, each share in use some ten, each copy up to 500.

Commands of their own (--help tells more):
  csi-nfs agent            work on the NFS server itself, for the controllers elsewhere
  csi-nfs relay [SOCKET]   carry a connection between stdin and stdout and a driver's socket
  csi-nfs get ADDR PATH    ask the --http of a driver, as a probe does

Examples:
  # Controller and node in one process, for a test on one machine:
  csi-nfs --endpoint unix:///run/csi-nfs.sock --share home=10.0.0.4:/srv/home

  # On every node of a cluster, known to its kubelet without a sidecar:
  csi-nfs --mode node --endpoint unix:///var/lib/kubelet/plugins/nfs.csi.internal/csi.sock --node-id \"$NODE_NAME\" \\
    --kubelet-registration /var/lib/kubelet/plugins_registry

  # The controller on the NFS server itself, where the export is a local folder:
  csi-nfs --mode controller --endpoint unix:///run/csi-nfs.sock --local-share nas:/srv=/srv

  # In the place of kubernetes-csi's driver, for its volumes and snapshots too:
  csi-nfs --endpoint unix:///csi/csi.sock --driver-name nfs.csi.k8s.io --migrate-from csi-driver-nfs"
)]
pub struct Flags {
    /// Where to serve: unix:///PATH, or tcp://127.0.0.1:PORT
    #[arg(
        long,
        env = "CSI_ENDPOINT",
        value_name = "ENDPOINT",
        help_heading = "Serving"
    )]
    endpoint: Endpoint,

    /// Permissions of the unix socket, in octal
    #[arg(long, env = "CSI_NFS_SOCKET_MODE", value_name = "MODE", default_value = "0660",
          value_parser = config::parse_socket_mode, help_heading = "Serving")]
    socket_mode: u32,

    /// Services to serve beside Identity
    #[arg(
        long,
        env = "CSI_NFS_MODE",
        value_name = "MODE",
        default_value = "all",
        help_heading = "Serving"
    )]
    mode: Mode,

    /// Name of the driver; in the place of kubernetes-csi's driver it is nfs.csi.k8s.io
    #[arg(long, env = "CSI_NFS_DRIVER_NAME", value_name = "NAME", default_value = crate::process::config::DEFAULT_NAME,
          value_parser = config::parse_driver_name, help_heading = "Serving")]
    driver_name: String,

    /// Id of this node, unique in the cluster [default: the host name]
    #[arg(long, env = "CSI_NFS_NODE_ID", value_name = "ID", value_parser = config::parse_node_id,
          help_heading = "Serving")]
    node_id: Option<String>,

    /// Private folder for what must outlive a restart; one for each driver instance
    #[arg(
        long,
        env = "CSI_NFS_WORK_DIR",
        value_name = "DIR",
        default_value = "/var/lib/csi-nfs",
        help_heading = "Serving"
    )]
    work_dir: PathBuf,

    /// Mount a volume once on a node and bind it from there for each pod: NodeStageVolume and NodeUnstageVolume
    #[arg(long, env = "CSI_NFS_STAGE", value_parser = config::parse_switch, help_heading = "Serving")]
    stage: bool,

    #[command(flatten)]
    orchestrator: OrchestratorFlags,

    /// A share that volume ids call NAME and that is listed and recovered from the start; repeatable (in the variable:
    /// one a line)
    #[arg(
        long = "share",
        env = "CSI_NFS_SHARES",
        value_name = "NAME=SERVER:/PATH[,uuid=UUID][,OPTION...]",
        value_delimiter = '\n',
        help_heading = "Shares"
    )]
    shares: Vec<String>,

    /// An export that is a folder of this machine: used directly, without NFS; repeatable (in the variable: one a line)
    #[arg(
        long = "local-share",
        env = "CSI_NFS_LOCAL_SHARES",
        value_name = "SERVER:SHARE=PATH",
        value_delimiter = '\n',
        help_heading = "Shares"
    )]
    local_shares: Vec<String>,

    /// Hold new volumes on local shares to their sizes, by project quotas of the file system (XFS, ext4). Only with --mode
    /// controller: bind mounts would lead out of a project
    #[arg(long, env = "CSI_NFS_QUOTAS", value_parser = config::parse_switch, help_heading = "Shares")]
    quotas: bool,

    /// Measure in the background, once in this time, the disk usage of each volume whose size nobody enforces
    #[arg(long, env = "CSI_NFS_MEASURE", value_name = "INTERVAL",
          value_parser = config::parse_interval, help_heading = "Shares")]
    measure: Option<Duration>,

    /// Servers that requests may name, at their NFS port: host, address or *.domain; repeatable, or separated by commas
    /// [default: every server]
    #[arg(
        long = "allow-server",
        visible_alias = "allow-servers",
        env = "CSI_NFS_ALLOW_SERVERS",
        value_name = "SERVER",
        value_delimiter = ',',
        help_heading = "Limits on requests"
    )]
    allow_servers: Vec<String>,

    /// Mount options that requests may name, without their values; repeatable, or separated by commas
    /// [default: all that are not denied]
    #[arg(
        long = "allow-mount-option",
        visible_alias = "allow-mount-options",
        env = "CSI_NFS_ALLOW_MOUNT_OPTIONS",
        value_name = "OPTION",
        value_delimiter = ',',
        help_heading = "Limits on requests"
    )]
    allow_mount_options: Vec<String>,

    /// Mount options that requests may not name; repeatable, or separated by commas
    #[arg(
        long = "deny-mount-option",
        visible_alias = "deny-mount-options",
        env = "CSI_NFS_DENY_MOUNT_OPTIONS",
        value_name = "OPTION",
        value_delimiter = ',',
        help_heading = "Limits on requests"
    )]
    deny_mount_options: Vec<String>,

    /// A folder that inline (ephemeral) volumes may be, or lie in; repeatable (in the variable: one a line)
    /// [default: no inline volumes]
    #[arg(
        long = "inline-share",
        env = "CSI_NFS_INLINE_SHARES",
        value_name = "SERVER:/PATH",
        value_delimiter = '\n',
        help_heading = "Limits on requests"
    )]
    inline_shares: Vec<String>,

    /// Mount options that inline volumes may have, without their values; repeatable, or separated by commas
    /// [default: none]
    #[arg(
        long = "inline-mount-option",
        visible_alias = "inline-mount-options",
        env = "CSI_NFS_INLINE_MOUNT_OPTIONS",
        value_name = "OPTION",
        value_delimiter = ',',
        help_heading = "Limits on requests"
    )]
    inline_mount_options: Vec<String>,

    /// What becomes of a volume that is deleted, where neither its id nor its class says: delete, retain or archive
    /// [default: delete]
    #[arg(long, env = "CSI_NFS_DEFAULT_ONDELETE_POLICY", value_name = "POLICY",
          value_parser = config::parse_on_delete, help_heading = "Volumes whose class does not say")]
    default_ondelete_policy: Option<OnDelete>,

    /// The mode of volumes' folders, in octal, where neither their attributes nor their class says; 0 for none
    #[arg(long, env = "CSI_NFS_MOUNT_PERMISSIONS", value_name = "MODE",
          value_parser = config::parse_mount_permissions, help_heading = "Volumes whose class does not say")]
    mount_permissions: Option<u32>,

    /// Serve volumes and snapshots of kubernetes-csi's driver too, by their ids, with its volume attributes and its mount
    /// defaults. Usually with --driver-name nfs.csi.k8s.io
    #[arg(
        long,
        env = "CSI_NFS_MIGRATE_FROM",
        value_name = "DRIVER",
        help_heading = "Volumes of kubernetes-csi's driver"
    )]
    migrate_from: Option<UpstreamFlag>,

    /// What --default-ondelete-policy was called. Who still sets the variable wants the volumes kept
    #[arg(long, env = "CSI_NFS_MIGRATE_ON_DELETE", hide = true, value_parser = config::parse_on_delete,
          conflicts_with = "default_ondelete_policy")]
    migrate_on_delete: Option<OnDelete>,

    /// How long a mount may take
    #[arg(long, env = "CSI_NFS_MOUNT_TIMEOUT", value_name = "TIME", default_value = "110s",
          value_parser = config::parse_bound, help_heading = "Bounds in time")]
    mount_timeout: Duration,

    /// How long an unmount may take
    #[arg(long, env = "CSI_NFS_UNMOUNT_TIMEOUT", value_name = "TIME", default_value = "30s",
          value_parser = config::parse_bound, help_heading = "Bounds in time")]
    unmount_timeout: Duration,

    /// How long the usage of a volume may take
    #[arg(long, env = "CSI_NFS_STATS_TIMEOUT", value_name = "TIME", default_value = "5s",
          value_parser = config::parse_bound, help_heading = "Bounds in time")]
    stats_timeout: Duration,

    /// How long calls in progress may go on after SIGTERM; a second signal ends the driver at once
    #[arg(long, env = "CSI_NFS_DRAIN_TIMEOUT", value_name = "TIME", default_value = "30s",
          value_parser = config::parse_bound, help_heading = "Bounds in time")]
    drain_timeout: Duration,

    /// Form of the log on stderr
    #[arg(
        long,
        env = "CSI_NFS_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text",
        help_heading = "Log"
    )]
    log_format: Format,

    /// What the log holds: events of this level, and of the more urgent ones
    #[arg(
        long,
        env = "CSI_NFS_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info",
        help_heading = "Log"
    )]
    log_level: Level,
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
        let host = rustix::system::uname();
        self.decide(&host.nodename().to_string_lossy())
    }

    /// The values on a machine of that name.
    fn decide(self, host: &str) -> Result<(Serving, Config, Log), ConfigError> {
        let mode = self.mode;
        let upstream = self.migrate_from.is_some();
        let given = Given {
            mode,
            is_built_in: cfg!(feature = "upstream"),
            upstream,
            local_shares: !named(&self.local_shares).is_empty(),
            quotas: self.quotas,
            inline_shares: !self.inline_shares.is_empty(),
            inline_options: !self.inline_mount_options.is_empty(),
            on_delete: self.default_ondelete_policy.is_some(),
            permissions: self.mount_permissions.is_some(),
            measure: self.measure.is_some(),
        };
        if let Some((flag, why)) = given.without_effect() {
            return Err(ConfigError::NoEffect(flag, why));
        }
        let on_delete = self.default_ondelete_policy.or(self.migrate_on_delete);
        let policy = self.policy(upstream)?;
        let serving = Serving {
            kubelet: self.orchestrator.kubelet(mode, &self.endpoint)?,
            http: self.orchestrator.http,
            endpoint: self.endpoint,
            socket_mode: self.socket_mode,
        };
        let config = Config {
            driver_name: self.driver_name,
            node_id: match self.node_id {
                Some(id) => id,
                None => config::parse_node_id(host)?,
            },
            mode,
            shares: config::distinct("--share", parse_all(&self.shares)?, |share: &NamedShare| {
                share.name.clone()
            })?,
            local_shares: config::distinct(
                "--local-share",
                parse_all(&self.local_shares)?,
                |share: &LocalShare| share.export.clone(),
            )?,
            quotas: self.quotas,
            work_dir: self.work_dir,
            policy,
            bounds: Bounds {
                mount: self.mount_timeout,
                unmount: self.unmount_timeout,
                stats: self.stats_timeout,
                drain: self.drain_timeout,
            },
            measure: self.measure,
            symlink_fallback: false,
            stage: self.stage,
            upstream,
            defaults: Defaults {
                on_delete: on_delete.unwrap_or_default(),
                mode: self.mount_permissions.filter(|mode| *mode != 0),
            },
        };
        let log = Log::to_stderr(self.log_format, self.log_level);
        Ok((serving, config, log))
    }

    /// What requests may name.
    fn policy(&self, serves_upstream: bool) -> Result<Policy, ConfigError> {
        let allowed = &self.allow_mount_options;
        let denied = &self.deny_mount_options;
        let inline = &self.inline_mount_options;
        let shares = listed("--inline-share", ALLOW_NOTHING, &self.inline_shares)?;
        Ok(Policy {
            servers: listed("--allow-server", ALLOW_ALL, &self.allow_servers)?,
            allowed_options: option_names("--allow-mount-option", ALLOW_ALL, allowed)?,
            denied_options: option_names("--deny-mount-option", "deny nothing", denied)?,
            inline_shares: shares
                .iter()
                .map(|word| config::parse_export(word))
                .collect::<Result<_, _>>()?,
            inline_options: option_names("--inline-mount-option", ALLOW_NOTHING, inline)?,
            upstream_mounts: serves_upstream,
        })
    }
}

/// Which flags are given that may have no effect.
#[derive(Clone, Copy, Debug)]
struct Given {
    mode: Mode,
    /// Whether this build can serve volumes of kubernetes-csi's driver, and whether it is to.
    is_built_in: bool,
    upstream: bool,
    local_shares: bool,
    quotas: bool,
    inline_shares: bool,
    inline_options: bool,
    on_delete: bool,
    permissions: bool,
    measure: bool,
}

const INLINE: &str = "with --mode controller: inline volumes are mounted by nodes; give it to the driver on the nodes (--mode node or all) and leave it out here";

impl Given {
    /// The first flag that has no effect beside the others, and what to do.
    fn without_effect(self) -> Option<(&'static str, &'static str)> {
        let is_node = self.mode == Mode::Node;
        // A controller that serves volumes of kubernetes-csi's driver keeps its hands off these folders when it deletes those.
        let no_inline = self.mode == Mode::Controller && !self.upstream;
        // Nothing could enforce sizes there, or pods of this very process would get round it.
        let no_quotas = match (self.mode, self.local_shares) {
            (Mode::Controller, true) => "",
            (Mode::Controller, false) => {
                "without --local-share: limits are set where the folder lies; run csi-nfs agent --quotas on the NFS server, and leave it out here"
            }
            (Mode::Node, _) => {
                "with --mode node: volumes get their limits when they are made; give it to the controller on the NFS server, or to csi-nfs agent, and leave it out here"
            }
            (Mode::All, _) => {
                "with --mode all: this process gives pods bind mounts of local shares, through which the owner of a file takes it out of its limit; start the controller by itself (--mode controller) and nodes that mount over NFS, or leave it out"
            }
        };
        let all = [
            (
                "--migrate-from",
                self.upstream && !self.is_built_in,
                "because this build has not the feature upstream: leave it out, or build the driver with that feature",
            ),
            ("--inline-share", self.inline_shares && no_inline, INLINE),
            (
                "--inline-mount-option",
                self.inline_options && no_inline,
                INLINE,
            ),
            ("--quotas", self.quotas && !no_quotas.is_empty(), no_quotas),
            (
                "--default-ondelete-policy",
                self.on_delete && is_node,
                "with --mode node: the controller makes and deletes volumes; give it there and leave it out here",
            ),
            (
                "--mount-permissions",
                // A node gives the mode to volumes of kubernetes-csi's driver.
                self.permissions && is_node && !self.upstream,
                "with --mode node, unless --migrate-from is given: volumes get their mode when they are made; give it to the controller and leave it out here",
            ),
            (
                "--measure",
                self.measure && is_node,
                "with --mode node: volumes are measured by controllers, or by an agent on the server; give it to one of these and leave it out here",
            ),
        ];
        let found = all.into_iter().find(|(_, is_without, _)| *is_without);
        found.map(|(flag, _, why)| (flag, why))
    }
}

/// A variable may be empty or end with a separator, as a block of YAML does.
fn named(words: &[String]) -> Vec<String> {
    let trimmed = words.iter().map(|word| word.trim().to_owned());
    trimmed.filter(|word| !word.is_empty()).collect()
}

/// What lists without an entry would do.
const ALLOW_ALL: &str = "allow everything";
const ALLOW_NOTHING: &str = "allow nothing";

/// The entries of a list of what is allowed or denied. What no entry `would` do, nobody says with an empty list: it is a
/// variable that was not set.
fn listed(
    flag: &'static str,
    would: &'static str,
    words: &[String],
) -> Result<Vec<String>, ConfigError> {
    let given = !words.is_empty();
    let words = named(words);
    if given && words.is_empty() {
        return Err(ConfigError::EmptyList(flag, would));
    }
    Ok(words)
}

/// The same for names of mount options.
fn option_names(
    flag: &'static str,
    would: &'static str,
    words: &[String],
) -> Result<Vec<String>, ConfigError> {
    let words = listed(flag, would, words)?;
    let names = words.iter().map(|word| config::parse_option_name(word));
    names.collect()
}

fn parse_all<T: FromStr<Err = ConfigError>>(words: &[String]) -> Result<Vec<T>, ConfigError> {
    named(words).iter().map(|word| word.parse()).collect()
}

#[cfg(test)]
mod tests;
