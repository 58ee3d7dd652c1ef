//! The way of a volume to a node: its folders, its creation, and every step until it is published.

use super::calls::{Lifecycle, StepRunner, text};
use csi_call::endpoint::absolute;
use csi_call::user_folders;
use csi_error::{Error, OrError, say};
use csi_invocation::run_folder;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::{Request, escaped, lock, v1};
use csi_undo::Item;
use prost::Message as _;
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use tonic::Code;

/// The facts about the volume that calls need.
#[derive(Debug, Default)]
pub(super) struct Volume {
    pub(super) id: String,
    /// Its size, where that is known.
    pub(super) capacity: i64,
    context: BTreeMap<String, String>,
    publish_context: BTreeMap<String, String>,
    /// That its condition is abnormal, as the driver has said first.
    pub(super) abnormal: Option<Error>,
}

/// Where a volume is brought to.
#[derive(Debug)]
pub(super) struct Placed {
    pub(super) staging: PathBuf,
    pub(super) target: PathBuf,
}

/// The name of the target path in the folder of a volume.
pub(super) const TARGET: &str = "target";

impl<W: Write> Lifecycle<'_, W> {
    /// The folder of this run.
    fn folder(&self) -> PathBuf {
        let parent = self.flags.mount_parent.clone();
        let parent = parent.unwrap_or_else(user_folders::temporary);
        absolute(&parent).join(&self.name)
    }

    /// Makes the folder of this run.
    pub(super) fn make_folder(&self) -> Result<(), Error> {
        let folder = self.folder();
        self.make(&folder)?;
        run_folder::mark(&folder, &self.node.endpoint);
        Ok(())
    }

    fn make(&self, path: &Path) -> Result<(), Error> {
        fs::create_dir(path)
            .or_unusable(format_args!("the folder {} cannot be made", path.display()))?;
        lock(&self.made).add(Item::Folder(path.to_owned()));
        Ok(())
    }
}

impl<W: Write> StepRunner<'_, '_, W> {
    /// The folders that an orchestrator makes: the staging path, and the parent of the target path. `name` tells those of
    /// one volume from those of another.
    pub(super) fn place(&self, name: &str) -> Result<Placed, Error> {
        let number = self.number.map(|number| number.to_string());
        let own = [number.as_deref().unwrap_or_default(), name];
        let own: Vec<&str> = own.into_iter().filter(|part| !part.is_empty()).collect();
        let mut folder = self.run.folder();
        if !own.is_empty() {
            folder.push(own.join("-"));
            self.run.make(&folder)?;
        }
        let staging = folder.join("staging");
        self.run.make(&staging)?;
        let target = folder.join(TARGET);
        Ok(Placed { staging, target })
    }

    /// The name of the volume that this way makes.
    pub(super) fn volume_name(&self) -> String {
        let name = self.run.flags.name.as_ref().unwrap_or(&self.run.name);
        match self.number {
            Some(number) => format!("{name}-{number}"),
            None => name.clone(),
        }
    }

    /// A request with everything that flags say of the volume.
    pub(super) fn request<Q: Request>(&self) -> Q {
        let cap = self.run.flags.cap.as_ref();
        self.run.flags.volume.request(cap, &self.run.context)
    }

    /// The volume: a new one, or the one that was named.
    pub(super) async fn volume(&self) -> Result<Volume, Error> {
        let given: v1::NodePublishVolumeRequest = self.request();
        let context = given.volume_context;
        match self.run.flags.volume_id.clone() {
            Some(id) => self.existing(id, context).await,
            None => self.create(context).await,
        }
    }

    async fn existing(
        &self,
        id: String,
        mut context: BTreeMap<String, String>,
    ) -> Result<Volume, Error> {
        let mut capacity = 0;
        if context.is_empty() {
            // The node is to be sent what CreateVolume answered, which the driver may still know.
            if self.advertised.controller(ControllerCapability::GetVolume) {
                let request = v1::ControllerGetVolumeRequest {
                    volume_id: id.clone(),
                };
                let reply = self
                    .step(&request, |reply| {
                        let context = reply.volume.as_ref().map(|one| &one.volume_context);
                        match context.map_or(0, BTreeMap::len) {
                            0 => "no volume context".to_owned(),
                            _ => "with its volume context".to_owned(),
                        }
                    })
                    .await?;
                let volume = reply.volume.unwrap_or_default();
                (capacity, context) = (volume.capacity_bytes, volume.volume_context);
            } else {
                self.skipped("controller get-volume", "not advertised: GET_VOLUME")?;
            }
        }
        Ok(Volume {
            id,
            capacity,
            context,
            ..Volume::default()
        })
    }

