//! The whole way of a volume, in order, out of order, and with a driver that is restarted between any two steps.

use crate::sanity::case::needs::{
    CREATE_DELETE_VOLUME, EACH_ACCESS, NODE_SERVICE, PATHS, PUBLISH_UNPUBLISH_VOLUME, RESTART,
    STAGE_UNSTAGE_VOLUME,
};
use crate::sanity::case::{Case, case, ensure, same_id};
use crate::sanity::context::{Boxed, Context, told};
use crate::sanity::fixtures::Placed;
use crate::sanity::sources::SOON;
use std::time::Duration;
use tonic::Code;

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "lifecycle/up-and-down",
        "A volume goes from create to publish, and back, twice",
        "Volume Lifecycle",
        [CREATE_DELETE_VOLUME, NODE_SERVICE, EACH_ACCESS],
        |c| {
            for _ in 0..2 {
                let placed = c.published().await?;
                down(&c, &placed).await?;
            }
        }
    ),
    case!(
        Changes,
        "lifecycle/every-step-twice",
        "Every step of a volume's way up and down can be repeated",
        "Volume Lifecycle",
        [CREATE_DELETE_VOLUME, NODE_SERVICE, EACH_ACCESS],
        |c| {
            let volume = c.volume().await?;
            c.ok(volume.request.clone()).await?;
            let placed = c.place(volume).await?;
            if c.has(PUBLISH_UNPUBLISH_VOLUME) {
                c.ok(c.attach_request(&placed.volume)).await?;
            }
            for _ in 0..2 {
                if c.has(STAGE_UNSTAGE_VOLUME) {
                    c.ok(placed.stage()).await?;
                }
            }
            for _ in 0..2 {
                c.ok(placed.publish()).await?;
            }
            for _ in 0..2 {
                c.ok(placed.unpublish()).await?;
            }
            for _ in 0..2 {
                if c.has(STAGE_UNSTAGE_VOLUME) {
                    c.ok(placed.unstage()).await?;
                }
            }
            for _ in 0..2 {
                if c.has(PUBLISH_UNPUBLISH_VOLUME) {
                    c.ok(c.detach_request(&placed.volume)).await?;
                }
            }
            for _ in 0..2 {
                c.ok(c.delete_request(placed.id())).await?;
            }
        }
    ),
    case!(
        Changes,
        "lifecycle/delete-while-published",
        "DeleteVolume of a volume that is published answers OK or FAILED_PRECONDITION, and the node is cleaned up in either case",
        "DeleteVolume Errors",
        [CREATE_DELETE_VOLUME, NODE_SERVICE, PATHS],
        |c| {
            let placed = c.published().await?;
            if let Err(status) = c.send(c.delete_request(placed.id())).await? {
                let kept = status.code() == Code::FailedPrecondition;
                ensure(kept, "OK or FAILED_PRECONDITION", told(&status))?;
            }
            match c.send(placed.unpublish()).await? {
                Ok(_) => c.is_gone(&placed).await?,
                Err(status) => {
                    let kept = status.code() == Code::NotFound;
                    ensure(kept, "OK or NOT_FOUND", told(&status))?;
                }
            }
        }
    ),
    case!(
        Alone,
        "lifecycle/restart-between-any-two-steps",
        "A driver that is restarted between any two steps of a volume's way goes on where it was",
        "Volume Lifecycle",
        [CREATE_DELETE_VOLUME, NODE_SERVICE, EACH_ACCESS, RESTART],
        |c| {
            let volume = c.volume().await?;
            c.restart().await?;
            let again = c
                .ok(volume.request.clone())
                .await?
                .volume
                .unwrap_or_default();
            same_id("volume", &volume.id(), &again.volume_id)?;
            let placed = c.place(volume).await?;
            c.restart().await?;
            if c.has(PUBLISH_UNPUBLISH_VOLUME) {
                let again = c.ok(c.attach_request(&placed.volume)).await?;
                let told = format!("{:?}", again.publish_context);
                let expected = format!("the publish_context {:?}", placed.publish_context);
                ensure(
                    again.publish_context == placed.publish_context,
                    &expected,
                    told,
                )?;
            }
            if c.has(STAGE_UNSTAGE_VOLUME) {
                c.ok(placed.stage()).await?;
                c.restart().await?;
                c.ok(placed.stage()).await?;
            }
            c.ok(placed.publish()).await?;
            c.restart().await?;
            c.ok(placed.publish()).await?;
            if c.has(crate::sanity::case::needs::GET_VOLUME_STATS) {
                c.ok(placed.stats()).await?;
            }
            c.ok(placed.unpublish()).await?;
            c.restart().await?;
            c.ok(placed.unpublish()).await?;
            if c.has(STAGE_UNSTAGE_VOLUME) {
                c.ok(placed.unstage()).await?;
                c.restart().await?;
                c.ok(placed.unstage()).await?;
            }
            if c.has(PUBLISH_UNPUBLISH_VOLUME) {
                c.ok(c.detach_request(&placed.volume)).await?;
                c.restart().await?;
                c.ok(c.detach_request(&placed.volume)).await?;
            }
            c.ok(c.delete_request(placed.id())).await?;
            c.restart().await?;
            c.ok(c.delete_request(placed.id())).await?;
        }
    ),
    case!(
        Alone,
        "lifecycle/restart-while-published",
        "A volume stays published and holds its data while the driver is restarted",
        "Volume Lifecycle",
        [
            CREATE_DELETE_VOLUME,
            NODE_SERVICE,
            EACH_ACCESS,
            RESTART,
            PATHS
        ],
        |c| {
            let placed = c.published().await?;
            c.put_data(&placed, "before").await?;
            c.restart().await?;
            c.is_published(&placed).await?;
            c.holds(&placed, "before").await?;
            // It still knows how it is published.
            let mut other = placed.publish();
            other.readonly = true;
            c.refused(other, &[Code::AlreadyExists]).await?;
            c.ok(placed.unpublish()).await?;
            c.is_gone(&placed).await?;
        }
    ),
    case!(
        Alone,
        "lifecycle/restart-in-mid-call",
        "Calls that a restart cuts off can be repeated, and make no second volume",
        "Volume Lifecycle",
        [CREATE_DELETE_VOLUME, NODE_SERVICE, RESTART],
        |c| {
            let request = c.create_request()?;
            let (answer, restarted) = tokio::join!(c.send(request.clone()), c.restart());
            restarted?;
            let volume = c
                .ok_in_the_end(request.clone())
                .await?
                .volume
                .unwrap_or_default();
            if let Ok(reply) = answer? {
                let first = reply.volume.unwrap_or_default().volume_id;
                ensure(first == volume.volume_id, &first, volume.volume_id.clone())?;
            }
            let again = c.ok(request).await?.volume.unwrap_or_default().volume_id;
            ensure(again == volume.volume_id, &volume.volume_id, again)?;
        }
    ),
    case!(
        Changes,
        "controller/create-volume/given-up",
        "A CreateVolume that was given up can be repeated, and the name leads to one volume",
        "Error Scheme",
        [CREATE_DELETE_VOLUME, EACH_ACCESS],
        |c| {
            for after in SOON {
                let request = c.create_request()?;
                c.cancelled(request.clone(), after).await?;
                let first = c
                    .ok_in_the_end(request.clone())
                    .await?
                    .volume
                    .unwrap_or_default();
                let again = c.ok(request).await?.volume.unwrap_or_default();
                same_id("volume", &first.volume_id, &again.volume_id)?;
            }
        }
    ),
    case!(
        Changes,
        "controller/delete-volume/given-up",
        "A DeleteVolume that was given up can be repeated, and the volume is gone",
        "Error Scheme",
        [CREATE_DELETE_VOLUME],
        |c| {
            for after in SOON {
                let volume = c.volume().await?;
                c.cancelled(c.delete_request(volume.id()), after).await?;
                c.ok_in_the_end(c.delete_request(volume.id())).await?;
                c.refused(c.validate_request(&volume), &[Code::NotFound])
                    .await?;
            }
        }
    ),
    case!(
        Changes,
        "controller/create-volume/deadline-too-short",
        "A CreateVolume whose deadline has passed can be repeated, and the name leads to one volume",
        "Error Scheme",
        [CREATE_DELETE_VOLUME],
        |c| {
            for limit in [1, 3, 10] {
                let request = c.create_request()?;
                let first = c
                    .send_within(Duration::from_millis(limit), request.clone())
                    .await?;
                let volume = c
                    .ok_in_the_end(request.clone())
                    .await?
                    .volume
                    .unwrap_or_default();
                if let Ok(reply) = first {
                    let id = reply.volume.unwrap_or_default().volume_id;
                    same_id("volume", &volume.volume_id, &id)?;
                }
                let again = c.ok(request).await?.volume.unwrap_or_default();
                same_id("volume", &volume.volume_id, &again.volume_id)?;
            }
        }
    ),
    case!(
        Changes,
        "node/stage/given-up",
        "NodeStageVolume and NodeUnstageVolume that were given up can be repeated",
        "Error Scheme",
        [CREATE_DELETE_VOLUME, STAGE_UNSTAGE_VOLUME, EACH_ACCESS],
        |c| {
            let placed = c.placed().await?;
            for after in SOON {
                c.cancelled(placed.stage(), after).await?;
                c.ok_in_the_end(placed.stage()).await?;
                c.cancelled(placed.unstage(), after).await?;
                c.ok_in_the_end(placed.unstage()).await?;
            }
        }
    ),
    case!(
        Changes,
        "node/unpublish/given-up",
        "A NodeUnpublishVolume that was given up, or whose deadline has passed, can be repeated",
        "Error Scheme",
        [CREATE_DELETE_VOLUME, NODE_SERVICE, PATHS],
        |c| {
            let placed = c.staged().await?;
            for after in SOON {
                c.ok_in_the_end(placed.publish()).await?;
                c.cancelled(placed.unpublish(), after).await?;
                c.ok_in_the_end(placed.unpublish()).await?;
                c.is_gone(&placed).await?;
            }
        }
    ),
    case!(
        Changes,
        "controller/publish/given-up",
        "ControllerPublishVolume and ControllerUnpublishVolume that were given up can be repeated",
        "Error Scheme",
        [CREATE_DELETE_VOLUME, PUBLISH_UNPUBLISH_VOLUME, NODE_SERVICE],
        |c| {
            let volume = c.volume().await?;
            for after in SOON {
                c.cancelled(c.attach_request(&volume), after).await?;
                c.ok_in_the_end(c.attach_request(&volume)).await?;
                c.cancelled(c.detach_request(&volume), after).await?;
                c.ok_in_the_end(c.detach_request(&volume)).await?;
            }
        }
    ),
];

/// The way down of a published volume, to its deletion.
pub fn down<'a>(c: &'a Context, placed: &'a Placed) -> Boxed<'a, ()> {
    Box::pin(async move {
        c.ok(placed.unpublish()).await?;
        if c.has(STAGE_UNSTAGE_VOLUME) {
            c.ok(placed.unstage()).await?;
        }
        if c.has(PUBLISH_UNPUBLISH_VOLUME) {
            c.ok(c.detach_request(&placed.volume)).await?;
        }
        c.ok(c.delete_request(placed.id())).await.map(drop)
    })
}
