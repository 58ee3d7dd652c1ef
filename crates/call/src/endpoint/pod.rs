//! A driver in a pod of Kubernetes: `pod:NAMESPACE/POD[/CONTAINER][:SOCKET]`. `kubectl exec` starts what relays the connection in the
//! pod: `csi-nfs relay`, or `csi proxy --stdio` where that is what the pod has.

use super::error::EndpointError;
use super::exec::ExecStream;
use crate::process_group::ExecOutcome;
use tokio::io::{AsyncBufReadExt, BufReader};

/// Where `csi proxy --stdio` looks when nobody names the socket; `csi-nfs relay` knows by its container's CSI_ENDPOINT.
const USUAL_SOCKET: &str = "/csi/csi.sock";

/// A container of a pod, and the socket in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    container: Option<String>,
    socket: Option<String>,
}

impl Pod {
    /// What stands behind `pod:`.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let (path, socket) = match text.split_once(':') {
            Some((path, socket)) => (path, Some(socket)),
            None => (text, None),
        };
        let words: Vec<&str> = path.split('/').collect();
        let (namespace, name, container) = match words[..] {
            [namespace, name] => (namespace, name, None),
            [namespace, name, container] => (namespace, name, Some(container)),
            _ => return Err("write pod:NAMESPACE/POD or pod:NAMESPACE/POD/CONTAINER".to_owned()),
        };
        let names = [namespace, name].into_iter().chain(container);
        for word in names {
            check_name(word)?;
        }
        if socket.is_some_and(|socket| !socket.starts_with('/')) {
            return Err(
                "the socket in the pod is an absolute path: pod:NAMESPACE/POD:/csi/csi.sock"
                    .to_owned(),
            );
        }
        Ok(Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            container: container.map(str::to_owned),
            socket: socket.map(str::to_owned),
        })
    }

    /// A pod, whose container and socket are the usual ones.
    pub(super) fn named(namespace: &str, name: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
            name: name.to_owned(),
            container: None,
            socket: None,
        }
    }

    /// The commands that may carry the connection, in the order in which they are tried.
    fn commands(&self) -> [Vec<String>; 2] {
        let relay = ["/csi-nfs", "relay"]
            .into_iter()
            .chain(self.socket.as_deref());
        let socket = self.socket.as_deref().unwrap_or(USUAL_SOCKET);
        let proxy = ["csi", "proxy", "--stdio", socket];
        [self.exec(relay), self.exec(proxy)]
    }

    fn exec<'a>(&'a self, command: impl IntoIterator<Item = &'a str>) -> Vec<String> {
        let mut words = vec!["kubectl", "exec", "-i", "-n", &self.namespace, &self.name];
        if let Some(container) = &self.container {
            words.extend(["-c", container]);
        }
        words.push("--");
        words.extend(command);
        words.into_iter().map(str::to_owned).collect()
    }

    /// Opens the connection.
    ///
    /// # Errors
    /// When neither command can carry it.
    pub(super) async fn open(&self) -> Result<BufReader<ExecStream>, EndpointError> {
        for words in self.commands() {
            let mut stream = BufReader::new(ExecStream::start(&words)?);
            // A gRPC server speaks first. What the pod does not have ends before it says anything.
            let Err(error) = stream.fill_buf().await else {
                return Ok(stream);
            };
            match error.downcast::<EndpointError>() {
                Ok(EndpointError::ExecEnded {
                    outcome, stderr, ..
                }) if is_missing(outcome, stderr.as_ref().map(ToString::to_string)) => {}
                Ok(error) => return Err(error),
                Err(error) => {
                    return Err(EndpointError::Unreachable(
                        words.join(" "),
                        std::sync::Arc::new(error),
                    ));
                }
            }
        }
        Err(EndpointError::PodLacksRelay {
            pod: format!("{}/{}", self.namespace, self.name),
        })
    }
}

/// Whether something can be called so in Kubernetes.
pub(super) fn check_name(word: &str) -> Result<(), String> {
    let is_name = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c);
    // What begins with a dash would be a flag of kubectl.
    match word.is_empty() || word.starts_with('-') || !word.chars().all(is_name) {
        true => Err(format!("{word:?} is not a name in Kubernetes")),
        false => Ok(()),
    }
}

/// Whether a command ended because the container has no such program, as shells and container runtimes say it.
fn is_missing(outcome: ExecOutcome, stderr: Option<String>) -> bool {
    let text = stderr.unwrap_or_default().to_lowercase();
    let says_so = [
        "executable file not found",
        "no such file or directory",
        "not found in $path",
    ];
    let is_about_exec = text.contains("exec");
    matches!(outcome, ExecOutcome::Exited(127))
        || (is_about_exec && says_so.iter().any(|words| text.contains(words)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> [String; 2] {
        let pod = Pod::parse(text).expect("a pod");
        pod.commands().map(|words| words.join(" "))
    }

    #[test]
    fn a_pod_is_reached_by_kubectl() {
        assert_eq!(
            lines("csi-nfs/node-x7k2p"),
            [
                "kubectl exec -i -n csi-nfs node-x7k2p -- /csi-nfs relay",
                "kubectl exec -i -n csi-nfs node-x7k2p -- csi proxy --stdio /csi/csi.sock",
            ]
        );
        assert_eq!(
            lines("kube-system/ebs-node-1/ebs-plugin:/run/csi.sock"),
            [
                "kubectl exec -i -n kube-system ebs-node-1 -c ebs-plugin -- /csi-nfs relay /run/csi.sock",
                "kubectl exec -i -n kube-system ebs-node-1 -c ebs-plugin -- csi proxy --stdio /run/csi.sock",
            ]
        );
    }

    #[test]
    fn what_is_no_pod_is_refused() {
        for text in [
            "", "x", "a/b/c/d", "a/", "/b", "a/-n", "a/b c", "A/b", "a/b:c", "a/b/:/c",
        ] {
            assert!(Pod::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_program_that_is_missing_is_told_from_one_that_fails() {
        let missing = "error: Internal error occurred: error executing command in container: failed to exec in container: \
            OCI runtime exec failed: exec failed: unable to start container process: exec: \"/csi-nfs\": stat /csi-nfs: \
            no such file or directory";
        let path = "exec failed: unable to start container process: exec: \"csi\": executable file not found in $PATH";
        for (code, text, expected) in [
            (1, missing, true),
            (126, path, true),
            (127, "", true),
            (
                1,
                "Error from server (NotFound): pods \"x\" not found",
                false,
            ),
            (
                1,
                "csi-nfs relay: /csi/csi.sock: No such file or directory (os error 2)",
                false,
            ),
            (1, "", false),
        ] {
            let outcome = ExecOutcome::Exited(code);
            assert_eq!(
                is_missing(outcome, Some(text.to_owned())),
                expected,
                "{text}"
            );
        }
    }
}
