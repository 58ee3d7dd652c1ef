//! Mounts of folders that the server does not know any more.

use crate::scene::{Share, Version, find};
use crate::server::Server;
use crate::support::calls::{self, Calls, Map};
use crate::support::driver::Driver;
use crate::support::patience::{Patience, until};
use crate::support::placed::of_volume;
use rustix::io::Errno;
use rustix::process::Signal;
use std::fs;
use std::io::{Read as _, Seek as _};
use std::path::Path;

fn is_stale(path: &Path) -> bool {
    rustix::fs::statfs(path).err() == Some(Errno::STALE)
}

/// A folder of the share by hand, published at the target of the same name.
async fn publish(calls: &Calls, share: &Share, driver: &Driver, folder: &str) -> Map {
    fs::create_dir_all(share.folder().join(folder)).unwrap();
    let mut context = share.parameters();
    context.insert("subDir".to_owned(), folder.to_owned());
    let target = driver.target(folder);
    calls.publish(folder, &context, &target).await.unwrap();
    context
}

#[test]
fn a_stale_mount_is_found_and_replaced_by_a_publish() {
    let server = Server::new("stale");
    let share = server.share();
    let driver = Driver::with_args(&[]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let context = publish(&calls, &share, &driver, "moved").await;
        publish(&calls, &share, &driver, "other").await;
        let (target, other) = (driver.target("moved"), driver.target("other"));
        calls.stats("moved", &target).await.unwrap();
        fs::write(other.join("open"), "before").unwrap();
        let mut open = fs::File::open(other.join("open")).unwrap();

        // The volume's folder is made anew, as from a backup.
        let folder = share.folder().join("moved");
        fs::remove_dir(&folder).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("new"), "new").unwrap();
        assert!(is_stale(&target));
        let stats = calls.stats("moved", &target).await.unwrap();
        let condition = stats.volume_condition.unwrap();
        assert!(condition.abnormal, "{condition:?}");
        assert!(
            condition.message.contains("publish the volume again"),
            "{condition:?}"
        );

        calls.publish("moved", &context, &target).await.unwrap();
        assert_eq!(fs::read_to_string(target.join("new")).unwrap(), "new");
        let mounts = driver.mounts();
        assert_eq!(
            mounts.iter().filter(|mount| **mount == target).count(),
            1,
            "{mounts:?}"
        );
        let condition = calls
            .stats("moved", &target)
            .await
            .unwrap()
            .volume_condition;
        assert!(!condition.unwrap().abnormal);
        // The other volume is the mount that it was.
        let mut text = String::new();
        open.rewind().unwrap();
        open.read_to_string(&mut text).unwrap();
        assert_eq!(text, "before");
        drop(open);
        fs::write(other.join("more"), "").unwrap();
        for volume in ["moved", "other"] {
            calls
                .unpublish(volume, &driver.target(volume))
                .await
                .unwrap();
        }
    });
    assert!(driver.mounts().is_empty());
}

/// Its server answers, so whoever uses it can end, and might write to the volume again.
#[test]
fn a_stale_mount_in_use_is_not_unpublished() {
    let server = Server::new("stale-used");
    let share = server.share();
    let driver = Driver::with_args(&[]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        // On a busy machine the driver's question may get no answer in time: then another volume.
        for round in 0..5 {
            let volume = format!("used-{round}");
            let context = publish(&calls, &share, &driver, &volume).await;
            let target = driver.target(&volume);
            let held = fs::File::open(&target).unwrap();
            let folder = share.folder().join(&volume);
            fs::remove_dir(&folder).unwrap();
            fs::create_dir(&folder).unwrap();
            fs::write(folder.join("new"), "").unwrap();
            assert!(is_stale(&target));
            let Err(refused) = calls.unpublish(&volume, &target).await else {
                continue;
            };
            assert_eq!(refused.code(), tonic::Code::FailedPrecondition);
            assert!(refused.message().contains("in use"), "{refused:?}");
            assert_eq!(driver.mounts(), [target.as_path()]);
            // A publish replaces it all the same.
            calls.publish(&volume, &context, &target).await.unwrap();
            assert!(target.join("new").exists());
            drop(held);
            calls.unpublish(&volume, &target).await.unwrap();
            assert!(driver.mounts().is_empty());
            return;
        }
        panic!("no unpublish was refused: {}", driver.log());
    });
}

