//! Archives as tar and Go make them, and as an attacker would.

use super::tar::MAX_EXTENSION;
use super::*;
use flate2::Compression;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder with an archive, a target, and something beside them that must stay as it is.
struct Trial {
    folder: tempfile::TempDir,
}

impl Trial {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("target")).unwrap();
        std::fs::create_dir(folder.path().join("outside")).unwrap();
        std::fs::write(folder.path().join("outside/secret"), "untouched").unwrap();
        Self { folder }
    }

    fn at(&self, path: &str) -> PathBuf {
        self.folder.path().join(path)
    }

    fn target(&self, path: &str) -> PathBuf {
        self.at("target").join(path)
    }

    fn unpack(&self, archive: &[u8]) -> Result<Report, CopyError> {
        std::fs::write(self.at("archive"), archive).unwrap();
        let target = File::open(self.at("target")).unwrap().into();
        let archive = File::open(self.at("archive")).unwrap().into();
        let done = unpack(archive, &target, &Progress::default());
        let secret = self.at("outside/secret");
        assert_eq!(std::fs::read(&secret).unwrap(), b"untouched");
        assert_eq!(secret.metadata().unwrap().nlink(), 1);
        assert_eq!(std::fs::read_dir(self.at("outside")).unwrap().count(), 1);
        done
    }

    #[track_caller]
    fn refused(&self, archive: &[u8], words: &str) {
        let error = self.unpack(archive).unwrap_err();
        assert!(matches!(error, CopyError::Archive { .. }), "{error}");
        assert!(error.to_string().contains(words), "{error}");
    }
}

/// An archive in the making.
#[derive(Clone, Default)]
struct Maker(Vec<u8>);

fn octal(field: &mut [u8], number: u64) {
    let text = format!("{number:0width$o}\0", width = field.len() - 1);
    field.copy_from_slice(text.as_bytes());
}

/// A header of ustar, its checksum included.
fn header(path: &[u8], kind: u8, link: &[u8], size: u64) -> [u8; 512] {
    let mut block = [0; 512];
    block[..path.len().min(100)].copy_from_slice(&path[..path.len().min(100)]);
    octal(&mut block[100..108], 0o644);
    octal(
        &mut block[108..116],
        u64::from(rustix::process::geteuid().as_raw()),
    );
    octal(
        &mut block[116..124],
        u64::from(rustix::process::getegid().as_raw()),
    );
    octal(&mut block[124..136], size);
    octal(&mut block[136..148], 1_000_000_000);
    block[156] = kind;
    block[157..157 + link.len().min(100)].copy_from_slice(&link[..link.len().min(100)]);
    block[257..265].copy_from_slice(b"ustar\x0000");
    sign(&mut block);
    block
}

fn sign(block: &mut [u8; 512]) {
    block[148..156].fill(b' ');
    let sum = block.iter().map(|byte| u64::from(*byte)).sum();
    octal(&mut block[148..155], sum);
}

fn record(key: &str, value: &[u8]) -> Vec<u8> {
    let rest = key.len() + value.len() + 3;
    let mut length = rest + 1;
    while length != rest + length.to_string().len() {
        length = rest + length.to_string().len();
    }
    [format!("{length} {key}=").as_bytes(), value, b"\n"].concat()
}

