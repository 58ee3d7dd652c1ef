//! Copies of trees: what they keep, what they leave out, and how they end early.

use super::*;
use crate::files::crash_points;
use crate::files::small_disk::SmallDisk;
use rustix::fs::{AtFlags, CWD, FileType, Mode, OFlags, Timespec, Timestamps, XattrFlags};
use rustix::io::Errno;
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

struct Trial {
    folder: tempfile::TempDir,
}

impl Trial {
    fn new() -> Self {
        // Over NFS, when such a mount is named.
        let folder = match std::env::var_os("COPY_TRIAL") {
            Some(folder) => tempfile::tempdir_in(folder).unwrap(),
            None => tempfile::tempdir().unwrap(),
        };
        for name in ["source", "target"] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
        }
        Self { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn open(&self, path: &str) -> OwnedFd {
        File::open(self.at(path)).unwrap().into()
    }

    fn copy(&self) -> Result<Report, CopyError> {
        self.copy_with(&Progress::default())
    }

    fn copy_with(&self, progress: &Progress) -> Result<Report, CopyError> {
        copy(self.view(), &|| Some(self.view()), progress)
    }

    fn view(&self) -> View {
        let links = LinksFolder::new(self.open("."), "links");
        View::new(self.open("source"), self.open("target"), links)
    }

    fn equal(&self) {
        let (source, target) = (snapshot(&self.at("source")), snapshot(&self.at("target")));
        for (path, entry) in &source {
            assert_eq!(target.get(path), Some(entry), "{path:?}");
        }
        assert_eq!(source.len(), target.len());
        assert!(!self.at("links").exists());
    }
}

/// Everything that a copy has to keep of an entry.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    kind: u32,
    mode: u32,
    owner: (u32, u32),
    modified: (i64, i64),
    size: u64,
    content: Vec<u8>,
    device: u64,
    names: Vec<PathBuf>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    data_at: Vec<(u64, u64)>,
}

fn snapshot(root: &Path) -> BTreeMap<PathBuf, Seen> {
    let mut names: HashMap<u64, Vec<PathBuf>> = HashMap::new();
    let mut paths = vec![PathBuf::new()];
    let mut index = 0;
    while let Some(path) = paths.get(index).cloned() {
        index += 1;
        let metadata = root.join(&path).symlink_metadata().unwrap();
        if metadata.is_dir() {
            for entry in std::fs::read_dir(root.join(&path)).unwrap() {
                paths.push(path.join(entry.unwrap().file_name()));
            }
        } else {
            names.entry(metadata.ino()).or_default().push(path);
        }
    }
    for group in names.values_mut() {
        group.sort();
    }
    paths
        .into_iter()
        .map(|path| {
            let full = root.join(&path);
            let metadata = full.symlink_metadata().unwrap();
            let kind = metadata.file_type();
            let seen = Seen {
                kind: metadata.mode() & 0o170_000,
                mode: metadata.mode() & 0o7777,
                owner: (metadata.uid(), metadata.gid()),
                modified: (metadata.mtime(), metadata.mtime_nsec()),
                size: if kind.is_dir() { 0 } else { metadata.size() },
                content: match () {
                    () if kind.is_file() => std::fs::read(&full).unwrap(),
                    () if kind.is_symlink() => std::fs::read_link(&full)
                        .unwrap()
                        .as_os_str()
                        .as_bytes()
                        .to_vec(),
                    () => Vec::new(),
                },
                device: metadata.rdev(),
                names: names.get(&metadata.ino()).cloned().unwrap_or_default(),
                attributes: attributes(&full),
                data_at: if kind.is_file() {
                    data_at(&full)
                } else {
                    Vec::new()
                },
            };
            (path, seen)
        })
        .collect()
}

fn attributes(path: &Path) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let mut list = vec![0; 65536];
    let length = match rustix::fs::llistxattr(path, &mut list[..]) {
        Ok(length) => length,
        Err(Errno::OPNOTSUPP) => 0,
        Err(error) => panic!("{path:?}: {error}"),
    };
    list[..length]
        .split(|byte| *byte == 0)
        .filter(|name| name.starts_with(b"user."))
        .map(|name| {
            let mut value = vec![0; 65536];
            let length =
                rustix::fs::lgetxattr(path, OsStr::from_bytes(name), &mut value[..]).unwrap();
            (name.to_vec(), value[..length].to_vec())
        })
        .collect()
}

