//! What volumes go through, and what their folders are like.

use super::calls::*;
use crate::placed::plain;
use csi_nfs::calls::controller::{Controller, ControllerConfig};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use std::collections::BTreeSet;
use std::sync::Arc;
use tonic::Code;

#[tokio::test]
async fn a_volume_lives_through_every_call() {
    let host = Host::new();
    let controller = host.controller();
    let volume = create(&controller, sized("pvc-1", 1 << 30, 0))
        .await
        .unwrap();
    assert_eq!(volume.capacity_bytes, 1 << 30);
    let folder = volume.volume_context["subDir"].clone();
    let context = map(&[
        ("server", "10.0.0.4"),
        ("share", "/nfs_share"),
        ("subDir", &folder),
    ]);
    assert_eq!(volume.volume_context, context);
    assert_eq!(plain(&folder), "pvc-1");
    let id = volume.volume_id.clone();
    assert!(id.starts_with("10.0.0.4/nfs_share#"), "{id}");
    assert_eq!(host.at("pvc-1"), host.folder.path().join(&folder));
    assert!(host.at("pvc-1").is_dir());
    assert_eq!(
        create(&controller, sized("pvc-1", 1 << 30, 0))
            .await
            .unwrap(),
        volume
    );

    // Another replica knows it at once, by its id and by its name.
    let other = host.controller();
    let (found, condition) = get(&other, &id).await.unwrap();
    assert_eq!(found, volume);
    assert!(!condition.abnormal);
    assert_eq!(
        create(&other, sized("pvc-1", 1 << 30, 0)).await.unwrap(),
        volume
    );
    assert_eq!(list(&other).await, [id.as_str()]);

    assert_eq!(expand(&other, &id, 2 << 30, 0).await.unwrap(), 2 << 30);
    assert_eq!(expand(&controller, &id, 1, 0).await.unwrap(), 2 << 30);
    refused(
        expand(&controller, &id, 1, 1 << 30).await,
        Code::OutOfRange,
        &["never shrunk"],
    );

    std::fs::write(host.at("pvc-1/file"), "data").unwrap();
    delete(&controller, &id).await.unwrap();
    delete(&other, &id).await.unwrap();
    assert!(!host.at("pvc-1").exists());
    assert!(list(&other).await.is_empty());
    refused(
        get(&other, &id).await,
        Code::NotFound,
        &["10.0.0.4:/nfs_share"],
    );
    refused(expand(&other, &id, 1, 0).await, Code::NotFound, &[]);
    controller.settle().await;
    other.settle().await;
    assert_eq!(
        std::fs::read_dir(host.at(".csi-nfs/trash"))
            .unwrap()
            .count(),
        0
    );
}

#[tokio::test]
async fn a_late_delete_does_not_hit_a_newer_volume_of_the_name() {
    let host = Host::new();
    let controller = host.controller();
    let old = create(&controller, request("v")).await.unwrap();
    delete(&controller, &old.volume_id).await.unwrap();
    let new = create(&controller, request("v")).await.unwrap();
    assert_ne!(old.volume_id, new.volume_id);
    delete(&controller, &old.volume_id).await.unwrap();
    assert!(host.at("v").is_dir());
    assert_eq!(list(&controller).await, [new.volume_id]);
}

