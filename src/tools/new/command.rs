//! The command `csi new`: its flags, and what it says about what it has written.

use super::folder;
use super::names::Names;
use super::services::{Service, Services};
use super::template;
use clap::{ArgMatches, Args, Command, FromArgMatches as _, Subcommand};
use csi_error::{Error, OrError, say};
use csi_invocation::{Defaults, Globals};
use csi_proto::escaped;
use serde_json::json as object;
use std::path::PathBuf;

#[derive(Subcommand)]
enum Project {
    /// Write a CSI driver in Rust that builds at once and passes csi sanity
    #[command(after_help = DRIVER_HELP)]
    Driver(DriverFlags),
}

const DRIVER_HELP: &str = "\
Without --controller and --node the driver has both. Its volumes are folders, until your storage \
takes the place of one trait. It has its own csi.proto, an image, a manifest and a script for CI.

Examples:
  csi new driver disks.csi.example.com
  csi new driver disks.csi.example.com --snapshots --attach --stage
  csi new driver disks.csi.example.com --path /src/disks --controller --groups";

#[derive(Args)]
struct DriverFlags {
    /// The driver's name in domain notation, such as disks.csi.example.com; its first part is the package's
    name: String,
    /// The folder to write, which is empty or does not exist; without the flag one of the package's name, here
    #[arg(long, value_name = "DIR")]
    path: Option<PathBuf>,
    /// Make, list, expand and remove volumes
    #[arg(long)]
    controller: bool,
    /// Mount volumes
    #[arg(long)]
    node: bool,
    /// Take snapshots, restore and clone; with --controller
    #[arg(long)]
    snapshots: bool,
    /// Attach volumes to nodes before they are mounted; with --controller and --node
    #[arg(long)]
    attach: bool,
    /// Mount a volume once for a node before it is mounted for pods; with --node
    #[arg(long)]
    stage: bool,
    /// Take snapshots of several volumes at the same time; with --snapshots
    #[arg(long)]
    groups: bool,
}

impl DriverFlags {
    fn services(&self) -> Services {
        let asked = [
            (self.controller, Service::Controller),
            (self.node, Service::Node),
            (self.snapshots, Service::Snapshots),
            (self.attach, Service::Attach),
            (self.stage, Service::Stage),
            (self.groups, Service::Groups),
        ];
        let asked = asked.into_iter().filter_map(|(is, one)| is.then_some(one));
        Services::asked(&asked.collect::<Vec<_>>())
    }
}

pub fn command() -> Command {
    Command::new("new")
        .about("Begin a project: a CSI driver in Rust")
        .subcommand_required(true)
        .arg_required_else_help(true)
        .defer(Project::augment_subcommands)
}

/// Writes a project.
///
/// # Errors
/// When its name is none, or its folder cannot be written.
pub fn run(matches: &ArgMatches, globals: &Globals, _: &Defaults) -> Result<(), Error> {
    let Project::Driver(flags) = Project::from_arg_matches(matches).or_usage()?;
    globals.json_or_lines("the files are lines, or JSON with -o json")?;
    let names = Names::of(&flags.name, &template::libraries()).or_usage()?;
    let services = flags.services();
    let files = template::files(&services, &names);
    let folder = flags.path.unwrap_or_else(|| PathBuf::from(&names.package));
    folder::write(&folder, &files).or_unusable("the driver is not written")?;
    let paths: Vec<&str> = files.iter().map(|file| file.path).collect();
    let shown = folder.display().to_string();
    let project = object!({
        "name": names.driver,
        "package": names.package,
        "services": services.names(),
        "folder": shown,
        "files": paths,
    });
    let line = |path| escaped(&folder.join(path).display().to_string()).into_owned() + "\n";
    globals.print(&project, || paths.iter().map(line).collect())?;
    if names.is_completed(&flags.name) {
        let Names { driver, package } = &names;
        say!(
            "note: the driver is called {driver}; with a domain of yours: csi new driver {package}.csi.example.com"
        );
    }
    say!(
        "note: next, in {}: ./ci builds, tests and judges the driver",
        escaped(&shown)
    );
    Ok(())
}
