//! ControllerPublishVolume and ControllerUnpublishVolume.

use crate::data::writable;
use crate::vocabulary::*;

pub fn cases(list: &mut Cases) {
    list.about("controller/publish", "ControllerPublishVolume");
    list.needs(&[PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.error("ControllerPublishVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        c.has_node_id()?;
        let gone = c.deleted_volume()?;
        c.refused(c.attach_request(&gone), &[NotFound])
    });
    list.error("ControllerPublishVolume to a node that does not exist answers NOT_FOUND");
    list.changes("to-an-unknown-node", |c| {
        let (_, mut request) = c.volume_to_attach()?;
        request.node_id = "csi-sanity-no-such-node".to_owned();
        c.best_not_found(request)
    });
    list.rule("ControllerPublishVolume of a volume that is published to this node answers OK with the same publish_context");
    list.also(EACH_ACCESS).changes("is-idempotent", |c| {
        let (_, request) = c.volume_to_attach()?;
        let first = c.ok(request.clone())?.publish_context;
        let again = c.ok(request)?.publish_context;
        same(
            "the publish_context",
            &pairs_text(&first),
            &pairs_text(&again),
        )
    });
    list.error("ControllerPublishVolume of a published volume with another readonly answers ALREADY_EXISTS");
    list.also(&[PUBLISH_READONLY]);
    list.changes("with-another-readonly", |c| {
        let (volume, mut request) = c.attached()?;
        writable(&volume.capability)?;
        request.readonly = true;
        c.refused(request, &[AlreadyExists])
    });
    list.error("ControllerPublishVolume of a published volume with an incompatible capability should answer ALREADY_EXISTS");
    list.changes("with-another-capability", |c| {
        let (volume, mut request) = c.attached()?;
        let mut capability = volume.capability;
        let mode = Mode::MultiNodeMultiWriter.into();
        let before = capability.access_mode.replace(AccessMode { mode });
        let other = before != capability.access_mode;
        skip_unless(other, "--cap has the mode MULTI_NODE_MULTI_WRITER already")?;
        request.volume_capability = Some(capability);
        let codes = [AlreadyExists, InvalidArgument];
        c.should_answer(request, &codes, "ALREADY_EXISTS")
    });
    list.error("ControllerPublishVolume of a volume for one node to a second one answers FAILED_PRECONDITION");
    list.also(&[OTHER_NODE]).changes("to-two-nodes", |c| {
        c.has_node_id()?;
        let volume = c.volume_for_mode(Mode::SingleNodeWriter)?;
        let mut request = c.attach_request(&volume);
        c.ok(request.clone())?;
        request.node_id = c.settings().other_node_id.clone().unwrap_or_default();
        let status = c.refused(request, &[FailedPrecondition, NotFound])?;
        let known = status.code() != NotFound;
        skip_unless(known, OTHER_IS_UNKNOWN)
    });
    list.rule("ControllerPublishVolume answers equal calls at the same time with the same context, or some with ABORTED");
    list.under("Concurrency").changes("at-the-same-time", |c| {
        let (_, request) = c.volume_to_attach()?;
        let replies = c.equal_calls(request, 6)?;
        let contexts = replies.iter().map(|one| pairs_text(&one.publish_context));
        let contexts: Vec<_> = contexts.collect();
        each(contexts.windows(2), |two| {
            same("the publish_context", &two[0], &two[1])
        })
    });
    list.about("controller/unpublish", "ControllerUnpublishVolume");
    list.needs(&[PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.rule("ControllerUnpublishVolume of a volume that is not published to the node answers OK");
    list.changes("is-idempotent", |c| {
        let (volume, _) = c.attached()?;
        each(0..3, |_| c.ok(c.detach_request(&volume)))?;
        c.ok(c.detach_request(&c.volume()?))
    });
    list.error("ControllerUnpublishVolume of a volume that does not exist answers OK or NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        c.demands_of("controller/unpublish/is-idempotent", || {
            c.ok_or(c.detach_request(&gone), &[NotFound])
        })
    });
    list.rule("After ControllerUnpublishVolume the volume can be published with another capability, or deleted");
    list.changes("lets-the-volume-go", |c| {
        let (volume, mut request) = c.attached()?;
        c.ok(c.detach_request(&volume))?;
        if c.has(PUBLISH_READONLY) {
            request.readonly = true;
            c.ok(request)?;
            c.ok(c.detach_request(&volume))?;
        }
        c.ok(c.delete_request(volume.id()))
    });
    list.rule("ControllerUnpublishVolume without a node_id unpublishes the volume from every node");
    list.also(&[PUBLISH_READONLY]);
    list.changes("from-all-nodes", |c| {
        let (volume, mut request) = c.attached()?;
        let mut everywhere = c.detach_request(&volume);
        everywhere.node_id.clear();
        c.ok(everywhere)?;
        // It would be ALREADY_EXISTS if it were still published.
        request.readonly = true;
        c.demands_of("controller/unpublish/lets-the-volume-go", || c.ok(request))
    });
    list.rule(
        "ControllerUnpublishVolume with a node_id leaves the volume published to other nodes",
    );
    list.also(&[OTHER_NODE, PUBLISH_READONLY]);
    list.changes("leaves-other-nodes", |c| {
        c.has_node_id()?;
        let volume = c.volume_for_mode(Mode::MultiNodeMultiWriter)?;
        let mut request = c.attach_request(&volume);
        c.ok(request.clone())?;
        request.node_id = c.settings().other_node_id.clone().unwrap_or_default();
        let known = c.ok_or(request.clone(), &[NotFound])?.is_some();
        skip_unless(known, OTHER_IS_UNKNOWN)?;
        c.ok(c.detach_request(&volume))?;
        // It would be OK if it were not published there any more.
        request.readonly = true;
        c.demands_of("controller/publish/with-another-readonly", || {
            c.refused(request, &[AlreadyExists])
        })
    });
    list.rule("ControllerUnpublishVolume answers equal calls at the same time with OK, or some with ABORTED");
    list.under("Concurrency").changes("at-the-same-time", |c| {
        let (volume, _) = c.attached()?;
        c.equal_calls(c.detach_request(&volume), 6)
    });
}

const OTHER_IS_UNKNOWN: &str = "the driver does not know the node of --other-node-id";
