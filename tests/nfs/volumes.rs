//! A volume's whole life over each version of NFS.

use crate::scene::{Scene, Version, Volume, refused, try_create_with};
use crate::support::calls;
use csi_proto::v1::volume_capability::{AccessType, MountVolume};
use csi_proto::v1::{NodePublishVolumeRequest, VolumeCapability, volume_usage};
use std::fs;
use std::io::ErrorKind;
use tonic::Code;

#[test]
fn life_over_v3() {
    whole_life(Version::V3);
}

#[test]
fn life_over_v4_0() {
    whole_life(Version::V4_0);
}

#[test]
fn life_over_v4_2() {
    whole_life(Version::V4_2);
}

/// The size of the large file, in bytes.
const WRITTEN: u64 = 4 << 20;

fn whole_life(version: Version) {
    let scene = Scene::new("life", version);
    let volume = scene.create("pvc-1");
    assert_eq!(scene.list(), [volume.id.as_str()]);

    // What is written through the mount is on the server's disk, in a folder of the volume's own.
    let mount = scene.publish(&volume, "first");
    fs::write(mount.join("written.txt"), "through the mount").unwrap();
    fs::write(mount.join("large"), vec![7; WRITTEN as usize]).unwrap();
    let folders = scene.share.entries();
    assert_eq!(folders.len(), 1, "{folders:?}");
    let on_disk = scene.share.folder().join(&folders[0]).join("written.txt");
    assert_eq!(fs::read_to_string(on_disk).unwrap(), "through the mount");
    is_mounted_as(&scene, "first", version);
    flags_are(&scene, "first", "nosuid,nodev");

    // A second mount of it, read-only.
    scene.try_publish_read_only(&volume, "second").unwrap();
    let read_only = scene.driver.target("second");
    assert_eq!(
        fs::read_to_string(read_only.join("written.txt")).unwrap(),
        "through the mount"
    );
    let read_only = fs::write(read_only.join("more.txt"), "").unwrap_err();
    assert_eq!(read_only.kind(), ErrorKind::ReadOnlyFilesystem);

    // Publishing again with the same arguments changes nothing, with others is refused.
    scene.publish(&volume, "first");
    assert_eq!(scene.driver.mounts().len(), 2);
    let otherwise = scene.try_publish_read_only(&volume, "first");
    refused(otherwise, Code::AlreadyExists, &[]);

    stats_are_right(&scene, &volume);
    expands(&scene, &volume);

    // Twice is fine, also for a target that never was.
    for target in ["first", "second", "first", "never"] {
        scene.try_unpublish(&volume, target).unwrap();
        assert!(!scene.driver.target(target).exists(), "{target}");
    }
    scene.has_no_mounts();
    scene.try_delete(&volume).unwrap();
    scene.try_delete(&volume).unwrap();
    assert_eq!(scene.list(), [""; 0]);
    scene.share.wait_until_empty("written.txt");
}

/// The kernel's own word on the version that is in use.
fn is_mounted_as(scene: &Scene, target: &str, version: Version) {
    let target = scene.driver.target(target);
    let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
    let mut of_target = mounts
        .lines()
        .filter(|line| line.contains(target.to_str().unwrap()));
    let line = of_target.next().unwrap();
    let option = match version {
        Version::V3 => "vers=3,",
        Version::V4_0 => "vers=4.0,",
        Version::V4_2 => "vers=4.2,",
    };
    assert!(line.contains(option), "{line}");
}

/// The flags of the mount itself, of which mountinfo has "rw" before and how access times are kept behind.
fn flags_are(scene: &Scene, target: &str, flags: &str) {
    let target = scene.driver.target(target);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let mut of_target = mounts
        .lines()
        .filter(|line| line.contains(target.to_str().unwrap()));
    let words = of_target.next().unwrap().split(' ').nth(5).unwrap();
    let own: Vec<_> = words
        .split(',')
        .filter(|word| !matches!(*word, "rw" | "relatime"))
        .collect();
    assert_eq!(own.join(","), flags);
}

#[test]
fn programs_and_devices_get_their_power_by_options() {
    let scene = Scene::new("suid-dev", Version::V4_2);
    let volume = scene.create("pvc-1");
    for (options, flags) in [("suid", "nodev"), ("dev", "nosuid"), ("suid,dev", "")] {
        let as_asked = MountVolume {
            mount_flags: vec![options.to_owned()],
            ..Default::default()
        };
        let capability = VolumeCapability {
            access_type: Some(AccessType::Mount(as_asked)),
            ..calls::capability()
        };
        let request = NodePublishVolumeRequest {
            volume_capability: Some(capability),
            ..scene.publishing(&volume, options)
        };
        scene.call(request).unwrap();
        flags_are(&scene, options, flags);
        scene.try_unpublish(&volume, options).unwrap();
    }
    scene.has_no_mounts();
}