impl Maker {
    fn entry(mut self, path: &[u8], kind: u8, link: &[u8], content: &[u8]) -> Self {
        self.0
            .extend(header(path, kind, link, content.len() as u64));
        self.0.extend(content);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    fn file(self, path: &str, content: &str) -> Self {
        self.entry(path.as_bytes(), b'0', b"", content.as_bytes())
    }

    fn folder(self, path: &str) -> Self {
        self.entry(path.as_bytes(), b'5', b"", b"")
    }

    fn symlink(self, path: &str, to: &str) -> Self {
        self.entry(path.as_bytes(), b'2', to.as_bytes(), b"")
    }

    fn hard_link(self, path: &str, to: &str) -> Self {
        self.entry(path.as_bytes(), b'1', to.as_bytes(), b"")
    }

    fn pax(self, records: &[(&str, &[u8])]) -> Self {
        let content: Vec<u8> = records
            .iter()
            .flat_map(|(key, value)| record(key, value))
            .collect();
        self.entry(b"pax", b'x', b"", &content)
    }

    fn end(mut self) -> Vec<u8> {
        self.0.extend([0; 1024]);
        self.0
    }
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn run(command: &mut Command) {
    let done = command.output().unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
}

#[test]
fn what_tar_packs_comes_back_whole() {
    let trial = Trial::new();
    let source = trial.at("source");
    std::fs::create_dir_all(source.join("deep/er")).unwrap();
    std::fs::write(source.join("file"), "content").unwrap();
    std::fs::write(source.join("deep/er/empty"), "").unwrap();
    std::fs::write(source.join("n".repeat(200)), "a long name").unwrap();
    std::fs::hard_link(source.join("file"), source.join("deep/same")).unwrap();
    symlink("/etc/passwd", source.join("link")).unwrap();
    symlink("x".repeat(180), source.join("long link")).unwrap();
    run(Command::new("mkfifo").arg(source.join("fifo")));
    let odd = std::os::unix::ffi::OsStrExt::from_bytes(&b"\xff\xfe\n"[..]);
    std::fs::write(source.join::<&std::ffi::OsStr>(odd), "odd").unwrap();
    // Holes at both ends, and so large that its size matters.
    let sparse = File::create(source.join("sparse")).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"middle", 5 << 20).unwrap();
    sparse.set_len(9 << 20).unwrap();
    for (path, mode) in [("deep", 0o2750), ("deep/er", 0o500), ("file", 0o4711)] {
        std::fs::set_permissions(source.join(path), PermissionsExt::from_mode(mode)).unwrap();
    }
    let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_234_567_890);
    for path in ["deep/er/empty", "deep/er", "deep", "file"] {
        let at = File::open(source.join(path)).unwrap();
        at.set_modified(time).unwrap();
    }
    for format in ["gnu", "posix", "ustar"] {
        let trial = Trial::new();
        let mut tar = Command::new("tar");
        tar.arg("-C").arg(&source).arg("--format").arg(format);
        if format == "ustar" {
            // It cannot say them.
            tar.args(["--exclude", "nnnn*", "--exclude", "long*"]);
        }
        run(tar.arg("-czf").arg(trial.at("made")).arg("."));
        let report = trial
            .unpack(&std::fs::read(trial.at("made")).unwrap())
            .unwrap();
        assert_eq!(report.omissions(), None, "{format}");
        let seen = |root: &Path, path: &str| {
            let meta = root.join(path).symlink_metadata().unwrap();
            (
                meta.mode(),
                meta.uid(),
                meta.gid(),
                meta.mtime(),
                meta.len() * u64::from(!meta.is_dir()),
            )
        };
        let mut paths = vec![
            "file",
            "deep",
            "deep/er",
            "deep/er/empty",
            "deep/same",
            "link",
            "fifo",
            "sparse",
            ".",
        ];
        if format != "ustar" {
            paths.push("long link");
            assert!(trial.target(&"n".repeat(200)).is_file());
        }
        for path in paths {
            assert_eq!(
                seen(&trial.at("target"), path),
                seen(&source, path),
                "{format}: {path}"
            );
        }
        assert_eq!(std::fs::read(trial.target("file")).unwrap(), b"content");
        assert_eq!(
            std::fs::read_link(trial.target("link")).unwrap(),
            Path::new("/etc/passwd")
        );
        let ino = |path: &str| trial.target(path).metadata().unwrap().ino();
        assert_eq!(ino("file"), ino("deep/same"));
        assert!(
            trial
                .target("fifo")
                .symlink_metadata()
                .unwrap()
                .file_type()
                .is_fifo()
        );
        assert_eq!(
            std::fs::read(trial.target("sparse")).unwrap(),
            std::fs::read(source.join("sparse")).unwrap()
        );
        assert!(
            trial.target("sparse").metadata().unwrap().blocks() < 1024,
            "the zeros take no room"
        );
        assert_eq!(
            std::fs::read(trial.at("target").join::<&std::ffi::OsStr>(odd)).unwrap(),
            b"odd"
        );
        // For the folder of the test to be removed by an ordinary user.
        for root in [trial.at("target"), source.clone()] {
            std::fs::set_permissions(root.join("deep/er"), PermissionsExt::from_mode(0o700))
                .unwrap();
        }
        std::fs::set_permissions(source.join("deep/er"), PermissionsExt::from_mode(0o500)).unwrap();
    }
    std::fs::set_permissions(source.join("deep/er"), PermissionsExt::from_mode(0o700)).unwrap();
}

