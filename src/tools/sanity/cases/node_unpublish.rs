//! NodeUnpublishVolume.

use crate::tools::sanity::vocabulary::*;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("node/unpublish", "NodeUnpublishVolume");
    list.needs(&[NODE_SERVICE, CREATE_DELETE_VOLUME, EACH_ACCESS, PATHS]);
    list.rule("NodeUnpublishVolume removes the target path");
    list.changes("removes-the-target", |c| {
        let placed = c.published()?;
        c.ok(placed.unpublish())?;
        c.is_gone(&placed)
    });
    list.needs(&[NODE_SERVICE, CREATE_DELETE_VOLUME, EACH_ACCESS]);
    list.rule("NodeUnpublishVolume of a volume that is not published there answers OK");
    list.changes("is-idempotent", |c| {
        let placed = c.published()?;
        for _ in 0..3 {
            c.ok(placed.unpublish())?;
        }
        let never = c.staged()?;
        c.ok(never.unpublish())
    });
    list.needs(&[NODE_SERVICE, CREATE_DELETE_VOLUME]);
    list.error_rule("NodeUnpublishVolume of a volume that does not exist answers OK or NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.placed_and_deleted()?;
        c.ok_or(gone.unpublish(), &[NotFound])
    });
    list.rule(
        "NodeUnpublishVolume answers equal calls at the same time with OK, or some with ABORTED",
    );
    list.under("Concurrency")
        .also(&[EACH_ACCESS, PATHS])
        .changes("at-the-same-time", |c| {
            let placed = c.published()?;
            c.equal_calls(&placed.unpublish(), 6)?;
            c.ok_in_the_end(placed.unpublish())?;
            c.is_gone(&placed)
        });
    list.rule("NodePublishVolume and NodeUnpublishVolume of one path at the same time leave it published or not, and nothing between");
    list.under("Concurrency")
        .also(&[EACH_ACCESS, PATHS])
        .changes("while-published", |c| {
            for _ in 0..3 {
                let placed = c.staged()?;
                let (one, other) =
                    c.at_once(|| c.send(placed.publish()), || c.send(placed.unpublish()))?;
                ok_or_aborted(one?)?;
                ok_or_aborted(other?)?;
                c.ok_in_the_end(placed.publish())?;
                c.is_published(&placed)?;
                c.ok_in_the_end(placed.unpublish())?;
                c.is_gone(&placed)?;
            }
            Ok(())
        });
}
