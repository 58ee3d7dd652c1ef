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
use crate::arguments::{capability, duration, size};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use thiserror::Error;
use toml::de::{DeTable, DeValue};

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
    #[error("{file}: {problem}")]
    Syntax {
        /// The file.
        file: String,
        /// Where, and what is wrong.
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
        problem: error.to_string().trim_end().to_owned(),
    })?;
    for (key, value) in table.get_ref() {
        apply(key.get_ref(), value.get_ref(), settings).map_err(|problem| {
            let before = text.get(..key.span().start).unwrap_or_default();
            ConfigError::Value {
                file: file.clone(),
                line: before.matches('\n').count() + 1,
                key: key.get_ref().to_string(),
                problem,
            }
        })?;
    }
    Ok(())
}

fn apply(key: &str, value: &DeValue<'_>, settings: &mut Settings) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| error.to_string();
    match key {
        "endpoint" => settings.endpoint = text(value)?,
        "controller-endpoint" => settings.controller_endpoint = Some(text(value)?),
        "case-limit" => {
            settings.case_limit = duration::parse(&text(value)?).map_err(|error| said(&error))?;
        }
        "params" => settings.parameters = map(value)?,
        "mutable-params" => settings.mutable_parameters = map(value)?,
        "snapshot-params" => settings.snapshot_parameters = map(value)?,
        "group-snapshot-params" => settings.group_snapshot_parameters = map(value)?,
        "secrets-file" => settings.secrets_file = Some(text(value)?),
        "cap" => {
            let parsed = list(value)?.into_iter().map(|one| capability::parse(&one));
            let parsed: Result<Vec<_>, _> = parsed.collect();
            settings.capabilities = parsed.map_err(|error| said(&error))?;
        }
        "volume-size" => {
            settings.volume_size = match value {
                DeValue::Integer(_) => number(value)?,
                _ => size::parse(&text(value)?).map_err(|error| said(&error))?,
            }
        }
        "volume-id" => settings.volume_id = Some(text(value)?),
        "mount-parent" => settings.mount_parent = Some(text(value)?.into()),
        "staging-parent" => settings.staging_parent = Some(text(value)?.into()),
        "paths" => settings.paths = Some(truth(value)?),
        "node-id" => settings.node_id = Some(text(value)?),
        "other-node-id" => settings.other_node_id = Some(text(value)?),
        "restart-command" => settings.restart_command = Some(text(value)?),
        "read-only" => settings.read_only = truth(value)?,
        "filter" => settings.filter = list(value)?,
        "jobs" => settings.jobs = number(value)?,
        "seed" => settings.seed = Some(number(value)?),
        "shuffle" => settings.shuffle = truth(value)?,
        "fail-fast" => settings.fail_fast = truth(value)?,
        "strict" => settings.strict = truth(value)?,
        _ => return Err(format!("no such key; the keys are {}", KEYS.join(", "))),
    }
    Ok(())
}

fn text(value: &DeValue<'_>) -> Result<String, String> {
    match value {
        DeValue::String(text) => Ok(text.to_string()),
        _ => Err("must be text in quotes".to_owned()),
    }
}

fn truth(value: &DeValue<'_>) -> Result<bool, String> {
    match value {
        DeValue::Boolean(truth) => Ok(*truth),
        _ => Err("must be true or false".to_owned()),
    }
}

fn number<N: TryFrom<i128>>(value: &DeValue<'_>) -> Result<N, String> {
    let DeValue::Integer(number) = value else {
        return Err("must be a whole number".to_owned());
    };
    let parsed = i128::from_str_radix(number.as_str(), number.radix());
    let fits = parsed.ok().and_then(|number| N::try_from(number).ok());
    fits.ok_or_else(|| format!("{} is out of range", number.as_str()))
}

fn list(value: &DeValue<'_>) -> Result<Vec<String>, String> {
    match value {
        DeValue::Array(values) => values.iter().map(|one| text(one.get_ref())).collect(),
        value => text(value)
            .map(|one| vec![one])
            .map_err(|_| "must be a list of texts in quotes".to_owned()),
    }
}

fn map(value: &DeValue<'_>) -> Result<BTreeMap<String, String>, String> {
    let DeValue::Table(table) = value else {
        return Err("must be a table, such as { server = \"10.0.0.4\" }".to_owned());
    };
    let pairs = table.iter().map(|(key, value)| {
        let value =
            text(value.get_ref()).map_err(|problem| format!("{}: {problem}", key.get_ref()))?;
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
            restart-command = 'r'\nread-only = true\nfilter = ['a', '!b']\njobs = 3\nseed = 0x10\nshuffle = true
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
                "F:1: params: port: must be text in quotes",
            ),
            ("cap = ['9']", "F:1: cap: the capability has no access type"),
            ("case-limit = 'soon'", "F:1: case-limit: "),
            ("a = \n", "F: TOML parse error at line 1"),
        ] {
            let error = settings(text).unwrap_err();
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
