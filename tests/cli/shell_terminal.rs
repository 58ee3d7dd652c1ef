//! `csi shell` as a person sees it: the real binary in a terminal.

use crate::support::driver::Driver;
use crate::support::patience::until;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::terminal::Terminal;
use csi_proto::v1;
use std::os::unix::fs::PermissionsExt as _;
use std::sync::mpsc;
use tonic::Code;

pub const CTRL_C: &str = "\x03";
pub const CTRL_D: &str = "\x04";
/// The prompt with the name of the scripted driver.
pub const PROMPT: &str = "\nscripted.example.com> ";
/// That with the name of the NFS driver.
const NFS_PROMPT: &str = "\nnfs.csi.internal> ";
const PARAMS: &str = "--cap 5,mount --params server=localhost,share=/share";

/// A shell in a terminal of 80 columns and 24 rows.
pub fn shell(csi: &Csi) -> Terminal {
    shell_of_size(csi, 80, 24)
}

/// Waits for the first prompt with the name of the scripted driver.
pub fn prompted(mut shell: Terminal) -> Terminal {
    prompted_by(&mut shell, "scripted.example.com");
    shell
}

/// Waits for the first prompt with the name of a driver. On a busy machine the shell shows another one before, since it does not
/// wait long for the driver's answer.
pub fn prompted_by(shell: &mut Terminal, driver: &str) {
    let mut shown = shell.expect("> ");
    while shown.ends_with("(connecting)") {
        shell.press("\r");
        shown = shell.expect("> ");
    }
    assert!(shown.ends_with(driver), "{shown}");
}

/// Presses keys that ask for completions, and leaves the line, until `offered` is shown: a driver has a limit for its ids, which a
/// busy machine may pass. They are remembered for what follows.
pub fn learns_ids(shell: &mut Terminal, keys: &str, offered: &str, driver: &str) {
    until("the ids are offered", || {
        shell.press(&format!("{keys}{CTRL_C}"));
        shell.expect(&format!("\n{driver}> ")).contains(offered)
    });
}

pub fn shell_of_size(csi: &Csi, columns: u16, rows: u16) -> Terminal {
    let mut command = csi.command();
    command.arg("shell");
    for (name, value) in [("TERM", "xterm"), ("PAGER", "")] {
        if command.get_envs().all(|(other, _)| other != name) {
            command.env(name, value);
        }
    }
    Terminal::start(&command, columns, rows)
}

/// These keys complete to that, in a line that is left then.
#[track_caller]
pub fn completes(shell: &mut Terminal, keys: &str, completed: &str, prompt: &str) {
    shell.press(keys);
    shell.expect(completed);
    shell.press(CTRL_C);
    shell.expect(prompt);
}

/// No file with a request is left where the editor had it.
pub fn leaves_no_requests(csi: &Csi) {
    let left = std::fs::read_dir(csi.home()).unwrap().flatten();
    let left = left.filter(|entry| entry.path().extension().is_some_and(|end| end == "json"));
    assert_eq!(left.count(), 0);
}

fn history(csi: &Csi) -> String {
    std::fs::read_to_string(csi.home().join("state/csi/history")).unwrap_or_default()
}

/// A driver with a name.
pub fn scripted() -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    driver.on("GetPluginInfo", r#"{"name": "scripted.example.com"}"#);
    driver.on("Probe", "{}");
    driver
}

pub fn volumes(ids: &[&str]) -> Reply {
    Reply::volumes(ids, "")
}

