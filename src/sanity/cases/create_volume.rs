//! CreateVolume.

use crate::sanity::case::needs::{CREATE_DELETE_VOLUME, EACH_ACCESS};
use crate::sanity::case::{Case, case, ensure};
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/create-volume/without-name",
        "CreateVolume without a name answers INVALID_ARGUMENT",
        "CreateVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let mut request = c.create_request()?;
            request.name.clear();
            c.refused(request, &[Code::InvalidArgument]).await?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/is-idempotent",
        "CreateVolume with the name and arguments of a volume that exists answers with that volume",
        "CreateVolume",
        [CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let volume = c.volume().await?;
            let again = c
                .ok(volume.request.clone())
                .await?
                .volume
                .unwrap_or_default();
            ensure(
                again.volume_id == volume.id(),
                &volume.id(),
                again.volume_id,
            )?;
        }
    ),
];
