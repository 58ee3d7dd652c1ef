//! The RPCs of the Controller service about volumes: create, list, show, modify, expand and delete.

use super::declare::Declare;
use super::facts::{
    Capability, ControllerCapability as C, Effect, Facts, Given, IdKind, Making, Thing,
};
use super::flags::{
    CapacityFlags, MutableParameters, Names, OptionalCapability, PageFlags, Parameters,
    RequestContext, RequestError, RequiredCapability, Subjects, TopologyRequirement, VolumeIds,
    put,
};
use super::validation::exchange::Agreement::{InCapacityRange, NewToken, Same};
use super::validation::exchange::{self, Agreement};
use super::validation::rpc_rules::{PAGE, RpcRules, SUGGESTED_NAME};
use super::validation::rule::Rule::Required;
use crate::output::csc;
use crate::output::view::{CellFormat, View, size, text};
use clap::Args;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};
use csi_proto::{help, tables, v1};
use prost::Message as _;
use std::fmt::Write as _;

/// The flags of `controller create-volume`.
#[derive(Args)]
pub struct CreateVolume {
    #[command(flatten)]
    names: Names,
    #[command(flatten)]
    capacity: CapacityFlags,
    #[command(flatten)]
    capabilities: RequiredCapability,
    #[command(flatten)]
    parameters: Parameters,
    #[command(flatten)]
    mutable_parameters: MutableParameters,
    #[arg(long, value_name = "ID", conflicts_with = "source_volume", help = help::volume_content_source_snapshot_source::SNAPSHOT_ID)]
    source_snapshot: Option<String>,
    #[arg(long, value_name = "ID", help = help::volume_content_source_volume_source::VOLUME_ID)]
    source_volume: Option<String>,
    #[command(flatten)]
    topology: TopologyRequirement,
}

impl Declare for CreateVolume {
    type Request = v1::CreateVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Makes(Making {
            thing: Thing::Volume,
            undone_by: &tables::CONTROLLER_DELETE_VOLUME,
            id_path: &[("volume_id", "volume.volume_id")],
        }),
        needs: &[Capability::Controller(C::CreateDeleteVolume)],
        required: &["name", "volume_capabilities"],
        gives: &[(Given::VolumeContext, "volume.volume_context")],
        section: "CreateVolume",
    };
    const RULES: RpcRules = RpcRules {
        request: &[SUGGESTED_NAME],
        reply: &[Required("volume")],
        exchange: &[
            InCapacityRange("volume.capacity_bytes"),
            Agreement::Check(exchange::created_volume),
        ],
    };
    const NAMES: &'static [&'static str] = &["create-volume", "new", "create", "n", "c"];
    const EXAMPLES: &'static [&'static str] = &[
        "create-volume pvc-1 --req-bytes 10Gi --lim-bytes 20Gi --cap 5,mount,nfs --params server=10.0.0.4,share=/export",
        "create-volume pvc-2 --source-snapshot snap-1 --cap mode=1,type=mount,fs=ext4,flag=noatime,group=1000 --requisite zone=a --preferred zone=a --mutable-params iops=500",
        "create-volume pvc-3 --source-volume vol-1 --cap 1,block",
    ];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "volume.volume_id"),
        size("CAPACITY", "volume.capacity_bytes"),
        text("SOURCE", "volume.content_source"),
        text("TOPOLOGY", "volume.accessible_topology"),
        text("CONTEXT", "volume.volume_context").wide(),
    ])
    .name("volume.volume_id");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        csc::volume(v1::CreateVolumeResponse::decode(reply.bytes)?.volume, out);
        Ok(())
    });

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
        self.capacity.fill(&mut request.capacity_range);
        self.capabilities
            .fill_all(context, &mut request.volume_capabilities);
        self.parameters.fill(&mut request.parameters);
        self.mutable_parameters
            .fill(&mut request.mutable_parameters);
        self.topology.fill(&mut request.accessibility_requirements);
        let source = match (&self.source_snapshot, &self.source_volume) {
            (Some(id), _) => {
                let snapshot_id = id.clone();
                Some(Source::Snapshot(SnapshotSource { snapshot_id }))
            }
            (_, Some(id)) => {
                let volume_id = id.clone();
                Some(Source::Volume(VolumeSource { volume_id }))
            }
            _ => None,
        };
        if let Some(source) = source {
            request.volume_content_source = Some(v1::VolumeContentSource {
                r#type: Some(source),
            });
        }
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller delete-volume`.
#[derive(Args)]
pub struct DeleteVolume {
    #[command(flatten)]
    ids: VolumeIds,
}

impl Declare for DeleteVolume {
    type Request = v1::DeleteVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Undoes,
        needs: &[Capability::Controller(C::CreateDeleteVolume)],
        required: &["volume_id"],
        gives: &[],
        section: "DeleteVolume",
    };
    const NAMES: &'static [&'static str] = &["delete-volume", "rm", "del", "delete", "d"];
    const EXAMPLES: &'static [&'static str] = &["delete-volume vol-1 vol-2"];
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
        put(subject, &mut request.volume_id);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller list-volumes`.
#[derive(Args)]
pub struct ListVolumes {
    #[command(flatten)]
    pages: PageFlags,
}

