//! NodePublishVolume and NodeUnpublishVolume.

use crate::sanity::case::needs::{CREATE_DELETE_VOLUME, EACH_ACCESS, NODE_SERVICE};
use crate::sanity::case::{Case, case};

pub const CASES: &[Case] = &[case!(
    Changes,
    "node/publish/is-idempotent",
    "NodePublishVolume of a volume that is published there already, in the same way, answers OK",
    "NodePublishVolume",
    [NODE_SERVICE, CREATE_DELETE_VOLUME, EACH_ACCESS],
    |c| {
        let placed = c.published().await?;
        c.ok(placed.publish()).await?;
    }
)];
