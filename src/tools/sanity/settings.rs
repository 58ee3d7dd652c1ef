//! What a run is told: which driver, what to send it, which cases, how strict.
//!
//! Plain data. Flags are turned into it in `flags.rs`, a file in `config.rs`.

use crate::call::endpoint::ConnectOptions;
use csi_proto::v1::VolumeCapability;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// Everything that shapes a run. [`Settings::of`] has sensible values for all but the driver.
#[derive(Clone)]
#[non_exhaustive]
pub struct Settings {
    /// The driver: of its node, and of its controller where that is not another one.
    pub endpoint: String,
    /// The driver's controller, where that is another endpoint.
    pub controller_endpoint: Option<String>,
    /// How long one call may take.
    pub timeout: Duration,
    /// How long one case may take, without restarts of the driver, and without taking down what it made.
    pub case_limit: Duration,
    /// gRPC metadata of every call.
    pub metadata: Vec<(String, String)>,
    /// Parameters of CreateVolume.
    pub parameters: BTreeMap<String, String>,
    /// Mutable parameters, for ControllerModifyVolume.
    pub mutable_parameters: BTreeMap<String, String>,
    /// Parameters of CreateSnapshot.
    pub snapshot_parameters: BTreeMap<String, String>,
    /// Parameters of CreateVolumeGroupSnapshot.
    pub group_snapshot_parameters: BTreeMap<String, String>,
    /// Secrets of every request that has such a field. They appear in no report.
    pub secrets: BTreeMap<String, String>,
    /// The file with the secrets, to be named in commands that reproduce a failure.
    pub secrets_file: Option<String>,
    /// The capabilities to use, at most one of each access type. Without any: SINGLE_NODE_WRITER with mount, and with
    /// block where the driver has such volumes.
    pub capabilities: Vec<VolumeCapability>,
    /// The size of volumes in bytes; they are expanded to its double.
    pub volume_size: i64,
    /// An existing volume for cases that only read, where none can be created. It is never changed.
    pub volume_id: Option<String>,
    /// The folder in which target paths are made; without it that for temporary files.
    pub mount_parent: Option<PathBuf>,
    /// The folder in which staging paths are made; without it the one for target paths.
    pub staging_parent: Option<PathBuf>,
    /// Whether the node's paths are visible here; without it, whether the endpoint is one of this machine.
    pub paths: Option<bool>,
    /// The node id that NodeGetInfo must answer.
    pub node_id: Option<String>,
    /// The id of another node that volumes can be published to, for ControllerPublishVolume.
    pub other_node_id: Option<String>,
    /// A shell command that restarts the driver and returns.
    pub restart_command: Option<String>,
    /// Restart the driver before every step of that number of every case, 1 for each; 0 for no such restarts. The cases
    /// then run one at a time.
    pub restart_between_steps: u64,
    /// Run only what changes nothing.
    pub read_only: bool,
    /// Names of cases to run, or parts of them, with `*` for anything; all where there is none. With `!` before it: not to run.
    pub filter: Vec<String>,
    /// How many cases run at a time.
    pub jobs: usize,
    /// The seed of the order and of all that is chosen at random; a new one where there is none.
    pub seed: Option<u64>,
    /// Run the cases in an order that the seed tells.
    pub shuffle: bool,
    /// Start no more cases after the first failure.
    pub fail_fast: bool,
    /// Count what the specification only recommends as a failure.
    pub strict: bool,
    /// How to connect.
    pub(crate) connect: ConnectOptions,
    /// Flags of connections, to be repeated in commands that reproduce a failure.
    pub(crate) connection_flags: Vec<String>,
}

