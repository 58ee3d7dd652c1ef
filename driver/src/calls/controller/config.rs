//! Holds the configuration of a controller, in its own words. Must not know flags or files.

use crate::calls::defaults::Defaults;
use crate::calls::policy::Policy;
use crate::upstream::ids::UpstreamIds;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::admission::Admission;
use csi_nfs_store::files::roots::ShareRoots;
use csi_nfs_store::share::token::ShareUuid;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// A share that was given a name with `--share NAME=SERVER:/PATH`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedShare {
    /// The name, one that [`crate::calls::volume_id::is_share_name`] accepts.
    pub name: String,
    /// Where it is now.
    pub export: Export,
    /// Options for mounting it to keep its records.
    pub mount_options: Vec<String>,
    /// The share that has to be there. Without one, a first use initialises whatever is.
    pub uuid: Option<ShareUuid>,
}

/// Takes what nobody waits for, one line each.
pub type Notice = Arc<dyn Fn(&str) + Send + Sync>;

/// What a process is to the shares that it works on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// It does what calls ask for, and leaves copies and purges to an agent where one is faster.
    #[default]
    Controller,
    /// It is that agent: of a controller it has what goes on in the background, and no more.
    Agent,
}

/// Files, folders and records that are looked at on one server in a second, at most.
const RATE: u32 = 1000;

/// How volumes are measured.
#[derive(Clone)]
pub struct Pace {
    /// How old the measure of a volume gets before the next one is made.
    pub interval: Duration,
    /// How long to rest after so many files, folders and records.
    pub rest: Arc<dyn Fn(usize) -> Duration + Send + Sync>,
}

impl Pace {
    /// One measure of each volume in this time, without haste.
    pub fn every(interval: Duration) -> Self {
        let rest = |looked| Duration::from_secs(1) * u32::try_from(looked).unwrap_or(RATE) / RATE;
        Self {
            interval,
            rest: Arc::new(rest),
        }
    }
}

/// Everything that a [`super::Controller`] needs.
#[derive(Clone)]
pub struct ControllerConfig {
    /// What it is to them.
    pub role: Role,
    /// Whether it enforces the sizes of the volumes on local folders by itself.
    pub quotas: bool,
    /// How to get at the shares.
    pub roots: Arc<dyn ShareRoots>,
    /// Where work on them waits for its turn.
    pub admission: Admission,
    /// How volumes are measured whose sizes are not enforced; without it they are not.
    pub measure: Option<Pace>,
    /// Shares with a name.
    pub named_shares: Vec<NamedShare>,
    /// Other shares to list and recover from the start, such as those of `--local-share`.
    pub other_exports: Vec<Export>,
    /// What holds for volumes where neither id nor class says.
    pub defaults: Defaults,
    /// What becomes of calls about volumes of kubernetes-csi's driver.
    pub upstream: UpstreamIds,
    /// What a request may name.
    pub policy: Policy,
    /// The file that keeps the mount options of shares over a restart; without one a share's options are forgotten.
    pub remember: Option<PathBuf>,
    /// How long a share that was not named at the start is expected to come back before lists go on without it.
    pub forget_after: Duration,
    /// How long a call without a deadline waits for its operation.
    pub timeout: Duration,
    /// Where notices about work in the background go.
    pub notice: Notice,
    /// Where goes what only those want to know who look for it.
    pub debug: Notice,
}

impl ControllerConfig {
    /// A controller for `roots` that knows no share, allows what is not forbidden, and says nothing.
    pub fn new(roots: Arc<dyn ShareRoots>) -> Self {
        Self {
            role: Role::default(),
            quotas: false,
            roots,
            admission: Admission::default(),
            measure: None,
            named_shares: Vec::new(),
            other_exports: Vec::new(),
            defaults: Defaults::default(),
            upstream: UpstreamIds::default(),
            policy: Policy::default(),
            remember: None,
            forget_after: Duration::from_secs(600),
            timeout: Duration::from_secs(110),
            notice: Arc::new(|_| ()),
            debug: Arc::new(|_| ()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rest_is_as_long_as_its_part_may_take() {
        let pace = Pace::every(Duration::from_secs(3600));
        for (looked, milliseconds) in [(0, 0), (1, 1), (250, 250), (1000, 1000)] {
            assert_eq!((pace.rest)(looked), Duration::from_millis(milliseconds));
        }
    }
}
