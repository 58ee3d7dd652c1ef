//! Faults on purpose: the calls that are delayed, failed or left without an answer, and how often.
//!
//! Owns the syntax of `--delay`, `--fail`, `--drop` and `--drop-reply`, and the counting. Must not know how calls are
//! carried or answered.

use crate::codes;
use crate::duration::{self, DurationError};
use crate::lock::lock;
use crate::schema::Method;
use std::sync::Mutex;
use std::time::Duration;
use thiserror::Error;

/// Finds the methods of a name.
pub type Named = fn(&str) -> Vec<&'static Method>;

/// The calls that a rule is for.
#[derive(Clone, Debug)]
enum CallSelector {
    All,
    Of(Vec<&'static Method>),
    /// A gRPC path, also one that CSI does not have.
    Path(String),
}

/// A rule, as one flag says it.
#[derive(Clone, Debug)]
pub struct FaultRule {
    calls: CallSelector,
    /// The number of calls that it still applies to; `None` for all calls.
    left: Option<u64>,
    fault: Fault,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    Delay(Duration),
    End(PlannedEnd),
}

/// A rule that cannot be understood.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum FaultError {
    /// Not a method by any of its names.
    #[error(
        "{0:?} is no RPC of CSI: write its name (CreateVolume, create-volume, node/publish), a path such as /csi.v1.Node/NodePublishVolume, or * for all"
    )]
    Method(String),
    /// The part after `=` is missing.
    #[error(
        "{0:?} has no status: write METHOD=CODE or METHOD=CODE:N, such as create-volume=UNAVAILABLE:2"
    )]
    NoCode(String),
    /// Not a status code that is a failure.
    #[error("{0:?} is no code of a failure: use a number from 1 to 16, or one of {codes}", codes = codes::NAMES[1..].join(", "))]
    Code(String),
    /// Not a number of calls.
    #[error("{0:?} is no number of calls: write a whole number from 1 on")]
    Count(String),
    /// Not a duration.
    #[error(transparent)]
    Duration(#[from] DurationError),
}

/// `[METHOD=]DURATION`.
///
/// # Errors
/// When the method or the duration is none.
pub fn delay(text: &str, named: Named) -> Result<FaultRule, FaultError> {
    let (calls, text) = match text.rsplit_once('=') {
        Some((method, text)) => (CallSelector::parse(method, named)?, text),
        None => (CallSelector::All, text),
    };
    Ok(FaultRule {
        calls,
        left: None,
        fault: Fault::Delay(duration::parse(text)?),
    })
}

/// `METHOD=CODE[:N]`.
///
/// # Errors
/// When the method, the code or the number is none.
pub fn fail(text: &str, named: Named) -> Result<FaultRule, FaultError> {
    let no_code = || FaultError::NoCode(text.to_owned());
    let (method, code) = text.rsplit_once('=').ok_or_else(no_code)?;
    let calls = CallSelector::parse(method, named)?;
    let (code, left) = counted(code)?;
    Ok(FaultRule {
        calls,
        left,
        fault: Fault::End(PlannedEnd::Fail(parse_code(code)?)),
    })
}

/// `METHOD[:N]`, for calls that end in this way.
///
/// # Errors
/// When the method or the number is none.
pub fn drop(text: &str, end: PlannedEnd, named: Named) -> Result<FaultRule, FaultError> {
    let (method, left) = counted(text)?;
    Ok(FaultRule {
        calls: CallSelector::parse(method, named)?,
        left,
        fault: Fault::End(end),
    })
}

fn counted(text: &str) -> Result<(&str, Option<u64>), FaultError> {
    let Some((before, number)) = text.rsplit_once(':') else {
        return Ok((text, None));
    };
    match number.parse() {
        Ok(count @ 1..) => Ok((before, Some(count))),
        _ => Err(FaultError::Count(number.to_owned())),
    }
}

fn parse_code(text: &str) -> Result<i32, FaultError> {
    let number = match text.parse::<usize>() {
        Ok(number) => Some(number),
        Err(_) => codes::NAMES
            .iter()
            .position(|name| name.eq_ignore_ascii_case(text)),
    };
    match number {
        Some(number @ 1..17) => Ok(i32::try_from(number).unwrap_or_default()),
        _ => Err(FaultError::Code(text.to_owned())),
    }
}

impl CallSelector {
    fn parse(text: &str, named: Named) -> Result<Self, FaultError> {
        if text == "*" {
            return Ok(Self::All);
        }
        if text.starts_with('/') && text.matches('/').count() == 2 {
            return Ok(Self::Path(text.to_owned()));
        }
        let methods = named(text);
        match methods.is_empty() {
            true => Err(FaultError::Method(text.to_owned())),
            false => Ok(Self::Of(methods)),
        }
    }

    fn include(&self, path: &str, method: Option<&'static Method>) -> bool {
        match self {
            Self::All => true,
            Self::Of(methods) => methods
                .iter()
                .any(|known| Some(known.path) == method.map(|method| method.path)),
            Self::Path(known) => known == path,
        }
    }
}

