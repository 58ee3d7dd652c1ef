//! What comes before a reply's bytes are read: whether it is gRPC at all, and the words of a driver that failed a call, made such
//! that tonic can read them. A driver may send anything, and tonic ends the program for some of it.
//!
//! Must not look into messages, or know what a call means.

use base64::Engine as _;
use csi_arguments::metadata::BASE64;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode};
use http_body_util::BodyExt;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, percent_encode};
use std::error::Error as _;
use std::fmt::Display;
use std::sync::Arc;
use thiserror::Error;
use tonic::body::Body;
use tonic::transport::Channel;
use tonic::{Code, Status};
use tower::util::{MapResponse, ServiceExt};

/// A channel whose replies are checked.
pub(crate) type Checked = MapResponse<Channel, fn(Response<Body>) -> Response<Body>>;

/// Marks what came as a status from the other side, a driver or what stands before it. tonic has codes of its own for what it could
/// not read.
const TELLER: HeaderName = HeaderName::from_static("csi-told-by");
const BY_DRIVER: &str = "driver";
const BY_GATEWAY: &str = "gateway";

/// Who has ended a call with a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Teller {
    /// The driver, in gRPC.
    Driver,
    /// What stands before a driver, or in its place, by a status of HTTP alone.
    Gateway,
}

/// A reply came that nobody can read: no word of the driver's. The source of such a status, whose code is INTERNAL.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct Unreadable(String);

impl Unreadable {
    /// The unreadable reply behind a status; `None` for a status that the driver answered with.
    pub fn of(status: &Status) -> Option<&Self> {
        status.source()?.downcast_ref()
    }

    pub(crate) fn status(problem: impl Display) -> Status {
        Self::of_message(format!("the reply is not valid: {problem}"))
    }

    /// With all of its message.
    pub(crate) fn of_message(message: String) -> Status {
        let mut status = Status::internal(message.as_str());
        status.set_source(Arc::new(Self(message)));
        status
    }
}

/// `channel`, with its replies checked.
pub(crate) fn checked(channel: Channel) -> Checked {
    channel.map_response(check)
}

/// Who has said this, if the other side has. Takes away what tells.
pub(crate) fn teller(status: &mut Status) -> Option<Teller> {
    let mark = status.metadata_mut().remove(TELLER.as_str())?;
    Some(match mark == BY_DRIVER {
        true => Teller::Driver,
        false => Teller::Gateway,
    })
}

fn check(reply: Response<Body>) -> Response<Body> {
    let (mut head, body) = reply.into_parts();
    if let Some(problem) = problem(head.status, &head.headers) {
        return problem.into_http();
    }
    mend(&mut head.headers);
    let body = body.map_frame(|mut frame| {
        frame.trailers_mut().map(mend);
        frame
    });
    Response::from_parts(head, Body::new(body))
}

/// Why the reply with this head cannot be read.
fn problem(code: StatusCode, headers: &HeaderMap) -> Option<Status> {
    let text = |name: &HeaderName| {
        headers
            .get(name)
            .map(|value| String::from_utf8_lossy(value.as_bytes()))
    };
    let content = text(&CONTENT_TYPE).unwrap_or_default();
    let said = || format!("it is no gRPC, but HTTP status {code} with content-type {content:?}");
    if code != StatusCode::OK && !headers.contains_key(Status::GRPC_STATUS) {
        // Such is the word of what stands before a driver: gRPC's http-grpc-status-mapping.md.
        let mapped = match code.as_u16() {
            400 => Code::Internal,
            401 => Code::Unauthenticated,
            403 => Code::PermissionDenied,
            404 => Code::Unimplemented,
            429 | 502..=504 => Code::Unavailable,
            _ => Code::Unknown,
        };
        let mut status = Status::new(mapped, format!("the reply is not the driver's: {}", said()));
        mark(status.metadata_mut().as_mut(), BY_GATEWAY);
        return Some(status);
    }
    if !content.starts_with("application/grpc") {
        return Some(Status::internal(said()));
    }
    let encoding = text(&HeaderName::from_static("grpc-encoding"))?;
    (encoding != "identity").then(|| {
        Status::internal(format!(
            "it is encoded in {encoding:?}, which nobody asked for"
        ))
    })
}

