//! `csi serve`: answers calls as a recording says that a driver has answered them.

mod answers;

use crate::recording::Recording;
use answers::RecordedAnswers;
use clap::{ArgMatches, Args, Command};
use csi_error::{Error, OrError, note};
use csi_invocation::parse::{self, with_flags};
use csi_invocation::serving::{SERVED_ENDPOINT_HELP, ServedEndpoint, ServingFlags};
use csi_invocation::{Defaults, Globals};
use csi_mock::Server;
use std::path::PathBuf;

#[derive(Args)]
struct ServeFlags {
    /// The recording of `csi proxy --record`; - for stdin
    #[arg(value_name = "RECORDING")]
    file: PathBuf,
    /// Take as long for each answer as the driver took
    #[arg(long)]
    timing: bool,
    #[command(flatten)]
    serving: ServingFlags,
}

/// The command.
pub fn command() -> Command {
    Command::new("serve")
        .about("Be the driver of a recording: answer each request as it was answered then")
        .after_help(format!(
            "{SERVED_ENDPOINT_HELP}\n\n\
             A request is answered where the recording has an equal one, whatever the values of its secrets, which a recording masks. One that \
             was sent several times gets the answers in their order, and then the last one again.\n\n\
             Examples:\n  \
             csi serve calls.jsonl --endpoint unix:///tmp/csi.sock\n  \
             csi serve calls.jsonl --endpoint unix:///tmp/csi.sock --timing",
        ))
        .defer(with_flags::<ServeFlags>)
}

/// Answers until a signal asks to stop.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let flags = parse::flags::<ServeFlags>(matches)?;
    let endpoint = ServedEndpoint::named(&flags.serving, globals, defaults)?;
    let recording = Recording::read(&flags.file).or_unusable("nothing can be answered")?;
    if recording.is_cut {
        note!("note: the last line of the recording is cut off");
    }
    let (answers, skipped) = RecordedAnswers::of(&recording, flags.timing);
    for (call, why) in skipped {
        note!("note: call {call} of the recording has no answer to give: {why}");
    }
    endpoint.serve("the recording", &Server::new(answers))
}
