//! `csi replay`: sends the calls of a recording to another driver, and shows where its replies differ.
//!
//! Owns the order of the calls. Must not print beside `csi_output`, or know how a recording is written.

pub mod command;
mod compare;
mod flags;
mod folders;
mod names;
mod request;
mod verdict;

pub use flags::ReplayFlags;

use crate::recording::drawn::{self, Replays};
use crate::recording::{Recorded, Recording};
use bytes::Bytes;
use csi_call::secrets::masked_reply;
use csi_call::session::Lost;
use csi_call::{CallError, Endpoint, Log, Session, call_error};
use csi_error::{Error, OrError, code_name, say};
use csi_output::page::{PageFile, timeline};
use csi_output::recorded::ReplayOutcome;
use csi_output::replayed::{Count, ReplayPrinter};
use csi_proto::{Method, escaped};
use folders::Folders;
use names::Names;
use request::{MissingParts, Sources, encode};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tonic::Code;
use verdict::{Now, verdict};

/// A recording and the driver that it is sent to.
pub(crate) struct Replay<'a, W: Write> {
    flags: &'a ReplayFlags,
    recording: Arc<Recording>,
    session: Session,
    endpoint: &'a Endpoint,
    secrets: &'a BTreeMap<String, String>,
    log: Log,
    printer: ReplayPrinter<W>,
    names: Names,
    folders: Option<Folders>,
    count: Count,
    page: Option<PageFile>,
    /// What came of each call; only where it is to be drawn.
    replays: Replays,
}

/// The answer of the driver to a replayed call.
struct ReplayAnswer {
    index: usize,
    took: Duration,
    replies: Vec<Bytes>,
    failed: Option<CallError>,
}

impl<'a, W: Write> Replay<'a, W> {
    /// Sends every call and compares every answer; what was compared until the driver is lost is summed up, too.
    ///
    /// # Errors
    /// When secrets are missing, the driver cannot be reached, stdout cannot be written, or anything differs.
    pub async fn run(mut self) -> Result<(), Error> {
        self.demand_secrets()?;
        let recording = Arc::clone(&self.recording);
        let sent = self.send(&recording).await;
        self.count.taken_over = self.names.count();
        csi_output::written(self.printer.end(self.count))?;
        if let Some(page) = self.page {
            let (path, to) = (&self.flags.file, Some(self.endpoint.to_string()));
            let timeline = drawn::timeline("csi replay", path, &recording, to, self.replays);
            page.write(&timeline::page(&timeline))?;
        }
        sent?;
        match self.count.different {
            // A check that compares nothing would pass for ever.
            0 if self.count.same == 0 => Err(Error::local("no call of the recording was compared")),
            0 => Ok(()),
            1 => Err(Error::local(
                "1 call was answered otherwise than in the recording",
            )),
            many => Err(Error::local(format!(
                "{many} calls were answered otherwise than in the recording"
            ))),
        }
    }

    /// Sends every call, in the order of the recording, and judges every answer.
    async fn send(&mut self, recording: &Recording) -> Result<(), Error> {
        let first = recording
            .calls
            .first()
            .map_or(Duration::ZERO, |call| call.at);
        let started = Instant::now();
        let mut running = JoinSet::new();
        // The calls on their way, by when they ended in the recording.
        let mut ends: BTreeMap<usize, Duration> = BTreeMap::new();
        for (index, call) in recording.calls.iter().enumerate() {
            if self.flags.timing {
                let due = started + call.at.saturating_sub(first).div_f64(self.flags.speed);
                tokio::time::sleep_until(due.into()).await;
            }
            // A call that began after another's end may need what that brought.
            while ends
                .values()
                .any(|end| !self.flags.timing || *end <= call.at)
            {
                self.next(&mut running, &mut ends).await?;
            }
            match self.prepare(call) {
                Ok((method, request)) => {
                    self.log.request(&self.session, method, &request);
                    ends.insert(index, call.end());
                    let session = self.session.clone();
                    running.spawn(async move { ask(index, &session, method, request).await });
                }
                Err(reason) => {
                    self.print(call, Duration::ZERO, ReplayOutcome::Skipped(reason))?;
                }
            }
        }
        while !ends.is_empty() {
            self.next(&mut running, &mut ends).await?;
        }
        Ok(())
    }

    /// Refuses a recording whose secrets are not given, before anything is sent.
    fn demand_secrets(&self) -> Result<(), Error> {
        let mut missing = BTreeSet::new();
        let mut dropped = BTreeSet::new();
        for call in &self.recording.calls {
            let (Some(method), [recorded], true) =
                (call.method, call.requests.as_slice(), call.sent)
            else {
                continue;
            };
            if let Ok((_, lacks)) = encode(method.request, recorded, &self.sources()) {
                missing.extend(lacks.secrets);
                dropped.extend(lacks.fields);
            }
        }
        if !dropped.is_empty() {
            let names: Vec<_> = dropped.into_iter().collect();
            note(&format!(
                "fields that this csi does not know are not sent: {}",
                names.join(", ")
            ));
        }
        if missing.is_empty() {
            return Ok(());
        }
        let names: Vec<_> = missing.into_iter().collect();
        Err(Error::usage(format!(
            "the calls carried secrets, which are not in the recording: {}",
            names.join(", ")
        ))
        .hint("--secrets-file or X_CSI_SECRETS gives them, as for any other command"))
    }

