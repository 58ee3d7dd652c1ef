//! Each seeded defect is found by the case that is about it. The command lines of that failure, run in a shell, answer as each
//! line says, and nothing is left, neither by the run nor by the lines.

use super::{moved, shell};
use crate::sanity_defects::found_by::found_by;
use crate::sanity_defects::{driver_with, each, is_between_steps, is_waited_for, restarts, seen};
use crate::support::program::Csi;
use crate::support::reference::ReferenceDriver;
use csi_cli::sanity::CaseResult;
use csi_mock::Defect;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Mutex;

/// Defects with which a driver keeps what is to be taken down.
const KEEPS: [Defect; 7] = [
    Defect::VolumeIdMissing,
    Defect::DeleteVolumeKeepsVolume,
    Defect::ControllerUnpublishKeepsAttachment,
    Defect::DeleteSnapshotKeepsSnapshot,
    Defect::DeleteGroupKeepsSnapshots,
    Defect::DeleteGroupKeepsAllButOne,
    Defect::StageWithoutPath,
];

/// Defects whose evidence differs from call to call, by their nature: what a line says of its answer need not come again.
fn is_by_chance(defect: Defect) -> bool {
    let name = format!("{defect:?}");
    // What is lacking in the end was there before.
    name.starts_with("Parallel")
        || name.starts_with("Cancelled")
        || name.ends_with("NeverGivenBack")
}

/// The exit code that a line tells by its comment; `None` where it tells none.
fn told(line: &str) -> Option<i32> {
    let is_call = line.contains(" --request ");
    let (_, outcome) = line.rsplit_once("  # ").unwrap_or_default();
    match outcome {
        _ if !is_call || line.contains(" &") || outcome == "given up" => None,
        "" => Some(0),
        name => {
            let codes = (0..17).map(tonic::Code::from);
            let code = codes
                .into_iter()
                .find(|code| csi_proto::codes::name((*code).into()) == name);
            Some(64 + code.unwrap_or_else(|| panic!("no code: {line}")) as i32)
        }
    }
}

/// The lines, each followed by one that complains when it does not end as it says.
fn watched(commands: &[String]) -> String {
    let mut script = String::new();
    for (number, line) in commands.iter().enumerate() {
        let _ = writeln!(script, "{line}");
        if let Some(code) = told(line) {
            let _ = writeln!(
                script,
                "ended=$?; [ $ended = {code} ] || echo 'line {number} ended with '$ended >&3"
            );
        }
    }
    script
}

/// What is wrong with the lines of a failure, run against another driver of the same kind.
fn complaints(result: &CaseResult, first: &mut ReferenceDriver, defect: Defect) -> String {
    let mut driver = ReferenceDriver::start(driver_with(defect));
    let restarts = [first.restart_command(), driver.restart_command()];
    let csi = &Csi::at(&driver.endpoint());
    let lines = moved(&result.commands, first, &driver.endpoint()).into_iter();
    let lines = lines.map(|line| line.replace(&restarts[0], &restarts[1]));
    let commands: Vec<_> = lines.collect();
    let mut wrong = String::new();
    let is_call =
        |line: &String| line.contains(" --request ") || line.contains(" sanity --filter ");
    if !commands.iter().any(is_call) {
        wrong.push_str("no call\n");
    }
    if commands.iter().any(|line| line.contains("left out")) {
        wrong.push_str("not all of it\n");
    }
    let output = shell(
        &format!("exec 3>&1 >/dev/null\n{}", watched(&commands)),
        csi,
    );
    let ended = String::from_utf8_lossy(&output.stdout).into_owned();
    if !is_by_chance(defect) {
        wrong.push_str(&ended);
    }
    if !KEEPS.contains(&defect) {
        for left in driver.left_behind() {
            let _ = writeln!(wrong, "left: {left}");
        }
        wrong.push_str(&left_in(&first.workplace()));
    }
    if !wrong.is_empty() {
        let _ = writeln!(wrong, "stderr: {}", String::from_utf8_lossy(&output.stderr));
    }
    wrong
}

fn left_in(folder: &Path) -> String {
    let entries = std::fs::read_dir(folder).unwrap();
    let left = entries.map(|entry| format!("left: {}\n", entry.unwrap().path().display()));
    left.collect()
}

#[test]
fn every_defect_is_found_by_its_case_and_seen_again_by_its_lines() {
    let wrong = Mutex::new(Vec::new());
    let failures = Mutex::new(0);
    each(Defect::ALL, |&defect| {
        let tell = |what: &str, text: String| {
            let told = format!("{defect}: {what}\n{text}");
            wrong.lock().unwrap().push(told);
        };
        let mut seen = seen(defect, driver_with(defect), restarts(defect));
        if !seen.is_found {
            return tell(found_by(defect), format!("not found\n{}", seen.report));
        }
        // Their calls wait for ever.
        if is_waited_for(defect) || is_between_steps(defect) {
            return;
        }
        let left = left_in(&seen.driver.workplace());
        if !left.is_empty() && !KEEPS.contains(&defect) {
            tell("the run", left);
        }
        let results = seen.report.results.iter();
        for result in results.filter(|one| one.is_failed()) {
            *failures.lock().unwrap() += 1;
            let complaints = complaints(result, &mut seen.driver, defect);
            if !complaints.is_empty() {
                let lines = result.commands.join("\n");
                return tell(&result.name, format!("{complaints}{lines}"));
            }
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n\n")
    );
    assert!(failures.into_inner().unwrap() > 200);
}
