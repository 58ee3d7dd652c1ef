//! What is in `packages/` and the driver agree: units, settings, versions and notes. How packages are made, install and run,
//! `packages/check` tells.

use crate::support::driver;
use crate::support::process::Process;
use rustix::process::geteuid;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

const UNITS: [&str; 3] = ["node", "controller", "agent"];

/// Settings that give a unit a mount namespace of its own (systemd.exec(5)), in which a volume would be mounted for the driver alone.
/// Also those that do so only in newer versions of systemd.
const MAKE_MOUNT_NAMESPACES: [&str; 47] = [
    "BindLogSockets",
    "BindPaths",
    "BindReadOnlyPaths",
    "DynamicUser",
    "ExecPaths",
    "ExtensionDirectories",
    "ExtensionImages",
    "ImportCredential",
    "InaccessibleDirectories",
    "InaccessiblePaths",
    "JoinsNamespaceOf",
    "LoadCredential",
    "LoadCredentialEncrypted",
    "LogNamespace",
    "MountAPIVFS",
    "MountFlags",
    "MountImages",
    "NetworkNamespacePath",
    "NoExecPaths",
    "PrivateBPF",
    "PrivateDevices",
    "PrivateIPC",
    "PrivateMounts",
    "PrivateNetwork",
    "PrivatePIDs",
    "PrivateTmp",
    "PrivateUsers",
    "ProcSubset",
    "ProtectControlGroups",
    "ProtectHome",
    "ProtectHostname",
    "ProtectKernelLogs",
    "ProtectKernelModules",
    "ProtectKernelTunables",
    "ProtectProc",
    "ProtectSystem",
    "ReadOnlyDirectories",
    "ReadOnlyPaths",
    "ReadWriteDirectories",
    "ReadWritePaths",
    "RootDirectory",
    "RootEphemeral",
    "RootImage",
    "RootMStack",
    "SetCredential",
    "SetCredentialEncrypted",
    "TemporaryFileSystem",
];

/// Settings that hide from a process what it must see or make: the processes of other claims, devices and set-user-id bits of copies.
const HIDE_WHAT_COPIES_TAKE: [&str; 8] = [
    "DeviceAllow",
    "DevicePolicy",
    "PrivateDevices",
    "PrivatePIDs",
    "ProcSubset",
    "ProtectClock",
    "ProtectProc",
    "RestrictSUIDSGID",
];

fn file(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages/csi-nfs");
    fs::read_to_string(folder.join(name)).unwrap()
}

/// The settings of a unit, with all their values.
fn unit(name: &str) -> BTreeMap<String, Vec<String>> {
    let mut settings = BTreeMap::<_, Vec<_>>::new();
    for line in file(&format!("csi-nfs-{name}.service")).lines() {
        if let Some((setting, value)) = line.split_once('=')
            && !line.starts_with('#')
        {
            let values = settings.entry(setting.to_owned()).or_default();
            values.push(value.to_owned());
        }
    }
    assert!(settings.len() > 10, "{settings:?}");
    settings
}

#[test]
fn the_nodes_unit_has_no_mounts_of_its_own() {
    let node = unit("node");
    for setting in MAKE_MOUNT_NAMESPACES {
        assert!(!node.contains_key(setting), "{setting}");
    }
    // Whether the list names what is meant: the others have such settings.
    for name in ["controller", "agent"] {
        let settings = unit(name);
        let of_the_kind = MAKE_MOUNT_NAMESPACES.iter();
        let count = of_the_kind.filter(|it| settings.contains_key(**it)).count();
        assert!(count >= 6, "{name}");
    }
}

#[test]
fn units_hide_nothing_that_copies_take() {
    for name in UNITS {
        let settings = unit(name);
        for setting in HIDE_WHAT_COPIES_TAKE {
            assert!(!settings.contains_key(setting), "{name}: {setting}");
        }
    }
}

/// systemd counts it among its privileged calls, and an agent behind a filter would only say that it may not.
#[test]
fn units_that_set_quotas_may_make_the_call_for_it() {
    for name in ["controller", "agent"] {
        let filters = unit(name)["SystemCallFilter"].join(" ");
        assert!(filters.split(' ').any(|it| it == "quotactl_fd"), "{name}");
    }
}

/// What the driver says that it misses, where it has nothing.
fn missed(arguments: &[&str]) -> BTreeSet<String> {
    // Who is not root has none.
    let without: &[&str] = match geteuid().is_root() {
        true => &["setpriv", "--inh-caps=-all", "--bounding-set=-all"],
        false => &["env"],
    };
    let mut command = Command::new(without[0]);
    command.args(&without[1..]).arg(driver::binary());
    let said = Process::start(command.args(arguments)).wait_for_error_output("CAP_");
    let names = said.split("CAP_").skip(1);
    names
        .map(|it| format!("CAP_{}", it.split(' ').next().unwrap()))
        .collect()
}

#[test]
fn units_have_the_capabilities_that_some_setting_needs_and_no_others() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    fs::create_dir(path("share")).unwrap();
    let local = format!("nas:/srv={}", path("share"));
    let endpoint = format!("unix://{}", path("csi.sock"));
    let work = path("work");
    let mut serve = vec!["--endpoint", &endpoint, "--work-dir", &work];
    serve.extend(["--local-share", &local, "--migrate-from", "csi-driver-nfs"]);
    for name in UNITS {
        let needed = match name {
            "agent" => missed(&["agent", "--quotas", "--local-share", &local]),
            mode => missed(&[&serve[..], &["--mode", mode]].concat()),
        };
        let given = &unit(name)["CapabilityBoundingSet"].join(" ");
        let given: BTreeSet<String> = given.split(' ').map(str::to_owned).collect();
        assert_eq!(given, needed, "{name}");
    }
}

