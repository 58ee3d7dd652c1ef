//! The flags of `csi sanity`, and what they make of the settings.

use super::Settings;
use crate::arguments::map::Map;
use crate::arguments::{capability, map, size};
use clap::Args;
use csi_proto::duration;
use csi_proto::v1::VolumeCapability;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

const DRIVER: &str = "What the driver is sent";
const RUN: &str = "What is run";
const REPORT: &str = "Report";

/// The flags of `csi sanity`.
#[derive(Args, Clone, Debug)]
pub struct SanityFlags {
    /// Take all of this from a TOML file, whose keys are the names of the flags; flags count more
    #[arg(long, value_name = "FILE", help_heading = DRIVER)]
    pub config: Option<PathBuf>,
    /// The driver's controller, where that is another endpoint than the node's
    #[arg(long, value_name = "ENDPOINT", help_heading = DRIVER)]
    pub controller_endpoint: Option<String>,
    /// Parameters of CreateVolume
    #[arg(long, value_name = "K=V,…", value_parser = map::parse, help_heading = DRIVER)]
    params: Vec<Map>,
    /// Mutable parameters, for ControllerModifyVolume
    #[arg(long, value_name = "K=V,…", value_parser = map::parse, help_heading = DRIVER)]
    mutable_params: Vec<Map>,
    /// Parameters of CreateSnapshot
    #[arg(long, value_name = "K=V,…", value_parser = map::parse, help_heading = DRIVER)]
    snapshot_params: Vec<Map>,
    /// Parameters of CreateVolumeGroupSnapshot
    #[arg(long, value_name = "K=V,…", value_parser = map::parse, help_heading = DRIVER)]
    group_snapshot_params: Vec<Map>,
    /// Secrets from a file, sent with every call that has such a field: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE", help_heading = DRIVER)]
    pub secrets_file: Option<String>,
    /// Capability of volumes, at most one of each type; without it SINGLE_NODE_WRITER with mount, and with block where the
    /// driver has such volumes
    #[arg(long, value_name = "MODE,TYPE[,FS[,FLAG…]]", value_parser = capability::parse, help_heading = DRIVER)]
    cap: Vec<VolumeCapability>,
    /// Size of volumes, which are expanded to its double
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = DRIVER)]
    volume_size: Option<i64>,
    /// An existing volume to ask about, for --read-only; it is never changed
    #[arg(long, value_name = "ID", help_heading = DRIVER)]
    volume_id: Option<String>,
    /// Folder in which target paths are made; the driver must see it under the same path
    /// [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER", help_heading = DRIVER)]
    mount_parent: Option<PathBuf>,
    /// Folder in which staging paths are made [default: that of target paths]
    #[arg(long, value_name = "FOLDER", help_heading = DRIVER)]
    staging_parent: Option<PathBuf>,
    /// Whether the node's paths are visible here [default: when the endpoint is a socket of this machine]
    #[arg(long, value_name = "BOOL", help_heading = DRIVER)]
    paths: Option<bool>,
    /// The node id that NodeGetInfo must answer
    #[arg(long, value_name = "ID", help_heading = DRIVER)]
    node_id: Option<String>,
    /// The id of another node, for ControllerPublishVolume to two nodes
    #[arg(long, value_name = "ID", help_heading = DRIVER)]
    other_node_id: Option<String>,
    /// A shell command that restarts the driver, and returns; run by the cases that are about restarts
    #[arg(long, value_name = "COMMAND", help_heading = DRIVER)]
    restart_command: Option<String>,
    /// Restart the driver between any two steps of every case; with N before every Nth step, from where the seed says, and
    /// of lifecycles before each. The cases run one at a time
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "1",
        conflicts_with = "jobs", help_heading = RUN)]
    restart_between_steps: Option<u64>,
    /// Run only what changes nothing: for drivers in production
    #[arg(long, help_heading = RUN)]
    read_only: bool,
    /// Run the cases whose names contain this; * stands for anything, ! before it leaves them out
    #[arg(long, value_name = "PATTERN", help_heading = RUN)]
    filter: Vec<String>,
    /// How many cases run at a time [default: 8]
    #[arg(long, value_name = "N", help_heading = RUN)]
    jobs: Option<usize>,
    /// The seed of the order and of what is chosen at random [default: a new one]
    #[arg(long, value_name = "N", help_heading = RUN)]
    seed: Option<u64>,
    /// Run the cases in an order that the seed tells
    #[arg(long, help_heading = RUN)]
    shuffle: bool,
    /// Start no more cases after the first failure
    #[arg(long, help_heading = RUN)]
    fail_fast: bool,
    /// Count what the specification only recommends as a failure
    #[arg(long, help_heading = RUN)]
    strict: bool,
    /// How long one case may take, longer than 0 [default: 2m]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, help_heading = RUN)]
    case_limit: Option<Duration>,
    /// List the cases instead of running them
    #[arg(long, help_heading = REPORT)]
    pub list: bool,
    /// Write the results to a file as JUnit XML
    #[arg(long, value_name = "FILE", help_heading = REPORT)]
    pub junit: Option<PathBuf>,
}

impl SanityFlags {
    /// Puts what was given into the settings, over what is there.
    pub fn fill(&self, settings: &mut Settings) {
        let maps = [
            (&self.params, &mut settings.parameters),
            (&self.mutable_params, &mut settings.mutable_parameters),
            (&self.snapshot_params, &mut settings.snapshot_parameters),
            (
                &self.group_snapshot_params,
                &mut settings.group_snapshot_parameters,
            ),
        ];
        for (given, to) in maps {
            if !given.is_empty() {
                *to = together(given);
            }
        }
        let options = [
            (&self.controller_endpoint, &mut settings.controller_endpoint),
            (&self.secrets_file, &mut settings.secrets_file),
            (&self.volume_id, &mut settings.volume_id),
            (&self.node_id, &mut settings.node_id),
            (&self.other_node_id, &mut settings.other_node_id),
            (&self.restart_command, &mut settings.restart_command),
        ];
        for (given, to) in options {
            if given.is_some() {
                to.clone_from(given);
            }
        }
        if !self.cap.is_empty() {
            settings.capabilities.clone_from(&self.cap);
        }
        settings.volume_size = self.volume_size.unwrap_or(settings.volume_size);
        for (given, to) in [
            (&self.mount_parent, &mut settings.mount_parent),
            (&self.staging_parent, &mut settings.staging_parent),
        ] {
            if given.is_some() {
                to.clone_from(given);
            }
        }
        settings.paths = self.paths.or(settings.paths);
        settings.seed = self.seed.or(settings.seed);
        settings.jobs = self.jobs.unwrap_or(settings.jobs);
        settings.restart_between_steps = self
            .restart_between_steps
            .unwrap_or(settings.restart_between_steps);
        settings.case_limit = self.case_limit.unwrap_or(settings.case_limit);
        for (given, to) in [
            (self.read_only, &mut settings.read_only),
            (self.shuffle, &mut settings.shuffle),
            (self.fail_fast, &mut settings.fail_fast),
            (self.strict, &mut settings.strict),
        ] {
            *to |= given;
        }
        if !self.filter.is_empty() {
            settings.filter.clone_from(&self.filter);
        }
    }
}

fn together(maps: &[Map]) -> BTreeMap<String, String> {
    let pairs = maps.iter().flat_map(Map::iter);
    pairs
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}
