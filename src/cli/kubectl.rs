//! The flags that `kubectl csi` has and `csi` has not, and the driver that they name.

use clap::Args;
use csi_invocation::globals::Globals;

/// The name by which kubectl finds the program: `kubectl csi`.
pub const PLUGIN: &str = "kubectl-csi";

/// Which pod of the chart to speak with.
#[derive(Args, Clone, Debug)]
pub struct PodFlags {
    /// The namespace of the driver csi-nfs; without the flag it is looked for in all of them
    #[arg(
        short,
        long,
        global = true,
        value_name = "NAMESPACE",
        help_heading = "Connection",
        conflicts_with = "endpoint"
    )]
    namespace: Option<String>,
    /// Speak with the driver on this node, and not with the controller
    #[arg(
        long,
        global = true,
        value_name = "NODE",
        help_heading = "Connection",
        conflicts_with = "endpoint"
    )]
    node: Option<String>,
}

impl PodFlags {
    /// Names the driver in `globals`. Another endpoint stays, when none of these flags is given.
    pub fn name_driver(&self, globals: &mut Globals) {
        let elsewhere = globals.endpoint.is_some()
            || globals.context.is_some()
            || std::env::var_os("CSI_ENDPOINT").is_some();
        if elsewhere && self.namespace.is_none() && self.node.is_none() {
            return;
        }
        let namespace = self.namespace.as_deref().unwrap_or_default();
        let node = self.node.as_deref().map(|node| format!("/{node}"));
        globals.endpoint = Some(format!("kubectl:{namespace}{}", node.unwrap_or_default()));
    }
}
