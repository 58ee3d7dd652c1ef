//! The folders that an orchestrator makes before it calls a driver: made before a replayed call, removed at the end.

use csi_proto::{Method, contents};
use csi_rpc::facts::Thing;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// Folders that did not exist before. Dropping this removes those that are empty again.
#[derive(Debug, Default)]
pub(crate) struct Folders {
    made: Vec<PathBuf>,
}

impl Folders {
    /// Makes what the specification has the caller of the RPC make: the staging path, and the parent of a target path.
    /// What cannot be made is left to the driver to complain about.
    pub fn prepare(&mut self, method: &Method, request: &[u8]) {
        let Some(making) = csi_rpc::making(method) else {
            return;
        };
        let field = making.path_field();
        let path = field.and_then(|field| contents(method.request, request, field.name).pop());
        let Some(path) = path.and_then(|path| std::str::from_utf8(path).ok()) else {
            return;
        };
        let path = Path::new(path);
        match making.thing {
            Thing::StagedVolume => self.make(path),
            _ => path
                .parent()
                .into_iter()
                .for_each(|parent| self.make(parent)),
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
    use csi_proto::tables::{NODE_NODE_PUBLISH_VOLUME, NODE_NODE_STAGE_VOLUME};
    use csi_proto::v1::{NodePublishVolumeRequest, NodeStageVolumeRequest};
    use prost::Message;

    #[test]
    fn what_was_made_is_removed_and_what_is_in_use_stays() {
        let place = tempfile::tempdir().expect("a folder");
        let below = |path: &str| place.path().join(path);
        let mut folders = Folders::default();
        let request = NodePublishVolumeRequest {
            target_path: below("a/b/target").display().to_string(),
            ..Default::default()
        };
        folders.prepare(&NODE_NODE_PUBLISH_VOLUME, &request.encode_to_vec());
        let request = NodeStageVolumeRequest {
            staging_target_path: below("c/staging").display().to_string(),
            ..Default::default()
        };
        folders.prepare(&NODE_NODE_STAGE_VOLUME, &request.encode_to_vec());
        assert!(
            below("a/b").is_dir() && !below("a/b/target").exists() && below("c/staging").is_dir()
        );
        std::fs::write(below("c/staging/file"), "").expect("written");
        drop(folders);
        assert!(!below("a").exists() && below("c/staging/file").exists());
    }
}
