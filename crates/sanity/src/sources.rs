//! Snapshots, groups and copies that cases begin with, and the requests that make them.
//!
//! As in `fixtures.rs`, nothing is taken down here.

use super::again::Again;
use super::context::Context;
use super::creations::Creation;
use super::fixtures::Volume;
use super::need::needs::{LIST_SNAPSHOTS, NODE_SERVICE};
use super::verdict::{Stop, Verdict, ensure};
use csi_proto::v1;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};
use prost_types::Timestamp;
use std::time::Duration;
use tonic::{Code, Status};

/// The case about the replies of ListSnapshots.
const LIST_SNAPSHOTS_REPLIES: &str = "replies/list-snapshots";

/// The most pages that a list may have. A list without an end would have more.
const PAGES_AT_MOST: usize = 10_000;

/// After how long a call is given up, in the hope to meet it at different points.
pub const SOON: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(16),
    Duration::from_millis(64),
];

/// Says of a request which message it makes, the word for that, the fields of the message and of its id, and how it is ready.
macro_rules! creation {
    ($request:ident, $thing:ident, $word:literal, $field:ident, $id:ident, $ready:expr) => {
        impl Creation for v1::$request {
            type Thing = v1::$thing;
            const WORD: &'static str = $word;

            fn named(self, name: String) -> Self {
                Self { name, ..self }
            }

            fn thing(reply: Self::Reply) -> Self::Thing {
                reply.$field.unwrap_or_default()
            }

            fn id(thing: &Self::Thing) -> &str {
                &thing.$id
            }

            fn is_ready(thing: &Self::Thing) -> bool {
                $ready(thing)
            }
        }
    };
}

creation! { CreateVolumeRequest, Volume, "volume", volume, volume_id, |_| true }
creation! { CreateSnapshotRequest, Snapshot, "snapshot", snapshot, snapshot_id,
|one: &v1::Snapshot| one.ready_to_use }
creation! { CreateVolumeGroupSnapshotRequest, VolumeGroupSnapshot, "group", group_snapshot, group_snapshot_id,
|one: &v1::VolumeGroupSnapshot| one.ready_to_use }

impl Context {
    /// CreateSnapshot of a volume, with a new name.
    pub fn snapshot_request(&self, volume: &Volume) -> v1::CreateSnapshotRequest {
        v1::CreateSnapshotRequest {
            source_volume_id: volume.id(),
            name: self.name(),
            secrets: self.secrets(),
            parameters: self.settings().snapshot_parameters.clone(),
        }
    }

    /// A new snapshot of a volume.
    pub fn snapshot(&self, volume: &Volume) -> Result<v1::Snapshot, Stop> {
        self.made(&self.snapshot_request(volume))
    }

    /// A snapshot of a volume that other volumes can be made from.
    ///
    /// # Errors
    /// When it is never ready.
    pub fn ready_snapshot(&self, volume: &Volume) -> Result<v1::Snapshot, Stop> {
        self.ready(&self.snapshot_request(volume))
    }

    /// A new volume, and a snapshot of it that other volumes can be made from.
    pub fn volume_and_snapshot(&self) -> Result<(Volume, v1::Snapshot), Stop> {
        let volume = self.volume()?;
        let snapshot = self.ready_snapshot(&volume)?;
        Ok((volume, snapshot))
    }

    /// DeleteSnapshot.
    pub fn delete_snapshot(&self, id: impl Into<String>) -> v1::DeleteSnapshotRequest {
        v1::DeleteSnapshotRequest {
            snapshot_id: id.into(),
            secrets: self.secrets(),
        }
    }

    /// GetSnapshot.
    pub fn get_snapshot(&self, id: impl Into<String>) -> v1::GetSnapshotRequest {
        v1::GetSnapshotRequest {
            snapshot_id: id.into(),
            secrets: self.secrets(),
        }
    }

    /// ListSnapshots of everything.
    pub fn list_snapshots(&self) -> v1::ListSnapshotsRequest {
        v1::ListSnapshotsRequest {
            secrets: self.secrets(),
            ..Default::default()
        }
    }

    /// A snapshot that was there and is deleted: its id has the driver's own form.
    pub fn deleted_snapshot(&self) -> Result<v1::Snapshot, Stop> {
        let volume = self.volume()?;
        let snapshot = self.snapshot(&volume)?;
        let delete = self.delete_snapshot(&snapshot.snapshot_id);
        self.ok(delete)?;
        self.depends_on("controller/delete-snapshot/deletes");
        Ok(snapshot)
    }

