//! Leftovers of earlier runs of this program: their folders on this machine, and their volumes in the driver.
//!
//! Owns how they are recognized, and the commands that remove them; each tool gives its names a prefix of its own. What runs against
//! other drivers have left is named, and is no fault of this one. Touches no mount, and believes no folder of another user.

use super::driver::{VolumeSeen, VolumesSeen};
use super::finding::Finding;
use csi_call::Endpoint;
use csi_call::endpoint::absolute;
use csi_invocation::run_folder;
use csi_output::figure::{counted, some};
use csi_output::shell_word::word;
use serde_json::Value as Json;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::timeout;

const CHECK: &str = "leftovers";

/// How the names begin that tools give to what they make.
const PREFIXES: [&str; 3] = ["csi-lifecycle-", "csi-sanity-", "csi-bench-"];

/// The programs that runs are processes of.
const PROGRAMS: [&str; 2] = ["csi", "kubectl-csi"];

/// How many are named.
const NAMED: usize = 3;

/// How much of a journal is read, in bytes: its first line has two endpoints.
const LONGEST_HEAD: u64 = 64 << 10;

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

/// The folders of this user's runs below `parent`, where `mounts` are all mount points.
///
/// # Errors
/// When it cannot be read, or that takes longer than `limit`.
pub async fn folders(
    parent: PathBuf,
    mounts: Vec<PathBuf>,
    limit: Duration,
) -> io::Result<Vec<RunFolder>> {
    let why = format!("{} does not answer within {limit:?}", parent.display());
    let (answer, answered) = oneshot::channel();
    // Of its own, and never joined: the folder may be on a server that is gone.
    thread::spawn(move || {
        let paths = run_folder::mine_below(&absolute(&parent), &PREFIXES);
        let found = paths.map(|paths| paths.into_iter().map(|path| look(path, &mounts)).collect());
        let _ = answer.send(found.map_err(|error| {
            let why = format!("{} cannot be read: {error}", parent.display());
            io::Error::new(error.kind(), why)
        }));
    });
    match timeout(limit, answered).await {
        Ok(Ok(found)) => found,
        _ => Err(io::Error::new(io::ErrorKind::TimedOut, why)),
    }
}

