//! What the kernel tells of a process, or of one of its threads, in `stat` below /proc: proc(5).

use std::fs;
use std::path::Path;

/// A process or thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProcessStat {
    /// Its state, by the kernel's letter.
    pub state: char,
    /// Its process group.
    pub group: i32,
    /// Its session; 0 where that began outside of this PID namespace, as those of containers do.
    pub session: i32,
}

impl ProcessStat {
    /// That of the folder below /proc, such as `/proc/self`, as long as it is there.
    pub fn of(folder: &Path) -> Option<Self> {
        Self::parse(&fs::read_to_string(folder.join("stat")).ok()?)
    }

    fn parse(stat: &str) -> Option<Self> {
        // The name may hold anything but ends at the last parenthesis; state, parent, group and session follow.
        let (_, fields) = stat.rsplit_once(')')?;
        let mut fields = fields.split_ascii_whitespace();
        let state = fields.next()?.chars().next()?;
        let _parent = fields.next()?;
        Some(Self {
            state,
            group: fields.next()?.parse().ok()?,
            session: fields.next()?.parse().ok()?,
        })
    }

    /// Whether it has ended, and nobody has reaped it: few first processes of containers reap what is not theirs.
    pub fn is_dead(&self) -> bool {
        matches!(self.state, 'Z' | 'X')
    }

    /// Whether a signal or a debugger has stopped it.
    pub fn is_stopped(&self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Whether it waits in the kernel, and cannot be killed meanwhile.
    pub fn is_stuck(&self) -> bool {
        self.state == 'D'
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_name_is() {
        for (stat, expected) in [
            ("7 (sh) S 1 7 3 0 -1", Some(('S', 7, 3))),
            ("7 (a) Z 1 2 3) R 1 8 0 0 -1", Some(('R', 8, 0))),
            ("7 (D 1) Z 1 7 7 0 -1", Some(('Z', 7, 7))),
            ("7 (a) S 1) D 1 7 7 0 -1", Some(('D', 7, 7))),
            ("7 (sh) S 1", None),
            ("", None),
        ] {
            let parsed = ProcessStat::parse(stat);
            let fields = parsed.map(|it| (it.state, it.group, it.session));
            assert_eq!(fields, expected, "{stat}");
        }
        assert!(ProcessStat::of(Path::new("/proc/self")).is_some_and(|own| !own.is_dead()));
    }
}
