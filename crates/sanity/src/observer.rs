//! The observer of a run: it is told of every event, and it may stop the run.

use super::report::CaseResult;
use tokio::sync::watch;

/// An observer of a run.
pub trait Observer {
    /// The run begins, with that many cases.
    fn begins(&mut self, _plan: &Plan<'_>) {}
    /// A case begins.
    fn case_begins(&mut self, _name: &str) {}
    /// A case has ended.
    fn case_ended(&mut self, _result: &CaseResult) {}
    /// Information that is no result.
    fn note(&mut self, _text: &str) {}
}

/// An observer that shows nothing.
pub(super) struct Silent;

impl Observer for Silent {}

/// The plan of a run that is about to begin.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The driver's name and version.
    pub driver: (&'a str, &'a str),
    /// The endpoint.
    pub endpoint: &'a str,
    /// The number of cases, including those that will be skipped.
    pub cases: usize,
    /// The seed.
    pub seed: u64,
    /// The number of cases that run at a time.
    pub jobs: usize,
}

/// The number of requests to stop: one ends the cases and takes down what they made; two end that too.
pub type Asked = watch::Receiver<u8>;
