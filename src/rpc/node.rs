//! The Node service: staging, publishing, statistics and facts of one node.

use super::declare::{Declare, Group, Rpc};
use super::facts::{Capability, Effect, Facts, Given, IdKind, Making, NodeCapability as N, Thing};
use super::flags::{
    CapacityFlags, OptionalCapability, PublishContext, RequestContext, RequestError,
    RequiredCapability, StagingTargetPath, Subjects, VolumeContext, VolumeIds, fill_text, put,
};
use super::validation::exchange::Agreement::InCapacityRange;
use super::validation::rpc_rules::RpcRules;
use super::validation::rule::Rule::Required;
use crate::output::csc;
use crate::output::view::{CellFormat, View, size, text};
use clap::Args;
use csi_proto::value::{Secrets, decode, enum_name};
use csi_proto::{help, tables, v1};
use prost::Message as _;
use std::fmt::Write as _;

/// The service's RPCs.
pub const GROUP: Group = Group {
    name: "node",
    aliases: &["n"],
    at_node: true,
    about: "Volumes on one node: stage, publish, statistics",
    rpcs: &[
        Rpc::of::<NodeStageVolume>(),
        Rpc::of::<NodeUnstageVolume>(),
        Rpc::of::<NodePublishVolume>(),
        Rpc::of::<NodeUnpublishVolume>(),
        Rpc::of::<NodeGetVolumeStats>(),
        Rpc::of::<NodeExpandVolume>(),
        Rpc::of::<NodeGetCapabilities>(),
        Rpc::of::<NodeGetInfo>(),
    ],
};

/// The flags of `node stage`.
#[derive(Args)]
pub struct NodeStageVolume {
    #[command(flatten)]
    ids: VolumeIds,
    #[command(flatten)]
    staging: StagingTargetPath,
    #[command(flatten)]
    capability: RequiredCapability,
    #[command(flatten)]
    vol_context: VolumeContext,
    #[command(flatten)]
    pub_context: PublishContext,
}

impl Declare for NodeStageVolume {
    type Request = v1::NodeStageVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Makes(Making {
            thing: Thing::StagedVolume,
            undone_by: &tables::NODE_NODE_UNSTAGE_VOLUME,
            id_path: &[],
        }),
        needs: &[Capability::Node(N::StageUnstageVolume)],
        required: &["volume_id", "staging_target_path", "volume_capability"],
        gives: &[],
        section: "NodeStageVolume",
    };
    const NAMES: &'static [&'static str] = &["stage"];
    const EXAMPLES: &'static [&'static str] = &[
        "stage vol-1 --staging-target-path /var/lib/staging/vol-1 --cap 5,mount --vol-context a=b --pub-context c=d",
    ];
    const VIEW: View = View::done("staged");

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
        self.staging.fill(&mut request.staging_target_path);
        self.capability
            .fill_one(context, &mut request.volume_capability);
        self.vol_context.fill(&mut request.volume_context);
        self.pub_context.fill(&mut request.publish_context);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `node unstage`.
#[derive(Args)]
pub struct NodeUnstageVolume {
    #[command(flatten)]
    ids: VolumeIds,
    #[command(flatten)]
    staging: StagingTargetPath,
}

impl Declare for NodeUnstageVolume {
    type Request = v1::NodeUnstageVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Undoes,
        needs: &[Capability::Node(N::StageUnstageVolume)],
        required: &["volume_id", "staging_target_path"],
        gives: &[],
        section: "NodeUnstageVolume",
    };
    const NAMES: &'static [&'static str] = &["unstage"];
    const EXAMPLES: &'static [&'static str] =
        &["unstage vol-1 --staging-target-path /var/lib/staging/vol-1"];
    const VIEW: View = View::done("unstaged");

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
        self.staging.fill(&mut request.staging_target_path);
        Ok(())
    }
}

/// The flags of `node publish`.
#[derive(Args)]
pub struct NodePublishVolume {
    #[command(flatten)]
    ids: VolumeIds,
    #[arg(long, value_name = "PATH", help = help::node_publish_volume_request::TARGET_PATH)]
    target_path: Option<String>,
    #[command(flatten)]
    staging: StagingTargetPath,
    #[command(flatten)]
    capability: RequiredCapability,
    #[arg(long, visible_alias = "readonly", help = help::node_publish_volume_request::READONLY)]
    read_only: bool,
    #[command(flatten)]
    vol_context: VolumeContext,
    #[command(flatten)]
    pub_context: PublishContext,
}

