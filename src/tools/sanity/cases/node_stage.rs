//! NodeStageVolume and NodeUnstageVolume.

use crate::tools::sanity::answers::answer_text;
use crate::tools::sanity::case::{Case, Need, Verdict, case};
use crate::tools::sanity::context::Context;
use crate::tools::sanity::need::needs::{CREATE_DELETE_VOLUME, EACH_ACCESS, STAGE_UNSTAGE_VOLUME};
use csi_proto::Request;
use csi_proto::v1;
use csi_proto::v1::volume_capability::AccessMode;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Code;

const STAGE: &[Need] = &[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME];
const EACH: &[Need] = &[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME, EACH_ACCESS];

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "node/stage/of-a-deleted-volume",
        "NodeStageVolume of a volume that does not exist answers NOT_FOUND",
        "NodeStageVolume Errors",
        STAGE,
        |c| {
            let gone = c.placed_and_deleted()?;
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
        EACH,
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
            keeps_its_capability(c, |capability| v1::NodeStageVolumeRequest {
                volume_capability: Some(capability),
                ..staged.stage()
            })?;
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
            c.equal_calls(&placed.stage(), 6)?;
            c.ok_in_the_end(placed.stage())?;
        }
    ),
    case!(
        Changes,
        "node/unstage/is-idempotent",
        "NodeUnstageVolume of a volume that is not staged there answers OK",
        "NodeUnstageVolume",
        EACH,
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
            let gone = c.placed_and_deleted()?;
            c.ok_or(gone.unstage(), &[Code::NotFound])?;
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
            c.equal_calls(&staged.unstage(), 6)?;
            c.ok_in_the_end(staged.unstage())?;
        }
    ),
    case!(
        Changes,
        "node/stage/again-and-again",
        "A volume can be staged and unstaged any number of times",
        "RPC Interactions",
        EACH,
        |c| {
            let placed = c.placed()?;
            for _ in 0..3 {
                c.ok(placed.stage())?;
                c.ok(placed.unstage())?;
            }
        }
    ),
];

/// Demands that a volume which is staged or published cannot be so with another capability as well; `with` is the call.
pub fn keeps_its_capability<Q: Request>(
    c: &Context,
    with: impl Fn(v1::VolumeCapability) -> Q,
) -> Verdict {
    let codes = [
        Code::AlreadyExists,
        Code::FailedPrecondition,
        Code::InvalidArgument,
    ];
    c.refused(with(c.capability_of(c.access().other())?), &codes)?;
    let mut capability = c.capability()?;
    let mode = AccessMode {
        mode: Mode::MultiNodeReaderOnly.into(),
    };
    if capability.access_mode.replace(mode) != Some(mode) {
        let answer = c.send(with(capability))?;
        let expected = "another access mode is ALREADY_EXISTS";
        c.should(answer.is_err(), expected, answer_text(&answer));
    }
    Ok(())
}
