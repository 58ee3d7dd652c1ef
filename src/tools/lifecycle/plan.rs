//! Plans the further steps of a lifecycle, beyond those of every volume: which it has, and why one is left out.
//!
//! Decides only.

use clap::ValueEnum;
use csi_call::Advertised;
use csi_error::{Error, ErrorKind};
use csi_invocation::parse::word_of;
use csi_rpc::facts::{ControllerCapability, NodeCapability};
use tonic::Code;

/// A step beyond those that every volume has, in the order in which they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Further {
    /// How full the volume is and in which condition, before the other steps and after them
    Stats,
    /// Make the volume twice as large
    Expand,
    /// Take a snapshot of it
    Snapshot,
    /// Make a volume of the snapshot, and find the data there
    Restore,
    /// Make a volume of the volume, and find the data there
    Clone,
}

/// What the flags say of these steps.
#[derive(Clone, Debug, Default)]
pub struct Wishes {
    /// Only these; all where none is named.
    pub only: Vec<Further>,
    /// Not these.
    pub skip: Vec<Further>,
    /// Whether the volume is one that this run makes.
    pub is_own: bool,
}

/// The steps of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Those that are wanted and cannot be done, with the reason.
    pub left_out: Vec<(Further, &'static str)>,
    /// Those that will be done.
    pub steps: Vec<Further>,
    /// Whether a volume is expanded while it is published. Else it is expanded before it is attached to a node. Orchestrators do that too
    /// where a driver says neither.
    pub expands_online: bool,
    /// Whether the driver is asked for the volume's condition.
    pub asks_condition: bool,
    /// Whether a step can be left out by a flag: where some are named, the others are left out already.
    pub may_skip: bool,
}

impl Further {
    /// The flag that leaves it out, as it is typed.
    pub fn skipped_by(self) -> String {
        format!("--skip {}", word_of(&self))
    }

    /// Its name in the output.
    pub fn name(self) -> &'static str {
        match self {
            Self::Stats => "node stats",
            Self::Expand => "expand",
            Self::Snapshot => "snapshot",
            Self::Restore => "restore",
            Self::Clone => "clone",
        }
    }
}

impl Wishes {
    fn wants(&self, step: Further) -> bool {
        let named = |step| self.only.is_empty() || self.only.contains(&step);
        // Nothing can be restored without it.
        let needed = step == Further::Snapshot && self.only.contains(&Further::Restore);
        (named(step) || needed) && !self.skip.contains(&step)
    }
}

impl Plan {
    /// The steps that are wanted of a driver that advertises this.
    pub fn of(wishes: &Wishes, advertised: &Advertised) -> Self {
        let mut plan = Self {
            asks_condition: !wishes.skip.contains(&Further::Stats),
            may_skip: wishes.only.is_empty(),
            expands_online: advertised.expands_online(),
            ..Self::default()
        };
        for &step in Further::value_variants() {
            if !wishes.wants(step) {
                continue;
            }
            match plan.obstacle(step, wishes, advertised) {
                Some(why) => plan.left_out.push((step, why)),
                None => plan.steps.push(step),
            }
        }
        plan
    }

    /// Whether a step will be done.
    pub fn has(&self, step: Further) -> bool {
        self.steps.contains(&step)
    }

    /// The steps for a volume that is as it should be, or is not: what would be done to that, or made of it, shows nothing of
    /// the driver.
    pub fn of_volume(&self, is_abnormal: bool) -> Self {
        let mut plan = self.clone();
        if is_abnormal {
            plan.steps.retain(|step| *step == Further::Stats);
            let dropped = self.steps.iter().filter(|step| **step != Further::Stats);
            plan.left_out.extend(dropped.map(|step| (*step, ABNORMAL)));
        }
        plan
    }

    /// Says of a failure in a step how the step is left out, where that helps.
    pub fn skipped_by(&self, step: Further) -> impl Fn(Error) -> Error {
        let may_skip = self.may_skip;
        move |error| match error.kind() {
            // What was slow once will be slow again, in any step.
            ErrorKind::Interrupted | ErrorKind::Rpc(Code::DeadlineExceeded) => error,
            _ if !may_skip => error,
            _ => error.hint(format!("{} leaves this step out", step.skipped_by())),
        }
    }

    /// Whether the data of the volume is looked for in others.
    pub fn copies(&self) -> bool {
        self.has(Further::Restore) || self.has(Further::Clone)
    }

    fn obstacle(&self, step: Further, wishes: &Wishes, of: &Advertised) -> Option<&'static str> {
        use ControllerCapability as C;
        let is_safe = wishes.is_own || step == Further::Stats || !wishes.only.is_empty();
        let makes = of.controller(C::CreateDeleteVolume);
        let expands = of.controller(C::ExpandVolume) || of.node(NodeCapability::ExpandVolume);
        match step {
            _ if !is_safe => {
                Some("the volume is not this run's: --only names what may be done to it")
            }
            Further::Stats if !of.node(NodeCapability::GetVolumeStats) => {
                Some("not advertised: GET_VOLUME_STATS")
            }
            Further::Expand if !expands => Some("not advertised: EXPAND_VOLUME"),
            Further::Snapshot if !of.controller(C::CreateDeleteSnapshot) => {
                Some("not advertised: CREATE_DELETE_SNAPSHOT")
            }
            Further::Restore if !self.has(Further::Snapshot) => Some("there is no snapshot"),
            Further::Restore | Further::Clone if !makes => {
                Some("not advertised: CREATE_DELETE_VOLUME")
            }
            Further::Clone if !of.controller(C::CloneVolume) => {
                Some("not advertised: CLONE_VOLUME")
            }
            _ => None,
        }
    }
}

