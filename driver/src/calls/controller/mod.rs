//! The Controller service: checks requests, finds the share that they mean, runs the work, and makes the answers. Owns no
//! state that a restart would lose.

pub(crate) mod answer;
mod background;
mod background_tasks;
mod capacity;
mod compared;
pub mod config;
mod copies;
mod copying;
pub(crate) mod deadline;
pub mod error;
mod listed;
mod lists;
mod looks;
mod measured;
mod measuring;
mod neighbours;
mod observed;
pub(crate) mod options;
pub(crate) mod outcome;
mod pace;
pub(crate) mod pages;
mod placed;
mod reached;
#[expect(clippy::disallowed_methods, reason = "at the start, and in a thread")]
mod remembered;
pub(crate) mod shares;
pub(crate) mod sizes;
pub(crate) mod snapshots;
mod twins;
pub(crate) mod validation;
pub(crate) mod volumes;

pub use config::{ControllerConfig, NamedShare, Role};
pub use pace::Pace;

use crate::calls::capability::CapabilityError;
use crate::calls::export::Export;
use crate::calls::limits;
use crate::calls::operations::{Operation, reading};
use crate::calls::parameters::{MUTABLE, Parameters};
use crate::calls::volume_id::VolumeId;
use crate::share::database::Expect;
use crate::share::quotas;
use crate::share::records::volume::{Changes, Volume};
use copies::Purpose;
use csi_proto::v1::controller_server;
use csi_proto::v1::controller_service_capability::rpc;
use csi_proto::v1::{self as csi};
use error::ControllerError;
use prost::Message;
use shares::Shares;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::{Request, Response, Status};
use volumes::{Creation, GivenSource, check_expansion};

/// What this controller can do, and no more.
const CAPABILITIES: [rpc::Type; 12] = [
    rpc::Type::CreateDeleteVolume,
    rpc::Type::ListVolumes,
    rpc::Type::GetCapacity,
    rpc::Type::ExpandVolume,
    rpc::Type::VolumeCondition,
    rpc::Type::GetVolume,
    rpc::Type::SingleNodeMultiWriter,
    rpc::Type::CreateDeleteSnapshot,
    rpc::Type::ListSnapshots,
    rpc::Type::GetSnapshot,
    rpc::Type::CloneVolume,
    rpc::Type::ModifyVolume,
];

/// The Controller service. Cheap to clone; the clones are one controller.
#[derive(Clone)]
pub struct Controller {
    pub(crate) shares: Arc<Shares>,
}

impl Controller {
    /// A controller that does as `config` says. No share is looked at before it is needed, or [`Controller::start`] is
    /// called.
    pub fn new(config: ControllerConfig) -> Self {
        Self {
            shares: Arc::new(Shares::new(config)),
        }
    }

    /// Finishes in the background what an earlier process has left on the shares that were named at the start, and keeps the
    /// limits of volumes there, where this process sets them.
    pub fn start(&self) {
        self.shares.recover_configured();
        self.keep_sizes();
    }

    /// Measures volumes in the background from now on, if it is to.
    pub fn measure(&self) {
        self.shares.measure();
    }

    /// Measures once what is due, if it is to measure at all.
    pub async fn measure_once(&self) {
        self.shares.measure_once().await;
    }

    /// Waits until no work is left in the background: recoveries and purges. Files that somebody holds open are not waited
    /// for.
    pub async fn settle(&self) {
        self.shares.settle().await;
    }

    /// Ends the copies that run, where they are, and those that are begun later.
    pub fn stop_copies(&self) {
        self.shares.copies.stop_all();
    }

    /// For the end of a process: gives up all work in the background, which the next start takes up. Copies end where they
    /// are, their calls with ABORTED, those that are begun later at once.
    pub fn give_up(&self) {
        self.shares.give_up();
    }

    /// The same, and waits for the operations that run, also those whose callers have gone.
    pub async fn stop(&self) {
        self.shares.stop().await;
    }

