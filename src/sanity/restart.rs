//! Restarting the driver in the middle of a case, by the command of the settings.

use super::case::{Stop, Verdict, ensure};
use super::context::Context;
use super::requests::Request;
use csi_proto::v1;
use std::process::Stdio;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use tokio::process::Command;

/// How long the command may take, and the driver after it until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

impl Context {
    /// Restarts the driver, and returns when it answers again. Only for cases that run alone.
    ///
    /// # Errors
    /// When there is no command, it fails, or the driver does not come back.
    pub fn restart(&self) -> Verdict {
        let Some(command) = self.settings().restart_command.clone() else {
            return Err(Stop::Skipped("no --restart-command".to_owned()));
        };
        self.restarts.fetch_add(1, Ordering::AcqRel);
        let restarted = self.restart_by(&command);
        self.restarts.fetch_add(1, Ordering::AcqRel);
        restarted
    }

    fn restart_by(&self, command: &str) -> Verdict {
        self.did(command.to_owned());
        let mut shell = Command::new("sh");
        shell.arg("-c").arg(command).kill_on_drop(true);
        shell.stdin(Stdio::null()).stdout(Stdio::null());
        let ended = self.wait(async { tokio::time::timeout(PATIENCE, shell.output()).await })?;
        let expected = "the restart command succeeds";
        match ended {
            Err(_) => return Err(Stop::failed(expected, format!("it ran for {PATIENCE:?}"))),
            Ok(Err(error)) => return Err(Stop::failed(expected, error.to_string())),
            Ok(Ok(output)) => {
                let words = String::from_utf8_lossy(&output.stderr);
                let told = match words.trim_end() {
                    "" => format!("{command} ended with {}, without a word", output.status),
                    words => format!("{command} ended with {}: {words}", output.status),
                };
                ensure(output.status.success(), expected, told)?;
            }
        }
        for peer in [&self.run.node, &self.run.controller] {
            let end = Instant::now() + PATIENCE;
            // Not a step of the case: nobody who runs its commands by hand has to ask.
            let session = peer
                .session
                .clone()
                .with_timeout(Some(Duration::from_secs(5)));
            let probe = v1::ProbeRequest::METHOD;
            while let Err(status) = self.unrecorded(&session, probe, bytes::Bytes::new())? {
                let told = super::context::told(&status);
                ensure(
                    Instant::now() < end,
                    "the driver answers after its restart",
                    told,
                )?;
                self.pause(Duration::from_millis(20))?;
            }
        }
        Ok(())
    }
}
