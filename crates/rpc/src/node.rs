//! The Node service: staging, publishing, statistics and facts of one node.

use super::vocabulary::*;
use csi_proto::value::{Secrets, decode, enum_name};
use prost::Message as _;
use std::fmt::Write as _;

/// The service's RPCs.
pub(crate) const GROUP: Group = Group {
    name: "node",
    aliases: &["n"],
    at_node: true,
    about: "Volumes on one node: stage, publish, statistics",
    rpcs: &[
        Rpc::of::<v1::NodeStageVolumeRequest>(),
        Rpc::of::<v1::NodeUnstageVolumeRequest>(),
        Rpc::of::<v1::NodePublishVolumeRequest>(),
        Rpc::of::<v1::NodeUnpublishVolumeRequest>(),
        Rpc::of::<v1::NodeGetVolumeStatsRequest>(),
        Rpc::of::<v1::NodeExpandVolumeRequest>(),
        Rpc::of::<v1::NodeGetCapabilitiesRequest>(),
        Rpc::of::<v1::NodeGetInfoRequest>(),
    ],
};

/// `node stage`.
impl Declare for v1::NodeStageVolumeRequest {
    const EFFECT: Effect = Makes(Making {
        thing: Thing::StagedVolume,
        undone_by: &tables::NODE_NODE_UNSTAGE_VOLUME,
        id_path: &[],
    });
    const NEEDS: Needs = &[Node(N::StageUnstageVolume)];
    const NAMES: Words = &["stage"];
    const FLAGS: Flags = &[
        VOLUME_IDS,
        STAGING_TARGET_PATH,
        CAPABILITY,
        VOLUME_CONTEXT,
        PUBLISH_CONTEXT,
    ];
    const VIEW: View = View::done("staged");
    const EXAMPLES: Words = &[
        "stage vol-1 --staging-target-path /var/lib/staging/vol-1 --cap 5,mount --vol-context a=b --pub-context c=d",
    ];
}

/// `node unstage`.
impl Declare for v1::NodeUnstageVolumeRequest {
    const EFFECT: Effect = Undoes;
    const NEEDS: Needs = &[Node(N::StageUnstageVolume)];
    const NAMES: Words = &["unstage"];
    const FLAGS: Flags = &[VOLUME_IDS, STAGING_TARGET_PATH];
    const VIEW: View = View::done("unstaged");
    const EXAMPLES: Words = &["unstage vol-1 --staging-target-path /var/lib/staging/vol-1"];
}

/// `node publish`.
impl Declare for v1::NodePublishVolumeRequest {
    const EFFECT: Effect = Makes(Making {
        thing: Thing::PublishedVolume,
        undone_by: &tables::NODE_NODE_UNPUBLISH_VOLUME,
        id_path: &[],
    });
    const NEEDS: Needs = &[];
    const NAMES: Words = &["publish", "mnt", "mount"];
    const FLAGS: Flags = &[
        VOLUME_IDS,
        flag(&["target-path"], "PATH"),
        STAGING_TARGET_PATH,
        CAPABILITY,
        flag(&["read-only", "readonly"], ""),
        VOLUME_CONTEXT,
        PUBLISH_CONTEXT,
    ];
    const VIEW: View = View::done("published");
    const EXAMPLES: Words = &[
        "publish vol-1 --target-path /mnt/vol-1 --pub-context server=10.0.0.4,share=nfs_share",
        "publish vol-1 --target-path /mnt/vol-1 --staging-target-path /var/lib/staging/vol-1 --cap 5,mount --read-only --vol-context a=b",
    ];
}

/// `node unpublish`.
impl Declare for v1::NodeUnpublishVolumeRequest {
    const EFFECT: Effect = Undoes;
    const NEEDS: Needs = &[];
    const NAMES: Words = &["unpublish", "umount", "unmount"];
    const FLAGS: Flags = &[VOLUME_IDS, flag(&["target-path"], "PATH")];
    const VIEW: View = View::done("unpublished");
    const EXAMPLES: Words = &["unpublish vol-1 --target-path /mnt/vol-1"];
}

