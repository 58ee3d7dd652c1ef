//! The tree of commands: the RPCs by their declarations, the tools by their table, and the flags that `kubectl csi` has and `csi`
//! has not.

use super::{completion, man};
use crate::tools::{context, doctor, flex, lifecycle, mock, new, version, wait};
use clap::builder::{NonEmptyStringValueParser, Styles};
use clap::{ArgMatches, Args, Command};
use csi_error::{ANSWERED, Error, Style, exit_codes};
use csi_invocation::globals::with_global_flags;
use csi_invocation::help::JOINT;
use csi_invocation::parse::with_rpcs;
use csi_invocation::verbs::neither_flag_nor_value;
use csi_invocation::{Defaults, Globals, connect};
use csi_rpc::{GROUPS, csc_flags};
use csi_traffic::{proxy, replay, serve};
use std::ffi::OsString;
use std::sync::OnceLock;
use {csi_bench as bench, csi_sanity as sanity, csi_shell as shell};

/// The name by which kubectl finds the program: `kubectl csi`.
pub const PLUGIN: &str = "kubectl-csi";

/// A command that is no RPC.
pub struct Tool {
    /// The tool's part of the tree.
    pub command: fn() -> Command,
    /// Runs it with the matches of that part.
    pub run: Run,
    /// Whether it calls a driver, and so needs to know the context before it runs.
    pub calls_a_driver: bool,
}

type Run = fn(&ArgMatches, &Globals, &Defaults) -> Result<(), Error>;

const fn tool(command: fn() -> Command, run: Run) -> Tool {
    Tool {
        command,
        run,
        calls_a_driver: true,
    }
}

const fn without_driver(command: fn() -> Command, run: Run) -> Tool {
    Tool {
        command,
        run,
        calls_a_driver: false,
    }
}

/// Every tool, in the order of the help.
pub static TOOLS: &[Tool] = &[
    tool(lifecycle::command::command, lifecycle::command::run),
    tool(bench::command, bench::run),
    tool(sanity::command::command, sanity::command::run),
    tool(proxy::command::command, proxy::command::run),
    tool(replay::command::command, replay::command::run),
    without_driver(serve::command, serve::run),
    without_driver(mock::command, mock::run),
    without_driver(flex::command::command, flex::command::run),
    without_driver(new::command::command, new::command::run),
    tool(shell::command, shell::run),
    tool(doctor::command, doctor::run),
    tool(wait::command, wait::run),
    without_driver(version::command, version::run),
    without_driver(context::command, context::run),
    without_driver(completion::command, completion::run),
    without_driver(man::command, man::run),
];

/// The whole tree. Flags of RPCs are built only when their command is used.
pub fn command(name: &'static str) -> Command {
    let tools = TOOLS.iter().map(|tool| (tool.command)());
    with_rpcs(root(name)).subcommands(tools)
}

/// The tree with no command but the RPC that `words`, the program's name before them, call: clap gives each command a copy of
/// each global flag, which takes longer than the rest of a short run.
pub fn command_of_one_rpc(name: &'static str, words: &[OsString]) -> Option<Command> {
    let root = root(name);
    let words: Vec<_> = words.iter().map(|word| word.to_string_lossy()).collect();
    let mut commands = neither_flag_nor_value(&root, &words).map(|place| &*words[place]);
    let (group, verb) = (commands.next()?, commands.next()?);
    let group = GROUPS.iter().find(|it| it.is_called(group))?;
    let rpc = group.rpcs.iter().find(|it| it.is_called(verb))?;
    let group = group.command_with([rpc]);
    drop(commands);
    Some(root.subcommand(group))
}

/// The program without its commands.
fn root(name: &'static str) -> Command {
    let root = Command::new(name)
        .bin_name(if name == PLUGIN { "kubectl csi" } else { name })
        .version(env!("CARGO_PKG_VERSION"))
        .long_version(long_version())
        .styles(Styles::plain())
        .subcommand_required(true)
        .arg_required_else_help(true)
        .disable_help_subcommand(false)
        .after_help(format!(
            "{AFTER_HELP}{}",
            listed_exit_codes(Style::of_program(name))
        ));
    let mut root = with_global_flags(root);
    if name == PLUGIN {
        root = PodFlags::augment_args(root);
    }
    if name == "csc" {
        root = csc_flags::as_csc(root).mut_arg("context", |flag| flag.hide(true));
    }
    // The doc comments of the flags' structs would become the commands' own descriptions.
    root.about("Call any RPC of any CSI driver")
}

/// Which pod of the chart to speak with.
#[derive(Args, Clone, Debug)]
pub struct PodFlags {
    /// The namespace of the driver csi-nfs; without the flag it is looked for in all of them
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAMESPACE",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = "Connection",
        conflicts_with = "endpoint"
    )]
    namespace: Option<String>,
    /// Speak with the driver on this node, and not with the controller
    #[arg(
        long,
        global = true,
        value_name = "NODE",
        value_parser = NonEmptyStringValueParser::new(),
        help_heading = "Connection",
        conflicts_with = "endpoint"
    )]
    node: Option<String>,
}

impl PodFlags {
    /// Names the driver in `globals`. Another endpoint stays, when none of these flags is given.
    pub fn name_driver(&self, globals: &mut Globals) {
        let elsewhere = connect::named(globals).is_some() || globals.context.is_some();
        if elsewhere && self.namespace.is_none() && self.node.is_none() {
            return;
        }
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let node = self.node.as_deref().map(|node| format!("/{node}"));
        globals.endpoint = Some(format!("kubectl:{namespace}{}", node.unwrap_or_default()));
    }
}

/// The program's version and that of the specification, a line each.
fn long_version() -> &'static str {
    static TEXT: OnceLock<String> = OnceLock::new();
    TEXT.get_or_init(|| {
        let (program, spec) = (env!("CARGO_PKG_VERSION"), csi_proto::SPEC_VERSION);
        format!("{program}\nCSI specification {spec}")
    })
}

/// All exit codes in a sentence. What they say has commas.
fn listed_exit_codes(style: Style) -> String {
    let codes = exit_codes(style).into_iter();
    let codes = codes.map(|(code, text)| {
        let text = text.trim_start_matches(ANSWERED);
        format!("{code}{JOINT}{text}")
    });
    codes.collect::<Vec<_>>().join("; ") + "."
}

const AFTER_HELP: &str = "\
Each command of a group is one RPC. Names and flags of csc work as well.

Examples:
  csi -e embedded: lifecycle
  csi -e unix:///csi/csi.sock identity plugin-info
  csi controller create-volume pvc-1 --req-bytes 10Gi --cap 5,mount --params server=10.0.0.4,share=/export
  csi node publish --target-path /mnt/nfs --pub-context server=10.0.0.4,share=nfs_share vol-1
  csi controller list-volumes -o json

Exit codes: ";
