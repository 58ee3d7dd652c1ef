//! The tree of commands: the RPCs by their declarations, and the tools.

use super::kubectl::{PLUGIN, PodFlags};
use super::tools::TOOLS;
use clap::builder::Styles;
use clap::{Args as _, Command};
use csi_error::{ANSWERED, Style, exit_codes};
use csi_invocation::help::JOINT;
use csi_invocation::tree::{with_global_flags, with_rpcs};
use csi_rpc::GROUPS;
use std::ffi::OsString;
use std::sync::OnceLock;

/// The whole tree. Flags of RPCs are built only when their command is used.
pub fn command(name: &'static str) -> Command {
    let tools = TOOLS.iter().map(|tool| (tool.command)());
    with_rpcs(root(name)).subcommands(tools)
}

/// The tree with no command but the RPC that `words`, the program's name before them, begin with: clap gives each command a copy of
/// each global flag, which takes longer than the rest of a short run.
pub fn command_of_one_rpc(name: &'static str, words: &[OsString]) -> Option<Command> {
    let mut words = words.iter().skip(1).map(|word| word.to_str());
    let (group, verb) = (words.next()??, words.next()??);
    let group = GROUPS.iter().find(|it| it.is_called(group))?;
    let rpc = group.rpcs.iter().find(|it| it.is_called(verb))?;
    let group = group.command_with([rpc]);
    Some(root(name).subcommand(group))
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
        root = root.mut_arg("context", |flag| flag.hide(true));
    }
    // The doc comments of the flags' structs would become the commands' own descriptions.
    root.about("Call any RPC of any CSI driver")
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
