//! The last attempt to open a share, and whether the share counts as reachable by it. Must not open shares or count them.

use std::time::{Duration, Instant};

/// How an attempt to open a share ended, and when.
#[derive(Clone, Copy, Debug)]
pub(super) struct Tried {
    pub(super) at: Instant,
    pub(super) opened: bool,
}

/// Whether a share counts as reachable; nothing when it does not count at all, for it could not be opened and nobody has asked for
/// it since: it may be gone for good, or another controller leads by now, and an old failure would sound an alarm for ever.
pub(super) fn reachable(
    tried: Option<Tried>,
    now: Instant,
    forget_after: Duration,
) -> Option<bool> {
    match tried {
        Some(last) if !last.opened && now.duration_since(last.at) >= forget_after => None,
        Some(last) => Some(last.opened),
        None => Some(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_old_failure_counts_no_more() {
        let limit = Duration::from_secs(600);
        let at = Instant::now();
        for (opened, seconds, expected) in [
            (true, 0, Some(true)),
            (true, 601, Some(true)),
            (false, 0, Some(false)),
            (false, 599, Some(false)),
            (false, 600, None),
        ] {
            let now = at + Duration::from_secs(seconds);
            let tried = Some(Tried { at, opened });
            assert_eq!(reachable(tried, now, limit), expected, "{opened} {seconds}");
        }
        assert_eq!(reachable(None, at, limit), Some(false));
    }
}
