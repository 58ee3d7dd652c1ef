//! The rules of gRPC and protocol buffers below the RPCs: fields, methods and metadata that a driver does not know.

use crate::tools::sanity::vocabulary::*;
use bytes::Bytes;
use csi_proto::Request;
use csi_proto::schema::Method;
use csi_proto::{tables, v1, wire};
use prost::Message;

/// A number that no field of the specification has.
const NO_FIELD: u32 = 12_345;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("protocol", "Versioning");
    list.rule("A request with a field of a newer specification is answered as without it");
    list.reads("unknown-fields-are-ignored", |c| {
        for method in [
            v1::GetPluginInfoRequest::METHOD,
            v1::GetPluginCapabilitiesRequest::METHOD,
            v1::ProbeRequest::METHOD,
        ] {
            newer(c, method, Vec::new())?;
        }
        if c.has(NODE_SERVICE) {
            newer(c, v1::NodeGetCapabilitiesRequest::METHOD, Vec::new())?;
        }
        Ok(())
    });
    list.rule("CreateVolume and DeleteVolume with a field of a newer specification are answered as without it");
    list.also(&[CREATE_DELETE_VOLUME])
        .changes("unknown-fields-of-changes-are-ignored", |c| {
            let request = c.create_request()?;
            let volume = c.volume_of(request.clone())?;
            let reply = newer(c, v1::CreateVolumeRequest::METHOD, request.encode_to_vec())?;
            let again = v1::CreateVolumeResponse::decode(reply).unwrap_or_default();
            let id = again.volume.unwrap_or_default().volume_id;
            same_id("volume", &volume.id(), &id)?;
            let request = c.delete_request(volume.id());
            newer(c, v1::DeleteVolumeRequest::METHOD, request.encode_to_vec())
        });
    list.rule("A method that the specification does not have answers UNIMPLEMENTED");
    list.under("Error Scheme")
        .reads("unknown-methods-are-unimplemented", |c| {
            for method in [&NO_METHOD, &NO_SERVICE] {
                let limit = c.settings().timeout;
                let answer = c.exchange(method, Bytes::new(), limit)?;
                let code = answer.as_ref().err().map_or(Code::Ok, tonic::Status::code);
                let actual = answer_text(&answer);
                ensure(code == Unimplemented, "UNIMPLEMENTED", actual)?;
            }
            // And the connection is as good as before.
            c.ok(v1::ProbeRequest {})
        });
    list.rule("A request that is no message is refused, and the driver goes on");
    list.under("Error Scheme")
        .reads("broken-requests-are-refused", |c| {
            let method = v1::GetPluginInfoRequest::METHOD;
            let limit = c.settings().timeout;
            // A field that says it is longer than what follows.
            let broken = Bytes::from_static(b"\x0a\xff\xff\xff\x07x");
            let answer = c.exchange(method, broken, limit)?;
            let actual = "it answered OK";
            c.should(
                answer.is_err(),
                "bytes that are no message are refused",
                actual,
            );
            c.ok(v1::ProbeRequest {})
        });
    list.rule("A call with metadata that the driver does not know is answered as without it");
    list.under("Authentication")
        .reads("unknown-metadata-is-ignored", |c| {
            let entries = [
                ("csi-sanity-unknown".to_owned(), "x".repeat(1000)),
                ("csi-sanity-bin".to_owned(), "AAEC/w==".to_owned()),
            ];
            let session = c.run.node.session.clone().with_metadata(&entries);
            let session = session.map_err(|error| Stop::Skipped(error.to_string()))?;
            let answer = c.unrecorded(&session, v1::ProbeRequest::METHOD, Bytes::new())?;
            let actual = answer.as_ref().err().map(status_text).unwrap_or_default();
            ensure(answer.is_ok(), "Probe answers OK", actual)
        });
    list.rule("A connection carries hundreds of calls at a time");
    list.under("Concurrency")
        .reads("many-calls-on-one-connection", |c| {
            c.all_ok(vec![v1::GetPluginInfoRequest {}; 200])
        });
}

/// A method that its service does not have.
const NO_METHOD: Method = Method {
    name: "NoSuchMethod",
    kebab_name: "no-such-method",
    service: "Identity",
    path: "/csi.v1.Identity/NoSuchMethod",
    request: &tables::PROBE_REQUEST,
    response: &tables::PROBE_RESPONSE,
    server_streaming: false,
    alpha: false,
    doc: "",
};

/// A method of a service that no driver has.
const NO_SERVICE: Method = Method {
    service: "NoSuchService",
    path: "/csi.v1.NoSuchService/NoSuchMethod",
    ..NO_METHOD
};

/// Sends a request with fields that nobody knows, which must be answered with OK.
fn newer(c: &Context, method: &'static Method, mut request: Vec<u8>) -> Result<Bytes, Stop> {
    wire::put_varint(&mut request, NO_FIELD, 7);
    wire::put_bytes(&mut request, NO_FIELD + 1, b"newer");
    let limit = c.settings().timeout;
    match c.exchange(method, request.into(), limit)? {
        Ok(messages) => Ok(messages.into_iter().next().unwrap_or_default()),
        Err(status) => {
            let expected = format!(
                "{} answers OK, whatever unknown fields the request has",
                method.name
            );
            Err(Stop::failed(expected, status_text(&status)))
        }
    }
}
