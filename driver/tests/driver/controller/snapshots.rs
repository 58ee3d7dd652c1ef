//! Snapshots, restores, clones, changes and adoption through the calls.

use super::calls::*;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::*;
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::time::Duration;
use tonic::{Code, Request, Status};

/// How often a copy is made that is to take longer than its caller waits.
const TRIES: usize = 20;

pub fn snapshot_request(name: &str, volume_id: &str) -> CreateSnapshotRequest {
    CreateSnapshotRequest {
        name: name.to_owned(),
        source_volume_id: volume_id.to_owned(),
        ..Default::default()
    }
}

pub async fn snapshot(c: &impl Service, name: &str, volume_id: &str) -> Result<Snapshot, Status> {
    let request = Request::new(snapshot_request(name, volume_id));
    Ok(c.create_snapshot(request)
        .await?
        .into_inner()
        .snapshot
        .unwrap())
}

/// A snapshot that is ready at the first answer.
pub async fn ready(c: &impl Service, name: &str, volume_id: &str) -> Snapshot {
    let made = snapshot(c, name, volume_id).await.unwrap();
    assert!(made.ready_to_use);
    made
}

pub async fn delete_snapshot(c: &impl Service, snapshot_id: &str) -> Result<(), Status> {
    let request = DeleteSnapshotRequest {
        snapshot_id: snapshot_id.to_owned(),
        ..Default::default()
    };
    c.delete_snapshot(Request::new(request)).await.map(drop)
}

pub async fn get_snapshot(c: &impl Service, snapshot_id: &str) -> Result<Snapshot, Status> {
    let request = GetSnapshotRequest {
        snapshot_id: snapshot_id.to_owned(),
        ..Default::default()
    };
    let answer = c.get_snapshot(Request::new(request)).await?;
    Ok(answer.into_inner().snapshot.unwrap())
}

pub async fn listed(c: &impl Service, request: ListSnapshotsRequest) -> (Vec<String>, String) {
    let answer = c.list_snapshots(Request::new(request)).await.unwrap();
    let answer = answer.into_inner();
    let snapshots = answer.entries.into_iter().map(|entry| entry.snapshot);
    let ids = snapshots.map(|snapshot| snapshot.unwrap().snapshot_id);
    (ids.collect(), answer.next_token)
}

pub fn from_snapshot(name: &str, snapshot_id: &str) -> CreateVolumeRequest {
    let source = SnapshotSource {
        snapshot_id: snapshot_id.to_owned(),
    };
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource {
            r#type: Some(Type::Snapshot(source)),
        }),
        ..request(name)
    }
}

pub fn from_volume(name: &str, volume_id: &str) -> CreateVolumeRequest {
    let source = VolumeSource {
        volume_id: volume_id.to_owned(),
    };
    CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource {
            r#type: Some(Type::Volume(source)),
        }),
        ..request(name)
    }
}

fn mode(host: &Host, path: &str) -> u32 {
    host.at(path).metadata().unwrap().mode() & 0o7777
}

#[tokio::test]
async fn a_snapshot_without_its_data_is_not_said_to_be_ready() {
    let host = Host::new();
    let controller = host.controller();
    let volume = create(&controller, request("v")).await.unwrap().volume_id;
    let id = ready(&controller, "s", &volume).await.snapshot_id;
    let other = ready(&controller, "t", &volume).await.snapshot_id;
    let key = id.rsplit('.').nth(1).unwrap();
    let record = host.at(&format!(".csi-nfs/snapshots/{key}"));
    let beside = std::fs::read_dir(&record).unwrap();
    let mut beside = beside.map(|entry| entry.unwrap().path());
    let data = beside.find(|it| it.is_dir()).unwrap();
    std::fs::rename(&data, host.at("away")).unwrap();
    let is_said = ["data are missing", "delete the snapshot"];
    for controller in [&controller, &host.controller()] {
        let listed = listed(controller, ListSnapshotsRequest::default()).await.0;
        assert_eq!(listed, std::slice::from_ref(&other));
        let got = get_snapshot(controller, &id).await;
        refused(got, Code::FailedPrecondition, &is_said);
        let again = snapshot(controller, "s", &volume).await;
        refused(again, Code::FailedPrecondition, &is_said);
    }
    let restored = create(&controller, from_snapshot("r", &id)).await;
    refused(restored, Code::NotFound, &[]);
    std::fs::rename(host.at("away"), &data).unwrap();
    assert_eq!(ready(&controller, "s", &volume).await.snapshot_id, id);
    std::fs::remove_dir(&data).unwrap();
    delete_snapshot(&controller, &id).await.unwrap();
    assert_ne!(ready(&controller, "s", &volume).await.snapshot_id, id);
}

