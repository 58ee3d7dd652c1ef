//! Writes the files of a new project: all of them into an empty folder, or none.

use super::template::NewFile;
use csi_proto::escaped;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use thiserror::Error;

/// Why a project was not written.
#[derive(Debug, Error)]
pub enum FolderError {
    /// Somebody's work is there.
    #[error("{} is not empty: it has {}; name an empty or a new folder with --path", escaped(&.folder.display().to_string()), escaped(.entry))]
    NotEmpty {
        /// The folder.
        folder: PathBuf,
        /// One of the things in it.
        entry: String,
    },
    /// There is something else than a folder.
    #[error("{} is no folder: name an empty or a new one with --path", escaped(&.0.display().to_string()))]
    NotAFolder(PathBuf),
    /// The system does not let it be written.
    #[error("{}: {source}", escaped(&.path.display().to_string()))]
    Failed {
        /// What was to be read or written.
        path: PathBuf,
        /// The system's word.
        source: io::Error,
    },
}

/// Writes the files into a folder, which is made where it does not exist. After a failure nothing of them stays.
///
/// # Errors
/// When the folder has something in it already, or cannot be written.
pub fn write(folder: &Path, files: &[NewFile]) -> Result<(), FolderError> {
    check(folder)?;
    let mut written = Written::default();
    for file in files {
        let path = folder.join(file.path);
        written
            .file(&path, file)
            .map_err(|source| FolderError::Failed { path, source })?;
    }
    written.keep();
    Ok(())
}

/// Refuses a folder that has something in it.
fn check(folder: &Path) -> Result<(), FolderError> {
    let failed = |source| FolderError::Failed {
        path: folder.to_owned(),
        source,
    };
    let mut entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Err(FolderError::NotAFolder(folder.to_owned()));
        }
        Err(error) => return Err(failed(error)),
    };
    match entries.next() {
        None => Ok(()),
        Some(Err(error)) => Err(failed(error)),
        Some(Ok(entry)) => Err(FolderError::NotEmpty {
            folder: folder.to_owned(),
            entry: entry.file_name().to_string_lossy().into_owned(),
        }),
    }
}

/// What has been made so far, and is removed again unless it is to be kept.
#[derive(Default)]
struct Written {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Written {
    fn file(&mut self, path: &Path, file: &NewFile) -> io::Result<()> {
        if let Some(folder) = path.parent() {
            self.folder(folder)?;
        }
        let is_script = file.text.starts_with("#!/");
        let mode = if is_script { 0o777 } else { 0o666 };
        let mut new = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(mode)
            .open(path)?;
        self.files.push(path.to_owned());
        new.write_all(file.text.as_bytes())
    }

    /// Makes a folder and those above it that do not exist.
    fn folder(&mut self, folder: &Path) -> io::Result<()> {
        if folder.as_os_str().is_empty() || folder.is_dir() {
            return Ok(());
        }
        if let Some(above) = folder.parent() {
            self.folder(above)?;
        }
        fs::create_dir(folder)?;
        self.folders.push(folder.to_owned());
        Ok(())
    }

    fn keep(mut self) {
        self.files.clear();
        self.folders.clear();
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        for file in &self.files {
            let _ = fs::remove_file(file);
        }
        for folder in self.folders.iter().rev() {
            let _ = fs::remove_dir(folder);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &'static str) -> NewFile {
        NewFile {
            path,
            text: "text\n".to_owned(),
        }
    }

    #[test]
    fn after_a_failure_nothing_stays() {
        let home = tempfile::tempdir().expect("a folder");
        let folder = home.path().join("a/b");
        // The second is no folder, so the third cannot be in it.
        let files = [file("src/one"), file("two"), file("two/three")];
        assert!(write(&folder, &files).is_err());
        assert_eq!(fs::read_dir(home.path()).expect("a folder").count(), 0);
        write(&folder, &files[..2]).expect("written");
        assert!(folder.join("src/one").exists() && folder.join("two").exists());
    }
}
