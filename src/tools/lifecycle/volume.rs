//! The way up of a volume: its folders, its creation, and every step until it is published.

use super::calls::{Lifecycle, say, text};
use crate::call::advertised::Advertised;
use crate::error::{Error, OrError};
use crate::rpc::facts::Thing;
use crate::undo::made::Item;
use csi_proto::lock::lock;
use csi_proto::text::escaped;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::{Request, v1};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// The facts about the volume that calls need.
#[derive(Debug, Default)]
pub(super) struct Volume {
    id: String,
    context: BTreeMap<String, String>,
    publish_context: BTreeMap<String, String>,
}

impl<W: Write> Lifecycle<'_, W> {
    /// The folders that an orchestrator makes: the staging path, and the parent of the target path.
    pub(super) fn folders(&mut self) -> Result<(PathBuf, PathBuf), Error> {
        let parent = self
            .flags
            .mount_parent
            .clone()
            .unwrap_or_else(std::env::temp_dir);
        let parent = std::path::absolute(&parent).unwrap_or(parent);
        let folder = parent.join(&self.name);
        let staging = folder.join("staging");
        for path in [&folder, &staging] {
            fs::create_dir(path)
                .or_because(format_args!("the folder {} cannot be made", path.display()))?;
            lock(&self.made).add(Item::Folder(path.clone()));
        }
        Ok((staging, folder.join("target")))
    }

    /// A request with everything that flags say of the volume.
    fn request<Q: Request>(&self) -> Q {
        let cap = self.flags.cap.as_ref();
        self.flags.volume.request(cap, &self.context)
    }

    /// The volume: a new one, or the one that was named.
    pub(super) async fn volume(&mut self, advertised: &Advertised) -> Result<Volume, Error> {
        let given: v1::NodePublishVolumeRequest = self.request();
        let context = given.volume_context;
        match self.flags.volume_id.clone() {
            Some(id) => self.existing(advertised, id, context).await,
            None => self.create(advertised, context).await,
        }
    }

    async fn existing(
        &mut self,
        advertised: &Advertised,
        id: String,
        mut context: BTreeMap<String, String>,
    ) -> Result<Volume, Error> {
        if context.is_empty() {
            // The node is to be sent what CreateVolume answered, which the driver may still know.
            if advertised.controller(ControllerCapability::GetVolume) {
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
                context = reply.volume.unwrap_or_default().volume_context;
            } else {
                self.skipped("controller get-volume", "not advertised: GET_VOLUME")?;
            }
        }
        Ok(Volume {
            id,
            context,
            ..Volume::default()
        })
    }

    async fn create(
        &mut self,
        advertised: &Advertised,
        mut context: BTreeMap<String, String>,
    ) -> Result<Volume, Error> {
        if !advertised.controller(ControllerCapability::CreateDeleteVolume) {
            return Err(Error::local("the driver does not advertise CREATE_DELETE_VOLUME: it has no volumes to make")
                .hint("--volume-id and --vol-context use a volume that exists; --controller-endpoint names a controller elsewhere"));
        }
        let name = self.flags.name.as_ref().unwrap_or(&self.name);
        let request = v1::CreateVolumeRequest {
            name: name.clone(),
            ..self.request()
        };
        let result = self
            .step(&request, |reply| {
                let volume = reply.volume.as_ref();
                volume.map_or_else(String::new, |volume| volume.volume_id.clone())
            })
            .await;
        let volume = result?.volume;
        let volume = volume.unwrap_or_default();
        if volume.volume_id.is_empty() {
            let problem = "the reply has no volume id, which the specification requires";
            return Err(Error::local(problem).doing("controller create-volume"));
        }
        if self.flags.keep {
            let mut made = lock(&self.made);
            let is_volume = |(number, item): (u64, &Item)| {
                (item.thing() == Some(Thing::Volume)).then_some(number)
            };
            for number in made.all().filter_map(is_volume).collect::<Vec<_>>() {
                made.gone(number);
            }
            say(&format!(
                "note: --keep: the volume {} stays",
                escaped(&volume.volume_id)
            ));
        }
        context.extend(volume.volume_context);
        Ok(Volume {
            id: volume.volume_id,
            context,
            publish_context: BTreeMap::new(),
        })
    }

    pub(super) async fn publish_by_controller(
        &mut self,
        advertised: &Advertised,
        volume: &mut Volume,
    ) -> Result<(), Error> {
        if !advertised.controller(ControllerCapability::PublishUnpublishVolume) {
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

    pub(super) async fn stage(
        &mut self,
        advertised: &Advertised,
        volume: &Volume,
        staging: &Path,
    ) -> Result<bool, Error> {
        if !advertised.node(NodeCapability::StageUnstageVolume) {
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
        &mut self,
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

    pub(super) async fn stats(
        &mut self,
        advertised: &Advertised,
        volume: &Volume,
        target: &Path,
    ) -> Result<(), Error> {
        if !advertised.node(NodeCapability::GetVolumeStats) {
            return self.skipped("node stats", "not advertised: GET_VOLUME_STATS");
        }
        let request = v1::NodeGetVolumeStatsRequest {
            volume_id: volume.id.clone(),
            volume_path: text(target),
            ..Default::default()
        };
        self.step(&request, |reply| {
            let bytes = reply
                .usage
                .iter()
                .find(|usage| usage.unit == i32::from(v1::volume_usage::Unit::Bytes));
            let size = crate::arguments::size::human;
            bytes
                .map(|bytes| format!("{} of {} used", size(bytes.used), size(bytes.total)))
                .unwrap_or_default()
        })
        .await?;
        Ok(())
    }
}
