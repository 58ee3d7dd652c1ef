//! The command `csi replay`: opens the recording, connects to the driver, sends the calls and prints the results.

use super::folders::Folders;
use super::names::Names;
use super::{Replay, ReplayFlags, note};
use crate::recording::Recording;
use crate::recording::drawn::{self, Replays};
use clap::{ArgMatches, Command};
use csi_error::Error;
use csi_invocation::parse::{self, with_flags};
use csi_invocation::{Defaults, Globals, connect, defaults};
use csi_output::replayed::{Count, ReplayPrinter};
use std::sync::Arc;

/// The command.
pub fn command() -> Command {
    Command::new("replay")
        .about("Send the calls of a recording to another driver, and show what that answers otherwise")
        .after_help(
            "Ids and other names that a driver chooses by itself are taken over from the new replies. Times, usage and \
             free space are not compared. Exit codes: 0 all was answered alike, 1 a call was answered otherwise, or none was compared, or a local error.\n\n\
             Examples:\n  \
             csi -e unix:///csi/csi.sock replay calls.jsonl\n  \
             csi -e embedded: replay calls.jsonl --ignore vendor_version --map-path /var/lib/kubelet=/tmp/kubelet\n  \
             csi -e tcp://127.0.0.1:10000 replay calls.jsonl --timing --speed 2 --secrets-file secrets.json -o json",
        )
        .defer(with_flags::<ReplayFlags>)
}

/// Sends the calls of a recording.
///
/// # Errors
/// What kept a call from being sent; that one was answered otherwise.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = &parse::flags::<ReplayFlags>(matches)?;
    let json = globals.json_or_lines("a replay shows a line a call, or JSON with -o json")?;
    if flags.file.to_str() == Some("-") && flags.secrets_file.as_deref() == Some("-") {
        let problem = "the recording and --secrets-file cannot both be read from stdin";
        return Err(Error::usage(problem));
    }
    let endpoint = connect::endpoint(globals)?;
    let recording =
        Recording::read(&flags.file).map_err(|error| Error::unusable(error.to_string(), &error))?;
    if recording.is_cut {
        note("the last call of the recording is cut off and left out");
    }
    let page = drawn::page_of(flags.html.as_ref(), &flags.file)?;
    let secrets_file = defaults.secrets_file(&flags.secrets_file, globals);
    let secrets = defaults::secrets(secrets_file.as_deref(), &[])?;
    connect::private_mounts(&endpoint, defaults)?;
    let printer = ReplayPrinter::new(csi_output::stdout(), json);
    connect::block_on(defaults, async {
        let session = connect::session(&endpoint, globals).await?;
        // A driver elsewhere has other folders.
        let has_folders = endpoint.is_on_this_machine() && !flags.no_folders;
        let replay = Replay {
            flags,
            recording: Arc::new(recording),
            session,
            endpoint: &endpoint,
            secrets: secrets.reveal(),
            log: globals.log(),
            printer,
            names: Names::new(flags.map_path.clone()),
            folders: has_folders.then(Folders::default),
            count: Count::default(),
            page,
            replays: Replays::new(),
        };
        let replayed = replay.run().await;
        endpoint.settled().await;
        replayed
    })
}
