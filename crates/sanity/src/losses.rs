//! The calls of a run in which the driver went away, and which cases may have led to that.

use super::own_driver::DriverDeath;
use super::verdict::Failure;

/// A call that was cut off.
#[derive(Clone, Debug)]
pub struct Loss {
    /// The case that made it.
    pub(super) case: String,
    /// The name of the RPC.
    pub(super) method: &'static str,
    /// What the case says of that.
    pub(super) failure: Failure,
}

/// A time that the driver went away.
#[derive(Debug, Default)]
pub struct Absence {
    /// The calls that were cut off; never empty.
    pub(super) calls: Vec<Loss>,
    /// How it ended by itself, where the run has started it.
    pub(super) death: Option<DriverDeath>,
}

/// The calls in which the driver went away.
#[derive(Debug, Default)]
pub struct Losses {
    times: Vec<Absence>,
    /// How often it went away.
    count: usize,
    /// The cases that have led to it alone.
    killers: Vec<String>,
    /// Whether it has come back since the last of them.
    is_back: bool,
}

impl Losses {
    /// A call was cut off.
    pub(super) fn note(&mut self, loss: Loss) {
        if self.times.is_empty() || std::mem::take(&mut self.is_back) {
            self.times.push(Absence::default());
            self.count += 1;
        }
        if let Some(last) = self.times.last_mut() {
            last.calls.push(loss);
        }
    }

    /// A case knows more of how the driver went away.
    pub(super) fn tell(&mut self, case: &str, failure: &Failure) {
        let all = self.times.iter_mut().flat_map(|one| &mut one.calls);
        if let Some(last) = all.filter(|one| one.case == case).last() {
            last.failure.clone_from(failure);
        }
    }

    /// How often the driver has gone away until now.
    pub(super) fn count(&self) -> usize {
        self.count
    }

    /// The driver of the run's own has ended by itself.
    pub(super) fn died(&mut self, death: DriverDeath) {
        if let Some(last) = self.times.last_mut().filter(|_| !self.is_back) {
            last.death = Some(death);
        }
    }

    /// The driver answers again.
    pub(super) fn came_back(&mut self) {
        self.is_back = true;
    }

    /// A case has led to it alone: every time that it ran is explained.
    pub(super) fn explain(&mut self, case: &str) {
        let is_of = |lost: &Absence| lost.calls.iter().any(|one| one.case == case);
        self.times.retain(|lost| !is_of(lost));
        self.killers.push(case.to_owned());
        // What is noted next is of another time.
        self.is_back = true;
    }

    /// The cases that have led to it alone.
    pub(super) fn killers(&self) -> &[String] {
        &self.killers
    }

    /// The times that no case alone has led to again.
    pub(super) fn unexplained(&self) -> &[Absence] {
        &self.times
    }
}

/// The calls that were under way when the driver went away, in words.
pub fn suspects(lost: &[Loss]) -> String {
    let names = lost
        .iter()
        .map(|one| format!("{} of {}", one.method, one.case));
    Vec::from_iter(names).join(", ")
}
