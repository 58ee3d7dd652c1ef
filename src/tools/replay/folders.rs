//! The folders in which an orchestrator makes a driver mount: made before a call, removed at the end.

use csi_proto::v1::{NodePublishVolumeRequest, NodeStageVolumeRequest};
use prost::Message;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Folders that did not exist before. Dropping this removes those that are empty again.
#[derive(Debug, Default)]
pub struct Folders {
    made: Vec<PathBuf>,
}

impl Folders {
    /// Makes what the specification has the caller of the RPC make: the staging path, and the parent of a target path.
    /// What cannot be made is left to the driver to complain about.
    pub fn prepare(&mut self, rpc: &str, request: &[u8]) {
        match rpc {
            "NodeStageVolume" => {
                if let Ok(request) = NodeStageVolumeRequest::decode(request) {
                    self.make(Path::new(&request.staging_target_path));
                }
            }
            "NodePublishVolume" => {
                if let Ok(request) = NodePublishVolumeRequest::decode(request)
                    && let Some(parent) = Path::new(&request.target_path).parent()
                {
                    self.make(parent);
                }
            }
            _ => {}
        }
    }

    fn make(&mut self, folder: &Path) {
        if !folder.is_absolute() || folder.symlink_metadata().is_ok() {
            return;
        }
        if let Some(parent) = folder.parent() {
            self.make(parent);
        }
        if DirBuilder::new().mode(0o750).create(folder).is_ok() {
            self.made.push(folder.to_owned());
        }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        for folder in self.made.iter().rev() {
            let _ = std::fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_removed_and_what_is_in_use_stays() {
        let place = tempfile::tempdir().expect("a folder");
        let below = |path: &str| place.path().join(path);
        let mut folders = Folders::default();
        let request = NodePublishVolumeRequest {
            target_path: below("a/b/target").display().to_string(),
            ..Default::default()
        };
        folders.prepare("NodePublishVolume", &request.encode_to_vec());
        let request = NodeStageVolumeRequest {
            staging_target_path: below("c/staging").display().to_string(),
            ..Default::default()
        };
        folders.prepare("NodeStageVolume", &request.encode_to_vec());
        assert!(
            below("a/b").is_dir() && !below("a/b/target").exists() && below("c/staging").is_dir()
        );
        std::fs::write(below("c/staging/file"), "").expect("written");
        drop(folders);
        assert!(!below("a").exists() && below("c/staging/file").exists());
    }
}
