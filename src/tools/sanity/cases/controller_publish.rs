//! ControllerPublishVolume and ControllerUnpublishVolume.

use crate::tools::sanity::vocabulary::*;
use csi_proto::v1::volume_capability::access_mode::Mode;

/// The cases.
pub fn cases(list: &mut Cases) {
    list.about("controller/publish", "ControllerPublishVolume");
    list.needs(&[PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.error_rule("ControllerPublishVolume of a volume that does not exist answers NOT_FOUND");
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        c.refused(c.attach_request(&gone), &[NotFound])
    });
    list.error_rule("ControllerPublishVolume to a node that does not exist answers NOT_FOUND");
    list.changes("to-an-unknown-node", |c| {
        let (_, mut request) = c.volume_to_attach()?;
        request.node_id = "csi-sanity-no-such-node".to_owned();
        c.refused(request, &[NotFound])
    });
    list.rule("ControllerPublishVolume of a volume that is published to this node answers OK with the same publish_context");
    list.also(&[EACH_ACCESS]).changes("is-idempotent", |c| {
        let (_, request) = c.volume_to_attach()?;
        let first = c.ok(request.clone())?;
        let again = c.ok(request)?;
        let actual = format!("{:?}", again.publish_context);
        let expected = format!("the publish_context {:?}", first.publish_context);
        ensure(first == again, &expected, actual)
    });
    list.error_rule("ControllerPublishVolume of a published volume with another readonly answers ALREADY_EXISTS");
    list.also(&[PUBLISH_READONLY])
        .changes("with-another-readonly", |c| {
            let (_, mut request) = c.attached()?;
            request.readonly = true;
            c.refused(request, &[AlreadyExists])
        });
    list.error_rule("ControllerPublishVolume of a published volume with an incompatible capability answers ALREADY_EXISTS");
    list.changes("with-another-capability", |c| {
        let (volume, mut request) = c.attached()?;
        let mode = v1::volume_capability::AccessMode {
            mode: Mode::MultiNodeMultiWriter.into(),
        };
        request
            .volume_capability
            .get_or_insert_default()
            .access_mode = Some(mode);
        if volume.capability.access_mode == Some(mode) {
            return Err(Stop::Skipped(
                "--cap has the mode MULTI_NODE_MULTI_WRITER already".to_owned(),
            ));
        }
        match c.send(request)? {
            Ok(_) => c.should(false, "ALREADY_EXISTS", "it answered OK"),
            Err(status) => {
                let codes = [AlreadyExists, InvalidArgument];
                ensure(
                    codes.contains(&status.code()),
                    "ALREADY_EXISTS",
                    status_text(&status),
                )?;
            }
        }
        Ok(())
    });
    list.error_rule("ControllerPublishVolume of a volume for one node to a second one answers FAILED_PRECONDITION");
    list.also(&[OTHER_NODE]).changes("to-two-nodes", |c| {
        use csi_proto::v1::volume_capability::AccessMode;
        let mut request = c.create_request()?;
        for capability in &mut request.volume_capabilities {
            capability.access_mode = Some(AccessMode {
                mode: Mode::SingleNodeWriter.into(),
            });
        }
        let volume = c.volume_of(request)?;
        c.ok(c.attach_request(&volume))?;
        let mut request = c.attach_request(&volume);
        request.node_id = c.settings().other_node_id.clone().unwrap_or_default();
        c.refused(request, &[FailedPrecondition])
    });
    list.rule("ControllerPublishVolume answers equal calls at the same time with the same context, or some with ABORTED");
    list.under("Concurrency").changes("at-the-same-time", |c| {
        let (_, request) = c.volume_to_attach()?;
        let replies = c.equal_calls(&request, 6)?;
        let last = c.ok_in_the_end(request)?;
        for reply in replies {
            let actual = format!("{:?}", reply.publish_context);
            let expected = format!("the publish_context {:?}", last.publish_context);
            ensure(reply == last, &expected, actual)?;
        }
        Ok(())
    });
    list.about("controller/unpublish", "ControllerUnpublishVolume");
    list.needs(&[PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE_SERVICE]);
    list.rule("ControllerUnpublishVolume of a volume that is not published to the node answers OK");
    list.changes("is-idempotent", |c| {
        let (volume, _) = c.attached()?;
        for _ in 0..3 {
            c.ok(c.detach_request(&volume))?;
        }
        let never = c.volume()?;
        c.ok(c.detach_request(&never))
    });
    list.error_rule(
        "ControllerUnpublishVolume of a volume that does not exist answers OK or NOT_FOUND",
    );
    list.changes("of-a-deleted-volume", |c| {
        let gone = c.deleted_volume()?;
        c.ok_or(c.detach_request(&gone), &[NotFound])
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
    list.also(&[PUBLISH_READONLY])
        .changes("from-all-nodes", |c| {
            let (volume, mut request) = c.attached()?;
            let mut everywhere = c.detach_request(&volume);
            everywhere.node_id.clear();
            c.ok(everywhere)?;
            // It would be ALREADY_EXISTS if it were still published.
            request.readonly = true;
            c.ok(request)
        });
    list.rule("ControllerUnpublishVolume answers equal calls at the same time with OK, or some with ABORTED");
    list.under("Concurrency").changes("at-the-same-time", |c| {
        let (volume, _) = c.attached()?;
        let request = c.detach_request(&volume);
        c.equal_calls(&request, 6)?;
        c.ok_in_the_end(request)
    });
}