fn data_at(path: &Path) -> Vec<(u64, u64)> {
    let file = File::open(path).unwrap();
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(start) = rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
        at = rustix::fs::seek(&file, rustix::fs::SeekFrom::Hole(start)).unwrap();
        found.push((start, at));
    }
    found
}

fn chmod(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

fn set_times(path: &Path, seconds: i64, nanoseconds: i64) {
    let time = Timespec {
        tv_sec: seconds,
        tv_nsec: nanoseconds as _,
    };
    let times = Timestamps {
        last_access: time,
        last_modification: time,
    };
    rustix::fs::utimensat(CWD, path, &times, AtFlags::SYMLINK_NOFOLLOW).unwrap();
}

/// Whether the file system has attributes of users. Some memory has none.
fn attributes_work(path: &Path) -> bool {
    match rustix::fs::setxattr(path, "user.probe", b"1", XattrFlags::empty()) {
        Err(Errno::OPNOTSUPP) => false,
        set => {
            set.unwrap();
            true
        }
    }
}

/// Whether this process may make devices and give files to anybody: by its capabilities, outside of any user namespace.
fn may_do_all() -> bool {
    const CHOWN_AND_MKNOD: u64 = 1 | 1 << 27;
    let ids = std::fs::read_to_string("/proc/self/uid_map").unwrap();
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let mut lines = status.lines();
    let set = lines
        .find_map(|line| line.strip_prefix("CapEff:\t"))
        .unwrap();
    let set = u64::from_str_radix(set, 16).unwrap();
    ids.split_whitespace().eq(["0", "0", "4294967295"]) && set & CHOWN_AND_MKNOD == CHOWN_AND_MKNOD
}

#[test]
fn everything_travels() {
    let trial = Trial::new();
    let source = trial.at("source");
    let root = rustix::process::geteuid().is_root();
    let write = |path: &str, content: &[u8]| std::fs::write(source.join(path), content).unwrap();
    write("empty", b"");
    write("small", b"x");
    write("large", &vec![7; 3 << 20]);
    std::fs::create_dir(source.join("folder")).unwrap();
    std::fs::create_dir(source.join("folder/empty")).unwrap();
    write("folder/file", b"inner");
    // Names of any bytes.
    for name in [
        &b"\xff\xfe"[..],
        b"a\nb",
        b" ",
        b"-rf",
        b"\\",
        b"*",
        b"...",
        &[b'n'; 255],
    ] {
        std::fs::write(source.join(OsStr::from_bytes(name)), name).unwrap();
    }
    // Holes: at the beginning, in the middle, at the end, everywhere.
    let sparse = File::create(source.join("sparse")).unwrap();
    sparse.set_len(8 << 20).unwrap();
    sparse.write_all_at(b"data", 1 << 20).unwrap();
    sparse.write_all_at(&[1; 70_000], 3 << 20).unwrap();
    File::create(source.join("hole"))
        .unwrap()
        .set_len(5_000_001)
        .unwrap();
    // Links.
    for path in ["folder/second", "third"] {
        std::fs::hard_link(source.join("large"), source.join(path)).unwrap();
    }
    symlink("small", source.join("link")).unwrap();
    symlink("/etc/passwd", source.join("outside")).unwrap();
    symlink("../../../..", source.join("up")).unwrap();
    symlink("nowhere", source.join("dangling")).unwrap();
    std::fs::hard_link(source.join("dangling"), source.join("dangling2")).unwrap();
    // Special files.
    let mode = Mode::from_raw_mode(0o640);
    rustix::fs::mknodat(CWD, source.join("fifo"), FileType::Fifo, mode, 0).unwrap();
    rustix::fs::mknodat(CWD, source.join("socket"), FileType::Socket, mode, 0).unwrap();
    if may_do_all() {
        let null = rustix::fs::makedev(1, 3);
        let device = source.join("device");
        rustix::fs::mknodat(CWD, device, FileType::CharacterDevice, mode, null).unwrap();
        for (path, owner) in [("small", 1234), ("folder", 77), ("link", 99), ("fifo", 5)] {
            std::os::unix::fs::lchown(source.join(path), Some(owner), Some(owner + 1)).unwrap();
        }
    }
    if attributes_work(&source) {
        for (path, name, value) in [
            ("small", "user.a", &b"1"[..]),
            ("small", "user.long", &[9; 3000]),
            ("folder", "user.folder", b"x"),
            ("empty", "user.none", b""),
        ] {
            rustix::fs::setxattr(source.join(path), name, value, XattrFlags::empty()).unwrap();
        }
    }
    chmod(&source.join("small"), 0o4755);
    chmod(&source.join("large"), 0o400);
    chmod(&source.join("empty"), 0o1666);
    chmod(&source.join("folder/empty"), 0o2577);
    chmod(&source.join("folder"), 0o3555);
    chmod(&source, 0o2751);
    for (path, time) in [
        ("small", 1),
        ("link", 1_000_000_000),
        ("fifo", 2_000_000_000),
        ("folder/empty", 5),
        ("folder", -5),
        ("", 1_234_567_890),
    ] {
        set_times(&source.join(path), time, 123_456_789);
    }
    let report = trial.copy().unwrap();
    chmod(&trial.at("source/folder"), 0o3755);
    chmod(&trial.at("target/folder"), 0o3755);
    trial.equal();
    if root {
        assert_eq!(report.left_out.get(&LeftOut::Owner), None);
        assert_eq!(report.left_out.get(&LeftOut::Mode), None);
    }
    assert!(report.files > 25, "{report:?}");
    assert_eq!(report.left_out.get(&LeftOut::Vanished), None);
}

/// As on a server that is far away, with as many mounts as a copy asks for.
#[test]
fn a_wide_folder_is_copied_through_several_views() {
    let trial = Trial::new();
    let source = trial.at("source");
    for number in 0..150 {
        let at = |name: &str| source.join(format!("{name}{number}"));
        std::fs::write(at("file"), format!("{number}")).unwrap();
        std::fs::hard_link(at("file"), at("link")).unwrap();
        std::fs::create_dir(at("folder")).unwrap();
        std::fs::hard_link(at("file"), at("folder").join("third")).unwrap();
        symlink("file", at("symlink")).unwrap();
    }
    let (asked, astray) = (AtomicUsize::new(0), Trial::new());
    let more = || match asked.fetch_add(1, Ordering::SeqCst) {
        // Another folder, and a mount that cannot be had.
        0 => Some(astray.view()),
        1 => None,
        _ => Some(trial.view()),
    };
    let views = Views::new(trial.view(), &more);
    let progress = Progress::default();
    let mut course = Course::of(&trial.view(), &progress).unwrap();
    (course.remote, course.distance, course.threads) = (true, Distance::micros(20_000), 32);
    tree::copy(&views, &course).unwrap();
    views.finish(&progress.threads).unwrap();
    trial.equal();
    let asked = asked.into_inner();
    assert!((3..distance::MOST).contains(&asked), "{asked}");
    assert_eq!(std::fs::read_dir(astray.at("target")).unwrap().count(), 0);
}

#[test]
fn a_source_keeps_its_times_of_access() {
    if std::env::var_os("COPY_TRIAL").is_some() {
        // A server changes them as it likes.
        return;
    }
    let trial = Trial::new();
    std::fs::create_dir(trial.at("source/folder")).unwrap();
    std::fs::write(trial.at("source/folder/file"), "data").unwrap();
    let paths = ["source/folder/file", "source/folder", "source"];
    for path in paths {
        set_times(&trial.at(path), 10, 0);
    }
    trial.copy().unwrap();
    for path in paths {
        assert_eq!(trial.at(path).metadata().unwrap().atime(), 10, "{path}");
    }
    assert_eq!(
        trial.at("target/folder/file").metadata().unwrap().atime(),
        10
    );
}

#[test]
fn a_tree_deeper_than_any_path_is_copied() {
    let trial = Trial::new();
    let mut at: OwnedFd = trial.open("source");
    let name = "d".repeat(50);
    for _ in 0..400 {
        rustix::fs::mkdirat(&at, &*name, Mode::RWXU).unwrap();
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        at = rustix::fs::openat(&at, &*name, flags, Mode::empty()).unwrap();
    }
    crate::files::beneath::write_new(&at, "file", b"deep").unwrap();
    trial.copy().unwrap();
    let mut at: OwnedFd = trial.open("target");
    for _ in 0..400 {
        at = crate::files::beneath::folder(&at, &*name).unwrap();
    }
    assert_eq!(
        crate::files::beneath::read(&at, "file", 10).unwrap(),
        b"deep"
    );
}

#[test]
fn many_folders_and_many_links_are_copied() {
    let trial = Trial::new();
    std::fs::write(trial.at("source/first"), "shared").unwrap();
    // More than may wait, so that listings pause; and the files in them are all one.
    for outer in 0..6 {
        for inner in 0..900 {
            let path = trial.at(&format!("source/{outer}/{inner}"));
            std::fs::create_dir_all(&path).unwrap();
            if inner % 3 == 0 {
                std::fs::hard_link(trial.at("source/first"), path.join("link")).unwrap();
            }
        }
    }
    trial.copy().unwrap();
    trial.equal();
}

#[test]
fn a_copy_can_be_stopped() {
    let trial = Trial::new();
    std::fs::write(trial.at("source/file"), "x").unwrap();
    let progress = Progress::default();
    progress.stop();
    assert!(matches!(
        trial.copy_with(&progress),
        Err(CopyError::Stopped)
    ));
}

/// A file of several parts, as the kernel copies it and as a stream.
fn large<'a>(trial: &Trial, progress: &'a Progress, copy_range: bool) -> (Course<'a>, u64) {
    let size = if copy_range { 17 << 20 } else { 256 << 10 };
    std::fs::write(trial.at("source/large"), vec![7; size]).unwrap();
    let course = Course::of(&trial.view(), progress).unwrap();
    course.clone.store(false, Ordering::Relaxed);
    course.copy_range.store(copy_range, Ordering::Relaxed);
    (course, size as u64)
}

