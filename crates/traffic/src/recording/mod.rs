//! Recordings of calls: `csi proxy --record` writes them, `csi replay` reads them.
//!
//! A recording is lines of JSON: a header, then one line a call in the order in which they ended. Owns that format and what
//! may stand in it: secrets are masked here. Must not know how calls are carried or compared.

pub mod call;
pub mod drawn;
#[cfg(test)]
mod formats;
pub mod framing;
mod line;
mod read;
pub mod status;
mod write;

pub use csi_call::secrets::mask;
pub use csi_output::recorded::Recorded;
pub use line::{Hidden, Unknown, call_line, code_text, message_value, request_value};
pub use read::Recording;
pub use write::{Header, RecordError, Recorder, RecorderProgress, are_missing};

/// The version of the format. It changes when a reader of the former could misunderstand.
pub const VERSION: u64 = 1;

/// The member of a message's object that says why the message cannot be shown.
pub(crate) const HIDDEN: &str = "@hidden";
