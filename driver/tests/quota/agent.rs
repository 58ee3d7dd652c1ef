//! `csi-nfs agent --quotas` on the server, and a controller that has the share over NFS: the sizes of volumes are enforced.

use crate::scene::{MIB, file_system, shown};
use crate::site::{Site, is_enforced, project_of, says_enforced, until, volume};
use crate::tools::{USER, refusal, write};
use csi_nfs_store::quota::project_id::ProjectId;
use csi_proto::v1::controller_server::Controller as _;
use csi_proto::v1::volume_content_source::{Type, VolumeSource};
use csi_proto::v1::*;
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};
use tonic::{Code, Request};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_has_the_size_that_was_asked_for() {
    let mut site = Site::new("agent-size").await;
    let agent = site.agent();
    let made = site.create(volume("v", 10, &[])).await.unwrap();
    let condition = site.condition(&made).await;
    if !is_enforced() {
        let message = &condition.message;
        assert!(
            message.contains("advisory: ext4 does not limit root"),
            "{message}"
        );
        assert_eq!(site.id(&made), None);
        let refused = site.create(volume("e", 10, &[("quota", "enforce")])).await;
        assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
        return;
    }
    let id = site.id(&made).unwrap();
    let message = &condition.message;
    let begin = "the volume's folder is on the share; its size is enforced";
    assert!(message.starts_with(begin), "{message}");
    assert!(says_enforced(message, id), "{message}");
    let folder = site.folder(&made);
    assert_eq!(shown(&folder).0, 10 * MIB);
    let error = write(USER, &folder.join("large"), 20).unwrap_err();
    assert!(error.contains(refusal(file_system())), "{error}");
    // A client may give up a larger write than what there is still room for.
    write(USER, &folder.join("small"), 1).unwrap_err();
    let condition = site.condition(&made).await;
    assert!(
        condition.abnormal && condition.message.contains("it is full"),
        "{condition:?}, of which {} bytes are left",
        shown(&folder).1
    );

    site.expand(&made, 30).await.unwrap();
    assert_eq!(shown(&folder).0, 30 * MIB);
    write(USER, &folder.join("more"), 10).unwrap();
    assert!(!site.condition(&made).await.abnormal);
    // The repeat of the first call is answered with it.
    let again = site.create(volume("v", 10, &[])).await.unwrap();
    assert_eq!(again.volume_id, made.volume_id);

    site.delete(&made).await;
    site.share.wait_for_usage(id, |used| used.inodes == 0);
    // The next agent finds what is nobody's any more, ids so young aside.
    drop(agent);
    let _agent = site.agent();
    assert!(site.share.ledger.entry(id).unwrap().is_some());
    let left = site.share.report();
    let used = left
        .iter()
        .filter(|quota| quota.id == id.number() && quota.used.inodes > 0);
    assert_eq!(used.count(), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_an_agent_nothing_that_is_enforced_is_promised() {
    let mut site = Site::new("agent-none").await;
    let refused = site.create(volume("e", 10, &[("quota", "enforce")])).await;
    let refused = refused.unwrap_err();
    assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
    assert!(
        refused.message().contains("csi-nfs agent --quotas"),
        "{refused}"
    );
    if !is_enforced() {
        return;
    }
    let agent = site.agent();
    let held = site
        .create(volume("v", 10, &[("quota", "enforce")]))
        .await
        .unwrap();
    let files = [("quotaInodes", "5")];
    let of_files = site.create(volume("files", 0, &files)).await.unwrap();
    for file in 0..4 {
        fs::write(site.folder(&of_files).join(file.to_string()), "").unwrap();
    }
    fs::write(site.folder(&of_files).join("one more"), "").unwrap_err();
    let advised = site
        .create(volume("a", 10, &[("quota", "advise")]))
        .await
        .unwrap();
    assert_eq!(site.id(&advised), None);
    agent.kill();

    let message = site.condition(&held).await.message;
    let why = "it cannot be expanded now: there is no agent that lives";
    assert!(message.contains(why), "{message}");
    let refused = site.expand(&held, 20).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable, "{refused}");
    assert_eq!(shown(&site.folder(&held)).0, 10 * MIB);
    site.expand(&advised, 20).await.unwrap();
    let plain = site.create(volume("plain", 10, &[])).await.unwrap();
    assert_eq!(site.id(&plain), None);
    let message = site.condition(&plain).await.message;
    assert_eq!(message, "the volume's folder is on the share");
    // What is there works, and goes.
    site.delete(&held).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_that_dies_at_any_step_leaves_the_rest_to_the_next_on_xfs() {
    let mut site = Site::new("agent-killed").await;
    // Any other class takes an advisory size while nobody can enforce one.
    let enforced = [("quota", "enforce")];
    for (step, name) in [
        ("the request is understood", "a"),
        ("the folder is limited", "b"),
        ("the request is done", "c"),
    ] {
        let mut dying = site.agent_that_dies_at(step);
        let (controller, request) = (site.controller.clone(), volume(name, 10, &enforced));
        let call =
            tokio::spawn(async move { controller.create_volume(Request::new(request)).await });
        until(step, || dying.0.try_wait().unwrap().is_some());
        let _agent = site.agent();
        // Whoever sees that the agent is dead says so, and a repeat finishes it.
        if let Err(refused) = call.await.unwrap() {
            assert_eq!(refused.code(), Code::Unavailable, "{step}: {refused}");
        }
        let made = site.create(volume(name, 10, &enforced)).await.unwrap();
        let id = site.id(&made).unwrap();
        let message = site.condition(&made).await.message;
        assert!(says_enforced(&message, id), "{step}: {message}");
        assert_eq!(shown(&site.folder(&made)).0, 10 * MIB, "{step}");
    }
    // No limit is nobody's, and nobody is without one.
    let (entries, _) = site.share.ledger.entries().unwrap();
    assert_eq!(entries.len(), 3);
    let limited = site.share.report();
    let limited = limited
        .iter()
        .filter(|quota| quota.limits.bytes == 10 * MIB);
    let ours =
        limited.filter(|it| ProjectId::new(it.id).is_some_and(|id| entries.contains_key(&id)));
    assert_eq!(ours.count(), 3);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_count_from_their_first_byte_and_what_is_kept_has_no_limit_on_xfs() {
    let mut site = Site::new("agent-copies").await;
    let agent = site.agent();
    let source = site.create(volume("source", 10, &[])).await.unwrap();
    write(USER, &site.folder(&source).join("file"), 4).unwrap();
    let of_source = |name: &str, mib, parameters: &[_]| CreateVolumeRequest {
        volume_content_source: Some(VolumeContentSource {
            r#type: Some(Type::Volume(VolumeSource {
                volume_id: source.volume_id.clone(),
            })),
        }),
        ..volume(name, mib, parameters)
    };
    let retain = [("onDelete", "retain")];
    let copy = site.create(of_source("copy", 12, &retain)).await.unwrap();
    let id = site.id(&copy).unwrap();
    assert_ne!(Some(id), site.id(&source));
    let quota = site.share.quota(id);
    assert_eq!(quota.limits.bytes, 12 * MIB);
    // A reflink counts in full.
    assert!(quota.used.bytes >= 4 * MIB, "{quota:?}");
    write(USER, &site.folder(&copy).join("large"), 12).unwrap_err();

    let kept = site.share.folder.join(&copy.volume_context["subDir"]);
    site.delete(&copy).await;
    drop(agent);
    let _agent = site.agent();
    until("the limit of what is kept is lifted", || {
        site.share.quota(id).limits.bytes == 0
    });
    assert_eq!(project_of(&kept), Some(id), "it keeps its id");
    assert!(site.share.quota(id).used.bytes >= 4 * MIB);
}

