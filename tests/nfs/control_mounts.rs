//! The controller's own mounts as this kernel shows them: what the store relies on is in effect, whatever the options of
//! volumes and of other mounts on this machine are.

use crate::scene::{HOSTILE_OPTIONS, Scene, Version};
use csi_nfs::mount::control_options::RELIED_ON;
use std::collections::BTreeSet;

const SHOWN: &str = "control mount as the kernel shows it";

/// The options that the driver's log tells, of each control mount that it has made.
fn shown(log: &str) -> Vec<String> {
    let lines = log.lines().filter(|line| line.contains(SHOWN));
    let options = lines.map(|line| {
        let (_, options) = line.split_once("options=").unwrap();
        options.trim_matches('"').to_owned()
    });
    options.collect()
}

fn has_what_the_store_relies_on(name: &str, version: Version) {
    let scene = Scene::with_driver(
        name,
        version,
        &["--log-level", "debug", "--mode", "controller"],
    );
    scene.create("plain");
    // The same mount serves it.
    let scene = scene.with_options(HOSTILE_OPTIONS);
    scene.create("hostile");

    // Lines are written behind the answers, one after the other.
    let driver = scene.driver.process();
    driver.wait_for_error_line(&mut 0, "hostile");
    let shown = shown(&scene.driver.log());
    assert_eq!(shown.len(), 1, "{}", scene.driver.log());
    let options = &shown[0];
    assert!(options.contains("addr=127.0.0.1"), "{options}");
    let missing: BTreeSet<_> = RELIED_ON
        .iter()
        .filter(|(_, shown)| !shown.is_in(options))
        .map(|(option, _)| option)
        .collect();
    assert!(missing.is_empty(), "{missing:?} is not in {options}");
    // For the look it was attached somewhere.
    scene.has_no_mounts();
}

#[test]
fn have_what_the_store_relies_on_over_v3() {
    has_what_the_store_relies_on("control", Version::V3);
}

#[test]
fn have_what_the_store_relies_on_over_v4_0() {
    has_what_the_store_relies_on("control", Version::V4_0);
}

#[test]
fn have_what_the_store_relies_on_over_v4_2() {
    has_what_the_store_relies_on("control", Version::V4_2);
}
