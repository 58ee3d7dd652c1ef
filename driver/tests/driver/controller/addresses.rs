//! Shares at several addresses: copies of a share's storage, and servers that are gone for good.

use super::calls::*;
use super::snapshots::{from_snapshot, from_volume, get_snapshot, listed, ready};
use csi_nfs::calls::controller::{Controller, ControllerConfig, NamedShare};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use csi_nfs_store::files::roots::{Opening, RootError, ShareRoots};
use csi_proto::v1::{
    ControllerGetVolumeRequest, CreateVolumeRequest, GetCapacityRequest, ListSnapshotsRequest,
    ListVolumesRequest,
};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tonic::{Code, Request};

/// Servers `nas` and so on, each with one share, some of which are away or do not answer.
#[derive(Default)]
struct Servers {
    folders: Vec<(Export, std::path::PathBuf)>,
    away: Mutex<BTreeSet<&'static str>>,
    silent: Mutex<BTreeSet<&'static str>>,
}

impl ShareRoots for Servers {
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        Box::pin(async move {
            if self.away.lock().unwrap().contains(export.server()) {
                return Err(RootError::Unreachable {
                    export: export.clone(),
                    after: Duration::ZERO,
                });
            }
            if self.silent.lock().unwrap().contains(export.server()) {
                std::future::pending::<()>().await;
            }
            let roots = LocalRoots::new(self.folders.clone());
            roots.open(export, mount_options).await
        })
    }
}

fn export(server: &str) -> Export {
    Export::parse(server, "/x").unwrap()
}

fn servers(all: &[(&str, &Host)]) -> Arc<Servers> {
    let folders = all
        .iter()
        .map(|(server, host)| (export(server), host.folder.path().to_owned()));
    Arc::new(Servers {
        folders: folders.collect(),
        ..Servers::default()
    })
}

fn on(name: &str, server: &str) -> CreateVolumeRequest {
    with_parameters(name, &[("server", server), ("share", "/x")])
}

/// The same request, for a volume on this server.
fn placed(request: CreateVolumeRequest, server: &str) -> CreateVolumeRequest {
    CreateVolumeRequest {
        parameters: on("", server).parameters,
        ..request
    }
}

fn copy(from: &Path, to: &Path) {
    let mut cp = Command::new("cp");
    assert!(
        cp.arg("-a")
            .arg(from.join("."))
            .arg(to)
            .status()
            .unwrap()
            .success()
    );
}

