//! The context of a case: calls that are recorded, checked and undone, and checks of their answers.
//!
//! What the calls make is noted by `taking_down.rs`, what is wrong with the form of their replies by `reply_rules.rs`;
//! volumes and paths to call with come from `fixtures.rs`.

use super::again::Again;
use super::broken_rules::BrokenRules;
use super::call_times::CallTimes;
use super::dependencies::{Dependencies, Tracked};
use super::driver_info::DriverInfo;
use super::given_ids::{GivenIds, case_about_ids};
use super::losses::SOON;
use super::need::Need;
use super::presence::goes_away;
use super::restarts::Restarts;
use super::run::{Exchanged, Run, call};
use super::settings::{Access, Settings};
use super::steps::{Step, Steps};
use super::taking_down::MadeItems;
use super::verdict::{Failure, Stop, Verdict, answers_ok, any_of, status_text};
use bytes::Bytes;
use csi_call::session::{Lost, Session};
use csi_proto::Request;
use csi_proto::lock::lock;
use csi_proto::path::contents;
use csi_proto::random;
use csi_proto::schema::Method;
use csi_undo::made::Item;
use prost::Message;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tonic::{Code, Status};

/// The places in requests that say that volumes are block ones.
const BLOCK_VOLUMES: [&str; 2] = ["volume_capabilities.block", "volume_capability.block"];

/// A recommendation that is not followed, and what that depends on.
pub(super) type Warning = (Failure, Dependencies);

/// The context of one case.
pub struct Context {
    pub(super) run: Arc<Run>,
    /// The case's name; empty for calls that belong to no case.
    pub(super) case: String,
    /// The case's number, which is a part of its names.
    number: usize,
    access: Access,
    names: AtomicUsize,
    pub(super) steps: Mutex<Steps>,
    pub(super) made: MadeItems,
    /// The recommendations that are not followed, each with what it depends on.
    warnings: Mutex<Vec<Warning>>,
    pub(super) tracked: Mutex<Tracked>,
    /// The rules for messages that the replies broke.
    pub(super) broken_rules: Mutex<BrokenRules>,
    /// Whether the case must end.
    over: watch::Sender<bool>,
    pub(super) restarts: Restarts,
    /// Whether the case waits after each call that may change something, to see whether the driver goes away after its answer.
    pub(super) looks_after_calls: bool,
}

impl Context {
    pub(super) fn new(
        run: &Arc<Run>,
        case: String,
        number: usize,
        access: Access,
        restarts: Restarts,
    ) -> Self {
        Self {
            made: MadeItems::of(run, Some((number, case.clone())), &[]),
            run: Arc::clone(run),
            case,
            number,
            access,
            names: AtomicUsize::new(0),
            steps: Mutex::default(),
            warnings: Mutex::default(),
            tracked: Mutex::default(),
            broken_rules: Mutex::default(),
            over: watch::Sender::new(false),
            restarts,
            looks_after_calls: false,
        }
    }

    /// The context of calls that belong to no case.
    pub(super) fn of_no_case(run: &Arc<Run>, access: Access) -> Self {
        Self::new(run, String::new(), 0, access, Restarts::default())
    }

    /// The settings of the run.
    pub fn settings(&self) -> &Settings {
        &self.run.settings
    }

    /// The driver's name, version and capabilities.
    pub fn driver(&self) -> &DriverInfo {
        &self.run.driver
    }

    /// The access type of this case's volumes: for cases that run for each access type, the one whose turn it is.
    pub fn access(&self) -> Access {
        self.access
    }

    /// Whether a capability, service or constraint is advertised.
    pub fn has(&self, need: Need) -> bool {
        self.run.driver.has(need).unwrap_or(false)
    }

    /// A name that no other case and no other run uses. All begin with `csi-sanity-`.
    pub fn name(&self) -> String {
        let count = self.names.fetch_add(1, Ordering::Relaxed);
        format!("{}-{}-{count}", self.run.journal.run_name(), self.number)
    }

    /// Passes over names that others have.
    pub(super) fn skip_names(&self, count: usize) {
        self.names.store(count, Ordering::Relaxed);
    }

    /// A number below `limit` that the seed tells, another one each time.
    pub fn random(&self, limit: u64) -> u64 {
        let count = self.names.fetch_add(1, Ordering::Relaxed) as u64;
        random::from_seed(self.run.seed ^ (self.number as u64) << 32, count) % limit.max(1)
    }

    /// Sends a request; the reply, or the status that was answered instead of one.
    ///
    /// # Errors
    /// When the driver goes away, or the reply is no such message.
    pub fn send<Q: Request>(&self, request: Q) -> Result<Result<Q::Reply, Status>, Stop> {
        self.decoded::<Q>(self.exchange(Q::METHOD, encoded(&request))?)
    }