    /// Reads a list from a token on, page by page; `page` answers with the entries of one and the next token, or with `None` where
    /// it was refused with one of the codes that it is told. That the next token is a new one is what the case `replies` is about.
    /// A token may become invalid at any time: then the list is begun again, for as long as one call may take.
    ///
    /// # Errors
    /// When a page is refused, or the list has no end.
    pub fn pages<T>(
        &self,
        replies: &'static str,
        mut token: String,
        page: impl Fn(String, &[Code]) -> Result<Option<(Vec<T>, String)>, Stop>,
    ) -> Result<Vec<T>, Stop> {
        self.one_step(|| {
            let mut again = Again::within(self.settings().timeout);
            let mut found = Vec::new();
            for _ in 0..PAGES_AT_MOST {
                let invalid = [Code::Aborted];
                let codes = if token.is_empty() { &[][..] } else { &invalid };
                let Some((entries, next)) = page(token.clone(), codes)? else {
                    let status = Status::aborted("the token is not valid");
                    let pause = again.after(&status, Duration::ZERO).ok_or_else(|| {
                        let expected = "a list that is begun again comes to its end";
                        Stop::failed(expected, "each time a starting_token of it was ABORTED")
                    })?;
                    self.pause(pause)?;
                    found.clear();
                    token.clear();
                    continue;
                };
                found.extend(entries);
                if next.is_empty() {
                    return Ok(found);
                }
                let expected = "the last page has no next_token";
                let is_new = || ensure(next != token, expected, "it has that of its own request");
                self.demands_of(replies, is_new)?;
                token = next;
            }
            let actual = format!("the list had no end after {} entries", found.len());
            Err(Stop::failed("the last page has no next_token", actual))
        })?
    }

    /// Lists all snapshots, page by page. Whatever becomes of them depends on that the list is whole.
    ///
    /// # Errors
    /// As [`Context::pages`], or when one does not fit the filters of the request.
    pub fn listed(&self, request: v1::ListSnapshotsRequest) -> Result<Vec<v1::Snapshot>, Stop> {
        let page = |starting_token: String, codes: &[Code]| {
            let request = v1::ListSnapshotsRequest {
                starting_token,
                ..request.clone()
            };
            let page = self.ok_or(request, codes)?;
            Ok(page.map(|page| {
                let entries = page.entries.into_iter();
                let snapshots = entries.filter_map(|entry| entry.snapshot).collect();
                (snapshots, page.next_token)
            }))
        };
        let listed = self.pages(LIST_SNAPSHOTS_REPLIES, String::new(), page)?;
        self.fit(&request, &listed)?;
        Ok(listed)
    }

    /// Demands that snapshots are listed which fit the filters of the request, and goes on with them.
    pub fn fit(&self, request: &v1::ListSnapshotsRequest, listed: &[v1::Snapshot]) -> Verdict {
        let fits = |wanted: &str, found: &str| wanted.is_empty() || wanted == found;
        let misfit = listed.iter().find(|one| {
            // Whether both hold together is another case's rule.
            let is_of_volume = request.snapshot_id.is_empty();
            !fits(&request.snapshot_id, &one.snapshot_id)
                || (is_of_volume && !fits(&request.source_volume_id, &one.source_volume_id))
        });
        self.demands_of(LIST_SNAPSHOTS_REPLIES, || match misfit {
            Some(one) => Err(Stop::failed(
                "only snapshots that fit the request are listed",
                snapshot_text(one),
            )),
            None => Ok(()),
        })?;
        self.answers_depend_on("controller/list-snapshots/has-every-snapshot");
        if request.max_entries > 0 {
            self.answers_depend_on("controller/list-snapshots/in-pages");
        }
        Ok(())
    }

    /// The snapshots of a volume, by ListSnapshots.
    ///
    /// # Errors
    /// As [`Context::listed`].
    pub fn listed_of(&self, volume: &str) -> Result<Vec<v1::Snapshot>, Stop> {
        let mut request = self.list_snapshots();
        request.source_volume_id = volume.to_owned();
        self.listed(request)
    }

