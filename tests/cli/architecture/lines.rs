//! How many lines of code are written by hand, without comments, tests and generated files: `tests/count-lines` prints it. How
//! long a file may be.

use super::{FOLDERS, Sources, hand_written, hold, print_when_asked, sources};
use std::collections::BTreeMap;

/// Where a file has outgrown its subject. From `LONG` on, one looks for a second subject in it.
const LIMIT: usize = 600;
const LONG: usize = 500;

/// The files with more lines than this, of any kind, the longest first.
fn longer(lines: usize) -> Vec<(usize, String)> {
    let all: Sources = sources(&[&FOLDERS[..], &["tests"]].concat());
    let counted = all
        .into_iter()
        .map(|(path, text)| (text.lines().count(), path));
    let is_long = |(count, path): &(usize, String)| *count > lines && !path.contains("/generated/");
    let mut long: Vec<_> = counted.filter(is_long).collect();
    long.sort_by(|one, other| other.cmp(one));
    long
}

/// The lines of each crate and program, and the long files; or the lines of each file below a folder.
fn report(below: Option<String>) -> String {
    let mut sums: BTreeMap<String, usize> = BTreeMap::new();
    for (path, code) in hand_written() {
        let lines = code.lines().filter(|line| !line.trim().is_empty()).count();
        let (package, _) = path.split_once("src/").unwrap_or_default();
        let program = match path.split('/').next() {
            Some("src" | "crates" | "proto") => "~ the client and its protocol",
            Some("driver") => "~ the driver",
            _ => "~ mock and sys",
        };
        let names = match &below {
            Some(folder) if !path.starts_with(folder) => vec![],
            Some(_) => vec![path.clone(), "~ together".to_owned()],
            None => vec![
                format!("{package}src"),
                program.to_owned(),
                "~ together".to_owned(),
            ],
        };
        for name in names {
            *sums.entry(name).or_default() += lines;
        }
    }
    let sums = sums
        .iter()
        .map(|(name, lines)| format!("{lines:>7}  {name}"));
    let long = longer(LONG).into_iter().filter(|_| below.is_none());
    let long = long.map(|(lines, path)| format!("{lines:>7}  {path}, with tests and comments"));
    sums.chain(long).collect::<Vec<_>>().join("\n")
}

#[test]
fn lines_of_code_can_be_printed() {
    print_when_asked("CSI_LINES", || {
        report(std::env::var("CSI_LINES_BELOW").ok())
    });
}

#[test]
fn no_file_is_longer_than_the_limit() {
    assert!(longer(LONG).len() > longer(LIMIT).len());
    let long = longer(LIMIT).into_iter();
    let text = |(lines, path)| {
        format!("{path} has {lines} lines, more than {LIMIT}: find its second subject")
    };
    hold(&long.map(text).collect::<Vec<_>>());
}
