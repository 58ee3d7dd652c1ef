//! Asks a driver about one volume or snapshot.

use super::condition::{State, may_mend};
use csi_call::advertised::{Asks, DriverEnd, if_served};
use csi_call::pages::Pages;
use csi_call::{Connection, call_error};
use csi_error::{Error, OrError as _};
use csi_proto::{Request, random, v1};
use csi_rpc::facts::ControllerCapability as C;
use tonic::Code;

/// A driver that is asked.
pub struct Driver<'a>(pub &'a Connection);

impl Driver<'_> {
    /// What the driver says of the thing with that id, by the RPC of that capability.
    pub async fn look(&self, way: C, id: &str) -> Result<State, Error> {
        match way {
            C::GetVolume => {
                let volume_id = id.to_owned();
                let reply = self
                    .found(&v1::ControllerGetVolumeRequest { volume_id })
                    .await?;
                Ok(reply.map_or(State::Absent, |reply| {
                    volume(reply.status.and_then(|status| status.volume_condition))
                }))
            }
            C::ListVolumes => self.listed_volume(id).await,
            C::GetSnapshot => {
                let snapshot_id = id.to_owned();
                let request = v1::GetSnapshotRequest {
                    snapshot_id,
                    ..Default::default()
                };
                let reply = self.found(&request).await?;
                Ok(snapshot(reply.and_then(|reply| reply.snapshot), id))
            }
            // LIST_SNAPSHOTS: there is no other.
            _ => {
                let request = v1::ListSnapshotsRequest {
                    snapshot_id: id.to_owned(),
                    ..Default::default()
                };
                let reply = self.found(&request).await?;
                let entries = reply.map(|reply| reply.entries).unwrap_or_default();
                let mut snapshots = entries.into_iter().filter_map(|entry| entry.snapshot);
                Ok(snapshot(snapshots.find(|one| one.snapshot_id == id), id))
            }
        }
    }

    /// Whether GetVolume has an answer for an id that no volume can have.
    ///
    /// # Errors
    /// When it cannot be asked now.
    pub async fn answers_for_any_id(&self) -> Result<bool, Error> {
        let number = random::from_kernel().or_because(random::MISSING)?;
        let volume_id = format!("no-such-volume-{:016x}", u64::from_ne_bytes(number));
        let request = v1::ControllerGetVolumeRequest { volume_id };
        match self.0.session.ask(&request).await {
            Ok(_) => Ok(true),
            Err(error) if may_mend(error.status.code()) => {
                Err(call_error(&error, &self.0.endpoint))
            }
            // It knows its ids, whatever it has against this one.
            Err(_) => Ok(false),
        }
    }

    async fn listed_volume(&self, id: &str) -> Result<State, Error> {
        let mut request = v1::ListVolumesRequest::default();
        let mut pages = Pages::default();
        loop {
            let reply = self.ask(&request).await?;
            let mut entries = reply.entries.into_iter();
            let is_it = |entry: &v1::list_volumes_response::Entry| {
                let volume = entry.volume.as_ref();
                volume.is_some_and(|volume| volume.volume_id == id)
            };
            if let Some(entry) = entries.find(is_it) {
                return Ok(volume(
                    entry.status.and_then(|status| status.volume_condition),
                ));
            }
            if !pages.go_on(&reply.next_token)? {
                return Ok(State::Absent);
            }
            request.starting_token = reply.next_token;
        }
    }

    /// The reply, or nothing where the driver says that there is no such thing.
    async fn found<Q: Request>(&self, request: &Q) -> Result<Option<Q::Reply>, Error> {
        match self.0.session.ask(request).await {
            Ok(reply) => Ok(Some(reply)),
            Err(error) if error.status.code() == Code::NotFound => Ok(None),
            Err(error) => Err(call_error(&error, &self.0.endpoint)),
        }
    }

    async fn ask<Q: Request>(&self, request: &Q) -> Result<Q::Reply, Error> {
        let reply = self.0.session.ask(request).await;
        reply.map_err(|error| call_error(&error, &self.0.endpoint))
    }
}

impl Asks for Driver<'_> {
    type Error = Error;

    async fn ask<Q: Request>(
        &mut self,
        _end: DriverEnd,
        request: Q,
    ) -> Result<Option<Q::Reply>, Error> {
        let answer = if_served(self.0.session.ask(&request).await);
        answer.map_err(|error| call_error(&error, &self.0.endpoint))
    }
}

fn volume(condition: Option<v1::VolumeCondition>) -> State {
    State::Present {
        ready: true,
        abnormal: condition.map(|condition| (condition.abnormal, condition.message)),
    }
}

fn snapshot(snapshot: Option<v1::Snapshot>, id: &str) -> State {
    match snapshot.filter(|snapshot| snapshot.snapshot_id == id) {
        None => State::Absent,
        Some(snapshot) => State::Present {
            ready: snapshot.ready_to_use,
            abnormal: None,
        },
    }
}
