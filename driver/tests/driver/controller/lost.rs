//! Shares whose disk is away: an empty folder is in the place of what the driver knows.

use super::calls::*;
use super::snapshots::{
    delete_snapshot, from_snapshot, from_volume, get_snapshot, ready, snapshot,
};
use csi_nfs::calls::controller::{Controller, ControllerConfig};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use csi_proto::v1::GetCapacityRequest;
use std::sync::Arc;
use tonic::{Code, Request};

impl Host {
    fn lose(&self) {
        std::fs::rename(self.at(".csi-nfs"), self.at("hidden")).unwrap();
    }

    fn find_again(&self) {
        std::fs::rename(self.at("hidden"), self.at(".csi-nfs")).unwrap();
    }

    /// A controller that is told of the share by its calls alone.
    fn untold(&self) -> Controller {
        let mut config = self.config();
        config.other_exports.clear();
        Controller::new(config)
    }
}

/// A volume on the share, which this names by its address.
fn there(name: &str) -> csi_proto::v1::CreateVolumeRequest {
    with_parameters(name, &[("server", "10.0.0.4"), ("share", "/nfs_share")])
}

async fn nothing_is_made(host: &Host, controller: &Controller) {
    let answer = create(controller, there("w")).await;
    refused(answer, Code::FailedPrecondition, &["missing", ".csi-nfs"]);
    assert!(!host.at(".csi-nfs").exists());
}

#[tokio::test]
async fn a_share_that_was_seen_by_the_start_alone_is_not_made_anew() {
    let host = Host::new();
    let volume = create(&host.controller(), request("v")).await.unwrap();
    let controller = host.controller();
    controller.start();
    controller.settle().await;
    host.lose();
    let answer = page(&controller, 0, "").await;
    refused(answer, Code::FailedPrecondition, &["missing"]);
    nothing_is_made(&host, &controller).await;
    host.find_again();
    assert_eq!(list(&controller).await, [volume.volume_id]);
    controller.settle().await;
}

#[tokio::test]
async fn a_share_whose_room_was_told_is_not_made_anew() {
    let host = Host::new();
    create(&host.controller(), request("v")).await.unwrap();
    let controller = host.controller();
    let capacity = GetCapacityRequest {
        parameters: map(&[("overcommit", "2")]),
        ..Default::default()
    };
    let answer = controller.get_capacity(Request::new(capacity)).await;
    answer.unwrap();
    host.lose();
    nothing_is_made(&host, &controller).await;
    controller.settle().await;
}

#[tokio::test]
async fn a_question_about_any_id_keeps_no_volume_from_a_share_that_was_never_used() {
    // Ids that no share at this address has ever had.
    let other = Host::new();
    let controller = other.controller();
    let volume = create(&controller, request("v")).await.unwrap().volume_id;
    let made = ready(&controller, "s", &volume).await.snapshot_id;
    controller.settle().await;
    let host = Host::new();
    for controller in [host.controller(), host.untold()] {
        let words = ["missing", "an id", "names it as holding volumes"];
        let asked = get(&controller, &volume).await;
        refused(asked, Code::FailedPrecondition, &words);
        let asked = get_snapshot(&controller, &made).await;
        refused(asked, Code::FailedPrecondition, &words);
        create(&controller, there("w")).await.unwrap();
        controller.settle().await;
        std::fs::remove_dir_all(host.at(".csi-nfs")).unwrap();
    }
}

#[tokio::test]
async fn an_id_tells_of_a_share_for_good() {
    let host = Host::new();
    let first = host.controller();
    let volume = create(&first, request("v")).await.unwrap().volume_id;
    let made = ready(&first, "s", &volume).await.snapshot_id;
    first.settle().await;
    host.lose();
    let missing = |answer: Result<(), tonic::Status>| {
        refused(answer, Code::FailedPrecondition, &["missing", ".csi-nfs"]);
    };
    for call in 0..5 {
        for controller in [host.controller(), host.untold()] {
            missing(match call {
                0 => delete(&controller, &volume).await,
                1 => snapshot(&controller, "t", &volume).await.map(drop),
                2 => delete_snapshot(&controller, &made).await,
                // A copy is made where its source is.
                _ => {
                    let mut copy = match call {
                        3 => from_volume("c", &volume),
                        _ => from_snapshot("c", &made),
                    };
                    copy.parameters = there("c").parameters;
                    create(&controller, copy).await.map(drop)
                }
            });
            nothing_is_made(&host, &controller).await;
            controller.settle().await;
        }
    }
    let controller = host.controller();
    missing(delete(&controller, &volume).await);
    missing(page(&controller, 0, "").await.map(drop));
    host.find_again();
    assert_eq!(list(&controller).await, [volume.as_str()]);
    // An id may be one of a share that was given up long ago: another one that is there is used.
    host.lose();
    let controller = host.controller();
    missing(delete(&controller, &volume).await);
    let other = create(&host.controller(), request("w")).await.unwrap();
    assert_eq!(list(&controller).await, [other.volume_id]);
    let answer = delete(&controller, &volume).await;
    refused(answer, Code::FailedPrecondition, &["another one"]);
    controller.settle().await;
}

#[tokio::test]
async fn a_share_gets_no_records_for_a_copy_of_what_is_on_another_one() {
    let [host, other] = [(); 2].map(|()| Host::new());
    let exports = ["/a", "/b"].map(|path| Export::parse("10.0.0.4", path).unwrap());
    let folders = [&host, &other].map(|host| host.folder.path().to_owned());
    let roots = LocalRoots::new(exports.into_iter().zip(folders));
    let controller = Controller::new(ControllerConfig::new(Arc::new(roots)));
    let on = |path| map(&[("server", "10.0.0.4"), ("share", path)]);
    let mut request = request("v");
    request.parameters = on("/a");
    let volume = create(&controller, request).await.unwrap();
    let mut copy = from_volume("c", &volume.volume_id);
    copy.parameters = on("/b");
    let answer = create(&controller, copy).await;
    refused(answer, Code::InvalidArgument, &["another share"]);
    assert_eq!(std::fs::read_dir(other.folder.path()).unwrap().count(), 0);
    controller.settle().await;
}
