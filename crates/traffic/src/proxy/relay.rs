//! The running proxy: accepts connections, applies faults to calls or passes them on, and stops when it is asked to.

use super::carry::Caller;
use super::journal::{CallEntry, CallJournal, Kept};
use super::take_over::{SocketChange, TakeOver};
use super::upstream::{HEADERS_MAX, SMALL_FRAMES_MAX, Upstream, WINDOWS, in_words};
use crate::recording::call::CallEnd;
use crate::recording::status::CallStatus;
use bytes::Bytes;
use csi_call::endpoint::{ByteStream, EndpointError};
use csi_call::listen::Listener;
use csi_proto::faults::{FaultPlan, Faults, PlannedEnd};
use csi_proto::{escaped, methods};
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream};
use http::Request;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;

/// How long connections may take to send the last answers and close.
const FLUSH: Duration = Duration::from_millis(500);

/// How long a request may take to come in whose call is failed on purpose.
const REQUEST_WAIT: Duration = Duration::from_millis(100);

/// The time limit of a look at a driver: one that hangs is not gone.
const LOOK: Duration = Duration::from_millis(500);

/// The pause between two looks at a socket that was taken over.
const LOOK_PAUSE: Duration = Duration::from_millis(200);

/// The running proxy, through which every call goes.
pub struct Relay {
    upstream: Upstream,
    faults: Faults,
    journal: CallJournal,
    /// Each call listens to it until it is answered.
    running: watch::Sender<()>,
}

impl Relay {
    /// A relay to a driver.
    pub fn new(upstream: Upstream, faults: Faults, journal: CallJournal) -> Self {
        Self {
            upstream,
            faults,
            journal,
            running: watch::Sender::new(()),
        }
    }

    /// Serves on `listener` until `stop` ends, then until all calls are answered or `drain` has passed. A socket that was
    /// taken over is given back first, so that new calls go to the driver by then. Returns what became of the calls.
    pub async fn serve(
        self: Arc<Self>,
        listener: Listener,
        mut taken: Option<TakeOver>,
        stop: impl Future<Output = ()>,
        drain: Duration,
    ) -> Kept {
        let (stopping, stopped) = watch::channel(false);
        let mut listener = Some(listener);
        let mut looks = tokio::time::interval(LOOK_PAUSE);
        looks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut trouble = String::new();
        tokio::pin!(stop);
        loop {
            let accepted = async {
                match &listener {
                    Some(listener) => listener.accept().await,
                    None => std::future::pending().await,
                }
            };
            tokio::select! {
                () = &mut stop => break,
                stream = accepted => {
                    tokio::spawn(Arc::clone(&self).connection(stream, stopped.clone()));
                }
                _ = looks.tick(), if taken.is_some() => {
                    if let Some(taken) = &mut taken {
                        self.look(taken, &mut listener, &mut trouble).await;
                    }
                }
            }
        }
        match taken {
            Some(taken) => taken.give_back(listener),
            None => drop(listener),
        }
        let _ = stopping.send(true);
        // Calls count, not connections: a caller may keep an idle one for ever.
        let answered = tokio::time::timeout(drain, self.running.closed());
        if answered.await.is_ok() {
            drop(stopped);
            let _ = tokio::time::timeout(FLUSH, stopping.closed()).await;
        } else {
            let left = self.running.receiver_count();
            note(&format!(
                "calls that were not answered within {drain:?} and are cut off: {left}"
            ));
        }
        self.journal.keep(drain)
    }

    /// Looks after a socket that was taken over. `trouble` is the last problem that was reported: each is reported once,
    /// not at each look.
    async fn look(
        &self,
        taken: &mut TakeOver,
        listener: &mut Option<Listener>,
        trouble: &mut String,
    ) {
        let gone = match listener {
            // The connection is kept, so that the driver's end is seen before the next call.
            Some(_) => matches!(
                tokio::time::timeout(LOOK, self.upstream.ready()).await,
                Ok(Err(EndpointError::NoSocket(..) | EndpointError::Refused(..)))
            ),
            None => true,
        };
        match taken.look(listener, !gone) {
            Ok(SocketChange::None) => return,
            Ok(SocketChange::GivenUp) => {
                note("the driver has ended: its socket's path is free for it to start again");
            }
            Ok(SocketChange::Taken(new)) => {
                *listener = Some(new);
                self.upstream.forget().await;
                note("the driver is back: its socket is taken over again");
            }
            Err(error) => {
                let words = in_words(&error);
                if *trouble != words {
                    note(&format!("the socket cannot be taken over again: {words}"));
                    *trouble = words;
                }
                return;
            }
        }
        trouble.clear();
    }

