//! The driver's log, as far as it can be reached from here: the file that its stderr is, its container's log, its unit's
//! journal. Of each the end alone is taken.

use super::process::ProcessFacts;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::process::Command;
use tokio::time::timeout;

/// How much of its end is taken.
const END: usize = 1 << 20;

/// How many lines of a journal are taken.
const LINES: &str = "5000";

/// How long the journal may take.
const LIMIT: Duration = Duration::from_secs(10);

/// What stands before a log of which only the end is taken.
const CUT: &str = "[what was before is left out]\n";

/// Where logs are kept on this machine.
pub struct LogLocations {
    /// The folder in which container runtimes link the logs of containers, which are below `pods` beside it.
    pub containers: PathBuf,
    /// The program that prints the journal.
    pub journal: PathBuf,
}

impl Default for LogLocations {
    fn default() -> Self {
        Self {
            containers: "/var/log/containers".into(),
            journal: "journalctl".into(),
        }
    }
}

/// Where a log may be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum LogSource {
    /// In a file.
    File(PathBuf),
    /// In the log of a container of this id.
    Container(String),
    /// In the journal of a unit.
    Unit(String),
}

impl LogSource {
    /// How somebody who may read it gets the log.
    fn remedy(&self) -> String {
        match self {
            Self::File(path) => format!("read {} as its owner or as root", path.display()),
            Self::Container(id) => format!(
                "run csi doctor as root on the node, or add the output of: crictl logs {id}"
            ),
            Self::Unit(unit) => format!(
                "run csi doctor as root or as a member of the group systemd-journal, or add the output of: journalctl -u {unit}"
            ),
        }
    }
}

impl fmt::Display for LogSource {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(out, "the file {}", path.display()),
            Self::Container(id) => write!(out, "the log of container {id:.12}"),
            Self::Unit(unit) => write!(out, "the journal of {unit}"),
        }
    }
}

