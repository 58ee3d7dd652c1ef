//! NodePublishVolume.

use super::node_stage::keeps_its_capability;
use crate::data::{is_device, is_mount, writable};
use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("node/publish", "NodePublishVolume");
    list.needs(&[NODE_SERVICE, CREATE_DELETE_VOLUME]);
    list.error("NodePublishVolume without the staging_target_path of a staged volume answers FAILED_PRECONDITION");
    list.also(&[STAGE_UNSTAGE_VOLUME]);
    list.changes("without-staging-path", |c| {
        let mut request = c.staged()?.publish();
        request.staging_target_path.clear();
        let status = c.refused(request, &[FailedPrecondition, InvalidArgument])?;
        let is_best = status.code() == FailedPrecondition;
        c.should(is_best, "FAILED_PRECONDITION", status_text(&status));
        Ok(())
    });
    list.rule("NodePublishVolume of a volume that was not staged is refused");
    list.also(&[STAGE_UNSTAGE_VOLUME]);
    list.changes("without-staging", |c| {
        c.should_fail(c.placed()?.publish(), "the call is refused")
    });
    list.error("NodePublishVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let codes = [NotFound, FailedPrecondition, InvalidArgument];
        c.refused(c.placed_and_deleted()?.publish(), &codes)
    });
    list.rule("NodePublishVolume of a volume that is published there already, in the same way, answers OK");
    list.also(EACH_ACCESS).changes("is-idempotent", |c| {
        let placed = c.published()?;
        each(0..2, |_| c.ok(placed.publish()))
    });
    list.rule(
        "NodePublishVolume makes the target path: a folder for mount, a file or device for block",
    );
    list.also(SEEN)
        .changes("makes-the-target", |c| c.is_published(&c.published()?));
    list.rule("NodePublishVolume takes a target path that stands there already as an empty folder");
    list.also(&[MOUNT, PATHS]);
    list.changes("takes-a-target-that-exists", |c| {
        let mounts = c.access() == Access::Mount;
        skip_unless(mounts, "a folder is no target of a block volume")?;
        let placed = c.staged()?;
        c.folder(std::path::Path::new(&placed.target))?;
        match c.send(placed.publish())? {
            Ok(_) => c.is_published(&placed)?,
            // The specification leaves making it to the plugin; callers of today make it themselves.
            Err(status) => c.should(false, "it answers OK", status_text(&status)),
        }
        Ok(())
    });
    list.rule("What is written into a published volume is there when it is published again, at the same path or another");
    list.also(SEEN).changes("keeps-data", |c| {
        let mut placed = c.published()?;
        c.put_data(&placed, "kept")?;
        c.ok(placed.unpublish())?;
        c.ok(placed.publish())?;
        c.holds(&placed, "kept")?;
        c.ok(placed.unpublish())?;
        if !placed.staging.is_empty() {
            c.ok(placed.unstage())?;
            c.ok(placed.stage())?;
        }
        placed.target = c.target()?;
        c.ok(placed.publish())?;
        c.holds(&placed, "kept")
    });
    list.rule("What is written into one volume is not in another");
    list.also(SEEN);
    list.changes("volumes-are-apart", |c| {
        let one = c.published()?;
        let other = c.published()?;
        c.put_data(&one, "in the first")?;
        c.put_data(&other, "in another.")?;
        c.holds(&one, "in the first")?;
        c.holds(&other, "in another.")
    });
    list.rule("A volume that is published with readonly cannot be written");
    list.also(SEEN).changes("readonly", |c| {
        let placed = c.staged()?;
        let mut request = placed.publish();
        request.readonly = true;
        c.ok(request.clone())?;
        c.ok(request)?;
        c.is_published(&placed)?;
        let mounted = is_mount(&placed.target)? || is_device(&placed.target)?;
        let reason = "the driver does not mount here: nothing could keep writers out";
        skip_unless(mounted, reason)?;
        let writes = c.accepts_writes(&placed)?;
        ensure(!writes, "a write is refused", "it succeeded")
    });
    list.error("NodePublishVolume at the path of a published volume with another readonly answers ALREADY_EXISTS");
    list.also(EACH_ACCESS)
        .changes("with-another-readonly", |c| {
            let placed = c.published()?;
            writable(&placed.volume.capability)?;
            let mut request = placed.publish();
            request.readonly = true;
            c.refused(request, &[AlreadyExists])
        });
    list.error("NodePublishVolume at the path of a published volume with an incompatible capability answers ALREADY_EXISTS");
    list.changes("with-another-capability", |c| {
        let placed = c.published()?;
        keeps_its_capability(c, |capability| v1::NodePublishVolumeRequest {
            volume_capability: Some(capability),
            ..placed.publish()
        })
    });
    list.rule("NodePublishVolume at a path where another volume is published should be refused, and that volume stays");
    list.also(SEEN);
    list.changes("of-another-volume-at-the-same-path", |c| {
        let first = c.published()?;
        c.put_data(&first, "the first")?;
        let mut second = c.staged()?;
        second.target.clone_from(&first.target);
        let answer = c.send(second.publish())?;
        // It is the caller who must keep the paths of volumes apart.
        c.should(answer.is_err(), "the call is refused", answer_text(&answer));
        if answer.is_err() {
            c.holds(&first, "the first")?;
        }
        Ok(())
    });
    list.rule("A volume for several uses on one node is published at two paths, and unpublished from each by itself");
    list.also(SEEN);
    list.changes("at-two-paths", |c| {
        let mode = Mode::MultiNodeMultiWriter;
        let (one, other) = published_and_another(c, mode)?;
        c.ok(other.publish())?;
        c.put_data(&one, "shared")?;
        c.holds(&other, "shared")?;
        c.ok(one.unpublish())?;
        c.is_gone(&one)?;
        c.is_published(&other)?;
        c.demands_of("node/publish/keeps-data", || c.holds(&other, "shared"))
    });
    list.rule("NodePublishVolume of a SINGLE_NODE_SINGLE_WRITER volume at a second path answers FAILED_PRECONDITION, as is recommended");
    list.also(&[NODE_SINGLE_NODE_MULTI_WRITER]);
    list.changes("for-a-single-writer-at-two-paths", |c| {
        // The capability stands for this mode or for SINGLE_NODE_MULTI_WRITER.
        let mode = Mode::SingleNodeSingleWriter;
        let (_, other) = published_and_another(c, mode)?;
        // The table of what it answers says SHOULD.
        let expected = "NodePublishVolume answers FAILED_PRECONDITION";
        c.should_answer(other.publish(), &[FailedPrecondition], expected)
    });
    list.rule("NodePublishVolume answers equal calls at the same time with OK, or some with ABORTED, and publishes once");
    list.under("Concurrency").also(SEEN);
    list.changes("at-the-same-time", |c| {
        let placed = c.staged()?;
        c.equal_calls(placed.publish(), 6)?;
        c.is_published(&placed)?;
        // One call takes down what there is, however many were made.
        c.ok(placed.unpublish())?;
        c.is_gone(&placed)
    });
    list.rule("Volumes are published at the same time without disturbing each other");
    list.under("Concurrency");
    list.changes("of-volumes-at-the-same-time", |c| {
        let all = [c.staged()?, c.staged()?, c.staged()?, c.staged()?];
        c.all_ok(all.iter().map(Placed::publish).collect())?;
        c.all_ok(all.iter().map(Placed::unpublish).collect())
    });
    list.rule("A NodePublishVolume that was given up can be repeated and undone");
    list.under("Error Scheme").also(EACH_ACCESS);
    list.changes("given-up", |c| {
        let placed = c.staged()?;
        each(SOON, |after| {
            c.given_up(placed.publish(), after)?;
            c.ok(placed.unpublish())
        })
    });
    list.rule("A block volume reads back what was written, from its beginning");
    list.also(&[BLOCK]).also(SEEN);
    list.changes("block-as-a-device", |c| {
        skip_unless(c.access() == Access::Block, "shown with block")?;
        let placed = c.published()?;
        c.is_published(&placed)?;
        c.put_data(&placed, "first block")?;
        c.holds(&placed, "first block")
    });
}

/// A new volume for this access mode, published, and another target path for it.
fn published_and_another(c: &Context, mode: Mode) -> Result<(Placed, Placed), Stop> {
    let one = c.publish(c.volume_for_mode(mode)?)?;
    let mut other = one.clone();
    other.target = c.target()?;
    Ok((one, other))
}