#[tokio::test]
async fn a_copy_of_a_shares_storage_is_not_taken_for_the_share() {
    let [host, cloned] = [(); 2].map(|()| Host::new());
    let all = servers(&[("nas", &host), ("alias", &host), ("clone", &cloned)]);
    let config = ControllerConfig::new(all.clone());
    let controller = Controller::new(config.clone());
    let volume = create(&controller, on("v", "nas")).await.unwrap();
    std::fs::write(host.at("v/file"), "as it was").unwrap();
    controller.settle().await;
    copy(host.folder.path(), cloned.folder.path());
    std::fs::write(host.at("v/file"), "as it is").unwrap();

    // The same share by another name is that share.
    create(&controller, on("w", "alias")).await.unwrap();
    assert_eq!(list(&controller).await.len(), 2);
    // A copy would hide, or be hidden; and a clone onto it would have old data.
    let words = ["clone:/x", "nas:/x", "share.json", "\"uuid\":\""];
    let answer = create(&controller, on("x", "clone")).await;
    refused(answer, Code::FailedPrecondition, &words);
    let onto = placed(from_volume("y", &volume.volume_id), "clone");
    let answer = create(&controller, onto).await;
    refused(answer, Code::FailedPrecondition, &words);
    assert!(!cloned.at("x").exists() && !cloned.at("y").exists());
    let on_copy = volume.volume_id.replace("nas/", "clone/");
    refused(
        delete(&controller, &on_copy).await,
        Code::FailedPrecondition,
        &words,
    );
    assert!(cloned.at("v").exists());
    // The share itself is used as before, and so it is listed.
    assert_eq!(list(&controller).await.len(), 2);

    // Named at the start, both are named, and no list leaves one out.
    let mut named = config.clone();
    named.named_shares = ["nas", "clone"]
        .map(|server| NamedShare {
            name: server.to_owned(),
            export: export(server),
            mount_options: Vec::new(),
            uuid: None,
        })
        .to_vec();
    let answer = page(&Controller::new(named.clone()), 0, "").await;
    refused(answer, Code::FailedPrecondition, &["clone:/x", "nas:/x"]);
    // Nor is the copy used where the first call is to it.
    let first = Controller::new(named.clone());
    refused(
        delete(&first, &on_copy).await,
        Code::FailedPrecondition,
        &words,
    );
    first.settle().await;
    assert!(cloned.at("v").exists());

    // What the message says helps.
    let message = create(&controller, on("x", "clone")).await.unwrap_err();
    let (_, fresh) = message.message().split_once("\"uuid\":\"").unwrap();
    let fresh = &fresh[..fresh.find('"').unwrap()];
    let label = cloned.at(".csi-nfs/share.json");
    let text = std::fs::read_to_string(&label).unwrap();
    let start = text.find("\"uuid\":\"").unwrap() + 8;
    let old = text[start..].split('"').next().unwrap();
    std::fs::write(&label, text.replace(old, fresh)).unwrap();
    create(&controller, on("x", "clone")).await.unwrap();
    // Both have their v; of w the copy knows nothing.
    assert_eq!(list(&controller).await.len(), 4);
    let both = Controller::new(named);
    let listed = list(&both).await;
    assert_eq!(listed.len(), 4);
    for id in listed {
        get(&both, &id).await.unwrap();
    }
}

/// The UUID in the id of a volume or snapshot.
fn uuid_of(id: &str) -> &str {
    let (_, tokens) = id.rsplit_once(['#', '@']).unwrap();
    &tokens[..tokens.find('.').unwrap()]
}

async fn listed_by(controller: &Controller, source: &str, snapshot: &str) -> Vec<String> {
    let request = ListSnapshotsRequest {
        source_volume_id: source.to_owned(),
        snapshot_id: snapshot.to_owned(),
        ..ListSnapshotsRequest::default()
    };
    listed(controller, request).await.0
}

/// A copy that got a UUID of its own has the keys and nonces of what it was made of, and its records name that as their sources.
#[tokio::test]
async fn a_copied_shares_snapshots_are_of_its_own_volumes() {
    let [host, cloned] = [(); 2].map(|()| Host::new());
    let all = servers(&[("nas", &host), ("alias", &host), ("clone", &cloned)]);
    let controller = Controller::new(ControllerConfig::new(all));
    let volume = create(&controller, on("v", "nas")).await.unwrap().volume_id;
    let snapshot = ready(&controller, "s", &volume).await.snapshot_id;
    let restored = placed(from_snapshot("r", &snapshot), "nas");
    let restored = create(&controller, restored).await.unwrap().volume_id;
    controller.settle().await;
    copy(host.folder.path(), cloned.folder.path());
    let label = cloned.at(".csi-nfs/share.json");
    let text = std::fs::read_to_string(&label).unwrap();
    let uuid = uuid_of(&volume);
    let fresh: String = uuid.chars().rev().collect();
    let fresh = format!("{}0", &fresh[1..]);
    assert_ne!(uuid, fresh);
    std::fs::write(&label, text.replace(uuid, &fresh)).unwrap();
    let of_copy = |id: &str| id.replace("nas/", "clone/").replace(uuid, &fresh);
    let original = (volume.clone(), snapshot.clone(), restored.clone());
    let copied = (of_copy(&volume), of_copy(&snapshot), of_copy(&restored));
    // Both are known from now on.
    get(&controller, &copied.0).await.unwrap();
    assert_eq!(listed_by(&controller, "", "").await.len(), 2);
    for (own, other) in [(&original, &copied), (&copied, &original)] {
        let (volume, snapshot, restored) = own;
        let only = std::slice::from_ref(snapshot);
        // However the share is called.
        let alias = volume.replace("nas/", "alias/");
        for volume in [volume, &alias] {
            assert_eq!(listed_by(&controller, volume, "").await, only);
            assert_eq!(listed_by(&controller, volume, snapshot).await, only);
            let of_other = listed_by(&controller, volume, &other.1).await;
            assert_eq!(of_other, [""; 0]);
        }
        let told = get_snapshot(&controller, snapshot).await.unwrap();
        assert_eq!(told.source_volume_id, *volume);
        let told = get(&controller, restored).await.unwrap().0;
        let source = from_snapshot("r", snapshot).volume_content_source;
        assert_eq!(told.content_source, source);
    }
    // A repeat with an id of the copy finds what was copied along; an id of the original is one of another share.
    let repeat = placed(from_snapshot("r", &copied.1), "clone");
    let found = create(&controller, repeat).await.unwrap();
    assert_eq!(found.volume_id, copied.2);
    let elsewhere = placed(from_snapshot("r", &original.1), "clone");
    let answer = create(&controller, elsewhere).await;
    refused(answer, Code::InvalidArgument, &["share"]);
}

