//! `csi flex serve` as its users have it: over scripts that do what a test needs, and over the example that mounts folders.

mod example;
mod failures;
mod provisioned;
mod served;

use served::{Served, script};

/// The answer of init of a driver that mounts alone.
const MOUNTS: &str = "init) echo '{\"status\":\"Success\",\"capabilities\":{\"attach\":false}}';;";

/// Mounts nothing: it keeps its options in the folder. Many drivers of secrets are of this kind.
const KEEPS: &str = "mount) printf '%s' \"$3\" >$2/options; ok;;\nunmount) rm $2/options && ok;;";

/// A driver that attaches, and plays its mounts with files.
const ATTACHES: &str = "\
init) echo '{\"status\":\"Success\",\"capabilities\":{\"attach\":true,\"fsGroup\":false,\"requiresFSResize\":true}}';;
getvolumename) echo '{\"status\":\"Success\",\"volumeName\":\"disk-7\"}';;
attach) echo '{\"status\":\"Success\",\"device\":\"/dev/seven\"}';;
isattached) echo \"{\\\"status\\\":\\\"Success\\\",\\\"attached\\\":$(cat attached 2>/dev/null || echo true)}\";;
waitforattach) echo '{\"status\":\"Success\",\"device\":\"/dev/disk/seven\"}';;
mountdevice|mount) touch $2/data; ok;;
unmountdevice|unmount) rm $2/data && ok;;
expandvolume) echo '{\"status\":\"Success\",\"volumeNewSize\":8192}';;
expandfs|detach) ok;;";

#[test]
fn a_script_is_a_driver_and_gets_its_options() {
    // A call-out without a limit.
    let served = Served::new(&[MOUNTS, KEEPS], "--call-timeout 0");
    let info = served.run("identity plugin-info -o json").succeeds().json();
    assert_eq!(info["name"], "driver.flex.csi.internal");
    served
        .run("identity plugin-capabilities -o json")
        .succeeds();
    served
        .run("node get-capabilities -o name")
        .succeeds()
        .prints("SINGLE_NODE_MULTI_WRITER\n");
    served.run("controller get-capabilities").exits(64 + 12);
    let info = served.run("node get-info -o json").succeeds().json();
    assert_eq!(info["nodeId"], "node-a");
    let target = served.target("a");
    let context =
        "server=s,csi.storage.k8s.io/pod.name=p,csi.storage.k8s.io/serviceAccount.tokens=t";
    let publish = format!(
        "node publish v-1 --target-path {target} --cap 5,mount,nfs --vol-context {context} --pub-context share=/x --read-only"
    );
    let secrets = served.csi.file("secrets", "user=hunter2");
    let with_secrets = format!("{publish} --secrets-file {}", secrets.display());
    served.run(&with_secrets).succeeds();
    served.run(&with_secrets).succeeds();
    let options = std::fs::read_to_string(format!("{target}/options")).unwrap();
    let options: serde_json::Value = serde_json::from_str(&options).unwrap();
    let expected = serde_json::json!({
        "kubernetes.io/fsType": "nfs",
        "kubernetes.io/pod.name": "p",
        "kubernetes.io/pvOrVolumeName": "v-1",
        "kubernetes.io/readwrite": "ro",
        "kubernetes.io/secret/user": "aHVudGVyMg==",
        "server": "s",
        "share": "/x",
    });
    assert_eq!(options, expected);
    served
        .run(&publish.replace("--read-only", ""))
        .exits(64 + 6)
        .says("already with another capability, or read-only");
    served
        .run(&publish.replace("v-1", "v-2"))
        .exits(64 + 6)
        .says("the volume v-1 is there");
    let unpublish = format!("node unpublish v-1 --target-path {target}");
    served.run(&unpublish.replace("v-1", "v-2")).succeeds();
    assert!(std::path::Path::new(&target).exists());
    for _ in 0..2 {
        served.run(&unpublish).succeeds();
        assert!(!std::path::Path::new(&target).exists());
    }
    assert_eq!(served.call_outs(), ["init", "mount", "unmount"]);
    let state = std::fs::read_to_string(served.csi.home().join("kept/state.json")).unwrap();
    assert!(
        !state.contains("hunter2") && !state.contains("aHVudGVyMg"),
        "{state}"
    );
    assert!(!served.ends().contains("hunter2"));
}

