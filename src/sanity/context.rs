//! What a case works with: calls that are recorded, checked and undone, and what it may demand of their answers.
//!
//! Every reply is checked against the specification's rules for messages, whatever the case is about. What the calls make
//! is written down by `ledger.rs`; volumes and paths to call with come from `fixtures.rs`.

use super::advertised::Advertised;
use super::case::{Failure, Stop, Verdict};
use super::journal::Journal;
use super::ledger::Ledger;
use super::requests::Request;
use super::seen::Seen;
use super::settings::{Access, Settings};
use super::steps::{Answer, Step, Steps};
use crate::endpoint::Endpoint;
use crate::error::code_name;
use crate::session::Session;
use crate::validation::{Checks, Replies};
use bytes::Bytes;
use csi_proto::schema::Method;
use prost::Message;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};
use tokio::task::JoinSet;
use tonic::{Code, Status};

/// One end of the driver: its node, or its controller.
#[derive(Clone)]
pub struct Peer {
    pub(super) session: Session,
    pub(super) endpoint: Endpoint,
}

/// What all cases of a run share.
pub struct Run {
    pub(super) settings: Settings,
    pub(super) node: Peer,
    pub(super) controller: Peer,
    pub(super) advertised: Advertised,
    /// The access types that the driver supports, once that is known.
    pub(super) accesses: OnceLock<Vec<Access>>,
    pub(super) journal: Journal,
    pub(super) seen: Mutex<Seen>,
    pub(super) seed: u64,
}

impl Run {
    /// The access types that the driver supports; at least one.
    pub(super) fn accesses(&self) -> &[Access] {
        match self.accesses.get() {
            Some(found) if !found.is_empty() => found,
            _ => &[Access::Mount],
        }
    }
}

/// What one case works with.
pub struct Context {
    pub(super) run: Arc<Run>,
    /// The case's number, which is a part of its names.
    number: usize,
    access: Access,
    names: AtomicUsize,
    pub(super) steps: Mutex<Steps>,
    pub(super) ledger: Mutex<Ledger>,
    warnings: Mutex<Vec<Failure>>,
}

/// A lock whose holder has panicked is still good: what it guards is only added to.
pub(super) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The specification's rules for messages, and no more.
const SPEC: Checks = Checks {
    spec: true,
    credentials: false,
    volume_context: false,
    publish_context: false,
};

impl Context {
    pub(super) fn new(run: Arc<Run>, number: usize, access: Access) -> Self {
        Self {
            run,
            number,
            access,
            names: AtomicUsize::new(0),
            steps: Mutex::default(),
            ledger: Mutex::default(),
            warnings: Mutex::default(),
        }
    }

    /// The settings of the run.
    pub fn settings(&self) -> &Settings {
        &self.run.settings
    }

    /// What the driver advertises.
    pub fn advertised(&self) -> &Advertised {
        &self.run.advertised
    }

    /// How this case accesses volumes: for cases that run for each access type, the one that it is the turn of.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether a capability, service or constraint is advertised.
    pub fn has(&self, need: super::case::Need) -> bool {
        self.run.advertised.has(need).unwrap_or(false)
    }

    /// A name that no other case and no other run uses. All begin with `csi-sanity-`.
    pub fn name(&self) -> String {
        let count = self.names.fetch_add(1, Ordering::Relaxed);
        format!("{}-{}-{count}", self.run.journal.run_name(), self.number)
    }

    /// A number below `limit` that the seed tells, another one each time.
    pub fn random(&self, limit: u64) -> u64 {
        let count = self.names.fetch_add(1, Ordering::Relaxed) as u64;
        super::random(self.run.seed ^ (self.number as u64) << 32 ^ count) % limit.max(1)
    }

    /// Sends a request; the reply, or the status that was answered instead of one.
    ///
    /// # Errors
    /// When the reply breaks the specification's rules for messages.
    pub async fn send<Q: Request>(&self, request: Q) -> Result<Result<Q::Reply, Status>, Stop> {
        self.send_within(self.run.settings.timeout, request).await
    }

