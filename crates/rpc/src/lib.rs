//! The RPCs, each declared once: its names, flags, request and columns. Commands, dispatch, help, completion, tables and
//! the coverage tests come from these declarations.
//!
//! One file a service, one block an RPC: the request's type implements `Declare`. Nothing here prints or connects.

pub mod context;
mod controller;
pub mod csc_flags;
mod declare;
pub mod draft;
pub mod facts;
pub mod flags;
pub mod from_reply;
mod group_controller;
mod identity;
mod node;
mod snapshot_metadata;
mod snapshots;
pub mod validation;
mod vocabulary;
mod volumes;

pub use declare::{Calls, EncodedRequest, Group, Rpc};

use clap::ArgMatches;
use csi_output::view::Column;
use csi_proto::Method;
use facts::{Facts, Given, IdKind, Making, Thing};
use std::collections::BTreeSet;

/// Every group, in the order of the help.
pub static GROUPS: &[Group] = &[
    identity::GROUP,
    controller::GROUP,
    node::GROUP,
    group_controller::GROUP,
    snapshot_metadata::GROUP,
];

/// Every RPC with its group.
pub fn with_groups() -> impl Iterator<Item = (&'static Group, &'static Rpc)> {
    let groups = GROUPS.iter();
    groups.flat_map(|group| group.rpcs.iter().map(move |rpc| (group, rpc)))
}

/// Every RPC.
pub fn all() -> impl Iterator<Item = &'static Rpc> {
    GROUPS.iter().flat_map(|group| group.rpcs)
}

/// The heads of the tables of these RPCs as they are typed, such as `volume-id`, each once and in order.
pub fn heads<'a>(rpcs: impl Iterator<Item = &'a Rpc>) -> BTreeSet<String> {
    let columns = rpcs.flat_map(|rpc| rpc.view.columns);
    columns.map(Column::typed).collect()
}

/// The RPC of a method of the descriptors, with its group.
pub fn of_method(method: &Method) -> Option<(&'static Group, &'static Rpc)> {
    with_groups().find(|(_, rpc)| rpc.method.path == method.path)
}

/// The RPC of a method; `None` for one that is not in the specification.
pub fn find(method: &Method) -> Option<&'static Rpc> {
    of_method(method).map(|(_, rpc)| rpc)
}

/// Whether the driver's node answers a method, where node and controller are two processes. The controller answers what is
/// not in the specification.
pub fn is_at_node(method: &Method) -> bool {
    with_groups().any(|(group, rpc)| group.at_node && rpc.method.service == method.service)
}

/// The RPC that lists the ids of a kind, and the path at which its reply has them.
pub fn lister(kind: IdKind) -> Option<(&'static Method, &'static str)> {
    all().find_map(|rpc| Some((rpc.method, rpc.facts.path_of(Given::Ids(kind))?)))
}

/// The facts of a method; `None` for one that is not in the specification.
pub fn facts(method: &Method) -> Option<&'static Facts> {
    find(method).map(|rpc| &rpc.facts)
}

/// Whether an RPC is known to change nothing. One that is not in the specification may change something.
pub fn only_reads(method: &Method) -> bool {
    facts(method).is_some_and(|facts| facts.effect.is_reads())
}

/// The undoing of a method that makes something; `None` where it makes nothing.
pub fn making(method: &Method) -> Option<&'static Making> {
    facts(method)?.effect.making()
}

/// Each RPC that makes something, with how that is taken back.
pub fn makers() -> impl Iterator<Item = (&'static Method, &'static Making)> {
    all().filter_map(|rpc| Some((rpc.method, rpc.facts.effect.making()?)))
}

/// The RPC that makes such things, with its group.
pub fn maker(thing: Thing) -> Option<(&'static Group, &'static Rpc)> {
    let mut makers = makers();
    let (method, _) = makers.find(|(_, making)| making.thing == thing)?;
    of_method(method)
}

/// The RPC whose thing a method takes back; `None` where it takes nothing back.
pub fn maker_of(undoing: &Method) -> Option<(&'static Method, &'static Making)> {
    makers().find(|(_, making)| making.undone_by.path == undoing.path)
}

/// An RPC on a command line.
pub struct Called<'a> {
    /// The RPC's group.
    pub group: &'static Group,
    /// The RPC.
    pub rpc: &'static Rpc,
    /// The flags of the command.
    pub matches: &'a ArgMatches,
}

