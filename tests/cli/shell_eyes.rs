//! Tests of `csi shell` for a person's eyes and hands: pager, colours, suggestions, drafts, and what it says of itself.

use crate::shell_terminal::{
    CTRL_D, PROMPT, completes, learns_ids, leaves_no_requests, prompted, scripted, shell,
    shell_of_size, volumes,
};
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::terminal::Terminal;
use csi_proto::v1;
use rustix::process::Signal;
use serde_json::json;
use std::os::unix::process::ExitStatusExt as _;
use tonic::Code;

#[test]
fn what_is_not_taken_is_opened_again() {
    let driver = scripted();
    let csi = Csi::at(driver.endpoint());
    // Each run of the editor adds a letter; the first request is none that the driver takes.
    let csi = csi.env(
        "EDITOR",
        "sed -i 's/\"name\": \"\\(x*\\)\"/\"name\": \"\\1x\"/'",
    );
    let mut shell = prompted(shell(&csi));
    shell.enter(
        "edit controller create-volume",
        [
            "UNIMPLEMENTED",
            "`edit create-volume` opens it again",
            PROMPT,
        ],
    );
    driver.on("CreateVolume", "{}");
    shell.enter("edit c new", ["VOLUME ID", PROMPT]);
    // What was taken is not opened again, nor what is to be new.
    for line in ["edit CreateVolume\r", "edit --new CreateVolume\r"] {
        shell.press(line);
        shell.expect("VOLUME ID");
        shell.expect(PROMPT);
    }
    let requests = driver.requests();
    let names: Vec<String> = requests
        .iter()
        .filter(|request| request.path.ends_with("/CreateVolume"))
        .map(|request| request.decode::<v1::CreateVolumeRequest>().name)
        .collect();
    assert_eq!(names, ["x", "xx", "x", "x"]);
    leaves_no_requests(&csi);
    // One that somebody has removed is begun anew.
    driver.on("CreateVolume", Reply::error(Code::Internal, "no"));
    for _ in 0..2 {
        shell.enter("edit CreateVolume", ["INTERNAL: no"]);
        let kept = shell.expect(".json)");
        let (_, draft) = kept.rsplit_once('(').unwrap();
        std::fs::remove_file(format!("{draft}.json")).unwrap();
    }
}

#[test]
fn what_does_not_fit_goes_through_the_pager() {
    let driver = scripted();
    let ids: Vec<String> = (0..40).map(|number| format!("vol-{number:02}")).collect();
    let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
    driver.on("ListVolumes", volumes(&ids));
    // What it gets is marked.
    let csi = Csi::at(driver.endpoint()).env("PAGER", "sed 's/^/~ /'");
    let mut shell = prompted(shell(&csi));
    shell.press("help\r");
    assert!(!shell.expect("Ctrl-D leaves.").contains("~ "));
    shell.expect(PROMPT);
    shell.enter(
        "help controller create-volume",
        ["~ Usage: controller create-volume", ": --help-all", PROMPT],
    );
    shell.enter(
        "controller ls -o name",
        ["~ vol-00\n~ vol-01\n", "~ vol-39", PROMPT],
    );
    // Not where the output goes elsewhere, nor without being wanted.
    shell.enter("controller ls -o name | tail -n 30", ["\nvol-10\n", PROMPT]);
    shell.enter(
        "set pager off; controller ls -o name",
        ["\nvol-00\n", PROMPT],
    );
}

#[test]
fn heads_conditions_and_codes_are_coloured_for_a_person() {
    let driver = scripted();
    let entry = |id: &str, abnormal: bool| {
        let condition = json!({"abnormal": abnormal, "message": "gone"});
        json!({"volume": {"volumeId": id}, "status": {"volumeCondition": condition}})
    };
    let entries = [entry("vol-1", false), entry("vol-2", true)];
    driver.on("ListVolumes", json!({ "entries": entries }));
    let typed = |csi: &Csi| {
        let mut shell = prompted(shell(csi));
        shell.enter(
            "controller ls -o wide; controller get-volume x",
            ["UNIMPLEMENTED", PROMPT],
        );
        shell.press(CTRL_D);
        assert!(shell.ends().success());
        shell.raw()
    };
    let raw = typed(&Csi::at(driver.endpoint()));
    for part in [
        "\x1b[1mVOLUME ID\x1b[0m",
        "\x1b[32mok\x1b[0m",
        "\x1b[31mabnormal: gone\x1b[0m",
        "\x1b[31mUNIMPLEMENTED\x1b[0m:",
    ] {
        assert!(raw.contains(part), "{part:?}\n{raw}");
    }
    for (name, value) in [("NO_COLOR", "1"), ("TERM", "dumb")] {
        let raw = typed(&Csi::at(driver.endpoint()).env(name, value));
        assert!(
            !raw.contains("\x1b[31m") && !raw.contains("\x1b[1m"),
            "{raw}"
        );
    }
}

