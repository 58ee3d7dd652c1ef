//! The Controller service: volumes, what they are asked to be, and where they are attached.

use crate::calls::{Calls, Reply, page, required, valid_name};
use crate::csi;
use crate::csi::controller_service_capability::rpc::Type as Capability;
use crate::csi::controller_service_capability::{Rpc, Type};
use crate::csi::list_volumes_response::{Entry, VolumeStatus};
use crate::csi::validate_volume_capabilities_response::Confirmed;
use crate::identity::{Range, complete, of_storage, offered, reason_against};
// with attach
use crate::storage::Attachment;
// end
// with snapshots
use crate::storage::Source;
// end
use crate::storage::{NewVolume, Storage, StorageError, Volume};
use std::sync::Arc;
use tonic::{Request, Status};

/// What the driver can do with volumes.
const CAPABILITIES: &[Capability] = &[
    Capability::CreateDeleteVolume,
    Capability::ListVolumes,
    Capability::GetVolume,
    Capability::GetCapacity,
    Capability::ExpandVolume,
    // with attach
    Capability::PublishUnpublishVolume,
    Capability::PublishReadonly,
    Capability::ListVolumesPublishedNodes,
    // end
    // with snapshots
    Capability::CloneVolume,
    Capability::CreateDeleteSnapshot,
    Capability::ListSnapshots,
    Capability::GetSnapshot,
    // end
];

/// The Controller service. Clones are the same.
#[derive(Clone)]
pub struct Controller {
    /// Where the volumes are.
    pub storage: Arc<dyn Storage>,
    /// The calls that run.
    pub calls: Calls,
}

impl Controller {
    /// A controller of volumes in this storage.
    pub fn new(storage: &Arc<dyn Storage>, calls: &Calls) -> Self {
        Self {
            storage: storage.clone(),
            calls: calls.clone(),
        }
    }

    fn create(
        &self,
        request: csi::CreateVolumeRequest,
    ) -> Result<csi::CreateVolumeResponse, Status> {
        let name = valid_name(&request.name)?;
        offered(&request.volume_capabilities)?;
        let parameters = of_storage(request.parameters);
        self.storage.check_parameters(&parameters)?;
        let range = Range::of(request.capacity_range.as_ref())?;
        // with snapshots
        let source = request.volume_content_source.map(Source::try_from);
        let source = source.transpose()?;
        // end
        // without snapshots
        if request.volume_content_source.is_some() {
            return Err(Status::invalid_argument("volumes cannot be copied"));
        }
        // end
        let _name = self.calls.hold(&format!("the volume name {name}"))?;
        if let Some(volume) = self.storage.volume_named(name)? {
            // with snapshots
            let is_equal = range.has(volume.bytes)
                && volume.parameters == parameters
                && volume.source == source;
            // end
            // without snapshots
            let is_equal = range.has(volume.bytes) && volume.parameters == parameters;
            // end
            return match is_equal {
                true => Ok(created(&volume)),
                false => Err(Status::already_exists(format!("{name} is another volume"))),
            };
        }
        // with snapshots
        let (least, _source) = match &source {
            Some(source) => self.begin_copy(source)?,
            None => (0, None),
        };
        // end
        // without snapshots
        let least = 0;
        // end
        let volume = NewVolume {
            name: name.to_owned(),
            bytes: range.size(least)?,
            parameters,
            // with snapshots
            source,
            // end
        };
        let volume = self.storage.create_volume(volume, &request.secrets)?;
        Ok(created(&volume))
    }

    fn delete(
        &self,
        request: csi::DeleteVolumeRequest,
    ) -> Result<csi::DeleteVolumeResponse, Status> {
        let id = required(&request.volume_id, "volume_id")?;
        let _volume = self.calls.hold(id)?;
        // with attach
        let volume = self.storage.volume(id)?;
        if let Some(attached) = volume.and_then(|volume| volume.attached) {
            let message = format!("{id} is attached to {}", attached.node);
            return Err(Status::failed_precondition(message));
        }
        // end
        self.storage.delete_volume(id, &request.secrets)?;
        Ok(csi::DeleteVolumeResponse {})
    }

