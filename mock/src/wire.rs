//! The gate before the services: what happens to a call before it is decoded and after it was answered. Owns faults on
//! purpose, what a driver of an older specification does not have, and that no change is answered before it is kept.

use crate::Defect;
use crate::age;
use crate::core::Core;
use crate::serving::{Answers, Running};
use csi_proto::faults::PlannedEnd;
use csi_proto::methods;
use csi_proto::wire;
use http::{Request, Response};
use http_body_util::{BodyExt as _, Full};
use std::future::pending;
use tonic::body::Body;
use tonic::service::Routes;
use tonic::{Code, Status};
use tower::Service as _;

/// The bytes before a message: a flag and its length.
const FRAME_HEAD: usize = 5;

/// Lets calls through to the services.
#[derive(Clone)]
pub struct Gate {
    core: Core,
    routes: Routes,
}

impl Gate {
    pub(crate) fn new(core: Core, routes: Routes) -> Self {
        Self { core, routes }
    }

    /// The answer of the services, once what they have changed is kept.
    async fn carried_out(&self, request: Request<Body>) -> Response<Body> {
        let mut routes = self.routes.clone();
        let Ok(answer) = routes.call(request).await;
        match self.core.storage().save() {
            Ok(()) => answer,
            Err(error) => {
                let message = format!("what this call has changed cannot be kept: {error}");
                Status::internal(message).into_http()
            }
        }
    }
}

impl Answers for Gate {
    async fn answer(&self, request: Request<Body>, running: Running) -> Response<Body> {
        self.core.look_at_settings();
        let path = request.uri().path();
        let method = methods::by_path(path);
        if !age::has_rpc(self.core.options().specification, path) {
            // As the library answers, without a word of the driver.
            return Status::unimplemented("").into_http();
        }
        let plan = self.core.faults().plan(path, method);
        if let Some(delay) = plan.delay {
            tokio::time::sleep(delay).await;
        }
        let swallow = match plan.end {
            Some(PlannedEnd::Fail(code)) => {
                return Status::new(Code::from(code), "failed on purpose by the mock").into_http();
            }
            Some(PlannedEnd::Drop) => {
                drop(running);
                return pending().await;
            }
            end => end == Some(PlannedEnd::DropReply),
        };
        let request = match self.core.has(Defect::UnknownFieldsRejected) {
            true => match without_unknown_fields(request).await {
                Ok(request) => request,
                Err(status) => return status.into_http(),
            },
            false => request,
        };
        let answer = self.carried_out(request).await;
        if swallow {
            drop(running);
            return pending().await;
        }
        answer
    }
}

/// The request, if it has no field that this specification does not know.
async fn without_unknown_fields(request: Request<Body>) -> Result<Request<Body>, Status> {
    let (head, body) = request.into_parts();
    let body = body.collect().await;
    let body = body.map_err(|_| Status::internal("the request broke off"))?;
    let body = body.to_bytes();
    let fields = methods::by_path(head.uri.path()).map(|method| method.request.fields);
    let is_known =
        |number: u32| fields.is_none_or(|fields| fields.iter().any(|field| field.number == number));
    let message = body.get(FRAME_HEAD..).unwrap_or_default();
    let known = wire::fields(message).all(|field| field.is_ok_and(|(number, _)| is_known(number)));
    match known {
        true => Ok(Request::from_parts(head, Body::new(Full::new(body)))),
        false => Err(Status::invalid_argument("unknown field")),
    }
}
