//! Whether `csi sanity` can fail: against the reference driver it passes, and for each defect that this driver can have,
//! the case that is about it fails.

use crate::support::reference::{Defect, Options, ReferenceDriver};
use csi_cli::sanity::{Outcome, Report, Settings, run};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many drivers are examined at a time. They wait more than they work.
const AT_A_TIME: usize = 8;

/// The case that is about each defect.
const FOUND_BY: &[(Defect, &str)] = &[
    // Identity.
    (
        Defect::PluginNameInvalid,
        "identity/plugin-info/names-the-driver",
    ),
    (
        Defect::PluginNameTooLong,
        "identity/plugin-info/names-the-driver",
    ),
    (
        Defect::PluginVersionMissing,
        "identity/plugin-info/names-the-driver",
    ),
    (
        Defect::ManifestTooLarge,
        "identity/plugin-info/names-the-driver",
    ),
    (
        Defect::PluginCapabilitiesChange,
        "identity/plugin-capabilities/are-known-and-constant",
    ),
    (Defect::ProbeNeverReady, "identity/probe/answers-ready"),
    (Defect::ProbeFails, "identity/probe/answers-ready"),
    (
        Defect::GroupControllerMissing,
        "identity/plugin-capabilities/services-are-there",
    ),
    (
        Defect::SnapshotMetadataMissing,
        "identity/plugin-capabilities/services-are-there",
    ),
    // Every RPC.
    (
        Defect::UnknownFieldsRejected,
        "protocol/unknown-fields-are-ignored",
    ),
    (
        Defect::HostileIdIsInternal,
        "controller/delete-volume/with-a-hostile-id",
    ),
    (
        Defect::LongIdPanics,
        "controller/delete-volume/with-a-long-id",
    ),
    (
        Defect::UnadvertisedIsInternal,
        "controller/capabilities/others-are-unimplemented",
    ),
    (Defect::ErrorsEchoSecrets, "secrets/are-not-in-errors"),
    (
        Defect::ParallelCallsHang,
        "controller/create-volume/at-the-same-time",
    ),
    (
        Defect::CancelledCallKeepsLock,
        "controller/create-volume/given-up",
    ),
    (
        Defect::VolumesLostOnRestart,
        "lifecycle/restart-between-any-two-steps",
    ),
    (
        Defect::NodeStateLostOnRestart,
        "lifecycle/restart-between-any-two-steps",
    ),
    // CreateVolume.
    (
        Defect::CreateVolumeWithoutName,
        "controller/create-volume/without-name",
    ),
    (
        Defect::CreateVolumeWithoutCapabilities,
        "controller/create-volume/without-capabilities",
    ),
    (
        Defect::CapabilityWithoutAccessType,
        "controller/create-volume/without-access-type",
    ),
    (
        Defect::CapabilityWithoutAccessMode,
        "controller/create-volume/without-access-mode",
    ),
    (
        Defect::CreateVolumeMissingFieldIsInternal,
        "controller/create-volume/without-name",
    ),
    (
        Defect::CreateVolumeRepeatMakesAnother,
        "controller/create-volume/is-idempotent",
    ),
    (
        Defect::CreateVolumeRepeatFails,
        "controller/create-volume/is-idempotent",
    ),
    (
        Defect::CreateVolumeIgnoresSizeOnRepeat,
        "controller/create-volume/with-another-size",
    ),
    (
        Defect::CreateVolumeIgnoresSourceOnRepeat,
        "controller/create-volume/name-of-a-volume-from-elsewhere",
    ),
    (
        Defect::CreateVolumeIgnoresRequiredBytes,
        "controller/create-volume/has-required-bytes",
    ),
    (
        Defect::CreateVolumeIgnoresLimitBytes,
        "controller/create-volume/keeps-limit-bytes",
    ),
    (
        Defect::CreateVolumeImpossibleSizeIsInternal,
        "controller/create-volume/of-an-impossible-size",
    ),
    (
        Defect::CreateVolumeReversedRange,
        "controller/create-volume/of-a-reversed-range",
    ),
    (
        Defect::CreateVolumeNegativeSize,
        "controller/create-volume/of-a-negative-size",
    ),
    (
        Defect::VolumeIdMissing,
        "controller/create-volume/is-idempotent",
    ),
    (
        Defect::VolumeIdTooLong,
        "controller/create-volume/is-idempotent",
    ),
    (
        Defect::VolumeContextLostOnRepeat,
        "controller/create-volume/context-is-constant",
    ),
    (
        Defect::VolumeContextHasSecrets,
        "secrets/are-not-in-the-volume",
    ),
    (
        Defect::VolumeContextTooLarge,
        "controller/create-volume/context-is-constant",
    ),
    (
        Defect::LongNameRefused,
        "controller/create-volume/with-a-long-name",
    ),
    (
        Defect::LongNamesCollide,
        "controller/create-volume/with-a-long-name",
    ),
    (
        Defect::NameCaseIgnored,
        "controller/create-volume/names-are-told-apart",
    ),
    (
        Defect::UnicodeNameRefused,
        "controller/create-volume/with-a-unicode-name",
    ),
    (
        Defect::CloneOfUnknownVolume,
        "controller/create-volume/from-unknown-volume",
    ),
    (
        Defect::RestoreOfUnknownSnapshot,
        "controller/create-volume/from-unknown-snapshot",
    ),
    (
        Defect::MissingSourceIsInternal,
        "controller/create-volume/from-unknown-snapshot",
    ),
    (
        Defect::ContentSourceNotAnswered,
        "controller/create-volume/from-snapshot",
    ),
    (
        Defect::CloneIsEmpty,
        "controller/create-volume/data-of-the-volume",
    ),
    (
        Defect::RestoreIsEmpty,
        "controller/create-volume/data-of-the-snapshot",
    ),
    (
        Defect::RestoreIsTooSmall,
        "controller/create-volume/from-larger-snapshot",
    ),
    (
        Defect::VolumeTopologyUnadvertised,
        "controller/create-volume/topology-is-advertised",
    ),
    (
        Defect::RequisiteTopologyIgnored,
        "controller/create-volume/in-a-place-that-does-not-exist",
    ),
    (
        Defect::ParallelCreateVolumeMakesTwo,
        "controller/create-volume/at-the-same-time",
    ),
    (
        Defect::CancelledCreateVolumeLeavesName,
        "controller/create-volume/given-up",
    ),
    // DeleteVolume.
    (
        Defect::DeleteVolumeWithoutId,
        "controller/delete-volume/without-id",
    ),
    (
        Defect::DeleteVolumeUnknownIsNotFound,
        "controller/delete-volume/is-idempotent",
    ),
    (
        Defect::DeleteVolumeKeepsVolume,
        "controller/delete-volume/deletes",
    ),
    (
        Defect::DeleteVolumeTakesSnapshots,
        "controller/delete-volume/leaves-snapshots-whole",
    ),
    // ControllerPublishVolume and ControllerUnpublishVolume.
    (
        Defect::ControllerPublishWithoutVolumeId,
        "controller/publish/without-volume-id",
    ),
    (
        Defect::ControllerPublishWithoutNodeId,
        "controller/publish/without-node-id",
    ),
    (
        Defect::ControllerPublishWithoutCapability,
        "controller/publish/without-capability",
    ),
    (
        Defect::ControllerPublishUnknownVolumeIsInternal,
        "controller/publish/of-a-deleted-volume",
    ),
    (
        Defect::ControllerPublishUnknownNode,
        "controller/publish/to-an-unknown-node",
    ),
    (
        Defect::ControllerPublishRepeatFails,
        "controller/publish/is-idempotent",
    ),
    (
        Defect::ControllerPublishIgnoresReadonly,
        "controller/publish/with-another-readonly",
    ),
    (
        Defect::ControllerPublishIgnoresCapability,
        "controller/publish/with-another-capability",
    ),
    (
        Defect::ControllerPublishToTwoNodes,
        "controller/publish/to-two-nodes",
    ),
    (
        Defect::PublishContextChanges,
        "controller/publish/is-idempotent",
    ),
    (
        Defect::ControllerUnpublishWithoutVolumeId,
        "controller/unpublish/without-volume-id",
    ),
    (
        Defect::ControllerUnpublishRepeatFails,
        "controller/unpublish/is-idempotent",
    ),
    (
        Defect::ControllerUnpublishKeepsAttachment,
        "controller/unpublish/lets-the-volume-go",
    ),
    (
        Defect::ControllerUnpublishFromAllIgnored,
        "controller/unpublish/from-all-nodes",
    ),
    // ValidateVolumeCapabilities.
    (
        Defect::ValidateWithoutVolumeId,
        "controller/validate/without-id",
    ),
    (
        Defect::ValidateWithoutCapabilities,
        "controller/validate/without-capabilities",
    ),
    (
        Defect::ValidateUnknownVolume,
        "controller/validate/of-an-unknown-id",
    ),
    (
        Defect::ValidateConfirmsNothing,
        "controller/validate/confirms-what-it-was-created-with",
    ),
    (
        Defect::ValidateConfirmsEverything,
        "controller/validate/does-not-confirm-what-is-not-supported",
    ),
    // ListVolumes, ControllerGetVolume, GetCapacity.
    (
        Defect::ListVolumesIgnoresMaxEntries,
        "controller/list-volumes/page-by-page",
    ),
    (
        Defect::ListVolumesRepeatsEntries,
        "controller/list-volumes/page-by-page",
    ),
    (
        Defect::ListVolumesLosesEntries,
        "controller/list-volumes/page-by-page",
    ),
    (
        Defect::ListVolumesAcceptsBadToken,
        "controller/list-volumes/with-an-unknown-token",
    ),
    (
        Defect::ListVolumesBadTokenIsInvalidArgument,
        "controller/list-volumes/with-an-unknown-token",
    ),
    (
        Defect::ListVolumesNeverEnds,
        "controller/list-volumes/shows-every-volume-once",
    ),
    (
        Defect::ListVolumesNegativeMaxEntries,
        "controller/list-volumes/with-negative-max-entries",
    ),
    (
        Defect::ListVolumesForgetsNewest,
        "controller/list-volumes/shows-every-volume-once",
    ),
    (
        Defect::ListVolumesContextDiffers,
        "controller/list-volumes/shows-every-volume-once",
    ),
    (
        Defect::PublishedNodesMissing,
        "controller/list-volumes/shows-published-nodes",
    ),
    (
        Defect::VolumeConditionMissing,
        "controller/list-volumes/shows-conditions",
    ),
    (
        Defect::GetVolumeWithoutId,
        "controller/get-volume/without-id",
    ),
    (
        Defect::GetVolumeUnknown,
        "controller/get-volume/of-an-unknown-id",
    ),
    (
        Defect::GetVolumeWithoutStatus,
        "controller/get-volume/answers-what-was-created",
    ),
    (
        Defect::GetCapacityUnimplemented,
        "controller/get-capacity/answers",
    ),
    (Defect::CapacityNegative, "controller/get-capacity/answers"),
    (
        Defect::CapacityBoundsReversed,
        "controller/get-capacity/answers",
    ),
    // ControllerExpandVolume and ControllerModifyVolume.
    (
        Defect::ExpandWithoutVolumeId,
        "controller/expand/without-id",
    ),
    (
        Defect::ExpandWithoutRange,
        "controller/expand/without-capacity",
    ),
    (
        Defect::ExpandUnknownVolume,
        "controller/expand/of-a-deleted-volume",
    ),
    (Defect::ExpandAnswersOldSize, "controller/expand/expands"),
    (Defect::ExpandRepeatFails, "controller/expand/is-idempotent"),
    (Defect::ExpandShrinks, "controller/expand/never-shrinks"),
    (
        Defect::ExpandIgnoresLimit,
        "controller/expand/keeps-limit-bytes",
    ),
    (
        Defect::ExpandImpossibleSizeIsInternal,
        "controller/expand/to-an-impossible-size",
    ),
    (
        Defect::ExpandForgetsName,
        "controller/expand/keeps-the-name",
    ),
    (
        Defect::ModifyWithoutVolumeId,
        "controller/modify/without-id",
    ),
    (
        Defect::ModifyWithoutParameters,
        "controller/modify/without-parameters",
    ),
    (
        Defect::ModifyUnknownVolume,
        "controller/modify/of-a-deleted-volume",
    ),
    (
        Defect::ModifyUnknownParameter,
        "controller/modify/with-an-unknown-parameter",
    ),
    (Defect::ModifyRepeatFails, "controller/modify/is-idempotent"),
    // Snapshots.
    (
        Defect::CreateSnapshotWithoutName,
        "controller/create-snapshot/without-name",
    ),
    (
        Defect::CreateSnapshotWithoutSource,
        "controller/create-snapshot/without-source",
    ),
    (
        Defect::SnapshotOfUnknownVolume,
        "controller/create-snapshot/of-unknown-volume",
    ),
    (
        Defect::CreateSnapshotRepeatMakesAnother,
        "controller/create-snapshot/is-idempotent",
    ),
    (
        Defect::CreateSnapshotRepeatFails,
        "controller/create-snapshot/is-idempotent",
    ),
    (
        Defect::CreateSnapshotIgnoresSource,
        "controller/create-snapshot/name-of-another-volume",
    ),
    (
        Defect::ParallelCreateSnapshotMakesTwo,
        "controller/create-snapshot/equal-calls-at-once",
    ),
    (
        Defect::CancelledCreateSnapshotLeavesName,
        "controller/create-snapshot/given-up",
    ),
    (
        Defect::SnapshotNeverReady,
        "controller/create-snapshot/becomes-ready",
    ),
    (
        Defect::SnapshotReadinessLost,
        "controller/create-snapshot/becomes-ready",
    ),
    (
        Defect::SnapshotSizeNegative,
        "controller/create-snapshot/describes-the-snapshot",
    ),
    (
        Defect::SnapshotTimeMissing,
        "controller/create-snapshot/describes-the-snapshot",
    ),
    (
        Defect::SnapshotTimeMoves,
        "controller/create-snapshot/is-idempotent",
    ),
    (
        Defect::SnapshotSourceMissing,
        "controller/create-snapshot/describes-the-snapshot",
    ),
    (
        Defect::SnapshotIdTooLong,
        "controller/create-snapshot/describes-the-snapshot",
    ),
    (
        Defect::SnapshotFollowsVolume,
        "controller/create-volume/data-of-the-snapshot",
    ),
    (
        Defect::DeleteSnapshotWithoutId,
        "controller/delete-snapshot/without-id",
    ),
    (
        Defect::DeleteSnapshotUnknownIsNotFound,
        "controller/delete-snapshot/is-idempotent",
    ),
    (
        Defect::DeleteSnapshotKeepsSnapshot,
        "controller/delete-snapshot/deletes",
    ),
    (
        Defect::ListSnapshotsIgnoresSource,
        "controller/list-snapshots/of-one-volume",
    ),
    (
        Defect::ListSnapshotsIgnoresId,
        "controller/list-snapshots/of-one-snapshot",
    ),
    (
        Defect::ListSnapshotsUnknownIsNotFound,
        "controller/list-snapshots/of-what-does-not-exist",
    ),
    (
        Defect::ListSnapshotsIgnoresMaxEntries,
        "controller/list-snapshots/in-pages",
    ),
    (
        Defect::ListSnapshotsRepeatsEntries,
        "controller/list-snapshots/in-pages",
    ),
    (
        Defect::ListSnapshotsLosesEntries,
        "controller/list-snapshots/in-pages",
    ),
    (
        Defect::ListSnapshotsAcceptsBadToken,
        "controller/list-snapshots/bad-token",
    ),
    (
        Defect::ListSnapshotsForgetsNewest,
        "controller/list-snapshots/has-every-snapshot",
    ),
    (
        Defect::GetSnapshotWithoutId,
        "controller/get-snapshot/without-id",
    ),
    (
        Defect::GetSnapshotUnknown,
        "controller/get-snapshot/unknown",
    ),
    (
        Defect::GetSnapshotDiffers,
        "controller/get-snapshot/agrees-with-create-snapshot",
    ),
    // Group snapshots.
    (
        Defect::CreateGroupWithoutName,
        "group-controller/create-volume-group-snapshot/without-name",
    ),
    (
        Defect::CreateGroupWithoutVolumes,
        "group-controller/create-volume-group-snapshot/without-volumes",
    ),
    (
        Defect::GroupIsPartial,
        "group-controller/create-volume-group-snapshot/describes-the-group",
    ),
    (
        Defect::GroupSkipsUnknownVolumes,
        "group-controller/create-volume-group-snapshot/with-unknown-volume",
    ),
    (
        Defect::CreateGroupRepeatMakesAnother,
        "group-controller/create-volume-group-snapshot/is-idempotent",
    ),
    (
        Defect::CreateGroupIgnoresVolumesOnRepeat,
        "group-controller/create-volume-group-snapshot/name-of-another-group",
    ),
    (
        Defect::ParallelCreateGroupMakesTwo,
        "group-controller/create-volume-group-snapshot/equal-calls-at-once",
    ),
    (
        Defect::GroupIdMissingInSnapshots,
        "group-controller/create-volume-group-snapshot/describes-the-group",
    ),
    (
        Defect::GroupReadyTooEarly,
        "group-controller/create-volume-group-snapshot/is-ready-when-its-snapshots-are",
    ),
    (
        Defect::GroupTimeMissing,
        "group-controller/create-volume-group-snapshot/describes-the-group",
    ),
    (
        Defect::GroupMemberCanBeDeleted,
        "controller/delete-snapshot/of-a-group",
    ),
    (
        Defect::DeleteGroupWithoutId,
        "group-controller/delete-volume-group-snapshot/without-id",
    ),
    (
        Defect::DeleteGroupUnknownIsNotFound,
        "group-controller/delete-volume-group-snapshot/is-idempotent",
    ),
    (
        Defect::DeleteGroupKeepsSnapshots,
        "group-controller/delete-volume-group-snapshot/deletes-the-snapshots",
    ),
    (
        Defect::DeleteGroupIgnoresSnapshotIds,
        "group-controller/delete-volume-group-snapshot/with-other-snapshots",
    ),
    (
        Defect::GetGroupWithoutId,
        "group-controller/get-volume-group-snapshot/without-id",
    ),
    (
        Defect::GetGroupUnknown,
        "group-controller/get-volume-group-snapshot/unknown",
    ),
    (
        Defect::GetGroupIgnoresSnapshotIds,
        "group-controller/get-volume-group-snapshot/with-other-snapshots",
    ),
    // Snapshot metadata.
    (
        Defect::MetadataUnordered,
        "snapshot-metadata/get-metadata-allocated/describes-the-snapshot",
    ),
    (
        Defect::MetadataOverlaps,
        "snapshot-metadata/get-metadata-allocated/describes-the-snapshot",
    ),
    (
        Defect::MetadataIgnoresStartingOffset,
        "snapshot-metadata/get-metadata-allocated/begins-at-the-offset",
    ),
    (
        Defect::MetadataIgnoresMaxResults,
        "snapshot-metadata/get-metadata-allocated/in-small-messages",
    ),
    (
        Defect::MetadataRangeIsEmpty,
        "snapshot-metadata/get-metadata-allocated/describes-the-snapshot",
    ),
    (
        Defect::MetadataTypeMissing,
        "snapshot-metadata/get-metadata-allocated/describes-the-snapshot",
    ),
    (
        Defect::MetadataCapacityChanges,
        "snapshot-metadata/get-metadata-allocated/describes-the-snapshot",
    ),
    (
        Defect::MetadataBeyondEnd,
        "snapshot-metadata/get-metadata-allocated/describes-the-snapshot",
    ),
    (
        Defect::MetadataUnknownSnapshot,
        "snapshot-metadata/get-metadata-allocated/unknown",
    ),
    (
        Defect::MetadataNegativeOffset,
        "snapshot-metadata/get-metadata-allocated/impossible-offset",
    ),
    (
        Defect::MetadataOffsetBeyondEnd,
        "snapshot-metadata/get-metadata-allocated/impossible-offset",
    ),
    (
        Defect::MetadataWithoutSnapshotId,
        "snapshot-metadata/get-metadata-allocated/without-id",
    ),
    (
        Defect::DeltaIgnoresBase,
        "snapshot-metadata/get-metadata-delta/has-what-changed",
    ),
    (
        Defect::DeltaUnknownBase,
        "snapshot-metadata/get-metadata-delta/unknown",
    ),
    (
        Defect::DeltaWithoutBase,
        "snapshot-metadata/get-metadata-delta/without-one-id",
    ),
    // Node.
    (Defect::NodeIdMissing, "node/info/has-an-id"),
    (Defect::NodeIdTooLong, "node/info/has-an-id"),
    (Defect::NodeIdChanges, "node/info/is-constant"),
    (
        Defect::NodeMaxVolumesNegative,
        "node/info/limits-are-not-negative",
    ),
    (
        Defect::NodeTopologyUnadvertised,
        "node/info/topology-is-advertised",
    ),
    (
        Defect::NodeTopologyInvalid,
        "node/info/topology-is-advertised",
    ),
    (Defect::StageWithoutVolumeId, "node/stage/without-id"),
    (Defect::StageWithoutPath, "node/stage/without-path"),
    (
        Defect::StageWithoutCapability,
        "node/stage/without-capability",
    ),
    (Defect::StageUnknownVolume, "node/stage/of-a-deleted-volume"),
    (Defect::StageRepeatFails, "node/stage/is-idempotent"),
    (
        Defect::StageIgnoresCapability,
        "node/stage/with-another-capability",
    ),
    (Defect::UnstageWithoutVolumeId, "node/unstage/without-id"),
    (Defect::UnstageWithoutPath, "node/unstage/without-path"),
    (Defect::UnstageRepeatFails, "node/unstage/is-idempotent"),
    (Defect::PublishWithoutVolumeId, "node/publish/without-id"),
    (Defect::PublishWithoutTarget, "node/publish/without-path"),
    (
        Defect::PublishWithoutCapability,
        "node/publish/without-capability",
    ),
    (Defect::PublishWithoutStage, "node/publish/without-staging"),
    (
        Defect::PublishUnknownVolume,
        "node/publish/of-a-deleted-volume",
    ),
    (Defect::PublishRepeatFails, "node/publish/is-idempotent"),
    (
        Defect::PublishIgnoresReadonly,
        "node/publish/with-another-readonly",
    ),
    (
        Defect::PublishIgnoresCapability,
        "node/publish/with-another-capability",
    ),
    (Defect::PublishMakesNothing, "node/publish/makes-the-target"),
    (Defect::BlockTargetIsFolder, "node/publish/makes-the-target"),
    (
        Defect::SingleWriterAtTwoPaths,
        "node/publish/for-a-single-writer-at-two-paths",
    ),
    (
        Defect::UnpublishWithoutVolumeId,
        "node/unpublish/without-id",
    ),
    (
        Defect::UnpublishWithoutTarget,
        "node/unpublish/without-path",
    ),
    (Defect::UnpublishRepeatFails, "node/unpublish/is-idempotent"),
    (
        Defect::UnpublishLeavesTarget,
        "node/unpublish/removes-the-target",
    ),
    (
        Defect::UnpublishTakesAllTargets,
        "node/publish/at-two-paths",
    ),
    (Defect::UnpublishLosesData, "node/publish/keeps-data"),
    (Defect::StatsWithoutVolumeId, "node/stats/without-id"),
    (Defect::StatsWithoutPath, "node/stats/without-path"),
    (Defect::StatsAtUnknownPath, "node/stats/at-another-path"),
    (Defect::StatsNegative, "node/stats/are-of-the-volume"),
    (Defect::StatsUnitMissing, "node/stats/are-of-the-volume"),
    (Defect::StatsTotalMissing, "node/stats/are-of-the-volume"),
    (Defect::StatsConditionMissing, "node/stats/have-a-condition"),
    (Defect::NodeExpandWithoutVolumeId, "node/expand/without-id"),
    (Defect::NodeExpandWithoutPath, "node/expand/without-path"),
    (
        Defect::NodeExpandUnknownVolume,
        "node/expand/of-a-deleted-volume",
    ),
    (Defect::NodeExpandAnswersOldSize, "node/expand/expands"),
];