    /// The same with a deadline of its own.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub async fn send_within<Q: Request>(
        &self,
        limit: Duration,
        request: Q,
    ) -> Result<Result<Q::Reply, Status>, Stop> {
        let bytes = Bytes::from(request.encode_to_vec());
        let answer = self.exchange(Q::METHOD, bytes, limit).await?;
        match answer {
            Ok(messages) => decode(Q::METHOD, &messages).map(Ok),
            Err(status) => Ok(Err(status)),
        }
    }

    /// Sends a request, which must be answered with OK.
    ///
    /// # Errors
    /// When it is not, or the reply breaks the specification's rules for messages.
    pub async fn ok<Q: Request>(&self, request: Q) -> Result<Q::Reply, Stop> {
        let answer = self.send(request).await?;
        answer
            .map_err(|status| Stop::failed(format!("{} answers OK", Q::METHOD.name), told(&status)))
    }

    /// The same for a call that may meet what is left of one before it: ABORTED is answered by a repetition, as the
    /// specification demands of a caller, for ten seconds at most, and half of what the case may take.
    ///
    /// # Errors
    /// As [`Context::ok`].
    pub async fn ok_in_the_end<Q: Request + Clone>(&self, request: Q) -> Result<Q::Reply, Stop> {
        let bound = Duration::from_secs(10).min(self.settings().case_limit / 2);
        let end = Instant::now() + bound;
        let mut pause = Duration::from_millis(10);
        loop {
            match self.send(request.clone()).await? {
                Ok(reply) => return Ok(reply),
                Err(status) if status.code() == Code::Aborted && Instant::now() < end => {
                    tokio::time::sleep(pause).await;
                    pause = (pause * 2).min(Duration::from_millis(500));
                }
                Err(status) => {
                    let expected = format!("{} answers OK", Q::METHOD.name);
                    return Err(Stop::failed(expected, told(&status)));
                }
            }
        }
    }

    /// The same at the controller's endpoint, for the calls that both ends serve.
    ///
    /// # Errors
    /// As [`Context::ok`].
    pub async fn at_controller<Q: Request>(&self, request: Q) -> Result<Q::Reply, Stop> {
        let bytes = Bytes::from(request.encode_to_vec());
        let session = &self.run.controller.session;
        match call(session, Q::METHOD, bytes).await {
            Ok(messages) => decode(Q::METHOD, &messages),
            Err(status) => {
                let expected = format!("{} answers OK at the controller", Q::METHOD.name);
                Err(Stop::failed(expected, told(&status)))
            }
        }
    }

    /// Sends a request, which must be refused with one of the codes.
    ///
    /// # Errors
    /// When it is answered with OK or another code.
    pub async fn refused<Q: Request>(&self, request: Q, codes: &[Code]) -> Result<Status, Stop> {
        let expected = format!("{} answers {}", Q::METHOD.name, any_of(codes));
        match self.send(request).await? {
            Err(status) if codes.contains(&status.code()) => Ok(status),
            Err(status) => Err(Stop::failed(expected, told(&status))),
            Ok(_) => Err(Stop::failed(expected, "it answered OK")),
        }
    }

    /// Sends requests of one kind at the same time; the answers in their order.
    ///
    /// # Errors
    /// As [`Context::send`], the first of them.
    pub async fn together<Q: Request + 'static>(
        self: &Arc<Self>,
        requests: Vec<Q>,
    ) -> Result<Vec<Result<Q::Reply, Status>>, Stop> {
        let encoded = requests.iter().map(|one| Bytes::from(one.encode_to_vec()));
        let answers = self.exchange_all(Q::METHOD, encoded.collect()).await?;
        answers
            .into_iter()
            .map(|answer| match answer {
                Ok(messages) => decode(Q::METHOD, &messages).map(Ok),
                Err(status) => Ok(Err(status)),
            })
            .collect()
    }

    /// Sends a request whose answer is a stream; its messages, each checked also against those before it.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub async fn stream<Q: Request>(
        &self,
        request: Q,
    ) -> Result<Result<Vec<Q::Reply>, Status>, Stop> {
        let bytes = Bytes::from(request.encode_to_vec());
        let limit = self.run.settings.timeout;
        let messages = match self.exchange(Q::METHOD, bytes, limit).await? {
            Ok(messages) => messages,
            Err(status) => return Ok(Err(status)),
        };
        let decoded = messages.into_iter().map(|one| decode(Q::METHOD, &[one]));
        decoded.collect::<Result<_, _>>().map(Ok)
    }

    /// Sends a request and gives the call up after a while, unless it is answered before.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub async fn cancelled<Q: Request>(&self, request: Q, after: Duration) -> Verdict {
        let bytes = Bytes::from(request.encode_to_vec());
        let call = self.exchange(Q::METHOD, bytes, self.run.settings.timeout);
        match tokio::time::timeout(after, call).await {
            Ok(answer) => answer.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// Reports what the specification recommends and the driver does not do. The case goes on.
    pub fn should(&self, kept: bool, expected: &str, actual: impl Into<String>) {
        if !kept {
            locked(&self.warnings).push(Failure {
                expected: expected.to_owned(),
                actual: actual.into(),
            });
        }
    }

    /// Writes a command of the shell into the steps that lead to a failure.
    pub(super) fn did(&self, command: String) {
        locked(&self.steps).push(Step::Shell(command));
    }

    pub(super) fn take_warnings(&self) -> Vec<Failure> {
        std::mem::take(&mut locked(&self.warnings))
    }

    /// The end of the driver that serves a method.
    pub(super) fn peer(&self, method: &Method) -> &Peer {
        match method.service {
            "Identity" | "Node" => &self.run.node,
            _ => &self.run.controller,
        }
    }

    async fn exchange_all(
        self: &Arc<Self>,
        method: &'static Method,
        requests: Vec<Bytes>,
    ) -> Result<Vec<Result<Vec<Bytes>, Status>>, Stop> {
        let mut calls = JoinSet::new();
        let count = requests.len();
        for (index, request) in requests.into_iter().enumerate() {
            let context = Arc::clone(self);
            let limit = self.run.settings.timeout;
            calls.spawn(async move { (index, context.exchange(method, request, limit).await) });
        }
        let mut answers: Vec<_> = (0..count).map(|_| None).collect();
        while let Some(ended) = calls.join_next().await {
            let (index, answer) = ended.map_err(|error| {
                Stop::failed("the call ends", format!("its task did not: {error}"))
            })?;
            answers[index] = Some(answer?);
        }
        Ok(answers.into_iter().flatten().collect())
    }

    /// One call, bytes to bytes: recorded, written into the ledger, its replies checked. A call whose future is dropped
    /// stays recorded as given up.
    pub(super) async fn exchange(
        &self,
        method: &'static Method,
        request: Bytes,
        limit: Duration,
    ) -> Result<Result<Vec<Bytes>, Status>, Stop> {
        if self.run.settings.read_only && changes(method) {
            return Err(Stop::Skipped(
                "it changes something: --read-only".to_owned(),
            ));
        }
        let peer = self.peer(method);
        let step = locked(&self.steps).begin(method, request.clone(), self.limit(limit));
        let entry = locked(&self.ledger).before(&self.run.journal, method, &request)?;
        let session = peer.session.clone().with_timeout(Some(limit));
        let answer = call(&session, method, request.clone()).await;
        let code = answer.as_ref().err().map_or(Code::Ok, Status::code);
        let first = answer.as_ref().ok().and_then(|messages| messages.first());
        locked(&self.ledger).after(&self.run.journal, entry, method, &request, code, first);
        locked(&self.steps).end(
            step,
            match &answer {
                Ok(messages) => Answer::Reply(messages.first().cloned().unwrap_or_default()),
                Err(status) => Answer::Status(status.code()),
            },
        );
        locked(&self.run.seen).look(&self.run.settings.secrets, method, &answer);
        if let Ok(messages) = &answer {
            let mut replies = Replies::new(method, &request, &SPEC);
            for message in messages {
                replies.check(message).map_err(|violations| {
                    let expected = format!(
                        "{} answers with a message that keeps the specification's rules",
                        method.name
                    );
                    Stop::failed(expected, violations.to_string())
                })?;
            }
        }
        Ok(answer)
    }

    /// The deadline, where it is not that of every call.
    fn limit(&self, limit: Duration) -> Option<Duration> {
        (limit != self.run.settings.timeout).then_some(limit)
    }
}

