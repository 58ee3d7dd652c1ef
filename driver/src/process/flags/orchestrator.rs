//! Flags for what runs the driver: the kubelet that it registers with, and HTTP for probes and metrics. Owns their words and what they mean beside the others.

use crate::process::config::{self, ConfigError, Endpoint, Mode};
use crate::process::http::HttpAddress;
use crate::process::registration::Kubelet;
use clap::Args;
use std::path::PathBuf;

/// Flags for what runs the driver.
#[derive(Args, Debug)]
pub(super) struct OrchestratorFlags {
    /// Register with the kubelet of this node, without a sidecar: its folder plugins_registry, as this process sees it
    #[arg(long, env = "CSI_NFS_KUBELET_REGISTRATION", value_name = "DIR")]
    kubelet_registration: Option<PathBuf>,

    /// Path of the --endpoint as the kubelet sees it [default: that of --endpoint]
    #[arg(long, env = "CSI_NFS_KUBELET_ENDPOINT", value_name = "PATH")]
    kubelet_endpoint: Option<PathBuf>,

    /// Serve /healthz, /readyz and /metrics there by HTTP: IP:PORT, or unix:///PATH
    #[arg(long, env = "CSI_NFS_HTTP", value_name = "ADDR")]
    pub(super) http: Option<HttpAddress>,
}

impl OrchestratorFlags {
    /// The kubelet to register with, if any.
    ///
    /// # Errors
    /// When a flag has no effect beside the others.
    pub(super) fn kubelet(
        &self,
        mode: Mode,
        endpoint: &Endpoint,
    ) -> Result<Option<Kubelet>, ConfigError> {
        const FOLDER: &str = "--kubelet-registration";
        const ENDPOINT: &str = "--kubelet-endpoint";
        let no_effect = |flag, why| Err(ConfigError::NoEffect(flag, why));
        let Some(folder) = &self.kubelet_registration else {
            return match self.kubelet_endpoint {
                Some(_) => no_effect(ENDPOINT, "without --kubelet-registration: leave it out"),
                None => Ok(None),
            };
        };
        if !mode.node() {
            return no_effect(
                FOLDER,
                "with --mode controller: the kubelet calls the node service; leave it out here",
            );
        }
        let Endpoint::Unix(own) = endpoint else {
            return no_effect(
                FOLDER,
                "with a port: the kubelet calls a unix socket; leave it out, or serve one",
            );
        };
        let seen = self.kubelet_endpoint.as_ref().unwrap_or(own);
        let endpoint = std::path::absolute(seen)
            .map_err(|_| ConfigError::Value(seen.display().to_string(), config::ENDPOINT))?;
        Ok(Some(Kubelet {
            folder: folder.clone(),
            endpoint,
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::process::config::ConfigError;
    use crate::process::flags::Flags;
    use crate::process::registration::Kubelet;
    use clap::Parser;

    fn kubelet(line: &str) -> Result<Option<Kubelet>, ConfigError> {
        let flags = Flags::parse_from(line.split(' '));
        flags.resolve().map(|(serving, ..)| serving.kubelet)
    }

    #[test]
    fn the_kubelet_is_told_the_path_that_it_sees() {
        let told = |line: &str| kubelet(line).unwrap().map(|kubelet| kubelet.endpoint);
        assert_eq!(told("x --endpoint /csi/csi.sock --mode node"), None);
        let own = "x --endpoint unix:///csi/csi.sock --mode node --kubelet-registration /r";
        assert_eq!(told(own), Some("/csi/csi.sock".into()));
        let other = format!("{own} --kubelet-endpoint /var/lib/kubelet/plugins/n/csi.sock");
        let seen = "/var/lib/kubelet/plugins/n/csi.sock";
        assert_eq!(told(&other), Some(seen.into()));
        let relative = told("x --endpoint unix:csi.sock --kubelet-registration /r").unwrap();
        assert!(relative.is_absolute() && relative.ends_with("csi.sock"));
    }

    #[test]
    fn a_registration_that_would_have_no_effect_is_refused() {
        for (line, flag) in [
            (
                "x --endpoint /x --kubelet-endpoint /y",
                "--kubelet-endpoint",
            ),
            (
                "x --endpoint /x --mode controller --kubelet-registration /r",
                "--kubelet-registration",
            ),
            (
                "x --endpoint tcp://127.0.0.1:1 --kubelet-registration /r",
                "--kubelet-registration",
            ),
        ] {
            match kubelet(line) {
                Err(ConfigError::NoEffect(named, _)) => assert_eq!(named, flag, "{line}"),
                other => panic!("{line}: {other:?}"),
            }
        }
    }
}
