//! The mock driver as its users have it: `-e mock:` in this process, and `csi mock` on a socket.

use crate::support::PATIENCE;
use crate::support::patience::until;
use crate::support::process::Process;
use crate::support::program::{Csi, Output};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs;
use std::path::PathBuf;

/// A running `csi mock` with a socket and a state of its own.
struct Mock {
    csi: Csi,
    process: Process,
    socket: PathBuf,
}

impl Mock {
    fn with(flags: &str) -> Self {
        Self::of(Csi::new(), flags)
    }

    fn of(csi: Csi, flags: &str) -> Self {
        let socket = csi.home().join("mock.sock");
        let line = format!("-e unix://{} mock {flags}", socket.display());
        let process = csi.spawn(&line);
        process.wait_for_error_output("note: the mock driver serves on");
        Self {
            csi,
            process,
            socket,
        }
    }

    fn run(&self, line: &str) -> Output {
        let endpoint = self.socket.display();
        self.csi.run(&format!("-e unix://{endpoint} {line}"))
    }

    /// Ends it with SIGTERM; returns what it wrote to stderr.
    #[track_caller]
    fn ends(self) -> String {
        self.process.signal(Signal::TERM);
        let ended = self.process.wait(PATIENCE).unwrap();
        let stderr = String::from_utf8(ended.stderr.clone()).unwrap();
        assert_eq!(ended.code(), 0, "{stderr}");
        assert!(!self.socket.exists(), "the socket stayed");
        stderr
    }
}

#[test]
fn the_state_of_the_endpoint_outlives_the_process() {
    let csi = Csi::at("mock:");
    let created = csi.run("controller create-volume pvc-1 --req-bytes 2Mi -o name");
    assert_eq!(created.succeeds().value(), "vol-00000001");
    // Of another folder nothing is known.
    csi.run("-e mock:other controller list-volumes -o name")
        .succeeds()
        .prints("");
    let again = csi.run("controller list-volumes -o name").succeeds();
    assert_eq!(again.value(), "vol-00000001");
    assert!(csi.home().join("other/state").exists() || csi.home().join("other/lock").exists());
    csi.run("controller delete-volume vol-00000001").succeeds();
    csi.run("controller list-volumes -o name")
        .succeeds()
        .prints("");
}

#[test]
fn a_lifecycle_inside_uses_every_capability() {
    let csi = Csi::at("mock:");
    let done = csi.run("lifecycle").succeeds();
    let shown = format!("{}{}", done.stdout, done.stderr);
    assert!(!shown.contains("not advertised"), "{done}");
    csi.run("controller list-volumes -o name")
        .succeeds()
        .prints("");
}

#[test]
fn an_empty_tmpdir_names_no_folder() {
    let csi = Csi::at("mock:").env("TMPDIR", "");
    csi.run("lifecycle --only stats").succeeds();
}

#[test]
fn settings_of_the_endpoint_stand_in_its_folder() {
    let csi = Csi::at("mock:d");
    csi.run("identity probe").succeeds();
    let settings = |text: &str| fs::write(csi.home().join("d/settings.toml"), text).unwrap();
    settings("fail = ['probe=UNAVAILABLE']\ncapability = ['-all']");
    csi.run("identity probe").exits(64 + 14).says("on purpose");
    csi.run("controller list-volumes").exits(64 + 12);
    // What would end csi itself is for `csi mock` alone.
    settings("defect = 'LongIdPanics'");
    csi.run("identity probe")
        .exits(2)
        .says("only `csi mock` can have it");
    settings("defects = 'ProbeFails'");
    csi.run("identity probe")
        .exits(2)
        .says("settings.toml cannot be used")
        .says("line 1 of the settings: unknown field `defects`");
    let mock = ["mock", "--endpoint", "unix:never.sock"];
    csi.run_args([&mock[..], &["--dir", "d"]].concat())
        .exits(2)
        .says("d/settings.toml: line 1 of the settings: unknown field `defects`");
    csi.run_args([&mock[..], &["--nodes", ""]].concat())
        .exits(2)
        .says("the node \"\" has 0 bytes: an id has 1 to 256");
}