#[test]
fn tab_offers_verbs_flags_values_and_the_driver_s_ids() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let create = format!("controller create-volume pvc-1 {PARAMS} -o name");
    let id = csi.run(&create).succeeds().value().to_owned();
    let mut shell = shell(&csi);
    prompted_by(&mut shell, "nfs.csi.internal");
    learns_ids(
        &mut shell,
        "controller expand-volume \t",
        &id[id.len() - 16..],
        "nfs.csi.internal",
    );
    shell.press("contr\texpand-\t");
    shell.expect("controller expand-volume ");
    // The only volume is completed whole.
    shell.press("\t");
    shell.expect(&id[id.len() - 16..]);
    shell.enter("--req-bytes 1 -o na\t", ["-o name ", &id, NFS_PROMPT]);
    completes(
        &mut shell,
        "controller create-volume --req-\t",
        "--req-bytes ",
        NFS_PROMPT,
    );
    completes(
        &mut shell,
        "controller create-volume --params server=x,sh\t",
        "server=x,share=",
        NFS_PROMPT,
    );
    completes(
        &mut shell,
        "controller create-volume --cap SINGLE_NODE_W\t",
        "SINGLE_NODE_WRITER",
        NFS_PROMPT,
    );
    // What a command wants is hinted at.
    completes(&mut shell, "controller delete-volume ", "<ID…>", NFS_PROMPT);
    shell.press(CTRL_D);
    assert!(shell.ends().success());
}

#[test]
fn what_psql_types_is_done_and_completes() {
    let driver = scripted();
    driver.on("ListVolumes", volumes(&["vol-1"]));
    let csi = Csi::at(driver.endpoint());
    csi.file("set-up.csi", "print made-it $1\n");
    let mut shell = prompted(shell(&csi));
    shell.enter("\\d", ["\nvol-1 ", PROMPT]);
    // The file, and what the command takes then.
    shell.enter("\\i set\tpvc-1", ["\nmade-it pvc-1", PROMPT]);
    completes(&mut shell, "\\d \t", "\\d vol-1", PROMPT);
    // Their names, and what follows some.
    for (typed, completed) in [
        ("\\conni\t", "\\conninfo "),
        ("\\ti\t", "\\timing "),
        ("\\pset f\tya\t", "\\pset format yaml "),
        ("\\x of\t", "\\x off "),
    ] {
        completes(&mut shell, typed, completed, PROMPT);
    }
    shell.press("\\\t\t");
    shell.expect("\\conninfo");
    shell.expect(PROMPT);
    shell.press(CTRL_C);
    shell.expect(PROMPT);
    shell.enter("\\o out", ["\\o is psql's; here: > FILE", PROMPT]);
    shell.press("\\q\r");
    assert!(shell.ends().success());
}

#[test]
fn variables_and_values_of_settings_complete_and_no_flags_that_nobody_types() {
    let driver = scripted();
    driver.on("ListVolumes", volumes(&["vol-1"]));
    let csi = Csi::at(driver.endpoint());
    csi.run("context add laboratory --endpoint mock:")
        .succeeds();
    let mut shell = prompted(shell(&csi));
    shell.enter(
        "all = list-volumes -o name",
        ["\nvol-1\nscripted.example.com> "],
    );
    for (typed, completed) in [
        ("print $all.ent\t", "$all.entries"),
        ("print \"all: $all.ent\t", "\"all: $all.entries"),
        ("print x${all.ent\t", "x${all.entries"),
        ("unset al\t", "unset all "),
        ("set records au\t", "set records auto "),
        ("connect lab\t", "connect laboratory "),
        ("connect mo\t", "connect mock:"),
    ] {
        completes(&mut shell, typed, completed, PROMPT);
    }
    shell.press("assert \t\t1\r");
    let shown = shell.expect(PROMPT);
    assert!(!shown.contains("--"), "{shown}");
}

#[test]
fn ids_of_any_letters_complete_and_arrive() {
    for id in ["a b", "it's", "#x", "a:b#c", "$y", "ä|ö>ü;\"", "x\\y"] {
        let driver = scripted();
        driver.on("ListVolumes", volumes(&[id]));
        driver.on("DeleteVolume", "{}");
        let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
        // A completion has a limit of its own, which a busy machine may pass: then there is no id.
        until("the command arrives with the id", || {
            shell.press("controller rm \t\r");
            let shown = shell.expect(PROMPT);
            shown.contains("deleted")
        });
        let requests = driver.requests();
        let mut requests = requests.iter();
        let request = requests.rfind(|one| one.path.ends_with("/DeleteVolume"));
        let request = request.unwrap().decode::<v1::DeleteVolumeRequest>();
        assert_eq!(request.volume_id, id);
    }
}

