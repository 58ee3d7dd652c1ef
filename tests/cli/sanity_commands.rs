//! The command lines that `csi sanity` prints for a failure: they show it again, against the same driver, and a right
//! answer against a right one.

mod every_failure;

use crate::lifecycle::thorough_driver;
use crate::support::program::{BINARY, Csi};
use crate::support::reference::ReferenceDriver;
use crate::support::scripted::Reply;
use csi_mock::{Defect, Options};
use csi_proto::v1;
use serde_json::Value as Json;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;
use tonic::Code;

/// The exit code of a run in which cases failed.
const CASES_FAILED: i32 = 3;

/// The lines of a case, as `explain` shows those of the last run.
pub fn shown_commands(csi: &Csi, case: &str) -> Vec<String> {
    let shown = csi.run(&format!("sanity explain {case}")).succeeds().stdout;
    let mut lines = shown.lines();
    lines
        .by_ref()
        .find(|line| *line == "   to see it again:")
        .unwrap_or_else(|| panic!("no command lines:\n{shown}"));
    let lines = lines.take_while(|line| line.starts_with("     "));
    let commands: Vec<_> = lines.map(|line| line.trim().to_owned()).collect();
    assert!(!commands.is_empty(), "no command lines:\n{shown}");
    commands
}

/// The lines up to the call that shows the failure.
fn until_failure(commands: &[String]) -> Vec<String> {
    let lines = commands.iter();
    let lines = lines.take_while(|line| !line.starts_with("# expected "));
    lines.cloned().collect()
}

/// Runs the lines up to the failure in one shell, as somebody who pastes them; the last one decides how it ends.
fn paste(commands: &[String], csi: &Csi) -> Output {
    paste_all(&until_failure(commands), csi)
}

fn paste_all(commands: &[String], csi: &Csi) -> Output {
    shell(&(commands.join("\n") + "\n"), csi)
}

/// Runs a script with the client in its PATH.
pub fn shell(lines: &str, csi: &Csi) -> Output {
    let bin = Path::new(BINARY).parent().unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    let mut shell = Command::new("sh");
    shell.arg("-c").arg(lines).env_clear().env("PATH", path);
    shell.env("HOME", csi.home()).env("LANG", "C.UTF-8");
    shell.output().unwrap()
}

/// The last of the lines was a call that ended with this code.
fn ended_with(output: &Output, code: tonic::Code) {
    let exit = 64 + code as i32;
    assert_eq!(output.status.code(), Some(exit), "{}", stderr(output));
}

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs one case against a driver with a defect; the driver, the client and the lines that it prints.
fn failing(defect: Defect, case: &str) -> (ReferenceDriver, Csi, Vec<String>) {
    failing_with(Options::default().with(defect), case, "")
}

fn failing_with(options: Options, case: &str, more: &str) -> (ReferenceDriver, Csi, Vec<String>) {
    let driver = ReferenceDriver::start(options);
    let csi = Csi::at(&driver.endpoint());
    let parent = driver.workplace();
    let line = format!(
        "sanity --filter {case} --mount-parent {} {more}",
        parent.display()
    );
    let report = csi.run(&line).exits(CASES_FAILED);
    let commands = shown_commands(&csi, case);
    assert_eq!(driver.left_behind(), [""; 0], "{report}");
    (driver, csi, commands)
}

/// The same lines for the driver at another endpoint.
fn moved(commands: &[String], from: &ReferenceDriver, to: &str) -> Vec<String> {
    let lines = commands.iter();
    lines
        .map(|line| line.replace(&from.endpoint(), to))
        .collect()
}

#[test]
fn an_answer_that_should_be_a_refusal_is_seen_again() {
    let case = "controller/create-volume/with-another-size";
    let (driver, csi, commands) = failing(Defect::CreateVolumeIgnoresSizeOnRepeat, case);
    let again = paste(&commands, &csi);
    assert!(again.status.success(), "{commands:#?}\n{}", stderr(&again));
    assert_eq!(driver.left_behind().len(), 1, "the lines made one volume");
    let whole = paste_all(&commands, &csi);
    assert!(whole.status.success(), "{commands:#?}\n{}", stderr(&whole));
    assert_eq!(driver.left_behind(), [""; 0], "{commands:#?}");

    let right = ReferenceDriver::start(Options::default());
    let other = paste(&moved(&commands, &driver, &right.endpoint()), &csi);
    ended_with(&other, tonic::Code::AlreadyExists);
}

