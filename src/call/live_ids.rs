//! Ids that a completion can offer: those that a reply holds, and those that the driver lists when it is asked.
//!
//! Owns which field or flag holds an id of what. Errors are silence here: a completion that fails must not disturb the
//! line that is being typed.

use crate::call::session::Session;
use bytes::Bytes;
use csi_proto::schema::{Kind, Message, Method};
use csi_proto::wire::{self, Raw};
use csi_proto::{tables, v1};
use prost::Message as _;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// What an id names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IdKind {
    /// A volume.
    Volume,
    /// A snapshot.
    Snapshot,
    /// A group snapshot.
    GroupSnapshot,
    /// A node.
    Node,
}

impl IdKind {
    /// What the field of that name holds ids of, in snake case as in `csi.proto`.
    pub fn of_field(name: &str) -> Option<Self> {
        match name {
            "volume_id" | "source_volume_id" | "source_volume_ids" | "source_volume" => {
                Some(Self::Volume)
            }
            "snapshot_id" | "snapshot_ids" | "base_snapshot_id" | "target_snapshot_id"
            | "source_snapshot" => Some(Self::Snapshot),
            "group_snapshot_id" => Some(Self::GroupSnapshot),
            "node_id" | "published_node_ids" => Some(Self::Node),
            _ => None,
        }
    }

    /// The call whose reply lists such ids.
    fn lister(self) -> &'static Method {
        match self {
            Self::Volume => &tables::CONTROLLER_LIST_VOLUMES,
            Self::Snapshot | Self::GroupSnapshot => &tables::CONTROLLER_LIST_SNAPSHOTS,
            Self::Node => &tables::NODE_NODE_GET_INFO,
        }
    }
}

/// Hands every id in the bytes of a `message` to `found`. Broken bytes hold none.
pub fn collect(message: &'static Message, bytes: &[u8], found: &mut impl FnMut(IdKind, &str)) {
    for (number, raw) in wire::fields(bytes).map_while(Result::ok) {
        let field = message.fields.iter().find(|field| field.number == number);
        let (Some(field), Raw::Bytes(bytes)) = (field, raw) else {
            continue;
        };
        match field.kind {
            Kind::Message(of) => collect(of, bytes, found),
            Kind::String => {
                if let (Some(kind), Ok(id)) =
                    (IdKind::of_field(field.name), std::str::from_utf8(bytes))
                    && !id.is_empty()
                {
                    found(kind, id);
                }
            }
            _ => {}
        }
    }
}

/// The ids of a kind that the driver lists within `limit`, page by page; those that came in time, in the driver's order.
pub async fn fetch(session: &Session, kind: IdKind, limit: Duration) -> Vec<String> {
    let end = Instant::now() + limit;
    let session = session.clone().with_timeout(Some(limit));
    let mut ids = Vec::new();
    let mut token = String::new();
    loop {
        let request = match kind {
            IdKind::Volume => v1::ListVolumesRequest {
                starting_token: token.clone(),
                ..v1::ListVolumesRequest::default()
            }
            .encode_to_vec(),
            IdKind::Snapshot | IdKind::GroupSnapshot => v1::ListSnapshotsRequest {
                starting_token: token.clone(),
                ..v1::ListSnapshotsRequest::default()
            }
            .encode_to_vec(),
            IdKind::Node => Vec::new(),
        };
        let method = kind.lister();
        let call = session.call(method, Bytes::from(request));
        let Ok(Ok(answer)) = timeout_at(end, call).await else {
            return ids;
        };
        let bytes = answer.into_inner();
        collect(method.response, &bytes, &mut |of, id| {
            if of == kind {
                ids.push(id.to_owned());
            }
        });
        let next = next_token(method.response, &bytes);
        if next.is_empty() || next == token {
            return ids;
        }
        token = next;
    }
}

/// The driver's name, unless it does not tell within `limit`.
pub async fn driver_name(session: &Session, limit: Duration) -> Option<String> {
    let session = session.clone().with_timeout(Some(limit));
    let info = session.ask(&v1::GetPluginInfoRequest {}).await;
    Some(info.ok()?.name)
}

fn next_token(message: &'static Message, bytes: &[u8]) -> String {
    let Some(field) = message.field("next_token") else {
        return String::new();
    };
    let parts = wire::fields(bytes).map_while(Result::ok);
    let token = parts.filter_map(|(number, raw)| match raw {
        Raw::Bytes(bytes) if number == field.number => Some(bytes),
        _ => None,
    });
    String::from_utf8(token.last().unwrap_or_default().to_vec()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_of_a_reply_is_found_with_what_it_names() {
        let reply = v1::ListVolumesResponse {
            entries: vec![v1::list_volumes_response::Entry {
                volume: Some(v1::Volume {
                    volume_id: "v".to_owned(),
                    content_source: Some(v1::VolumeContentSource {
                        r#type: Some(v1::volume_content_source::Type::Snapshot(
                            v1::volume_content_source::SnapshotSource {
                                snapshot_id: "s".to_owned(),
                            },
                        )),
                    }),
                    ..v1::Volume::default()
                }),
                status: Some(v1::list_volumes_response::VolumeStatus {
                    published_node_ids: vec!["n".to_owned(), "m".to_owned()],
                    volume_condition: None,
                }),
            }],
            next_token: "t".to_owned(),
        };
        let bytes = reply.encode_to_vec();
        let mut found = Vec::new();
        let message = &tables::LIST_VOLUMES_RESPONSE;
        collect(message, &bytes, &mut |kind, id| {
            found.push((kind, id.to_owned()));
        });
        let expected = [
            (IdKind::Volume, "v"),
            (IdKind::Snapshot, "s"),
            (IdKind::Node, "n"),
            (IdKind::Node, "m"),
        ];
        assert_eq!(found, expected.map(|(kind, id)| (kind, id.to_owned())));
        assert_eq!(next_token(message, &bytes), "t");
        collect(message, &[0xff, 0xff], &mut |_, _| panic!("an id"));
    }
}
