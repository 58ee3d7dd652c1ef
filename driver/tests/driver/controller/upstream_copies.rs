//! Copies of volumes and snapshots that kubernetes-csi's driver has made: clones, snapshots and restores, through the calls.

use super::calls::*;
use super::snapshots::{
    delete_snapshot, from_snapshot, from_volume, get_snapshot, listed, ready, snapshot,
    snapshot_request,
};
use super::upstream::{UPSTREAM, archived, in_front, made, names, no_leftovers, successor};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use csi_nfs_store::share::records::volume::OnDelete;
use csi_proto::v1::*;
use std::collections::BTreeSet;
use std::os::unix::fs::{MetadataExt, symlink};
use std::process::Command;
use std::sync::Arc;
use tonic::{Code, Request};

#[tokio::test]
async fn its_volumes_are_cloned_and_snapshotted() {
    let host = Host::new();
    made(&host, "pvc-1");
    let c = &successor(&host);
    let clone = create(c, from_volume("clone", UPSTREAM)).await.unwrap();
    assert_eq!(std::fs::read(host.at("clone/in/file")).unwrap(), b"pvc-1");
    assert_eq!(
        create(c, from_volume("clone", UPSTREAM)).await.unwrap(),
        clone
    );
    let source = clone.content_source.clone();
    assert_eq!(source, from_volume("clone", UPSTREAM).volume_content_source);
    let taken = ready(c, "s", UPSTREAM).await;
    assert_eq!(taken.source_volume_id, UPSTREAM);
    assert!(
        taken.snapshot_id.starts_with("10.0.0.4/nfs_share@"),
        "{taken:?}"
    );
    // It is found again by the volume's id, and outlives it.
    let of_volume = ListSnapshotsRequest {
        source_volume_id: UPSTREAM.to_owned(),
        ..Default::default()
    };
    assert_eq!(
        listed(c, of_volume).await.0,
        std::slice::from_ref(&taken.snapshot_id)
    );
    let other = "10.0.0.4#nfs_share#pvc-2##";
    made(&host, "pvc-2");
    let answer = c
        .create_snapshot(Request::new(snapshot_request("s", other)))
        .await;
    refused(answer, Code::AlreadyExists, &["pvc-1"]);
    delete(c, UPSTREAM).await.unwrap();
    for replica in [c, &successor(&host)] {
        assert_eq!(ready(replica, "s", UPSTREAM).await, taken);
    }
    create(c, from_snapshot("restored", &taken.snapshot_id))
        .await
        .unwrap();
    assert_eq!(
        std::fs::read(host.at("restored/in/file")).unwrap(),
        b"pvc-1"
    );
    // Another replica, and one that knows nothing of kubernetes-csi's driver any more.
    get_snapshot(&host.controller(), &taken.snapshot_id)
        .await
        .unwrap();
    assert_eq!(list(&host.controller()).await.len(), 2);
    refused(
        create(c, from_volume("again", UPSTREAM)).await,
        Code::NotFound,
        &["pvc-1"],
    );
    refused(snapshot(c, "t", UPSTREAM).await, Code::NotFound, &[]);
    c.settle().await;
}

