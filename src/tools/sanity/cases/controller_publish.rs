//! ControllerPublishVolume and ControllerUnpublishVolume.

use crate::tools::sanity::case::{Case, Need, Stop, case, ensure};
use crate::tools::sanity::need::needs::{
    CREATE_DELETE_VOLUME, EACH_ACCESS, NODE_SERVICE, OTHER_NODE, PUBLISH_READONLY,
    PUBLISH_UNPUBLISH_VOLUME,
};
use crate::tools::sanity::verdict::status_text;
use csi_proto::v1;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Code;

const PUBLISH: &[Need] = &[PUBLISH_UNPUBLISH_VOLUME, CREATE_DELETE_VOLUME, NODE_SERVICE];
const READONLY: &[Need] = &[
    PUBLISH_UNPUBLISH_VOLUME,
    CREATE_DELETE_VOLUME,
    NODE_SERVICE,
    PUBLISH_READONLY,
];

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "controller/publish/of-a-deleted-volume",
        "ControllerPublishVolume of a volume that does not exist answers NOT_FOUND",
        "ControllerPublishVolume Errors",
        PUBLISH,
        |c| {
            let gone = c.deleted_volume()?;
            c.refused(c.attach_request(&gone), &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/publish/to-an-unknown-node",
        "ControllerPublishVolume to a node that does not exist answers NOT_FOUND",
        "ControllerPublishVolume Errors",
        PUBLISH,
        |c| {
            let (_, mut request) = c.volume_to_attach()?;
            request.node_id = "csi-sanity-no-such-node".to_owned();
            c.refused(request, &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/publish/is-idempotent",
        "ControllerPublishVolume of a volume that is published to this node answers OK with the same publish_context",
        "ControllerPublishVolume",
        [
            PUBLISH_UNPUBLISH_VOLUME,
            CREATE_DELETE_VOLUME,
            NODE_SERVICE,
            EACH_ACCESS
        ],
        |c| {
            let (_, request) = c.volume_to_attach()?;
            let first = c.ok(request.clone())?;
            let again = c.ok(request)?;
            let actual = format!("{:?}", again.publish_context);
            let expected = format!("the publish_context {:?}", first.publish_context);
            ensure(first == again, &expected, actual)?;
        }
    ),
    case!(
        Changes,
        "controller/publish/with-another-readonly",
        "ControllerPublishVolume of a published volume with another readonly answers ALREADY_EXISTS",
        "ControllerPublishVolume Errors",
        READONLY,
        |c| {
            let (_, mut request) = c.attached()?;
            request.readonly = true;
            c.refused(request, &[Code::AlreadyExists])?;
        }
    ),
    case!(
        Changes,
        "controller/publish/with-another-capability",
        "ControllerPublishVolume of a published volume with an incompatible capability answers ALREADY_EXISTS",
        "ControllerPublishVolume Errors",
        PUBLISH,
        |c| {
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
                    let codes = [Code::AlreadyExists, Code::InvalidArgument];
                    ensure(
                        codes.contains(&status.code()),
                        "ALREADY_EXISTS",
                        status_text(&status),
                    )?;
                }
            }
        }
    ),
    case!(
        Changes,
        "controller/publish/to-two-nodes",
        "ControllerPublishVolume of a volume for one node to a second one answers FAILED_PRECONDITION",
        "ControllerPublishVolume Errors",
        [
            PUBLISH_UNPUBLISH_VOLUME,
            CREATE_DELETE_VOLUME,
            NODE_SERVICE,
            OTHER_NODE
        ],
        |c| {
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
            c.refused(request, &[Code::FailedPrecondition])?;
        }
    ),
    case!(
        Changes,
        "controller/publish/at-the-same-time",
        "ControllerPublishVolume answers equal calls at the same time with the same context, or some with ABORTED",
        "Concurrency",
        PUBLISH,
        |c| {
            let (_, request) = c.volume_to_attach()?;
            let replies = c.equal_calls(&request, 6)?;
            let last = c.ok_in_the_end(request)?;
            for reply in replies {
                let actual = format!("{:?}", reply.publish_context);
                let expected = format!("the publish_context {:?}", last.publish_context);
                ensure(reply == last, &expected, actual)?;
            }
        }
    ),
    case!(
        Changes,
        "controller/unpublish/is-idempotent",
        "ControllerUnpublishVolume of a volume that is not published to the node answers OK",
        "ControllerUnpublishVolume",
        PUBLISH,
        |c| {
            let (volume, _) = c.attached()?;
            for _ in 0..3 {
                c.ok(c.detach_request(&volume))?;
            }
            let never = c.volume()?;
            c.ok(c.detach_request(&never))?;
        }
    ),
    case!(
        Changes,
        "controller/unpublish/of-a-deleted-volume",
        "ControllerUnpublishVolume of a volume that does not exist answers OK or NOT_FOUND",
        "ControllerUnpublishVolume Errors",
        PUBLISH,
        |c| {
            let gone = c.deleted_volume()?;
            c.ok_or(c.detach_request(&gone), &[Code::NotFound])?;
        }
    ),
    case!(
        Changes,
        "controller/unpublish/lets-the-volume-go",
        "After ControllerUnpublishVolume the volume can be published with another capability, or deleted",
        "ControllerUnpublishVolume",
        PUBLISH,
        |c| {
            let (volume, mut request) = c.attached()?;
            c.ok(c.detach_request(&volume))?;
            if c.has(PUBLISH_READONLY) {
                request.readonly = true;
                c.ok(request)?;
                c.ok(c.detach_request(&volume))?;
            }
            c.ok(c.delete_request(volume.id()))?;
        }
    ),
    case!(
        Changes,
        "controller/unpublish/from-all-nodes",
        "ControllerUnpublishVolume without a node_id unpublishes the volume from every node",
        "ControllerUnpublishVolume",
        READONLY,
        |c| {
            let (volume, mut request) = c.attached()?;
            let mut everywhere = c.detach_request(&volume);
            everywhere.node_id.clear();
            c.ok(everywhere)?;
            // It would be ALREADY_EXISTS if it were still published.
            request.readonly = true;
            c.ok(request)?;
        }
    ),
    case!(
        Changes,
        "controller/unpublish/at-the-same-time",
        "ControllerUnpublishVolume answers equal calls at the same time with OK, or some with ABORTED",
        "Concurrency",
        PUBLISH,
        |c| {
            let (volume, _) = c.attached()?;
            let request = c.detach_request(&volume);
            c.equal_calls(&request, 6)?;
            c.ok_in_the_end(request)?;
        }
    ),
];
