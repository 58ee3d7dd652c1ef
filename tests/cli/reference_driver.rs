//! The client against a driver that has every capability, which the NFS driver has not: the reference driver.

use crate::support::program::Csi;
use crate::support::reference::ReferenceDriver;
use csi_mock::Options;
use std::process::Command;

#[test]
fn a_lifecycle_uses_every_capability_and_leaves_nothing() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let done = csi.run("lifecycle").succeeds();
    let shown = format!("{}{}", done.stdout, done.stderr);
    assert!(!shown.contains("not advertised"), "{done}");
    assert_eq!(driver.left_behind(), [""; 0]);
}

#[test]
fn volumes_outlive_a_restart() {
    let mut driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    csi.run("controller create-volume pvc-1 --req-bytes 1Mi")
        .succeeds();
    let command = driver.restart_command();
    let shell = |line: &str| Command::new("sh").args(["-c", line]).status();
    // Whoever asks and does not wait for the answer does not keep others from it.
    let impatient = command.split(';').next().unwrap();
    assert!(shell(impatient).unwrap().success());
    assert!(shell(&command).unwrap().success());
    let listed = csi.run("controller list-volumes -o name").succeeds();
    assert_eq!(listed.value(), "vol-00000001");
    assert!(shell(impatient).unwrap().success());
}

#[test]
fn a_stream_of_snapshot_metadata_is_shown_whole() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let created = csi.run("controller create-volume pvc-1 -o name").succeeds();
    let volume = created.value();
    let take = |name: &str| {
        let line = format!("controller create-snapshot {name} --source-volume {volume} -o name");
        csi.run(&line).succeeds().value().to_owned()
    };
    let (first, second) = (take("s1"), take("s2"));
    let all = csi
        .run(&format!("sm get-metadata-allocated {first} -o jsonl"))
        .succeeds();
    assert!(all.stdout.lines().count() > 1, "{all}");
    assert!(all.stdout.contains("FIXED_LENGTH"), "{all}");
    let changed = csi.run(&format!(
        "sm get-metadata-delta --base-snapshot-id {first} --target-snapshot-id {second} -o jsonl"
    ));
    assert!(
        !changed.succeeds().stdout.contains("byteOffset"),
        "nothing was written"
    );
}
