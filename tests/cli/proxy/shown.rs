//! What of a call is shown, and to whom.

use super::Proxy;
use super::wire::{self, Stranger};
use csi_proto::v1::CreateVolumeRequest;
use prost::Message as _;
use serde_json::Value as Json;

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
        let recording = std::fs::read_to_string(lines.csi.home().join("r.jsonl")).unwrap();
        let (lines, _) = lines.ends();
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