/// Why a step is not done that depends on the volume's condition.
pub const ABNORMAL: &str = "the volume is abnormal";

/// The size to which a volume is expanded, twice what it has or was asked for; `None` where a limit leaves no room.
pub fn larger(capacity: i64, required: i64, limit: i64) -> Option<i64> {
    /// Of a volume of which no size is known.
    const SMALL: i64 = 1 << 30;
    let now = match capacity.max(required) {
        0 => SMALL,
        known => known,
    };
    let twice = now.saturating_mul(2);
    let size = if limit > 0 { twice.min(limit) } else { twice };
    (size > now).then_some(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use ControllerCapability as C;
    use NodeCapability as N;
    use csi_proto::v1::plugin_capability::volume_expansion::Type as Expands;
    use csi_rpc::facts::PluginCapability as P;

    /// A driver that has all that a step needs, and expands volumes while they are published.
    fn everything() -> Advertised {
        let controller = [
            C::CreateDeleteVolume,
            C::CreateDeleteSnapshot,
            C::CloneVolume,
            C::ExpandVolume,
        ];
        Advertised {
            plugin: vec![P::ControllerService.into(), Expands::Online.into()],
            controller: controller.map(Into::into).into(),
            node: vec![N::GetVolumeStats.into()],
            serves_node: true,
            ..Advertised::default()
        }
    }

    #[test]
    fn steps_are_those_that_are_wanted_and_advertised() {
        use Further::{Clone, Expand, Restore, Snapshot, Stats};
        let everything = everything();
        let nothing = Advertised::default();
        let still = Advertised {
            plugin: vec![P::ControllerService.into()],
            node: Vec::new(),
            ..everything.clone()
        };
        for (of, only, skip, is_own, steps, left_out) in [
            (
                &everything,
                &[][..],
                &[][..],
                true,
                &[Stats, Expand, Snapshot, Restore, Clone][..],
                &[][..],
            ),
            (&everything, &[Clone], &[], true, &[Clone], &[]),
            (
                &everything,
                &[Restore],
                &[],
                true,
                &[Snapshot, Restore],
                &[],
            ),
            (
                &everything,
                &[],
                &[Snapshot],
                true,
                &[Stats, Expand, Clone],
                &[Restore],
            ),
            (
                &everything,
                &[],
                &[],
                false,
                &[Stats],
                &[Expand, Snapshot, Restore, Clone],
            ),
            (&everything, &[Snapshot], &[], false, &[Snapshot], &[]),
            (
                &nothing,
                &[],
                &[],
                true,
                &[],
                &[Stats, Expand, Snapshot, Restore, Clone],
            ),
            (
                &still,
                &[],
                &[],
                true,
                &[Expand, Snapshot, Restore, Clone],
                &[Stats],
            ),
        ] {
            let wishes = Wishes {
                only: only.to_vec(),
                skip: skip.to_vec(),
                is_own,
            };
            let plan = Plan::of(&wishes, of);
            assert_eq!(plan.steps, steps, "{wishes:?}");
            let found: Vec<Further> = plan.left_out.iter().map(|(step, _)| *step).collect();
            assert_eq!(found, left_out, "{wishes:?}");
            assert_eq!(plan.expands_online, of.expands_online(), "{wishes:?}");
        }
    }

    #[test]
    fn nothing_is_done_to_an_abnormal_volume_but_to_look_at_it() {
        use Further::{Clone, Expand, Restore, Snapshot, Stats};
        let everything = everything();
        let wishes = |skip: &[Further]| Wishes {
            skip: skip.to_vec(),
            is_own: true,
            ..Wishes::default()
        };
        for (skip, steps, left_out) in [
            (
                &[][..],
                &[Stats][..],
                &[Expand, Snapshot, Restore, Clone][..],
            ),
            (&[Stats, Clone], &[], &[Expand, Snapshot, Restore]),
        ] {
            let plan = Plan::of(&wishes(skip), &everything);
            assert_eq!(plan.of_volume(false), plan);
            let plan = plan.of_volume(true);
            assert_eq!(plan.of_volume(true), plan);
            assert_eq!(plan.steps, steps);
            let expected: Vec<_> = left_out.iter().map(|step| (*step, ABNORMAL)).collect();
            assert_eq!(plan.left_out, expected);
        }
    }

    #[test]
    fn a_volume_grows_to_twice_its_size_within_its_limit() {
        for (capacity, required, limit, expected) in [
            (0, 0, 0, Some(2 << 30)),
            (10, 0, 0, Some(20)),
            (0, 10, 0, Some(20)),
            (10, 5, 15, Some(15)),
            (10, 5, 10, None),
            (i64::MAX, 0, 0, None),
        ] {
            assert_eq!(
                larger(capacity, required, limit),
                expected,
                "{capacity} {required} {limit}"
            );
        }
    }
}