    fn validate(
        &self,
        request: csi::ValidateVolumeCapabilitiesRequest,
    ) -> Result<csi::ValidateVolumeCapabilitiesResponse, Status> {
        let id = required(&request.volume_id, "volume_id")?;
        complete(&request.volume_capabilities)?;
        let volume = self.volume(id)?;
        let parameters = of_storage(request.parameters.clone());
        let reason = if !request.volume_context.is_empty() {
            Some("volumes have no volume_context".to_owned())
        } else if !parameters.is_empty() && parameters != volume.parameters {
            Some("the volume has other parameters".to_owned())
        } else {
            request.volume_capabilities.iter().find_map(reason_against)
        };
        Ok(match reason {
            Some(message) => csi::ValidateVolumeCapabilitiesResponse {
                message,
                confirmed: None,
            },
            None => csi::ValidateVolumeCapabilitiesResponse {
                message: String::new(),
                confirmed: Some(Confirmed {
                    volume_capabilities: request.volume_capabilities,
                    parameters: request.parameters,
                    ..Default::default()
                }),
            },
        })
    }

    fn list(&self, request: csi::ListVolumesRequest) -> Result<csi::ListVolumesResponse, Status> {
        let volumes = self.storage.volumes()?;
        let (page, next_token) = page(
            volumes,
            |volume| &volume.id,
            request.max_entries,
            &request.starting_token,
        )?;
        let entries = page.iter().map(|volume| Entry {
            volume: Some(shown(volume)),
            status: Some(VolumeStatus {
                // with attach
                published_node_ids: nodes_of(volume),
                // end
                ..Default::default()
            }),
        });
        Ok(csi::ListVolumesResponse {
            entries: entries.collect(),
            next_token,
        })
    }

    fn get(
        &self,
        request: csi::ControllerGetVolumeRequest,
    ) -> Result<csi::ControllerGetVolumeResponse, Status> {
        let volume = self.volume(required(&request.volume_id, "volume_id")?)?;
        Ok(csi::ControllerGetVolumeResponse {
            volume: Some(shown(&volume)),
            status: Some(csi::controller_get_volume_response::VolumeStatus {
                // with attach
                published_node_ids: nodes_of(&volume),
                // end
                ..Default::default()
            }),
        })
    }

    fn capacity(
        &self,
        request: csi::GetCapacityRequest,
    ) -> Result<csi::GetCapacityResponse, Status> {
        let parameters = of_storage(request.parameters);
        let is_known = match self.storage.check_parameters(&parameters) {
            Ok(()) => true,
            Err(StorageError::Refused(_)) => false,
            Err(error) => return Err(error.into()),
        };
        let mut capabilities = request.volume_capabilities.iter();
        // For volumes that cannot be made there is no room.
        let free = match is_known && capabilities.find_map(reason_against).is_none() {
            true => self.storage.free_bytes(&parameters)?,
            false => 0,
        };
        Ok(csi::GetCapacityResponse {
            available_capacity: signed(free),
            ..Default::default()
        })
    }

    fn expand(
        &self,
        request: csi::ControllerExpandVolumeRequest,
    ) -> Result<csi::ControllerExpandVolumeResponse, Status> {
        let id = required(&request.volume_id, "volume_id")?;
        if request.capacity_range.is_none() {
            return Err(Status::invalid_argument("capacity_range is missing"));
        }
        let range = Range::of(request.capacity_range.as_ref())?;
        if request.volume_capability.is_some() {
            offered(request.volume_capability.as_slice())?;
        }
        let _volume = self.calls.hold(id)?;
        let volume = self.volume(id)?;
        let bytes = range.expanded(volume.bytes)?;
        if bytes > volume.bytes {
            self.storage.expand_volume(id, bytes, &request.secrets)?;
        }
        Ok(csi::ControllerExpandVolumeResponse {
            capacity_bytes: signed(bytes),
            node_expansion_required: false,
        })
    }
    // with attach

    fn attach(
        &self,
        request: csi::ControllerPublishVolumeRequest,
    ) -> Result<csi::ControllerPublishVolumeResponse, Status> {
        let id = required(&request.volume_id, "volume_id")?;
        let node = required(&request.node_id, "node_id")?;
        offered(request.volume_capability.as_slice())?;
        let _volume = self.calls.hold(id)?;
        let (storage, secrets) = (&self.storage, &request.secrets);
        let volume = self.volume(id)?;
        if !storage.has_node(node)? {
            return Err(Status::not_found(format!("the node {node} does not exist")));
        }
        let wanted = Attachment {
            node: node.to_owned(),
            readonly: request.readonly,
        };
        match volume.attached {
            None => storage.attach_volume(id, Some(wanted), secrets)?,
            Some(attached) if attached == wanted => {}
            Some(attached) if attached.node == wanted.node => {
                let message = format!("{id} is attached to {node} in another way");
                return Err(Status::already_exists(message));
            }
            Some(attached) => {
                let message = format!("{id} is attached to {}", attached.node);
                return Err(Status::failed_precondition(message));
            }
        }
        Ok(csi::ControllerPublishVolumeResponse::default())
    }

