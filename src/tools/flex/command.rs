//! The command `csi flex serve`: the executable, what it says of itself, its place, its state and its end.

use super::answer::Capabilities;
use super::call_out::CallOuts;
use super::driver::{Abilities, Flex, Identity};
use super::orphans::Mark;
use super::request;
use super::services::Services;
use super::state::Store;
use super::taken::{Running, Taken};
use clap::{ArgMatches, Args, Command, FromArgMatches as _, Subcommand};
use csi_call::endpoint::absolute;
use csi_call::user_folders;
use csi_error::{Error, OrError, note};
use csi_invocation::serving::{SERVED_ENDPOINT_HELP, ServedEndpoint, ServingFlags};
use csi_invocation::{Defaults, Globals, connect};
use csi_mock::Server;
use csi_proto::duration;
use csi_rpc::validation::syntax::is_plugin_name;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

#[derive(Subcommand)]
enum Task {
    /// Serve a FlexVolume executable as a CSI driver: Identity, Node, and where it attaches, Controller
    Serve(Box<ServeFlags>),
}

#[derive(Args)]
struct ServeFlags {
    /// The executable, as in kubelet-plugins/volume/exec/VENDOR~DRIVER/DRIVER below /usr/libexec/kubernetes
    #[arg(long, value_name = "FILE")]
    driver: PathBuf,
    /// Its name in CSI; without the flag DRIVER.VENDOR of its folder VENDOR~DRIVER, else DRIVER.flex.csi.internal
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// The node's id, which attach and detach get; without the flag the host's name
    #[arg(long, value_name = "ID")]
    node_id: Option<String>,
    /// The folder for what is attached, staged and published, one for each driver; it must outlive this process. Without the flag
    /// csi/flex/NAME in $XDG_STATE_HOME, usually ~/.local/state
    #[arg(long, value_name = "DIR")]
    state: Option<PathBuf>,
    /// How long a call-out may take, where its caller does not wait less; 0 for no limit
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = duration::parse)]
    call_timeout: Duration,
    /// It attaches, though init does not say so: to the kubelet, silence meant yes
    #[arg(long)]
    attach: bool,
    /// It has expandfs, though init does not say requiresFSResize; and expandvolume, where it attaches
    #[arg(long)]
    expand: bool,
    #[command(flatten)]
    serving: ServingFlags,
}

pub fn command() -> Command {
    Command::new("flex")
        .about("Be a CSI driver over a FlexVolume executable")
        .after_help(format!(
            "{SERVED_ENDPOINT_HELP}\n\n\
             The driver makes no volumes: it knows them by their ids, and their options stand in the volume's context.\n\n\
             Examples:\n  \
             csi flex serve --driver /opt/flex/example.com~nfs/nfs --endpoint unix:///csi/csi.sock\n  \
             csi flex serve --driver ./lvm --name lvm.example.com --node-id n1 --state /var/lib/lvm-flex --expand",
        ))
        .subcommand_required(true)
        .arg_required_else_help(true)
        .defer(Task::augment_subcommands)
}

/// Serves calls until a signal asks to stop.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let Task::Serve(flags) = Task::from_arg_matches(matches).or_usage()?;
    let endpoint = ServedEndpoint::named(&flags.serving, globals, defaults)?;
    let executable = absolute(&flags.driver);
    let runs = fs::metadata(&executable).and_then(|found| {
        let may_run = found.is_file() && found.permissions().mode() & 0o111 != 0;
        may_run
            .then_some(())
            .ok_or(io::ErrorKind::PermissionDenied.into())
    });
    runs.or_unusable(format_args!(
        "--driver: {} cannot be run",
        executable.display()
    ))?;
    let name = match &flags.name {
        Some(name) if is_plugin_name(name) => name.clone(),
        Some(name) => {
            let text = format!("{name:?} is no name of a CSI driver");
            return Err(Error::usage(text).hint("--name nfs.example.com"));
        }
        None => name_of(&executable).ok_or_else(|| {
            Error::usage("the executable's name makes no name of a CSI driver: give --name")
                .hint("--name nfs.example.com")
        })?,
    };
    let node_id = match &flags.node_id {
        Some(id) => request::name(id, "--node-id").or_usage()?,
        // A container's may be empty, or in parentheses.
        None => request::name(&host_name(), "the host's name")
            .or_usage()
            .map_err(|error| error.hint("--node-id node-1"))?,
    };
    let folder = flags.state.clone().or_else(|| state_of(&name));
    let folder = folder.ok_or_else(|| {
        Error::usage("there is no home folder for what is published: give --state")
    })?;
    let store = Store::open(&folder).or_because("the state cannot be kept")?;
    let mark = Mark::of(&store.folder);
    let ended = mark.end_orphans().or_because("nothing can be served")?;
    if ended > 0 {
        note!("note: killed what call-outs of a killed server have left, processes: {ended}");
    }
    let limit = Some(flags.call_timeout).filter(|limit| !limit.is_zero());
    let call_outs = CallOuts::of(executable, limit, mark);
    let said = init(&call_outs, defaults)?;
    if said.attach.is_none() && !flags.attach {
        note!(
            "note: init does not say whether the driver attaches, so it is not asked to: --attach says that it does"
        );
    }
    let identity = Identity {
        name,
        node_id,
        is_verbose: globals.log().calls,
    };
    let abilities = Abilities::of(said, flags.attach, flags.expand);
    let who = format!("the FlexVolume driver {}", identity.name);
    let flex = Flex {
        identity,
        abilities,
        call_outs,
        store,
        running: Running::default(),
    };
    endpoint.serve(&who, &Server::new(Services(Arc::new(flex))))
}

/// What the driver says of itself.
fn init(call_outs: &CallOuts, defaults: &Defaults) -> Result<Capabilities, Error> {
    connect::block_on(defaults, async {
        let answer = call_outs.run("init", &[], None, &Taken::nothing()).await;
        let said = answer.or_because("the driver cannot be served")?;
        Ok(said.capabilities)
    })
}

fn state_of(name: &str) -> Option<PathBuf> {
    user_folders::state().map(|state| state.join("csi/flex").join(name))
}

fn host_name() -> String {
    let name = rustix::system::uname().nodename().to_owned();
    name.to_string_lossy().into_owned()
}

/// The name in CSI of the executable at a path, where it makes one.
fn name_of(executable: &Path) -> Option<String> {
    let text =
        |part: Option<&std::ffi::OsStr>| part.and_then(|part| part.to_str()).map(str::to_owned);
    let driver = text(executable.file_name())?;
    let folder = text(executable.parent().and_then(Path::file_name)).unwrap_or_default();
    let vendor = match folder.split_once('~') {
        Some((vendor, name)) if name == driver => vendor,
        _ => "flex.csi.internal",
    };
    Some(format!("{driver}.{vendor}")).filter(|name| is_plugin_name(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn executables_have_names() {
        for (path, expected) in [
            ("/exec/example.com~nfs/nfs", Some("nfs.example.com")),
            ("/exec/k8s~lvm/lvm", Some("lvm.k8s")),
            ("/exec/k8s~lvm/other", Some("other.flex.csi.internal")),
            ("/opt/bind", Some("bind.flex.csi.internal")),
            ("/opt/my_driver", None),
            ("/opt/-x", None),
        ] {
            assert_eq!(name_of(Path::new(path)).as_deref(), expected, "{path}");
        }
    }
}
