//! Reads the mounts of this process from `/proc/self/mountinfo`: the only way to ask about a target that may be a dead mount,
//! because it touches no file system. Owns the file's syntax.
//!
//! Our own, because paths are bytes, and one line that is not understood must not hide all other mounts.

use crate::mount::options::MountFlags;
use crate::mount::redaction;
use crate::process::log::{Level, Log};
use csi_nfs_store::share::database::TRASH;
use csi_nfs_store::share::paths::sub_path::RECORDS_FOLDER;
use csi_sys::kernel_table::unescape;
use std::collections::HashSet;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Once;

/// One mount of this mount namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Unique id of the mount while it exists.
    pub id: u32,
    /// The id of the mount that it is mounted on.
    pub parent: u32,
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
    pub fs_type: OsString,
    /// What was mounted, such as `server:/path`.
    pub source: OsString,
}

impl Mount {
    /// Whether it is a mount from an NFS server.
    pub fn is_nfs(&self) -> bool {
        self.fs_type == "nfs" || self.fs_type == "nfs4"
    }

    /// Whether the folder that it shows has been removed from its file system by this machine, or is in the trash of a share,
    /// where deleted volumes wait for their end. Such a mount still answers.
    pub fn has_lost_folder(&self) -> bool {
        let names: Vec<_> = self.root.iter().collect();
        let mut pairs = names.windows(2);
        // A name cannot hold the second slash.
        self.root.as_os_str().as_bytes().ends_with(b"//deleted")
            || pairs.any(|pair| pair[0] == RECORDS_FOLDER && pair[1] == TRASH)
    }

    /// The same of a mount whose folder is this machine's. What NFS shows as deleted may be there: its server knows.
    pub fn is_local_without_folder(&self) -> bool {
        !self.is_nfs() && self.has_lost_folder()
    }
}

/// All mounts that are understood. The first time that some are not, `log` gets a line about them.
///
/// # Errors
/// When `/proc` is not there or cannot be read.
pub fn read(log: Log) -> io::Result<Vec<Mount>> {
    static TOLD: Once = Once::new();
    let file = content()?;
    let (mounts, odd) = parse_all(&file);
    if let Some(first) = odd.first() {
        TOLD.call_once(|| {
            let fields = [
                ("lines", odd.len().into()),
                (
                    "first",
                    redaction::options(&String::from_utf8_lossy(first), |_| false).into(),
                ),
            ];
            log.event(Level::Warn, "mountinfo is not understood in part", &fields);
        });
    }
    Ok(mounts)
}

/// The options of the topmost mount at `target`: those of the mount, then those of its file system. Nothing when nothing is
/// mounted there.
///
/// # Errors
/// When `/proc` is not there or cannot be read.
pub fn options_at(target: &Path) -> io::Result<Option<String>> {
    let bytes = content()?;
    let mut lines = bytes.split(|byte| *byte == b'\n').rev();
    let line = lines.find(|line| parse(line).is_some_and(|mount| mount.target == target));
    Ok(line.map(options))
}

fn content() -> io::Result<Vec<u8>> {
    // The file says no size: this spares a read for each doubling.
    let mut bytes = Vec::with_capacity(1 << 16);
    File::open("/proc/self/mountinfo")?.read_to_end(&mut bytes)?;
    Ok(bytes)
}

fn options(line: &[u8]) -> String {
    let fields: Vec<_> = line.split(|byte| *byte == b' ').collect();
    // The last field is the file system's; the mount's has always the same place.
    let both = [fields.get(5), fields.last()];
    let texts = both.map(|field| String::from_utf8_lossy(field.copied().unwrap_or_default()));
    texts.join(",")
}

/// The mounts of a whole file, and the lines that are none.
fn parse_all(file: &[u8]) -> (Vec<Mount>, Vec<&[u8]>) {
    let lines = file.split(|byte| *byte == b'\n');
    let (mut mounts, mut odd) = (Vec::new(), Vec::new());
    for line in lines.filter(|line| !line.is_empty()) {
        match parse(line) {
            Some(mount) => mounts.push(mount),
            None => odd.push(line),
        }
    }
    (mounts, odd)
}

/// The mounts exactly at `target`, the one on top last. One that is hidden by a mount above `target` is not there.
pub fn at<'a>(mounts: &'a [Mount], target: &Path) -> Vec<&'a Mount> {
    let mut way = way_to(mounts, target);
    way.retain(|mount| mount.target == target);
    way
}

/// The mount that a path lies in.
pub fn covering<'a>(mounts: &'a [Mount], path: &Path) -> Option<&'a Mount> {
    way_to(mounts, path).pop()
}

/// The mounts through which the kernel comes to `path`, one after the other. Their order in the file tells nothing: which one
/// hides another is told by what each is mounted on.
fn way_to<'a>(mounts: &'a [Mount], path: &Path) -> Vec<&'a Mount> {
    let ids: HashSet<u32> = mounts.iter().map(|mount| mount.id).collect();
    let mut way: Vec<&Mount> = Vec::new();
    // A file that is changed while it is read may show a circle.
    while way.len() < mounts.len() {
        let last = way.last().copied();
        let is_next = |mount: &&Mount| {
            let on_last = match last {
                Some(last) => mount.parent == last.id && mount.id != last.id,
                // The root's parent is itself, or out of sight.
                None => mount.parent == mount.id || !ids.contains(&mount.parent),
            };
            on_last && path.starts_with(&mount.target)
        };
        let depth = |mount: &&Mount| mount.target.components().count();
        let Some(next) = mounts.iter().filter(is_next).min_by_key(depth) else {
            break;
        };
        way.push(next);
    }
    way
}

