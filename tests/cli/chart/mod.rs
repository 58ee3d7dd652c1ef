//! The chart and the driver agree: every flag can be reached, every value is in the schema, and the plain manifests are of this
//! version. What only helm can tell, `charts/render --check` tells.

mod alerts;
mod fixed_fields;
mod queries;
mod translated;

use crate::support::driver;
use crate::support::process::Process;
use rustix::process::geteuid;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn chart() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/csi-nfs")
}

fn templates() -> String {
    let files = fs::read_dir(chart().join("templates")).unwrap();
    let texts = files.map(|file| fs::read_to_string(file.unwrap().path()).unwrap());
    texts.collect()
}

/// The flags of the driver, or of a command of its.
fn flags(command: &[&str]) -> BTreeSet<String> {
    let mut help = Command::new(driver::binary());
    let help = help.args(command).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    help.lines()
        .filter_map(|line| {
            line.trim_start()
                .trim_start_matches("-h, ")
                .strip_prefix("--")
        })
        .filter_map(|line| line.split([' ', '<']).next())
        .filter(|flag| !matches!(*flag, "help" | "version"))
        .map(str::to_owned)
        .collect()
}

fn gives(template: &str, flag: &str) -> bool {
    [" ", "=", "\n"]
        .iter()
        .any(|end| template.contains(&format!("--{flag}{end}")))
}

#[test]
fn every_flag_of_the_driver_can_be_reached() {
    let flags = flags(&[]);
    assert!(flags.len() > 20, "{flags:?}");
    let templates = templates();
    for flag in flags {
        // The container's environment has the endpoint; the mode of a socket in a pod of one's own is nobody else's.
        let elsewhere = ["endpoint", "socket-mode"];
        let elsewhere = elsewhere.contains(&flag.as_str());
        assert!(elsewhere || gives(&templates, &flag), "--{flag}");
    }
    for list in ["node.extraArgs", "controller.extraArgs", "agent.extraArgs"] {
        assert!(templates.contains(&format!(".Values.{list}")), "{list}");
    }
}

fn agent() -> String {
    fs::read_to_string(chart().join("templates/agent.yaml")).unwrap()
}

#[test]
fn every_flag_of_the_agent_can_be_reached() {
    let flags = flags(&["agent"]);
    assert!(flags.len() > 3, "{flags:?}");
    let template = agent();
    for flag in flags {
        assert!(gives(&template, &flag), "--{flag}");
    }
}

/// An agent names those that it misses, here all of them.
#[test]
fn the_agent_has_the_capabilities_that_it_needs_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let local = format!("nas:/srv={}", folder.path().display());
    // Who is not root has none.
    let without: &[&str] = match geteuid().is_root() {
        true => &["setpriv", "--inh-caps=-all", "--bounding-set=-all"],
        false => &["env"],
    };
    let mut command = Command::new(without[0]);
    command.args(&without[1..]).arg(driver::binary());
    command.args(["agent", "--local-share", &local]);
    let said = Process::start(&mut command).wait_for_error_output("attending");
    let missed = said.split("CAP_").skip(1);
    let missed: BTreeSet<&str> = missed.map(|it| it.split(' ').next().unwrap()).collect();
    let template = agent();
    let (_, added) = template.split_once("add: [").unwrap();
    // What quotas add is behind the first brace.
    let (added, _) = added.split_once("{{").unwrap();
    assert_eq!(added.split(", ").collect::<BTreeSet<_>>(), missed, "{said}");
}

/// The names of the first and second level of values in a file.
fn values(file: &str) -> BTreeSet<String> {
    let text = fs::read_to_string(chart().join(file)).unwrap();
    let (mut above, mut names) = (String::new(), BTreeSet::new());
    for line in text.lines() {
        let indent = line.len() - line.trim_start().len();
        let Some((name, _)) = line.trim().split_once(':') else {
            continue;
        };
        if name.starts_with(['#', '-']) || indent > 2 {
            continue;
        }
        match indent {
            0 => {
                name.clone_into(&mut above);
                names.insert(name.to_owned());
            }
            _ => {
                names.insert(format!("{above}.{name}"));
            }
        }
    }
    names
}

/// A part of the schema, or the definition that it names.
fn resolved<'a>(definitions: &'a Value, part: &'a Value) -> &'a Value {
    let name = part["$ref"].as_str();
    let name = name.and_then(|name| name.strip_prefix("#/definitions/"));
    name.map_or(part, |name| &definitions[name])
}

