//! Whose the socket is: taken where nobody serves, refused where somebody does, and given back.

use super::Proxy;
use crate::support::PATIENCE;
use crate::support::driver::Driver;
use crate::support::process::Process;
use crate::support::program::Csi;
use crate::support::scripted::ScriptedDriver;
use csi_proto::socket_file::connect;
use rustix::process::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[test]
fn a_dead_socket_is_replaced_and_a_live_one_refused() {
    let driver = ScriptedDriver::unix();
    super::plugin_info(&driver);
    let mut first = Proxy::with(driver.endpoint(), "--socket-mode 0600");
    let mode = first.socket.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let line = format!(
        "proxy --listen {} --to {}",
        first.endpoint(),
        driver.endpoint()
    );
    first
        .csi
        .run(&line)
        .exits(1)
        .says("another process serves on this socket");
    first.process.kill();
    assert!(first.socket.exists(), "SIGKILL leaves the file");
    let second = Proxy::of(first.csi, driver.endpoint(), "");
    second.run("identity plugin-info").succeeds();
    let file = second.csi.file("file", "precious");
    let line = format!(
        "proxy --listen unix:{} --to {}",
        file.display(),
        driver.endpoint()
    );
    second
        .csi
        .run(&line)
        .exits(1)
        .says("exists and is not a socket");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "precious");
    second.ends();
}

#[test]
fn a_socket_of_somebody_else_is_not_removed_at_the_end() {
    let driver = ScriptedDriver::unix();
    let proxy = Proxy::to(driver.endpoint());
    std::fs::remove_file(&proxy.socket).unwrap();
    let _other = std::os::unix::net::UnixListener::bind(&proxy.socket).unwrap();
    proxy.process.signal(Signal::TERM);
    assert_eq!(proxy.process.wait(PATIENCE).unwrap().code(), 0);
    assert!(proxy.socket.exists());
}

/// A process that listens and does not accept, where no more connections may wait.
#[test]
fn a_socket_with_a_full_queue_is_one_that_somebody_serves() {
    let csi = Csi::new();
    let socket = csi.home().join("full.sock");
    let listener = std::os::unix::net::UnixListener::bind(&socket).unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let mut waiting = Vec::new();
    while let Ok(stream) = connect(&socket, Duration::ZERO) {
        waiting.push(stream);
    }
    let listen = format!("proxy --listen unix://{} --to embedded:", socket.display());
    csi.run(&listen)
        .exits(1)
        .says("another process serves on this socket");
    let proxy = take_over(&csi, &socket);
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait(PATIENCE).unwrap().code(), 0);
    assert!(socket.exists() && !aside(&socket).exists());
}

fn socket_of(driver: &Driver) -> PathBuf {
    driver.endpoint().strip_prefix("unix://").unwrap().into()
}

fn aside(socket: &Path) -> PathBuf {
    let mut aside = socket.as_os_str().to_owned();
    aside.push(".driver");
    aside.into()
}

fn take_over(csi: &Csi, socket: &Path) -> Process {
    let process = csi.spawn(&format!("proxy --take-over {}", socket.display()));
    let socket = socket.display();
    process.wait_for_error_output(&format!(
        "note: calls to unix://{socket} go to unix://{socket}.driver\n"
    ));
    process
}

#[test]
fn a_driver_s_own_socket_is_taken_over_and_given_back() {
    let driver = Driver::with_local_share();
    let socket = socket_of(&driver);
    let before = socket.metadata().unwrap();
    let csi = Csi::at(&driver.endpoint());
    let proxy = take_over(&csi, &socket);
    let after = socket.metadata().unwrap();
    assert_eq!(before.permissions(), after.permissions());
    csi.run("identity probe").succeeds();
    proxy.wait_for_output("Identity/Probe OK");
    assert!(aside(&socket).exists());
    let again = csi.run(&format!("proxy --take-over {}", socket.display()));
    again
        .exits(1)
        .says("a proxy that runs has taken this socket over already");
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait(PATIENCE).unwrap().code(), 0);
    assert!(!aside(&socket).exists());
    csi.run("identity probe").succeeds();
}

