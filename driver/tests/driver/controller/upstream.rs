//! Volumes and snapshots of kubernetes-csi's driver through the calls: how they are known, and what is
//! deleted. Copies of them are in `upstream_copies`.

use super::calls::*;
use super::snapshots::{delete_snapshot, from_snapshot, from_volume, get_snapshot, snapshot};
use csi_nfs::calls::controller::{Controller, ControllerConfig};
use csi_nfs::upstream::ids::UpstreamIds;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::records::volume::OnDelete;
use csi_proto::v1::*;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::process::Command;
use tonic::{Code, Request, Status};

pub const UPSTREAM: &str = "10.0.0.4#nfs_share#pvc-1##";

fn successor_with(host: &Host, on_delete: OnDelete) -> Controller {
    in_front(host.config(), Some(on_delete))
}

/// What serves volumes of kubernetes-csi's driver in front of a controller; without a policy it refuses them.
pub fn in_front(config: ControllerConfig, on_delete: Option<OnDelete>) -> Controller {
    let mut config = config;
    config.defaults.on_delete = on_delete.unwrap_or_default();
    config.upstream = match on_delete {
        Some(_) => UpstreamIds::Served,
        None => UpstreamIds::Refused,
    };
    Controller::new(config)
}

/// A controller that serves those volumes too.
pub fn successor(host: &Host) -> Controller {
    successor_with(host, OnDelete::Delete)
}

pub fn names(host: &Host) -> BTreeSet<String> {
    let entries = std::fs::read_dir(host.folder.path()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".csi-nfs").collect()
}

/// A volume as kubernetes-csi's driver leaves it.
pub fn made(host: &Host, path: &str) {
    std::fs::create_dir_all(host.at(path).join("in")).unwrap();
    std::fs::write(host.at(path).join("in/file"), path).unwrap();
}

/// A snapshot of `source` as kubernetes-csi's driver leaves it.
pub fn archived(host: &Host, name: &str, source: &str, kind: &str) -> String {
    std::fs::create_dir(host.at(name)).unwrap();
    let mut tar = Command::new("tar");
    tar.arg("-C").arg(host.at(source));
    tar.arg(if kind == "tar" { "-cf" } else { "-czf" });
    tar.arg(host.at(&format!("{name}/{source}.{kind}")))
        .arg(".");
    assert!(tar.status().unwrap().success());
    format!("10.0.0.4#nfs_share#{name}#{name}#{source}")
}

pub fn no_leftovers(host: &Host) {
    for shelf in ["volumes", "snapshots", "folders", "trash", "drafts"] {
        let left = std::fs::read_dir(host.at(&format!(".csi-nfs/{shelf}"))).unwrap();
        assert_eq!(left.count(), 0, "{shelf}");
    }
}

async fn validate(
    c: &impl Service,
    id: &str,
    context: &[(&str, &str)],
) -> Result<ValidateVolumeCapabilitiesResponse, Status> {
    let request = ValidateVolumeCapabilitiesRequest {
        volume_id: id.to_owned(),
        volume_capabilities: vec![mount()],
        volume_context: map(context),
        ..Default::default()
    };
    let answer = c.validate_volume_capabilities(Request::new(request)).await;
    answer.map(tonic::Response::into_inner)
}

#[tokio::test]
async fn a_volume_is_known_by_every_call_until_it_is_deleted() {
    let host = Host::new();
    made(&host, "pvc-1");
    made(&host, "other");
    let c = &successor(&host);
    let (volume, condition) = get(c, UPSTREAM).await.unwrap();
    assert_eq!(volume.volume_id, UPSTREAM);
    assert_eq!(volume.volume_context["subDir"], "pvc-1");
    assert!(!condition.abnormal);
    assert_eq!(expand(c, UPSTREAM, 5, 0).await.unwrap(), 5);
    assert_eq!(expand(c, UPSTREAM, 0, 7).await.unwrap(), 7);
    let context = [
        ("server", "10.0.0.4"),
        ("share", "nfs_share"),
        ("subdir", "pvc-1"),
    ];
    let answer = validate(c, UPSTREAM, &context).await.unwrap();
    assert!(answer.confirmed.is_some(), "{}", answer.message);
    for wrong in [
        ("server", "10.0.0.5"),
        ("share", "/other"),
        ("subDir", "pvc-2"),
    ] {
        let mut context = vec![("server", "10.0.0.4"), ("share", "/nfs_share")];
        context.retain(|(key, _)| *key != wrong.0);
        context.push(wrong);
        let answer = validate(c, UPSTREAM, &context).await.unwrap();
        assert!(answer.confirmed.is_none(), "{wrong:?}");
    }
    let changed = ControllerModifyVolumeRequest {
        volume_id: UPSTREAM.to_owned(),
        mutable_parameters: map(&[("uid", "1")]),
        ..Default::default()
    };
    let answer = c.controller_modify_volume(Request::new(changed)).await;
    refused(answer, Code::InvalidArgument, &["kubernetes-csi's driver"]);
    assert!(
        !host.at(".csi-nfs").exists(),
        "nothing has needed records so far"
    );

    delete(c, UPSTREAM).await.unwrap();
    c.settle().await;
    assert_eq!(names(&host), BTreeSet::from(["other".to_owned()]));
    no_leftovers(&host);
    delete(c, UPSTREAM).await.unwrap();
    refused(get(c, UPSTREAM).await, Code::NotFound, &[]);
    refused(expand(c, UPSTREAM, 1, 0).await, Code::NotFound, &[]);
    refused(validate(c, UPSTREAM, &[]).await, Code::NotFound, &[]);
    assert!(list(c).await.is_empty());
}