    pub(crate) fn timeout<T>(&self, request: &Request<T>) -> Duration {
        deadline::timeout(request.metadata(), self.shares.config.timeout)
    }

    /// CreateVolume. A `given` source counts instead of the one that the request names.
    pub(crate) async fn create(
        &self,
        timeout: Duration,
        request: csi::CreateVolumeRequest,
        given: Option<GivenSource>,
    ) -> Result<csi::CreateVolumeResponse, ControllerError> {
        let creation = Creation::check(&self.shares, &request, given)?;
        let key = creation.key();
        let operation = Operation {
            rpc: "CreateVolume",
            arguments: csi::CreateVolumeRequest {
                secrets: Default::default(),
                ..request
            }
            .encode_to_vec(),
        };
        let shares = &self.shares;
        let (record, uuid) = shares
            .create(
                (Purpose::Volume, &shares.operations),
                key.clone(),
                operation.clone(),
                timeout,
                Expect::Any,
                || creation.clone().run(Arc::clone(shares), operation.clone()),
            )
            .await?;
        Ok(csi::CreateVolumeResponse {
            volume: Some(answer::volume(&key.0, uuid, &record)),
        })
    }

    async fn delete(
        &self,
        timeout: Duration,
        request: csi::DeleteVolumeRequest,
    ) -> Result<csi::DeleteVolumeResponse, ControllerError> {
        limits::map("secrets", &request.secrets)?;
        limits::required("volume_id", &request.volume_id)?;
        let id: VolumeId = match request.volume_id.parse() {
            Ok(id) => id,
            // Why OK: see `status`.
            Err(foreign) => {
                (self.shares.config.notice)(&format!("DeleteVolume: nothing to delete: {foreign}"));
                return Ok(csi::DeleteVolumeResponse {});
            }
        };
        let export = self.shares.locate(&id.location)?;
        let options = self.shares.secret_options(&request.secrets)?;
        let operation = Operation {
            rpc: "DeleteVolume",
            arguments: request.volume_id.into_bytes(),
        };
        let shares = Arc::clone(&self.shares);
        let work = || volumes::delete(shares, export.clone(), id.clone(), options.clone());
        self.shares
            .operations
            .run((export.clone(), id.key), operation, timeout, work)
            .await
            .map_err(|busy| self.shares.busy(&export, busy))??;
        Ok(csi::DeleteVolumeResponse {})
    }

    async fn validate(
        &self,
        request: csi::ValidateVolumeCapabilitiesRequest,
    ) -> Result<csi::ValidateVolumeCapabilitiesResponse, ControllerError> {
        validation::check_fields(&request)?;
        limits::required("volume_id", &request.volume_id)?;
        if request.volume_capabilities.is_empty() {
            return Err(CapabilityError::NoneGiven.into());
        }
        let found = volumes::get(&self.shares, &request.volume_id, |_, _| Ok(()));
        let (export, _, listed, ()) = found.await?;
        let objection = validation::objection(&self.shares, &export, &listed.record, &request);
        Ok(validation::answer(objection, request))
    }

    async fn list(
        &self,
        timeout: Duration,
        request: csi::ListVolumesRequest,
    ) -> Result<csi::ListVolumesResponse, ControllerError> {
        let max_entries = pages::max_entries(request.max_entries)?;
        let question = request.encode_to_vec();
        let shares = Arc::clone(&self.shares);
        let work = move |limit| async move {
            // A token that is too long is not one of ours, and that has a code of its own.
            let token = &request.starting_token;
            let teller = Arc::clone(&shares);
            let shown = move |export: &Export, uuid, key, it| {
                let entry = answer::entry(export, uuid, key, it);
                entry.map_err(|odd| teller.tell_once(export, odd)).ok()
            };
            pages::page::<Volume, _>(&shares, limit, max_entries, token, shown)
                .await
                .map(Arc::new)
        };
        let deadline = Instant::now() + timeout;
        let listed = self.shares.volume_lists.join(question, deadline, work);
        let page = listed.await.ok_or(ControllerError::ShuttingDown)??;
        let (entries, next_token) = Arc::unwrap_or_clone(page);
        Ok(csi::ListVolumesResponse {
            entries,
            next_token,
        })
    }

