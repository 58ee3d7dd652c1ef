//! The command `csi mock`: its place, its state, its signals and its end.

use super::flags::MockFlags;
use clap::{ArgMatches, Command};
use csi_error::note;
use csi_error::{Error, OrError};
use csi_invocation::defaults::Defaults;
use csi_invocation::faults::methods_named;
use csi_invocation::globals::Globals;
use csi_invocation::parse::{self, with_flags};
use csi_invocation::serving::{PLACE_HELP, Place};
use csi_mock::{Defect, Mock, SettingsFile, Storage, capability_names};
use csi_output::json;
use serde_json::{Value as Json, json as object};

/// The command.
pub fn command() -> Command {
    Command::new("mock")
        .about("Serve a driver that has every service and capability, and any defect or delay on request")
        .after_help(format!(
            "{PLACE_HELP}\n\n\
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
///
/// # Errors
/// Why nothing can be served.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<MockFlags>(matches)?;
    if flags.list_defects || flags.list_capabilities {
        return list(&flags, globals);
    }
    let place = Place::named(&flags.serving, globals, defaults)?;
    let mut file = settings(&flags);
    let rules = file.read().or_usage()?;
    if let Some(path) = flags.settings.as_deref().filter(|path| !path.exists()) {
        let path = path.display();
        note!("warning: {path} is not there; it is read as soon as it is");
    }
    let storage = match &flags.dir {
        Some(folder) => Storage::open(folder).or_because("the state cannot be kept there")?,
        None => Storage::temporary().or_because("there is no place for the data of volumes")?,
    };
    storage.restarted_with(rules.options.defect);
    let mock = Mock::following(file, rules, storage);
    mock.fill(flags.volumes);
    place.serve("the mock driver", &mock.server())
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
    let is_json = globals.json_or_lines("names are lines, or JSON with -o json")?;
    let told: Vec<(String, Json)> = match flags.list_defects {
        true => {
            let told = Defect::ALL.iter().map(|one| {
                let (name, defect) = (one.name(), one.sentence());
                let shown = object!({"name": name, "defect": defect});
                (format!("{name}: {defect}\n"), shown)
            });
            told.collect()
        }
        false => {
            let names = capability_names().into_iter();
            let told = names.map(|name| (format!("{name}\n"), object!({"name": name})));
            told.collect()
        }
    };
    let (mut text, all): (String, Vec<Json>) = told.into_iter().unzip();
    if is_json {
        text = json::told(&Json::Array(all), globals.format())?;
    }
    csi_output::print(text.as_bytes())
}
