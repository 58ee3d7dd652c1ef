//! Runs kubectl, with its own configuration, for what it prints.

use super::{EndpointError, ExecOutcome};
use csi_error::StderrLines;
use std::ffi::OsStr;
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Output, Stdio};
use std::sync::Arc;
use tokio::process::Command;

/// What kubectl prints with these arguments. Dropping the future ends it.
///
/// # Errors
/// When it cannot be started, or fails.
pub async fn kubectl<A: AsRef<OsStr>>(arguments: &[A]) -> Result<String, EndpointError> {
    let mut kubectl = Command::new("kubectl");
    kubectl.args(arguments);
    kubectl.stdin(Stdio::null()).kill_on_drop(true);
    let failed = |cause| EndpointError::ExecStart("kubectl".to_owned(), Arc::new(cause));
    let Output {
        status,
        stdout,
        stderr,
    } = kubectl.output().await.map_err(failed)?;
    if status.success() {
        return Ok(String::from_utf8_lossy(&stdout).into_owned());
    }
    let killed = status.signal().map(ExecOutcome::Killed);
    let words = arguments.iter().take(2);
    let words = words.map(|word| word.as_ref().to_string_lossy());
    Err(EndpointError::Kubectl {
        command: words.collect::<Vec<_>>().join(" "),
        outcome: killed.unwrap_or(ExecOutcome::Exited(status.code().unwrap_or(-1))),
        stderr: StderrLines::new(String::from_utf8_lossy(&stderr).into_owned()),
    })
}