/// Makes the words of a failed call readable for tonic, and marks them as the driver's.
fn mend(headers: &mut HeaderMap) {
    headers.remove(TELLER);
    if headers
        .get(Status::GRPC_STATUS)
        .is_none_or(|code| Code::from_bytes(code.as_bytes()) == Code::Ok)
    {
        return;
    }
    mark(headers, BY_DRIVER);
    if let Some(message) = headers.get(Status::GRPC_MESSAGE) {
        let message = percent_decode(message.as_bytes());
        if message.clone().decode_utf8().is_err() {
            let text = message.decode_utf8_lossy();
            let text = percent_encode(text.as_bytes(), NON_ALPHANUMERIC).to_string();
            let _ = headers.insert(
                Status::GRPC_MESSAGE,
                HeaderValue::try_from(text).expect("ASCII"),
            );
        }
    }
    let is_wrong = |details: &HeaderValue| BASE64.decode(details).is_err();
    if headers
        .get(Status::GRPC_STATUS_DETAILS)
        .is_some_and(is_wrong)
    {
        headers.remove(Status::GRPC_STATUS_DETAILS);
    }
}

fn mark(headers: &mut HeaderMap, teller: &'static str) {
    headers.insert(TELLER, HeaderValue::from_static(teller));
}

#[cfg(test)]
mod tests {
    use crate::answered::{Teller, Unreadable};
    use crate::endpoint::{ConnectOptions, Endpoint};
    use crate::session::Session;
    use csi_proto::v1::ProbeRequest;
    use http::{HeaderMap, Response, StatusCode};
    use tokio::net::UnixListener;
    use tonic::Code;

