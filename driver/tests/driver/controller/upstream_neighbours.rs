//! What lies around a folder that an id of kubernetes-csi's driver names, and in it: volumes and shares that its deletion would take
//! along.

use super::calls::*;
use super::snapshots::delete_snapshot;
use super::upstream::{in_front, made};
use crate::rig::patience::patiently;
use csi_nfs::calls::controller::{Controller, ControllerConfig};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use csi_nfs_store::files::roots::{Opening, ShareRoots};
use csi_nfs_store::share::records::volume::OnDelete;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tonic::{Code, Status};

/// Shares, and which folder of the host each one is.
type Shares = [(&'static str, &'static str, &'static str)];

/// The shares, of which one may hang.
struct Roots {
    local: LocalRoots,
    hangs: Export,
    is_hanging: watch::Sender<bool>,
    /// How often the one that hangs was opened meanwhile.
    waiting: watch::Sender<usize>,
}

impl ShareRoots for Roots {
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        Box::pin(async move {
            if *export == self.hangs {
                if *self.is_hanging.borrow() {
                    self.waiting.send_modify(|count| *count += 1);
                }
                let _ = self.is_hanging.subscribe().wait_for(|hangs| !hangs).await;
            }
            self.local.open(export, mount_options).await
        })
    }
}

fn roots(host: &Host, shares: &Shares) -> Arc<Roots> {
    let folders = shares.iter().map(|(server, path, folder)| {
        let folder = host.at(folder);
        std::fs::create_dir_all(&folder).unwrap();
        (Export::parse(server, path).unwrap(), folder)
    });
    let (server, path, _) = shares.last().unwrap();
    Arc::new(Roots {
        local: LocalRoots::new(folders),
        hangs: Export::parse(server, path).unwrap(),
        is_hanging: watch::Sender::default(),
        waiting: watch::Sender::default(),
    })
}

fn config(roots: Arc<Roots>, named: &[(&str, &str)]) -> ControllerConfig {
    let mut config = ControllerConfig::new(roots);
    let named = named.iter();
    let named = named.map(|(server, path)| Export::parse(server, path).unwrap());
    config.other_exports = named.collect();
    config
}

/// A driver that was told of the first share, and meets the others in requests.
fn driver(host: &Host, shares: &Shares) -> Controller {
    let (server, path, _) = shares[0];
    let config = config(roots(host, shares), &[(server, path)]);
    in_front(config, Some(OnDelete::Delete))
}

async fn volume(c: &Controller, (server, path): (&str, &str), folder: &str) -> String {
    let parameters = [("server", server), ("share", path), ("subDir", folder)];
    let made = create(c, with_parameters(folder, &parameters)).await;
    made.unwrap().volume_id
}

/// The volume is what it was.
async fn stays(host: &Host, c: &Controller, id: &str, folder: &str) {
    let (_, condition) = get(c, id).await.unwrap();
    assert!(!condition.abnormal, "{}", condition.message);
    assert!(host.at(folder).join("file").exists());
}

#[tokio::test]
async fn a_volume_of_a_share_around_the_named_one_stays() {
    let host = Host::new();
    let shares = [
        ("nas", "/", ""),
        ("nas", "/srv", "srv"),
        ("NAS", "/srv", "srv"),
    ];
    let c = &driver(&host, &shares);
    let folders = ["srv/y", "srv/x/vol", "srv/s"];
    let mut ids = Vec::new();
    for folder in folders {
        ids.push(volume(c, ("nas", "/"), folder).await);
        std::fs::write(host.at(folder).join("file"), "").unwrap();
    }
    for policy in ["", "delete", "archive"] {
        for (path, volume) in [
            ("y", "srv/y"),
            ("x", "srv/x/vol"),
            ("x/vol", "srv/x/vol"),
            ("x/vol/in", "srv/x/vol"),
        ] {
            std::fs::create_dir_all(host.at("srv").join(path)).unwrap();
            for server in ["nas", "NAS"] {
                let id = format!("{server}#srv#{path}##{policy}");
                let words = ["nas:/", &format!("volume {volume:?}")];
                refused(delete(c, &id).await, Code::InvalidArgument, &words);
            }
        }
    }
    // What looks like a snapshot, too.
    std::fs::rename(host.at("srv/s/file"), host.at("srv/s/v.tar.gz")).unwrap();
    refused(
        delete_snapshot(c, "nas#srv#s#s#v").await,
        Code::InvalidArgument,
        &["volume \"srv/s\""],
    );
    std::fs::rename(host.at("srv/s/v.tar.gz"), host.at("srv/s/file")).unwrap();
    for (id, folder) in ids.iter().zip(folders) {
        stays(&host, c, id, folder).await;
    }
    // What is nobody's goes.
    made(&host, "srv/pvc-1");
    delete(c, "nas#srv#pvc-1##").await.unwrap();
    c.settle().await;
    assert!(!host.at("srv/pvc-1").exists());
}

#[tokio::test]
async fn a_share_stays_that_is_known_by_another_servers_name() {
    let host = Host::new();
    let shares = [("nas", "/", ""), ("other", "/", "team/k8s")];
    let c = &driver(&host, &shares);
    made(&host, "team/pvc-1");
    let id = volume(c, ("other", "/"), "v").await;
    std::fs::write(host.at("team/k8s/v/file"), "").unwrap();
    std::fs::create_dir(host.at("team/k8s/free")).unwrap();
    for policy in ["", "delete", "archive"] {
        // It lies in the folder, or the folder in it.
        let of_team = format!("nas##team##{policy}");
        let words = ["the share k8s", "remove"];
        refused(delete(c, &of_team).await, Code::FailedPrecondition, &words);
        let of_volume = format!("nas##team/k8s/v##{policy}");
        let words = ["team/k8s/v", "volume \"v\""];
        refused(delete(c, &of_volume).await, Code::InvalidArgument, &words);
    }
    stays(&host, c, &id, "team/k8s/v").await;
    assert!(host.at("team/pvc-1/in/file").exists());
    delete(c, "nas##team/k8s/free##").await.unwrap();
    assert!(!host.at("team/k8s/free").exists());

    // A folder of that name alone is no share.
    delete(c, &id).await.unwrap();
    c.settle().await;
    std::fs::remove_dir_all(host.at("team/k8s/.csi-nfs")).unwrap();
    std::fs::create_dir(host.at("team/k8s/.csi-nfs")).unwrap();
    delete(c, "nas##team##").await.unwrap();
    c.settle().await;
    assert!(!host.at("team").exists());
}

/// A share around the folder does not answer, so nobody knows whose that is.
#[tokio::test]
async fn a_deletion_beside_a_share_that_hangs_is_answered_and_joined() {
    let host = Host::new();
    let shares = [("nas", "/srv", ""), ("nas", "/srv/team", "team")];
    let roots = roots(&host, &shares);
    let known = [("nas", "/srv"), ("nas", "/srv/team")];
    let mut config = config(roots.clone(), &known);
    config.timeout = Duration::from_millis(50);
    let c = &in_front(config, Some(OnDelete::Delete));
    // At its first use it looks at both shares.
    let own = with_parameters("own", &[("server", "nas"), ("share", "/srv")]);
    while create(c, own.clone()).await.is_err() {}
    made(&host, "team/legacy");
    roots.is_hanging.send_replace(true);
    let call = || patiently("DeleteVolume", delete(c, "nas#srv#team/legacy##"));
    let is_early = |answer: Result<(), Status>| {
        let code = answer.unwrap_err().code();
        assert!(matches!(code, Code::Aborted | Code::Unavailable), "{code}");
    };
    is_early(call().await);
    let mut waiting = roots.waiting.subscribe();
    patiently("the look", waiting.wait_for(|count| *count > 0))
        .await
        .unwrap();
    for _ in 0..12 {
        is_early(call().await);
    }
    assert_eq!(*waiting.borrow(), 1);
    assert!(host.at("team/legacy").exists());
    roots.is_hanging.send_replace(false);
    while let Err(early) = call().await {
        is_early(Err(early));
    }
    assert!(!host.at("team/legacy").exists());
}