/// An attempt that died is taken over at the first look, too, and then nobody has waited for it.
#[tokio::test]
async fn what_is_in_the_trash_after_a_copy_is_purged() {
    let host = Host::new();
    let controller = host.controller();
    let volume = create(&controller, request("v")).await.unwrap();
    controller.settle().await;
    let attempt = host.at(".csi-nfs/trash/attempt.purge");
    std::fs::create_dir(&attempt).unwrap();
    ready(&controller, "s", &volume.volume_id).await;
    controller.settle().await;
    assert!(!attempt.exists());
}

#[tokio::test]
async fn a_snapshot_lives_through_every_call() {
    let host = Host::new();
    let c = &host.controller();
    let volume = create(c, sized("v", 1000, 0)).await.unwrap();
    std::fs::write(host.at("v/file"), "first").unwrap();
    std::fs::set_permissions(host.at("v"), PermissionsExt::from_mode(0o2770)).unwrap();
    let made = ready(c, "s", &volume.volume_id).await;
    assert_eq!(made.source_volume_id, volume.volume_id);
    assert_eq!(made.size_bytes, 1000);
    assert!(made.creation_time.unwrap().seconds > 1_700_000_000);
    assert!(made.snapshot_id.len() <= 128);
    assert_eq!(get_snapshot(c, &made.snapshot_id).await.unwrap(), made);
    assert_eq!(
        ready(&host.controller(), "s", &volume.volume_id).await,
        made
    );
    let other = create(c, request("w")).await.unwrap();
    refused(
        snapshot(c, "s", &other.volume_id).await,
        Code::AlreadyExists,
        &["snapshot of volume", &volume.volume_id],
    );
    // The volume goes on, and goes.
    std::fs::write(host.at("v/file"), "second").unwrap();
    delete(c, &volume.volume_id).await.unwrap();
    let restored = create(c, from_snapshot("r", &made.snapshot_id))
        .await
        .unwrap();
    assert_eq!(restored.capacity_bytes, 1000);
    assert_eq!(
        restored.content_source,
        from_snapshot("r", &made.snapshot_id).volume_content_source
    );
    assert_eq!(get(c, &restored.volume_id).await.unwrap().0, restored);
    assert_eq!(std::fs::read(host.at("r/file")).unwrap(), b"first");
    assert_eq!(mode(&host, "r"), 0o2770);
    // Parameters that are given count for the folder itself.
    let with_mode = CreateVolumeRequest {
        parameters: map(&[("mountPermissions", "0700")]),
        ..from_snapshot("m", &made.snapshot_id)
    };
    create(c, with_mode).await.unwrap();
    assert_eq!(mode(&host, "m"), 0o700);
    delete_snapshot(c, &made.snapshot_id).await.unwrap();
    delete_snapshot(c, &made.snapshot_id).await.unwrap();
    refused(
        get_snapshot(c, &made.snapshot_id).await,
        Code::NotFound,
        &["no such snapshot"],
    );
    refused(
        create(c, from_snapshot("late", &made.snapshot_id)).await,
        Code::NotFound,
        &["snapshot", "does not exist"],
    );
    assert!(!host.at("late").exists());
    assert_eq!(std::fs::read(host.at("r/file")).unwrap(), b"first");
}

#[tokio::test]
async fn a_clone_is_checked_against_its_source() {
    let host = Host::new();
    let c = &host.controller();
    let volume = create(c, sized("v", 1000, 0)).await.unwrap();
    let id = &volume.volume_id;
    std::fs::write(host.at("v/file"), "data").unwrap();
    let clone = create(c, from_volume("c", id)).await.unwrap();
    assert_eq!(std::fs::read(host.at("c/file")).unwrap(), b"data");
    assert_eq!(create(c, from_volume("c", id)).await.unwrap(), clone);
    let ranged = |required_bytes, limit_bytes| CreateVolumeRequest {
        capacity_range: Some(CapacityRange {
            required_bytes,
            limit_bytes,
        }),
        ..from_volume("d", id)
    };
    refused(
        create(c, ranged(999, 0)).await,
        Code::OutOfRange,
        &["1000", "999"],
    );
    refused(create(c, ranged(0, 999)).await, Code::OutOfRange, &["1000"]);
    let larger = create(c, ranged(2000, 0)).await.unwrap();
    assert_eq!(larger.capacity_bytes, 2000);
    // Another source, or none, under the same name.
    refused(
        create(c, from_volume("c", &clone.volume_id)).await,
        Code::AlreadyExists,
        &["copy of"],
    );
    refused(
        create(c, request("c")).await,
        Code::AlreadyExists,
        &["copy of", "nothing"],
    );
    refused(
        create(c, from_volume("e", "nobody's")).await,
        Code::NotFound,
        &["nobody's"],
    );
    let (listed, _) = (list(c).await, ());
    assert_eq!(listed.len(), 3);
}

