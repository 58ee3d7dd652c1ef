//! Faults on purpose, and that they are told from the driver's own.

use super::Proxy;
use crate::support::patience::up_to_a_limit;
use crate::support::scripted::ScriptedDriver;
use std::time::{Duration, Instant};

fn driver() -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    super::plugin_info(&driver);
    driver
}

#[test]
fn calls_fail_so_many_times() {
    let driver = driver();
    let proxy = Proxy::with(
        driver.endpoint(),
        "--fail probe=ABORTED:2 --fail i/GetPluginInfo=14",
    );
    for _ in 0..2 {
        proxy
            .run("identity probe")
            .exits(64 + 10)
            .says("ABORTED: failed on purpose by csi proxy");
    }
    proxy.run("identity probe").succeeds();
    proxy.run("identity plugin-info").exits(64 + 14);
    assert_eq!(driver.calls(), ["Probe"]);
    let (shown, _) = proxy.ends();
    assert_eq!(
        shown.matches("[injected: fail ABORTED]").count(),
        2,
        "{shown}"
    );
    assert_eq!(
        shown.matches("[injected: fail UNAVAILABLE]").count(),
        1,
        "{shown}"
    );
}

#[test]
fn calls_are_delayed_and_given_up_meanwhile() {
    let driver = driver();
    let proxy = Proxy::with(driver.endpoint(), "--delay probe=300ms");
    let started = Instant::now();
    proxy.run("identity probe").succeeds();
    assert!(started.elapsed() >= Duration::from_millis(300));
    let (shown, _) = proxy.ends();
    assert!(shown.contains("[injected: delay 300ms]"), "{shown}");
    // For one that comes late to the proxy the deadline is later there.
    let shown = up_to_a_limit("the deadline passes at the proxy too", |limit| {
        let proxy = Proxy::with(driver.endpoint(), "--delay GetPluginInfo=1h");
        proxy
            .run(&format!("-t {limit} identity plugin-info"))
            .exits(64 + 4);
        let (shown, _) = proxy.ends();
        shown.contains("its deadline has passed").then_some(shown)
    });
    assert_eq!(driver.calls(), ["Probe"]);
    assert!(
        shown.contains("#1 -> Identity/GetPluginInfo {}"),
        "seen while it is held back: {shown}"
    );
}

#[test]
fn calls_are_swallowed_before_or_after_the_driver_got_them() {
    let flags = "--drop probe:1 --drop-reply '*:1' --drain 1h";
    let (_driver, proxy) = up_to_a_limit("both calls come to the proxy", |limit| {
        let driver = driver();
        let proxy = Proxy::with(driver.endpoint(), flags);
        proxy
            .run(&format!("-t {limit} identity probe"))
            .exits(64 + 4);
        assert_eq!(driver.calls(), [""; 0]);
        proxy
            .run(&format!("-t {limit} identity plugin-info"))
            .exits(64 + 4);
        let came = proxy.process.so_far().contains("-> Identity/Probe")
            && driver.calls() == ["GetPluginInfo"];
        came.then_some((driver, proxy))
    });
    proxy.run("identity probe").succeeds();
    // Those that are never answered hold up no end, which would otherwise wait an hour for them.
    let hanging = proxy
        .csi
        .spawn(&format!("-e {} -t 1h identity probe", proxy.endpoint()));
    drop(hanging);
    let (shown, _) = proxy.ends();
    assert!(shown.contains("Probe never answered"), "{shown}");
    assert!(shown.contains("[injected: drop-reply]"), "{shown}");
}