#[test]
fn what_go_packs_is_read() {
    // No slash after folders, no dot before paths; times with fractions and sizes beyond octal are in pax records.
    let trial = Trial::new();
    let archive = Maker::default()
        .folder(".")
        .folder("a")
        .pax(&[
            ("mtime", b"1700000000.5"),
            ("atime", b"-1.25"),
            ("size", b"5"),
            ("path", "a/größe".as_bytes()),
        ])
        .entry(b"a/gr", b'0', b"", b"hello")
        .end();
    for archive in [archive.clone(), gzip(&archive)] {
        trial.unpack(&archive).unwrap();
        let meta = trial.target("a/größe").metadata().unwrap();
        assert_eq!(
            (meta.mtime(), meta.mtime_nsec()),
            (1_700_000_000, 500_000_000)
        );
        assert_eq!((meta.atime(), meta.atime_nsec()), (-2, 750_000_000));
        assert_eq!(std::fs::read(trial.target("a/größe")).unwrap(), b"hello");
    }
}

#[test]
fn attributes_of_users_come_back_and_others_do_not() {
    let trial = Trial::new();
    let archive = Maker::default()
        .pax(&[
            ("SCHILY.xattr.user.a", b"\x00b\n"),
            ("SCHILY.xattr.security.capability", b"x"),
            ("SCHILY.xattr.trusted.overlay.opaque", b"y"),
        ])
        .file("file", "x")
        .end();
    let report = trial.unpack(&archive).unwrap();
    let omissions = report.omissions().unwrap();
    assert!(
        omissions.contains("security.*") && omissions.contains("trusted.*"),
        "{omissions}"
    );
    let mut value = [0; 16];
    match rustix::fs::getxattr(trial.target("file"), "user.a", &mut value[..]) {
        Ok(length) => assert_eq!(&value[..length], b"\x00b\n"),
        // A file system without them has said so.
        Err(_) => assert!(omissions.contains("user.*"), "{omissions}"),
    }
    assert!(
        rustix::fs::getxattr(trial.target("file"), "security.capability", &mut value[..]).is_err()
    );
}

#[test]
fn paths_that_leave_the_volume_are_refused() {
    let trial = Trial::new();
    let outside = trial.at("outside/secret").display().to_string();
    for path in [
        &*outside,
        "/etc/x",
        "..",
        "../x",
        "../outside/secret",
        "a/../../outside/secret",
        "./../x",
        "a/..",
        "a//b",
        "a/./b",
        "./",
        ".",
        "",
    ] {
        let error = trial
            .unpack(&Maker::default().file(path, "evil").end())
            .unwrap_err();
        assert!(
            matches!(error, CopyError::Archive { .. }),
            "{path:?}: {error}"
        );
        assert!(!error.to_string().contains("evil"));
        // The same said in an extension header.
        let pax = Maker::default()
            .pax(&[("path", path.as_bytes())])
            .file("fine", "evil")
            .end();
        assert!(trial.unpack(&pax).is_err(), "{path:?}");
        let long = Maker::default()
            .entry(b"long", b'L', b"", path.as_bytes())
            .file("fine", "evil")
            .end();
        assert!(trial.unpack(&long).is_err(), "{path:?}");
    }
    trial.refused(
        &Maker::default()
            .pax(&[("path", b"a\0b")])
            .file("x", "")
            .end(),
        "NUL",
    );
    let long = "x".repeat(256);
    trial.refused(
        &Maker::default()
            .pax(&[("path", long.as_bytes())])
            .file("x", "")
            .end(),
        "longer than a name",
    );
    let deep = "x/".repeat(3000);
    trial.refused(
        &Maker::default()
            .pax(&[("path", deep.as_bytes())])
            .file("x", "")
            .end(),
        "longer than a path",
    );
    assert_eq!(std::fs::read_dir(trial.at("target")).unwrap().count(), 0);
}

