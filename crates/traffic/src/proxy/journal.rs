//! The proxy's journal: numbers the calls, shows them as they happen, and records each when it ends. Neither
//! ever delays a call.

use super::display::{CallMark, Display, Event};
use crate::recording::call::{CallEnd, RecordedCall, metadata, secrets_in};
use crate::recording::framing::Messages;
use crate::recording::{Recorder, RecorderProgress, are_missing};
use bytes::Bytes;
use csi_error::note;
use csi_output::lines::{FLUSH_PATIENCE, Lines};
use csi_output::stdout::reader_is_gone;
use csi_proto::{Method, grpc_timeout};
use http::HeaderMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// The tolerance by which a caller's deadline may pass earlier than here.
const CLOCKS: Duration = Duration::from_millis(50);

/// The journal of a proxy.
pub(crate) struct CallJournal {
    number: AtomicU64,
    started: Instant,
    recorded: Option<Lines<Arc<RecordedCall>>>,
    recording: Arc<RecorderProgress>,
    lines: Option<Lines<Event>>,
    /// Whether events before a call's end are shown.
    as_it_happens: bool,
}

/// What became of the calls at the end. The user was told of what is missing.
pub(crate) struct Kept {
    /// How many the recording lacks.
    pub missing: u64,
    /// Whether they could not be shown.
    pub unshown: bool,
}

/// A call that is under way, and observed where calls are shown or recorded.
pub(crate) struct CallEntry<'a>(Option<OpenEntry<'a>>);

struct OpenEntry<'a> {
    journal: &'a CallJournal,
    /// With the time at which the call began.
    mark: CallMark,
    began: Instant,
    deadline: Option<Duration>,
    metadata: [Vec<(String, String)>; 2],
    requests: Messages,
    replies: Messages,
    sent: bool,
    secrets: Vec<String>,
}

impl CallJournal {
    /// A journal that begins now, shown by `display` and kept by `recorder`, where they are wanted.
    ///
    /// # Errors
    /// When the system has no thread to show it, or to keep it.
    pub fn new(display: Option<Display>, recorder: Option<Recorder>) -> io::Result<Self> {
        let start = |display: Display| {
            Lines::start(move |event, lost, out| display.write(event, lost, out))
        };
        // A file is on a disk that may hang, or is a pipe that nobody reads.
        let recording = recorder.as_ref().map(Recorder::progress);
        let keep = |mut recorder: Recorder| {
            Lines::start_on(io::sink(), move |call: &Arc<RecordedCall>, lost, _| {
                recorder.leave_out(lost);
                recorder.add(call);
            })
        };
        Ok(Self {
            number: AtomicU64::new(0),
            started: Instant::now(),
            recorded: recorder.map(keep).transpose()?,
            recording: recording.unwrap_or_default(),
            as_it_happens: display.is_some_and(|display| !display.json),
            lines: display.map(start).transpose()?,
        })
    }

    /// A call that begins now.
    pub fn begin(
        &self,
        path: &str,
        method: Option<&'static Method>,
        headers: &HeaderMap,
    ) -> CallEntry<'_> {
        if self.recorded.is_none() && self.lines.is_none() {
            return CallEntry(None);
        }
        CallEntry(Some(OpenEntry {
            journal: self,
            mark: CallMark {
                time: SystemTime::now(),
                number: self.number.fetch_add(1, Ordering::Relaxed) + 1,
                path: path.to_owned(),
                method,
            },
            began: Instant::now(),
            deadline: headers
                .get(grpc_timeout::HEADER)
                .and_then(|value| grpc_timeout::parse(value.as_bytes())),
            metadata: [metadata(headers), Vec::new()],
            requests: Messages::default(),
            replies: Messages::default(),
            sent: false,
            secrets: Vec::new(),
        }))
    }

    /// Waits until the calls so far are shown and recorded, unless that makes no progress for so long.
    pub fn keep(&self, patience: Duration) -> Kept {
        let patience = patience.max(FLUSH_PATIENCE);
        let recorded = self.recorded.as_ref();
        let goes_on = self.recording.work.watch();
        let unwritten = recorded.map_or(0, |recorded| recorded.flush_while(patience, goes_on));
        let missing = are_missing(self.recording.gap() + unwritten, "call");
        if unwritten > 0 {
            note!("warning: the recording made no progress for {patience:?}: at its end {missing}");
        } else if self.recording.gap() > 0 {
            note!("warning: at the end of the recording {missing}");
        }
        let lines = self.lines.as_ref();
        let late = lines.map_or(0, |lines| lines.flush(FLUSH_PATIENCE));
        let unshown = lines.is_some_and(Lines::has_failed);
        if late > 0 && !unshown && !reader_is_gone() {
            let missing = are_missing(late, "line");
            note!("warning: stdout made no progress for {FLUSH_PATIENCE:?}: {missing}");
        }
        Kept {
            missing: unwritten + self.recording.missing(),
            unshown,
        }
    }

    fn show(&self, event: Event) {
        if let Some(lines) = &self.lines {
            let memory = event.memory();
            lines.show(event, memory);
        }
    }
}

