//! The cases that meet a defect in a whole run besides the case that is about it, and so fail too. All other cases pass.
//!
//! They are of three kinds. The same mistake is made by several RPCs, each with its own case. Or a call shows one mistake
//! in several ways: as an answer, at the same time, when it is repeated. Or a case cannot do without the call: it repeats a
//! creation, restores what was to be there, or needs a volume that goes away. `*` stands for most cases.

use crate::support::reference::Defect;

/// The ends of names of cases in which it is a matter of time whether a call comes to its mistake.
const OF_TIME: [&str; 6] = [
    "/given-up",
    "/deadline-too-short",
    "/at-the-same-time",
    "-at-once",
    "/while-created-again",
    "/restart-in-mid-call",
];

macro_rules! meets {
    ($($defect:ident => $($case:literal),+;)+) => {
        /// Whether a case beyond the one about it meets this defect.
        pub fn meets(defect: Defect, case: &str) -> bool {
            let cases: &[&str] = match defect {
                $(Defect::$defect => &[$($case),+],)+
                _ => &[],
            };
            let is_of_time = !cases.is_empty() && OF_TIME.iter().any(|end| case.ends_with(end));
            cases.contains(&"*") || cases.contains(&case) || is_of_time
        }
    };
}

meets! {
    CapabilityWithoutItsBase => "controller/capabilities/others-are-unimplemented", "lifecycle/publish-and-remove";
    ProbeFails => "controller/create-snapshot/survives-a-restart",
        "group-controller/create-volume-group-snapshot/survives-a-restart", "identity/probe/can-be-called-at-any-time",
        "lifecycle/restart-between-any-two-steps", "lifecycle/restart-in-mid-call", "lifecycle/restart-while-published",
        "protocol/broken-requests-are-refused", "protocol/unknown-fields-are-ignored",
        "protocol/unknown-metadata-is-ignored", "protocol/unknown-methods-are-unimplemented";
    GroupControllerMissing => "group-controller/get-capabilities/answers";
    SnapshotMetadataMissing => "snapshot-metadata/get-metadata-allocated/begins-at-the-offset",
        "snapshot-metadata/get-metadata-allocated/describes-the-snapshot",
        "snapshot-metadata/get-metadata-allocated/given-up",
        "snapshot-metadata/get-metadata-allocated/has-what-was-written",
        "snapshot-metadata/get-metadata-allocated/impossible-offset",
        "snapshot-metadata/get-metadata-allocated/in-small-messages",
        "snapshot-metadata/get-metadata-allocated/strange-ids", "snapshot-metadata/get-metadata-allocated/unknown",
        "snapshot-metadata/get-metadata-allocated/without-id",
        "snapshot-metadata/get-metadata-delta/begins-at-the-offset",
        "snapshot-metadata/get-metadata-delta/has-what-changed",
        "snapshot-metadata/get-metadata-delta/impossible-offset",
        "snapshot-metadata/get-metadata-delta/in-small-messages", "snapshot-metadata/get-metadata-delta/is-constant",
        "snapshot-metadata/get-metadata-delta/unknown", "snapshot-metadata/get-metadata-delta/without-ids",
        "snapshot-metadata/get-metadata-delta/without-one-id";
    UnknownFieldsRejected => "protocol/unknown-fields-of-changes-are-ignored";
    HostileIdIsInternal => "controller/delete-snapshot/strange-ids", "controller/get-snapshot/strange-ids",
        "controller/get-volume/with-a-hostile-id", "controller/validate/with-a-hostile-id",
        "group-controller/delete-volume-group-snapshot/strange-ids",
        "group-controller/get-volume-group-snapshot/strange-ids", "node/publish/with-a-hostile-id",
        "node/unpublish/with-a-hostile-id", "snapshot-metadata/get-metadata-allocated/strange-ids";
    LongIdPanics => "controller/delete-snapshot/strange-ids", "controller/get-snapshot/strange-ids",
        "controller/validate/with-a-long-id", "group-controller/delete-volume-group-snapshot/strange-ids",
        "group-controller/get-volume-group-snapshot/strange-ids",
        "snapshot-metadata/get-metadata-allocated/strange-ids";
    ErrorsEchoSecrets => "secrets/are-not-in-errors-of-the-node", "secrets/were-in-no-answer";
    MissingSecretsAreInternal => "secrets/are-not-in-the-volume";
    VolumesLostOnRestart => "controller/create-snapshot/survives-a-restart",
        "group-controller/create-volume-group-snapshot/survives-a-restart", "lifecycle/restart-in-mid-call";
    NodeStateLostOnRestart => "lifecycle/restart-while-published";
    AttachmentsLostOnRestart => "controller/get-volume/shows-published-nodes", "controller/publish/to-two-nodes",
        "controller/publish/with-another-capability", "controller/publish/with-another-readonly";
    ExpansionsLostOnRestart => "controller/expand/while-published", "node/expand/expands";
    CreateVolumeMissingFieldIsInternal => "controller/create-volume/with-a-control-character",
        "controller/create-volume/with-a-name-that-is-too-long", "controller/create-volume/with-a-source-of-no-type",
        "controller/create-volume/with-an-unknown-access-mode", "controller/create-volume/with-large-parameters",
        "controller/create-volume/without-access-mode", "controller/create-volume/without-access-type",
        "controller/create-volume/without-capabilities";
    CreateVolumeRepeatMakesAnother => "controller/create-volume/at-the-same-time",
        "controller/create-volume/data-of-the-volume", "controller/create-volume/deadline-too-short",
        "controller/create-volume/equal-copies-at-once", "controller/create-volume/from-snapshot",
        "controller/create-volume/from-volume", "controller/create-volume/given-up",
        "controller/create-volume/name-of-a-volume-from-elsewhere", "controller/create-volume/outlives-its-snapshot",
        "controller/create-volume/with-a-range-that-fits", "controller/create-volume/with-another-size",
        "controller/delete-snapshot/leaves-the-others", "controller/expand/keeps-the-name",
        "controller/modify/keeps-the-name", "controller/modify/when-created", "lifecycle/restart-between-any-two-steps",
        "lifecycle/restart-in-mid-call", "protocol/unknown-fields-of-changes-are-ignored";
    CreateVolumeRepeatFails => "controller/create-volume/at-the-same-time",
        "controller/create-volume/context-is-constant", "controller/create-volume/copy-given-up",
        "controller/create-volume/data-of-the-volume", "controller/create-volume/deadline-too-short",
        "controller/create-volume/equal-copies-at-once", "controller/create-volume/from-snapshot",
        "controller/create-volume/from-volume", "controller/create-volume/given-up",
        "controller/create-volume/outlives-its-snapshot", "controller/create-volume/with-a-range-that-fits",
        "controller/delete-snapshot/leaves-the-others", "controller/delete-volume/while-created-again",
        "controller/modify/when-created", "lifecycle/every-step-twice", "lifecycle/restart-between-any-two-steps",
        "lifecycle/restart-in-mid-call", "protocol/unknown-fields-of-changes-are-ignored";
    CreateVolumeIgnoresRequiredBytes => "controller/create-volume/from-larger-snapshot",
        "controller/expand/never-shrinks", "snapshot-metadata/get-metadata-allocated/describes-the-snapshot";
    CreateVolumeReversedRange => "controller/expand/of-a-reversed-range";
    VolumeIdMissing => "controller/create-volume/different-ones-at-the-same-time";
    VolumeIdTooLong => "*";
    VolumeContextHasSecrets => "secrets/were-in-no-answer";
    VolumeContextTooLarge => "replies/controller-get-volume", "replies/list-volumes";
    LongNameRefused => "controller/create-snapshot/takes-any-name",
        "group-controller/create-volume-group-snapshot/takes-any-name";
    UnicodeNameRefused => "controller/create-snapshot/takes-any-name",
        "group-controller/create-volume-group-snapshot/takes-any-name";
    RestoreOfUnknownSnapshot => "controller/delete-snapshot/deletes",
        "group-controller/delete-volume-group-snapshot/deletes-the-snapshots";
    MissingSourceIsInternal => "controller/create-volume/from-unknown-volume", "controller/delete-snapshot/deletes",
        "group-controller/delete-volume-group-snapshot/deletes-the-snapshots";
    ParallelCreateVolumeMakesTwo => "*";
    UnknownAccessModeAccepted => "controller/validate/does-not-confirm-what-is-not-supported";
    VolumeInWrongZone => "controller/create-volume/at-the-same-time", "controller/create-volume/context-is-constant",
        "controller/create-volume/copy-given-up", "controller/create-volume/data-of-the-volume",
        "controller/create-volume/deadline-too-short", "controller/create-volume/equal-copies-at-once",
        "controller/create-volume/from-snapshot", "controller/create-volume/from-volume",
        "controller/create-volume/given-up", "controller/create-volume/in-a-place-that-does-not-exist",
        "controller/create-volume/is-idempotent", "controller/create-volume/outlives-its-snapshot",
        "controller/create-volume/with-a-range-that-fits", "controller/delete-snapshot/leaves-the-others",
        "controller/modify/when-created", "lifecycle/every-step-twice", "lifecycle/restart-between-any-two-steps",
        "lifecycle/restart-in-mid-call", "protocol/unknown-fields-of-changes-are-ignored", "replies/create-volume";
    DeleteVolumeUnknownIsNotFound => "controller/delete-volume/at-the-same-time", "controller/delete-volume/given-up",
        "controller/delete-volume/late-repetition-spares-the-new-volume", "controller/delete-volume/of-an-unknown-id",
        "controller/delete-volume/while-created-again", "controller/delete-volume/with-a-hostile-id",
        "controller/delete-volume/with-a-long-id", "lifecycle/every-step-twice",
        "lifecycle/restart-between-any-two-steps";
    DeleteVolumeKeepsVolume => "controller/create-snapshot/of-unknown-volume",
        "controller/create-volume/from-unknown-volume", "controller/delete-volume/frees-the-name",
        "controller/delete-volume/given-up", "controller/expand/of-a-deleted-volume",
        "controller/get-volume/of-a-deleted-volume", "controller/list-volumes/shows-every-volume-once",
        "controller/modify/of-a-deleted-volume", "controller/publish/of-a-deleted-volume",
        "group-controller/create-volume-group-snapshot/with-unknown-volume", "node/stage/of-a-deleted-volume";
    ControllerPublishRepeatFails => "controller/publish/at-the-same-time", "controller/publish/given-up",
        "lifecycle/every-step-twice", "lifecycle/restart-between-any-two-steps";
    PublishContextChanges => "controller/publish/at-the-same-time";
    ControllerUnpublishRepeatFails => "controller/publish/given-up", "controller/unpublish/at-the-same-time",
        "controller/unpublish/of-a-deleted-volume", "lifecycle/every-step-twice",
        "lifecycle/restart-between-any-two-steps";
    ControllerUnpublishKeepsAttachment => "*";
    ValidateUnknownVolume => "controller/delete-volume/deletes", "controller/delete-volume/given-up",
        "controller/validate/with-a-hostile-id", "controller/validate/with-a-long-id";
    ValidateConfirmsNothing => "controller/create-volume/with-two-capabilities", "controller/validate/is-constant";
    ListVolumesRepeatsEntries => "replies/list-volumes";
    ListVolumesBadTokenIsInvalidArgument => "controller/list-snapshots/bad-token";
    ListVolumesNeverEnds => "*";
    ListVolumesNegativeMaxEntries => "controller/list-snapshots/negative-max-entries";
    ListVolumesForgetsNewest => "controller/list-volumes/page-by-page";
    PublishedNodesMissing => "controller/get-volume/shows-published-nodes";
    VolumeConditionMissing => "controller/get-volume/shows-the-condition";
    GetVolumeUnknown => "controller/get-volume/of-a-deleted-volume", "controller/get-volume/with-a-hostile-id";
    GetVolumeWithoutStatus => "controller/get-volume/shows-published-nodes",
        "controller/get-volume/shows-the-condition";
    GetCapacityUnimplemented => "controller/capabilities/advertised-rpcs-are-there",
        "controller/get-capacity/of-capabilities-and-parameters";
    ExpandAnswersOldSize => "controller/expand/is-idempotent", "replies/controller-expand-volume";
    ExpandRepeatFails => "controller/expand/at-the-same-time", "controller/expand/never-shrinks";
    ExpandImpossibleSizeIsInternal => "controller/expand/keeps-limit-bytes", "controller/expand/of-a-reversed-range";
    ExpandOnlyOffline => "node/expand/expands";
    ModifyRepeatFails => "controller/modify/at-the-same-time";
    SnapshotOfUnknownVolume => "group-controller/create-volume-group-snapshot/with-unknown-volume";
    CreateSnapshotRepeatMakesAnother => "controller/create-snapshot/becomes-ready",
        "controller/create-snapshot/equal-calls-at-once", "controller/create-snapshot/given-up",
        "controller/create-snapshot/name-of-another-volume", "controller/create-snapshot/survives-a-restart",
        "controller/delete-snapshot/leaves-the-others", "controller/delete-snapshot/while-created-again",
        "controller/get-snapshot/agrees-with-create-snapshot";
    CreateSnapshotRepeatFails => "controller/create-snapshot/becomes-ready",
        "controller/create-snapshot/deadline-too-short", "controller/create-snapshot/equal-calls-at-once",
        "controller/create-snapshot/given-up", "controller/create-snapshot/survives-a-restart",
        "controller/delete-snapshot/leaves-the-others", "controller/delete-snapshot/while-created-again",
        "controller/get-snapshot/agrees-with-create-snapshot";
    SnapshotReadinessLost => "*";
    SnapshotSizeNegative => "replies/create-volume-group-snapshot", "replies/get-snapshot",
        "replies/get-volume-group-snapshot", "replies/list-snapshots";
    SnapshotTimeMissing => "replies/create-volume-group-snapshot", "replies/get-snapshot",
        "replies/get-volume-group-snapshot", "replies/list-snapshots";
    SnapshotTimeMoves => "controller/create-snapshot/becomes-ready", "controller/create-snapshot/survives-a-restart",
        "controller/delete-snapshot/leaves-the-others", "controller/delete-snapshot/of-a-group",
        "controller/get-snapshot/agrees-with-create-snapshot", "controller/list-snapshots/at-once",
        "controller/list-snapshots/has-every-snapshot", "controller/list-snapshots/of-a-snapshot-and-another-volume",
        "controller/list-snapshots/of-one-snapshot", "controller/list-snapshots/of-one-volume",
        "group-controller/create-volume-group-snapshot/is-idempotent",
        "group-controller/create-volume-group-snapshot/snapshots-show-as-such",
        "group-controller/create-volume-group-snapshot/survives-a-restart",
        "group-controller/delete-volume-group-snapshot/deletes-the-snapshots",
        "group-controller/delete-volume-group-snapshot/while-created-again",
        "group-controller/delete-volume-group-snapshot/with-other-snapshots",
        "group-controller/get-volume-group-snapshot/agrees-with-create-volume-group-snapshot";
    SnapshotSourceMissing => "group-controller/create-volume-group-snapshot/describes-the-group",
        "replies/create-snapshot", "replies/create-volume-group-snapshot", "replies/get-snapshot",
        "replies/get-volume-group-snapshot", "replies/list-snapshots";
    SnapshotIdTooLong => "controller/create-volume/copy-given-up", "controller/create-volume/data-of-the-snapshot",
        "controller/create-volume/equal-copies-at-once", "controller/create-volume/from-larger-snapshot",
        "controller/create-volume/from-one-snapshot-at-once", "controller/create-volume/from-snapshot",
        "controller/create-volume/name-of-a-volume-from-elsewhere", "controller/create-volume/outlives-its-snapshot",
        "controller/delete-snapshot/while-created-again", "controller/delete-volume/leaves-snapshots-whole",
        "group-controller/create-volume-group-snapshot/snapshots-are-sources", "replies/create-volume-group-snapshot",
        "replies/list-snapshots", "snapshot-metadata/get-metadata-allocated/has-what-was-written",
        "snapshot-metadata/get-metadata-delta/has-what-changed";
    SnapshotFollowsVolume => "controller/delete-volume/leaves-snapshots-whole";
    DeleteSnapshotUnknownIsNotFound => "controller/delete-snapshot/equal-calls-at-once",
        "controller/delete-snapshot/given-up", "controller/delete-snapshot/strange-ids";
    DeleteSnapshotKeepsSnapshot => "controller/create-volume/from-unknown-snapshot",
        "controller/delete-snapshot/equal-calls-at-once", "controller/get-snapshot/unknown",
        "controller/list-snapshots/has-every-snapshot", "controller/list-snapshots/of-what-does-not-exist",
        "snapshot-metadata/get-metadata-allocated/unknown", "snapshot-metadata/get-metadata-delta/unknown";
    ListSnapshotsIgnoresSource => "controller/create-snapshot/deadline-too-short",
        "controller/create-snapshot/equal-calls-at-once", "controller/create-snapshot/given-up",
        "controller/create-snapshot/is-idempotent", "controller/delete-snapshot/deletes",
        "controller/delete-snapshot/equal-calls-at-once", "controller/delete-snapshot/while-created-again",
        "controller/delete-volume/leaves-snapshots-whole", "controller/list-snapshots/at-once",
        "controller/list-snapshots/in-pages", "controller/list-snapshots/of-a-snapshot-and-another-volume",
        "controller/list-snapshots/of-what-does-not-exist",
        "group-controller/create-volume-group-snapshot/deadline-too-short",
        "group-controller/create-volume-group-snapshot/describes-the-group",
        "group-controller/create-volume-group-snapshot/equal-calls-at-once",
        "group-controller/create-volume-group-snapshot/given-up",
        "group-controller/create-volume-group-snapshot/is-idempotent",
        "group-controller/create-volume-group-snapshot/with-unknown-volume",
        "group-controller/delete-volume-group-snapshot/deletes-the-snapshots",
        "group-controller/delete-volume-group-snapshot/while-created-again";
    ListSnapshotsIgnoresId => "controller/create-snapshot/becomes-ready",
        "controller/list-snapshots/of-what-does-not-exist",
        "group-controller/create-volume-group-snapshot/snapshots-show-as-such";
    ListSnapshotsRepeatsEntries => "controller/list-snapshots/all-in-pages";
    ListSnapshotsLosesEntries => "controller/list-snapshots/all-in-pages";
    ListSnapshotsForgetsNewest => "controller/create-snapshot/deadline-too-short",
        "controller/create-snapshot/equal-calls-at-once", "controller/create-snapshot/given-up",
        "controller/create-snapshot/is-idempotent", "controller/delete-snapshot/while-created-again",
        "controller/delete-volume/leaves-snapshots-whole", "controller/list-snapshots/all-in-pages",
        "controller/list-snapshots/at-once", "controller/list-snapshots/in-pages",
        "controller/list-snapshots/of-a-snapshot-and-another-volume", "controller/list-snapshots/of-one-snapshot",
        "controller/list-snapshots/of-one-volume", "group-controller/create-volume-group-snapshot/deadline-too-short",
        "group-controller/create-volume-group-snapshot/describes-the-group",
        "group-controller/create-volume-group-snapshot/equal-calls-at-once",
        "group-controller/create-volume-group-snapshot/given-up",
        "group-controller/create-volume-group-snapshot/is-idempotent",
        "group-controller/create-volume-group-snapshot/snapshots-show-as-such",
        "group-controller/delete-volume-group-snapshot/deletes-the-snapshots",
        "group-controller/delete-volume-group-snapshot/while-created-again";
    GetSnapshotUnknown => "controller/delete-snapshot/deletes", "controller/get-snapshot/strange-ids",
        "group-controller/delete-volume-group-snapshot/deletes-the-snapshots";
    GetSnapshotDiffers => "group-controller/create-volume-group-snapshot/snapshots-show-as-such";
    GroupIsPartial => "group-controller/create-volume-group-snapshot/deadline-too-short",
        "group-controller/create-volume-group-snapshot/equal-calls-at-once",
        "group-controller/create-volume-group-snapshot/given-up",
        "group-controller/create-volume-group-snapshot/is-idempotent",
        "group-controller/delete-volume-group-snapshot/deletes-the-snapshots",
        "group-controller/delete-volume-group-snapshot/while-created-again",
        "group-controller/delete-volume-group-snapshot/with-other-snapshots",
        "group-controller/get-volume-group-snapshot/with-other-snapshots", "replies/create-volume-group-snapshot";
    CreateGroupRepeatMakesAnother => "group-controller/create-volume-group-snapshot/equal-calls-at-once",
        "group-controller/create-volume-group-snapshot/given-up",
        "group-controller/create-volume-group-snapshot/name-of-another-group",
        "group-controller/create-volume-group-snapshot/survives-a-restart",
        "group-controller/delete-volume-group-snapshot/while-created-again";
    GroupReadyTooEarly => "group-controller/create-volume-group-snapshot/snapshots-are-sources",
        "replies/create-volume-group-snapshot", "replies/get-volume-group-snapshot";
    GroupTimeMissing => "replies/get-volume-group-snapshot";
    DeleteGroupUnknownIsNotFound => "group-controller/delete-volume-group-snapshot/equal-calls-at-once",
        "group-controller/delete-volume-group-snapshot/given-up",
        "group-controller/delete-volume-group-snapshot/strange-ids";
    DeleteGroupKeepsSnapshots => "group-controller/delete-volume-group-snapshot/while-created-again";
    GetGroupUnknown => "group-controller/delete-volume-group-snapshot/deletes-the-snapshots",
        "group-controller/delete-volume-group-snapshot/equal-calls-at-once",
        "group-controller/get-volume-group-snapshot/strange-ids";
    MetadataOverlaps => "replies/get-metadata-delta";
    MetadataIgnoresStartingOffset => "replies/get-metadata-delta";
    MetadataLostBetweenMessages => "snapshot-metadata/get-metadata-allocated/begins-at-the-offset",
        "snapshot-metadata/get-metadata-allocated/has-what-was-written";
    MetadataSkipsAfterOffset => "snapshot-metadata/get-metadata-delta/begins-at-the-offset";
    MetadataRangeIsEmpty => "replies/get-metadata-delta";
    MetadataTypeMissing => "replies/get-metadata-delta";
    MetadataUnknownSnapshot => "snapshot-metadata/get-metadata-allocated/strange-ids",
        "snapshot-metadata/get-metadata-delta/unknown";
    MetadataNegativeOffset => "snapshot-metadata/get-metadata-delta/impossible-offset";
    MetadataOffsetBeyondEnd => "snapshot-metadata/get-metadata-delta/impossible-offset";
    MetadataWithoutSnapshotId => "snapshot-metadata/get-metadata-delta/without-one-id";
    NodeIdMissing => "lifecycle/publish-and-remove";
    NodeIdTooLong => "lifecycle/publish-and-remove", "replies/node-get-info";
    NodeIdChanges => "lifecycle/publish-and-remove";
    NodeMaxVolumesNegative => "replies/node-get-info";
    NodeTopologyInvalid => "lifecycle/make-and-remove";
    StageWithoutCapability => "node/stage/of-a-deleted-volume";
    StageRepeatFails => "lifecycle/every-step-twice", "lifecycle/restart-between-any-two-steps",
        "node/stage/at-the-same-time", "node/stage/given-up";
    UnstageRepeatFails => "lifecycle/every-step-twice", "lifecycle/restart-between-any-two-steps", "node/stage/given-up",
        "node/unstage/at-the-same-time", "node/unstage/of-a-deleted-volume";
    PublishWithoutStage => "node/publish/without-staging-path";
    PublishUnknownVolume => "node/publish/with-a-hostile-id";
    PublishRepeatFails => "lifecycle/every-step-twice", "lifecycle/restart-between-any-two-steps",
        "node/publish/at-the-same-time", "node/publish/given-up", "node/publish/readonly",
        "node/unpublish/while-published";
    PublishedVolumesShareData => "controller/create-volume/data-of-the-snapshot",
        "controller/create-volume/data-of-the-volume", "node/publish/at-two-paths", "node/publish/keeps-data",
        "node/publish/of-another-volume-at-the-same-path", "node/unpublish/while-published",
        "snapshot-metadata/get-metadata-allocated/has-what-was-written",
        "snapshot-metadata/get-metadata-delta/has-what-changed";
    PublishMakesNothing => "*";
    BlockTargetIsFolder => "controller/create-volume/data-of-the-snapshot",
        "controller/create-volume/data-of-the-volume", "lifecycle/restart-while-published",
        "node/publish/at-the-same-time", "node/publish/at-two-paths", "node/publish/block-as-a-device",
        "node/publish/keeps-data", "node/publish/of-another-volume-at-the-same-path", "node/publish/volumes-are-apart",
        "node/unpublish/while-published", "snapshot-metadata/get-metadata-allocated/begins-at-the-offset",
        "snapshot-metadata/get-metadata-allocated/describes-the-snapshot",
        "snapshot-metadata/get-metadata-allocated/given-up",
        "snapshot-metadata/get-metadata-allocated/has-what-was-written",
        "snapshot-metadata/get-metadata-allocated/in-small-messages",
        "snapshot-metadata/get-metadata-delta/begins-at-the-offset",
        "snapshot-metadata/get-metadata-delta/has-what-changed",
        "snapshot-metadata/get-metadata-delta/impossible-offset",
        "snapshot-metadata/get-metadata-delta/in-small-messages", "snapshot-metadata/get-metadata-delta/is-constant";
    UnpublishRepeatFails => "lifecycle/every-step-twice", "lifecycle/restart-between-any-two-steps",
        "node/publish/given-up", "node/unpublish/at-the-same-time", "node/unpublish/given-up",
        "node/unpublish/of-a-deleted-volume", "node/unpublish/while-published", "node/unpublish/with-a-hostile-id";
    UnpublishLeavesTarget => "lifecycle/delete-while-published", "lifecycle/restart-while-published",
        "node/publish/at-the-same-time", "node/publish/at-two-paths", "node/publish/given-up", "node/publish/keeps-data",
        "node/publish/takes-a-target-that-exists", "node/unpublish/at-the-same-time", "node/unpublish/given-up",
        "node/unpublish/while-published";
    UnpublishLosesData => "controller/create-volume/data-of-the-snapshot", "controller/create-volume/data-of-the-volume",
        "node/publish/at-two-paths";
    StatsAtUnknownPath => "node/stats/after-unpublishing", "node/stats/of-a-deleted-volume";
    NodeExpandAnswersOldSize => "replies/node-expand-volume";
    ParallelCreateSnapshotMakesTwo => "*";
    ParallelCreateGroupMakesTwo => "*";
}