/// Makes volumes, some at a time, and returns them with the time that it took.
async fn make(site: &Site, prefix: &str, count: usize, mib: u64) -> (Vec<Volume>, Duration) {
    let begun = Instant::now();
    let mut calls = tokio::task::JoinSet::new();
    let mut made = Vec::new();
    for number in 0..count {
        if calls.len() == 8 {
            made.extend(calls.join_next().await);
        }
        let controller = site.controller.clone();
        let request = volume(&format!("{prefix}-{number}"), mib, &[]);
        calls.spawn(async move { controller.create_volume(Request::new(request)).await });
    }
    while let Some(call) = calls.join_next().await {
        made.push(call);
    }
    let volume = |call: Result<Result<tonic::Response<CreateVolumeResponse>, _>, _>| {
        call.unwrap().unwrap().into_inner().volume.unwrap()
    };
    (made.into_iter().map(volume).collect(), begun.elapsed())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_volumes_have_a_limit_each_and_no_limit_is_nobodys_on_xfs() {
    let count = std::env::var("CSI_NFS_QUOTA_VOLUMES").ok();
    let count = count.map_or(16, |count| count.parse().unwrap());
    let mut site = Site::new("agent-many").await;
    let (_, without) = make(&site, "plain", count, 3).await;
    let _agent = site.agent();
    let (mut made, with) = make(&site, "held", count, 3).await;
    eprintln!("{count} volumes: {without:.2?} without limits, {with:.2?} with");
    // Two, by mistake.
    let _other = site.agent();
    made.extend(make(&site, "held-by-two", count, 3).await.0);
    let ids: BTreeSet<_> = made.iter().map(|volume| site.id(volume).unwrap()).collect();
    assert_eq!(ids.len(), 2 * count);
    let entered: BTreeSet<_> = site.share.ledger.entries().unwrap().0.into_keys().collect();
    assert_eq!(entered, ids);
    for id in ids {
        assert_eq!(site.share.quota(id).limits.bytes, 3 * MIB);
    }
}
