//! The RPCs of the Controller service about snapshots.

use super::declare::Declare;
use super::facts::{
    Capability, ControllerCapability as C, Effect, Facts, Given, IdKind, Making, Thing,
};
use super::flags::{
    Names, PageFlags, Parameters, RequestContext, RequestError, SnapshotIds, Subjects, fill_text,
    put,
};
use super::validation::exchange::Agreement::{EveryEntry, NewToken, Same};
use super::validation::rpc_rules::{PAGE, RpcRules, SUGGESTED_NAME};
use super::validation::rule::Rule::Required;
use crate::output::csc;
use crate::output::view::{CellFormat, View, size, text};
use clap::Args;
use csi_proto::{help, tables, v1};
use prost::Message as _;

/// The flags of `controller create-snapshot`.
#[derive(Args)]
pub struct CreateSnapshot {
    #[command(flatten)]
    names: Names,
    #[arg(long, visible_alias = "source-volume-id", value_name = "ID", help = help::create_snapshot_request::SOURCE_VOLUME_ID)]
    source_volume: Option<String>,
    #[command(flatten)]
    parameters: Parameters,
}

impl Declare for CreateSnapshot {
    type Request = v1::CreateSnapshotRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Makes(Making {
            thing: Thing::Snapshot,
            undone_by: &tables::CONTROLLER_DELETE_SNAPSHOT,
            id_path: &[("snapshot_id", "snapshot.snapshot_id")],
        }),
        needs: &[Capability::Controller(C::CreateDeleteSnapshot)],
        required: &["source_volume_id", "name"],
        gives: &[],
        section: "CreateSnapshot",
    };
    const RULES: RpcRules = RpcRules {
        request: &[SUGGESTED_NAME],
        reply: &[Required("snapshot")],
        exchange: &[Same {
            asked: "source_volume_id",
            got: "snapshot.source_volume_id",
        }],
    };
    const NAMES: &'static [&'static str] = &["create-snapshot", "snap", "s"];
    const EXAMPLES: &'static [&'static str] =
        &["create-snapshot snap-1 --source-volume vol-1 --params a=b"];
    const VIEW: View = View::new(&[
        text("SNAPSHOT ID", "snapshot.snapshot_id"),
        text("SOURCE VOLUME", "snapshot.source_volume_id"),
        size("SIZE", "snapshot.size_bytes"),
        text("READY", "snapshot.ready_to_use"),
        text("AGE", "snapshot.creation_time").format(CellFormat::Age),
        text("GROUP", "snapshot.group_snapshot_id"),
        text("CREATED", "snapshot.creation_time").wide(),
    ])
    .name("snapshot.snapshot_id");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        csc::snapshot(
            v1::CreateSnapshotResponse::decode(reply.bytes)?.snapshot,
            out,
        );
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
        fill_text(self.source_volume.as_ref(), &mut request.source_volume_id);
        self.parameters.fill(&mut request.parameters);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller delete-snapshot`.
#[derive(Args)]
pub struct DeleteSnapshot {
    #[command(flatten)]
    ids: SnapshotIds,
}

impl Declare for DeleteSnapshot {
    type Request = v1::DeleteSnapshotRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Undoes,
        needs: &[Capability::Controller(C::CreateDeleteSnapshot)],
        required: &["snapshot_id"],
        gives: &[],
        section: "DeleteSnapshot",
    };
    const NAMES: &'static [&'static str] = &["delete-snapshot", "delsnap", "ds"];
    const EXAMPLES: &'static [&'static str] = &["delete-snapshot snap-1"];
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
        put(subject, &mut request.snapshot_id);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller list-snapshots`.
#[derive(Args)]
pub struct ListSnapshots {
    #[command(flatten)]
    pages: PageFlags,
    #[arg(long, value_name = "ID", help = help::list_snapshots_request::SOURCE_VOLUME_ID)]
    source_volume_id: Option<String>,
    #[arg(long, value_name = "ID", help = help::list_snapshots_request::SNAPSHOT_ID)]
    snapshot_id: Option<String>,
}

