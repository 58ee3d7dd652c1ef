//! The limit of open files of this process.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// How many files this process may have open; nothing when it may have any number.
pub fn limit() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

/// Raises the limit to the highest that this process may have: the soft limit of most systems, 1024, is for programs that
/// use select(2).
///
/// # Errors
/// When the system refuses; the limit is as it was then.
pub fn raise_limit() -> std::io::Result<()> {
    let maximum = getrlimit(Resource::Nofile).maximum;
    let highest = Rlimit {
        current: maximum,
        maximum,
    };
    Ok(setrlimit(Resource::Nofile, highest)?)
}
