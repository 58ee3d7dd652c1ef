//! The Controller service: its RPCs, and the blocks of those that attach volumes to nodes or ask about volumes and the
//! controller. Volumes stand in `volumes.rs`, snapshots in `snapshots.rs`.

use super::declare::{Declare, Group, Rpc};
use super::facts::{
    Capability, ControllerCapability as C, Effect, Facts, Given, Making, PluginCapability as P,
    Thing,
};
use super::flags::{
    MutableParameters, OptionalCapability, Parameters, RequestContext, RequestError,
    RequiredCapability, Subjects, VolumeContext, VolumeIds, fill_text, put,
};
use super::snapshots::{CreateSnapshot, DeleteSnapshot, GetSnapshot, ListSnapshots};
use super::validation::exchange::{self, Agreement};
use super::validation::rpc_rules::RpcRules;
use super::volumes::{
    ControllerExpandVolume, ControllerGetVolume, ControllerModifyVolume, CreateVolume,
    DeleteVolume, ListVolumes,
};
use crate::arguments::topology;
use crate::output::csc;
use crate::output::view::{CellFormat, View, size, text};
use clap::Args;
use csi_proto::value::{Secrets, Value, decode};
use csi_proto::{help, tables, v1};
use prost::Message as _;
use std::fmt::Write as _;

/// The service's RPCs.
pub const GROUP: Group = Group {
    name: "controller",
    aliases: &["c"],
    at_node: false,
    about: "Volumes and snapshots, as the storage system sees them",
    rpcs: &[
        Rpc::of::<CreateVolume>(),
        Rpc::of::<DeleteVolume>(),
        Rpc::of::<ControllerPublishVolume>(),
        Rpc::of::<ControllerUnpublishVolume>(),
        Rpc::of::<ValidateVolumeCapabilities>(),
        Rpc::of::<ListVolumes>(),
        Rpc::of::<ControllerGetVolume>(),
        Rpc::of::<ControllerModifyVolume>(),
        Rpc::of::<ControllerExpandVolume>(),
        Rpc::of::<GetCapacity>(),
        Rpc::of::<ControllerGetCapabilities>(),
        Rpc::of::<CreateSnapshot>(),
        Rpc::of::<DeleteSnapshot>(),
        Rpc::of::<ListSnapshots>(),
        Rpc::of::<GetSnapshot>(),
    ],
};

/// The flags of `controller publish`.
#[derive(Args)]
pub struct ControllerPublishVolume {
    #[command(flatten)]
    ids: VolumeIds,
    #[arg(long, value_name = "ID", help = help::controller_publish_volume_request::NODE_ID)]
    node_id: Option<String>,
    #[command(flatten)]
    capability: RequiredCapability,
    #[arg(long, visible_alias = "readonly", help = help::controller_publish_volume_request::READONLY)]
    read_only: bool,
    #[command(flatten)]
    vol_context: VolumeContext,
}

impl Declare for ControllerPublishVolume {
    type Request = v1::ControllerPublishVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Makes(Making {
            thing: Thing::AttachedVolume,
            undone_by: &tables::CONTROLLER_CONTROLLER_UNPUBLISH_VOLUME,
            id_path: &[],
        }),
        needs: &[Capability::Controller(C::PublishUnpublishVolume)],
        required: &["volume_id", "node_id", "volume_capability"],
        gives: &[(Given::PublishContext, "publish_context")],
        section: "ControllerPublishVolume",
    };
    const NAMES: &'static [&'static str] = &["publish", "att", "attach"];
    const EXAMPLES: &'static [&'static str] =
        &["publish vol-1 --node-id node-1 --cap 5,mount --read-only --vol-context a=b"];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "?volume_id"),
        text("PUBLISH CONTEXT", "publish_context"),
    ])
    .name("?volume_id");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        let reply_to = v1::ControllerPublishVolumeResponse::decode(reply.bytes)?;
        out.push_str(&csc::quoted(reply.subject));
        csc::entries(&reply_to.publish_context, "\t", "", out);
        out.push('\n');
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
        fill_text(self.node_id.as_ref(), &mut request.node_id);
        self.capability
            .fill_one(context, &mut request.volume_capability);
        request.readonly |= self.read_only;
        self.vol_context.fill(&mut request.volume_context);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller unpublish`.
#[derive(Args)]
pub struct ControllerUnpublishVolume {
    #[command(flatten)]
    ids: VolumeIds,
    #[arg(long, value_name = "ID", help = help::controller_unpublish_volume_request::NODE_ID)]
    node_id: Option<String>,
}

impl Declare for ControllerUnpublishVolume {
    type Request = v1::ControllerUnpublishVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Undoes,
        needs: &[Capability::Controller(C::PublishUnpublishVolume)],
        required: &["volume_id"],
        gives: &[],
        section: "ControllerUnpublishVolume",
    };
    const NAMES: &'static [&'static str] = &["unpublish", "det", "detach"];
    const EXAMPLES: &'static [&'static str] = &["unpublish vol-1 --node-id node-1"];
    const VIEW: View = View::done("unpublished");

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
        fill_text(self.node_id.as_ref(), &mut request.node_id);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller validate-volume-capabilities`.