#[tokio::test]
async fn snapshots_are_listed_by_id_by_source_and_in_pages() {
    let host = Host::new();
    let c = &host.controller();
    let all = |max_entries, starting_token: &str| ListSnapshotsRequest {
        max_entries,
        starting_token: starting_token.to_owned(),
        ..Default::default()
    };
    assert_eq!(listed(c, all(0, "")).await, (vec![], String::new()));
    let v = create(c, request("v")).await.unwrap().volume_id;
    let w = create(c, request("w")).await.unwrap().volume_id;
    let mut made = BTreeSet::new();
    for index in 0..7 {
        let source = if index < 5 { &v } else { &w };
        made.insert(ready(c, &format!("s{index}"), source).await.snapshot_id);
    }
    let mut seen = Vec::new();
    let mut token = String::new();
    loop {
        let (ids, next) = listed(c, all(3, &token)).await;
        assert!(ids.len() <= 3);
        seen.extend(ids);
        token = next;
        if token.is_empty() {
            break;
        }
        // One that was listed goes meanwhile, and no other is missed or seen twice.
        delete_snapshot(c, &seen[0]).await.unwrap();
    }
    assert_eq!(seen.len(), 7);
    assert_eq!(seen.iter().cloned().collect::<BTreeSet<_>>(), made);
    let by_id = |snapshot_id: &str| ListSnapshotsRequest {
        snapshot_id: snapshot_id.to_owned(),
        ..Default::default()
    };
    assert_eq!(listed(c, by_id(&seen[6])).await.0, [seen[6].clone()]);
    assert!(listed(c, by_id(&seen[0])).await.0.is_empty());
    assert!(listed(c, by_id("nobody's")).await.0.is_empty());
    let by_source = |source_volume_id: &str| ListSnapshotsRequest {
        source_volume_id: source_volume_id.to_owned(),
        ..Default::default()
    };
    let of_v = listed(c, by_source(&v)).await.0.len();
    let of_w = listed(c, by_source(&w)).await.0.len();
    assert_eq!(of_v + of_w, 6);
    assert!((1..=2).contains(&of_w));
    assert!(listed(c, by_source("nobody's")).await.0.is_empty());
    let wrong = c.list_snapshots(Request::new(all(0, "wrong"))).await;
    refused(wrong, Code::Aborted, &["wrong"]);
    let wrong = c.list_snapshots(Request::new(all(-1, ""))).await;
    refused(wrong, Code::InvalidArgument, &["max_entries"]);
}

#[tokio::test]
async fn snapshot_requests_are_checked() {
    let host = Host::new();
    let c = &host.controller();
    let v = create(c, request("v")).await.unwrap().volume_id;
    refused(
        snapshot(c, "", &v).await,
        Code::InvalidArgument,
        &["name is missing"],
    );
    refused(
        snapshot(c, "s", "").await,
        Code::InvalidArgument,
        &["source_volume_id is missing"],
    );
    refused(
        snapshot(c, "s", "nobody's").await,
        Code::NotFound,
        &["nobody's"],
    );
    refused(
        delete_snapshot(c, "").await,
        Code::InvalidArgument,
        &["snapshot_id"],
    );
    delete_snapshot(c, "nobody's").await.unwrap();
    refused(
        get_snapshot(c, "nobody's").await,
        Code::NotFound,
        &["nobody's"],
    );
    // A volume's id is no snapshot's.
    refused(get_snapshot(c, &v).await, Code::NotFound, &["snapshot id"]);
    for (parameters, words) in [
        (map(&[("subDir", "x")]), ["subDir", "mountOptions"]),
        (
            map(&[("server", "10.0.0.9"), ("share", "/x")]),
            ["10.0.0.9", "volume's share"],
        ),
    ] {
        let request = CreateSnapshotRequest {
            parameters,
            ..snapshot_request("s", &v)
        };
        let answer = c.create_snapshot(Request::new(request)).await;
        refused(answer, Code::InvalidArgument, &words);
    }
    // One of the share's own, and what the snapshotter adds.
    let request = CreateSnapshotRequest {
        parameters: map(&[
            ("server", "10.0.0.4"),
            ("share", "nfs_share"),
            ("csi.storage.k8s.io/volumesnapshot/name", "x"),
        ]),
        ..snapshot_request("s", &v)
    };
    c.create_snapshot(Request::new(request)).await.unwrap();
    delete(c, &v).await.unwrap();
    refused(
        snapshot(c, "t", &v).await,
        Code::NotFound,
        &["does not exist"],
    );
}