#[tokio::test]
async fn a_repeat_may_call_the_share_of_its_source_by_another_name() {
    let host = Host::new();
    let all = servers(&[("nas", &host), ("alias", &host)]);
    let controller = Controller::new(ControllerConfig::new(all));
    let volume = create(&controller, on("v", "nas")).await.unwrap().volume_id;
    let snapshot = ready(&controller, "s", &volume).await.snapshot_id;
    let alias = |id: &str| id.replace("nas/", "alias/");
    let (clone, restored) = (from_volume("c", &volume), from_snapshot("r", &snapshot));
    for (first, again) in [
        (clone, from_volume("c", &alias(&volume))),
        (restored, from_snapshot("r", &alias(&snapshot))),
    ] {
        let first = create(&controller, placed(first, "nas")).await.unwrap();
        let again = create(&controller, placed(again, "nas")).await.unwrap();
        assert_eq!(again, first);
    }
    // Not the source of another kind.
    let other = create(&controller, placed(from_volume("r", &volume), "nas")).await;
    refused(other, Code::AlreadyExists, &["copy of snapshot", "volume"]);
}

/// Also where it is the only one that was named, and no call has been about it.
#[tokio::test]
async fn of_two_copies_the_one_that_was_named_is_used() {
    let [host, cloned] = [(); 2].map(|()| Host::new());
    let all = servers(&[("nas", &host), ("clone", &cloned)]);
    let mut config = ControllerConfig::new(all);
    let made = create(&Controller::new(config.clone()), on("v", "nas")).await;
    let volume = made.unwrap();
    copy(host.folder.path(), cloned.folder.path());
    config.other_exports = vec![export("nas")];
    let controller = Controller::new(config);
    let answer = create(&controller, on("x", "clone")).await;
    refused(answer, Code::FailedPrecondition, &["clone:/x", "nas:/x"]);
    assert!(!cloned.at("x").exists());
    assert_eq!(list(&controller).await, [volume.volume_id]);
    controller.settle().await;
}

#[tokio::test]
async fn a_share_whose_first_server_is_gone_is_used_at_another() {
    let [host, moved] = [(); 2].map(|()| Host::new());
    let all = servers(&[("old", &host), ("new", &moved)]);
    let controller = Controller::new(ControllerConfig::new(all.clone()));
    create(&controller, on("v", "old")).await.unwrap();
    controller.settle().await;
    copy(host.folder.path(), moved.folder.path());
    all.away.lock().unwrap().insert("old");
    create(&controller, on("w", "new")).await.unwrap();
    assert!(moved.at("w").is_dir());
}