impl Declare for ListVolumes {
    type Request = v1::ListVolumesRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Controller(C::ListVolumes)],
        required: &[],
        gives: &[(Given::Ids(IdKind::Volume), "entries.volume.volume_id")],
        section: "ListVolumes",
    };
    const RULES: RpcRules = RpcRules {
        exchange: &[PAGE, NewToken],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["list-volumes", "ls", "list", "volumes", "l"];
    const EXAMPLES: &'static [&'static str] = &[
        "list-volumes --max-entries 100 --starting-token t1",
        "list-volumes --all -o wide",
    ];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "volume.volume_id"),
        size("CAPACITY", "volume.capacity_bytes"),
        text("SOURCE", "volume.content_source"),
        text("NODES", "status.published_node_ids"),
        text("CONDITION", "status.volume_condition").format(CellFormat::Condition),
        text("TOPOLOGY", "volume.accessible_topology"),
        text("CONTEXT", "volume.volume_context").wide(),
    ])
    .rows("entries")
    .name("volume.volume_id");
    const CSC: Option<csc::CscWriter> = Some(|layout, reply, out| {
        for row in layout.rows(reply.bytes)? {
            let entry = v1::list_volumes_response::Entry::decode(row)?;
            csc::volume(entry.volume, out);
        }
        csc::token(layout, reply, out)
    });

    fn follows_pages(&self) -> bool {
        self.pages.all()
    }

    fn fill(
        &self,
        _: Option<&str>,
        _: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        self.pages
            .fill(&mut request.max_entries, &mut request.starting_token)?;
        Ok(())
    }
}

/// The flags of `controller get-volume`.
#[derive(Args)]
pub struct ControllerGetVolume {
    #[command(flatten)]
    ids: VolumeIds,
}

impl Declare for ControllerGetVolume {
    type Request = v1::ControllerGetVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Controller(C::GetVolume)],
        required: &["volume_id"],
        gives: &[],
        section: "ControllerGetVolume",
    };
    const RULES: RpcRules = RpcRules {
        reply: &[Required("volume"), Required("status")],
        exchange: &[Same {
            asked: "volume_id",
            got: "volume.volume_id",
        }],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["get-volume"];
    const EXAMPLES: &'static [&'static str] = &["get-volume vol-1"];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "volume.volume_id"),
        size("CAPACITY", "volume.capacity_bytes"),
        text("SOURCE", "volume.content_source"),
        text("NODES", "status.published_node_ids"),
        text("CONDITION", "status.volume_condition").format(CellFormat::Condition),
        text("TOPOLOGY", "volume.accessible_topology"),
        text("CONTEXT", "volume.volume_context").wide(),
    ])
    .name("volume.volume_id");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        csc::volume(
            v1::ControllerGetVolumeResponse::decode(reply.bytes)?.volume,
            out,
        );
        Ok(())
    });

    fn subjects(&self) -> Option<Subjects<'_>> {
        Some(self.ids.subjects())
    }

    fn fill(
        &self,
        subject: Option<&str>,
        _: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        put(subject, &mut request.volume_id);
        Ok(())
    }
}

/// The flags of `controller modify-volume`.
#[derive(Args)]
pub struct ControllerModifyVolume {
    #[command(flatten)]
    ids: VolumeIds,
    #[command(flatten)]
    mutable_parameters: MutableParameters,
}

impl Declare for ControllerModifyVolume {
    type Request = v1::ControllerModifyVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Changes,
        needs: &[Capability::Controller(C::ModifyVolume)],
        required: &["volume_id", "mutable_parameters"],
        gives: &[],
        section: "ControllerModifyVolume",
    };
    const NAMES: &'static [&'static str] = &["modify-volume", "modify"];
    const EXAMPLES: &'static [&'static str] = &["modify-volume vol-1 --mutable-params iops=500"];
    const VIEW: View = View::done("modified");

    fn subjects(&self) -> Option<Subjects<'_>> {
        Some(self.ids.subjects())
    }

    fn fill(
        &self,
        subject: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        put(subject, &mut request.volume_id);
        self.mutable_parameters
            .fill(&mut request.mutable_parameters);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller expand-volume`.
#[derive(Args)]
pub struct ControllerExpandVolume {
    #[command(flatten)]
    ids: VolumeIds,
    #[command(flatten)]
    capacity: CapacityFlags,
    #[command(flatten)]
    capability: OptionalCapability,
}

impl Declare for ControllerExpandVolume {
    type Request = v1::ControllerExpandVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Changes,
        needs: &[Capability::Controller(C::ExpandVolume)],
        required: &["volume_id", "capacity_range"],
        gives: &[],
        section: "ControllerExpandVolume",
    };
    const RULES: RpcRules = RpcRules {
        reply: &[Required("capacity_bytes")],
        exchange: &[InCapacityRange("capacity_bytes")],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["expand-volume", "expand", "exp"];
    const EXAMPLES: &'static [&'static str] =
        &["expand-volume vol-1 --req-bytes 20Gi --lim-bytes 30Gi --cap 5,mount"];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "?volume_id"),
        size("CAPACITY", "capacity_bytes"),
        text("NODE EXPANSION REQUIRED", "node_expansion_required"),
    ])
    .name("?volume_id");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        let expanded = v1::ControllerExpandVolumeResponse::decode(reply.bytes)?;
        let _ = writeln!(out, "{}", expanded.capacity_bytes);
        Ok(())
    });

    fn subjects(&self) -> Option<Subjects<'_>> {
        Some(self.ids.subjects())
    }

    fn fill(
        &self,
        subject: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        put(subject, &mut request.volume_id);
        self.capacity.fill(&mut request.capacity_range);
        self.capability.fill_one(&mut request.volume_capability);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}
