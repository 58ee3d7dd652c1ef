//! The flags of `csi mock`, and the settings that they make.

use clap::Args;
use clap::builder::PossibleValue;
use csi_arguments::size;
use csi_invocation::faults::FaultFlags;
use csi_invocation::parse::Offered;
use csi_invocation::serving::ServingFlags;
use csi_mock::{Defect, Settings, capability_names};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

const DRIVER: &str = "What the driver is";

/// The flags of `csi mock`.
#[derive(Args, Clone, Debug)]
pub struct MockFlags {
    /// Keep the state in this folder; without the flag in memory
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// A file of settings that add to the flags, read again whenever it has changed; without the flag settings.toml in --dir
    #[arg(long, value_name = "FILE")]
    pub settings: Option<PathBuf>,
    #[command(flatten)]
    pub serving: ServingFlags,
    /// Print the names of all defects, each with what is wrong then, and end
    #[arg(long)]
    pub list_defects: bool,
    /// Print the names of all capabilities, and end
    #[arg(long, conflicts_with = "list_defects")]
    pub list_capabilities: bool,
    /// Take a capability away (-NAME) or give it (+NAME), in this order; `all` is every one, and controller/NAME that of the
    /// controller alone
    #[arg(long, value_name = "±NAME", value_delimiter = ',', allow_hyphen_values = true, value_parser = Offered(changes_of_capabilities), hide_possible_values = true, help_heading = DRIVER)]
    capability: Vec<String>,
    /// Give it this defect: --list-defects tells which there are
    #[arg(long, value_name = "NAME", value_parser = Offered(names_of_defects), hide_possible_values = true, help_heading = DRIVER)]
    defect: Option<String>,
    /// Begin with this many volumes
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = DRIVER)]
    pub volumes: usize,
    /// Refuse to have more volumes than this
    #[arg(long, value_name = "N", help_heading = DRIVER)]
    max_volumes: Option<usize>,
    /// The room for volumes; 16Ti without the flag
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = DRIVER)]
    capacity: Option<i64>,
    /// Refuse larger volumes than this; 1Ti without the flag
    #[arg(long, value_name = "SIZE", value_parser = size::parse, help_heading = DRIVER)]
    max_volume_size: Option<i64>,
    /// The nodes that volumes can be attached to, of which the first is the driver's own; node-1,node-2 without the flag
    #[arg(long, value_name = "NODE", value_delimiter = ',', help_heading = DRIVER)]
    nodes: Vec<String>,
    /// How many volumes can be attached to one node
    #[arg(long, value_name = "N", help_heading = DRIVER)]
    max_volumes_per_node: Option<i64>,
    /// How long a change takes; calls that meet it are ABORTED
    #[arg(long, value_name = "DURATION", help_heading = DRIVER)]
    pace: Option<String>,
    /// How many answers show a new snapshot that is not ready yet
    #[arg(long, value_name = "N", help_heading = DRIVER)]
    looks_until_ready: Option<u32>,
    /// Be a driver of CSI 1.MINOR, which knows nothing of what came later
    #[arg(long, value_name = "MINOR", help_heading = DRIVER)]
    specification: Option<u32>,
    #[command(flatten)]
    pub faults: FaultFlags,
}

/// `-NAME` and `+NAME` of each capability. Made once: clap borrows values.
static CHANGES: LazyLock<Vec<String>> = LazyLock::new(|| {
    let names = capability_names();
    let bare: BTreeSet<&str> = names
        .iter()
        .filter_map(|name| name.rsplit('/').next())
        .collect();
    let signs = ['-', '+'].into_iter();
    signs
        .flat_map(|sign| bare.iter().map(move |name| format!("{sign}{name}")))
        .collect()
});

fn changes_of_capabilities() -> Vec<PossibleValue> {
    CHANGES
        .iter()
        .map(|change| PossibleValue::new(change.as_str()))
        .collect()
}

fn names_of_defects() -> Vec<PossibleValue> {
    let name = |one: &Defect| PossibleValue::new(one.name()).help(one.sentence());
    Defect::ALL.iter().map(name).collect()
}

impl MockFlags {
    /// What they say of the driver.
    pub fn said(&self) -> Settings {
        Settings {
            capability: self.capability.clone(),
            defect: self.defect.clone(),
            pace: self.pace.clone(),
            looks_until_ready: self.looks_until_ready,
            nodes: self.nodes.clone(),
            max_volumes_per_node: self.max_volumes_per_node,
            max_volumes: self.max_volumes,
            capacity: self.capacity,
            max_volume_size: self.max_volume_size,
            specification: self.specification,
            ..Settings::default()
        }
    }
}
