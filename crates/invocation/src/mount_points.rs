//! The mount points that this process sees, from the kernel's table: to ask there touches no mount, which may hang.

use csi_sys::kernel_table::unescape;
use std::fs;
use std::io;
use std::path::PathBuf;

/// All mount points, in the order of their mounting.
pub fn all() -> io::Result<Vec<PathBuf>> {
    fs::read("/proc/self/mountinfo").map(|table| in_table(&table))
}

/// The mount points in a table of the form of mountinfo. Paths are bytes, and need not be UTF-8.
pub(crate) fn in_table(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.map(|point| unescape(point).into()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::Path;

    #[test]
    fn mount_points_are_read_as_the_kernel_writes_them() {
        let table = b"36 35 98:0 / /a\\040b rw - ext4 /dev/sda rw\n\n";
        assert_eq!(in_table(table), [Path::new("/a b")]);
        assert!(all().unwrap().iter().any(|point| point == Path::new("/")));
    }
}