#[tokio::test]
async fn a_repeat_that_differs_is_refused_with_the_difference() {
    let host = Host::new();
    let controller = host.controller();
    // Only root may give files away, so the owner is this process's own.
    let uid = rustix::process::geteuid().as_raw().to_string();
    let mut first = sized("v", 10, 20);
    first.parameters = map(&[("uid", &uid), ("onDelete", "retain")]);
    let volume = create(&controller, first.clone()).await.unwrap();
    for (required, limit, fits) in [
        (10, 20, true),
        (5, 0, true),
        (10, 10, true),
        (0, 0, true),
        (11, 0, false),
        (1, 9, false),
    ] {
        let mut again = sized("v", required, limit);
        again.parameters = first.parameters.clone();
        let answer = create(&controller, again).await;
        if fits {
            assert_eq!(answer.unwrap(), volume);
        } else {
            refused(answer, Code::AlreadyExists, &["10 bytes"]);
        }
    }
    let mut other = first.clone();
    other.parameters.remove("onDelete");
    refused(
        create(&controller, other).await,
        Code::AlreadyExists,
        &["onDelete", "retain"],
    );
    let mut other = first.clone();
    other.parameters.extend(map(&[("subDir", "else")]));
    refused(
        create(&controller, other).await,
        Code::AlreadyExists,
        &["subDir", "else"],
    );
    // Spelled otherwise it is the same, and an expansion does not change the original.
    expand(&controller, &volume.volume_id, 100, 0)
        .await
        .unwrap();
    let mut same = first.clone();
    same.parameters
        .extend(map(&[("Server", "10.0.0.4"), ("SHARE", "nfs_share/")]));
    let again = create(&controller, same).await.unwrap();
    assert_eq!(
        (again.volume_id, again.capacity_bytes),
        (volume.volume_id, 100)
    );
}

#[tokio::test]
async fn folders_of_others_are_safe() {
    let host = Host::new();
    let controller = host.controller();
    std::fs::create_dir(host.at("theirs")).unwrap();
    std::fs::write(host.at("theirs/file"), "data").unwrap();
    let theirs = with_parameters("theirs", &[("subDir", "theirs")]);
    let answer = create(&controller, theirs).await;
    refused(answer, Code::FailedPrecondition, &["theirs", "no volume"]);
    let inside = with_parameters("v", &[("subDir", "theirs/v")]);
    let volume = create(&controller, inside).await.unwrap();
    let nested = with_parameters("w", &[("subDir", "theirs/v/w")]);
    let answer = create(&controller, nested).await;
    refused(answer, Code::InvalidArgument, &["is inside", "\"v\""]);
    delete(&controller, &volume.volume_id).await.unwrap();
    controller.settle().await;
    assert_eq!(std::fs::read(host.at("theirs/file")).unwrap(), b"data");
    assert!(!host.at("theirs/v").exists());
}

/// A volume in the folder of another one, whose records are those of an inner share, would go with that.
#[tokio::test]
async fn volumes_of_an_outer_share_keep_out_of_inner_ones() {
    let host = Host::new();
    let mut config = host.config();
    let export = |path: &str| Export::parse("10.0.0.4", path).unwrap();
    let folders = [
        ("nfs_share", host.folder.path().to_owned()),
        ("nfs_share/inner", host.at("inner")),
    ];
    let roots = folders.map(|(path, folder)| (export(path), folder));
    config.roots = Arc::new(LocalRoots::new(roots));
    config.other_exports.push(export("nfs_share/inner"));
    config.policy.inline_shares = vec![export("nfs_share/public/all")];
    let c = &Controller::new(config);
    std::fs::create_dir(host.at("inner")).unwrap();
    let on = |name: &str, share: &str, more: &[(&str, &str)]| {
        let at = [("server", "10.0.0.4"), ("share", share)];
        with_parameters(name, &[&at, more].concat())
    };
    let web = on("a", "nfs_share/inner", &[("subDir", "team/web")]);
    let volume = create(c, web).await.unwrap();
    for path in ["inner", "inner/team", "inner/team/web/deep", "inner/new"] {
        for adopt in ["true", "false"] {
            let more = [("subDir", path), ("adopt", adopt)];
            let answer = create(c, on("b", "nfs_share", &more)).await;
            refused(answer, Code::InvalidArgument, &[path, "nfs_share/inner"]);
        }
    }
    for path in ["public", "public/all", "public/all/a"] {
        let answer = create(c, on("b", "nfs_share", &[("subDir", path)])).await;
        refused(answer, Code::InvalidArgument, &[path, "--inline-share"]);
    }
    assert!(!host.at("public").exists() && !host.at("inner/new").exists());
    // What was made before the two came together is there.
    let kept = on("kept", "nfs_share", &[("subDir", "public/all/kept")]);
    let made = create(&host.controller(), kept.clone()).await.unwrap();
    assert_eq!(create(c, kept).await.unwrap(), made);
    for path in ["innermost", "public2", "team/inner"] {
        let more = [("subDir", path)];
        create(c, on(path, "nfs_share", &more)).await.unwrap();
    }
    delete(c, &volume.volume_id).await.unwrap();
    c.settle().await;
}