/// The RPC that the matches of the whole command line, or those of `bench`, name; `None` where they name another command.
pub fn called(matches: &ArgMatches) -> Option<Called<'_>> {
    let (name, inner) = matches.subcommand()?;
    let group = GROUPS.iter().find(|group| group.name == name)?;
    let (verb, matches) = inner.subcommand()?;
    let rpc = group.rpcs.iter().find(|rpc| rpc.verb() == verb)?;
    Some(Called {
        group,
        rpc,
        matches,
    })
}

#[cfg(test)]
mod facts_tests;

#[cfg(test)]
mod tests {
    use super::context::RequestContext;
    use super::*;
    use clap::{Arg, Command};
    use csi_arguments::secrets::Secrets;
    use csi_proto::schema::{Kind, Message as Schema};
    use csi_proto::tables::METHODS;
    use csi_proto::v1;
    use csi_proto::wire::{Raw, fields};
    use prost::Message as _;

    /// The commands of all RPCs, with the flags of every command that stand in their examples.
    fn tree() -> Command {
        let flags = ["output", "sort-by", "columns"];
        let flags = flags.map(|name| Arg::new(name).long(name).global(true));
        let groups = GROUPS.iter().map(Group::command);
        Command::new("csi")
            .args(flags)
            .mut_arg("output", |flag| flag.short('o'))
            .subcommands(groups)
    }

    /// The RPC and the requests of an example's command line.
    fn parsed(line: &str) -> (&'static Rpc, Calls) {
        let words = line.split(' ');
        let matches = tree().try_get_matches_from(words);
        let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
        let Some(Called { rpc, matches, .. }) = called(&matches) else {
            panic!("{line}: not an RPC");
        };
        let context = RequestContext {
            secrets: Secrets::from_record("key=value").unwrap(),
            ..RequestContext::default()
        };
        let calls = rpc
            .calls(matches, &context)
            .unwrap_or_else(|error| panic!("{line}: {error}"));
        (rpc, calls)
    }

    /// Every field that is set in a message, as `Message.field`, nested ones too.
    fn set_fields(message: &'static Schema, bytes: &[u8], found: &mut BTreeSet<String>) {
        for (number, raw) in fields(bytes).flatten() {
            let field = message
                .fields
                .iter()
                .find(|field| field.number == number)
                .unwrap();
            found.insert(format!("{}.{}", message.name, field.name));
            if let (Kind::Message(of), Raw::Bytes(bytes)) = (field.kind, raw) {
                set_fields(of, bytes, found);
            }
        }
    }

    /// Every field that can stand in a message, as `Message.field`, nested ones too.
    fn all_fields(message: &'static Schema, found: &mut BTreeSet<String>) {
        for field in message.fields {
            found.insert(format!("{}.{}", message.name, field.name));
            if let Kind::Message(of) = field.kind {
                all_fields(of, found);
            }
        }
    }

    #[test]
    fn every_rpc_of_the_specification_is_declared_once() {
        for method in METHODS {
            let declared = GROUPS.iter().flat_map(|group| group.rpcs);
            let count = declared
                .filter(|rpc| rpc.method.name == method.name)
                .count();
            assert_eq!(
                count, 1,
                "{} needs one block in crates/rpc/src/, and one line in the GROUP of its service",
                method.path
            );
        }
    }

    #[test]
    fn every_field_of_every_request_can_be_said_by_flags() {
        let (mut said, mut possible) = (BTreeSet::new(), BTreeSet::new());
        for group in GROUPS {
            for rpc in group.rpcs {
                all_fields(rpc.method.request, &mut possible);
                for example in rpc.examples {
                    let (found, calls) = parsed(&format!("csi {} {example}", group.name));
                    assert_eq!(found.method.name, rpc.method.name, "{example}");
                    for request in calls.requests {
                        set_fields(rpc.method.request, &request.bytes, &mut said);
                    }
                }
            }
        }
        let silent: Vec<_> = possible.difference(&said).collect();
        assert!(
            silent.is_empty(),
            "add to the EXAMPLES of a block in crates/rpc/src/, which say these fields nowhere: {silent:?}"
        );
    }

