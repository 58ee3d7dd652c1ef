//! What `--record` keeps, whatever happens to the proxy or the disk.

use super::{Proxy, plugin_info};
use crate::support::patience::until;
use crate::support::program::Csi;
use crate::support::scripted::ScriptedDriver;
use serde_json::Value as Json;
use std::os::unix::fs::PermissionsExt;

fn lines(text: &str) -> Vec<Json> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[test]
fn a_header_and_a_line_a_call_survive_kill() {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let mut proxy = Proxy::with(driver.endpoint(), "--record calls.jsonl --quiet");
    let path = proxy.csi.home().join("calls.jsonl");
    for done in 1..=3 {
        proxy.run("-m x-own=secret identity plugin-info").succeeds();
        // The line is written when the answer is on its way.
        until("the line is written", || {
            lines(&std::fs::read_to_string(&path).unwrap()).len() > done
        });
    }
    proxy.process.kill();
    assert!(
        proxy
            .process
            .so_far()
            .starts_with("--- stdout\n--- stderr\n"),
        "quiet"
    );
    let text = std::fs::read_to_string(&path).unwrap();
    let lines = lines(&text);
    assert_eq!(lines.len(), 4);
    assert_eq!(lines[0]["recording"], 1);
    assert_eq!(lines[0]["spec"], csi_proto::SPEC_VERSION);
    assert_eq!(lines[0]["target"], driver.endpoint());
    assert_eq!(lines[3]["call"], 3);
    assert_eq!(lines[3]["request"], serde_json::json!({}));
    assert_eq!(lines[3]["metadata"]["x-own"], "***stripped***");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    // It is not lost to the next one.
    let line = format!(
        "proxy --listen {} --to {} --record calls.jsonl",
        proxy.endpoint(),
        driver.endpoint()
    );
    proxy
        .csi
        .run(&line)
        .exits(2)
        .says("calls.jsonl exists already: name another file, or give --overwrite");
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
    let csi = proxy.csi;
    // Whoever could read the former one cannot read the new one.
    let open = std::fs::Permissions::from_mode(0o644);
    std::fs::set_permissions(&path, open).unwrap();
    let proxy = Proxy::of(csi, driver.endpoint(), "--record calls.jsonl --overwrite");
    proxy.run("identity plugin-info").succeeds();
    let kept = proxy.csi.home().join("calls.jsonl");
    assert_eq!(kept.metadata().unwrap().permissions().mode() & 0o777, 0o600);
    proxy.process.signal(rustix::process::Signal::TERM);
    proxy.process.wait(crate::support::PATIENCE).unwrap();
    assert_eq!(
        self::lines(&std::fs::read_to_string(kept).unwrap()).len(),
        2
    );
}

#[test]
fn a_full_disk_is_said_once_and_fails_no_call() {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let proxy = Proxy::with(driver.endpoint(), "--record /dev/full --overwrite");
    for _ in 0..3 {
        proxy.run("identity plugin-info").succeeds();
    }
    proxy.process.signal(rustix::process::Signal::TERM);
    let ended = proxy.process.wait(crate::support::PATIENCE).unwrap();
    assert_eq!(ended.code(), 1);
    let said = String::from_utf8(ended.stderr).unwrap();
    let warnings = said
        .matches("the recording /dev/full cannot be written")
        .count();
    assert_eq!(warnings, 1, "{said}");
    let last = "warning: at the end of the recording 3 calls are missing\n";
    assert!(said.contains(last), "{said}");
}

#[test]
fn a_recording_that_cannot_be_made_is_refused_before_anything_is_taken() {
    let csi = Csi::new();
    csi.run("proxy --listen unix:./p.sock --to /none --record /nowhere/r.jsonl")
        .exits(2)
        .says("error: cannot write the recording /nowhere/r.jsonl")
        .says("caused by: No such file or directory");
    assert!(!csi.home().join("p.sock").exists());
}

#[test]
fn a_proxy_that_cannot_listen_leaves_no_recording() {
    let csi = Csi::new();
    for _ in 0..2 {
        csi.run("proxy --take-over ./none.sock --record r.jsonl")
            .exits(1)
            .says("no driver listens here");
    }
    assert!(!csi.home().join("r.jsonl").exists());
    csi.file("file", "");
    csi.run("proxy --take-over ./file")
        .exits(1)
        .says("./file: no driver listens here, so there is nothing to take over");
}

#[test]
fn credentials_in_a_command_are_not_in_the_header() {
    let proxy = Proxy::with("exec:/bin/false --token hunter2", "--record r.jsonl");
    let path = proxy.csi.home().join("r.jsonl");
    let header = std::fs::read_to_string(path).unwrap();
    assert!(
        header.contains("exec:/bin/false") && !header.contains("hunter2"),
        "{header}"
    );
    proxy.ends();
}
