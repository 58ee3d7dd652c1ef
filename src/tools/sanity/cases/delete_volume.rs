//! DeleteVolume.

use crate::tools::sanity::case::{Case, Stop, case};
use crate::tools::sanity::need::needs::{CREATE_DELETE_VOLUME, EACH_ACCESS};
use csi_proto::v1;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/delete-volume/of-an-unknown-id",
        "DeleteVolume of a volume that never existed answers OK",
        "DeleteVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            c.ok(c.delete_request(c.name()))?;
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/is-idempotent",
        "DeleteVolume of a volume that was deleted answers OK",
        "DeleteVolume",
        [CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let gone = c.deleted_volume()?;
            for _ in 0..2 {
                c.ok(c.delete_request(gone.id()))?;
            }
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/deletes",
        "A deleted volume does not exist any more",
        "DeleteVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_volume()?;
            c.refused(c.validate_request(&gone), &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/frees-the-name",
        "A volume can be created under the name of a deleted one, also with other arguments",
        "CreateVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_volume()?;
            let mut request = gone.request.clone();
            let size = 2 * c.settings().volume_size;
            request.capacity_range = Some(v1::CapacityRange {
                required_bytes: size,
                limit_bytes: 0,
            });
            c.volume_of(request)?;
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/late-repetition-spares-the-new-volume",
        "A repeated DeleteVolume of an old volume does not delete a new one of the same name that has another id",
        "DeleteVolume",
        [CREATE_DELETE_VOLUME],
        |c| {
            let gone = c.deleted_volume()?;
            let new = c.volume_of(gone.request.clone())?;
            if new.id() == gone.id() {
                return Err(Stop::Skipped(
                    "the driver gives the id out again".to_owned(),
                ));
            }
            c.ok(c.delete_request(gone.id()))?;
            c.ok(c.validate_request(&new))?;
        }
    ),
];
