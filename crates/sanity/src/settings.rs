//! The settings of a run: the driver, the values to send it, the cases, the strictness.
//!
//! One declaration a setting: its flag, its help, its key in a file of settings. Values that TOML does not have stand in
//! `file_values.rs`, what a file may hold wrong in `config.rs`.

use super::file_values;
use clap::{ArgAction, ArgMatches, Args, FromArgMatches as _};
use csi_arguments::map::{self, MapError};
use csi_arguments::{capability, size};
use csi_call::endpoint::ConnectOptions;
use csi_call::user_folders;
use csi_proto::duration;
use csi_proto::v1::VolumeCapability;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

/// The heading of these flags.
pub(super) const DRIVER: &str = "What the driver is sent";
const RUN: &str = "What is run";

/// The size of volumes that every driver should have.
pub(super) const DEFAULT_SIZE: i64 = 1 << 30;

/// Keys with values, such as parameters.
type Parameters = BTreeMap<String, String>;

/// Everything that shapes a run. [`Settings::of`] has sensible values for all but the driver.
// No flag has a default of clap's and none is required: the flags that are given change what a file said, and no other.
#[derive(Args, Clone, Deserialize)]
// COMMAND is the driver's.
#[command(subcommand_value_name = "explain CASE")]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
#[non_exhaustive]
pub struct Settings {
    /// The driver: of its node, and of its controller where that is not another one.
    #[arg(skip)]
    pub endpoint: String,
    /// Start the driver with this command, on a socket of its own, whose endpoint replaces {} and is in CSI_ENDPOINT; restart
    /// it when it dies, and end it
    #[arg(last = true, value_name = "COMMAND")]
    pub command: Vec<String>,
    /// The driver's controller, where that is another endpoint than the node's
    #[arg(long, value_name = "ENDPOINT", help_heading = DRIVER)]
    pub controller_endpoint: Option<String>,
    /// Parameters of CreateVolume
    #[arg(long = "params", id = "params", value_name = "K=V,…", value_parser = parameters, action = ArgAction::Append, required = false, help_heading = DRIVER)]
    #[serde(rename = "params")]
    pub parameters: Parameters,
    /// Mutable parameters, for ControllerModifyVolume
    #[arg(long = "mutable-params", id = "mutable_params", value_name = "K=V,…", value_parser = parameters, action = ArgAction::Append, required = false, help_heading = DRIVER)]
    #[serde(rename = "mutable-params")]
    pub mutable_parameters: Parameters,
    /// Parameters of CreateSnapshot
    #[arg(long = "snapshot-params", id = "snapshot_params", value_name = "K=V,…", value_parser = parameters, action = ArgAction::Append, required = false, help_heading = DRIVER)]
    #[serde(rename = "snapshot-params")]
    pub snapshot_parameters: Parameters,
    /// Parameters of CreateVolumeGroupSnapshot
    #[arg(long = "group-snapshot-params", id = "group_snapshot_params", value_name = "K=V,…", value_parser = parameters, action = ArgAction::Append, required = false, help_heading = DRIVER)]
    #[serde(rename = "group-snapshot-params")]
    pub group_snapshot_parameters: Parameters,
    /// Secrets from a file, sent with every call that has such a field: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE", help_heading = DRIVER)]
    pub secrets_file: Option<String>,
    /// Capability of volumes, at most one of each type; without it SINGLE_NODE_WRITER with mount, and with block where the
    /// driver has such volumes
    #[arg(long = "cap", id = "cap", value_name = "MODE,TYPE[,FS[,FLAG…]]", value_parser = capability::parse, help_heading = DRIVER)]
    #[serde(rename = "cap", deserialize_with = "file_values::capabilities")]
    pub capabilities: Vec<VolumeCapability>,
    /// Size of volumes, which are expanded to its double [default: the first of 64Mi, 512Mi and 1Gi that the driver takes]
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = DRIVER)]
    #[serde(deserialize_with = "file_values::size")]
    pub volume_size: Option<i64>,
    /// An existing volume to ask about, for --read-only; it is never changed
    #[arg(long, value_name = "ID", help_heading = DRIVER)]
    pub volume_id: Option<String>,
    /// Folder in which target paths are made; the driver must see it under the same path
    /// [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER", help_heading = DRIVER)]
    pub mount_parent: Option<PathBuf>,
    /// Folder in which staging paths are made [default: that of target paths]
    #[arg(long, value_name = "FOLDER", help_heading = DRIVER)]
    pub staging_parent: Option<PathBuf>,
    /// Whether the node's paths are visible here [default: when the endpoint is a socket of this machine]
    #[arg(long, value_name = "BOOL", help_heading = DRIVER)]
    pub paths: Option<bool>,
    /// The node id that NodeGetInfo must answer
    #[arg(long, value_name = "ID", help_heading = DRIVER)]
    pub node_id: Option<String>,
    /// The id of another node, for ControllerPublishVolume to two nodes
    #[arg(long, value_name = "ID", help_heading = DRIVER)]
    pub other_node_id: Option<String>,
    /// A shell command that restarts the driver, and returns; run by the cases that are about restarts
    #[arg(long, value_name = "COMMAND", help_heading = DRIVER)]
    pub restart_command: Option<String>,
    /// Restart the driver between any two steps of every case; with N before every Nth step, from where the seed says, and
    /// of lifecycles before each. The cases run one at a time
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1", required = false,
        conflicts_with = "jobs", help_heading = RUN)]
    #[serde(deserialize_with = "file_values::every")]
    pub restart_between_steps: u64,
    /// Run only what changes nothing: for drivers in production
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", required = false,
        action = ArgAction::Set, hide_possible_values = true, help_heading = RUN)]
    pub read_only: bool,
    /// Run the cases whose names contain this; * stands for anything, ! before it leaves them out
    #[arg(long, value_name = "PATTERN", help_heading = RUN)]
    #[serde(deserialize_with = "file_values::texts")]
    pub filter: Vec<String>,
    /// How many cases run at a time [default: 8]
    #[arg(long, value_name = "N", required = false, help_heading = RUN)]
    pub jobs: usize,
    /// The seed of the order and of what is chosen at random [default: a new one]
    #[arg(long, value_name = "N", help_heading = RUN)]
    pub seed: Option<u64>,
    /// Run the cases in an order that the seed tells
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", required = false,
        action = ArgAction::Set, hide_possible_values = true, help_heading = RUN)]
    pub shuffle: bool,
    /// Start no more cases after the first failure
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", required = false,
        action = ArgAction::Set, hide_possible_values = true, help_heading = RUN)]
    pub fail_fast: bool,
    /// Count what the specification only recommends as a failure
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", required = false,
        action = ArgAction::Set, hide_possible_values = true, help_heading = RUN)]
    pub strict: bool,
    /// Let be what earlier runs left that were killed, instead of taking it down first
    #[arg(long, value_name = "BOOL", num_args = 0..=1, require_equals = true, default_missing_value = "true", required = false,
        action = ArgAction::Set, hide_possible_values = true, help_heading = RUN)]
    pub keep_leftovers: bool,
    /// How long a case may go on without an answer of the driver, longer than 0. Restarts do not count
    /// [default: 2m]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, required = false, help_heading = RUN)]
    #[serde(deserialize_with = "file_values::duration")]
    pub case_limit: Duration,
    /// How long one call may take.
    #[arg(skip)]
    #[serde(skip)]
    pub timeout: Duration,
    /// How long the driver that `command` starts may take until it answers.
    #[arg(skip)]
    #[serde(skip)]
    pub start_limit: Duration,
    /// How long taking down what dead runs left may take.
    #[arg(skip)]
    #[serde(skip)]
    pub leftovers_limit: Duration,
    /// gRPC metadata of every call.
    #[arg(skip)]
    #[serde(skip)]
    pub metadata: Vec<(String, String)>,
    /// Secrets of every request that has such a field. They appear in no report.
    #[arg(skip)]
    #[serde(skip)]
    pub secrets: Parameters,
    /// The options of connections.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) connect: ConnectOptions,
    /// Flags of connections, to be repeated in commands that reproduce a failure.
    #[arg(skip)]
    #[serde(skip)]
    pub(crate) connection_flags: Vec<String>,
}