/// All rules.
#[derive(Debug, Default)]
pub struct Faults {
    rules: Mutex<Vec<FaultRule>>,
}

/// The faults of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FaultPlan {
    /// The delay before anything else.
    pub delay: Option<Duration>,
    /// The end that comes instead of the driver's answer.
    pub end: Option<PlannedEnd>,
}

/// The planned end of a call that is not passed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedEnd {
    /// With this code, without the driver.
    Fail(i32),
    /// Not at all: the driver never hears of it.
    Drop,
    /// Not at all, though the driver has answered.
    DropReply,
}

impl FaultPlan {
    /// The description of the faults for the log; nothing where there are none.
    pub fn describe(&self) -> Option<String> {
        let mut parts = Vec::new();
        if let Some(delay) = self.delay {
            parts.push(format!("delay {delay:?}"));
        }
        match self.end {
            Some(PlannedEnd::Fail(code)) => parts.push(format!("fail {}", codes::name(code))),
            Some(PlannedEnd::Drop) => parts.push("drop".to_owned()),
            Some(PlannedEnd::DropReply) => parts.push("drop-reply".to_owned()),
            None => {}
        }
        (!parts.is_empty()).then(|| parts.join(", "))
    }
}

impl Faults {
    /// Faults by these rules, those of each kind in the order in which they were said.
    pub fn new(mut rules: Vec<FaultRule>) -> Self {
        rules.sort_by_key(|rule| match rule.fault {
            Fault::Delay(_) | Fault::End(PlannedEnd::Fail(_)) => 0,
            Fault::End(PlannedEnd::Drop) => 1,
            Fault::End(PlannedEnd::DropReply) => 2,
        });
        let rules = Mutex::new(rules);
        Self { rules }
    }

    /// The faults of a call that begins now. Of several rules of a flag, the first that still applies counts; of several ends,
    /// that with a code comes before none, and none before one without the answer.
    pub fn plan(&self, path: &str, method: Option<&'static Method>) -> FaultPlan {
        let mut plan = FaultPlan::default();
        for rule in lock(&self.rules).iter_mut() {
            if rule.left == Some(0) || !rule.calls.include(path, method) {
                continue;
            }
            match rule.fault {
                Fault::Delay(delay) if plan.delay.is_none() => plan.delay = Some(delay),
                Fault::End(end) if plan.end.is_none() => plan.end = Some(end),
                _ => continue,
            }
            rule.left = rule.left.map(|left| left - 1);
        }
        plan
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{self, named};

    fn plan(faults: &Faults, name: &str) -> FaultPlan {
        let method = methods::by_name(name);
        faults.plan(method.map_or(name, |method| method.path), method)
    }

    #[test]
    fn rules_count_down_and_the_first_that_holds_counts() {
        let rules = [
            drop("create-volume", PlannedEnd::DropReply, named),
            drop("/own.v1.S/M:1", PlannedEnd::Drop, named),
            delay("probe=2s", named),
            delay("10ms", named),
            fail("CreateVolume=UNAVAILABLE:1", named),
            fail("CreateVolume=3:1", named),
        ];
        let faults = Faults::new(rules.map(|rule| rule.expect("a rule")).into());
        let short = Some(Duration::from_millis(10));
        let ends: Vec<_> = (0..3).map(|_| plan(&faults, "CreateVolume").end).collect();
        let failed = |code| Some(PlannedEnd::Fail(code));
        let dropped = Some(PlannedEnd::DropReply);
        assert_eq!(ends, [failed(14), failed(3), dropped]);
        assert_eq!(
            plan(&faults, "Probe"),
            FaultPlan {
                delay: Some(Duration::from_secs(2)),
                end: None
            }
        );
        assert_eq!(
            plan(&faults, "/own.v1.S/M"),
            FaultPlan {
                delay: short,
                end: Some(PlannedEnd::Drop)
            }
        );
        assert_eq!(plan(&faults, "/own.v1.S/M").end, None);
        let words = plan(&faults, "CreateVolume").describe();
        assert_eq!(words.as_deref(), Some("delay 10ms, drop-reply"));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let cases = [
            (fail("CreateVolume", named).err(), "has no status"),
            (
                fail("CreateVolume=OK", named).err(),
                "\"OK\" is no code of a failure",
            ),
            (fail("CreateVolume=17", named).err(), "\"17\" is no code"),
            (
                fail("CreateVolume=14:0", named).err(),
                "\"0\" is no number of calls",
            ),
            (
                fail("Nonsense=14", named).err(),
                "\"Nonsense\" is no RPC of CSI",
            ),
            (
                drop("probe:x", PlannedEnd::Drop, named).err(),
                "\"x\" is no number",
            ),
            (delay("probe=2", named).err(), "has no unit"),
        ];
        for (error, part) in cases {
            let error = error.expect(part).to_string();
            assert!(error.contains(part), "{error}");
        }
        let fault = fail("*=14", named).expect("a rule").fault;
        assert_eq!(fault, Fault::End(PlannedEnd::Fail(14)));
    }
}
