//! ControllerModifyVolume.

use super::create_volume::keeps_the_name;
use crate::tools::sanity::case::{Case, case, same_id};
use crate::tools::sanity::context::Context;
use crate::tools::sanity::need::needs::{CREATE_DELETE_VOLUME, MODIFY_VOLUME, MUTABLE_PARAMETERS};
use csi_proto::v1;
use std::collections::BTreeMap;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/modify/of-a-deleted-volume",
        "ControllerModifyVolume of a volume that does not exist answers NOT_FOUND",
        "ControllerModifyVolume Errors",
        [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE_PARAMETERS],
        |c| {
            let gone = c.deleted_volume()?;
            let request = modify(c, &gone.id(), mutable(c));
            c.refused(request, &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/modify/with-an-unknown-parameter",
        "ControllerModifyVolume with a parameter that the plugin does not know answers INVALID_ARGUMENT",
        "ControllerModifyVolume Errors",
        [MODIFY_VOLUME, CREATE_DELETE_VOLUME],
        |c| {
            let volume = c.volume()?;
            let unknown = [("csi-sanity-no-such-parameter".to_owned(), "1".to_owned())];
            let request = modify(c, &volume.id(), unknown.into());
            c.refused(request, &[Code::InvalidArgument])?;
        }
    ),
    case!(
        Changes,
        "controller/modify/is-idempotent",
        "ControllerModifyVolume answers OK, and OK again with the same parameters",
        "ControllerModifyVolume",
        [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE_PARAMETERS],
        |c| {
            let volume = c.volume()?;
            let request = modify(c, &volume.id(), mutable(c));
            c.ok(request.clone())?;
            c.ok(request)?;
        }
    ),
    case!(
        Changes,
        "controller/modify/when-created",
        "CreateVolume takes the mutable parameters, and answers with the same volume again",
        "CreateVolume",
        [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE_PARAMETERS],
        |c| {
            let mut request = c.create_request()?;
            request.mutable_parameters = mutable(c);
            let volume = c.volume_of(request.clone())?;
            let again = c.ok(request)?.volume.unwrap_or_default();
            same_id("volume", &volume.id(), &again.volume_id)?;
        }
    ),
    case!(
        Changes,
        "controller/modify/keeps-the-name",
        "After a modification the CreateVolume that made the volume does not make another one",
        "CreateVolume",
        [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE_PARAMETERS],
        |c| {
            let volume = c.volume()?;
            c.ok(modify(c, &volume.id(), mutable(c)))?;
            keeps_the_name(c, &volume)?;
        }
    ),
    case!(
        Changes,
        "controller/modify/at-the-same-time",
        "ControllerModifyVolume answers equal calls at the same time with OK, or some with ABORTED",
        "Concurrency",
        [MODIFY_VOLUME, CREATE_DELETE_VOLUME, MUTABLE_PARAMETERS],
        |c| {
            let volume = c.volume()?;
            let request = modify(c, &volume.id(), mutable(c));
            c.equal_calls(&request, 6)?;
            c.ok_in_the_end(request)?;
        }
    ),
];

/// ControllerModifyVolume.
pub fn modify(
    c: &Context,
    id: &str,
    parameters: BTreeMap<String, String>,
) -> v1::ControllerModifyVolumeRequest {
    v1::ControllerModifyVolumeRequest {
        volume_id: id.to_owned(),
        secrets: c.secrets(),
        mutable_parameters: parameters,
    }
}

/// The mutable parameters of the settings, or one that no driver knows.
pub fn mutable(c: &Context) -> BTreeMap<String, String> {
    let given = c.settings().mutable_parameters.clone();
    match given.is_empty() {
        false => given,
        true => [("csi-sanity".to_owned(), "1".to_owned())].into(),
    }
}
