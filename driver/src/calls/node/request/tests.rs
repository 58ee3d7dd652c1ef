//! Tests of the requests to publish and stage.

use super::*;
use crate::calls::controller::answer;
use crate::corpus;
use csi_nfs_store::share::records::record::Record;
use csi_nfs_store::share::records::volume::Volume;
use csi_proto::v1::VolumeCapability;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, BlockVolume, MountVolume};
use std::collections::BTreeMap;

pub(crate) fn config() -> Config {
    Config {
        driver_name: "nfs.csi.internal".into(),
        node_id: "node".into(),
        work_dir: PathBuf::from("/nonexistent"),
        ..Config::default()
    }
}

#[test]
fn the_other_drivers_volumes_alone_keep_its_mount_defaults() {
    let mut config = config();
    config.policy.upstream_mounts = true;
    let flags = |config: &Config, id: &str, is_inline: bool| {
        let options = MountOptions::parse([], &mount_policy(config, id, is_inline)).unwrap();
        (options.flags.nosuid, options.flags.nodev)
    };
    let own = crate::calls::volume_id::tests::some_id().to_string();
    let (own, theirs) = (own.as_str(), "10.0.0.4#srv#pvc-1##");
    assert_eq!(flags(&config, theirs, false), (false, false));
    assert_eq!(flags(&config, theirs, true), (true, true));
    assert_eq!(flags(&config, own, false), (true, true));
    config.policy.denied_options = vec!["suid".into()];
    assert_eq!(flags(&config, theirs, false), (true, false));
}

#[test]
fn the_path_of_a_volume_of_this_driver_is_no_template() {
    let mut config = config();
    config.upstream = true;
    let mut request = request();
    let path = "pvc-${pvc.metadata.name}~7lndebkc";
    let more = [("subDir", path), ("csi.storage.k8s.io/pvc/name", "x")];
    request.volume_context.extend(map(&more));
    let source = |request: &NodePublishVolumeRequest| {
        let parsed = publish(request, &config).unwrap();
        parsed.arguments.export().path().to_owned()
    };
    assert_eq!(source(&request), "/srv/pvc-x~7lndebkc");
    request.volume_id = crate::calls::volume_id::tests::some_id().to_string();
    assert_eq!(source(&request), format!("/srv/{path}"));
}

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
    pairs.iter().map(own).collect()
}

pub(crate) fn request() -> NodePublishVolumeRequest {
    NodePublishVolumeRequest {
        volume_id: "v".into(),
        target_path: "/mnt//x/".into(),
        volume_capability: Some(VolumeCapability {
            access_mode: Some(AccessMode {
                mode: Mode::SingleNodeWriter.into(),
            }),
            access_type: Some(AccessType::Mount(MountVolume::default())),
        }),
        volume_context: map(&[
            ("server", "nas"),
            ("share", "srv"),
            ("storage.kubernetes.io/x", "y"),
        ]),
        ..Default::default()
    }
}

#[test]
fn the_source_comes_from_either_context() {
    let parsed = publish(&request(), &config()).unwrap();
    assert_eq!(parsed.target, Path::new("/mnt/x"));
    assert_eq!(parsed.arguments.export().to_string(), "nas:/srv");
    let mut csc = request();
    csc.volume_context = BTreeMap::new();
    csc.publish_context = map(&[
        ("server", "10.0.0.4"),
        ("share", "nfs_share"),
        ("subdir", "/a/b/"),
    ]);
    let parsed = publish(&csc, &config()).unwrap();
    let export = parsed.arguments.export();
    assert_eq!(export.to_string(), "10.0.0.4:/nfs_share/a/b");
    csc.publish_context = BTreeMap::new();
    let error = publish(&csc, &config()).unwrap_err().to_string();
    assert!(error.contains("\"server\""), "{error}");
}

#[test]
fn volumes_of_every_version_are_found() {
    let shares = corpus::versions("share");
    let (_, share) = shares.last().unwrap();
    let records = corpus::read(&share.join(".csi-nfs/volumes"));
    let mut contexts = BTreeMap::new();
    // What is no record says how a promise was measured.
    for record in records
        .values()
        .flat_map(|text| serde_json::from_slice(text))
    {
        let record: Record<Volume> = record;
        let export = Export::parse("fe80::1%eth0", "/srv/a b").unwrap();
        let what = &record.what;
        let context = answer::context(&export, &what.path, &what.wanted.mount_options);
        contexts.insert(record.what.wanted.name, context);
    }
    let text = serde_json::to_vec_pretty(&contexts).unwrap();
    corpus::holds("volume-contexts", [("by-volume.json", text)]);
    for (version, folder) in corpus::versions("volume-contexts") {
        let text = std::fs::read(folder.join("by-volume.json")).unwrap();
        let contexts: BTreeMap<String, _> = serde_json::from_slice(&text).unwrap();
        let found = contexts.into_iter().map(|(name, volume_context)| {
            let request = NodePublishVolumeRequest {
                volume_context,
                ..request()
            };
            let arguments = publish(&request, &config()).expect(&version).arguments;
            let options = arguments.mount_options.join(",");
            format!("{name}: {} {options}", arguments.export())
        });
        let expected = [
            "adopted: [fe80::1%eth0]:/srv/a b/theirs ",
            "archive: [fe80::1%eth0]:/srv/a b/archive~i8th3nh4 ",
            "clone: [fe80::1%eth0]:/srv/a b/clone~n7vpngh0 ",
            "leaving: [fe80::1%eth0]:/srv/a b/gone ",
            "plain: [fe80::1%eth0]:/srv/a b/plain~n7vpngkb ",
            "whole: [fe80::1%eth0]:/srv/a b/team/web hard,nconnect=4",
        ];
        assert_eq!(found.collect::<Vec<_>>(), expected, "{version}");
    }
}