    async fn create(&self, mut context: BTreeMap<String, String>) -> Result<Volume, Error> {
        if !self
            .advertised
            .controller(ControllerCapability::CreateDeleteVolume)
        {
            return Err(Error::rpc(Code::Unimplemented, "the driver does not advertise CREATE_DELETE_VOLUME: it has no volumes to make")
                .hint("--volume-id and --vol-context use a volume that exists; --controller-endpoint names a controller elsewhere"));
        }
        let request = v1::CreateVolumeRequest {
            name: self.volume_name(),
            ..self.request()
        };
        let mut volume = self.create_as(&request).await?;
        if self.run.flags.keep {
            let request = v1::DeleteVolumeRequest {
                volume_id: volume.id.clone(),
                ..Default::default()
            };
            let deleted = request.encode_to_vec().into();
            lock(&self.run.made).undone(v1::DeleteVolumeRequest::METHOD, &deleted);
            say!("note: --keep: the volume {} stays", escaped(&volume.id));
        }
        context.extend(std::mem::take(&mut volume.context));
        Ok(Volume { context, ..volume })
    }

    /// Creates a volume as the request says.
    pub(super) async fn create_as(
        &self,
        request: &v1::CreateVolumeRequest,
    ) -> Result<Volume, Error> {
        let id = |reply: &v1::CreateVolumeResponse| {
            let id = reply.volume.as_ref().map(|volume| &volume.volume_id);
            let id = id.filter(|id| !id.is_empty()).cloned();
            let problem = "the reply has no volume id, which the specification requires";
            id.ok_or_else(|| Error::local(problem).doing("controller create-volume"))
        };
        let made = self.step_judged(request, |_| true, id).await?;
        let volume = made.volume.unwrap_or_default();
        Ok(Volume {
            id: volume.volume_id,
            capacity: volume.capacity_bytes,
            context: volume.volume_context,
            ..Volume::default()
        })
    }

    pub(super) async fn publish_by_controller(&self, volume: &mut Volume) -> Result<(), Error> {
        if !self
            .advertised
            .controller(ControllerCapability::PublishUnpublishVolume)
        {
            return self.skipped(
                "controller publish",
                "not advertised: PUBLISH_UNPUBLISH_VOLUME",
            );
        }
        let info = self
            .step(&v1::NodeGetInfoRequest {}, |reply| reply.node_id.clone())
            .await?;
        let request = v1::ControllerPublishVolumeRequest {
            volume_id: volume.id.clone(),
            node_id: info.node_id.clone(),
            volume_context: volume.context.clone(),
            ..self.request()
        };
        let result = self.step(&request, |_| String::new()).await;
        volume.publish_context = result?.publish_context;
        Ok(())
    }

    pub(super) async fn stage(&self, volume: &Volume, staging: &Path) -> Result<bool, Error> {
        if !self.advertised.node(NodeCapability::StageUnstageVolume) {
            self.skipped("node stage", "not advertised: STAGE_UNSTAGE_VOLUME")?;
            return Ok(false);
        }
        let request = v1::NodeStageVolumeRequest {
            volume_id: volume.id.clone(),
            publish_context: volume.publish_context.clone(),
            staging_target_path: text(staging),
            volume_context: volume.context.clone(),
            ..self.request()
        };
        self.step(&request, |_| text(staging)).await?;
        Ok(true)
    }

    pub(super) async fn publish(
        &self,
        volume: &Volume,
        staging: Option<&PathBuf>,
        target: &Path,
    ) -> Result<(), Error> {
        let request = v1::NodePublishVolumeRequest {
            volume_id: volume.id.clone(),
            publish_context: volume.publish_context.clone(),
            staging_target_path: staging.map(|path| text(path)).unwrap_or_default(),
            target_path: text(target),
            volume_context: volume.context.clone(),
            ..self.request()
        };
        self.step(&request, |_| text(target)).await.map(drop)
    }
}
