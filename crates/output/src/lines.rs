//! Lines that a thread of its own formats and writes: a slow reader, or a slow disk, never delays the calls that the lines
//! report.

use super::stdout::SharedStdout;
use csi_error::note;
use csi_proto::lock;
use csi_proto::lock::ROUNDS;
use std::io::{self, ErrorKind, Write};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How many items may wait for a reader that is slow.
const WAITING_MAX: usize = 4096;

/// How many bytes those items may hold together. One that is larger alone may wait all the same.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// The number of bytes that are written at once.
const BATCH: usize = 64 << 10;

/// How long the end waits for a reader who takes nothing, [`ROUNDS`] times.
pub const FLUSH_PATIENCE: Duration = Duration::from_secs(1);

/// How long the thread rests after it has written. Whoever shows something while it rests need not wake it, which would
/// cost more than the rest.
const REST: Duration = Duration::from_millis(5);

/// What a thread does that others wait for.
#[derive(Debug, Default)]
pub struct Work {
    is_composing: AtomicBool,
    steps: AtomicU64,
}

impl Work {
    /// Puts something into text, which may be large: nobody has stopped reading meanwhile.
    pub fn compose<T>(&self, compose: impl FnOnce() -> T) -> T {
        self.is_composing.store(true, Ordering::Relaxed);
        let composed = compose();
        self.is_composing.store(false, Ordering::Relaxed);
        self.step();
        composed
    }

    /// Notes that something was done.
    pub fn step(&self) {
        self.steps.fetch_add(1, Ordering::Relaxed);
    }

    /// Tells whether the thread is at work: it composes, or has made a step since that was last asked.
    pub fn watch(&self) -> impl FnMut() -> bool {
        let steps = || self.steps.load(Ordering::Relaxed);
        let mut seen = steps();
        move || {
            let before = std::mem::replace(&mut seen, steps());
            before != seen || self.is_composing.load(Ordering::Relaxed)
        }
    }
}

/// What those who show and the thread that writes know together.
#[derive(Default)]
struct Shared {
    /// The bytes of the waiting items.
    waiting: AtomicUsize,
    /// The items that were taken and are not written.
    unwritten: AtomicU64,
    /// The items that found no room since one was last put into text.
    lost: AtomicU64,
    work: Work,
    /// Whether nothing can be written any more.
    has_failed: AtomicBool,
}

/// Sends items to the thread that writes. Dropping it writes the waiting items.
pub struct Lines<T> {
    sender: SyncSender<(T, usize)>,
    /// Hears of what was written, and of the thread's end, until the end was waited for.
    progress: Mutex<Option<Receiver<()>>>,
    shared: Arc<Shared>,
}