    #[test]
    fn every_scalar_field_of_a_request_is_a_flag_of_that_name() {
        let mut command = tree();
        command.build();
        for group in GROUPS {
            let group_command = command.find_subcommand(group.name).unwrap();
            for rpc in group.rpcs {
                let flags = group_command.find_subcommand(rpc.verb()).unwrap();
                for field in rpc.method.request.fields {
                    if matches!(field.kind, Kind::Message(_)) || field.secret {
                        continue;
                    }
                    let name = field.name.replace('_', "-");
                    let found = flags.get_arguments().any(|argument| {
                        let aliases = argument.get_all_aliases().unwrap_or_default();
                        argument.get_long() == Some(&name) || aliases.contains(&name.as_str())
                    });
                    assert!(found, "{} has no --{name}", rpc.method.path);
                }
            }
        }
    }

    #[test]
    fn every_name_alias_and_full_name_leads_to_its_rpc() {
        for group in GROUPS {
            for group_name in std::iter::once(&group.name).chain(group.aliases) {
                for rpc in group.rpcs {
                    for name in rpc.names.iter().chain([&rpc.method.kebab_name]) {
                        let line = format!("csi {group_name} {name} --request {{}}");
                        let matches = tree().try_get_matches_from(line.split(' '));
                        let matches = matches.unwrap_or_else(|error| panic!("{line}: {error}"));
                        let found = called(&matches);
                        let found = found.unwrap_or_else(|| panic!("{line}: not an RPC"));
                        assert_eq!(found.rpc.verb(), rpc.verb(), "{line}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_view_fits_its_messages() {
        for rpc in GROUPS.iter().flat_map(|group| group.rpcs) {
            let layout = csi_output::layout::Layout::of(rpc.method, rpc.view)
                .unwrap_or_else(|error| panic!("{}: {error}", rpc.method.name));
            layout
                .columns(csi_output::Format::Wide)
                .unwrap_or_else(|error| panic!("{}: {error}", rpc.method.name));
            let empty = rpc.method.response.fields.is_empty();
            assert_eq!(empty, !rpc.view.done.is_empty(), "{}", rpc.method.name);
            assert_eq!(empty, rpc.view.name.is_empty(), "{}", rpc.method.name);
        }
    }

    #[test]
    fn sizes_have_units_and_lists_have_quotes() {
        let bytes = |line: &str| parsed(line).1.requests[0].bytes.clone();
        for (offset, expected) in [("4Ki", 4096), ("4096", 4096), ("-1", -1)] {
            let line = format!(
                "csi snapshot-metadata get-metadata-allocated s --starting-offset {offset}"
            );
            let request = v1::GetMetadataAllocatedRequest::decode(&*bytes(&line));
            assert_eq!(
                request.expect("a request").starting_offset,
                expected,
                "{line}"
            );
        }
        let line =
            "csi group-controller create g --source-volume-ids a,\"b,c\",, --source-volume-id d";
        let request = v1::CreateVolumeGroupSnapshotRequest::decode(&*bytes(line));
        let ids = request.expect("a request").source_volume_ids;
        assert_eq!(ids, ["a", "b,c", "", "", "d"]);
    }

    #[test]
    fn ids_and_paths_are_told_apart() {
        for (line, id, path, staging) in [
            ("stats id:/path", "id", "/path", ""),
            ("stats id:/path:/staging", "id", "/path", "/staging"),
            ("stats a:b#c:/path:/staging", "a:b#c", "/path", "/staging"),
            ("stats id:path:staging", "id", "path", "staging"),
            ("stats id --volume-path /path", "id", "/path", ""),
            ("expand id:/path:/staging", "id", "/path", "/staging"),
            ("expand a:b#c:/path", "a:b#c", "/path", ""),
            (
                "expand id:/path:/other --staging-target-path /staging",
                "id",
                "/path",
                "/staging",
            ),
            ("expand a:/b /path", "a:/b", "/path", ""),
            ("expand a:/b --volume-path /path", "a:/b", "/path", ""),
            ("expand --volume-id id:/path", "id", "/path", ""),
        ] {
            let (rpc, calls) = parsed(&format!("csi node {line}"));
            let bytes = &calls.requests[0].bytes;
            let text = |name: &str| {
                let found = csi_proto::path::contents(rpc.method.request, bytes, name);
                String::from_utf8(found.last().copied().unwrap_or_default().to_vec()).unwrap()
            };
            let got = ["volume_id", "volume_path", "staging_target_path"].map(text);
            assert_eq!(got, [id, path, staging], "{line}");
        }
    }
}
