//! Counts the restarts of one case: when one is due between two steps, and how long all of them took.

use csi_proto::lock::lock;
use csi_proto::random;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The restarts of one case: those between its steps, and the time that all of them took.
pub struct Restarts {
    /// The driver is restarted before each step of this number; before none with 0.
    every: u64,
    state: Mutex<RestartState>,
}

#[derive(Default)]
struct RestartState {
    /// The steps until now, counted from where the seed says.
    steps: u64,
    /// Whether a step was taken.
    begun: bool,
    /// The number of actions under way that count as one step, whatever calls they make.
    whole: usize,
    restarts: usize,
    /// Whether nobody has seen the old driver end, so that a call may still meet that.
    unseen: bool,
    under_way: Option<Instant>,
    spent: Duration,
}

/// A point in time, to find out whether there was a restart since then.
#[derive(Clone, Copy, Debug)]
pub struct RestartMark {
    restarts: usize,
    under_way: bool,
}

impl Restarts {
    /// Only the restarts that the case itself asks for.
    pub(super) fn asked_for() -> Self {
        Self {
            every: 0,
            state: Mutex::default(),
        }
    }

    /// The restarts that the settings ask for: before every step of a number, and in cases of the lifecycle before each, so
    /// that all pairs of its steps are tried.
    pub(super) fn between_steps(every: u64, is_lifecycle: bool, seed: u64, number: u64) -> Self {
        let every = match every {
            2.. if is_lifecycle => 1,
            every => every,
        };
        let state = RestartState {
            steps: random::from_seed(seed, number) % every.max(1),
            ..RestartState::default()
        };
        Self {
            every,
            state: Mutex::new(state),
        }
    }

    /// Counts a step that is about to be taken, and returns whether the driver is to be restarted before it.
    pub(super) fn is_due(&self) -> bool {
        let mut state = lock(&self.state);
        if self.every == 0 || state.whole > 0 {
            return false;
        }
        state.steps += 1;
        // Nothing comes before the first step.
        std::mem::replace(&mut state.begun, true) && state.steps.is_multiple_of(self.every)
    }

    pub(super) fn mark(&self) -> RestartMark {
        let state = lock(&self.state);
        RestartMark {
            restarts: state.restarts,
            under_way: state.under_way.is_some(),
        }
    }

    /// Whether a restart has cut off what began then.
    pub(super) fn cut_off(&self, mark: RestartMark) -> bool {
        let mut state = lock(&self.state);
        mark.under_way || state.restarts != mark.restarts || std::mem::take(&mut state.unseen)
    }

    /// Nobody has seen the old driver end.
    pub(super) fn ended_unseen(&self) {
        lock(&self.state).unseen = true;
    }

    /// The duration of the restarts, which does not count as the case's.
    pub(super) fn spent(&self) -> Duration {
        let state = lock(&self.state);
        state.spent
            + state
                .under_way
                .map_or(Duration::ZERO, |began| began.elapsed())
    }

    /// A restart begins.
    pub(super) fn begin(&self) {
        let mut state = lock(&self.state);
        state.restarts += 1;
        state.under_way = Some(Instant::now());
    }

    /// The restart has ended.
    pub(super) fn end(&self) {
        let mut state = lock(&self.state);
        let took = state.under_way.take().map(|began| began.elapsed());
        state.spent += took.unwrap_or_default();
    }

    /// Does something that is one step, whatever calls are in it.
    pub(super) fn whole<T>(&self, work: impl FnOnce() -> T) -> T {
        lock(&self.state).whole += 1;
        let done = work();
        lock(&self.state).whole -= 1;
        done
    }
}