#[test]
fn nothing_is_written_through_a_symlink() {
    for (first, second) in [
        ("link", "link/secret"),
        ("link", "link/new"),
        ("a/link", "a/link/secret"),
        ("link", "link/deep/new"),
    ] {
        let trial = Trial::new();
        let outside = trial.at("outside").display().to_string();
        for to in [&*outside, "../outside", "../../outside", "."] {
            let through = Maker::default()
                .symlink(first, to)
                .file(second, "evil")
                .end();
            trial.refused(&through, "no folder, such as a symlink");
            let through = Maker::default().symlink(first, to).folder(second).end();
            trial.refused(&through, "no folder, such as a symlink");
            let through = Maker::default()
                .symlink(first, to)
                .symlink(second, "x")
                .end();
            trial.refused(&through, "no folder, such as a symlink");
            let through = Maker::default()
                .symlink(first, to)
                .hard_link("h", second)
                .end();
            let error = trial.unpack(&through).unwrap_err();
            assert!(matches!(error, CopyError::Archive { .. }), "{error}");
        }
    }
    // An entry of the symlink's own name takes its place.
    let trial = Trial::new();
    let secret = trial.at("outside/secret").display().to_string();
    let outside = trial.at("outside").display().to_string();
    let archive = Maker::default()
        .symlink("link", &secret)
        .file("link", "mine")
        .symlink("folder", &outside)
        .folder("folder")
        .file("folder/new", "mine")
        .end();
    trial.unpack(&archive).unwrap();
    assert_eq!(std::fs::read(trial.target("link")).unwrap(), b"mine");
    assert!(trial.target("folder").symlink_metadata().unwrap().is_dir());
    // And a symlink that takes the place of a folder gets none of what the folder was to get.
    let archive = Maker::default()
        .folder("gone")
        .symlink("gone2", &outside)
        .end();
    trial.unpack(&archive).unwrap();
}

#[test]
fn hard_links_stay_inside() {
    let trial = Trial::new();
    let secret = trial.at("outside/secret").display().to_string();
    symlink(trial.at("outside"), trial.target("planted")).unwrap();
    for to in [
        &*secret,
        "../outside/secret",
        "planted/secret",
        "missing",
        "a/missing",
        "",
        "h",
        "/etc/passwd",
    ] {
        let archive = Maker::default().hard_link("h", to).end();
        let error = trial.unpack(&archive).unwrap_err();
        assert!(
            matches!(error, CopyError::Archive { .. }),
            "{to:?}: {error}"
        );
    }
    // A link to a symlink is that symlink, and what is written later under its name is something else.
    let archive = Maker::default()
        .symlink("s", &secret)
        .hard_link("h", "./s")
        .file("h", "mine")
        .end();
    trial.unpack(&archive).unwrap();
    assert_eq!(
        std::fs::read_link(trial.target("s")).unwrap(),
        Path::new(&secret)
    );
    assert_eq!(std::fs::read(trial.target("h")).unwrap(), b"mine");
    // A name that is said again does not write to the file that had it.
    let archive = Maker::default()
        .file("one", "first")
        .hard_link("two", "one")
        .file("one", "second")
        .end();
    trial.unpack(&archive).unwrap();
    assert_eq!(std::fs::read(trial.target("one")).unwrap(), b"second");
    assert_eq!(std::fs::read(trial.target("two")).unwrap(), b"first");
    trial.refused(
        &Maker::default().folder("d").hard_link("e", "d").end(),
        "names a folder",
    );
}

#[test]
fn devices_are_left_out_and_the_rest_goes_on() {
    let trial = Trial::new();
    let archive = Maker::default()
        .entry(b"char", b'3', b"", b"")
        .entry(b"block", b'4', b"", b"")
        .file("file", "x")
        .end();
    let report = trial.unpack(&archive).unwrap();
    assert!(
        report.omissions().unwrap().contains("2 times"),
        "{report:?}"
    );
    assert_eq!(std::fs::read_dir(trial.at("target")).unwrap().count(), 1);
}

#[test]
fn set_id_bits_need_their_owner() {
    let mine = rustix::process::geteuid().as_raw();
    let with = |uid: u64| {
        let mut block = header(b"program", b'0', b"", 0);
        octal(&mut block[100..108], 0o6755);
        octal(&mut block[108..116], uid);
        sign(&mut block);
        [&block[..], &[0; 1024]].concat()
    };
    let trial = Trial::new();
    trial.unpack(&with(u64::from(mine))).unwrap();
    let mode = |trial: &Trial| trial.target("program").metadata().unwrap().mode() & 0o7777;
    assert_eq!(mode(&trial), 0o6755);
    // Root gives it away; nobody else can, and then must not let others be himself.
    let trial = Trial::new();
    let report = trial.unpack(&with(u64::from(mine) + 1)).unwrap();
    match mine {
        0 => assert_eq!(mode(&trial), 0o6755),
        _ => {
            assert_eq!(mode(&trial), 0o755);
            assert!(report.omissions().is_some());
        }
    }
}

