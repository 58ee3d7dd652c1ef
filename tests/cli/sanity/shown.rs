//! What a run shows: in a terminal, with `--quiet` and `-v`, and afterwards by `csi sanity explain`.

use super::{is_clean, sanity};
use crate::support::program::Csi;
use crate::support::reference::ReferenceDriver;
use crate::support::terminal::Terminal;
use csi_mock::{Defect, Options};
use std::fs;

/// A run in a terminal of so many columns.
fn in_terminal(csi: &Csi, columns: u16, more: &str) -> Terminal {
    let mut command = csi.command();
    command.env("TERM", "xterm");
    command.args(super::arguments(csi, more).split_whitespace());
    let mut terminal = Terminal::start(&command, columns, 60);
    terminal.expect(" skipped in ");
    terminal.expect(" s)");
    terminal.ends();
    terminal
}

/// The lines that stay, without those that were replaced.
fn lasting(terminal: &Terminal) -> String {
    let shown = terminal.raw();
    let lines = shown.split('\n').map(|line| {
        let line = line.trim_end_matches('\r');
        line.rsplit("\r\x1b[K")
            .next()
            .unwrap_or_default()
            .to_owned()
            + "\n"
    });
    lines.collect()
}

#[test]
fn a_terminal_shows_failures_in_few_lines_those_that_are_alike_once() {
    let driver = ReferenceDriver::start(Options::default().with(Defect::PublishRepeatFails));
    let csi = Csi::at(&driver.endpoint());
    for columns in [80, 120] {
        let filter = "--filter node/publish --filter lifecycle/restart-in";
        let terminal = in_terminal(&csi, columns, filter);
        let raw = terminal.raw();
        assert!(
            raw.contains("\r\x1b[K[0/"),
            "no line tells how far it is:\n{raw}"
        );
        let shown = lasting(&terminal);
        let red = "\x1b[31m!!\x1b[0m";
        let names = [
            "node/publish/is-idempotent",
            "node/publish/is-idempotent@block",
        ];
        let head = names
            .map(|name| format!("{red} \x1b[1m{name}\x1b[0m\n"))
            .concat();
        let found = format!(
            "{head}   NodePublishVolume of a volume that is published there already, in the same"
        );
        assert!(shown.contains(&found), "{shown}");
        assert!(
            shown.contains("\n           but: it answered INTERNAL: mount: already mounted\n\n"),
            "{shown}"
        );
        for part in ["ok node", "to see it again", "--request", "failed: "] {
            assert!(!shown.contains(part), "{part}\n{shown}");
        }
        let skipped = "     1 skipped: neither --restart-command nor -- COMMAND is given\n";
        assert!(shown.contains(skipped), "{shown}");
        assert!(shown.contains("csi sanity explain CASE: "), "{shown}");
        let last = shown.trim_end().lines().last().unwrap();
        assert!(
            last.starts_with("\x1b[31m") && last.contains(" 2 failed, "),
            "{shown}"
        );
    }
    let csi = csi.env("NO_COLOR", "1");
    let terminal = in_terminal(&csi, 80, "--filter node/publish/is");
    assert!(!terminal.raw().contains("\x1b[3"), "{}", terminal.raw());
    is_clean(&csi);
}

#[test]
fn a_terminal_shows_each_case_where_it_is_asked_to() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let shown = lasting(&in_terminal(&csi, 80, "--filter identity/probe"));
    assert!(!shown.contains("ok"), "{shown}");
    let shown = lasting(&in_terminal(&csi, 80, "--filter identity/probe -v"));
    let ok = "\x1b[32mok\x1b[0m identity/probe/answers-ready ";
    assert!(shown.contains(ok), "{shown}");
}