#[test]
fn a_file_of_settings_that_is_not_there_is_told_and_awaited() {
    let csi = Csi::new();
    let file = csi.home().join("later.toml");
    let mock = Mock::of(csi, &format!("--settings {}", file.display()));
    mock.run("identity probe").succeeds();
    fs::write(&file, "fail = 'probe=ABORTED'").unwrap();
    mock.run("identity probe").exits(64 + 10);
    let said = mock.ends();
    assert!(said.contains("later.toml is not there"), "{said}");
}

#[test]
fn flags_and_a_file_say_what_the_driver_is() {
    let csi = Csi::new();
    let file = csi.file("now.toml", "");
    let mock = Mock::of(
        csi,
        &format!(
            "--settings {} --volumes 3 --max-volumes 4 --nodes worker --capability -node/all \
             --fail create-volume=ABORTED:1 --defect DeleteVolumeUnknownIsNotFound",
            file.display()
        ),
    );
    let listed = mock.run("controller list-volumes -o name").succeeds();
    assert_eq!(listed.stdout.lines().count(), 3);
    mock.run("node get-capabilities -o name")
        .succeeds()
        .prints("");
    let info = mock.run("node get-info -o json").succeeds().json();
    assert_eq!(info["nodeId"], "worker");
    mock.run("controller create-volume a")
        .exits(64 + 10)
        .says("on purpose by the mock");
    mock.run("controller create-volume a").succeeds();
    mock.run("controller create-volume b")
        .exits(64 + 8)
        .says("there are as many volumes as may be: 4");
    mock.run("controller delete-volume none").exits(64 + 5);
    fs::write(
        &file,
        "max-volumes = 5\ndefect = 'ListVolumesForgetsNewest'\n",
    )
    .unwrap();
    mock.run("controller create-volume b")
        .exits(64 + 10)
        .says("on purpose");
    mock.run("controller create-volume b").succeeds();
    mock.run("controller delete-volume none").succeeds();
    let listed = mock.run("controller list-volumes -o name").succeeds();
    assert_eq!(listed.stdout.lines().count(), 4);
    let forgets = "max-volumes = 5\ndefect = 'ListVolumesForgetsNewest'";
    fs::write(&file, format!("{forgets}\nfail = 'list-volumes=ABORTED:1'")).unwrap();
    mock.run("controller list-volumes").exits(64 + 10);
    // A file that cannot be used changes nothing.
    fs::write(&file, "max-volumes = 'five'").unwrap();
    let listed = mock.run("controller list-volumes -o name").succeeds();
    assert_eq!(listed.stdout.lines().count(), 4);
    let said = mock.ends();
    assert!(
        said.contains("now.toml is not used") && said.contains("max-volumes"),
        "{said}"
    );
}

#[test]
fn what_is_wrong_is_said_before_anything_is_served() {
    let csi = Csi::new();
    for (flags, part) in [
        (
            "--defect ListVolumeLosesEntries",
            "did you mean ListVolumesLosesEntries",
        ),
        ("--capability -CLONE_VOLUMES", "did you mean CLONE_VOLUME"),
        (
            "--capability CLONE_VOLUME",
            "write -CLONE_VOLUME to take it away",
        ),
        ("--fail create-volume=WRONG", "is no code of a failure"),
        ("--delay nonsense=1s", "is no RPC of CSI"),
        ("--pace 5", "has no unit"),
        (
            "--volumes 3 --max-volumes 2",
            "--volumes 3 is more than max-volumes, which is 2",
        ),
    ] {
        csi.run(&format!("-e unix:m.sock mock {flags}"))
            .exits(2)
            .says(part);
    }
    csi.run("mock").exits(2).says("no place to serve");
    csi.run("-e embedded: mock")
        .exits(2)
        .says("no place to listen")
        .says("or without it CSI_ENDPOINT");
    let defects = csi.run("mock --list-defects").succeeds();
    assert!(
        defects
            .stdout
            .contains("\nProbeFails: Probe fails with INTERNAL"),
        "{defects}"
    );
    let all = csi
        .run("mock --list-capabilities -o json")
        .succeeds()
        .json();
    assert_eq!(all[0]["name"], "plugin/CONTROLLER_SERVICE");
}