    /// Sends a request as [`Context::send`] does, with a deadline of its own.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn send_within<Q: Request>(
        &self,
        limit: Duration,
        request: Q,
    ) -> Result<Result<Q::Reply, Status>, Stop> {
        self.between_steps()?;
        let request = encoded(&request);
        let answer = self.wait(self.exchanged(Q::METHOD, request.clone(), limit, &[]))??;
        let has_ended = |status: &Status| status.code() == Code::DeadlineExceeded;
        if answer.as_ref().is_err_and(has_ended) {
            self.gave_up(Q::METHOD, request);
        }
        self.decoded::<Q>(answer)
    }

    /// Sends a request, which must be answered with OK.
    ///
    /// # Errors
    /// When it is not, or as [`Context::send`].
    pub fn ok<Q: Request>(&self, request: Q) -> Result<Q::Reply, Stop> {
        self.send(request)?
            .map_err(|status| Stop::failed(answers_ok(Q::METHOD), status_text(&status)))
    }

    /// Sends a request as [`Context::ok`] does, to the controller's endpoint, for the calls that both ends serve.
    ///
    /// # Errors
    /// As [`Context::ok`].
    pub fn at_controller<Q: Request>(&self, request: Q) -> Result<Q::Reply, Stop> {
        match self.unrecorded(&self.run.controller.session, Q::METHOD, encoded(&request))? {
            Ok(reply) => self.decode::<Q>(&reply),
            Err(status) => {
                let expected = format!("{} answers OK at the controller", Q::METHOD.name);
                Err(Stop::failed(expected, status_text(&status)))
            }
        }
    }

    /// A call that changes nothing and is no step of the case.
    ///
    /// # Errors
    /// When the case is over, or the driver goes away.
    pub(super) fn unrecorded(
        &self,
        session: &Session,
        method: &'static Method,
        request: Bytes,
    ) -> Result<Result<Bytes, Status>, Stop> {
        self.allowed(method)?;
        let before = self.restarts.mark();
        let answer = self.wait(async {
            let mut again = Again::within(self.run.settings.timeout);
            loop {
                let begun = Instant::now();
                let answer = call(session, method, request.clone()).await;
                let error = answer.as_ref().err();
                match error.and_then(|status| again.after(status, begun.elapsed())) {
                    Some(pause) => tokio::time::sleep(pause).await,
                    None => break answer,
                }
            }
        })?;
        let lost = answer.as_ref().err().and_then(Lost::of);
        if let Some(lost) = lost.filter(|_| !self.restarts.cut_off(before)) {
            let loss = || self.run.lost(&self.case, method, &request, lost);
            return Err(Stop::Failed(self.made.lose(loss)));
        }
        Ok(answer.map(|messages| messages.into_iter().next().unwrap_or_default()))
    }

    /// Sends a request, which must be refused with one of the codes.
    ///
    /// # Errors
    /// When it is answered with OK or another code.
    pub fn refused<Q: Request>(&self, request: Q, codes: &[Code]) -> Result<Status, Stop> {
        let answer = self.exchange_to_refuse(Q::METHOD, encoded(&request), codes)?;
        must_be_refused(Q::METHOD, answer, codes)
    }

    /// Sends a request whose answer is a stream; its messages.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn stream<Q: Request>(&self, request: Q) -> Result<Result<Vec<Q::Reply>, Status>, Stop> {
        Ok(match self.exchange(Q::METHOD, encoded(&request))? {
            Ok(messages) => {
                let decoded = messages.iter().map(|one| self.decode::<Q>(one));
                Ok(decoded.collect::<Result<_, _>>()?)
            }
            Err(status) => Err(status),
        })
    }

    /// Sends a request and gives the call up after a while, unless it is answered before.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub fn cancelled<Q: Request>(&self, request: Q, after: Duration) -> Verdict {
        self.between_steps()?;
        let limit = self.run.settings.timeout;
        let request = encoded(&request);
        let call = self.exchanged(Q::METHOD, request.clone(), limit, &[]);
        // Made within the runtime, which has the clock.
        let answer = self.wait(async { tokio::time::timeout(after, call).await })?;
        if answer.is_err() {
            self.gave_up(Q::METHOD, request);
        }
        answer.map_or(Ok(()), |answer| answer.map(drop))
    }

    /// Notes that a call was given up: the driver may still work on it, also when all that the case has made is taken down.
    fn gave_up(&self, method: &'static Method, request: Bytes) {
        lock(&self.run.losses).gave_up(&self.case, method.name);
        if let Some(making) = csi_rpc::making(method).filter(|making| making.has_own_id()) {
            lock(&self.run.given_up).push(Item::Asked {
                method,
                making,
                requests: vec![request],
            });
        }
    }

    /// Waits.
    ///
    /// # Errors
    /// When the case is over.
    pub fn pause(&self, time: Duration) -> Verdict {
        self.wait(async { tokio::time::sleep(time).await })
    }

    /// Waits for something in this thread, which is not one of the runtime's, as long as the case may go on.
    ///
    /// # Errors
    /// When the case is over.
    pub(super) fn wait<T>(&self, work: impl Future<Output = T>) -> Result<T, Stop> {
        let mut over = self.over.subscribe();
        self.run.runtime.block_on(async {
            tokio::select! {
                biased;
                _ = over.wait_for(|over| *over) => Err(Stop::skipped("the case is over")),
                done = work => Ok(done),
            }
        })
    }

    /// Ends the case: what it waits for is cancelled, and it can wait for nothing more.
    pub(super) fn end(&self) {
        self.over.send_replace(true);
    }

    /// Reports what the specification recommends and the driver does not do. The case goes on.
    pub fn should(&self, kept: bool, expected: impl Into<String>, actual: impl Into<String>) {
        if !kept {
            self.warns_of(Failure::new(expected, actual));
        }
    }

    /// Reports a failure that is none by the specification.
    pub(super) fn warns_of(&self, failure: Failure) {
        lock(&self.warnings).push((failure, self.dependencies()));
    }

    /// Makes demands that the specification does not make. What is not kept of them is a warning.
    ///
    /// # Errors
    /// Where they cannot be shown here.
    pub fn recommended(&self, demands: impl FnOnce() -> Verdict) -> Verdict {
        match demands() {
            Err(Stop::Failed(failure)) if self.made.lost.get().is_none() => {
                self.warns_of(failure);
                Ok(())
            }
            ended => ended,
        }
    }

    /// Writes a command of the shell into the steps that lead to a failure.
    pub(super) fn did(&self, command: String) {
        lock(&self.steps).push(Step::Shell(command));
    }

    pub(super) fn take_warnings(&self) -> Vec<Warning> {
        std::mem::take(&mut lock(&self.warnings))
    }

    /// Makes one call, bytes to bytes: recorded, its items noted, its replies checked.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub(super) fn exchange(
        &self,
        method: &'static Method,
        request: Bytes,
    ) -> Result<Exchanged, Stop> {
        self.exchange_for(method, request, &[])
    }

    /// Makes a call as [`Context::exchange`] does, to which these codes are right answers.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub(super) fn exchange_for(
        &self,
        method: &'static Method,
        request: Bytes,
        codes: &[Code],
    ) -> Result<Exchanged, Stop> {
        self.between_steps()?;
        let limit = self.run.settings.timeout;
        self.wait(self.exchanged(method, request, limit, codes))?
    }

    /// Makes a call as [`Context::exchange_for`] does, to which only these codes are right answers.
    ///
    /// # Errors
    /// As [`Context::send`].
    pub(super) fn exchange_to_refuse(
        &self,
        method: &'static Method,
        request: Bytes,
        codes: &[Code],
    ) -> Result<Exchanged, Stop> {
        let answer = self.exchange_for(method, request, codes)?;
        if matches!(&answer, Err(status) if !codes.contains(&status.code())) {
            self.refused_otherwise();
        }
        Ok(answer)
    }

    /// Makes a call asynchronously, and again after an answer that asks for that and is none of the right ones. That is the same
    /// step.
    pub(super) async fn exchanged(
        &self,
        method: &'static Method,
        request: Bytes,
        limit: Duration,
        codes: &[Code],
    ) -> Result<Exchanged, Stop> {
        self.allowed(method)?;
        let is_block = |path| !contents(method.request, &request, path).is_empty();
        let access = match BLOCK_VOLUMES.into_iter().any(is_block) {
            true => Access::Block,
            false => self.access,
        };
        // An RPC that hangs would hold up each case.
        if lock(&self.run.seen).hangs(method) {
            self.run
                .works(method, access, Some(Code::DeadlineExceeded))?;
        }
        // Until the last of its answers: what calls at the same time lack is not forgotten when one is made again.
        let _under_way = self.begins(method, &request);
        let mut again = Again::within(limit);
        loop {
            let begun = Instant::now();
            let answer = self.called(method, &request, limit).await?;
            let Err(status) = &answer else {
                return Ok(answer);
            };
            let is_right = codes.contains(&status.code());
            let pause = again.after(status, begun.elapsed());
            let pause = pause.filter(|_| !is_right);
            if pause.is_none() {
                self.was_refused(method, &request, status);
            }
            // What does not work here at all shows nothing about the rule of a case.
            self.run.works(method, access, Some(status.code()))?;
            match pause {
                Some(pause) => {
                    tokio::time::sleep(pause).await;
                    // What comes now depends on the case about repetitions.
                    drop(self.begins(method, &request));
                }
                None => return Ok(answer),
            }
        }
    }

    /// Makes one call. One whose future is dropped stays recorded as given up.
    async fn called(
        &self,
        method: &'static Method,
        request: &Bytes,
        limit: Duration,
    ) -> Result<Exchanged, Stop> {
        let peer = self.run.peer(method);
        let own_limit = (limit != self.run.settings.timeout).then_some(limit);
        let step = lock(&self.steps).begin(method, request.clone(), own_limit);
        let number = self.made.asked(method, request)?;
        // Cases look for secrets in what the driver says; the runner masks what it shows of that.
        let session = peer.session.clone().with_timeout(Some(limit)).unmasked();
        let before = self.restarts.mark();
        let begun = Instant::now();
        self.run.begins(method, request);
        let _making = GivenIds::makes(&self.run.given_ids, method, begun);
        let timed = CallTimes::begins(&self.run.times, method, request);
        let answer = call(&session, method, request.clone()).await;
        drop(timed);
        let ended = match &answer {
            Ok(messages) => Ok(messages.first().cloned().unwrap_or_default()),
            Err(status) => Err(status.code()),
        };
        self.made.answered(number, method, request, &ended);
        let doubled = lock(&self.run.given_ids).ends(method, request, begun, &ended);
        lock(&self.steps).end(step, ended);
        if let Some((path, told)) = doubled {
            self.breaks(case_about_ids(method), path.to_owned(), told, false);
        }
        let status = answer.as_ref().err();
        let is_cut_off = self.restarts.cut_off(before);
        if status.is_some_and(|status| status.code() == Code::Unavailable) && !is_cut_off {
            self.run.may_be_another();
        }
        if let Some(lost) = status.and_then(Lost::of)
            && !is_cut_off
        {
            let loss = || self.run.lost(&self.case, method, request, lost);
            return Err(Stop::Failed(self.made.lose(loss)));
        }
        if self.looks_after_calls
            && answer.is_ok()
            && !csi_rpc::only_reads(method)
            && let Some(problem) = goes_away(&self.run, SOON).await
            && !self.restarts.cut_off(before)
        {
            let loss = || self.run.lost_after(&self.case, method, &problem);
            return Err(Stop::Failed(self.made.lose(loss)));
        }
        let found = lock(&self.run.seen).look(&self.run.settings.secrets, method, request, &answer);
        found.into_iter().for_each(|(about, at, may_be_right)| {
            self.breaks(about, at, String::new(), may_be_right)
        });
        if let Ok(messages) = &answer {
            self.check_replies(method, request, messages);
        }
        Ok(answer)
    }

    /// An answer as its message.
    ///
    /// # Errors
    /// As [`Context::decode`].
    pub(super) fn decoded<Q: Request>(
        &self,
        answer: Exchanged,
    ) -> Result<Result<Q::Reply, Status>, Stop> {
        match answer {
            Ok(messages) => {
                let first = messages.into_iter().next().unwrap_or_default();
                self.decode::<Q>(&first).map(Ok)
            }
            Err(status) => Ok(Err(status)),
        }
    }

    /// A reply as its message.
    ///
    /// # Errors
    /// When it is none, which the case about the replies of the RPC judges.
    fn decode<Q: Request>(&self, reply: &Bytes) -> Result<Q::Reply, Stop> {
        Q::Reply::decode(reply.clone()).map_err(|error| {
            let message = Q::METHOD.response.short_name();
            self.cannot_use(Q::METHOD, &format!("a {message} that can be read"), error)
        })
    }

    /// Stops before a call that `--read-only` does not allow: of one that is not known to read.
    fn allowed(&self, method: &Method) -> Verdict {
        match self.run.settings.read_only && !csi_rpc::only_reads(method) {
            true => Err(Stop::skipped("it may change something: --read-only")),
            false => Ok(()),
        }
    }
}

/// The status of an answer that must be a refusal with one of the codes.
pub(super) fn must_be_refused(
    method: &Method,
    answer: Exchanged,
    codes: &[Code],
) -> Result<Status, Stop> {
    let expected = format!("{} answers {}", method.name, any_of(codes));
    match answer {
        Err(status) if codes.contains(&status.code()) => Ok(status),
        Err(status) => Err(Stop::failed(expected, status_text(&status))),
        Ok(_) => Err(Stop::failed(expected, "it answered OK")),
    }
}

/// The bytes of a request.
pub(super) fn encoded<Q: Request>(request: &Q) -> Bytes {
    request.encode_to_vec().into()
}