impl Declare for ListSnapshots {
    type Request = v1::ListSnapshotsRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Controller(C::ListSnapshots)],
        required: &[],
        gives: &[
            (Given::Ids(IdKind::Snapshot), "entries.snapshot.snapshot_id"),
            (
                Given::Ids(IdKind::GroupSnapshot),
                "entries.snapshot.group_snapshot_id",
            ),
        ],
        section: "ListSnapshots",
    };
    const RULES: RpcRules = RpcRules {
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
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["list-snapshots", "snap-list", "snapshots", "sl"];
    const EXAMPLES: &'static [&'static str] = &[
        "list-snapshots --source-volume-id vol-1 --snapshot-id snap-1 --max-entries 10 --starting-token t1",
        "list-snapshots --all --sort-by AGE",
    ];
    const VIEW: View = View::new(&[
        text("SNAPSHOT ID", "snapshot.snapshot_id"),
        text("SOURCE VOLUME", "snapshot.source_volume_id"),
        size("SIZE", "snapshot.size_bytes"),
        text("READY", "snapshot.ready_to_use"),
        text("AGE", "snapshot.creation_time").format(CellFormat::Age),
        text("GROUP", "snapshot.group_snapshot_id"),
        text("CREATED", "snapshot.creation_time").wide(),
    ])
    .rows("entries")
    .name("snapshot.snapshot_id");
    const CSC: Option<csc::CscWriter> = Some(|layout, reply, out| {
        for row in layout.rows(reply.bytes)? {
            let entry = v1::list_snapshots_response::Entry::decode(row)?;
            csc::snapshot(entry.snapshot, out);
        }
        csc::token(layout, reply, out)
    });

    fn follows_pages(&self) -> bool {
        self.pages.all()
    }

    fn fill(
        &self,
        _: Option<&str>,
        context: &RequestContext,
        request: &mut Self::Request,
    ) -> Result<(), RequestError> {
        self.pages
            .fill(&mut request.max_entries, &mut request.starting_token)?;
        fill_text(
            self.source_volume_id.as_ref(),
            &mut request.source_volume_id,
        );
        fill_text(self.snapshot_id.as_ref(), &mut request.snapshot_id);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}

/// The flags of `controller get-snapshot`.
#[derive(Args)]
pub struct GetSnapshot {
    #[command(flatten)]
    ids: SnapshotIds,
}

impl Declare for GetSnapshot {
    type Request = v1::GetSnapshotRequest;
    const FACTS: Facts = Facts {
        effect: Effect::Reads,
        needs: &[Capability::Controller(C::GetSnapshot)],
        required: &["snapshot_id"],
        gives: &[],
        section: "GetSnapshot",
    };
    const RULES: RpcRules = RpcRules {
        reply: &[Required("snapshot")],
        exchange: &[Same {
            asked: "snapshot_id",
            got: "snapshot.snapshot_id",
        }],
        ..RpcRules::NONE
    };
    const NAMES: &'static [&'static str] = &["get-snapshot"];
    const EXAMPLES: &'static [&'static str] = &["get-snapshot snap-1"];
    const VIEW: View = View::new(&[
        text("SNAPSHOT ID", "snapshot.snapshot_id"),
        text("SOURCE VOLUME", "snapshot.source_volume_id"),
        size("SIZE", "snapshot.size_bytes"),
        text("READY", "snapshot.ready_to_use"),
        text("AGE", "snapshot.creation_time").format(CellFormat::Age),
        text("GROUP", "snapshot.group_snapshot_id"),
        text("CREATED", "snapshot.creation_time").wide(),
    ])
    .name("snapshot.snapshot_id");
    const CSC: Option<csc::CscWriter> = Some(|_, reply, out| {
        csc::snapshot(v1::GetSnapshotResponse::decode(reply.bytes)?.snapshot, out);
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
        put(subject, &mut request.snapshot_id);
        context.add_secrets(&mut request.secrets);
        Ok(())
    }
}
