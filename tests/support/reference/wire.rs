//! What happens to a request before it is decoded: nothing, but in a driver that refuses fields which it does not know, and
//! in one of an older specification.

use super::Defect;
use super::age;
use super::core::Core;
use csi_proto::methods;
use csi_proto::wire;
use http_body_util::{BodyExt as _, Full};
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use tonic::Status;
use tonic::body::Body;
use tower::Service;

/// The bytes before a message: a flag and its length.
const FRAME_HEAD: usize = 5;

#[derive(Clone, Copy)]
pub(super) struct Layer {
    strict: bool,
    specification: u32,
}

impl Layer {
    pub(super) fn new(core: &Core) -> Self {
        Self {
            strict: core.has(Defect::UnknownFieldsRejected),
            specification: core.options().specification,
        }
    }
}

impl<S> tower::Layer<S> for Layer {
    type Service = Gate<S>;

    fn layer(&self, inner: S) -> Gate<S> {
        Gate { inner, is: *self }
    }
}

#[derive(Clone)]
pub(super) struct Gate<S> {
    inner: S,
    is: Layer,
}

type Answer<E> = Pin<Box<dyn Future<Output = Result<http::Response<Body>, E>> + Send>>;

impl<S> Service<http::Request<Body>> for Gate<S>
where
    S: Service<http::Request<Body>, Response = http::Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
{
    type Response = http::Response<Body>;
    type Error = S::Error;
    type Future = Answer<S::Error>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        // The service that was found ready answers; its clone waits for the next call.
        let next = self.inner.clone();
        let mut inner = std::mem::replace(&mut self.inner, next);
        if !age::has_rpc(self.is.specification, request.uri().path()) {
            // As the library answers, without a word of the driver.
            return Box::pin(async { Ok(Status::unimplemented("").into_http()) });
        }
        if !self.is.strict {
            return Box::pin(inner.call(request));
        }
        Box::pin(async move {
            let (head, body) = request.into_parts();
            let Ok(body) = body.collect().await else {
                return Ok(Status::internal("the request broke off").into_http());
            };
            let body = body.to_bytes();
            let fields = methods::by_path(head.uri.path()).map(|method| method.request.fields);
            let is_known = |number: u32| {
                fields.is_none_or(|fields| fields.iter().any(|field| field.number == number))
            };
            let message = body.get(FRAME_HEAD..).unwrap_or_default();
            let known =
                wire::fields(message).all(|field| field.is_ok_and(|(number, _)| is_known(number)));
            if !known {
                return Ok(Status::invalid_argument("unknown field").into_http());
            }
            let body = Body::new(Full::new(body));
            inner.call(http::Request::from_parts(head, body)).await
        })
    }
}