/// Another mount of the share on the node knows the folder that was at the volume's path before.
fn a_publish_shows_the_folder_that_is_there_now(version: Version) {
    let share = Share::new("replaced", version);
    let driver = Driver::with_args(&["--mode", "node"]);
    let folder = share.folder().join("above/volume");
    fs::create_dir_all(&folder).unwrap();
    let mut context = share.parameters();
    context.insert("subDir".to_owned(), "above/volume".to_owned());
    let [before, after] = ["before", "after"].map(|name| driver.target(name));
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        calls.publish("volume", &context, &before).await.unwrap();
        // Deleted by a controller, and made again with the same path.
        fs::rename(&folder, share.folder().join("trash")).unwrap();
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("new"), "").unwrap();
        calls.publish("volume", &context, &after).await.unwrap();
        assert!(after.join("new").exists());
        for target in [&before, &after] {
            calls.unpublish("volume", target).await.unwrap();
        }
    });
}

#[test]
fn a_publish_shows_the_folder_that_is_there_now_over_v3() {
    a_publish_shows_the_folder_that_is_there_now(Version::V3);
}

#[test]
fn a_publish_shows_the_folder_that_is_there_now_over_v4_2() {
    a_publish_shows_the_folder_that_is_there_now(Version::V4_2);
}

const LARGE: u64 = 1 << 30;

/// Stops a driver until this is dropped.
struct Stopped<'a>(&'a Driver);

impl<'a> Stopped<'a> {
    /// Waits until each of its threads has stopped.
    fn now(driver: &'a Driver) -> Self {
        driver.process().signal(Signal::STOP);
        let pid = driver.process().pid();
        until("the driver has stopped", || {
            let threads = fs::read_dir(format!("/proc/{pid}/task")).unwrap();
            threads.flatten().all(|thread| {
                let stat = fs::read_to_string(thread.path().join("stat"));
                stat.is_ok_and(|stat| stat.contains(") T "))
            })
        });
        Self(driver)
    }
}

impl Drop for Stopped<'_> {
    fn drop(&mut self) {
        self.0.process().signal(Signal::CONT);
    }
}

/// Version 3 knows no open files: one that is removed while it is copied is gone at once.
#[test]
fn files_that_go_while_they_are_copied_do_not_fail_the_copy() {
    let share = Share::new("copied-away", Version::V3);
    let driver = Driver::with_args(&[]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let request = calls::volume("v", &share.parameters());
        let volume = calls.create(request).await.unwrap();
        let folder = of_volume(share.folder(), "v");
        fs::write(folder.join("stays"), "stays").unwrap();
        // On a busy machine a copy may have been made before it is met in the middle: then another one.
        for round in 0..10 {
            let id = &volume.volume_id;
            if went_while_it_was_copied((&share, &driver), &calls, id, round).await {
                return;
            }
        }
        panic!("no copy was met in the middle");
    });
}

