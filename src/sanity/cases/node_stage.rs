//! NodeStageVolume and NodeUnstageVolume.

use crate::sanity::case::needs::{CREATE_DELETE_VOLUME, EACH_ACCESS, STAGE_UNSTAGE_VOLUME};
use crate::sanity::case::{Case, Need, Stop, case, ensure};
use crate::sanity::context::{Context, told};
use crate::sanity::fixtures::Placed;
use crate::sanity::settings::Access;
use csi_proto::v1;
use tonic::Code;

const STAGE: &[Need] = &[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME];

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "node/stage/without-id",
        "NodeStageVolume without a volume_id answers INVALID_ARGUMENT",
        "NodeStageVolume",
        STAGE,
        |c| {
            let mut request = c.placed()?.stage();
            request.volume_id.clear();
            c.refused(request, &[Code::InvalidArgument])?;
        }
    ),
    case!(
        Changes,
        "node/stage/without-path",
        "NodeStageVolume without a staging_target_path answers INVALID_ARGUMENT",
        "NodeStageVolume",
        STAGE,
        |c| {
            let mut request = c.placed()?.stage();
            request.staging_target_path.clear();
            c.refused(request, &[Code::InvalidArgument])?;
        }
    ),
    case!(
        Changes,
        "node/stage/without-capability",
        "NodeStageVolume without a volume_capability answers INVALID_ARGUMENT",
        "NodeStageVolume",
        STAGE,
        |c| {
            let mut request = c.placed()?.stage();
            request.volume_capability = None;
            c.refused(request, &[Code::InvalidArgument])?;
        }
    ),
    case!(
        Changes,
        "node/stage/of-a-deleted-volume",
        "NodeStageVolume of a volume that does not exist answers NOT_FOUND",
        "NodeStageVolume Errors",
        STAGE,
        |c| {
            let gone = unattached(c)?;
            // A node that learns from the controller alone cannot tell; what it cannot find it must not stage.
            let codes = [
                Code::NotFound,
                Code::FailedPrecondition,
                Code::InvalidArgument,
            ];
            c.refused(gone.stage(), &codes)?;
        }
    ),
    case!(
        Changes,
        "node/stage/is-idempotent",
        "NodeStageVolume of a volume that is staged there already, in the same way, answers OK",
        "NodeStageVolume",
        [STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let staged = c.staged()?;
            c.ok(staged.stage())?;
            c.ok(staged.stage())?;
        }
    ),
    case!(
        Changes,
        "node/stage/with-another-capability",
        "NodeStageVolume of a staged volume with an incompatible capability answers ALREADY_EXISTS",
        "NodeStageVolume Errors",
        STAGE,
        |c| {
            let staged = c.staged()?;
            let mut request = staged.stage();
            let other = match c.access() {
                Access::Mount => Access::Block,
                Access::Block => Access::Mount,
            };
            request.volume_capability = Some(c.capability_of(other)?);
            let codes = [
                Code::AlreadyExists,
                Code::FailedPrecondition,
                Code::InvalidArgument,
            ];
            c.refused(request, &codes)?;
            let mut request = staged.stage();
            let capability = request.volume_capability.get_or_insert_default();
            let mode = v1::volume_capability::access_mode::Mode::MultiNodeReaderOnly;
            let mode = v1::volume_capability::AccessMode { mode: mode.into() };
            if capability.access_mode.replace(mode) != Some(mode) {
                let answer = c.send(request)?;
                let told = answer
                    .as_ref()
                    .err()
                    .map_or("it answered OK".to_owned(), told);
                c.should(
                    answer.is_err(),
                    "another access mode is ALREADY_EXISTS",
                    told,
                );
            }
        }
    ),
    case!(
        Changes,
        "node/stage/at-the-same-time",
        "NodeStageVolume answers equal calls at the same time with OK, or some with ABORTED",
        "Concurrency",
        STAGE,
        |c| {
            let placed = c.placed()?;
            for answer in c.together(vec![placed.stage(); 6])? {
                if let Err(status) = answer {
                    ensure(
                        status.code() == Code::Aborted,
                        "OK or ABORTED",
                        told(&status),
                    )?;
                }
            }
            c.ok_in_the_end(placed.stage())?;
        }
    ),
    case!(
        Changes,
        "node/unstage/without-id",
        "NodeUnstageVolume without a volume_id answers INVALID_ARGUMENT",
        "NodeUnstageVolume",
        [STAGE_UNSTAGE_VOLUME],
        |c| {
            let request = v1::NodeUnstageVolumeRequest {
                staging_target_path: c.staging()?,
                ..Default::default()
            };
            c.refused(request, &[Code::InvalidArgument])?;
        }
    ),
    case!(
        Changes,
        "node/unstage/without-path",
        "NodeUnstageVolume without a staging_target_path answers INVALID_ARGUMENT",
        "NodeUnstageVolume",
        STAGE,
        |c| {
            let mut request = c.placed()?.unstage();
            request.staging_target_path.clear();
            c.refused(request, &[Code::InvalidArgument])?;
        }
    ),
    case!(
        Changes,
        "node/unstage/is-idempotent",
        "NodeUnstageVolume of a volume that is not staged there answers OK",
        "NodeUnstageVolume",
        [STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let staged = c.staged()?;
            for _ in 0..3 {
                c.ok(staged.unstage())?;
            }
            let never = c.placed()?;
            c.ok(never.unstage())?;
        }
    ),
    case!(
        Changes,
        "node/unstage/of-a-deleted-volume",
        "NodeUnstageVolume of a volume that does not exist answers OK or NOT_FOUND",
        "NodeUnstageVolume Errors",
        STAGE,
        |c| {
            let gone = unattached(c)?;
            if let Err(status) = c.send(gone.unstage())? {
                ensure(
                    status.code() == Code::NotFound,
                    "OK or NOT_FOUND",
                    told(&status),
                )?;
            }
        }
    ),
    case!(
        Changes,
        "node/unstage/at-the-same-time",
        "NodeUnstageVolume answers equal calls at the same time with OK, or some with ABORTED",
        "Concurrency",
        STAGE,
        |c| {
            let staged = c.staged()?;
            for answer in c.together(vec![staged.unstage(); 6])? {
                if let Err(status) = answer {
                    ensure(
                        status.code() == Code::Aborted,
                        "OK or ABORTED",
                        told(&status),
                    )?;
                }
            }
            c.ok_in_the_end(staged.unstage())?;
        }
    ),
    case!(
        Changes,
        "node/stage/again-and-again",
        "A volume can be staged and unstaged any number of times",
        "RPC Interactions",
        [STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            let placed = c.placed()?;
            for _ in 0..3 {
                c.ok(placed.stage())?;
                c.ok(placed.unstage())?;
            }
        }
    ),
];

/// A volume that is deleted, with paths for it.
pub fn unattached(c: &Context) -> Result<Placed, Stop> {
    let placed = c.placed()?;
    if c.has(crate::sanity::case::needs::PUBLISH_UNPUBLISH_VOLUME) {
        c.ok(c.detach_request(&placed.volume))?;
    }
    c.ok(c.delete_request(placed.id()))?;
    Ok(placed)
}
