//! Archives as tar and Go make them, and as an attacker would: how they are made and tried, and those that are whole. Hostile
//! ones are in `attacks`, damaged ones in `damage`.

mod attacks;
mod damage;

use super::tar::MAX_EXTENSION;
use super::unpack::{MAX_DEVICES, PATH_COST, unpack};
use crate::files::copying::{CopyError, Progress, Report};
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
        let done = unpack(&archive, &target, &Progress::default());
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
