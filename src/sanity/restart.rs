//! The command that restarts the driver, and waiting for it to be back.

use super::case::{Stop, Verdict};
use super::context::Context;
use csi_proto::v1;
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// How long the command may take, and then the driver until it is ready.
const PATIENCE: Duration = Duration::from_secs(60);

impl Context {
    /// Restarts the driver and waits until it says that it is ready.
    ///
    /// # Errors
    /// When there is no command, it fails, or the driver does not come back.
    pub async fn restart(&self) -> Verdict {
        let Some(command) = &self.settings().restart_command else {
            return Err(Stop::Skipped("--restart-command is not given".to_owned()));
        };
        self.did(command.clone());
        let run = Command::new("sh")
            .args(["-c", command])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .output();
        let broken = |told: String| Stop::failed("the restart command restarts the driver", told);
        match tokio::time::timeout(PATIENCE, run).await {
            Err(_) => return Err(broken(format!("it was not over after {PATIENCE:?}"))),
            Ok(Err(error)) => return Err(broken(error.to_string())),
            Ok(Ok(output)) if !output.status.success() => {
                let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
                return Err(broken(format!("{}: {stderr}", output.status)));
            }
            Ok(Ok(_)) => {}
        }
        let end = Instant::now() + PATIENCE;
        loop {
            let told = match self.at_controller(v1::ProbeRequest {}).await {
                Ok(reply) if reply.ready != Some(false) => return Ok(()),
                Ok(_) => "Probe says that it is not ready".to_owned(),
                Err(Stop::Failed(failure)) => failure.actual,
                Err(stop) => return Err(stop),
            };
            if Instant::now() > end {
                return Err(Stop::failed("the driver is ready after a restart", told));
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}
