//! Decides whether a call that failed is made again: one that takes something back, or one of a way that is gone step by step.

use csi_call::CallError;
use csi_call::session::{Lost, had_no_answer};
use std::time::Duration;
use tonic::Code;

/// The least time limit of a single try. The user's --timeout may be meant to fail.
const TRY_AT_LEAST: Duration = Duration::from_secs(10);

/// The least time limit of all tries of a call.
const ALL_AT_LEAST: Duration = Duration::from_secs(30);

/// The pauses between tries.
const PAUSES: [Duration; 5] = [
    Duration::from_millis(20),
    Duration::from_millis(100),
    Duration::from_millis(500),
    Duration::from_millis(1000),
    Duration::from_millis(2000),
];

/// The longest pause for a driver that nobody reaches, where one that is silent is not waited for.
const BACK_WITHIN: Duration = Duration::from_millis(500);

/// The codes of failures that may pass by themselves, and those of calls that go on.
const MAY_PASS: &[Code] = &[Code::Aborted, Code::Unavailable, Code::DeadlineExceeded];
const PENDING: &[Code] = &[Code::Aborted, Code::DeadlineExceeded];

/// The limits of the tries of a call: number and time.
#[derive(Clone, Copy, Debug)]
pub struct Tries {
    /// The time limit of one try; `None` for no limit.
    pub one: Option<Duration>,
    /// For how long new tries are begun.
    pub all: Duration,
    /// The codes after which a call is made again.
    pub after: &'static [Code],
    /// The codes after which a call that takes something back is made again too. One that asks for something once more has
    /// been answered by them.
    pub also_after: &'static [Code],
    /// For how long a driver that says it goes on, with ABORTED or DEADLINE_EXCEEDED, has new tries though all pauses are over.
    pub pending: Duration,
    /// Whether a driver that does not answer is not asked again, not even for other things.
    pub answers_or_never: bool,
}

/// Whether a failure is no answer of the driver's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Silence {
    /// The driver has answered.
    No,
    /// There was no connection, or it was lost.
    Lost,
    /// There was no answer in the time of the call.
    Late,
}

/// The decision after a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NextTry {
    /// Another try, after this pause.
    Again(Duration),
    /// The call has failed.
    Failed,
    /// The call has failed, and the driver is not asked for anything else.
    Silent,
}

impl Tries {
    /// The usual tries where calls have this time limit.
    pub fn within(limit: Option<Duration>) -> Self {
        let one = limit.map(|limit| limit.max(TRY_AT_LEAST));
        let all = one.unwrap_or_default().max(ALL_AT_LEAST);
        Self {
            one,
            all,
            after: MAY_PASS,
            // Of a limit of calls at a time, or in a time.
            also_after: &[Code::ResourceExhausted],
            pending: all,
            answers_or_never: false,
        }
    }

    /// The tries of a call that goes on, as the driver says, for as long as one call may take.
    pub fn of_pending(limit: Option<Duration>) -> Self {
        let all = limit.unwrap_or(Duration::MAX);
        Self {
            one: limit,
            all,
            after: PENDING,
            also_after: &[],
            pending: all,
            answers_or_never: false,
        }
    }

    /// The time limit of a try that begins so long after the first one.
    pub fn limit(&self, passed: Duration) -> Option<Duration> {
        self.one
            .map(|limit| limit.min(self.all.saturating_sub(passed)))
    }

    /// The decision when the try of this number, from 0, has failed: it took so long, and so long has passed since the first one
    /// began. `asks` is for a call that asks for something once more.
    pub fn after(
        &self,
        error: &CallError,
        asks: bool,
        number: usize,
        took: Duration,
        passed: Duration,
    ) -> NextTry {
        let status = &error.status;
        let silence = match Lost::of(status) {
            Some(_) => Silence::Lost,
            None if had_no_answer(status, error.timeout, took) => Silence::Late,
            None => Silence::No,
        };
        self.decide(status.code(), silence, asks, number, passed)
    }