#[tokio::test]
async fn a_limit_alone_is_the_size_of_a_volume_without_one() {
    let host = Host::new();
    let c = &host.controller();
    let volume = create(c, request("v")).await.unwrap();
    for (range, bytes) in [((0, 100), 100), ((0, 200), 100), ((150, 0), 150)] {
        let expanded = expand(c, &volume.volume_id, range.0, range.1).await;
        assert_eq!(expanded.unwrap(), bytes, "{range:?}");
    }
}

/// What CreateVolume answers, NodePublishVolume takes.
#[tokio::test]
async fn a_volume_whose_context_is_too_long_is_not_made() {
    let host = Host::new();
    let c = &host.controller();
    let options = vec!["vers=4.2"; 450].join(",");
    let answer = create(c, with_parameters("v", &[("mountOptions", &options)])).await;
    refused(answer, Code::InvalidArgument, &["volume_context"]);
    assert!(list(c).await.is_empty());
}

#[tokio::test]
async fn policies_owner_and_mode_are_kept() {
    use std::os::unix::fs::MetadataExt;
    let host = Host::new();
    let controller = host.controller();
    let gid = rustix::process::getegid().as_raw();
    for policy in ["retain", "archive"] {
        let wanted = with_parameters(
            policy,
            &[
                ("onDelete", policy),
                ("mountPermissions", "02770"),
                ("gid", &gid.to_string()),
                ("subDir", "${pvc.metadata.namespace}/${pv.metadata.name}"),
                ("mountOptions", "nfsvers=4.1"),
                ("csi.storage.k8s.io/pvc/namespace", "team"),
                ("csi.storage.k8s.io/pv/name", policy),
            ],
        );
        let volume = create(&controller, wanted).await.unwrap();
        let folder = format!("team/{policy}");
        assert_eq!(volume.volume_context["subDir"], folder);
        assert_eq!(volume.volume_context["mountOptions"], "nfsvers=4.1");
        let metadata = std::fs::metadata(host.at(&folder)).unwrap();
        assert_eq!((metadata.mode() & 0o7777, metadata.gid()), (0o2770, gid));
        std::fs::write(host.at(&folder).join("file"), "data").unwrap();
        delete(&controller, &volume.volume_id).await.unwrap();
        delete(&controller, &volume.volume_id).await.unwrap();
    }
    controller.settle().await;
    let left: BTreeSet<String> = std::fs::read_dir(host.at("team"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert_eq!(left.len(), 2, "{left:?}");
    assert!(left.contains("retain"));
    assert!(
        left.iter()
            .any(|name| name.starts_with("archived-archive-"))
    );
    for folder in left {
        assert!(host.at("team").join(folder).join("file").exists());
    }
}

#[tokio::test]
async fn any_name_is_a_volume() {
    let host = Host::new();
    let controller = host.controller();
    let names = [
        "..".to_owned(),
        ".".to_owned(),
        "/etc/passwd".to_owned(),
        "../../x".to_owned(),
        ".csi-nfs".to_owned(),
        "a\nb\t\r".to_owned(),
        "a/b".to_owned(),
        "a%2fb".to_owned(),
        "%2E.".to_owned(),
        "ä".repeat(64),
        "\n".repeat(128),
        "𝄞".repeat(32),
        " ".to_owned(),
    ];
    // The specification bans these.
    for banned in ["a\0", "a\u{1b}[31m", "\u{9b}"] {
        let refused = create(&controller, request(banned)).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{banned:?}");
    }
    let mut made = BTreeSet::new();
    for name in &names {
        let volume = create(&controller, request(name)).await.unwrap();
        assert!(volume.volume_id.len() <= 128);
        assert!(
            host.at(&volume.volume_context["subDir"]).is_dir(),
            "{name:?}"
        );
        assert_eq!(create(&controller, request(name)).await.unwrap(), volume);
        made.insert(volume.volume_id);
    }
    assert_eq!(made.len(), names.len());
    let listed: BTreeSet<String> = list(&controller).await.into_iter().collect();
    assert_eq!(listed, made);
    for id in made {
        delete(&controller, &id).await.unwrap();
    }
    controller.settle().await;
    let left: Vec<_> = std::fs::read_dir(host.folder.path()).unwrap().collect();
    assert_eq!(left.len(), 1, "{left:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_creations_of_one_name_by_two_controllers_make_one_volume() {
    let host = Host::new();
    let controllers = [host.controller(), host.controller()];
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let controller = controllers[n % 2].clone();
            tokio::spawn(async move { create(&controller, request("v")).await })
        })
        .collect();
    let mut made = BTreeSet::new();
    for call in calls {
        made.insert(call.await.unwrap().unwrap().volume_id);
    }
    assert_eq!(made.len(), 1);
    assert_eq!(list(&controllers[0]).await.len(), 1);
    let deletes: Vec<_> = (0..16)
        .map(|n| {
            let (controller, id) = (controllers[n % 2].clone(), made.first().unwrap().clone());
            tokio::spawn(async move { delete(&controller, &id).await })
        })
        .collect();
    for call in deletes {
        call.await.unwrap().unwrap();
    }
    assert!(list(&controllers[1]).await.is_empty());
    assert!(!host.at("v").exists());
}

#[tokio::test]
async fn a_volume_is_not_a_share() {
    let host = Host::new();
    let exports = ["/x", "/x/tenant", "/x/tenant/in", "/x/above", "/x/free"]
        .map(|path| Export::parse("nas", path).unwrap());
    let folders = exports.clone().map(|export| {
        let below = export.path().trim_start_matches("/x").to_owned();
        (export, host.at(below.trim_start_matches('/')))
    });
    let controller = Controller::new(ControllerConfig::new(Arc::new(LocalRoots::new(folders))));
    let on = |name: &str, share: &str, sub_dir: &str| {
        let pairs = [("server", "nas"), ("share", share), ("subDir", sub_dir)];
        with_parameters(name, &pairs)
    };
    for (name, sub_dir) in [("t", "tenant"), ("b", "above/below")] {
        create(&controller, on(name, "/x", sub_dir)).await.unwrap();
    }
    std::fs::create_dir(host.at("tenant/in")).unwrap();
    std::fs::create_dir(host.at("free")).unwrap();
    for (share, word) in [
        ("/x/tenant", "is the folder of"),
        ("/x/tenant/in", "is inside"),
        ("/x/above", "contains"),
    ] {
        let answer = create(&controller, on("w", share, "w")).await;
        refused(answer, Code::InvalidArgument, &[share, word, "nas:/x"]);
    }
    assert_eq!(std::fs::read_dir(host.at("tenant")).unwrap().count(), 1);
    create(&controller, on("w", "/x/free", "w")).await.unwrap();
}

#[tokio::test]
async fn a_volume_without_its_folder_is_not_answered_as_made() {
    let host = Host::new();
    let controller = host.controller();
    let volume = create(&controller, request("v")).await.unwrap();
    std::fs::remove_dir(host.at("v")).unwrap();
    let answer = create(&controller, request("v")).await;
    refused(
        answer,
        Code::FailedPrecondition,
        &["its folder v~", "is missing", "delete"],
    );
    delete(&controller, &volume.volume_id).await.unwrap();
    create(&controller, request("v")).await.unwrap();
}
