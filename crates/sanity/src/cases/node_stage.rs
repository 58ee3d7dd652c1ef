//! NodeStageVolume and NodeUnstageVolume.

use crate::vocabulary::*;
use csi_proto::Request;

pub fn cases(list: &mut Cases) {
    list.about("node/stage", "NodeStageVolume");
    list.needs(&[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME]);
    list.error("NodeStageVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        // A node that learns from the controller alone cannot tell; what it cannot find it must not stage.
        let codes = [NotFound, FailedPrecondition, InvalidArgument];
        c.refused(c.placed_and_deleted()?.stage(), &codes)
    });
    list.rule(
        "NodeStageVolume of a volume that is staged there already, in the same way, answers OK",
    );
    list.also(EACH_ACCESS).changes("is-idempotent", |c| {
        let staged = c.staged()?;
        each(0..2, |_| c.ok(staged.stage()))
    });
    list.error(
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
        c.equal_calls(c.placed()?.stage(), 6)
    });
    list.about("node/unstage", "NodeUnstageVolume");
    list.needs(&[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME]);
    list.rule("NodeUnstageVolume of a volume that is not staged there answers OK");
    list.also(EACH_ACCESS).changes("is-idempotent", |c| {
        let staged = c.staged()?;
        each(0..3, |_| c.ok(staged.unstage()))?;
        c.ok(c.placed()?.unstage())
    });
    list.error("NodeUnstageVolume of a volume that does not exist answers OK or NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let placed = c.placed_and_deleted()?;
        c.demands_of("node/unstage/is-idempotent", || {
            c.ok_or(placed.unstage(), &[NotFound])
        })
    });
    list.rule(
        "NodeUnstageVolume answers equal calls at the same time with OK, or some with ABORTED",
    );
    list.under("Concurrency").changes("at-the-same-time", |c| {
        c.equal_calls(c.staged()?.unstage(), 6)
    });
    list.about("node/stage", "RPC Interactions");
    list.needs(&[STAGE_UNSTAGE_VOLUME, CREATE_DELETE_VOLUME]);
    list.rule("A volume can be staged and unstaged any number of times");
    list.also(EACH_ACCESS).changes("again-and-again", |c| {
        let placed = c.placed()?;
        each(0..3, |_| {
            c.ok(placed.stage())?;
            c.ok(placed.unstage())
        })
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
    let mode = Mode::MultiNodeReaderOnly.into();
    let before = capability.access_mode.replace(AccessMode { mode });
    match before == capability.access_mode {
        true => Ok(()),
        false => c.should_fail(with(capability), "another access mode is ALREADY_EXISTS"),
    }
}
