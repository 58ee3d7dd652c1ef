//! `csi proxy` between a caller and a driver: what passes, what is shown, what is kept, and whose the socket is.

mod carried;
mod faults;
mod recording;
mod replay;
mod shown;
mod sockets;
mod wire;

use crate::support::driver::Driver;
use crate::support::patience::until;
use crate::support::process::Process;
use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A running `csi proxy` that listens in a folder of its own.
struct Proxy {
    csi: Csi,
    process: Process,
    socket: PathBuf,
}

impl Proxy {
    fn to(endpoint: &str) -> Self {
        Self::with(endpoint, "")
    }

    /// With more flags.
    fn with(endpoint: &str, flags: &str) -> Self {
        Self::of(Csi::new(), endpoint, flags)
    }

    fn of(csi: Csi, endpoint: &str, flags: &str) -> Self {
        let socket = csi.home().join("p.sock");
        let line = format!(
            "proxy --listen unix://{} --to '{endpoint}' {flags}",
            socket.display()
        );
        let process = csi.spawn(&line);
        process.wait_for_error_output("note: calls to");
        Self {
            csi,
            process,
            socket,
        }
    }

    fn endpoint(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Runs `csi` through it.
    fn run(&self, line: &str) -> Output {
        self.csi.run(&format!("-e {} {line}", self.endpoint()))
    }

    /// Waits until so many calls are in the recording `r.jsonl`: they are written behind the answers.
    #[track_caller]
    fn has_recorded(&self, calls: usize) {
        let path = self.csi.home().join("r.jsonl");
        until("the calls are recorded", || {
            // Behind its first line.
            std::fs::read_to_string(&path)
                .unwrap()
                .matches('\n')
                .count()
                > calls
        });
    }

    /// Ends it with SIGTERM; returns what it wrote to stdout and stderr.
    #[track_caller]
    fn ends(self) -> (String, String) {
        let [stdout, stderr, _] = self.ends_recorded();
        (stdout, stderr)
    }

    /// As `ends`, with its recording `r.jsonl`, which is empty where there is none.
    #[track_caller]
    fn ends_recorded(self) -> [String; 3] {
        self.process.signal(Signal::TERM);
        let ended = self.process.wait(crate::support::PATIENCE).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert_eq!(ended.code(), 0, "{}", text(ended.stderr));
        assert!(!self.socket.exists(), "the socket stayed");
        let recording = std::fs::read_to_string(self.csi.home().join("r.jsonl"));
        let recording = recording.unwrap_or_default();
        [text(ended.stdout), text(ended.stderr), recording]
    }
}

fn plugin_info(driver: &ScriptedDriver) {
    driver.on(
        "GetPluginInfo",
        r#"{"name": "own.example", "vendorVersion": "1"}"#,
    );
}

#[test]
fn a_driver_that_comes_goes_and_comes_back() {
    let mut driver = Driver::with_local_share();
    driver.kill();
    let proxy = Proxy::to(&driver.endpoint());
    let gone = "UNAVAILABLE: csi proxy: no connection to the driver: nobody listens on unix://";
    proxy.run("identity probe").exits(64 + 14).says(gone);
    for _ in 0..2 {
        driver.restart();
        proxy.run("identity probe").succeeds();
        driver.kill();
        proxy.run("identity probe").exits(64 + 14).says(gone);
    }
    driver.restart();
    proxy.run("identity probe").succeeds();
    let (shown, _) = proxy.ends();
    assert_eq!(shown.matches("UNAVAILABLE").count(), 3, "{shown}");
    // The spaces, because the folder of a socket may be called so.
    assert_eq!(shown.matches(" OK ").count(), 3, "{shown}");
}

#[test]
fn a_driver_that_dies_in_mid_call() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", Reply::disconnect());
    let reply = Reply::json("{}");
    driver.on("GetPluginInfo", reply.then_disconnect());
    let proxy = Proxy::to(driver.endpoint());
    let lost = "UNAVAILABLE: csi proxy: the driver was lost during the call";
    proxy.run("identity probe").exits(64 + 14).says(lost);
    proxy.run("identity plugin-info").exits(64 + 14).says(lost);
    proxy.ends();
}

