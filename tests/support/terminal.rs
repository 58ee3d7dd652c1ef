//! A terminal of a test: a program on one end, a person who types on the other.

use crate::support::patience::{PATIENCE, until_changed};
use crate::support::process::ends_within;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, open};
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{Pid, Signal, kill_process_group};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{LocalModes, Winsize, tcgetattr, tcsetwinsize};
use std::fs::File;
use std::io::{Read as _, Write as _};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// A running program with a terminal of its own. Dropping it kills the program and its children.
pub struct Terminal {
    /// The person's end, until it is hung up.
    person: Option<File>,
    /// Whoever reads the person's end stops when this is closed.
    hang_up: Option<OwnedFd>,
    child: Child,
    shown: Arc<(Mutex<Shown>, Condvar)>,
    columns: usize,
}

#[derive(Default)]
struct Shown {
    bytes: Vec<u8>,
    /// Where what nobody has waited for yet begins.
    read: usize,
    ended: bool,
}

impl Terminal {
    /// Starts `command` in a terminal of that many columns and rows.
    pub fn start(command: &Command, columns: u16, rows: u16) -> Self {
        let person = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)
            .expect("a terminal");
        grantpt(&person).expect("granted");
        unlockpt(&person).expect("unlocked");
        let name = ptsname(&person, Vec::new()).expect("named");
        let flags = OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC;
        let program = File::from(open(name.as_c_str(), flags, Mode::empty()).expect("opened"));
        let size = Winsize {
            ws_row: rows,
            ws_col: columns,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        tcsetwinsize(&program, size).expect("a size");
        let end = || Stdio::from(program.try_clone().expect("a file"));
        // setsid makes the terminal the one that Ctrl-C and /dev/tty belong to.
        let mut in_session = Command::new("setsid");
        in_session.arg("--ctty").arg(command.get_program());
        in_session.args(command.get_args()).env_clear();
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                in_session.env(name, value);
            }
        }
        if let Some(folder) = command.get_current_dir() {
            in_session.current_dir(folder);
        }
        let child = in_session.stdin(end()).stdout(end()).stderr(end()).spawn();
        let child = child.expect("setsid, of Debian's util-linux");
        let person = File::from(person);
        let shown: Arc<(Mutex<Shown>, Condvar)> = Arc::default();
        let (hung_up, hang_up) = pipe_with(PipeFlags::CLOEXEC).expect("a pipe");
        std::thread::spawn({
            let (shown, mut output) = (shown.clone(), person.try_clone().expect("a file"));
            move || {
                let mut buffer = [0; 4096];
                loop {
                    let mut ends = [
                        PollFd::new(&output, PollFlags::IN),
                        PollFd::new(&hung_up, PollFlags::IN),
                    ];
                    let _ = poll(&mut ends, None);
                    let is_hung_up = !ends[1].revents().is_empty();
                    // A terminal whose program has ended answers with an error.
                    let count = match is_hung_up {
                        true => 0,
                        false => output.read(&mut buffer).unwrap_or(0),
                    };
                    let (state, changed) = &*shown;
                    let mut state = state.lock().unwrap_or_else(PoisonError::into_inner);
                    state.bytes.extend_from_slice(&buffer[..count]);
                    state.ended = count == 0;
                    changed.notify_all();
                    if count == 0 {
                        return;
                    }
                }
            }
        });
        Self {
            person: Some(person),
            hang_up: Some(hang_up),
            child,
            shown,
            columns: usize::from(columns),
        }
    }

    /// Takes the terminal away, as when its window is closed.
    pub fn hang_up(&mut self) {
        drop(self.person.take());
        drop(self.hang_up.take());
    }

    /// Presses keys.
    pub fn press(&mut self, keys: &str) {
        let person = self.person.as_mut().expect("it is not hung up");
        person
            .write_all(keys.as_bytes())
            .expect("the program has not ended");
    }

    /// Waits until `text` is shown, after what was waited for before; returns all that was shown in between.
    #[track_caller]
    pub fn expect(&mut self, text: &str) -> String {
        let (state, changed) = &*self.shown;
        let state = state.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = until_changed(changed, state, |state| {
            plain(&state.bytes[state.read..], self.columns).contains(text) || state.ended
        });
        let new = plain(&state.bytes[state.read..], self.columns);
        let Some(at) = new.find(text) else {
            let all = plain(&state.bytes, self.columns);
            drop(state);
            panic!("{text:?} was never shown; since the last wait:\n{new}\n=== all:\n{all}");
        };
        // What follows belongs to the next wait: the shortest piece of bytes that shows the text ends here.
        let end = (state.read + 1..=state.bytes.len())
            .find(|end| plain(&state.bytes[state.read..*end], self.columns).contains(text));
        state.read = end.unwrap_or(state.bytes.len());
        new[..at].to_owned()
    }

    /// Types a line, and waits until each of these texts is shown, one after the other.
    #[track_caller]
    pub fn enter<const N: usize>(&mut self, line: &str, shown: [&str; N]) {
        self.press(&format!("{line}\r"));
        for text in shown {
            self.expect(text);
        }
    }

    /// Everything shown so far.
    pub fn all(&self) -> String {
        let state = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        plain(&state.bytes, self.columns)
    }

    /// Everything shown so far, with the sequences that colour it.
    pub fn raw(&self) -> String {
        let state = self.shown.0.lock().unwrap_or_else(PoisonError::into_inner);
        String::from_utf8_lossy(&state.bytes).into_owned()
    }

    /// How the terminal treats what is typed.
    pub fn modes(&self) -> LocalModes {
        let person = self.person.as_ref().expect("not hung up");
        tcgetattr(person).expect("modes").local_modes
    }

    /// Sends a signal to the program.
    pub fn signal(&self, signal: rustix::process::Signal) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
    }

    /// Waits until the program ends by itself.
    #[track_caller]
    pub fn ends(&mut self) -> ExitStatus {
        let has_ended =
            self.child.try_wait().expect("a child").is_some() || ends_within(&self.child, PATIENCE);
        assert!(has_ended, "still running:\n{}", self.all());
        self.child.wait().expect("a child")
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What a terminal of so many columns writes, without the sequences that move its cursor and colour its letters. As many blanks as it
/// has columns, which are taken away again, are the beginning of a line.
fn plain(bytes: &[u8], columns: usize) -> String {
    let text = String::from_utf8_lossy(bytes);
    let blanks = format!("{:columns$}\r\x1b[K", "");
    let text = text.replace(&format!("\n{blanks}"), "\n");
    let text = text.replace(&blanks, "\n");
    let mut out = String::new();
    let mut letters = text.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '\x1b' => match letters.next() {
                // A control sequence ends with its first letter.
                Some('[') => while letters.next().is_some_and(|c| !('@'..='~').contains(&c)) {},
                // A command to the terminal ends with a bell or an escape.
                Some(']') => while letters.next().is_some_and(|c| c != '\x07' && c != '\x1b') {},
                // The choice of a character set has one letter more.
                Some('(' | ')') => drop(letters.next()),
                _ => {}
            },
            '\r' => {}
            letter => out.push(letter),
        }
    }
    out
}