#[test]
fn what_was_typed_before_is_suggested() {
    let driver = scripted();
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    shell.enter("identity probe -o jsonl", ["\n{}", PROMPT]);
    shell.press("ident");
    shell.expect("ity probe -o jsonl");
    // The right arrow takes it.
    shell.enter("\x1b[C", ["\n{}", PROMPT]);
    assert_eq!(
        driver
            .calls()
            .iter()
            .filter(|call| *call == "Probe")
            .count(),
        2
    );
}

/// What is shown before the next prompt that knows of no answer: another prompt may come before that is known.
fn until_no_answer(shell: &mut Terminal) -> String {
    let mut shown = String::new();
    loop {
        shown += &shell.expect("csi (");
        match shell.expect(")> ").as_str() {
            "no answer" => return shown,
            other => assert_eq!(other, "connecting"),
        }
        shell.press("\r");
    }
}

#[test]
fn a_dead_endpoint_says_why_at_the_prompt() {
    let csi = Csi::at("unix:///nowhere/csi.sock");
    let mut shell = shell(&csi);
    let before = until_no_answer(&mut shell);
    assert!(
        before.contains("the socket /nowhere/csi.sock does not exist"),
        "{before}"
    );
    // Once.
    shell.press("vars\r");
    let before = shell.expect("csi (no answer)> ");
    assert!(!before.contains("does not exist"), "{before}");
    shell.press("identity probe\r");
    let before = shell.expect("csi (no answer)> ");
    assert_eq!(before.matches("does not exist").count(), 1, "{before}");
}

#[test]
fn what_was_deferred_runs_when_the_shell_is_left() {
    let driver = scripted();
    driver.on("DeleteVolume", "{}");
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    shell.enter("defer controller delete-volume a", [PROMPT]);
    shell.press(CTRL_D);
    shell.expect("deferred: controller delete-volume a\na deleted\n");
    assert!(shell.ends().success());
}

/// A shell in which the deletion of two volumes is deferred, b before a.
fn with_deferred(driver: &ScriptedDriver) -> Terminal {
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    for id in ["a", "b"] {
        shell.enter(&format!("defer controller delete-volume {id}"), [PROMPT]);
    }
    shell
}

fn deleted(driver: &ScriptedDriver) -> Vec<String> {
    let requests = driver.requests().into_iter();
    let deletions = requests.filter(|request| request.path.ends_with("/DeleteVolume"));
    deletions
        .map(|request| request.decode::<v1::DeleteVolumeRequest>().volume_id)
        .collect()
}

#[test]
fn what_was_deferred_runs_when_a_signal_ends_the_shell() {
    let driver = scripted();
    let done = Reply::json("{}");
    driver.on("DeleteVolume", done);
    driver.on("GetCapacity", Reply::never());
    for signal in [Signal::TERM, Signal::HUP] {
        let mut shell = with_deferred(&driver);
        shell.press("half a line");
        shell.signal(signal);
        shell.expect("deferred: controller delete-volume b\nb deleted\n");
        shell.expect("deferred: controller delete-volume a\na deleted\n");
        assert_eq!(shell.ends().code(), Some(130), "{}", shell.all());
    }
    // A call that runs is cancelled first.
    let mut shell = with_deferred(&driver);
    shell.press("controller get-capacity\r");
    driver.wait_for_call("GetCapacity");
    shell.signal(Signal::TERM);
    shell.expect("deferred: controller delete-volume b\nb deleted\n");
    assert_eq!(shell.ends().code(), Some(130), "{}", shell.all());
    assert_eq!(deleted(&driver), ["b", "a"].repeat(3));
    // So is a pager, which waits for a person.
    let csi = Csi::at(driver.endpoint()).env("PAGER", "sh -c 'echo reading; exec sleep 1000'");
    let mut shell = prompted(self::shell(&csi));
    shell.enter("defer controller delete-volume c", [PROMPT]);
    shell.enter("help controller create-volume", ["reading"]);
    shell.signal(Signal::TERM);
    shell.expect("deferred: controller delete-volume c\nc deleted\n");
    assert_eq!(shell.ends().code(), Some(130), "{}", shell.all());
}

