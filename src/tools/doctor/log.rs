//! The driver's log, as far as it can be reached from here: the file that its stderr is, its container's log, its unit's
//! journal.

use super::process::ProcessFacts;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::process::Command;
use tokio::time::timeout;

/// How much of its end is taken.
const END: u64 = 1 << 20;

/// How many lines of a journal are taken.
const LINES: &str = "5000";

/// How long the journal may take.
const LIMIT: Duration = Duration::from_secs(10);

/// Where container runtimes link their logs.
const CONTAINERS: &str = "/var/log/containers";

/// Where a log may be.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Place {
    /// In a file.
    File(PathBuf),
    /// In the log of a container of this id.
    Container(String),
    /// In the journal of a unit.
    Unit(String),
}

/// The places of a process whose outputs lead there, the best first.
fn places(facts: &ProcessFacts, outputs: &[PathBuf]) -> Vec<Place> {
    let is_file = |path: &&PathBuf| {
        path.is_absolute() && !path.starts_with("/dev") && !path.starts_with("/proc")
    };
    let mut places: Vec<Place> = outputs
        .iter()
        .filter(is_file)
        .cloned()
        .map(Place::File)
        .collect();
    places.dedup();
    places.extend(facts.home.container.clone().map(Place::Container));
    places.extend(facts.home.unit.clone().map(Place::Unit));
    places
}

/// The end of the log of a process.
///
/// # Errors
/// Why there is none, in words.
pub async fn of(facts: Option<&ProcessFacts>) -> Result<String, String> {
    let Some(facts) = facts else {
        return Err("the driver's process is not visible from here".to_owned());
    };
    let links =
        ["2", "1"].map(|output| fs::read_link(format!("/proc/{}/fd/{output}", facts.process)));
    let outputs: Vec<PathBuf> = links.into_iter().filter_map(Result::ok).collect();
    let mut problems = Vec::new();
    for place in places(facts, &outputs) {
        match read(&place).await {
            Ok(log) if !log.is_empty() => return Ok(log),
            Ok(_) => problems.push(format!("{place:?} is empty")),
            Err(error) => problems.push(format!("{place:?}: {error}")),
        }
    }
    Err(match problems.is_empty() {
        true => format!(
            "its stderr is no file ({outputs:?}), and it is in no container or unit that is known here"
        ),
        false => problems.join("\n"),
    })
}

async fn read(place: &Place) -> io::Result<String> {
    match place {
        Place::File(path) => end_of(path),
        Place::Container(id) => {
            let name = format!("-{id}.log");
            let entries = fs::read_dir(CONTAINERS)?
                .flatten()
                .map(|entry| entry.path());
            let mut logs = entries.filter(|path| path.to_string_lossy().ends_with(&name));
            end_of(&logs.next().ok_or(io::ErrorKind::NotFound)?)
        }
        Place::Unit(unit) => {
            let mut journal = Command::new("journalctl");
            journal
                .args(["--no-pager", "-n", LINES, "-u", unit])
                .kill_on_drop(true);
            let output = timeout(LIMIT, journal.output()).await??;
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
    }
}

/// The end of a file, from the beginning of a line.
fn end_of(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let length = file.metadata()?.len();
    let start = length.saturating_sub(END);
    file.seek(SeekFrom::Start(start))?;
    let mut bytes = Vec::new();
    file.take(END).read_to_end(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match (start, text.split_once('\n')) {
        (1.., Some((_, rest))) => rest.to_owned(),
        _ => text,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::process::Home;

    #[test]
    fn files_come_before_containers_and_units() {
        let facts = ProcessFacts {
            home: Home {
                container: Some("abc".into()),
                unit: Some("a.service".into()),
                pod: None,
            },
            ..ProcessFacts::default()
        };
        let outputs =
            ["/dev/null", "pipe:[1]", "/var/log/a.log", "/var/log/a.log"].map(PathBuf::from);
        let expected = [
            Place::File("/var/log/a.log".into()),
            Place::Container("abc".into()),
            Place::Unit("a.service".into()),
        ];
        assert_eq!(places(&facts, &outputs), expected);
        assert_eq!(places(&ProcessFacts::default(), &[]), []);
    }

    #[test]
    fn of_a_long_file_the_end_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("log");
        fs::write(&path, "short\n").unwrap();
        assert_eq!(end_of(&path).unwrap(), "short\n");
        fs::write(&path, "line\n".repeat(300_000)).unwrap();
        let end = end_of(&path).unwrap();
        assert!(end.starts_with("line\n") && end.ends_with("line\n"));
        assert!(end.len() as u64 <= END);
    }
}
