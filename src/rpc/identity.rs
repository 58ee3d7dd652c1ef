//! The Identity service: the driver's name and version, its capabilities, whether it is ready.

use super::declare::{Declare, Group, Rpc};
use super::facts::{Effect, Facts};
use super::validation::rpc_rules::{PLUGIN_NAME, RpcRules};
use super::validation::rule::Rule::Required;
use crate::output::csc;
use crate::output::view::{CellFormat, View, text};
use clap::Args;
use csi_proto::tables::{
    PLUGIN_CAPABILITY_SERVICE_TYPE as SERVICE, PLUGIN_CAPABILITY_VOLUME_EXPANSION_TYPE as EXPANSION,
};
use csi_proto::v1;
use csi_proto::v1::plugin_capability::Type;
use csi_proto::value::enum_name;
use prost::Message as _;
use std::fmt::Write as _;

/// The service's RPCs.
pub const GROUP: Group = Group {
    name: "identity",
    aliases: &["i", "ident"],
    at_node: true,
    about: "Who the driver is, what it offers, whether it is ready",
    rpcs: &[
        Rpc::of::<GetPluginInfo>(),
        Rpc::of::<GetPluginCapabilities>(),
        Rpc::of::<Probe>(),
    ],
};

/// The flags of `identity plugin-info`.
#[derive(Args)]
pub struct GetPluginInfo {}

impl Declare for GetPluginInfo {
    type Request = v1::GetPluginInfoRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[],
        required: &[],
        gives: &[],
        section: "GetPluginInfo",
    };
    const RULES: RpcRules = RpcRules {
        reply: &[Required("name"), PLUGIN_NAME, Required("vendor_version")],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["plugin-info", "info"];
    const EXAMPLES: &'static [&'static str] = &["plugin-info"];
    const VIEW: View = View::new(&[
        text("NAME", "name"),
        text("VERSION", "vendor_version"),
        text("MANIFEST", "manifest"),
    ])
    .name("name");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        // `"name"⇥"version"`, then the manifest.
        let info = v1::GetPluginInfoResponse::decode(reply.bytes)?;
        out.push_str(&csc::quoted(&info.name));
        out.push('\t');
        out.push_str(&csc::quoted(&info.vendor_version));
        csc::entries(&info.manifest, "\t", "", out);
        out.push('\n');
        Ok(())
    });
}

/// The flags of `identity plugin-capabilities`.
#[derive(Args)]
pub struct GetPluginCapabilities {}

impl Declare for GetPluginCapabilities {
    type Request = v1::GetPluginCapabilitiesRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[],
        required: &[],
        gives: &[],
        section: "GetPluginCapabilities",
    };
    const NAMES: &'static [&'static str] = &["plugin-capabilities", "caps"];
    const EXAMPLES: &'static [&'static str] = &["plugin-capabilities"];
    const VIEW: View = View::new(&[
        text("SERVICE", "service.type"),
        text("VOLUME EXPANSION", "volume_expansion.type"),
    ])
    .rows("capabilities")
    .name("service.type|volume_expansion.type");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        // One name a line, services and expansion types alike.
        for capability in v1::GetPluginCapabilitiesResponse::decode(reply.bytes)?.capabilities {
            let name = match capability.r#type {
                Some(Type::Service(service)) => enum_name(&SERVICE, service.r#type),
                Some(Type::VolumeExpansion(expansion)) => enum_name(&EXPANSION, expansion.r#type),
                None => continue,
            };
            let _ = writeln!(out, "{name}");
        }
        Ok(())
    });
}

/// The flags of `identity probe`.
#[derive(Args)]
pub struct Probe {}

impl Declare for Probe {
    type Request = v1::ProbeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[],
        required: &[],
        gives: &[],
        section: "Probe",
    };
    const NAMES: &'static [&'static str] = &["probe"];
    const EXAMPLES: &'static [&'static str] = &["probe"];
    const VIEW: View = View::new(&[text("READY", "ready").format(CellFormat::Ready)]).name("ready");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        // A driver that leaves `ready` out is ready.
        let ready = v1::ProbeResponse::decode(reply.bytes)?.ready;
        let _ = writeln!(out, "{}", ready.unwrap_or(true));
        Ok(())
    });
}
