//! `csi proxy` between a caller and a driver: what passes, what is shown, what is kept, and whose the socket is.

mod faults;
mod recording;
mod replay;
mod shown;
mod sockets;
mod wire;

use crate::support::driver::Driver;
use crate::support::process::Process;
use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use bytes::Bytes;
use csi_proto::v1::{GetPluginInfoResponse, ProbeResponse};
use h2::Reason;
use prost::Message as _;
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tonic::Code;
use wire::{Seen, Stranger};

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

    /// Ends it with SIGTERM; returns what it wrote to stdout and stderr.
    #[track_caller]
    fn ends(self) -> (String, String) {
        self.process.signal(Signal::TERM);
        let ended = self.process.wait(crate::support::PATIENCE).unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        assert_eq!(ended.code(), 0, "{}", text(ended.stderr));
        assert!(!self.socket.exists(), "the socket stayed");
        (text(ended.stdout), text(ended.stderr))
    }
}

fn plugin_info(driver: &ScriptedDriver) {
    let reply = GetPluginInfoResponse {
        name: "own.example".into(),
        vendor_version: "1".into(),
        ..Default::default()
    };
    driver.on("GetPluginInfo", Reply::message(&reply));
}

/// The lines of a text without their times and durations.
fn timeless(text: &str) -> Vec<String> {
    let lines = text.lines().map(|line| {
        let words: Vec<&str> = line.split(' ').collect();
        let is_time = |index: usize| {
            index == 0 && words[0].ends_with('Z')
                || words.get(index + 1) == Some(&"ms")
                || words[index] == "ms"
        };
        let kept = (0..words.len()).filter(|index| !is_time(*index));
        kept.map(|index| words[index]).collect::<Vec<_>>().join(" ")
    });
    lines.collect()
}

#[test]
fn calls_are_shown_as_they_happen() {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    driver.on("Probe", Reply::error(Code::Unavailable, "\x1b[31mnot yet"));
    driver.on("DeleteVolume", Reply::never());
    let proxy = Proxy::to(driver.endpoint());
    proxy.run("identity plugin-info").succeeds();
    proxy.run("identity probe").exits(64 + 14).says("not yet");
    proxy.run("controller get-capabilities").exits(64 + 12);
    // A call that hangs is seen before its end.
    let mut caller = proxy.csi.spawn(&format!(
        "-e {} controller delete-volume v",
        proxy.endpoint()
    ));
    proxy
        .process
        .wait_for_output("-> Controller/DeleteVolume {\"volumeId\":\"v\"}");
    caller.kill();
    proxy.process.wait_for_output("given up by the caller");
    driver.wait_for_cancellation("DeleteVolume");
    proxy
        .run("-t 300ms controller delete-volume v")
        .exits(64 + 4);
    proxy.process.wait_for_output("its deadline has passed");
    let (shown, _) = proxy.ends();
    assert_eq!(
        timeless(&shown),
        [
            "#1 -> Identity/GetPluginInfo {}",
            "#1 <- Identity/GetPluginInfo OK {\"name\":\"own.example\",\"vendorVersion\":\"1\"}",
            "#2 -> Identity/Probe {}",
            "#2 <- Identity/Probe UNAVAILABLE \\u{1b}[31mnot yet",
            "#3 -> Controller/ControllerGetCapabilities {}",
            "#3 <- Controller/ControllerGetCapabilities UNIMPLEMENTED unknown method ControllerGetCapabilities",
            "#4 -> Controller/DeleteVolume {\"volumeId\":\"v\"}",
            "#4 <- Controller/DeleteVolume given up by the caller",
            "#5 -> Controller/DeleteVolume {\"volumeId\":\"v\"}",
            "#5 <- Controller/DeleteVolume given up by the caller: its deadline has passed",
        ]
    );
}

