//! Shares that lose their records, are slow, or were damaged.

use super::calls::*;
use super::snapshots::{from_volume, listed, ready};
use crate::rig::patience::patiently;
use csi_nfs::calls::controller::{Controller, ControllerConfig, NamedShare};
use csi_nfs::upstream::ids::UpstreamIds;
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use csi_nfs_store::files::roots::{Opening, RootError, ShareRoots};
use csi_proto::v1::{CreateVolumeRequest, GetCapacityRequest, ListSnapshotsRequest};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::Semaphore;
use tonic::{Code, Request};

#[tokio::test]
async fn removed_records_are_never_taken_for_deleted_volumes() {
    let host = Host::new();
    let controller = host.controller();
    let volume = create(&controller, request("v")).await.unwrap();
    let id = &volume.volume_id;
    controller.settle().await;
    std::fs::rename(host.at(".csi-nfs"), host.at("hidden")).unwrap();
    for controller in [controller, host.controller()] {
        let answer = delete(&controller, id).await;
        refused(answer, Code::FailedPrecondition, &["missing", ".csi-nfs"]);
        refused(
            get(&controller, id).await,
            Code::FailedPrecondition,
            &["missing"],
        );
        refused(
            expand(&controller, id, 1, 0).await,
            Code::FailedPrecondition,
            &["missing"],
        );
    }
    // One that has seen the records does not make new ones either.
    std::fs::rename(host.at("hidden"), host.at(".csi-nfs")).unwrap();
    let controller = host.controller();
    assert_eq!(list(&controller).await.len(), 1);
    controller.settle().await;
    std::fs::rename(host.at(".csi-nfs"), host.at("hidden")).unwrap();
    let answer = create(&controller, request("w")).await;
    refused(answer, Code::FailedPrecondition, &["missing"]);
    refused(
        page(&controller, 0, "").await,
        Code::FailedPrecondition,
        &["missing"],
    );
    assert!(!host.at(".csi-nfs").exists());
    // Another share at the same address.
    create(&host.controller(), request("w")).await.unwrap();
    refused(
        delete(&controller, id).await,
        Code::FailedPrecondition,
        &["another one"],
    );
    assert!(host.at("v").is_dir());
}

#[tokio::test]
async fn conditions_tell_what_is_wrong() {
    let host = Host::new();
    let controller = host.controller();
    let volume = create(&controller, request("v")).await.unwrap();
    controller.settle().await;
    std::fs::remove_dir(host.at("v")).unwrap();
    let (_, condition) = get(&controller, &volume.volume_id).await.unwrap();
    assert!(
        condition.abnormal && condition.message.contains("missing"),
        "{condition:?}"
    );
    // A record that was overwritten is listed as such, and hides no other.
    create(&controller, request("w")).await.unwrap();
    let (_, tokens) = volume.volume_id.rsplit_once('#').unwrap();
    let tokens: Vec<&str> = tokens.split('.').collect();
    let record = format!(".csi-nfs/volumes/{}/{}.2", tokens[1], tokens[2]);
    std::fs::write(host.at(&record), "{").unwrap();
    let page = page(&controller, 0, "").await.unwrap();
    assert_eq!(page.entries.len(), 2);
    for entry in page.entries {
        let abnormal = entry.status.unwrap().volume_condition.unwrap().abnormal;
        assert_eq!(
            abnormal,
            entry.volume.unwrap().volume_id == volume.volume_id
        );
    }
    let answer = get(&controller, &volume.volume_id).await;
    refused(answer, Code::FailedPrecondition, &["damaged"]);
}

/// The name of a share that stands in an id is on record, also in the generation before.
#[tokio::test]
async fn a_damaged_record_is_listed_by_its_own_id_or_told() {
    let host = Host::new();
    let mut config = host.config();
    config.named_shares = vec![NamedShare {
        name: "home".to_owned(),
        export: Export::parse("10.0.0.4", "nfs_share").unwrap(),
        mount_options: Vec::new(),
        uuid: None,
    }];
    config.other_exports.clear();
    let told = Arc::new(Mutex::new(Vec::new()));
    let notices = Arc::clone(&told);
    config.notice = Arc::new(move |text: &str| notices.lock().unwrap().push(text.to_owned()));
    let controller = Controller::new(config);
    let volume = create(&controller, request("v")).await.unwrap();
    assert!(volume.volume_id.starts_with("home#"), "{volume:?}");
    let made = ready(&controller, "s", &volume.volume_id).await;
    controller.settle().await;
    let record = |id: &str, shelf: &str, generation: u64| {
        let tokens: Vec<&str> = id.rsplit(['#', '@', '.']).collect();
        let path = format!(".csi-nfs/{shelf}/{}/{}.{generation}", tokens[1], tokens[0]);
        host.at(&path)
    };
    std::fs::write(record(&volume.volume_id, "volumes", 2), "{").unwrap();
    let page = page(&controller, 0, "").await.unwrap();
    let [entry] = page.entries.try_into().unwrap();
    assert_eq!(entry.volume.unwrap().volume_id, volume.volume_id);

    let path = record(&made.snapshot_id, "snapshots", 2);
    assert!(path.exists());
    std::fs::write(&path, "{").unwrap();
    let all = listed(&controller, ListSnapshotsRequest::default()).await;
    assert!(all.0.is_empty(), "{all:?}");
    let told = told.lock().unwrap();
    let is_named = |it: &String| it.contains("the record snapshots/") && it.contains("damaged");
    assert!(told.iter().any(is_named), "{told:?}");
}