#[test]
fn quiet_shows_failures_and_the_end() {
    let driver = ReferenceDriver::start(Options::default().with(Defect::CreateVolumeWithoutName));
    let csi = Csi::at(&driver.endpoint());
    let filter = "--filter create-volume/without --filter probe --filter lifecycle/restart-in";
    let run = sanity(&csi, &format!("{filter} --quiet --jobs 1")).exits(3);
    let lines: Vec<_> = run.stdout.lines().collect();
    assert_eq!(
        lines[0], "!! controller/create-volume/without-name",
        "{run}"
    );
    assert_eq!(lines[4], "           but: it answered OK", "{run}");
    assert_eq!(lines[5], "", "{run}");
    assert!(
        run.stdout.contains(" 1 skipped: neither --restart-command"),
        "{run}"
    );
    assert!(
        !run.stdout.contains("ok ") && !run.stdout.contains("seed"),
        "{run}"
    );
    let passed = sanity(&csi, "--filter identity/probe -q").succeeds();
    assert_eq!(passed.stdout.lines().count(), 1, "{passed}");
    let both = sanity(&csi, "--quiet -v").exits(2);
    both.says("--quiet shows less and -v more: give one of them");
}

#[test]
fn what_was_found_is_explained_afterwards() {
    let driver = ReferenceDriver::start(Options::default().with(Defect::ProbeFails));
    let csi = Csi::at(&driver.endpoint());
    let case = "identity/probe/answers-ready";
    let explain = format!("sanity explain {case}");
    csi.run(&explain)
        .exits(2)
        .says("is in no run that is kept: ")
        .says("hint: csi sanity --filter identity/probe/answers-ready tries it");
    let json = sanity(&csi, "--filter identity/probe -o json").exits(3);
    let run = csi.run(&explain).succeeds();
    let first = format!("{case}: failed with mock.csi.internal 1.0.0\n   ");
    assert!(run.stdout.starts_with(&first), "{run}");
    assert!(
        run.stdout
            .contains("\n   to see it again:\n     csi -e unix://"),
        "{run}"
    );
    // A run without it leaves that of before.
    sanity(&csi, "--filter identity/plugin-info").succeeds();
    assert_eq!(csi.run(&explain).succeeds().stdout, run.stdout);
    let file = csi.file("run.json", &json.stdout);
    let of_file = csi
        .run(&format!("{explain} --run {}", file.display()))
        .succeeds();
    let up_to = |text: &str| {
        text.split("\n   from the run in ")
            .next()
            .unwrap()
            .to_owned()
    };
    assert_eq!(up_to(&of_file.stdout), up_to(&run.stdout));
    csi.run("sanity explain no/such/case")
        .exits(2)
        .says("no case has the name no/such/case");
    csi.run("sanity explain identity/probe/answers-ready --run /dev/null")
        .exits(1)
        .says("/dev/null is no run");
}

#[test]
fn the_last_ten_runs_are_kept() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    for _ in 0..12 {
        sanity(&csi, "--filter identity/probe/answers").succeeds();
    }
    let folder = csi.home().join("state/csi/sanity");
    assert_eq!(fs::read_dir(&folder).unwrap().count(), 10);
    // One that cannot be kept is told: `explain` shows an older one then.
    fs::remove_dir_all(&folder).unwrap();
    fs::write(&folder, "").unwrap();
    let run = sanity(&csi, "--filter identity/probe/answers").succeeds();
    let told = "note: this run is not kept: ";
    assert_eq!(run.stderr.matches(told).count(), 1, "{run}");
}

#[test]
fn slow_steps_are_named() {
    let driver = ReferenceDriver::start(Options {
        pace: std::time::Duration::from_millis(600),
        ..Options::default()
    });
    let csi = Csi::at(&driver.endpoint());
    let line = "--filter lifecycle/make-and-remove --cap 1,mount --volume-size 64Mi";
    let json = sanity(&csi, &format!("{line} -o json")).succeeds().json();
    let summary = &json["summary"];
    let slow = summary["slow"].as_array().unwrap();
    assert!(!slow.is_empty(), "{summary}");
    let (driver, all) = (
        summary["driverSeconds"].as_f64(),
        summary["seconds"].as_f64(),
    );
    assert!(driver > Some(0.6) && driver <= all, "{summary}");
    let run = sanity(&csi, line).succeeds();
    let told = " % of the driver's time: ";
    assert!(run.stdout.contains(told), "{run}");
}
