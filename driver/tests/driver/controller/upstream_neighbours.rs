//! What lies around a folder that an id of kubernetes-csi's driver names, and in it: volumes and shares that its deletion would take
//! along.

use super::calls::*;
use super::upstream::{in_front, made};
use crate::rig::patience::patiently;
use csi_nfs::calls::controller::ControllerConfig;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use csi_nfs_store::files::roots::{Root, RootError, ShareRoots};
use csi_nfs_store::share::records::volume::OnDelete;
use std::pin::Pin;
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
    fn open<'a>(
        &'a self,
        export: &'a Export,
        mount_options: &'a [String],
    ) -> Pin<Box<dyn Future<Output = Result<Root, RootError>> + Send + 'a>> {
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
