//! NodeStageVolume and NodeUnstageVolume.

use crate::tools::sanity::vocabulary::*;
use csi_proto::Request;
use csi_proto::v1::volume_capability::AccessMode;
use csi_proto::v1::volume_capability::access_mode::Mode;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("node/stage", "NodeStageVolume");
    list.needs(&[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME]);
    list.error_rule("NodeStageVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.placed_and_deleted()?;
        // A node that learns from the controller alone cannot tell; what it cannot find it must not stage.
        let codes = [NotFound, FailedPrecondition, InvalidArgument];
        c.refused(gone.stage(), &codes)
    });
    list.rule(
        "NodeStageVolume of a volume that is staged there already, in the same way, answers OK",
    );
    list.also(&[EACH_ACCESS]).changes("is-idempotent", |c| {
        let staged = c.staged()?;
        c.ok(staged.stage())?;
        c.ok(staged.stage())
    });
    list.error_rule(
        "NodeStageVolume of a staged volume with an incompatible capability answers ALREADY_EXISTS",
    );
    list.changes("with-another-capability", |c| {
        let staged = c.staged()?;
        keeps_its_capability(c, |capability| v1::NodeStageVolumeRequest {
            volume_capability: Some(capability),
            ..staged.stage()
        })
    });
    list.rule("NodeStageVolume answers equal calls at the same time with OK, or some with ABORTED");
    list.under("Concurrency").changes("at-the-same-time", |c| {
        let placed = c.placed()?;
        c.equal_calls(&placed.stage(), 6)?;
        c.ok_in_the_end(placed.stage())
    });
    list.about("node/unstage", "NodeUnstageVolume");
    list.needs(&[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME]);
    list.rule("NodeUnstageVolume of a volume that is not staged there answers OK");
    list.also(&[EACH_ACCESS]).changes("is-idempotent", |c| {
        let staged = c.staged()?;
        for _ in 0..3 {
            c.ok(staged.unstage())?;
        }
        let never = c.placed()?;
        c.ok(never.unstage())
    });
    list.error_rule("NodeUnstageVolume of a volume that does not exist answers OK or NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.placed_and_deleted()?;
        c.ok_or(gone.unstage(), &[NotFound])
    });
    list.rule(
        "NodeUnstageVolume answers equal calls at the same time with OK, or some with ABORTED",
    );
    list.under("Concurrency").changes("at-the-same-time", |c| {
        let staged = c.staged()?;
        c.equal_calls(&staged.unstage(), 6)?;
        c.ok_in_the_end(staged.unstage())
    });
    list.about("node/stage", "RPC Interactions");
    list.needs(&[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME, EACH_ACCESS]);
    list.rule("A volume can be staged and unstaged any number of times");
    list.changes("again-and-again", |c| {
        let placed = c.placed()?;
        for _ in 0..3 {
            c.ok(placed.stage())?;
            c.ok(placed.unstage())?;
        }
        Ok(())
    });
}

/// Demands that a volume which is staged or published cannot be so with another capability as well; `with` is the call.
pub fn keeps_its_capability<Q: Request>(
    c: &Context,
    with: impl Fn(v1::VolumeCapability) -> Q,
) -> Verdict {
    let codes = [AlreadyExists, FailedPrecondition, InvalidArgument];
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
