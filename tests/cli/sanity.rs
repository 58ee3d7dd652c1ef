//! `csi sanity` as its user sees it: against the NFS driver, embedded and as a process, and against drivers that misbehave.
//! Whether it finds defects is shown by `sanity_defects`.

mod away;
mod cut_short;
mod own_driver;
mod questions;
mod shown;
mod unusual;
mod verdicts;

use crate::support::PATIENCE;
use crate::support::driver::mounts_below;
use crate::support::process::Process;
use crate::support::program::{Csi, Output};
use crate::support::reference::ReferenceDriver;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_mock::{Defect, Options};
use csi_proto::SPEC_VERSION;
use csi_proto::tables::METHODS;
use csi_proto::v1::controller_service_capability::rpc::Type;
use serde_json::json;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use tonic::Code;

/// What names of runs begin with.
const PREFIX: &str = "csi-sanity-";

/// The folders that runs have left in a folder.
fn left_in(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let is_run = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with(PREFIX)
    };
    paths.filter(is_run).collect()
}

/// Nothing of any run is left in the folder.
fn is_clean(csi: &Csi) {
    assert_eq!(left_in(csi.home()), [] as [PathBuf; 0]);
}

/// The arguments of `csi sanity` with its paths in the home folder.
fn arguments(csi: &Csi, more: &str) -> String {
    format!("sanity --mount-parent {} {more}", csi.home().display())
}

fn sanity(csi: &Csi, more: &str) -> Output {
    csi.run(&arguments(csi, more))
}

/// A whole run, which takes longer than anything else here; its output. It must succeed.
fn whole(csi: &Csi, line: &str) -> String {
    let ended = csi.spawn(line).wait(6 * PATIENCE).unwrap();
    let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
    let stderr = String::from_utf8_lossy(&ended.stderr).into_owned();
    let passed =
        |line: &&str| line.starts_with("ok ") || line.contains(" skipped: not advertised: ");
    let rest: Vec<_> = stdout.lines().filter(|line| !passed(line)).collect();
    assert_eq!(ended.code(), 0, "{}\n{stderr}", rest.join("\n"));
    is_clean(csi);
    stdout
}

