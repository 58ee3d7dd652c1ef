//! NodeUnpublishVolume.

use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("node/unpublish", "NodeUnpublishVolume");
    list.needs(&[NODE_SERVICE, CREATE_DELETE_VOLUME]);
    list.rule("NodeUnpublishVolume removes the target path");
    list.also(SEEN).changes("removes-the-target", |c| {
        let placed = c.published()?;
        c.ok(placed.unpublish())?;
        c.is_gone(&placed)
    });
    list.rule("NodeUnpublishVolume of a volume that is not published there answers OK");
    list.also(EACH_ACCESS).changes("is-idempotent", |c| {
        let placed = c.published()?;
        each(0..3, |_| c.ok(placed.unpublish()))?;
        c.ok(c.staged()?.unpublish())
    });
    list.error("NodeUnpublishVolume of a volume that does not exist answers OK or NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let placed = c.placed_and_deleted()?;
        c.demands_of("node/unpublish/is-idempotent", || {
            c.ok_or(placed.unpublish(), &[NotFound])
        })
    });
    list.rule(
        "NodeUnpublishVolume answers equal calls at the same time with OK, or some with ABORTED",
    );
    list.under("Concurrency").also(SEEN);
    list.changes("at-the-same-time", |c| {
        let placed = c.published()?;
        c.equal_calls(placed.unpublish(), 6)?;
        c.is_gone(&placed)
    });
    list.rule("NodePublishVolume and NodeUnpublishVolume of one path at the same time leave it published or not, and nothing between");
    list.under("Concurrency").also(SEEN);
    list.changes("while-published", |c| {
        each(0..3, |_| {
            let placed = c.staged()?;
            let (one, other) =
                c.at_once(|| c.send(placed.publish()), || c.send(placed.unpublish()))?;
            ok_or_aborted(one?)?;
            // It may have come first.
            c.demands_of("node/unpublish/is-idempotent", || ok_or_aborted(other?))?;
            c.ok(placed.publish())?;
            c.is_published(&placed)?;
            c.ok(placed.unpublish())?;
            c.is_gone(&placed)
        })
    });
}