#[test]
fn details_metadata_and_streams_are_shown() {
    use csi_proto::v1::GetMetadataAllocatedResponse as Blocks;
    use tonic_types::pb;
    let driver = ScriptedDriver::unix();
    let info = pb::ErrorInfo {
        reason: "QUOTA".into(),
        ..Default::default()
    };
    let status = pb::Status {
        details: vec![prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.ErrorInfo".into(),
            value: info.encode_to_vec(),
        }],
        ..Default::default()
    };
    let full = Reply::error_with_details(Code::ResourceExhausted, "full", status.encode_to_vec());
    driver.on("GetCapacity", full.with_header("x-never", "shown"));
    let blocks = |size| Blocks {
        volume_capacity_bytes: size,
        ..Default::default()
    };
    let stream = Reply::messages(&[blocks(1), blocks(2)]).then_error(Code::Internal, "broke");
    driver.on("GetMetadataAllocated", stream);
    let proxy = Proxy::with(driver.endpoint(), "-v");
    proxy
        .run("-m authorization=hunter2-token controller get-capacity")
        .exits(64 + 8)
        .says("QUOTA");
    proxy.run("sm allocated s1").exits(64 + 13);
    let (shown, _) = proxy.ends();
    for part in [
        "    authorization: ***stripped***\n",
        "    grpc-timeout: 60000000u\n",
        "RESOURCE_EXHAUSTED",
        "    detail: {\"@type\":\"google.rpc.ErrorInfo\",\"reason\":\"QUOTA\"",
        "#2 <- SnapshotMetadata/GetMetadataAllocated {\"volumeCapacityBytes\":\"1\"}\n",
        "#2 <- SnapshotMetadata/GetMetadataAllocated {\"volumeCapacityBytes\":\"2\"}\n",
        "INTERNAL",
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains("hunter2"), "{shown}");
}