impl Declare for NodePublishVolume {
    type Request = v1::NodePublishVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Makes(Making {
            thing: Thing::PublishedVolume,
            undone_by: &tables::NODE_NODE_UNPUBLISH_VOLUME,
            id_path: &[],
        }),
        needs: &[],
        required: &["volume_id", "target_path", "volume_capability"],
        gives: &[],
        section: "NodePublishVolume",
    };
    const NAMES: &'static [&'static str] = &["publish", "mnt", "mount"];
    const EXAMPLES: &'static [&'static str] = &[
        "publish vol-1 --target-path /mnt/vol-1 --pub-context server=10.0.0.4,share=nfs_share",
        "publish vol-1 --target-path /mnt/vol-1 --staging-target-path /var/lib/staging/vol-1 --cap 5,mount --read-only --vol-context a=b",
    ];
    const VIEW: View = View::done("published");

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
        fill_text(self.target_path.as_ref(), &mut request.target_path);
        self.staging.fill(&mut request.staging_target_path);
        self.capability
            .fill_one(context, &mut request.volume_capability);
        request.readonly |= self.read_only;
        self.vol_context.fill(&mut request.volume_context);
        self.pub_context.fill(&mut request.publish_context);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `node unpublish`.
#[derive(Args)]
pub struct NodeUnpublishVolume {
    #[command(flatten)]
    ids: VolumeIds,
    #[arg(long, value_name = "PATH", help = help::node_unpublish_volume_request::TARGET_PATH)]
    target_path: Option<String>,
}

impl Declare for NodeUnpublishVolume {
    type Request = v1::NodeUnpublishVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Undoes,
        needs: &[],
        required: &["volume_id", "target_path"],
        gives: &[],
        section: "NodeUnpublishVolume",
    };
    const NAMES: &'static [&'static str] = &["unpublish", "umount", "unmount"];
    const EXAMPLES: &'static [&'static str] = &["unpublish vol-1 --target-path /mnt/vol-1"];
    const VIEW: View = View::done("unpublished");

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
        fill_text(self.target_path.as_ref(), &mut request.target_path);
        Ok(())
    }
}

/// The flags of `node stats`.
#[derive(Args)]
pub struct NodeGetVolumeStats {
    /// Volume ids with their paths, ID:PATH[:STAGING-PATH]; bare ids with --volume-path
    #[arg(value_name = "ID:PATH[:STAGING]")]
    ids_and_paths: Vec<String>,
    /// Volume id, with --volume-path
    #[arg(long, value_name = "ID", hide_short_help = true)]
    volume_id: Vec<String>,
    #[arg(long, value_name = "PATH", help = help::node_get_volume_stats_request::VOLUME_PATH)]
    volume_path: Option<String>,
    #[command(flatten)]
    staging: StagingTargetPath,
}

impl Declare for NodeGetVolumeStats {
    type Request = v1::NodeGetVolumeStatsRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[
            Capability::Node(N::GetVolumeStats),
            Capability::Node(N::VolumeCondition),
        ],
        required: &["volume_id", "volume_path"],
        gives: &[],
        section: "NodeGetVolumeStats",
    };
    const NAMES: &'static [&'static str] = &["stats"];
    const EXAMPLES: &'static [&'static str] = &[
        "stats vol-1:/mnt/vol-1:/var/lib/staging/vol-1",
        "stats vol-1 --volume-path /mnt/vol-1 --staging-target-path /var/lib/staging/vol-1",
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
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
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

    fn subjects(&self) -> Option<Subjects<'_>> {
        let all = self.ids_and_paths.iter().chain(&self.volume_id);
        Some(Subjects {
            value_name: "ID:PATH",
            all: all.map(String::as_str).collect(),
        })
    }

    fn fill(
        &self,
        subject: Option<&str>,
        _: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        if let Some(subject) = subject {
            let (id, path, staging) = match &self.volume_path {
                Some(path) => (subject, path.as_str(), ""),
                None => id_and_paths(subject)?,
            };
            id.clone_into(&mut request.volume_id);
            path.clone_into(&mut request.volume_path);
            staging.clone_into(&mut request.staging_target_path);
        } else {
            fill_text(self.volume_path.as_ref(), &mut request.volume_path);
        }
        self.staging.fill(&mut request.staging_target_path);
        Ok(())
    }
}

/// The parts of csc's `ID:PATH[:STAGING]`. Ids may contain colons: paths are taken to begin with a slash where one does.
fn id_and_paths(argument: &str) -> Result<(&str, &str, &str), RequestError> {
    let separator = if argument.contains(":/") { ":/" } else { ":" };
    let Some((id, paths)) = argument.split_once(separator) else {
        return Err(RequestError::Conflict(format!(
            "{argument:?} has no path: give ID:PATH, or the path with --volume-path"
        )));
    };
    // The slash belongs to the path.
    let paths = &argument[argument.len() - paths.len() - (separator.len() - 1)..];
    let (path, staging) = match paths.split_once(separator) {
        Some((path, staging)) => {
            let start = paths.len() - staging.len() - (separator.len() - 1);
            (path, &paths[start..])
        }
        None => (paths, ""),
    };
    Ok((id, path, staging))
}

