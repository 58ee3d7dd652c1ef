//! Leftovers of earlier runs of this program: their folders on this machine, and their volumes in the driver.
//!
//! Owns how they are recognized, and the commands that remove them; each tool gives its names a prefix of its own. What runs against
//! other drivers have left is named, and is no fault of this one. Touches no mount.

use super::driver::VolumeSeen;
use super::finding::Finding;
use crate::call::endpoint::Endpoint;
use crate::invocation::run_folder;
use crate::output::shell_word::word;
use serde_json::Value as Json;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};

const CHECK: &str = "leftovers";

/// How the names begin that tools give to what they make.
const PREFIXES: [&str; 3] = ["csi-lifecycle-", "csi-sanity-", "csi-bench-"];

/// The programs that runs are processes of.
const PROGRAMS: [&str; 2] = ["csi", "kubectl-csi"];

/// How many are named.
const NAMED: usize = 3;

/// How much of a folder is looked at.
const ENTRIES: usize = 1000;

/// A folder that a run has made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunFolder {
    /// The folder.
    pub path: PathBuf,
    /// Whether the run goes on.
    pub is_alive: bool,
    /// The driver, where the run has noted it.
    pub driver: Option<String>,
    /// The command that removes it.
    pub removal: String,
}

impl RunFolder {
    /// Whether it is of a run against this driver.
    pub fn is_of(&self, driver: &Endpoint) -> bool {
        let noted = self.driver.as_deref();
        noted.is_some_and(|noted| run_folder::names(noted, driver))
    }
}

/// The folders of runs below `parent`, where `mounts` are all mount points.
pub fn folders(parent: &Path, mounts: &[PathBuf]) -> Vec<RunFolder> {
    let parent = std::path::absolute(parent).unwrap_or(parent.to_owned());
    let entries = fs::read_dir(&parent).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.retain(|path| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        name.is_some_and(|name| PREFIXES.iter().any(|prefix| name.starts_with(prefix)))
    });
    paths.sort();
    paths
        .into_iter()
        .filter_map(|path| look(path, mounts))
        .collect()
}

/// A folder; `None` where it is another user's to judge.
fn look(path: PathBuf, mounts: &[PathBuf]) -> Option<RunFolder> {
    let is_mount = mounts.contains(&path);
    let journal = path.join("journal");
    // A run of sanity holds a lock; the others name their process.
    match (!is_mount).then(|| File::open(&journal)) {
        Some(Ok(file)) => {
            let is_alive = file.try_lock().is_err();
            let mut head = String::new();
            BufReader::new(file).read_line(&mut head).ok()?;
            let head: Json = serde_json::from_str(&head).unwrap_or_default();
            let ends = [0, 1].map(|end| head["endpoints"][end].as_str());
            Some(RunFolder {
                removal: match ends {
                    [Some(node), Some(controller)] => next_run(&path, node, controller),
                    _ => Inside::of(&path, mounts).removal(),
                },
                driver: ends[0].map(str::to_owned),
                is_alive,
                path,
            })
        }
        Some(Err(error)) if error.kind() == std::io::ErrorKind::PermissionDenied => None,
        _ => Some(RunFolder {
            is_alive: has_process(&path),
            driver: (!is_mount).then(|| run_folder::driver_of(&path)).flatten(),
            removal: Inside::of(&path, mounts).removal(),
            path,
        }),
    }
}

/// Whether the folder's name holds the number of a process of this program.
fn has_process(folder: &Path) -> bool {
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let numbers = name.split('-').filter_map(|part| part.parse::<u32>().ok());
    let mut programs =
        numbers.filter_map(|process| fs::read_to_string(format!("/proc/{process}/comm")).ok());
    programs.any(|program| PROGRAMS.contains(&program.trim_end()))
}

/// The run of sanity that does little else than take down what an earlier one has left, in the driver too.
fn next_run(folder: &Path, node: &str, controller: &str) -> String {
    let mut command = format!("csi -e {} sanity --filter identity/", word(node));
    if controller != node {
        command.push_str(&format!(" --controller-endpoint {}", word(controller)));
    }
    let parent = folder.parent().unwrap_or(folder).to_string_lossy();
    format!("{command} --mount-parent {}", word(&parent))
}