    /// The snapshots with an id, by ListSnapshots: one or none, from a driver that keeps the rules.
    ///
    /// # Errors
    /// As [`Context::listed`].
    pub fn listed_with_id(&self, id: &str) -> Result<Vec<v1::Snapshot>, Stop> {
        let mut request = self.list_snapshots();
        request.snapshot_id = id.to_owned();
        self.listed(request)
    }

    /// Demands that ListSnapshots, where the driver has it, has that many snapshots of a volume.
    ///
    /// # Errors
    /// When it has not, or as [`Context::listed`].
    pub fn lists_snapshots(&self, volume: &str, count: usize) -> Verdict {
        if !self.has(LIST_SNAPSHOTS) {
            return Ok(());
        }
        let found = self.listed_of(volume)?.len();
        let expected = format!("ListSnapshots has {count} of the volume");
        ensure(found == count, expected, format!("it has {found}"))
    }

    /// CreateVolume from a snapshot, with a new name and its size, or the usual one where that is larger.
    ///
    /// # Errors
    /// As [`Context::create_request`].
    pub fn restore(&self, snapshot: &v1::Snapshot) -> Result<v1::CreateVolumeRequest, Stop> {
        let snapshot_id = snapshot.snapshot_id.clone();
        let source = Source::Snapshot(SnapshotSource { snapshot_id });
        self.copy_of(source, snapshot.size_bytes)
    }

    /// CreateVolume from another volume, with a new name and its size, or the usual one where that is larger.
    ///
    /// # Errors
    /// As [`Context::create_request`].
    pub fn clone_of(&self, volume: &Volume) -> Result<v1::CreateVolumeRequest, Stop> {
        let volume_id = volume.id();
        let source = Source::Volume(VolumeSource { volume_id });
        self.copy_of(source, volume.volume.capacity_bytes)
    }

    fn copy_of(&self, source: Source, size: i64) -> Result<v1::CreateVolumeRequest, Stop> {
        // A driver that rounds sizes up makes sources larger than was asked, and may refuse a copy that is smaller.
        let mut request = self.create_sized(self.size().max(size), 0)?;
        request.volume_content_source = Some(v1::VolumeContentSource {
            r#type: Some(source),
        });
        Ok(request)
    }

    /// CreateVolumeGroupSnapshot of volumes, with a new name.
    pub fn group_request(&self, volumes: &[&Volume]) -> v1::CreateVolumeGroupSnapshotRequest {
        v1::CreateVolumeGroupSnapshotRequest {
            name: self.name(),
            source_volume_ids: volumes.iter().map(|volume| volume.id()).collect(),
            secrets: self.secrets(),
            parameters: self.settings().group_snapshot_parameters.clone(),
        }
    }

    /// Two volumes, to be snapshotted together.
    pub fn two_volumes(&self) -> Result<(Volume, Volume), Stop> {
        Ok((self.volume()?, self.volume()?))
    }

    /// Whether [`Context::write_marks`] can be tried at all.
    pub fn can_publish_here(&self) -> bool {
        self.has(NODE_SERVICE) && self.run.sees_paths()
    }
}

/// Demands that two answers describe one snapshot, and the same of it but for whether it is ready.
pub fn same_snapshot(before: &v1::Snapshot, now: &v1::Snapshot) -> Verdict {
    // 0 is a size that is not known, yet or here.
    let sized = before.size_bytes != 0 && now.size_bytes != 0;
    let fixed = |snapshot: &v1::Snapshot| v1::Snapshot {
        ready_to_use: false,
        size_bytes: if sized { snapshot.size_bytes } else { 0 },
        ..snapshot.clone()
    };
    let expected = format!("the same snapshot, {}", snapshot_text(before));
    ensure(fixed(before) == fixed(now), expected, snapshot_text(now))
}

/// A time in seconds since 1970, to the nanosecond, since two that differ at all are different.
pub fn time_of(time: Option<Timestamp>) -> String {
    let time = time.unwrap_or_default();
    format!("{}.{:09}", time.seconds, time.nanos)
}

fn snapshot_text(snapshot: &v1::Snapshot) -> String {
    let (id, volume) = (&snapshot.snapshot_id, &snapshot.source_volume_id);
    let (size, time) = (snapshot.size_bytes, time_of(snapshot.creation_time));
    let group = match snapshot.group_snapshot_id.as_str() {
        "" => String::new(),
        group => format!(", of the group {group}"),
    };
    format!("id {id} of volume {volume}, {size} bytes, taken at {time}{group}")
}
