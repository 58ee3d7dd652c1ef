//! The GroupController service: snapshots of several volumes at one point in time.

use super::declare::{Declare, Group, Rpc};
use super::facts::{
    Capability, Effect, Facts, GroupCapability as G, Making, PluginCapability as P, Thing,
};
use super::flags::{
    GroupSnapshotIds, Names, Parameters, RequestContext, RequestError, Subjects, put,
};
use super::validation::exchange::Agreement::Same;
use super::validation::exchange::{self, Agreement};
use super::validation::rpc_rules::{RpcRules, SUGGESTED_NAME};
use super::validation::rule::Rule::Required;
use crate::output::csc;
use crate::output::view::{CellFormat, View, size, text};
use clap::Args;
use csi_proto::{help, tables, v1};

/// The service's RPCs.
pub const GROUP: Group = Group {
    name: "group-controller",
    aliases: &["g", "group"],
    at_node: false,
    about: "Snapshots of several volumes at one point in time",
    rpcs: &[
        Rpc::of::<GroupControllerGetCapabilities>(),
        Rpc::of::<CreateVolumeGroupSnapshot>(),
        Rpc::of::<DeleteVolumeGroupSnapshot>(),
        Rpc::of::<GetVolumeGroupSnapshot>(),
    ],
};

/// The flags of `group-controller get-capabilities`.
#[derive(Args)]
pub struct GroupControllerGetCapabilities {}

impl Declare for GroupControllerGetCapabilities {
    type Request = v1::GroupControllerGetCapabilitiesRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Plugin(P::GroupControllerService)],
        required: &[],
        gives: &[],
        section: "GroupControllerGetCapabilities",
    };
    const NAMES: &'static [&'static str] = &["get-capabilities", "capabilities"];
    const EXAMPLES: &'static [&'static str] = &["get-capabilities"];
    const VIEW: View = View::new(&[text("CAPABILITY", "rpc.type")])
        .rows("capabilities")
        .name("rpc.type");
    const CSC: Option<csc::CscWriter> = Some(csc::capabilities);
}

/// The flags of `group-controller create-volume-group-snapshot`.
#[derive(Args)]
pub struct CreateVolumeGroupSnapshot {
    #[command(flatten)]
    names: Names,
    #[arg(long, visible_aliases = ["source-volume", "source-volume-id"], value_name = "ID,…", value_delimiter = ',', help = help::create_volume_group_snapshot_request::SOURCE_VOLUME_IDS)]
    source_volume_ids: Vec<String>,
    #[command(flatten)]
    parameters: Parameters,
}