#[test]
fn several_ids_are_listed_and_a_driver_that_cannot_list_is_silent() {
    let driver = scripted();
    driver.on("ListVolumes", volumes(&["vol-1", "vol-2"]));
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    learns_ids(
        &mut shell,
        "controller rm \t\t",
        "vol-1  vol-2",
        "scripted.example.com",
    );
    shell.press("controller rm \t");
    shell.expect("controller rm vol-");
    shell.press("\t\t");
    shell.expect("vol-1  vol-2");
    shell.expect("controller rm vol-");
    shell.press(CTRL_C);
    shell.expect(PROMPT);
    // ListSnapshots is not served; nothing is said of it.
    shell.press("controller delete-snapshot \t");
    driver.wait_for_call("ListSnapshots");
    shell.press("snap-1\r");
    let said = shell.expect("UNIMPLEMENTED");
    assert!(!said.contains("ListSnapshots"), "{said}");
}

#[test]
fn an_id_seen_in_a_reply_is_offered_though_the_driver_cannot_list() {
    let driver = scripted();
    driver.on("CreateVolume", r#"{"volume": {"volumeId": "seen-1"}}"#);
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    shell.enter("controller create-volume x", ["seen-1", PROMPT]);
    shell.press("node stats \t");
    shell.expect("node stats seen-1");
}

#[test]
fn replies_are_values() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let mut shell = shell(&csi);
    prompted_by(&mut shell, "nfs.csi.internal");
    shell.press(&format!(
        "vol = controller create-volume größe-1 {PARAMS}\r"
    ));
    shell.expect("VOLUME ID");
    shell.expect(NFS_PROMPT);
    shell.enter(
        "controller get-volume $vol.vol\t.volume_i\t --columns CONTEXT --no-headers",
        ["größe-1", NFS_PROMPT],
    );
    shell.enter(
        "controller get-volume $vol.volume.id",
        [
            "$vol.volume has no field \"id\"; it has capacity_bytes, volume_id",
            NFS_PROMPT,
        ],
    );
    shell.enter("vars", ["$vol  CreateVolumeResponse", NFS_PROMPT]);
    shell.enter(
        "assert $_.volume.volumeId == $vol.volume.volume_id",
        [NFS_PROMPT],
    );
    shell.press("exit\r");
    assert!(shell.ends().success());
    assert!(!shell.all().contains("assertion failed"));
}

#[test]
fn what_is_typed_ahead_is_done_in_its_order() {
    let driver = scripted();
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    // At once, as a paste that is not bracketed.
    shell.press("print o-ne\rprint t-wo\rprint th-ree\r");
    for shown in ["\no-ne", "\nt-wo", "\nth-ree"] {
        shell.expect(shown);
    }
    shell.expect(PROMPT);
    // While a call runs: it is over when its answer comes.
    let (answer, answered) = mpsc::channel();
    driver.answer("GetCapacity", move |_| {
        // A test that has failed sends nothing any more.
        let _ = answered.recv();
        Reply::error(Code::Internal, "not now")
    });
    shell.press("controller get-capacity\r");
    driver.wait_for_call("GetCapacity");
    for key in "print fo-ur\rprint fi-ve\r".split_inclusive(|_| true) {
        shell.press(key);
    }
    answer.send(()).unwrap();
    shell.expect("INTERNAL");
    for shown in ["\nfo-ur", "\nfi-ve", PROMPT] {
        shell.expect(shown);
    }
    shell.press(CTRL_D);
    assert!(shell.ends().success());
}

