//! The commands that only a shell has: what each is called and takes. They join the tree of the program's own commands, so
//! that help, errors and completion are the same for all.

use crate::cli;
use clap::{Command, Subcommand, ValueEnum};
use std::path::PathBuf;

/// A command of the shell.
#[derive(Subcommand, Debug)]
pub enum Builtin {
    /// Show the settings, or set one for the lines to come
    #[command(after_help = "Example:\n  set output json")]
    Set {
        /// endpoint, output, timeout, verbose, cap or secrets-file; none to show all
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// What it is from now on
        #[arg(value_name = "VALUE", allow_hyphen_values = true)]
        value: Vec<String>,
    },
    /// Let a setting be as it was, or forget a variable
    #[command(after_help = "Example:\n  unset output")]
    Unset {
        /// A setting's name, or a variable's
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Talk to another driver from now on
    #[command(after_help = "Example:\n  connect unix:///csi/csi.sock")]
    Connect {
        /// As behind --endpoint
        #[arg(value_name = "ENDPOINT", required = true)]
        endpoint: Vec<String>,
    },
    /// List the variables
    #[command(
        after_help = "Example:\n  vol = controller create-volume pvc-1\n  controller get-volume $vol.volume.volume_id\n  vars"
    )]
    Vars,
    /// Say after each command how long it took
    #[command(after_help = "Example:\n  timing on")]
    Timing {
        /// on or off; the other one of now without it
        #[arg(value_enum)]
        state: Option<Switch>,
    },
    /// Repeat a command and show what changes, until Ctrl-C
    #[command(after_help = "Example:\n  watch -n 1 controller list-volumes")]
    Watch {
        /// Seconds between two runs
        #[arg(short = 'n', value_name = "SECONDS", default_value = "2", value_parser = seconds)]
        seconds: f64,
        /// The command
        #[arg(
            value_name = "COMMAND",
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        command: Vec<String>,
    },
    /// Run a command several times, up to the first failure
    #[command(after_help = "Example:\n  repeat 10 identity probe")]
    Repeat {
        /// How often
        #[arg(value_name = "N")]
        count: u64,
        /// The command
        #[arg(
            value_name = "COMMAND",
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        command: Vec<String>,
    },
    /// Demand that a command fails with a code
    #[command(after_help = "Example:\n  expect NOT_FOUND controller get-volume no-such-volume")]
    Expect {
        /// A gRPC code such as NOT_FOUND; also OK, USAGE and LOCAL
        #[arg(value_name = "CODE")]
        code: String,
        /// The command
        #[arg(
            value_name = "COMMAND",
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        command: Vec<String>,
    },
    /// Demand that a comparison holds
    #[command(
        after_help = "Sizes compare as numbers, so 10Gi equals 10737418240.\n\nExample:\n  \
assert $vol.volume.capacity_bytes == 10Gi"
    )]
    Assert {
        /// VALUE, or VALUE OP VALUE with ==, !=, <, <=, >, >= or contains
        #[arg(
            value_name = "EXPRESSION",
            required = true,
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        expression: Vec<String>,
    },
    /// Describe an RPC or a message: fields, types, comments
    #[command(after_help = "Example:\n  desc CreateVolume")]
    Desc {
        /// Its name, such as CreateVolume, create-volume or VolumeCapability
        #[arg(value_name = "NAME")]
        name: String,
    },
    /// Write a request in an editor ($VISUAL or $EDITOR) and send it
    #[command(after_help = "Example:\n  edit CreateVolume")]
    Edit {
        /// The RPC, such as CreateVolume or create-volume
        #[arg(value_name = "RPC")]
        rpc: String,
    },
    /// Run the lines of a file here
    #[command(after_help = "Example:\n  source setup.csi")]
    Source {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
    },
    /// List the lines typed so far; !! repeats the last, !N the Nth, !TEXT the last that begins so
    History,
    /// Leave
    #[command(visible_alias = "quit")]
    Exit,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// On
    On,
    /// Off
    Off,
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds from 0.1 to 86400".to_owned()),
    }
}

/// The tree of a line: the program's own commands, then the shell's.
pub fn tree() -> Command {
    let root = cli::command("csi")
        .no_binary_name(true)
        // The shell has the terminal.
        .mut_subcommand("shell", |command| command.hide(true))
        .mut_subcommand("proxy", |command| command.hide(true));
    Builtin::augment_subcommands(root)
        .about("Commands of the program and of the shell")
        .override_usage("COMMAND [ARGUMENT…] [> FILE] [| PROGRAM]")
        .after_help(AFTER_HELP)
}

/// What `help` alone says: the commands, without the flags that all of them have.
pub fn overview() -> String {
    let root = tree().mut_args(|flag| flag.hide(true));
    root.disable_help_flag(true)
        .disable_version_flag(true)
        .render_help()
        .to_string()
}

const AFTER_HELP: &str = "\
`help COMMAND` or `COMMAND --help` tells about a command. Tab completes; the driver's own ids too.
$_ is the last reply, `name = COMMAND` keeps one, $name.volume.volume_id is a part of it.
Quotes, # comments, ; and a backslash at the end of a line are as in other shells. Ctrl-D leaves.";

/// The arguments that the command of these words wants and has not, such as `ID…`, for a hint behind the line.
pub fn wants(words: &[String]) -> Option<String> {
    let mut command = tree();
    let mut given = 0;
    let mut words = words.iter();
    let mut depth = 0;
    for word in words.by_ref() {
        match command.find_subcommand(word) {
            Some(inner) => {
                command = inner.clone();
                depth += 1;
            }
            // Flags with their values cannot be told from arguments without parsing; then there is no hint.
            None if word.starts_with('-') => return None,
            None => given += 1,
        }
    }
    if depth == 0 || command.has_subcommands() {
        return None;
    }
    command.build();
    let missing: Vec<String> = command
        .get_positionals()
        .skip(given)
        .filter_map(|arg| {
            let names = arg.get_value_names()?;
            let name = names.first()?.as_str();
            let many = arg
                .get_num_args()
                .is_some_and(|count| count.max_values() > 1)
                || matches!(arg.get_action(), clap::ArgAction::Append);
            Some(format!("<{name}{}>", if many { "…" } else { "" }))
        })
        .collect();
    (!missing.is_empty()).then(|| missing.join(" "))
}