#[test]
fn a_large_file_ends_with_the_copy() {
    for (copy_range, stopped) in [(true, true), (true, false), (false, true), (false, false)] {
        let trial = Trial::new();
        let progress = Progress::default();
        let (course, size) = large(&trial, &progress, copy_range);
        let views = Views::new(trial.view(), &|| None);
        let gate = Arc::new(crash_points::Gate::default());
        let copy = || tree::copy(&views, &course);
        let copied = std::thread::scope(|scope| {
            let copying = scope.spawn(|| crash_points::waiting(0, &gate, copy));
            assert_eq!(gate.reached(), Some("a part of a file is copied"));
            match stopped {
                true => progress.stop(),
                // As another thread does.
                false => course.fail(),
            }
            gate.open();
            copying.join().unwrap()
        });
        assert!(matches!(copied, Err(CopyError::Stopped)), "{copied:?}");
        let length = trial.at("target/large").metadata().unwrap().len();
        assert!((1..size).contains(&length), "{length} of {size}");
    }
}

#[test]
fn a_thread_that_fails_ends_the_others() {
    let trial = Trial::new();
    for name in ["source/folder", "target/folder"] {
        std::fs::create_dir(trial.at(name)).unwrap();
    }
    let progress = Progress::default();
    let course = Course::of(&trial.view(), &progress).unwrap();
    let views = Views::new(trial.view(), &|| None);
    let copied = tree::copy(&views, &course);
    assert!(matches!(copied, Err(CopyError::Io { .. })), "{copied:?}");
    assert!(course.is_over() && !progress.is_stopped());
}