#[test]
fn a_proxy_that_was_killed_is_mended_by_the_next_one_or_by_hand() {
    let driver = Driver::with_local_share();
    let socket = socket_of(&driver);
    let csi = Csi::at(&driver.endpoint());
    take_over(&csi, &socket).kill();
    csi.run("identity probe").exits(64 + 14);
    let proxy = take_over(&csi, &socket);
    csi.run("identity probe").succeeds();
    drop(proxy);
    csi.run("identity probe").exits(64 + 14);
    std::fs::rename(aside(&socket), &socket).unwrap();
    csi.run("identity probe").succeeds();
}

#[test]
fn a_driver_that_restarts_under_a_proxy_gets_its_path_and_is_taken_over_again() {
    let mut driver = Driver::with_local_share();
    let socket = socket_of(&driver);
    let csi = Csi::at(&driver.endpoint());
    let proxy = take_over(&csi, &socket);
    csi.run("identity probe").succeeds();
    for round in 1..3 {
        // Ended in order or not.
        if round == 1 {
            driver.kill();
        } else {
            driver.stop();
        }
        let gone = "the driver has ended: its socket's path is free";
        wait_for_note(&proxy, gone, round);
        assert!(!socket.exists() && !aside(&socket).exists());
        driver.restart();
        wait_for_note(
            &proxy,
            "the driver is back: its socket is taken over again",
            round,
        );
        csi.run("identity probe").succeeds();
        assert!(aside(&socket).exists());
    }
    let shown = proxy.wait_for_output("#3 <- Identity/Probe OK");
    assert!(!shown.contains("UNAVAILABLE"), "{shown}");
    proxy.signal(Signal::TERM);
    assert_eq!(proxy.wait(PATIENCE).unwrap().code(), 0);
    csi.run("identity probe").succeeds();
}

#[test]
fn what_stands_in_the_place_of_a_taken_socket_is_said_once() {
    let driver = Driver::with_local_share();
    let socket = socket_of(&driver);
    let csi = Csi::at(&driver.endpoint());
    let proxy = take_over(&csi, &socket);
    // At once: the proxy takes a free path over again.
    let file = csi.file("file", "");
    std::fs::rename(file, &socket).unwrap();
    let trouble = "the socket cannot be taken over again: ";
    wait_for_note(&proxy, trouble, 1);
    // Longer than a few looks; the note would have come with each.
    std::thread::sleep(std::time::Duration::from_secs(1));
    std::fs::remove_file(&socket).unwrap();
    wait_for_note(&proxy, "its socket is taken over again", 1);
    csi.run("identity probe").succeeds();
    let said = proxy.so_far();
    assert_eq!(said.matches(trouble).count(), 1, "{said}");
}

/// Waits until a note has come that many times.
fn wait_for_note(proxy: &Process, note: &str, times: usize) {
    let mut read = 0;
    for _ in 0..times {
        proxy.wait_for_error_line(&mut read, note);
    }
}

/// Sidecars keep their connections: they are told of, and on request closed.
#[test]
fn connections_that_exist_already_are_told_of_or_closed() {
    use std::io::Read;
    for (flags, said) in [
        ("", "note: 2 connections to the driver existed before"),
        (
            "--reset",
            "note: closed 2 connections to the driver that existed before",
        ),
    ] {
        let driver = ScriptedDriver::unix();
        super::plugin_info(&driver);
        let socket = driver.endpoint().strip_prefix("unix://").unwrap();
        let mut kept: Vec<_> = (0..2)
            .map(|_| std::os::unix::net::UnixStream::connect(socket).unwrap())
            .collect();
        // The driver's greeting: it has accepted both.
        for stream in &mut kept {
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_exact(&mut [0; 9]).unwrap();
        }
        let csi = Csi::new();
        let proxy = csi.spawn(&format!("proxy --take-over {socket} {flags}"));
        proxy.wait_for_error_output("note: calls to");
        proxy.wait_for_error_output(said);
        if !flags.is_empty() {
            for stream in &mut kept {
                // What was under way is read, and then its end.
                stream.read_to_end(&mut Vec::new()).unwrap();
            }
        }
        csi.run(&format!("-e unix://{socket} identity plugin-info"))
            .succeeds();
        proxy.signal(Signal::TERM);
        assert_eq!(proxy.wait(PATIENCE).unwrap().code(), 0);
    }
}