#[test]
fn a_driver_that_was_killed_has_what_it_answered() {
    let folder = Csi::new();
    let flags = format!("--dir {}", folder.home().join("state").display());
    let mut mock = Mock::with(&flags);
    for number in 0..5 {
        mock.run(&format!("controller create-volume pvc-{number}"))
            .succeeds();
    }
    // Another one may not have the folder meanwhile.
    folder
        .run(&format!("-e unix:other.sock mock {flags}"))
        .exits(1)
        .says("another process has it open");
    mock.process.kill();
    let mock = Mock::of(mock.csi, &flags);
    let listed = mock.run("controller list-volumes -o name").succeeds();
    assert_eq!(listed.stdout.lines().count(), 5);
    let again = mock
        .run("controller create-volume pvc-4 -o name")
        .succeeds();
    assert_eq!(again.value(), "vol-00000005");
    mock.ends();
}

#[test]
fn calls_that_run_are_answered_before_the_end() {
    // Of two equal calls the one that comes while the other is under way is told to try again: on a busy machine it may come too
    // late for that.
    let met = ["2s", "8s", "25s"].into_iter().find_map(|pace| {
        let mock = Mock::with(&format!("--pace {pace}"));
        let endpoint = format!("unix://{}", mock.socket.display());
        let line = format!("-e {endpoint} -t 1h controller create-volume a");
        let (mut one, mut other) = (mock.csi.spawn(&line), mock.csi.spawn(&line));
        until("one of them has ended", || {
            !one.is_running() || !other.is_running()
        });
        let (mut ended, call) = match one.is_running() {
            true => (other, one),
            false => (one, other),
        };
        let is_met = ended.wait_for_death().code() == Some(64 + 10);
        is_met.then_some((mock, call))
    });
    let (mock, mut call) = met.expect("the call is met");
    mock.ends();
    assert!(call.wait_for_death().success(), "{}", call.so_far());
}

#[test]
fn ten_thousand_volumes_are_there_from_the_beginning() {
    let mock = Mock::with("--volumes 10000");
    let listed = mock
        .run("controller list-volumes --all --max-entries 1000 -o name")
        .succeeds();
    assert_eq!(listed.stdout.lines().count(), 10_000);
    let stage = mock.csi.home().join("stage");
    fs::create_dir(&stage).unwrap();
    mock.run("controller publish vol-00010000 --node-id node-1")
        .succeeds();
    let stage = stage.display();
    let line = format!("node stage vol-00010000 --staging-target-path {stage} --pub-context a=b");
    mock.run(&line).succeeds();
    mock.ends();
}

#[test]
fn sanity_passes_inside_and_skips_only_what_nothing_shows() {
    let csi = Csi::at("mock:");
    let flags =
        "--strict --jobs 16 --volume-size 64Mi --mutable-params tier=fast --other-node-id node-2";
    let done = csi.run(&format!("sanity {flags}")).succeeds();
    let reasons = done
        .stdout
        .lines()
        .filter_map(|line| line.split_once("skipped: "));
    let reasons: BTreeSet<&str> = reasons.map(|(_, reason)| reason).collect();
    let expected = [
        "--secrets-file is not given",
        "both kinds of sources are advertised",
        "neither --restart-command nor -- COMMAND is given",
        "shown with block",
        "the driver does not mount here: nothing could keep writers out",
        "there is no such RPC",
    ];
    assert_eq!(reasons, expected.into(), "{done}");
    csi.run("controller list-volumes -o name")
        .succeeds()
        .prints("");
}
