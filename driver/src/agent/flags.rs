//! The command line of `csi-nfs agent`. Owns its words; `config` owns the values' syntax.

use crate::process::config::{self, ConfigError, LocalShare};
use crate::process::log::{Format, Level, Log};
use clap::Args;
use std::time::Duration;

/// The flags.
#[derive(Args, Debug)]
pub struct AgentFlags {
    /// An export of this server, and the folder that it is here; repeatable (in the variable: one a line)
    #[arg(
        long = "local-share",
        env = "CSI_NFS_LOCAL_SHARES",
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

    /// Form of the log on stderr
    #[arg(
        long,
        env = "CSI_NFS_LOG_FORMAT",
        value_name = "FORMAT",
        default_value = "text"
    )]
    log_format: Format,

    /// What the log holds: events of this level, and of the more urgent ones
    #[arg(
        long,
        env = "CSI_NFS_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info"
    )]
    log_level: Level,
}

impl AgentFlags {
    /// The shares that the agent attends, and the folders that they are here.
    ///
    /// # Errors
    /// When a share is none, or is named twice.
    pub fn shares(&self) -> Result<Vec<LocalShare>, ConfigError> {
        let words = self.local_shares.iter().map(|word| word.trim());
        let words = words.filter(|word| !word.is_empty());
        let shares: Vec<LocalShare> = words.map(str::parse).collect::<Result<_, _>>()?;
        config::distinct("--local-share", shares, |share| share.export.clone())
    }

    /// Where the agent says what it does.
    pub(super) fn log(&self) -> Log {
        Log::to_stderr(self.log_format, self.log_level)
    }
}
