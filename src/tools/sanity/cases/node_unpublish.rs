//! NodeUnpublishVolume.

use super::node_publish::{EACH, PUBLISH, SEEN};
use crate::tools::sanity::answers::ok_or_aborted;
use crate::tools::sanity::case::{Case, case};
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "node/unpublish/removes-the-target",
        "NodeUnpublishVolume removes the target path",
        "NodeUnpublishVolume",
        SEEN,
        |c| {
            let placed = c.published()?;
            c.ok(placed.unpublish())?;
            c.is_gone(&placed)?;
        }
    ),
    case!(
        Changes,
        "node/unpublish/is-idempotent",
        "NodeUnpublishVolume of a volume that is not published there answers OK",
        "NodeUnpublishVolume",
        EACH,
        |c| {
            let placed = c.published()?;
            for _ in 0..3 {
                c.ok(placed.unpublish())?;
            }
            let never = c.staged()?;
            c.ok(never.unpublish())?;
        }
    ),
    case!(
        Changes,
        "node/unpublish/of-a-deleted-volume",
        "NodeUnpublishVolume of a volume that does not exist answers OK or NOT_FOUND",
        "NodeUnpublishVolume Errors",
        PUBLISH,
        |c| {
            let gone = c.placed_and_deleted()?;
            c.ok_or(gone.unpublish(), &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "node/unpublish/at-the-same-time",
        "NodeUnpublishVolume answers equal calls at the same time with OK, or some with ABORTED",
        "Concurrency",
        SEEN,
        |c| {
            let placed = c.published()?;
            c.equal_calls(&placed.unpublish(), 6)?;
            c.ok_in_the_end(placed.unpublish())?;
            c.is_gone(&placed)?;
        }
    ),
    case!(
        Changes,
        "node/unpublish/while-published",
        "NodePublishVolume and NodeUnpublishVolume of one path at the same time leave it published or not, and nothing between",
        "Concurrency",
        SEEN,
        |c| {
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
        }
    ),
];
