//! Asks for secrets on the terminal, without echo.
//!
//! The terminal's echo comes back whatever happens. To that end its signal keys are read as characters meanwhile: Ctrl-C
//! ends the prompt with an error instead of killing the process with the echo off. So does a signal, for those who call
//! `csi_sys::waits::end_by` before.

use super::Secrets;
use csi_sys::waits::{self, Input};
use rustix::termios::{
    LocalModes, OptionalActions, QueueSelector, SpecialCodeIndex, Termios, tcflush, tcgetattr,
    tcsetattr,
};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read, Write};
use thiserror::Error;

/// Secrets that were not typed.
#[derive(Debug, Error)]
pub enum PromptError {
    /// There is no terminal to ask on.
    #[error(
        "there is no terminal to ask for secrets on ({0}): use --secrets-file or X_CSI_SECRETS"
    )]
    NoTerminal(io::Error),
    /// The terminal failed or was closed.
    #[error("the terminal was closed while asking for secrets: {0}")]
    Terminal(io::Error),
    /// Ctrl-C, or a signal.
    #[error("interrupted")]
    Interrupted,
    /// The value that was typed for a key is not text.
    #[error("what was typed for {0:?} is not UTF-8 text")]
    NotText(String),
    /// A key without a letter, such as Ctrl-Z or an arrow: nobody sees that it would be a part of the secret.
    #[error(
        "a key without a letter was typed for {0:?}: secrets with such bytes come from --secrets-file"
    )]
    ControlKey(String),
    /// A key that cannot be one.
    #[error("{0}")]
    Key(&'static str),
}

/// The name of a secret to ask for.
///
/// # Errors
/// When it is empty, or holds an `=`: then the secret itself was probably put on the command line.
pub fn parse_key(text: &str) -> Result<String, PromptError> {
    match text.trim() {
        "" => Err(PromptError::Key(
            "the name of a secret is empty: write KEY[,KEY...]",
        )),
        key if key.contains('=') => Err(PromptError::Key(
            "write only the name of the secret; its value is asked for",
        )),
        key => Ok(key.to_owned()),
    }
}

/// Asks for the value of each key on the controlling terminal.
///
/// # Errors
/// When there is no terminal, or the user presses Ctrl-C or closes it.
pub fn prompt(keys: &[String]) -> Result<Secrets, PromptError> {
    let terminal = File::options()
        .read(true)
        .write(true)
        .open("/dev/tty")
        .map_err(PromptError::NoTerminal)?;
    ask(&terminal, keys)
}

fn ask(terminal: &File, keys: &[String]) -> Result<Secrets, PromptError> {
    let _silence = NoEcho::begin(terminal).map_err(PromptError::NoTerminal)?;
    let mut secrets = BTreeMap::new();
    for key in keys {
        let value = ask_one(terminal, key)?;
        secrets.insert(key.clone(), value);
    }
    Ok(Secrets(secrets))
}

fn ask_one(mut terminal: &File, key: &str) -> Result<String, PromptError> {
    write!(terminal, "{key}: ").map_err(PromptError::Terminal)?;
    let typed = read_line(terminal, key);
    // The newline that was not echoed.
    writeln!(terminal).map_err(PromptError::Terminal)?;
    String::from_utf8(typed?).map_err(|_| PromptError::NotText(key.to_owned()))
}

/// Edits a line as the terminal would: erase, kill line, end of input.
fn read_line(terminal: &File, key: &str) -> Result<Vec<u8>, PromptError> {
    let mut typed = Input::of(terminal);
    let mut line = Vec::new();
    loop {
        let mut byte = [0];
        if let Err(error) = typed.read_exact(&mut byte) {
            return Err(match waits::were_cut_short() {
                true => PromptError::Interrupted,
                false => PromptError::Terminal(error),
            });
        }
        match byte[0] {
            b'\n' | b'\r' => return Ok(line),
            0x03 => return Err(PromptError::Interrupted),
            // Ctrl-D ends the input where a line begins and means nothing elsewhere.
            0x04 if line.is_empty() => {
                return Err(PromptError::Terminal(io::ErrorKind::UnexpectedEof.into()));
            }
            0x04 => {}
            // A character's continuation bytes go with its first.
            0x08 | 0x7f => while line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {},
            0x15 => line.clear(),
            0..0x20 => {
                // The rest of the secret is no command for the shell.
                let _ = tcflush(terminal, QueueSelector::IFlush);
                return Err(PromptError::ControlKey(key.to_owned()));
            }
            other => line.push(other),
        }
    }
}