#[tokio::test]
async fn its_policy_is_kept() {
    let host = Host::new();
    let c = &successor(&host);
    let id = |policy: &str| format!("10.0.0.4#nfs_share#team/pvc-1#pvc-1#{policy}");
    made(&host, "team/pvc-1");
    delete(c, &id("Retain")).await.unwrap();
    assert!(host.at("team/pvc-1/in/file").exists() && !host.at(".csi-nfs").exists());
    // Twice the same name, as it may come again: both archives are there.
    for count in 1..=2 {
        delete(c, &id("archive")).await.unwrap();
        delete(c, &id("archive")).await.unwrap();
        let left = std::fs::read_dir(host.at("team")).unwrap();
        let archives: Vec<String> = left
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        assert_eq!(archives.len(), count, "{archives:?}");
        for archive in archives {
            assert!(archive.starts_with("archived-pvc-1-"), "{archive}");
            assert!(host.at(&format!("team/{archive}/in/file")).exists());
        }
        made(&host, "team/pvc-1");
    }
    // What an id does not say, the flag says.
    let retaining = successor_with(&host, OnDelete::Retain);
    delete(&retaining, &id("")).await.unwrap();
    assert!(host.at("team/pvc-1").exists());
    delete(&retaining, &id("delete")).await.unwrap();
    assert!(!host.at("team/pvc-1").exists());
    retaining.settle().await;
    c.settle().await;
    no_leftovers(&host);
}

#[tokio::test]
async fn legacy_and_long_ids_are_deleted_too() {
    let host = Host::new();
    let c = &successor(&host);
    let long = "d".repeat(120);
    made(&host, "pvc-1");
    made(&host, &long);
    delete(c, "10.0.0.4/nfs_share/pvc-1").await.unwrap();
    let id = format!("10.0.0.4#nfs_share#{long}#{}#delete", "u".repeat(120));
    get(c, &id).await.unwrap();
    delete(c, &id).await.unwrap();
    assert_eq!(names(&host), BTreeSet::new());
}

#[tokio::test]
async fn hostile_ids_touch_nothing() {
    let outer = tempfile::tempdir().unwrap();
    std::fs::create_dir(outer.path().join("victim")).unwrap();
    let host = Host::new();
    made(&host, "pvc-1");
    let c = &successor(&host);
    for id in [
        "10.0.0.4#nfs_share#../victim##",
        "10.0.0.4#nfs_share#pvc-1/../../victim##",
        "10.0.0.4#nfs_share###",
        "10.0.0.4#nfs_share#/##",
        "10.0.0.4#nfs_share#.csi-nfs##",
        "10.0.0.4#nfs_share#pvc-1/##",
        "10.0.0.4#nfs_share#pvc-1#../..#",
        "10.0.0.4#nfs_share#${pvc.metadata.name}##",
        "10.0.0.4#nfs_share/../x#pvc-1##",
        "10.0.0.4#nfs_share#pvc-1##destroy",
        "10.0.0.4#nfs_share#pvc-1####",
        "10.0.0.4/nfs_share/..",
        "10.0.0.4#nfs_share",
        "#nfs_share#pvc-1##",
        "10.0.0.4#nfs_share#pvc\0-1##",
    ] {
        refused(delete(c, id).await, Code::InvalidArgument, &[]);
        refused(get(c, id).await, Code::InvalidArgument, &[]);
        refused(expand(c, id, 1, 0).await, Code::InvalidArgument, &[]);
        refused(validate(c, id, &[]).await, Code::InvalidArgument, &[]);
        refused(
            create(c, from_volume("n", id)).await,
            Code::InvalidArgument,
            &[],
        );
        refused(snapshot(c, "s", id).await, Code::InvalidArgument, &[]);
    }
    for id in [
        "10.0.0.4#nfs_share#..#..#v",
        "10.0.0.4#nfs_share#.csi-nfs#.csi-nfs#v",
        "10.0.0.4#nfs_share#s#s#../v",
        "10.0.0.4#nfs_share#s#t#v",
        "10.0.0.4#nfs_share###v",
    ] {
        refused(delete_snapshot(c, id).await, Code::InvalidArgument, &[]);
        refused(get_snapshot(c, id).await, Code::InvalidArgument, &[]);
        refused(
            create(c, from_snapshot("n", id)).await,
            Code::InvalidArgument,
            &[],
        );
    }
    let huge = format!("10.0.0.4#nfs_share#{}##", "x".repeat(1 << 20));
    let answer = delete(c, &huge).await;
    assert!(answer.as_ref().unwrap_err().message().len() < 300);
    refused(answer, Code::InvalidArgument, &["bytes"]);
    // A server that the administrator has not allowed.
    let mut config = host.config();
    config.policy.servers = vec!["good".to_owned()];
    let strict = in_front(config, Some(OnDelete::Delete));
    refused(
        delete(&strict, "evil#x#v##").await,
        Code::PermissionDenied,
        &["--allow-server"],
    );
    assert!(host.at("pvc-1/in/file").exists() && !host.at(".csi-nfs").exists());
}