#[tokio::test]
async fn many_calls_for_one_snapshot_make_one() {
    let host = Host::new();
    let c = host.controller();
    let v = create(&c, request("v")).await.unwrap().volume_id;
    for index in 0..300 {
        std::fs::write(host.at(&format!("v/{index}")), "x").unwrap();
    }
    let calls: Vec<_> = (0..32)
        .map(|index| {
            let c = if index % 2 == 0 {
                c.clone()
            } else {
                host.controller()
            };
            let v = v.clone();
            tokio::spawn(async move { ready(&c, "s", &v).await })
        })
        .collect();
    let mut made = Vec::new();
    for call in calls {
        made.push(call.await.unwrap());
    }
    assert!(made.iter().all(|one| *one == made[0]));
    let (ids, _) = listed(&c, ListSnapshotsRequest::default()).await;
    assert_eq!(ids.len(), 1);
}

#[tokio::test]
async fn a_copy_outlives_its_caller() {
    let host = Host::new();
    let c = host.controller();
    let v = create(&c, request("v")).await.unwrap().volume_id;
    for index in 0..2000 {
        std::fs::write(host.at(&format!("v/{index}")), "x").unwrap();
    }
    let short = |request| {
        let mut request = Request::new(request);
        request.set_timeout(Duration::from_millis(25));
        request
    };
    // On a busy machine a copy may be made before this thread sees that its time is over: then another one.
    for round in 0..TRIES {
        let (mut waited, name) = (0, format!("c{round}"));
        let restored = loop {
            match c.create_volume(short(from_volume(&name, &v))).await {
                Ok(answer) => break answer.into_inner().volume.unwrap(),
                Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
            }
            waited += 1;
            let last = format!("{name}/1999");
            assert!(!host.at(&name).exists() || host.at(&last).exists());
        };
        assert_eq!(std::fs::read_dir(host.at(&name)).unwrap().count(), 2000);
        assert_eq!(create(&c, from_volume(&name, &v)).await.unwrap(), restored);
        if waited > 0 {
            return;
        }
    }
    panic!("no caller has gone before the end of its copy");
}

/// An orchestrator lets the application write again at the first answer that is OK.
#[tokio::test]
async fn a_snapshot_is_answered_when_its_copy_is_complete() {
    // On a busy machine a copy may be made before anybody sees that the first answer is due: then another one.
    for _ in 0..TRIES {
        if is_answered_when_its_copy_is_complete().await > 0 {
            return;
        }
    }
    panic!("no copy has taken longer than the first caller had");
}

/// The same, once. Returns how many answers came before the copy was complete.
async fn is_answered_when_its_copy_is_complete() -> usize {
    const FILES: usize = 300;
    let host = Host::new();
    let controllers = [host.controller(), host.controller()];
    let v = create(&controllers[0], request("v")).await.unwrap();
    let files: Vec<_> = (0..FILES).map(|i| host.at(&format!("v/{i}"))).collect();
    for file in &files {
        std::fs::write(file, "before").unwrap();
    }
    let mut waited = 0;
    let mut ask = controllers.iter().cycle();
    let made = loop {
        let c = ask.next().unwrap();
        let mut request = Request::new(snapshot_request("s", &v.volume_id));
        request.set_timeout(Duration::from_millis(25));
        match c.create_snapshot(request).await {
            Ok(answer) => break answer.into_inner().snapshot.unwrap(),
            Err(status) => assert_eq!(status.code(), Code::Aborted, "{status}"),
        }
        waited += 1;
        for c in &controllers {
            let (ids, _) = listed(c, ListSnapshotsRequest::default()).await;
            // It may have been finished since.
            for id in ids {
                assert!(get_snapshot(c, &id).await.unwrap().ready_to_use);
            }
        }
    };
    for file in &files {
        std::fs::write(file, "after").unwrap();
    }
    assert!(made.ready_to_use);
    let restored = create(&controllers[1], from_snapshot("r", &made.snapshot_id)).await;
    assert_eq!(restored.unwrap().capacity_bytes, v.capacity_bytes);
    for index in 0..FILES {
        let content = std::fs::read_to_string(host.at(&format!("r/{index}"))).unwrap();
        assert_eq!(content, "before", "{index}");
    }
    waited
}