#[test]
fn the_embedded_driver_passes() {
    let csi = Csi::new();
    let folder = csi.home().join("embedded");
    let arguments = arguments(&csi, "--mutable-params mountPermissions=0700 --strict");
    let stdout = whole(
        &csi,
        &format!("-e embedded:{} {arguments}", folder.display()),
    );
    assert!(stdout.contains(" 0 failed, "), "{stdout}");
    let left: Vec<_> = fs::read_dir(folder.join("share"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(left, [".csi-nfs"]);
}

/// A shell that starts the driver again whenever it ends.
fn supervised(csi: &Csi) -> Process {
    let home = csi.home();
    fs::create_dir(home.join("share")).unwrap();
    // Whoever sees it answer can kill it: its number is there before it serves.
    let script = format!(
        "while :; do sh -c 'echo $$ >pid; exec {} --endpoint unix://{home}/csi.sock --node-id node-1 --work-dir {home}/work \
         --local-share localhost:/share={home}/share'; done",
        crate::support::driver::binary().display(),
        home = home.display(),
    );
    let mut command = Command::new("sh");
    command.args(["-c", &script]).current_dir(home);
    Process::start(&mut command)
}

#[test]
fn the_driver_as_a_process_passes_though_it_is_killed_between_any_two_steps() {
    let csi = Csi::new();
    let _driver = supervised(&csi);
    let home = csi.home().display();
    let kill = format!("'kill -9 $(cat {home}/pid)'");
    let more = format!(
        "--wait 20s --params server=localhost,share=/share --mutable-params mountPermissions=0700 --restart-command {kill}"
    );
    let filter = match may_mount() {
        true => "",
        // A process of its own does not fall back to links.
        false => "--filter !node/ --filter !lifecycle --filter !data-of --filter !written",
    };
    let stdout = whole(
        &csi,
        &format!(
            "-e unix://{home}/csi.sock {} {filter}",
            arguments(&csi, &more)
        ),
    );
    if may_mount() {
        assert!(
            stdout.contains("\nok lifecycle/restart-between-any-two-steps"),
            "{stdout}"
        );
    }
    let filter = match may_mount() {
        true => "--filter lifecycle/ --filter controller/create-snapshot",
        false => "--filter controller/create-snapshot",
    };
    let stdout = whole(
        &csi,
        &format!(
            "-e unix://{home}/csi.sock {} {filter} --restart-between-steps",
            arguments(&csi, &more)
        ),
    );
    assert!(stdout.contains(" cases, 1 at a time, "), "{stdout}");
    assert_eq!(mounts_below(csi.home()), [] as [PathBuf; 0]);
}

/// Whether this process may mount, as the driver must.
pub fn may_mount() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let capabilities = u64::from_str_radix(line.unwrap().trim(), 16).unwrap();
    capabilities >> 21 & 1 == 1
}

#[test]
fn one_case_in_every_output() {
    let driver = ReferenceDriver::start(Options::default().with(Defect::CreateVolumeWithoutName));
    let csi = Csi::at(&driver.endpoint());
    let (failing, passing) = (
        "controller/create-volume/without-name",
        "identity/probe/answers-ready",
    );
    let filter = format!("--filter {failing} --filter {passing} --jobs 1 --seed 7");

    let text = sanity(&csi, &filter).exits(3);
    for part in [
        "mock.csi.internal 1.0.0 at unix://",
        "seed 7\n",
        "\nok identity/probe/answers-ready ",
        "\n!! controller/create-volume/without-name ",
        &format!(
            "   CreateVolume without a name answers INVALID_ARGUMENT.\n   CSI {SPEC_VERSION}, section \"CreateVolume\"\n"
        ),
        "expected: CreateVolume answers INVALID_ARGUMENT\n",
        "but: it answered OK\n",
        "\nfailed: controller/create-volume/without-name\n",
        "\n1 passed (0 with warnings), 1 failed, 0 skipped in ",
    ] {
        assert!(text.stdout.contains(part), "{part}\n{text}");
    }
    assert!(!text.stdout.contains("--request"), "{text}");
    text.says(
        "note: csi sanity explain CASE: the commands that show it again; the last 10 runs are in ",
    );
    // The command that is explained does the same again, in a shell.
    let explained = csi.run(&format!("sanity explain {failing}")).succeeds();
    let mut lines = explained.stdout.lines();
    let command = lines.find(|line| line.contains("create-volume --request"));
    let command = command.unwrap().trim().split_once("=$(").unwrap().1;
    let command = command
        .rsplit_once(')')
        .unwrap()
        .0
        .strip_prefix("csi ")
        .unwrap();
    let words = shlex::split(command).unwrap();
    let again = csi.run_args(words).succeeds();
    csi.run_args(["controller", "delete-volume", again.value()])
        .succeeds();
    assert_eq!(driver.left_behind(), [""; 0]);

    let junit = csi.home().join("junit.xml");
    let json = sanity(
        &csi,
        &format!("-o json --junit {} {filter}", junit.display()),
    )
    .exits(3)
    .json();
    assert_eq!(json["summary"]["failed"], 1);
    assert_eq!(json["seed"], "7");
    let results = json["results"].as_array().unwrap();
    let failed = results
        .iter()
        .find(|result| result["name"] == failing)
        .unwrap();
    assert_eq!(failed["failure"]["actual"], "it answered OK");
    assert!(
        failed["commands"][0]
            .as_str()
            .unwrap()
            .contains("create-volume")
    );
    let junit = fs::read_to_string(junit).unwrap();
    assert!(
        junit.contains("tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\""),
        "{junit}"
    );
    assert!(
        junit.contains("classname=\"controller\" name=\"controller/create-volume/without-name\""),
        "{junit}"
    );

    let lines = sanity(&csi, &format!("-o jsonl {filter}")).exits(3);
    let lines: Vec<serde_json::Value> = lines
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["cases"], 2);
    assert_eq!(lines[3]["passed"], 1);
}

