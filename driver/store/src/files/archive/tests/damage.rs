//! Archives that are cut short, damaged, or of a form that `tar -cz` does not make.

use super::*;
use crate::files::small_disk::SmallDisk;
use rustix::io::Errno;

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
fn attributes_that_wait_are_bounded() {
    let value = vec![b'x'; 60_000];
    let names = ["a", "b", "c", "d", "e"].map(|name| format!("SCHILY.xattr.user.{name}"));
    let attributes: Vec<(&str, &[u8])> = names.iter().map(|name| (&**name, &*value)).collect();
    let trial = Trial::new();
    let too_long = vec![b'x'; (1 << 16) + 1];
    let long = Maker::default().pax(&[("SCHILY.xattr.user.a", &too_long)]);
    trial.refused(&long.folder("a").end(), "an extended attribute has");
    // Each folder lies in the one before, so that all of them wait.
    let mut archive = Maker::default();
    let mut path = String::new();
    for depth in 0..40 {
        path.push_str(&format!("{depth}/"));
        archive = archive.pax(&attributes).folder(&path);
    }
    trial.refused(&archive.end(), "bytes of extended attributes");
    // The root, said again and again, is one folder and waits once.
    let little = vec![b'x'; 1_000];
    let mut archive = Maker::default();
    for _ in 0..9_000 {
        archive = archive
            .pax(&[("SCHILY.xattr.user.a", &little)])
            .folder("./");
    }
    Trial::new().unpack(&archive.end()).unwrap();
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
    let archive = gzip(&Maker::default().file("a", &"x".repeat(3 << 20)).end());
    std::fs::write(trial.at("archive"), archive).unwrap();
    let disk = SmallDisk::at(&trial.at("target"));
    let archive = File::open(trial.at("archive")).unwrap().into();
    let full = unpack(&archive, &disk.open().into(), &Progress::default()).unwrap_err();
    assert!(matches!(full, CopyError::NoRoom { .. }), "{full}");
    let progress = Progress::default();
    progress.stop();
    let target = File::open(trial.at("target")).unwrap().into();
    let archive = File::open(trial.at("archive")).unwrap().into();
    let error = unpack(&archive, &target, &progress).unwrap_err();
    assert!(matches!(error, CopyError::Stopped), "{error}");
}

/// What the file system says of the archive may pass; nothing is wrong with the archive itself.
#[test]
fn an_archive_that_cannot_be_read_now_is_not_damaged() {
    let trial = Trial::new();
    let archive = Maker::default().file("a", &"x".repeat(4096)).end();
    let (reader, writer) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::NONBLOCK).unwrap();
    let mut begun = File::from(writer);
    begun.write_all(&archive[..1024]).unwrap();
    let target = File::open(trial.at("target")).unwrap().into();
    let error = unpack(&reader, &target, &Progress::default()).unwrap_err();
    let CopyError::Io { source, .. } = error else {
        panic!("{error}");
    };
    assert_eq!(Errno::from_io_error(&source), Some(Errno::AGAIN));
}
