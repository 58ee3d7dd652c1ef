//! Ids for completion: those in a reply, and those that the driver lists when it is asked.
//!
//! Errors are silence here: a completion that fails must not disturb the line that is being typed.

use bytes::Bytes;
use csi_call::Session;
use csi_proto::schema::{Kind, Message};
use csi_proto::wire::{self, Raw};
use csi_proto::{contents, v1};
use csi_rpc::facts::IdKind;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

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
    let mut ids = Vec::new();
    let Some((method, path)) = csi_rpc::lister(kind) else {
        return ids;
    };
    let end = Instant::now() + limit;
    let session = session.clone().with_timeout(Some(limit));
    let mut token = Vec::new();
    loop {
        let mut request = Vec::new();
        if let (Some(field), false) = (method.request.field("starting_token"), token.is_empty()) {
            wire::put_bytes(&mut request, field.number, &token);
        }
        let call = session.call(method, Bytes::from(request));
        let Ok(Ok(answer)) = timeout_at(end, call).await else {
            return ids;
        };
        let bytes = answer.into_inner();
        let listed = contents(method.response, &bytes, path).into_iter();
        let listed = listed.filter_map(|id| std::str::from_utf8(id).ok());
        ids.extend(listed.filter(|id| !id.is_empty()).map(str::to_owned));
        let next = contents(method.response, &bytes, "next_token").pop();
        let next = next.unwrap_or_default().to_vec();
        if next.is_empty() || next == token {
            return ids;
        }
        token = next;
    }
}

/// The driver's name, if it answers within `limit`.
pub async fn driver_name(session: &Session, limit: Duration) -> Option<String> {
    let session = session.clone().with_timeout(Some(limit));
    let info = session.ask(&v1::GetPluginInfoRequest {}).await;
    Some(info.ok()?.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::tables;
    use prost::Message as _;

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
        collect(message, &[0xff, 0xff], &mut |_, _| panic!("an id"));
    }
}