/// What a driver with every capability is not asked, and why.
const SKIPPED: [(&str, &str); 5] = [
    (
        "controller/capabilities/others-are-unimplemented",
        "there is no such RPC",
    ),
    (
        "controller/create-volume/from-a-source-that-is-not-advertised",
        "both kinds of sources are advertised",
    ),
    // It runs for each access type and is about one.
    ("node/publish/block-as-a-device", "shown with block"),
    // The reference driver makes links and files.
    (
        "node/publish/readonly",
        "the driver does not mount here: nothing could keep writers out",
    ),
    (
        "node/publish/readonly@block",
        "the driver does not mount here: nothing could keep writers out",
    ),
];

/// A driver in which the defect shows, and is the only thing that is wrong.
fn driver_with(defect: Defect) -> Options {
    let options = Options::default().with(defect);
    match defect {
        // Only what is not advertised can be answered wrongly.
        Defect::UnadvertisedIsInternal => {
            options.without_controller(ControllerCapability::ModifyVolume)
        }
        Defect::VolumeTopologyUnadvertised | Defect::NodeTopologyUnadvertised => {
            options.without_service(PluginService::VolumeAccessibilityConstraints)
        }
        // A group is ready with its snapshots, so one that is ready too early needs slow ones.
        Defect::GroupReadyTooEarly => Options {
            looks_until_ready: 3,
            ..options
        },
        // The calls that meet it must not be over before.
        _ if is_about_time(defect) => Options {
            pace: Duration::from_millis(100),
            ..options
        },
        _ => options,
    }
}

