//! What becomes of an id of the ledger that the folder of no volume has. Must not touch an id that is in no ledger.

use crate::quota::error::QuotaError;
use crate::quota::ledger::Ledger;
use crate::quota::project;
use crate::quota::project_id::ProjectId;
use csi_sys::project_quota::{Amounts, Quota};
use std::os::fd::AsFd;
use std::time::Duration;

/// An entry may be so old before its folder has the id.
const YOUNG: Duration = Duration::from_secs(600);

/// What becomes of an id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It stays as it is.
    Stays,
    /// Its volume is gone, and what has it is kept or being purged: it loses its limits.
    Unlimited,
    /// Nothing has it: its limits are lifted and its entry removed.
    Free,
    /// Files have it, and limits it has, but no folder that is known: nobody but an administrator can decide.
    Stray,
}

/// Does what is to be done about an id that was entered so long ago, and whose volume has a record or has not. Returns what that was.
pub fn settle(
    root: impl AsFd,
    ledger: &Ledger,
    id: ProjectId,
    age: Duration,
    has_record: bool,
) -> Result<Fate, QuotaError> {
    let root = root.as_fd();
    let fate = decide(project::quota(root, id)?, age, has_record);
    if let Fate::Unlimited | Fate::Free = fate {
        project::lift_limits(root, id)?;
    }
    if fate == Fate::Free {
        ledger.forget(id)?;
    }
    Ok(fate)
}

fn decide(quota: Quota, age: Duration, has_record: bool) -> Fate {
    let is_limited = quota.limits != Amounts::default();
    match quota.used == Amounts::default() {
        // Retained, archived, in the trash, or moved by hand.
        false if !is_limited => Fate::Stays,
        false if !has_record => Fate::Unlimited,
        // Its folder is to have it in a moment.
        _ if age < YOUNG => Fate::Stays,
        false => Fate::Stray,
        true => Fate::Free,
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
    const EMPTY: Amounts = Amounts {
        bytes: 0,
        inodes: 1,
    };

    #[test]
    fn what_becomes_of_an_id_without_a_volumes_folder() {
        let (old, young) = (2 * YOUNG, Duration::ZERO);
        for (age, has_record, limits, used, expected) in [
            // Retained, archived, or in the trash.
            (old, false, SIZE, EMPTY, Fate::Unlimited),
            (young, false, SIZE, EMPTY, Fate::Unlimited),
            (old, false, NONE, EMPTY, Fate::Stays),
            // Purged.
            (old, false, SIZE, NONE, Fate::Free),
            (old, false, NONE, NONE, Fate::Free),
            // Nobody has used it, of a volume that has another one.
            (old, true, NONE, NONE, Fate::Free),
            // What is left of a folder that was restored under another id.
            (old, true, NONE, EMPTY, Fate::Stays),
            // Of a folder that somebody has moved out of sight; or whose id somebody else uses since.
            (old, true, SIZE, EMPTY, Fate::Stray),
            // Just entered: its folder is to have it in a moment.
            (young, true, NONE, NONE, Fate::Stays),
            (young, true, SIZE, NONE, Fate::Stays),
            (young, true, SIZE, EMPTY, Fate::Stays),
            (young, false, NONE, NONE, Fate::Stays),
        ] {
            let quota = Quota {
                id: 7,
                limits,
                used,
            };
            let fate = decide(quota, age, has_record);
            assert_eq!(fate, expected, "{quota:?} {age:?} {has_record}");
        }
    }
}
