//! NodeGetVolumeStats.

use crate::tools::sanity::vocabulary::*;
use csi_proto::v1::volume_usage::Unit;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("node/stats", "NodeGetVolumeStats");
    list.needs(&[GET_VOLUME_STATS, CREATE_DELETE_VOLUME]);
    list.error_rule("NodeGetVolumeStats of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.placed_and_deleted()?;
        c.refused(gone.stats(), &[NotFound])
    });
    list.error_rule("NodeGetVolumeStats of a volume at a path where it is not answers NOT_FOUND");
    list.changes("at-another-path", |c| {
        let mut request = c.published()?.stats();
        request.volume_path = c.target()?;
        c.refused(request, &[NotFound])
    });
    list.error_rule(
        "NodeGetVolumeStats of a volume that was unpublished from the path answers NOT_FOUND",
    );
    list.changes("after-unpublishing", |c| {
        let placed = c.published()?;
        c.ok(placed.unpublish())?;
        c.refused(placed.stats(), &[NotFound])
    });
    list.rule("NodeGetVolumeStats should answer with a usage in bytes, which has a total and is not negative");
    list.also(&[EACH_ACCESS]).changes("are-of-the-volume", |c| {
        // That no number is negative and each has a unit are rules of the message.
        let placed = c.published()?;
        let reply = c.ok(placed.stats())?;
        let bytes = reply
            .usage
            .iter()
            .find(|usage| usage.unit == i32::from(Unit::Bytes));
        let actual = format!("{:?}", reply.usage);
        let Some(bytes) = bytes else {
            // The field is optional; without it nobody sees a volume become full.
            c.should(c.access() == Access::Block, "a usage in bytes", actual);
            return Ok(());
        };
        ensure(
            bytes.total > 0,
            "the total is set, for the field is required",
            actual.clone(),
        )?;
        ensure(
            bytes.used <= bytes.total,
            "no more is used than there is",
            actual.clone(),
        )?;
        ensure(
            bytes.available <= bytes.total,
            "no more is available than there is",
            actual,
        )?;
        Ok(())
    });
    list.needs(&[
        GET_VOLUME_STATS,
        NODE_VOLUME_CONDITION,
        CREATE_DELETE_VOLUME,
    ]);
    list.rule("NodeGetVolumeStats of a plugin that advertises the node's VOLUME_CONDITION has a volume_condition");
    list.changes("have-a-condition", |c| {
        let reply = c.ok(c.published()?.stats())?;
        let actual = "it has none";
        ensure(
            reply.volume_condition.is_some(),
            "a volume_condition",
            actual,
        )
    });
    list.needs(&[GET_VOLUME_STATS, CREATE_DELETE_VOLUME]);
    list.rule(
        "NodeGetVolumeStats answers calls at the same time, some of them perhaps with ABORTED",
    );
    list.under("Concurrency").changes("at-the-same-time", |c| {
        let placed = c.published()?;
        c.equal_calls(&placed.stats(), 8)?;
        c.ok_in_the_end(placed.stats())
    });
}
