//! NodeUnpublishVolume.

use super::node_publish::{EACH, PUBLISH, SEEN};
use super::node_stage::unattached;
use crate::sanity::case::needs::NODE_SERVICE;
use crate::sanity::case::{Case, case, ensure};
use crate::sanity::context::told;
use csi_proto::v1;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "node/unpublish/without-id",
        "NodeUnpublishVolume without a volume_id answers INVALID_ARGUMENT",
        "NodeUnpublishVolume",
        [NODE_SERVICE],
        |c| {
            let request = v1::NodeUnpublishVolumeRequest {
                target_path: c.target()?,
                ..Default::default()
            };
            c.refused(request, &[Code::InvalidArgument]).await?;
        }
    ),
    case!(
        Changes,
        "node/unpublish/without-path",
        "NodeUnpublishVolume without a target_path answers INVALID_ARGUMENT",
        "NodeUnpublishVolume",
        PUBLISH,
        |c| {
            let mut request = c.published().await?.unpublish();
            request.target_path.clear();
            c.refused(request, &[Code::InvalidArgument]).await?;
        }
    ),
    case!(
        Changes,
        "node/unpublish/removes-the-target",
        "NodeUnpublishVolume removes the target path",
        "NodeUnpublishVolume",
        SEEN,
        |c| {
            let placed = c.published().await?;
            c.ok(placed.unpublish()).await?;
            c.is_gone(&placed).await?;
        }
    ),
    case!(
        Changes,
        "node/unpublish/is-idempotent",
        "NodeUnpublishVolume of a volume that is not published there answers OK",
        "NodeUnpublishVolume",
        EACH,
        |c| {
            let placed = c.published().await?;
            for _ in 0..3 {
                c.ok(placed.unpublish()).await?;
            }
            let never = c.staged().await?;
            c.ok(never.unpublish()).await?;
        }
    ),
    case!(
        Changes,
        "node/unpublish/of-a-deleted-volume",
        "NodeUnpublishVolume of a volume that does not exist answers OK or NOT_FOUND",
        "NodeUnpublishVolume Errors",
        PUBLISH,
        |c| {
            let gone = unattached(&c).await?;
            if let Err(status) = c.send(gone.unpublish()).await? {
                ensure(
                    status.code() == Code::NotFound,
                    "OK or NOT_FOUND",
                    told(&status),
                )?;
            }
        }
    ),
    case!(
        Changes,
        "node/unpublish/at-the-same-time",
        "NodeUnpublishVolume answers equal calls at the same time with OK, or some with ABORTED",
        "Concurrency",
        SEEN,
        |c| {
            let placed = c.published().await?;
            for answer in c.together(vec![placed.unpublish(); 6]).await? {
                if let Err(status) = answer {
                    ensure(
                        status.code() == Code::Aborted,
                        "OK or ABORTED",
                        told(&status),
                    )?;
                }
            }
            c.ok_in_the_end(placed.unpublish()).await?;
            c.is_gone(&placed).await?;
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
                let placed = c.staged().await?;
                let (one, other) =
                    tokio::join!(c.send(placed.publish()), c.send(placed.unpublish()));
                for status in [one?.err(), other?.err()].into_iter().flatten() {
                    ensure(
                        status.code() == Code::Aborted,
                        "OK or ABORTED",
                        told(&status),
                    )?;
                }
                c.ok_in_the_end(placed.publish()).await?;
                c.is_published(&placed).await?;
                c.ok_in_the_end(placed.unpublish()).await?;
                c.is_gone(&placed).await?;
            }
        }
    ),
];
