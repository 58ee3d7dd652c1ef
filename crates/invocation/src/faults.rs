//! The flags that disturb calls on purpose, and the names that calls have in them.

use clap::Args;
use csi_proto::Method;
use csi_proto::faults::{self, FaultRule, PlannedEnd};

const FAULTS: &str = "Faults on purpose";

/// The rules of each flag, in the order of the command line.
#[derive(Args, Clone, Debug, Default)]
pub struct FaultFlags {
    /// Hold calls back for a while
    #[arg(long, value_name = "[METHOD=]DURATION", value_parser = |text: &str| faults::delay(text, methods_named), help_heading = FAULTS)]
    delay: Vec<FaultRule>,
    /// Answer calls, the first N or all, with this status; the driver does not hear of them
    #[arg(long, value_name = "METHOD=CODE[:N]", value_parser = |text: &str| faults::fail(text, methods_named), help_heading = FAULTS)]
    fail: Vec<FaultRule>,
    /// Never answer calls, the first N or all; the driver does not hear of them
    #[arg(long, value_name = "METHOD[:N]", value_parser = |text: &str| faults::drop(text, PlannedEnd::Drop, methods_named), help_heading = FAULTS)]
    drop: Vec<FaultRule>,
    /// Pass calls on, the first N or all, and never answer them, though the driver has
    #[arg(long, value_name = "METHOD[:N]", value_parser = |text: &str| faults::drop(text, PlannedEnd::DropReply, methods_named), help_heading = FAULTS)]
    drop_reply: Vec<FaultRule>,
}

impl FaultFlags {
    /// What they say.
    pub fn rules(&self) -> Vec<FaultRule> {
        [&self.delay[..], &self.fail, &self.drop, &self.drop_reply].concat()
    }
}

/// The methods that have that name somewhere: a verb or its aliases, the RPC's name in either spelling; with the group or
/// the service before it (`node/publish`, `Node/NodePublishVolume`) only those there.
pub fn methods_named(text: &str) -> Vec<&'static Method> {
    let (place, name) = text.rsplit_once(['/', ' ']).unwrap_or(("", text));
    let here = csi_rpc::with_groups().filter(|(group, rpc)| {
        place.is_empty() || group.is_called(place) || rpc.method.service == place
    });
    let named =
        here.filter(|(_, rpc)| rpc.is_called(name) || rpc.method.name.eq_ignore_ascii_case(name));
    named.map(|(_, rpc)| rpc.method).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_go_by_all_their_names() {
        let names = |text| -> Vec<&str> {
            methods_named(text)
                .iter()
                .map(|method| method.name)
                .collect()
        };
        for text in [
            "CreateVolume",
            "create-volume",
            "controller/new",
            "Controller/CreateVolume",
            "controller create-volume",
        ] {
            assert_eq!(names(text), ["CreateVolume"], "{text}");
        }
        assert_eq!(
            names("publish"),
            ["ControllerPublishVolume", "NodePublishVolume"]
        );
        assert_eq!(names("n/publish"), ["NodePublishVolume"]);
        assert_eq!(names("node-publish-volume"), ["NodePublishVolume"]);
        assert_eq!(names("Nonsense"), [""; 0]);
    }
}