#[test]
fn a_folder_that_goes_while_it_is_listed_is_told() {
    let trial = Trial::new();
    let view = trial.view();
    std::fs::remove_dir(trial.at("source")).unwrap();
    let Ok(report) = copy(view, &|| None, &Progress::default()) else {
        // Over NFS it cannot even be looked at.
        assert!(std::env::var_os("COPY_TRIAL").is_some());
        return;
    };
    assert_eq!(report.left_out[&LeftOut::Vanished].count, 1);
}

/// Copies what `make` makes once for each question that is asked of its server, which then does not know what is there.
/// Returns how often the copy is whole all the same.
fn forgotten_at_each_question(make: impl Fn(&Path)) -> usize {
    let mut whole = 0;
    for count in 0.. {
        let trial = Trial::new();
        make(&trial.at("source"));
        match crash_points::forgetting(count, || (trial.copy(), crash_points::is_past())) {
            (Ok(report), forgot) => {
                assert_eq!(report.left_out, BTreeMap::new());
                trial.equal();
                if !forgot {
                    assert!(count > 2, "only {count} questions");
                    break;
                }
                whole += 1;
            }
            (Err(error), _) => assert!(error.is_stale(), "{error}"),
        }
    }
    whole
}

/// As a server that fails over.
#[test]
fn what_a_server_forgets_for_a_moment_is_not_left_out() {
    forgotten_at_each_question(|source| {
        for path in ["folder/a", "folder/inner/b", "c"] {
            let path = source.join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, "data").unwrap();
        }
        symlink("a", source.join("folder/link")).unwrap();
    });
    // An entry is asked for again.
    let whole = forgotten_at_each_question(|source| {
        std::fs::write(source.join("file"), "data").unwrap();
    });
    assert_eq!(whole, 1);
}

