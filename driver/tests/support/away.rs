//! Folders of this machine that a controller takes for shares of another one, so that it leaves work to agents.

use csi_nfs_store::export::Export;
use csi_nfs_store::files::roots::local::LocalRoots;
use csi_nfs_store::files::roots::{Opening, ShareRoots};
use std::path::PathBuf;

/// Local folders of which nobody says that they are local.
pub struct Away(LocalRoots);

impl Away {
    /// One share, and the folder that it is here.
    pub fn of(export: Export, folder: PathBuf) -> Self {
        Self(LocalRoots::new([(export, folder)]))
    }
}

impl ShareRoots for Away {
    fn open<'a>(&'a self, export: &'a Export, mount_options: &'a [String]) -> Opening<'a> {
        self.0.open(export, mount_options)
    }
}