/// Whether the defect shows when a call meets another one, or ends before its time.
fn is_about_time(defect: Defect) -> bool {
    let name = format!("{defect:?}");
    name.starts_with("Parallel") || name.starts_with("Cancelled")
}

/// Whether the defect shows by something that never comes, for which nobody should wait long.
fn is_waited_for(defect: Defect) -> bool {
    matches!(
        defect,
        Defect::ParallelCallsHang
            | Defect::CancelledCallKeepsLock
            | Defect::CancelledCreateVolumeLeavesName
            | Defect::CancelledCreateSnapshotLeavesName
            | Defect::SnapshotNeverReady
            | Defect::ProbeNeverReady
    )
}

/// All that a run against this driver can be told, so that nothing is skipped for want of it.
fn settings_for(driver: &mut ReferenceDriver) -> Settings {
    let mut settings = Settings::of(driver.endpoint());
    settings.mount_parent = Some(driver.workplace());
    settings.restart_command = Some(driver.restart_command());
    settings.mutable_parameters = [("tier".to_owned(), "fast".to_owned())].into();
    settings.volume_size = 64 << 20;
    settings.seed = Some(1);
    // What the specification only recommends counts as well: the reference keeps it, some defects do not.
    settings.strict = true;
    settings
}

fn run_to_the_end(settings: Settings) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(settings)).unwrap()
}