/// File systems that wait for nobody but this machine's disks. A container sees its own files by overlays.
const LOCAL: [&str; 18] = [
    "bcachefs", "btrfs", "exfat", "ext2", "ext3", "ext4", "f2fs", "jfs", "ntfs3", "overlay",
    "ramfs", "reiserfs", "rootfs", "squashfs", "tmpfs", "vfat", "xfs", "zfs",
];

/// Whether all file systems through which the kernel comes to `path` are of this machine, so that no server is asked on the way.
pub fn asks_no_server(mounts: &[Mount], path: &Path) -> bool {
    let way = way_to(mounts, path);
    let is_local = |mount: &&Mount| LOCAL.iter().any(|local| mount.fs_type == *local);
    !way.is_empty() && way.iter().all(is_local)
}

/// One line, proc(5): `36 35 98:0 /mnt1 /mnt2 rw,noatime master:1 - ext3 /dev/root rw,errors=continue`.
fn parse(line: &[u8]) -> Option<Mount> {
    let mut fields = line.split(|byte| *byte == b' ');
    let id = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
    let parent = std::str::from_utf8(fields.next()?).ok()?.parse().ok()?;
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
    // A file system in user space adds a name of its own, of any bytes.
    let fs_type = unescape(fields.next()?);
    let source = unescape(fields.next()?);
    let super_options = fields.next().unwrap_or_default();
    let read_only = |options: &[u8]| {
        options
            .split(|byte| *byte == b',')
            .any(|word| word == b"ro")
    };
    Some(Mount {
        id,
        parent,
        device,
        root,
        target,
        read_only: read_only(options) || read_only(super_options),
        flags,
        fs_type,
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_way_asks_no_server_when_all_of_it_is_of_this_machine() {
        let mount = |id: u32, parent: u32, target: &str, fs_type: &str| Mount {
            id,
            parent,
            device: format!("0:{id}"),
            root: "/".into(),
            target: target.into(),
            read_only: false,
            flags: MountFlags::NONE,
            fs_type: fs_type.into(),
            source: "x".into(),
        };
        let mounts = [
            mount(1, 1, "/", "overlay"),
            mount(2, 1, "/srv", "xfs"),
            mount(3, 1, "/nfs", "nfs4"),
            mount(4, 3, "/nfs/disk", "ext4"),
            mount(5, 1, "/fuse", "fuse.sshfs"),
            mount(6, 2, "/srv/ceph", "ceph"),
        ];
        for (path, expected) in [
            ("/", true),
            ("/srv/a", true),
            ("/srv/ceph/a", false),
            ("/nfs/a", false),
            ("/nfs/disk/a", false),
            ("/fuse", false),
        ] {
            assert_eq!(asks_no_server(&mounts, Path::new(path)), expected, "{path}");
        }
        assert!(!asks_no_server(&[], Path::new("/")));
    }

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
        let mounts = read(Log::off()).unwrap();
        assert!(covering(&mounts, Path::new("/proc/self")).is_some());
    }

    #[test]
    fn what_is_not_understood_hides_nothing_else() {
        let file = b"1 1 0:1 / / rw - tmpfs t rw\n\
            2 1 0:2 / /f rw - fuse.x\xff \xfe rw\n\
            nonsense \xff\n\
            3 1 0:3 / /a rw - tmpfs t rw\n";
        let (mounts, odd) = parse_all(file);
        let ids: Vec<_> = mounts.iter().map(|mount| mount.id).collect();
        assert_eq!(ids, [1, 2, 3]);
        assert_eq!(mounts[1].fs_type.as_encoded_bytes(), b"fuse.x\xff");
        assert_eq!(odd, [b"nonsense \xff"]);
    }

    #[test]
    fn mounts_on_each_other_are_told_apart_by_what_they_are_mounted_on() {
        // Each as id, parent, target, in no order that means anything.
        let mounts = |all: &[(u32, u32, &str)]| -> Vec<Mount> {
            let line = |(id, parent, target): &(u32, u32, &str)| {
                format!("{id} {parent} 0:1 / {target} rw - tmpfs t rw\n")
            };
            let file: String = all.iter().map(line).collect();
            parse_all(file.as_bytes()).0
        };
        let ids = |found: Vec<&Mount>| found.iter().map(|one| one.id).collect::<Vec<_>>();
        let all = mounts(&[
            (9, 4, "/a/b"),
            (5, 1, "/c/d"),
            (4, 3, "/a"),
            (8, 4, "/a/b/hidden"),
            (2, 1, "/a/b"),
            (3, 1, "/a"),
            (6, 1, "/c"),
            (1, 0, "/"),
            (7, 9, "/a/b"),
        ]);
        for (path, covered_by, there) in [
            ("/", 1, vec![1]),
            ("/x", 1, vec![]),
            ("/a", 4, vec![3, 4]),
            ("/a/bc", 4, vec![]),
            // 2 is below 3, which was mounted on the root later.
            ("/a/b", 7, vec![9, 7]),
            ("/a/b/hidden", 7, vec![]),
            ("/c/d", 6, vec![]),
        ] {
            let path = Path::new(path);
            assert_eq!(covering(&all, path).unwrap().id, covered_by, "{path:?}");
            assert_eq!(ids(at(&all, path)), there, "{path:?}");
        }
        // What no kernel writes: nothing hangs.
        let circle = mounts(&[(1, 2, "/"), (2, 1, "/"), (3, 3, "/")]);
        assert_eq!(ids(at(&circle, Path::new("/"))), [3]);
        assert!(at(&mounts(&[(1, 2, "/"), (2, 1, "/")]), Path::new("/")).is_empty());
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = parse(&line);
        }
    }
}
