//! Connections to a driver that exist already when its socket is taken over. Sidecars keep theirs for hours, and the calls
//! on these go past the proxy until they are made anew: so they are counted, and on request closed.

use csi_proto::socket_file::connect;
use rustix::net::{Shutdown, shutdown, sockopt};
use rustix::process::{ForeignRawFd, Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};
use std::collections::HashSet;
use std::fs;
use std::io;
use std::path::Path;
use std::time::Duration;

/// The kernel's table of the unix sockets of this network namespace.
const TABLE: &str = "/proc/net/unix";

/// The state of a connected socket in that table.
const CONNECTED: &str = "03";

/// The driver's ends of the connections that exist.
#[derive(Debug, Default)]
pub struct Existing {
    /// The process that listens, where it can be seen from here.
    driver: Option<Pid>,
    /// The inodes of the ends.
    ends: Vec<u64>,
}

impl Existing {
    /// The connections to the driver that listens at one of these paths; none where nobody does, or nothing can be seen.
    pub fn of<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Self {
        // Before this process makes a connection of its own.
        let Ok(table) = fs::read_to_string(TABLE) else {
            return Self::default();
        };
        let Some(stream) = paths
            .into_iter()
            .find_map(|path| connect(path, Duration::ZERO).ok())
        else {
            return Self::default();
        };
        // The name that the driver gave its socket, wherever that was moved since.
        let name = stream.peer_addr().ok();
        let name = name.as_ref().and_then(|name| name.as_pathname()?.to_str());
        Self {
            driver: sockopt::socket_peercred(&stream)
                .ok()
                .map(|driver| driver.pid),
            ends: name.map_or_else(Vec::new, |name| connected(&table, name)),
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.ends.len()
    }

    /// Closes them, by shutting down the driver's own ends; returns how many.
    ///
    /// # Errors
    /// When the driver's descriptors cannot be had: that takes the rights of a debugger.
    pub fn close(&self) -> io::Result<usize> {
        let Some(driver) = self.driver else {
            return Ok(0);
        };
        let process = pidfd_open(driver, PidfdFlags::empty())?;
        // A driver may have several descriptors of one.
        let mut closed = HashSet::new();
        for entry in fs::read_dir(format!("/proc/{driver}/fd"))? {
            let entry = entry?;
            let link = fs::read_link(entry.path()).unwrap_or_default();
            let end = link.to_str().and_then(inode);
            let end = end.filter(|end| self.ends.contains(end));
            let number = entry
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<ForeignRawFd>().ok());
            if let (Some(end), Some(number)) = (end, number)
                && !closed.contains(&end)
            {
                let socket = pidfd_getfd(&process, number, PidfdGetfdFlags::empty())?;
                shutdown(socket, Shutdown::Both)?;
                closed.insert(end);
            }
        }
        Ok(closed.len())
    }
}

/// The inodes of the connected sockets with this name in the kernel's table.
fn connected(table: &str, name: &str) -> Vec<u64> {
    let end = |line: &str| {
        // Address, references, protocol, flags, type, state, inode, name.
        let mut words = line.splitn(8, ' ');
        let state = words.nth(5)?;
        // The inode is padded.
        let (inode, found) = line
            .split_once(&format!(" {state} "))?
            .1
            .trim_start()
            .split_once(' ')?;
        (state == CONNECTED && found == name).then(|| inode.parse().ok())?
    };
    table.lines().skip(1).filter_map(end).collect()
}

/// The inode behind the link of a descriptor, such as `socket:[123]`.
fn inode(link: &str) -> Option<u64> {
    link.strip_prefix("socket:[")?
        .strip_suffix(']')?
        .parse()
        .ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_are_those_of_the_name_that_are_connected() {
        let table = "Num       RefCount Protocol Flags    Type St Inode Path\n\
            00000000a: 00000002 00000000 00010000 0001 01 10 /run/a.sock\n\
            00000000b: 00000003 00000000 00000000 0001 03    11 /run/a.sock\n\
            00000000c: 00000003 00000000 00000000 0001 03 12\n\
            00000000d: 00000003 00000000 00000000 0001 03 13 /run/b.sock\n\
            00000000e: 00000003 00000000 00000000 0001 03 14 /run/a.sock with blanks\n\
            00000000f: 00000003 00000000 00000000 0001 02     0 /run/a.sock\n\
            000000010: 00000003 00000000 00000000 0001 03 15 /run/a.sock\n";
        assert_eq!(connected(table, "/run/a.sock"), [11, 15]);
        assert_eq!(connected(table, "/run/a.sock with blanks"), [14]);
        assert_eq!(connected("", "/run/a.sock"), [0; 0]);
    }

    #[test]
    fn a_descriptor_of_a_socket_has_an_inode() {
        for (link, expected) in [
            ("socket:[12]", Some(12)),
            ("pipe:[12]", None),
            ("/dev/null", None),
        ] {
            assert_eq!(inode(link), expected);
        }
    }
}