impl Settings {
    /// Those for the driver at an endpoint, in any form that `csi --endpoint` takes.
    pub fn of(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            controller_endpoint: None,
            timeout: Duration::from_secs(60),
            case_limit: Duration::from_secs(120),
            metadata: Vec::new(),
            parameters: BTreeMap::new(),
            mutable_parameters: BTreeMap::new(),
            snapshot_parameters: BTreeMap::new(),
            group_snapshot_parameters: BTreeMap::new(),
            secrets: BTreeMap::new(),
            secrets_file: None,
            capabilities: Vec::new(),
            volume_size: 1 << 30,
            volume_id: None,
            mount_parent: None,
            staging_parent: None,
            paths: None,
            node_id: None,
            other_node_id: None,
            restart_command: None,
            restart_between_steps: 0,
            read_only: false,
            filter: Vec::new(),
            jobs: 8,
            seed: None,
            shuffle: false,
            fail_fast: false,
            strict: false,
            connect: ConnectOptions::default(),
            connection_flags: Vec::new(),
        }
    }

    /// How many cases run at a time: one, where others would be met by its restarts.
    pub(super) fn jobs(&self) -> usize {
        match self.restart_between_steps {
            0 => self.jobs.max(1),
            _ => 1,
        }
    }

    /// Whether the case of that name is to run.
    pub(super) fn selects(&self, name: &str) -> bool {
        let (without, with): (Vec<_>, Vec<_>) = self
            .filter
            .iter()
            .partition(|pattern| pattern.starts_with('!'));
        let wanted = with.is_empty() || with.iter().any(|pattern| matches(pattern, name));
        wanted && !without.iter().any(|pattern| matches(&pattern[1..], name))
    }

    /// The folder in which target paths are made.
    pub(super) fn mount_folder(&self) -> PathBuf {
        let parent = self.mount_parent.clone().unwrap_or_else(std::env::temp_dir);
        std::path::absolute(&parent).unwrap_or(parent)
    }

    /// The folder in which staging paths are made.
    pub(super) fn staging_folder(&self) -> PathBuf {
        match &self.staging_parent {
            Some(parent) => std::path::absolute(parent).unwrap_or_else(|_| parent.clone()),
            None => self.mount_folder(),
        }
    }

    /// The capability to use for an access type; `None` where the settings name others only.
    pub(super) fn capability(&self, access: Access) -> Option<VolumeCapability> {
        if self.capabilities.is_empty() {
            return Some(access.capability());
        }
        let mut given = self.capabilities.iter();
        given.find(|one| Access::of(one) == access).cloned()
    }
}

/// Secrets are not shown.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("filter", &self.filter)
            .finish_non_exhaustive()
    }
}

/// How a volume is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// As a mounted file system.
    Mount,
    /// As a block device.
    Block,
}

impl Access {
    /// Both, in the order in which they are tried.
    pub(super) const ALL: [Self; 2] = [Self::Mount, Self::Block];

    /// The other one.
    pub(super) fn other(self) -> Self {
        match self {
            Self::Mount => Self::Block,
            Self::Block => Self::Mount,
        }
    }

    /// That of a capability; a capability without one counts as mount.
    pub(super) fn of(capability: &VolumeCapability) -> Self {
        match capability.access_type {
            Some(AccessType::Block(_)) => Self::Block,
            _ => Self::Mount,
        }
    }

    /// The name in the specification.
    pub fn name(self) -> &'static str {
        match self {
            Self::Mount => "mount",
            Self::Block => "block",
        }
    }

    fn capability(self) -> VolumeCapability {
        VolumeCapability {
            access_mode: Some(AccessMode {
                mode: Mode::SingleNodeWriter.into(),
            }),
            access_type: Some(match self {
                Self::Mount => AccessType::Mount(MountVolume::default()),
                Self::Block => AccessType::Block(BlockVolume {}),
            }),
        }
    }
}

/// Whether a pattern is a part of `name`; `*` stands for any text.
fn matches(pattern: &str, name: &str) -> bool {
    let mut rest = name;
    pattern.split('*').all(|part| match rest.find(part) {
        Some(at) => {
            rest = &rest[at + part.len()..];
            true
        }
        None => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn selected(filter: &[&str]) -> Vec<&'static str> {
        let mut settings = Settings::of("/csi.sock");
        settings.filter = filter.iter().map(ToString::to_string).collect();
        let names = ["identity/probe", "node/stage/twice", "node/publish/twice"];
        names
            .into_iter()
            .filter(|name| settings.selects(name))
            .collect()
    }

    #[test]
    fn cases_are_selected_by_parts_of_their_names() {
        assert_eq!(selected(&[]).len(), 3);
        assert_eq!(selected(&["probe"]), ["identity/probe"]);
        assert_eq!(selected(&["probe", "stage"]).len(), 2);
        assert_eq!(
            selected(&["node/*/twice", "!stage"]),
            ["node/publish/twice"]
        );
        assert_eq!(selected(&["!node/*"]), ["identity/probe"]);
        assert_eq!(selected(&["twice*node"]), [""; 0]);
    }
}
