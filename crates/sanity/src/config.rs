//! Reads a file of settings in TOML. Its keys are the names of the flags; maps are tables, lists are lists.
//!
//! ```toml
//! endpoint = "unix:///csi/csi.sock"
//! cap = ["SINGLE_NODE_WRITER,mount", "SINGLE_NODE_WRITER,block"]
//! volume-size = "1Gi"
//! [params]
//! server = "10.0.0.4"
//! ```

use super::Settings;
use csi_arguments::text::text_of;
use csi_arguments::toml::{self, TomlError};
use std::path::Path;

/// The settings that a file makes.
///
/// # Errors
/// When the file cannot be read, is not TOML, or has keys or values that mean nothing: where, and the problem.
pub fn read(path: &Path) -> Result<Settings, String> {
    let file = path.display();
    let text = text_of(path).map_err(|error| format!("{file}: {error}"))?;
    toml::parse(&text).map_err(|TomlError { line, problem }| format!("{file}:{line}: {problem}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Args as _, Command};
    use std::fs;

    fn settings(text: &str) -> Result<Settings, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sanity.toml");
        fs::write(&path, text).unwrap();
        let file = path.display().to_string();
        read(&path).map_err(|error| error.replace(&file, "F"))
    }

    #[test]
    fn every_key_is_understood() {
        let text = "
            endpoint = '/csi.sock'\ncontroller-endpoint = 'tcp://h:1'\ncase-limit = '1m'
            params = { server = 'h' }\nmutable-params = { a = 'b' }\nsnapshot-params = {}\ngroup-snapshot-params = {}
            secrets-file = 's'\ncap = ['5,mount', '1,block']\nvolume-size = '2Gi'\nvolume-id = 'v'
            mount-parent = '/m'\nstaging-parent = '/s'\npaths = false\nnode-id = 'n'\nother-node-id = 'o'
            restart-command = 'r'\nrestart-between-steps = 3\nread-only = true\nfilter = ['a', '!b']\njobs = 3\nseed = 0x10\nshuffle = true
            fail-fast = true\nstrict = true\nkeep-leftovers = true\n";
        let flags = Settings::augment_args(Command::new("sanity"));
        for flag in flags.get_arguments().filter_map(Arg::get_long) {
            assert!(text.contains(&format!("{flag} =")), "{flag} is not tried");
        }
        let read = settings(text).unwrap();
        assert_eq!(read.endpoint, "/csi.sock");
        assert_eq!(read.parameters["server"], "h");
        assert_eq!(read.capabilities.len(), 2);
        assert_eq!(
            (read.volume_size, read.jobs, read.seed),
            (Some(2 << 30), 3, Some(16))
        );
        assert_eq!(read.restart_between_steps, 3);
        assert!(read.read_only && read.strict && read.paths == Some(false));
    }

    #[test]
    fn values_have_the_forms_of_their_flags_too() {
        let read = settings(
            "cap = '5,mount'\nfilter = 'a'\nvolume-size = 4096\nrestart-between-steps = true\nseed = 18446744073709551615",
        )
        .unwrap();
        assert_eq!(read.capabilities.len(), 1);
        assert_eq!(read.filter, ["a"]);
        assert_eq!(read.volume_size, Some(4096));
        assert_eq!(read.restart_between_steps, 1);
        assert_eq!(read.seed, Some(u64::MAX));
        let none = settings("restart-between-steps = false").unwrap();
        assert_eq!(none.restart_between_steps, 0);
        assert_eq!((none.jobs, none.volume_size), (8, None));
    }

    #[test]
    fn what_is_wrong_is_said_with_its_line() {
        let mut wrong = Vec::new();
        for (text, expected) in [
            (
                "jobs = 1\nparam = {}",
                "F:2: no such key `param`; the keys are `endpoint`, ",
            ),
            (
                "jobs = -1",
                "F:1: jobs: invalid value: integer `-1`, expected a whole number from 0",
            ),
            (
                "jobs = 'x'",
                "F:1: jobs: invalid type: string \"x\", expected a whole number from 0",
            ),
            (
                "params = 'x'",
                "F:1: params: invalid type: string \"x\", expected a table, such as { ",
            ),
            (
                "[params]\nport = 1",
                "F:2: params.port: invalid type: integer `1`, expected text in quotes",
            ),
            (
                "cap = [\n  '1,mount',\n  '9']",
                "F:3: cap: the capability has no access type",
            ),
            (
                "cap = 5",
                "F:1: cap: invalid type: integer `5`, expected a list of texts in quotes",
            ),
            (
                "filter = [\n'a',\n1]",
                "F:3: filter: invalid type: integer `1`, expected text in quotes",
            ),
            (
                "case-limit = 'soon'",
                "F:1: case-limit: \"soon\" is not a duration",
            ),
            (
                "case-limit = 3",
                "F:1: case-limit: invalid type: integer `3`, expected text in quotes",
            ),
            (
                "volume-size = '1Q'",
                "F:1: volume-size: unit \"Q\" is unknown: use Ki",
            ),
            (
                "volume-size = true",
                "F:1: volume-size: must be a size such as \"10Gi\", or a number of bytes",
            ),
            (
                "restart-between-steps = -1",
                "F:1: restart-between-steps: must be a whole number from 0, or true or false",
            ),
            (
                "read-only = 1",
                "F:1: read-only: invalid type: integer `1`, expected true or false",
            ),
            (
                "mount-parent = 1",
                "F:1: mount-parent: invalid type: integer `1`, expected text in quotes",
            ),
            ("seed = 18446744073709551616", "F:1: seed: "),
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
            if !error.starts_with(expected) || error.contains('\n') {
                wrong.push(format!("{error}\n  instead of {expected}"));
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}