#[test]
fn read_only_comes_from_the_request_the_mode_and_the_options() {
    let read_only = |change: &dyn Fn(&mut NodePublishVolumeRequest)| {
        let mut request = request();
        change(&mut request);
        publish(&request, &config())
            .unwrap()
            .options
            .flags
            .read_only
    };
    assert!(!read_only(&|_| {}));
    assert!(read_only(&|request| request.readonly = true));
    assert!(read_only(&|request| {
        request
            .volume_context
            .insert("mountOptions".into(), "hard,ro".into());
    }));
    for mode in [Mode::MultiNodeReaderOnly, Mode::SingleNodeReaderOnly] {
        assert!(read_only(&|request| {
            let capability = request.volume_capability.as_mut().unwrap();
            capability.access_mode = Some(AccessMode { mode: mode.into() });
        }));
    }
}

#[test]
fn nosuid_and_nodev_are_lifted_by_options_from_anywhere() {
    let flags = |change: &dyn Fn(&mut NodePublishVolumeRequest)| {
        let mut request = request();
        change(&mut request);
        let parsed = publish(&request, &config()).unwrap();
        let flags = parsed.options.flags;
        (flags.nosuid, flags.nodev, parsed.arguments.mount_options)
    };
    assert_eq!(flags(&|_| {}), (true, true, vec![]));
    let by_context = flags(&|r| {
        r.volume_context
            .insert("mountOptions".into(), "suid".into());
    });
    assert_eq!(by_context, (false, true, vec!["suid".to_owned()]));
    let by_capability = flags(&|r| {
        let mount = MountVolume {
            mount_flags: vec!["dev".into()],
            ..Default::default()
        };
        r.volume_capability.as_mut().unwrap().access_type = Some(AccessType::Mount(mount));
    });
    assert_eq!(by_capability, (true, false, vec!["dev".to_owned()]));
    // What a secret says is in no record.
    let by_secret = flags(&|r| {
        r.secrets.insert("mountOptions".into(), "suid,dev".into());
    });
    assert_eq!(by_secret, (false, false, vec![]));
    let mut config = config();
    config.policy.denied_options = vec!["suid".into()];
    let mut denied = request();
    denied
        .secrets
        .insert("mountOptions".into(), "suid=hunter2".into());
    let error = publish(&denied, &config).unwrap_err().to_string();
    assert!(
        error.contains("suid") && !error.contains("hunter"),
        "{error}"
    );
}

#[test]
fn what_cannot_be_is_refused_by_name() {
    type Change = fn(&mut NodePublishVolumeRequest);
    let cases: [(&str, Change); 15] = [
        ("volume_id", |r| r.volume_id.clear()),
        ("volume_id", |r| r.volume_id = "x".repeat(129)),
        ("target_path", |r| r.target_path.clear()),
        ("target_path", |r| r.target_path = "mnt".into()),
        ("target_path", |r| r.target_path = "/a/../b".into()),
        ("target_path", |r| r.target_path = "/".into()),
        ("4095", |r| r.target_path = "/abc".repeat(1500)),
        ("255", |r| r.target_path = format!("/{}", "x".repeat(256))),
        ("inline", |r| {
            let key = "csi.storage.k8s.io/ephemeral".to_owned();
            r.volume_context.insert(key, "true".into());
        }),
        ("volume_capability", |r| r.volume_capability = None),
        ("access mode 99", |r| {
            r.volume_capability.as_mut().unwrap().access_mode = Some(AccessMode { mode: 99 });
        }),
        ("block", |r| {
            let capability = r.volume_capability.as_mut().unwrap();
            capability.access_type = Some(AccessType::Block(BlockVolume {}));
        }),
        ("subDir", |r| {
            r.volume_context.insert("subDir".into(), "a/../..".into());
        }),
        ("addr", |r| {
            r.volume_context
                .insert("mountOptions".into(), "addr=1.2.3.4".into());
        }),
        ("share", |r| {
            r.volume_context.insert("share".into(), "/a/..".into());
        }),
    ];
    for (name, change) in cases {
        let mut request = request();
        change(&mut request);
        let error = publish(&request, &config()).unwrap_err().to_string();
        assert!(error.contains(name), "{name}: {error}");
    }
}

#[test]
fn servers_outside_the_list_are_refused() {
    let mut config = config();
    config.policy.servers = vec!["*.example.org".into()];
    assert!(matches!(
        publish(&request(), &config),
        Err(NodeError::ServerDenied(_))
    ));
    config.local_shares = vec!["nas:/srv=/tmp".parse().unwrap()];
    assert!(publish(&request(), &config).is_ok());
}
