//! What the file system reports of projects against what the ledger and the folders say: limits and usage that are nobody's
//! end here. Decides first, then does. Must not touch an id that is in no ledger and on no volume's folder.

use crate::quota::error::{Context, QuotaError};
use crate::quota::ledger::{Entry, Ledger};
use crate::quota::project;
use crate::quota::project_id::ProjectId;
use csi_sys::project_quota::{self, Amounts, Quota};
use std::collections::BTreeMap;
use std::os::fd::AsFd;
use std::time::Duration;

/// An entry may be so old before its folder has the id.
const YOUNG: Duration = Duration::from_secs(600);

/// A folder that has an id, as its caller has found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// For whom the id is, as the ledger would have it.
    pub owner: String,
    /// What becomes of its limits.
    pub hold: Hold,
}

/// What a folder with an id is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// A volume's, whose record has the same id, and whose limits are these.
    Volume(Amounts),
    /// At a path that this driver alone names, and no record knows it: the records are older than it. It keeps its limits.
    Unrecorded,
    /// Kept after its volume was deleted, or being purged: it loses its limits.
    Left,
}

/// What is known of one id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Known {
    entry: Option<Entry>,
    holders: Vec<Holder>,
    limits: Amounts,
    used: Amounts,
}

/// What is to be done about an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// It is entered in the ledger for this owner.
    Enter(String),
    /// Its limits become these.
    Limit(Amounts),
    /// Nothing has it: its limits are lifted and its entry removed.
    Free,
    /// An administrator is told.
    Tell(Trouble),
}

/// What nobody but an administrator can decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Several volumes have this id: their sizes are one together.
    Shared,
    /// Files have this id, and limits it has, but no folder that is known.
    Stray,
}

/// What is to be done about each id that needs it.
///
/// `holders` are the folders of this share with their ids. Those that are being made are among them or are young in the
/// ledger: so its `entries` are read first, and `holders` is asked for them afterwards.
///
/// # Errors
/// I/O errors, and what `holders` says.
pub fn plan<E: From<QuotaError>>(
    root: impl AsFd,
    entries: BTreeMap<ProjectId, Entry>,
    holders: impl FnOnce(&BTreeMap<ProjectId, Entry>) -> Result<Vec<(ProjectId, Holder)>, E>,
) -> Result<BTreeMap<ProjectId, Vec<Action>>, E> {
    let mut known: BTreeMap<ProjectId, Known> = BTreeMap::new();
    for quota in report(root)? {
        if let Some(id) = ProjectId::new(quota.id) {
            let known = known.entry(id).or_default();
            (known.limits, known.used) = (quota.limits, quota.used);
        }
    }
    for (id, holder) in holders(&entries)? {
        known.entry(id).or_default().holders.push(holder);
    }
    for (id, entry) in entries {
        known.entry(id).or_default().entry = Some(entry);
    }
    let plans = known.iter().map(|(id, known)| (*id, decide(known)));
    Ok(plans.filter(|(_, actions)| !actions.is_empty()).collect())
}

/// Does what was planned about an id, as far as it still holds.
///
/// # Errors
/// I/O errors.
pub fn execute(
    root: impl AsFd,
    ledger: &Ledger,
    id: ProjectId,
    actions: &[Action],
) -> Result<(), QuotaError> {
    let root = root.as_fd();
    for action in actions {
        match action {
            Action::Enter(owner) => {
                ledger.enter(id, owner)?;
            }
            Action::Limit(limits) => project::set_limits(root, id, *limits)?,
            Action::Free => {
                let is_unused = || Ok(project::quota(root, id)?.used == Amounts::default());
                if is_unused()? {
                    project::lift_limits(root, id)?;
                    ledger.forget(id)?;
                }
            }
            Action::Tell(_) => {}
        }
    }
    Ok(())
}

/// All projects on the file system of `root` that have a limit or usage, but 0.
///
/// # Errors
/// I/O errors.
pub fn report(root: impl AsFd) -> Result<Vec<Quota>, QuotaError> {
    let root = root.as_fd();
    let mut all = Vec::new();
    let mut from = Some(1);
    while let Some(id) = from {
        let found = project_quota::next(root, id).context("listing the quotas of all projects")?;
        from = found.and_then(|quota| quota.id.checked_add(1));
        all.extend(found.filter(|quota| quota.id >= id));
    }
    Ok(all)
}