#[tokio::test]
async fn a_start_finishes_what_a_crash_has_left() {
    let host = Host::new();
    let volume = create(&host.controller(), request("v")).await.unwrap();
    // As a crash leaves it between the record's change and the rest of the deletion.
    let (_, tokens) = volume.volume_id.rsplit_once('#').unwrap();
    let tokens: Vec<&str> = tokens.split('.').collect();
    let records = host.at(&format!(".csi-nfs/volumes/{}", tokens[1]));
    let text = std::fs::read_to_string(records.join(format!("{}.2", tokens[2]))).unwrap();
    let text = text.replace(r#""state": "ready""#, r#""state": "deleting""#);
    let text = text.replace(r#""generation": 2"#, r#""generation": 3"#);
    std::fs::write(records.join(format!("{}.3", tokens[2])), text).unwrap();
    let controller = host.controller();
    // Another controller's first use of the share finishes the deletion as well: it is seen before that, or is gone.
    let other = host.controller();
    match get(&other, &volume.volume_id).await {
        Ok((_, condition)) => assert!(
            condition.message.contains("repeat DeleteVolume"),
            "{condition:?}"
        ),
        Err(status) => assert_eq!(status.code(), Code::NotFound, "{status}"),
    }
    controller.start();
    controller.settle().await;
    other.settle().await;
    assert!(!host.at("v").exists() && !records.exists());
    assert_eq!(
        std::fs::read_dir(host.at(".csi-nfs/trash"))
            .unwrap()
            .count(),
        0
    );
}

/// A share whose root does not come, as with a dead server, until it is let go.
pub(super) struct Slow {
    roots: LocalRoots,
    pub(super) gate: Semaphore,
    pub(super) opened: AtomicUsize,
}

impl ShareRoots for Slow {
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        Box::pin(async move {
            self.opened.fetch_add(1, Ordering::SeqCst);
            let _passed = self.gate.acquire().await.unwrap();
            self.roots.open(export, mount_options).await
        })
    }
}

pub(super) fn slow(host: &Host) -> (Arc<Slow>, Controller) {
    let export = Export::parse("10.0.0.4", "/nfs_share").unwrap();
    let slow = Arc::new(Slow {
        roots: LocalRoots::new([(export, host.folder.path().to_owned())]),
        gate: Semaphore::new(0),
        opened: AtomicUsize::new(0),
    });
    let mut config = host.config();
    config.roots = slow.clone();
    (slow, Controller::new(config))
}

/// The same, used and settled, and stopped since.
pub(super) async fn stopped(host: &Host) -> (Arc<Slow>, Controller) {
    let (slow, controller) = slow(host);
    // The first use of a share is followed by its recovery and a purge, which open it as well.
    slow.gate.add_permits(100);
    list(&controller).await;
    controller.settle().await;
    slow.gate.forget_permits(usize::MAX);
    (slow, controller)
}

#[tokio::test]
async fn calls_on_a_slow_share_join_or_are_told_to_come_again() {
    let host = Host::new();
    let (slow, controller) = slow(&host);
    let hurried = |request: CreateVolumeRequest| {
        let mut request = Request::new(request);
        request
            .metadata_mut()
            .insert("grpc-timeout", "60m".parse().unwrap());
        request
    };
    for _ in 0..2 {
        let answer = controller.create_volume(hurried(request("v"))).await;
        refused(answer, Code::Aborted, &["CreateVolume", "goes on"]);
    }
    assert_eq!(
        slow.opened.load(Ordering::SeqCst),
        1,
        "the second call joins the first"
    );
    let other = create(&controller, sized("v", 1, 0)).await;
    refused(other, Code::Aborted, &["CreateVolume", "has been running"]);
    let mut look = Request::new(csi_proto::v1::ListVolumesRequest::default());
    look.metadata_mut()
        .insert("grpc-timeout", "60m".parse().unwrap());
    let answer = controller.list_volumes(look).await;
    refused(answer, Code::Unavailable, &["no answer after"]);
    // The callers have gone, the work goes on.
    slow.gate.add_permits(10);
    let volume = create(&controller, request("v")).await.unwrap();
    assert!(host.at("v").is_dir());
    delete(&controller, &volume.volume_id).await.unwrap();
}

#[tokio::test]
async fn lists_that_are_equal_walk_once_and_not_at_all_for_nobody() {
    let host = Host::new();
    let volume = create(&host.controller(), request("v")).await.unwrap();
    let (slow, controller) = stopped(&host).await;
    let before = slow.opened.load(Ordering::SeqCst);
    let opened = || slow.opened.load(Ordering::SeqCst) - before;
    let lists = || -> Vec<_> {
        let list = || {
            let controller = controller.clone();
            tokio::spawn(async move { list(&controller).await })
        };
        (0..24).map(|_| list()).collect()
    };
    let settle = || async {
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
    };
    // One begins, and the others, which have come before it ends, wait for what comes after it.
    let callers = lists();
    while opened() == 0 {
        tokio::task::yield_now().await;
    }
    settle().await;
    assert_eq!(opened(), 1);
    let late = lists();
    settle().await;
    assert_eq!(opened(), 1);
    for caller in callers.iter().chain(&late) {
        caller.abort();
    }
    for caller in callers.into_iter().chain(late) {
        assert!(caller.await.unwrap_err().is_cancelled());
    }
    slow.gate.add_permits(100);
    settle().await;
    assert_eq!(opened(), 1, "a list is begun for nobody");
    // Of these, too, one begins before the share may be opened, and all others have come by then.
    slow.gate.forget_permits(usize::MAX);
    let callers = lists();
    while opened() == 1 {
        tokio::task::yield_now().await;
    }
    settle().await;
    slow.gate.add_permits(100);
    for caller in callers {
        assert_eq!(caller.await.unwrap(), [volume.volume_id.as_str()]);
    }
    assert!(opened() <= 3, "{}", opened());
}

/// Two shares, of which one does not come.
struct HalfSlow {
    slow: Slow,
    other: LocalRoots,
}

impl ShareRoots for HalfSlow {
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        match self.other.is_local(export) {
            true => self.other.open(export, mount_options),
            false => self.slow.open(export, mount_options),
        }
    }
}

