//! The Identity service: the driver's name and version, its capabilities, whether it is ready.

use super::vocabulary::*;
use csi_proto::tables::{
    PLUGIN_CAPABILITY_SERVICE_TYPE as SERVICE, PLUGIN_CAPABILITY_VOLUME_EXPANSION_TYPE as EXPANSION,
};
use csi_proto::v1::plugin_capability::Type;
use csi_proto::value::enum_name;
use prost::Message as _;
use std::fmt::Write as _;

/// The service's RPCs.
pub(crate) const GROUP: Group = Group {
    name: "identity",
    aliases: &["i", "ident"],
    at_node: true,
    about: "Who the driver is, what it offers, whether it is ready",
    rpcs: &[
        Rpc::of::<v1::GetPluginInfoRequest>(),
        Rpc::of::<v1::GetPluginCapabilitiesRequest>(),
        Rpc::of::<v1::ProbeRequest>(),
    ],
};

/// `identity plugin-info`.
impl Declare for v1::GetPluginInfoRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[];
    const REPLY_RULES: Rules = &[PLUGIN_NAME];
    const NAMES: Words = &["plugin-info", "info"];
    const VIEW: View = View::new(&[
        text("NAME", "name"),
        text("VERSION", "vendor_version"),
        text("MANIFEST", "manifest"),
    ])
    .name("name");
    const CSC: Csc = Some(|_, reply, out| {
        // `"name"⇥"version"`, then the manifest.
        let info = v1::GetPluginInfoResponse::decode(reply.bytes)?;
        out.push_str(&csc::quoted(&info.name));
        out.push('\t');
        out.push_str(&csc::quoted(&info.vendor_version));
        csc::entries(&info.manifest, "\t", "", out);
        out.push('\n');
        Ok(())
    });
    const EXAMPLES: Words = &["plugin-info"];
}

/// `identity plugin-capabilities`.
impl Declare for v1::GetPluginCapabilitiesRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[];
    const NAMES: Words = &["plugin-capabilities", "caps"];
    const VIEW: View = View::new(&[
        text("SERVICE", "service.type"),
        text("VOLUME EXPANSION", "volume_expansion.type"),
    ])
    .rows("capabilities")
    .name("service.type|volume_expansion.type");
    const CSC: Csc = Some(|_, reply, out| {
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
    const EXAMPLES: Words = &["plugin-capabilities"];
}

/// `identity probe`.
impl Declare for v1::ProbeRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[];
    const NAMES: Words = &["probe"];
    const VIEW: View = View::new(&[text("READY", "ready").format(CellFormat::Ready)]).name("ready");
    const CSC: Csc = Some(|_, reply, out| {
        // A driver that leaves `ready` out is ready.
        let ready = v1::ProbeResponse::decode(reply.bytes)?.ready;
        let _ = writeln!(out, "{}", ready.unwrap_or(true));
        Ok(())
    });
    const EXAMPLES: Words = &["probe"];
}