#[test]
fn the_list_names_every_case() {
    let csi = Csi::new();
    let all = csi.run("sanity --list").succeeds();
    assert!(
        all.stdout
            .contains("\ncontroller/create-volume/without-name "),
        "{all}"
    );
    let json = csi.run("sanity --list -o json").succeeds().json();
    let cases = json.as_array().unwrap();
    assert!(cases.len() > 250, "{}", cases.len());
    assert!(all.stdout.ends_with(&format!("\n{} cases\n", cases.len())));
    for case in cases {
        assert!(
            all.stdout.contains(case["sentence"].as_str().unwrap()),
            "{case}"
        );
    }
    let few = csi
        .run("sanity --list --filter node/*/is-idempotent --filter !stage")
        .succeeds();
    assert_eq!(few.stdout.lines().count(), 3, "{few}");

    let names = csi.run("sanity --list -o name").succeeds();
    let names: Vec<_> = names.stdout.lines().collect();
    let listed: Vec<_> = cases.iter().map(|case| &case["name"]).collect();
    assert_eq!(names, listed);
    let lines = csi
        .run("sanity --list -o jsonl --filter node/info")
        .succeeds();
    for line in lines.stdout.lines() {
        let case: serde_json::Value = serde_json::from_str(line).unwrap();
        assert!(cases.contains(&case), "{line}");
    }
}

#[test]
fn settings_come_from_a_file_and_flags_count_more() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::new();
    let config = csi.file(
        "sanity.toml",
        format!(
            "endpoint = '{}'\nfilter = ['identity/probe']\nmount-parent = '{}'\nseed = 5\n[params]\npool = 'a'\n",
            driver.endpoint(),
            csi.home().display()
        ),
    );
    let config = config.display();
    let run = csi.run(&format!("sanity --config {config}")).succeeds();
    assert!(
        run.stdout.contains(": 2 cases, 8 at a time, seed 5\n"),
        "{run}"
    );
    let run = csi
        .run(&format!(
            "sanity --config {config} --filter identity --seed 6 --jobs 2"
        ))
        .succeeds();
    assert!(run.stdout.contains(" 2 at a time, seed 6\n"), "{run}");
    let wrong = csi.file("wrong.toml", "param = 1\n");
    let wrong = csi
        .run(&format!("sanity --config {}", wrong.display()))
        .exits(2);
    wrong.says("wrong.toml:1: no such key `param`; the keys are `endpoint`, ");
}

#[test]
fn a_driver_in_production_is_only_asked() {
    let driver = ScriptedDriver::unix();
    let info = r#"{"name": "production.example.org", "vendorVersion": "1"}"#;
    let plugin = r#"{"capabilities": [{"service": {"type": "CONTROLLER_SERVICE"}}]}"#;
    let all: Vec<_> = (1..=15)
        .map(|number| json!({"rpc": {"type": number}}))
        .collect();
    assert_eq!(Type::GetSnapshot as i32, 15);
    driver.on("GetPluginInfo", info);
    driver.on("GetPluginCapabilities", plugin);
    driver.on("Probe", "{}");
    driver.on("ControllerGetCapabilities", json!({ "capabilities": all }));
    driver.on("NodeGetCapabilities", "{}");
    driver.on("NodeGetInfo", r#"{"nodeId": "n"}"#);
    let csi = Csi::at(driver.endpoint());
    let run = sanity(&csi, "--read-only");
    assert!(
        run.stdout.contains("\nok identity/probe/answers-ready"),
        "{run}"
    );
    assert!(run.stdout.contains("create-volume/is-idempotent"), "{run}");
    assert!(
        run.stdout
            .contains("skipped: it changes something: --read-only"),
        "{run}"
    );
    let words = [
        "Create",
        "Delete",
        "Publish",
        "Unpublish",
        "Stage",
        "Unstage",
        "Expand",
        "Modify",
    ];
    for call in driver.calls() {
        assert!(!words.iter().any(|word| call.contains(word)), "{call}");
    }
    assert!(driver.calls().len() > 100);
    is_clean(&csi);
}

#[test]
fn the_volume_to_ask_about_must_exist() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let made = csi.run("controller create-volume pvc-1 -o name").succeeds();
    let filter = "--filter controller/validate --filter with-a-large-context";
    let asked = |id: &str| sanity(&csi, &format!("--read-only --volume-id {id} {filter}"));
    asked(made.value()).succeeds();
    let run = asked("xyz").exits(3);
    let cases = [
        "controller/validate/with-a-large-context",
        "controller/validate/without-capabilities",
    ];
    let failed: Vec<_> = run
        .stdout
        .lines()
        .filter_map(|line| line.strip_prefix("failed: "))
        .collect();
    assert_eq!(failed, cases, "{run}");
    for part in [
        "expected: the driver has the volume \"xyz\", which --volume-id names\n",
        "but: ValidateVolumeCapabilities of it: it answered NOT_FOUND: ",
    ] {
        assert!(run.stdout.contains(part), "{part}\n{run}");
    }
}

