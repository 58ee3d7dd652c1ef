//! Answers made from records: volumes, their contexts, snapshots, and lists of them.

use super::error::ControllerError;
use super::shares::Shares;
use crate::export::Export;
use crate::parameters::{MOUNT_OPTIONS, SERVER, SHARE, SUB_DIR};
use crate::share::database::Expect;
use crate::share::error::ShareError;
use crate::share::listing::{self, List, Listed};
use crate::share::record::{Record, State};
use crate::share::snapshot::Snapshot;
use crate::share::source::Source;
use crate::share::token::{NameKey, Nonce, ShareUuid};
use crate::volume_id::{Location, SnapshotId, VolumeId};
use csi_proto::v1::volume_content_source::{SnapshotSource, Type, VolumeSource};
use csi_proto::v1::{self as csi, VolumeContentSource};
use csi_proto::v1::{ListVolumesResponse, Volume, VolumeCondition, list_volumes_response};
use prost::Message;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A page's size in bytes. Clients in Go refuse messages above 4 MiB.
const MAX_PAGE: usize = 3_600_000;

/// A volume as it is told to an orchestrator.
pub(super) fn volume(export: &Export, uuid: ShareUuid, record: &Record) -> Volume {
    Volume {
        capacity_bytes: record.capacity_bytes,
        volume_id: id(export, uuid, record).to_string(),
        volume_context: context(export, record),
        content_source: record.wanted.source.as_ref().map(content_source),
        accessible_topology: Vec::new(),
    }
}

fn content_source(source: &Source) -> VolumeContentSource {
    let kind = match source {
        Source::Volume(origin) => Type::Volume(VolumeSource {
            volume_id: origin.id.clone(),
        }),
        Source::Snapshot(origin) | Source::Archive(origin) => Type::Snapshot(SnapshotSource {
            snapshot_id: origin.id.clone(),
        }),
    };
    VolumeContentSource { r#type: Some(kind) }
}

/// A snapshot as it is told to an orchestrator.
pub(super) fn snapshot(export: &Export, uuid: ShareUuid, record: &Snapshot) -> csi::Snapshot {
    let id = SnapshotId {
        location: record
            .location
            .parse()
            .unwrap_or_else(|()| Location::Export(export.clone())),
        uuid,
        key: NameKey::of(&record.name),
        nonce: record.nonce,
    };
    csi::Snapshot {
        size_bytes: record.size_bytes,
        snapshot_id: id.to_string(),
        source_volume_id: record.source.id.clone(),
        creation_time: Some(prost_types::Timestamp {
            seconds: i64::try_from(record.created).unwrap_or(i64::MAX),
            nanos: 0,
        }),
        ready_to_use: record.state == State::Ready,
        group_snapshot_id: String::new(),
    }
}

fn id(export: &Export, uuid: ShareUuid, record: &Record) -> VolumeId {
    VolumeId {
        location: record
            .location
            .parse()
            .unwrap_or_else(|()| Location::Export(export.clone())),
        uuid,
        key: record.key(),
        nonce: record.nonce,
    }
}

/// All that a node needs to publish the volume.
pub(super) fn context(export: &Export, record: &Record) -> BTreeMap<String, String> {
    let wanted = &record.wanted;
    let mut context = BTreeMap::from([
        (SERVER.to_owned(), export.server().to_owned()),
        (SHARE.to_owned(), export.path().to_owned()),
        (SUB_DIR.to_owned(), wanted.sub_dir.to_string()),
    ]);
    if !wanted.mount_options.is_empty() {
        context.insert(MOUNT_OPTIONS.to_owned(), wanted.mount_options.join(","));
    }
    context
}

/// The condition for what is wrong with a volume, or that nothing is.
pub(super) fn condition(trouble: Option<String>) -> VolumeCondition {
    VolumeCondition {
        abnormal: trouble.is_some(),
        message: trouble.unwrap_or_else(|| "the volume's folder is on the share".to_owned()),
    }
}

/// A place in the list of all volumes: after this key on this share.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    share: NameKey,
    after: NameKey,
}

impl Place {
    fn parse(token: &str) -> Option<Self> {
        let (share, after) = token.split_once('.')?;
        Some(Self {
            share: share.parse().ok()?,
            after: after.parse().ok()?,
        })
    }

    fn token(&self) -> String {
        format!("{}.{}", self.share, self.after)
    }
}

/// A share's address as it stands in tokens.
fn share_key(export: &Export) -> NameKey {
    NameKey::of(&export.to_string())
}

/// The greatest number of entries of a page.
pub(super) fn max_entries(asked: i32) -> Result<usize, ControllerError> {
    match usize::try_from(asked) {
        Ok(0) => Ok(usize::MAX),
        Ok(max) => Ok(max),
        Err(_) => Err(ControllerError::Invalid(format!(
            "max_entries is {asked}: it must not be negative"
        ))),
    }
}

