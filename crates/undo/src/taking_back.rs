//! Takes items back: makes the calls in the order that `order.rs` says, as often as `tries.rs` says, until the list is empty
//! or what is left has to stay.

use super::made::{Item, Made};
use super::order::{InUse, waves};
use super::tries::{NextTry, Tries};
use bytes::Bytes;
use csi_call::CallError;
use csi_proto::{Method, lock};
use futures_util::StreamExt as _;
use std::io;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};
use tonic::Code;

/// A tool that has made something: its connection to the driver, and what it does when something happens.
// One task waits for it: that it is `Send` is nowhere needed.
#[expect(async_fn_in_trait)]
pub trait Tool {
    /// Makes a call within a time limit; of several connections the tool takes the one for that worker.
    async fn call(
        &self,
        worker: u64,
        method: &'static Method,
        request: Bytes,
        limit: Option<Duration>,
    ) -> Result<Bytes, CallError>;

    /// Removes a folder. Only when it is empty: something may still be mounted below it.
    async fn remove(&self, folder: &Path) -> io::Result<()> {
        std::fs::remove_dir(folder)
    }

    /// A call will be made once more.
    fn tries_again(&self, _method: &'static Method, _code: Code) {}

    /// A call has ended, with all its tries.
    fn called(&self, _call: &Called<'_>) {}

    /// The list says something else of the item of this number, or nothing any more.
    fn changed(&self, _number: u64) {}

    /// An item stays.
    fn stays(&self, _number: u64, _item: &Item, _why: Why) {}
}

/// A call that has ended, with all its tries.
#[derive(Debug)]
pub struct Called<'a> {
    /// The RPC.
    pub method: &'static Method,
    /// The request.
    pub request: &'a Bytes,
    /// Whether the RPC makes the item: it was asked for once more, to learn its id.
    pub asks: bool,
    /// The reply, unless the last try failed.
    pub reply: Option<&'a Bytes>,
    /// The error of the last try, if it failed.
    pub error: Option<&'a CallError>,
    /// The duration of all tries.
    pub took: Duration,
}

/// Why an item stays.
#[derive(Debug)]
pub enum Why {
    /// The call failed that takes it back, or that tells its id.
    Failed(CallError),
    /// The reply that should tell its id has none.
    NoId(&'static Method),
    /// The folder cannot be removed.
    NotRemoved(io::Error),
    /// Something needs it that could not be taken back.
    InUse,
    /// The driver does not answer.
    Silent,
}

/// The engine that takes items back.
pub struct TakingBack<'a, T> {
    tool: &'a T,
    made: &'a Mutex<Made>,
    tries: Tries,
    in_use: Mutex<InUse>,
    silent: AtomicBool,
}

impl<'a, T: Tool> TakingBack<'a, T> {
    /// Takes back what is on that list.
    pub fn new(tool: &'a T, made: &'a Mutex<Made>, tries: Tries) -> Self {
        Self {
            tool,
            made,
            tries,
            in_use: Mutex::default(),
            silent: AtomicBool::new(false),
        }
    }

    /// Takes everything back, so many items at a time. Nobody may make anything meanwhile.
    pub async fn all(&self, at_a_time: usize) {
        lock(self.made).give_up_calls();
        let waves = waves(lock(self.made).all());
        for wave in waves {
            let wave = futures_util::stream::iter(wave);
            wave.for_each_concurrent(at_a_time, |number| self.one(number))
                .await;
        }
    }

    /// Takes these items back, one at a time. Nobody may ask for them meanwhile.
    pub async fn these(&self, numbers: &[u64]) {
        let waves = {
            let made = lock(self.made);
            let found = numbers
                .iter()
                .filter_map(|number| Some((*number, made.get(*number)?)));
            waves(found)
        };
        for number in waves.into_iter().flatten() {
            self.one(number).await;
        }
    }

