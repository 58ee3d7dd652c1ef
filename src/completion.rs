//! Completion in shells: their scripts ask this program itself, with the words typed so far, what could come next.
//!
//! The only file that knows `clap_complete`, whose engine is not stable yet and therefore pinned.

use crate::cli;
use clap::ValueEnum;
use clap_complete::CompleteEnv;
use clap_complete::env::{Bash, EnvCompleter, Fish, Powershell, Zsh};
use std::ffi::OsString;
use std::io;

/// The variable by which a script says that it asks for completions, and for which shell.
const VARIABLE: &str = "COMPLETE";

/// A shell that has a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Shell {
    /// For `source <(csi completions bash)`
    Bash,
    /// For a file named _csi in a folder of $fpath
    Zsh,
    /// For ~/.config/fish/completions/csi.fish
    Fish,
    /// For $PROFILE
    Powershell,
}

impl Shell {
    fn completer(self) -> &'static dyn EnvCompleter {
        match self {
            Self::Bash => &Bash,
            Self::Zsh => &Zsh,
            Self::Fish => &Fish,
            Self::Powershell => &Powershell,
        }
    }
}

/// The script that makes `shell` complete the command `name`.
///
/// # Errors
/// Never: a vector takes every byte.
pub fn script(shell: Shell, name: &str) -> io::Result<Vec<u8>> {
    let mut script = Vec::new();
    let identifier = name.replace('-', "_");
    shell
        .completer()
        .write_registration(VARIABLE, &identifier, name, name, &mut script)?;
    Ok(script)
}

/// Whether a script asked, and so was answered on stdout. Where there is no answer nothing is printed: a completion that
/// fails must not disturb the line that is being typed.
pub fn answer(arguments: &[OsString], name: &'static str) -> bool {
    if std::env::var_os(VARIABLE).is_none() {
        return false;
    }
    let folder = std::env::current_dir().ok();
    CompleteEnv::with_factory(|| cli::command(name))
        .try_complete(arguments.to_vec(), folder.as_deref())
        .unwrap_or(true)
}