#[test]
fn ctrl_c_throws_away_what_is_typed_ahead() {
    let driver = scripted();
    driver.on("GetCapacity", Reply::never());
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    // One line comes with the call's own, the other while it runs.
    shell.press("controller get-capacity\rprint with-it\r");
    driver.wait_for_call("GetCapacity");
    shell.press("print mean-while\r");
    shell.press(CTRL_C);
    shell.expect("interrupted");
    shell.expect(PROMPT);
    shell.press("print after-wards\r");
    let shown = shell.expect("\nafter-wards");
    assert!(
        !shown.contains("\nwith-it") && !shown.contains("\nmean-while"),
        "{shown}"
    );
    shell.expect(PROMPT);
    shell.press(CTRL_D);
    assert!(shell.ends().success());
}

#[test]
fn ctrl_c_drops_a_line_and_cancels_a_call() {
    let driver = scripted();
    driver.on("GetCapacity", Reply::never());
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    shell.press("no such line");
    shell.press(CTRL_C);
    shell.expect(PROMPT);
    shell.press("controller get-capacity\r");
    driver.wait_for_call("GetCapacity");
    shell.press(CTRL_C);
    shell.expect("interrupted");
    driver.wait_for_cancellation("GetCapacity");
    shell.expect(PROMPT);
    shell.enter("identity probe", ["READY\ntrue", PROMPT]);
    shell.press(CTRL_D);
    assert!(shell.ends().success());
    assert!(!shell.all().contains("unrecognized"), "{}", shell.all());
}

#[test]
fn a_driver_may_go_and_come_back() {
    let mut driver = Driver::with_local_share();
    let mut shell = shell(&Csi::at(&driver.endpoint()));
    prompted_by(&mut shell, "nfs.csi.internal");
    shell.enter("identity probe", ["READY", NFS_PROMPT]);
    driver.kill();
    shell.enter("identity probe", ["UNAVAILABLE", "(no answer)> "]);
    driver.restart();
    shell.enter("identity probe", ["READY", NFS_PROMPT]);
}

#[test]
fn a_secret_is_in_no_history() {
    let driver = scripted();
    let csi = Csi::at(driver.endpoint());
    let mut shell = prompted(shell(&csi));
    shell.enter(
        "controller create-volume x --request '{\"secrets\": {\"key\": \"hunter2\"}}'",
        ["holds secrets", PROMPT],
    );
    shell.enter(
        "controller create-volume x --params password=hunter2",
        ["UNIMPLEMENTED", PROMPT],
    );
    shell.enter("\\set password hunter2", [PROMPT]);
    shell.enter("controller create-volume y --secrets-prompt key", ["key: "]);
    shell.enter("hunter2", ["UNIMPLEMENTED", PROMPT]);
    shell.press("history\r");
    let listed = shell.expect("history\n");
    shell.expect(PROMPT);
    assert!(!listed.contains("hunter2"));
    // Recall finds the last line that was kept.
    shell.enter(
        "!con",
        ["controller create-volume y --secrets-prompt key", "key: "],
    );
    shell.press(CTRL_C);
    shell.expect("interrupted");
    shell.expect(PROMPT);
    shell.press(CTRL_D);
    assert!(shell.ends().success());
    let kept = history(&csi);
    assert!(kept.contains("--secrets-prompt key"), "{kept}");
    assert!(!kept.contains("hunter2"), "{kept}");
    let file = csi.home().join("state/csi/history");
    let mode = file.metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // The next session knows it.
    let mut next = prompted(self::shell(&csi));
    next.enter("history", ["--secrets-prompt key"]);
}

