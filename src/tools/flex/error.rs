//! Why a call fails, and the only place that chooses its code.

use super::answer::{CallOutError, Problem};
use super::plan::Refusal;
use super::request::RequestError;
use super::state::StateError;
use super::taken::Busy;
use csi_call::secrets::{looked_for, masked};
use csi_proto::escaped;
use std::io;
use std::path::PathBuf;
use std::time::Duration;
use thiserror::Error;
use tonic::{Code, Status};

/// How many characters of a message are shown.
const SHOWN: usize = 1000;

/// Why a call fails.
#[derive(Debug, Error)]
pub enum FlexError {
    /// The request cannot be meant.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The RPC belongs to a capability that the driver does not have.
    #[error("the driver does not advertise the capability of this call")]
    NotAdvertised,
    /// Nothing is known of what it is about.
    #[error("the volume is not at volume_path")]
    NotThere,
    /// It does not go with what is there.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another call has the volume.
    #[error(transparent)]
    Busy(#[from] Busy),
    /// A call-out has failed.
    #[error(transparent)]
    CallOut(#[from] CallOutError),
    /// The driver does not know the volume.
    #[error(transparent)]
    NoVolume(CallOutError),
    /// The executable has gone.
    #[error(transparent)]
    Gone(CallOutError),
    /// A call-out has succeeded, and its work is not done.
    #[error("{call} answered Success, and {path} is still a mount point", path = path.display())]
    StillMounted {
        /// The call-out.
        call: &'static str,
        /// The path.
        path: PathBuf,
    },
    /// The driver leaves it to the kubelet, and nobody here does it.
    #[error(
        "the driver has no mountdevice, and leaves the device {0} to be formatted and mounted by its caller, which csi flex does not do"
    )]
    NoMountDevice(String),
    /// What this program does itself has failed.
    #[error("{doing} {path}: {cause}", path = path.display())]
    Path {
        /// What it did.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// The system's word.
        cause: io::Error,
    },
    /// What this program does itself takes longer than its caller waits, and goes on.
    #[error(
        "{doing} {path}: no answer after {after:.1?}, and this goes on until there is one: does the server behind it answer?",
        path = path.display()
    )]
    Late {
        /// What it does.
        doing: &'static str,
        /// Where.
        path: PathBuf,
        /// For how long.
        after: Duration,
    },
    /// The state cannot be kept.
    #[error("what this call does cannot be noted: {0}")]
    State(#[from] StateError),
    /// The work has died.
    #[error("the call ended without a result: repeat it")]
    Died,
}

impl FlexError {
    fn code(&self) -> Code {
        match self {
            Self::Request(RequestError::TooLarge { .. }) => Code::OutOfRange,
            Self::Request(_) => Code::InvalidArgument,
            Self::NotAdvertised => Code::Unimplemented,
            Self::NotThere | Self::NoVolume(_) => Code::NotFound,
            Self::Refused(Refusal::OtherVolume(_) | Refusal::OtherWay) => Code::AlreadyExists,
            Self::Refused(_) | Self::NoMountDevice(_) | Self::Gone(_) => Code::FailedPrecondition,
            Self::Busy(_) | Self::Died => Code::Aborted,
            Self::Late { .. } => Code::DeadlineExceeded,
            Self::CallOut(CallOutError { problem, .. }) => match problem {
                Problem::Late(_) => Code::DeadlineExceeded,
                Problem::NotSupported => Code::Unimplemented,
                _ => Code::Internal,
            },
            Self::StillMounted { .. } | Self::Path { .. } | Self::State(_) => Code::Internal,
        }
    }

    /// Whether it is known that a call-out, or this program in its place, has done nothing.
    pub fn did_nothing(&self) -> bool {
        match self {
            Self::CallOut(error) => error.did_nothing(),
            Self::Path { .. } | Self::NoMountDevice(_) => true,
            _ => false,
        }
    }

    /// The status of the call, in which none of these texts stands, nor what a terminal would act on.
    pub fn status(&self, secrets: &[String]) -> Status {
        Status::new(self.code(), shown(&self.to_string(), secrets))
    }
}

/// The beginning of a driver's words, without secrets and safe to print.
pub fn shown(text: &str, secrets: &[String]) -> String {
    // First masked, then cut: a part of a secret is one too.
    let text = masked(text, &looked_for(secrets.to_vec())).into_owned();
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", escaped(&text[..end])),
        None => escaped(&text).into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_failure_has_its_code_and_shows_no_secret() {
        let call_out = |problem| {
            FlexError::CallOut(CallOutError {
                call: "mount",
                problem,
            })
        };
        let failure = |message: &str| {
            call_out(Problem::Failure {
                status: "Failure".to_owned(),
                message: message.to_owned(),
            })
        };
        let late = call_out(Problem::Late(Duration::from_secs(5)));
        let missing = call_out(Problem::NotStarted {
            executable: "/x".into(),
            cause: io::ErrorKind::NotFound.into(),
        });
        for (error, code, message) in [
            (
                RequestError::Missing("volume_id").into(),
                Code::InvalidArgument,
                "volume_id is missing",
            ),
            (
                FlexError::Refused(Refusal::OtherVolume("w".into())),
                Code::AlreadyExists,
                "the volume w is there",
            ),
            (
                FlexError::Busy(Busy {
                    rpc: "NodePublishVolume",
                    age: Duration::from_millis(1500),
                }),
                Code::Aborted,
                "NodePublishVolume of this volume has been running for 1.5s: repeat the call when it has ended",
            ),
            (
                late,
                Code::DeadlineExceeded,
                "mount: it had no answer after 5.0s and was killed",
            ),
            (
                missing,
                Code::Internal,
                "mount: cannot run /x: entity not found",
            ),
            (
                call_out(Problem::NotSupported),
                Code::Unimplemented,
                "mount: Not supported",
            ),
            (
                failure("-o pass=hunter2 \x1b[31m"),
                Code::Internal,
                "mount: Failure: -o pass=***stripped*** \\u{1b}[31m",
            ),
            (
                FlexError::NotThere,
                Code::NotFound,
                "the volume is not at volume_path",
            ),
        ] {
            let status = error.status(&["hunter2".to_owned()]);
            assert_eq!((status.code(), status.message()), (code, message));
        }
        let long = format!("{}hunter2", "x".repeat(SHOWN - 3));
        let message = failure(&long).status(&["hunter2".to_owned()]);
        assert!(message.message().ends_with("xxx…"), "{message}");
    }
}