/// The flags of `node expand-volume`.
#[derive(Args)]
pub struct NodeExpandVolume {
    #[arg(value_name = "ID", help = help::node_expand_volume_request::VOLUME_ID)]
    id: Option<String>,
    #[arg(value_name = "PATH", help = help::node_expand_volume_request::VOLUME_PATH)]
    path: Option<String>,
    /// The same as the first argument
    #[arg(long, value_name = "ID", hide_short_help = true, conflicts_with = "id")]
    volume_id: Option<String>,
    /// The same as the second argument
    #[arg(
        long,
        value_name = "PATH",
        hide_short_help = true,
        conflicts_with = "path"
    )]
    volume_path: Option<String>,
    #[command(flatten)]
    capacity: CapacityFlags,
    #[command(flatten)]
    staging: StagingTargetPath,
    #[command(flatten)]
    capability: OptionalCapability,
}

impl Declare for NodeExpandVolume {
    type Request = v1::NodeExpandVolumeRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Changes,
        needs: &[Capability::Node(N::ExpandVolume)],
        required: &["volume_id", "volume_path"],
        gives: &[],
        section: "NodeExpandVolume",
    };
    const RULES: RpcRules = RpcRules {
        exchange: &[InCapacityRange("capacity_bytes")],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["expand-volume", "expand", "exp"];
    const EXAMPLES: &'static [&'static str] = &[
        "expand-volume vol-1 /mnt/vol-1 --req-bytes 20Gi --lim-bytes 30Gi --staging-target-path /var/lib/staging/vol-1 --cap 5,mount",
    ];
    const VIEW: View = View::new(&[
        text("VOLUME ID", "?volume_id"),
        size("CAPACITY", "capacity_bytes"),
    ])
    .name("?volume_id");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        let expanded = v1::NodeExpandVolumeResponse::decode(reply.bytes)?;
        let _ = writeln!(out, "{}", expanded.capacity_bytes);
        Ok(())
    });

    fn subjects(&self) -> Option<Subjects<'_>> {
        Some(Subjects {
            value_name: "ID",
            all: self
                .id
                .iter()
                .chain(&self.volume_id)
                .map(String::as_str)
                .collect(),
        })
    }

    fn fill(
        &self,
        subject: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        put(subject, &mut request.volume_id);
        fill_text(
            self.path.as_ref().or(self.volume_path.as_ref()),
            &mut request.volume_path,
        );
        self.capacity.fill(&mut request.capacity_range);
        self.staging.fill(&mut request.staging_target_path);
        self.capability.fill_one(&mut request.volume_capability);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `node get-capabilities`.
#[derive(Args)]
pub struct NodeGetCapabilities {}

impl Declare for NodeGetCapabilities {
    type Request = v1::NodeGetCapabilitiesRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[],
        required: &[],
        gives: &[],
        section: "NodeGetCapabilities",
    };
    const NAMES: &'static [&'static str] = &["get-capabilities", "capabilities"];
    const EXAMPLES: &'static [&'static str] = &["get-capabilities"];
    const VIEW: View = View::new(&[text("CAPABILITY", "rpc.type")])
        .rows("capabilities")
        .name("rpc.type");
    const CSC: Option<csc::CscWriter> = Some(csc::capabilities);
}

/// The flags of `node get-info`.
#[derive(Args)]
pub struct NodeGetInfo {}

impl Declare for NodeGetInfo {
    type Request = v1::NodeGetInfoRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[],
        required: &[],
        gives: &[(Given::Ids(IdKind::Node), "node_id")],
        section: "NodeGetInfo",
    };
    const RULES: RpcRules = RpcRules {
        reply: &[Required("node_id")],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["get-info", "info"];
    const EXAMPLES: &'static [&'static str] = &["get-info"];
    const VIEW: View = View::new(&[
        text("NODE ID", "node_id"),
        text("MAX VOLUMES", "max_volumes_per_node"),
        text("TOPOLOGY", "accessible_topology"),
    ])
    .name("node_id");
    const CSC: Option<csc::CscWriter> = Some(|layout, reply, out| {
        let info = v1::NodeGetInfoResponse::decode(reply.bytes)?;
        let value = decode(layout.method.response, reply.bytes, Secrets::Mask)?;
        let topology = value.get("accessible_topology").map(csc::proto_text);
        let (id, most) = (info.node_id, info.max_volumes_per_node);
        let _ = writeln!(out, "{id}\t{most}\t{}", topology.unwrap_or_default());
        Ok(())
    });
}
