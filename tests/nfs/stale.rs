//! Mounts of folders that the server does not know any more.

use crate::scene::Share;
use crate::server::Server;
use crate::support::calls::{self, Calls, Map};
use crate::support::driver::Driver;
use rustix::io::Errno;
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
        server.export("rw,no_root_squash");
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
