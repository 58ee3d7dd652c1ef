//! Notes of a tool that serves, on stderr: a reader who does not read them holds up no call, and not the end of the tool.

use csi_proto::line_queue::LineQueue;
use std::time::Duration;

/// The notes of this process.
static NOTES: LineQueue = LineQueue::new();

/// How long the end waits for a reader who takes no note.
const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// Tells `text`, which is one line, soon; not at all, when too many wait already.
pub fn tell(text: &str) {
    NOTES.start(std::io::stderr(), |dropped| {
        format!("note: {dropped} notes are missing: stderr was not read\n")
    });
    NOTES.add(&format!("{text}\n"));
}

/// Waits until all is written, or the reader has taken nothing for a while.
pub fn flush() {
    NOTES.flush(FLUSH_PATIENCE);
}
