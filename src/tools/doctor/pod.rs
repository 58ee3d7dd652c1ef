//! A driver in a pod, as the API server knows it: its containers, its warnings, its registration, its log. All of it comes by kubectl.
//!
//! [`PodSeen`] looks, and never waits longer than its limit; what follows decides.

use super::finding::Finding;
use csi_call::endpoint::{EndpointError, Pod, kubectl};
use csi_call::{Endpoint, connection_error};
use csi_error::Error;
use csi_output::figure::counted;
use serde_json::Value as Json;
use std::time::Duration;
use tokio::time::timeout;

const CHECK: &str = "pod";

const REGISTRATION: &str = "registration";

/// How many lines of a log are taken.
const LINES: &str = "--tail=5000";

/// How long a log may take.
const LOG_LIMIT: Duration = Duration::from_secs(10);

/// What kubectl says of a pod.
pub struct PodSeen {
    pod: Pod,
    said: Result<Json, String>,
    warnings: Result<Json, String>,
}

/// What kubectl says of the driver's registration.
pub struct Registered {
    /// The names of the nodes whose kubelets know the driver, and how many nodes there are.
    nodes: Result<(Vec<String>, usize), String>,
    /// Whether there is a CSIDriver.
    has_object: Result<bool, String>,
}

/// A log, or why there is none; and further files, by their names.
pub type LogAndFiles = (Result<String, String>, Vec<(String, String)>);

impl PodSeen {
    /// Looks at the pod of an endpoint; `None` for an endpoint that is in none.
    ///
    /// # Errors
    /// That there is no such pod, as a finding.
    pub async fn look(endpoint: &Endpoint, limit: Duration) -> Option<Result<Self, Finding>> {
        let pod = match timeout(limit, endpoint.pod()).await {
            Ok(found) => found?,
            Err(_) => Err(EndpointError::TimedOut(endpoint.to_string(), limit)),
        };
        let pod = match pod {
            Ok(pod) => pod,
            Err(error) => {
                let error = connection_error(endpoint, &error);
                let otherwise = "kubectl's own configuration says which cluster is asked";
                return Some(Err(super::driver::of_error(CHECK, &error, otherwise)));
            }
        };
        let of = format!(
            "--field-selector=involvedObject.name={},type=Warning",
            pod.name
        );
        let namespace = format!("--namespace={}", pod.namespace);
        let of_pod = ["get", "pod", &namespace, &pod.name, "--output=json"];
        let of_events = ["get", "events", &namespace, &of, "--output=json"];
        let (said, warnings) = tokio::join!(json(limit, &of_pod), json(limit, &of_events));
        Some(Ok(Self {
            pod,
            said,
            warnings,
        }))
    }

    /// What the pod and its warnings mean.
    pub fn findings(&self) -> [Finding; 2] {
        let name = format!("{}/{}", self.pod.namespace, self.pod.name);
        let pod = match &self.said {
            Ok(said) => of_pod(&name, said),
            Err(why) => Finding::unknown(CHECK, format!("{name}: {why}")),
        };
        let warnings = match &self.warnings {
            Ok(warnings) => of_warnings(warnings),
            Err(why) => Finding::unknown("events", why),
        };
        [pod, warnings]
    }

    /// The node that it runs on, where that is known.
    pub fn node(&self) -> Option<&str> {
        self.said.as_ref().ok()?["spec"]["nodeName"].as_str()
    }

