//! The command line of `csi-nfs agent`. Owns its words; `config::syntax` owns that of values.

use crate::process::config::{self, ConfigError, LocalShare};
use crate::process::flags::LogFlags;
use crate::process::log::Log;
use clap::Args;
use std::time::Duration;

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
    pub(super) quotas: bool,

    /// Measure in the background, once in this time, the disk usage of each volume whose size nobody enforces
    #[arg(long, env = "CSI_NFS_MEASURE", value_name = "INTERVAL", value_parser = config::parse_interval)]
    pub(super) measure: Option<Duration>,

    /// How long what has begun may take after SIGTERM; a second signal ends the agent at once
    #[arg(long, env = "CSI_NFS_DRAIN_TIMEOUT", value_name = "TIME", default_value = "10s",
          value_parser = config::parse_bound)]
    pub(super) drain_timeout: Duration,

    #[command(flatten)]
    log: LogFlags,
}

impl AgentFlags {
    /// The shares that the agent attends, and the folders that they are here.
    ///
    /// # Errors
    /// When a share is none, or is named twice.
    pub fn shares(&self) -> Result<Vec<LocalShare>, ConfigError> {
        config::parse_local_shares(&self.local_shares)
    }

    /// Where the agent says what it does.
    pub(super) fn log(&self) -> Log {
        self.log.log()
    }
}
