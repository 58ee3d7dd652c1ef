//! `csi-nfs relay`: bytes both ways between standard streams and a socket, and how it ends.

use crate::rig::patience::{in_time, until};
use std::io::{Read, Write};
use std::os::unix::net::UnixListener;
use std::process::{Child, Command, Stdio};

fn relay(socket: &std::path::Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_csi-nfs"))
        .arg("relay")
        .arg(socket)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
}

#[test]
fn both_ways_and_the_end_of_input_are_passed_on() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("csi.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut relay = relay(&socket);
    let (mut driver, _) = listener.accept().unwrap();
    // The driver speaks first, without an end of line.
    driver.write_all(b"hello").unwrap();
    let mut output = relay.stdout.take().unwrap();
    let mut heard = [0; 5];
    output.read_exact(&mut heard).unwrap();
    assert_eq!(&heard, b"hello");
    let question: Vec<u8> = (0..=255).cycle().take(300_000).collect();
    let mut input = relay.stdin.take().unwrap();
    let asked = question.clone();
    let asking = std::thread::spawn(move || input.write_all(&asked).unwrap());
    // It answers only when the question is over, which only the end of the input tells.
    let mut asked_of = driver.try_clone().unwrap();
    let received = in_time("the end of the question", move || {
        let mut received = Vec::new();
        asked_of.read_to_end(&mut received).unwrap();
        received
    });
    asking.join().unwrap();
    assert_eq!(received, question);
    let said = question.clone();
    let answering = std::thread::spawn(move || driver.write_all(&said).unwrap());
    let mut answer = Vec::new();
    output.read_to_end(&mut answer).unwrap();
    answering.join().unwrap();
    assert_eq!(answer, question);
    assert!(relay.wait().unwrap().success());
}

#[test]
fn a_driver_that_closes_ends_it_though_input_stays_open() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("csi.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut relay = relay(&socket);
    drop(listener.accept().unwrap());
    // `wait` would close the input first.
    let input = relay.stdin.take();
    assert!(relay.wait().unwrap().success());
    drop(input);
}

#[test]
fn an_output_that_nobody_reads_ends_it() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("csi.sock");
    let listener = UnixListener::bind(&socket).unwrap();
    let mut relay = relay(&socket);
    // The driver hangs: it says nothing, and does not close.
    let _driver = listener.accept().unwrap();
    drop(relay.stdout.take());
    let input = relay.stdin.take();
    // What another test starts in this moment has the other end of the pipe, too, until it is another program.
    until("the relay has ended", || {
        relay.try_wait().unwrap().is_some()
    });
    assert!(relay.wait().unwrap().success());
    drop(input);
}

#[test]
fn a_socket_that_is_missing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("none.sock");
    let ended = relay(&socket).wait_with_output().unwrap();
    assert_eq!(ended.status.code(), Some(1));
    let text = String::from_utf8(ended.stderr).unwrap();
    assert!(
        text.contains("none.sock: No such file or directory"),
        "{text}"
    );
}
