//! Lines on their way to a reader who may be slow, or not read at all: they wait in a bounded queue for a thread that writes them,
//! and are dropped when it is full. Whoever has a line never waits.

use crate::lock::{ROUNDS, lock, wait, wait_for};
use std::io::Write;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// How many bytes of lines wait at most. The thread may have as many in hand.
const WAITING_MAX: usize = 1 << 20;

/// Lines that wait to be written.
pub struct LineQueue {
    state: Mutex<State>,
    added: Condvar,
    written: Condvar,
}

struct State {
    /// Whole lines.
    waiting: String,
    /// How many were dropped behind them.
    dropped: u64,
    /// How many were written since the start.
    written: u64,
    has_writer: bool,
    is_writing: bool,
}

impl Default for LineQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl LineQueue {
    /// An empty one.
    pub const fn new() -> Self {
        Self {
            state: Mutex::new(State {
                waiting: String::new(),
                dropped: 0,
                written: 0,
                has_writer: false,
                is_writing: false,
            }),
            added: Condvar::new(),
            written: Condvar::new(),
        }
    }

    /// Adds a line. Returns whether there was room for it.
    pub fn add(&self, line: &str) -> bool {
        let mut state = lock(&self.state);
        let has_room = state.waiting.is_empty() || state.waiting.len() + line.len() <= WAITING_MAX;
        match has_room {
            true => state.waiting.push_str(line),
            false => state.dropped += 1,
        }
        drop(state);
        self.added.notify_one();
        has_room
    }

    /// Lets a thread write the lines, unless one does already. `tell` makes a line of the number of those that were dropped.
    pub fn start(
        &'static self,
        out: impl Write + Send + 'static,
        tell: impl Fn(u64) -> String + Send + 'static,
    ) {
        let mut state = lock(&self.state);
        if !state.has_writer {
            let thread = std::thread::Builder::new().name("log".to_owned());
            // Where there is no thread the next line tries again.
            state.has_writer = thread.spawn(move || self.write(out, tell)).is_ok();
        }
    }

    fn write(&self, mut out: impl Write, tell: impl Fn(u64) -> String) {
        loop {
            let (lines, dropped) = self.next();
            let lost = (dropped > 0).then(|| tell(dropped));
            for line in lines.split_inclusive('\n').chain(lost.as_deref()) {
                // A closed stderr must not end the driver.
                let _ = out.write_all(line.as_bytes());
                lock(&self.state).written += 1;
                self.written.notify_all();
            }
        }
    }

    fn next(&self) -> (String, u64) {
        let mut state = lock(&self.state);
        state.is_writing = false;
        self.written.notify_all();
        while state.waiting.is_empty() {
            state = wait(&self.added, state);
        }
        state.is_writing = true;
        let lines = std::mem::take(&mut state.waiting);
        (lines, std::mem::take(&mut state.dropped))
    }

    /// Waits until all lines are written, or none was in [`ROUNDS`] of `patience`; for a reader who takes them slowly, ten of them.
    pub fn flush(&self, patience: Duration) {
        let end = Instant::now() + 10 * patience;
        let mut idle = 0;
        let mut state = lock(&self.state);
        while state.has_writer && (state.is_writing || !state.waiting.is_empty()) {
            let before = state.written;
            let left = end.saturating_duration_since(Instant::now());
            let (now, is_over) = wait_for(&self.written, state, patience.min(left));
            state = now;
            match is_over && state.written == before {
                true => idle += 1,
                false => idle = 0,
            }
            if left.is_zero() || idle == ROUNDS {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    /// A queue that a thread writes to a reader.
    fn queue() -> (&'static LineQueue, BufReader<UnixStream>) {
        let (reader, writer) = UnixStream::pair().unwrap();
        let queue: &'static LineQueue = Box::leak(Box::default());
        queue.start(writer, |dropped| format!("{dropped} dropped\n"));
        (queue, BufReader::new(reader))
    }

    #[test]
    fn lines_are_written_in_order_and_flushed() {
        let (queue, reader) = queue();
        for number in 0..100 {
            assert!(queue.add(&format!("{number}\n")));
        }
        queue.flush(Duration::from_secs(60));
        let read = reader.lines().take(100).map(Result::unwrap);
        assert!(read.eq((0..100).map(|number| number.to_string())));
    }

    #[test]
    fn what_nobody_reads_is_dropped_and_counted() {
        let (queue, mut reader) = queue();
        let line = format!("{}\n", "x".repeat(99));
        let (mut kept, mut dropped) = (0, 0);
        // More than the queue, the thread and the socket hold.
        for _ in 0..100_000 {
            match queue.add(&line) {
                true => kept += 1,
                false => dropped += 1,
            }
        }
        assert!(dropped > 50_000 && kept < 50_000, "{kept} {dropped}");
        // Nobody reads: the end comes all the same.
        queue.flush(Duration::from_millis(10));
        assert!(lock(&queue.state).waiting.capacity() <= 2 * WAITING_MAX);
        let (mut read, mut told) = (0, 0);
        while read < kept || told < dropped {
            let mut text = String::new();
            reader.read_line(&mut text).unwrap();
            match text.strip_suffix(" dropped\n") {
                Some(number) => told += number.parse::<i32>().unwrap(),
                None => read += 1,
            }
        }
        assert_eq!((read, told), (kept, dropped));
    }

    /// Takes one line in each millisecond.
    struct Slow(Arc<AtomicUsize>);

    impl Write for Slow {
        fn write(&mut self, line: &[u8]) -> std::io::Result<usize> {
            std::thread::sleep(Duration::from_millis(1));
            self.0.fetch_add(1, Ordering::Relaxed);
            Ok(line.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_who_is_slow_is_not_waited_for_to_the_last_line() {
        const LINES: usize = 30_000;
        let taken = Arc::new(AtomicUsize::new(0));
        let queue: &'static LineQueue = Box::leak(Box::default());
        queue.start(Slow(Arc::clone(&taken)), |_| String::new());
        for _ in 0..LINES {
            assert!(queue.add("line\n"));
        }
        // Between two lines there is never so long.
        queue.flush(Duration::from_millis(200));
        assert!(taken.load(Ordering::Relaxed) < LINES);
    }
}
