//! What a comparison of the volumes with their limits has found, as plain values. Must not ask a share.

use crate::share::records::format::FORMAT;
use crate::share::token::Nonce;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How many volumes are named at most. Where there are more, nothing is claimed of any.
pub(super) const MOST: usize = 4096;

/// What a comparison has found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compared {
    format: u64,
    /// When it began, in seconds since 1970, by the clock of whoever compared.
    pub(super) at: u64,
    /// Why no size is enforced, where that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    unable: Option<String>,
    /// How many volumes have sizes that are not enforced though they are to be.
    pub(super) not_held: usize,
    /// Which, and why not.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    volumes: BTreeMap<Nonce, String>,
}

impl Compared {
    /// That of somebody who has found, since the time `at`, these `volumes` whose sizes are not enforced.
    pub(super) fn of(at: u64, volumes: BTreeMap<Nonce, String>) -> Self {
        let unable = (volumes.len() > MOST).then(|| {
            let count = volumes.len();
            format!("{count} volumes are not, which the log of who has compared names")
        });
        let not_held = volumes.len();
        let volumes = match unable {
            Some(_) => BTreeMap::new(),
            None => volumes,
        };
        Self {
            format: FORMAT,
            at,
            unable,
            not_held,
            volumes,
        }
    }

    /// That of somebody who cannot enforce the sizes of volumes, of which so many are to be.
    pub(super) fn unable(at: u64, why: String, not_held: usize) -> Self {
        Self {
            unable: Some(why),
            not_held,
            ..Self::of(at, BTreeMap::new())
        }
    }

    /// Why the size of the volume is not enforced, where that was found.
    pub(super) fn trouble(&self, nonce: Nonce) -> Option<&String> {
        self.unable.as_ref().or_else(|| self.volumes.get(&nonce))
    }
}
