//! Drivers that do what few drivers do and the specification allows: `csi sanity` accuses none of them.

use super::{is_clean, sanity};
use crate::lifecycle::driver_with;
use crate::support::program::Csi;
use crate::support::scripted::Reply;
use csi_proto::v1;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::volume_capability::access_mode::Mode;
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard};
use tonic::Code;

/// The ids of the volumes that a driver has, which are their names.
#[derive(Clone, Default)]
struct Volumes(Arc<Mutex<BTreeSet<String>>>);

impl Volumes {
    fn list(&self) -> MutexGuard<'_, BTreeSet<String>> {
        self.0.lock().unwrap()
    }

    fn make(&self, name: &str) -> Reply {
        self.list().insert(name.to_owned());
        Reply::message(&v1::CreateVolumeResponse {
            volume: Some(volume(name)),
        })
    }
}

fn volume(id: &str) -> v1::Volume {
    v1::Volume {
        volume_id: id.to_owned(),
        capacity_bytes: 1 << 20,
        ..v1::Volume::default()
    }
}

/// The arguments of a run of some cases.
fn cases(mode: Mode, filter: &str) -> String {
    let mode = mode.as_str_name();
    format!("--cap {mode},mount --volume-size 1Mi --filter {filter}")
}

#[test]
fn modes_that_a_driver_does_not_have_are_not_demanded() {
    let driver = driver_with(
        &[
            ControllerCapability::CreateDeleteVolume,
            ControllerCapability::PublishUnpublishVolume,
        ],
        &[],
    );
    let own = Mode::MultiNodeReaderOnly;
    driver.answer("CreateVolume", move |request| {
        let request: v1::CreateVolumeRequest = request.decode();
        let modes = request.volume_capabilities.iter();
        let mut modes = modes.map(|one| one.access_mode.unwrap_or_default().mode());
        match modes.all(|mode| mode == own) {
            true => Volumes::default().make(&request.name),
            false => Reply::error(Code::InvalidArgument, "there is only one mode"),
        }
    });
    let csi = Csi::at(driver.endpoint());
    let line = cases(own, "two-nodes --filter two-paths --other-node-id node-2");
    let run = sanity(&csi, &line).succeeds();
    let told = "skipped: the driver has no volumes for SINGLE_NODE_WRITER";
    assert!(run.stdout.contains(told), "{run}");
    is_clean(&csi);
}
