//! The last runs, kept for `csi sanity explain`: a file a run, the JSON of `-o json`, in the folder of this user's state.
//!
//! Owns the files, and what is told of a case in one of them.

use super::Case;
use super::report::{CaseOutcome, CaseResult, Report};
use csi_call::user_folders;
use csi_error::{Error, OrError as _};
use csi_invocation::private_file;
use csi_proto::text::escaped;
use std::cmp::Reverse;
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The number of runs that are kept.
pub const KEPT: usize = 10;

fn folder() -> io::Result<PathBuf> {
    let state = user_folders::state().ok_or_else(|| io::Error::other("this user has no home"))?;
    Ok(state.join("csi/sanity"))
}

/// Keeps a run, and forgets those that are older than the last ones; its file.
pub fn keep(report: &Report) -> io::Result<PathBuf> {
    let folder = folder()?;
    fs::create_dir_all(&folder)?;
    let path = folder.join(format!("{}.json", report.run));
    private_file::replace(&path, report.json().to_string().as_bytes())?;
    for old in newest_first(&folder).into_iter().skip(KEPT) {
        let _ = fs::remove_file(old);
    }
    Ok(path)
}

fn newest_first(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let runs = entries.map(|entry| entry.path());
    let runs = runs.filter(|path| path.extension().is_some_and(|end| end == "json"));
    let written = |path: &PathBuf| {
        let metadata = fs::metadata(path).and_then(|metadata| metadata.modified());
        metadata.unwrap_or(SystemTime::UNIX_EPOCH)
    };
    let mut runs: Vec<_> = runs.collect();
    runs.sort_by_cached_key(|path| Reverse(written(path)));
    runs
}

/// What a run has found in a case: the run in a file, or the last one in which the case was tried.
///
/// # Errors
/// When no run with that case can be read.
pub fn explained(case: &Case, name: &str, file: Option<&Path>) -> Result<String, Error> {
    if let Some(file) = file {
        let run = read(file).or_because(format!("{} is no run", file.display()))?;
        let found = run.results.iter().find(|one| one.name == name);
        let found = found
            .ok_or_else(|| Error::usage(format!("{name} is not in the run {}", file.display())))?;
        return Ok(text(&run, found, file));
    }
    let kept = folder()
        .map(|folder| newest_first(&folder))
        .unwrap_or_default();
    let told = kept.into_iter().filter_map(|path| {
        // One that this version cannot read says nothing.
        let run = read(&path).ok()?;
        let found = run.results.iter().find(|one| one.name == name)?;
        Some((
            found.outcome == CaseOutcome::Skipped,
            text(&run, found, &path),
        ))
    });
    // The first of those that were tried, if there is one.
    if let Some((_, text)) = told.min_by_key(|(is_skipped, _)| *is_skipped) {
        return Ok(text);
    }
    Err(Error::usage(format!(
        "{name} is in no run that is kept: {}",
        case.sentence
    ))
    .hint(format!(
        "csi sanity --filter {name} tries it; the last {KEPT} runs are kept"
    )))
}

fn read(path: &Path) -> io::Result<Report> {
    serde_json::from_str(&fs::read_to_string(path)?).map_err(io::Error::other)
}

fn text(run: &Report, case: &CaseResult, file: &Path) -> String {
    let (driver, version) = (escaped(&run.driver), escaped(&run.version));
    let mut out = format!(
        "{}: {} with {driver} {version}",
        case.name,
        case.outcome.word()
    );
    if let Some(reason) = &case.reason {
        let _ = write!(out, ": {}", escaped(reason));
    }
    out.push('\n');
    out.push_str(&case.whole());
    let _ = writeln!(out, "   from the run in {}", file.display());
    out
}
