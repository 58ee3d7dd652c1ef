//! Takes down what cases have made: the last thing first, each with several tries, and nothing that is still in use.
//!
//! What there is to take down is `ledger.rs`'s.

use super::ledger::{Made, answered_with, with_secrets};
use super::run::{Peer, Run, call};
use super::settings::Settings;
use super::verdict::told;
use crate::call::session::{Lost, leaves_it_open};
use bytes::Bytes;
use csi_proto::Request;
use csi_proto::schema::Method;
use csi_proto::v1;
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::{Code, Status};

/// How long one try to take something down may take at least; where a call may take longer, that.
const TRY: Duration = Duration::from_secs(20);

/// And at most, where calls have no limit.
const TRY_AT_MOST: Duration = Duration::from_secs(600);

/// The longest pause for a driver that nobody reaches. One that is down for longer has the journal, which remembers.
const BACK_WITHIN: Duration = Duration::from_millis(500);

/// The pauses between tries.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_millis(1000),
    LONGEST,
];

/// The longest of them.
const LONGEST: Duration = Duration::from_secs(2);

/// Who takes things down.
pub struct Wrecker<'a> {
    node: &'a Peer,
    controller: &'a Peer,
    secrets: &'a BTreeMap<String, String>,
    /// How long a call may take, and for how long ABORTED is tried again: what runs still may be slow.
    patience: Duration,
    /// Whether all tries of one thing have passed without an answer: others would not get one, either.
    silent: AtomicBool,
}

impl<'a> Wrecker<'a> {
    /// One for what was made at these ends.
    pub(super) fn new(node: &'a Peer, controller: &'a Peer, settings: &'a Settings) -> Self {
        Self {
            node,
            controller,
            secrets: &settings.secrets,
            patience: settings.timeout.min(TRY_AT_MOST),
            silent: AtomicBool::new(false),
        }
    }

    /// One for what the cases of a run have made.
    pub(super) fn of(run: &'a Run) -> Self {
        Self::new(&run.node, &run.controller, &run.settings)
    }

    /// Takes everything down, the last thing first; `gone` is told of each. What could not be taken down, and why.
    pub(super) async fn take_down<K: Copy>(
        &self,
        mut made: Vec<(K, Made)>,
        mut gone: impl FnMut(K),
    ) -> Vec<String> {
        let mut problems = Vec::new();
        let mut held: Vec<String> = Vec::new();
        while let Some((key, what)) = made.pop() {
            if let Made::Volume(id) = &what
                && held.contains(id)
            {
                problems.push(format!("{what} stays, because it is still in use"));
                continue;
            }
            if self.silent.load(Ordering::Relaxed) && !matches!(what, Made::Folder(_)) {
                held.extend(what.holds().map(str::to_owned));
                problems.push(format!("{what} stays, because the driver does not answer"));
                continue;
            }
            match self.one(&what).await {
                Ok(None) => gone(key),
                // The id behind a name: the same place in the order, the same line of the journal.
                Ok(Some(found)) => made.push((key, found)),
                Err(problem) => {
                    held.extend(what.holds().map(str::to_owned));
                    problems.push(format!("{what} could not be taken down: {problem}"));
                }
            }
        }
        problems
    }