    /// For a bundle: the log of its containers, those that ended before, and everything that kubectl describes, events among it.
    pub async fn files(&self) -> LogAndFiles {
        let namespace = format!("--namespace={}", self.pod.namespace);
        let of = [namespace.as_str(), self.pod.name.as_str()];
        let all = ["--all-containers", "--prefix", LINES];
        let log = text(LOG_LIMIT, &[&["logs"], &of[..], &all].concat()).await;
        let mut files = Vec::new();
        let described = text(LOG_LIMIT, &[&["describe", "pod"], &of[..]].concat()).await;
        files.push(("pod.txt".to_owned(), described.unwrap_or_else(|why| why)));
        let restarted = containers(self.said.as_ref().unwrap_or(&Json::Null));
        for container in restarted.filter(|one| one["restartCount"].as_u64() > Some(0)) {
            let name = container["name"].as_str().unwrap_or_default();
            let before = ["-c", name, "--previous", LINES];
            let before = text(LOG_LIMIT, &[&["logs"], &of[..], &before].concat()).await;
            // The file's name is the container's, which is that of a DNS label.
            let is_label = name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if is_label {
                let before = before.unwrap_or_else(|why| why);
                files.push((format!("previous-{name}.log"), before));
            }
        }
        (log, files)
    }
}

impl Registered {
    /// Asks which kubelets know the driver.
    pub async fn ask(driver: &str, limit: Duration) -> Self {
        let nodes = ["get", "csinodes", "--output=json"];
        let object = [
            "get",
            "csidriver",
            driver,
            "--ignore-not-found",
            "--output=name",
        ];
        let (nodes, object) = tokio::join!(json(limit, &nodes), text(limit, &object),);
        Self {
            nodes: nodes.and_then(|nodes| nodes_with(&nodes, driver)),
            has_object: object.map(|name| !name.trim().is_empty()),
        }
    }

    /// What that means for a driver of this name, in a pod that serves this node, or none. Its chart makes a CSIDriver.
    pub fn finding(&self, driver: &str, node: Option<&str>, is_of_the_chart: bool) -> Finding {
        let (nodes, all) = match &self.nodes {
            Ok((nodes, all)) => (nodes, all),
            Err(why) => return Finding::unknown(REGISTRATION, why),
        };
        if let Some(node) = node.filter(|node| !nodes.iter().any(|one| one == node)) {
            return Finding::wrong(
                REGISTRATION,
                format!("CSINode {node} does not list {driver}: its kubelet does not know it"),
                "the pod's log says whether the kubelet has asked; is the kubelet's folder the one that the pod has (kubeletDir of the chart)?",
            );
        }
        if nodes.is_empty() {
            return Finding::wrong(
                REGISTRATION,
                format!("no CSINode lists {driver}: no pod can use its volumes"),
                "are the pods of its nodes there and ready? `kubectl get pods -A -o wide` shows them",
            );
        }
        let nodes = match node {
            Some(node) => format!("CSINode {node} lists it"),
            None => format!("{} of {all} CSINodes list it", nodes.len()),
        };
        match &self.has_object {
            Ok(true) => Finding::fine(REGISTRATION, format!("{nodes}; its CSIDriver is there")),
            Ok(false) if is_of_the_chart => Finding::wrong(
                REGISTRATION,
                format!("{nodes}; there is no CSIDriver {driver}"),
                "the chart makes it: upgrade the release",
            ),
            Ok(false) => Finding::fine(REGISTRATION, format!("{nodes}; it has no CSIDriver")),
            Err(why) => Finding::unknown(REGISTRATION, format!("{nodes}; its CSIDriver: {why}")),
        }
    }
}

/// What kubectl prints, or why it prints nothing.
async fn text(limit: Duration, arguments: &[&str]) -> Result<String, String> {
    match timeout(limit, kubectl(arguments)).await {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(Error::local(error.to_string())
            .caused_by(&error)
            .in_one_line()),
        Err(_) => Err(format!("kubectl did not end within {limit:?}")),
    }
}

async fn json(limit: Duration, arguments: &[&str]) -> Result<Json, String> {
    let text = text(limit, arguments).await?;
    serde_json::from_str(&text).map_err(|error| format!("kubectl prints no JSON: {error}"))
}

fn list(json: &Json) -> impl Iterator<Item = &Json> {
    json.as_array().into_iter().flatten()
}

fn containers(pod: &Json) -> impl Iterator<Item = &Json> {
    list(&pod["status"]["containerStatuses"])
}