/// Why a source gives no log.
#[derive(Debug, Error)]
enum LogError {
    #[error("it is empty")]
    Empty,
    #[error("no file in {} ends with {name}", .folder.display())]
    NoContainer { folder: PathBuf, name: String },
    #[error("{} leads to no file: the log was removed, or this is another file system", .0.display())]
    Dangling(PathBuf),
    #[error("there is no {} here", .0.display())]
    NoJournal(PathBuf),
    #[error("{} did not end within {LIMIT:?}", .0.display())]
    Slow(PathBuf),
    #[error("{} failed: {said}", .program.display())]
    Journal { program: PathBuf, said: String },
    #[error("{0}")]
    Io(#[from] io::Error),
}

/// The sources of a process's log, where its outputs lead, the best first.
fn log_sources(facts: &ProcessFacts, outputs: &[PathBuf]) -> Vec<LogSource> {
    let is_file = |path: &&PathBuf| {
        path.is_absolute() && !path.starts_with("/dev") && !path.starts_with("/proc")
    };
    let mut sources: Vec<LogSource> = outputs
        .iter()
        .filter(is_file)
        .cloned()
        .map(LogSource::File)
        .collect();
    sources.dedup();
    sources.extend(facts.home.container.clone().map(LogSource::Container));
    sources.extend(facts.home.unit.clone().map(LogSource::Unit));
    sources
}

/// The end of the log of a process.
///
/// # Errors
/// Why there is none, in words, with what to do.
pub async fn of(facts: Option<&ProcessFacts>, kept: &LogLocations) -> Result<String, String> {
    let Some(facts) = facts else {
        return Err("the driver's process is not visible from here".to_owned());
    };
    let links =
        ["2", "1"].map(|output| fs::read_link(format!("/proc/{}/fd/{output}", facts.process)));
    let outputs: Vec<PathBuf> = links.into_iter().filter_map(Result::ok).collect();
    let mut problems = Vec::new();
    for source in log_sources(facts, &outputs) {
        match read(&source, kept).await {
            Ok(log) => return Ok(log),
            Err(error) => problems.push(format!("{source}: {error}; {}", source.remedy())),
        }
    }
    Err(match problems.is_empty() {
        true => format!(
            "its stderr is no file ({outputs:?}), and it is in no container or unit that is known here"
        ),
        false => problems.join("\n"),
    })
}

async fn read(source: &LogSource, kept: &LogLocations) -> Result<String, LogError> {
    let log = match source {
        LogSource::File(path) => end_of(path)?,
        LogSource::Container(id) => end_of(&container_log(id, &kept.containers)?)?,
        LogSource::Unit(unit) => journal(unit, &kept.journal).await?,
    };
    match log.trim().is_empty() {
        true => Err(LogError::Empty),
        false => Ok(log),
    }
}

/// The log of a container: the newest file that its link leads to.
fn container_log(id: &str, folder: &Path) -> Result<PathBuf, LogError> {
    let name = format!("-{id}.log");
    let entries = fs::read_dir(folder)?.flatten().map(|entry| entry.path());
    let mut links = entries.filter(|path| path.to_string_lossy().ends_with(&name));
    let none = || LogError::NoContainer {
        folder: folder.to_owned(),
        name: name.clone(),
    };
    let link = links.next().ok_or_else(none)?;
    fs::canonicalize(&link).map_err(|error| match error.kind() {
        ErrorKind::NotFound => LogError::Dangling(link),
        _ => error.into(),
    })
}

/// What the journal of a unit ends with.
async fn journal(unit: &str, program: &Path) -> Result<String, LogError> {
    let mut journal = Command::new(program);
    journal
        .args(["--no-pager", "-n", LINES, "-u", unit])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    let mut child = journal.spawn().map_err(|error| match error.kind() {
        ErrorKind::NotFound => LogError::NoJournal(program.to_owned()),
        _ => error.into(),
    })?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let ended = timeout(LIMIT, async {
        let (log, said) = tokio::try_join!(end_of_stream(stdout), end_of_stream(stderr))?;
        Ok::<_, io::Error>((log, said, child.wait().await?))
    });
    let ended = ended.await;
    let (log, said, status) = ended.map_err(|_| LogError::Slow(program.to_owned()))??;
    // Without the permission it succeeds, says so, and prints only what stands between the entries.
    let has_entries = log.lines().any(|line| !line.starts_with("-- "));
    match (status.success(), has_entries) {
        (true, true) => Ok(log),
        (true, false) if said.trim().is_empty() => Err(LogError::Empty),
        _ => Err(LogError::Journal {
            program: program.to_owned(),
            said: match said.trim() {
                "" => status.to_string(),
                said => said.lines().collect::<Vec<_>>().join(" "),
            },
        }),
    }
}

/// What a stream ends with. No more than twice that is kept at a time.
async fn end_of_stream(stream: Option<impl AsyncRead + Unpin>) -> io::Result<String> {
    let Some(mut stream) = stream else {
        return Ok(String::new());
    };
    let mut bytes = Vec::new();
    let mut is_cut = false;
    while stream.read_buf(&mut bytes).await? > 0 {
        if bytes.len() > 2 * END {
            bytes.drain(..bytes.len() - END);
            is_cut = true;
        }
    }
    let start = bytes.len().saturating_sub(END);
    Ok(from_a_line(&bytes[start..], is_cut || start > 0))
}

/// What a file ends with.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(END as u64);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(END as u64).read_to_end(&mut bytes)?;
    Ok(from_a_line(&bytes, start > 0))
}

/// The text; where it is cut, from the beginning of a line, and with a word about it.
fn from_a_line(bytes: &[u8], is_cut: bool) -> String {
    let text = String::from_utf8_lossy(bytes);
    match (is_cut, text.split_once('\n')) {
        (true, Some((_, rest))) => format!("{CUT}{rest}"),
        (true, None) => format!("{CUT}{text}"),
        (false, _) => text.into_owned(),
    }
}

