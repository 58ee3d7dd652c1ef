//! Flags as csc's parser takes them: of a flag with one value the last counts, a switch may have its value behind `=`, and a value may
//! begin with a dash.
//!
//! Must not know any flag.

use clap::{Arg, ArgAction, Command};

/// The command, with the flags that it has so far, and the commands of RPCs below it, as csc takes them.
pub fn as_csc(command: Command) -> Command {
    command.args_override_self(true).mut_args(as_csc_takes)
}

/// Whether a command above this one takes its flags so: it says so before those of RPCs are added.
pub(crate) fn is_as_csc(command: &Command) -> bool {
    command.is_args_override_self()
}

fn as_csc_takes(flag: Arg) -> Arg {
    if flag.is_positional() {
        return flag;
    }
    match flag.get_action() {
        ArgAction::SetTrue => flag
            .action(ArgAction::Set)
            .num_args(0..=1)
            .require_equals(true)
            .value_name("BOOL")
            .value_parser(truth)
            .default_value("false")
            .hide_default_value(true)
            .default_missing_value("true"),
        ArgAction::Set if has_optional_value(&flag) => flag.value_parser(truth),
        action if action.takes_values() => flag.allow_hyphen_values(true),
        _ => flag,
    }
}

/// Whether it is a switch that takes `=BOOL` under the name `csi` too.
fn has_optional_value(flag: &Arg) -> bool {
    flag.get_num_args()
        .is_some_and(|count| count.min_values() == 0)
}

/// Reads a truth value as Go does.
pub fn truth(text: &str) -> Result<bool, &'static str> {
    match text {
        "1" | "t" | "T" | "true" | "True" | "TRUE" => Ok(true),
        "0" | "f" | "F" | "false" | "False" | "FALSE" => Ok(false),
        _ => Err("write true or false"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::RequestContext;
    use crate::{Calls, GROUPS, Group, called};
    use clap::error::ErrorKind;
    use csi_proto::v1;
    use prost::Message;

    fn calls(root: Command, line: &str) -> Result<Calls, ErrorKind> {
        let tree = root.subcommands(GROUPS.iter().map(Group::command));
        let matches = tree.try_get_matches_from(line.split(' '));
        let matches = matches.map_err(|error| error.kind())?;
        let called = called(&matches).expect("an RPC");
        let calls = called.rpc.calls(called.matches, &RequestContext::default());
        Ok(calls.unwrap_or_else(|error| panic!("{line}: {error}")))
    }

    #[test]
    fn csc_takes_switches_with_values_and_the_last_of_several_flags() {
        for (flags, readonly, node) in [
            ("--read-only", true, ""),
            ("--read-only=true --node-id=a --node-id b", true, "b"),
            ("--read-only=T --read-only=0", false, ""),
            ("--node-id -a --read-only=false", false, "-a"),
            ("--readonly=FALSE --read-only", true, ""),
        ] {
            let line = format!("csc c publish v {flags}");
            let of_csc = calls(as_csc(Command::new("csc")), &line);
            let of_csc = of_csc.unwrap_or_else(|kind| panic!("{line}: {kind}"));
            let bytes = &*of_csc.requests[0].bytes;
            let request = v1::ControllerPublishVolumeRequest::decode(bytes).expect("a request");
            assert_eq!(
                (request.readonly, request.node_id.as_str()),
                (readonly, node),
                "{line}"
            );
        }
        for (line, all) in [
            ("csc c ls", false),
            ("csc c ls --paging=1", true),
            ("csc c ls --paging=true --paging=false", false),
        ] {
            let of_csc = calls(as_csc(Command::new("csc")), line);
            assert_eq!(
                of_csc.map(|calls| calls.follow_pages).ok(),
                Some(all),
                "{line}"
            );
        }
        let no_truth = calls(as_csc(Command::new("csc")), "csc c ls --paging=yes");
        assert_eq!(no_truth.map(drop), Err(ErrorKind::ValueValidation));
    }

    /// Where nothing has to be as csc has it, what is typed twice is a mistake.
    #[test]
    fn csi_refuses_what_csc_takes() {
        for (line, kind) in [
            ("csi c publish v --read-only=true", ErrorKind::TooManyValues),
            (
                "csi c publish v --node-id a --node-id b",
                ErrorKind::ArgumentConflict,
            ),
            ("csi c publish v --node-id -a", ErrorKind::UnknownArgument),
        ] {
            let of_csi = calls(Command::new("csi"), line);
            assert_eq!(of_csi.map(drop), Err(kind), "{line}");
        }
    }
}