#[tokio::test]
async fn lists_go_on_without_a_server_that_is_gone_for_good() {
    let [folder, kept] = [(); 2].map(|()| Host::new());
    let all = servers(&[("gone", &folder), ("kept", &kept)]);
    let told = Arc::new(Mutex::new(Vec::new()));
    let mut config = ControllerConfig::new(all.clone());
    let notices = Arc::clone(&told);
    config.notice = Arc::new(move |text| notices.lock().unwrap().push(text.to_owned()));
    let volumes = |controller: Controller| async move {
        let gone = create(&controller, on("g", "gone")).await.unwrap();
        let kept = create(&controller, on("k", "kept")).await.unwrap();
        controller.settle().await;
        (controller, gone.volume_id, kept.volume_id)
    };

    // For a while it may come back.
    let (controller, ..) = volumes(Controller::new(config.clone())).await;
    all.away.lock().unwrap().insert("gone");
    refused(
        page(&controller, 0, "").await,
        Code::Unavailable,
        &["gone:/x"],
    );
    all.away.lock().unwrap().clear();

    config.forget_after = Duration::ZERO;
    let (controller, gone, kept) = volumes(Controller::new(config.clone())).await;
    assert_eq!(list(&controller).await.len(), 2);
    all.away.lock().unwrap().insert("gone");
    assert_eq!(list(&controller).await, std::slice::from_ref(&kept));
    assert_eq!(list(&controller).await, [kept]);
    let lines = told.lock().unwrap().clone();
    let lines = lines
        .iter()
        .filter(|line| line.contains("go on without gone:/x"));
    assert_eq!(lines.count(), 1);
    // It is there again when a call uses it.
    all.away.lock().unwrap().clear();
    get(&controller, &gone).await.unwrap();
    assert_eq!(list(&controller).await.len(), 2);
    // Not so in its place what has come without its records.
    all.away.lock().unwrap().insert("gone");
    assert_eq!(list(&controller).await.len(), 1);
    all.away.lock().unwrap().clear();
    controller.settle().await;
    let (records, aside) = (folder.at(".csi-nfs"), folder.at("aside"));
    std::fs::rename(&records, &aside).unwrap();
    let answer = create(&controller, on("h", "gone")).await;
    refused(answer, Code::FailedPrecondition, &["missing"]);
    std::fs::rename(&aside, &records).unwrap();

    // One that the administrator has named stays.
    config.other_exports = vec![export("gone")];
    let (controller, ..) = volumes(Controller::new(config)).await;
    all.away.lock().unwrap().insert("gone");
    refused(
        page(&controller, 0, "").await,
        Code::Unavailable,
        &["gone:/x"],
    );
}

/// A controller that was started with these addresses, in this order.
fn started_with(all: &Arc<Servers>, names: &[&str]) -> Controller {
    let mut config = ControllerConfig::new(all.clone());
    config.other_exports = names.iter().map(|name| export(name)).collect();
    Controller::new(config)
}

#[tokio::test]
async fn lists_go_on_at_whichever_address_of_a_share_answers() {
    let host = Host::new();
    let all = servers(&[("a", &host), ("b", &host)]);
    let away = |names: &[&'static str]| {
        *all.away.lock().unwrap() = names.iter().copied().collect();
    };
    let controller = started_with(&all, &["a", "b"]);
    for (name, server) in [("v", "a"), ("w", "b"), ("x", "a")] {
        create(&controller, on(name, server)).await.unwrap();
    }
    controller.settle().await;
    let whole = list(&controller).await;
    assert_eq!(whole.len(), 3);
    for gone in ["a", "b", "a"] {
        away(&[]);
        let first = page(&controller, 1, "").await.unwrap();
        away(&[gone]);
        // A list that has begun goes on, too.
        let rest = page(&controller, 0, &first.next_token).await.unwrap();
        assert_eq!([ids(&first), ids(&rest)].concat(), whole, "without {gone}");
        assert_eq!(list(&controller).await, whole, "without {gone}");
    }
    away(&["a", "b"]);
    refused(page(&controller, 0, "").await, Code::Unavailable, &[":/x"]);
    away(&[]);
    assert_eq!(list(&controller).await, whole);
}

