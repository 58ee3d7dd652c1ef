//! Leftovers of earlier runs of this program: their folders on this machine, and their volumes in the driver.
//!
//! Owns how they are recognized; each tool gives its names a prefix of its own.

use super::driver::VolumeSeen;
use super::finding::Finding;
use std::fs;
use std::path::{Path, PathBuf};

const CHECK: &str = "leftovers";

/// How the names begin that tools give to what they make.
const PREFIXES: [&str; 3] = ["csi-lifecycle-", "csi-sanity-", "csi-bench-"];

/// How many are named.
const NAMED: usize = 3;

/// A folder that a run has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    /// The folder.
    pub path: PathBuf,
    /// Whether the run goes on.
    pub is_alive: bool,
}

/// The folders of runs below `parent`.
pub fn folders(parent: &Path) -> Vec<RunFolder> {
    let entries = fs::read_dir(parent).into_iter().flatten().flatten();
    let paths = entries.map(|entry| entry.path());
    let named = paths.filter(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
    });
    let mut found: Vec<RunFolder> = named
        .map(|path| RunFolder {
            is_alive: is_alive(&path),
            path,
        })
        .collect();
    found.sort_by(|one, other| one.path.cmp(&other.path));
    found
}

/// Whether the process of a run lives whose folder this is: a run of sanity holds a lock, the others name their process.
fn is_alive(folder: &Path) -> bool {
    if let Ok(journal) = fs::File::open(folder.join("journal")) {
        return journal.try_lock().is_err();
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let numbers = name.split('-').filter_map(|part| part.parse::<u32>().ok());
    let mut programs =
        numbers.filter_map(|process| fs::read_to_string(format!("/proc/{process}/comm")).ok());
    programs.any(|program| program.trim_end() == "csi")
}

/// What was left, of a driver whose volumes are known or not.
pub fn finding(folders: &[RunFolder], volumes: Option<&[VolumeSeen]>) -> Finding {
    let dead: Vec<String> = folders
        .iter()
        .filter(|folder| !folder.is_alive)
        .map(|folder| folder.path.display().to_string())
        .collect();
    let is_ours = |volume: &&VolumeSeen| {
        let mut words = volume.words.iter();
        words.any(|word| PREFIXES.iter().any(|prefix| word.contains(prefix)))
    };
    let all = volumes.unwrap_or_default().iter();
    let volumes: Vec<String> = all
        .filter(is_ours)
        .map(|volume| volume.id.clone())
        .collect();
    let alive = folders.iter().any(|folder| folder.is_alive);
    let mut told = Vec::new();
    if !dead.is_empty() {
        told.push(named("folder", &dead));
    }
    // Those of a run that goes on are no leftovers, and cannot be told from others.
    if !volumes.is_empty() && !alive {
        told.push(named("volume", &volumes));
    }
    match (told.as_slice(), alive) {
        ([], true) => Finding::fine(CHECK, "none; a run goes on"),
        ([], false) => Finding::fine(CHECK, "none"),
        (told, _) => Finding::wrong(
            CHECK,
            told.join("; "),
            "`csi node unpublish`, `csi controller delete-volume` and `rmdir` take them away; what `csi sanity` has left its next \
             run takes down",
        ),
    }
}

fn named(what: &str, names: &[String]) -> String {
    let shown = names
        .iter()
        .take(NAMED)
        .cloned()
        .collect::<Vec<_>>()
        .join(", ");
    let plural = if names.len() == 1 { "" } else { "s" };
    let more = names.len().saturating_sub(NAMED);
    let more = if more > 0 {
        format!(" and {more} more")
    } else {
        String::new()
    };
    format!(
        "{} {what}{plural} of earlier runs: {shown}{more}",
        names.len()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::finding::State;

    fn seen(id: &str, word: &str) -> VolumeSeen {
        VolumeSeen {
            id: id.into(),
            words: vec![id.into(), word.into()],
            ..VolumeSeen::default()
        }
    }

    #[test]
    fn folders_of_the_dead_and_volumes_of_no_run_are_left() {
        let folder = |is_alive| RunFolder {
            path: "/tmp/csi-lifecycle-1-2".into(),
            is_alive,
        };
        let ours = [seen("v1", "csi-bench-1-2"), seen("v2", "pvc-1")];
        for (folders, volumes, state, part) in [
            (vec![], None, State::Fine, "none"),
            (
                vec![folder(true)],
                Some(&ours[..]),
                State::Fine,
                "a run goes on",
            ),
            (
                vec![folder(false)],
                None,
                State::Wrong,
                "1 folder of earlier runs: /tmp/csi-lifecycle-1-2",
            ),
            (
                vec![],
                Some(&ours[..]),
                State::Wrong,
                "1 volume of earlier runs: v1",
            ),
            (vec![], Some(&ours[1..]), State::Fine, "none"),
            (vec![folder(false); 5], None, State::Wrong, "and 2 more"),
        ] {
            let finding = finding(&folders, volumes);
            assert_eq!(finding.state, state, "{finding:?}");
            assert!(finding.text.contains(part), "{finding:?}");
        }
    }

    #[test]
    fn a_run_s_folder_is_known_by_its_name() {
        let parent = tempfile::tempdir().unwrap();
        for name in ["csi-lifecycle-4294967295-abc", "csi-other", "x"] {
            fs::create_dir(parent.path().join(name)).unwrap();
        }
        let sanity = parent.path().join("csi-sanity-1");
        fs::create_dir(&sanity).unwrap();
        let journal = fs::File::create(sanity.join("journal")).unwrap();
        journal.try_lock().unwrap();
        let found = folders(parent.path());
        let alive: Vec<bool> = found.iter().map(|folder| folder.is_alive).collect();
        assert_eq!(alive, [false, true], "{found:?}");
        drop(journal);
        assert!(!folders(parent.path())[1].is_alive);
    }
}