#[tokio::test]
async fn only_a_plain_folder_of_nobody_else_is_deleted() {
    let host = Host::new();
    let c = &successor(&host);
    let own = create(c, with_parameters("own", &[("subDir", "team/own")]))
        .await
        .unwrap();
    let id = |path: &str| format!("10.0.0.4#nfs_share#{path}##");
    // A volume of this driver, one that lies above it, and one that lies in it.
    std::fs::create_dir(host.at("team/own/inner")).unwrap();
    for path in ["team", "team/own", "team/own/inner"] {
        let answer = delete(c, &id(path)).await;
        refused(answer, Code::InvalidArgument, &["volume \"own\""]);
    }
    assert!(host.at("team/own/inner").exists());
    // An adopted folder.
    made(&host, "adopted");
    let adopted = with_parameters("a", &[("subDir", "adopted"), ("adopt", "true")]);
    create(c, adopted).await.unwrap();
    refused(
        delete(c, &id("adopted")).await,
        Code::InvalidArgument,
        &["volume \"a\""],
    );
    // Another share of this driver within it, known or not.
    std::fs::create_dir_all(host.at("inner/share/.csi-nfs/volumes")).unwrap();
    refused(
        delete(c, &id("inner/share")).await,
        Code::FailedPrecondition,
        &["share of its own"],
    );
    let mut config = host.config();
    let within = Export::parse("10.0.0.4", "/nfs_share/inner/share").unwrap();
    config.other_exports.push(within);
    let knowing = in_front(config, Some(OnDelete::Delete));
    refused(
        delete(&knowing, &id("inner")).await,
        Code::InvalidArgument,
        &["inner/share"],
    );
    // A symlink, also above; a file.
    let outside = tempfile::tempdir().unwrap();
    std::fs::create_dir(outside.path().join("v")).unwrap();
    symlink(outside.path(), host.at("link")).unwrap();
    std::fs::write(host.at("file"), "").unwrap();
    for path in ["link", "link/v", "file", "file/v"] {
        let answer = delete(c, &id(path)).await;
        refused(answer, Code::FailedPrecondition, &["cannot be entered"]);
    }
    assert!(outside.path().join("v").exists() && host.at("link").is_symlink());
    // A snapshot of kubernetes-csi's driver.
    made(&host, "pvc-1");
    archived(&host, "snapshot-1", "pvc-1", "tar.gz");
    refused(
        delete(c, &id("snapshot-1")).await,
        Code::FailedPrecondition,
        &["is a snapshot"],
    );
    assert!(host.at("snapshot-1/pvc-1.tar.gz").exists());
    // And what is left is as it was.
    assert_eq!(list(c).await.len(), 2);
    get(c, &own.volume_id).await.unwrap();
    c.settle().await;
}

