//! What happens to a command whose output nobody reads any more, as behind `| head -1`: what only reads ends quietly, what
//! changes something goes on to its end, and no failure becomes a success.

use crate::support::PATIENCE;
use crate::support::process::ends_within;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;
use std::io::{BufRead as _, BufReader};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use tonic::Code;

/// An output that nobody reads. Not a pipe: of its reading end a child that another test starts may have a copy.
fn closed() -> OwnedFd {
    let (reader, writer) = UnixStream::pair().unwrap();
    reader.shutdown(Shutdown::Both).unwrap();
    writer.into()
}

/// The exit code where nobody reads, and what stderr says.
fn unread(csi: &Csi, arguments: &[&str]) -> (i32, String) {
    let mut command = csi.command();
    command.args(arguments).stdin(Stdio::null());
    command.stdout(closed());
    let output = command.output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    (output.status.code().unwrap(), said)
}

fn deleted() -> Reply {
    Reply::json("{}")
}

fn found() -> Reply {
    Reply::json(r#"{"volume": {"volumeId": "v"}}"#)
}

fn refused() -> Reply {
    Reply::error(Code::Internal, "no")
}

#[test]
fn what_only_reads_ends_and_what_changes_something_goes_on() {
    for (line, replies, calls, code) in [
        ("delete-volume a b c", vec![deleted()], 3, 1),
        ("delete-volume a b c -o json", vec![deleted()], 3, 1),
        (
            "delete-volume a b c --keep-going",
            vec![deleted(), refused(), deleted()],
            3,
            64 + 13,
        ),
        (
            "delete-volume a b c",
            vec![deleted(), refused(), deleted()],
            2,
            64 + 13,
        ),
        ("get-volume a b c", vec![found()], 1, 1),
        (
            "get-volume a b c --keep-going",
            vec![refused(), found(), refused()],
            2,
            64 + 13,
        ),
    ] {
        let driver = ScriptedDriver::unix();
        let rpc = match line.starts_with("get") {
            true => "ControllerGetVolume",
            false => "DeleteVolume",
        };
        driver.on_each(rpc, replies);
        let csi = Csi::at(driver.endpoint());
        let words: Vec<&str> = std::iter::once("controller")
            .chain(line.split(' '))
            .collect();
        let (ended, said) = unread(&csi, &words);
        assert_eq!(
            (driver.calls().len(), ended),
            (calls, code),
            "{line}: {said}"
        );
        assert_eq!(said.is_empty(), code == 1, "{line}: {said}");
    }
}

#[test]
fn notes_that_nobody_hears_end_no_change() {
    let driver = ScriptedDriver::unix();
    driver.on(
        "DeleteVolume",
        Reply::error(Code::NotFound, "no such volume"),
    );
    let csi = Csi::at(driver.endpoint());
    let writer = closed();
    let mut command = csi.command();
    command
        .args([
            "controller",
            "delete-volume",
            "a",
            "b",
            "c",
            "--with-success-delete-not-found",
        ])
        .stdin(Stdio::null())
        .stdout(writer.try_clone().unwrap())
        .stderr(writer);
    let status = command.status().unwrap();
    assert_eq!((driver.calls().len(), status.code()), (3, Some(0)));
}

#[test]
fn scripts_and_tools_go_on_to_their_end() {
    let driver = ScriptedDriver::unix();
    driver.on("DeleteVolume", deleted());
    driver.on("ControllerGetVolume", found());
    let csi = Csi::at(driver.endpoint());
    let script =
        "controller delete-volume a b; controller get-volume x y; controller delete-volume c";
    let (code, said) = unread(&csi, &["shell", "-c", script]);
    assert_eq!((driver.calls().len(), code), (4, 1), "{said}");
    // What goes elsewhere has another reader, also where a line was begun for the one that is gone.
    let script = "controller get-volume x -o jsonpath={.volume.volumeId}; \
                  controller delete-volume d > deleted; controller get-volume y";
    let (code, said) = unread(&csi, &["shell", "-c", script]);
    assert_eq!((driver.calls().len(), code), (7, 1), "{said}");
    assert_eq!(said, "");
    let deleted = std::fs::read_to_string(csi.home().join("deleted")).unwrap();
    assert_eq!(deleted, "d deleted\n");
    // The reader is the script's own: it has what it wanted, and nothing is wrong.
    csi.run_args(["shell", "-c", "controller delete-volume a b c | true"])
        .succeeds();
    assert_eq!(driver.calls().len(), 10);
    // A program of the script writes to the reader that is gone, and dies of it.
    let script = "controller delete-volume a | cat; controller delete-volume b";
    let (code, said) = unread(&csi, &["shell", "-c", script]);
    assert_eq!((driver.calls().len(), code), (12, 1), "{said}");
    assert_eq!(said, "");
    let (code, said) = unread(&Csi::at("mock:"), &["lifecycle"]);
    assert_eq!(code, 1, "{said}");
    assert!(!said.contains("left"), "{said}");
    let (code, said) = unread(&csi, &["--help"]);
    assert_eq!((code, said.as_str()), (1, ""));
}

#[test]
fn what_is_repeated_for_a_program_ends_with_it() {
    let driver = ScriptedDriver::unix();
    // More than a pipe holds, long before the last of them.
    driver.on("GetPluginInfo", json!({"name": "x".repeat(4096)}));
    let csi = Csi::at(driver.endpoint());
    let script = "repeat 500 identity plugin-info | true; print on";
    let run = csi.run_args(["shell", "-c", script]).succeeds();
    assert_eq!(run.stdout, "on\n");
    assert!(driver.calls().len() < 500, "{}", driver.calls().len());
    // The script's own reader may go: what it does goes on.
    let before = driver.calls().len();
    unread(&csi, &["shell", "-c", "repeat 3 identity plugin-info"]);
    assert_eq!(driver.calls().len(), before + 3);
}

#[test]
fn a_watch_of_what_does_not_change_ends_with_its_reader() {
    let driver = ScriptedDriver::unix();
    driver.on("ControllerGetVolume", found());
    let csi = Csi::at(driver.endpoint());
    let (reader, writer) = std::io::pipe().unwrap();
    let mut command = csi.command();
    command
        .args(["controller", "get-volume", "v", "-w"])
        .stdin(Stdio::null())
        .stdout(writer);
    let mut watch = command.spawn().unwrap();
    drop(command);
    let mut lines = BufReader::new(reader).lines();
    assert!(lines.next().unwrap().unwrap().starts_with("EVENT"));
    assert!(lines.next().unwrap().unwrap().starts_with("ADDED"));
    drop(lines);
    let ended = ends_within(&watch, PATIENCE);
    let _ = watch.kill();
    assert!(ended, "it goes on");
    assert_eq!(watch.wait().unwrap().code(), Some(1));
}

#[test]
fn a_request_that_could_not_be_shown_is_a_failure() {
    let full = std::fs::File::options()
        .write(true)
        .open("/dev/full")
        .unwrap();
    for line in [
        "-e mock: controller create-volume pvc-1 --dry-run",
        "-e mock: bench controller list-volumes --duration 1s --dry-run",
    ] {
        let csi = Csi::new();
        let mut command = csi.command();
        command.args(line.split(' ')).stdin(Stdio::null());
        let output = command.stdout(full.try_clone().unwrap()).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{line}: {said}");
        assert!(said.contains("stdout cannot be written"), "{line}: {said}");
    }
}

#[test]
fn what_a_file_does_not_take_is_shown_nowhere_else() {
    let script = "identity plugin-info -o jsonpath={.name} > /dev/full";
    Csi::at("mock:")
        .run_args(["shell", "-c", script])
        .exits(1)
        .prints("")
        .says("stdout cannot be written");
}

#[test]
fn a_proxy_whose_lines_nobody_reads_goes_on_and_says_so_by_its_exit_code() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    let csi = Csi::new();
    let socket = format!("unix://{}", csi.home().join("p.sock").display());
    let mut command = csi.command();
    command.args(["proxy", "--listen", &socket, "--to", driver.endpoint()]);
    let mut proxy = command
        .stdin(Stdio::null())
        .stdout(closed())
        .spawn()
        .unwrap();
    let called = ["--wait", "60s", "-e", &socket, "identity", "probe"];
    let called = [csi.run_args(called), csi.run_args(called)];
    // It ends by itself once it is told to.
    let told = kill_process(Pid::from_child(&proxy), Signal::TERM);
    let code = proxy.wait().unwrap().code();
    told.unwrap();
    for call in called {
        call.succeeds();
    }
    assert_eq!(code, Some(1));
}