impl CallEntry<'_> {
    /// The call has ended.
    pub fn end(self, end: CallEnd, injected: Option<String>) {
        let Some(entry) = self.0 else { return };
        let took = entry.began.elapsed();
        // The caller's clock began to run before the call came here.
        let late = |deadline: Duration| took + CLOCKS.min(deadline / 4) >= deadline;
        let end = match end {
            CallEnd::Cancelled { .. } => CallEnd::Cancelled {
                deadline: entry.deadline.is_some_and(late),
            },
            end => end,
        };
        let call = RecordedCall {
            number: entry.mark.number,
            began: entry.mark.time,
            at: entry.began.duration_since(entry.journal.started),
            path: entry.mark.path.clone(),
            method: entry.mark.method,
            metadata: entry.metadata,
            requests: entry.requests.complete,
            replies: entry.replies.complete,
            end,
            took,
            injected,
            sent: entry.sent,
        };
        let call = Arc::new(call);
        if let Some(recorded) = &entry.journal.recorded {
            recorded.show(Arc::clone(&call), call.memory());
        }
        entry.journal.show(Event::Ended(now(&entry.mark), call));
    }

    /// A piece of the request's body has passed.
    pub fn request(&mut self, piece: &Bytes) {
        let Some(entry) = &mut self.0 else { return };
        let count = entry.requests.push(piece.clone());
        if !entry.journal.as_it_happens || count == 0 {
            return;
        }
        let all = &entry.requests.complete;
        entry.secrets = secrets_in(entry.mark.method, all);
        for message in &all[all.len() - count..] {
            entry.journal.show(Event::Request {
                mark: now(&entry.mark),
                message: message.clone(),
                metadata: entry.metadata[0].clone(),
            });
        }
    }

    /// The headers of the reply have passed.
    pub fn reply_headers(&mut self, headers: &HeaderMap) {
        if let Some(entry) = &mut self.0 {
            entry.metadata[1] = metadata(headers);
        }
    }

    /// A piece of the reply's body has passed.
    pub fn reply(&mut self, piece: &Bytes) {
        let Some(entry) = &mut self.0 else { return };
        let count = entry.replies.push(piece.clone());
        let method = entry.mark.method;
        let streams = method.is_none_or(|method| method.server_streaming);
        if !entry.journal.as_it_happens || count == 0 || !streams {
            return;
        }
        let all = &entry.replies.complete;
        for message in &all[all.len() - count..] {
            entry.journal.show(Event::Reply {
                mark: now(&entry.mark),
                message: message.clone(),
                secrets: entry.secrets.clone(),
            });
        }
    }

    /// The call goes to the driver.
    pub fn sent(&mut self) {
        if let Some(entry) = &mut self.0 {
            entry.sent = true;
        }
    }
}

fn now(mark: &CallMark) -> CallMark {
    CallMark {
        time: SystemTime::now(),
        ..mark.clone()
    }
}
