//! The end of a case: passed, failed (with the expected and the actual answer), or skipped.

use crate::call::session::Lost;
use crate::error::code_name;
use csi_proto::schema::Method;
use tonic::{Code, Status};

/// Why a case ended before its end.
#[derive(Clone, Debug)]
pub enum Stop {
    /// The driver broke the rule.
    Failed(Failure),
    /// The rule cannot be shown here; the text says why.
    Skipped(String),
}

/// The expected and the actual answer. Texts of a driver are kept as they came: escape them before showing them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The demand of the specification.
    pub expected: String,
    /// The behaviour of the driver.
    pub actual: String,
}

impl Stop {
    /// The driver broke the rule.
    pub fn failed(expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self::Failed(Failure {
            expected: expected.into(),
            actual: actual.into(),
        })
    }
}

/// The end of a case.
pub type Verdict = Result<(), Stop>;

/// Demands that `kept` holds.
///
/// # Errors
/// Otherwise, with the two texts.
pub fn ensure(kept: bool, expected: &str, actual: impl Into<String>) -> Verdict {
    match kept {
        true => Ok(()),
        false => Err(Stop::failed(expected, actual)),
    }
}

/// Demands that an answer has the same id as one before it.
///
/// # Errors
/// Otherwise, with both ids and `what` they name.
pub fn same_id(what: &str, wanted: &str, found: &str) -> Verdict {
    ensure(
        wanted == found,
        &format!("the {what} {wanted} again"),
        format!("the {what} {found}"),
    )
}

/// The expected answer to a call that must succeed, as the first half of a failure.
pub fn answers_ok(method: &Method) -> String {
    format!("{} answers OK", method.name)
}

/// Codes as the first half of a failure names them.
pub fn any_of(codes: &[Code]) -> String {
    let names: Vec<_> = codes.iter().map(|code| code_name(*code)).collect();
    names.join(" or ")
}

/// A status as the second half of a failure.
pub fn status_text(status: &Status) -> String {
    if let Some(lost) = Lost::of(status) {
        return format!("it did not answer: UNAVAILABLE: {lost}");
    }
    let message = match status.message() {
        "" => "(no message)",
        message => message,
    };
    format!("it answered {}: {message}", code_name(status.code()))
}
