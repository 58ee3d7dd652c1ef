//! Fields of the kernel's tables, such as mountinfo and the exports of its NFS server. Owns how odd characters are written in them.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// The kernel writes blanks, backslashes and `#` as three octal digits.
pub fn unescape(field: &[u8]) -> OsString {
    let mut out = Vec::with_capacity(field.len());
    let mut rest = field;
    while let Some((&first, tail)) = rest.split_first() {
        if first == b'\\'
            && let [
                a @ b'0'..=b'3',
                b @ b'0'..=b'7',
                c @ b'0'..=b'7',
                after @ ..,
            ] = tail
        {
            out.push((a - b'0') * 64 + (b - b'0') * 8 + (c - b'0'));
            rest = after;
        } else {
            out.push(first);
            rest = tail;
        }
    }
    OsString::from_vec(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::ffi::OsStrExt as _;

    #[test]
    fn what_the_kernel_wrote_is_read_byte_for_byte() {
        for (field, expected) in [
            (&b"/a\\040b\\134c"[..], &b"/a b\\c"[..]),
            (b"/a\\134040", b"/a\\040"),
            (b"\\011\\012\\043", b"\t\n#"),
            (b"/plain\\", b"/plain\\"),
            (b"/no\\+12\\999", b"/no\\+12\\999"),
            (b"/\xff", b"/\xff"),
        ] {
            assert_eq!(unescape(field).as_bytes(), expected);
        }
    }
}
