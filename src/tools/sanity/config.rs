//! Settings from a file in TOML. Its keys are the names of the flags; maps are tables, lists are lists.
//!
//! ```toml
//! endpoint = "unix:///csi/csi.sock"
//! cap = ["SINGLE_NODE_WRITER,mount", "SINGLE_NODE_WRITER,block"]
//! volume-size = "1Gi"
//! [params]
//! server = "10.0.0.4"
//! ```

use super::Settings;
use crate::arguments::{capability, size};
use csi_proto::duration;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use thiserror::Error;
use toml::Spanned;
use toml::de::{DeString, DeTable, DeValue};

/// A file that does not make settings.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// It cannot be read.
    #[error("{file}: {source}")]
    Io {
        /// The file.
        file: String,
        /// The system's word.
        source: std::io::Error,
    },
    /// It is not TOML.
    #[error("{file}:{line}: {problem}")]
    Syntax {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// What is wrong there.
        problem: String,
    },
    /// A key or value that means nothing.
    #[error("{file}:{line}: {key}: {problem}")]
    Value {
        /// The file.
        file: String,
        /// The line, from 1.
        line: usize,
        /// The key.
        key: String,
        /// What is wrong with it.
        problem: String,
    },
}

/// The keys that can stand in a file.
const KEYS: &[&str] = &[
    "endpoint",
    "controller-endpoint",
    "params",
    "mutable-params",
    "snapshot-params",
    "group-snapshot-params",
    "secrets-file",
    "cap",
    "volume-size",
    "volume-id",
    "mount-parent",
    "staging-parent",
    "paths",
    "node-id",
    "other-node-id",
    "restart-command",
    "restart-between-steps",
    "read-only",
    "filter",
    "jobs",
    "seed",
    "shuffle",
    "fail-fast",
    "strict",
    "case-limit",
];

/// Puts what a file says over the settings that are there.
///
/// # Errors
/// When the file cannot be read, is not TOML, or has keys or values that mean nothing.
pub fn read(path: &Path, settings: &mut Settings) -> Result<(), ConfigError> {
    let file = path.display().to_string();
    let text = fs::read_to_string(path).map_err(|source| ConfigError::Io {
        file: file.clone(),
        source,
    })?;
    let table = DeTable::parse(&text).map_err(|error| ConfigError::Syntax {
        file: file.clone(),
        line: line_at(&text, error.span().map_or(0, |span| span.start)),
        problem: error.message().replace('\n', ", "),
    })?;
    for (key, value) in table.get_ref() {
        apply(key, value, settings).map_err(|wrong| ConfigError::Value {
            file: file.clone(),
            line: line_at(&text, wrong.at),
            key: key.get_ref().to_string(),
            problem: wrong.problem,
        })?;
    }
    Ok(())
}

/// The line, from 1, in which a byte of the text stands.
fn line_at(text: &str, at: usize) -> usize {
    let before = &text.as_bytes()[..at.min(text.len())];
    before.iter().filter(|byte| **byte == b'\n').count() + 1
}

/// A value with its place in the file.
type Value<'a> = Spanned<DeValue<'a>>;

/// What is wrong, and at which byte of the file.
struct Wrong {
    at: usize,
    problem: String,
}

impl Wrong {
    fn new<T>(what: &Spanned<T>, problem: impl ToString) -> Self {
        Self {
            at: what.span().start,
            problem: problem.to_string(),
        }
    }
}

fn apply(
    key: &Spanned<DeString<'_>>,
    value: &Value<'_>,
    settings: &mut Settings,
) -> Result<(), Wrong> {
    match key.get_ref().as_ref() {
        "endpoint" => settings.endpoint = text(value)?,
        "controller-endpoint" => settings.controller_endpoint = Some(text(value)?),
        "case-limit" => settings.case_limit = parsed(value, duration::parse)?,
        "params" => settings.parameters = map(value)?,
        "mutable-params" => settings.mutable_parameters = map(value)?,
        "snapshot-params" => settings.snapshot_parameters = map(value)?,
        "group-snapshot-params" => settings.group_snapshot_parameters = map(value)?,
        "secrets-file" => settings.secrets_file = Some(text(value)?),
        "cap" => settings.capabilities = list(value, |one| parsed(one, capability::parse))?,
        "volume-size" => {
            settings.volume_size = match value.get_ref() {
                DeValue::Integer(_) => number(value)?,
                _ => parsed(value, size::parse)?,
            }
        }
        "volume-id" => settings.volume_id = Some(text(value)?),
        "mount-parent" => settings.mount_parent = Some(text(value)?.into()),
        "staging-parent" => settings.staging_parent = Some(text(value)?.into()),
        "paths" => settings.paths = Some(truth(value)?),
        "node-id" => settings.node_id = Some(text(value)?),
        "other-node-id" => settings.other_node_id = Some(text(value)?),
        "restart-command" => settings.restart_command = Some(text(value)?),
        "restart-between-steps" => {
            settings.restart_between_steps = match value.get_ref() {
                DeValue::Boolean(every) => u64::from(*every),
                _ => number(value)?,
            }
        }
        "read-only" => settings.read_only = truth(value)?,
        "filter" => settings.filter = list(value, text)?,
        "jobs" => settings.jobs = number(value)?,
        "seed" => settings.seed = Some(number(value)?),
        "shuffle" => settings.shuffle = truth(value)?,
        "fail-fast" => settings.fail_fast = truth(value)?,
        "strict" => settings.strict = truth(value)?,
        _ => {
            let problem = format!("no such key; the keys are {}", KEYS.join(", "));
            return Err(Wrong::new(key, problem));
        }
    }
    Ok(())
}

