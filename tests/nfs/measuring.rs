//! What volumes take, measured through the controller's own mount: as the server's du counts it, and no further than their own
//! server when that is gone.

use crate::scene::{Scene, Version};
use crate::server::{Away, Server};
use crate::support::calls::{self, Calls};
use crate::support::driver::Driver;
use crate::support::patience::until;
use crate::support::placed::of_volume;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use std::fs;
use std::io::Write as _;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

const MEASURES: [&str; 4] = ["--measure", "1s", "--log-level", "debug"];

fn du(folder: &Path) -> u64 {
    let told = Command::new("du").args(["-s", "-B1"]).arg(folder).output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    told.split_whitespace().next().unwrap().parse().unwrap()
}

/// The last measure of the only volume of a share.
fn measure(share: &Path) -> Option<serde_json::Value> {
    let volumes = fs::read_dir(share.join(".csi-nfs/volumes")).unwrap();
    let mut beside = volumes.flat_map(|it| fs::read_dir(it.unwrap().path()).unwrap().flatten());
    let file = beside.find(|it| it.file_name().to_string_lossy().starts_with("measure."))?;
    // Replaced in this moment, perhaps.
    serde_json::from_slice(&fs::read(file.path()).ok()?).ok()
}

fn measured_as_by_du(version: Version) {
    let scene = Scene::with_driver("measured", version, &MEASURES);
    let volume = scene.create("v");
    let mount = scene.publish(&volume, "target");
    fs::create_dir_all(mount.join("folder/inner")).unwrap();
    for number in 0..300 {
        let name = format!("folder/inner/{number}");
        fs::write(mount.join(name), vec![7; number * 100]).unwrap();
    }
    fs::hard_link(mount.join("folder/inner/299"), mount.join("again")).unwrap();
    symlink("..", mount.join("folder/loop")).unwrap();
    mknodat(CWD, mount.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let sparse = fs::File::create(mount.join("sparse")).unwrap();
    sparse.set_len(1 << 30).unwrap();
    rustix::fs::syncfs(&sparse).unwrap();
    drop(sparse);
    let folder = of_volume(scene.share.folder(), "v");
    // Looked at before it was whole, perhaps, and known as that for a while.
    until("it is measured as du counts it", || {
        let found = measure(scene.share.folder()).unwrap_or_default();
        let counted = [&found["bytes"], &found["files"], &found["folders"]];
        counted.map(|it| it.as_u64()) == [Some(du(&folder)), Some(303), Some(3)]
    });
    let status = scene.try_get(&volume).unwrap().status.unwrap();
    let shown = status.volume_condition.unwrap().message;
    assert!(
        shown.contains(" in 306 files and folders measured "),
        "{shown}"
    );
    scene.try_unpublish(&volume, "target").unwrap();
    scene.try_delete(&volume).unwrap();
    scene.share.wait_until_empty("sparse");
    // A measure that comes too late goes again.
    until("no records and no measures", || {
        let mut left = fs::read_dir(scene.share.folder().join(".csi-nfs/volumes")).unwrap();
        left.next().is_none()
    });
}

/// An NFS client says only at a flush that there is no room, and a file that was renamed before would have replaced a good one.
#[test]
fn a_share_without_room_keeps_the_measure_before() {
    let server = Server::exporting("measured-full", "rw,no_root_squash", Some("2m"));
    let share = server.share();
    let driver = Driver::with_args(&MEASURES);
    let runtime = calls::runtime();
    let _within = runtime.enter();
    let calls = Calls::to(&driver.endpoint());
    let request = calls::volume("v", &share.parameters());
    runtime.block_on(calls.create(request)).unwrap();
    until("it is measured", || measure(share.folder()).is_some());
    let path = share.folder().join("filler");
    let mut filler = fs::File::create(&path).unwrap();
    until("it cannot be measured", || {
        // A measure that took another's place since then gave a page back, which is enough for all the next ones.
        while filler.write_all(&[7; 4096]).is_ok() {}
        driver.log().contains("volumes are not measured")
    });
    // One may take its place in this moment, of which there is no more than that.
    until("there is a measure", || measure(share.folder()).is_some());
    fs::remove_file(path).unwrap();
}

#[test]
fn measured_as_by_du_over_v3() {
    measured_as_by_du(Version::V3);
}

#[test]
fn measured_as_by_du_over_v4_2() {
    measured_as_by_du(Version::V4_2);
}

#[test]
fn a_dead_server_keeps_no_other_servers_volumes_from_being_measured() {
    let mut server = Server::new("measured");
    let folder = tempfile::tempdir().unwrap();
    let local = format!("localhost:/share={}", folder.path().display());
    let driver = Driver::with_args(&[&["--local-share", &local], &MEASURES[..]].concat());
    let share = server.share();
    let measured = |of: &str| {
        let log = driver.log();
        let lines = log.lines().filter(|line| line.contains(": measured "));
        lines.filter(|line| line.contains(of)).count()
    };
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let near = calls::map(&[("server", "localhost"), ("share", "/share")]);
        calls.create(calls::volume("near", &near)).await.unwrap();
        let made = calls.create(calls::volume("far", &share.parameters()));
        made.await.unwrap();
        // More than a round takes.
        let files = of_volume(share.folder(), "far");
        for number in 0..3000 {
            fs::write(files.join(number.to_string()), "").unwrap();
        }
        let begun = driver.log().lines().count();
        until("the volume is being measured", || {
            let log = driver.log();
            let mut lines = log.lines().skip(begun);
            lines.any(|line| line.contains(": measuring ") && line.contains(&server.address()))
        });
        server.leave(Away::CutOff);
        let near_before = measured("localhost");
        until("the other one is measured", || {
            measured("localhost") > near_before
        });
        // By now it has said of all that it had measured before.
        let (near_before, far_before) = (measured("localhost"), measured(&server.address()));
        until("the other one is measured again", || {
            measured("localhost") > near_before + 2
        });
        let made = calls.create(calls::volume("another", &near)).await;
        made.unwrap();
        assert_eq!(measured(&server.address()), far_before);
        server.come_back(Away::CutOff);
        until("the measure goes on", || {
            measured(&server.address()) > far_before
        });
    });
}