#[tokio::test]
async fn a_volume_can_be_modified_within_limits() {
    let host = Host::new();
    let c = &host.controller();
    let created = with_parameters("v", &[("mountPermissions", "0750")]);
    let v = create(c, created.clone()).await.unwrap();
    let modify = |pairs: &[(&str, &str)], id: &str| ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        mutable_parameters: map(pairs),
        ..Default::default()
    };
    let id = &v.volume_id;
    let call = |request| c.controller_modify_volume(Request::new(request));
    call(modify(
        &[("mountPermissions", "0705"), ("onDelete", "retain")],
        id,
    ))
    .await
    .unwrap();
    assert_eq!(mode(&host, "v"), 0o705);
    // The retry of the creation still matches.
    assert_eq!(create(c, created).await.unwrap().volume_id, *id);
    for (request, code, words) in [
        (
            modify(&[("iops", "9")], id),
            Code::InvalidArgument,
            ["iops", "uid"],
        ),
        (
            modify(&[("subDir", "x")], id),
            Code::InvalidArgument,
            ["subDir", "onDelete"],
        ),
        (
            modify(&[("uid", "x")], id),
            Code::InvalidArgument,
            ["uid", "number"],
        ),
        (modify(&[], "nobody's"), Code::NotFound, ["nobody's", "id"]),
        (
            modify(&[("uid", "1")], "nobody's"),
            Code::NotFound,
            ["nobody's", "id"],
        ),
    ] {
        refused(call(request).await, code, &words);
    }
    // No parameters are no change.
    call(modify(&[], id)).await.unwrap();
    std::fs::write(host.at("v/file"), "kept").unwrap();
    delete(c, id).await.unwrap();
    assert_eq!(std::fs::read(host.at("v/file")).unwrap(), b"kept");
    // The same keys when a volume is made.
    let with_mutable = CreateVolumeRequest {
        mutable_parameters: map(&[("mountPermissions", "0711")]),
        ..request("w")
    };
    create(c, with_mutable).await.unwrap();
    assert_eq!(mode(&host, "w"), 0o711);
}

#[tokio::test]
async fn a_folder_that_exists_can_be_adopted() {
    let host = Host::new();
    let c = &host.controller();
    std::fs::create_dir_all(host.at("old/data")).unwrap();
    std::fs::write(host.at("old/data/file"), "own").unwrap();
    std::fs::set_permissions(host.at("old/data"), PermissionsExt::from_mode(0o710)).unwrap();
    let adopt = |name: &str, sub_dir: &str| {
        with_parameters(name, &[("adopt", "true"), ("subDir", sub_dir)])
    };
    refused(
        create(c, adopt("v", "old/none")).await,
        Code::FailedPrecondition,
        &["old/none", "adopt"],
    );
    let v = create(c, adopt("v", "old/data")).await.unwrap();
    assert_eq!(create(c, adopt("v", "old/data")).await.unwrap(), v);
    refused(
        create(c, adopt("w", "old/data")).await,
        Code::InvalidArgument,
        &["is the folder of"],
    );
    refused(
        create(c, adopt("w", "old")).await,
        Code::InvalidArgument,
        &["contains the folder of"],
    );
    let request = ControllerModifyVolumeRequest {
        volume_id: v.volume_id.clone(),
        mutable_parameters: map(&[("onDelete", "delete")]),
        ..Default::default()
    };
    let answer = c.controller_modify_volume(Request::new(request)).await;
    refused(answer, Code::InvalidArgument, &["adopted", "onDelete"]);
    // It can be copied as any other.
    let made = ready(c, "s", &v.volume_id).await;
    create(c, from_snapshot("r", &made.snapshot_id))
        .await
        .unwrap();
    assert_eq!(std::fs::read(host.at("r/file")).unwrap(), b"own");
    delete(c, &v.volume_id).await.unwrap();
    assert_eq!(std::fs::read(host.at("old/data/file")).unwrap(), b"own");
    assert_eq!(mode(&host, "old/data"), 0o710);
    // And adopted again.
    create(c, adopt("v", "old/data")).await.unwrap();
}