#[derive(Args)]
pub struct ValidateVolumeCapabilities {
    #[command(flatten)]
    ids: VolumeIds,
    #[command(flatten)]
    capabilities: RequiredCapability,
    #[command(flatten)]
    vol_context: VolumeContext,
    #[command(flatten)]
    parameters: Parameters,
    #[command(flatten)]
    mutable_parameters: MutableParameters,
}

impl Declare for ValidateVolumeCapabilities {
    type Request = v1::ValidateVolumeCapabilitiesRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Plugin(P::ControllerService)],
        required: &["volume_id", "volume_capabilities"],
        gives: &[],
        section: "ValidateVolumeCapabilities",
    };
    const RULES: RpcRules = RpcRules {
        exchange: &[Agreement::Check(exchange::confirmed_capabilities)],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["validate-volume-capabilities", "validate", "v"];
    const EXAMPLES: &'static [&'static str] = &[
        "validate-volume-capabilities vol-1 --cap 5,mount --vol-context a=b --params c=d --mutable-params e=f",
    ];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "?volume_id"),
        text("CONFIRMED", "confirmed").format(CellFormat::Presence),
        text("MESSAGE", "message"),
        text("CAPABILITIES", "confirmed.volume_capabilities").wide(),
        text("CONTEXT", "confirmed.volume_context").wide(),
        text("PARAMETERS", "confirmed.parameters").wide(),
        text("MUTABLE PARAMETERS", "confirmed.mutable_parameters").wide(),
    ])
    .name("?volume_id");
    const CSC: Option<csc::CscWriter> = Some(|layout, reply, out| {
        // What was confirmed as proto text or `<nil>`, and the message.
        let value = decode(layout.method.response, reply.bytes, Secrets::Mask)?;
        let confirmed = value.get("confirmed").map(csc::proto_text);
        let message = match value.get("message") {
            Some(Value::Text(message)) => message,
            _ => "",
        };
        let _ = writeln!(
            out,
            "{}\t{}\t{}",
            csc::quoted(reply.subject),
            confirmed.as_deref().unwrap_or("<nil>"),
            csc::quoted(message)
        );
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
        self.capabilities
            .fill_all(context, &mut request.volume_capabilities);
        self.vol_context.fill(&mut request.volume_context);
        self.parameters.fill(&mut request.parameters);
        self.mutable_parameters
            .fill(&mut request.mutable_parameters);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller get-capacity`.
#[derive(Args)]
pub struct GetCapacity {
    #[command(flatten)]
    capabilities: OptionalCapability,
    #[command(flatten)]
    parameters: Parameters,
    #[arg(long, visible_alias = "topology", value_name = "K=V,…", value_parser = topology::parse, help = help::get_capacity_request::ACCESSIBLE_TOPOLOGY)]
    accessible_topology: Option<v1::Topology>,
}

impl Declare for GetCapacity {
    type Request = v1::GetCapacityRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Controller(C::GetCapacity)],
        required: &[],
        gives: &[],
        section: "GetCapacity",
    };
    const NAMES: &'static [&'static str] = &["get-capacity", "capacity", "getc"];
    const EXAMPLES: &'static [&'static str] = &[
        "get-capacity --cap 5,mount --params server=10.0.0.4,share=/export --accessible-topology zone=a",
    ];
    const VIEW: View = View::new(&[
        size("AVAILABLE", "available_capacity"),
        size("MINIMUM VOLUME", "minimum_volume_size"),
        size("MAXIMUM VOLUME", "maximum_volume_size"),
    ])
    .name("available_capacity");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        let capacity = v1::GetCapacityResponse::decode(reply.bytes)?;
        let _ = writeln!(out, "{}", capacity.available_capacity);
        Ok(())
    });

    fn fill(
        &self,
        _: Option<&str>,
        _: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        self.capabilities.fill_all(&mut request.volume_capabilities);
        self.parameters.fill(&mut request.parameters);
        if let Some(topology) = &self.accessible_topology {
            request.accessible_topology = Some(topology.clone());
        }
        Ok(())
    }
}

/// The flags of `controller get-capabilities`.
#[derive(Args)]
pub struct ControllerGetCapabilities {}

impl Declare for ControllerGetCapabilities {
    type Request = v1::ControllerGetCapabilitiesRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Plugin(P::ControllerService)],
        required: &[],
        gives: &[],
        section: "ControllerGetCapabilities",
    };
    const NAMES: &'static [&'static str] = &["get-capabilities", "capabilities", "cget"];
    const EXAMPLES: &'static [&'static str] = &["get-capabilities"];
    const VIEW: View = View::new(&[text("CAPABILITY", "rpc.type")])
        .rows("capabilities")
        .name("rpc.type");
    const CSC: Option<csc::CscWriter> = Some(csc::capabilities);
}