    fn decide(
        &self,
        code: Code,
        silence: Silence,
        asks: bool,
        number: usize,
        passed: Duration,
    ) -> NextTry {
        let longest = PAUSES[PAUSES.len() - 1];
        let pause = match PAUSES.get(number) {
            Some(pause) => Some(*pause),
            None => {
                let is_pending = PENDING.contains(&code);
                (is_pending && silence == Silence::No && passed < self.pending).then_some(longest)
            }
        };
        let too_long = pause.is_none_or(|pause| pause > BACK_WITHIN);
        let silent = silence == Silence::Late || silence == Silence::Lost && too_long;
        let may_pass = self.after.contains(&code) || !asks && self.also_after.contains(&code);
        match pause {
            _ if silent && self.answers_or_never => NextTry::Silent,
            Some(pause) if may_pass && passed + pause < self.all => NextTry::Again(pause),
            _ => NextTry::Failed,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Silence::{Late, Lost, No};
    use super::*;

    #[test]
    fn what_may_pass_is_tried_again_within_its_time() {
        let usual = Tries::within(Some(Duration::from_secs(5)));
        assert_eq!(usual.limit(Duration::ZERO), Some(Duration::from_secs(10)));
        assert_eq!(
            usual.limit(Duration::from_secs(25)),
            Some(Duration::from_secs(5))
        );
        assert_eq!(Tries::within(None).limit(Duration::ZERO), None);
        let strict = Tries {
            all: Duration::from_secs(5),
            pending: Duration::from_secs(4),
            also_after: &[Code::Internal],
            answers_or_never: true,
            ..usual
        };
        let soon_told = Tries {
            pending: Duration::from_secs(4),
            ..usual
        };
        let up = Tries::of_pending(Some(Duration::from_secs(60)));
        let for_ever = Tries::of_pending(None);
        let again = |milliseconds| NextTry::Again(Duration::from_millis(milliseconds));
        for (tries, code, silence, number, seconds, expected) in [
            (usual, Code::Aborted, No, 0, 0, again(20)),
            (usual, Code::Unavailable, Lost, 4, 2, again(2000)),
            (usual, Code::DeadlineExceeded, Late, 1, 20, again(100)),
            (usual, Code::DeadlineExceeded, Late, 2, 30, NextTry::Failed),
            (usual, Code::Aborted, No, 5, 4, again(2000)),
            (usual, Code::Aborted, No, 5, 28, NextTry::Failed),
            (usual, Code::Unavailable, No, 5, 4, NextTry::Failed),
            (usual, Code::Internal, No, 0, 0, NextTry::Failed),
            (usual, Code::FailedPrecondition, No, 0, 0, NextTry::Failed),
            (soon_told, Code::Aborted, No, 5, 3, again(2000)),
            (soon_told, Code::Aborted, No, 5, 4, NextTry::Failed),
            (usual, Code::ResourceExhausted, No, 0, 0, again(20)),
            (usual, Code::ResourceExhausted, No, 5, 4, NextTry::Failed),
            (up, Code::Aborted, No, 30, 55, again(2000)),
            (up, Code::Aborted, No, 30, 59, NextTry::Failed),
            (up, Code::DeadlineExceeded, No, 0, 0, again(20)),
            (up, Code::DeadlineExceeded, Late, 0, 60, NextTry::Failed),
            (up, Code::Unavailable, No, 0, 0, NextTry::Failed),
            (up, Code::ResourceExhausted, No, 0, 0, NextTry::Failed),
            (for_ever, Code::Aborted, No, 9999, 99999, again(2000)),
            (strict, Code::Internal, No, 0, 0, again(20)),
            (strict, Code::Aborted, No, 5, 2, again(2000)),
            (strict, Code::Aborted, No, 5, 3, NextTry::Failed),
            (strict, Code::Aborted, No, 5, 4, NextTry::Failed),
            (strict, Code::Unavailable, No, 5, 2, NextTry::Failed),
            (strict, Code::DeadlineExceeded, Late, 0, 0, NextTry::Silent),
            // The driver's own answer.
            (strict, Code::DeadlineExceeded, No, 0, 0, again(20)),
            (strict, Code::DeadlineExceeded, No, 5, 2, again(2000)),
            (strict, Code::Unavailable, Lost, 2, 0, again(500)),
            (strict, Code::Unavailable, Lost, 3, 0, NextTry::Silent),
        ] {
            let passed = Duration::from_secs(seconds);
            let found = tries.decide(code, silence, false, number, passed);
            assert_eq!(
                found, expected,
                "{code:?} {silence:?} {number} {seconds} {tries:?}"
            );
        }
        // The answer to a creation that is repeated.
        let found = strict.decide(Code::Internal, No, true, 0, Duration::ZERO);
        assert_eq!(found, NextTry::Failed);
    }
}
