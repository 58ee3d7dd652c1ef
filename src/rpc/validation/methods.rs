//! The rules of single RPCs: one entry for each, with what its request and its reply require and what must agree between
//! them. An RPC without rules has an entry too.

use super::exchange::{self, Agreement};
use super::rule::Rule;
use super::syntax;
use Agreement::{AtMost, EveryEntry, InCapacityRange, NewToken, Same};
use Rule::{Required, Text};
use csi_proto::schema::Method;

/// The rules of an RPC.
pub struct MethodRules {
    /// The RPC.
    pub name: &'static str,
    /// What its request must satisfy.
    pub request: &'static [Rule],
    /// What its reply must satisfy.
    pub reply: &'static [Rule],
    /// What must agree between the two.
    pub exchange: &'static [Agreement],
    /// Where the reply gives a volume context for the first time.
    pub gives_volume_context: Option<&'static str>,
    /// Where the reply gives a publish context.
    pub gives_publish_context: Option<&'static str>,
}

/// No rules beyond those of all messages.
const NONE: MethodRules = MethodRules {
    name: "",
    request: &[],
    reply: &[],
    exchange: &[],
    gives_volume_context: None,
    gives_publish_context: None,
};

/// A name that the caller chooses and the driver may use.
const SUGGESTED_NAME: Rule = Text(
    "name",
    syntax::is_suggested_name,
    "has a control character that is not a tab, line feed or carriage return",
);

const PLUGIN_NAME: Rule = Text(
    "name",
    syntax::is_plugin_name,
    "is not a domain name of at most 63 letters, digits, '-' and '.'",
);

const PAGE: Agreement = AtMost {
    list: "entries",
    limit: "max_entries",
};

const RANGES: &[Agreement] = &[
    AtMost {
        list: "block_metadata",
        limit: "max_results",
    },
    Agreement::Check(exchange::block_metadata),
];

const RULES: &[MethodRules] = &[
    // Identity
    MethodRules {
        name: "GetPluginInfo",
        reply: &[Required("name"), PLUGIN_NAME, Required("vendor_version")],
        ..NONE
    },
    MethodRules {
        name: "GetPluginCapabilities",
        ..NONE
    },
    MethodRules {
        name: "Probe",
        ..NONE
    },
    // Controller
    MethodRules {
        name: "CreateVolume",
        request: &[
            Required("name"),
            SUGGESTED_NAME,
            Required("volume_capabilities"),
        ],
        reply: &[Required("volume")],
        exchange: &[
            InCapacityRange("volume.capacity_bytes"),
            Agreement::Check(exchange::created_volume),
        ],
        gives_volume_context: Some("volume.volume_context"),
        ..NONE
    },
    MethodRules {
        name: "DeleteVolume",
        request: &[Required("volume_id")],
        ..NONE
    },
    MethodRules {
        name: "ControllerPublishVolume",
        request: &[
            Required("volume_id"),
            Required("node_id"),
            Required("volume_capability"),
        ],
        gives_publish_context: Some("publish_context"),
        ..NONE
    },
    MethodRules {
        name: "ControllerUnpublishVolume",
        request: &[Required("volume_id")],
        ..NONE
    },
    MethodRules {
        name: "ValidateVolumeCapabilities",
        request: &[Required("volume_id"), Required("volume_capabilities")],
        exchange: &[Agreement::Check(exchange::confirmed_capabilities)],
        ..NONE
    },
    MethodRules {
        name: "ListVolumes",
        exchange: &[PAGE, NewToken],
        ..NONE
    },
    MethodRules {
        name: "GetCapacity",
        ..NONE
    },
    MethodRules {
        name: "ControllerGetCapabilities",
        ..NONE
    },
    MethodRules {
        name: "CreateSnapshot",
        request: &[
            Required("source_volume_id"),
            Required("name"),
            SUGGESTED_NAME,
        ],
        reply: &[Required("snapshot")],
        exchange: &[Same {
            asked: "source_volume_id",
            got: "snapshot.source_volume_id",
        }],
        ..NONE
    },
    MethodRules {
        name: "DeleteSnapshot",
        request: &[Required("snapshot_id")],
        ..NONE
    },
    MethodRules {
        name: "ListSnapshots",
        exchange: &[
            PAGE,
            NewToken,
            EveryEntry {
                asked: "source_volume_id",
                got: "snapshot.source_volume_id",
            },
            EveryEntry {
                asked: "snapshot_id",
                got: "snapshot.snapshot_id",
            },
        ],
        ..NONE
    },
    MethodRules {
        name: "GetSnapshot",
        request: &[Required("snapshot_id")],
        reply: &[Required("snapshot")],
        exchange: &[Same {
            asked: "snapshot_id",
            got: "snapshot.snapshot_id",
        }],
        ..NONE
    },
    MethodRules {
        name: "ControllerExpandVolume",
        request: &[Required("volume_id"), Required("capacity_range")],
        reply: &[Required("capacity_bytes")],
        exchange: &[InCapacityRange("capacity_bytes")],
        ..NONE
    },
    MethodRules {
        name: "ControllerGetVolume",
        request: &[Required("volume_id")],
        reply: &[Required("volume"), Required("status")],
        exchange: &[Same {
            asked: "volume_id",
            got: "volume.volume_id",
        }],
        ..NONE
    },
    MethodRules {
        name: "ControllerModifyVolume",
        request: &[Required("volume_id"), Required("mutable_parameters")],
        ..NONE
    },
    // GroupController
    MethodRules {
        name: "GroupControllerGetCapabilities",
        ..NONE
    },
    MethodRules {
        name: "CreateVolumeGroupSnapshot",
        request: &[
            Required("name"),
            SUGGESTED_NAME,
            Required("source_volume_ids"),
        ],
        reply: &[Required("group_snapshot")],
        exchange: &[Agreement::Check(exchange::group_is_complete)],
        ..NONE
    },
    MethodRules {
        name: "DeleteVolumeGroupSnapshot",
        request: &[Required("group_snapshot_id"), Required("snapshot_ids")],
        ..NONE
    },
    MethodRules {
        name: "GetVolumeGroupSnapshot",
        request: &[Required("group_snapshot_id"), Required("snapshot_ids")],
        reply: &[Required("group_snapshot")],
        exchange: &[Same {
            asked: "group_snapshot_id",
            got: "group_snapshot.group_snapshot_id",
        }],
        ..NONE
    },
    // SnapshotMetadata
    MethodRules {
        name: "GetMetadataAllocated",
        request: &[Required("snapshot_id")],
        reply: &[
            Required("block_metadata_type"),
            Required("volume_capacity_bytes"),
        ],
        exchange: RANGES,
        ..NONE
    },
    MethodRules {
        name: "GetMetadataDelta",
        request: &[Required("base_snapshot_id"), Required("target_snapshot_id")],
        reply: &[
            Required("block_metadata_type"),
            Required("volume_capacity_bytes"),
        ],
        exchange: RANGES,
        ..NONE
    },
    // Node
    MethodRules {
        name: "NodeStageVolume",
        request: &[
            Required("volume_id"),
            Required("staging_target_path"),
            Required("volume_capability"),
        ],
        ..NONE
    },
    MethodRules {
        name: "NodeUnstageVolume",
        request: &[Required("volume_id"), Required("staging_target_path")],
        ..NONE
    },
    MethodRules {
        name: "NodePublishVolume",
        request: &[
            Required("volume_id"),
            Required("target_path"),
            Required("volume_capability"),
        ],
        ..NONE
    },
    MethodRules {
        name: "NodeUnpublishVolume",
        request: &[Required("volume_id"), Required("target_path")],
        ..NONE
    },
    MethodRules {
        name: "NodeGetVolumeStats",
        request: &[Required("volume_id"), Required("volume_path")],
        ..NONE
    },
    MethodRules {
        name: "NodeExpandVolume",
        request: &[Required("volume_id"), Required("volume_path")],
        exchange: &[InCapacityRange("capacity_bytes")],
        ..NONE
    },
    MethodRules {
        name: "NodeGetCapabilities",
        ..NONE
    },
    MethodRules {
        name: "NodeGetInfo",
        reply: &[Required("node_id")],
        ..NONE
    },
];