fn text(value: &Value<'_>) -> Result<String, Wrong> {
    match value.get_ref() {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err(Wrong::new(value, "must be text in quotes")),
    }
}

/// What the value of a flag means, written as text.
fn parsed<T, E: ToString>(
    value: &Value<'_>,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, Wrong> {
    parse(&text(value)?).map_err(|error| Wrong::new(value, error))
}

fn truth(value: &Value<'_>) -> Result<bool, Wrong> {
    match value.get_ref() {
        DeValue::Boolean(truth) => Ok(*truth),
        _ => Err(Wrong::new(value, "must be true or false")),
    }
}

fn number<N: TryFrom<i128>>(value: &Value<'_>) -> Result<N, Wrong> {
    let DeValue::Integer(number) = value.get_ref() else {
        return Err(Wrong::new(value, "must be a whole number"));
    };
    let parsed = i128::from_str_radix(number.as_str(), number.radix());
    let fits = parsed.ok().and_then(|number| N::try_from(number).ok());
    fits.ok_or_else(|| Wrong::new(value, format!("{} is out of range", number.as_str())))
}

/// A list, or the only entry of one.
fn list<T>(
    value: &Value<'_>,
    entry: impl Fn(&Value<'_>) -> Result<T, Wrong>,
) -> Result<Vec<T>, Wrong> {
    match value.get_ref() {
        DeValue::Array(values) => values.iter().map(entry).collect(),
        DeValue::String(_) => Ok(vec![entry(value)?]),
        _ => Err(Wrong::new(value, "must be a list of texts in quotes")),
    }
}

fn map(value: &Value<'_>) -> Result<BTreeMap<String, String>, Wrong> {
    let DeValue::Table(table) = value.get_ref() else {
        let problem = "must be a table, such as { server = \"10.0.0.4\" }";
        return Err(Wrong::new(value, problem));
    };
    let pairs = table.iter().map(|(key, value)| {
        let value = text(value).map_err(|wrong| Wrong {
            problem: format!("{}: {}", key.get_ref(), wrong.problem),
            ..wrong
        })?;
        Ok((key.get_ref().to_string(), value))
    });
    pairs.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str) -> Result<Settings, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sanity.toml");
        fs::write(&path, text).unwrap();
        let mut settings = Settings::of("");
        let shown = |error: ConfigError| {
            error
                .to_string()
                .replace(&format!("{}", path.display()), "F")
        };
        read(&path, &mut settings).map_err(shown)?;
        Ok(settings)
    }

    #[test]
    fn every_key_is_understood() {
        let text = "
            endpoint = '/csi.sock'\ncontroller-endpoint = 'tcp://h:1'\ncase-limit = '1m'
            params = { server = 'h' }\nmutable-params = { a = 'b' }\nsnapshot-params = {}\ngroup-snapshot-params = {}
            secrets-file = 's'\ncap = ['5,mount', '1,block']\nvolume-size = '2Gi'\nvolume-id = 'v'
            mount-parent = '/m'\nstaging-parent = '/s'\npaths = false\nnode-id = 'n'\nother-node-id = 'o'
            restart-command = 'r'\nrestart-between-steps = 3\nread-only = true\nfilter = ['a', '!b']\njobs = 3\nseed = 0x10\nshuffle = true
            fail-fast = true\nstrict = true\n";
        for key in KEYS {
            assert!(text.contains(&format!("{key} =")), "{key} is not tried");
        }
        let read = settings(text).unwrap();
        assert_eq!(read.endpoint, "/csi.sock");
        assert_eq!(read.parameters["server"], "h");
        assert_eq!(read.capabilities.len(), 2);
        assert_eq!(
            (read.volume_size, read.jobs, read.seed),
            (2 << 30, 3, Some(16))
        );
        assert_eq!(read.restart_between_steps, 3);
        assert!(read.read_only && read.strict && read.paths == Some(false));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        for (text, expected) in [
            (
                "jobs = 1\nparam = {}",
                "F:2: param: no such key; the keys are endpoint, ",
            ),
            ("jobs = -1", "F:1: jobs: -1 is out of range"),
            ("jobs = 'x'", "F:1: jobs: must be a whole number"),
            ("params = 'x'", "F:1: params: must be a table"),
            (
                "[params]\nport = 1",
                "F:2: params: port: must be text in quotes",
            ),
            (
                "cap = [\n  '1,mount',\n  '9']",
                "F:3: cap: the capability has no access type",
            ),
            ("case-limit = 'soon'", "F:1: case-limit: "),
            ("\na = \nb = 1\n", "F:2: string values must be quoted"),
            ("\njobs 1\n", "F:2: key with no value, expected `=`"),
            (
                "jobs = 1\n[params\nport = '1'",
                "F:2: unclosed table, expected `]`",
            ),
            ("jobs = 1\njobs = 2\n", "F:2: duplicate key"),
            (
                "node-id = 'x\njobs = 2\n",
                "F:1: invalid literal string, expected `'`",
            ),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
            assert!(!error.contains('\n'), "{error}");
        }
    }
}
