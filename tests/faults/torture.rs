//! Two controllers of one folder, killed at random while six workers make, copy and delete volumes.

use crate::storms::two_controllers;
use crate::support::calls::Map;
use crate::support::storm;
use crate::support::torture::Torture;
use std::time::Duration;

/// How long it lasts unless `CSI_TEST_MINUTES` says otherwise.
const TIME: Duration = Duration::from_secs(15);

#[test]
fn two_controllers_killed_at_random() {
    let drivers = two_controllers();
    let folder = drivers[0].share();
    let done = Torture {
        parameters: Map::new(),
        folder: &folder,
        time: storm::duration(TIME),
        seed: 8,
    }
    .of(drivers);
    assert!(done.kills > 3 && done.copies > 20, "{done:?}");
}
