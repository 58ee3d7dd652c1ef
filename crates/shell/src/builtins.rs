//! The command lines of the shell's own commands. They join the tree of the program's commands, so that help, errors
//! and completion are the same for all.

use clap::{Arg, ArgAction, Args, Command, Subcommand, ValueEnum};
use csi_invocation::{Program, verbs};
use csi_proto::schema::{Cardinality, Kind};
use csi_rpc::GROUPS;
use std::path::PathBuf;

/// A command of the shell.
#[derive(Subcommand, Debug)]
pub(crate) enum Builtin {
    /// Show the settings, or set one for the lines to come
    #[command(
        after_help = "Examples:\n  set output json\n  set columns volume-id,capacity\n  set columns"
    )]
    Set {
        /// endpoint, output, timeout, verbose, cap, secrets-file, echo, records, columns or pager; none to show all
        #[arg(value_name = "NAME")]
        name: Option<String>,
        /// What it is from now on; without it what it is now
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
    #[command(after_help = "Examples:\n  connect unix:///csi/csi.sock\n  connect lab")]
    Connect {
        /// As behind --endpoint, or the name of a context
        #[arg(value_name = "ENDPOINT", required = true)]
        endpoint: Vec<String>,
    },
    /// List the variables
    #[command(
        after_help = "Example:\n  vol = controller create-volume pvc-1\n  controller get-volume $vol.volume.volume_id\n  vars"
    )]
    Vars,
    /// Print values
    #[command(
        after_help = "A variable alone prints its value too. A reply, or a part of it, is a document in the format that `set output` \
names, or else JSON.\n\nExamples:\n  print $vol.volume\n  print \"made $vol.volume.volume_id for $1\""
    )]
    Print {
        /// Texts and variables
        #[arg(
            value_name = "VALUE",
            trailing_var_arg = true,
            allow_hyphen_values = true
        )]
        values: Vec<String>,
    },
    /// Run a command at the end, also after a failure or Ctrl-C
    #[command(
        after_help = "What was deferred last runs first. It keeps the variables, the driver and the settings of now.\n\nExample:\n  \
vol = controller create-volume ci-1\n  defer source cleanup.csi $vol.volume.volume_id"
    )]
    Defer {
        #[command(flatten)]
        command: InnerCommand,
    },
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
        #[command(flatten)]
        command: InnerCommand,
    },
    /// Run a command several times, up to the first failure
    #[command(after_help = "Example:\n  repeat 10 identity probe")]
    Repeat {
        /// How often
        #[arg(value_name = "N", value_parser = count)]
        count: u64,
        #[command(flatten)]
        command: InnerCommand,
    },
    /// Demand that a command fails with a code
    #[command(
        after_help = "Beside the codes of gRPC: OK, it succeeds; USAGE, the line or a file that it names is wrong; LOCAL, an error on this \
side; FAILED, a check ran and has found something.\n\nExample:\n  expect NOT_FOUND controller get-volume no-such-volume"
    )]
    Expect {
        /// A gRPC code such as NOT_FOUND; also OK, USAGE, LOCAL and FAILED
        #[arg(value_name = "CODE")]
        code: String,
        #[command(flatten)]
        command: InnerCommand,
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
        /// Any of its names: CreateVolume, create-volume, `node publish`, VolumeCapability; of a command its help
        #[arg(value_name = "NAME", required = true)]
        name: Vec<String>,
    },
    /// Write a request in an editor ($VISUAL or $EDITOR) and send it
    #[command(
        after_help = "What is not taken is kept: the next edit opens it again.\n\nExample:\n  edit CreateVolume"
    )]
    Edit {
        /// Begin with an empty request, also where one is kept
        #[arg(long)]
        new: bool,
        /// Any name of the RPC: CreateVolume, create-volume or `controller create-volume`
        #[arg(value_name = "RPC", required = true)]
        rpc: Vec<String>,
    },
    /// Run the lines of a file here
    #[command(after_help = "Example:\n  source setup.csi pvc-1")]
    Source {
        /// The file
        #[arg(value_name = "FILE")]
        file: PathBuf,
        /// What its lines know as $1, $2 …; without any, those of now
        #[arg(value_name = "ARGUMENT")]
        arguments: Vec<String>,
    },
    /// List the lines typed so far; !! repeats the last, !N the Nth, !TEXT the last that begins so
    History,
    /// Leave
    #[command(visible_alias = "quit")]
    Exit,
}

/// The command inside another.
#[derive(Args, Debug)]
pub(crate) struct InnerCommand {
    /// The command
    #[arg(
        value_name = "COMMAND",
        required = true,
        trailing_var_arg = true,
        allow_hyphen_values = true
    )]
    pub command: Vec<String>,
}

