//! Which mount options of a call are used for other calls.

use super::calls::*;
use csi_nfs::calls::controller::{Controller, ControllerConfig, NamedShare};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use csi_nfs_store::files::roots::{Opening, ShareRoots};
use csi_proto::v1::CreateVolumeRequest;
use std::sync::{Arc, Mutex};

/// A share that keeps what it was opened with.
struct Listening {
    roots: LocalRoots,
    asked: Mutex<Vec<Vec<String>>>,
}

impl ShareRoots for Listening {
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        self.asked.lock().unwrap().push(mount_options.to_vec());
        self.roots.open(export, mount_options)
    }
}

impl Listening {
    /// What it was opened with since the last look.
    fn heard(&self) -> Vec<String> {
        let mut asked = std::mem::take(&mut *self.asked.lock().unwrap());
        asked.dedup();
        asked.iter().map(|options| options.join(",")).collect()
    }
}

fn listening(host: &Host) -> (Arc<Listening>, ControllerConfig) {
    let export = Export::parse("10.0.0.4", "/nfs_share").unwrap();
    let share = Arc::new(Listening {
        roots: LocalRoots::new([(export, host.folder.path().to_owned())]),
        asked: Mutex::default(),
    });
    let config = ControllerConfig::new(share.clone());
    (share, config)
}

fn with_options(name: &str, options: &str) -> CreateVolumeRequest {
    let pairs = [
        ("server", "10.0.0.4"),
        ("share", "/nfs_share"),
        ("mountOptions", options),
    ];
    with_parameters(name, &pairs)
}

#[tokio::test]
async fn the_options_of_a_secret_are_no_other_calls() {
    let host = Host::new();
    let (share, config) = listening(&host);
    let controller = Controller::new(config);
    let mut secret = with_options("v", "");
    secret.secrets = map(&[("mountOptions", "port=12345")]);
    let volume = create(&controller, secret).await.unwrap();
    controller.settle().await;
    assert_eq!(share.heard(), ["port=12345"]);
    get(&controller, &volume.volume_id).await.unwrap();
    create(&controller, with_options("w", "")).await.unwrap();
    delete(&controller, &volume.volume_id).await.unwrap();
    controller.settle().await;
    assert_eq!(share.heard(), [""]);
}

#[tokio::test]
async fn no_call_weakens_the_security_of_others() {
    let (host, work) = (Host::new(), tempfile::tempdir().unwrap());
    let (share, mut config) = listening(&host);
    config.remember = Some(work.path().join("options"));
    let controller = Controller::new(config.clone());
    let volume = create(&controller, with_options("v", "sec=krb5p")).await;
    let id = volume.unwrap().volume_id;
    create(&controller, with_options("w", "hard,sec=sys"))
        .await
        .unwrap();
    controller.settle().await;
    share.heard();
    for controller in [controller, Controller::new(config.clone())] {
        get(&controller, &id).await.unwrap();
        controller.settle().await;
        assert_eq!(share.heard(), ["hard,sec=krb5p"]);
    }
    // Nor what the administrator asks for, also for itself.
    config.named_shares = vec![NamedShare {
        name: "home".to_owned(),
        export: Export::parse("10.0.0.4", "/nfs_share").unwrap(),
        mount_options: vec!["sec=krb5i".to_owned()],
        uuid: None,
    }];
    let controller = Controller::new(config);
    create(&controller, with_options("x", "sec=sys"))
        .await
        .unwrap();
    get(&controller, &id).await.unwrap();
    controller.settle().await;
    assert_eq!(share.heard(), ["sec=krb5i"]);
}