    async fn get(
        &self,
        request: csi::ControllerGetVolumeRequest,
    ) -> Result<csi::ControllerGetVolumeResponse, ControllerError> {
        let found = volumes::get(&self.shares, &request.volume_id, quotas::obstacle);
        let (export, uuid, listed, obstacle) = found.await?;
        let volume = answer::volume(&export, uuid, &listed.record);
        let condition = answer::condition(listed, obstacle);
        Ok(answer::one_volume(volume, condition))
    }

    async fn expand(
        &self,
        timeout: Duration,
        request: csi::ControllerExpandVolumeRequest,
    ) -> Result<csi::ControllerExpandVolumeResponse, ControllerError> {
        limits::map("secrets", &request.secrets)?;
        limits::required("volume_id", &request.volume_id)?;
        let range = check_expansion(&request)?;
        let id: VolumeId = request.volume_id.parse()?;
        let export = self.shares.locate(&id.location)?;
        let operation = Operation {
            rpc: "ControllerExpandVolume",
            arguments: csi::ControllerExpandVolumeRequest {
                secrets: Default::default(),
                ..request
            }
            .encode_to_vec(),
        };
        let shares = Arc::clone(&self.shares);
        let work = || volumes::expand(shares, export.clone(), id.clone(), range);
        let key = (export.clone(), id.key);
        let operations = &self.shares.operations;
        let done = self.shares.run(operations, key, operation, timeout, work);
        let outcome = done.await?;
        let record = outcome.ok_or(ControllerError::ShuttingDown)?;
        Ok(csi::ControllerExpandVolumeResponse {
            capacity_bytes: record.what.capacity_bytes,
            node_expansion_required: false,
        })
    }
}

impl Controller {
    /// For calls that change nothing, and so need no table of what runs. A dead server must not hold them for ever.
    pub(crate) async fn bounded<T>(
        &self,
        timeout: Duration,
        call: impl Future<Output = Result<T, ControllerError>>,
    ) -> Result<T, ControllerError> {
        let _turn = reading()?;
        let bounded = tokio::time::timeout(timeout, call).await;
        bounded.unwrap_or_else(|_| Err(self.shares.no_answer(timeout)))
    }

    async fn modify(
        &self,
        timeout: Duration,
        request: csi::ControllerModifyVolumeRequest,
    ) -> Result<csi::ControllerModifyVolumeResponse, ControllerError> {
        limits::required("volume_id", &request.volume_id)?;
        limits::map("secrets", &request.secrets)?;
        limits::map("mutable_parameters", &request.mutable_parameters)?;
        // None at all are no change: what an orchestrator's empty class of attributes asks for.
        let asked = Parameters::parse_known(&request.mutable_parameters, &MUTABLE)?;
        let options = self.shares.secret_options(&request.secrets)?;
        let id: VolumeId = request.volume_id.parse()?;
        let export = self.shares.locate(&id.location)?;
        let operation = Operation {
            rpc: "ControllerModifyVolume",
            arguments: csi::ControllerModifyVolumeRequest {
                secrets: Default::default(),
                ..request
            }
            .encode_to_vec(),
        };
        let changes = Changes {
            on_delete: asked.on_delete,
            mode: asked.mode,
            uid: asked.uid,
            gid: asked.gid,
        };
        let shares = Arc::clone(&self.shares);
        let work = || volumes::modify(shares, export.clone(), id.clone(), options, changes);
        self.shares
            .operations
            .run((export.clone(), id.key), operation, timeout, work)
            .await
            .map_err(|busy| self.shares.busy(&export, busy))??;
        Ok(csi::ControllerModifyVolumeResponse {})
    }
}