#[test]
fn a_restart_command_that_fails_is_told_with_its_words() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    for (command, told) in [
        (
            "false",
            "the restart command failed: false exited with code 1, without a word\n",
        ),
        (
            "'echo no such unit >&2; exit 5'",
            "exit 5 exited with code 5: no such unit\n",
        ),
    ] {
        let more = format!("--filter restart-in-mid-call --restart-command {command}");
        // The driver is not to blame for that.
        let run = sanity(&csi, &more).exits(4);
        assert!(run.stdout.contains(told), "{run}");
    }
    // What it leaves running holds its stderr, and is not waited for.
    let more = "--filter restart-in-mid-call --restart-command 'sleep 100 & echo $! >pid'";
    sanity(&csi, more).succeeds();
    is_clean(&csi);
}

#[test]
fn a_driver_that_is_not_there_or_silent_is_an_error_and_no_result() {
    let csi = Csi::new();
    let nobody = csi.home().join("no.sock").display().to_string();
    let run = csi
        .run(&format!("-e {nobody} {}", arguments(&csi, "")))
        .exits(64 + 14);
    run.says("does not exist")
        .says("hint: is the driver running");
    let silent = ScriptedDriver::silent();
    let run = csi.run(&format!(
        "-e {} -t 300ms {}",
        silent.endpoint(),
        arguments(&csi, "")
    ));
    run.exits(64 + 4)
        .says("asking GetPluginInfo what the driver can do: DEADLINE_EXCEEDED");
    csi.run("sanity").exits(2).says("no driver named");
    for line in [
        "-e /x sanity --filter nothing-like-it --filter '!probe'",
        "sanity --list -o name --filter nothing-like-it --filter '!probe'",
    ] {
        let run = csi.run(line).exits(2);
        let run = run.says("--filter: no case matches nothing-like-it '!probe'");
        assert_eq!(run.stdout, "");
    }
    csi.run("-e /x sanity --cap 1,mount --cap 5,mount")
        .exits(2)
        .says("given twice with the access type mount");
    csi.run("-e /x sanity --case-limit 0")
        .exits(2)
        .says("--case-limit must be longer than 0");
    csi.run("-e /x sanity --staging-parent /nowhere/x")
        .exits(2)
        .says("/nowhere/x is no folder to make staging paths in");
    csi.run("-e /x sanity --restart-between-steps")
        .exits(2)
        .says("needs --restart-command or -- COMMAND to restart the driver");
    csi.run("-e /x sanity --restart-between-steps --restart-command r --read-only")
        .exits(2)
        .says("hint: give one of them");
    csi.run("-e /x sanity --restart-between-steps=2 --restart-command r --jobs 2")
        .exits(2)
        .says("cannot be used with '--jobs <N>'");
    let table = csi.run("-e /x sanity --columns NAME").exits(2);
    table.says("--columns has no meaning here");
    is_clean(&csi);
}