fn look(path: PathBuf, mounts: &[PathBuf]) -> RunFolder {
    let is_mount = mounts.contains(&path);
    let journal = (!is_mount).then(|| run_folder::open_mine(&path.join("journal")));
    // A run of sanity holds a lock; the others name their process.
    let Some(Ok(file)) = journal else {
        return RunFolder {
            is_alive: has_process(&path),
            driver: (!is_mount).then(|| run_folder::driver_of(&path)).flatten(),
            removal: removal(&path, mounts),
            path,
        };
    };
    let is_alive = file.try_lock().is_err();
    let mut head = String::new();
    // What cannot be read names no driver.
    let _ = BufReader::new(file.take(LONGEST_HEAD)).read_line(&mut head);
    let head: Json = serde_json::from_str(&head).unwrap_or_default();
    let ends = [0, 1].map(|end| head["endpoints"][end].as_str());
    RunFolder {
        removal: match ends {
            [Some(node), Some(controller)] => next_run(&path, node, controller),
            _ => removal(&path, mounts),
        },
        driver: ends[0].map(str::to_owned),
        is_alive,
        path,
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

/// The run of sanity that does little else than take down what an earlier one has left, in the driver too. In the place of an endpoint
/// stands the command of a driver that the run has started.
fn next_run(folder: &Path, node: &str, controller: &str) -> String {
    let is_endpoint = Endpoint::parse(node).is_ok_and(|it| it.named_everywhere() == node);
    let (driver, started) = match is_endpoint {
        true => (format!(" -e {}", word(node)), String::new()),
        false => (String::new(), format!(" -- {node}")),
    };
    let controller = match controller == node {
        true => String::new(),
        false => format!(" --controller-endpoint {}", word(controller)),
    };
    let parent = folder.parent().unwrap_or(folder).to_string_lossy();
    let parent = word(&parent);
    format!("csi{driver} sanity --filter identity/{controller} --mount-parent {parent}{started}")
}

/// The command that removes a folder: first what is mounted below it, the mount that came last before the others. Should something be
/// mounted meanwhile, it is not entered.
fn removal(folder: &Path, mounts: &[PathBuf]) -> String {
    let below = mounts.iter().filter(|point| point.starts_with(folder));
    let points: Option<Vec<String>> = below.rev().map(|point| name(point)).collect();
    let (Some(points), Some(folder)) = (points, name(folder)) else {
        return format!(
            "rm -r {}…, by hand: no command can name it",
            folder.display()
        );
    };
    let remove = format!("rm -rf --one-file-system {folder}");
    match points.is_empty() {
        true => remove,
        false => format!("umount {} && {remove}", points.join(" ")),
    }
}

/// A path as one word of a command; `None` where it is no text.
fn name(path: &Path) -> Option<String> {
    path.to_str().map(word)
}

/// Whether a text holds a name that a tool has given: its prefix, and what it has drawn for the run. Others may begin so, too.
fn is_drawn(text: &str) -> bool {
    let is_hex = |part: &str, length: usize| {
        let mut bytes = part.bytes();
        part.len() == length && bytes.all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
    };
    let is_name_of = |prefix: &str| {
        text.match_indices(prefix).any(|(place, _)| {
            let begins = !text[..place].ends_with(|it: char| it.is_alphanumeric() || it == '-');
            let drawn = &text[place + prefix.len()..];
            let mut parts = drawn.split(|it: char| !it.is_alphanumeric());
            let parts = [parts.next(), parts.next()].map(Option::unwrap_or_default);
            let is_process = parts[0].parse::<u32>().is_ok();
            begins
                && (is_hex(parts[0], 8)
                    || is_hex(parts[0], 12)
                    || (is_process && is_hex(parts[1], 16)))
        })
    };
    PREFIXES.into_iter().any(is_name_of)
}

/// What was left, of a driver whose volumes are known or not: first its own leftovers, then those of others.
pub fn findings(
    folders: &io::Result<Vec<RunFolder>>,
    volumes: Option<&VolumesSeen>,
    driver: &Endpoint,
) -> Vec<Finding> {
    let unread = folders.as_ref().err().map(ToString::to_string);
    let folders = folders.as_deref().unwrap_or_default();
    let dead = folders.iter().filter(|folder| !folder.is_alive);
    let (its_own, others): (Vec<_>, Vec<_>) = dead.partition(|folder| folder.is_of(driver));
    // A run against another driver has no volumes here.
    let mut alive = folders.iter().filter(|folder| folder.is_alive);
    let alive = alive.any(|folder| folder.driver.is_none() || folder.is_of(driver));
    let is_ours = |volume: &&VolumeSeen| volume.words.iter().any(|word| is_drawn(word));
    let ours = volumes.into_iter().flat_map(|volumes| &volumes.seen);
    let ours = ours.filter(is_ours).map(|volume| volume.id.as_str());
    // Those of a run that goes on are no leftovers, and cannot be told from others.
    let (unsure, ours): (Vec<&str>, Vec<&str>) = ours.partition(|_| alive);
    let mut parts = Vec::new();
    let mut commands = removals(&its_own);
    if !its_own.is_empty() {
        let paths = its_own.iter().map(|folder| folder.path.to_string_lossy());
        parts.push(named("folder", paths.collect()));
    }
    if !ours.is_empty() {
        let csi = format!("csi -e {}", word(&run_folder::name(driver)));
        commands.extend(
            ours.iter()
                .take(NAMED)
                .map(|id| format!("`{csi} controller delete-volume {}`", word(id))),
        );
        parts.push(named("volume", ours));
    }
    let is_none = parts.is_empty();
    parts.extend(unread);
    if let Some(cut) = volumes.filter(|volumes| volumes.go_on) {
        parts.push(format!("only {} were looked at", cut.count()));
    }
    if !unsure.is_empty() {
        let (count, names) = (counted(unsure.len(), "volume"), some(&unsure, NAMED));
        parts.push(format!(
            "a run goes on, which has made {count}, or an earlier one has: {names}"
        ));
    }
    let said = parts.join("; ");
    let mut findings = vec![match is_none {
        true if said.is_empty() => Finding::fine(
            CHECK,
            match volumes {
                Some(_) => "no folders or volumes of earlier runs",
                None => "no folders of earlier runs",
            },
        ),
        true => Finding::unknown(CHECK, said),
        false => Finding::wrong(
            CHECK,
            said,
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

/// The commands that remove the folders that are named. One may remove several.
fn removals(folders: &[&RunFolder]) -> Vec<String> {
    let mut commands = Vec::new();
    for folder in folders.iter().take(NAMED) {
        let command = format!("`{}`", folder.removal);
        if !commands.contains(&command) {
            commands.push(command);
        }
    }
    commands
}

fn named(what: &str, names: Vec<impl AsRef<str>>) -> String {
    let shown: Vec<&str> = names.iter().map(AsRef::as_ref).collect();
    let (count, names) = (counted(names.len(), what), some(&shown, NAMED));
    format!("{count} of earlier runs: {names}")
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
        let listed = |words: &[&str], go_on| {
            let seen = words.iter().map(|word| seen(&format!("v-{word}"), word));
            let seen = seen.collect();
            Some(VolumesSeen { seen, go_on })
        };
        const OURS: &str = "csi-sanity-0123abcd-2";
        for (folders, volumes, states, part) in [
            (
                Ok(vec![]),
                None,
                &[State::Fine][..],
                "no folders of earlier",
            ),
            (
                Ok(vec![of(own, true)]),
                listed(&[OURS, "pvc-1"], false),
                &[State::Unknown],
                "a run goes on, which has made 1 volume, or an earlier one has: v-csi-sanity",
            ),
            (
                Ok(vec![of("mock:/m", true)]),
                listed(&[OURS, "pvc-1"], false),
                &[State::Wrong],
                "1 volume of earlier runs: v-csi-sanity",
            ),
            (
                Ok(vec![of("", true)]),
                listed(&["pvc-1"], false),
                &[State::Fine],
                "no folders or volumes of earlier",
            ),
            (
                Ok(vec![of(own, false)]),
                None,
                &[State::Wrong],
                "1 folder of earlier runs: /tmp/csi-lifecycle-1-2",
            ),
            (
                Ok(vec![]),
                listed(&[OURS, "pvc-1"], false),
                &[State::Wrong],
                "1 volume of earlier runs: v-csi-sanity",
            ),
            (
                Ok(vec![]),
                listed(&["pvc-1"], false),
                &[State::Fine],
                "no folders or volumes of earlier",
            ),
            // What was not looked at is never said to be none.
            (
                Ok(vec![]),
                listed(&["pvc-1"], true),
                &[State::Unknown],
                "only the first 1 volume were looked at",
            ),
            (
                Err(io::Error::other("/p cannot be read")),
                None,
                &[State::Unknown],
                "/p cannot be read",
            ),
            (
                Err(io::Error::other("/p cannot be read")),
                listed(&[OURS], false),
                &[State::Wrong],
                "csi-sanity-0123abcd-2; /p cannot be read",
            ),
            (
                Ok(vec![of(own, false); 5]),
                None,
                &[State::Wrong],
                "and 2 more",
            ),
            (
                Ok(vec![of("mock:/m", false), of("", false)]),
                None,
                &[State::Fine, State::Unknown],
                "2 folders of earlier runs: /tmp/csi-lifecycle-1-2 (driver: mock:/m), /tmp/csi-lifecycle-1-2 (driver: which is not known)",
            ),
        ] {
            let driver = Endpoint::parse("/s").unwrap();
            let found = findings(&folders, volumes.as_ref(), &driver);
            let found_states: Vec<State> = found.iter().map(|one| one.state).collect();
            assert_eq!(found_states, states, "{found:?}");
            let last = found.last().unwrap();
            assert!(last.text.contains(part), "{last:?}");
            assert!(
                last.advice.is_some() || last.state != State::Wrong,
                "{last:?}"
            );
            // The command removes all of these folders.
            let advice = last.advice.as_deref().unwrap_or_default();
            assert!(advice.matches("rmdir x").count() <= 1, "{advice}");
        }
    }

    #[tokio::test]
    async fn a_run_s_folder_is_known_by_its_name() {
        let parent = tempfile::tempdir().unwrap();
        let path = |name: &str| parent.path().join(name);
        for name in ["csi-lifecycle-4294967295-abc", "csi-other", "x"] {
            fs::create_dir(path(name)).unwrap();
        }
        let sanity = path("csi-sanity-1");
        fs::create_dir(&sanity).unwrap();
        let endpoints = "[\"unix:///a b\",\"c\"]";
        fs::write(
            sanity.join("journal"),
            format!("{{\"endpoints\":{endpoints}}}\n{{"),
        )
        .unwrap();
        let journal = fs::File::open(sanity.join("journal")).unwrap();
        journal.try_lock().unwrap();
        let limit = Duration::from_secs(600);
        let below = || folders(parent.path().to_owned(), Vec::new(), limit);
        let found = below().await.unwrap();
        let alive: Vec<bool> = found.iter().map(|folder| folder.is_alive).collect();
        assert_eq!(alive, [false, true], "{found:?}");
        // Not by the close: a child that another test starts may have a copy.
        journal.unlock().unwrap();
        let found = below().await.unwrap().pop().unwrap();
        assert!(!found.is_alive);
        assert_eq!(found.driver.as_deref(), Some("unix:///a b"));
        let command = format!(
            "csi -e 'unix:///a b' sanity --filter identity/ --controller-endpoint c --mount-parent {}",
            parent.path().display()
        );
        assert_eq!(found.removal, command);
        // A folder without an answer is told.
        let late = folders(parent.path().to_owned(), Vec::new(), Duration::ZERO).await;
        assert!(late.is_err() || late.is_ok_and(|found| found.len() == 2));
        // As is one that cannot be read.
        for none in [parent.path().join("none"), sanity.join("journal")] {
            let error = folders(none, Vec::new(), limit).await.unwrap_err();
            let error = error.to_string();
            assert!(error.contains(" cannot be read: "), "{error}");
        }
    }

    #[test]
    fn what_a_run_has_left_goes_by_the_driver_that_it_had() {
        let run = Path::new("/tmp/csi-sanity-1");
        for (node, controller, command) in [
            (
                "exec:ssh host",
                "exec:ssh host",
                "csi -e 'exec:ssh host' sanity --filter identity/ --mount-parent /tmp",
            ),
            (
                "./my-driver '--endpoint={}'",
                "./my-driver '--endpoint={}'",
                "csi sanity --filter identity/ --mount-parent /tmp -- ./my-driver '--endpoint={}'",
            ),
            (
                "d --listen tcp://a:{}",
                "tcp://h:1",
                "csi sanity --filter identity/ --controller-endpoint tcp://h:1 --mount-parent /tmp -- d --listen tcp://a:{}",
            ),
        ] {
            assert_eq!(next_run(run, node, controller), command);
        }
    }

    #[test]
    fn a_folder_goes_after_its_mounts() {
        let run = Path::new("/tmp/csi-lifecycle-0-a");
        let points = |points: &[&str]| points.iter().map(PathBuf::from).collect::<Vec<_>>();
        for (mounts, command) in [
            (
                &["/", "/tmp"][..],
                "rm -rf --one-file-system /tmp/csi-lifecycle-0-a",
            ),
            (
                &[
                    "/",
                    "/tmp/csi-lifecycle-0-a/t",
                    "/tmp/csi-lifecycle-0-ab",
                    "/tmp/csi-lifecycle-0-a/s",
                ],
                "umount /tmp/csi-lifecycle-0-a/s /tmp/csi-lifecycle-0-a/t && \
                 rm -rf --one-file-system /tmp/csi-lifecycle-0-a",
            ),
        ] {
            assert_eq!(removal(run, &points(mounts)), command);
        }
        use std::os::unix::ffi::OsStrExt as _;
        let no_text = Path::new(std::ffi::OsStr::from_bytes(b"/tmp/csi-bench-\xff"));
        assert!(removal(no_text, &[]).contains("by hand"));
    }

    #[test]
    fn only_what_a_tool_has_drawn_is_its_name() {
        for (text, is) in [
            ("csi-sanity-7c8f145c-1-0", true),
            ("server#share#csi-lifecycle-77-5b1f0c2e9a7d4c38#", true),
            ("id_csi-bench-7c8f145c0123-1", true),
            ("csi-bench-results", false),
            ("csi-sanity-feedback-loop", false),
            ("csi-lifecycle-1", false),
            ("my-csi-bench-7c8f145c", false),
        ] {
            assert_eq!(is_drawn(text), is, "{text}");
        }
    }
}
