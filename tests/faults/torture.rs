//! Two controllers of one folder, killed at random while six workers make, copy and delete volumes.

use crate::storms::two_controllers;
use crate::support::calls::Map;
use crate::support::storm::Extent;
use crate::support::torture::Torture;

/// The steps of the workers unless `CSI_TEST_MINUTES` says otherwise.
const STEPS: usize = 1500;

#[test]
fn two_controllers_killed_at_random() {
    let drivers = two_controllers();
    let folder = drivers[0].share();
    let done = Torture {
        parameters: Map::new(),
        folder: &folder,
        extent: Extent::of(STEPS),
        seed: 8,
    }
    .of(drivers);
    assert!(done.kills > 3 && done.copies > 20, "{done:?}");
}
