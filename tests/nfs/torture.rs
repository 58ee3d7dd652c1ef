//! Two controllers of one share, each with an NFS mount of its own, killed at random while six workers make, copy and delete
//! volumes.

use crate::scene::{Share, Version};
use crate::support::driver::Driver;
use crate::support::storm::Extent;
use crate::support::torture::Torture;

/// The steps of the workers unless `CSI_TEST_MINUTES` says otherwise.
const STEPS: usize = 250;

fn torture(version: Version, seed: u64) {
    let share = Share::new("torture", version);
    let named = format!("torture=127.0.0.1:{},{}", share.path(), share.options());
    let drivers =
        [(), ()].map(|()| Driver::with_args(&["--mode", "controller", "--share", &named]));
    let done = Torture {
        parameters: share.parameters(),
        folder: share.folder(),
        extent: Extent::of(STEPS),
        seed,
    }
    .of(drivers);
    assert!(done.kills > 1 && done.copies > 5, "{done:?}");
}

#[test]
fn two_controllers_killed_at_random_over_v3() {
    torture(Version::V3, 9);
}

#[test]
fn two_controllers_killed_at_random_over_v4_2() {
    torture(Version::V4_2, 10);
}
