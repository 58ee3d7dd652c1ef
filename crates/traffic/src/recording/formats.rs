//! Recordings of all versions are read. Their files are in `tests/formats/`.

use super::call::{CallEnd, RecordedCall};
use super::framing::FramedMessage;
use super::status::CallStatus;
use super::{Header, Recorder, Recording};
use crate::corpus;
use csi_output::recorded::RecordedOutcome;
use csi_proto::v1::{
    CreateVolumeRequest, CreateVolumeResponse, GetMetadataAllocatedResponse, Volume,
};
use csi_proto::{SPEC_VERSION, methods};
use prost::Message;
use serde_json::json;
use std::time::{Duration, SystemTime};

/// A moment with a fraction.
fn began() -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_millis(1_700_000_000_250)
}

fn plain(message: &impl Message) -> FramedMessage {
    FramedMessage::Plain(message.encode_to_vec().into())
}

/// A call of each kind and with each end.
fn calls() -> Vec<RecordedCall> {
    let request = CreateVolumeRequest {
        name: "pvc-1".to_owned(),
        secrets: [("password".to_owned(), "hunter2".to_owned())].into(),
        ..Default::default()
    };
    let reply = CreateVolumeResponse {
        volume: Some(Volume {
            volume_id: "v-1".to_owned(),
            capacity_bytes: 1 << 30,
            ..Default::default()
        }),
    };
    let detail = prost_types::Any {
        type_url: "own.example/Detail".to_owned(),
        value: b"more".to_vec(),
    };
    let details = tonic_types::pb::Status {
        details: vec![detail],
        ..Default::default()
    };
    let failed = CallStatus {
        code: 13,
        message: "it broke".to_owned(),
        details: details.encode_to_vec(),
    };
    let ends = [
        CallEnd::Status(CallStatus::new(tonic::Code::Ok, "")),
        CallEnd::Status(failed),
        CallEnd::Status(CallStatus {
            code: 77,
            message: String::new(),
            details: Vec::new(),
        }),
        CallEnd::Reset("REFUSED_STREAM".to_owned()),
        CallEnd::Cancelled { deadline: true },
        CallEnd::Cancelled { deadline: false },
        CallEnd::Proxy(CallStatus::new(tonic::Code::Unavailable, "nobody listens")),
        CallEnd::Broken(CallStatus::new(
            tonic::Code::Unavailable,
            "the connection broke",
        )),
        CallEnd::Dropped,
    ];
    let mut calls: Vec<RecordedCall> = ends
        .into_iter()
        .zip(1..)
        .map(|(end, number)| RecordedCall {
            number,
            began: began() + Duration::from_secs(number),
            at: Duration::from_secs(number),
            path: "/csi.v1.Controller/CreateVolume".to_owned(),
            method: methods::by_name("CreateVolume"),
            metadata: [
                vec![("user-agent".to_owned(), "test/1".to_owned())],
                vec![("date".to_owned(), "today".to_owned())],
            ],
            requests: vec![plain(&request)],
            replies: match number {
                1 => vec![plain(&reply)],
                _ => Vec::new(),
            },
            end,
            took: Duration::from_millis(1500),
            injected: (number == 7).then(|| "error".to_owned()),
            sent: number != 7,
        })
        .collect();
    let part = GetMetadataAllocatedResponse {
        volume_capacity_bytes: 4096,
        ..Default::default()
    };
    calls.push(RecordedCall {
        number: 10,
        at: Duration::from_secs(10),
        path: "/csi.v1.SnapshotMetadata/GetMetadataAllocated".to_owned(),
        method: methods::by_name("GetMetadataAllocated"),
        requests: vec![FramedMessage::Compressed(5)],
        replies: vec![plain(&part), FramedMessage::Omitted(1 << 30)],
        ..calls[0].clone()
    });
    calls.push(RecordedCall {
        number: 11,
        at: Duration::from_secs(11),
        path: "/own.example/Call".to_owned(),
        method: None,
        ..calls[0].clone()
    });
    calls
}

