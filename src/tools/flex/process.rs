//! What the kernel tells of a process in /proc.

use std::fs;
use std::path::Path;

/// A process, as its `stat` has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process {
    /// Whether it has ended, and nobody has reaped it: few first processes of containers reap what is not theirs.
    pub is_dead: bool,
    /// Its process group.
    pub group: i32,
    /// Its session; 0 where that began outside of this PID namespace, as those of containers do.
    pub session: i32,
}

impl Process {
    /// The process with that folder below /proc, such as `/proc/self`, as long as it is there.
    pub fn of(folder: &Path) -> Option<Self> {
        parse(&fs::read_to_string(folder.join("stat")).ok()?)
    }
}

fn parse(stat: &str) -> Option<Process> {
    // The name may hold anything but ends at the last parenthesis; state, parent, group and session follow.
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_ascii_whitespace();
    let is_dead = matches!(fields.next()?, "Z" | "X");
    let _parent = fields.next()?;
    Some(Process {
        is_dead,
        group: fields.next()?.parse().ok()?,
        session: fields.next()?.parse().ok()?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_whatever_the_name_is() {
        let process = |is_dead, group, session| Process {
            is_dead,
            group,
            session,
        };
        for (stat, expected) in [
            ("7 (sh) S 1 7 3 0 -1", Some(process(false, 7, 3))),
            ("7 (a) Z 1 2 3) R 1 8 0 0 -1", Some(process(false, 8, 0))),
            ("7 (sh) Z 1 7 7 0 -1", Some(process(true, 7, 7))),
            ("7 (sh) S 1", None),
            ("", None),
        ] {
            assert_eq!(parse(stat), expected, "{stat}");
        }
        assert!(Process::of(Path::new("/proc/self")).is_some_and(|own| !own.is_dead));
    }
}
