//! Inline volumes: existing folders, from lists of what is allowed.

use super::{code, flags_of};
use crate::rig::{Client, Rig, publish_request};
use csi_proto::v1::NodePublishVolumeRequest;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Code;

/// What a kubelet sends for a volume that is written into a pod.
fn inline_request(rig: &Rig, attributes: &[(&str, &str)]) -> NodePublishVolumeRequest {
    let id = format!("csi-{}", "0123456789abcdef".repeat(4));
    let mut request = publish_request(&id, &rig.path("target"), Mode::SingleNodeWriter);
    let told = [
        ("csi.storage.k8s.io/ephemeral", "true"),
        ("csi.storage.k8s.io/pod.name", "p"),
    ];
    request.volume_context = attributes
        .iter()
        .chain(&told)
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()))
        .collect();
    request
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn inline_volumes_show_what_is_allowed_and_leave_it() {
    let rig = Rig::new();
    for folder in ["pub/a", "public", "private"] {
        std::fs::create_dir_all(rig.path("export").join(folder)).unwrap();
    }
    std::fs::write(rig.path("export/pub/a/file"), "x").unwrap();
    std::os::unix::fs::symlink("../private", rig.path("export/pub/link")).unwrap();
    let flags = [
        "--stage",
        "--inline-share",
        "server:/pub",
        "--inline-mount-option",
        "noexec",
    ];
    let driver = rig.driver_with(&flags);
    let client = Client::connect(&rig).await;
    let server = ("server", "server");
    for (attributes, expected, says) in [
        (&[server, ("share", "/pub/b")][..], Code::NotFound, "pub"),
        (
            &[server, ("share", "/pub/link")],
            Code::FailedPrecondition,
            "symlink",
        ),
        (
            &[server, ("share", "/public")],
            Code::PermissionDenied,
            "server:/public",
        ),
        (
            &[server, ("share", "/")],
            Code::PermissionDenied,
            "--inline-share",
        ),
        (
            &[server, ("share", "/pub"), ("subDir", "../private")],
            Code::InvalidArgument,
            "subDir",
        ),
        (
            &[("server", "other"), ("share", "/pub")],
            Code::PermissionDenied,
            "other:/pub",
        ),
        (&[("share", "/pub")], Code::InvalidArgument, "\"server\""),
        (&[server], Code::InvalidArgument, "\"share\""),
        (
            &[server, ("share", "/pub/a"), ("mountOptions", "suid")],
            Code::PermissionDenied,
            "suid",
        ),
    ] {
        let mut request = inline_request(&rig, attributes);
        // Only the pod's own attributes count.
        let context = &mut request.publish_context;
        context.insert("server".into(), "server".into());
        context.insert("share".into(), "/pub/a".into());
        let error = client.publish(request).await.unwrap_err();
        assert_eq!(error.code(), expected, "{attributes:?}: {error}");
        assert!(error.message().contains(says), "{attributes:?}: {error}");
        assert!(!rig.path("target").exists());
    }
    let mut secret = inline_request(&rig, &[server, ("share", "/pub/a")]);
    for (options, expected) in [
        ("sec=hunter2", Code::PermissionDenied),
        ("password=hunter2", Code::InvalidArgument),
        ("hunter2", Code::InvalidArgument),
    ] {
        let options = options.to_owned();
        secret.secrets.insert("mountOptions".into(), options);
        let error = client.publish(secret.clone()).await.unwrap_err();
        assert_eq!(error.code(), expected, "{error}");
        assert!(!error.message().contains("hunter2"), "{error}");
    }
    assert!(!driver.log().iter().any(|line| line.contains("hunter2")));

    // The root of a share: a pod would see, and could write, its records.
    for records in ["pub/.csi-nfs", "pub/a/.csi-nfs"] {
        std::fs::create_dir(rig.path("export").join(records)).unwrap();
        let share = format!("/{}", records.trim_end_matches("/.csi-nfs"));
        let share = inline_request(&rig, &[server, ("share", &share)]);
        let error = client.publish(share).await.unwrap_err();
        assert_eq!(error.code(), Code::FailedPrecondition, "{error}");
        assert!(error.message().contains(".csi-nfs"), "{error}");
        assert!(!rig.path("target").exists());
        std::fs::remove_dir(rig.path("export").join(records)).unwrap();
    }

    let sub_dir = [
        server,
        ("share", "pub"),
        ("subDir", "a"),
        ("mountOptions", "noexec"),
    ];
    let mut request = inline_request(&rig, &sub_dir);
    client.publish(request.clone()).await.unwrap();
    assert_eq!(std::fs::read(rig.inside("target/file")).unwrap(), b"x");
    assert_eq!(flags_of(&rig, "target"), "rw,nosuid,nodev,noexec,relatime");
    // Without podInfoOnMount, the id alone tells.
    request
        .volume_context
        .remove("csi.storage.k8s.io/ephemeral");
    client.publish(request.clone()).await.unwrap();
    request
        .volume_context
        .insert("share".into(), "/private".into());
    request.volume_context.remove("subDir");
    request.target_path = rig.path("other").display().to_string();
    assert_eq!(
        code(client.publish(request.clone()).await),
        Code::PermissionDenied
    );

    driver.kill();
    let _driver = rig.driver();
    let client = Client::connect(&rig).await;
    client
        .unpublish(&request.volume_id, &rig.path("target"))
        .await
        .unwrap();
    assert!(!rig.path("target").exists());
    assert!(rig.path("export/pub/a/file").exists());
    assert_eq!(
        code(client.publish(request).await),
        Code::FailedPrecondition
    );
}
