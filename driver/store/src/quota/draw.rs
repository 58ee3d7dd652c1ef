//! Draws the ids of new projects: which are free. Must not use them.

use crate::quota::error::{Context, QuotaError};
use crate::quota::project_id::ProjectId;
use csi_proto::random;
use csi_sys::project_quota::{Amounts, Quota};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

/// Where administrators write which project is whose, projects(5) and projid(5).
const NAMED: [&str; 2] = ["/etc/projects", "/etc/projid"];

/// Draws an id; nothing where that is not free. With a million in use, one in two thousand is.
///
/// # Errors
/// What reading the usage of an id, and the files of administrators, says.
pub(super) fn draw(
    quota: impl Fn(ProjectId) -> Result<Quota, QuotaError>,
) -> Result<Option<ProjectId>, QuotaError> {
    let named = named(NAMED.map(Path::new)).context("reading whose projects are")?;
    let random = random::from_kernel().context("drawing a project id")?;
    Ok(
        match ProjectId::new(u32::from_ne_bytes(random) & i32::MAX as u32) {
            Some(id) if is_free(quota(id)?, named.contains(&id.number())) => Some(id),
            _ => None,
        },
    )
}

/// Whether an id is nobody's. Projects that nobody has named may still have files.
fn is_free(quota: Quota, is_named: bool) -> bool {
    let nothing = Amounts::default();
    !is_named && quota.limits == nothing && quota.used == nothing
}

/// The ids in files of lines `ID:PATH` or `NAME:ID`.
fn named<const N: usize>(files: [&Path; N]) -> io::Result<BTreeSet<u32>> {
    let mut named = BTreeSet::new();
    for file in files {
        match fs::read(file) {
            Ok(text) => named.extend(ids(&String::from_utf8_lossy(&text))),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(named)
}

/// Every number that stands alone on a side of a colon: one too many is only not drawn.
fn ids(text: &str) -> impl Iterator<Item = u32> {
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .flat_map(|line| line.splitn(2, ':'))
        .filter_map(|part| part.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_free_when_nobody_has_any_of_it() {
        let some = |bytes, inodes| Amounts { bytes, inodes };
        let none = some(0, 0);
        for (limits, used, is_named, free) in [
            (none, none, false, true),
            (none, none, true, false),
            (some(1, 0), none, false, false),
            (some(0, 1), none, false, false),
            (none, some(1, 0), false, false),
            // An empty file.
            (none, some(0, 1), false, false),
        ] {
            let quota = Quota {
                id: 1,
                limits,
                used,
            };
            assert_eq!(is_free(quota, is_named), free, "{quota:?} {is_named}");
        }
    }

    #[test]
    fn the_names_of_administrators_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let [projects, projid, absent] =
            ["projects", "projid", "absent"].map(|name| folder.path().join(name));
        fs::write(&projects, "# 1:/a\n10:/srv/a\n 11 :/srv/b:c\nodd\n\n").unwrap();
        fs::write(&projid, "web:12\nfive:\n:\n99999999999:x\n").unwrap();
        let found = named([&projects, &projid, &absent]).unwrap();
        assert_eq!(found, BTreeSet::from([10, 11, 12]));
    }

    #[test]
    fn ids_in_use_are_not_drawn() {
        let some = |bytes, inodes| Amounts { bytes, inodes };
        let none = some(0, 0);
        for (limits, used, is_drawn) in [
            (none, none, true),
            (none, some(0, 1), false),
            (some(1, 0), none, false),
        ] {
            let quota = |id: ProjectId| {
                let id = id.number();
                Ok(Quota { id, limits, used })
            };
            assert_eq!(draw(quota).unwrap().is_some(), is_drawn);
        }
    }
}
