//! What a volume's record says of its size beside the number: what was asked for, and whether that is enforced. Must not
//! set limits.

use serde::{Deserialize, Serialize};
use std::fmt;

/// The parameter `quota`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Quota {
    /// Its size is enforced, or the volume is not made.
    Enforce,
    /// Nobody enforces it, though an agent could.
    Advise,
}

impl Quota {
    /// The one of that name, in any case.
    pub fn parse(text: &str) -> Option<Self> {
        [Self::Enforce, Self::Advise]
            .into_iter()
            .find(|quota| quota.to_string().eq_ignore_ascii_case(text))
    }
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enforce => "enforce",
            Self::Advise => "advise",
        })
    }
}

/// What was decided when a volume was made, for good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Size {
    /// Its size is enforced.
    Enforced {
        /// The project of its folder; none before the folder is one. A copy: the folder's own counts.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        project: Option<u32>,
    },
    /// It is not.
    Advisory {
        /// Why not.
        why: String,
    },
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Enforced { project: Some(id) } => write!(f, "enforced, by project {id}"),
            Self::Enforced { project: None } => f.write_str("not enforced yet"),
            Self::Advisory { why } => write!(f, "advisory: {why}"),
        }
    }
}
