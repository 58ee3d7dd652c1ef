//! The end of a case: passed, failed (with the expected and the actual answer), or skipped.

use csi_call::secrets::masked;
use csi_call::session::{Lost, NO_ANSWER};
use csi_error::code_name;
use csi_proto::schema::Method;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::{self, Display};
use tonic::{Code, Status};

/// Why a case ended before its end.
#[derive(Clone, Debug)]
pub enum Stop {
    /// The driver broke the rule.
    Failed(Failure),
    /// The rule cannot be shown here; the text says why.
    Skipped(String),
    /// This side cannot do what would show the rule, so that the run is incomplete; the text says why.
    Barred(String),
    /// The rule cannot be shown where one of these cases fails; the text says why.
    Unjudged(Vec<&'static str>, String),
}

/// The expected and the actual answer. Texts of a driver are kept as they came: escape them before showing them.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Failure {
    /// The demand of the specification.
    pub expected: String,
    /// The behaviour of the driver.
    pub actual: String,
    /// The end of the stderr of a driver that the run has started and that died in it, line by line.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stderr: Vec<String>,
}

impl Failure {
    pub(super) fn new(expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self {
            expected: expected.into(),
            actual: actual.into(),
            stderr: Vec::new(),
        }
    }

    /// The same with secrets masked that a driver has repeated.
    pub(super) fn masked(&self, secrets: &[String]) -> Self {
        Self {
            expected: masked(&self.expected, secrets).into_owned(),
            actual: masked(&self.actual, secrets).into_owned(),
            stderr: Vec::from_iter(self.stderr.iter().map(|line| masked(line, secrets).into())),
        }
    }
}

impl Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, but {}", self.expected, self.actual)
    }
}

impl Stop {
    /// The driver broke the rule.
    pub fn failed(expected: impl Into<String>, actual: impl Into<String>) -> Self {
        Self::Failed(Failure::new(expected, actual))
    }

    /// The same with secrets masked that a driver has repeated.
    pub(super) fn masked(&self, secrets: &[String]) -> Self {
        match self {
            Self::Failed(failure) => Self::Failed(failure.masked(secrets)),
            Self::Skipped(reason) => Self::Skipped(masked(reason, secrets).into_owned()),
            Self::Barred(reason) => Self::Barred(masked(reason, secrets).into_owned()),
            Self::Unjudged(on, reason) => {
                Self::Unjudged(on.clone(), masked(reason, secrets).into_owned())
            }
        }
    }

    /// The rule cannot be shown here.
    pub fn skipped(reason: impl Into<String>) -> Self {
        Self::Skipped(reason.into())
    }
}

/// The end of a case.
pub type Verdict = Result<(), Stop>;

/// Demands that `kept` holds.
///
/// # Errors
/// Otherwise, with the two texts.
pub fn ensure(kept: bool, expected: impl Into<String>, actual: impl Into<String>) -> Verdict {
    match kept {
        true => Ok(()),
        false => Err(Stop::failed(expected, actual)),
    }
}

/// Demands that a value is the wanted one.
///
/// # Errors
/// Otherwise, with both values and `what` they are.
pub fn same<T: PartialEq + Display>(what: &str, wanted: &T, found: &T) -> Verdict {
    ensure(
        wanted == found,
        format!("{what} {wanted}"),
        found.to_string(),
    )
}

/// Keys and values, such as a volume's context, as a failure shows them.
pub fn pairs_text(pairs: &BTreeMap<String, String>) -> String {
    list_text(pairs.iter().map(|(key, value)| format!("{key}={value:?}")))
}

/// Ids and the like as a failure shows them.
pub fn list_text<T: Display>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<_> = items.into_iter().map(|one| one.to_string()).collect();
    match items.is_empty() {
        true => "none".to_owned(),
        false => items.join(", "),
    }
}

/// Demands that a refusal has one of the codes.
///
/// # Errors
/// Otherwise, with what was expected.
pub fn same_code(status: &Status, codes: &[Code], expected: &str) -> Verdict {
    let kept = codes.contains(&status.code());
    ensure(kept, expected, status_text(status))
}

/// Skips a case that can show nothing, unless the condition holds.
///
/// # Errors
/// When it does not, with the reason.
pub fn skip_unless(holds: bool, reason: &str) -> Verdict {
    match holds {
        true => Ok(()),
        false => Err(Stop::skipped(reason)),
    }
}

/// Skips a case that can show nothing where one of these cases fails, unless the condition holds.
///
/// # Errors
/// When it does not, with the reason.
pub fn unjudged_unless(
    holds: bool,
    on: impl IntoIterator<Item = &'static str>,
    reason: &str,
) -> Verdict {
    match holds {
        true => Ok(()),
        false => Err(Stop::Unjudged(Vec::from_iter(on), reason.to_owned())),
    }
}

/// Makes a demand of each of several items, up to the first that does not keep it.
///
/// # Errors
/// That of the first.
pub fn each<I, T>(
    items: impl IntoIterator<Item = I>,
    mut demand: impl FnMut(I) -> Result<T, Stop>,
) -> Verdict {
    items
        .into_iter()
        .try_for_each(|item| demand(item).map(drop))
}

/// Demands that an answer has the same id as one before it.
///
/// # Errors
/// Otherwise, with both ids and `what` they name.
pub fn same_id(what: &str, wanted: &str, found: &str) -> Verdict {
    let expected = format!("the {what} {wanted} again");
    ensure(wanted == found, expected, format!("the {what} {found}"))
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
        NO_ANSWER => return format!("it did not answer: {NO_ANSWER}"),
        "" => "(no message)",
        message => message,
    };
    format!("it answered {}: {message}", code_name(status.code()))
}