#[test]
fn a_refusal_is_seen_again_and_ids_are_taken_over() {
    let case = "controller/delete-snapshot/is-idempotent";
    let (driver, csi, commands) = failing(Defect::DeleteSnapshotUnknownIsNotFound, case);
    assert!(
        commands.iter().any(|line| line.starts_with("id1=$(")),
        "{commands:#?}"
    );
    let last = until_failure(&commands).pop().unwrap();
    assert!(last.ends_with("# NOT_FOUND"), "{last}");
    let again = paste(&commands, &csi);
    ended_with(&again, tonic::Code::NotFound);
    assert!(
        stderr(&again).contains("there is no such snapshot"),
        "{}",
        stderr(&again)
    );

    // It has no volumes yet, so its ids are others.
    let right = ReferenceDriver::start(Options::default());
    csi.run(&format!(
        "-e {} controller create-volume other",
        right.endpoint()
    ))
    .succeeds();
    let other = paste(&moved(&commands, &driver, &right.endpoint()), &csi);
    assert!(other.status.success(), "{}", stderr(&other));
}

#[test]
fn whatever_calls_at_the_same_time_make_is_taken_back() {
    // One driver has at most two ids for them, the other one as many as there are calls.
    let case = "controller/create-volume/at-the-same-time";
    let options = Options {
        pace: Duration::from_millis(50),
        ..Options::default().with(Defect::ParallelCreateVolumeMakesTwo)
    };
    let (driver, csi, commands) = failing_with(options, case, "--cap 1,mount");
    let other = thorough_driver();
    let mut made = 0;
    other.answer("CreateVolume", move |_| {
        made += 1;
        json!({"volume": {"volumeId": format!("volume-{made}")}})
    });
    let whole = paste_all(&moved(&commands, &driver, other.endpoint()), &csi);
    let calls = other.requests().into_iter();
    let calls: Vec<_> = calls
        .filter(|call| call.path.ends_with("/DeleteVolume"))
        .collect();
    let deleted = calls
        .iter()
        .map(|call| call.decode::<v1::DeleteVolumeRequest>().volume_id);
    let deleted: BTreeSet<_> = deleted.collect();
    let made = other
        .calls()
        .iter()
        .filter(|name| *name == "CreateVolume")
        .count();
    assert!(made > 8, "{made}");
    let all = (1..=made)
        .map(|number| format!("volume-{number}"))
        .collect();
    assert_eq!(deleted, all, "{commands:#?}\n{}", stderr(&whole));
}

#[test]
fn ids_of_any_letters_are_in_variables_or_are_told() {
    let case = "controller/delete-volume/is-idempotent";
    let more = "--cap SINGLE_NODE_WRITER,mount --volume-size 1Mi";
    for (id, line) in [
        ("vol 4 é", "id1=$("),
        (
            "{\"v\":4}",
            "# in the place of {\\\"v\\\":4}, which the driver chose, put in what it answers now",
        ),
    ] {
        let driver = thorough_driver();
        let made = json!({"volume": {"volumeId": id, "capacityBytes": "1048576"}});
        driver.on("CreateVolume", made);
        let gone = Reply::error(Code::NotFound, "no such volume");
        driver.on_each("DeleteVolume", [Reply::json("{}"), gone]);
        let csi = Csi::at(driver.endpoint());
        let home = csi.home().display().to_string();
        csi.run(&format!(
            "sanity --mount-parent {home} {more} --filter {case}"
        ))
        .exits(CASES_FAILED);
        let commands = shown_commands(&csi, case);
        let found = commands.iter().any(|one| one.starts_with(line));
        assert!(found, "{id}: {commands:#?}");
    }
}

#[test]
fn what_is_refused_for_want_of_room_is_taken_back_where_there_is_room() {
    let case = "lifecycle/gives-room-back";
    let options = Options {
        max_volumes: 6,
        ..Options::default().with(Defect::RoomNeverGivenBack)
    };
    let more = "--cap 1,mount --volume-size 1Mi --strict";
    let (driver, csi, commands) = failing_with(options, case, more);
    assert!(
        commands
            .iter()
            .any(|line| line.ends_with("  # RESOURCE_EXHAUSTED")),
        "{commands:#?}"
    );
    let right = ReferenceDriver::start(Options::default());
    let whole = paste_all(&moved(&commands, &driver, &right.endpoint()), &csi);
    assert_eq!(
        right.left_behind(),
        [""; 0],
        "{commands:#?}\n{}",
        stderr(&whole)
    );
}