/// It was seen at both when the first call came, and is gone before anybody needs it there.
#[tokio::test]
async fn an_address_that_is_gone_before_it_was_compared_fails_no_list() {
    let host = Host::new();
    let all = servers(&[("a", &host), ("b", &host)]);
    let made = create(&started_with(&all, &["b"]), on("v", "b")).await;
    let made = made.unwrap();
    let controller = started_with(&all, &["b", "a"]);
    get(&controller, &made.volume_id).await.unwrap();
    controller.settle().await;
    all.away.lock().unwrap().insert("a");
    assert_eq!(list(&controller).await, [made.volume_id]);
}

#[tokio::test]
async fn the_room_of_a_share_with_two_addresses_counts_once() {
    let [host, other] = [(); 2].map(|()| Host::new());
    let all = servers(&[("a", &host), ("b", &host), ("c", &other)]);
    create(&started_with(&all, &["a"]), on("v", "a"))
        .await
        .unwrap();
    create(&started_with(&all, &["c"]), on("v", "c"))
        .await
        .unwrap();
    let asked = async |controller: Controller| {
        let request = GetCapacityRequest {
            parameters: map(&[("overcommit", "2")]),
            ..Default::default()
        };
        let answer = controller.get_capacity(Request::new(request)).await;
        let answer = answer.unwrap().into_inner();
        (answer.available_capacity, answer.maximum_volume_size)
    };
    let (room, most) = asked(started_with(&all, &["a"])).await;
    assert_eq!(most, Some(room));
    assert_eq!(asked(started_with(&all, &["a", "b"])).await, (room, most));
    let (more, none) = asked(started_with(&all, &["a", "b", "c"])).await;
    assert!(more > room && none.is_none(), "{more} {room}");
    assert_eq!(asked(started_with(&all, &["a", "c"])).await, (more, none));
    // Whichever address answers, once both are known.
    let controller = started_with(&all, &["a", "b"]);
    assert_eq!(list(&controller).await.len(), 1);
    all.away.lock().unwrap().insert("a");
    assert_eq!(asked(controller).await, (room, most));
}

#[tokio::test]
async fn a_call_that_takes_long_does_not_blame_a_share_that_it_is_not_about() {
    let host = Host::new();
    let all = servers(&[("live", &host), ("dead", &host)]);
    let controller = Controller::new(ControllerConfig::new(all.clone()));
    let made = create(&controller, on("v", "live")).await.unwrap();
    controller.settle().await;
    all.silent.lock().unwrap().extend(["live", "dead"]);
    let live = made.volume_id;
    let dead = live.replace("live/", "dead/");
    let soon = async |id: &str| {
        let mut request = Request::new(ControllerGetVolumeRequest {
            volume_id: id.to_owned(),
        });
        let limit = "100m".parse().unwrap();
        request.metadata_mut().insert("grpc-timeout", limit);
        let answer = controller.controller_get_volume(request).await;
        answer.unwrap_err().message().to_owned()
    };
    let waiting = {
        let (controller, dead) = (controller.clone(), dead.clone());
        tokio::spawn(async move { get(&controller, &dead).await.map(drop) })
    };
    let blamed = "the share dead:/x has not answered for ";
    while !soon(&dead).await.contains(blamed) {
        assert!(!waiting.is_finished());
    }
    let told = soon(&live).await;
    assert!(!told.contains("dead:/x"), "{told}");
    let mut request = Request::new(ListVolumesRequest::default());
    let limit = "100m".parse().unwrap();
    request.metadata_mut().insert("grpc-timeout", limit);
    let told = controller.list_volumes(request).await.unwrap_err();
    assert!(told.message().contains(blamed), "{told}");
    waiting.abort();
}