/// A page of the list of all volumes on all known shares.
pub(super) async fn list(
    shares: &Arc<Shares>,
    max_entries: usize,
    token: &str,
) -> Result<ListVolumesResponse, ControllerError> {
    let shown = |export: &Export, uuid, key, listed| Some(entry(export, uuid, key, listed));
    let (entries, next_token) = pages::<Record, _>(shares, max_entries, token, shown).await?;
    Ok(ListVolumesResponse {
        entries,
        next_token,
    })
}

/// A page of a list over all known shares, in the order of shares and keys, and the token of the next one. `show` makes an
/// entry, or leaves it out.
///
/// A share that cannot be listed fails the call: a list without what is on it would say that it is gone.
pub(super) async fn pages<R: List, E: Message + Send + 'static>(
    shares: &Arc<Shares>,
    max_entries: usize,
    token: &str,
    show: impl Fn(&Export, ShareUuid, NameKey, R::Item) -> Option<E> + Send + Sync + 'static,
) -> Result<(Vec<E>, String), ControllerError> {
    let show = Arc::new(show);
    let mut exports = shares.known().into_iter();
    let mut after = None;
    let mut next = exports.next();
    if !token.is_empty() {
        let wrong = || ControllerError::Token(token.to_owned());
        let place = Place::parse(token).ok_or_else(wrong)?;
        while next
            .as_ref()
            .is_some_and(|export| share_key(export) != place.share)
        {
            next = exports.next();
        }
        if next.is_none() {
            return Err(wrong());
        }
        after = Some(place.after);
    }
    let mut page = Page::default();
    while let Some(export) = next {
        let expect = shares.expect_or(&export, Expect::Initialised);
        let address = export.clone();
        let from = after.take();
        let mut part = Page {
            bytes: page.bytes,
            ..Page::default()
        };
        let room = max_entries - page.entries.len();
        let show = Arc::clone(&show);
        let of = Arc::clone(shares);
        let walked = shares
            .with_share(&export, &[], expect, move |share| {
                // Until now it was not known that an earlier address leads here too.
                if !of.is_first_address(&address, share.uuid()) {
                    return Ok((part, false));
                }
                let full = listing::walk::<R>(share, from, |key, item| {
                    match show(&address, share.uuid(), key, item) {
                        Some(entry) => part.add(&address, key, entry, room),
                        None => ControlFlow::Continue(()),
                    }
                })?;
                Ok((part, full))
            })
            .await;
        match walked {
            Ok((part, full)) => {
                page.bytes = part.bytes;
                page.entries.extend(part.entries);
                page.last = part.last.or(page.last);
                if full {
                    let token = page.last.map(|place| place.token()).unwrap_or_default();
                    return Ok((page.entries, token));
                }
            }
            // Named at the start and not used yet: there is nothing on it.
            Err(ControllerError::Share { source, .. })
                if matches!(*source, ShareError::NotInitialised) => {}
            Err(other) => return Err(other),
        }
        next = exports.next();
    }
    Ok((page.entries, String::new()))
}

/// A page, or one share's part of it.
struct Page<E> {
    entries: Vec<E>,
    bytes: usize,
    last: Option<Place>,
}

impl<E> Default for Page<E> {
    fn default() -> Self {
        Self {
            entries: Vec::new(),
            bytes: 0,
            last: None,
        }
    }
}

impl<E: Message> Page<E> {
    /// Adds an entry, of at most `room`, or says that the page is full.
    fn add(&mut self, export: &Export, key: NameKey, entry: E, room: usize) -> ControlFlow<()> {
        if self.entries.len() == room {
            return ControlFlow::Break(());
        }
        // The tag and the length before each entry.
        let bytes = entry.encoded_len() + 6;
        if self.bytes + bytes > MAX_PAGE {
            return ControlFlow::Break(());
        }
        self.bytes += bytes;
        self.entries.push(entry);
        self.last = Some(Place {
            share: share_key(export),
            after: key,
        });
        ControlFlow::Continue(())
    }
}

fn entry(
    export: &Export,
    uuid: ShareUuid,
    key: NameKey,
    listed: Listed,
) -> list_volumes_response::Entry {
    let (volume, trouble) = match listed {
        Listed::Volume(record, trouble) => (volume(export, uuid, &record), trouble),
        Listed::Unreadable(nonce, trouble) => (unreadable(export, uuid, key, nonce), Some(trouble)),
    };
    list_volumes_response::Entry {
        volume: Some(volume),
        status: Some(list_volumes_response::VolumeStatus {
            published_node_ids: Vec::new(),
            volume_condition: Some(condition(trouble)),
        }),
    }
}

/// A volume of which only the names of its files are known.
fn unreadable(export: &Export, uuid: ShareUuid, key: NameKey, nonce: Nonce) -> Volume {
    let location = Location::Export(export.clone());
    Volume {
        volume_id: VolumeId {
            location,
            uuid,
            key,
            nonce,
        }
        .to_string(),
        ..Volume::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_read_back_and_others_refused() {
        let place = Place {
            share: NameKey::of("a"),
            after: NameKey::of("b"),
        };
        assert_eq!(Place::parse(&place.token()), Some(place.clone()));
        let token = place.token();
        for other in ["", "1", ".", &token[1..], &format!("{token}x")] {
            assert_eq!(Place::parse(other), None, "{other:?}");
        }
    }
}