fn stats_are_right(scene: &Scene, volume: &Volume) {
    let stats = scene.try_stats(volume, "first").unwrap();
    let export = rustix::fs::statvfs(scene.share.folder()).unwrap();
    let of = |unit: volume_usage::Unit| {
        let mut usages = stats.usage.iter();
        usages.find(|usage| usage.unit() == unit).unwrap()
    };
    let number = |value: i64| u64::try_from(value).unwrap();
    // NFS tells sizes in blocks of its own, of at most 1 MiB.
    let bytes = of(volume_usage::Unit::Bytes);
    let total = number(bytes.total);
    assert!(
        total.abs_diff(export.f_blocks * export.f_frsize) < 1 << 20,
        "{stats:?}"
    );
    let inodes = of(volume_usage::Unit::Inodes);
    assert_eq!(number(inodes.total), export.f_files);
    // The other tests write to the same disk, too.
    let used = number(bytes.used);
    assert!((WRITTEN..=total).contains(&used), "{stats:?}");
    refused(scene.try_stats(volume, "nowhere"), Code::NotFound, &[]);
}

fn expands(scene: &Scene, volume: &Volume) {
    assert_eq!(scene.try_expand(volume, 2 << 30).unwrap(), 2 << 30);
    // Smaller than it is already: it stays.
    assert_eq!(scene.try_expand(volume, 1 << 30).unwrap(), 2 << 30);
    let found = scene.try_get(volume).unwrap().volume.unwrap();
    assert_eq!(found.capacity_bytes, 2 << 30);
}

#[test]
fn server_and_share_from_the_publish_context() {
    let scene = Scene::new("publish-context", Version::V4_2);
    let share = scene.share.path().trim_start_matches('/');
    let volume = Volume {
        id: "nfstestvol".to_owned(),
        context: calls::map(&[]),
    };
    let request = NodePublishVolumeRequest {
        publish_context: calls::map(&[("server", "127.0.0.1"), ("share", share)]),
        ..scene.publishing(&volume, "nfs")
    };
    scene.call(request).unwrap();
    fs::write(scene.driver.target("nfs").join("here.txt"), "").unwrap();
    assert_eq!(scene.share.entries(), ["here.txt"]);
    scene.try_unpublish(&volume, "nfs").unwrap();
    scene.has_no_mounts();
}

/// The address with and without brackets, as parameter and in the name of a share.
#[test]
fn a_server_by_its_ipv6_address() {
    if std::net::TcpStream::connect("[::1]:2049").is_err() {
        // The guest always has it; the server of this machine (tests/nfs-host) may be without.
        assert!(std::env::var_os("NFS_GUEST").is_none(), "no NFS at [::1]");
        eprintln!("not tested, because no NFS server answers at [::1]");
        return;
    }
    for version in [Version::V3, Version::V4_2] {
        for server in ["::1", "[::1]"] {
            let name = format!("ipv6-{}", server.len());
            let scene = Scene::new(&name, version);
            let mut parameters = scene.share.parameters();
            parameters.insert("server".to_owned(), server.to_owned());
            let request = calls::volume("pvc-1", &parameters);
            let volume = try_create_with(&scene.driver, request).unwrap();
            let mount = scene.publish(&volume, "target");
            fs::write(mount.join("written.txt"), "").unwrap();
            is_mounted_as(&scene, "target", version);
            let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
            // Version 4 tells that both addresses are of one server, and may go on with a connection that is there.
            let hosts: &[&str] = match version {
                Version::V3 => &["[::1]"],
                _ => &["[::1]", "127.0.0.1"],
            };
            let sources = hosts
                .iter()
                .map(|host| format!("{host}:{}/", scene.share.path()));
            let mut of_share = sources.filter(|source| mounts.contains(source));
            assert!(of_share.next().is_some(), "{mounts}");
            scene.try_unpublish(&volume, "target").unwrap();
            scene.has_no_mounts();
            scene.try_delete(&volume).unwrap();
            scene.share.wait_until_empty("written.txt");
        }
    }
}