    /// Takes one thing down; what is to be taken down next because of that.
    async fn one(&self, what: &Made) -> Result<Option<Made>, String> {
        let secrets = || self.secrets.clone();
        match what {
            Made::Asked(method, request) => {
                let Some((method, request)) = with_secrets(method, request, self.secrets) else {
                    return Ok(None);
                };
                return match self.repeat(self.controller, method, request).await {
                    Ok(reply) => Ok(answered_with(method, reply.as_ref())),
                    // It cannot be made, so it was not.
                    Err(status) if !leaves_it_open(status.code()) => Ok(None),
                    Err(status) => Err(told(&status)),
                };
            }
            Made::Volume(id) => {
                let request = v1::DeleteVolumeRequest {
                    volume_id: id.clone(),
                    secrets: secrets(),
                };
                self.call(self.controller, &request).await?;
            }
            Made::Snapshot(id) => {
                let request = v1::DeleteSnapshotRequest {
                    snapshot_id: id.clone(),
                    secrets: secrets(),
                };
                self.call(self.controller, &request).await?;
            }
            Made::Group(id, snapshots) => {
                let request = v1::DeleteVolumeGroupSnapshotRequest {
                    group_snapshot_id: id.clone(),
                    snapshot_ids: snapshots.clone(),
                    secrets: secrets(),
                };
                self.call(self.controller, &request).await?;
            }
            Made::Attached(volume, node) => {
                let request = v1::ControllerUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    node_id: node.clone(),
                    secrets: secrets(),
                };
                self.call(self.controller, &request).await?;
            }
            Made::Staged(volume, path) => {
                let request = v1::NodeUnstageVolumeRequest {
                    volume_id: volume.clone(),
                    staging_target_path: path.clone(),
                };
                self.call(self.node, &request).await?;
            }
            Made::Published(volume, path) => {
                let request = v1::NodeUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    target_path: path.clone(),
                };
                self.call(self.node, &request).await?;
            }
            Made::Folder(path) => {
                let path = path.clone();
                // On a thread of its own: what is mounted there may not answer.
                let removed = tokio::task::spawn_blocking(move || remove_folder(&path));
                return match tokio::time::timeout(TRY, removed).await {
                    Ok(Ok(Ok(()))) => Ok(None),
                    Ok(Ok(Err(error))) => Err(error.to_string()),
                    Ok(Err(error)) => Err(error.to_string()),
                    Err(_) => Err("it does not answer".to_owned()),
                };
            }
        }
        Ok(None)
    }

    async fn call<Q: Request>(&self, peer: &Peer, request: &Q) -> Result<(), String> {
        let answer = self
            .repeat(peer, Q::METHOD, request.encode_to_vec().into())
            .await;
        match answer {
            Err(status) if status.code() != Code::NotFound => Err(told(&status)),
            _ => Ok(()),
        }
    }

    /// The first message of the reply, after several tries where waiting may help.
    async fn repeat(
        &self,
        peer: &Peer,
        method: &'static Method,
        request: Bytes,
    ) -> Result<Option<Bytes>, Status> {
        let limit = self.patience.max(TRY);
        let session = peer.session.clone().with_timeout(Some(limit));
        let end = Instant::now() + self.patience;
        let mut pauses = PAUSES.into_iter();
        loop {
            let status = match call(&session, method, request.clone()).await {
                Ok(messages) => return Ok(messages.into_iter().next()),
                Err(status) => status,
            };
            if status.code() == Code::DeadlineExceeded {
                self.silent.store(true, Ordering::Relaxed);
                return Err(status);
            }
            let gone = Lost::of(&status).is_some();
            let may_pass =
                leaves_it_open(status.code()) || status.code() == Code::FailedPrecondition;
            match pauses.next() {
                Some(pause) if gone && pause > BACK_WITHIN => {
                    self.silent.store(true, Ordering::Relaxed);
                    return Err(status);
                }
                Some(pause) if may_pass => tokio::time::sleep(pause).await,
                None if status.code() == Code::Aborted && Instant::now() < end => {
                    tokio::time::sleep(LONGEST).await;
                }
                _ => return Err(status),
            }
        }
    }
}

/// Removes a folder of ours with what the driver left in it, unless something is mounted in it.
fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir(path) {
        Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => {}
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => return other,
    }
    if let Some(mount) = super::paths::mounts_below(path).first() {
        let problem = format!("{} is still mounted", mount.display());
        return Err(io::Error::new(io::ErrorKind::ResourceBusy, problem));
    }
    fs::remove_dir_all(path)
}
