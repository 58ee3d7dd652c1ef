//! Where the folders of volumes are on a share: one without a `subDir` bears a part of its volume's nonce behind the name.
#![allow(dead_code)] // Every test program uses a part of it.

use std::path::{Path, PathBuf};

/// The path below `folder`, where the name of a volume stands for its folder.
pub fn of_volume(folder: &Path, path: impl AsRef<Path>) -> PathBuf {
    let mut found = folder.to_owned();
    for component in path.as_ref() {
        let named = found.join(component);
        let mut entries = std::fs::read_dir(&found).into_iter().flatten().flatten();
        let of_name =
            entries.find(|entry| *plain(&entry.file_name().to_string_lossy()) == *component);
        found = match of_name {
            Some(entry) if named.symlink_metadata().is_err() => entry.path(),
            _ => named,
        };
    }
    found
}

/// The name of a folder without the part of a nonce, also in the name of an archive.
pub fn plain(name: &str) -> String {
    let Some((start, end)) = name.split_once('~') else {
        return name.to_owned();
    };
    format!("{start}{}", end.get(8..).unwrap_or_default())
}
