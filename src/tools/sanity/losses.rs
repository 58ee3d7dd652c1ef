//! The calls of a run in which the driver went away, and which cases may have led to that.

use super::verdict::Failure;

/// What a case says that lost a call: its name, and the failure.
pub type Loss = (String, Failure);

/// The calls in which the driver went away.
#[derive(Debug, Default)]
pub struct Losses {
    /// For each time that it went away, the cases whose calls were cut off.
    times: Vec<Vec<Loss>>,
    /// Whether it has come back since the last of them.
    is_back: bool,
}

impl Losses {
    /// A call of a case was cut off.
    pub(super) fn note(&mut self, case: String, failure: Failure) {
        if self.times.is_empty() || std::mem::take(&mut self.is_back) {
            self.times.push(Vec::new());
        }
        if let Some(last) = self.times.last_mut() {
            last.push((case, failure));
        }
    }

    /// The driver answers again.
    pub(super) fn is_back(&mut self) {
        self.is_back = true;
    }

    /// A case has led to it alone: every time that it ran is explained.
    pub(super) fn explain(&mut self, case: &str) {
        let is_of = |lost: &Vec<Loss>| lost.iter().any(|(name, _)| name == case);
        self.times.retain(|lost| !is_of(lost));
        // What is noted next is of another time.
        self.is_back = true;
    }

    /// The times that no case alone has led to again.
    pub(super) fn unexplained(&self) -> &[Vec<Loss>] {
        &self.times
    }
}
