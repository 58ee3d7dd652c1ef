//! What takes back each step of a lifecycle, how it is said, and how it is done.

use super::{Lifecycle, text};
use crate::error::{Error, Kind};
use csi_proto::{tables, v1};
use std::fmt;
use std::fs;
use std::io::{self, Write};
use std::path::PathBuf;
use tonic::Code;

/// One thing to take back.
#[derive(Clone, Debug)]
pub enum Undo {
    /// A folder of ours. Only ever removed when it is empty: a volume may still be mounted below it.
    Folder(PathBuf),
    /// A volume whose creation was asked for and never confirmed.
    Create(v1::CreateVolumeRequest),
    /// A volume.
    Volume(String),
    /// A volume published to a node by the controller.
    ControllerPublish { volume: String, node: String },
    /// A staged volume.
    Stage { volume: String, staging: String },
    /// A published volume.
    Publish { volume: String, target: String },
}

impl fmt::Display for Undo {
    /// What may be left, with the command that takes it back.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Folder(path) => write!(f, "the folder {}: rmdir {0}", path.display()),
            Self::Create(request) => write!(
                f,
                "perhaps a volume named {0}: csi controller create-volume {0} tells its id, csi controller delete-volume deletes it",
                request.name
            ),
            Self::Volume(id) => write!(f, "the volume {id}: csi controller delete-volume {id}"),
            Self::ControllerPublish { volume, node } => {
                write!(
                    f,
                    "the volume {volume} at node {node}: csi controller unpublish {volume} --node-id {node}"
                )
            }
            Self::Stage { volume, staging } => {
                write!(
                    f,
                    "the staged volume {volume}: csi node unstage {volume} --staging-target-path {staging}"
                )
            }
            Self::Publish { volume, target } => {
                write!(
                    f,
                    "the published volume {volume}: csi node unpublish {volume} --target-path {target}"
                )
            }
        }
    }
}

/// Whether a call that failed so may have taken effect, or may still.
pub fn may_have_happened(error: &Error) -> bool {
    match error.kind() {
        Kind::Rpc(code) => matches!(
            code,
            Code::DeadlineExceeded
                | Code::Unavailable
                | Code::Aborted
                | Code::Cancelled
                | Code::Unknown
                | Code::Internal
        ),
        Kind::Interrupted => true,
        Kind::Local | Kind::Usage => false,
    }
}

impl<W: Write> Lifecycle<'_, W> {
    pub(super) async fn undo_one(&mut self, undo: &Undo) -> Result<(), Error> {
        match undo {
            Undo::Folder(path) => match fs::remove_dir(path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::because(
                    format!("the folder {} cannot be removed", text(path)),
                    &error,
                )),
                _ => Ok(()),
            },
            Undo::Create(request) => {
                // The same name and arguments lead to the same volume.
                let reply: v1::CreateVolumeResponse = self
                    .controller(
                        &tables::CONTROLLER_CREATE_VOLUME,
                        request.clone(),
                        |_: &v1::CreateVolumeResponse| "once more, to learn the id".to_owned(),
                    )
                    .await?;
                let id = reply.volume.unwrap_or_default().volume_id;
                self.delete(id).await
            }
            Undo::Volume(id) => self.delete(id.clone()).await,
            Undo::ControllerPublish { volume, node } => {
                let mut request = v1::ControllerUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    node_id: node.clone(),
                    ..Default::default()
                };
                self.context.add_secrets(&mut request.secrets);
                let _: v1::ControllerUnpublishVolumeResponse = self
                    .controller(
                        &tables::CONTROLLER_CONTROLLER_UNPUBLISH_VOLUME,
                        request,
                        |_: &v1::ControllerUnpublishVolumeResponse| String::new(),
                    )
                    .await?;
                Ok(())
            }
            Undo::Stage { volume, staging } => {
                let request = v1::NodeUnstageVolumeRequest {
                    volume_id: volume.clone(),
                    staging_target_path: staging.clone(),
                };
                let _: v1::NodeUnstageVolumeResponse = self
                    .node(
                        &tables::NODE_NODE_UNSTAGE_VOLUME,
                        request,
                        |_: &v1::NodeUnstageVolumeResponse| String::new(),
                    )
                    .await?;
                Ok(())
            }
            Undo::Publish { volume, target } => {
                let request = v1::NodeUnpublishVolumeRequest {
                    volume_id: volume.clone(),
                    target_path: target.clone(),
                };
                let _: v1::NodeUnpublishVolumeResponse = self
                    .node(
                        &tables::NODE_NODE_UNPUBLISH_VOLUME,
                        request,
                        |_: &v1::NodeUnpublishVolumeResponse| String::new(),
                    )
                    .await?;
                Ok(())
            }
        }
    }

    async fn delete(&mut self, volume_id: String) -> Result<(), Error> {
        let mut request = v1::DeleteVolumeRequest {
            volume_id,
            ..Default::default()
        };
        self.context.add_secrets(&mut request.secrets);
        let _: v1::DeleteVolumeResponse = self
            .controller(
                &tables::CONTROLLER_DELETE_VOLUME,
                request,
                |_: &v1::DeleteVolumeResponse| String::new(),
            )
            .await?;
        Ok(())
    }
}