#[test]
fn a_driver_that_attaches_goes_all_the_way() {
    let served = Served::new(&[ATTACHES], "--node-id n-1");
    let capabilities = served.run("controller get-capabilities -o name").succeeds();
    assert!(
        capabilities.stdout.contains("PUBLISH_UNPUBLISH_VOLUME\n"),
        "{capabilities}"
    );
    assert!(
        capabilities.stdout.contains("EXPAND_VOLUME\n"),
        "{capabilities}"
    );
    let capabilities = served.run("node get-capabilities -o name").succeeds();
    for one in [
        "STAGE_UNSTAGE_VOLUME",
        "VOLUME_MOUNT_GROUP",
        "EXPAND_VOLUME",
    ] {
        assert!(capabilities.stdout.contains(one), "{capabilities}");
    }
    let (staging, target) = (served.target("staging"), served.target("target"));
    let stage = format!("node stage v-1 --staging-target-path {staging} --cap 1,mount");
    let publish = format!(
        "node publish v-1 --staging-target-path {staging} --target-path {target} --cap 1,mount"
    );
    served.run(&publish).exits(64 + 9).says("is not staged");
    served
        .run(&stage)
        .exits(64 + 9)
        .says("publish_context has no device");
    let attach = "controller publish v-1 --node-id n-1 --cap 1,mount -o json";
    let attached = served.run(attach).succeeds();
    let again = served.run(attach).succeeds();
    assert_eq!(attached.stdout, again.stdout);
    assert_eq!(
        attached.json()["publishContext"]["flex.csi.internal/device"],
        "/dev/seven"
    );
    served
        .run(&attach.replace("n-1", "n-2"))
        .exits(64 + 9)
        .says("the volume is attached to the node n-1");
    let context = served.csi.file("attached.json", &attached.stdout);
    let context = format!("--publish-context-from {}", context.display());
    served.run(&format!("{stage} {context}")).succeeds();
    served.run(&format!("{publish} {context}")).succeeds();
    let grown = served
        .run("controller expand-volume v-1 --req-bytes 4Ki -o json")
        .succeeds();
    assert_eq!(grown.json()["capacityBytes"], "8192");
    let expand = format!("node expand v-1 --volume-path {target} --req-bytes 8Ki");
    served.run(&expand).succeeds();
    served.run(&expand.replace("target", "other")).exits(64 + 5);
    let (unpublish, unstage) = (
        format!("node unpublish v-1 --target-path {target}"),
        format!("node unstage v-1 --staging-target-path {staging}"),
    );
    for line in [
        &unpublish,
        &unstage,
        "controller unpublish v-1 --node-id n-1",
    ] {
        served.run(line).succeeds();
        served.run(line).succeeds();
    }
    let expected = "init getvolumename attach isattached waitforattach mountdevice mount expandvolume expandfs unmount \
                    unmountdevice detach";
    assert_eq!(served.call_outs().join(" "), expected);
    let detach = served.arguments("detach");
    assert_eq!(detach, "disk-7 n-1");
    let wait = served.arguments("waitforattach");
    assert!(wait.starts_with("/dev/seven {"), "{wait}");
    let mount = served.arguments("mountdevice");
    assert!(
        mount.starts_with(&format!("{staging} /dev/disk/seven {{")),
        "{mount}"
    );
    // What was detached behind the server's back is attached again.
    served.run(attach).succeeds();
    served.csi.file("attached", "false");
    served.run(attach).succeeds();
    assert_eq!(
        served
            .call_outs()
            .iter()
            .filter(|one| *one == "attach")
            .count(),
        3
    );
}

#[test]
fn an_expansion_is_told_its_size_whichever_bound_says_it() {
    let sized = ATTACHES.replace(
        "'{\"status\":\"Success\",\"volumeNewSize\":8192}'",
        "'{\"status\":\"Success\"}'",
    );
    let served = Served::new(&[&sized], "");
    served
        .run("controller publish v-1 --node-id n-1 --cap 1,mount")
        .succeeds();
    for (bounds, sizes) in [
        ("--limit-bytes 8Ki", "8192 0"),
        ("--req-bytes 16Ki --limit-bytes 32Ki", "16384 8192"),
    ] {
        let grown = served.run(&format!("controller expand-volume v-1 {bounds} -o json"));
        let (new, _) = sizes.split_once(' ').unwrap();
        assert_eq!(grown.succeeds().json()["capacityBytes"], new);
        let told = served.arguments("expandvolume");
        assert!(told.ends_with(&format!(" {sizes}")), "{told}");
    }
    served
        .run("controller expand-volume v-1 --limit-bytes 8Ki")
        .exits(64 + 11)
        .says("the volume has 16384 bytes already, and limit_bytes is 8192");
}

#[test]
fn what_cannot_be_served_is_said_before_anything_is() {
    let csi = crate::support::program::Csi::at("unix:f.sock");
    script(&csi, "silent", &["init) ok;;"]);
    script(
        &csi,
        "fails",
        &["init) echo '{\"status\":\"Failure\",\"message\":\"no modules\"}'; exit 1;;"],
    );
    script(&csi, "hangs", &["init) sleep 60;;"]);
    script(&csi, "my_driver", &["init) ok;;"]);
    for (flags, code, part) in [
        ("", 2, "--driver"),
        ("--driver none", 2, "/none cannot be run"),
        ("--driver /", 2, "cannot be run"),
        ("--driver fails", 1, "init: Failure: no modules"),
        (
            "--driver hangs --call-timeout 100ms",
            1,
            "init: it had no answer after",
        ),
        ("--driver my_driver", 2, "give --name"),
        ("--driver silent --node-id a/b", 2, "--node-id is no name"),
        (
            "--driver silent --name a_b",
            2,
            "is no name of a CSI driver",
        ),
    ] {
        csi.run(&format!("flex serve {flags}"))
            .exits(code)
            .says(part);
    }
    csi.run("-e embedded: flex serve --driver silent")
        .exits(2)
        .says("no place to listen");
    let first = csi.spawn("flex serve --driver silent");
    first.wait_for_error_output("serves on");
    assert!(first.error_output().contains("--attach says that it does"));
    csi.run("-e unix:g.sock flex serve --driver silent")
        .exits(1)
        .says("another process has it open");
}
