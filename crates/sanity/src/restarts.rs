//! Counts the restarts of one case: when one is due between two steps, and what they have cut off.

use csi_proto::lock::lock;
use csi_proto::random;
use std::sync::Mutex;
use std::time::Instant;

/// The restarts of one case: those between its steps, and those that it asks for.
#[derive(Default)]
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
    /// The beginnings and ends of restarts.
    moments: usize,
    /// The last of them.
    last: Option<Instant>,
    /// Whether nobody has seen the old driver end, so that a call may still meet that.
    unseen: bool,
}

impl RestartState {
    fn is_under_way(&self) -> bool {
        !self.moments.is_multiple_of(2)
    }
}

impl Restarts {
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

    /// A point in time, to find out whether there was a restart since then.
    pub(super) fn mark(&self) -> usize {
        lock(&self.state).moments
    }

    /// Whether a restart has cut off what began then.
    pub(super) fn cut_off(&self, mark: usize) -> bool {
        let mut state = lock(&self.state);
        state.is_under_way() || state.moments != mark || std::mem::take(&mut state.unseen)
    }

    /// Nobody has seen the old driver end.
    pub(super) fn ended_unseen(&self) {
        lock(&self.state).unseen = true;
    }

    /// When the driver was last restarted, for as long as that takes.
    pub(super) fn last(&self) -> Option<Instant> {
        let state = lock(&self.state);
        match state.is_under_way() {
            true => Some(Instant::now()),
            false => state.last,
        }
    }

    /// Does something that restarts the driver.
    pub(super) fn during<T>(&self, restart: impl FnOnce() -> T) -> T {
        let passes = || {
            let mut state = lock(&self.state);
            state.moments += 1;
            state.last = Some(Instant::now());
        };
        passes();
        let done = restart();
        passes();
        done
    }

    /// Does something that is one step, whatever calls are in it.
    pub(super) fn whole<T>(&self, work: impl FnOnce() -> T) -> T {
        lock(&self.state).whole += 1;
        let done = work();
        lock(&self.state).whole -= 1;
        done
    }
}