    /// Takes one item back, and what becomes known by that, or says that it stays.
    async fn one(&self, number: u64) {
        let mut numbers = vec![number];
        while let Some(number) = numbers.pop() {
            let Some(item) = lock(self.made).get(number).cloned() else {
                continue;
            };
            match self.step(number, &item).await {
                Ok(changed) => {
                    self.tool.changed(number);
                    changed.iter().for_each(|number| self.tool.changed(*number));
                    numbers.extend(changed);
                }
                Err(why) => {
                    lock(&self.in_use).add(&item);
                    self.tool.stays(number, &item, why);
                }
            }
        }
    }

    /// Does what is next about an item; the items that have changed besides.
    async fn step(&self, number: u64, item: &Item) -> Result<Vec<u64>, Why> {
        if lock(&self.in_use).needs(item) {
            return Err(Why::InUse);
        }
        if self.silent.load(Ordering::Relaxed) && item.thing().is_some() {
            return Err(Why::Silent);
        }
        match item {
            Item::Asked {
                method, requests, ..
            } => return self.ask(number, method, requests).await,
            Item::Thing { making, undo } => {
                let result = self.call(number, making.undone_by, undo, false).await;
                // What is not there needs not to be taken back.
                if let Err(error) = result
                    && error.status.code() != Code::NotFound
                {
                    return Err(Why::Failed(error));
                }
                lock(self.made).undone(making.undone_by, undo);
            }
            Item::Folder(path) => {
                let result = self.tool.remove(path).await;
                if let Err(error) = result
                    && error.kind() != io::ErrorKind::NotFound
                {
                    return Err(Why::NotRemoved(error));
                }
                lock(self.made).gone(number);
            }
        }
        Ok(Vec::new())
    }

    /// Asks for something once more: the reply tells its id.
    async fn ask(
        &self,
        number: u64,
        method: &'static Method,
        requests: &[Bytes],
    ) -> Result<Vec<u64>, Why> {
        for request in requests {
            match self.call(number, method, request, true).await {
                Ok(reply) => {
                    let mut made = lock(self.made);
                    let changed = made.answered(number, request, Code::Ok, &reply);
                    return match made.get(number) {
                        Some(_) => Err(Why::NoId(method)),
                        None => Ok(changed),
                    };
                }
                Err(error) if makes_nothing(error.status.code()) => {}
                Err(error) => return Err(Why::Failed(error)),
            }
        }
        lock(self.made).gone(number);
        Ok(Vec::new())
    }

    /// A call with as many tries as it may have.
    async fn call(
        &self,
        worker: u64,
        method: &'static Method,
        request: &Bytes,
        asks: bool,
    ) -> Result<Bytes, CallError> {
        let began = Instant::now();
        let mut number = 0;
        let result = loop {
            let limit = self.tries.limit(began.elapsed());
            let sent = Instant::now();
            let error = match self.tool.call(worker, method, request.clone(), limit).await {
                Ok(reply) => break Ok(reply),
                Err(error) => error,
            };
            let (took, passed) = (sent.elapsed(), began.elapsed());
            match self.tries.after(&error, asks, number, took, passed) {
                NextTry::Again(pause) => {
                    self.tool.tries_again(method, error.status.code());
                    tokio::time::sleep(pause).await;
                }
                NextTry::Failed => break Err(error),
                NextTry::Silent => {
                    self.silent.store(true, Ordering::Relaxed);
                    break Err(error);
                }
            }
            number += 1;
        };
        self.tool.called(&Called {
            method,
            request,
            asks,
            reply: result.as_ref().ok(),
            error: result.as_ref().err(),
            took: began.elapsed(),
        });
        result
    }
}

/// Whether this answer to a request that is sent once more says that it has made nothing: what is there would have been
/// answered with OK. Who may not ask, or whose call broke, learns nothing.
fn makes_nothing(code: Code) -> bool {
    matches!(
        code,
        Code::InvalidArgument
            | Code::NotFound
            | Code::AlreadyExists
            | Code::ResourceExhausted
            | Code::FailedPrecondition
            | Code::OutOfRange
            | Code::Unimplemented
    )
}
