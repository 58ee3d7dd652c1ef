//! What the chart's alerts and its dashboard ask Prometheus for is what a driver that runs tells.

use super::{chart, templates};
use crate::support::driver::{self, Driver};
use crate::support::program::Csi;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::Command;

/// Labels that Prometheus gives to whatever it finds in a pod.
const OF_A_TARGET: [&str; 2] = ["namespace", "pod"];

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_')
        .filter(|word| !word.is_empty())
}

/// A text without what stands in it between quotes.
fn unquoted(text: &str) -> String {
    text.split('"').step_by(2).collect()
}

/// The parts of a text from each `open` to the next `close`.
fn between<'a>(text: &'a str, open: &'a str, close: &'a str) -> impl Iterator<Item = &'a str> {
    let parts = text.split(open).skip(1);
    parts.map(move |part| part.split(close).next().unwrap())
}

/// The series that a driver tells, each with the names of its labels.
fn told() -> BTreeMap<String, BTreeSet<String>> {
    let folder = tempfile::tempdir().unwrap();
    let share = format!("localhost:/share={}", folder.path().display());
    let http = format!("unix://{}", folder.path().join("http.sock").display());
    let kubelet = folder.path().display().to_string();
    let args = ["--local-share", &share, "--http", &http];
    let driver = Driver::with_args(&[&args[..], &["--kubelet-registration", &kubelet]].concat());
    // Series of calls begin with a call.
    Csi::at(&driver.endpoint()).run("identity probe").succeeds();
    let asked = Command::new(driver::binary())
        .args(["get", &http, "/metrics"])
        .output()
        .unwrap();
    let text = String::from_utf8(asked.stdout).unwrap();
    let mut series: BTreeMap<_, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, labels) = line.split_once(['{', ' ']).unwrap();
        let labels = labels.rsplit_once('}').map_or("", |(labels, _)| labels);
        let known = series.entry(name.to_owned()).or_default();
        known.extend(words(&unquoted(labels)).map(str::to_owned));
    }
    series
}

/// The queries of the alerts and of the dashboard, each with the labels that it is shown by.
fn queries() -> Vec<(String, BTreeSet<String>)> {
    let templates = templates();
    let alerts = templates
        .lines()
        .filter_map(|line| line.trim().strip_prefix("expr: "))
        .map(|query| (query.to_owned(), BTreeSet::new()));
    let dashboard = fs::read_to_string(chart().join("dashboard.json")).unwrap();
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|panel| panel["targets"].as_array().unwrap());
    let shown = targets.map(|target| {
        let legend = target["legendFormat"].as_str().unwrap();
        let labels = between(legend, "{{", "}}").map(str::to_owned).collect();
        (target["expr"].as_str().unwrap().to_owned(), labels)
    });
    let variables = dashboard["templating"]["list"].as_array().unwrap().iter();
    let variables = variables
        .filter(|variable| variable["type"] == "query")
        .map(|variable| {
            (
                variable["query"].as_str().unwrap().to_owned(),
                BTreeSet::new(),
            )
        });
    alerts.chain(shown).chain(variables).collect()
}

#[test]
fn alerts_and_dashboard_ask_for_what_a_driver_tells() {
    let told = told();
    let mut asked = 0;
    for (query, shown) in queries() {
        let bare = unquoted(&query);
        let mut labels = shown;
        for (open, close) in [("{", "}"), ("by (", ")")] {
            let inside = between(&bare, open, close).flat_map(words);
            labels.extend(inside.map(str::to_owned));
        }
        let mut known: BTreeSet<String> = OF_A_TARGET.map(str::to_owned).into();
        for metric in words(&bare).filter(|word| word.starts_with("csi_")) {
            let series = told.get(metric);
            known.extend(
                series
                    .unwrap_or_else(|| panic!("no {metric}: {query}"))
                    .clone(),
            );
            asked += 1;
        }
        assert!(labels.is_subset(&known), "{labels:?} of {query}");
    }
    assert!(asked > 20, "{asked}");
}

/// A metric that nobody looks at is not worth its place.
#[test]
fn the_dashboard_shows_every_metric() {
    let queries: String = queries()
        .into_iter()
        .map(|(query, _)| query + " ")
        .collect();
    let looked_at: BTreeSet<&str> = words(&queries).collect();
    let told = told();
    let unseen = told.keys().filter(|name| !name.ends_with("_sum"));
    let unseen: Vec<_> = unseen
        .filter(|name| !looked_at.contains(name.as_str()))
        .collect();
    assert!(unseen.is_empty(), "{unseen:?}");
}