/// The rules of `method`.
pub fn of(method: &'static Method) -> &'static MethodRules {
    let entry = RULES.iter().find(|rules| rules.name == method.name);
    entry.unwrap_or(&NONE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::path::Path;
    use csi_proto::schema::Message;
    use csi_proto::tables::METHODS;

    #[test]
    fn every_rpc_has_one_entry() {
        let entries: Vec<&str> = RULES.iter().map(|rules| rules.name).collect();
        for method in METHODS {
            let count = entries.iter().filter(|name| **name == method.name).count();
            assert_eq!(count, 1, "entries of {}", method.name);
        }
        assert_eq!(entries.len(), METHODS.len());
    }

    fn assert_path(message: &'static Message, path: &str) {
        let path = Path::parse(message, path);
        assert!(path.is_ok(), "{path:?}");
    }

    #[test]
    fn rules_name_fields_that_exist() {
        for method in METHODS {
            let rules = of(method);
            for (message, rules) in [
                (method.request, rules.request),
                (method.response, rules.reply),
            ] {
                for rule in rules {
                    if let Required(field) | Text(field, ..) = rule {
                        assert_path(message, field);
                    }
                }
            }
            for agreement in rules.exchange {
                match agreement {
                    AtMost { list, limit } => {
                        assert_path(method.response, list);
                        assert_path(method.request, limit);
                    }
                    Same { asked, got } => {
                        assert_path(method.request, asked);
                        assert_path(method.response, got);
                    }
                    EveryEntry { asked, .. } => {
                        assert_path(method.request, asked);
                        assert_path(method.response, "entries");
                    }
                    InCapacityRange(path) => {
                        assert_path(method.request, "capacity_range.limit_bytes");
                        assert_path(method.response, path);
                    }
                    NewToken => {
                        assert_path(method.request, "starting_token");
                        assert_path(method.response, "next_token");
                    }
                    Agreement::Check(_) => {}
                }
            }
            let gives = [rules.gives_volume_context, rules.gives_publish_context];
            for path in gives.into_iter().flatten() {
                assert_path(method.response, path);
            }
        }
    }
}
