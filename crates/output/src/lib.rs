//! Prints replies and the results of tools: the only place that writes to stdout.
//!
//! One walk makes values of bytes (`csi_proto::value`); the formats here only arrange them. Nothing here connects, knows
//! clap, or chooses exit codes.

pub mod cell;
pub mod colour;
pub mod columns;
pub mod csc;
pub mod documents;
pub mod draft;
pub mod figure;
pub mod json;
pub mod jsonpath;
pub mod layout;
pub mod lines;
pub mod load;
pub mod page;
pub mod pager;
pub mod printer;
pub mod recorded;
pub mod redirected;
pub mod replayed;
mod reply;
pub mod shell_word;
pub mod stdout;
pub mod steps;
mod sum;
pub mod table;
pub mod terminal;
pub mod view;
mod yaml;

pub use printer::{End, Printer};
pub use reply::{AskedFormat, Format, FormatError, Options, OutputError, ShownReply};

use csi_error::Error;
use std::io::{self, Write};
use stdout::Stdout;

/// Stdout, for a [`Printer`] or steps.
pub fn stdout() -> impl Write {
    Stdout::buffered()
}

/// Writes what is not a reply: help, a completion script. A reader who went away ends nothing.
pub fn print(bytes: &[u8]) -> Result<(), Error> {
    let mut out = Stdout::lock();
    written(out.write_all(bytes).and_then(|()| out.flush()))
}

/// The result of writing to stdout. A reader who went away ends nothing: what the program does goes on.
pub fn written(result: io::Result<()>) -> Result<(), Error> {
    match result {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Error::because("stdout cannot be written", &error))
        }
        _ => Ok(()),
    }
}