/// They have no records, so nothing on the share tells them from a volume.
#[tokio::test]
async fn folders_for_inline_volumes_are_not_deleted() {
    let host = Host::new();
    for folder in ["public/inner", "team/public", "publican"] {
        made(&host, folder);
    }
    let mut config = host.config();
    let inline = |path: &str| Export::parse("10.0.0.4", path).unwrap();
    config.policy.inline_shares =
        vec![inline("/nfs_share/public"), inline("nfs_share/team/public")];
    let c = &in_front(config, Some(OnDelete::Delete));
    for policy in ["", "delete", "archive"] {
        for path in ["public", "public/inner", "team", "team/public/in"] {
            let id = format!("10.0.0.4#nfs_share#{path}##{policy}");
            let answer = delete(c, &id).await;
            refused(answer, Code::InvalidArgument, &["--inline-share", path]);
        }
    }
    // What merely begins like one.
    delete(c, "10.0.0.4#nfs_share#publican##").await.unwrap();
    c.settle().await;
    let left = ["public", "team"].map(str::to_owned);
    assert_eq!(names(&host), BTreeSet::from(left));
    assert!(host.at("public/inner/in/file").exists() && host.at("team/public/in/file").exists());
}

#[tokio::test]
async fn a_share_whose_disk_is_away_is_no_share_without_volumes() {
    let host = Host::new();
    let c = &successor(&host);
    for call in ["delete", "get"] {
        let answer = match call {
            "delete" => delete(c, UPSTREAM).await,
            _ => get(c, UPSTREAM).await.map(drop),
        };
        refused(answer, Code::FailedPrecondition, &["empty", "disk"]);
    }
    refused(
        snapshot(c, "s", UPSTREAM).await,
        Code::FailedPrecondition,
        &["empty"],
    );
    assert!(!host.at(".csi-nfs").exists());
    // Where there is something else the volume is gone.
    std::fs::create_dir(host.at("other")).unwrap();
    delete(c, UPSTREAM).await.unwrap();
    assert!(!host.at(".csi-nfs").exists());
    // A share that was seen with records is never taken for one without.
    create(c, request("v")).await.unwrap();
    std::fs::rename(host.at(".csi-nfs"), host.at("hidden")).unwrap();
    refused(
        delete(c, UPSTREAM).await,
        Code::FailedPrecondition,
        &["missing"],
    );
}

#[tokio::test]
async fn a_driver_of_that_name_says_what_it_lacks() {
    let c = &in_front(Host::new().config(), None);
    let flag = "--migrate-from csi-driver-nfs";
    for id in [
        UPSTREAM,
        "10.0.0.4#nfs_share#pvc-1#uuid#delete",
        "10.0.0.4/nfs_share/pvc-1",
    ] {
        let code = Code::FailedPrecondition;
        refused(delete(c, id).await, code, &[id, flag]);
        refused(get(c, id).await, code, &[id, flag]);
        refused(expand(c, id, 1, 0).await, code, &[id, flag]);
    }
    delete(c, "nobody").await.unwrap();
}

#[tokio::test]
async fn without_the_flag_nothing_of_it_is_known() {
    let host = Host::new();
    made(&host, "pvc-1");
    let id = &archived(&host, "snapshot-1", "pvc-1", "tar.gz");
    let c = &in_front(host.config(), None);
    let flag = "--migrate-from csi-driver-nfs";
    let code = Code::FailedPrecondition;
    refused(delete_snapshot(c, id).await, code, &[flag]);
    refused(get_snapshot(c, id).await, code, &[flag]);
    refused(create(c, from_snapshot("v", id)).await, code, &[flag]);
    refused(create(c, from_volume("v", UPSTREAM)).await, code, &[flag]);
    refused(snapshot(c, "s", UPSTREAM).await, code, &[flag]);
    refused(validate(c, UPSTREAM, &[]).await, code, &[flag]);
    refused(delete(c, "10.0.0.4#nfs_share#../x##").await, code, &[flag]);
    // Under a name of its own the ids of others are just that.
    let c = &host.controller();
    refused(create(c, from_snapshot("v", id)).await, Code::NotFound, &[]);
    refused(get(c, UPSTREAM).await, Code::NotFound, &[]);
    assert!(host.at("pvc-1").exists() && host.at("snapshot-1").exists());
}

#[tokio::test]
async fn many_deletes_of_one_volume_are_one() {
    let host = Host::new();
    made(&host, "pvc-1");
    let id = "10.0.0.4#nfs_share#pvc-1##archive";
    let (a, b) = (successor(&host), successor(&host));
    let calls = (0..32).map(|n| {
        let c = if n % 2 == 0 { a.clone() } else { b.clone() };
        tokio::spawn(async move { delete(&c, id).await })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap().unwrap();
    }
    a.settle().await;
    b.settle().await;
    let left = names(&host);
    assert_eq!(left.len(), 1, "{left:?}");
    assert!(left.first().unwrap().starts_with("archived-pvc-1-"));
    no_leftovers(&host);
}