impl<T: Send + 'static> Lines<T> {
    /// Starts a thread that puts each item into text by `format` and writes it to stdout. `format` is told how many items
    /// before this one found no room.
    ///
    /// # Errors
    /// When the system has no thread.
    pub fn start(format: impl FnMut(&T, u64, &mut Vec<u8>) + Send + 'static) -> io::Result<Self> {
        Self::start_on(SharedStdout, format)
    }

    /// As [`Lines::start`], to another place than stdout.
    ///
    /// # Errors
    /// When the system has no thread.
    pub fn start_on(
        out: impl Write + Send + 'static,
        format: impl FnMut(&T, u64, &mut Vec<u8>) + Send + 'static,
    ) -> io::Result<Self> {
        let (sender, receiver) = sync_channel(WAITING_MAX);
        let (written, progress) = sync_channel(1);
        let shared = Arc::new(Shared::default());
        let of_thread = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || {
                // Whoever waits for the end hears of it when this is known.
                match of_thread.write(&receiver, out, format, &written) {
                    // A reader that went away is no reason to end what is shown, nor a failure.
                    Err(error) if error.kind() != ErrorKind::BrokenPipe => {
                        of_thread.has_failed.store(true, Ordering::Relaxed);
                        note!(
                            "warning: stdout cannot be written ({error}): nothing is shown any more"
                        );
                    }
                    _ => {}
                }
            })?;
        Ok(Self {
            sender,
            progress: Mutex::new(Some(progress)),
            shared,
        })
    }

    /// Shows an item of so many bytes soon; not at all, when too many wait already.
    pub fn show(&self, item: T, bytes: usize) {
        let shared = &*self.shared;
        let waiting = shared.waiting.fetch_add(bytes, Ordering::Relaxed);
        shared.unwritten.fetch_add(1, Ordering::Relaxed);
        let has_room = waiting == 0 || waiting.saturating_add(bytes) <= WAITING_BYTES_MAX;
        if !has_room || self.sender.try_send((item, bytes)).is_err() {
            shared.waiting.fetch_sub(bytes, Ordering::Relaxed);
            shared.unwritten.fetch_sub(1, Ordering::Relaxed);
            shared.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl<T> Lines<T> {
    /// Whether everything that waits can be expected to be written: not when the reader has stopped reading.
    fn is_read(&self) -> bool {
        self.shared.lost.load(Ordering::Relaxed) == 0
    }

    /// Whether nothing can be written any more, which the user was told then; not that the reader went away.
    pub fn has_failed(&self) -> bool {
        self.shared.has_failed.load(Ordering::Relaxed)
    }

    /// Waits until everything is written, and returns the number of items that could not be. It waits [`ROUNDS`] of `patience`
    /// for somebody who takes nothing. Who gave up once does not wait again.
    pub fn flush(&self, patience: Duration) -> u64 {
        self.flush_while(patience, self.shared.work.watch())
    }

    /// As [`Lines::flush`]; `goes_on` tells whether a thread that has written no item for so long is at work all the same.
    pub fn flush_while(&self, patience: Duration, mut goes_on: impl FnMut() -> bool) -> u64 {
        let unwritten = || self.shared.unwritten.load(Ordering::Relaxed);
        let mut idle = 0;
        let mut hears = |progress: &Receiver<()>| match progress.recv_timeout(patience) {
            Err(RecvTimeoutError::Disconnected) => false,
            Err(RecvTimeoutError::Timeout) if !goes_on() => {
                idle += 1;
                idle < ROUNDS
            }
            _ => {
                idle = 0;
                true
            }
        };
        // A reader that lags so far behind, or takes nothing, may never read: the end of the process does not wait for it.
        if let Some(progress) = lock(&self.progress).take() {
            while self.is_read() && unwritten() > 0 && hears(&progress) {}
        }
        unwritten() + self.shared.lost.load(Ordering::Relaxed)
    }
}

impl<T> Drop for Lines<T> {
    fn drop(&mut self) {
        self.flush(FLUSH_PATIENCE);
    }
}

impl Shared {
    fn write<T>(
        &self,
        items: &Receiver<(T, usize)>,
        mut out: impl Write,
        mut format: impl FnMut(&T, u64, &mut Vec<u8>),
        written: &SyncSender<()>,
    ) -> io::Result<()> {
        let mut text = Vec::new();
        let mut put = |(item, bytes): (T, usize), text: &mut Vec<u8>| {
            let lost = self.lost.swap(0, Ordering::Relaxed);
            self.work.compose(|| format(&item, lost, text));
            self.waiting.fetch_sub(bytes, Ordering::Relaxed);
        };
        while let Ok(first) = items.recv() {
            text.clear();
            let (mut bytes, mut count) = (first.1, 1);
            put(first, &mut text);
            while text.len().max(bytes) < BATCH
                && let Ok(next) = items.try_recv()
            {
                bytes += next.1;
                count += 1;
                put(next, &mut text);
            }
            out.write_all(&text)?;
            out.flush()?;
            self.unwritten.fetch_sub(count, Ordering::Relaxed);
            let _ = written.try_send(());
            std::thread::sleep(REST);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    fn number(item: &u32, lost: u64, out: &mut Vec<u8>) {
        if lost > 0 {
            out.extend(format!("{lost} lost\n").bytes());
        }
        out.extend(format!("{item}\n").bytes());
    }

    #[test]
    fn all_is_written_in_order_before_the_end() {
        let (writer, mut reader) = UnixStream::pair().expect("a pair");
        let lines = Lines::start_on(writer, number).expect("a thread");
        for item in 0..100 {
            lines.show(item, 4);
        }
        drop(lines);
        let mut text = String::new();
        reader.read_to_string(&mut text).expect("text");
        let expected: String = (0..100).map(|item| format!("{item}\n")).collect();
        assert_eq!(text, expected);
    }

    #[test]
    fn a_reader_that_does_not_read_holds_nobody_up_and_is_told_what_it_missed() {
        let (writer, mut reader) = UnixStream::pair().expect("a pair");
        let lines = Lines::start_on(writer, number).expect("a thread");
        let mut shown = 0;
        while lines.is_read() {
            lines.show(shown, 4);
            shown += 1;
        }
        let (mut text, mut piece) = (Vec::new(), [0; 1 << 16]);
        while !text.ends_with(b"4242424\n") {
            lines.show(4_242_424, 4);
            let count = reader.read(&mut piece).expect("text");
            text.extend_from_slice(&piece[..count]);
        }
        let text = String::from_utf8(text).expect("text");
        assert!(text.contains(" lost\n"), "{text}");
    }

    struct Fails(ErrorKind);

    impl Write for Fails {
        fn write(&mut self, _: &[u8]) -> io::Result<usize> {
            Err(self.0.into())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn an_output_that_takes_nothing_has_failed_and_one_without_a_reader_has_not() {
        for (kind, has_failed) in [
            (ErrorKind::StorageFull, true),
            (ErrorKind::BrokenPipe, false),
        ] {
            let lines = Lines::start_on(Fails(kind), number).expect("a thread");
            lines.show(1, 4);
            assert_eq!(lines.flush(Duration::from_secs(600)), 1);
            assert_eq!(lines.has_failed(), has_failed, "{kind:?}");
        }
    }

    #[test]
    fn an_item_that_takes_long_to_put_into_text_is_waited_for() {
        let (entered, wait) = std::sync::mpsc::channel();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        let held = move |_: &u32, _: u64, _: &mut Vec<u8>| {
            let _ = entered.send(());
            let _ = gate.recv();
        };
        let lines = Lines::start_on(io::sink(), held).expect("a thread");
        lines.show(0, 4);
        wait.recv().expect("the item");
        let (mut looks, mut at_work) = (0, lines.shared.work.watch());
        let late = lines.flush_while(Duration::from_millis(1), || {
            looks += 1;
            if looks == 3 {
                open.send(()).expect("it is held up");
            }
            at_work() || looks >= 3
        });
        assert_eq!((late, looks >= 3), (0, true));
    }

    #[test]
    fn large_items_wait_only_while_they_fit_together() {
        let (writer, _reader) = UnixStream::pair().expect("a pair");
        let (entered, wait) = std::sync::mpsc::channel();
        let (open, gate) = std::sync::mpsc::channel::<()>();
        // It is held up at the first item, so that the others wait.
        let held = move |_: &u32, _: u64, _: &mut Vec<u8>| {
            let _ = entered.send(());
            let _ = gate.recv();
        };
        let lines = Lines::start_on(writer, held).expect("a thread");
        lines.show(0, WAITING_BYTES_MAX * 2);
        wait.recv().expect("the first item");
        lines.show(1, 1);
        assert!(!lines.is_read(), "no room beside a large one");
        drop((open, lines));
        wait.recv().expect_err("the second item was left out");
    }
}