/// What is in a folder, and the folder itself.
#[derive(Debug, Default, PartialEq, Eq)]
struct Inside {
    mounts: Vec<PathBuf>,
    files: BTreeSet<PathBuf>,
    folders: BTreeSet<PathBuf>,
}

impl Inside {
    fn of(folder: &Path, mounts: &[PathBuf]) -> Self {
        let below = mounts.iter().filter(|point| point.starts_with(folder));
        let mut inside = Self {
            mounts: below.cloned().collect(),
            ..Self::default()
        };
        let mut open = vec![folder.to_owned()];
        while let Some(next) = open.pop() {
            inside.folders.insert(next.clone());
            if mounts.contains(&next) {
                continue;
            }
            for entry in fs::read_dir(&next).into_iter().flatten().flatten() {
                // What the folder itself says of its entry: a mount on it is not asked.
                match entry.file_type() {
                    _ if inside.files.len() + inside.folders.len() > ENTRIES => break,
                    Ok(kind) if kind.is_dir() => open.push(entry.path()),
                    _ => drop(inside.files.insert(entry.path())),
                }
            }
        }
        inside
    }

    /// The command that removes all of it: the mount that came last first, then what is in a folder before the folder.
    fn removal(&self) -> String {
        let words = |program: &str, paths: Vec<&PathBuf>| {
            let words = paths.into_iter().map(|path| word(&path.to_string_lossy()));
            [program.to_owned()]
                .into_iter()
                .chain(words)
                .collect::<Vec<_>>()
        };
        let commands = [
            words("umount", self.mounts.iter().rev().collect()),
            words("rm", self.files.iter().collect()),
            words("rmdir", self.folders.iter().rev().collect()),
        ];
        let commands = commands.iter().filter(|words| words.len() > 1);
        commands
            .map(|words| words.join(" "))
            .collect::<Vec<_>>()
            .join(" && ")
    }
}

/// What was left, of a driver whose volumes are known or not: first its own leftovers, then those of others.
pub fn findings(
    folders: &[RunFolder],
    volumes: Option<&[VolumeSeen]>,
    driver: &Endpoint,
) -> Vec<Finding> {
    let dead = folders.iter().filter(|folder| !folder.is_alive);
    let (its_own, others): (Vec<_>, Vec<_>) = dead.partition(|folder| folder.is_of(driver));
    let alive = folders.iter().any(|folder| folder.is_alive);
    let is_ours = |volume: &&VolumeSeen| {
        let mut words = volume.words.iter();
        words.any(|word| PREFIXES.iter().any(|prefix| word.contains(prefix)))
    };
    // Those of a run that goes on are no leftovers, and cannot be told from others.
    let all = volumes.filter(|_| !alive).unwrap_or_default().iter();
    let volumes: Vec<&str> = all
        .filter(is_ours)
        .map(|volume| volume.id.as_str())
        .collect();
    let mut told = Vec::new();
    let mut commands = removals(&its_own);
    if !its_own.is_empty() {
        let paths = its_own.iter().map(|folder| folder.path.to_string_lossy());
        told.push(named("folder", paths.collect()));
    }
    if !volumes.is_empty() {
        let csi = format!("csi -e {}", word(&run_folder::name(driver)));
        commands.extend(
            volumes
                .iter()
                .take(NAMED)
                .map(|id| format!("`{csi} controller delete-volume {}`", word(id))),
        );
        told.push(named("volume", volumes));
    }
    let mut findings = vec![match (told.as_slice(), alive) {
        ([], true) => Finding::fine(CHECK, "none; a run goes on"),
        ([], false) => Finding::fine(CHECK, "none"),
        (told, _) => Finding::wrong(
            CHECK,
            told.join("; "),
            format!(
                "unless such a run goes on elsewhere: {}",
                commands.join("; ")
            ),
        ),
    }];
    if !others.is_empty() {
        let paths = others.iter().map(|folder| {
            let driver = folder.driver.as_deref().unwrap_or("which is not known");
            format!("{} (driver: {driver})", folder.path.display())
        });
        let text = format!("not of this driver: {}", named("folder", paths.collect()));
        findings.push(Finding::unknown(CHECK, text).advised(removals(&others).join("; ")));
    }
    findings
}

/// The commands that remove the folders that are named.
fn removals(folders: &[&RunFolder]) -> Vec<String> {
    let named = folders.iter().take(NAMED);
    named
        .map(|folder| format!("`{}`", folder.removal))
        .collect()
}

