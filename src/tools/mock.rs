//! `csi mock`: serves the mock driver, a driver that has everything, on a socket.
//!
//! Owns its flags, the settings that they make, and the process that it runs in. What the driver does is said in its own package.

use clap::builder::PossibleValue;
use clap::{ArgMatches, Args, Command};
use csi_arguments::size;
use csi_error::{Error, OrError, note};
use csi_invocation::faults::{FaultFlags, methods_named};
use csi_invocation::parse::{self, Offered, with_flags};
use csi_invocation::serving::{SERVED_ENDPOINT_HELP, ServedEndpoint, ServingFlags};
use csi_invocation::{Defaults, Globals};
use csi_mock::{Defect, Mock, Settings, SettingsError, SettingsFile, Storage, capability_names};
use serde_json::{Value as Json, json as object};
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::LazyLock;

const DRIVER: &str = "What the driver is";

/// The flags of `csi mock`.
#[derive(Args, Clone, Debug)]
struct MockFlags {
    /// Keep the state in this folder; without the flag in memory
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
    /// A file of settings that add to the flags, read again whenever it has changed; without the flag settings.toml in --dir
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    #[command(flatten)]
    serving: ServingFlags,
    /// Print the names of all defects, each with what is wrong then, and end
    #[arg(long)]
    list_defects: bool,
    /// Print the names of all capabilities, and end
    #[arg(long, conflicts_with = "list_defects")]
    list_capabilities: bool,
    /// Take a capability away (-NAME) or give it (+NAME), in this order; `all` is every one, and controller/NAME that of the
    /// controller alone
    #[arg(long, value_name = "±NAME", value_delimiter = ',', allow_hyphen_values = true, value_parser = Offered(changes_of_capabilities), hide_possible_values = true, help_heading = DRIVER)]
    capability: Vec<String>,
    /// Give it this defect, one at a time: --list-defects tells which there are
    #[arg(long, value_name = "NAME", value_parser = Offered(names_of_defects), hide_possible_values = true, help_heading = DRIVER)]
    defect: Option<String>,
    /// Begin with this many volumes
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, help_heading = DRIVER)]
    volumes: usize,
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
    faults: FaultFlags,
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
    fn said(&self) -> Settings {
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

pub fn command() -> Command {
    Command::new("mock")
        .about("Serve a driver that has every service and capability, and any defect or delay on request")
        .after_help(format!(
            "{SERVED_ENDPOINT_HELP}\n\n\
             It mounts nothing: a published volume is a link to a folder, or for block access a file. -e mock: is the same driver \
             inside csi itself.\n\n\
             Examples:\n  \
             csi mock --endpoint unix:///tmp/mock.sock\n  \
             csi mock --endpoint unix:///tmp/mock.sock --dir /var/lib/mock --volumes 10000\n  \
             csi mock --endpoint unix:///tmp/mock.sock --capability -all,+CREATE_DELETE_VOLUME --delay 20ms\n  \
             csi mock --endpoint unix:///tmp/mock.sock --fail create-volume=UNAVAILABLE:2 --defect ListVolumesLosesEntries",
        ))
        .defer(with_flags::<MockFlags>)
}

/// Serves calls until a signal asks to stop.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<MockFlags>(matches)?;
    if flags.list_defects || flags.list_capabilities {
        return list(&flags, globals);
    }
    let endpoint = ServedEndpoint::named(&flags.serving, globals, defaults)?;
    let mut file = settings(&flags);
    let rules = file.read().map_err(|error| match error {
        SettingsError::File { .. } | SettingsError::Unreadable(_) => {
            Error::usage(format!("{}: {error}", file.path().display()))
        }
        _ => Error::usage(error.to_string()),
    })?;
    if let Some(path) = flags.settings.as_deref().filter(|path| !path.exists()) {
        let path = path.display();
        note!("warning: {path} is not there; it is read as soon as it is");
    }
    let (first, most) = (flags.volumes, rules.options.max_volumes);
    if (1..first).contains(&most) {
        let problem = format!("--volumes {first} is more than max-volumes, which is {most}");
        return Err(Error::usage(problem));
    }
    let storage = match &flags.dir {
        Some(folder) => Storage::open(folder).or_because("the state cannot be kept there")?,
        None => Storage::temporary().or_because("there is no place for the data of volumes")?,
    };
    storage.restarted_with(rules.options.defect);
    let mock = Mock::following(file, rules, storage);
    mock.fill(flags.volumes);
    endpoint.serve("the mock driver", &mock.server())
}

/// The settings that flags and file say together.
fn settings(flags: &MockFlags) -> SettingsFile {
    let in_folder = flags
        .dir
        .as_deref()
        .map(|folder| folder.join(SettingsFile::NAME));
    let path = flags.settings.clone().or(in_folder).unwrap_or_default();
    let warn = Box::new(|text: &str| note!("warning: {text}"));
    let file = SettingsFile::new(
        path,
        flags.said(),
        flags.faults.rules(),
        methods_named,
        warn,
    );
    // Nobody's process but its own ends.
    file.with_fatal_defects()
}

/// Prints what there is to choose from.
fn list(flags: &MockFlags, globals: &Globals) -> Result<(), Error> {
    globals.json_or_lines("names are lines, or JSON with -o json")?;
    let entries: Vec<(String, Json)> = match flags.list_defects {
        true => {
            let entries = Defect::ALL.iter().map(|one| {
                let (name, defect) = (one.name(), one.sentence());
                let shown = object!({"name": name, "defect": defect});
                (format!("{name}: {defect}\n"), shown)
            });
            entries.collect()
        }
        false => {
            let names = capability_names().into_iter();
            let entries = names.map(|name| (format!("{name}\n"), object!({"name": name})));
            entries.collect()
        }
    };
    let (text, all): (String, Vec<Json>) = entries.into_iter().unzip();
    globals.print(&Json::Array(all), || text)
}
