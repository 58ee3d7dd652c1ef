//! Shares that are full, read-only, squash root, or have lost their records: a clear error, nothing left behind, and all is
//! well again when the cause is gone.

use crate::scene::{Share, Version, refused};
use crate::server::Server;
use crate::support::calls::{self, Calls, repeated};
use crate::support::disk::{Disk, Expected};
use crate::support::driver::Driver;
use crate::support::patience::Patience;
use crate::support::placed::of_volume;
use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use tonic::Code;

/// The driver goes first in the end, before its server.
struct Scene {
    driver: Driver,
    share: Share,
    server: Server,
}

fn scene(name: &str, options: &str, disk: Option<&str>) -> Scene {
    let server = Server::exporting(name, options, disk);
    Scene {
        share: server.share(),
        driver: Driver::with_args(&[]),
        server,
    }
}

fn volumes(names: &[&str], snapshots: usize) -> Expected {
    Expected {
        folders: names.iter().map(ToString::to_string).collect(),
        volumes: names.len(),
        snapshots,
    }
}

/// Where holes cannot be seen, nobody reads zeros for years.
#[test]
fn no_hole_is_read_without_end() {
    // Nor can they over 4.0 and 4.1, by the same calls of the driver.
    let share = Share::new("holes", Version::V3);
    let driver = Driver::with_args(&[]);
    let disk = Disk::with_foreign_files(share.folder());
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let request = calls::volume("v", &share.parameters());
        let volume = calls.create(request).await.unwrap().volume_id;
        let file = File::create(of_volume(share.folder(), "v/file")).unwrap();
        file.set_len(1 << 26).unwrap();
        calls.ready_snapshot("s", &volume).await.unwrap();
        file.set_len(i64::MAX as u64 & !0xfff).unwrap();
        let words = ["file", "vers=4.2"];
        refused(
            calls.snapshot("t", &volume).await,
            Code::FailedPrecondition,
            &words,
        );
        disk.settles_with(&volumes(&["v"], 1));
    });
}

#[test]
fn a_full_share() {
    let Scene { driver, share, .. } = &scene("full", "rw,no_root_squash", Some("2m"));
    let disk = Disk::with_foreign_files(share.folder());
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let create = |name: &str| {
            let (calls, request) = (calls.clone(), calls::volume(name, &share.parameters()));
            async move { calls.create(request).await }
        };
        let first = create("first").await.unwrap();
        let second = create("second").await.unwrap();
        fs::write(of_volume(share.folder(), "first/data"), vec![7; 1 << 20]).unwrap();
        // A copy that has no room is taken back.
        let answer = calls.ready_snapshot("snapshot", &first.volume_id).await;
        refused(answer, Code::ResourceExhausted, &["No space left"]);
        disk.settles_with(&volumes(&["first", "second"], 0));
        let mut copy = calls::volume("copy", &share.parameters());
        copy.volume_content_source = calls::of_volume(&first.volume_id);
        let answer = repeated(|| calls.create(copy.clone())).await;
        refused(answer, Code::ResourceExhausted, &["No space left"]);
        disk.settles_with(&volumes(&["first", "second"], 0));
        // To the last byte. The server may give room back later than it says that a file is gone: then again.
        let mut filler = File::create(of_volume(share.folder(), "second/data")).unwrap();
        let mut patience = Patience::default();
        let full = loop {
            while filler.write_all(&[7; 4096]).is_ok() {}
            match create("third").await {
                Err(full) => break full,
                Ok(made) => calls.delete(&made.volume_id).await.unwrap(),
            }
            assert!(patience.lasts(), "there is room without end");
        };
        // The last byte may go between two writes of the driver, so that it cannot take back what it has begun either.
        let is_begun = full.code() == Code::Unavailable;
        let (code, words) = match is_begun {
            true => (Code::Unavailable, "a retry finishes it"),
            false => (Code::ResourceExhausted, ""),
        };
        refused(Err::<(), _>(full), code, &["No space left", words]);
        // Not by the close alone: a child that another test starts may have a copy.
        filler.set_len(0).unwrap();
        drop(filler);
        // Still possible, and makes room.
        calls.delete(&second.volume_id).await.unwrap();
        if !is_begun {
            disk.settles_with(&volumes(&["first"], 0));
        }
        create("third").await.unwrap();
        disk.settles_with(&volumes(&["first", "third"], 0));
    });
}