/// The nodes whose CSINodes list the driver, and how many CSINodes there are.
fn nodes_with(nodes: &Json, driver: &str) -> Result<(Vec<String>, usize), String> {
    if !nodes["items"].is_array() {
        return Err("kubectl prints no list of CSINodes".to_owned());
    }
    let lists = |node: &&Json| list(&node["spec"]["drivers"]).any(|one| one["name"] == driver);
    let with = list(&nodes["items"]).filter(lists);
    let names = with.filter_map(|node| node["metadata"]["name"].as_str().map(str::to_owned));
    Ok((names.collect(), list(&nodes["items"]).count()))
}

/// What the state of a pod's containers means.
fn of_pod(name: &str, pod: &Json) -> Finding {
    let Some(phase) = pod["status"]["phase"].as_str() else {
        return Finding::unknown(CHECK, format!("{name}: kubectl does not print its state"));
    };
    let mut text = name.to_owned();
    if let Some(node) = pod["spec"]["nodeName"].as_str() {
        text.push_str(&format!(" on {node}"));
    }
    let mut restarts = Vec::new();
    let mut unready = Vec::new();
    for container in containers(pod) {
        let name = container["name"].as_str().unwrap_or_default();
        let last = ended(&container["lastState"]["terminated"]);
        if let Some(count @ 1..) = container["restartCount"].as_u64() {
            restarts.push(format!("{} of {name}{last}", counted(count, "restart")));
        }
        if container["ready"] != true {
            let waits = container["state"]["waiting"]["reason"].as_str();
            let now = waits.map_or_else(
                || ended(&container["state"]["terminated"]),
                |reason| format!(" ({reason})"),
            );
            unready.push(format!("{name} is not ready{now}"));
        }
    }
    if phase != "Running" {
        unready.insert(0, format!("it is {phase}"));
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        unready.insert(0, "it is being deleted".to_owned());
    }
    let restarts = match restarts.is_empty() {
        true => "no restarts".to_owned(),
        false => restarts.join(", "),
    };
    match unready.is_empty() {
        true => Finding::fine(CHECK, format!("{text}, ready; {restarts}")),
        false => Finding::wrong(
            CHECK,
            format!("{text}: {}; {restarts}", unready.join(", ")),
            "the events below say why; `kubectl describe pod` and `kubectl logs --previous` say more, and --bundle FILE packs both",
        ),
    }
}

/// How a container ended, in parentheses.
fn ended(terminated: &Json) -> String {
    let Some(code) = terminated["exitCode"].as_i64() else {
        return String::new();
    };
    let reason = terminated["reason"].as_str().unwrap_or("ended");
    let message = terminated["message"].as_str().unwrap_or_default().trim();
    let message = match message.lines().last() {
        Some(line) => format!(": {line}"),
        None => String::new(),
    };
    format!(" ({reason}, exit code {code}{message})")
}

