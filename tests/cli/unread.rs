//! Tools that serve while nobody reads what they print: calls are answered, and SIGTERM ends them.

use crate::support::PATIENCE;
use crate::support::executable;
use crate::support::patience::until;
use crate::support::process::ends_within;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Child, Stdio};

/// A pipe that has no room for a byte.
pub fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut writer) = std::io::pipe().unwrap();
    let flags = fcntl_getfl(&writer).unwrap();
    fcntl_setfl(&writer, flags | OFlags::NONBLOCK).unwrap();
    for piece in [4096, 1] {
        while writer.write(&vec![b'x'; piece]).is_ok() {}
    }
    fcntl_setfl(&writer, flags).unwrap();
    (reader, writer)
}

/// A tool that runs, and is killed where a test fails.
struct Tool(Child);

impl Drop for Tool {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_tool_that_serves_needs_no_reader() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    let recording = r#"{"recording":1,"csi":"0.1.0","spec":"1.0.0","target":"unix:///s","started":"2026-01-31T12:00:00Z"}
{"call":1,"at":0.1,"method":"/csi.v1.Identity/Probe","request":{},"reply":{"ready":true},"status":{"code":"OK"},"seconds":0.01}
"#;
    let proxy = format!("proxy --listen unix:s.sock --to {}", driver.endpoint());
    // These have something to tell before they serve.
    let full = format!("{proxy} --record /dev/full --overwrite");
    let flex = "flex serve --driver ./flex --node-id n --state kept";
    for line in [
        "mock",
        "serve calls.jsonl",
        "serve cut.jsonl",
        &proxy,
        &full,
        flex,
    ] {
        let csi = Csi::at("unix:s.sock");
        csi.file("calls.jsonl", recording);
        csi.file("cut.jsonl", format!("{recording}{{"));
        let script = "#!/bin/sh\necho '{\"status\":\"Success\"}'\n";
        executable::script(&csi.home().join("flex"), script);
        let (_output, stdout) = full_pipe();
        let (_errors, stderr) = full_pipe();
        let mut command = csi.command();
        command.args(line.split(' ')).stdin(Stdio::null());
        command
            .stdout(Stdio::from(stdout))
            .stderr(Stdio::from(stderr));
        let mut tool = Tool(command.spawn().unwrap());
        drop(command);
        csi.run("--wait 1m identity probe").succeeds();
        // What the recording does not have is told.
        csi.run("identity plugin-info");
        csi.run("identity probe").succeeds();
        kill_process(Pid::from_child(&tool.0), Signal::TERM).unwrap();
        assert!(ends_within(&tool.0, PATIENCE), "{line}");
        // Of what was asked for, only the recording is not there.
        let is_whole = line != full;
        assert_eq!(tool.0.wait().unwrap().success(), is_whole, "{line}");
        assert!(!csi.home().join("s.sock").exists(), "{line}");
    }
}

fn more_than_a_pipe_takes() -> Reply {
    Reply::json(json!({"name": "own.example", "vendorVersion": "1".repeat(200_000)}))
}

#[test]
fn a_script_that_nobody_reads_ends_by_a_second_signal() {
    let driver = ScriptedDriver::unix();
    driver.on("GetPluginInfo", more_than_a_pipe_takes());
    let csi = Csi::at(driver.endpoint());
    for signal in [Signal::INT, Signal::HUP] {
        let (mut reader, stdout) = std::io::pipe().unwrap();
        let mut command = csi.command();
        command.args(["shell", "-c", "identity plugin-info -o json"]);
        command.stdin(Stdio::null()).stdout(stdout);
        let mut script = Tool(command.spawn().unwrap());
        drop(command);
        // The call is over, and the rest has no room.
        reader.read_exact(&mut [0]).unwrap();
        until("the script ends", || {
            kill_process(Pid::from_child(&script.0), signal).unwrap();
            script.0.try_wait().unwrap().is_some()
        });
        let ended = script.0.wait().unwrap();
        assert_eq!(ended.signal(), Some(15), "{signal:?}: {ended}");
    }
}

#[test]
fn a_recording_that_nobody_reads_holds_up_no_call() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    driver.on("GetPluginInfo", more_than_a_pipe_takes());
    let csi = Csi::at("unix:s.sock");
    let (_unread, stdout) = std::io::pipe().unwrap();
    let mut command = csi.command();
    // What a large call takes to be written down has the time of --drain.
    let line = "proxy --listen unix:s.sock --quiet --record /dev/stdout --overwrite --drain 2s";
    command.args(line.split(' '));
    command
        .args(["--to", driver.endpoint()])
        .stdin(Stdio::null());
    command.stdout(stdout).stderr(Stdio::piped());
    let mut tool = Tool(command.spawn().unwrap());
    drop(command);
    for _ in 0..8 {
        csi.run("--wait 1m identity plugin-info").succeeds();
    }
    kill_process(Pid::from_child(&tool.0), Signal::TERM).unwrap();
    assert!(ends_within(&tool.0, PATIENCE));
    assert_eq!(tool.0.wait().unwrap().code(), Some(1));
    let mut said = String::new();
    let mut stderr = tool.0.stderr.take().unwrap();
    stderr.read_to_string(&mut said).unwrap();
    let tells = "warning: the recording made no progress for 2s: at its end 1";
    assert!(said.contains(tells), "{said}");
}