/// `node stats`.
impl Declare for v1::NodeGetVolumeStatsRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[Node(N::GetVolumeStats), Node(N::VolumeCondition)];
    const NAMES: Words = &["stats"];
    const FLAGS: Flags = &[
        VOLUME_PATHS,
        flag(&["volume-path"], "PATH"),
        STAGING_TARGET_PATH,
    ];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "?volume_id"),
        text("UNIT", "unit"),
        text("TOTAL", "total").format(CellFormat::Usage),
        text("USED", "used").format(CellFormat::Usage),
        text("AVAILABLE", "available").format(CellFormat::Usage),
        text("CONDITION", "/volume_condition").format(CellFormat::Condition),
        text("PATH", "?volume_path").wide(),
    ])
    .rows("usage")
    .name("?volume_id");
    const CSC: Csc = Some(|_, reply, out| {
        // `id⇥path⇥` once, then a line a usage.
        let request = v1::NodeGetVolumeStatsRequest::decode(reply.request)?;
        let _ = write!(out, "{}\t{}\t", request.volume_id, request.volume_path);
        let usages = v1::NodeGetVolumeStatsResponse::decode(reply.bytes)?.usage;
        if usages.is_empty() {
            out.push('\n');
        }
        for usage in usages {
            let unit = enum_name(&tables::VOLUME_USAGE_UNIT, usage.unit);
            let (available, total, used) = (usage.available, usage.total, usage.used);
            let _ = writeln!(out, "{available}\t{total}\t{used}\t{unit}");
        }
        Ok(())
    });
    const EXAMPLES: Words = &[
        "stats vol-1:/mnt/vol-1:/var/lib/staging/vol-1",
        "stats vol-1 --volume-path /mnt/vol-1 --staging-target-path /var/lib/staging/vol-1",
    ];
}

/// `node expand-volume`.
impl Declare for v1::NodeExpandVolumeRequest {
    const EFFECT: Effect = Changes;
    const NEEDS: Needs = &[Node(N::ExpandVolume)];
    const AGREEMENTS: Agreements = &[InCapacityRange("capacity_bytes")];
    const NAMES: Words = &["expand-volume", "expand", "exp"];
    const FLAGS: Flags = &[
        VOLUME_PATH,
        second(&["volume-path"], "PATH"),
        CAPACITY,
        STAGING_TARGET_PATH,
        CAPABILITY,
    ];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "?volume_id"),
        size("CAPACITY", "capacity_bytes"),
    ])
    .name("?volume_id");
    const CSC: Csc = Some(|layout, reply, out| csc::field(layout, reply, "capacity_bytes", out));
    const EXAMPLES: Words = &[
        "expand-volume vol-1:/mnt/vol-1:/var/lib/staging/vol-1 --req-bytes 20Gi",
        "expand-volume vol-1 /mnt/vol-1 --req-bytes 20Gi --lim-bytes 30Gi --staging-target-path /var/lib/staging/vol-1 --cap 5,mount",
    ];
}

/// `node get-capabilities`.
impl Declare for v1::NodeGetCapabilitiesRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[];
    const NAMES: Words = &["get-capabilities", "capabilities"];
    const VIEW: View = CAPABILITIES;
    const CSC: Csc = Some(csc::capabilities);
    const EXAMPLES: Words = &["get-capabilities"];
}

/// `node get-info`.
impl Declare for v1::NodeGetInfoRequest {
    const EFFECT: Effect = Reads;
    const NEEDS: Needs = &[];
    const GIVES: Gives = &[(Given::Ids(IdKind::Node), "node_id")];
    const NAMES: Words = &["get-info", "info"];
    const VIEW: View = View::new(&[
        text("NODE ID", "node_id"),
        text("MAX VOLUMES", "max_volumes_per_node"),
        text("TOPOLOGY", "accessible_topology"),
    ])
    .name("node_id");
    const CSC: Csc = Some(|layout, reply, out| {
        let info = v1::NodeGetInfoResponse::decode(reply.bytes)?;
        let value = decode(layout.method.response, reply.bytes, Secrets::Mask)?;
        let topology = value.get("accessible_topology").map(csc::proto_text);
        let (id, most) = (info.node_id, info.max_volumes_per_node);
        let _ = writeln!(out, "{id}\t{most}\t{}", topology.unwrap_or_default());
        Ok(())
    });
    const EXAMPLES: Words = &["get-info"];
}
