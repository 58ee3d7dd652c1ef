//! The type of a case, and the list that the cases of a subject are written into.
//!
//! A file of `cases/` says a fact before the cases that it holds for: the beginning of their names, the heading of the
//! specification, their needs. A case adds its rule, the end of its name, and what it alone needs. Its name is the two
//! parts with a `/` between: `about("node/stage", …)` and `changes("is-idempotent", …)` make `node/stage/is-idempotent`.
//! Runs nothing.

pub use super::need::{NOT_ADVERTISED, Need, needs};
pub use super::verdict::{Failure, Stop, Verdict};

use super::context::Context;
use super::dependencies::Subject;
use super::settings::Access;
use std::fmt;
use std::sync::Arc;

/// One rule of the specification, and the calls that show whether a driver keeps it.
pub struct Case {
    /// The name that never changes, such as `controller/create-volume/is-idempotent`.
    pub name: String,
    /// The rule as a sentence without its full stop.
    pub sentence: String,
    /// The heading in the specification under which the rule stands.
    pub section: String,
    /// The effect of the case on the driver.
    pub kind: CaseKind,
    /// The needs of the case: without one of them it is skipped.
    pub needs: Vec<Need>,
    pub(super) body: Box<AnyCalls>,
}

/// What ends the name of a case's run for block.
const OF_BLOCK: &str = "@block";

impl Case {
    /// What it is about.
    pub(super) fn subject(&'static self) -> Subject {
        Subject {
            name: &self.name,
            section: &self.section,
            is_first: self.kind == CaseKind::First,
        }
    }

    /// The name of the case's run for an access type.
    pub(super) fn name_for(&self, access: Access) -> String {
        match access {
            Access::Mount => self.name.clone(),
            Access::Block => format!("{}{OF_BLOCK}", self.name),
        }
    }
}

/// The name of the case whose run has this name.
pub fn without_access(name: &str) -> &str {
    name.strip_suffix(OF_BLOCK).unwrap_or(name)
}

impl fmt::Debug for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

/// The effect of a case on a driver, and whether other cases may run beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseKind {
    /// Makes and removes things of its own, before all other cases: what fails here is not held against those.
    First,
    /// Asks, changes nothing: also for drivers in production. Runs beside others.
    Reads,
    /// Makes and removes things of its own. Runs beside others.
    Changes,
    /// Changes volumes as [`CaseKind::Changes`] does, with nothing else running: other cases would disturb it, or be disturbed.
    Alone,
    /// Does once more, with nothing else running and after all others that call, what worked before them.
    Closing,
    /// Makes no call: judges the calls of all cases before it.
    Last,
}

/// The calls and demands of a case, which run in a thread of their own. It passes when they come to their end with any value.
pub(super) type Calls<T> = fn(&Arc<Context>) -> Result<T, Stop>;

/// The calls and demands of any case, which may depend on values from outside.
type AnyCalls = dyn Fn(&Arc<Context>) -> Verdict + Send + Sync;

/// Cases in the making. [`Cases::about`] and [`Cases::needs`] hold until they are said anew, the rest for one case.
#[derive(Default)]
pub(super) struct Cases {
    made: Vec<Case>,
    about: String,
    heading: String,
    needs: Vec<Need>,
    sentence: String,
    section: String,
    more_needs: Vec<Need>,
}

impl Cases {
    /// The beginning of the names of the cases that follow, and the heading about their RPC. They have no needs until
    /// [`Cases::needs`] says some.
    pub fn about(&mut self, name: &str, heading: &str) {
        (self.about, self.heading) = (name.to_owned(), heading.to_owned());
        self.needs.clear();
    }

    /// The needs of all cases that follow.
    pub fn needs(&mut self, needs: &[Need]) {
        self.needs = needs.to_vec();
    }

    /// The rule of the next case.
    pub fn rule(&mut self, sentence: &str) {
        (self.section, self.sentence) = (self.heading.clone(), sentence.to_owned());
    }

    /// The rule of the next case, from the RPC's table of errors.
    pub fn error(&mut self, sentence: &str) {
        self.rule(sentence);
        self.section += " Errors";
    }

    /// The heading of the next case, where its rule stands under another one than that of the RPC. Said after the rule.
    pub fn under(&mut self, section: &str) -> &mut Self {
        section.clone_into(&mut self.section);
        self
    }

    /// The further needs of the next case.
    pub fn also(&mut self, needs: &[Need]) -> &mut Self {
        self.more_needs.extend_from_slice(needs);
        self
    }

    /// A case that asks, and changes nothing.
    pub fn reads<T: 'static>(&mut self, name: &str, calls: Calls<T>) {
        self.add(CaseKind::Reads, name, move |c| calls(c).map(drop));
    }

    /// A case that makes and removes things of its own.
    pub fn changes<T: 'static>(&mut self, name: &str, calls: Calls<T>) {
        self.add(CaseKind::Changes, name, move |c| calls(c).map(drop));
    }

    /// A case that changes things with nothing else running.
    pub fn alone<T: 'static>(&mut self, name: &str, calls: Calls<T>) {
        self.add(CaseKind::Alone, name, move |c| calls(c).map(drop));
    }

    /// A case that judges the calls of all cases before it.
    pub fn last<T: 'static>(&mut self, name: &str, calls: Calls<T>) {
        self.add(CaseKind::Last, name, move |c| calls(c).map(drop));
    }

    /// A case of any kind, whose calls may depend on values from outside.
    pub fn add<F>(&mut self, kind: CaseKind, name: &str, calls: F)
    where
        F: Fn(&Arc<Context>) -> Verdict + Send + Sync + 'static,
    {
        let mut needs = self.needs.clone();
        needs.append(&mut self.more_needs);
        self.made.push(Case {
            name: format!("{}/{name}", self.about),
            // Taken: a case without a rule of its own has none, which a test finds.
            sentence: std::mem::take(&mut self.sentence),
            section: std::mem::take(&mut self.section),
            kind,
            needs,
            body: Box::new(calls),
        });
    }

    /// The cases, in the order in which they were written.
    pub fn done(self) -> Vec<Case> {
        self.made
    }
}