    /// A reply: its HTTP status, headers, bytes, and trailers where they do not come with the headers.
    struct Sent<'a>(
        u16,
        &'a [(&'static str, &'a [u8])],
        &'a [u8],
        &'a [(&'static str, &'a [u8])],
    );

    fn headers(pairs: &[(&'static str, &[u8])]) -> HeaderMap {
        let pairs = pairs.iter().map(|(name, value)| {
            (
                http::HeaderName::from_static(name),
                http::HeaderValue::from_bytes(value).expect("a value"),
            )
        });
        pairs.collect()
    }

    /// What a session makes of a reply: its code and message, and whether the driver said that.
    async fn read(sent: &Sent<'_>) -> String {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("s");
        let listener = UnixListener::bind(&path).expect("bound");
        let serve = async {
            let (stream, _) = listener.accept().await.expect("a client");
            let mut connection = h2::server::handshake(stream).await.expect("HTTP/2");
            while let Some(call) = connection.accept().await {
                let (_, mut reply) = call.expect("a call");
                let mut head = Response::new(());
                *head.status_mut() = StatusCode::from_u16(sent.0).expect("a status");
                *head.headers_mut() = headers(sent.1);
                let mut body = reply.send_response(head, false).expect("headers");
                body.send_data(sent.2.to_vec().into(), false)
                    .expect("bytes");
                body.send_trailers(headers(sent.3)).expect("trailers");
            }
        };
        let call = async {
            let endpoint = Endpoint::parse(&path.display().to_string()).expect("an endpoint");
            let session = Session::open(&endpoint, &ConnectOptions::default()).await;
            session.expect("connected").ask(&ProbeRequest {}).await
        };
        let answer = tokio::select! {
            () = serve => panic!("the client is gone"),
            answer = call => answer,
        };
        match answer {
            Ok(_) => "OK".to_owned(),
            Err(error) => {
                let told = error.status.metadata().get(super::TELLER.as_str());
                assert!(told.is_none(), "{:?}", error.status);
                match Unreadable::of(&error.status) {
                    Some(reason) => reason.to_string(),
                    None => {
                        let is_gateway = error.teller == Some(Teller::Gateway);
                        let says_so = error.status.message().contains("not the driver's");
                        assert_eq!(is_gateway, says_so, "{error:?}");
                        format!("{:?}: {}", error.status.code(), error.status.message())
                    }
                }
            }
        }
    }

    #[test]
    fn an_http_status_is_the_code_that_grpc_maps_it_to() {
        for (status, code) in [
            (302, Code::Unknown),
            (400, Code::Internal),
            (401, Code::Unauthenticated),
            (403, Code::PermissionDenied),
            (404, Code::Unimplemented),
            (429, Code::Unavailable),
            (500, Code::Unknown),
            (502, Code::Unavailable),
            (503, Code::Unavailable),
            (504, Code::Unavailable),
        ] {
            let status = StatusCode::from_u16(status).expect("a status");
            let problem = super::problem(status, &HeaderMap::new()).expect("a problem");
            assert_eq!(problem.code(), code, "{status}");
        }
    }

    #[tokio::test]
    async fn a_reply_is_the_drivers_or_cannot_be_read() {
        const GRPC: (&str, &[u8]) = ("content-type", b"application/grpc");
        const OK: &[(&str, &[u8])] = &[("grpc-status", b"0")];
        let absent: &[(&str, &[u8])] = &[("grpc-status", b"5"), ("grpc-message", b"a%20b%FFc")];
        let details: &[(&str, &[u8])] = &[
            ("grpc-status", b"5"),
            ("grpc-message", b"m"),
            ("grpc-status-details-bin", b"!!"),
        ];
        let timeout: &[(&str, &[u8])] =
            &[("grpc-status", b"1"), ("grpc-message", b"Timeout expired")];
        let (not_found, cancelled) = ("NotFound: a b\u{fffd}c", "Cancelled: Timeout expired");
        let invalid = "the reply is not valid: ";
        let told: (&str, &[u8]) = ("csi-told-by", b"driver");
        let length: (&str, &[u8]) = ("content-length", b"1");
        let too_long: &[u8] = &[0, 255, 255, 255, 255];
        let cases = [
            (Sent(200, &[GRPC], &[0; 5], OK), "OK"),
            (Sent(200, &[GRPC], &[], absent), not_found),
            (
                Sent(200, &[GRPC, absent[0], absent[1]], &[], &[]),
                not_found,
            ),
            (Sent(200, &[GRPC], &[], details), "NotFound: m"),
            (
                Sent(200, &[GRPC, details[0], details[1], details[2]], &[], &[]),
                "NotFound: m",
            ),
            (Sent(200, &[GRPC], &[], timeout), cancelled),
            (
                Sent(200, &[GRPC, ("grpc-encoding", b"gzip")], &[0; 5], OK),
                "the reply is not valid: it is encoded in \"gzip\", which nobody asked for",
            ),
            (
                Sent(404, &[("content-type", b"text/html")], b"<html>", OK),
                "Unimplemented: the reply is not the driver's: it is no gRPC, but HTTP status 404 Not Found with content-type \"text/html\"",
            ),
            (
                Sent(200, &[("content-type", b"text/html")], b"<html>", OK),
                "the reply is not valid: it is no gRPC, but HTTP status 200 OK with content-type \"text/html\"",
            ),
            (
                Sent(503, &[GRPC, absent[0], absent[1]], &[], &[]),
                not_found,
            ),
            (Sent(200, &[GRPC, told], too_long, OK), invalid),
            (
                Sent(503, &[], b"", OK),
                "Unavailable: the reply is not the driver's: it is no gRPC, but HTTP status 503 Service Unavailable with content-type \"\"",
            ),
            (Sent(200, &[GRPC], too_long, OK), invalid),
            (Sent(200, &[GRPC], &[7, 0, 0, 0, 0], OK), invalid),
            (Sent(200, &[GRPC], &[], OK), invalid),
            // HTTP/2 itself is wrong.
            (Sent(200, &[GRPC, length], &[0; 5], OK), invalid),
            (Sent(200, &[GRPC], &[0, 0, 0, 0, 1, 255], OK), invalid),
        ];
        for (sent, expected) in cases {
            let found = read(&sent).await;
            match expected.ends_with(": ") {
                true => assert!(found.starts_with(expected), "{found}"),
                false => assert_eq!(found, expected),
            }
        }
    }
}
