//! What is waited for: by which RPC a driver can be asked, and whether what it says is what was waited for.
//!
//! Decides only; asks nobody.

use clap::ValueEnum;
use csi_error::Error;
use csi_rpc::facts::ControllerCapability;
use tonic::Code;

/// The kind of thing that is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// A volume
    Volume,
    /// A snapshot
    Snapshot,
}

/// What a thing can be waited for to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Condition {
    /// The driver has it, and says of a snapshot that it is ready to use
    Ready,
    /// The driver says that its condition is not abnormal
    Healthy,
    /// The driver says that its condition is abnormal
    Abnormal,
    /// The driver does not have it
    Gone,
}

/// What a driver says of a thing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It has none of that id.
    Absent,
    /// It has it.
    Present {
        /// Whether it can be used.
        ready: bool,
        /// Whether its condition is abnormal, and why or why not; `None` where nothing is said.
        abnormal: Option<(bool, String)>,
    },
}

/// Whether the waiting is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is so.
    Met,
    /// Not yet, for this reason.
    NotYet(String),
    /// It cannot become so: ids of things that are not there do not come to life.
    Never,
}

impl Condition {
    /// Whether only volumes can be so.
    pub fn is_of_volumes(self) -> bool {
        matches!(self, Self::Healthy | Self::Abnormal)
    }

    /// Whether a thing in that state is what was waited for.
    pub fn verdict(self, state: &State) -> Verdict {
        let (ready, abnormal) = match (self, state) {
            (Self::Gone, State::Absent) => return Verdict::Met,
            (Self::Gone, State::Present { .. }) => {
                return Verdict::NotYet("the driver still has it".to_owned());
            }
            (_, State::Absent) => return Verdict::Never,
            (_, State::Present { ready, abnormal }) => (*ready, abnormal),
        };
        match (self, abnormal) {
            (Self::Ready | Self::Gone, _) if ready => Verdict::Met,
            (Self::Ready | Self::Gone, _) => Verdict::NotYet("it is not ready to use".to_owned()),
            (_, None) => Verdict::NotYet("the driver says nothing about its condition".to_owned()),
            (wanted, Some((is, _))) if *is == (wanted == Self::Abnormal) => Verdict::Met,
            (_, Some((true, why))) => Verdict::NotYet(format!("abnormal: {why}")),
            (_, Some((false, _))) => Verdict::NotYet("its condition is healthy".to_owned()),
        }
    }
}

/// The capability whose RPC a driver can be asked by, one thing rather than a list.
///
/// # Errors
/// When it lacks a capability.
pub fn way(
    kind: Kind,
    condition: Condition,
    has: impl Fn(ControllerCapability) -> bool,
) -> Result<ControllerCapability, Error> {
    use ControllerCapability as C;
    let ways = match kind {
        Kind::Volume => [C::GetVolume, C::ListVolumes],
        Kind::Snapshot => [C::GetSnapshot, C::ListSnapshots],
    };
    let missing = |what: &str| {
        let message = format!("the driver does not advertise {what}, so this cannot be known");
        Error::rpc(Code::Unimplemented, message)
    };
    if condition.is_of_volumes() && !has(C::VolumeCondition) {
        return Err(missing(C::VolumeCondition.as_str_name()));
    }
    let found = ways.into_iter().find(|way| has(*way));
    found.ok_or_else(|| missing(&ways.map(|way| way.as_str_name()).join(" or ")))
}

/// The RPC to ask by instead, where the first one turns out to have an answer for any id: whether a volume is there at all is
/// what these conditions are about.
pub fn surer_way(
    way: ControllerCapability,
    condition: Condition,
    has: impl Fn(ControllerCapability) -> bool,
) -> Option<ControllerCapability> {
    use ControllerCapability as C;
    let is_meant = way == C::GetVolume && matches!(condition, Condition::Ready | Condition::Gone);
    (is_meant && has(C::ListVolumes)).then_some(C::ListVolumes)
}

/// Whether asking again can mend it: a driver that restarts, or is busy with the same thing.
pub fn may_mend(code: Code) -> bool {
    matches!(
        code,
        Code::Unavailable | Code::Aborted | Code::DeadlineExceeded
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use ControllerCapability as C;
    use csi_error::Style;

    #[test]
    fn a_driver_is_asked_by_what_it_advertises() {
        use C::{GetSnapshot, GetVolume, ListSnapshots, ListVolumes};
        use Condition::{Abnormal, Gone, Healthy, Ready};
        use Kind::{Snapshot, Volume};
        let conditions = &[ListVolumes, C::VolumeCondition];
        let (no_volumes, no_snapshots) = (
            "GET_VOLUME or LIST_VOLUMES",
            "GET_SNAPSHOT or LIST_SNAPSHOTS",
        );
        let snapshots = &[GetSnapshot, ListSnapshots];
        for (kind, condition, advertised, expected) in [
            (Volume, Ready, &[GetVolume, ListVolumes][..], Ok(GetVolume)),
            (Volume, Gone, &[ListVolumes], Ok(ListVolumes)),
            (Volume, Ready, &[], Err(no_volumes)),
            (Volume, Healthy, &[GetVolume], Err("VOLUME_CONDITION")),
            (Volume, Abnormal, conditions, Ok(ListVolumes)),
            (Snapshot, Ready, snapshots, Ok(GetSnapshot)),
            (Snapshot, Gone, &[ListSnapshots], Ok(ListSnapshots)),
            (Snapshot, Ready, &[GetVolume], Err(no_snapshots)),
        ] {
            let found = way(kind, condition, |one| advertised.contains(&one));
            match (found, expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected),
                (Err(error), Err(names)) => {
                    let text = error.render(Style::Text);
                    let part = format!("UNIMPLEMENTED: the driver does not advertise {names}, so");
                    assert!(text.contains(&part), "{text}");
                }
                (found, expected) => panic!("{kind:?} {condition:?}: {found:?} {expected:?}"),
            }
        }
    }

    #[test]
    fn what_a_driver_says_ends_the_waiting_or_not() {
        let present = |ready, abnormal: Option<bool>| State::Present {
            ready,
            abnormal: abnormal.map(|abnormal| (abnormal, "why".to_owned())),
        };
        use Condition::{Abnormal, Gone, Healthy, Ready};
        let silent = "the driver says nothing about its condition";
        for (condition, state, expected) in [
            (Gone, State::Absent, "met"),
            (Gone, present(true, None), "the driver still has it"),
            (Ready, State::Absent, "never"),
            (Ready, present(true, Some(true)), "met"),
            (Ready, present(false, None), "it is not ready to use"),
            (Healthy, State::Absent, "never"),
            (Healthy, present(true, Some(false)), "met"),
            (Healthy, present(true, Some(true)), "abnormal: why"),
            (Healthy, present(true, None), silent),
            (Abnormal, present(true, Some(true)), "met"),
            (
                Abnormal,
                present(true, Some(false)),
                "its condition is healthy",
            ),
        ] {
            let verdict = match condition.verdict(&state) {
                Verdict::Met => "met".to_owned(),
                Verdict::NotYet(why) => why,
                Verdict::Never => "never".to_owned(),
            };
            assert_eq!(verdict, expected, "{condition:?} {state:?}");
        }
    }
}