#[test]
fn lines_go_on_and_output_goes_elsewhere() {
    let driver = scripted();
    driver.on("ListVolumes", volumes(&["vol-2", "vol-1"]));
    let csi = Csi::at(driver.endpoint());
    let mut shell = prompted(shell(&csi));
    shell.enter("identity \\", ["...> "]);
    shell.enter("probe # really", ["READY", PROMPT]);
    shell.enter(
        "controller ls -o name | sort | head -n 1",
        ["\nvol-1", PROMPT],
    );
    shell.enter("controller ls -o name > ids", [PROMPT]);
    shell.enter("timing on; identity probe", ["time: ", PROMPT]);
    shell.enter(
        "controller ls | no-such-program",
        ["no-such-program cannot be started", PROMPT],
    );
    shell.enter("set output json", [PROMPT]);
    shell.enter("set", ["output        json", PROMPT]);
    // The end of the input drops a line that goes on, and not the shell.
    shell.enter("print 'a", ["...> "]);
    shell.press(CTRL_D);
    shell.expect(PROMPT);
    // Each line that goes on has a prompt of its own, and Tab knows those before.
    shell.enter("identity \\", ["\n                 ...> "]);
    shell.enter("pro\t", ["\n{}"]);
    let ids = std::fs::read_to_string(csi.home().join("ids")).unwrap();
    assert_eq!(ids, "vol-2\nvol-1\n");
}

#[test]
fn watch_shows_until_ctrl_c() {
    let driver = scripted();
    driver.on_each(
        "ListVolumes",
        [volumes(&["vol-1"]), volumes(&["vol-1", "vol-2"])],
    );
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    shell.enter(
        "watch -n 0.1 controller ls -o name",
        [
            "every 0.1 s: controller ls -o name\n\n  vol-1\n",
            "  vol-1\n* vol-2\n",
            "  vol-1\n  vol-2\n",
        ],
    );
    shell.press(CTRL_C);
    shell.expect(PROMPT);
    // Nor is there anybody who watches behind a program that has ended.
    shell.enter(
        "watch -n 0.1 controller ls -o name | true",
        ["scripted.example.com> "],
    );
}

#[test]
fn an_edited_request_is_sent() {
    let driver = scripted();
    driver.on("CreateVolume", "{}");
    let csi = Csi::at(driver.endpoint()).env(
        "EDITOR",
        "sed -i 's/\"name\": \"\"/\"name\": \"edited\"/; s/\"secrets\": {}/\"secrets\": {\"k\": \"hunter2\"}/'",
    );
    let mut shell = prompted(shell(&csi));
    shell.enter("edit create-volume", ["VOLUME ID", PROMPT]);
    let requests = driver.requests();
    let request = requests.last().unwrap().decode::<v1::CreateVolumeRequest>();
    assert_eq!(request.name, "edited");
    assert_eq!(request.secrets["k"], "hunter2");
    assert_eq!(request.volume_capabilities.len(), 1);
    assert!(!shell.all().contains("hunter2"));
    leaves_no_requests(&csi);
}

#[test]
fn any_terminal_will_do() {
    let driver = scripted();
    driver.on("ListVolumes", volumes(&["vol-1"]));
    for (name, value, columns, rows) in [
        ("TERM", "dumb", 80, 24),
        ("NO_COLOR", "1", 80, 24),
        ("X", "", 0, 0),
        ("X", "", 40, 15),
    ] {
        let csi = Csi::at(driver.endpoint()).env(name, value);
        let mut shell = prompted(shell_of_size(&csi, columns, rows));
        shell.enter("controller ls", ["VOLUME ID", "vol-1", PROMPT]);
        shell.enter("help", ["Ctrl-D leaves.", PROMPT]);
        shell.press(CTRL_D);
        assert!(shell.ends().success(), "{name} {columns}");
    }
}

#[test]
fn a_table_that_is_too_wide_becomes_records() {
    let driver = scripted();
    let long = "v".repeat(70);
    driver.on("ListVolumes", volumes(&[&long, "vol-2"]));
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    shell.enter(
        "controller ls",
        [
            &format!("VOLUME ID   {long}\nCAPACITY"),
            "\n\nVOLUME ID   vol-2\n",
        ],
    );
}

#[test]
fn a_termination_at_the_prompt_ends_it_also_after_a_lifecycle() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let mut terminal = shell(&csi);
    terminal.expect("> ");
    terminal.enter(
        "lifecycle --params server=localhost,share=/share",
        ["controller delete-volume", "> "],
    );
    terminal.signal(rustix::process::Signal::TERM);
    assert!(!terminal.ends().success());
}
