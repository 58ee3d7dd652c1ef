//! The files that a run writes for programs, `--junit` and `--write-known-failures`: each appears whole or not at all, for an empty
//! list of known failures is one, too.

use csi_error::{Error, OrError as _};
use csi_output::draft::Draft;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// A file that a flag names.
pub struct ReportFile {
    flag: &'static str,
    path: PathBuf,
    /// `None` where only what is there can be written: a pipe or a device, or a file in a folder of others.
    draft: Option<Draft>,
}

impl ReportFile {
    /// Takes the place of the file, where the flag names one: before all cases have run.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(super) fn asked(flag: &'static str, path: Option<&PathBuf>) -> Result<Option<Self>, Error> {
        let Some(path) = path else {
            return Ok(None);
        };
        let opened = || File::options().append(true).open(path).map(drop);
        let draft = match path.metadata().is_ok_and(|there| !there.is_file()) {
            true => opened().map(|()| None),
            false => Draft::create(path, 0o666)
                .map(Some)
                .or_else(|error| opened().map(|()| None).map_err(|_| error)),
        };
        let draft =
            draft.map_err(|error| Error::usage(format!("{}: {error}", unwritable(flag, path))))?;
        let path = path.clone();
        Ok(Some(Self { flag, path, draft }))
    }

    /// Takes away what an earlier run has written: it would be taken for this run's, where this one is cut short.
    ///
    /// # Errors
    /// When it can be neither removed nor emptied.
    pub(super) fn forget(&self) -> Result<(), Error> {
        let place = self.draft.as_ref().map_or(&*self.path, Draft::place);
        if !place.is_file() {
            return Ok(());
        }
        let removed = match self.draft {
            Some(_) => fs::remove_file(place),
            None => Err(io::ErrorKind::PermissionDenied.into()),
        };
        let gone = removed.or_else(|_| fs::write(place, ""));
        gone.map_err(|error| {
            Error::usage(format!("{}: {error}", unwritable(self.flag, &self.path)))
        })
    }

    /// Writes the file.
    ///
    /// # Errors
    /// When it cannot be written; what was there stays then.
    pub(super) fn write(self, content: &str) -> Result<(), Error> {
        let Self { flag, path, draft } = self;
        let written = match draft {
            Some(draft) => draft.write(content.as_bytes()),
            None => Err(io::ErrorKind::ResourceBusy.into()),
        };
        let written = written.or_else(|error| match error.kind() {
            // Something is mounted there, as a file of a container.
            io::ErrorKind::ResourceBusy => fs::write(&path, content),
            _ => Err(error),
        });
        written.or_because(unwritable(flag, &path))
    }
}

/// Demands that no file is named twice.
///
/// # Errors
/// When one is.
pub fn differ(paths: [&Option<PathBuf>; 3]) -> Result<(), Error> {
    let mut places = BTreeSet::new();
    for place in paths
        .into_iter()
        .flatten()
        .filter_map(|path| place_of(path))
    {
        let shown = place.display().to_string();
        if !places.insert(place) {
            let problem = "--junit, --write-known-failures and --html write a file each";
            return Err(Error::usage(format!(
                "{problem}, and {shown} is named twice"
            )));
        }
    }
    Ok(())
}

/// Where a file is or will be, without links; `None` for what is no file, such as a device.
fn place_of(path: &Path) -> Option<PathBuf> {
    if let Ok(place) = path.canonicalize() {
        return place.is_file().then_some(place);
    }
    let folder = path.parent()?;
    let folder = match folder.as_os_str().is_empty() {
        true => Path::new("."),
        false => folder,
    };
    Some(folder.canonicalize().ok()?.join(path.file_name()?))
}

fn unwritable(flag: &str, path: &Path) -> String {
    format!("{flag}: {} cannot be written", path.display())
}
