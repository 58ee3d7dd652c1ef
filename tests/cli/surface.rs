//! The members of JSON that tools and errors print, which [Stability](../../docs/stability.md) promises. Other names are in
//! `src/cli/surface.rs`.

use crate::support::corpus;
use crate::support::program::{BINARY, Csi};
use serde_json::{Deserializer, Value};
use std::collections::BTreeSet;
use std::path::Path;

fn members(value: &Value, path: &str, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(object) => {
            for (name, inner) in object {
                let path = format!("{path}.{name}");
                members(inner, &path, found);
                found.insert(path);
            }
        }
        Value::Array(entries) => {
            for inner in entries {
                members(inner, &format!("{path}[]"), found);
            }
        }
        _ => {}
    }
}

#[test]
fn every_member_of_json_that_a_release_has_promised_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let recording = root.join("tests/formats/1.0.0/recording/calls.jsonl");
    let recording = recording.display();
    let sanity = |cases: &str, driver: &str| {
        format!("sanity --filter {cases} -- {BINARY} mock --endpoint {{}} --defect {driver}")
    };
    let csi = Csi::at("mock:").env("X_CSI_SECRETS", "password=any");
    let mut found = BTreeSet::new();
    for line in [
        "sanity --list",
        // A case that warns; then one that fails, one that rests on it, and a slow step.
        &sanity("probe/answers", "ProbeNeverReady"),
        &sanity(
            "volume/is-idempotent --filter create-volume/context --cap RWO,mount",
            "CreateVolumeRepeatFails --delay create-volume=600ms",
        ),
        "bench create-delete --count 2",
        "bench get-volume absent --count 2",
        "doctor",
        "doctor -e unix:///absent",
        "lifecycle",
        &format!("replay {recording}"),
        "get-volume absent",
        "get-volume absent -e unix:///absent",
    ] {
        let (tool, more) = line.split_once(' ').unwrap_or((line, ""));
        let run = csi.run(&format!("{tool} -o json {more}"));
        assert!(!run.stdout.is_empty() || tool == "get-volume", "{run}");
        for (of, text) in [(tool, &run.stdout), ("error", &run.stderr)] {
            // Notes for people are no JSON.
            let begin = text.find(['{', '[']).unwrap_or(text.len());
            for value in Deserializer::from_str(&text[begin..]).into_iter::<Value>() {
                members(
                    &value.unwrap_or_else(|error| panic!("{error}: {run}")),
                    of,
                    &mut found,
                );
            }
        }
    }
    corpus::keeps("members", &found);
}
