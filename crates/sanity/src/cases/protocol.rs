//! The rules of gRPC and protocol buffers below the RPCs: fields, methods and metadata that a driver does not know.

use crate::case::Failure;
use crate::vocabulary::*;
use bytes::Bytes;
use csi_proto::Request;
use csi_proto::lock::lock;
use csi_proto::schema::Method;
use csi_proto::{tables, wire};

/// A number that no field of the specification has.
const NO_FIELD: u32 = 12_345;

/// The case about a driver that goes away. What it warns of is no recommendation: somebody may have restarted the driver.
pub const STAYS_THERE: &str = "protocol/driver-stays-there";

pub fn cases(list: &mut Cases) {
    list.about("protocol", "Protocol");
    list.rule("A request with a field of a newer specification is answered as without it");
    list.reads("unknown-fields-are-ignored", |c| {
        asks_newer(c, v1::GetPluginInfoRequest {})?;
        asks_newer(c, v1::GetPluginCapabilitiesRequest {})?;
        match c.has(NODE_SERVICE) {
            true => asks_newer(c, v1::NodeGetCapabilitiesRequest {}),
            false => Ok(()),
        }
    });
    list.rule("CreateVolume and DeleteVolume with a field of a newer specification are answered as without it");
    list.also(&[CREATE_DELETE_VOLUME]);
    list.changes("unknown-fields-of-changes-are-ignored", |c| {
        let volume = c.volume()?;
        c.depends_on("protocol/unknown-fields-are-ignored");
        let again = newer(c, volume.request.clone())?.volume.unwrap_or_default();
        same_id("volume", &volume.id(), &again.volume_id)?;
        newer(c, c.delete_request(volume.id()))
    });
    list.rule("A method that the specification does not have answers UNIMPLEMENTED");
    list.under("Error Scheme");
    list.reads("unknown-methods-are-unimplemented", |c| {
        each([&NO_METHOD, &NO_SERVICE], |method| {
            let answer = c.exchange(method, Bytes::new())?;
            let actual = answer_text(&answer);
            let refused = answer.is_err_and(|status| status.code() == Unimplemented);
            ensure(refused, "UNIMPLEMENTED", actual)
        })?;
        // And the connection is as good as before.
        c.ok(v1::GetPluginInfoRequest {})
    });
    list.rule("A request that is no message is refused, and the driver goes on");
    list.under("Error Scheme");
    list.reads("broken-requests-are-refused", |c| {
        // A field that says it is longer than what follows.
        let broken = Bytes::from_static(b"\x0a\xff\xff\xff\x07x");
        let method = v1::GetPluginInfoRequest::METHOD;
        let answer = c.exchange(method, broken)?;
        let expected = "bytes that are no message are refused";
        c.should(answer.is_err(), expected, "it answered OK");
        c.ok(v1::GetPluginInfoRequest {})
    });
    list.rule(
        "A call with metadata that the driver does not know should be answered as without it",
    );
    list.reads("unknown-metadata-is-ignored", |c| {
        let entries = [
            ("csi-sanity-unknown".to_owned(), "x".repeat(1000)),
            ("csi-sanity-bin".to_owned(), "AAEC/w==".to_owned()),
        ];
        let session = c.run.node.session.clone().with_metadata(&entries);
        let session = session.map_err(|error| Stop::skipped(error.to_string()))?;
        let method = v1::GetPluginInfoRequest::METHOD;
        c.ok(v1::GetPluginInfoRequest {})?;
        let answer = c.unrecorded(&session, method, Bytes::new())?;
        let actual = answer.as_ref().err().map(status_text).unwrap_or_default();
        // The specification says nothing of metadata.
        c.should(answer.is_ok(), "GetPluginInfo answers OK", actual);
        Ok(())
    });
    list.rule("A connection carries hundreds of calls at a time");
    list.under("Concurrency");
    list.reads("many-calls-on-one-connection", |c| {
        let answers = c.together(vec![v1::GetPluginInfoRequest {}; 200])?;
        // One that answers one after the other may need longer than a deadline for all of them.
        let is_late = |status: &tonic::Status| status.code() == tonic::Code::DeadlineExceeded;
        let answers_some = answers.iter().any(Result::is_ok);
        let expected = "GetPluginInfo answers OK, also at the same time";
        each(answers, |answer| match answer {
            Err(status) if !(answers_some && is_late(&status)) => {
                Err(Stop::failed(expected, status_text(&status)))
            }
            _ => Ok(()),
        })
    });
    list.rule("The driver is there for all calls of this run, also for those at the same time");
    list.under("Concurrency").last("driver-stays-there", |c| {
        let losses = lock(&c.run.losses);
        let mut died = None;
        for lost in losses.unexplained() {
            let first = &lost.calls[0].failure;
            let (mut went_away, mut stderr) = (first.actual.clone(), &first.stderr);
            if let Some(death) = &lost.death {
                went_away = format!("it went away: it {}", death.outcome);
                stderr = &death.said;
            }
            let actual = format!(
                "{went_away}; none of these calls, which were under way, has led to that alone: {}",
                lost.suspects()
            );
            let mut failure = Failure::new(&first.expected, actual);
            failure.stderr.clone_from(stderr);
            match &lost.death {
                // Nobody but the run starts it.
                Some(_) if died.is_none() => died = Some(failure),
                // Somebody may have restarted it.
                _ => c.warns_of(failure),
            }
        }
        died.map_or(Ok(()), |failure| Err(Stop::Failed(failure)))
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

/// Sends a question as it is, and then with fields that nobody knows.
fn asks_newer<Q: Request + Clone>(c: &Context, request: Q) -> Verdict {
    c.ok(request.clone())?;
    newer(c, request).map(drop)
}

/// Sends a request with fields that nobody knows, which must be answered with OK.
fn newer<Q: Request>(c: &Context, request: Q) -> Result<Q::Reply, Stop> {
    let mut bytes = request.encode_to_vec();
    wire::put_varint(&mut bytes, NO_FIELD, 7);
    wire::put_bytes(&mut bytes, NO_FIELD + 1, b"newer");
    let answer = c.exchange(Q::METHOD, bytes.into())?;
    c.decoded::<Q>(answer)?.map_err(|status| {
        let rpc = Q::METHOD.name;
        let expected = format!("{rpc} answers OK, whatever unknown fields the request has");
        Stop::failed(expected, status_text(&status))
    })
}
