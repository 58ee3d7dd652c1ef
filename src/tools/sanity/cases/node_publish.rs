//! NodePublishVolume.

use super::node_stage::keeps_its_capability;
use crate::tools::sanity::data::{is_device, is_mount};
use crate::tools::sanity::vocabulary::*;
use csi_proto::v1::volume_capability::AccessMode;
use csi_proto::v1::volume_capability::access_mode::Mode;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("node/publish", "NodePublishVolume");
    list.needs(&[NODE_SERVICE, CREATE_DELETE_VOLUME]);
    list.error_rule("NodePublishVolume without the staging_target_path of a staged volume answers FAILED_PRECONDITION");
    list.also(&[STAGE_UNSTAGE_VOLUME])
        .changes("without-staging-path", |c| {
            let mut request = c.staged()?.publish();
            request.staging_target_path.clear();
            let codes = [FailedPrecondition, InvalidArgument];
            let status = c.refused(request, &codes)?;
            let actual = status_text(&status);
            c.should(
                status.code() == FailedPrecondition,
                "FAILED_PRECONDITION",
                actual,
            );
            Ok(())
        });
    list.rule("NodePublishVolume of a volume that was not staged is refused");
    list.also(&[STAGE_UNSTAGE_VOLUME])
        .changes("without-staging", |c| {
            let answer = c.send(c.placed()?.publish())?;
            c.should(answer.is_err(), "the call is refused", answer_text(&answer));
            Ok(())
        });
    list.error_rule("NodePublishVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.placed_and_deleted()?;
        let codes = [NotFound, FailedPrecondition, InvalidArgument];
        c.refused(gone.publish(), &codes)
    });
    list.rule("NodePublishVolume of a volume that is published there already, in the same way, answers OK");
    list.also(&[EACH_ACCESS]).changes("is-idempotent", |c| {
        let placed = c.published()?;
        c.ok(placed.publish())?;
        c.ok(placed.publish())
    });
    list.rule(
        "NodePublishVolume makes the target path: a folder for mount, a file or device for block",
    );
    list.also(&[EACH_ACCESS, PATHS])
        .changes("makes-the-target", |c| {
            let placed = c.published()?;
            c.is_published(&placed)
        });
    list.rule("NodePublishVolume takes a target path that stands there already as an empty folder");
    list.also(&[MOUNT, PATHS])
        .changes("takes-a-target-that-exists", |c| {
            if c.access() != Access::Mount {
                return Err(Stop::Skipped(
                    "a folder is no target of a block volume".to_owned(),
                ));
            }
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
    list.also(&[EACH_ACCESS, PATHS]).changes("keeps-data", |c| {
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
    list.also(&[EACH_ACCESS, PATHS])
        .changes("volumes-are-apart", |c| {
            let one = c.published()?;
            let other = c.published()?;
            c.put_data(&one, "in the first")?;
            c.put_data(&other, "in another.")?;
            c.holds(&one, "in the first")?;
            c.holds(&other, "in another.")
        });
    list.rule("A volume that is published with readonly cannot be written");
    list.also(&[EACH_ACCESS, PATHS]).changes("readonly", |c| {
        let placed = c.staged()?;
        let mut request = placed.publish();
        request.readonly = true;
        c.ok(request.clone())?;
        c.ok(request)?;
        if !is_mount(&placed.target)? && !is_device(&placed.target)? {
            return Err(Stop::Skipped(
                "the driver does not mount here: nothing could keep writers out".to_owned(),
            ));
        }
        let writes = c.accepts_writes(&placed)?;
        ensure(!writes, "a write is refused", "it succeeded")
    });
    list.error_rule("NodePublishVolume at the path of a published volume with another readonly answers ALREADY_EXISTS");
    list.changes("with-another-readonly", |c| {
        let placed = c.published()?;
        let mut request = placed.publish();
        request.readonly = true;
        c.refused(request, &[AlreadyExists])
    });
    list.error_rule("NodePublishVolume at the path of a published volume with an incompatible capability answers ALREADY_EXISTS");
    list.changes("with-another-capability", |c| {
        let placed = c.published()?;
        keeps_its_capability(c, |capability| v1::NodePublishVolumeRequest {
            volume_capability: Some(capability),
            ..placed.publish()
        })
    });
    list.rule("NodePublishVolume at a path where another volume is published should be refused, and that volume stays");
    list.also(&[EACH_ACCESS, PATHS])
        .changes("of-another-volume-at-the-same-path", |c| {
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
    list.also(&[EACH_ACCESS, PATHS])
        .changes("at-two-paths", |c| {
            let mut request = c.create_request()?;
            let mut usual = c.capability()?;
            usual.access_mode = Some(AccessMode {
                mode: Mode::MultiNodeMultiWriter.into(),
            });
            request.volume_capabilities = vec![usual];
            if c.ok_or(request.clone(), &[InvalidArgument])?.is_none() {
                return Err(Stop::Skipped(
                    "the driver has no volumes for MULTI_NODE_MULTI_WRITER".to_owned(),
                ));
            }
            let one = c.publish(c.volume_of(request)?)?;
            let mut other = one.clone();
            other.target = c.target()?;
            c.ok(other.publish())?;
            c.put_data(&one, "shared")?;
            c.holds(&other, "shared")?;
            c.ok(one.unpublish())?;
            c.is_gone(&one)?;
            c.is_published(&other)?;
            c.holds(&other, "shared")
        });
    list.rule("NodePublishVolume of a SINGLE_NODE_SINGLE_WRITER volume at a second path answers FAILED_PRECONDITION");
    list.also(&[NODE_SINGLE_NODE_MULTI_WRITER])
        .changes("for-a-single-writer-at-two-paths", |c| {
            let mut request = c.create_request()?;
            for capability in &mut request.volume_capabilities {
                capability.access_mode = Some(AccessMode {
                    mode: Mode::SingleNodeSingleWriter.into(),
                });
            }
            // The capability stands for this mode or for SINGLE_NODE_MULTI_WRITER.
            if c.ok_or(request.clone(), &[InvalidArgument])?.is_none() {
                return Err(Stop::Skipped(
                    "the driver has no volumes for SINGLE_NODE_SINGLE_WRITER".to_owned(),
                ));
            }
            let one = c.publish(c.volume_of(request)?)?;
            let mut other = one.clone();
            other.target = c.target()?;
            c.refused(other.publish(), &[FailedPrecondition])
        });
    list.rule("NodePublishVolume answers equal calls at the same time with OK, or some with ABORTED, and publishes once");
    list.under("Concurrency")
        .also(&[EACH_ACCESS, PATHS])
        .changes("at-the-same-time", |c| {
            let placed = c.staged()?;
            c.equal_calls(&placed.publish(), 6)?;
            c.ok_in_the_end(placed.publish())?;
            c.is_published(&placed)?;
            // One call takes down what there is, however many were made.
            c.ok(placed.unpublish())?;
            c.is_gone(&placed)
        });
    list.rule("Volumes are published at the same time without disturbing each other");
    list.under("Concurrency")
        .changes("of-volumes-at-the-same-time", |c| {
            let mut all = Vec::new();
            for _ in 0..4 {
                all.push(c.staged()?);
            }
            let publishes = all.iter().map(|placed| placed.publish()).collect();
            c.all_ok(publishes)?;
            let unpublishes = all.iter().map(|placed| placed.unpublish()).collect();
            c.all_ok(unpublishes)
        });
    list.rule("A NodePublishVolume that was given up can be repeated and undone");
    list.under("Error Scheme")
        .also(&[EACH_ACCESS])
        .changes("given-up", |c| {
            let placed = c.staged()?;
            for after in SOON {
                c.cancelled(placed.publish(), after)?;
                c.ok_in_the_end(placed.publish())?;
                c.ok_in_the_end(placed.unpublish())?;
            }
            Ok(())
        });
    list.rule("A block volume reads back what was written, from its beginning");
    list.also(&[BLOCK, EACH_ACCESS, PATHS])
        .changes("block-as-a-device", |c| {
            if c.access() != Access::Block {
                return Err(Stop::Skipped("shown with block".to_owned()));
            }
            let placed = c.published()?;
            c.is_published(&placed)?;
            c.put_data(&placed, "first block")?;
            c.holds(&placed, "first block")
        });
}