#[tokio::test]
async fn copies_on_a_dead_share_keep_no_other_share_waiting() {
    let (dead, alive) = (Host::new(), Host::new());
    let there = Export::parse("10.0.0.4", "/nfs_share").unwrap();
    let other = Export::parse("10.0.0.5", "/nfs_share").unwrap();
    let roots = Arc::new(HalfSlow {
        slow: Slow {
            roots: LocalRoots::new([(there, dead.folder.path().to_owned())]),
            gate: Semaphore::new(1),
            opened: AtomicUsize::new(0),
        },
        other: LocalRoots::new([(other, alive.folder.path().to_owned())]),
    });
    let controller = Controller::new(ControllerConfig::new(roots.clone()));
    let on = |server: &str, name: &str, source: Option<&str>| {
        let place = map(&[("server", server), ("share", "/nfs_share")]);
        CreateVolumeRequest {
            parameters: place,
            ..match source {
                Some(id) => from_volume(name, id),
                None => request(name),
            }
        }
    };
    let source = |server: &'static str| create(&controller, on(server, "v", None));
    let (first, second) = (
        source("10.0.0.4").await.unwrap().volume_id,
        source("10.0.0.5").await.unwrap().volume_id,
    );
    controller.settle().await;
    let everything = roots.slow.gate.acquire().await.unwrap();
    let opened = || roots.slow.opened.load(Ordering::SeqCst);
    let before = opened();
    let stuck: Vec<_> = (0..6)
        .map(|number| {
            let (controller, name) = (controller.clone(), format!("c{number}"));
            let request = on("10.0.0.4", &name, Some(&first));
            tokio::spawn(async move { create(&controller, request).await })
        })
        .collect();
    // Four are tried; the others have seen that they must wait for a turn, and first look for what may be there.
    while opened() < before + 6 {
        tokio::task::yield_now().await;
    }
    let copy = create(&controller, on("10.0.0.5", "c", Some(&second)));
    let copy = patiently("a copy that waits for no dead share", copy).await;
    copy.unwrap();
    assert!(alive.at("c").is_dir());
    drop(everything);
    for copy in stuck {
        copy.await.unwrap().unwrap();
    }
}