#[test]
fn a_recording_is_written_as_in_the_newest_version() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("r");
    let header = Header {
        target: "unix:///run/csi.sock".to_owned(),
        started: began(),
    };
    let mut recorder = Recorder::begin(&path, false, &header).expect("begun");
    calls().iter().for_each(|call| recorder.add(call));
    assert_eq!(recorder.progress().missing(), 0);
    let text = std::fs::read_to_string(&path).expect("written");
    let text = text.replace(&format!("\"{SPEC_VERSION}\""), "\"1.0.0\"");
    corpus::holds("recording", [("calls.jsonl", text.into_bytes())]);
}

#[test]
fn recordings_of_all_versions_are_read() {
    for (version, folder) in corpus::versions("recording") {
        let recording = Recording::read(&folder.join("calls.jsonl")).expect(&version);
        assert_eq!(recording.target, "unix:///run/csi.sock");
        assert_eq!(recording.started, "2023-11-14T22:13:20.250Z");
        assert!(!recording.is_cut);
        let create = json!({
            "name": "pvc-1", "volumeCapabilities": [], "parameters": {}, "secrets": {"password": "***stripped***"},
            "mutableParameters": {},
        });
        let volume = json!({
            "volume": {"capacityBytes": "1073741824", "volumeId": "v-1", "volumeContext": {}, "accessibleTopology": []},
        });
        let part = json!({"blockMetadataType": "UNKNOWN", "volumeCapacityBytes": "4096", "blockMetadata": []});
        let outcome = |by: Option<&str>, code: &str, message: &str| RecordedOutcome {
            by: by.map(str::to_owned),
            code: code.to_owned(),
            message: message.to_owned(),
        };
        let answered = |code: &str, message: &str| outcome(None, code, message);
        let ended = |by: &str, code: &str, message: &str| outcome(Some(by), code, message);
        let outcomes = [
            answered("OK", ""),
            answered("INTERNAL", "it broke"),
            answered("77", ""),
            ended("reset", "UNKNOWN", "REFUSED_STREAM"),
            ended("caller", "DEADLINE_EXCEEDED", ""),
            ended("caller", "CANCELLED", ""),
            ended("proxy", "UNAVAILABLE", "nobody listens"),
            ended("connection", "UNAVAILABLE", "the connection broke"),
            ended("proxy", "", ""),
            answered("OK", ""),
            answered("OK", ""),
        ];
        assert_eq!(recording.calls.len(), outcomes.len());
        for ((call, outcome), number) in recording.calls.iter().zip(outcomes).zip(1..) {
            assert_eq!(
                (call.number, &call.outcome),
                (number, &outcome),
                "{version}"
            );
            assert_eq!(call.at, Duration::from_secs(number));
            assert_eq!(call.took, Duration::from_millis(1500));
            assert_eq!(call.sent, number != 7);
            assert_eq!(call.injected.as_deref(), (number == 7).then_some("error"));
            let hidden = |why: &str, bytes: u64| json!({"@hidden": why, "@bytes": bytes});
            let (path, requests, replies) = match number {
                10 => (
                    "/csi.v1.SnapshotMetadata/GetMetadataAllocated",
                    vec![hidden("compressed", 5)],
                    vec![part.clone(), hidden("too large", 1 << 30)],
                ),
                11 => (
                    "/own.example/Call",
                    vec![hidden("unknown method", 28)],
                    vec![hidden("unknown method", 13)],
                ),
                1 => (
                    "/csi.v1.Controller/CreateVolume",
                    vec![create.clone()],
                    vec![volume.clone()],
                ),
                _ => (
                    "/csi.v1.Controller/CreateVolume",
                    vec![create.clone()],
                    vec![],
                ),
            };
            assert_eq!(
                (call.path.as_str(), &call.requests, &call.replies),
                (path, &requests, &replies)
            );
            assert_eq!(call.method.is_some(), number != 11);
        }
    }
}