#[test]
fn drivers_that_are_none() {
    let folder = tempfile::tempdir().unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        use std::io::Write as _;
        for stream in listener.incoming() {
            let _ = stream
                .unwrap()
                .write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let none = folder.path().join("none.sock");
    for (endpoint, part) in [
        (
            format!("tcp://127.0.0.1:{port}"),
            "does not speak gRPC: it answers",
        ),
        (none.display().to_string(), "none.sock does not exist"),
        (
            "exec:/bin/false".to_owned(),
            "the command /bin/false exited with code 1",
        ),
    ] {
        let proxy = Proxy::to(&endpoint);
        proxy.run("identity probe").exits(64 + 14).says(part);
        proxy.ends();
    }
}

#[test]
fn every_kind_of_endpoint_on_either_side() {
    let driver = ScriptedDriver::tcp();
    plugin_info(&driver);
    let csi = Csi::new();
    let name = format!("unix-abstract:{}", csi.home().display());
    let first = csi.spawn(&format!("proxy --listen {name} --to {}", driver.endpoint()));
    first.wait_for_error_output("note: calls to unix-abstract:");
    let second = csi.spawn(&format!("proxy --listen tcp://127.0.0.1:0 -e {name}"));
    let said = second.wait_for_error_output(" go to ");
    let place = said
        .split("calls to ")
        .nth(1)
        .unwrap()
        .split(' ')
        .next()
        .unwrap();
    let far_end = format!(
        "exec:{} proxy --stdio {place}",
        crate::support::program::BINARY
    );
    let third = Proxy::to(&far_end);
    third
        .run("identity plugin-info -o name")
        .succeeds()
        .prints("own.example\n");
    // Whatever stands between, the driver is called by its own name.
    assert_eq!(
        driver.request().authority,
        driver.endpoint().trim_start_matches("tcp://")
    );
    third.ends();
}

#[test]
fn tls_flags_hold_for_the_driver() {
    let certificates = crate::support::certificates::Certificates::new();
    let driver = ScriptedDriver::tls(&certificates);
    plugin_info(&driver);
    let flag = |name: &str| certificates.file(name).display().to_string();
    let flags = format!(
        "--cacert {} --cert {} --key {}",
        flag("ca.pem"),
        flag("client.pem"),
        flag("client.key")
    );
    let proxy = Proxy::with(driver.endpoint(), &flags);
    proxy
        .run("identity plugin-info -o name")
        .succeeds()
        .prints("own.example\n");
    proxy.ends();
    let proxy = Proxy::to(driver.endpoint());
    proxy
        .run("identity plugin-info")
        .exits(64 + 14)
        .says("the TLS handshake with localhost failed");
    proxy.ends();
}

#[test]
fn what_cannot_be_is_refused() {
    let csi = Csi::new();
    for (line, code, part) in [
        ("proxy", 2, "--listen"),
        (
            "proxy --listen unix:///a",
            2,
            "no driver named: give --endpoint, or set CSI_ENDPOINT",
        ),
        ("proxy --listen unix:./x.sock --to /a --reset", 2, "--reset"),
        (
            "proxy --listen nowhere --to /a",
            2,
            "is no place to listen: it has no scheme",
        ),
        (
            "proxy --listen unix:./x.sock --to nonsense://a",
            2,
            "is not an endpoint",
        ),
        (
            "proxy --listen unix:./x.sock --to ./x.sock",
            2,
            "calls would go round in circles",
        ),
        (
            "proxy --listen unix:x.sock --to unix:././/x.sock",
            2,
            "calls would go round in circles",
        ),
        (
            "proxy --listen unix-abstract:own-circle --to unix-abstract:own-circle",
            2,
            "both name unix-abstract:own-circle: calls",
        ),
        (
            "proxy --listen unix:///nowhere/x.sock --to /a",
            1,
            "/nowhere: the folder does not exist",
        ),
        (
            "proxy --listen unix:./x.sock --to /a -o wide",
            2,
            "lines for people, or JSON",
        ),
        (
            "proxy --listen unix:./x.sock --to /a --socket-mode 0444",
            2,
            "is no socket mode",
        ),
        (
            "proxy --listen unix:./x.sock --to /a --fail probe",
            2,
            "\"probe\" has no status",
        ),
        (
            "proxy --listen unix:./x.sock --to /a --cacert /x",
            2,
            "are for https:// endpoints",
        ),
        (
            "proxy --take-over unix-abstract:x",
            2,
            "only a socket in the file system can be taken over",
        ),
        ("proxy --take-over ./none.sock", 1, "no driver listens here"),
        ("proxy --stdio /a --record f", 2, "cannot be used with"),
        (
            "proxy --listen unix:./x.sock --to /a --record -",
            2,
            "--record keeps the calls in a file, and - is none",
        ),
    ] {
        csi.run(line).exits(code).says(part).prints("");
    }
    assert!(
        Path::new(csi.home()).read_dir().unwrap().next().is_none(),
        "something was left behind"
    );
}

#[test]
fn running_calls_are_answered_before_the_end_and_not_waited_for_without_one() {
    let driver = ScriptedDriver::unix();
    let slow = Reply::json("{}").after(Duration::from_millis(300));
    driver.on("Probe", slow);
    driver.on("DeleteVolume", Reply::never());
    let proxy = Proxy::to(driver.endpoint());
    let probe = proxy
        .csi
        .spawn(&format!("-e {} identity probe", proxy.endpoint()));
    driver.wait_for_call("Probe");
    let (_, said) = proxy.ends();
    assert!(!said.contains("cut off"), "{said}");
    assert_eq!(probe.wait(crate::support::PATIENCE).unwrap().code(), 0);

    let proxy = Proxy::with(driver.endpoint(), "--drain 100ms");
    let delete = proxy.csi.spawn(&format!(
        "-e {} controller delete-volume v",
        proxy.endpoint()
    ));
    driver.wait_for_call("DeleteVolume");
    let (_, said) = proxy.ends();
    assert!(
        said.contains("calls that were not answered within 100ms and are cut off: 1"),
        "{said}"
    );
    assert_eq!(
        delete.wait(crate::support::PATIENCE).unwrap().code(),
        64 + 14
    );
}
