//! All names that [Stability](../../docs/stability.md) promises, as the programs of this build have them: commands, flags, their values
//! and variables, exit codes, sanity cases, parameters, metrics and values of the chart. Members of JSON are in
//! `tests/cli/surface.rs`.

use super::{PLUGIN, PROGRAM, command};
use crate::corpus;
use clap::builder::PossibleValue;
use clap::{Arg, Args, Command, CommandFactory};
use csi_error::{Style, exit_codes};
use csi_nfs::agent::{flags::AgentFlags, take_in::TakeIn};
use csi_nfs::calls::parameters;
use csi_nfs::process::flags::Flags;
use csi_nfs_store::metrics::Metrics;
use csi_rpc::GROUPS;
use csi_shell::builtins;
use serde_json::Value;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::time::Duration;

type Names = BTreeSet<String>;

/// What a command takes, each by all its names, hidden ones too.
fn of_arguments(built: &Command, path: &str, names: &mut Names) {
    // The root tells those that every command takes.
    let own = |arg: &&Arg| arg.get_id() != "help" && (!arg.is_global_set() || !path.contains(' '));
    for arg in built.get_arguments().filter(own) {
        let longs = arg
            .get_long()
            .into_iter()
            .chain(arg.get_all_aliases().into_iter().flatten());
        let shorts = arg
            .get_short()
            .into_iter()
            .chain(arg.get_all_short_aliases().into_iter().flatten());
        names.extend(longs.map(|it| format!("{path} --{it}")));
        names.extend(shorts.map(|it| format!("{path} -{it}")));
        let name = arg.get_long().map(|long| format!("--{long}"));
        let name = name.unwrap_or_else(|| format!("<{}>", arg.get_id()));
        // Those that help does not list are cases, or defects of the mock.
        if arg.get_action().takes_values() && !arg.is_hide_possible_values_set() {
            let values = arg.get_possible_values();
            let values = values.iter().flat_map(PossibleValue::get_name_and_aliases);
            names.extend(values.map(|value| format!("{path} {name}={value}")));
        }
        let variable = arg.get_env().map(OsStr::to_string_lossy);
        names.extend(variable.map(|it| format!("{path} {name} ${it}")));
    }
}

/// The same of a command and those inside it.
fn of_command(command: &Command, path: &str, names: &mut Names) {
    // Some have their flags and commands only once they are built.
    let mut built = command.clone();
    built.build();
    names.insert(path.to_owned());
    of_arguments(&built, path, names);
    for inner in built.get_subcommands().filter(|it| it.get_name() != "help") {
        // bench takes the RPCs' own commands, by more names.
        let is_own = !inner.is_hide_set() && (path == "csi" || !is_group(inner.get_name()));
        let inner_path = format!("{path} {}", inner.get_name());
        if is_own {
            of_command(inner, &inner_path, names);
        }
        names.insert(inner_path);
        names.extend(inner.get_all_aliases().map(|it| format!("{path} {it}")));
    }
}

fn is_group(name: &str) -> bool {
    GROUPS.iter().any(|group| group.is_called(name))
}

/// The values of a chart's schema, those inside others by paths.
fn of_schema(schema: &Value, whole: &Value, path: &str, names: &mut Names) {
    let referred = schema["$ref"]
        .as_str()
        .and_then(|it| whole.pointer(&it[1..]));
    let schema = referred.unwrap_or(schema);
    for choice in schema["enum"].as_array().into_iter().flatten() {
        names.insert(format!("{path}={choice}"));
    }
    for (name, inner) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}.{name}");
        of_schema(inner, whole, &path, names);
        names.insert(path);
    }
    if schema["items"].is_object() {
        of_schema(&schema["items"], whole, &format!("{path}[]"), names);
    }
}

/// A series of metrics with the names of its labels.
fn of_metrics(text: &str) -> impl Iterator<Item = String> {
    let series = text.lines().filter(|line| !line.starts_with('#'));
    series.map(|line| {
        let (name, labels) = line.split_once(['{', ' ']).unwrap_or_default();
        let labels = labels.split(',').filter_map(|it| it.split_once("=\""));
        let labels: Vec<_> = labels.map(|(label, _)| label).collect();
        format!("metric {name} {}", labels.join(" "))
            .trim_end()
            .to_owned()
    })
}

fn surface() -> Names {
    let mut names = Names::new();
    of_command(&command("csi"), "csi", &mut names);
    of_arguments(&command(PLUGIN), "kubectl-csi", &mut names);
    let lines = builtins::tree(PROGRAM);
    for builtin in lines
        .get_subcommands()
        .filter(|it| builtins::has(it.get_name()))
    {
        of_command(builtin, &format!("csi> {}", builtin.get_name()), &mut names);
    }
    for (name, tree) in [
        ("csi-nfs", Flags::command()),
        (
            "csi-nfs-agent",
            AgentFlags::augment_args(Command::new("agent")),
        ),
        (
            "csi-nfs-take-in",
            TakeIn::augment_args(Command::new("take-in")),
        ),
    ] {
        of_command(&tree, name, &mut names);
    }
    names.extend(
        exit_codes(Style::Text)
            .iter()
            .map(|(code, _)| format!("exit {code}")),
    );
    names.extend(csi_sanity::cases().map(|case| format!("case {}", case.name)));
    for (of, list) in [
        ("StorageClass", &parameters::KNOWN[..]),
        ("VolumeAttributesClass", &parameters::MUTABLE),
        ("VolumeSnapshotClass", &parameters::OF_SNAPSHOTS),
    ] {
        names.extend(list.iter().map(|name| format!("parameter {of} {name}")));
    }
    let metrics = Metrics::default();
    metrics.call("any", "OK".to_owned(), Duration::ZERO);
    names.extend(of_metrics(&metrics.text("any", Some(true))));
    let schema = include_str!("../../charts/csi-nfs/values.schema.json");
    let schema = serde_json::from_str(schema).expect("JSON");
    of_schema(&schema, &schema, "chart ", &mut names);
    names
}

#[test]
fn every_name_that_a_release_has_promised_is_there() {
    corpus::keeps("surface", &surface());
}