#[test]
fn entries_that_are_said_twice_have_an_order() {
    let trial = Trial::new();
    let archive = Maker::default()
        .folder("a")
        .file("a/x", "1")
        .folder("b")
        .folder("a")
        .file("a/x", "2")
        .file("b", "not a folder any more");
    trial.refused(&archive.clone().end(), "takes the place of a folder");
    let archive = Maker::default().file("a/x", "1").file("a", "2").end();
    trial.refused(&archive, "takes the place of a folder");
    let trial = Trial::new();
    let archive = Maker::default()
        .file("a", "1")
        .folder("a")
        .file("a/x", "2")
        .end();
    trial.unpack(&archive).unwrap();
    assert_eq!(std::fs::read(trial.target("a/x")).unwrap(), b"2");
}

#[test]
fn damage_is_noticed_wherever_it_is() {
    let whole = Maker::default()
        .folder("./")
        .file("./a", "content")
        .pax(&[("path", b"b")])
        .file("x", &"y".repeat(2000))
        .end();
    let unpacked = Trial::new().unpack(&whole);
    assert_eq!(unpacked.unwrap().files, 3);
    // Cut anywhere, up to the first of the blocks of zeros at the end.
    for length in (0..whole.len() - 1024).step_by(97) {
        let trial = Trial::new();
        let error = trial.unpack(&whole[..length]).unwrap_err();
        assert!(
            matches!(error, CopyError::Archive { .. }),
            "{length}: {error}"
        );
    }
    let packed = gzip(&whole);
    for length in 2..packed.len() {
        let trial = Trial::new();
        let error = trial.unpack(&packed[..length]).unwrap_err();
        assert!(
            matches!(error, CopyError::Archive { .. }),
            "{length}: {error}"
        );
    }
    // A flipped bit in a header, in the stream, in the checksum of the whole.
    let trial = Trial::new();
    let mut flipped = whole.clone();
    flipped[512] ^= 1;
    trial.refused(&flipped, "checksum");
    for at in [packed.len() / 2, packed.len() - 5, packed.len() - 1] {
        let mut flipped = packed.clone();
        flipped[at] ^= 0x40;
        let error = Trial::new().unpack(&flipped).unwrap_err();
        assert!(matches!(error, CopyError::Archive { .. }), "{at}: {error}");
    }
    trial.refused(&[&whole[..], b"more"].concat(), "follows its end");
    trial.refused(b"", "ends in the middle");
    trial.refused(&[7; 2048], "checksum");
    trial.refused(&vec![0; 2 << 20], "follows its end");
}

#[test]
fn what_tar_makes_only_when_asked_is_refused_by_name() {
    let trial = Trial::new();
    trial.refused(
        &Maker::default().entry(b"s", b'S', b"", b"").end(),
        "sparse",
    );
    let sparse = Maker::default()
        .pax(&[("GNU.sparse.major", b"1")])
        .file("s", "x")
        .end();
    trial.refused(&sparse, "sparse");
    for kind in [b'M', b'D', b'V', b'A', 0xff] {
        trial.refused(
            &Maker::default().entry(b"m", kind, b"", b"").end(),
            "not supported",
        );
    }
    for kind in [b'1', b'2', b'5', b'6'] {
        trial.refused(
            &Maker::default().entry(b"m", kind, b"x", b"content").end(),
            "without content",
        );
    }
    // What stands for all entries must not move them.
    let global = Maker::default()
        .entry(b"g", b'g', b"", &record("path", b"x"))
        .file("a", "")
        .end();
    trial.refused(&global, "not of its form");
    let comment = Maker::default()
        .entry(b"g", b'g', b"", &record("comment", b"x"))
        .file("a", "")
        .end();
    trial.unpack(&comment).unwrap();
    for pax in [
        &b"5 a=b\n"[..],
        b"99 a=b\n",
        b"a=b\n",
        b"6 a=bX",
        b"0 a=b\n",
        b"-6 a=b\n",
        b"6 a b\n",
    ] {
        let archive = Maker::default()
            .entry(b"p", b'x', b"", pax)
            .file("a", "")
            .end();
        trial.refused(&archive, "not of its form");
    }
    trial.refused(
        &Maker::default()
            .pax(&[("uid", b"4294967295")])
            .file("a", "")
            .end(),
        "owner",
    );
    // Extension headers before nothing, and without end.
    trial.refused(
        &Maker::default().pax(&[("path", b"x")]).end(),
        "ends in the middle",
    );
    let mut many = Maker::default();
    for _ in 0..20 {
        many = many.pax(&[("comment", b"x")]);
    }
    trial.refused(&many.file("a", "").end(), "extension headers");
}

