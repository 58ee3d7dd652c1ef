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

/// Whether `options`, those of the mount and of its file system in mountinfo, show that the kernel has taken `option`: by that
/// word, or by none that begins as these do.
fn is_shown(option: &str, options: &str) -> bool {
    let others: &[&str] = match option {
        "hard" => &["soft"],
        "cto" => &["nocto"],
        "acregmin=3" => &["noac", "acregmin="],
        "acregmax=60" => &["acregmax="],
        "acdirmin=30" => &["acdirmin="],
        "acdirmax=60" => &["acdirmax="],
        itself => return options.split(',').any(|word| word == itself),
    };
    let is_other = |word: &str| others.iter().any(|other| word.starts_with(other));
    !options.split(',').any(is_other)
}

#[test]
fn mountinfo_shows_what_is_in_effect() {
    let has_all = |options: &str| RELIED_ON.iter().all(|option| is_shown(option, options));
    let good =
        "rw,nosuid,nodev,noexec,relatime,rw,vers=4.2,hard,nosharecache,proto=tcp,lookupcache=pos";
    assert!(has_all(good));
    for bad in [
        good.replace("hard", "soft"),
        good.replace("hard", "softerr"),
        good.replace("nosharecache,", ""),
        good.replace("lookupcache=pos", "lookupcache=none"),
        good.replace(",lookupcache=pos", ""),
        format!("{good},nocto"),
        format!("{good},noac"),
        format!("{good},acregmin=600"),
        format!("{good},acdirmax=600"),
        good.replace("nodev,", ""),
    ] {
        assert!(!has_all(&bad), "{bad}");
    }
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
        .into_iter()
        .filter(|option| !is_shown(option, options))
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