/// Whether the files have gone in the middle of the copy, which is as it must be then.
async fn went_while_it_was_copied(
    (share, driver): (&Share, &Driver),
    calls: &Calls,
    volume: &str,
    round: usize,
) -> bool {
    let folder = of_volume(share.folder(), "v");
    // Long enough to be met in the middle, and all holes, which version 3 cannot tell.
    for name in ["removed", "replaced"] {
        let file = fs::File::create(folder.join(name)).unwrap();
        file.set_len(LARGE).unwrap();
    }
    fs::write(folder.join("new"), "new").unwrap();
    let snapshot = tokio::spawn({
        let (calls, volume) = (calls.clone(), volume.to_owned());
        async move { calls.ready_snapshot(&format!("s-{round}"), &volume).await }
    });
    let found = |name: &str| find(&share.folder().join(".csi-nfs/snapshots"), name);
    let copied = || {
        let [removed, replaced, new] = ["removed", "replaced", "new"].map(found);
        (removed.len(), replaced.len(), new.len())
    };
    let mut patience = Patience::default();
    // The copy is under way in another process, which says nothing before it is done: its files are looked at.
    while copied() != (1, 1, 1) {
        assert!(patience.lasts(), "{:?}", copied());
        tokio::time::sleep(patience.pause()).await;
    }
    let stopped = Stopped::now(driver);
    // A file of holes gets its length in the end.
    let mut copies = ["removed", "replaced"].into_iter().flat_map(found);
    let is_under_way = copies.all(|copy| copy.metadata().unwrap().len() == 0);
    if is_under_way {
        fs::remove_file(folder.join("removed")).unwrap();
        fs::rename(folder.join("new"), folder.join("replaced")).unwrap();
    }
    drop(stopped);
    let made = snapshot.await.unwrap().unwrap();
    if !is_under_way {
        calls.delete_snapshot(&made.snapshot_id).await.unwrap();
        return false;
    }
    // A copy that was begun anew would not have what was renamed.
    assert_eq!(copied(), (0, 1, 1), "{}", driver.log());
    let copies = found("replaced");
    // The one or the other, and nothing between: the server may have kept the old one to its end.
    let length = copies[0].metadata().unwrap().len();
    assert!(length == 3 || length == LARGE, "{length}");
    let stays = copies[0].with_file_name("stays");
    assert_eq!(fs::read_to_string(stays).unwrap(), "stays");
    true
}

/// As after a disk was replaced: the export itself is another folder.
#[test]
fn all_mounts_of_an_export_that_was_made_anew_are_replaced() {
    let mut server = Server::new("replaced");
    let share = server.share();
    let driver = Driver::with_args(&[]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let mut contexts = Vec::new();
        for volume in ["a", "b"] {
            contexts.push((volume, publish(&calls, &share, &driver, volume).await));
        }
        server.stop();
        let folder = server.folder().to_owned();
        let old = folder.with_extension("old");
        fs::rename(&folder, &old).unwrap();
        for volume in ["a", "b"] {
            fs::create_dir_all(folder.join(volume)).unwrap();
            fs::write(folder.join(volume).join("restored"), volume).unwrap();
        }
        fs::remove_dir_all(&old).unwrap();
        server.export_anew("rw,no_root_squash");
        server.start();
        for (volume, context) in &contexts {
            let target = driver.target(volume);
            assert!(is_stale(&target), "{volume}");
            calls.publish(volume, context, &target).await.unwrap();
            assert_eq!(
                fs::read_to_string(target.join("restored")).unwrap(),
                *volume
            );
        }
        assert_eq!(driver.mounts().len(), 2);
        for (volume, _) in &contexts {
            calls
                .unpublish(volume, &driver.target(volume))
                .await
                .unwrap();
        }
    });
}

/// The volume's folder is away when its stale mount is to be replaced.
#[test]
fn a_publish_that_cannot_replace_a_stale_mount_forgets_nothing() {
    let server = Server::new("unreplaced");
    let share = server.share();
    let driver = Driver::with_args(&[]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        for folder in ["back", "given-up"] {
            let context = publish(&calls, &share, &driver, folder).await;
            let target = driver.target(folder);
            fs::remove_dir(share.folder().join(folder)).unwrap();
            for _ in 0..2 {
                let answer = calls.publish(folder, &context, &target).await.unwrap_err();
                assert_eq!(answer.code(), tonic::Code::NotFound, "{answer:?}");
                assert!(answer.message().contains(folder), "{answer:?}");
            }
            assert!(driver.mounts().is_empty());
            if folder == "back" {
                fs::create_dir(share.folder().join(folder)).unwrap();
                calls.publish(folder, &context, &target).await.unwrap();
                assert_eq!(driver.mounts(), [target.as_path()]);
            }
            // The target was made by the first publish.
            calls.unpublish(folder, &target).await.unwrap();
            assert!(!target.exists(), "{target:?}");
        }
    });
    assert!(driver.mounts().is_empty());
}