#[test]
fn secrets_appear_nowhere_even_when_the_driver_repeats_them() {
    let token = "kubelet-token-0123456789";
    let tokens = format!("{{\"aud\":{{\"token\":\"{token}\",\"expirationTimestamp\":\"x\"}}}}");
    let driver = ScriptedDriver::unix();
    driver.on(
        "NodePublishVolume",
        Reply::error(
            Code::Internal,
            format!("mount -o password=hunter2\"word,{token} failed"),
        ),
    );
    let proxy = Proxy::with(driver.endpoint(), "--record r.jsonl -v");
    let json = Proxy::with(&proxy.endpoint(), "-o json");
    json.csi.file("s.json", r#"{"password": "hunter2\"word"}"#);
    let context = json.csi.file("tokens", &tokens);
    json.run(&format!(
        "node publish v --target-path /t --secrets-file s.json --vol-context 'csi.storage.k8s.io/serviceAccount.tokens=@{}'",
        context.display()
    ))
    .exits(64 + 13);
    let (first, _) = json.ends();
    let recording = std::fs::read_to_string(proxy.csi.home().join("r.jsonl")).unwrap();
    let (second, _) = proxy.ends();
    // The driver got them.
    let request = driver
        .request()
        .decode::<csi_proto::v1::NodePublishVolumeRequest>();
    assert_eq!(request.secrets["password"], "hunter2\"word");
    for text in [&first, &second, &recording] {
        assert!(
            text.contains("NodePublishVolume") && text.contains("***stripped***"),
            "{text}"
        );
        assert!(!text.contains("hunter2") && !text.contains(token), "{text}");
    }
}

#[test]
fn nothing_is_added_to_the_wire() {
    let driver = ScriptedDriver::unix();
    let reply = Reply::message(&ProbeResponse::default()).with_header("x-reply", "kept");
    driver.on("Probe", reply);
    let proxy = Proxy::to(driver.endpoint());
    let flags = "-m x-own=1,x-own-bin=AAEC identity probe";
    Csi::at(driver.endpoint()).run(flags).succeeds();
    proxy.run(flags).succeeds();
    let [direct, proxied] = &driver.requests()[..] else {
        panic!("two calls");
    };
    assert_eq!(direct.metadata, proxied.metadata);
    assert_eq!(direct.authority, proxied.authority);
    assert_eq!(direct.message, proxied.message);
}

#[tokio::test(flavor = "multi_thread")]
async fn services_that_nobody_knows_and_streams_in_both_directions_pass() {
    let stranger = Stranger::new();
    let proxy = Proxy::to(&stranger.endpoint());
    let mut direct = wire::connect(stranger.socket()).await;
    let mut proxied = wire::connect(&proxy.socket).await;
    let mut replies = Vec::new();
    for sender in [&mut direct, &mut proxied] {
        let (response, mut up) = wire::call_of(sender, "/own.v1.Streams/Echo");
        let Seen::Head(head) = stranger.next() else {
            panic!("a head");
        };
        // The answer begins before the request has a body.
        let (reply, mut down) = response.await.unwrap().into_parts();
        let mut echoed = Vec::new();
        for number in 0..3_u8 {
            // One at a time: nothing waits for the end of the stream.
            wire::send(&mut up, wire::frame(&[number; 9]), false).await;
            echoed.push(down.data().await.unwrap().unwrap());
        }
        up.send_data(Bytes::new(), true).unwrap();
        assert!(down.data().await.is_none());
        let trailers = down.trailers().await.unwrap();
        replies.push((
            head.method,
            head.headers,
            reply.status,
            reply.headers,
            echoed,
            trailers,
        ));
    }
    assert_eq!(replies[0], replies[1]);
    let (shown, _) = proxy.ends();
    assert!(
        shown.contains("-> /own.v1.Streams/Echo (9 bytes, unknown method)"),
        "{shown}"
    );
    assert!(shown.contains("<- /own.v1.Streams/Echo OK"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn answers_of_nothing_but_trailers_pass() {
    let stranger = Stranger::new();
    let proxy = Proxy::to(&stranger.endpoint());
    let mut heads = Vec::new();
    for socket in [&stranger.socket(), &proxy.socket] {
        let mut sender = wire::connect(socket).await;
        let (response, mut up) = wire::call_of(&mut sender, "/own.v1.S/Only");
        // The answer may be there before the request is sent.
        let _ = up.send_data(wire::frame(b""), true);
        let (head, body) = response.await.unwrap().into_parts();
        assert!(body.is_end_stream(), "the first frame is the last");
        heads.push((head.status, head.headers));
    }
    assert_eq!(heads[0], heads[1]);
    let (shown, _) = proxy.ends();
    assert!(shown.contains("FAILED_PRECONDITION"), "{shown}");
    assert!(shown.contains("50% ü"), "{shown}");
}

#[tokio::test(flavor = "multi_thread")]
async fn resets_pass_with_their_reasons() {
    let stranger = Stranger::new();
    let proxy = Proxy::to(&stranger.endpoint());
    let mut sender = wire::connect(&proxy.socket).await;
    let (response, _up) = wire::call_of(&mut sender, "/own.v1.S/Refuse");
    let error = response.await.unwrap_err();
    assert_eq!(error.reason(), Some(Reason::REFUSED_STREAM));
    for ends in [false, true] {
        let (_response, mut up) = wire::call_of(&mut sender, "/own.v1.S/Wait");
        if ends {
            wire::send(&mut up, wire::frame(b"x"), true).await;
        }
        while !matches!(stranger.next(), Seen::Head(head) if head.uri.path().ends_with("Wait")) {}
        up.send_reset(Reason::CANCEL);
        assert!(matches!(stranger.next(), Seen::Reset(Reason::CANCEL)));
    }
    // A caller that dies gives up its calls.
    let mut caller = wire::connect(&proxy.socket).await;
    let waiting = wire::call_of(&mut caller, "/own.v1.S/Wait");
    while !matches!(stranger.next(), Seen::Head(_)) {}
    drop((waiting, caller));
    assert!(matches!(stranger.next(), Seen::Reset(Reason::CANCEL)));
    let (shown, _) = proxy.ends();
    assert!(
        shown.contains("ended by the driver without a status (REFUSED_STREAM)"),
        "{shown}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn large_messages_pass_and_a_slow_reader_holds_the_driver_back() {
    let stranger = Stranger::new();
    let proxy = Proxy::with(&stranger.endpoint(), "--quiet");
    let mut sender = wire::connect(&proxy.socket).await;
    let (response, mut up) = wire::call_of(&mut sender, "/own.v1.S/Echo");
    let sent: Vec<u8> = (0..16_u32 << 20)
        .map(|number| (number % 251) as u8)
        .collect();
    let large = wire::frame(&sent);
    let sending = tokio::spawn({
        let large = large.clone();
        async move { wire::send(&mut up, large, true).await }
    });
    let mut down = response.await.unwrap().into_body();
    let mut echoed = Vec::new();
    while let Some(piece) = down.data().await {
        let piece = piece.unwrap();
        echoed.extend_from_slice(&piece);
        down.flow_control().release_capacity(piece.len()).unwrap();
    }
    sending.await.unwrap();
    assert!(echoed == large, "{} of {} bytes", echoed.len(), large.len());
    proxy.ends();
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
    assert_eq!(shown.matches("OK").count(), 3, "{shown}");
}

#[test]
fn a_driver_that_dies_in_mid_call() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", Reply::disconnect());
    let reply = Reply::message(&GetPluginInfoResponse::default());
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
    let driver = ScriptedDriver::tls(&certificates, true);
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
fn garbage_disturbs_nobody() {
    use std::io::{Read as _, Write as _};
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let proxy = Proxy::to(driver.endpoint());
    let mut stream = std::os::unix::net::UnixStream::connect(&proxy.socket).unwrap();
    stream
        .write_all(b"GET / HTTP/1.1\r\nhost: \x1b[31m\r\n\r\n")
        .unwrap();
    let _ = stream.read_to_end(&mut Vec::new());
    // One that only looks whether somebody listens is no news.
    drop(std::os::unix::net::UnixStream::connect(&proxy.socket).unwrap());
    proxy.run("identity plugin-info").succeeds();
    let (_, said) = proxy.ends();
    assert_eq!(
        said.matches("a caller does not speak gRPC").count(),
        1,
        "{said}"
    );
    assert_eq!(said.lines().count(), 2, "{said}");
}

#[test]
fn colours_are_for_terminals_that_want_them() {
    use crate::support::terminal::Terminal;
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    for (wanted, no_color) in [(true, ""), (false, "1")] {
        let csi = Csi::new();
        let socket = csi.home().join("p.sock");
        let mut command = csi.command();
        command
            .args(["proxy", "--listen", &format!("unix:{}", socket.display())])
            .args(["--to", driver.endpoint()])
            .env("TERM", "xterm")
            .env("NO_COLOR", no_color);
        let mut terminal = Terminal::start(&command, 200, 24);
        terminal.expect("note: calls to");
        Csi::at(&socket.display().to_string())
            .run("identity plugin-info")
            .succeeds();
        terminal.expect("<- Identity/GetPluginInfo OK");
        terminal.press("\x03");
        assert!(terminal.ends().success());
        assert_eq!(terminal.raw().contains("\x1b[32mOK\x1b[0m"), wanted);
        assert!(!socket.exists());
    }
}

#[test]
fn json_has_one_line_a_call() {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let proxy = Proxy::with(driver.endpoint(), "-o json");
    proxy.run("identity plugin-info").succeeds();
    proxy.run("controller get-capacity").exits(64 + 12);
    let (shown, _) = proxy.ends();
    let lines: Vec<serde_json::Value> = shown
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["method"], "/csi.v1.Identity/GetPluginInfo");
    assert_eq!(lines[0]["reply"]["name"], "own.example");
    assert_eq!(lines[0]["status"]["code"], "OK");
    assert_eq!(lines[1]["status"]["message"], "unknown method GetCapacity");
    assert!(lines[1]["seconds"].as_f64().unwrap() > 0.0);
}

#[test]
fn an_output_that_nobody_reads_holds_no_call_up() {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let csi = Csi::new();
    let socket = csi.home().join("p.sock");
    // A reader that went away.
    let line = format!(
        "'{}' proxy --listen unix:{} --to {} | true",
        crate::support::program::BINARY,
        socket.display(),
        driver.endpoint()
    );
    let mut shell = std::process::Command::new("sh");
    let process = Process::start(shell.args(["-c", &line]));
    process.wait_for_error_output("note: calls to");
    for _ in 0..3 {
        Csi::at(&socket.display().to_string())
            .run("identity plugin-info")
            .succeeds();
    }
    drop(process);
}

#[test]
fn what_cannot_be_is_refused() {
    let csi = Csi::new();
    for (line, code, part) in [
        ("proxy", 2, "--listen"),
        (
            "proxy --listen unix:///a",
            2,
            "no driver named: give --endpoint or set CSI_ENDPOINT",
        ),
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
        (
            "proxy --take-over ./none.sock",
            1,
            "no driver listens on this socket",
        ),
        ("proxy --stdio /a --record f", 2, "cannot be used with"),
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
    let slow = Reply::message(&ProbeResponse::default()).after(Duration::from_millis(300));
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
        said.contains("1 calls were not answered within 100ms and are cut off"),
        "{said}"
    );
    assert_eq!(
        delete.wait(crate::support::PATIENCE).unwrap().code(),
        64 + 14
    );
}