    async fn connection(
        self: Arc<Self>,
        stream: Box<dyn ByteStream>,
        mut stopped: watch::Receiver<bool>,
    ) {
        let handshake = Builder::new()
            .initial_window_size(WINDOWS.0)
            .initial_connection_window_size(WINDOWS.1)
            .max_header_list_size(HEADERS_MAX)
            .data_frame_budget(SMALL_FRAMES_MAX)
            .handshake::<Box<dyn ByteStream>, Bytes>(stream);
        let mut connection = match handshake.await {
            Ok(connection) => connection,
            Err(error) => {
                // One that only looks whether somebody listens is no news.
                if !error.is_io() {
                    note(&format!(
                        "a caller does not speak gRPC ({error}); its connection is closed"
                    ));
                }
                return;
            }
        };
        let mut draining = false;
        loop {
            tokio::select! {
                biased;
                accepted = connection.accept() => match accepted {
                    Some(Ok((request, respond))) => {
                        tokio::spawn(Arc::clone(&self).call(request, respond));
                    }
                    Some(Err(error)) => {
                        if !error.is_io() && error.reason() != Some(Reason::NO_ERROR) {
                            note(&format!("a caller's connection broke: {error}"));
                        }
                        return;
                    }
                    None => return,
                },
                _ = stopped.changed(), if !draining => {
                    draining = true;
                    connection.graceful_shutdown();
                }
            }
        }
    }

    async fn call(self: Arc<Self>, request: Request<RecvStream>, respond: SendResponse<Bytes>) {
        let mut guard = Some(self.running.subscribe());
        let mut caller = Caller::new(request, respond);
        let head = &caller.head;
        let path = head.uri.path();
        let method = methods::by_path(path);
        let plan = self.faults.plan(path, method);
        let mut entry = self.journal.begin(path, method, &head.headers);
        let end = self.fate(&mut caller, plan, &mut entry).await;
        // What was said goes out before it is written down.
        tokio::task::yield_now().await;
        let unanswered = matches!(plan.end, Some(PlannedEnd::Drop | PlannedEnd::DropReply))
            && !matches!(end, CallEnd::Cancelled { .. });
        entry.end(end, plan.describe());
        if unanswered {
            // The caller waits for nothing; nobody waits for it.
            guard.take();
            caller.gone().await;
        }
    }

    async fn fate(
        &self,
        caller: &mut Caller,
        plan: FaultPlan,
        entry: &mut CallEntry<'_>,
    ) -> CallEnd {
        if let Some(delay) = plan.delay
            && let Err(end) = caller.hold(tokio::time::sleep(delay), entry).await
        {
            return end;
        }
        match plan.end {
            Some(PlannedEnd::Fail(code)) => {
                // For the log; a caller that sends a stream may wait for the answer before it goes on.
                let read = tokio::time::timeout(REQUEST_WAIT, caller.read_request(entry)).await;
                if let Ok(Err(end)) = read {
                    return end;
                }
                let status = CallStatus::new(code.into(), "failed on purpose by csi proxy");
                caller.answer(&status);
                CallEnd::Proxy(status)
            }
            Some(PlannedEnd::Drop) => match caller.read_request(entry).await {
                Err(end) => end,
                Ok(()) => CallEnd::Dropped,
            },
            end => {
                let swallow = end == Some(PlannedEnd::DropReply);
                caller.carry(&self.upstream, entry, swallow).await
            }
        }
    }
}

fn note(text: &str) {
    csi_error::note!("note: {}", escaped(text));
}