pub(crate) type Answer<T> = Result<Response<T>, Status>;

pub(crate) fn answer_with<T>(result: Result<T, ControllerError>) -> Answer<T> {
    result.map(Response::new).map_err(Status::from)
}

#[tonic::async_trait]
impl controller_server::Controller for Controller {
    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Answer<csi::CreateVolumeResponse> {
        let timeout = self.timeout(&request);
        answer_with(self.create(timeout, request.into_inner(), None).await)
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Answer<csi::DeleteVolumeResponse> {
        let timeout = self.timeout(&request);
        answer_with(self.delete(timeout, request.into_inner()).await)
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Answer<csi::ValidateVolumeCapabilitiesResponse> {
        let timeout = self.timeout(&request);
        answer_with(
            self.bounded(timeout, self.validate(request.into_inner()))
                .await,
        )
    }

    async fn list_volumes(
        &self,
        request: Request<csi::ListVolumesRequest>,
    ) -> Answer<csi::ListVolumesResponse> {
        let timeout = self.timeout(&request);
        answer_with(
            self.bounded(timeout, self.list(timeout, request.into_inner()))
                .await,
        )
    }

    async fn controller_get_volume(
        &self,
        request: Request<csi::ControllerGetVolumeRequest>,
    ) -> Answer<csi::ControllerGetVolumeResponse> {
        let timeout = self.timeout(&request);
        answer_with(self.bounded(timeout, self.get(request.into_inner())).await)
    }

    async fn get_capacity(
        &self,
        request: Request<csi::GetCapacityRequest>,
    ) -> Answer<csi::GetCapacityResponse> {
        let timeout = self.timeout(&request);
        answer_with(
            self.bounded(timeout, capacity::get(&self.shares, request.into_inner()))
                .await,
        )
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Answer<csi::ControllerExpandVolumeResponse> {
        let timeout = self.timeout(&request);
        answer_with(self.expand(timeout, request.into_inner()).await)
    }

    async fn controller_get_capabilities(
        &self,
        _request: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Answer<csi::ControllerGetCapabilitiesResponse> {
        let capabilities = CAPABILITIES.into_iter().map(Into::into).collect();
        answer_with(Ok(csi::ControllerGetCapabilitiesResponse { capabilities }))
    }

    async fn create_snapshot(
        &self,
        request: Request<csi::CreateSnapshotRequest>,
    ) -> Answer<csi::CreateSnapshotResponse> {
        let timeout = self.timeout(&request);
        let request = request.into_inner();
        let creation = snapshots::Creation::check(&self.shares, &request, None)?;
        answer_with(snapshots::create(&self.shares, timeout, request, creation).await)
    }

    async fn delete_snapshot(
        &self,
        request: Request<csi::DeleteSnapshotRequest>,
    ) -> Answer<csi::DeleteSnapshotResponse> {
        let timeout = self.timeout(&request);
        answer_with(snapshots::delete(&self.shares, timeout, request.into_inner()).await)
    }

    async fn list_snapshots(
        &self,
        request: Request<csi::ListSnapshotsRequest>,
    ) -> Answer<csi::ListSnapshotsResponse> {
        let timeout = self.timeout(&request);
        answer_with(
            self.bounded(
                timeout,
                snapshots::list(&self.shares, timeout, request.into_inner(), None),
            )
            .await,
        )
    }

    async fn get_snapshot(
        &self,
        request: Request<csi::GetSnapshotRequest>,
    ) -> Answer<csi::GetSnapshotResponse> {
        let timeout = self.timeout(&request);
        answer_with(
            self.bounded(timeout, snapshots::get(&self.shares, request.into_inner()))
                .await,
        )
    }

    async fn controller_modify_volume(
        &self,
        request: Request<csi::ControllerModifyVolumeRequest>,
    ) -> Answer<csi::ControllerModifyVolumeResponse> {
        let timeout = self.timeout(&request);
        answer_with(self.modify(timeout, request.into_inner()).await)
    }
}
