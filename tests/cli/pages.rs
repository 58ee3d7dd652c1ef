//! `--html`: the file, and what may stand in it. What a browser makes of a page is tested by `tests/pages/run`.

use crate::support::patience::up_to_a_limit;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use rustix::process::Signal;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use tonic::Code;

const HOSTILE: &str = "</script><script>alert(1)</script>\u{202e}\u{1b}[31m\"'";

/// A driver whose words are hostile.
fn hostile() -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    driver.on("GetPluginInfo", json!({"name": HOSTILE}));
    driver.on("Probe", Reply::error(Code::Internal, HOSTILE));
    driver
}

/// The scripts of a page: its data and its own, whatever a driver said.
#[track_caller]
fn is_whole(page: &str) {
    assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>"));
    assert_eq!(page.matches("<script").count(), 2, "{page}");
    assert!(!page.contains('\u{202e}') && !page.contains('\u{1b}'));
    for elsewhere in ["src=", "<link", "@import", "http://", "https://"] {
        assert!(!page.contains(elsewhere), "{elsewhere}");
    }
}

#[test]
fn a_place_where_no_page_can_be_is_refused_before_the_first_call() {
    let driver = hostile();
    let csi = Csi::at(driver.endpoint());
    let recording = "{\"recording\":1,\"csi\":\"0\"}\n";
    csi.file("r.jsonl", recording);
    for (line, part) in [
        (
            "bench identity plugin-info --html none/p.html",
            "none/p.html cannot be written",
        ),
        (
            "sanity --html .",
            "cannot be written: it exists and is no file",
        ),
        ("replay r.jsonl --html none/p.html", "cannot be written"),
        ("replay r.jsonl --html ./r.jsonl", "is the recording itself"),
        (
            "proxy --listen unix:p.sock --record n.jsonl --html none/p.html",
            "cannot be written",
        ),
        (
            "proxy --listen unix:p.sock --record /dev/stderr --html p.html",
            "/dev/stderr is none",
        ),
        ("proxy --listen unix:p.sock --html p.html", "--record"),
    ] {
        csi.run(line).exits(2).says(part);
    }
    assert_eq!(driver.requests().len(), 0);
    assert_eq!(
        fs::read_to_string(csi.home().join("r.jsonl")).unwrap(),
        recording
    );
    assert!(!csi.home().join("n.jsonl").exists() && !csi.home().join("p.sock").exists());
}

#[test]
fn a_page_replaces_another_whole_or_not_at_all() {
    let driver = ScriptedDriver::unix();
    driver.on("GetPluginInfo", "{}");
    let csi = Csi::new();
    let page = csi.file("p.html", "before");
    let bench = |endpoint: &str| {
        csi.run(&format!(
            "-e {endpoint} bench identity plugin-info --count 20 --html p.html"
        ))
    };
    // Nobody listens there: what was there stays.
    bench("unix:none.sock").exits(64 + 14);
    assert_eq!(fs::read_to_string(&page).unwrap(), "before");
    bench(driver.endpoint()).succeeds();
    is_whole(&fs::read_to_string(&page).unwrap());
    let left = fs::read_dir(csi.home()).unwrap();
    let left: Vec<_> = left
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    assert!(
        !left.iter().any(|name| name.starts_with(".csi-page")),
        "{left:?}"
    );
}

#[test]
fn no_driver_writes_html() {
    let driver = hostile();
    let csi = Csi::at(driver.endpoint());
    let read = || fs::read_to_string(csi.home().join("p.html")).unwrap();
    csi.run("bench identity probe --count 5 --max-errors 100% --html p.html")
        .succeeds();
    is_whole(&read());
    csi.run("sanity --filter identity/ --paths=false --html p.html")
        .exits(3);
    is_whole(&read());
    // A recording that somebody hands over, with bytes that are no text.
    let mut bytes = b"{\"recording\":1,\"csi\":\"0\",\"target\":\"</title><b>\"}\n{\"call\":1,\"at\":0,\"method\":\"/</script>".to_vec();
    bytes.extend([0xff, 0xc0, 0x80]);
    bytes.extend(b"\",\"request\":{\"</script>\":1},\"status\":{\"code\":\"OK\"},\"seconds\":1}\n");
    csi.file("r.jsonl", bytes);
    csi.run("replay r.jsonl --html p.html").exits(1);
    is_whole(&read());
}

#[test]
fn the_page_of_a_recording_is_its_owners_and_has_no_secrets() {
    let driver = ScriptedDriver::unix();
    driver.on("CreateVolume", "{}");
    let csi = Csi::new();
    let secrets = csi.file("s.json", "{\"password\":\"hunter2-and-more\"}");
    let line = format!(
        "proxy --listen unix:p.sock --to {} --record r.jsonl --html p.html --quiet",
        driver.endpoint()
    );
    let proxy = csi.spawn(&line);
    proxy.wait_for_error_output("note: calls to");
    let create = format!(
        "-e unix:p.sock controller create-volume pvc-1 --cap 5,mount --secrets-file {}",
        secrets.display()
    );
    csi.run(&create).succeeds();
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait(crate::support::PATIENCE).unwrap().code(), 0);
    let path = csi.home().join("p.html");
    let page = fs::read_to_string(&path).unwrap();
    is_whole(&page);
    assert!(page.contains("Controller") && page.contains("pvc-1") && page.contains("password"));
    assert!(!page.contains("hunter2"), "{page}");
    assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}

#[test]
fn the_page_of_a_recording_says_who_ended_a_call_and_how() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", Reply::never());
    let csi = Csi::new();
    let proxy = csi.spawn(&format!(
        "proxy --listen unix:p.sock --to {} --record r.jsonl --html p.html --quiet --fail plugin-info=ABORTED --drop plugin-capabilities",
        driver.endpoint()
    ));
    proxy.wait_for_error_output("note: calls to");
    let call = |limit, rpc, code| {
        csi.run(&format!("-e unix:p.sock -t {limit} identity {rpc}"))
            .exits(code);
    };
    call("1h", "plugin-info", 64 + 10);
    call("1s", "plugin-capabilities", 64 + 4);
    // On a busy machine a call comes to the proxy so late that its deadline is not over there when the caller's is.
    let recording = csi.home().join("r.jsonl");
    up_to_a_limit("the deadline passes at the proxy too", |limit| {
        call(limit, "probe", 64 + 4);
        let lines = fs::read_to_string(&recording).unwrap();
        let late = lines.contains(r#""DEADLINE_EXCEEDED","by":"caller""#);
        late.then_some(())
    });
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait(crate::support::PATIENCE).unwrap().code(), 0);
    let page = fs::read_to_string(csi.home().join("p.html")).unwrap();
    is_whole(&page);
    for words in [
        "ABORTED by the proxy",
        "failed on purpose by csi proxy",
        "DEADLINE_EXCEEDED by the caller, whose deadline had passed",
    ] {
        assert!(page.contains(words), "{words}\n{page}");
    }
}