#[test]
fn a_failure_on_the_node_is_seen_again_with_its_folders() {
    let case = "node/publish/with-another-readonly";
    let (driver, csi, commands) = failing(Defect::PublishIgnoresReadonly, case);
    assert!(
        commands.iter().any(|line| line.starts_with("mkdir ")),
        "{commands:#?}"
    );
    let again = paste(&commands, &csi);
    assert!(again.status.success(), "{commands:#?}\n{}", stderr(&again));
    let left = driver.left_behind().join("\n");
    assert!(left.contains("published at"), "{left}");
    let whole = paste_all(&commands, &csi);
    assert!(whole.status.success(), "{commands:#?}\n{}", stderr(&whole));
    assert_eq!(driver.left_behind(), [""; 0], "{commands:#?}");
    let folders = std::fs::read_dir(driver.workplace()).unwrap();
    assert_eq!(folders.count(), 0, "{commands:#?}");

    // The lines name the folders of the first run: as the first driver left them they are of no use to another one.
    std::fs::remove_dir_all(driver.workplace()).unwrap();
    let right = ReferenceDriver::start(Options::default());
    let other = paste(&moved(&commands, &driver, &right.endpoint()), &csi);
    ended_with(&other, tonic::Code::AlreadyExists);
}

#[test]
fn what_a_restart_between_two_steps_shows_is_seen_again() {
    let case = "controller/expand/expands";
    let options = Options::default().with(Defect::ExpansionsLostOnRestart);
    let mut driver = ReferenceDriver::start(options);
    let csi = Csi::at(&driver.endpoint());
    let restart = driver.restart_command();
    let line = [
        "sanity",
        "--filter",
        case,
        "--filter",
        "!@block",
        "--restart-between-steps",
        "--volume-size=1Gi",
        "--restart-command",
        &restart,
    ];
    csi.run_args(line).exits(CASES_FAILED);
    let commands = shown_commands(&csi, case);
    assert!(commands.contains(&restart), "{commands:#?}");
    // The last line asks for the size that the restart before it has undone.
    let size = |output: &Output| {
        let shown = String::from_utf8_lossy(&output.stdout).into_owned();
        let last = shown.lines().last().unwrap().to_owned();
        last.split_whitespace().nth(1).unwrap().to_owned()
    };
    let again = paste(&commands, &csi);
    assert!(again.status.success(), "{commands:#?}\n{}", stderr(&again));
    assert_eq!(size(&again), "1Gi");
    let without = commands.iter().filter(|line| **line != restart);
    let without: Vec<_> = without.cloned().collect();
    let without = paste(&without, &csi);
    assert_eq!(size(&without), "2Gi");
}

#[test]
fn secrets_come_from_their_file_again_and_are_in_no_report() {
    let secrets = [("token".to_owned(), "not-for-logs".to_owned())].into();
    let driver = ReferenceDriver::start(Options {
        secrets,
        ..Options::default().with(Defect::CreateSnapshotRepeatFails)
    });
    let csi = Csi::at(&driver.endpoint());
    let file = csi.file("secrets.json", r#"{"token":"not-for-logs"}"#);
    let line = format!(
        "sanity --filter controller/create-snapshot/is-idempotent --secrets-file {} --junit report.xml",
        file.display()
    );
    let report = csi.run(&line).exits(CASES_FAILED);
    let junit = std::fs::read_to_string(csi.home().join("report.xml")).unwrap();
    let shown = format!("{}{}{junit}", report.stdout, report.stderr);
    assert!(!shown.contains("not-for-logs"), "{shown}");
    let commands = shown_commands(&csi, "controller/create-snapshot/is-idempotent");
    let again = paste(&commands, &csi);
    ended_with(&again, tonic::Code::AlreadyExists);
}

#[test]
fn json_and_github_have_the_same_lines_as_what_is_explained() {
    let driver = ReferenceDriver::start(Options::default().with(Defect::ProbeFails));
    let csi = Csi::at(&driver.endpoint());
    let line = "sanity --filter identity/probe/answers-ready --seed 7";
    let github = csi.run(&format!("{line} -o github")).exits(CASES_FAILED);
    let explained = shown_commands(&csi, "identity/probe/answers-ready");
    for command in &explained {
        assert!(
            github.stdout.contains(&format!("     {command}\n")),
            "{github}"
        );
    }
    let json = csi
        .run(&format!("{line} -o json"))
        .exits(CASES_FAILED)
        .json();
    let results = json["results"].as_array().unwrap();
    let failed = results
        .iter()
        .find(|result| result["outcome"] == "failed")
        .unwrap();
    let listed = failed["commands"].as_array().unwrap().iter();
    let listed: Vec<_> = listed.map(|line| line.as_str().unwrap()).collect();
    assert_eq!(listed, explained);
    let commands: Vec<_> = listed.into_iter().map(str::to_owned).collect();
    let again = paste(&commands, &csi);
    ended_with(&again, tonic::Code::Internal);
    assert_eq!(json["summary"]["failed"], Json::from(1));
}