    fn sources(&self) -> Sources<'_> {
        Sources {
            names: &self.names,
            secrets: self.secrets,
        }
    }

    /// The call as it is to be sent now, or why it is not sent.
    fn prepare(&mut self, call: &Recorded) -> Result<(&'static Method, Bytes), String> {
        if !call.sent {
            return Err(match &call.injected {
                Some(fault) => format!("the driver did not get it then either ({fault})"),
                None => "the driver did not get it then either".to_owned(),
            });
        }
        let method = call
            .method
            .ok_or_else(|| format!("not a method of CSI {}", csi_proto::SPEC_VERSION))?;
        let [recorded] = call.requests.as_slice() else {
            return Err(format!(
                "it has {} requests, and an RPC of CSI one",
                call.requests.len()
            ));
        };
        let (request, _): (Vec<u8>, MissingParts) =
            encode(method.request, recorded, &self.sources()).map_err(|error| error.to_string())?;
        if let Some(folders) = &mut self.folders {
            folders.prepare(method, &request);
        }
        Ok((method, request.into()))
    }

    async fn next(
        &mut self,
        running: &mut JoinSet<ReplayAnswer>,
        ends: &mut BTreeMap<usize, Duration>,
    ) -> Result<(), Error> {
        match running.join_next().await {
            Some(Ok(answer)) => {
                ends.remove(&answer.index);
                self.judge(answer).await
            }
            Some(Err(error)) => Err(Error::because("a call could not be made", &error)),
            None => {
                ends.clear();
                Ok(())
            }
        }
    }

    /// Compares an answer with the recorded one, and prints what came of it.
    async fn judge(&mut self, answer: ReplayAnswer) -> Result<(), Error> {
        let recording = Arc::clone(&self.recording);
        let Some(call) = recording.calls.get(answer.index) else {
            return Ok(());
        };
        let (code, message) = match &answer.failed {
            None => (Code::Ok, ""),
            Some(failed) => (failed.status.code(), failed.status.message()),
        };
        // A code that the way to the driver says is not the driver's, also where the recorded one was the same.
        if let Some(failed) = &answer.failed
            && Lost::of(&failed.status).is_some()
        {
            let doing = format!("replay of #{} {}", call.number, failed.method.name);
            let lost = call_error(failed, self.endpoint).doing(doing);
            return Err(lost.hint("what the calls have made stays, with the folders of their targets: the next replay to this driver meets it"));
        }
        if let Some(method) = call.method {
            for reply in &answer.replies {
                self.log.reply(method, reply);
            }
            let name = format!("#{} {}", call.number, method.name);
            self.log.call(&name, code_name(code), answer.took);
        }
        let failed = answer.failed.as_ref();
        let unanswered = failed.filter(|failed| failed.is_out_of_time);
        let unanswered = unanswered.and_then(|failed| failed.timeout);
        let message = message.to_owned();
        let messages = self.flags.messages;
        let ignored = self.flags.ignore.clone();
        let mut names = std::mem::take(&mut self.names);
        let (recorded, took) = (Arc::clone(&recording), answer.took);
        let judged = aside(move || {
            let now = Now {
                unanswered,
                code,
                message: &message,
                replies: &answer.replies,
            };
            let call = &recorded.calls[answer.index];
            let verdict = verdict(call, &now, messages, &ignored, &mut names);
            (names, verdict)
        });
        let (names, verdict) = judged.await.or_because("an answer cannot be compared")?;
        self.names = names;
        self.print(call, took, verdict?)
    }

    fn print(
        &mut self,
        call: &Recorded,
        took: Duration,
        verdict: ReplayOutcome,
    ) -> Result<(), Error> {
        self.count.add(&verdict);
        let replayed = (verdict, took);
        let printed = self.printer.call(call, &replayed);
        if self.page.is_some() {
            self.replays.insert(call.number, replayed);
        }
        csi_output::written(printed)
    }
}

async fn ask(
    index: usize,
    session: &Session,
    method: &'static Method,
    request: Bytes,
) -> ReplayAnswer {
    let started = Instant::now();
    let mut replies = Vec::new();
    // A recording masks them too.
    let called = session.each_message(method, request.clone(), |reply| {
        replies.push(masked_reply(method, &request, &reply).into_owned().into());
    });
    let failed = called.await.err();
    ReplayAnswer {
        index,
        took: started.elapsed(),
        replies,
        failed,
    }
}

/// Works in a thread of its own: a signal is heard meanwhile, and ends the program at once. A runtime would wait for its own
/// threads when it is dropped.
async fn aside<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (done, result) = oneshot::channel();
    thread::Builder::new()
        .name("comparison".to_owned())
        .spawn(move || drop(done.send(work())))?;
    result.await.map_err(io::Error::other)
}

/// Tells what the person should know before or after the calls.
pub fn note(text: &str) {
    say!("note: {}", escaped(text));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[tokio::test]
    async fn what_takes_long_holds_nothing_else_up() {
        let (open, gate) = mpsc::channel::<u8>();
        let work = aside(move || gate.recv());
        let other = async { open.send(7).expect("it waits") };
        let (worked, ()) = tokio::join!(work, other);
        assert_eq!(worked.expect("a thread"), Ok(7));
    }
}
