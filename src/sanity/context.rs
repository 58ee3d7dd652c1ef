//! What a case works with: calls that are recorded, checked and undone, and what it may demand of their answers.
//!
//! Every reply is checked against the specification's rules for messages, whatever the case is about. What the calls make
//! is written down by `ledger.rs`; volumes and paths to call with come from `fixtures.rs`.

use super::advertised::Advertised;
use super::case::{Failure, Stop};
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
use std::future::Future;
use std::pin::Pin;
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

/// Something to await, on the heap: what a case holds of it is two words, and the code that runs it exists once. As futures
/// by value, the cases would take a fifth of the program.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = Result<T, Stop>> + Send + 'a>>;

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
    pub fn send<Q: Request>(&self, request: Q) -> Boxed<'_, Result<Q::Reply, Status>> {
        self.send_within(self.run.settings.timeout, request)
    }

    /// The same with a deadline of its own.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn send_within<Q: Request>(
        &self,
        limit: Duration,
        request: Q,
    ) -> Boxed<'_, Result<Q::Reply, Status>> {
        let answer = self.exchange(Q::METHOD, encoded(&request), limit);
        Box::pin(async move {
            match answer.await? {
                Ok(messages) => decode(Q::METHOD, messages.first()).map(Ok),
                Err(status) => Ok(Err(status)),
            }
        })
    }

    /// Sends a request, which must be answered with OK.
    ///
    /// # Errors
    /// When it is not, or the reply breaks the specification's rules for messages.
    pub fn ok<Q: Request>(&self, request: Q) -> Boxed<'_, Q::Reply> {
        decoded::<Q>(self.first(Q::METHOD, encoded(&request), Duration::ZERO))
    }

    /// The same for a call that may meet what is left of one before it: ABORTED is answered by a repetition, as the
    /// specification demands of a caller, for ten seconds at most.
    ///
    /// # Errors
    /// As [`Context::ok`].
    pub fn ok_in_the_end<Q: Request>(&self, request: Q) -> Boxed<'_, Q::Reply> {
        decoded::<Q>(self.first(Q::METHOD, encoded(&request), Duration::from_secs(10)))
    }

    /// The first message of a reply with OK; ABORTED is tried again for that long.
    fn first(
        &self,
        method: &'static Method,
        request: Bytes,
        patience: Duration,
    ) -> Boxed<'_, Bytes> {
        Box::pin(async move {
            let end = Instant::now() + patience;
            let mut pause = Duration::from_millis(10);
            loop {
                let limit = self.run.settings.timeout;
                match self.exchange(method, request.clone(), limit).await? {
                    Ok(messages) => return Ok(messages.into_iter().next().unwrap_or_default()),
                    Err(status) if status.code() == Code::Aborted && Instant::now() < end => {
                        tokio::time::sleep(pause).await;
                        pause = (pause * 2).min(Duration::from_millis(500));
                    }
                    Err(status) => {
                        let expected = format!("{} answers OK", method.name);
                        return Err(Stop::failed(expected, told(&status)));
                    }
                }
            }
        })
    }

    /// The same at the controller's endpoint, for the calls that both ends serve.
    ///
    /// # Errors
    /// As [`Context::ok`].
    pub fn at_controller<Q: Request>(&self, request: Q) -> Boxed<'_, Q::Reply> {
        let bytes = encoded(&request);
        Box::pin(async move {
            let session = &self.run.controller.session;
            match call(session, Q::METHOD, bytes).await {
                Ok(messages) => decode(Q::METHOD, messages.first()),
                Err(status) => {
                    let expected = format!("{} answers OK at the controller", Q::METHOD.name);
                    Err(Stop::failed(expected, told(&status)))
                }
            }
        })
    }

    /// Sends a request, which must be refused with one of the codes.
    ///
    /// # Errors
    /// When it is answered with OK or another code.
    pub fn refused<'a, Q: Request>(&'a self, request: Q, codes: &'a [Code]) -> Boxed<'a, Status> {
        self.refused_bytes(Q::METHOD, encoded(&request), codes)
    }

    fn refused_bytes<'a>(
        &'a self,
        method: &'static Method,
        request: Bytes,
        codes: &'a [Code],
    ) -> Boxed<'a, Status> {
        Box::pin(async move {
            let names: Vec<_> = codes.iter().map(|code| code_name(*code)).collect();
            let expected = format!("{} answers {}", method.name, names.join(" or "));
            let limit = self.run.settings.timeout;
            match self.exchange(method, request, limit).await? {
                Err(status) if codes.contains(&status.code()) => Ok(status),
                Err(status) => Err(Stop::failed(expected, told(&status))),
                Ok(_) => Err(Stop::failed(expected, "it answered OK")),
            }
        })
    }

    /// Sends requests of one kind at the same time; the answers in their order.
    ///
    /// # Errors
    /// As [`Context::send`], the first of them.
    pub fn together<Q: Request>(
        self: &Arc<Self>,
        requests: Vec<Q>,
    ) -> Boxed<'_, Vec<Result<Q::Reply, Status>>> {
        let answers = self.exchange_all(Q::METHOD, requests.iter().map(encoded).collect());
        Box::pin(async move {
            let decoded = answers.await?.into_iter().map(|answer| match answer {
                Ok(messages) => decode(Q::METHOD, messages.first()).map(Ok),
                Err(status) => Ok(Err(status)),
            });
            decoded.collect()
        })
    }

    /// Sends a request whose answer is a stream; its messages, each checked also against those before it.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn stream<Q: Request>(&self, request: Q) -> Boxed<'_, Result<Vec<Q::Reply>, Status>> {
        let limit = self.run.settings.timeout;
        let answer = self.exchange(Q::METHOD, encoded(&request), limit);
        Box::pin(async move {
            let messages = match answer.await? {
                Ok(messages) => messages,
                Err(status) => return Ok(Err(status)),
            };
            let decoded = messages.iter().map(|one| decode(Q::METHOD, Some(one)));
            decoded.collect::<Result<_, _>>().map(Ok)
        })
    }

    /// Sends a request and gives the call up after a while, unless it is answered before.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn cancelled<Q: Request>(&self, request: Q, after: Duration) -> Boxed<'_, ()> {
        self.given_up(Q::METHOD, encoded(&request), after)
    }

    fn given_up(&self, method: &'static Method, request: Bytes, after: Duration) -> Boxed<'_, ()> {
        Box::pin(async move {
            let call = self.exchange(method, request, self.run.settings.timeout);
            match tokio::time::timeout(after, call).await {
                Ok(answer) => answer.map(drop),
                Err(_) => Ok(()),
            }
        })
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

    fn exchange_all(
        self: &Arc<Self>,
        method: &'static Method,
        requests: Vec<Bytes>,
    ) -> Boxed<'_, Vec<Result<Vec<Bytes>, Status>>> {
        Box::pin(async move {
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
        })
    }

    /// One call, bytes to bytes: recorded, written into the ledger, its replies checked. A call whose future is dropped
    /// stays recorded as given up.
    pub(super) fn exchange(
        &self,
        method: &'static Method,
        request: Bytes,
        limit: Duration,
    ) -> Boxed<'_, Result<Vec<Bytes>, Status>> {
        Box::pin(async move {
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
        })
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

/// The bytes of a request.
fn encoded<Q: Request>(request: &Q) -> Bytes {
    request.encode_to_vec().into()
}

/// A reply as its message, once it is there.
fn decoded<'a, Q: Request>(reply: Boxed<'a, Bytes>) -> Boxed<'a, Q::Reply> {
    Box::pin(async move { decode(Q::METHOD, Some(&reply.await?)) })
}

/// A reply as its message.
#[inline(never)]
fn decode<R: Message + Default>(method: &Method, reply: Option<&Bytes>) -> Result<R, Stop> {
    R::decode(reply.cloned().unwrap_or_default()).map_err(|error| {
        let message = method.response.short_name();
        let expected = format!("{} answers with a {message}", method.name);
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