#[test]
fn no_number_makes_it_take_room() {
    let trial = Trial::new();
    // A long name of eight exbibytes, and one that is just too long.
    for size in [1 << 62, MAX_EXTENSION + 1] {
        let mut block = header(b"long", b'L', b"", 0);
        block[124..128].copy_from_slice(&[0x80, 0, 0, 0]);
        block[128..136].copy_from_slice(&u64::to_be_bytes(size));
        sign(&mut block);
        trial.refused(&block, "an extension header has");
    }
    // A file that says to be larger than the archive.
    let mut block = header(b"file", b'0', b"", 0);
    block[124..128].copy_from_slice(&[0x80, 0, 0, 0]);
    block[128..136].copy_from_slice(&u64::to_be_bytes(u64::MAX));
    sign(&mut block);
    trial.refused(&block, "ends in the middle");
    // 64 MiB of zeros out of 300 KiB: no more blocks than a header's.
    let size: u64 = 64 << 20;
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder
        .write_all(&header(b"bomb", b'0', b"", size))
        .unwrap();
    let zeros = vec![0; 1 << 20];
    for _ in 0..size >> 20 {
        encoder.write_all(&zeros).unwrap();
    }
    encoder.write_all(&[0; 1024]).unwrap();
    trial.unpack(&encoder.finish().unwrap()).unwrap();
    let meta = trial.target("bomb").metadata().unwrap();
    assert!(
        meta.len() == size && meta.blocks() < 64,
        "{} blocks",
        meta.blocks()
    );
}

#[test]
fn a_full_disk_is_no_room_and_a_stop_is_a_stop() {
    let trial = Trial::new();
    let archive = gzip(&Maker::default().file("a", &"x".repeat(4096)).end());
    std::fs::write(trial.at("archive"), archive).unwrap();
    let progress = Progress::default();
    progress.stop();
    let target = File::open(trial.at("target")).unwrap().into();
    let archive = File::open(trial.at("archive")).unwrap().into();
    let error = unpack(archive, &target, &progress).unwrap_err();
    assert!(matches!(error, CopyError::Stopped), "{error}");
    let full = CopyError::io("writing", "a".to_owned(), Errno::NOSPC);
    assert!(matches!(full, CopyError::NoRoom { .. }));
}

proptest! {
    #[test]
    fn any_bytes_are_answered(bytes in proptest::collection::vec(any::<u8>(), 0..2000), packed: bool) {
        let bytes = if packed { gzip(&bytes) } else { bytes };
        let _ = Trial::new().unpack(&bytes);
    }

    /// Headers with a right checksum, and anything in their fields.
    #[test]
    fn any_entries_stay_inside(
        entries in proptest::collection::vec(
            ("[a./\\x00]{0,6}", "[01235xLKgS6]", "[a./]{0,6}", proptest::collection::vec(any::<u8>(), 0..40), any::<[u8; 8]>()),
            0..8,
        ),
    ) {
        let mut archive = Maker::default();
        for (path, kind, link, content, noise) in entries {
            let at = archive.0.len();
            archive = archive.entry(path.as_bytes(), kind.as_bytes()[0], link.as_bytes(), &content);
            if noise[0] > 200 {
                let block: &mut [u8; 512] = (&mut archive.0[at..at + 512]).try_into().unwrap();
                block[usize::from(noise[1]) % 8 + 100..][..4].copy_from_slice(&noise[2..6]);
                sign(block);
            }
        }
        // `unpack` looks whether anything outside was touched.
        let trial = Trial::new();
        let _ = trial.unpack(&archive.end());
        prop_assert_eq!(std::fs::read_dir(trial.folder.path()).unwrap().count(), 3);
    }
}