#[test]
fn a_run_that_cannot_make_its_folders_does_not_pass() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    // Nobody can make a folder there.
    let run = sanity(&csi, "--staging-parent /proc --filter node/stage/is").exits(3);
    let told = "expected: the folder /proc/csi-sanity-";
    assert!(run.stdout.contains(told), "{run}");
    assert_eq!(driver.left_behind(), [""; 0]);
    is_clean(&csi);
}

#[test]
fn the_shell_has_it_too() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let line = arguments(&csi, "--filter identity/probe");
    let run = csi
        .run_args([
            "shell",
            "-c",
            &format!("{line}\nexpect FAILED {line} --node-id x --filter has-an-id"),
        ])
        .succeeds();
    assert!(
        run.stdout.contains("\nok identity/probe/answers-ready "),
        "{run}"
    );
    assert!(run.stdout.contains("\n!! node/info/has-an-id "), "{run}");
    is_clean(&csi);
}

#[test]
fn a_driver_that_answers_garbage_fails_and_does_no_harm() {
    let driver = ScriptedDriver::unix();
    for (index, method) in METHODS.iter().enumerate() {
        let reply = match index % 3 {
            0 => Reply::bytes(&b"\xff\xff\x1b[31m garbage"[..]),
            1 => Reply::error(Code::Internal, "\x1b[31m<&\"'>\0 on\nfire"),
            _ => Reply::http(503, "<html>"),
        };
        driver.on(method.name, reply);
    }
    let csi = Csi::at(driver.endpoint());
    let junit = csi.home().join("junit.xml");
    let run = sanity(&csi, &format!("-t 5s --junit {}", junit.display())).exits(3);
    assert!(
        !run.stdout.contains('\x1b') && !run.stderr.contains('\x1b'),
        "{run}"
    );
    let junit = fs::read_to_string(junit).unwrap();
    assert!(!junit.contains('\x1b') && junit.ends_with("</testsuites>\n"));
    is_clean(&csi);
}

#[test]
fn fail_fast_ends_after_the_first_failure_and_shuffle_is_told_by_the_seed() {
    let driver = ReferenceDriver::start(Options::default().with(Defect::ProbeFails));
    let csi = Csi::at(&driver.endpoint());
    let run = sanity(&csi, "--filter identity --fail-fast --jobs 1").exits(3);
    assert!(
        run.stdout
            .contains("ended early: --fail-fast: a case failed\n"),
        "{run}"
    );
    assert!(run.stdout.contains(", 1 failed, "), "{run}");
    let order = |seed: &str| -> Vec<String> {
        let more = format!("--filter identity --shuffle --jobs 1 --seed {seed} -o jsonl");
        let run = sanity(&csi, &more).exits(3);
        let names = run.stdout.lines().filter_map(|line| {
            let line: serde_json::Value = serde_json::from_str(line).unwrap();
            line["name"].as_str().map(str::to_owned)
        });
        names.collect()
    };
    assert_eq!(order("1"), order("1"));
    assert_ne!(order("1"), order("2"));
}

#[test]
fn a_journal_that_cannot_be_written_any_more_is_not_the_driver_s_mistake() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let mut command = Command::new("sh");
    // Files of at most a kibibyte, as on a disk that is full then.
    let limited = "trap '' XFSZ; ulimit -f 2; exec \"$0\" \"$@\"";
    let own = csi.command();
    command.args(["-c", limited]).arg(own.get_program());
    let set = own.get_envs();
    command.envs(set.filter_map(|(name, value)| Some((name, value?))));
    command.args(arguments(&csi, "--filter create-volume --filter node/publish").split(' '));
    let run = command.output().unwrap();
    let stdout = String::from_utf8_lossy(&run.stdout);
    assert_eq!(run.status.code(), Some(4), "{stdout}");
    let told = "the journal of what is made cannot be written: File too large";
    assert!(stdout.contains(told), "{stdout}");
}