/// A server with one export, which takes the options that it knows and remembers with which it was asked.
struct Picky {
    roots: LocalRoots,
    asked: Mutex<Vec<Vec<String>>>,
}

impl ShareRoots for Picky {
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        Box::pin(async move {
            self.asked.lock().unwrap().push(mount_options.to_vec());
            if export.server() != "10.0.0.4" {
                return Err(RootError::Resolve {
                    export: export.clone(),
                    detail: "no such host".to_owned(),
                });
            }
            if mount_options.iter().any(|option| option == "nosuchoption") {
                return Err(RootError::Io {
                    export: export.clone(),
                    source: Arc::new(std::io::Error::new(ErrorKind::InvalidInput, "nosuchoption")),
                });
            }
            self.roots.open(export, mount_options).await
        })
    }
}

impl Picky {
    fn last(&self) -> Vec<String> {
        self.asked.lock().unwrap().last().unwrap().clone()
    }
}

fn picky(host: &Host) -> (Arc<Picky>, Controller) {
    let export = Export::parse("10.0.0.4", "/nfs_share").unwrap();
    let picky = Arc::new(Picky {
        roots: LocalRoots::new([(export, host.folder.path().to_owned())]),
        asked: Mutex::default(),
    });
    let mut config = ControllerConfig::new(picky.clone());
    // An option that the server refuses, and not the policy.
    config.policy.allowed_options = ["vers", "nosuchoption"].map(str::to_owned).into();
    (picky, Controller::new(config))
}

#[tokio::test]
async fn a_share_that_cannot_be_opened_is_not_kept() {
    let host = Host::new();
    let (_, controller) = picky(&host);
    let own = [("server", "10.0.0.4"), ("share", "/nfs_share")];
    let volume = create(&controller, with_parameters("v", &own))
        .await
        .unwrap();
    let typo = [("server", "no-such.invalid"), ("share", "/x")];
    let answer = create(&controller, with_parameters("w", &typo)).await;
    refused(answer, Code::Unavailable, &["no-such.invalid"]);
    let typo = [("server", "10.0.0.4"), ("share", "/typo")];
    let answer = create(&controller, with_parameters("w", &typo)).await;
    refused(answer, Code::FailedPrecondition, &["/typo"]);
    let forged = volume.volume_id.replace("nfs_share", "forged");
    let answer = delete(&controller, &forged).await;
    refused(answer, Code::FailedPrecondition, &["/forged"]);
    let capacity = GetCapacityRequest {
        parameters: map(&[("server", "10.0.0.4"), ("share", "/asked")]),
        ..Default::default()
    };
    let answer = controller.get_capacity(Request::new(capacity)).await;
    refused(answer, Code::FailedPrecondition, &["/asked"]);
    assert_eq!(list(&controller).await, [volume.volume_id]);
}

#[tokio::test]
async fn options_that_were_refused_are_not_kept() {
    let host = Host::new();
    let (server, controller) = picky(&host);
    let with = |name: &str, options: &str| {
        let pairs = [
            ("server", "10.0.0.4"),
            ("share", "/nfs_share"),
            ("mountOptions", options),
        ];
        with_parameters(name, &pairs)
    };
    let wrong = create(&controller, with("v", "nosuchoption")).await;
    refused(wrong, Code::InvalidArgument, &["nosuchoption"]);
    let volume = create(&controller, with("v", "vers=3")).await.unwrap();
    get(&controller, &volume.volume_id).await.unwrap();
    assert_eq!(server.last(), ["vers=3"]);
    let wrong = create(&controller, with("w", "nosuchoption")).await;
    refused(wrong, Code::InvalidArgument, &["nosuchoption"]);
    get(&controller, &volume.volume_id).await.unwrap();
    // The server speaks another version now.
    create(&controller, with("w", "vers=4.2")).await.unwrap();
    assert_eq!(list(&controller).await.len(), 2);
    assert_eq!(server.last(), ["vers=4.2"]);
    delete(&controller, &volume.volume_id).await.unwrap();
    controller.settle().await;
}

