//! Many calls at a time, to one controller and to two of one share.

use crate::support::calls;
use crate::support::driver::Driver;
use crate::support::storm::{Extent, Storm, race_for_one_name};

/// The calls of a storm unless `CSI_TEST_MINUTES` says otherwise.
const CALLS: usize = 2000;

/// A driver on a share, and another controller on the same one.
pub fn two_controllers() -> [Driver; 2] {
    let first = Driver::with_local_share();
    let share = format!("localhost:/share={}", first.share().display());
    let second = Driver::with_args(&["--mode", "controller", "--local-share", &share]);
    [first, second]
}

#[test]
fn many_creations_of_one_name_make_one_volume() {
    let driver = Driver::with_local_share();
    race_for_one_name(&[driver.endpoint()], &calls::Map::new(), &driver.share());
}

#[test]
fn two_controllers_make_one_volume_of_a_name() {
    let drivers = two_controllers();
    let endpoints = drivers.each_ref().map(Driver::endpoint);
    race_for_one_name(&endpoints, &calls::Map::new(), &drivers[0].share());
}

#[test]
fn a_storm_of_calls() {
    for seed in [1, 2] {
        let driver = Driver::with_local_share();
        rage(&[driver.endpoint()], &driver, seed);
    }
}

#[test]
fn a_storm_of_calls_to_two_controllers() {
    for seed in [3, 4] {
        let drivers = two_controllers();
        let endpoints = drivers.each_ref().map(Driver::endpoint);
        rage(&endpoints, &drivers[0], seed);
    }
}

fn rage(controllers: &[String], driver: &Driver, seed: u64) {
    Storm {
        controllers,
        parameters: calls::Map::new(),
        folder: &driver.share(),
        seed,
        extent: Extent::of(CALLS),
    }
    .rage();
}
