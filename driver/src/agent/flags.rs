//! The command line of `csi-nfs agent`. Owns its words; `config` owns the values' syntax.

use crate::process::config::{self, ConfigError, LocalShare};
use crate::process::flags::LogFlags;
use crate::process::log::Log;
use clap::Args;
use std::time::Duration;

/// What an agent is told.
#[derive(Clone, Debug)]
pub struct Agent {
    /// The shares that it attends, and the folders that they are here.
    pub shares: Vec<LocalShare>,
    /// Whether it enforces the sizes of volumes.
    pub quotas: bool,
    /// How often it measures volumes whose sizes nobody enforces; never, without it.
    pub measure: Option<Duration>,
    /// How long the end may take.
    pub drain: Duration,
    /// Where it says what it does.
    pub log: Log,
}

/// The flags.
#[derive(Args, Debug)]
pub struct AgentFlags {
    /// An export of this server, and the folder that it is here; repeatable (in the variable: one a line)
    #[arg(long = "local-share", env = "CSI_NFS_LOCAL_SHARES")]
    #[arg(
        value_name = "SERVER:SHARE=PATH",
        value_delimiter = '\n',
        required = true
    )]
    local_shares: Vec<String>,

    /// Hold new volumes to their sizes, by project quotas of the file system (XFS, ext4); takes CAP_SYS_ADMIN
    #[arg(long, env = "CSI_NFS_QUOTAS", value_parser = config::parse_switch)]
    quotas: bool,

    /// Measure in the background, once in this time, the disk usage of each volume whose size nobody enforces
    #[arg(long, env = "CSI_NFS_MEASURE", value_name = "INTERVAL", value_parser = config::parse_interval)]
    measure: Option<Duration>,

    /// How long what has begun may take after SIGTERM; a second signal ends the agent at once
    #[arg(long, env = "CSI_NFS_DRAIN_TIMEOUT", value_name = "TIME", default_value = "10s",
          value_parser = config::parse_bound)]
    drain_timeout: Duration,

    #[command(flatten)]
    log: LogFlags,
}

impl AgentFlags {
    /// The values.
    ///
    /// # Errors
    /// When a share is none, or is named twice.
    pub fn resolve(self) -> Result<Agent, ConfigError> {
        Ok(Agent {
            shares: config::parse_local_shares(&self.local_shares)?,
            quotas: self.quotas,
            measure: self.measure,
            drain: self.drain_timeout,
            log: self.log.log(),
        })
    }
}
