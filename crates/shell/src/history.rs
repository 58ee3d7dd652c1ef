//! The history of typed lines, in a file that only its owner can read, without lines that carry a secret.

use csi_call::redacted::redacted;
use csi_call::user_folders;
use csi_invocation::private_file;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// The number of lines that are kept.
const LIMIT: usize = 1000;

/// The lines, and where they are kept.
#[derive(Debug, Default)]
pub(crate) struct History {
    lines: Vec<String>,
    file: Option<PathBuf>,
}

impl History {
    /// Loads the history in the user's state folder; without one, or when it cannot be read, the history has this session's
    /// lines alone.
    pub fn load() -> Self {
        let Some(state) = user_folders::state() else {
            return Self::default();
        };
        let file = state.join("csi/history");
        let lines = fs::read_to_string(&file).unwrap_or_default();
        let mut history = Self {
            lines: lines.lines().map(unescaped).collect(),
            file: Some(file),
        };
        if history.lines.len() > 2 * LIMIT {
            history.lines.drain(..history.lines.len() - LIMIT);
            // When this fails the file is only longer than it need be.
            let _ = history.rewrite();
        }
        history
    }

    /// The lines, the oldest first.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// Adds a line, unless it carries a secret, repeats the one before, or begins with a blank, as shells have it. Says
    /// whether it was added.
    pub fn add(&mut self, line: &str) -> bool {
        let line = line.trim_end();
        let repeats = self.lines.last().is_some_and(|last| last == line);
        if line.trim().is_empty() || line.starts_with(' ') || repeats || has_secret(line) {
            return false;
        }
        self.lines.push(line.to_owned());
        // A session goes on without a file.
        let _ = self.append(line);
        true
    }

    /// What follows `start` in the last line that begins so and is one line; nothing for a blank start.
    pub(crate) fn rest_of(&self, start: &str) -> Option<&str> {
        if start.trim().is_empty() {
            return None;
        }
        let lines = self.lines.iter().rev();
        let mut rests = lines.filter_map(|line| line.strip_prefix(start));
        rests.find(|rest| !rest.is_empty() && !rest.contains('\n'))
    }

    /// The line that `!!`, `!N` or `!TEXT` means; the text itself when it is none of these.
    pub(crate) fn recalled(&self, text: &str) -> Result<Option<String>, String> {
        let Some(what) = text.trim().strip_prefix('!') else {
            return Ok(None);
        };
        let found = match what {
            "!" => self.lines.last(),
            number if number.parse::<usize>().is_ok() => {
                let number: usize = number.parse().unwrap_or_default();
                number.checked_sub(1).and_then(|at| self.lines.get(at))
            }
            "" => None,
            start => self.lines.iter().rev().find(|line| line.starts_with(start)),
        };
        match found {
            Some(line) => Ok(Some(line.clone())),
            None => Err(format!(
                "no line in the history fits {text:?}: `history` lists them"
            )),
        }
    }

    /// The lines with their numbers.
    pub fn listing(&self) -> String {
        let mut text = String::new();
        for (index, line) in self.lines.iter().enumerate() {
            let _ = writeln!(text, "{:5}  {}", index + 1, line.replace('\n', "\n       "));
        }
        text
    }

    fn append(&self, line: &str) -> io::Result<()> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let mut file = private(path)?;
        file.write_all(format!("{}\n", escaped(line)).as_bytes())
    }

    fn rewrite(&self) -> io::Result<()> {
        let Some(path) = &self.file else {
            return Ok(());
        };
        let lines = self.lines.iter().map(|line| escaped(line) + "\n");
        private_file::replace(path, lines.collect::<String>().as_bytes())
    }
}

/// Opens the end of a file that only its owner may read, and makes it and its folder.
fn private(path: &Path) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        user_folders::make_private(folder)?;
    }
    let mut options = File::options();
    let file = options.append(true).create(true).mode(0o600).open(path)?;
    // It may have been there with other permissions.
    file.set_permissions(fs::Permissions::from_mode(0o600))?;
    Ok(file)
}

/// A line in one line of the file.
fn escaped(line: &str) -> String {
    line.replace('\\', "\\\\").replace('\n', "\\n")
}

fn unescaped(line: &str) -> String {
    let mut out = String::new();
    let mut letters = line.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => match letters.next() {
                Some('n') => out.push('\n'),
                Some(other) => out.push(other),
                None => {}
            },
            letter => out.push(letter),
        }
    }
    out
}

