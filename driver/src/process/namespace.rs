//! Lets an ordinary user mount, in a namespace of this process's own. Owns when that is needed and what it came to; must not
//! mount volumes.

use crate::mount::helper;
use crate::mount::private::become_private;
use std::io;

/// What [`enter_private`] came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entered {
    /// This process may mount as it is; nothing was changed.
    NotNeeded,
    /// This process and its children are alone in a new mount namespace, in which they may mount and appear as root.
    /// Their mounts are seen by nobody else and end with them.
    Private,
    /// The system refuses namespaces to this user, for the reason given; nothing was changed.
    Refused(String),
}

impl Entered {
    /// Whether mounts work now.
    pub fn may_mount(&self) -> bool {
        !matches!(self, Self::Refused(_))
    }
}

/// Gives an ordinary user a namespace in which mounting is allowed.
///
/// To be called before any thread starts: a user namespace can be entered only by a process of one thread. Tried in a
/// process of its own first, so that a system which refuses half-way leaves this process as it was.
///
/// # Errors
/// When the process has threads already, or its own program cannot be run again.
pub fn enter_private() -> io::Result<Entered> {
    if may_mount() {
        return Ok(Entered::NotNeeded);
    }
    if let Err(refusal) = helper::try_namespace()? {
        return Ok(Entered::Refused(refusal));
    }
    become_private()?;
    Ok(Entered::Private)
}

/// Whether this process has the capability that mounting takes.
pub fn may_mount() -> bool {
    use rustix::thread::{CapabilitySet, capabilities};
    capabilities(None).is_ok_and(|sets| sets.effective.contains(CapabilitySet::SYS_ADMIN))
}
