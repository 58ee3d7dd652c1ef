//! The real `csi`, run as a person would, in an environment that holds nothing of the machine's.

use crate::support::PATIENCE;
use crate::support::process::Process;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// The binary that cargo built for these tests.
pub const BINARY: &str = env!("CARGO_BIN_EXE_csi");

/// `csi` with a home folder of its own. Everything that runs through one value shares that home.
pub struct Csi {
    home: TempDir,
    program: PathBuf,
    environment: Vec<(String, OsString)>,
    input: Vec<u8>,
    is_patient: bool,
}

/// What a finished run has left.
#[derive(Clone, Debug)]
pub struct Output {
    /// The command line, as a person would type it.
    pub command: String,
    /// The standard output.
    pub stdout: String,
    /// The standard error.
    pub stderr: String,
    /// The exit code; 128 and the signal's number when a signal ended it.
    pub code: i32,
}

impl Csi {
    /// `csi` with no endpoint.
    pub fn new() -> Self {
        Self {
            home: TempDir::new().expect("a temporary folder"),
            program: BINARY.into(),
            environment: Vec::new(),
            input: Vec::new(),
            is_patient: false,
        }
    }

    /// `csi` with `CSI_ENDPOINT` in its environment.
    pub fn at(endpoint: &str) -> Self {
        Self::new().env("CSI_ENDPOINT", endpoint)
    }

    /// The same, whose calls have an hour where no `--timeout` says otherwise: for drivers that a busy machine makes slow.
    pub fn patiently_at(endpoint: &str) -> Self {
        let is_patient = true;
        Self {
            is_patient,
            ..Self::at(endpoint)
        }
    }

    /// The same program under another name, such as `csc`.
    pub fn called(mut self, name: &str) -> Self {
        let link = self.home.path().join(name);
        std::os::unix::fs::symlink(BINARY, &link).expect("a new link");
        self.program = link;
        self
    }

    /// With one more variable in the environment.
    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Self {
        self.environment.push((name.into(), value.as_ref().into()));
        self
    }

    /// With text on its standard input, which is otherwise empty.
    pub fn input(mut self, text: impl Into<Vec<u8>>) -> Self {
        self.input = text.into();
        self
    }

    /// The home folder, which is also the working folder.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// Puts a file into the home folder and returns its path.
    pub fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.home().join(name);
        std::fs::write(&path, content).expect("a file in a new folder");
        path
    }

    /// Runs a command line; words are separated by blanks, and `'…'` keeps blanks in a word.
    pub fn run(&self, line: &str) -> Output {
        self.run_args(words(line))
    }

    /// Runs with these arguments.
    pub fn run_args<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> Output {
        let (process, command) = self.start(args);
        let ended = process
            .wait(PATIENCE)
            .unwrap_or_else(|so_far| panic!("$ {command}\n{so_far}"));
        Output {
            command,
            stdout: text("stdout", &ended.stdout),
            stderr: text("stderr", &ended.stderr),
            code: ended.code(),
        }
    }

    /// Starts a command line, as [`Csi::run`], and lets it run.
    pub fn spawn(&self, line: &str) -> Process {
        let mut command = self.command();
        command.args(words(line));
        let mut process = Process::start(&mut command);
        process.type_in(&self.input);
        process
    }

    fn start<A: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = A>) -> (Process, String) {
        let mut command = self.command();
        command.args(args);
        let mut shown = self.program.file_name().unwrap_or_default().to_os_string();
        for arg in command.get_args() {
            shown.push(" ");
            shown.push(quoted(arg));
        }
        if self.is_patient && !command.get_args().any(|arg| arg == "--timeout") {
            command.args(["--timeout", "60m"]);
        }
        let mut process = Process::start(&mut command);
        process.type_in(&self.input);
        (process, shown.to_string_lossy().into_owned())
    }

    /// The program in its environment, without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command
            .env_clear()
            .env(
                "PATH",
                "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            )
            .env("HOME", self.home())
            .env("XDG_CONFIG_HOME", self.home().join("config"))
            .env("XDG_STATE_HOME", self.home().join("state"))
            .env("XDG_CACHE_HOME", self.home().join("cache"))
            .env("XDG_DATA_HOME", self.home().join("data"))
            .env("XDG_RUNTIME_DIR", self.home())
            .env("TMPDIR", self.home())
            .env("LANG", "C.UTF-8")
            .env("RUST_BACKTRACE", "1")
            .envs(self.environment.iter().map(|(name, value)| (name, value)))
            .current_dir(self.home());
        command
    }
}

impl Output {
    /// Demands exit code 0.
    #[track_caller]
    pub fn succeeds(self) -> Self {
        self.exits(0)
    }

    /// Demands an exit code.
    #[track_caller]
    pub fn exits(self, code: i32) -> Self {
        assert_eq!(self.code, code, "\n{self}");
        self
    }

    /// Demands the whole standard output.
    #[track_caller]
    pub fn prints(self, stdout: &str) -> Self {
        assert_eq!(self.stdout, stdout, "\n{self}");
        self
    }

    /// Demands a part of the standard error.
    #[track_caller]
    pub fn says(self, part: &str) -> Self {
        assert!(self.stderr.contains(part), "not said: {part:?}\n{self}");
        self
    }

    /// The standard output as one JSON value.
    #[track_caller]
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}\n{self}"))
    }

    /// The standard output without its last newline, for a command that prints one value.
    pub fn value(&self) -> &str {
        self.stdout.trim_end_matches('\n')
    }
}

impl fmt::Display for Output {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "$ {}", self.command)?;
        write!(f, "{}", self.stdout)?;
        for line in self.stderr.lines() {
            writeln!(f, "! {line}")?;
        }
        if self.code != 0 {
            writeln!(f, "[exit code {}]", self.code)?;
        }
        Ok(())
    }
}

fn text(stream: &str, bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec())
        .unwrap_or_else(|error| panic!("{stream} is not UTF-8: {error}"))
}

fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut within_quotes = false;
    for c in line.chars() {
        match c {
            '\'' => {
                within_quotes = !within_quotes;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !within_quotes => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    assert!(!within_quotes, "a quote is not closed: {line}");
    words.extend(word);
    words
}

fn quoted(arg: &OsStr) -> String {
    let arg = arg.to_string_lossy();
    if arg.is_empty() || arg.contains(|c: char| c.is_whitespace() || "'\"{}$;&|<>*?".contains(c)) {
        format!("'{arg}'")
    } else {
        arg.into_owned()
    }
}