    fn detach(
        &self,
        request: csi::ControllerUnpublishVolumeRequest,
    ) -> Result<csi::ControllerUnpublishVolumeResponse, Status> {
        let id = required(&request.volume_id, "volume_id")?;
        let _volume = self.calls.hold(id)?;
        let volume = self.storage.volume(id)?;
        let attached = volume.and_then(|volume| volume.attached);
        // Without a node_id, from every node. A volume that is gone is attached to none.
        if attached.is_some_and(|one| request.node_id.is_empty() || one.node == request.node_id) {
            self.storage.attach_volume(id, None, &request.secrets)?;
        }
        Ok(csi::ControllerUnpublishVolumeResponse {})
    }
    // end

    /// The volume with that id, which has to be there.
    pub fn volume(&self, id: &str) -> Result<Volume, Status> {
        let found = self.storage.volume(id)?;
        found.ok_or_else(|| Status::not_found(format!("the volume {id} does not exist")))
    }
}

#[tonic::async_trait]
impl csi::controller_server::Controller for Controller {
    async fn controller_get_capabilities(
        &self,
        request: Request<csi::ControllerGetCapabilitiesRequest>,
    ) -> Reply<csi::ControllerGetCapabilitiesResponse> {
        self.calls
            .answer(self, "ControllerGetCapabilities", request, |_, _| {
                let capability = |one: &Capability| csi::ControllerServiceCapability {
                    r#type: Some(Type::Rpc(Rpc {
                        r#type: (*one).into(),
                    })),
                };
                Ok(csi::ControllerGetCapabilitiesResponse {
                    capabilities: CAPABILITIES.iter().map(capability).collect(),
                })
            })
            .await
    }

    async fn create_volume(
        &self,
        request: Request<csi::CreateVolumeRequest>,
    ) -> Reply<csi::CreateVolumeResponse> {
        self.calls
            .answer(self, "CreateVolume", request, Self::create)
            .await
    }

    async fn delete_volume(
        &self,
        request: Request<csi::DeleteVolumeRequest>,
    ) -> Reply<csi::DeleteVolumeResponse> {
        self.calls
            .answer(self, "DeleteVolume", request, Self::delete)
            .await
    }

    async fn validate_volume_capabilities(
        &self,
        request: Request<csi::ValidateVolumeCapabilitiesRequest>,
    ) -> Reply<csi::ValidateVolumeCapabilitiesResponse> {
        self.calls
            .answer(self, "ValidateVolumeCapabilities", request, Self::validate)
            .await
    }

    async fn list_volumes(
        &self,
        request: Request<csi::ListVolumesRequest>,
    ) -> Reply<csi::ListVolumesResponse> {
        self.calls
            .answer(self, "ListVolumes", request, Self::list)
            .await
    }

    async fn controller_get_volume(
        &self,
        request: Request<csi::ControllerGetVolumeRequest>,
    ) -> Reply<csi::ControllerGetVolumeResponse> {
        self.calls
            .answer(self, "ControllerGetVolume", request, Self::get)
            .await
    }

    async fn get_capacity(
        &self,
        request: Request<csi::GetCapacityRequest>,
    ) -> Reply<csi::GetCapacityResponse> {
        self.calls
            .answer(self, "GetCapacity", request, Self::capacity)
            .await
    }

    async fn controller_expand_volume(
        &self,
        request: Request<csi::ControllerExpandVolumeRequest>,
    ) -> Reply<csi::ControllerExpandVolumeResponse> {
        self.calls
            .answer(self, "ControllerExpandVolume", request, Self::expand)
            .await
    }
    // with attach

    async fn controller_publish_volume(
        &self,
        request: Request<csi::ControllerPublishVolumeRequest>,
    ) -> Reply<csi::ControllerPublishVolumeResponse> {
        self.calls
            .answer(self, "ControllerPublishVolume", request, Self::attach)
            .await
    }

    async fn controller_unpublish_volume(
        &self,
        request: Request<csi::ControllerUnpublishVolumeRequest>,
    ) -> Reply<csi::ControllerUnpublishVolumeResponse> {
        self.calls
            .answer(self, "ControllerUnpublishVolume", request, Self::detach)
            .await
    }
    // end
    // with snapshots

    async fn create_snapshot(
        &self,
        request: Request<csi::CreateSnapshotRequest>,
    ) -> Reply<csi::CreateSnapshotResponse> {
        self.calls
            .answer(self, "CreateSnapshot", request, Self::take_snapshot)
            .await
    }

    async fn delete_snapshot(
        &self,
        request: Request<csi::DeleteSnapshotRequest>,
    ) -> Reply<csi::DeleteSnapshotResponse> {
        self.calls
            .answer(self, "DeleteSnapshot", request, Self::remove_snapshot)
            .await
    }

    async fn list_snapshots(
        &self,
        request: Request<csi::ListSnapshotsRequest>,
    ) -> Reply<csi::ListSnapshotsResponse> {
        self.calls
            .answer(self, "ListSnapshots", request, Self::snapshots)
            .await
    }

    async fn get_snapshot(
        &self,
        request: Request<csi::GetSnapshotRequest>,
    ) -> Reply<csi::GetSnapshotResponse> {
        self.calls
            .answer(self, "GetSnapshot", request, Self::one_snapshot)
            .await
    }
    // end
}