#[test]
fn a_share_that_has_become_read_only() {
    let Scene {
        driver,
        share,
        server,
    } = &mut scene("read-only", "rw,no_root_squash", None);
    let disk = Disk::with_foreign_files(share.folder());
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let request = |name: &str| calls::volume(name, &share.parameters());
        let made = calls.create(request("made")).await.unwrap();
        server.export_anew("ro,no_root_squash");
        let said = ["Read-only file system"];
        refused(
            calls.create(request("more")).await,
            Code::FailedPrecondition,
            &said,
        );
        refused(
            calls.expand(&made.volume_id, 2 << 30).await,
            Code::FailedPrecondition,
            &said,
        );
        refused(
            calls.snapshot("s", &made.volume_id).await,
            Code::FailedPrecondition,
            &said,
        );
        refused(
            calls.delete(&made.volume_id).await,
            Code::FailedPrecondition,
            &said,
        );
        // What changes nothing works.
        assert_eq!(calls.volumes().await.unwrap().len(), 1);
        assert_eq!(calls.create(request("made")).await.unwrap(), made);
        let target = driver.target("made");
        calls
            .publish(&made.volume_id, &made.volume_context, &target)
            .await
            .unwrap();
        let refused_write = fs::write(target.join("file"), "").unwrap_err();
        assert_eq!(refused_write.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
        calls.unpublish(&made.volume_id, &target).await.unwrap();
        disk.settles_with(&volumes(&["made"], 0));

        server.export_anew("rw,no_root_squash");
        calls.create(request("more")).await.unwrap();
        calls.delete(&made.volume_id).await.unwrap();
        disk.settles_with(&volumes(&["more"], 0));
    });
}

#[test]
fn a_share_that_squashes_root() {
    let Scene { driver, share, .. } = &scene("squash", "rw,root_squash", None);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let request = |name: &str| calls::volume(name, &share.parameters());
        // Where only root may write, nobody can.
        fs::set_permissions(share.folder(), Permissions::from_mode(0o755)).unwrap();
        let answer = calls.create(request("v")).await;
        refused(answer, Code::PermissionDenied, &["root_squash"]);
        assert_eq!(fs::read_dir(share.folder()).unwrap().count(), 0);
        // Where everybody may, volumes belong to the anonymous user.
        fs::set_permissions(share.folder(), Permissions::from_mode(0o777)).unwrap();
        let disk = Disk::with_foreign_files(share.folder());
        let made = calls.create(request("v")).await.unwrap();
        let owner = fs::metadata(of_volume(share.folder(), "v")).unwrap().uid();
        assert_eq!(owner, 65534);
        let mut owned = request("w");
        owned.parameters.insert("uid".to_owned(), "1000".to_owned());
        refused(
            calls.create(owned).await,
            Code::PermissionDenied,
            &["root_squash"],
        );
        disk.settles_with(&volumes(&["v"], 0));
        fs::write(of_volume(share.folder(), "v/file"), "data").unwrap();
        calls.ready_snapshot("s", &made.volume_id).await.unwrap();
        calls.delete(&made.volume_id).await.unwrap();
        disk.settles_with(&volumes(&[], 1));
    });
}

#[test]
fn records_removed_by_hand() {
    let Scene { driver, share, .. } = &scene("records", "rw,no_root_squash", None);
    let disk = Disk::with_foreign_files(share.folder());
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let request = |name: &str| calls::volume(name, &share.parameters());
        let made = calls.create(request("made")).await.unwrap();
        fs::write(of_volume(share.folder(), "made/file"), "data").unwrap();
        let (records, backup) = (
            share.folder().join(".csi-nfs"),
            share.folder().with_extension("backup"),
        );
        fs::rename(&records, &backup).unwrap();
        let said = ["missing on the share"];
        refused(
            calls.delete(&made.volume_id).await,
            Code::FailedPrecondition,
            &said,
        );
        refused(
            calls.create(request("made")).await,
            Code::FailedPrecondition,
            &said,
        );
        refused(
            calls.create(request("more")).await,
            Code::FailedPrecondition,
            &said,
        );
        refused(calls.volumes().await, Code::FailedPrecondition, &said);
        refused(
            calls.snapshot("s", &made.volume_id).await,
            Code::FailedPrecondition,
            &said,
        );
        // Nothing was made in their place, and the data are untouched.
        assert!(!records.exists());
        assert_eq!(
            fs::read_to_string(of_volume(share.folder(), "made/file")).unwrap(),
            "data"
        );

        fs::rename(&backup, &records).unwrap();
        assert_eq!(calls.create(request("made")).await.unwrap(), made);
        // A part of them.
        fs::rename(
            records.join("folders"),
            share.folder().with_extension("backup"),
        )
        .unwrap();
        let said = ["folders", "backup"];
        refused(
            calls.create(request("more")).await,
            Code::FailedPrecondition,
            &said,
        );
        refused(
            calls.delete(&made.volume_id).await,
            Code::FailedPrecondition,
            &said,
        );
        fs::rename(
            share.folder().with_extension("backup"),
            records.join("folders"),
        )
        .unwrap();
        calls.delete(&made.volume_id).await.unwrap();
        disk.settles_with(&volumes(&[], 0));
    });
}
