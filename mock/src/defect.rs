//! The defects that the driver can be given, one at a time: each is a mistake that real drivers make. This file
//! owns their names and what they are; the services beside it hold the line that each of them changes.

use crate::defect_names::defects;
use std::fmt;

impl Defect {
    /// Whether it may end the process that the driver runs in.
    pub fn is_fatal(self) -> bool {
        self == Self::LongIdPanics
    }
}

impl fmt::Display for Defect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.name(), self.sentence())
    }
}

defects! {
    // Identity.
    /// The plugin's name has a space and an underscore in it.
    PluginNameInvalid,
    /// The plugin's name has 64 characters.
    PluginNameTooLong,
    /// The plugin has no version.
    PluginVersionMissing,
    /// The manifest has more than 4 KiB.
    ManifestTooLarge,
    /// Every second GetPluginCapabilities lacks the last capability.
    PluginCapabilitiesChange,
    /// Every second ControllerGetCapabilities lacks the last capability.
    ControllerCapabilitiesChange,
    /// Every second NodeGetCapabilities lacks the last capability.
    NodeCapabilitiesChange,
    /// PUBLISH_READONLY is advertised without PUBLISH_UNPUBLISH_VOLUME.
    CapabilityWithoutItsBase,
    /// LIST_VOLUMES_PUBLISHED_NODES is advertised without PUBLISH_UNPUBLISH_VOLUME.
    PublishedNodesWithoutPublishing,
    /// Probe says for ever that the driver is still starting up.
    ProbeNeverReady,
    /// Probe fails with INTERNAL, though everything works.
    ProbeFails,
    /// GROUP_CONTROLLER_SERVICE is advertised, and the service is not there.
    GroupControllerMissing,
    /// SNAPSHOT_METADATA_SERVICE is advertised, and the service is not there.
    SnapshotMetadataMissing,

    // What holds for every RPC.
    /// A request with a field that the driver does not know is refused, so that newer orchestrators cannot talk to it.
    UnknownFieldsRejected,
    /// An id with slashes or dots in it makes a path, and the call ends with INTERNAL.
    HostileIdIsInternal,
    /// An id of more than 128 bytes makes the handler panic.
    LongIdPanics,
    /// Calls for which the driver has no capability end with INTERNAL instead of UNIMPLEMENTED.
    UnadvertisedIsInternal,
    /// Errors repeat the request's secrets.
    ErrorsEchoSecrets,
    /// Errors have a code and no message.
    ErrorsWithoutMessages,
    /// Calls without the secrets that the driver needs end with INTERNAL.
    MissingSecretsAreInternal,
    /// A call that meets another one for the same volume waits for ever.
    ParallelCallsHang,
    /// A call whose caller goes away never gives its lock back.
    CancelledCallKeepsLock,
    /// A CreateVolume that is refused never gives its lock back.
    RefusedCreateVolumeKeepsLock,
    /// The room of deleted volumes is never given back.
    RoomNeverGivenBack,
    /// The places of detached volumes on their node are never given back.
    PlacesNeverGivenBack,
    /// A driver that was restarted knows nothing of its volumes and snapshots.
    VolumesLostOnRestart,
    /// A driver that was restarted knows nothing of what it staged and published.
    NodeStateLostOnRestart,
    /// A driver that was restarted knows nothing of the nodes that volumes are attached to.
    AttachmentsLostOnRestart,
    /// A driver that was restarted describes its volumes with another context.
    VolumeContextChangesOnRestart,
    /// A driver that was restarted has another id for its node.
    NodeIdChangesOnRestart,
    /// A driver that was restarted takes its volumes to be as large as they were made.
    ExpansionsLostOnRestart,

    // CreateVolume.
    /// CreateVolume needs no name.
    CreateVolumeWithoutName,
    /// CreateVolume needs no capabilities.
    CreateVolumeWithoutCapabilities,
    /// Capabilities need no access type.
    CapabilityWithoutAccessType,
    /// Capabilities need no access mode.
    CapabilityWithoutAccessMode,
    /// A missing field is INTERNAL in CreateVolume.
    CreateVolumeMissingFieldIsInternal,
    /// A repeated CreateVolume makes another volume.
    CreateVolumeRepeatMakesAnother,
    /// A repeated CreateVolume is ALREADY_EXISTS.
    CreateVolumeRepeatFails,
    /// A repeated CreateVolume with another size is OK.
    CreateVolumeIgnoresSizeOnRepeat,
    /// A repeated CreateVolume with a limit below the size of the volume is OK.
    CreateVolumeIgnoresLimitOnRepeat,
    /// A repeated CreateVolume with another source is OK.
    CreateVolumeIgnoresSourceOnRepeat,
    /// Volumes are smaller than required_bytes.
    CreateVolumeIgnoresRequiredBytes,
    /// Volumes are larger than limit_bytes.
    CreateVolumeIgnoresLimitBytes,
    /// CreateVolume rounds a size up to whole MiB, also beyond limit_bytes.
    CreateVolumeRoundsBeyondLimit,
    /// A size that is too large for the driver is INTERNAL.
    CreateVolumeImpossibleSizeIsInternal,
    /// A limit below the required size is taken as if it were not there.
    CreateVolumeReversedRange,
    /// A negative size is taken as if it were not there.
    CreateVolumeNegativeSize,
    /// Volumes have no id.
    VolumeIdMissing,
    /// The id of a new volume is the number of volumes that there are then, so that it may be that of another one.
    VolumeIdsAreCounted,
    /// Ids of volumes are longer than 128 bytes.
    VolumeIdTooLong,
    /// The answer to a repeated CreateVolume lacks the volume context.
    VolumeContextLostOnRepeat,
    /// The volume context has the secrets in it.
    VolumeContextHasSecrets,
    /// The volume context is larger than 4 KiB.
    VolumeContextTooLarge,
    /// Names of more than 64 bytes are refused.
    LongNameRefused,
    /// Names are cut after 100 bytes, so that two long ones are one volume.
    LongNamesCollide,
    /// Names that differ only in case are one volume.
    NameCaseIgnored,
    /// Names with control characters are taken.
    ControlCharactersInNames,
    /// Names that are not ASCII are refused.
    UnicodeNameRefused,
    /// A clone of a volume that does not exist is an empty volume.
    CloneOfUnknownVolume,
    /// A volume from a snapshot that does not exist is an empty volume.
    RestoreOfUnknownSnapshot,
    /// A missing source is INTERNAL instead of NOT_FOUND.
    MissingSourceIsInternal,
    /// The answer for a volume from a source does not name the source.
    ContentSourceNotAnswered,
    /// A clone is empty.
    CloneIsEmpty,
    /// A volume from a snapshot is empty.
    RestoreIsEmpty,
    /// A volume from a snapshot may be smaller than the snapshot.
    RestoreIsTooSmall,
    /// Volumes have a topology, though the driver says that it has none.
    VolumeTopologyUnadvertised,
    /// Volumes are made in the driver's own zone, whatever is required.
    RequisiteTopologyIgnored,
    /// Two CreateVolume at once make two volumes.
    ParallelCreateVolumeMakesTwo,
    /// A CreateVolume whose caller goes away leaves a name that can never be used again.
    CancelledCreateVolumeLeavesName,

    // DeleteVolume.
    /// CreateVolume without a size is refused.
    CreateVolumeNeedsSize,
    /// A repeated CreateVolume with another range that the volume fits is ALREADY_EXISTS.
    CreateVolumeComparesRanges,
    /// Access modes that nobody knows are taken.
    UnknownAccessModeAccepted,
    /// A source that is neither a snapshot nor a volume is taken for none.
    SourceWithoutType,
    /// Volumes are made in the last zone, whatever is required.
    VolumeInWrongZone,
    /// A volume from a snapshot is gone when the snapshot is deleted.
    RestoreEndsWithSnapshot,
    /// A snapshot of a group cannot be a source.
    GroupMemberIsNoSource,
    /// DeleteVolume needs no id.
    DeleteVolumeWithoutId,
    /// DeleteVolume of a volume that is not there is NOT_FOUND.
    DeleteVolumeUnknownIsNotFound,
    /// DeleteVolume is OK and keeps the volume.
    DeleteVolumeKeepsVolume,
    /// DeleteVolume takes the volume's snapshots with it.
    DeleteVolumeTakesSnapshots,
    /// DeleteVolume deletes the clones of the volume.
    DeleteVolumeTakesClones,

    // ControllerPublishVolume and ControllerUnpublishVolume.
    /// ControllerPublishVolume needs no volume id.
    ControllerPublishWithoutVolumeId,
    /// ControllerPublishVolume needs no node id.
    ControllerPublishWithoutNodeId,
    /// ControllerPublishVolume needs no capability.
    ControllerPublishWithoutCapability,
    /// ControllerPublishVolume of an unknown volume is INTERNAL.
    ControllerPublishUnknownVolumeIsInternal,
    /// ControllerPublishVolume to an unknown node is OK.
    ControllerPublishUnknownNode,
    /// A repeated ControllerPublishVolume is ALREADY_EXISTS.
    ControllerPublishRepeatFails,
    /// A repeated ControllerPublishVolume with another readonly is OK.
    ControllerPublishIgnoresReadonly,
    /// A repeated ControllerPublishVolume with another capability is OK.
    ControllerPublishIgnoresCapability,
    /// A volume for one node is attached to two.
    ControllerPublishToTwoNodes,
    /// A repeated ControllerPublishVolume answers with another context.
    PublishContextChanges,
    /// The publish context holds the secrets of the request.
    PublishContextHasSecrets,
    /// ControllerUnpublishVolume needs no volume id.
    ControllerUnpublishWithoutVolumeId,
    /// ControllerUnpublishVolume of a volume that is not attached fails.
    ControllerUnpublishRepeatFails,
    /// ControllerUnpublishVolume is OK and leaves the volume attached.
    ControllerUnpublishKeepsAttachment,
    /// ControllerUnpublishVolume without a node detaches nothing.
    ControllerUnpublishFromAllIgnored,
    /// ControllerUnpublishVolume detaches the volume from every node, whichever is named.
    ControllerUnpublishTakesAllNodes,

    // ValidateVolumeCapabilities.
    /// ValidateVolumeCapabilities needs no volume id.
    ValidateWithoutVolumeId,
    /// ValidateVolumeCapabilities needs no capabilities.
    ValidateWithoutCapabilities,
    /// ValidateVolumeCapabilities answers OK for a volume that does not exist.
    ValidateUnknownVolume,
    /// ValidateVolumeCapabilities confirms nothing, whatever is asked.
    ValidateConfirmsNothing,
    /// ValidateVolumeCapabilities confirms whatever is asked.
    ValidateConfirmsEverything,

    // ListVolumes, ControllerGetVolume, GetCapacity.
    /// ListVolumes answers with all volumes, whatever max_entries says.
    ListVolumesIgnoresMaxEntries,
    /// The last entry of a page is the first of the next.
    ListVolumesRepeatsEntries,
    /// One entry is lost between two pages.
    ListVolumesLosesEntries,
    /// ListVolumes begins anew with a token that it never gave.
    ListVolumesAcceptsBadToken,
    /// ListVolumes answers a bad token with INVALID_ARGUMENT.
    ListVolumesBadTokenIsInvalidArgument,
    /// ListVolumes gives a token with the last page, so that it never ends.
    ListVolumesNeverEnds,
    /// ListVolumes ignores a negative max_entries.
    ListVolumesNegativeMaxEntries,
    /// ListVolumes does not show the newest volume.
    ListVolumesForgetsNewest,
    /// ListVolumes shows other contexts than CreateVolume.
    ListVolumesContextDiffers,
    /// ListVolumes shows volumes without their topology.
    ListVolumesTopologyMissing,
    /// ListVolumes shows a volume with the size that it was created with.
    ListVolumesShowsOldSize,
    /// ListVolumes does not show the nodes that a volume is attached to, though it says so.
    PublishedNodesMissing,
    /// ListVolumes has no volume condition, though it says so.
    VolumeConditionMissing,
    /// ControllerGetVolume does not show the nodes that a volume is attached to, though the driver says so.
    GetVolumePublishedNodesMissing,
    /// ControllerGetVolume has no volume condition, though the driver says so.
    GetVolumeConditionMissing,
    /// ControllerGetVolume needs no volume id.
    GetVolumeWithoutId,
    /// ControllerGetVolume of an unknown volume is OK.
    GetVolumeUnknown,
    /// ControllerGetVolume has no status.
    GetVolumeWithoutStatus,
    /// ControllerGetVolume shows a volume without its topology.
    GetVolumeTopologyMissing,
    /// ControllerGetVolume names another source than the volume came from.
    GetVolumeSourceDiffers,
    /// GET_CAPACITY is advertised, and GetCapacity is UNIMPLEMENTED.
    GetCapacityUnimplemented,
    /// GetCapacity is negative.
    CapacityNegative,
    /// The largest possible volume is smaller than the smallest.
    CapacityBoundsReversed,

    // ControllerExpandVolume and ControllerModifyVolume.
    /// ControllerExpandVolume needs no volume id.
    ExpandWithoutVolumeId,
    /// ControllerExpandVolume needs no size.
    ExpandWithoutRange,
    /// ControllerExpandVolume of an unknown volume is OK.
    ExpandUnknownVolume,
    /// ControllerExpandVolume answers with the old size.
    ExpandAnswersOldSize,
    /// ControllerExpandVolume to the size that the volume has fails.
    ExpandRepeatFails,
    /// ControllerExpandVolume to a smaller size makes the volume smaller.
    ExpandShrinks,
    /// ControllerExpandVolume exceeds the limit.
    ExpandIgnoresLimit,
    /// ControllerExpandVolume beyond what is possible is INTERNAL.
    ExpandImpossibleSizeIsInternal,
    /// After an expansion the old CreateVolume finds no volume of its name, and makes another one.
    ExpandForgetsName,
    /// Volumes in use cannot be expanded, though the driver says that they can.
    ExpandOnlyOffline,
    /// ControllerModifyVolume needs no volume id.
    ModifyWithoutVolumeId,
    /// ControllerModifyVolume without parameters is a defect of the driver's own.
    ModifyWithoutParameters,
    /// ControllerModifyVolume of an unknown volume is OK.
    ModifyUnknownVolume,
    /// ControllerModifyVolume takes any parameter.
    ModifyUnknownParameter,
    /// A repeated ControllerModifyVolume fails.
    ModifyRepeatFails,

    // Snapshots.
    /// CreateSnapshot needs no name.
    CreateSnapshotWithoutName,
    /// CreateSnapshot needs no source.
    CreateSnapshotWithoutSource,
    /// A snapshot of a volume that does not exist is OK.
    SnapshotOfUnknownVolume,
    /// A repeated CreateSnapshot makes another snapshot.
    CreateSnapshotRepeatMakesAnother,
    /// A repeated CreateSnapshot is ALREADY_EXISTS.
    CreateSnapshotRepeatFails,
    /// CreateSnapshot with the name of another volume's snapshot is OK.
    CreateSnapshotIgnoresSource,
    /// Two CreateSnapshot at once make two snapshots.
    ParallelCreateSnapshotMakesTwo,
    /// A CreateSnapshot whose caller goes away leaves a name that can never be used again.
    CancelledCreateSnapshotLeavesName,
    /// Snapshots never become ready.
    SnapshotNeverReady,
    /// A snapshot that was ready is not ready when it is asked for again.
    SnapshotReadinessLost,
    /// Snapshots have a negative size.
    SnapshotSizeNegative,
    /// Snapshots have no time of creation.
    SnapshotTimeMissing,
    /// The time of creation is that of the answer.
    SnapshotTimeMoves,
    /// Snapshots do not name their source.
    SnapshotSourceMissing,
    /// Ids of snapshots are longer than 128 bytes.
    SnapshotIdTooLong,
    /// A snapshot changes with its volume.
    SnapshotFollowsVolume,
    /// DeleteSnapshot needs no id.
    DeleteSnapshotWithoutId,
    /// DeleteSnapshot of a snapshot that is not there is NOT_FOUND.
    DeleteSnapshotUnknownIsNotFound,
    /// DeleteSnapshot is OK and keeps the snapshot.
    DeleteSnapshotKeepsSnapshot,
    /// DeleteSnapshot takes the volume's other snapshots with it.
    DeleteSnapshotTakesOthers,
    /// ListSnapshots with a snapshot_id does not look at source_volume_id.
    ListSnapshotsKnowsOneFilter,
    /// ListSnapshots ignores source_volume_id.
    ListSnapshotsIgnoresSource,
    /// ListSnapshots ignores snapshot_id.
    ListSnapshotsIgnoresId,
    /// ListSnapshots of an unknown snapshot is NOT_FOUND.
    ListSnapshotsUnknownIsNotFound,
    /// ListSnapshots answers with all snapshots, whatever max_entries says.
    ListSnapshotsIgnoresMaxEntries,
    /// The last entry of a page is the first of the next.
    ListSnapshotsRepeatsEntries,
    /// One entry is lost between two pages.
    ListSnapshotsLosesEntries,
    /// ListSnapshots begins anew with a token that it never gave.
    ListSnapshotsAcceptsBadToken,
    /// ListSnapshots answers a bad token with INVALID_ARGUMENT.
    ListSnapshotsBadTokenIsInvalidArgument,
    /// ListSnapshots gives a token with the last page, so that it never ends.
    ListSnapshotsNeverEnds,
    /// ListSnapshots ignores a negative max_entries.
    ListSnapshotsNegativeMaxEntries,
    /// ListSnapshots does not show the newest snapshot.
    ListSnapshotsForgetsNewest,
    /// GetSnapshot needs no id.
    GetSnapshotWithoutId,
    /// GetSnapshot of an unknown snapshot is OK.
    GetSnapshotUnknown,
    /// GetSnapshot answers with another size than CreateSnapshot.
    GetSnapshotDiffers,

    // Group snapshots.
    /// CreateVolumeGroupSnapshot needs no name.
    CreateGroupWithoutName,
    /// CreateVolumeGroupSnapshot needs no volumes.
    CreateGroupWithoutVolumes,
    /// The first volume of a group has no snapshot.
    GroupIsPartial,
    /// Volumes that do not exist are left out of a group.
    GroupSkipsUnknownVolumes,
    /// A repeated CreateVolumeGroupSnapshot makes another group.
    CreateGroupRepeatMakesAnother,
    /// A repeated CreateVolumeGroupSnapshot with other volumes is OK.
    CreateGroupIgnoresVolumesOnRepeat,
    /// Two CreateVolumeGroupSnapshot at once make two groups.
    ParallelCreateGroupMakesTwo,
    /// Snapshots do not name their group.
    GroupIdMissingInSnapshots,
    /// A group is ready before its snapshots are.
    GroupReadyTooEarly,
    /// A group has no time of creation.
    GroupTimeMissing,
    /// DeleteSnapshot takes a snapshot out of its group.
    GroupMemberCanBeDeleted,
    /// DeleteVolumeGroupSnapshot needs no id.
    DeleteGroupWithoutId,
    /// DeleteVolumeGroupSnapshot of a group that is not there is NOT_FOUND.
    DeleteGroupUnknownIsNotFound,
    /// DeleteVolumeGroupSnapshot leaves the snapshots behind.
    DeleteGroupKeepsSnapshots,
    /// DeleteVolumeGroupSnapshot leaves all snapshots but the first behind.
    DeleteGroupKeepsAllButOne,
    /// DeleteVolumeGroupSnapshot takes snapshots of another group.
    DeleteGroupIgnoresSnapshotIds,
    /// GetVolumeGroupSnapshot needs no id.
    GetGroupWithoutId,
    /// GetVolumeGroupSnapshot of an unknown group is OK.
    GetGroupUnknown,
    /// GetVolumeGroupSnapshot takes snapshots of another group.
    GetGroupIgnoresSnapshotIds,

    // Snapshot metadata.
    /// The ranges come in descending order.
    MetadataUnordered,
    /// The last range comes twice.
    MetadataOverlaps,
    /// One range is lost between two messages.
    MetadataLostBetweenMessages,
    /// A stream that begins at an offset lacks its first range.
    MetadataSkipsAfterOffset,
    /// starting_offset is ignored.
    MetadataIgnoresStartingOffset,
    /// max_results is ignored.
    MetadataIgnoresMaxResults,
    /// A range before the first has no length.
    MetadataRangeIsEmpty,
    /// The stream has no block_metadata_type.
    MetadataTypeMissing,
    /// The second message has another volume_capacity_bytes.
    MetadataCapacityChanges,
    /// One range more lies beyond the end of the volume.
    MetadataBeyondEnd,
    /// GetMetadataAllocated of an unknown snapshot is an empty stream.
    MetadataUnknownSnapshot,
    /// A negative starting_offset is taken for 0.
    MetadataNegativeOffset,
    /// A starting_offset beyond the end gives an empty stream.
    MetadataOffsetBeyondEnd,
    /// GetMetadataAllocated needs no snapshot id.
    MetadataWithoutSnapshotId,
    /// GetMetadataDelta ignores the base, and answers with all that is allocated.
    DeltaIgnoresBase,
    /// GetMetadataDelta of an unknown base is as if everything had changed.
    DeltaUnknownBase,
    /// GetMetadataDelta needs no base.
    DeltaWithoutBase,
    /// GetMetadataDelta of an unknown target is an empty stream.
    DeltaUnknownTarget,
    /// GetMetadataDelta needs no target.
    DeltaWithoutTarget,

    // Node.
    /// The node has no id.
    NodeIdMissing,
    /// The node's id has more than 256 bytes.
    NodeIdTooLong,
    /// The node's id changes from call to call.
    NodeIdChanges,
    /// The node can take a negative number of volumes.
    NodeMaxVolumesNegative,
    /// The node has a topology, though the driver says that it has none.
    NodeTopologyUnadvertised,
    /// The node's topology has a key that is not valid.
    NodeTopologyInvalid,
    /// NodeStageVolume needs no volume id.
    StageWithoutVolumeId,
    /// NodeStageVolume needs no path.
    StageWithoutPath,
    /// NodeStageVolume needs no capability.
    StageWithoutCapability,
    /// NodeStageVolume of an unknown volume is OK.
    StageUnknownVolume,
    /// A repeated NodeStageVolume fails.
    StageRepeatFails,
    /// A repeated NodeStageVolume with another capability is OK.
    StageIgnoresCapability,
    /// NodeUnstageVolume needs no volume id.
    UnstageWithoutVolumeId,
    /// NodeUnstageVolume needs no path.
    UnstageWithoutPath,
    /// NodeUnstageVolume of a volume that is not staged fails.
    UnstageRepeatFails,
    /// NodePublishVolume needs no volume id.
    PublishWithoutVolumeId,
    /// NodePublishVolume needs no target path.
    PublishWithoutTarget,
    /// NodePublishVolume needs no capability.
    PublishWithoutCapability,
    /// NodePublishVolume of a volume that is not staged is OK.
    PublishWithoutStage,
    /// NodePublishVolume of an unknown volume is OK.
    PublishUnknownVolume,
    /// A repeated NodePublishVolume fails.
    PublishRepeatFails,
    /// A repeated NodePublishVolume with another readonly is OK.
    PublishIgnoresReadonly,
    /// A repeated NodePublishVolume of a block volume with another readonly is OK.
    PublishIgnoresReadonlyOfBlock,
    /// A repeated NodePublishVolume with another capability is OK.
    PublishIgnoresCapability,
    /// A target that holds another volume is taken over.
    PublishTakesOverTarget,
    /// NodePublishVolume fails when the target exists.
    PublishNeedsNoTarget,
    /// All published volumes show the data of one.
    PublishedVolumesShareData,
    /// Paths of 128 bytes are refused.
    LongPathRefused,
    /// NodePublishVolume makes nothing at the target.
    PublishMakesNothing,
    /// A block volume is published as a folder.
    BlockTargetIsFolder,
    /// A volume for a single writer is published at two paths.
    SingleWriterAtTwoPaths,
    /// NodeUnpublishVolume needs no volume id.
    UnpublishWithoutVolumeId,
    /// NodeUnpublishVolume needs no target path.
    UnpublishWithoutTarget,
    /// NodeUnpublishVolume of a volume that is not published fails.
    UnpublishRepeatFails,
    /// NodeUnpublishVolume leaves the target behind.
    UnpublishLeavesTarget,
    /// NodeUnpublishVolume of one target takes the others down too.
    UnpublishTakesAllTargets,
    /// What was written into a volume is gone after NodeUnpublishVolume.
    UnpublishLosesData,
    /// NodeGetVolumeStats needs no volume id.
    StatsWithoutVolumeId,
    /// NodeGetVolumeStats needs no path.
    StatsWithoutPath,
    /// NodeGetVolumeStats of a path where the volume is not is OK.
    StatsAtUnknownPath,
    /// NodeGetVolumeStats of a path where another volume is is OK.
    StatsOfAnotherVolume,
    /// NodeGetVolumeStats has a negative number.
    StatsNegative,
    /// NodeGetVolumeStats has no unit.
    StatsUnitMissing,
    /// NodeGetVolumeStats has no total.
    StatsTotalMissing,
    /// NodeGetVolumeStats has no volume condition, though it says so.
    StatsConditionMissing,
    /// NodeExpandVolume needs no volume id.
    NodeExpandWithoutVolumeId,
    /// NodeExpandVolume needs no path.
    NodeExpandWithoutPath,
    /// NodeExpandVolume of an unknown volume is OK.
    NodeExpandUnknownVolume,
    /// NodeExpandVolume answers with a size below the required one.
    NodeExpandAnswersOldSize,
}