/// Why the cases of a run were skipped.
fn skipped(report: &Report) -> BTreeMap<&str, &str> {
    let reasons = report.results.iter();
    let reasons = reasons.filter_map(|result| match &result.outcome {
        Outcome::Skipped(reason) => Some((result.name.as_str(), reason.as_str())),
        _ => None,
    });
    reasons.collect()
}

#[test]
fn the_reference_passes_every_case() {
    let secrets: BTreeMap<_, _> = [("token".to_owned(), "not-for-logs".to_owned())].into();
    let mut driver = ReferenceDriver::start(Options {
        secrets: secrets.clone(),
        ..Options::default()
    });
    let mut settings = settings_for(&mut driver);
    settings.secrets = secrets;
    let report = run_to_the_end(settings);
    assert!(report.is_success(), "{report}");
    assert_eq!(skipped(&report), BTreeMap::from(SKIPPED));
    assert_eq!(driver.left_behind(), [""; 0]);
    let workplace = std::fs::read_dir(driver.workplace()).unwrap();
    assert_eq!(workplace.count(), 0, "files were left");
}

#[test]
fn drivers_that_can_do_less_pass_too() {
    let slow_snapshots = Options {
        looks_until_ready: 2,
        ..Options::default()
    };
    let offline = Options {
        expansion: Some(Expansion::Offline),
        ..Options::default()
    };
    let unstaged = Options::default()
        .without_node(NodeCapability::StageUnstageVolume)
        .without_controller(ControllerCapability::PublishUnpublishVolume)
        .without_controller(ControllerCapability::PublishReadonly)
        .without_controller(ControllerCapability::ListVolumesPublishedNodes);
    let unplaced =
        Options::default().without_service(PluginService::VolumeAccessibilityConstraints);
    let without_snapshots = Options::default()
        .without_service(PluginService::GroupControllerService)
        .without_service(PluginService::SnapshotMetadataService)
        .without_controller(ControllerCapability::CreateDeleteSnapshot)
        .without_controller(ControllerCapability::ListSnapshots)
        .without_controller(ControllerCapability::GetSnapshot)
        .without_controller(ControllerCapability::CloneVolume);
    let drivers = [
        ("slow snapshots", slow_snapshots),
        ("offline", offline),
        ("unstaged", unstaged),
        ("unplaced", unplaced),
        ("without snapshots", without_snapshots),
        ("minimal", Options::minimal()),
    ];
    each(&drivers, |(name, options)| {
        let mut driver = ReferenceDriver::start(options.clone());
        let report = run_to_the_end(settings_for(&mut driver));
        assert!(report.is_success(), "{name}\n{report}");
        assert!(report.counts().passed > 0, "{name}\n{report}");
        assert_eq!(driver.left_behind(), [""; 0], "{name}");
    });
}

