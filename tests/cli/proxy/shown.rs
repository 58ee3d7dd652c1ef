//! What of a call is shown, and to whom.

use super::wire::{self, Stranger};
use super::{Proxy, plugin_info};
use crate::support::patience::up_to_a_limit;
use crate::support::process::Process;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1::CreateVolumeRequest;
use prost::Message as _;
use serde_json::{Value as Json, json};
use tonic::Code;

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
        ]
    );
    // For one that comes late to the proxy the deadline is later there.
    up_to_a_limit("the deadline passes at the proxy too", |limit| {
        let proxy = Proxy::to(driver.endpoint());
        proxy
            .run(&format!("-t {limit} controller delete-volume v"))
            .exits(64 + 4);
        let (shown, _) = proxy.ends();
        let late = [
            "#1 -> Controller/DeleteVolume {\"volumeId\":\"v\"}",
            "#1 <- Controller/DeleteVolume given up by the caller: its deadline has passed",
        ];
        (timeless(&shown) == late).then_some(())
    });
}

#[test]
fn details_metadata_and_streams_are_shown() {
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
    let blocks = [1, 2].map(|size| json!({ "volumeCapacityBytes": size }));
    let stream = Reply::messages(blocks).then_error(Code::Internal, "broke");
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
    let [second, _, recording] = proxy.ends_recorded();
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
fn secrets_that_json_writes_otherwise_are_masked_in_replies_and_details() {
    use tonic_types::pb;
    let password = r#"hunter2"back\slash"#;
    let context = json!({"options": format!("password={password}")});
    let info = pb::ErrorInfo {
        reason: password.into(),
        ..Default::default()
    };
    let status = pb::Status {
        details: vec![prost_types::Any {
            type_url: "type.googleapis.com/google.rpc.ErrorInfo".into(),
            value: info.encode_to_vec(),
        }],
        ..Default::default()
    };
    let driver = ScriptedDriver::unix();
    driver.on(
        "CreateVolume",
        json!({"volume": {"volumeId": "v", "volumeContext": context}}),
    );
    driver.on(
        "DeleteVolume",
        Reply::error_with_details(Code::Internal, "no", status.encode_to_vec()),
    );
    let proxy = Proxy::to(driver.endpoint());
    let secrets = serde_json::json!({ "password": password }).to_string();
    proxy.csi.file("s.json", &secrets);
    proxy
        .run("controller create-volume a --secrets-file s.json")
        .succeeds();
    proxy
        .run("controller delete-volume v --secrets-file s.json")
        .exits(64 + 13);
    let (shown, _) = proxy.ends();
    for part in [
        r#""volumeContext":{"options":"password=***stripped***"}"#,
        r#""reason":"***stripped***""#,
    ] {
        assert!(shown.contains(part), "{part}\n{shown}");
    }
    assert!(!shown.contains("hunter2"), "{shown}");
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
fn an_output_that_cannot_be_written_is_told_once_and_fails_no_call() {
    let driver = ScriptedDriver::unix();
    plugin_info(&driver);
    let csi = Csi::at("unix:p.sock");
    let line = format!(
        "exec '{}' proxy --listen unix:p.sock --to {} >/dev/full",
        crate::support::program::BINARY,
        driver.endpoint()
    );
    let mut shell = std::process::Command::new("sh");
    shell.current_dir(csi.home()).args(["-c", &line]);
    let process = Process::start(&mut shell);
    process.wait_for_error_output("note: calls to");
    csi.run("identity plugin-info").succeeds();
    process.wait_for_error_output("warning: stdout cannot be written");
    csi.run("identity plugin-info").succeeds();
    process.signal(rustix::process::Signal::TERM);
    let ended = process.wait(crate::support::PATIENCE).unwrap();
    assert_eq!(ended.code(), 1);
    let said = String::from_utf8(ended.stderr).unwrap();
    assert_eq!(said.matches("cannot be written").count(), 1, "{said}");
}

/// Sends these frames of a stream, which come back.
async fn echoes(proxy: &Proxy, frames: &[&[u8]]) {
    let mut sender = wire::connect(&proxy.socket).await;
    let (response, mut up) = wire::call_of(&mut sender, "/own.v1.S/Echo");
    for frame in frames {
        wire::send(&mut up, frame.to_vec().into(), false).await;
    }
    wire::send(&mut up, wire::frame(b""), true).await;
    let mut down = response.await.unwrap().into_body();
    while let Some(piece) = down.data().await {
        let length = piece.unwrap().len();
        down.flow_control().release_capacity(length).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_unknown_methods_are_shown_to_who_asks_and_never_recorded() {
    let stranger = Stranger::new();
    // Any message will do: nobody here knows that one of its fields is for secrets.
    let message = CreateVolumeRequest {
        name: "own-1".into(),
        secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
        ..Default::default()
    };
    let plain = wire::frame(&message.encode_to_vec());
    let compressed = [&[1, 0, 0, 0, 4][..], b"gzip"].concat();
    let broken = wire::frame(&[0x0a, 9]);
    let frames = [&plain[..], &compressed, &broken];
    for (flags, shows) in [("", false), ("--show-unknown", true)] {
        let lines = Proxy::with(&stranger.endpoint(), &format!("{flags} --record r.jsonl"));
        let json = Proxy::with(&lines.endpoint(), &format!("{flags} -o json"));
        echoes(&json, &frames).await;
        let (json, _) = json.ends();
        let [lines, _, recording] = lines.ends_recorded();
        let json: Json = serde_json::from_str(&json).unwrap();
        for name in ["requests", "replies"] {
            assert_eq!(json[name][1]["@hidden"], "compressed", "{json}");
        }
        assert!(lines.contains("(4 bytes, compressed)"), "{lines}");
        let first = r##"{"#1":"own-1","#5":{"#1":"password","#2":"hunter2"}}"##;
        match shows {
            true => {
                assert_eq!(json["requests"][0], first.parse::<Json>().unwrap());
                assert_eq!(json["replies"][0], json["requests"][0]);
                let why = "not valid: the message ends in the middle of a field";
                assert_eq!(json["requests"][2]["@hidden"], why);
                for arrow in ["->", "<-"] {
                    let line = format!("{arrow} /own.v1.S/Echo {first}\n");
                    assert!(lines.contains(&line), "{lines}");
                }
            }
            false => {
                assert_eq!(json["requests"][0]["@hidden"], "unknown method");
                assert!(lines.contains("unknown method)"), "{lines}");
                assert!(!lines.contains("hunter2"), "{lines}");
            }
        }
        assert!(recording.contains("unknown method"), "{recording}");
        assert!(!recording.contains("hunter2"), "{recording}");
    }
}
