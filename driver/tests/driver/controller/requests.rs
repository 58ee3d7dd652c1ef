//! What requests are refused for, and what is answered without touching a volume.

use super::calls::*;
use csi_nfs::calls::controller::{Controller, NamedShare};
use csi_nfs_store::export::Export;
use csi_proto::v1::volume_capability::{AccessType, MountVolume};
use csi_proto::v1::*;
use std::collections::BTreeMap;
use tonic::{Code, Request, Status};

#[tokio::test]
async fn requests_are_checked() {
    let host = Host::new();
    let c = &host.controller();
    let with = |change: &dyn Fn(&mut CreateVolumeRequest)| {
        let mut request = request("v");
        change(&mut request);
        request
    };
    let no_source = VolumeContentSource { r#type: None };
    let parameter = |key: &str, value: &str| with_parameters("v", &[(key, value)]);
    let address =
        |server: &str, share: &str| with_parameters("v", &[("server", server), ("share", share)]);
    for (request, words) in [
        (request(""), vec!["name is missing"]),
        (request(&"n".repeat(129)), vec!["name", "129", "128"]),
        (
            with(&|r| r.volume_capabilities.clear()),
            vec!["volume_capabilities"],
        ),
        (
            with(&|r| r.volume_capabilities.push(block())),
            vec!["block"],
        ),
        (
            with(&|r| r.volume_content_source = Some(no_source.clone())),
            vec!["volume_content_source"],
        ),
        (
            with(&|r| r.mutable_parameters = map(&[("iops", "1")])),
            vec!["iops"],
        ),
        (
            parameter("k", &"v".repeat(4096)),
            vec!["parameters", "4096"],
        ),
        (sized("v", -1, 0), vec!["negative"]),
        (sized("v", 1, -1), vec!["negative"]),
        (sized("v", 2, 1), vec!["required_bytes 2", "limit_bytes 1"]),
        (
            parameter("subdirectory", "x"),
            vec!["subdirectory", "mountPermissions"],
        ),
        (parameter("server", "s"), vec!["without share"]),
        (parameter("share", "fast"), vec!["fast", "--share NAME="]),
        (address("s p", "a"), vec!["s p"]),
        (address("s", "a/../b"), vec!["a/../b"]),
        (
            address("s", "a/.csi-nfs/trash"),
            vec!["driver's own folder"],
        ),
        (address("s", &"x".repeat(90)), vec!["128", "--share NAME="]),
        (parameter("subDir", "/"), vec!["subDir", "the share itself"]),
        (parameter("subDir", "a/../b"), vec!["subDir", ".."]),
        (
            parameter("subDir", ".csi-nfs/volumes/x"),
            vec!["driver's own folder"],
        ),
        (
            parameter("subDir", "team~0123abcd/x"),
            vec!["team~0123abcd/x", "choose another name"],
        ),
        (
            with_parameters(
                "v",
                &[
                    ("subDir", "${pvc.metadata.name}"),
                    ("csi.storage.k8s.io/pvc/name", "v~0123abcd"),
                ],
            ),
            vec!["v~0123abcd", "choose another name"],
        ),
        (parameter("adopt", "true"), vec!["adopt", "subDir"]),
    ] {
        refused(create(c, request).await, Code::InvalidArgument, &words);
    }
    refused(
        delete(c, "").await,
        Code::InvalidArgument,
        &["volume_id is missing"],
    );
    refused(
        delete(c, &"x".repeat(129)).await,
        Code::InvalidArgument,
        &["volume_id"],
    );
    refused(
        get(c, "").await,
        Code::InvalidArgument,
        &["volume_id is missing"],
    );
    refused(get(c, "nobody's").await, Code::NotFound, &["nobody's"]);
    delete(c, "nobody's").await.unwrap();
    let upstream = "10.0.0.4#nfs_share#pvc-1#uuid#delete";
    delete(c, upstream).await.unwrap();
    refused(
        expand(c, "", 1, 0).await,
        Code::InvalidArgument,
        &["volume_id"],
    );
    refused(
        expand(c, "nobody's", 1, 0).await,
        Code::NotFound,
        &["nobody's"],
    );
    refused(
        expand(c, "nobody's", 0, 0).await,
        Code::InvalidArgument,
        &["required_bytes or limit_bytes"],
    );
    refused(
        expand(c, "nobody's", 2, 1).await,
        Code::InvalidArgument,
        &["limit_bytes"],
    );
    let without = ControllerExpandVolumeRequest {
        volume_id: "x".to_owned(),
        ..Default::default()
    };
    let answer = c.controller_expand_volume(Request::new(without)).await;
    refused(
        answer,
        Code::InvalidArgument,
        &["capacity_range is missing"],
    );
    // Nothing of all this has touched the share.
    assert_eq!(std::fs::read_dir(host.folder.path()).unwrap().count(), 0);
}

#[tokio::test]
async fn what_is_not_there_is_said_by_name() {
    let controller = Host::new().controller();
    let publish = ControllerPublishVolumeRequest::default();
    let answer = controller
        .controller_publish_volume(Request::new(publish))
        .await;
    let said = "ControllerPublishVolume is not implemented by this driver";
    refused(answer, Code::Unimplemented, &[said]);
    let capabilities = Request::new(ControllerGetCapabilitiesRequest {});
    let answer = controller
        .controller_get_capabilities(capabilities)
        .await
        .unwrap();
    assert_eq!(answer.into_inner().capabilities.len(), 12);
}

#[tokio::test]
async fn servers_and_mount_options_go_through_their_checks() {
    let host = Host::new();
    let mut config = host.config();
    config.policy.servers = vec!["good".to_owned()];
    config.policy.denied_options = vec!["soft".to_owned()];
    let controller = Controller::new(config);
    let elsewhere = with_parameters("v", &[("server", "bad"), ("share", "/a")]);
    let answer = create(&controller, elsewhere).await;
    refused(answer, Code::PermissionDenied, &["bad", "--allow-server"]);
    // One that is configured, in another case: it is allowed, and not there.
    let mut config = host.config();
    config.policy.servers = vec!["good".to_owned()];
    config.other_exports = vec![Export::parse("nas.example", "/a").unwrap()];
    let capitals = with_parameters("v", &[("server", "NAS.example"), ("share", "/a")]);
    let answer = create(&Controller::new(config), capitals).await;
    refused(answer, Code::FailedPrecondition, &["NAS.example:/a"]);
    let mut secret = request("v");
    secret.secrets = map(&[("mountOptions", "soft")]);
    let mut flag = request("v");
    flag.volume_capabilities[0].access_type = Some(AccessType::Mount(MountVolume {
        mount_flags: vec!["soft".to_owned()],
        ..Default::default()
    }));
    let parameter = with_parameters("v", &[("mountOptions", "tcp,soft")]);
    for evil in [parameter, secret, flag] {
        refused(
            create(&controller, evil).await,
            Code::InvalidArgument,
            &["soft"],
        );
    }
    // An id from elsewhere does not lead there either.
    let volume = create(&controller, request("v")).await.unwrap();
    let forged = volume.volume_id.replace("10.0.0.4/nfs_share", "bad/a");
    refused(
        delete(&controller, &forged).await,
        Code::PermissionDenied,
        &["bad"],
    );
}

#[tokio::test]
async fn a_folder_of_inline_volumes_is_no_share() {
    let host = Host::new();
    let mut config = host.config();
    for (inline, is_refused) in [
        ("/nfs_share", true),
        ("/", true),
        ("/nfs_share/public", false),
        ("/nfs_share2", false),
    ] {
        config.policy.inline_shares = vec![Export::parse("10.0.0.4", inline).unwrap()];
        let answer = create(&Controller::new(config.clone()), request("v")).await;
        match is_refused {
            true => refused(answer, Code::InvalidArgument, &["--inline-share", inline]),
            false => drop(answer.unwrap()),
        }
        assert_eq!(host.at(".csi-nfs").exists(), !is_refused, "{inline}");
    }
}

#[tokio::test]
async fn capabilities_are_validated_against_the_volume() {
    let host = Host::new();
    let mut config = host.config();
    config.policy.denied_options = vec!["soft".to_owned()];
    let controller = Controller::new(config);
    let mounting = |change: &dyn Fn(&mut MountVolume)| {
        let mut volume = MountVolume::default();
        change(&mut volume);
        VolumeCapability {
            access_type: Some(AccessType::Mount(volume)),
            ..mount()
        }
    };
    let flagged = mounting(&|volume| volume.mount_flags.push("soft".to_owned()));
    let grouped = mounting(&|volume| volume.volume_mount_group = "1000".to_owned());
    let mut with_group = request("w");
    with_group.volume_capabilities = vec![grouped.clone()];
    let answer = create(&controller, with_group).await;
    refused(
        answer,
        Code::InvalidArgument,
        &["volume_mount_group", "gid"],
    );
    let mut wanted = with_parameters("v", &[("onDelete", "retain")]);
    wanted.mutable_parameters = map(&[("uid", "5"), ("mountPermissions", "0711")]);
    let volume = create(&controller, wanted.clone()).await.unwrap();
    let validate = async |change: &dyn Fn(&mut ValidateVolumeCapabilitiesRequest)| {
        let mut request = ValidateVolumeCapabilitiesRequest {
            volume_id: volume.volume_id.clone(),
            volume_context: volume.volume_context.clone(),
            volume_capabilities: vec![mount()],
            parameters: wanted.parameters.clone(),
            mutable_parameters: wanted.mutable_parameters.clone(),
            ..Default::default()
        };
        change(&mut request);
        let answer = controller
            .validate_volume_capabilities(Request::new(request))
            .await;
        answer.map(tonic::Response::into_inner)
    };
    let added = map(&[("storage.kubernetes.io/csiProvisionerIdentity", "x")]);
    let confirmed = validate(&|r| r.volume_context.extend(added.clone()))
        .await
        .unwrap();
    assert_eq!(confirmed.confirmed.unwrap().volume_capabilities, [mount()]);
    let answers = [
        (
            validate(&|r| r.volume_capabilities.push(block())).await,
            "block",
        ),
        (
            validate(&|r| r.volume_capabilities.push(flagged.clone())).await,
            "soft",
        ),
        (
            validate(&|r| r.volume_capabilities.push(grouped.clone())).await,
            "volume_mount_group",
        ),
        (
            validate(&|r| r.volume_context.extend(map(&[("subDir", "else")]))).await,
            "subDir",
        ),
        (
            validate(&|r| r.parameters.extend(map(&[("onDelete", "delete")]))).await,
            "onDelete",
        ),
        (
            validate(&|r| r.parameters.extend(map(&[("what", "")]))).await,
            "what",
        ),
        (
            validate(&|r| r.mutable_parameters.extend(map(&[("iops", "")]))).await,
            "iops",
        ),
        (
            validate(&|r| r.mutable_parameters.extend(map(&[("uid", "6")]))).await,
            "uid",
        ),
        (
            validate(&|r| r.parameters.extend(map(&[("uid", "6")]))).await,
            "uid",
        ),
    ];
    for (answer, word) in answers {
        let answer = answer.unwrap();
        assert!(
            answer.confirmed.is_none() && answer.message.contains(word),
            "{answer:?}"
        );
    }
    assert!(
        validate(&|r| r.parameters.clear())
            .await
            .unwrap()
            .confirmed
            .is_some()
    );
    refused(
        validate(&|r| r.volume_capabilities.clear()).await,
        Code::InvalidArgument,
        &[],
    );
    refused(
        validate(&|r| r.volume_id.clear()).await,
        Code::InvalidArgument,
        &[],
    );
    refused(
        validate(&|r| r.volume_id = "x".to_owned()).await,
        Code::NotFound,
        &[],
    );
}

#[tokio::test]
async fn the_room_is_that_of_the_share() {
    let host = Host::new();
    let controller = host.controller();
    let room = async |parameters: BTreeMap<String, String>, volume_capabilities| {
        let request = GetCapacityRequest {
            parameters,
            volume_capabilities,
            ..Default::default()
        };
        let answer = controller.get_capacity(Request::new(request)).await?;
        Ok::<i64, Status>(answer.into_inner().available_capacity)
    };
    assert!(room(map(&[]), vec![mount()]).await.unwrap() > 0);
    let named = map(&[("server", "10.0.0.4"), ("share", "nfs_share")]);
    assert!(room(named, vec![]).await.unwrap() > 0);
    assert_eq!(room(map(&[]), vec![block()]).await.unwrap(), 0);
    // Of a class no volume is made now, so its templates have no values.
    std::fs::create_dir(host.at("team")).unwrap();
    for sub_dir in [
        "${pvc.metadata.name}",
        "team/${pvc.metadata.name}",
        "none/${pv.metadata.name}",
    ] {
        let class = map(&[("subDir", sub_dir)]);
        assert!(room(class, vec![]).await.unwrap() > 0, "{sub_dir}");
    }
    std::fs::remove_dir(host.at("team")).unwrap();
    refused(
        room(map(&[("subDir", "${pvc.name}")]), vec![]).await,
        Code::InvalidArgument,
        &["${pvc.name}"],
    );
    let away = map(&[("server", "x"), ("share", "y")]);
    refused(
        room(away, vec![]).await,
        Code::FailedPrecondition,
        &["x:/y"],
    );
    // Asking changes nothing.
    assert_eq!(std::fs::read_dir(host.folder.path()).unwrap().count(), 0);
}

/// As when the disk of the export is not mounted, or another one is.
#[tokio::test]
async fn the_room_of_another_share_is_not_told() {
    let (host, other) = (Host::new(), Host::new());
    let room = async |controller: &Controller, parameters: BTreeMap<String, String>| {
        let request = GetCapacityRequest {
            parameters,
            ..Default::default()
        };
        let answer = controller.get_capacity(Request::new(request)).await?;
        Ok::<i64, Status>(answer.into_inner().available_capacity)
    };
    let share = || map(&[("server", "10.0.0.4"), ("share", "/nfs_share")]);
    let volume = create(&host.controller(), request("v")).await.unwrap();
    let uuid = volume.volume_id.split(['#', '.']).nth(4).unwrap();
    let told = |host: &Host| {
        let mut config = host.config();
        config.named_shares = vec![NamedShare {
            name: "home".to_owned(),
            export: config.other_exports.remove(0),
            mount_options: Vec::new(),
            uuid: Some(uuid.parse().unwrap()),
        }];
        Controller::new(config)
    };
    for parameters in [map(&[]), map(&[("share", "home")]), share()] {
        assert!(room(&told(&host), parameters.clone()).await.unwrap() > 0);
        // Without records, and with those of another share.
        let answer = room(&told(&other), parameters).await;
        refused(answer, Code::FailedPrecondition, &["missing"]);
    }
    assert_eq!(std::fs::read_dir(other.folder.path()).unwrap().count(), 0);
    create(&other.controller(), request("v")).await.unwrap();
    refused(
        room(&told(&other), share()).await,
        Code::FailedPrecondition,
        &[uuid],
    );
    // What this process has seen counts as what it was told.
    let seen = host.controller();
    assert_eq!(list(&seen).await.len(), 1);
    assert!(room(&seen, share()).await.unwrap() > 0);
    std::fs::rename(host.at(".csi-nfs"), host.at("away")).unwrap();
    refused(
        room(&seen, share()).await,
        Code::FailedPrecondition,
        &[uuid],
    );
    seen.settle().await;
}