impl Declare for CreateVolumeGroupSnapshot {
    type Request = v1::CreateVolumeGroupSnapshotRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Makes(Making {
            thing: Thing::GroupSnapshot,
            undone_by: &tables::GROUP_CONTROLLER_DELETE_VOLUME_GROUP_SNAPSHOT,
            id_path: &[
                ("group_snapshot_id", "group_snapshot.group_snapshot_id"),
                ("snapshot_ids", "group_snapshot.snapshots.snapshot_id"),
            ],
        }),
        needs: &[Capability::Group(G::CreateDeleteGetVolumeGroupSnapshot)],
        required: &["name", "source_volume_ids"],
        gives: &[],
        section: "CreateVolumeGroupSnapshot",
    };
    const RULES: RpcRules = RpcRules {
        request: &[SUGGESTED_NAME],
        reply: &[Required("group_snapshot")],
        exchange: &[Agreement::Check(exchange::group_is_complete)],
    };
    const NAMES: &'static [&'static str] = &["create-volume-group-snapshot", "create", "new"];
    const EXAMPLES: &'static [&'static str] =
        &["create-volume-group-snapshot gsnap-1 --source-volume-ids vol-1,vol-2 --params a=b"];
    const VIEW: View = View::new(&[
        text("GROUP SNAPSHOT ID", "/group_snapshot.group_snapshot_id"),
        text("SNAPSHOT ID", "snapshot_id"),
        text("SOURCE VOLUME", "source_volume_id"),
        size("SIZE", "size_bytes"),
        text("READY", "ready_to_use"),
        text("AGE", "/group_snapshot.creation_time").format(CellFormat::Age),
        text("GROUP READY", "/group_snapshot.ready_to_use").wide(),
        text("CREATED", "/group_snapshot.creation_time").wide(),
    ])
    .rows("group_snapshot.snapshots")
    .name("/group_snapshot.group_snapshot_id");

    fn subjects(&self) -> Option<Subjects<'_>> {
        Some(self.names.subjects())
    }

    fn fill(
        &self,
        subject: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        put(subject, &mut request.name);
        if !self.source_volume_ids.is_empty() {
            request
                .source_volume_ids
                .clone_from(&self.source_volume_ids);
        }
        self.parameters.fill(&mut request.parameters);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `group-controller delete-volume-group-snapshot`.
#[derive(Args)]
pub struct DeleteVolumeGroupSnapshot {
    #[command(flatten)]
    ids: GroupSnapshotIds,
    #[arg(long, visible_alias = "snapshot-id", value_name = "ID,…", value_delimiter = ',', help = help::delete_volume_group_snapshot_request::SNAPSHOT_IDS)]
    snapshot_ids: Vec<String>,
}

impl Declare for DeleteVolumeGroupSnapshot {
    type Request = v1::DeleteVolumeGroupSnapshotRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Undoes,
        needs: &[Capability::Group(G::CreateDeleteGetVolumeGroupSnapshot)],
        required: &["group_snapshot_id", "snapshot_ids"],
        gives: &[],
        section: "DeleteVolumeGroupSnapshot",
    };
    const NAMES: &'static [&'static str] = &["delete-volume-group-snapshot", "delete", "rm"];
    const EXAMPLES: &'static [&'static str] =
        &["delete-volume-group-snapshot gsnap-1 --snapshot-ids snap-1,snap-2"];
    const VIEW: View = View::done("deleted");

    fn subjects(&self) -> Option<Subjects<'_>> {
        Some(self.ids.subjects())
    }

    fn fill(
        &self,
        subject: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        put(subject, &mut request.group_snapshot_id);
        if !self.snapshot_ids.is_empty() {
            request.snapshot_ids.clone_from(&self.snapshot_ids);
        }
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `group-controller get-volume-group-snapshot`.
#[derive(Args)]
pub struct GetVolumeGroupSnapshot {
    #[command(flatten)]
    ids: GroupSnapshotIds,
    #[arg(long, visible_alias = "snapshot-id", value_name = "ID,…", value_delimiter = ',', help = help::get_volume_group_snapshot_request::SNAPSHOT_IDS)]
    snapshot_ids: Vec<String>,
}

impl Declare for GetVolumeGroupSnapshot {
    type Request = v1::GetVolumeGroupSnapshotRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Group(G::CreateDeleteGetVolumeGroupSnapshot)],
        required: &["group_snapshot_id", "snapshot_ids"],
        gives: &[],
        section: "GetVolumeGroupSnapshot",
    };
    const RULES: RpcRules = RpcRules {
        reply: &[Required("group_snapshot")],
        exchange: &[Same {
            asked: "group_snapshot_id",
            got: "group_snapshot.group_snapshot_id",
        }],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["get-volume-group-snapshot", "get"];
    const EXAMPLES: &'static [&'static str] =
        &["get-volume-group-snapshot gsnap-1 --snapshot-ids snap-1,snap-2"];
    const VIEW: View = View::new(&[
        text("GROUP SNAPSHOT ID", "/group_snapshot.group_snapshot_id"),
        text("SNAPSHOT ID", "snapshot_id"),
        text("SOURCE VOLUME", "source_volume_id"),
        size("SIZE", "size_bytes"),
        text("READY", "ready_to_use"),
        text("AGE", "/group_snapshot.creation_time").format(CellFormat::Age),
        text("GROUP READY", "/group_snapshot.ready_to_use").wide(),
        text("CREATED", "/group_snapshot.creation_time").wide(),
    ])
    .rows("group_snapshot.snapshots")
    .name("/group_snapshot.group_snapshot_id");

    fn subjects(&self) -> Option<Subjects<'_>> {
        Some(self.ids.subjects())
    }

    fn fill(
        &self,
        subject: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        put(subject, &mut request.group_snapshot_id);
        if !self.snapshot_ids.is_empty() {
            request.snapshot_ids.clone_from(&self.snapshot_ids);
        }
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}
