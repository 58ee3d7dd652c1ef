//! Errors of endpoints. Every way to fail has its variant, so that a hint can be given where errors become text.
//!
//! Cloneable, because the reason of a lost connection is both kept and returned.

use super::handshake::HandshakeError;
use crate::process_group::ExecOutcome;
use csi_error::StderrLines;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use thiserror::Error;

/// An endpoint that is not one, or that could not be reached, or that was lost.
#[derive(Clone, Debug, Error)]
pub enum EndpointError {
    /// The text names no endpoint.
    #[error("{text:?} is not an endpoint: {problem}")]
    Syntax {
        /// The endpoint as it was written.
        text: String,
        /// The problem, with the remedy.
        problem: String,
    },
    /// The socket's file does not exist.
    #[error("the socket {} does not exist", .0.display())]
    NoSocket(PathBuf),
    /// The socket's file may not be used.
    #[error("no permission to use the socket {}", .0.display())]
    PermissionDenied(PathBuf),
    /// Nobody knows whether the socket is there: a folder above it may not be entered.
    #[error("no permission to look for the socket {}", .0.display())]
    FolderClosed(PathBuf),
    /// There is a file, but it is not a socket for streams.
    #[error("{} is not a socket that streams", .0.display())]
    NotASocket(PathBuf),
    /// Nothing listens on the address: the driver is not running.
    #[error("nobody listens on {0}")]
    Refused(String),
    /// The host's name has no (fitting) address.
    #[error("the host {0} cannot be found")]
    Unresolved(String, #[source] Arc<io::Error>),
    /// No connection within the time.
    #[error("{0} did not answer within {1:?}")]
    TimedOut(String, Duration),
    /// Another error of the system while connecting.
    #[error("cannot connect to {0}")]
    Unreachable(String, #[source] Arc<io::Error>),
    /// TLS options with an endpoint that has no TLS.
    #[error("certificates and server names are for https:// endpoints, and {0} is none")]
    TlsUnused(String),
    /// A certificate or key that cannot be used.
    #[error("the {0}: {1}")]
    TlsMaterial(String, String),
    /// The handshake failed.
    #[error("the TLS handshake with {0} failed")]
    Tls(String, #[source] Arc<HandshakeError>),
    /// The command could not be started.
    #[error("cannot start {0}")]
    ExecStart(String, #[source] Arc<io::Error>),
    /// The command ended, or closed its output.
    #[error("the command {program} {outcome}{}", if .stderr.is_none() { " and wrote nothing to stderr" } else { "" })]
    ExecEnded {
        /// The program.
        program: String,
        /// The end of the command.
        outcome: ExecOutcome,
        /// Its output on stderr, if any.
        #[source]
        stderr: Option<StderrLines>,
    },
    /// Nothing in the pod can carry a connection.
    #[error(
        "the container of the pod {pod} has neither /csi-nfs nor csi in its PATH, which would carry the connection"
    )]
    PodLacksRelay {
        /// Its namespace and name.
        pod: String,
    },
    /// kubectl does not tell what it is asked for.
    #[error("kubectl {command} {outcome}")]
    Kubectl {
        /// The first words of its command line.
        command: String,
        /// The end of kubectl.
        outcome: ExecOutcome,
        /// Its output on stderr, if any.
        #[source]
        stderr: Option<StderrLines>,
    },
    /// No pod of the chart is the one that is meant.
    #[error("no {0} runs")]
    NoPod(String),
    /// Several releases of the chart are there.
    #[error("there are several drivers: {one} and {other} are of different releases")]
    SeveralDrivers {
        /// The namespace and name of a pod.
        one: String,
        /// Those of another.
        other: String,
    },
    /// The other side closed the connection.
    #[error("{0} closed the connection")]
    Closed(String),
    /// The other side closed the connection without sending a byte.
    #[error("{endpoint} closed the connection without a word{}", tls_advice(.address.as_deref()))]
    Silent {
        /// The endpoint as it was written.
        endpoint: String,
        /// The host and the port, where it has them.
        address: Option<String>,
    },
    /// The connection broke.
    #[error("the connection to {0} broke")]
    Broken(String, #[source] Arc<dyn std::error::Error + Send + Sync>),
    /// The server that answers does not speak gRPC.
    #[error("{endpoint} does not speak gRPC: it answers {}", described(.answer, .address.as_deref()))]
    NotGrpc {
        /// The endpoint as it was written.
        endpoint: String,
        /// The host and the port, where it has them.
        address: Option<String>,
        /// The start of what came. Untrusted bytes.
        answer: Vec<u8>,
    },
    /// The settings of the driver in this process cannot be used.
    #[error("{} cannot be used", .path.display())]
    Settings {
        /// The file.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
    /// The driver in this process could not be opened.
    #[error("cannot open the {driver} driver in {}", .folder.display())]
    Inside {
        /// The scheme of its endpoints.
        driver: &'static str,
        /// The folder of its state.
        folder: PathBuf,
        /// Why not.
        #[source]
        source: Arc<dyn std::error::Error + Send + Sync>,
    },
}

impl EndpointError {
    /// That the driver of that scheme could not be opened in the folder.
    pub(super) fn inside(
        driver: &'static str,
        folder: &Path,
        cause: impl std::error::Error + Send + Sync + 'static,
    ) -> Self {
        Self::Inside {
            driver,
            folder: folder.to_owned(),
            source: Arc::new(cause),
        }
    }
}

/// Servers of TLS close at once when they are not greeted in TLS, mostly without an alert.
fn tls_advice(address: Option<&str>) -> String {
    address.map_or_else(String::new, |address| {
        format!("; if it speaks TLS, write https://{address}")
    })
}

fn described(answer: &[u8], address: Option<&str>) -> String {
    match answer {
        // An alert or a handshake, and TLS's major version, as far as they have come.
        [0x15 | 0x16] | [0x15 | 0x16, 0x03, ..] => {
            format!("in TLS; write https://{}", address.unwrap_or("HOST:PORT"))
        }
        _ => format!("{:?}", String::from_utf8_lossy(answer)),
    }
}