#[test]
fn what_was_deferred_has_a_bounded_time_after_a_signal() {
    let driver = scripted();
    let done = Reply::json("{}");
    driver.on_each("DeleteVolume", [Reply::never(), done]);
    let mut shell = with_deferred(&driver);
    shell.signal(Signal::TERM);
    shell.expect("error: there was no time left for it: the shell was asked to end");
    shell.expect("a deleted\n");
    assert_eq!(shell.ends().code(), Some(130), "{}", shell.all());
    // A terminal that is closed sends SIGHUP twice, which changes nothing.
    driver.on_each("DeleteVolume", [Reply::never(), Reply::json("{}")]);
    let mut shell = with_deferred(&driver);
    shell.signal(Signal::HUP);
    shell.expect("deferred: controller delete-volume b");
    shell.signal(Signal::HUP);
    shell.expect("error: there was no time left for it: the shell was asked to end");
    shell.expect("a deleted\n");
    assert_eq!(shell.ends().code(), Some(130), "{}", shell.all());
    // The second SIGTERM ends all of it.
    driver.on("DeleteVolume", Reply::never());
    let mut shell = with_deferred(&driver);
    shell.signal(Signal::TERM);
    shell.expect("deferred: controller delete-volume b");
    shell.signal(Signal::TERM);
    assert_eq!(shell.ends().signal(), Some(15), "{}", shell.all());
}

#[test]
fn an_id_is_offered_once_on_a_line() {
    let driver = scripted();
    driver.on("ListVolumes", volumes(&["vol-1", "vol-2"]));
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    let offered = "delete-volume vol-1 vol-2 ";
    learns_ids(
        &mut shell,
        "delete-volume vol-1 \t",
        offered,
        "scripted.example.com",
    );
    completes(
        &mut shell,
        "delete-volume vol-1 \t",
        "delete-volume vol-1 vol-2 ",
        PROMPT,
    );
    shell.press("wait volume vol-2 \x17\x17volume \t");
    shell.expect("wait volume vol-");
}

#[test]
fn the_columns_of_a_session_are_shown_where_a_reply_has_them() {
    let driver = scripted();
    driver.on("ListVolumes", volumes(&["vol-1"]));
    driver.on("DeleteVolume", "{}");
    let csi = Csi::at(driver.endpoint());
    for (lines, shown) in [
        (
            "set columns capacity,volume-id,snapshot-id; controller ls",
            "CAPACITY   VOLUME ID\n<unset>    vol-1\n",
        ),
        // Neither a table without such columns, nor a sentence, nor what is no table.
        (
            "set columns volume-id; identity probe; controller rm a; controller ls -o name",
            "READY\ntrue\na deleted\nvol-1\n",
        ),
        // What is asked of one command counts, and so does the last that was said.
        (
            "set columns capacity; controller ls --columns volume-id",
            "VOLUME ID\nvol-1\n",
        ),
        (
            "set columns; set columns volume-id,capacity; set columns; unset columns; set columns",
            "<those of each table>\nvolume-id,capacity\n<those of each table>\n",
        ),
    ] {
        let run = csi.run_args(["shell", "-c", lines]).succeeds();
        assert_eq!(run.stdout, shown, "{lines}\n{run}");
    }
    // Those of the shell's own command line come back.
    let lines = "controller ls; set columns volume-id; controller ls; unset columns; set columns";
    let run = csi.run_args(["--columns", "capacity", "shell", "-c", lines]);
    let shown = "CAPACITY\n<unset>\nVOLUME ID\nvol-1\ncapacity\n";
    assert_eq!(run.stdout, shown, "{run}");
    let lines = "set columns volume-id; controller ls -o wide";
    let run = csi.run_args(["shell", "-c", lines]).succeeds();
    assert!(run.stdout.starts_with("VOLUME ID   CAPACITY"), "{run}");
    csi.run_args(["shell", "-c", "set columns volume-id,size-of"])
        .exits(2)
        .says("columns: no table has a column \"size-of\"");
    csi.run_args([
        "shell",
        "-c",
        "set columns volume-id; identity probe --columns volume-id",
    ])
    .exits(2)
    .says("no column \"volume-id\"");
    let mut shell = prompted(shell(&csi));
    shell.enter(
        "set columns volume-id,capac\t",
        ["set columns volume-id,capacity", PROMPT],
    );
    shell.enter(
        "controller ls",
        ["VOLUME ID   CAPACITY\nvol-1       <unset>\n"],
    );
}

#[test]
fn long_ids_are_listed_in_a_narrow_terminal() {
    let driver = scripted();
    let start = "v".repeat(50);
    let ids = ["a", "b", "c"].map(|end| format!("{start}-{end}"));
    driver.on("ListVolumes", volumes(&ids.each_ref().map(String::as_str)));
    let mut shell = prompted(shell_of_size(&Csi::at(driver.endpoint()), 40, 15));
    let end = "v".repeat(35);
    let last = format!("…{end}-c\n");
    learns_ids(
        &mut shell,
        "controller rm \t\t",
        &last,
        "scripted.example.com",
    );
    shell.press("controller rm \t\t");
    // Every id, its end, and then the line again.
    shell.expect(&format!("\n…{end}-a\n…{end}-b\n…{end}-c\n"));
    shell.expect("scripted.example.com> controller rm");
}