#[tokio::test]
async fn the_end_waits_for_operations_and_for_nothing_else() {
    let host = Host::new();
    create(&host.controller(), request("kept")).await.unwrap();
    let (slow, controller) = slow(&host);
    // A recovery that hangs on its server.
    controller.start();
    let hurried = {
        let mut request = Request::new(request("v"));
        let bound = "60m".parse().unwrap();
        request.metadata_mut().insert("grpc-timeout", bound);
        request
    };
    let answer = controller.create_volume(hurried).await;
    refused(answer, Code::Aborted, &["goes on"]);
    let end = controller.clone();
    let mut end = tokio::spawn(async move { end.stop().await });
    let early = tokio::time::timeout(Duration::from_millis(50), &mut end).await;
    assert!(early.is_err(), "the creation whose caller has gone runs");
    slow.gate.add_permits(10);
    end.await.unwrap();
    assert!(host.at("v").is_dir());
}

#[tokio::test]
async fn the_end_does_not_wait_for_a_share_that_is_away() {
    let (_, controller) = slow(&Host::new());
    controller.start();
    tokio::task::yield_now().await;
    controller.stop().await;
    let (_, controller) = picky(&Host::new());
    // A purge that cannot be done now is not waited for either.
    let id = "away/x#00000000000000000000000000.0000000000000000.0000000000000000";
    let answer = delete(&controller, id).await;
    refused(answer, Code::Unavailable, &["away"]);
    controller.stop().await;
}

/// A server that exports its path to version 3 only.
struct Old(LocalRoots);

impl ShareRoots for Old {
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        Box::pin(async move {
            if !mount_options.iter().any(|option| option == "vers=3") {
                return Err(RootError::NotExported(export.clone()));
            }
            self.0.open(export, mount_options).await
        })
    }
}

#[tokio::test]
async fn volumes_that_need_mount_options_are_found_after_a_restart() {
    let (host, work) = (Host::new(), tempfile::tempdir().unwrap());
    let export = Export::parse("10.0.0.4", "/nfs_share").unwrap();
    let folder = host.folder.path().to_owned();
    let old = Arc::new(Old(LocalRoots::new([(export, folder)])));
    let config = |remember: Option<&str>| {
        let mut config = ControllerConfig::new(old.clone());
        config.remember = remember.map(|name| work.path().join(name));
        config
    };
    let share = [("server", "10.0.0.4"), ("share", "/nfs_share")];
    let with_option = |name: &str| {
        let mut request = with_parameters(name, &share);
        let option = map(&[("mountOptions", "vers=3")]);
        request.parameters.extend(option);
        request
    };
    let first = Controller::new(config(Some("options")));
    let kept = create(&first, with_option("kept")).await.unwrap();
    let lost = create(&first, with_option("lost")).await.unwrap();
    // Another one that makes a volume without the option has it from the file.
    let second = Controller::new(config(Some("options")));
    create(&second, with_parameters("w", &share)).await.unwrap();
    get(&second, &kept.volume_id).await.unwrap();
    assert_eq!(list(&second).await.len(), 3);
    // Without the file the id is enough to find the share, and a name is not.
    let third = Controller::new(config(None));
    let answer = create(&third, with_parameters("x", &share)).await;
    refused(answer, Code::FailedPrecondition, &["no such export"]);
    assert_eq!(expand(&third, &lost.volume_id, 5, 0).await.unwrap(), 5);
    delete(&third, &lost.volume_id).await.unwrap();
    assert_eq!(list(&third).await.len(), 2);
    // What comes out of a secret is kept nowhere.
    let mut secret = with_parameters("s", &share);
    secret.secrets = map(&[("mountOptions", "vers=3")]);
    create(&Controller::new(config(Some("none"))), secret)
        .await
        .unwrap();
    assert!(!work.path().join("none").exists());
}

#[tokio::test]
async fn volumes_of_the_other_driver_are_found_by_version_3_too() {
    let host = Host::new();
    let export = Export::parse("10.0.0.4", "/nfs_share").unwrap();
    let folder = host.folder.path().to_owned();
    let old = Old(LocalRoots::new([(export, folder)]));
    let mut config = ControllerConfig::new(Arc::new(old));
    config.upstream = UpstreamIds::Served;
    let controller = Controller::new(config.clone());
    for name in ["pvc-1", "pvc-2"] {
        std::fs::create_dir(host.at(name)).unwrap();
    }
    // The first look finds a share without records, and the second one with them.
    for name in ["pvc-1", "pvc-2"] {
        let id = format!("10.0.0.4#nfs_share#{name}##");
        get(&controller, &id).await.unwrap();
        delete(&controller, &id).await.unwrap();
        assert!(!host.at(name).exists(), "{name}");
    }
    config.policy.denied_options = vec!["vers".to_owned()];
    let answer = get(&Controller::new(config), "10.0.0.4#nfs_share#pvc-1##").await;
    refused(answer, Code::FailedPrecondition, &["no such export"]);
}
