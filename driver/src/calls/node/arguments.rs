//! The arguments of a publish that decide whether a second one is the same. Owns how two are compared; must not know requests.

use crate::calls::export::Export;
use crate::calls::node::error::NodeError;
use crate::share::paths::sub_path::SubPath;
use csi_proto::v1::volume_capability::access_mode::Mode;
use serde::{Deserialize, Serialize};

/// The arguments of a publish other than volume and target (P in the tables of the specification). Secrets are none,
/// nor are keys of the contexts that mean nothing to this driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arguments {
    /// Host name or address of the server.
    pub server: String,
    /// Path of the share.
    pub share: String,
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
    /// The export that is mounted: the share, or the volume's folder in it.
    pub fn export(&self) -> Result<Export, NodeError> {
        export_of(&self.server, &self.share, self.sub_dir.as_ref())
    }

    /// The share.
    pub fn share(&self) -> Result<Export, NodeError> {
        Ok(Export::parse(&self.server, &self.share)?)
    }

    /// The access mode; a name that a newer driver has recorded counts as the strictest.
    pub fn access_mode(&self) -> Mode {
        Mode::from_str_name(&self.mode).unwrap_or(Mode::SingleNodeSingleWriter)
    }

    /// The first argument that differs, for a message.
    pub fn difference(&self, other: &Self) -> Option<String> {
        let path = |arguments: &Self| {
            arguments
                .export()
                .map_or_else(|_| arguments.share.clone(), |export| export.to_string())
        };
        let differ = |what: &str, here: &str, there: &str| {
            (here != there).then(|| format!("{what} is {here} and {there} was asked for"))
        };
        differ("the source", &path(self), &path(other))
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

/// A folder of a share as an export of its own.
pub(super) fn export_of(
    server: &str,
    share: &str,
    sub_dir: Option<&SubPath>,
) -> Result<Export, NodeError> {
    Ok(match sub_dir {
        Some(sub_dir) => {
            let share = share.trim_end_matches('/');
            Export::parse(server, &format!("{share}/{sub_dir}"))?
        }
        None => Export::parse(server, share)?,
    })
}
