//! Who follows a run, and who may stop it.

use super::report::CaseResult;
use tokio::sync::watch;

/// Who follows a run while it goes on.
pub trait Observer {
    /// The run begins, with that many cases.
    fn begins(&mut self, _plan: &Plan<'_>) {}
    /// A case begins.
    fn case_begins(&mut self, _name: &str) {}
    /// A case has ended.
    fn case_ended(&mut self, _result: &CaseResult) {}
    /// Something that is worth knowing and no result.
    fn note(&mut self, _text: &str) {}
}

/// Nobody.
pub(super) struct Silent;

impl Observer for Silent {}

/// What is about to run.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The driver's name and version.
    pub driver: (&'a str, &'a str),
    /// The endpoint.
    pub endpoint: &'a str,
    /// How many cases there are, those that will be skipped among them.
    pub cases: usize,
    /// The seed.
    pub seed: u64,
    /// How many run at a time.
    pub jobs: usize,
}

/// How often somebody has asked to stop: once ends the cases, and takes down what they made; twice ends that too.
pub type Asked = watch::Receiver<u8>;
