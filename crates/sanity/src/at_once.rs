//! Calls that a case makes at the same time. Together they are one step: the driver is not restarted in the middle.

use super::context::{Context, encoded};
use super::verdict::{Stop, status_text};
use csi_proto::Request;
use futures_util::future::try_join_all;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::thread::{self, ScopedJoinHandle};
use tonic::Status;

impl Context {
    /// Sends requests of one kind at the same time; the answers in their order.
    ///
    /// # Errors
    /// As [`Context::send`], the first of them.
    pub fn together<Q: Request>(
        self: &Arc<Self>,
        requests: Vec<Q>,
    ) -> Result<Vec<Result<Q::Reply, Status>>, Stop> {
        self.between_steps()?;
        let limit = self.run.settings.timeout;
        let calls = requests.iter().map(encoded);
        let calls = calls.map(|request| self.exchanged(Q::METHOD, request, limit, &[]));
        // Made within the runtime, which has the clock.
        let answers = self.wait(async { try_join_all(calls).await })??;
        let answers = answers.into_iter();
        answers.map(|answer| self.decoded::<Q>(answer)).collect()
    }

    /// Sends equal requests at the same time, and one more after them, which must all be answered with OK in the end.
    ///
    /// # Errors
    /// As [`Context::all_ok`] and [`Context::ok`].
    pub fn equal_calls<Q: Request + Clone>(
        self: &Arc<Self>,
        request: Q,
        count: usize,
    ) -> Result<Vec<Q::Reply>, Stop> {
        let mut replies = self.all_ok(vec![request.clone(); count])?;
        replies.push(self.ok(request)?);
        Ok(replies)
    }

    /// Sends requests of one kind at the same time, which must all be answered with OK in the end; the replies in their order.
    ///
    /// # Errors
    /// When one is not, or as [`Context::send`].
    pub fn all_ok<Q: Request>(self: &Arc<Self>, requests: Vec<Q>) -> Result<Vec<Q::Reply>, Stop> {
        let expected = format!("{} answers OK, also at the same time", Q::METHOD.name);
        let answers = self.together(requests)?.into_iter();
        answers
            .map(|answer| answer.map_err(|status| Stop::failed(&expected, status_text(&status))))
            .collect()
    }

    /// Does two different things at the same time.
    ///
    /// # Errors
    /// When the driver cannot be restarted before them.
    pub fn at_once<A: Send, B>(
        &self,
        one: impl FnOnce() -> A + Send,
        other: impl FnOnce() -> B,
    ) -> Result<(A, B), Stop> {
        self.one_step(|| {
            let _under_way = self.begins_many();
            thread::scope(|scope| {
                let one = scope.spawn(one);
                let other = other();
                (joined(one), other)
            })
        })
    }

    /// Does the same thing several times at the same time.
    ///
    /// # Errors
    /// When the driver cannot be restarted before it.
    pub fn often_at_once<T: Send>(
        &self,
        count: usize,
        work: impl Fn() -> T + Sync,
    ) -> Result<Vec<T>, Stop> {
        self.one_step(|| {
            let _under_way = self.begins_many();
            thread::scope(|scope| {
                let all: Vec<_> = (0..count).map(|_| scope.spawn(&work)).collect();
                all.into_iter().map(joined).collect()
            })
        })
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}
