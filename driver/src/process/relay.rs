//! `csi-nfs relay`: standard input and output as a connection to a driver's socket, the far end of an `exec:` or `pod:` endpoint of
//! `csi`. It copies bytes and knows nothing of what they say.

use csi_proto::socket_file::connect;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::{Errno, retry_on_intr};
use std::fs::File;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// How long a driver may take to have room for one more connection.
const PATIENCE: Duration = Duration::from_secs(5);

/// Copies standard input to the driver, and what the driver says to standard output, until the driver closes the connection or
/// nobody reads the output any more.
///
/// The end of the input is passed on, and the driver may still answer. The input is read by a thread that ends with the process,
/// because it may never end.
///
/// # Errors
/// When the driver cannot be reached, or the connection breaks.
pub fn relay(socket: &Path) -> io::Result<()> {
    let driver = Arc::new(connect(socket, PATIENCE)?);
    let (input, output) = (own(rustix::stdio::stdin())?, own(rustix::stdio::stdout())?);
    let upward = Arc::clone(&driver);
    std::thread::Builder::new().spawn(move || {
        // A driver that takes no more may still have something to say; the end of the other direction is what counts.
        let _ = copy(input, &*upward);
        let _ = upward.shutdown(Shutdown::Write);
    })?;
    let (reader, end) = (own(rustix::stdio::stdout())?, Arc::clone(&driver));
    std::thread::Builder::new().spawn(move || {
        // A driver that hangs writes nothing, and nobody else notices that there is no reader.
        let mut reader = [PollFd::new(&reader, PollFlags::empty())];
        if retry_on_intr(|| poll(&mut reader, None)).is_ok() {
            let _ = end.shutdown(Shutdown::Both);
        }
    })?;
    match copy(&*driver, output) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

/// The standard streams of the library keep what has no end of line back; a file does not.
fn own(stream: BorrowedFd<'_>) -> io::Result<File> {
    Ok(File::from(stream.as_fd().try_clone_to_owned()?))
}

fn copy(mut from: impl Read, mut to: impl Write) -> io::Result<()> {
    let mut chunk = vec![0; 64 << 10];
    loop {
        match from.read(&mut chunk) {
            Ok(0) => return Ok(()),
            Ok(count) => to.write_all(&chunk[..count])?,
            Err(error) if Errno::from_io_error(&error) == Some(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
