//! Shares whose export is a local folder, because the controller runs on the server or is embedded. Must not mount.

use crate::export::Export;
use crate::files::roots::{Root, RootError, ShareRoots};
use rustix::fs::{self, Mode, OFlags};
use std::collections::HashMap;
use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use tokio::task::spawn_blocking;

type Opening<'a> = Pin<Box<dyn Future<Output = Result<Root, RootError>> + Send + 'a>>;

/// Exports that are folders of this machine.
#[derive(Clone, Debug, Default)]
pub struct LocalRoots {
    folders: HashMap<Export, PathBuf>,
}

impl LocalRoots {
    /// The exports and the folders that they are here.
    pub fn new(folders: impl IntoIterator<Item = (Export, PathBuf)>) -> Self {
        Self {
            folders: folders.into_iter().collect(),
        }
    }
}

impl ShareRoots for LocalRoots {
    fn is_local(&self, export: &Export) -> bool {
        self.folders.contains_key(export)
    }

    fn open<'a>(&'a self, export: &'a Export, _mount_options: &'a [String]) -> Opening<'a> {
        Box::pin(async move {
            let Some(folder) = self.folders.get(export).cloned() else {
                return Err(RootError::NotExported {
                    export: export.clone(),
                });
            };
            let opened = match spawn_blocking(move || open_folder(&folder)).await {
                Ok(opened) => opened,
                Err(error) => Err(io::Error::other(error)),
            };
            opened.map_err(|source| RootError::Io {
                export: export.clone(),
                source,
            })
        })
    }
}

/// Opens the folder that an administrator has named, which may well be reached by a symlink. Blocking.
///
/// # Errors
/// Whatever open(2) says.
pub fn open_folder(path: &Path) -> io::Result<Root> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    Ok(Arc::new(fs::open(path, flags, Mode::empty())?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_is_no_local_folder_is_not_exported() {
        let folder = tempfile::tempdir().unwrap();
        let here = Export::parse("here", "/a").unwrap();
        let away = Export::parse("away", "/a").unwrap();
        let gone = Export::parse("here", "/gone").unwrap();
        let roots = LocalRoots::new([
            (here.clone(), folder.path().to_owned()),
            (gone.clone(), folder.path().join("gone")),
        ]);
        assert!(roots.open(&here, &[]).await.is_ok());
        assert!(matches!(
            roots.open(&away, &[]).await,
            Err(RootError::NotExported { .. })
        ));
        let error = roots.open(&gone, &[]).await.unwrap_err();
        assert!(error.to_string().contains("here:/gone"), "{error}");
    }
}
