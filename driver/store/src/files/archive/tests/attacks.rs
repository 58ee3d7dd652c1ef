//! Archives that would write, link or point elsewhere, or take what room there is.

use super::*;

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
fn hard_links_to_devices_are_left_out_with_them() {
    let trial = Trial::new();
    let archive = Maker::default()
        .entry(b"dev/null", b'3', b"", b"")
        .hard_link("same", "./dev/null")
        .hard_link("again", "same")
        .file("file", "x")
        .hard_link("link", "file")
        .end();
    let report = trial.unpack(&archive).unwrap();
    let told = report.omissions().unwrap();
    assert!(told.contains("3 times"), "{told}");
    for gone in ["dev/null", "same", "again"] {
        assert!(!trial.target(gone).exists(), "{gone}");
    }
    assert_eq!(std::fs::read(trial.target("link")).unwrap(), b"x");
    // What takes a device's place can be linked to; what was never there cannot.
    let archive = Maker::default()
        .entry(b"place", b'3', b"", b"")
        .file("place", "y")
        .hard_link("other", "place")
        .end();
    trial.unpack(&archive).unwrap();
    assert_eq!(std::fs::read(trial.target("other")).unwrap(), b"y");
    for missing in ["dev/zero", "dev/nul", "null", "nowhere/null"] {
        let archive = Maker::default()
            .entry(b"dev/null", b'3', b"", b"")
            .hard_link("x", missing);
        trial.refused(&archive.end(), "nothing of that name");
    }
}

/// An archive cannot make the driver remember as many devices as it names.
#[test]
fn the_memory_for_devices_is_bounded() {
    let trial = Trial::new();
    let name = |number: usize| format!("{number:0>90}");
    let many = MAX_DEVICES / (90 + PATH_COST) + 1;
    let devices = (0..many).fold(Maker::default(), |made, number| {
        made.entry(name(number).as_bytes(), b'4', b"", b"")
    });
    let kept = devices.clone().hard_link("x", &name(many - 2));
    trial.unpack(&kept.end()).unwrap();
    let beyond = devices.hard_link("x", &name(many - 1));
    trial.refused(&beyond.end(), "nothing of that name");
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
