//! What a run leaves for later ones is read in the formats of all versions: a list of known failures, the run that is kept, the
//! journal of one that was killed. Their files are in `tests/formats/`.

use super::corpus;
use super::journal::{Journal, PREFIX, left_below};
use super::report::{CaseResult, Report};
use super::verdict::{Failure, Stop};
use super::{cases, kept, known_failures};
use bytes::Bytes;
use csi_proto::{tables, v1};
use csi_undo::made::{Item, Made};
use prost::Message as _;
use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

const FAILED: &str = "node/info/is-constant";
const OF_BLOCK: &str = "lifecycle/up-and-down@block";
const SKIPPED: &str = "controller/create-volume/of-a-reversed-range";

fn report() -> Report {
    let failure = Failure {
        expected: "the same id".to_owned(),
        actual: "another \u{1b}one".to_owned(),
        stderr: vec!["panicked".to_owned()],
    };
    let result = |name: &str, end| CaseResult {
        took: Duration::from_millis(5),
        ..CaseResult::of(cases::named(name).expect(name), name.to_owned(), end)
    };
    Report {
        driver: "driver.example".to_owned(),
        version: "1.2".to_owned(),
        endpoint: "unix:///run/csi.sock".to_owned(),
        run: "csi-sanity-1-2".to_owned(),
        seed: 7,
        results: vec![
            CaseResult {
                commands: vec!["csi node get-info".to_owned()],
                ..result(FAILED, Err(Stop::Failed(failure.clone())))
            },
            CaseResult {
                warnings: vec![failure],
                ..result(OF_BLOCK, Ok(()))
            },
            CaseResult {
                rests_on: Some(FAILED.to_owned()),
                ..result(SKIPPED, Err(Stop::skipped("no room")))
            },
        ],
        known: BTreeSet::from([OF_BLOCK.to_owned()]),
        cut_short: Some("the driver is gone".to_owned()),
        incomplete: vec!["something is left".to_owned()],
        took: Duration::from_secs(2),
        ..Report::default()
    }
}

const RUN: &str = "csi-sanity-1-2";

fn endpoints() -> [String; 2] {
    ["unix:///c", "unix:///n"].map(str::to_owned)
}

/// Writes the journal of a run that has made something of each kind, and takes nothing down.
fn write_journal(parent: &Path) {
    let journal = Journal::open(parent, RUN.to_owned(), &endpoints()).expect("a journal");
    let mut made = Made::default();
    for name in ["v1", "v2", "v3"] {
        let request = v1::CreateVolumeRequest {
            name: name.into(),
            secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
            ..Default::default()
        };
        let request = Bytes::from(request.encode_to_vec());
        let asked = made.asked(&tables::CONTROLLER_CREATE_VOLUME, &request);
        let number = asked.expect("it makes something");
        journal.write(3, number, made.get(number)).expect("written");
        if name == "v1" {
            continue;
        }
        let volume = v1::Volume {
            volume_id: format!("id of {name}"),
            ..Default::default()
        };
        let reply = v1::CreateVolumeResponse {
            volume: Some(volume),
        };
        let changed = made.answered(
            number,
            &request,
            tonic::Code::Ok,
            &reply.encode_to_vec().into(),
        );
        for number in changed {
            journal.write(3, number, made.get(number)).expect("written");
        }
    }
    let folder = Item::Folder("/a folder".into());
    journal.write(4, 0, Some(&folder)).expect("written");
    journal.take_over(&folder).expect("written");
}

#[test]
fn what_runs_leave_is_written_as_in_the_newest_version() {
    let parent = tempfile::tempdir().expect("a folder");
    write_journal(parent.path());
    let mut files = corpus::read(parent.path());
    let mut run = report().json();
    run["specification"] = "1.0.0".into();
    // The words for a case may change.
    for result in run["results"].as_array_mut().expect("results") {
        result["sentence"] = "It keeps the rule".into();
    }
    files.insert("run.json".into(), run.to_string().into_bytes());
    let mut failed = report();
    failed.results.retain(|one| one.reason.is_none());
    files.insert(
        "known".into(),
        known_failures::written(&failed).into_bytes(),
    );
    corpus::holds("sanity", files);
}

#[test]
fn known_failures_of_all_versions_are_read() {
    for (version, folder) in corpus::versions("sanity") {
        let text = std::fs::read_to_string(folder.join("known")).expect(&version);
        let names = known_failures::parse(&text).expect(&version);
        assert_eq!(names.0, BTreeSet::from([FAILED.to_owned()]), "{version}");
    }
}

#[test]
fn kept_runs_of_all_versions_are_explained() {
    for (version, folder) in corpus::versions("sanity") {
        let file = folder.join("run.json");
        let told = |name: &str| {
            let case = cases::named(name).expect(name);
            kept::explained(case, name, Some(&file)).expect(&version)
        };
        for (name, parts) in [
            (
                FAILED,
                &[
                    "failed with driver.example 1.2",
                    "the same id",
                    "panicked",
                    "csi node get-info",
                ][..],
            ),
            (OF_BLOCK, &["passed with", "the same id"]),
            (SKIPPED, &["skipped with driver.example 1.2: no room"]),
        ] {
            let told = told(name);
            for part in parts {
                assert!(told.contains(part), "{version}: {part}: {told}");
            }
        }
    }
}

#[test]
fn journals_of_all_versions_are_taken_over() {
    for (version, folder) in corpus::versions("sanity") {
        let parent = tempfile::tempdir().expect("a folder");
        corpus::copy(&folder.join(RUN), &parent.path().join(RUN));
        let left = left_below(parent.path(), &endpoints());
        assert_eq!(left.len(), 1, "{version}");
        assert!(left[0].folder.ends_with(RUN) && RUN.starts_with(PREFIX));
        let mut words: Vec<String> = left[0].made.iter().map(ToString::to_string).collect();
        words.sort();
        let expected = [
            "perhaps a volume named v1",
            "the folder /a folder",
            "the folder /a folder",
            "the volume id of v2",
            "the volume id of v3",
        ];
        assert_eq!(words, expected, "{version}");
    }
}
