//! Two controllers of one share, as after a move or in a split cluster. Each has an NFS mount with a superblock of its
//! own, hence caches of its own: otherwise they would see each other's files through one cache and test nothing.

use crate::scene::{
    HOSTILE_OPTIONS, Share, Version, Volume, call, list, refused, try_create, try_delete,
};
use crate::support::driver::Driver;
use csi_proto::v1::{ControllerGetVolumeRequest, ControllerGetVolumeResponse};
use rustix::fs::{Dev, stat, statfs};
use std::collections::BTreeSet;
use std::fs;
use tonic::{Code, Status};

struct Controller(Driver);

fn two_controllers(share: &Share) -> [Controller; 2] {
    let version = share.options().split(',').next().unwrap();
    let named = format!("test=127.0.0.1:{},{version}", share.path());
    let arguments = ["--mode", "controller", "--share", &named];
    [(), ()].map(|()| Controller(Driver::with_args(&arguments)))
}

impl Controller {
    fn create(&self, share: &Share, name: &str) -> Volume {
        try_create(&self.0, share, name).unwrap()
    }

    fn delete(&self, volume: &Volume) {
        try_delete(&self.0, volume).unwrap();
    }

    fn get(&self, volume: &Volume) -> Result<ControllerGetVolumeResponse, Status> {
        let volume_id = volume.id.clone();
        call(&self.0, ControllerGetVolumeRequest { volume_id })
    }

    fn list(&self) -> Vec<String> {
        list(&self.0)
    }

    /// The devices of the NFS mounts that the controller has open.
    fn superblocks(&self) -> BTreeSet<Dev> {
        const NFS_SUPER_MAGIC: u64 = 0x6969;
        let pid = self.0.process().pid().as_raw_nonzero();
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
        controller.create(&share, &format!("stays-{number}"));
    }
    for round in 0..4 {
        let (one, other) = (&controllers[round % 2], &controllers[(round + 1) % 2]);
        let name = format!("pvc-{}", round / 2);
        let old = one.create(&share, &name);
        other.get(&old).unwrap();
        one.delete(&old);
        let new = one.create(&share, &name);
        other.get(&new).unwrap();
        other.delete(&new);
        refused(one.get(&new), Code::NotFound, &[]);
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
    assert_eq!(first.list(), [""; 0]);
    assert_eq!(second.list(), [""; 0]);

    for round in 0..4 {
        let (one, other) = if round % 2 == 0 {
            (&first, &second)
        } else {
            (&second, &first)
        };
        let created = one.create(&share, "pvc-1");
        assert_eq!(other.list(), [created.id.as_str()], "round {round}");
        assert_eq!(other.create(&share, "pvc-1"), created);
        other.delete(&created);
        assert_eq!(one.list(), [""; 0], "round {round}");
        one.delete(&created);
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
