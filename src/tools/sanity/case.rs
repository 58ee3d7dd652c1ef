//! The type of a case: a declaration and a body.
//!
//! Owns the shape of declarations and the macro that writes them. Must not run anything.

pub use super::need::{NOT_ADVERTISED, Need, needs};
pub use super::verdict::{Failure, Stop, Verdict, ensure, same_id};

use super::context::Context;
use std::sync::Arc;

/// One rule of the specification, and the calls that show whether a driver keeps it.
#[derive(Clone, Copy, Debug)]
pub struct Case {
    /// The name that never changes, such as `controller/create-volume/is-idempotent`.
    pub name: &'static str,
    /// The rule as a sentence without its full stop.
    pub sentence: &'static str,
    /// The heading in the specification under which the rule stands.
    pub section: &'static str,
    /// The effect of the case on the driver.
    pub kind: CaseKind,
    /// The needs of the case: without one of them it is skipped.
    pub needs: &'static [Need],
    pub(super) body: Body,
}

/// The effect of a case on a driver, and whether other cases may run beside it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaseKind {
    /// Asks, changes nothing: also for drivers in production. Runs beside others.
    Reads,
    /// Makes and removes things of its own. Runs beside others.
    Changes,
    /// Changes volumes as [`CaseKind::Changes`] does, with nothing else running: other cases would disturb it, or be disturbed.
    Alone,
    /// Makes no call: judges the calls of all cases before it.
    Last,
}

/// The function that runs a case.
#[derive(Clone, Copy)]
pub struct Body(pub &'static (dyn Fn(&Arc<Context>) -> Verdict + Sync));

impl std::fmt::Debug for Body {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Body")
    }
}

/// Declares a case: `case!(Kind, name, sentence, section, [needs], |c| { … })`. The body runs in a
/// thread of its own and may use `?` on a [`Verdict`]; it passes when it comes to its end.
macro_rules! case {
    ($kind:ident, $name:literal, $sentence:literal, $section:literal, [$($need:expr),* $(,)?], |$c:ident| $body:block $(,)?) => {
        case!($kind, $name, $sentence, $section, &[$($need),*], |$c| $body)
    };
    ($kind:ident, $name:literal, $sentence:literal, $section:literal, $needs:expr, |$c:ident| $body:block $(,)?) => {
        $crate::tools::sanity::case::Case {
            name: $name,
            sentence: $sentence,
            section: $section,
            kind: $crate::tools::sanity::case::CaseKind::$kind,
            needs: $needs,
            body: $crate::tools::sanity::case::Body(&|$c| {
                $body
                Ok(())
            }),
        }
    };
}
pub(super) use case;
