//! NodePublishVolume.

use super::node_stage::keeps_its_capability;
use crate::tools::sanity::answers::answer_text;
use crate::tools::sanity::case::{Case, Need, Stop, case, ensure};
use crate::tools::sanity::data::{is_device, is_mount};
use crate::tools::sanity::need::needs::{
    BLOCK, CREATE_DELETE_VOLUME, EACH_ACCESS, MOUNT, NODE_SERVICE, NODE_SINGLE_NODE_MULTI_WRITER,
    PATHS, STAGE_UNSTAGE_VOLUME,
};
use crate::tools::sanity::settings::Access;
use crate::tools::sanity::sources::SOON;
use crate::tools::sanity::verdict::status_text;
use csi_proto::v1;
use csi_proto::v1::volume_capability::AccessMode;
use csi_proto::v1::volume_capability::access_mode::Mode;
use tonic::Code;

pub const PUBLISH: &[Need] = &[NODE_SERVICE, CREATE_DELETE_VOLUME];
pub const EACH: &[Need] = &[NODE_SERVICE, CREATE_DELETE_VOLUME, EACH_ACCESS];
pub const SEEN: &[Need] = &[NODE_SERVICE, CREATE_DELETE_VOLUME, EACH_ACCESS, PATHS];

pub const CASES: &[Case] = &[
    case!(
        Changes,
        "node/publish/without-staging-path",
        "NodePublishVolume without the staging_target_path of a staged volume answers FAILED_PRECONDITION",
        "NodePublishVolume Errors",
        [NODE_SERVICE, CREATE_DELETE_VOLUME, STAGE_UNSTAGE_VOLUME],
        |c| {
            let mut request = c.staged()?.publish();
            request.staging_target_path.clear();
            let codes = [Code::FailedPrecondition, Code::InvalidArgument];
            let status = c.refused(request, &codes)?;
            let actual = status_text(&status);
            c.should(
                status.code() == Code::FailedPrecondition,
                "FAILED_PRECONDITION",
                actual,
            );
        }
    ),
    case!(
        Changes,
        "node/publish/without-staging",
        "NodePublishVolume of a volume that was not staged is refused",
        "NodePublishVolume",
        [NODE_SERVICE, CREATE_DELETE_VOLUME, STAGE_UNSTAGE_VOLUME],
        |c| {
            let answer = c.send(c.placed()?.publish())?;
            c.should(answer.is_err(), "the call is refused", answer_text(&answer));
        }
    ),
    case!(
        Changes,
        "node/publish/of-a-deleted-volume",
        "NodePublishVolume of a volume that does not exist answers NOT_FOUND",
        "NodePublishVolume Errors",
        PUBLISH,
        |c| {
            let gone = c.placed_and_deleted()?;
            let codes = [
                Code::NotFound,
                Code::FailedPrecondition,
                Code::InvalidArgument,
            ];
            c.refused(gone.publish(), &codes)?;
        }
    ),
    case!(
        Changes,
        "node/publish/is-idempotent",
        "NodePublishVolume of a volume that is published there already, in the same way, answers OK",
        "NodePublishVolume",
        EACH,
        |c| {
            let placed = c.published()?;
            c.ok(placed.publish())?;
            c.ok(placed.publish())?;
        }
    ),
    case!(
        Changes,
        "node/publish/makes-the-target",
        "NodePublishVolume makes the target path: a folder for mount, a file or device for block",
        "NodePublishVolume",
        SEEN,
        |c| {
            let placed = c.published()?;
            c.is_published(&placed)?;
        }
    ),
    case!(
        Changes,
        "node/publish/takes-a-target-that-exists",
        "NodePublishVolume takes a target path that stands there already as an empty folder",
        "NodePublishVolume",
        [NODE_SERVICE, CREATE_DELETE_VOLUME, MOUNT, PATHS],
        |c| {
            if c.access() != Access::Mount {
                return Err(Stop::Skipped(
                    "a folder is no target of a block volume".to_owned(),
                ));
            }
            let placed = c.staged()?;
            c.folder(std::path::Path::new(&placed.target))?;
            match c.send(placed.publish())? {
                Ok(_) => c.is_published(&placed)?,
                // The specification leaves making it to the plugin; callers of today make it themselves.
                Err(status) => c.should(false, "it answers OK", status_text(&status)),
            }
        }
    ),
    case!(
        Changes,
        "node/publish/keeps-data",
        "What is written into a published volume is there when it is published again, at the same path or another",
        "NodePublishVolume",
        SEEN,
        |c| {
            let mut placed = c.published()?;
            c.put_data(&placed, "kept")?;
            c.ok(placed.unpublish())?;
            c.ok(placed.publish())?;
            c.holds(&placed, "kept")?;
            c.ok(placed.unpublish())?;
            if !placed.staging.is_empty() {
                c.ok(placed.unstage())?;
                c.ok(placed.stage())?;
            }
            placed.target = c.target()?;
            c.ok(placed.publish())?;
            c.holds(&placed, "kept")?;
        }
    ),
    case!(
        Changes,
        "node/publish/volumes-are-apart",
        "What is written into one volume is not in another",
        "NodePublishVolume",
        SEEN,
        |c| {
            let one = c.published()?;
            let other = c.published()?;
            c.put_data(&one, "in the first")?;
            c.put_data(&other, "in another.")?;
            c.holds(&one, "in the first")?;
            c.holds(&other, "in another.")?;
        }
    ),
    case!(
        Changes,
        "node/publish/readonly",
        "A volume that is published with readonly cannot be written",
        "NodePublishVolume",
        SEEN,
        |c| {
            let placed = c.staged()?;
            let mut request = placed.publish();
            request.readonly = true;
            c.ok(request.clone())?;
            c.ok(request)?;
            if !is_mount(&placed.target)? && !is_device(&placed.target)? {
                return Err(Stop::Skipped(
                    "the driver does not mount here: nothing could keep writers out".to_owned(),
                ));
            }
            let writes = c.accepts_writes(&placed)?;
            ensure(!writes, "a write is refused", "it succeeded")?;
        }
    ),
    case!(
        Changes,
        "node/publish/with-another-readonly",
        "NodePublishVolume at the path of a published volume with another readonly answers ALREADY_EXISTS",
        "NodePublishVolume Errors",
        PUBLISH,
        |c| {
            let placed = c.published()?;
            let mut request = placed.publish();
            request.readonly = true;
            c.refused(request, &[Code::AlreadyExists])?;
        }
    ),
    case!(
        Changes,
        "node/publish/with-another-capability",
        "NodePublishVolume at the path of a published volume with an incompatible capability answers ALREADY_EXISTS",
        "NodePublishVolume Errors",
        PUBLISH,
        |c| {
            let placed = c.published()?;
            keeps_its_capability(c, |capability| v1::NodePublishVolumeRequest {
                volume_capability: Some(capability),
                ..placed.publish()
            })?;
        }
    ),
    case!(
        Changes,
        "node/publish/of-another-volume-at-the-same-path",
        "NodePublishVolume at a path where another volume is published should be refused, and that volume stays",
        "NodePublishVolume",
        SEEN,
        |c| {
            let first = c.published()?;
            c.put_data(&first, "the first")?;
            let mut second = c.staged()?;
            second.target.clone_from(&first.target);
            let answer = c.send(second.publish())?;
            // It is the caller who must keep the paths of volumes apart.
            c.should(answer.is_err(), "the call is refused", answer_text(&answer));
            if answer.is_err() {
                c.holds(&first, "the first")?;
            }
        }
    ),
    case!(
        Changes,
        "node/publish/at-two-paths",
        "A volume for several uses on one node is published at two paths, and unpublished from each by itself",
        "NodePublishVolume",
        SEEN,
        |c| {
            let mut request = c.create_request()?;
            let mut usual = c.capability()?;
            usual.access_mode = Some(AccessMode {
                mode: Mode::MultiNodeMultiWriter.into(),
            });
            request.volume_capabilities = vec![usual];
            if c.ok_or(request.clone(), &[Code::InvalidArgument])?
                .is_none()
            {
                return Err(Stop::Skipped(
                    "the driver has no volumes for MULTI_NODE_MULTI_WRITER".to_owned(),
                ));
            }
            let one = c.publish(c.volume_of(request)?)?;
            let mut other = one.clone();
            other.target = c.target()?;
            c.ok(other.publish())?;
            c.put_data(&one, "shared")?;
            c.holds(&other, "shared")?;
            c.ok(one.unpublish())?;
            c.is_gone(&one)?;
            c.is_published(&other)?;
            c.holds(&other, "shared")?;
        }
    ),
    case!(
        Changes,
        "node/publish/for-a-single-writer-at-two-paths",
        "NodePublishVolume of a SINGLE_NODE_SINGLE_WRITER volume at a second path answers FAILED_PRECONDITION",
        "NodePublishVolume",
        [
            NODE_SERVICE,
            CREATE_DELETE_VOLUME,
            NODE_SINGLE_NODE_MULTI_WRITER
        ],
        |c| {
            let mut request = c.create_request()?;
            for capability in &mut request.volume_capabilities {
                capability.access_mode = Some(AccessMode {
                    mode: Mode::SingleNodeSingleWriter.into(),
                });
            }
            // The capability stands for this mode or for SINGLE_NODE_MULTI_WRITER.
            if c.ok_or(request.clone(), &[Code::InvalidArgument])?
                .is_none()
            {
                return Err(Stop::Skipped(
                    "the driver has no volumes for SINGLE_NODE_SINGLE_WRITER".to_owned(),
                ));
            }
            let one = c.publish(c.volume_of(request)?)?;
            let mut other = one.clone();
            other.target = c.target()?;
            c.refused(other.publish(), &[Code::FailedPrecondition])?;
        }
    ),
    case!(
        Changes,
        "node/publish/at-the-same-time",
        "NodePublishVolume answers equal calls at the same time with OK, or some with ABORTED, and publishes once",
        "Concurrency",
        SEEN,
        |c| {
            let placed = c.staged()?;
            c.equal_calls(&placed.publish(), 6)?;
            c.ok_in_the_end(placed.publish())?;
            c.is_published(&placed)?;
            // One call takes down what there is, however many were made.
            c.ok(placed.unpublish())?;
            c.is_gone(&placed)?;
        }
    ),
    case!(
        Changes,
        "node/publish/of-volumes-at-the-same-time",
        "Volumes are published at the same time without disturbing each other",
        "Concurrency",
        PUBLISH,
        |c| {
            let mut all = Vec::new();
            for _ in 0..4 {
                all.push(c.staged()?);
            }
            let publishes = all.iter().map(|placed| placed.publish()).collect();
            c.all_ok(publishes)?;
            let unpublishes = all.iter().map(|placed| placed.unpublish()).collect();
            c.all_ok(unpublishes)?;
        }
    ),
    case!(
        Changes,
        "node/publish/given-up",
        "A NodePublishVolume that was given up can be repeated and undone",
        "Error Scheme",
        EACH,
        |c| {
            let placed = c.staged()?;
            for after in SOON {
                c.cancelled(placed.publish(), after)?;
                c.ok_in_the_end(placed.publish())?;
                c.ok_in_the_end(placed.unpublish())?;
            }
        }
    ),
    case!(
        Changes,
        "node/publish/block-as-a-device",
        "A block volume reads back what was written, from its beginning",
        "NodePublishVolume",
        [
            NODE_SERVICE,
            CREATE_DELETE_VOLUME,
            BLOCK,
            EACH_ACCESS,
            PATHS
        ],
        |c| {
            if c.access() != Access::Block {
                return Err(Stop::Skipped("shown with block".to_owned()));
            }
            let placed = c.published()?;
            c.is_published(&placed)?;
            c.put_data(&placed, "first block")?;
            c.holds(&placed, "first block")?;
        }
    ),
];
