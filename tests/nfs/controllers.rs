//! Two controllers of one share, as after a move or in a split cluster. Each has an NFS mount with a superblock of its
//! own, hence caches of its own: otherwise they would see each other's files through one cache and test nothing.

use crate::scene::{HOSTILE_OPTIONS, Share, Version, list, try_create, volume};
use crate::support::driver::Driver;
use crate::support::program::Csi;
use rustix::fs::{Dev, stat, statfs};
use std::collections::BTreeSet;
use std::fs;

struct Controller {
    driver: Driver,
    csi: Csi,
}

fn two_controllers(share: &Share) -> [Controller; 2] {
    let version = share.options().split(',').next().unwrap();
    let named = format!("test=127.0.0.1:{},{version}", share.path());
    [(), ()].map(|()| {
        let driver = Driver::with_args(&["--mode", "controller", "--share", &named]);
        Controller {
            csi: Csi::patiently_at(&driver.endpoint()),
            driver,
        }
    })
}

impl Controller {
    /// The devices of the NFS mounts that the controller has open.
    fn superblocks(&self) -> BTreeSet<Dev> {
        const NFS_SUPER_MAGIC: u64 = 0x6969;
        let pid = self.driver.process().pid().as_raw_nonzero();
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd")).unwrap();
        descriptors
            .flatten()
            .filter(|fd| {
                statfs(fd.path()).is_ok_and(|found| found.f_type as u64 == NFS_SUPER_MAGIC)
            })
            .filter_map(|fd| stat(fd.path()).ok())
            .map(|found| found.st_dev)
            .collect()
    }
}

/// What one controller has seen of a name must not decide about the next volume of that name.
fn find_what_the_other_has_made_anew(version: Version) {
    let share = Share::new("anew", version).with_options(HOSTILE_OPTIONS);
    let controllers = two_controllers(&share);
    // From here on each has opened the share with the options of volumes.
    for (number, controller) in controllers.iter().enumerate() {
        try_create(&controller.csi, &share, &format!("stays-{number}")).succeeds();
    }
    for round in 0..4 {
        let (one, other) = (&controllers[round % 2], &controllers[(round + 1) % 2]);
        let call =
            |who: &Controller, rpc: &str, id: &str| who.csi.run_args(["controller", rpc, id]);
        let name = format!("pvc-{}", round / 2);
        let old = volume(&try_create(&one.csi, &share, &name).succeeds());
        call(other, "get-volume", &old.id).succeeds();
        call(one, "delete-volume", &old.id).succeeds();
        let new = volume(&try_create(&one.csi, &share, &name).succeeds());
        call(other, "get-volume", &new.id).succeeds();
        call(other, "delete-volume", &new.id).succeeds();
        call(one, "get-volume", &new.id).exits(64 + 5);
        let left = share.entries();
        assert_eq!(left.len(), 2, "round {round}: {left:?}");
    }
}

#[test]
fn find_what_the_other_has_made_anew_over_v3() {
    find_what_the_other_has_made_anew(Version::V3);
}

#[test]
fn find_what_the_other_has_made_anew_over_v4_2() {
    find_what_the_other_has_made_anew(Version::V4_2);
}

#[test]
fn see_each_others_work_at_once() {
    let share = Share::new("two", Version::V4_2);
    let [first, second] = two_controllers(&share);
    // Both look before, so that each has cached that there is nothing.
    assert_eq!(list(&first.csi), [""; 0]);
    assert_eq!(list(&second.csi), [""; 0]);

    for round in 0..4 {
        let (one, other) = if round % 2 == 0 {
            (&first, &second)
        } else {
            (&second, &first)
        };
        let created = volume(&try_create(&one.csi, &share, "pvc-1").succeeds());
        assert_eq!(list(&other.csi), [created.id.as_str()], "round {round}");
        assert_eq!(
            volume(&try_create(&other.csi, &share, "pvc-1").succeeds()),
            created
        );
        let delete = ["controller", "delete-volume", &created.id];
        other.csi.run_args(delete).succeeds();
        assert_eq!(list(&one.csi), [""; 0], "round {round}");
        one.csi.run_args(delete).succeeds();
    }

    let (first, second) = (first.superblocks(), second.superblocks());
    assert!(
        !first.is_empty() && !second.is_empty(),
        "{first:?} {second:?}"
    );
    assert!(
        first.is_disjoint(&second),
        "one superblock for both: {first:?} {second:?}"
    );
    share.wait_until_empty("none");
}
