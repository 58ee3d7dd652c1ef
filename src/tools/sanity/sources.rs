//! Snapshots, groups and copies that cases begin with, and the data in them.
//!
//! As in `fixtures.rs`, nothing is taken down here.

use super::context::Context;
use super::data::data_path;
use super::fixtures::Volume;
use super::need::needs::{LIST_SNAPSHOTS, NODE_SERVICE};
use super::paths::on_disk;
use super::settings::Access;
use super::verdict::{Stop, Verdict, ensure, status_text};
use csi_proto::v1;
use csi_proto::v1::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};
use prost_types::Timestamp;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// The number of bytes of one mark: a block of most devices.
const MARK_BYTES: usize = 4096;

/// The most pages that a list may have. A list without an end would have more.
const PAGES_AT_MOST: usize = 10_000;

/// After how long a call is given up, in the hope to meet it at different points.
pub const SOON: [Duration; 4] = [
    Duration::from_millis(1),
    Duration::from_millis(4),
    Duration::from_millis(16),
    Duration::from_millis(64),
];

impl Context {
    /// A snapshot that volumes can be made from: CreateSnapshot, repeated until it says so, as the specification has it.
    ///
    /// # Errors
    /// When it is never ready, or answered with another id.
    pub fn ready_snapshot(&self, request: v1::CreateSnapshotRequest) -> Result<v1::Snapshot, Stop> {
        let mut wait = Wait::new(self);
        self.one_step(|| {
            loop {
                let reply = self.ok_in_the_end(request.clone())?;
                let snapshot = reply.snapshot.unwrap_or_default();
                if snapshot.ready_to_use {
                    return Ok(snapshot);
                }
                wait.on(self, "CreateSnapshot")?;
            }
        })?
    }

    /// Waits until a group snapshot is ready.
    ///
    /// # Errors
    /// When it is never ready.
    pub fn ready_group(
        &self,
        request: v1::CreateVolumeGroupSnapshotRequest,
    ) -> Result<v1::VolumeGroupSnapshot, Stop> {
        let mut wait = Wait::new(self);
        self.one_step(|| {
            loop {
                let reply = self.ok_in_the_end(request.clone())?;
                let group = reply.group_snapshot.unwrap_or_default();
                if group.ready_to_use {
                    return Ok(group);
                }
                wait.on(self, "CreateVolumeGroupSnapshot")?;
            }
        })?
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
    ///
    /// # Errors
    /// When it cannot be had.
    pub fn deleted_snapshot(&self) -> Result<v1::Snapshot, Stop> {
        let volume = self.volume()?;
        let snapshot = self.snapshot(&volume)?;
        let delete = self.delete_snapshot(&snapshot.snapshot_id);
        self.ok_in_the_end(delete)?;
        Ok(snapshot)
    }

    /// Lists all snapshots, page by page.
    ///
    /// # Errors
    /// When a page is refused, or the list has no end.
    pub fn listed(&self, request: v1::ListSnapshotsRequest) -> Result<Vec<v1::Snapshot>, Stop> {
        self.one_step(|| self.pages(request))?
    }

    fn pages(&self, mut request: v1::ListSnapshotsRequest) -> Result<Vec<v1::Snapshot>, Stop> {
        let mut found = Vec::new();
        let mut tokens = BTreeSet::new();
        for _ in 0..PAGES_AT_MOST {
            let page = self.ok(request.clone())?;
            found.extend(page.entries.into_iter().filter_map(|entry| entry.snapshot));
            if page.next_token.is_empty() {
                return Ok(found);
            }
            if !tokens.insert(page.next_token.clone()) {
                break;
            }
            request.starting_token = page.next_token;
        }
        Err(Stop::failed(
            "the last page has no next_token",
            format!("the list had no end after {} entries", found.len()),
        ))
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
        ensure(found == count, &expected, format!("it has {found}"))
    }

    /// CreateVolume from a snapshot, with a new name and no size.
    ///
    /// # Errors
    /// As [`Context::create_request`].
    pub fn restore(&self, snapshot: &v1::Snapshot) -> Result<v1::CreateVolumeRequest, Stop> {
        let id = snapshot.snapshot_id.clone();
        self.copy_of(Source::Snapshot(SnapshotSource { snapshot_id: id }))
    }

    /// CreateVolume from another volume, with a new name and no size.
    ///
    /// # Errors
    /// As [`Context::create_request`].
    pub fn clone_of(&self, id: impl Into<String>) -> Result<v1::CreateVolumeRequest, Stop> {
        self.copy_of(Source::Volume(VolumeSource {
            volume_id: id.into(),
        }))
    }

    fn copy_of(&self, source: Source) -> Result<v1::CreateVolumeRequest, Stop> {
        let mut request = self.create_request()?;
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
    ///
    /// # Errors
    /// When they cannot be had.
    pub fn two_volumes(&self) -> Result<(Volume, Volume), Stop> {
        Ok((self.volume()?, self.volume()?))
    }

    /// Whether [`Context::write_marks`] can be tried at all.
    pub fn can_publish_here(&self) -> bool {
        self.has(NODE_SERVICE) && self.run.sees_paths()
    }

    /// Publishes a volume, writes into it, and takes it down again: what was written is on the storage then.
    ///
    /// # Errors
    /// When any of that fails.
    pub fn write_marks(&self, volume: &Volume, marks: &[Mark]) -> Verdict {
        let placed = self.publish(volume.clone())?;
        let path = data_path(&placed);
        let create = Access::of(&placed.volume.capability) == Access::Mount;
        let marks = marks.to_vec();
        on_disk(move || {
            let file = OpenOptions::new()
                .write(true)
                .create(create)
                .truncate(false)
                .open(&path)?;
            for mark in &marks {
                file.write_all_at(&mark.bytes(), mark.offset)?;
            }
            file.sync_all()
        })?;
        self.unpublish(&placed)
    }

    /// Publishes a volume, reads what stands at the places of the marks, and takes it down again. Whether each mark is there.
    ///
    /// # Errors
    /// When any of that fails.
    pub fn has_marks(&self, volume: &Volume, marks: &[Mark]) -> Result<Vec<bool>, Stop> {
        let placed = self.publish(volume.clone())?;
        let path = data_path(&placed);
        let marks = marks.to_vec();
        let found = on_disk(move || {
            let file = match OpenOptions::new().read(true).open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Ok(vec![false; marks.len()]);
                }
                other => other?,
            };
            let is_there = |mark: &Mark| {
                let mut bytes = vec![0; MARK_BYTES];
                match file.read_exact_at(&mut bytes, mark.offset) {
                    Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
                    other => other.map(|()| bytes == mark.bytes()),
                }
            };
            marks.iter().map(is_there).collect::<io::Result<Vec<_>>>()
        })?;
        self.unpublish(&placed)?;
        Ok(found)
    }
}