/// The default settings.
impl Default for Settings {
    fn default() -> Self {
        Self {
            endpoint: String::new(),
            command: Vec::new(),
            controller_endpoint: None,
            parameters: Parameters::new(),
            mutable_parameters: Parameters::new(),
            snapshot_parameters: Parameters::new(),
            group_snapshot_parameters: Parameters::new(),
            secrets_file: None,
            capabilities: Vec::new(),
            volume_size: None,
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
            keep_leftovers: false,
            case_limit: Duration::from_secs(120),
            timeout: Duration::from_secs(60),
            start_limit: Duration::from_secs(60),
            leftovers_limit: Duration::from_secs(10),
            metadata: Vec::new(),
            secrets: Parameters::new(),
            connect: ConnectOptions::default(),
            connection_flags: Vec::new(),
        }
    }
}

fn parameters(text: &str) -> Result<Parameters, MapError> {
    Ok(map::parse(text)?.into_iter().collect())
}

impl Settings {
    /// The default settings for the driver at an endpoint, in any form that `csi --endpoint` takes.
    pub fn of(endpoint: impl Into<String>) -> Self {
        Self {
            endpoint: endpoint.into(),
            ..Self::default()
        }
    }

    /// Changes what the flags of a command line say.
    pub(super) fn take(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        self.update_from_arg_matches(matches)?;
        // Each of these may be given many times, of which the derived code takes the first.
        for (flag, map) in [
            ("params", &mut self.parameters),
            ("mutable_params", &mut self.mutable_parameters),
            ("snapshot_params", &mut self.snapshot_parameters),
            ("group_snapshot_params", &mut self.group_snapshot_parameters),
        ] {
            if let Some(given) = matches.get_many::<Parameters>(flag) {
                let pairs = given.flatten();
                *map = pairs
                    .map(|(key, value)| (key.clone(), value.clone()))
                    .collect();
            }
        }
        Ok(())
    }

