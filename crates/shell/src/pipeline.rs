//! Sends a command's output to a file or a program: `> FILE`, `| PROGRAM`.

use csi_error::{Error, OrError};
use csi_output::redirected::Redirected;
use csi_output::stdout;
use csi_sys::waits;
use rustix::fd::OwnedFd;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open};
use std::fs::File;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

/// The programs that read a command's output, while it runs.
pub(crate) struct Pipeline {
    redirected: Option<Redirected>,
    programs: Vec<(String, Child)>,
}

impl Pipeline {
    /// Leads stdout to the first of `programs`, each one's output to the next, and the last one's to `file`, which is kept
    /// when the flag beside it says so.
    ///
    /// # Errors
    /// When the file cannot be written or a program not be started.
    pub fn start(programs: &[Vec<String>], file: Option<(String, bool)>) -> Result<Self, Error> {
        let mut pipeline = Self {
            redirected: None,
            programs: Vec::new(),
        };
        let file = file.map(|(name, append)| open(&name, append));
        let mut file = file.transpose()?.map(OwnedFd::from);
        let (mut first, mut before) = (None, None);
        for (index, words) in programs.iter().enumerate() {
            let Some((name, arguments)) = words.split_first() else {
                continue;
            };
            let output = match index + 1 < programs.len() {
                true => Stdio::piped(),
                false => file.take().map_or_else(Stdio::inherit, Stdio::from),
            };
            let mut child = Command::new(name)
                .args(arguments)
                .stdin(before.take().map_or_else(Stdio::piped, Stdio::from))
                .stdout(output)
                .spawn()
                .or_because(format_args!("{name} cannot be started"))?;
            first = first.or(child.stdin.take().map(OwnedFd::from));
            before = child.stdout.take();
            pipeline.programs.push((name.clone(), child));
        }
        let target = first.or(file);
        let redirected = target.map(Redirected::to).transpose();
        pipeline.redirected = redirected.or_because("the output cannot be redirected")?;
        Ok(pipeline)
    }

    /// The programs, for signals.
    pub(crate) fn handles(&self) -> Vec<OwnedFd> {
        let programs = self.programs.iter();
        let opened =
            programs.map(|(_, child)| pidfd_open(Pid::from_child(child), PidfdFlags::empty()));
        opened.filter_map(Result::ok).collect()
    }

    /// Ends the input of the programs and waits until they are done.
    ///
    /// # Errors
    /// When the last of them failed. One that died since nobody reads this program's own stdout ends nothing: a script goes on.
    pub fn finish(mut self) -> Result<(), Error> {
        self.redirected = None;
        let mut last = None;
        for (name, child) in &mut self.programs {
            let status = child.wait().or_because(format_args!("{name} was lost"))?;
            last = Some((name, status));
        }
        match last {
            Some((_, status)) if status.signal() == Some(Signal::PIPE.as_raw()) => {
                stdout::set_reader_gone(true);
                Ok(())
            }
            Some((name, status)) if !status.success() => {
                Err(Error::local(format!("{name}: {status}")))
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // Without its input each ends by itself.
        self.redirected = None;
    }
}

fn open(name: &str, append: bool) -> Result<File, Error> {
    let path = match (name.strip_prefix("~/"), std::env::home_dir()) {
        (Some(rest), Some(home)) => home.join(rest),
        _ => PathBuf::from(name),
    };
    let mut options = File::options();
    options
        .create(true)
        .write(true)
        .append(append)
        .truncate(!append);
    let opened = waits::open_for_writing(&options, &path);
    opened.or_because(format_args!("{} cannot be written", path.display()))
}