fn named(what: &str, names: Vec<impl AsRef<str>>) -> String {
    let shown: Vec<&str> = names.iter().take(NAMED).map(AsRef::as_ref).collect();
    let shown = shown.join(", ");
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
    fn a_driver_answers_for_its_own_leftovers_alone() {
        let of = |driver: &str, is_alive| RunFolder {
            path: "/tmp/csi-lifecycle-1-2".into(),
            is_alive,
            driver: Some(driver.to_owned()).filter(|driver| !driver.is_empty()),
            removal: "rmdir x".into(),
        };
        let own = "unix:///s";
        let ours = [seen("v1", "csi-bench-1-2"), seen("v2", "pvc-1")];
        for (folders, volumes, states, part) in [
            (vec![], None, &[State::Fine][..], "none"),
            (
                vec![of(own, true)],
                Some(&ours[..]),
                &[State::Fine],
                "a run goes on",
            ),
            (
                vec![of(own, false)],
                None,
                &[State::Wrong],
                "1 folder of earlier runs: /tmp/csi-lifecycle-1-2",
            ),
            (
                vec![],
                Some(&ours[..]),
                &[State::Wrong],
                "1 volume of earlier runs: v1",
            ),
            (vec![], Some(&ours[1..]), &[State::Fine], "none"),
            (vec![of(own, false); 5], None, &[State::Wrong], "and 2 more"),
            (
                vec![of("mock:/m", false), of("", false)],
                None,
                &[State::Fine, State::Unknown],
                "2 folders of earlier runs: /tmp/csi-lifecycle-1-2 (driver: mock:/m), /tmp/csi-lifecycle-1-2 (driver: which is not known)",
            ),
        ] {
            let driver = Endpoint::parse("/s").unwrap();
            let found = findings(&folders, volumes, &driver);
            let found_states: Vec<State> = found.iter().map(|one| one.state).collect();
            assert_eq!(found_states, states, "{found:?}");
            let last = found.last().unwrap();
            assert!(last.text.contains(part), "{last:?}");
            assert_eq!(last.advice.is_some(), last.state != State::Fine, "{last:?}");
        }
    }

    #[test]
    fn a_run_s_folder_is_known_by_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        for name in ["csi-lifecycle-4294967295-abc", "csi-other", "x"] {
            fs::create_dir(path(name)).unwrap();
        }
        let sanity = path("csi-sanity-1");
        fs::create_dir(&sanity).unwrap();
        fs::write(sanity.join("journal"), "{\"endpoints\":[\"a b\",\"c\"]}\n{").unwrap();
        let journal = File::open(sanity.join("journal")).unwrap();
        journal.try_lock().unwrap();
        let found = folders(parent.path(), &[]);
        let alive: Vec<bool> = found.iter().map(|folder| folder.is_alive).collect();
        assert_eq!(alive, [false, true], "{found:?}");
        drop(journal);
        let found = folders(parent.path(), &[]).pop().unwrap();
        assert!(!found.is_alive);
        assert_eq!(found.driver.as_deref(), Some("a b"));
        let command = format!(
            "csi -e 'a b' sanity --filter identity/ --controller-endpoint c --mount-parent {}",
            parent.path().display()
        );
        assert_eq!(found.removal, command);
    }

    #[test]
    fn a_folder_goes_with_what_is_in_it_and_no_mount_is_entered() {
        let parent = tempfile::tempdir().unwrap();
        let run = parent.path().join("csi-lifecycle-0-a");
        for folder in ["staging", "copy/target"] {
            fs::create_dir_all(run.join(folder)).unwrap();
        }
        std::os::unix::fs::symlink("/", run.join("target")).unwrap();
        let mounted = run.join("copy/target");
        fs::write(mounted.join("data"), "").unwrap();
        let mounts = [
            "/".into(),
            mounted.clone(),
            run.join("staging"),
            mounted.clone(),
        ];
        let r = run.display();
        assert_eq!(
            Inside::of(&run, &mounts).removal(),
            format!(
                "umount {r}/copy/target {r}/staging {r}/copy/target && rm {r}/target && \
                 rmdir {r}/staging {r}/copy/target {r}/copy {r}"
            )
        );
    }
}