    /// The number of cases that run at a time: one, where the restarts of one case would disturb others.
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
        let parent = self.mount_parent.clone();
        let parent = parent.unwrap_or_else(user_folders::temporary);
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

/// The access type of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// A mounted file system.
    Mount,
    /// A block device.
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

    /// The access type of a capability; a capability without one counts as mount.
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

    #[test]
    fn flags_that_are_given_change_what_was_said_before_and_no_others_do() {
        let mut settings = Settings::of("/csi.sock");
        settings.parameters = [("old".to_owned(), "1".to_owned())].into();
        settings.snapshot_parameters = settings.parameters.clone();
        settings.filter = vec!["old".to_owned()];
        settings.shuffle = true;
        settings.strict = true;
        settings.seed = Some(1);
        let line = "sanity --params a=1,b=2 --params b=3 --filter x --filter y --strict=false --fail-fast \
                    --restart-between-steps --case-limit 3s --cap 5,mount";
        let command = Settings::augment_args(clap::Command::new("sanity"));
        let matches = command.try_get_matches_from(line.split_whitespace());
        settings.take(&matches.unwrap()).unwrap();
        let parameters: Vec<_> = settings.parameters.into_iter().collect();
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(parameters, [pair("a", "1"), pair("b", "3")]);
        assert_eq!(settings.snapshot_parameters["old"], "1");
        assert_eq!(settings.filter, ["x", "y"]);
        assert_eq!(settings.case_limit, Duration::from_secs(3));
        assert_eq!(settings.capabilities.len(), 1);
        assert_eq!(settings.restart_between_steps, 1);
        assert!(settings.fail_fast && settings.shuffle && !settings.strict);
        assert_eq!((settings.seed, settings.jobs), (Some(1), 8));
    }

    #[test]
    fn the_help_tells_the_defaults() {
        let mut command = Settings::augment_args(clap::Command::new("sanity"));
        let help = command.render_long_help().to_string();
        let settings = Settings::default();
        for default in [
            settings.jobs.to_string(),
            duration::human(settings.case_limit),
        ] {
            assert!(
                help.contains(&format!("[default: {default}]")),
                "{default}: {help}"
            );
        }
    }
}