/// Sizes are signed in messages.
pub fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

fn created(volume: &Volume) -> csi::CreateVolumeResponse {
    csi::CreateVolumeResponse {
        volume: Some(shown(volume)),
    }
}

fn shown(volume: &Volume) -> csi::Volume {
    csi::Volume {
        volume_id: volume.id.clone(),
        capacity_bytes: signed(volume.bytes),
        // with snapshots
        content_source: volume.source.clone().map(Into::into),
        // end
        ..Default::default()
    }
}
// with attach

fn nodes_of(volume: &Volume) -> Vec<String> {
    let attached = volume.attached.as_ref();
    attached.map(|one| one.node.clone()).into_iter().collect()
}
// end

#[cfg(test)]
mod tests {
    use super::*;
    use crate::csi::volume_capability::{AccessMode, AccessType, MountVolume, access_mode::Mode};
    use crate::local::Local;
    use tonic::Code;

    fn controller() -> Controller {
        let storage: Arc<dyn Storage> = Arc::new(Local::in_memory().expect("a storage"));
        Controller::new(&storage, &Calls::default())
    }

    fn request(name: &str, required_bytes: i64) -> csi::CreateVolumeRequest {
        csi::CreateVolumeRequest {
            name: name.to_owned(),
            capacity_range: Some(csi::CapacityRange {
                required_bytes,
                limit_bytes: 0,
            }),
            volume_capabilities: vec![csi::VolumeCapability {
                access_type: Some(AccessType::Mount(MountVolume::default())),
                access_mode: Some(AccessMode {
                    mode: Mode::SingleNodeWriter.into(),
                }),
            }],
            ..Default::default()
        }
    }

    fn deletion(id: &str) -> csi::DeleteVolumeRequest {
        csi::DeleteVolumeRequest {
            volume_id: id.to_owned(),
            ..Default::default()
        }
    }

    #[test]
    fn a_name_leads_to_one_volume() {
        let controller = controller();
        let made = controller.create(request("a", 4096)).expect("a volume");
        let again = controller.create(request("a", 4096));
        assert_eq!(again.expect("the same volume"), made);
        let refused = controller
            .create(request("a", 8192))
            .expect_err("another size");
        assert_eq!(refused.code(), Code::AlreadyExists);
        let unknown = csi::CreateVolumeRequest {
            parameters: [("color".to_owned(), "red".to_owned())].into(),
            ..request("b", 4096)
        };
        let refused = controller.create(unknown).expect_err("no such parameter");
        assert_eq!(refused.code(), Code::InvalidArgument);
        let id = made.volume.expect("a volume").volume_id;
        for _ in 0..2 {
            let deleted = controller.delete(deletion(&id));
            deleted.expect("deleted, also when it is gone");
        }
        let gone = controller.volume(&id).map_err(|status| status.code());
        assert_eq!(gone, Err(Code::NotFound));
    }
    // with attach

    #[test]
    fn what_the_storage_cannot_tell_is_not_taken_for_deleted_or_detached() {
        let folder = tempfile::tempdir().expect("a folder");
        let storage = Local::in_folder(folder.path()).expect("a storage");
        storage.register_node("n").expect("a node");
        let storage: Arc<dyn Storage> = Arc::new(storage);
        let controller = Controller::new(&storage, &Calls::default());
        let made = controller.create(request("a", 4096)).expect("a volume");
        let attached = made.volume.expect("a volume").volume_id;
        let to = Attachment {
            node: "n".to_owned(),
            readonly: false,
        };
        storage
            .attach_volume(&attached, Some(to), &Default::default())
            .expect("attached");
        let place = folder.path().join("volumes").join(&attached);
        std::fs::write(place.join("record.json"), "{").expect("damaged");
        let refused = controller.delete(deletion(&attached));
        let refused = refused.expect_err("it is attached");
        assert_eq!(refused.code(), Code::Unavailable);
        assert!(place.exists());
    }
    // end
}