/// One call, unary or streaming.
pub(super) async fn call(
    session: &Session,
    method: &'static Method,
    request: Bytes,
) -> Result<Vec<Bytes>, Status> {
    if !method.server_streaming {
        let answer = session.call(method, request).await;
        return match answer {
            Ok(answer) => Ok(vec![answer.into_inner()]),
            Err(error) => Err(error.status),
        };
    }
    let stream = session.stream(method, request).await;
    let mut stream = stream.map_err(|error| error.status)?.into_inner();
    let mut messages = Vec::new();
    loop {
        match session.next(method, &mut stream).await {
            Ok(Some(message)) => messages.push(message),
            Ok(None) => return Ok(messages),
            Err(error) => return Err(error.status),
        }
    }
}

/// Whether an RPC makes, changes or removes something.
fn changes(method: &Method) -> bool {
    const WORDS: [&str; 8] = [
        "Create",
        "Delete",
        "Publish",
        "Unpublish",
        "Stage",
        "Unstage",
        "Expand",
        "Modify",
    ];
    WORDS.iter().any(|word| method.name.contains(word))
}

/// A reply as its message.
fn decode<R: Message + Default>(method: &Method, messages: &[Bytes]) -> Result<R, Stop> {
    let bytes = messages.first().cloned().unwrap_or_default();
    R::decode(bytes).map_err(|error| {
        let expected = format!(
            "{} answers with a {}",
            method.name,
            method.response.short_name()
        );
        Stop::failed(expected, format!("bytes that are none: {error}"))
    })
}

/// Codes as the first half of a failure names them.
pub fn any_of(codes: &[Code]) -> String {
    let names: Vec<_> = codes.iter().map(|code| code_name(*code)).collect();
    names.join(" or ")
}

/// A status as the second half of a failure.
pub fn told(status: &Status) -> String {
    let message = match status.message() {
        "" => "(no message)",
        message => message,
    };
    format!("it answered {}: {message}", code_name(status.code()))
}
