//! What is mounted, from `/proc/self/mountinfo`: the only way to ask about a target that may be a dead mount, because
//! it touches no file system. Owns the file's syntax.

use crate::mount::options::MountFlags;
use rustix::io::Errno;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One mount of this mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Unique id of the mount while it exists.
    pub id: u32,
    /// The device of the file system, as `major:minor`.
    pub device: String,
    /// The folder of the file system that is the mount's root.
    pub root: PathBuf,
    /// Where it is mounted.
    pub target: PathBuf,
    /// Whether this mount is read-only, or the whole file system is.
    pub read_only: bool,
    /// The flags of this mount alone.
    pub flags: MountFlags,
    /// The type of the file system, such as `nfs4`.
    pub fs_type: String,
    /// What was mounted, such as `server:/path`.
    pub source: OsString,
}

impl Mount {
    /// Whether it is a mount from an NFS server.
    pub fn is_nfs(&self) -> bool {
        matches!(self.fs_type.as_str(), "nfs" | "nfs4")
    }
}

/// All mounts, in the order in which the kernel lists them: of two at one target, the later one is on top.
///
/// # Errors
/// When `/proc` is not there or cannot be read.
pub fn read() -> io::Result<Vec<Mount>> {
    let bytes = std::fs::read("/proc/self/mountinfo")?;
    bytes
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| parse(line).ok_or_else(|| Errno::PROTO.into()))
        .collect()
}

/// The options of the topmost mount at `target`: those of the mount, then those of its file system. Nothing when nothing is
/// mounted there.
///
/// # Errors
/// When `/proc` is not there or cannot be read.
pub fn options_at(target: &Path) -> io::Result<Option<String>> {
    let bytes = std::fs::read("/proc/self/mountinfo")?;
    let mut lines = bytes.split(|byte| *byte == b'\n').rev();
    let line = lines.find(|line| parse(line).is_some_and(|mount| mount.target == target));
    Ok(line.map(options))
}

fn options(line: &[u8]) -> String {
    let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
    // The last field is the file system's; the mount's has always the same place.
    let both = [fields.get(5), fields.last()];
    let texts = both.map(|field| String::from_utf8_lossy(field.copied().unwrap_or_default()));
    texts.join(",")
}

/// The mounts exactly at `target`, the one on top last.
pub fn at<'a>(mounts: &'a [Mount], target: &Path) -> Vec<&'a Mount> {
    mounts.iter().filter(|m| m.target == target).collect()
}

/// The mount that a path lies in.
pub fn covering<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    // The longest target wins; of equal ones the last, which `max_by_key` returns.
    mounts
        .iter()
        .filter(|m| path.starts_with(&m.target))
        .max_by_key(|m| m.target.as_os_str().len())
}

/// One line, proc(5): `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let _parent = fields.next()?;
    let device = String::from_utf8(fields.next()?.to_vec()).ok()?;
    let root = PathBuf::from(unescape(fields.next()?));
    let target = PathBuf::from(unescape(fields.next()?));
    let options = fields.next()?;
    let mut flags = MountFlags::NONE;
    for word in options.split(|byte| *byte == b',') {
        flags.set(std::str::from_utf8(word).unwrap_or_default());
    }
    // Any number of optional fields, ended by a dash.
    fields.by_ref().find(|field| *field == b"-")?;
    let fs_type = String::from_utf8(fields.next()?.to_vec()).ok()?;
    let source = unescape(fields.next()?);
    let super_options = fields.next().unwrap_or_default();
    let read_only = |options: &[u8]| {
        options
            .split(|byte| *byte == b',')
            .any(|word| word == b"ro")
    };
    Some(Mount {
        id,
        device,
        root,
        target,
        read_only: read_only(options) || read_only(super_options),
        flags,
        fs_type,
        source,
    })
}

/// The kernel writes blanks, backslashes and `#` as three octal digits.
fn unescape(field: &[u8]) -> OsString {
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
    use proptest::prelude::*;

    #[test]
    fn lines_of_all_forms() {
        let line = br"36 35 0:42 / /mnt/a\040b\134c rw,nosuid master:1 propagate_from:2 - nfs4 127.0.0.1:/x ro,vers=4.2";
        let mount = parse(line).unwrap();
        assert_eq!(mount.id, 36);
        assert_eq!(mount.device, "0:42");
        assert_eq!(mount.target, Path::new("/mnt/a b\\c"));
        assert!(mount.read_only && mount.is_nfs());
        assert!(mount.flags.nosuid && !mount.flags.nodev && !mount.flags.read_only);
        assert_eq!(mount.source, "127.0.0.1:/x");
        let line = b"1 2 8:1 /sub /data rw - ext4 /dev/sda1 rw,errors=remount-ro";
        let mount = parse(line).unwrap();
        assert!(!mount.read_only && !mount.is_nfs());
        assert_eq!(mount.root, Path::new("/sub"));
        // A file system may have an empty source.
        assert_eq!(parse(b"1 2 8:1 / /x rw - tmpfs  rw").unwrap().source, "");
        assert!(parse(b"1 2 8:1 / /x rw tmpfs x rw").is_none());
    }

    #[test]
    fn options_of_the_mount_and_of_its_file_system() {
        let line = br"36 35 0:42 / /mnt rw,nosuid master:1 - nfs4 127.0.0.1:/x rw,vers=4.2,hard";
        assert_eq!(options(line), "rw,nosuid,rw,vers=4.2,hard");
        assert!(
            options_at(Path::new("/proc"))
                .unwrap()
                .unwrap()
                .contains("rw")
        );
        assert_eq!(options_at(Path::new("/not/mounted")).unwrap(), None);
    }

    #[test]
    fn the_kernels_own_file_is_understood() {
        let mounts = read().unwrap();
        assert!(covering(&mounts, Path::new("/proc/self")).is_some());
    }

    #[test]
    fn the_top_of_a_stack_and_the_longest_target_win() {
        let mount = |id: u32, target: &str| {
            let line = format!("{id} 1 0:1 / {target} rw - tmpfs t rw");
            parse(line.as_bytes()).unwrap()
        };
        let mounts = [
            mount(1, "/"),
            mount(2, "/a/b"),
            mount(3, "/a"),
            mount(4, "/a"),
        ];
        let covering_id = |path: &str| covering(&mounts, Path::new(path)).unwrap().id;
        assert_eq!(covering_id("/a/b/c"), 2);
        assert_eq!(covering_id("/a/bc"), 4);
        assert_eq!(covering_id("/x"), 1);
        assert_eq!(at(&mounts, Path::new("/a")).last().unwrap().id, 4);
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }

        #[test]
        fn escapes_come_back(text in "[ -~\\n\\t]{0,40}") {
            let escaped: Vec<u8> = text.bytes().flat_map(|byte| match byte {
                b' ' | b'\t' | b'\n' | b'\\' | b'#' => format!("\\{byte:03o}").into_bytes(),
                byte => vec![byte],
            }).collect();
            prop_assert_eq!(unescape(&escaped), OsString::from(text));
        }
    }
}