#[test]
fn the_schema_has_the_values_and_no_others() {
    let schema = fs::read_to_string(chart().join("values.schema.json")).unwrap();
    let schema: Value = serde_json::from_str(&schema).unwrap();
    let definitions = schema["definitions"].clone();
    let mut declared = BTreeSet::new();
    for (name, value) in schema["properties"].as_object().unwrap() {
        // Helm gives it to every chart.
        if name == "global" {
            continue;
        }
        declared.insert(name.clone());
        let below = resolved(&definitions, value)["properties"].as_object();
        let below = below.into_iter().flatten();
        declared.extend(below.map(|(second, _)| format!("{name}.{second}")));
    }
    // A label that a user's values bring stands for one of the maps, whose keys are free.
    let values = values("values.yaml");
    let values: BTreeSet<String> = values
        .into_iter()
        .filter(|name| !name.contains('/'))
        .collect();
    assert_eq!(values, declared);
    // Each of them is used.
    let templates = templates();
    for name in values.iter().filter(|name| !name.starts_with("sidecars")) {
        let last = name.rsplit('.').next().unwrap();
        assert!(templates.contains(&format!(".{last}")), "{name}");
    }
}

/// Charts are linted and rendered with these files; what none of them sets is never tried.
#[test]
fn every_value_is_tried_with_another_than_its_default() {
    assert_eq!(
        values("../values/every-value.yaml"),
        values("values.yaml")
            .into_iter()
            .filter(|name| !name.contains('/'))
            .collect::<BTreeSet<_>>()
    );
}

#[test]
fn the_chart_is_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let of_chart = fs::read_to_string(chart().join("Chart.yaml")).unwrap();
    assert!(of_chart.contains(&format!("\nappVersion: \"{version}\"\n")));
    let plain = fs::read_to_string(chart().join("plain/csi-nfs.yaml")).unwrap();
    assert!(plain.contains(&format!("image: \"csi-nfs:{version}\"")));
    assert!(!plain.contains("node-driver-registrar"));
}

/// What checkers of manifests ask for, and nothing speaks against.
#[test]
fn containers_get_no_privileges_later_and_a_sick_controller_goes() {
    let plain = fs::read_to_string(chart().join("plain/csi-nfs.yaml")).unwrap();
    let contexts: Vec<_> = plain.split("securityContext:").skip(1).collect();
    assert_eq!(contexts.len(), 1 + 1 + 3);
    for context in contexts {
        let context = context.split("- name:").next().unwrap();
        let is_bound = context.contains("allowPrivilegeEscalation: false");
        assert!(
            is_bound || context.contains("privileged: true"),
            "{context}"
        );
    }
    assert!(plain.contains("unhealthyPodEvictionPolicy: AlwaysAllow"));
}

/// The flags of the containers of that name in rendered manifests.
fn flags_of_containers(manifests: &str, name: &str) -> Vec<Vec<String>> {
    let begin = format!("- name: {name}\n          image: ");
    let containers = manifests.split(&begin).skip(1);
    let flags = containers.map(|container| {
        let (_, flags) = container.split_once("args:\n").unwrap();
        let flags = flags.lines().map(str::trim);
        let flags = flags.take_while(|line| line.starts_with(['-', '#']));
        let flags = flags.filter_map(|line| line.strip_prefix("- "));
        let variables = [("$(NODE_NAME)", "node-1"), ("$(POD_IP)", "127.0.0.1")];
        let expanded = flags.map(|flag| {
            let flag = flag.trim_matches('"').to_owned();
            let replace = |flag: String, (name, value)| flag.replace(name, value);
            variables.into_iter().fold(flag, replace)
        });
        expanded.collect()
    });
    flags.collect()
}

/// A flag or its value that the driver does not take would be found on a cluster only. `charts/check` renders the chart with
/// other values into the folder `CSI_TEST_MANIFESTS`.
#[test]
fn the_driver_takes_what_the_chart_gives_it() {
    let mut manifests = vec![chart().join("plain/csi-nfs.yaml")];
    if let Some(folder) = std::env::var_os("CSI_TEST_MANIFESTS") {
        let files = fs::read_dir(folder).unwrap();
        manifests.extend(files.map(|file| file.unwrap().path()));
    }
    let folder = tempfile::tempdir().unwrap();
    for path in manifests {
        let text = fs::read_to_string(&path).unwrap();
        let of_agent = path.file_name().unwrap().to_str().unwrap();
        let of_agent = ["agent", "every-value"]
            .iter()
            .any(|it| of_agent.starts_with(it));
        let agents = flags_of_containers(&text, "agent");
        assert_eq!(agents.len(), usize::from(of_agent), "{}", path.display());
        for flags in agents {
            // It waits for the folders.
            let agent = Process::start(Command::new(driver::binary()).args(&flags));
            agent.wait_for_error_output("attending");
        }
        let containers = flags_of_containers(&text, "csi-nfs");
        assert_eq!(containers.len(), 2, "{}", path.display());
        for flags in containers {
            assert!(flags.len() > 5, "{flags:?}");
            // Everything is right but the socket's folder, at which the driver stops.
            let ended = Command::new(driver::binary())
                .args(&flags)
                .env("CSI_ENDPOINT", folder.path().join("none/csi.sock"))
                .output()
                .unwrap();
            let text = String::from_utf8(ended.stderr).unwrap();
            assert_eq!(ended.status.code(), Some(1), "{flags:?}: {text}");
            assert!(text.contains("none: the folder does not exist"), "{text}");
        }
    }
}
