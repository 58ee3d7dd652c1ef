//! The Controller service: its RPCs, and the blocks of those that attach volumes to nodes or ask about volumes and the
//! controller. Volumes stand in `volumes.rs`, snapshots in `snapshots.rs`.

use super::vocabulary::*;
use csi_proto::value::{Secrets, Value, decode};
use prost::Message as _;
use std::fmt::Write as _;

/// The service's RPCs.
pub(crate) const GROUP: Group = Group {
    name: "controller",
    aliases: &["c"],
    at_node: false,
    about: "Volumes and snapshots, as the storage system sees them",
    rpcs: &[
        Rpc::of::<v1::CreateVolumeRequest>(),
        Rpc::of::<v1::DeleteVolumeRequest>(),
        Rpc::of::<v1::ControllerPublishVolumeRequest>(),
        Rpc::of::<v1::ControllerUnpublishVolumeRequest>(),
        Rpc::of::<v1::ValidateVolumeCapabilitiesRequest>(),
        Rpc::of::<v1::ListVolumesRequest>(),
        Rpc::of::<v1::ControllerGetVolumeRequest>(),
        Rpc::of::<v1::ControllerModifyVolumeRequest>(),
        Rpc::of::<v1::ControllerExpandVolumeRequest>(),
        Rpc::of::<v1::GetCapacityRequest>(),
        Rpc::of::<v1::ControllerGetCapabilitiesRequest>(),
        Rpc::of::<v1::CreateSnapshotRequest>(),
        Rpc::of::<v1::DeleteSnapshotRequest>(),
        Rpc::of::<v1::ListSnapshotsRequest>(),
        Rpc::of::<v1::GetSnapshotRequest>(),
    ],
};

/// `controller publish`.
impl Declare for v1::ControllerPublishVolumeRequest {
    const EFFECT: Effect = Makes(Making {
        thing: Thing::AttachedVolume,
        undone_by: &tables::CONTROLLER_CONTROLLER_UNPUBLISH_VOLUME,
        id_path: &[],
    });
    const NEEDS: Needs = &[Controller(C::PublishUnpublishVolume)];
    const GIVES: Gives = &[(Given::PublishContext, "publish_context")];
    const NAMES: Words = &["publish", "att", "attach"];
    const FLAGS: Flags = &[
        VOLUME_IDS,
        flag(&["node-id"], "ID"),
        CAPABILITY,
        flag(&["read-only", "readonly"], ""),
        VOLUME_CONTEXT,
    ];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "?volume_id"),
        text("PUBLISH CONTEXT", "publish_context"),
    ])
    .name("?volume_id");
    const CSC: Csc = Some(|_, reply, out| {
        let reply_to = v1::ControllerPublishVolumeResponse::decode(reply.bytes)?;
        out.push_str(&csc::quoted(reply.subject));
        csc::entries(&reply_to.publish_context, "\t", "", out);
        out.push('\n');
        Ok(())
    });
    const EXAMPLES: Words =
        &["publish vol-1 --node-id node-1 --cap 5,mount --read-only --vol-context a=b"];
}

/// `controller unpublish`.
impl Declare for v1::ControllerUnpublishVolumeRequest {
    const EFFECT: Effect = Undoes;
    const NEEDS: Needs = &[Controller(C::PublishUnpublishVolume)];
    const NAMES: Words = &["unpublish", "det", "detach"];
    const FLAGS: Flags = &[VOLUME_IDS, flag(&["node-id"], "ID")];
    const VIEW: View = View::done("unpublished");
    const EXAMPLES: Words = &["unpublish vol-1 --node-id node-1"];
}

/// `controller validate-volume-capabilities`.
impl Declare for v1::ValidateVolumeCapabilitiesRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Plugin(P::ControllerService)];
    const AGREEMENTS: Agreements = &[Check(exchange::confirmed_capabilities)];
    const NAMES: Words = &["validate-volume-capabilities", "validate", "v"];
    const FLAGS: Flags = &[
        VOLUME_IDS,
        CAPABILITY,
        VOLUME_CONTEXT,
        PARAMETERS.of_new_volumes(),
        MUTABLE_PARAMETERS,
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
    const CSC: Csc = Some(|layout, reply, out| {
        // What was confirmed as proto text or `<nil>`, and the message.
        let value = decode(layout.method.response, reply.bytes, Secrets::Mask)?;
        let confirmed = value.get("confirmed").map(csc::proto_text);
        let message = match value.get("message") {
            Some(Value::Text(message)) => message,
            _ => "",
        };
        let confirmed = confirmed.as_deref().unwrap_or("<nil>");
        let _ = write!(out, "{}\t{confirmed}", csc::quoted(reply.subject));
        if !message.is_empty() {
            let _ = write!(out, "\t{}", csc::quoted(message));
        }
        out.push('\n');
        Ok(())
    });
    const EXAMPLES: Words = &[
        "validate-volume-capabilities vol-1 --cap 5,mount --vol-context a=b --params c=d --mutable-params e=f",
    ];
}

/// `controller get-capacity`.
impl Declare for v1::GetCapacityRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Controller(C::GetCapacity)];
    const NAMES: Words = &["get-capacity", "capacity", "getc"];
    const FLAGS: Flags = &[
        CAPABILITY,
        PARAMETERS,
        flag(&["accessible-topology", "topology"], "K=V,…"),
    ];
    const VIEW: View = View::new(&[
        size("AVAILABLE", "available_capacity"),
        size("MINIMUM VOLUME", "minimum_volume_size"),
        size("MAXIMUM VOLUME", "maximum_volume_size"),
    ])
    .name("available_capacity");
    const CSC: Csc =
        Some(|layout, reply, out| csc::field(layout, reply, "available_capacity", out));
    const EXAMPLES: Words = &[
        "get-capacity --cap 5,mount --params server=10.0.0.4,share=/export --accessible-topology zone=a",
    ];
}

/// `controller get-capabilities`.
impl Declare for v1::ControllerGetCapabilitiesRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Plugin(P::ControllerService)];
    const NAMES: Words = &["get-capabilities", "capabilities", "cget"];
    const VIEW: View = CAPABILITIES;
    const CSC: Csc = Some(csc::capabilities);
    const EXAMPLES: Words = &["get-capabilities"];
}