/// The last of the warnings. They are of the past: nothing is wrong because of them.
fn of_warnings(events: &Json) -> Finding {
    let time = |event: &Json| {
        let times = [&event["lastTimestamp"], &event["eventTime"]];
        times
            .iter()
            .find_map(|time| time.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    let count = list(&events["items"]).count();
    let Some(last) = list(&events["items"]).max_by_key(|event| time(event)) else {
        return Finding::fine("events", "no warnings");
    };
    let word = |field: &str| last[field].as_str().unwrap_or_default();
    Finding::unknown(
        "events",
        format!(
            "{}, the last at {}: {}: {}",
            counted(count, "warning"),
            time(last),
            word("reason"),
            word("message").trim()
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::finding::State;
    use serde_json::json;

    #[test]
    fn a_pod_is_judged_by_its_containers() {
        let pod = |phase: &str, status: Json| json!({"spec": {"nodeName": "n-2"}, "status": {"phase": phase, "containerStatuses": [status]}});
        let ended =
            json!({"terminated": {"reason": "Error", "exitCode": 1, "message": "a\nno NFS\n"}});
        for (phase, status, state, text) in [
            (
                "Running",
                json!({"name": "nfs", "ready": true, "restartCount": 0}),
                State::Fine,
                "csi/p on n-2, ready; no restarts",
            ),
            (
                "Running",
                json!({"name": "nfs", "ready": true, "restartCount": 2, "lastState": ended}),
                State::Fine,
                "csi/p on n-2, ready; 2 restarts of nfs (Error, exit code 1: no NFS)",
            ),
            (
                "Running",
                json!({"name": "nfs", "ready": false, "restartCount": 1, "lastState": ended,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}}}),
                State::Wrong,
                "csi/p on n-2: nfs is not ready (CrashLoopBackOff); 1 restart of nfs (Error, exit code 1: no NFS)",
            ),
            (
                "Failed",
                json!({"name": "nfs", "ready": false, "state": ended}),
                State::Wrong,
                "csi/p on n-2: it is Failed, nfs is not ready (Error, exit code 1: no NFS); no restarts",
            ),
        ] {
            let found = of_pod("csi/p", &pod(phase, status));
            assert_eq!((found.state, found.text.as_str()), (state, text));
        }
        let found = of_pod("csi/p", &Json::Null);
        assert_eq!(found.text, "csi/p: kubectl does not print its state");
        assert_eq!(found.state, State::Unknown);
        let mut going = pod("Running", json!({"name": "nfs", "ready": true}));
        going["metadata"] = json!({"deletionTimestamp": "2026-01-01T00:00:00Z"});
        let found = of_pod("csi/p", &going);
        assert_eq!(found.text, "csi/p on n-2: it is being deleted; no restarts");
    }

    #[test]
    fn the_last_warning_is_told() {
        let event = |time: &str, reason: &str| json!({"lastTimestamp": time, "reason": reason, "message": "m\n"});
        let none = of_warnings(&json!({"items": []}));
        assert_eq!(
            (none.state, none.text.as_str()),
            (State::Fine, "no warnings")
        );
        let some = of_warnings(&json!({"items": [event("2026-02", "B"), event("2026-01", "A")]}));
        assert_eq!(some.text, "2 warnings, the last at 2026-02: B: m");
    }

    #[test]
    fn registration_is_what_the_api_server_knows() {
        let nodes = json!({"items": [
            {"metadata": {"name": "n-1"}, "spec": {"drivers": [{"name": "d"}, {"name": "e"}]}},
            {"metadata": {"name": "n-2"}, "spec": {}},
        ]});
        assert!(nodes_with(&json!({"kind": "Status"}), "d").is_err());
        let known = |driver: &str| nodes_with(&nodes, driver);
        let denied = || "kubectl get csinodes exited with code 1: forbidden".to_owned();
        for (nodes, node, object, of_chart, state, text) in [
            (
                known("d"),
                Some("n-1"),
                Ok(true),
                true,
                State::Fine,
                "CSINode n-1 lists it; its CSIDriver is there",
            ),
            (
                known("d"),
                None,
                Ok(true),
                true,
                State::Fine,
                "1 of 2 CSINodes list it; its CSIDriver is there",
            ),
            (
                known("d"),
                Some("n-2"),
                Ok(true),
                true,
                State::Wrong,
                "CSINode n-2 does not list d",
            ),
            (
                known("x"),
                None,
                Ok(true),
                true,
                State::Wrong,
                "no CSINode lists d",
            ),
            (
                known("d"),
                None,
                Ok(false),
                true,
                State::Wrong,
                "there is no CSIDriver d",
            ),
            (
                known("d"),
                None,
                Ok(false),
                false,
                State::Fine,
                "it has no CSIDriver",
            ),
            (
                known("d"),
                None,
                Err("forbidden".to_owned()),
                true,
                State::Unknown,
                "forbidden",
            ),
            (
                Err(denied()),
                None,
                Ok(true),
                true,
                State::Unknown,
                "forbidden",
            ),
        ] {
            let registered = Registered {
                nodes,
                has_object: object,
            };
            let found = registered.finding("d", node, of_chart);
            assert_eq!(found.state, state, "{found:?}");
            assert!(found.text.contains(text), "{found:?}");
        }
    }
}
