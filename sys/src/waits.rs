//! Waiting for a file that may stand still: stdin, a terminal, a FIFO that nobody opens. A signal that asks to stop ends it, and a
//! deadline where there is one.
//!
//! A read that blocks goes on after a signal, and so does open(2) of a FIFO. Hence nothing here blocks but poll(2), which sees the
//! signal too. A file on a disk is read as it is.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, OFlags, fcntl_getfl, fcntl_setfl, fstat};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use signal_hook::low_level::pipe::register;
use std::fs::{File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// The pause between two looks whether somebody reads a FIFO, of which the kernel tells nothing.
const AGAIN: Duration = Duration::from_millis(20);

/// The end of a pipe that has something to read once a signal has come.
static ASKED: OnceLock<OwnedFd> = OnceLock::new();

/// Whether a signal has ended a wait.
static CUT_SHORT: AtomicBool = AtomicBool::new(false);

/// Lets these signals end what waits here, from now on; a second call changes nothing.
pub fn end_by(signals: &[i32]) -> io::Result<()> {
    if ASKED.get().is_some() {
        return Ok(());
    }
    let (asked, writer) = pipe_with(PipeFlags::CLOEXEC | PipeFlags::NONBLOCK)?;
    // Before the handlers write: a signal that comes between is seen.
    let _ = ASKED.set(asked);
    for signal in signals {
        register(*signal, writer.try_clone()?)?;
    }
    Ok(())
}

/// Whether such a signal has come.
pub fn are_asked_to_end() -> bool {
    let Some(asked) = ASKED.get() else {
        return false;
    };
    let mut one = [PollFd::new(asked, PollFlags::IN)];
    poll(&mut one, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
}

/// Forgets the signals that have come.
pub fn forget() {
    let mut bytes = [0; 64];
    while let Some(asked) = ASKED.get()
        && rustix::io::read(asked, &mut bytes).is_ok_and(|count| count > 0)
    {}
}

/// Whether a signal has ended a wait since the last time that somebody asked: then the failure that follows is the signal's doing.
pub fn were_cut_short() -> bool {
    CUT_SHORT.swap(false, Ordering::SeqCst)
}

/// Something to read that may stand still.
#[derive(Debug)]
pub struct Input<F> {
    file: F,
    stands_still: bool,
    deadline: Option<Instant>,
}

impl<F: AsFd> Input<F> {
    /// What is open already.
    pub fn of(file: F) -> Self {
        let found = fstat(&file).map(|stat| FileType::from_raw_mode(stat.st_mode));
        Self {
            file,
            stands_still: found != Ok(FileType::RegularFile),
            deadline: None,
        }
    }

    /// The same, which is waited for until then.
    pub fn until(mut self, deadline: Option<Instant>) -> Self {
        self.deadline = deadline;
        self
    }
}

impl<F: AsFd> Read for Input<F> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            if self.stands_still {
                wait(Some(self.file.as_fd()), self.deadline)?;
            }
            match rustix::io::read(&self.file, &mut *buffer) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                read => return read.map_err(io::Error::from),
            }
        }
    }
}

/// Opens a file for reading, at once.
///
/// # Errors
/// As open(2).
pub fn open(path: &Path) -> io::Result<Input<File>> {
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(libc::O_NONBLOCK);
    options.open(path).map(Input::of)
}

/// Stdin, for those who read it in this process: one buffer for all.
pub fn stdin() -> MutexGuard<'static, BufReader<Input<BorrowedFd<'static>>>> {
    static STDIN: LazyLock<Mutex<BufReader<Input<BorrowedFd<'static>>>>> =
        LazyLock::new(|| Mutex::new(BufReader::new(Input::of(rustix::stdio::stdin()))));
    STDIN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Opens a file for writing, once somebody reads it where it is a FIFO.
///
/// # Errors
/// As open(2); when a signal comes first.
pub fn open_for_writing(options: &OpenOptions, path: &Path) -> io::Result<File> {
    let mut at_once = options.clone();
    at_once.custom_flags(libc::O_NONBLOCK);
    loop {
        let error = match at_once.open(path) {
            Ok(file) => {
                let flags = fcntl_getfl(&file)?;
                fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
                return Ok(file);
            }
            Err(error) => error,
        };
        let nobody_reads = error.raw_os_error() == Some(libc::ENXIO);
        if !nobody_reads || !path.metadata()?.file_type().is_fifo() {
            return Err(error);
        }
        match wait(None, Some(Instant::now() + AGAIN)) {
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {}
            waited => waited?,
        }
    }
}

/// Waits until the file can be read.
fn wait(file: Option<BorrowedFd<'_>>, deadline: Option<Instant>) -> io::Result<()> {
    let files = ASKED.get().map(AsFd::as_fd).into_iter().chain(file);
    let mut files: Vec<PollFd<'_>> = files
        .map(|file| PollFd::from_borrowed_fd(file, PollFlags::IN))
        .collect();
    loop {
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        // A time that the system cannot tell is for ever.
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        match poll(&mut files, left.as_ref()) {
            Err(Errno::INTR) => continue,
            Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
            polled => polled?,
        };
        let is_asked = ASKED.get().is_some() && files.first().is_some_and(is_ready);
        if is_asked {
            CUT_SHORT.store(true, Ordering::SeqCst);
            return Err(Errno::CANCELED.into());
        }
        return Ok(());
    }
}

fn is_ready(file: &PollFd<'_>) -> bool {
    !file.revents().is_empty()
}
