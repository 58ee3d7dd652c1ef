//! Shares whose export is a local folder, because the controller runs on the server or is embedded. Must not mount.

use crate::export::Export;
use crate::files::beneath;
use crate::files::roots::{Opening, Root, RootError, ShareRoots};
use rustix::fs::{self, Mode, OFlags};
use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::task::spawn_blocking;

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
            match self.folders.get(export) {
                Some(folder) => open(export, folder.clone(), PathBuf::new(), ()).await,
                None => Err(RootError::NotExported(export.clone())),
            }
        })
    }
}

/// Opens `below` in `folder`, which is `export` or holds it, in a thread that may hang, and drops `guard` when that has ended.
///
/// # Errors
/// [`RootError::NoFolder`] when it is not there, and whatever open(2) says.
pub async fn open(
    export: &Export,
    folder: PathBuf,
    below: PathBuf,
    guard: impl Send + 'static,
) -> Result<Root, RootError> {
    // With nothing below, a slash would stand at the end.
    let missing = folder.join(&below).components().collect();
    let opening = spawn_blocking(move || {
        let opened = open_folder(&folder, &below);
        drop(guard);
        opened
    });
    let export = export.clone();
    match opening.await.map_err(io::Error::other).flatten() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Err(RootError::NoFolder {
            export,
            folder: missing,
        }),
        opened => opened.map_err(|source| RootError::Io {
            export,
            source: Arc::new(source),
        }),
    }
}

/// Opens `below` in a local share's folder. The administrator may have named that one by a symlink; what lies in it was
/// made by the share's users, and leads nowhere. Blocking.
///
/// # Errors
/// Whatever open(2) says.
pub fn open_folder(folder: &Path, below: &Path) -> io::Result<Root> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = fs::open(folder, flags, Mode::empty())?;
    Ok(Arc::new(match below.as_os_str().is_empty() {
        true => root,
        false => beneath::folder(&root, below)?,
    }))
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
            Err(RootError::NotExported(_))
        ));
        let error = roots.open(&gone, &[]).await.unwrap_err();
        assert!(error.to_string().contains("here:/gone"), "{error}");
    }
}