/// Flags and settings that are called as a secret is, and hold none.
const HARMLESS: [&str; 3] = ["secrets-file", "--secrets-prompt", "--starting-token"];

/// Whether a line seems to carry a secret. Rather one line too many is left out than one too few.
pub(super) fn has_secret(line: &str) -> bool {
    let words = line.split_whitespace().filter(|word| *word != "\\");
    // What psql's `\set NAME VALUE` sets stands in the next word, as that of a flag.
    let mut line = Vec::from_iter(words).join(" ").replace("set ", "set --");
    for harmless in HARMLESS {
        line = line.replace(harmless, "");
    }
    // Keys of Kubernetes have them, as `csi.storage.k8s.io/serviceAccount.tokens`.
    let line = line.replace(['.', '/'], "_");
    redacted(&line, &[]) != line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn secrets_are_noticed_and_other_lines_kept() {
        for line in [
            "controller create-volume x --request '{\"name\":\"x\",\"secrets\":{\"k\":\"hunter2\"}}'",
            "controller create-volume x --request '{\"controllerPublishSecrets\": {\"a\": \"b\"}}'",
            "controller create-volume x --params password=hunter2",
            "controller create-volume x --params user=me,adminPassword=hunter2",
            "controller create-volume x --secrets k=hunter2",
            "identity probe -m authorization=Bearer-x",
            "identity probe --metadata 'x-api-key=abc'",
            "node publish v --vol-context csi.storage.k8s.io/serviceAccount.tokens=abc",
            r"\set password hunter2",
            r"identity probe;\set  my_token 'hunter2'",
            "\\set \\\n token hunter2",
            "set token hunter2 $nope",
            "controller create-volume x --params passphrase=hunter2",
            "controller create-volume x --params token.value=hunter2,example.org/secret/k=v",
        ] {
            assert!(has_secret(line), "{line}");
        }
        for line in [
            "controller create-volume x --secrets-file /run/secrets/x",
            "controller create-volume x --secrets-file=/run/s",
            "controller create-volume x --secrets-prompt password",
            "controller list-volumes --starting-token=10",
            "set secrets-file /x",
            r"\unset password",
            r"\set size 10Gi",
            "controller create-volume secret-volume",
            "controller create-volume x --request '{\"secrets\": {}}'",
            "desc CreateVolumeRequest",
        ] {
            assert!(!has_secret(line), "{line}");
        }
    }

    #[test]
    fn lines_come_back_from_a_private_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("csi/history");
        let history = || History {
            lines: Vec::new(),
            file: Some(file.clone()),
        };
        let mut first = history();
        assert!(first.add("identity probe"));
        assert!(!first.add("identity probe"));
        assert!(!first.add(" unseen"));
        assert!(!first.add("x --params password=hunter2"));
        assert!(first.add("a 'b\nc' \\n"));
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let text = fs::read_to_string(&file).unwrap();
        let lines: Vec<String> = text.lines().map(unescaped).collect();
        assert_eq!(lines, first.lines);
        assert!(!text.contains("hunter2"));
        let recalled = |text: &str| first.recalled(text);
        assert_eq!(recalled("!!"), Ok(Some("a 'b\nc' \\n".to_owned())));
        assert_eq!(recalled("!1"), Ok(Some("identity probe".to_owned())));
        assert_eq!(recalled("!iden"), Ok(Some("identity probe".to_owned())));
        assert_eq!(recalled("iden"), Ok(None));
        assert!(recalled("!9").is_err() && recalled("!x").is_err());
    }

    #[test]
    fn the_last_line_that_begins_so_is_suggested() {
        let history = History {
            lines: ["a one", "a two", "a 'b\nc'", "größe"]
                .map(str::to_owned)
                .into(),
            file: None,
        };
        for (start, rest) in [
            ("a", Some(" two")),
            ("a o", Some("ne")),
            ("a one", None),
            ("a '", None),
            ("grö", Some("ße")),
            ("", None),
            (" ", None),
            ("x", None),
        ] {
            assert_eq!(history.rest_of(start), rest, "{start:?}");
        }
    }

    proptest! {
        #[test]
        fn a_line_survives_its_file(line in ".*", near in "[\\\\n\n]{0,8}") {
            for line in [line, near] {
                prop_assert_eq!(unescaped(&escaped(&line)), line);
            }
        }

        #[test]
        fn nothing_panics(line in ".*", near in "(secret|token|--| |=|:|'|\"|\\{)*") {
            let _ = (has_secret(&line), has_secret(&near));
        }
    }
}
