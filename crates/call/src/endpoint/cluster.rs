//! The driver `csi-nfs` of a cluster, found by the labels that its chart gives to pods: `kubectl:[NAMESPACE][/NODE]`. Owns which pod
//! it is, and how kubectl, with its own configuration, is asked; `pod` owns how one is reached.

use super::error::EndpointError;
use super::exec::TERM_GRACE;
use super::pod::{Pod, check_name};
use crate::process_group::{ExecOutcome, ProcessGroup, ended};
use csi_error::StderrLines;
use std::ffi::OsStr;
use std::fmt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Instant;
use tokio::io::AsyncReadExt as _;
use tokio::process::ChildStdout;

/// What the chart calls its pods.
const LABEL: &str = "app.kubernetes.io/name=csi-nfs";

/// A line for each pod: its namespace, its name, its release.
const LINES: &str = r#"jsonpath={range .items[*]}{.metadata.namespace}{" "}{.metadata.name}{" "}{.metadata.labels.app\.kubernetes\.io/instance}{"\n"}{end}"#;

/// Which pod of the chart is meant: the one on a node, or else a controller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Sought {
    namespace: Option<String>,
    node: Option<String>,
}

impl Sought {
    /// What stands behind `kubectl:`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (namespace, node) = match text.split_once('/') {
            Some((namespace, node)) => (namespace, Some(node)),
            None => (text, None),
        };
        let namespace = Some(namespace).filter(|namespace| !namespace.is_empty());
        namespace.into_iter().chain(node).try_for_each(check_name)?;
        Ok(Self {
            namespace: namespace.map(str::to_owned),
            node: node.map(str::to_owned),
        })
    }

    /// The arguments of the kubectl that lists the pods in question.
    fn query(&self) -> Vec<String> {
        let namespace = match &self.namespace {
            Some(namespace) => format!("--namespace={namespace}"),
            None => "--all-namespaces".to_owned(),
        };
        let (component, on_node) = match &self.node {
            Some(node) => ("node", format!(",spec.nodeName={node}")),
            None => ("controller", String::new()),
        };
        vec![
            "get".to_owned(),
            "pods".to_owned(),
            namespace,
            format!("--selector={LABEL},app.kubernetes.io/component={component}"),
            format!("--field-selector=status.phase=Running{on_node}"),
            format!("--output={LINES}"),
        ]
    }

    /// The pod, of those that a list names.
    fn choose(&self, list: &str) -> Result<Pod, EndpointError> {
        let mut pods = list.lines().filter_map(|line| {
            let (namespace, rest) = line.split_once(' ')?;
            let (name, release) = rest.split_once(' ')?;
            Some((namespace, name, release))
        });
        let first = pods.next();
        let (namespace, name, release) =
            first.ok_or_else(|| EndpointError::NoPod(self.to_string()))?;
        // Of the controllers of one release each can answer.
        match pods.find(|pod| (pod.0, pod.2) != (namespace, release)) {
            None => Ok(Pod::named(namespace, name)),
            Some(other) => Err(EndpointError::SeveralDrivers {
                one: format!("{namespace}/{name}"),
                other: format!("{}/{}", other.0, other.1),
            }),
        }
    }

    /// Finds the pod.
    ///
    /// # Errors
    /// When kubectl cannot list pods, and when there is none, or several that are not alike.
    pub(super) async fn find(&self) -> Result<Pod, EndpointError> {
        self.choose(&kubectl(&self.query()).await?)
    }
}

/// Names what was looked for.
impl fmt::Display for Sought {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.node {
            Some(node) => write!(f, "pod of csi-nfs on the node {node}")?,
            None => f.write_str("controller of csi-nfs")?,
        }
        match &self.namespace {
            Some(namespace) => write!(f, " in the namespace {namespace}"),
            None => f.write_str(" in any namespace"),
        }
    }
}

/// What kubectl prints with these arguments. Dropping the future ends it, with the plugins that it has started.
///
/// # Errors
/// When it cannot be started, or fails.
pub async fn kubectl<A: AsRef<OsStr>>(arguments: &[A]) -> Result<String, EndpointError> {
    let failed = |cause| EndpointError::ExecStart("kubectl".to_owned(), Arc::new(cause));
    let mut kubectl = Command::new("kubectl");
    kubectl.args(arguments);
    kubectl.stdin(Stdio::null()).stdout(Stdio::piped());
    let mut processes = ProcessGroup::start(&mut kubectl, TERM_GRACE).map_err(failed)?;
    let stderr = processes.stderr().map_err(failed)?;
    let mut printed = Vec::new();
    if let (_, Some(output)) = processes.streams() {
        let mut output = ChildStdout::from_std(output).map_err(failed)?;
        output.read_to_end(&mut printed).await.map_err(failed)?;
    }
    let outcome = ended(processes.pid(), None).await;
    let outcome = outcome.unwrap_or(ExecOutcome::ClosedOutput);
    if outcome == ExecOutcome::Exited(0) {
        return Ok(String::from_utf8_lossy(&printed).into_owned());
    }
    let words = arguments.iter().take(2);
    let words = words.map(|word| word.as_ref().to_string_lossy());
    Err(EndpointError::Kubectl {
        command: words.collect::<Vec<_>>().join(" "),
        outcome,
        stderr: StderrLines::new(stderr.text(Instant::now() + TERM_GRACE).await),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_asked_for_by_the_labels_of_the_chart() {
        for (text, words) in [
            (
                "",
                "get pods --all-namespaces --selector=app.kubernetes.io/name=csi-nfs,app.kubernetes.io/component=controller --field-selector=status.phase=Running",
            ),
            (
                "ns",
                "get pods --namespace=ns --selector=app.kubernetes.io/name=csi-nfs,app.kubernetes.io/component=controller --field-selector=status.phase=Running",
            ),
            (
                "/w.1",
                "get pods --all-namespaces --selector=app.kubernetes.io/name=csi-nfs,app.kubernetes.io/component=node --field-selector=status.phase=Running,spec.nodeName=w.1",
            ),
            (
                "ns/w",
                "get pods --namespace=ns --selector=app.kubernetes.io/name=csi-nfs,app.kubernetes.io/component=node --field-selector=status.phase=Running,spec.nodeName=w",
            ),
        ] {
            let query = Sought::parse(text).expect(text).query();
            let (_, but_output) = query.split_last().expect("words");
            assert_eq!(but_output.join(" "), words);
        }
        for text in ["ns/", "/", "-n", "a/b/c", "A", "a b"] {
            assert!(Sought::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn any_controller_of_the_one_release_is_taken() {
        let choose = |list: &str| Sought::parse("").expect("text").choose(list);
        let pod = choose("csi a-1 nfs\ncsi a-2 nfs\n").expect("a pod");
        assert_eq!(pod, Pod::named("csi", "a-1"));
        for list in [
            "csi a-1 nfs\ncsi b-1 other\n",
            "csi a-1 nfs\nelse a-1 nfs\n",
        ] {
            let several = choose(list).expect_err(list);
            assert!(several.to_string().contains("csi/a-1"), "{several}");
        }
        let none = choose("").expect_err("none");
        assert!(
            none.to_string().contains("no controller of csi-nfs"),
            "{none}"
        );
    }
}