#[tokio::test]
async fn its_snapshots_are_restored_shown_and_deleted() {
    let host = Host::new();
    made(&host, "pvc-1");
    std::fs::hard_link(host.at("pvc-1/in/file"), host.at("pvc-1/same")).unwrap();
    let c = &successor(&host);
    for (name, kind) in [("snapshot-1", "tar.gz"), ("snapshot-2", "tar")] {
        let id = &archived(&host, name, "pvc-1", kind);
        let shown = get_snapshot(c, id).await.unwrap();
        assert_eq!((&shown.snapshot_id, shown.ready_to_use), (id, true));
        assert_eq!(shown.source_volume_id, UPSTREAM);
        let by_id = ListSnapshotsRequest {
            snapshot_id: id.clone(),
            ..Default::default()
        };
        assert_eq!(listed(c, by_id.clone()).await.0, std::slice::from_ref(id));
        // Of the volume, whatever its id says beside its folder.
        for (source, found) in [
            ("10.0.0.4#nfs_share#pvc-1##retain", 1),
            ("10.0.0.4#nfs_share#pvc-2##", 0),
        ] {
            let of_source = ListSnapshotsRequest {
                source_volume_id: source.to_owned(),
                ..by_id.clone()
            };
            assert_eq!(listed(c, of_source).await.0.len(), found, "{source}");
        }
        let volume = format!("of-{name}");
        let restored = create(c, from_snapshot(&volume, id)).await.unwrap();
        assert_eq!(
            create(c, from_snapshot(&volume, id)).await.unwrap(),
            restored
        );
        assert_eq!(
            restored.content_source,
            from_snapshot("x", id).volume_content_source
        );
        let file = host.at(&format!("{volume}/in/file"));
        assert_eq!(std::fs::read(&file).unwrap(), b"pvc-1");
        assert_eq!(file.metadata().unwrap().nlink(), 2);
        // Something that is no part of the snapshot is not deleted with it.
        std::fs::write(host.at(name).join("mine"), "").unwrap();
        refused(
            delete_snapshot(c, id).await,
            Code::FailedPrecondition,
            &["mine"],
        );
        std::fs::remove_file(host.at(name).join("mine")).unwrap();
        delete_snapshot(c, id).await.unwrap();
        delete_snapshot(c, id).await.unwrap();
        assert!(!host.at(name).exists());
        refused(get_snapshot(c, id).await, Code::NotFound, &[]);
        assert_eq!(listed(c, by_id).await.0, Vec::<String>::new());
        refused(
            create(c, from_snapshot("late", id)).await,
            Code::NotFound,
            &["pvc-1"],
        );
    }
    // A symlink in the place of the archive.
    let secret = tempfile::tempdir().unwrap();
    std::fs::write(secret.path().join("secret"), "").unwrap();
    std::fs::create_dir(host.at("snapshot-3")).unwrap();
    symlink(
        secret.path().join("secret"),
        host.at("snapshot-3/pvc-1.tar.gz"),
    )
    .unwrap();
    let id = "10.0.0.4#nfs_share#snapshot-3#snapshot-3#pvc-1";
    refused(
        create(c, from_snapshot("evil", id)).await,
        Code::FailedPrecondition,
        &["no regular file"],
    );
    refused(
        delete_snapshot(c, id).await,
        Code::FailedPrecondition,
        &["pvc-1.tar.gz"],
    );
    c.settle().await;
    assert_eq!(list(c).await.len(), 2);
}

#[tokio::test]
async fn a_damaged_or_hostile_archive_leaves_nothing_behind() {
    let host = Host::new();
    made(&host, "pvc-1");
    let c = &successor(&host);
    let id = &archived(&host, "snapshot-1", "pvc-1", "tar.gz");
    let archive = host.at("snapshot-1/pvc-1.tar.gz");
    let whole = std::fs::read(&archive).unwrap();
    std::fs::write(&archive, &whole[..whole.len() - 9]).unwrap();
    refused(
        create(c, from_snapshot("v", id)).await,
        Code::FailedPrecondition,
        &["cut short"],
    );
    // Made by tar itself, to lead out of the volume.
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("evil"), "").unwrap();
    for name in ["../evil", "/tmp/evil", "a/../../evil"] {
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(outside.path()).arg("-Pczf").arg(&archive);
        tar.arg(format!("--transform=s,^evil,{name},")).arg("evil");
        assert!(tar.status().unwrap().success());
        refused(
            create(c, from_snapshot("v", id)).await,
            Code::FailedPrecondition,
            &["path"],
        );
    }
    c.settle().await;
    let left = BTreeSet::from(["pvc-1".to_owned(), "snapshot-1".to_owned()]);
    assert_eq!(names(&host), left);
    no_leftovers(&host);
    std::fs::write(&archive, whole).unwrap();
    create(c, from_snapshot("v", id)).await.unwrap();
}

#[tokio::test]
async fn a_source_on_another_share_is_told_from_the_same_by_another_name() {
    let host = Host::new();
    let other = Host::new();
    made(&host, "pvc-1");
    made(&other, "pvc-1");
    let export = |server: &str, path: &str| Export::parse(server, path).unwrap();
    let roots = [
        (
            export("10.0.0.4", "/nfs_share"),
            host.folder.path().to_owned(),
        ),
        (export("nas", "/nfs_share"), host.folder.path().to_owned()),
        (export("10.0.0.4", "/other"), other.folder.path().to_owned()),
    ];
    let mut config = host.config();
    config.roots = Arc::new(LocalRoots::new(roots));
    let c = &in_front(config, Some(OnDelete::Delete));
    create(c, request("first")).await.unwrap();
    create(c, from_volume("same", "nas#nfs_share#pvc-1##"))
        .await
        .unwrap();
    let answer = create(c, from_volume("v", "10.0.0.4#other#pvc-1##")).await;
    refused(answer, Code::InvalidArgument, &["another share"]);
    create(
        c,
        with_parameters("w", &[("server", "10.0.0.4"), ("share", "/other")]),
    )
    .await
    .unwrap();
    let answer = create(c, from_volume("v", "10.0.0.4#other#pvc-1##")).await;
    refused(answer, Code::InvalidArgument, &["another share"]);
    c.settle().await;
}