#[cfg(test)]
#[path = "../../../tests/support/executable.rs"]
mod executable;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::process::Home;
    use std::os::unix::fs::symlink;

    /// A process with no output of its own, in a container or a unit.
    fn kept_in(home: Home) -> ProcessFacts {
        ProcessFacts {
            home,
            ..ProcessFacts::default()
        }
    }

    fn unit() -> ProcessFacts {
        kept_in(Home {
            unit: Some("csi.service".into()),
            ..Home::default()
        })
    }

    /// A program in the place of the journal's.
    fn journal_that(folder: &Path, does: &str) -> LogLocations {
        let journal = folder.join("journalctl");
        executable::script(&journal, &format!("#!/bin/sh\n{does}\n"));
        LogLocations {
            journal,
            ..LogLocations::default()
        }
    }

    async fn of_unit(does: &str) -> Result<String, String> {
        let folder = tempfile::tempdir().unwrap();
        of(Some(&unit()), &journal_that(folder.path(), does)).await
    }

    #[test]
    fn files_come_before_containers_and_units() {
        let facts = kept_in(Home {
            container: Some("abc".into()),
            unit: Some("a.service".into()),
            pod: None,
        });
        let outputs =
            ["/dev/null", "pipe:[1]", "/var/log/a.log", "/var/log/a.log"].map(PathBuf::from);
        let expected = [
            LogSource::File("/var/log/a.log".into()),
            LogSource::Container("abc".into()),
            LogSource::Unit("a.service".into()),
        ];
        assert_eq!(log_sources(&facts, &outputs), expected);
        assert_eq!(log_sources(&ProcessFacts::default(), &[]), []);
    }

    #[test]
    fn of_a_long_file_the_end_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "short\n").unwrap();
        assert_eq!(end_of(&path).unwrap(), "short\n");
        fs::write(&path, "line\n".repeat(300_000)).unwrap();
        let end = end_of(&path).unwrap();
        assert!(end.starts_with(&format!("{CUT}line\n")) && end.ends_with("line\n"));
        assert!(end.len() <= END + CUT.len());
    }

    #[tokio::test]
    async fn the_journal_of_a_unit_is_asked_for_its_end() {
        let log = of_unit("echo \"arguments: $*\"").await.unwrap();
        assert_eq!(log, "arguments: --no-pager -n 5000 -u csi.service\n");
        // A huge one is read to its end, and its end is kept.
        let log = of_unit("yes 'a line' | head -c 9000000; echo; echo last").await;
        let log = log.unwrap();
        assert!(log.starts_with(&format!("{CUT}a line\n")) && log.ends_with("\nlast\n"));
        assert!(log.len() <= END + CUT.len(), "{}", log.len());
    }

    #[tokio::test]
    async fn a_journal_that_gives_no_log_says_what_to_do() {
        let hint = "Hint: You are currently not seeing messages from other users";
        for (does, part) in [
            (
                "echo 'No journal files were opened due to insufficient permissions.' >&2; exit 1",
                "due to insufficient permissions.; run csi doctor as root or as a member of the group systemd-journal",
            ),
            (
                &*format!("echo '{hint}' >&2; echo '-- No entries --'"),
                hint,
            ),
            (
                "echo '-- No entries --'",
                "the journal of csi.service: it is empty;",
            ),
            ("exit 7", "exit status: 7"),
        ] {
            let why = of_unit(does).await.unwrap_err();
            assert!(why.contains(part), "{does}: {why}");
            assert!(why.ends_with("journalctl -u csi.service"), "{why}");
        }
        let nowhere = LogLocations {
            journal: "/nowhere/journalctl".into(),
            ..LogLocations::default()
        };
        let why = of(Some(&unit()), &nowhere).await.unwrap_err();
        assert!(
            why.contains("there is no /nowhere/journalctl here"),
            "{why}"
        );
    }

    #[tokio::test]
    async fn the_log_of_a_container_is_found_by_its_id() {
        let folder = tempfile::tempdir().unwrap();
        let id = "0123456789abcdef".repeat(4);
        let facts = kept_in(Home {
            container: Some(id.clone()),
            ..Home::default()
        });
        let kept = LogLocations {
            containers: folder.path().join("containers"),
            ..LogLocations::default()
        };
        let why = of(Some(&facts), &kept).await.unwrap_err();
        assert!(
            why.contains("the log of container 0123456789ab: No such file"),
            "{why}"
        );
        fs::create_dir(&kept.containers).unwrap();
        let why = of(Some(&facts), &kept).await.unwrap_err();
        assert!(
            why.contains("no file in ") && why.contains(&format!("crictl logs {id}")),
            "{why}"
        );
        // As a kubelet keeps them: a link to a link to the newest file.
        let pod = folder.path().join("pods/csi_node-1_uid/csi-nfs");
        fs::create_dir_all(&pod).unwrap();
        let other = kept
            .containers
            .join(format!("node-1_csi_other-{}.log", "f".repeat(64)));
        fs::write(other, "of another container\n").unwrap();
        let link = kept.containers.join(format!("node-1_csi_csi-nfs-{id}.log"));
        symlink(pod.join("0.log"), &link).unwrap();
        let why = of(Some(&facts), &kept).await.unwrap_err();
        assert!(why.contains("leads to no file"), "{why}");
        fs::write(
            folder.path().join("real"),
            "2026-01-31T12:00:00Z stderr F mounted\n",
        )
        .unwrap();
        symlink(folder.path().join("real"), pod.join("0.log")).unwrap();
        let log = of(Some(&facts), &kept).await.unwrap();
        assert_eq!(log, "2026-01-31T12:00:00Z stderr F mounted\n");
    }
}