fn decide(known: &Known) -> Vec<Action> {
    let volumes = known.holders.iter().filter_map(|holder| match holder.hold {
        Hold::Volume(limits) => Some((holder, limits)),
        Hold::Unrecorded | Hold::Left => None,
    });
    let volumes: Vec<_> = volumes.collect();
    let unrecorded = known
        .holders
        .iter()
        .find(|holder| holder.hold == Hold::Unrecorded);
    let is_entered = known.entry.is_some();
    let (limited, used) = (
        known.limits != Amounts::default(),
        known.used != Amounts::default(),
    );
    let enter = |holder: &Holder| (!is_entered).then(|| Action::Enter(holder.owner.clone()));
    match (volumes.as_slice(), unrecorded) {
        ([], None) => {}
        ([], Some(holder)) => return enter(holder).into_iter().collect(),
        ([(holder, limits)], _) => {
            let limit = (known.limits != *limits).then_some(Action::Limit(*limits));
            return enter(holder).into_iter().chain(limit).collect();
        }
        _ => return vec![Action::Tell(Trouble::Shared)],
    }
    match &known.entry {
        // Somebody else's, also where it is met in our trash: an administrator may have put a folder of a volume into it.
        None => vec![],
        Some(_) if !known.holders.is_empty() => match limited {
            true => vec![Action::Limit(Amounts::default())],
            false => vec![],
        },
        Some(entry) if entry.age < YOUNG => vec![],
        Some(_) => match (used, limited) {
            (false, _) => vec![Action::Free],
            (true, true) => vec![Action::Tell(Trouble::Stray)],
            // Being purged, or moved by hand.
            (true, false) => vec![],
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Amounts = Amounts {
        bytes: 0,
        inodes: 0,
    };
    const SIZE: Amounts = Amounts {
        bytes: 1 << 20,
        inodes: 0,
    };
    const OTHER: Amounts = Amounts {
        bytes: 2 << 20,
        inodes: 0,
    };
    const EMPTY: Amounts = Amounts {
        bytes: 0,
        inodes: 1,
    };

    #[test]
    fn what_is_done_about_an_id() {
        use Hold::{Left, Unrecorded, Volume};
        let enter = || Action::Enter("o".to_owned());
        let (old, young) = (Some(2 * YOUNG), Some(Duration::ZERO));
        type Row<'a> = (Option<Duration>, &'a [Hold], Amounts, Amounts, Vec<Action>);
        let rows: Vec<Row<'_>> = vec![
            // In no ledger and on no folder: another share's, or an administrator's.
            (None, &[], SIZE, EMPTY, vec![]),
            (None, &[], SIZE, NONE, vec![]),
            (None, &[], NONE, EMPTY, vec![]),
            // An administrator's, on a folder within a volume that is being purged.
            (None, &[Left], SIZE, EMPTY, vec![]),
            // A volume's, as it should be.
            (old, &[Volume(SIZE)], SIZE, EMPTY, vec![]),
            // Ended between the folder and its limit; or expanded when nobody was there.
            (old, &[Volume(SIZE)], NONE, EMPTY, vec![Action::Limit(SIZE)]),
            (
                old,
                &[Volume(OTHER)],
                SIZE,
                OTHER,
                vec![Action::Limit(OTHER)],
            ),
            // Its inner folders are in the trash.
            (old, &[Volume(SIZE), Left], SIZE, EMPTY, vec![]),
            // A ledger that is older than the records.
            (None, &[Volume(SIZE)], SIZE, EMPTY, vec![enter()]),
            (
                None,
                &[Volume(SIZE)],
                NONE,
                EMPTY,
                vec![enter(), Action::Limit(SIZE)],
            ),
            // Records that are older than the folder.
            (None, &[Unrecorded], SIZE, EMPTY, vec![enter()]),
            (old, &[Unrecorded], SIZE, EMPTY, vec![]),
            (old, &[Unrecorded, Left], SIZE, EMPTY, vec![]),
            // A folder that was restored with its project beside the one that is there.
            (
                old,
                &[Volume(SIZE), Volume(OTHER)],
                SIZE,
                EMPTY,
                vec![Action::Tell(Trouble::Shared)],
            ),
            // Retained, archived, or in the trash.
            (old, &[Left], SIZE, EMPTY, vec![Action::Limit(NONE)]),
            (old, &[Left, Left], NONE, EMPTY, vec![]),
            // Purged.
            (old, &[], SIZE, NONE, vec![Action::Free]),
            (old, &[], NONE, NONE, vec![Action::Free]),
            // Being purged.
            (old, &[], NONE, EMPTY, vec![]),
            // Of a folder that somebody has moved out of sight; or whose id somebody else uses since.
            (old, &[], SIZE, EMPTY, vec![Action::Tell(Trouble::Stray)]),
            // Just entered: its folder is to have it in a moment.
            (young, &[], NONE, NONE, vec![]),
            (young, &[], SIZE, NONE, vec![]),
        ];
        for (age, holds, limits, used, expected) in rows {
            let holder = |hold: &Hold| Holder {
                owner: "o".to_owned(),
                hold: *hold,
            };
            let known = Known {
                entry: age.map(|age| Entry {
                    owner: "o".to_owned(),
                    age,
                }),
                holders: holds.iter().map(holder).collect(),
                limits,
                used,
            };
            assert_eq!(decide(&known), expected, "{known:?}");
        }
    }
}
