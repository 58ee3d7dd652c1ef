//! What is to run: the cases that the settings select and those that most others depend on, in which order, which of them beside
//! each other, and why one cannot run here. Runs nothing.

use super::case::needs::{CREATE_DELETE_VOLUME, LIST_VOLUMES};
use super::case::{Case, CaseKind, NOT_ADVERTISED, Need};
use super::run::Run;
use super::settings::Access;
use csi_proto::random;
use std::collections::VecDeque;

/// A case that is to run.
#[derive(Clone, Copy, Debug)]
pub struct Planned {
    pub(super) case: &'static Case,
    /// Its number, which is a part of its names.
    pub(super) number: usize,
    pub(super) access: Access,
    /// The number of tries before.
    pub(super) tries: usize,
    /// Whether the driver went away in one of them.
    pub(super) cut_off: bool,
    /// Whether the run waits after each answer for the driver to go away.
    pub(super) looks_after_calls: bool,
}

impl Planned {
    /// The name of the case, or of its run for an access type.
    pub(super) fn name(&self) -> String {
        // Only of two runs of a case one has its access type in the name.
        match self.case.needs.contains(&Need::EachAccess) {
            true => self.case.name_for(self.access),
            false => self.case.name.clone(),
        }
    }

    /// Whether somebody asked for its result, and it does not only run because others depend on it.
    pub(super) fn is_asked_for(&self, run: &Run) -> bool {
        run.settings.selects(&self.name())
    }
}

/// The cases that are to run, in the order of their list.
pub fn plan(run: &Run) -> Vec<Planned> {
    let mut planned = Vec::new();
    for case in super::cases() {
        let each = case.needs.contains(&Need::EachAccess);
        let runs = if each { run.accesses().len() } else { 1 };
        for &access in &run.accesses()[..runs] {
            planned.push(Planned {
                case,
                number: planned.len() + 1,
                access,
                tries: 0,
                cut_off: false,
                looks_after_calls: false,
            });
        }
    }
    let mut wanted = planned.clone();
    wanted.retain(|one| one.is_asked_for(run));
    // What others depend on is tried also where nobody has asked for it.
    let depends = |first: &Planned, other: &Planned| {
        let mut needs = first.case.needs.iter();
        other.access == first.access && needs.all(|need| other.case.needs.contains(need))
    };
    planned.retain(|one| {
        let is_tried = matches!(one.case.kind, CaseKind::First | CaseKind::Closing)
            && missing(run, one.case).is_none();
        one.is_asked_for(run) || (is_tried && wanted.iter().any(|other| depends(one, other)))
    });
    planned
}

/// The places in the plan of the cases that run beside each other, and how many of them at a time, phase by phase.
pub fn phases(run: &Run, planned: &[Planned]) -> VecDeque<(VecDeque<usize>, usize)> {
    let mut order: Vec<usize> = (0..planned.len()).collect();
    if run.settings.shuffle {
        for index in (1..order.len()).rev() {
            let bound = index as u64 + 1;
            let other = random::from_seed(run.seed, bound) % bound;
            order.swap(index, usize::try_from(other).unwrap_or(0));
        }
    }
    use CaseKind::{Alone, Changes, Closing, First, Last, Reads};
    let phases = [
        (&[First][..], 1),
        (&[Reads, Changes], run.jobs()),
        (&[Alone], 1),
        (&[Closing], 1),
        (&[Last], 1),
    ];
    let of_kinds = |kinds: &[CaseKind]| {
        let mut chosen = order.clone();
        chosen.retain(|index| kinds.contains(&planned[*index].case.kind));
        chosen.into()
    };
    let phases = phases.into_iter();
    phases
        .map(|(kinds, jobs)| (of_kinds(kinds), jobs))
        .collect()
}

/// Why a case cannot run here.
pub fn missing(run: &Run, case: &Case) -> Option<String> {
    let settings = &run.settings;
    if settings.read_only && !matches!(case.kind, CaseKind::Reads | CaseKind::Last) {
        return Some("it changes something: --read-only".to_owned());
    }
    let there = |need: &Need| match need {
        Need::AnyVolume => {
            let has = |need| run.driver.has(need) == Some(true);
            let creates = !settings.read_only && has(CREATE_DELETE_VOLUME);
            creates || has(LIST_VOLUMES) || settings.volume_id.is_some()
        }
        Need::Block => run.accesses().contains(&Access::Block),
        Need::Mount => run.accesses().contains(&Access::Mount),
        Need::EachAccess => true,
        Need::Paths => run.sees_paths(),
        Need::Restart => run.restarter().is_some(),
        Need::OtherNode => settings.other_node_id.is_some(),
        Need::MutableParameters => !settings.mutable_parameters.is_empty(),
        advertised => run.driver.has(*advertised).unwrap_or(false),
    };
    let lacking = case.needs.iter().filter(|need| !there(need));
    let lacking: Vec<_> = lacking.map(ToString::to_string).collect();
    // What is common to all is said once.
    let more = format!(", {NOT_ADVERTISED}");
    (!lacking.is_empty()).then(|| lacking.join(", ").replace(&more, ", "))
}
