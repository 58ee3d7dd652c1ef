//! The mount points that this process sees, from the kernel's table: to ask there touches no mount, which may hang.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

/// All mount points, in the order of their mounting.
///
/// # Errors
/// When the kernel's table cannot be read.
pub fn all() -> io::Result<Vec<PathBuf>> {
    fs::read("/proc/self/mountinfo").map(|table| in_table(&table))
}

/// The mount points in a table of the form of mountinfo. Paths are bytes, and need not be UTF-8.
pub(crate) fn in_table(table: &[u8]) -> Vec<PathBuf> {
    let lines = table.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4));
    points.map(unescaped).collect()
}

/// A path as the kernel writes it there: `\040` for a space.
fn unescaped(text: &[u8]) -> PathBuf {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some((&byte, tail)) = rest.split_first() {
        let code = tail.get(..3).filter(|_| byte == b'\\');
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 8).ok()) {
            Some(letter) => {
                out.push(letter);
                rest = &tail[3..];
            }
            None => {
                out.push(byte);
                rest = tail;
            }
        }
    }
    PathBuf::from(OsString::from_vec(out))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;
    use std::path::Path;

    #[test]
    fn mount_points_are_read_as_the_kernel_writes_them() {
        for (text, expected) in [
            (&b"/a\\040b\\134c"[..], &b"/a b\\c"[..]),
            (b"/a\\134040", b"/a\\040"),
            (b"/plain\\", b"/plain\\"),
            (b"/\xff", b"/\xff"),
        ] {
            let line = [&b"36 35 98:0 / "[..], text, b" rw - ext4 /dev/sda rw\n"].concat();
            let found = in_table(&line);
            assert_eq!(found.len(), 1);
            assert_eq!(found[0].as_os_str().as_bytes(), expected);
        }
        assert!(in_table(b"\n").is_empty());
        assert!(all().unwrap().iter().any(|point| point == Path::new("/")));
    }
}
