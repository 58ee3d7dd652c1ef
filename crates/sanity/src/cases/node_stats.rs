//! NodeGetVolumeStats.

use crate::vocabulary::*;
use csi_proto::v1::volume_usage::Unit;

pub fn cases(list: &mut Cases) {
    list.about("node/stats", "NodeGetVolumeStats");
    list.needs(&[GET_VOLUME_STATS, CREATE_DELETE_VOLUME]);
    list.error("NodeGetVolumeStats of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let placed = c.placed_and_deleted()?;
        c.demands_of("node/stats/at-another-path", || {
            c.refused(placed.stats(), &[NotFound])
        })
    });
    list.error("NodeGetVolumeStats of a volume at a path where it is not answers NOT_FOUND");
    list.changes("at-another-path", |c| {
        let mut request = c.published()?.stats();
        request.volume_path = c.target()?;
        c.refused(request.clone(), &[NotFound])?;
        // Nor is it where another one is.
        request.volume_path = c.published()?.target;
        c.refused(request, &[NotFound])
    });
    list.error(
        "NodeGetVolumeStats of a volume that was unpublished from the path answers NOT_FOUND",
    );
    list.changes("after-unpublishing", |c| {
        let placed = c.published()?;
        c.ok(placed.unpublish())?;
        c.demands_of("node/stats/at-another-path", || {
            c.refused(placed.stats(), &[NotFound])
        })
    });
    list.rule("NodeGetVolumeStats should answer with a usage in bytes, which has a total and is not negative");
    list.also(EACH_ACCESS).changes("are-of-the-volume", |c| {
        // That no number is negative and each has a unit are rules of the message.
        let usage = c.ok(c.published()?.stats())?.usage;
        if usage.iter().any(|one| one.unit() == Unit::Unknown) {
            return Ok(());
        }
        let Some(bytes) = usage.iter().find(|one| one.unit() == Unit::Bytes) else {
            // The field is optional; without it nobody sees a volume become full.
            let none = "there is none";
            c.should(c.access() == Access::Block, "a usage in bytes", none);
            return Ok(());
        };
        // More may be used, or available: a quota may be soft, or the size no limit.
        let expected = "the total is set, for the field is required";
        c.should(bytes.total != 0, expected, "it is 0");
        Ok(())
    });
    list.needs(&[GET_VOLUME_STATS, NODE_VOLUME_CONDITION]);
    list.rule("NodeGetVolumeStats of a plugin that advertises the node's VOLUME_CONDITION has a volume_condition");
    list.also(&[CREATE_DELETE_VOLUME]);
    list.changes("have-a-condition", |c| {
        let condition = c.ok(c.published()?.stats())?.volume_condition;
        ensure(condition.is_some(), "a volume_condition", "it has none")
    });
    list.needs(&[GET_VOLUME_STATS, CREATE_DELETE_VOLUME]);
    list.rule(
        "NodeGetVolumeStats answers calls at the same time, some of them perhaps with ABORTED",
    );
    list.under("Concurrency").changes("at-the-same-time", |c| {
        c.equal_calls(c.published()?.stats(), 8)
    });
}
