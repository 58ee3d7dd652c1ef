//! The bytes of one regular file: cloned, copied by the kernel or the server, or streamed; holes stay holes. Must not care
//! for anything else of the file.

use super::course::Course;
use crate::files::crash_points;
use rustix::fs::{self, SeekFrom, Stat};
use rustix::io::{self, Errno};
use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

/// What one call copies at most, so that the end of the copy is heard in the middle of a file.
const CHUNK: u64 = 16 << 20;
/// The buffer of a stream. There is one a thread, when it is needed.
const BUFFER: usize = 128 << 10;
/// The unit in which a stream looks for holes.
const BLOCK: usize = 4096;

/// How a file's bytes got over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    /// Nothing was written: empty, or cloned, which is on the server's disk or in its journal.
    Settled,
    /// By writes, which may still be in memory.
    Written,
    /// The copy is over.
    Stopped,
    /// Its holes cannot be seen, and with those of others they are too many to be read.
    Unseen,
}

/// Copies the bytes of `source`, which `stat` describes, to the empty file `target`.
///
/// Only a clone is one moment of the file. Otherwise it is copied up to the size that it had at first, or to its end where
/// that comes earlier.
pub(super) fn copy(
    source: &OwnedFd,
    target: &OwnedFd,
    stat: &Stat,
    course: &Course<'_>,
    buffer: &mut Vec<u8>,
) -> io::Result<Way> {
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    if size == 0 {
        return Ok(Way::Settled);
    }
    if course.clone.load(Ordering::Relaxed) {
        match fs::ioctl_ficlone(target, source) {
            Ok(()) => return Ok(Way::Settled),
            // To clone takes more room for a moment than the content does, and the copy of a full volume has none to spare. A part
            // may be cloned by then.
            Err(Errno::NOSPC | Errno::DQUOT) => fs::ftruncate(target, 0)?,
            Err(Errno::OPNOTSUPP | Errno::NOTTY | Errno::XDEV | Errno::NOSYS) => {
                course.clone.store(false, Ordering::Relaxed);
            }
            // This file only: checksums off on btrfs, a swap file, a part that another file system holds.
            Err(_) => {}
        }
    }
    let mut stream = Stream {
        source,
        target,
        course,
        buffer,
        seek_holes: false,
        is_unseen: false,
    };
    let taken = u64::try_from(stat.st_blocks)
        .unwrap_or(0)
        .saturating_mul(512);
    let sparse = taken < size;
    let ended = if sparse {
        stream.segments(size, size - taken)?
    } else {
        stream.range(0, size)?
    };
    match ended {
        _ if stream.is_unseen => Ok(Way::Unseen),
        None => Ok(Way::Stopped),
        Some(end) => {
            if sparse {
                // A hole at the end has nothing to write.
                fs::ftruncate(target, end)?;
            }
            Ok(Way::Written)
        }
    }
}

struct Stream<'a> {
    source: &'a OwnedFd,
    target: &'a OwnedFd,
    course: &'a Course<'a>,
    buffer: &'a mut Vec<u8>,
    /// Whether zeros are to be left out, because the file has holes that cannot be asked for.
    seek_holes: bool,
    is_unseen: bool,
}

/// Where the copied part ends; nothing when the copy is over.
type End = io::Result<Option<u64>>;

impl Stream<'_> {
    /// Copies the parts that hold data, where `holes` bytes hold none. The result is the size that the target is to have.
    fn segments(&mut self, size: u64, holes: u64) -> End {
        let mut at = 0;
        while at < size {
            let start = match fs::seek(self.source, SeekFrom::Data(at)) {
                Ok(start) => start,
                // No data up to the end; the file may have been cut meanwhile.
                Err(Errno::NXIO) => break,
                Err(Errno::INVAL | Errno::OPNOTSUPP) => at,
                Err(error) => return Err(error),
            };
            if start >= size {
                break;
            }
            let end = fs::seek(self.source, SeekFrom::Hole(start)).unwrap_or(size);
            // NFS before 4.2 says that all of it is data.
            self.seek_holes = at == 0 && start == 0 && end >= size;
            if self.seek_holes && !self.course.may_read_holes(holes) {
                self.is_unseen = true;
                return Ok(None);
            }
            let end = end.clamp(start + 1, size);
            match self.range(start, end)? {
                None => return Ok(None),
                Some(reached) if reached < end => return Ok(Some(reached)),
                Some(_) => at = end,
            }
        }
        let now = u64::try_from(fs::fstat(self.source)?.st_size).unwrap_or(0);
        Ok(Some(size.min(now)))
    }

    /// Whether no further part is to be copied.
    fn is_over(&self, after_a_part: bool) -> bool {
        if after_a_part {
            // Whoever dies here dies at the end of the entry as well.
            let _ = crash_points::step("a part of a file is copied");
        }
        self.course.is_over()
    }

    /// Copies the bytes from `start` to `end`, or to the file's end. The result is where it ended.
    fn range(&mut self, start: u64, end: u64) -> End {
        let mut at = start;
        while at < end {
            if self.is_over(at > start) {
                return Ok(None);
            }
            if self.seek_holes || !self.course.copy_range.load(Ordering::Relaxed) {
                return self.stream(at, end);
            }
            let (mut from, mut to) = (at, at);
            let length = usize::try_from((end - at).min(CHUNK)).unwrap_or(usize::MAX);
            match fs::copy_file_range(
                self.source,
                Some(&mut from),
                self.target,
                Some(&mut to),
                length,
            ) {
                // The end, or a file system that says so when it means that it cannot.
                Ok(0) => return self.stream(at, end),
                Ok(copied) => at += copied as u64,
                Err(Errno::INTR) => {}
                Err(Errno::XDEV | Errno::OPNOTSUPP | Errno::NOSYS) => {
                    self.course.copy_range.store(false, Ordering::Relaxed);
                }
                Err(Errno::INVAL | Errno::PERM | Errno::TXTBSY | Errno::IO) => {
                    return self.stream(at, end);
                }
                Err(error) => return Err(error),
            }
        }
        Ok(Some(at))
    }

    fn stream(&mut self, start: u64, end: u64) -> End {
        self.buffer.resize(BUFFER, 0);
        let mut at = start;
        while at < end {
            if self.is_over(at > start) {
                return Ok(None);
            }
            let length = usize::try_from(end - at).unwrap_or(BUFFER).min(BUFFER);
            let read = match rustix::io::pread(self.source, &mut self.buffer[..length], at) {
                Ok(0) => break,
                Ok(read) => read,
                Err(Errno::INTR) => continue,
                Err(error) => return Err(error),
            };
            let data = &self.buffer[..read];
            if self.seek_holes {
                write_around_holes(self.target, data, at)?;
            } else {
                write_all(self.target, data, at)?;
            }
            at += read as u64;
        }
        Ok(Some(at))
    }
}

/// Writes `data` but for blocks of zeros: a file of them, however long, takes no room.
///
/// # Errors
/// Whatever pwrite(2) says.
pub fn write_around_holes(target: &OwnedFd, data: &[u8], at: u64) -> io::Result<()> {
    for (index, block) in data.chunks(BLOCK).enumerate() {
        if block.iter().any(|byte| *byte != 0) {
            write_all(target, block, at + (index * BLOCK) as u64)?;
        }
    }
    Ok(())
}

fn write_all(target: &OwnedFd, mut data: &[u8], mut at: u64) -> io::Result<()> {
    while !data.is_empty() {
        match rustix::io::pwrite(target, data, at) {
            Ok(0) => return Err(Errno::IO),
            Ok(written) => {
                data = &data[written..];
                at += written as u64;
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