/// Something to write, and to find again.
#[derive(Clone, Copy, Debug)]
pub struct Mark {
    /// Which one it is.
    pub letter: u8,
    /// The offset of the mark, in bytes.
    pub offset: u64,
}

impl Mark {
    fn bytes(self) -> Vec<u8> {
        vec![self.letter; MARK_BYTES]
    }
}

/// Waits for something to become ready, for half of what the case may take.
struct Wait {
    end: Instant,
    pause: Duration,
}

impl Wait {
    fn new(context: &Context) -> Self {
        Self {
            end: Instant::now() + context.settings().case_limit / 2,
            pause: Duration::from_millis(5),
        }
    }

    fn on(&mut self, context: &Context, rpc: &str) -> Verdict {
        let expected = format!("{rpc}, repeated, says ready_to_use in the end");
        let waited = "it still said that it is not ready after half of the case's limit";
        ensure(Instant::now() < self.end, &expected, waited)?;
        context.pause(self.pause)?;
        self.pause = (self.pause * 2).min(Duration::from_secs(1));
        Ok(())
    }
}

/// Demands of equal calls at the same time that each ends with OK or ABORTED, and that all which are OK tell one id.
///
/// # Errors
/// When they do not.
pub fn one_id<R>(answers: &[Result<R, Status>], id: impl Fn(&R) -> String) -> Verdict {
    let mut ids = BTreeSet::new();
    for answer in answers {
        match answer {
            Ok(reply) => {
                ids.insert(id(reply));
            }
            Err(status) if status.code() == Code::Aborted => {}
            Err(status) => return Err(Stop::failed("OK or ABORTED", status_text(status))),
        }
    }
    let listed: Vec<_> = ids.iter().map(String::as_str).collect();
    ensure(
        ids.len() <= 1,
        "one id",
        format!("ids {}", listed.join(", ")),
    )
}

/// Demands that two answers describe one snapshot, and the same of it but for whether it is ready.
///
/// # Errors
/// When they do not.
pub fn same_snapshot(before: &v1::Snapshot, now: &v1::Snapshot) -> Verdict {
    // 0 is a size that is not known, yet or here.
    let sized = before.size_bytes != 0 && now.size_bytes != 0;
    let fixed = |snapshot: &v1::Snapshot| v1::Snapshot {
        ready_to_use: false,
        size_bytes: if sized { snapshot.size_bytes } else { 0 },
        ..snapshot.clone()
    };
    ensure(
        fixed(before) == fixed(now),
        &format!("the same snapshot, {}", snapshot_text(before)),
        snapshot_text(now),
    )?;
    ensure(
        now.ready_to_use || !before.ready_to_use,
        "ready_to_use, as it was before",
        "it is not ready any more",
    )
}

/// A time in seconds since 1970, to the nanosecond, since two that differ at all are different.
pub fn time_of(time: Option<Timestamp>) -> String {
    let time = time.unwrap_or_default();
    format!("{}.{:09}", time.seconds, time.nanos)
}

fn snapshot_text(snapshot: &v1::Snapshot) -> String {
    let mut text = format!(
        "id {} of volume {}, {} bytes, taken at {}",
        snapshot.snapshot_id,
        snapshot.source_volume_id,
        snapshot.size_bytes,
        time_of(snapshot.creation_time)
    );
    if !snapshot.group_snapshot_id.is_empty() {
        text.push_str(&format!(", of the group {}", snapshot.group_snapshot_id));
    }
    text
}