/// On or off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Switch {
    /// On
    On,
    /// Off
    Off,
}

fn count(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "write a number".to_owned())
}

fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("write seconds from 0.1 to 86400".to_owned()),
    }
}

/// Whether it is one of the shell's own commands.
pub fn has(name: &str) -> bool {
    Builtin::has_subcommand(name)
}

/// The tree of a line: the program's own commands, then the shell's.
pub fn tree(program: Program) -> Command {
    let root = (program.tree)()
        .no_binary_name(true)
        // The shell has the terminal.
        .mut_subcommand("shell", |command| command.hide(true))
        .mut_subcommand("proxy", |command| command.hide(true));
    Builtin::augment_subcommands(root)
        .about("Commands of the program and of the shell")
        .override_usage("COMMAND [ARGUMENT…] [> FILE] [| PROGRAM]")
}

/// The arguments that the command of these words still lacks, such as `<ID…> --target-path <PATH>`, for a hint behind the
/// line.
pub fn wants(program: Program, words: &[String]) -> Option<String> {
    let mut command = tree(program);
    let words = verbs::with_group_if_missing(&command, words.to_vec());
    let mut given: Vec<&str> = Vec::new();
    for word in &words {
        match command.find_subcommand(word) {
            Some(inner) if given.is_empty() => command = inner.clone(),
            _ => given.push(word),
        }
    }
    command.build();
    if command.has_subcommands() || command.get_name() == "csi" {
        return None;
    }
    let has_flags = given.iter().any(|word| word.starts_with('-'));
    let mut missing = Vec::new();
    // Values of flags cannot be told from arguments without parsing; then nothing is said of these.
    if !has_flags {
        let has_path = given.first().is_some_and(|word| word.contains(":/"));
        let positionals = command.get_positionals().skip(given.len());
        let wanted = positionals.filter(|arg| !(has_path && arg.get_id() == "PATH"));
        missing.extend(wanted.filter_map(value_of));
    }
    let (group, verb) = (words.first(), command.get_name());
    let mut groups = GROUPS.iter();
    let group = groups.find(|one| group.is_some_and(|name| one.is_called(name)));
    let method = group.and_then(|group| group.rpcs.iter().find(|rpc| rpc.verb() == verb));
    let required = method.map_or(&[][..], |rpc| rpc.method.request.required);
    for field in method.map_or(&[][..], |rpc| rpc.method.request.fields) {
        let is_plain = matches!(field.kind, Kind::String | Kind::Int64)
            && field.cardinality == Cardinality::Singular;
        if !is_plain || !required.contains(&field.name) {
            continue;
        }
        let long = field.name.replace('_', "-");
        let flag = command.get_arguments().find(|arg| {
            let aliases = arg.get_all_aliases().unwrap_or_default();
            arg.get_long() == Some(&long) || aliases.contains(&long.as_str())
        });
        // A flag that says the same as an argument is hidden in the short help.
        let Some(flag) = flag.filter(|flag| !flag.is_hide_short_help_set()) else {
            continue;
        };
        let name = flag.get_long().unwrap_or_default();
        let is_given = |word: &&str| {
            let word = word.trim_start_matches("--");
            let word = word.split('=').next().unwrap_or_default();
            word == name || word == long
        };
        if !given.iter().any(is_given) {
            let value = value_of(flag).unwrap_or_default();
            missing.push(format!("--{name} {value}"));
        }
    }
    (!missing.is_empty()).then(|| missing.join(" "))
}

/// The name of an argument's value, as help writes it.
fn value_of(arg: &Arg) -> Option<String> {
    let name = arg.get_value_names()?.first()?.as_str();
    let many = arg
        .get_num_args()
        .is_some_and(|count| count.max_values() > 1)
        || (arg.is_positional() && matches!(arg.get_action(), ArgAction::Append));
    Some(format!("<{name}{}>", if many { "…" } else { "" }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_hinted_at() {
        let after = |line: &str| {
            let words: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
            wants(crate::PROGRAM, &words)
        };
        for (line, hint) in [
            ("controller create-volume", Some("<NAME…>")),
            ("c new", Some("<NAME…>")),
            ("node publish", Some("<ID…> --target-path <PATH>")),
            ("node publish vol-1", Some("--target-path <PATH>")),
            ("node mnt vol-1 --target-path", None),
            ("node expand vol-1", Some("<PATH>")),
            ("node expand vol-1:/p", None),
            ("delete-volume", Some("<ID…>")),
            (
                "controller create-snapshot",
                Some("<NAME…> --source-volume <ID>"),
            ),
            ("repeat", Some("<N> <COMMAND…>")),
            ("controller", None),
            ("", None),
            ("nothing", None),
        ] {
            assert_eq!(after(line).as_deref(), hint, "{line}");
        }
    }
}
