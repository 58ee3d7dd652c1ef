//! The arguments of a publish that decide whether a second one is the same. Owns how two are compared; must not know requests.

use csi_nfs_store::export::Export;
use csi_nfs_store::share::paths::sub_path::SubPath;
use csi_proto::v1::volume_capability::access_mode::Mode;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The arguments of a publish other than volume and target (P in the tables of the specification). Secrets are none,
/// nor are keys of the contexts that mean nothing to this driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arguments {
    /// The share.
    #[serde(flatten)]
    pub share: Export,
    /// The volume's folder below the share; the share itself when absent.
    pub sub_dir: Option<SubPath>,
    /// The name of the access mode.
    pub mode: String,
    /// Whether the request said read-only.
    pub readonly: bool,
    /// Mount options as given.
    pub mount_options: Vec<String>,
}

impl Arguments {
    /// What is to appear at the target: the share, or the volume's folder in it.
    pub fn export(&self) -> Export {
        self.share.folder(self.sub_dir.as_ref())
    }

    /// The volume's folder below the share; empty for the share itself.
    pub fn below(&self) -> PathBuf {
        let sub_dir = self.sub_dir.as_ref();
        sub_dir.map_or_else(PathBuf::new, SubPath::to_path)
    }

    /// The access mode; a name that a newer driver has recorded counts as the strictest.
    pub fn access_mode(&self) -> Mode {
        Mode::from_str_name(&self.mode).unwrap_or(Mode::SingleNodeSingleWriter)
    }

    /// The first argument that differs, for a message.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let differ = |what: &str, here: &str, there: &str| {
            (here != there).then(|| format!("{what} is {here} and {there} was asked for"))
        };
        let sources = [self, other].map(|arguments| arguments.export().to_string());
        differ("the source", &sources[0], &sources[1])
            .or_else(|| differ("the access mode", &self.mode, &other.mode))
            .or_else(|| {
                differ(
                    "readonly",
                    &self.readonly.to_string(),
                    &other.readonly.to_string(),
                )
            })
            .or_else(|| {
                // Values are told of no option.
                (self.mount_options != other.mount_options)
                    .then(|| "other mount options were asked for".to_owned())
            })
    }
}
