//! `csi man`: writes the manual pages into a folder. Packages make their pages with it.

mod environment;
mod help_text;
mod page;

use clap::{ArgMatches, Args, Command, ValueHint};
use csi_error::{Error, OrError};
use csi_invocation::parse::{self, with_flags};
use csi_invocation::{Defaults, Globals};
use page::pages;
use serde_json::json;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

#[derive(Args)]
struct ManFlags {
    /// The folder, such as /usr/share/man/man1
    #[arg(value_name = "DIR", value_hint = ValueHint::DirPath)]
    folder: PathBuf,
}

pub fn command() -> Command {
    Command::new("man")
        .about("Write the manual pages into a folder")
        .after_help("Example:\n  csi man ~/.local/share/man/man1")
        .defer(with_flags::<ManFlags>)
}

/// Writes a page for each command.
///
/// # Errors
/// When the folder is none, or cannot be written.
pub fn run(matches: &ArgMatches, globals: &Globals, defaults: &Defaults) -> Result<(), Error> {
    let folder = parse::flags::<ManFlags>(matches)?.folder;
    let json = globals.json_or_lines("it says how many pages it wrote")?;
    check(&folder)?;
    let pages = pages((defaults.program.tree)());
    for page in &pages {
        let path = folder.join(format!("{}.1", page.name));
        fs::write(&path, &page.text)
            .or_because(format_args!("{} cannot be written", path.display()))?;
    }
    let (count, folder) = (pages.len(), folder.display().to_string());
    let said = match json {
        true => json!({"pages": count, "folder": folder}).to_string(),
        false => {
            let folder = csi_proto::text::escaped(&folder);
            format!("{count} manual pages are in {folder}")
        }
    };
    csi_output::print(format!("{said}\n").as_bytes())
}

/// Refuses what is no folder.
fn check(folder: &Path) -> Result<(), Error> {
    let shown = folder.display();
    match fs::metadata(folder) {
        Ok(found) if found.is_dir() => Ok(()),
        Ok(_) => Err(Error::usage(format!("{shown} is no folder"))),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            Err(Error::usage(format!("{shown} does not exist"))
                .hint(format!("mkdir -p {shown} makes it")))
        }
        Err(error) => Err(Error::because(
            format!("{shown} cannot be looked at"),
            &error,
        )),
    }
}
