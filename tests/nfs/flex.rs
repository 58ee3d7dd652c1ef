//! `csi flex serve` over the FlexVolume driver for NFS of `examples/flex/`, called as csc is.

use crate::scene::{Share, Version};
use crate::server::{Away, Server};
use crate::support::PATIENCE;
use crate::support::driver::{mounts_below, unmount_below};
use crate::support::program::Csi;
use rustix::process::Signal;
use std::fs;
use std::path::{Path, PathBuf};

/// Leaves nothing mounted, also when a test fails.
struct Home<'a>(&'a Path);

impl Drop for Home<'_> {
    fn drop(&mut self) {
        unmount_below(self.0);
    }
}

#[test]
fn shares_are_published_by_the_command_lines_of_csc() {
    for version in [Version::V3, Version::V4_2] {
        let share = Share::new("flex", version);
        let csi = Csi::patiently_at("unix:f.sock").called("csc");
        let home = csi.home().to_owned();
        let _home = Home(&home);
        let server = Csi::at(&format!("unix://{}", home.join("f.sock").display()));
        let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/flex/nfs");
        let process = server.spawn(&format!(
            "flex serve --node-id n1 --driver {}",
            driver.display()
        ));
        process.wait_for_error_output("serves on");
        let target = home.join("target");
        let path = target.display();
        let where_ = format!(
            "server=127.0.0.1,share={},mountOptions={}",
            share.path(),
            share.options()
        );
        let publish =
            format!("node publish --target-path {path} --cap 5,mount --pub-context {where_} vol-1");
        csi.run(&publish).succeeds();
        csi.run(&publish).succeeds();
        fs::write(target.join("file"), "over NFS").unwrap();
        let on_server = share.folder().join("file");
        assert_eq!(fs::read_to_string(&on_server).unwrap(), "over NFS");
        let stats = format!("node stats vol-1:{path}");
        csi.run(&stats).succeeds();
        let unpublish = format!("node unpublish --target-path {path} vol-1");
        csi.run(&unpublish).succeeds();
        csi.run(&unpublish).succeeds();
        assert!(!target.exists() && on_server.exists());
        let missing = publish.replace("/flex-", "/none-");
        csi.run(&missing)
            .exits(13)
            .says("mount: Failure: mount.nfs");
        assert!(!target.exists());
        assert_eq!(mounts_below(&home), [] as [PathBuf; 0]);
        process.signal(Signal::TERM);
        assert_eq!(process.wait(PATIENCE).unwrap().code(), 0);
    }
}

#[test]
fn a_server_that_is_gone_keeps_no_other_call_waiting() {
    let mut nfs = Server::new("flexaway");
    let share = nfs.share();
    let csi = Csi::patiently_at("unix:f.sock");
    let home = csi.home().to_owned();
    let _home = Home(&home);
    let driver = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/flex/nfs");
    let process = csi.spawn(&format!(
        "flex serve --node-id n1 --driver {}",
        driver.display()
    ));
    process.wait_for_error_output("serves on");
    let target = home.join("target");
    let path = target.display();
    let publish = "node publish --cap 5,mount --target-path";
    let where_ = share.params();
    csi.run(&format!("{publish} {path} --pub-context {where_} vol-1"))
        .succeeds();
    nfs.leave(Away::CutOff);
    // Below the mount, where the very look at the path asks the server.
    // On a busy machine a call may not have begun when it is given up: then the next one.
    let refused = ["3s", "15s", "60s"].into_iter().find_map(|limit| {
        let deep = format!("{path}/sub/deep vol-2-{limit} --timeout {limit}");
        csi.run(&format!("{publish} {deep}")).exits(64 + 4);
        let refused = csi.run(&format!("node unpublish --target-path {deep}"));
        (refused.code == 64 + 10).then_some(refused)
    });
    refused
        .expect("a call that has begun")
        .says("NodePublishVolume of this volume has been running for");
    csi.run(&format!("node stats vol-1:{path} --timeout 3s"))
        .exits(64 + 4);
    csi.run(&format!(
        "node unpublish --target-path {path}/sub/other vol-4 --timeout 3s"
    ))
    .exits(64 + 4);
    csi.run("identity probe").succeeds();
    csi.run(&format!("node unpublish --target-path {path}2 vol-3"))
        .succeeds();
    nfs.come_back(Away::CutOff);
    process.signal(Signal::TERM);
    assert_eq!(process.wait(PATIENCE).unwrap().code(), 0);
}