/// A terminal that shows nothing of what is typed, until it is dropped.
struct NoEcho<'a> {
    terminal: &'a File,
    before: Termios,
}

impl<'a> NoEcho<'a> {
    fn begin(terminal: &'a File) -> io::Result<Self> {
        let before = tcgetattr(terminal)?;
        let mut silent = before.clone();
        silent.local_modes -=
            LocalModes::ECHO | LocalModes::ECHONL | LocalModes::ICANON | LocalModes::ISIG;
        silent.special_codes[SpecialCodeIndex::VMIN] = 1;
        silent.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(terminal, OptionalActions::Drain, &silent)?;
        Ok(Self { terminal, before })
    }
}

impl Drop for NoEcho<'_> {
    fn drop(&mut self) {
        // Nothing can be done when the terminal is gone.
        let _ = tcsetattr(self.terminal, OptionalActions::Drain, &self.before);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{Mode, OFlags, open};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    use std::thread;

    /// The two ends of a new terminal: the one of the person, the one of the program.
    fn terminal() -> (File, File) {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&person).expect("granted");
        unlockpt(&person).expect("unlocked");
        let name = ptsname(&person, Vec::new()).expect("named");
        let program = open(
            name.as_c_str(),
            OFlags::RDWR | OFlags::NOCTTY,
            Mode::empty(),
        );
        (person.into(), program.expect("opened").into())
    }

    /// The result of a prompt for `keys` when someone types `typed`, and the screen meanwhile.
    fn run(keys: &[&str], typed: &'static [u8]) -> (Result<Secrets, PromptError>, String) {
        let (mut person, program) = terminal();
        let modes = |file: &File| tcgetattr(file).expect("modes").local_modes;
        let before = modes(&program);
        assert!(before.contains(LocalModes::ECHO));
        let first = format!("{}: ", keys[0]);
        let typist = thread::spawn(move || {
            let mut shown = vec![0; first.len()];
            // Typed only once the question is there: the echo is off by then.
            person.read_exact(&mut shown).expect("a question");
            person.write_all(typed).expect("typed");
            (person, shown)
        });
        let keys: Vec<String> = keys.iter().map(|key| (*key).to_owned()).collect();
        let answer = ask(&program, &keys);
        assert_eq!(modes(&program), before, "echo is back");
        let (mut person, mut shown) = typist.join().expect("typed");
        // The end of what the program wrote: the other end of a closed terminal answers with an error.
        drop(program);
        let _ = person.read_to_end(&mut shown);
        (answer, String::from_utf8_lossy(&shown).into_owned())
    }

    #[test]
    fn what_is_typed_is_not_shown() {
        let (answer, shown) = run(&["user", "password"], b"bob\nhunter2\n");
        let expected = [("user", "bob"), ("password", "hunter2")];
        let expected = expected.map(|(k, v)| (k.to_owned(), v.to_owned()));
        assert_eq!(*answer.expect("typed").reveal(), BTreeMap::from(expected));
        assert_eq!(shown, "user: \r\npassword: \r\n");
    }

    #[test]
    fn lines_can_be_edited() {
        let cases: [(&[u8], &str); 4] = [
            (b"ab\x7fc\n", "ac"),
            ("a\u{e9}\x08b\r".as_bytes(), "ab"),
            (b"wrong\x15right\n", "right"),
            (b"\x7fx\x04y\n", "xy"),
        ];
        for (typed, expected) in cases {
            let (answer, _) = run(&["k"], typed);
            assert_eq!(answer.expect("typed").reveal()["k"], expected);
        }
    }

    #[test]
    fn giving_up_brings_the_echo_back() {
        let (answer, _) = run(&["k"], b"hun\x03");
        assert!(matches!(answer, Err(PromptError::Interrupted)));
        let (answer, _) = run(&["k"], b"\x04");
        assert!(matches!(answer, Err(PromptError::Terminal(_))));
        let (answer, _) = run(&["k"], b"\xff\n");
        assert!(matches!(answer, Err(PromptError::NotText(_))));
        for typed in [b"hun\x1ater2\n".as_slice(), b"\x1b[A\n", b"h\tunter2\n"] {
            let (answer, _) = run(&["k"], typed);
            assert!(matches!(answer, Err(PromptError::ControlKey(_))));
        }
    }

    #[test]
    fn keys_are_names_alone() {
        assert_eq!(parse_key(" password ").expect("a key"), "password");
        let error = parse_key("password=hunter2").expect_err("a value");
        assert!(!error.to_string().contains("hunter2"));
        assert!(parse_key("").is_err());
    }
}