/// A tenant swaps files, folders, symlinks and FIFOs while the copy runs.
#[test]
fn a_hostile_tenant_gets_nothing_from_outside() {
    let outside = tempfile::tempdir().unwrap();
    std::fs::write(outside.path().join("secret"), "secret").unwrap();
    for round in 0..20 {
        let trial = Trial::new();
        let source = trial.at("source");
        for index in 0..40 {
            std::fs::create_dir(source.join(format!("{index}"))).unwrap();
            std::fs::write(source.join(format!("{index}/secret")), "own").unwrap();
        }
        let done = Arc::new(AtomicBool::new(false));
        let tenant = {
            let (done, source, outside) = (done.clone(), source.clone(), outside.path().to_owned());
            std::thread::spawn(move || {
                let mut turn = round;
                while !done.load(Ordering::Relaxed) {
                    turn += 1;
                    let folder = source.join(format!("{}", turn % 40));
                    let aside = source.join(format!("aside-{}", turn % 40));
                    if std::fs::rename(&folder, &aside).is_ok() {
                        let _ = symlink(&outside, &folder);
                        let _ = std::fs::remove_file(&folder);
                        let _ = std::fs::rename(&aside, &folder);
                    }
                    let file = folder.join("secret");
                    let _ = std::fs::remove_file(&file);
                    let _ = symlink(outside.join("secret"), &file);
                    let _ = std::fs::remove_file(&file);
                    let _ = rustix::fs::mknodat(CWD, &file, FileType::Fifo, Mode::RWXU, 0);
                    let _ = std::fs::remove_file(&file);
                    let _ = std::fs::write(&file, "own");
                }
            })
        };
        let copied = trial.copy();
        done.store(true, Ordering::Relaxed);
        tenant.join().unwrap();
        assert!(
            matches!(copied, Ok(_) | Err(CopyError::Changing(_))),
            "{copied:?}"
        );
        for (path, seen) in snapshot(&trial.at("target")) {
            if seen.kind == 0o100_000 {
                assert!(matches!(&*seen.content, b"own" | b""), "{path:?}");
            }
        }
    }
}

#[test]
fn a_copy_out_of_room_says_so() {
    let trial = Trial::new();
    std::fs::write(trial.at("source/large"), vec![7; 3 << 20]).unwrap();
    let disk = SmallDisk::at(&trial.at("target"));
    let view = || {
        let target = disk.open().into();
        let links = LinksFolder::new(trial.open("."), "links");
        View::new(trial.open("source"), target, links)
    };
    let error = copy(view(), &|| Some(view()), &Progress::default()).unwrap_err();
    let is_about_it = matches!(&error, CopyError::NoRoom { path, .. } if path == "large");
    assert!(is_about_it, "{error:?}");
}