/// The variables in a file of settings with their examples, as systemd would read them without the signs before them.
fn examples(name: &str) -> BTreeMap<String, String> {
    let text = file(&format!("{name}.conf"));
    let mut found = BTreeMap::new();
    // What is set from the start would be so on every machine.
    assert!(
        text.lines()
            .all(|line| line.is_empty() || line.starts_with('#'))
    );
    let mut lines = text.lines().filter_map(|line| line.strip_prefix('#'));
    while let Some(line) = lines.next() {
        let Some((variable, value)) = line.split_once('=') else {
            continue;
        };
        if variable.contains(' ') {
            continue;
        }
        let mut value = value.to_owned();
        if let Some(rest) = value.strip_prefix('"') {
            let mut quoted = rest.to_owned();
            while !quoted.ends_with('"') {
                quoted = format!("{quoted}\n{}", lines.next().unwrap());
            }
            value = quoted.trim_end_matches('"').to_owned();
        }
        assert!(
            found.insert(variable.to_owned(), value).is_none(),
            "{name}: {variable}"
        );
    }
    found
}

/// The variables that stand in a help text.
fn variables(command: &[&str]) -> BTreeSet<String> {
    let mut help = Command::new(driver::binary());
    let help = help.args(command).arg("--help").output().unwrap();
    let help = String::from_utf8(help.stdout).unwrap();
    let found = help.split("[env: ").skip(1);
    found
        .map(|it| it.split('=').next().unwrap().to_owned())
        .collect()
}

#[test]
fn settings_name_every_variable_and_no_others() {
    let of = |name| examples(name).into_keys().collect::<BTreeSet<_>>();
    let mut serving = of("node");
    serving.extend(of("controller"));
    // The units say which of the two they are.
    serving.insert("CSI_NFS_MODE".to_owned());
    assert_eq!(serving, variables(&[]));
    assert_eq!(of("agent"), variables(&["agent"]));
}

/// One that a file leaves out would be looked for in vain.
#[test]
fn settings_leave_out_only_what_has_no_effect_there() {
    for (mode, other) in [("node", "controller"), ("controller", "node")] {
        let own = examples(mode);
        let left_out = examples(other)
            .into_iter()
            .filter(|(name, _)| !own.contains_key(name));
        for (name, value) in left_out {
            let mut command = Command::new(driver::binary());
            // A folder that is not there: else it would serve where it takes the setting.
            let command = command.args(["--mode", mode, "--endpoint", "unix:///none/csi.sock"]);
            let ended = command.env(&name, value).output().unwrap();
            let text = String::from_utf8(ended.stderr).unwrap();
            assert!(text.contains("has no effect"), "{mode}: {name}: {text}");
        }
    }
}

/// Examples that the driver does not take would be found by whoever takes them.
#[test]
fn the_driver_takes_the_examples_of_the_settings() {
    let folder = tempfile::tempdir().unwrap();
    for mode in ["node", "controller"] {
        let mut examples = examples(mode);
        // Everything is right but the socket's folder, at which the driver stops.
        let nowhere: PathBuf = folder.path().join("none/csi.sock");
        examples.insert(
            "CSI_ENDPOINT".into(),
            format!("unix://{}", nowhere.display()),
        );
        let mut command = Command::new(driver::binary());
        let ended = command
            .args(["--mode", mode])
            .envs(examples)
            .output()
            .unwrap();
        let text = String::from_utf8(ended.stderr).unwrap();
        assert_eq!(ended.status.code(), Some(1), "{mode}: {text}");
        assert!(text.contains("none: the folder does not exist"), "{text}");
    }
    let mut command = Command::new(driver::binary());
    // It waits for the folders.
    Process::start(command.arg("agent").envs(examples("agent"))).wait_for_error_output("attending");
}

#[test]
fn units_wait_longer_for_the_end_than_the_driver_does() {
    for name in UNITS {
        let drain = &examples(name)["CSI_NFS_DRAIN_TIMEOUT"];
        let seconds = |text: &str| {
            text.trim_end_matches('s')
                .parse()
                .map(Duration::from_secs)
                .unwrap()
        };
        assert!(
            seconds(&unit(name)["TimeoutStopSec"][0]) > seconds(drain),
            "{name}"
        );
    }
}

fn notes(version: &str) -> Result<String, String> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("packages/notes");
    let ended = Command::new(script).arg(version).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    match ended.status.success() {
        true => Ok(text(ended.stdout)),
        false => Err(text(ended.stderr)),
    }
}

/// What cannot be derived from the one version in `Cargo.toml` equals it. Dockerfile and chart have tests of their own.
#[test]
fn notes_and_chart_are_of_this_version() {
    let version = env!("CARGO_PKG_VERSION");
    let notes_of_this = notes(version).unwrap();
    assert!(notes_of_this.starts_with(&format!("# {version}\n\n")));
    assert!(notes_of_this.lines().count() > 3);
    assert!(!notes_of_this.contains("\n## "));
    assert!(notes("0.0.0").unwrap_err().contains("nothing about 0.0.0"));
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/csi-nfs/Chart.yaml");
    let chart = fs::read_to_string(chart).unwrap();
    assert!(chart.contains(&format!("\nversion: {version}\n")));
}
