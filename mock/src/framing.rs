//! Messages on the wire of gRPC: one in a request, any number in an answer.

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use std::convert::Infallible;
use tonic::body::Body;
use tonic::metadata::GRPC_CONTENT_TYPE;
use tonic::{Code, Status};

/// The bytes before a message: whether it is compressed, and its length.
const HEAD: usize = 5;

/// The one message of a request.
///
/// # Errors
/// When it breaks off, or is compressed.
pub async fn message_of(request: Request<Body>) -> Result<Bytes, Status> {
    let body = request.into_body().collect().await;
    let body = body.map_err(|_| Status::internal("the request broke off"))?;
    let mut body = body.to_bytes();
    match body.first() {
        Some(0) if body.len() >= HEAD => Ok(body.split_off(HEAD)),
        Some(0) | None => Err(Status::internal("the request broke off")),
        Some(_) => Err(Status::unimplemented(
            "compressed requests are not understood",
        )),
    }
}

/// An answer of these messages, which ends with that status.
pub fn answer_of(messages: Vec<Vec<u8>>, status: Status) -> Response<Body> {
    if messages.is_empty() && status.code() != Code::Ok {
        return status.into_http();
    }
    let mut trailers = HeaderMap::new();
    if status.add_header(&mut trailers).is_err() {
        return Status::internal("the status cannot be sent").into_http();
    }
    let messages = messages.into_iter().map(|message| {
        let mut frame = Vec::with_capacity(HEAD + message.len());
        frame.push(0);
        let length = u32::try_from(message.len()).unwrap_or(u32::MAX);
        frame.extend_from_slice(&length.to_be_bytes());
        frame.extend_from_slice(&message);
        http_body::Frame::data(Bytes::from(frame))
    });
    let frames = messages.chain([http_body::Frame::trailers(trailers)]);
    let body = Body::new(StreamBody::new(stream::iter(
        frames.map(Ok::<_, Infallible>),
    )));
    let mut response = Response::new(body);
    let kind = GRPC_CONTENT_TYPE;
    response
        .headers_mut()
        .insert(http::header::CONTENT_TYPE, kind);
    response
}