#[test]
fn a_skip_names_what_is_not_advertised() {
    let options = Options::default().without_controller(ControllerCapability::ListSnapshots);
    let mut driver = ReferenceDriver::start(options);
    let mut settings = settings_for(&mut driver);
    settings.filter = vec!["list-snapshots".to_owned()];
    let report = run_to_the_end(settings);
    let skipped = skipped(&report);
    assert_eq!(skipped.len(), report.results.len(), "{report}");
    for (name, reason) in skipped {
        assert!(reason.contains("LIST_SNAPSHOTS"), "{name}: {reason}");
    }
}

#[test]
fn every_defect_is_found_by_the_case_that_is_about_it() {
    let listed: BTreeSet<_> = FOUND_BY.iter().map(|(defect, _)| *defect).collect();
    let unlisted: Vec<_> = Defect::ALL
        .iter()
        .filter(|one| !listed.contains(one))
        .collect();
    assert!(unlisted.is_empty(), "no case is named for {unlisted:?}");
    let missed = Mutex::new(Vec::new());
    each(FOUND_BY, |&(defect, case)| {
        let mut driver = ReferenceDriver::start(driver_with(defect));
        let mut settings = settings_for(&mut driver);
        settings.filter = vec![case.to_owned()];
        if is_waited_for(defect) {
            settings.timeout = Duration::from_millis(300);
            settings.case_limit = Duration::from_millis(1500);
        }
        let report = run_to_the_end(settings);
        // A case that runs for each access type has the type at the end of its name.
        let is_it = |name: &str| name.split('@').next() == Some(case);
        if !report.failed().any(is_it) {
            missed
                .lock()
                .unwrap()
                .push(format!("{defect}\nby {case}\n{report}"));
        }
    });
    let missed = missed.into_inner().unwrap();
    assert!(missed.is_empty(), "not found:\n{}", missed.join("\n"));
}

/// Does something with each, several at a time.
fn each<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(one);
                }
            });
        }
    });
}
