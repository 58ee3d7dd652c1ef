//! The command `csi bench`: a subcommand for every RPC, with the names and flags of its own command, and for each named
//! cycle.

use super::flags::{BenchFlags, CycleFlags};
use super::scenario::{CYCLES, Cycle};
use clap::{ArgMatches, Command, FromArgMatches};
use csi_invocation::parse::with_flags;
use csi_invocation::verbs;
use csi_rpc::{Called, GROUPS, Group, Rpc};
use std::collections::HashMap;
use std::sync::LazyLock;

/// A parsed command line of `csi bench`.
pub(crate) struct Bench<'a> {
    /// The flags that every load has.
    pub flags: BenchFlags,
    /// The load.
    pub load: Load<'a>,
}

/// The work that is repeated.
pub(crate) enum Load<'a> {
    /// One RPC.
    Rpc(Called<'a>),
    /// A named cycle.
    Cycle(Cycle, Box<CycleFlags>),
}

// clap breaks the lines of a paragraph where the terminal ends.
const AFTER_HELP: &str = "\
The load is a cycle, or any RPC by the names and with the flags of its own command; node-publish is short for node publish. \
Texts of the request may hold {i} (the number of the call), {i%K} (its remainder by K), {worker}, {run}, {random}, and \
{volume_id}, which stands for a volume that is created before, one for each worker; {{ and }} are braces.

All that is created has a name that begins with csi-bench-RUN-, and is taken back at the end, that of a failed cycle sooner, also \
after errors and Ctrl-C, unless there is --keep. Calls that change or delete anything else need --yes. A second Ctrl-C ends at once, and says what stays.

Latencies are of all calls, failed ones too; with --rate they count from when the call was due. Exit codes: 0; 64 + the code \
that was most frequent when more calls failed than --max-errors; 1 when something could not be taken back; 130 interrupted.

Examples:
  csi bench identity plugin-info --concurrency 64 --duration 30s
  csi bench list-volumes --rate 100 --warm-up 5s -o json
  csi bench create-delete --concurrency 8 --count 1000 --params server=10.0.0.4,share=/export
  csi bench node-publish '{volume_id}' --cap 5,mount --target-path '/mnt/bench/{run}-{i}' --count 500
  csi bench publish-unpublish --compare unix:///csi/new.sock";

/// The command; its inner ones are built when it is used.
pub fn command() -> Command {
    Command::new("bench")
        .about("Put a driver under load: how fast, how steady")
        .after_help(AFTER_HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .defer(|command| {
            let cycles = CYCLES.iter().map(|(_, name, about)| {
                let cycle = Command::new(*name).about(*about);
                cycle.defer(with_flags::<CycleFlags>)
            });
            let command = with_flags::<BenchFlags>(command).subcommands(cycles);
            GROUPS.iter().fold(command, |command, group| {
                let joined = |rpc: &Rpc| {
                    let long = rpc.command_named(rpc.method.kebab_name).hide(true);
                    long.aliases(joined_names(rpc))
                };
                command
                    .subcommand(group.command())
                    .subcommands(group.rpcs.iter().map(joined))
            })
        })
}

/// `node-publish` for NodePublishVolume, and so on: the group and each name of the RPC in one word, and its verb where no other
/// group has that; by its path. Made once: clap borrows names.
static JOINED_NAMES: LazyLock<HashMap<&str, Vec<String>>> = LazyLock::new(|| {
    let joined = |group: &Group, rpc: &Rpc| {
        let names = rpc.names.iter();
        let names = names.map(|name| format!("{}-{name}", group.name));
        let alone = verbs::group_of(rpc.verb()).map(|_| rpc.verb().to_owned());
        names
            .chain(alone)
            .filter(|name| *name != rpc.method.kebab_name)
            .collect()
    };
    let all = csi_rpc::with_groups();
    all.map(|(group, rpc)| (rpc.method.path, joined(group, rpc)))
        .collect()
});

fn joined_names(rpc: &Rpc) -> impl Iterator<Item = &'static str> {
    let names = JOINED_NAMES.get(rpc.method.path);
    names.into_iter().flatten().map(String::as_str)
}

/// Reads the parsed command line of `csi bench`.
///
/// # Errors
/// When the matches are not of [`command`]: clap's own error.
pub fn task(matches: &ArgMatches) -> Result<Bench<'_>, clap::Error> {
    let missing = || clap::Error::new(clap::error::ErrorKind::MissingSubcommand);
    let flags = BenchFlags::from_arg_matches(matches)?;
    let (name, inner) = matches.subcommand().ok_or_else(missing)?;
    if let Some((cycle, ..)) = CYCLES.iter().find(|(_, cycle, _)| *cycle == name) {
        let flags_of_cycle = Box::new(CycleFlags::from_arg_matches(inner)?);
        let load = Load::Cycle(*cycle, flags_of_cycle);
        return Ok(Bench { flags, load });
    }
    let called = match csi_rpc::called(matches) {
        Some(called) => called,
        None => {
            let mut all = csi_rpc::with_groups();
            let named = all.find(|(_, rpc)| rpc.method.kebab_name == name);
            let (group, rpc) = named.ok_or_else(missing)?;
            let matches = inner;
            Called {
                group,
                rpc,
                matches,
            }
        }
    };
    let load = Load::Rpc(called);
    Ok(Bench { flags, load })
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_invocation::globals::with_global_flags;
    use csi_invocation::parse::with_rpcs;

    fn bench(line: &str) -> Bench<'static> {
        let matches = with_rpcs(with_global_flags(Command::new("csi")).subcommand(command()))
            .try_get_matches_from(line.split(' '));
        let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
        match Box::leak(Box::new(matches)).subcommand() {
            Some(("bench", matches)) => task(matches).unwrap(),
            _ => panic!("{line}: no load"),
        }
    }

    #[test]
    fn every_rpc_is_a_load_by_every_name_with_flags_on_either_side() {
        for group in GROUPS {
            for rpc in group.rpcs {
                let long = rpc
                    .names
                    .iter()
                    .map(|name| format!("{} {name}", group.name));
                let full = rpc.method.kebab_name;
                let others = [full.to_owned(), format!("{} {full}", group.aliases[0])];
                for name in long
                    .chain(others)
                    .chain(joined_names(rpc).map(str::to_owned))
                {
                    let bench = bench(&format!(
                        "csi bench --rate 5 {name} --request {{}} --count 3"
                    ));
                    let Load::Rpc(found) = bench.load else {
                        panic!("{name} is a cycle");
                    };
                    assert_eq!(found.rpc.method.path, rpc.method.path, "{name}");
                    assert_eq!(bench.flags.rate, Some(5.0));
                    assert_eq!(bench.flags.limits().count, Some(3));
                    assert_eq!(bench.flags.limits().duration, None);
                }
            }
        }
    }

    #[test]
    fn the_examples_of_the_help_are_understood() {
        let examples = AFTER_HELP.lines().filter(|line| line.starts_with("  csi "));
        for line in examples {
            bench(&line.trim().replace('\'', ""));
        }
    }
}
