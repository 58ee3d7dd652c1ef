//! `csi shell` without a person: files, standard input, `-c`.

use crate::support::driver::Driver;
use crate::support::program::{Csi, Output};
use crate::support::reference::ReferenceDriver;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_mock::Options;
use csi_proto::v1;
use rustix::process::Signal;
use serde_json::json;
use tonic::Code;

const PARAMS: &str = "--cap 5,mount --params server=localhost,share=/share";

fn lines(csi: &Csi, text: &str) -> Output {
    csi.run_args(["shell", "-c", text])
}

#[test]
fn what_was_deferred_runs_on_the_driver_of_its_time() {
    let drivers = [(); 2].map(|()| ReferenceDriver::start(Options::default()));
    let [first, second] = drivers.each_ref().map(ReferenceDriver::endpoint);
    let csi = Csi::at(&first);
    // Each driver names its first volume alike.
    let text = format!(
        "v = controller create-volume a; defer controller delete-volume $v.volume.volume_id; connect {second}; \
         controller create-volume b; set timeout 1ms"
    );
    lines(&csi, &text).succeeds();
    let left = drivers.map(|driver| driver.left_behind().len());
    assert_eq!(left, [0, 1]);
}

#[test]
fn a_failed_line_names_its_file_its_line_and_its_command() {
    let csi = Csi::at("mock:");
    for (line, said) in [
        (
            "controller get-volume x",
            "controller get-volume x: NOT_FOUND: ",
        ),
        ("set output nope", "set output nope: output: "),
        ("no such", "no such: unrecognized subcommand 'no'"),
        ("print $x", "print $x: there is no variable $x"),
        (
            "print ${x}${y:-1} \"$1\"",
            "print ${x}${y:-1} \"$1\": there is no variable $x",
        ),
        ("x = $y.volume", "$y.volume: there is no variable $y"),
        ("\\o out.txt", "\\o out.txt: \\o is psql's; here: > FILE"),
        (
            "identity probe -e unix:///nowhere",
            "identity probe -e unix:///nowhere: UNAVAILABLE: ",
        ),
        (
            "identity probe | false",
            "identity probe: false: exit status: 1",
        ),
        ("assert 1 == 2", "assertion failed: 1 == 2: left is"),
        (
            "controller create-volume x --params password=hunter2 --nope",
            "controller … (it may hold a secret): unexpected argument",
        ),
        (
            "\\set token hunter2 $nope",
            "\\set … (it may hold a secret): there is no variable $nope",
        ),
        (
            "token = hunter2-$nope",
            "… (it may hold a secret): there is no variable $nope",
        ),
    ] {
        let file = csi.file("ci.csi", format!("# A comment.\n{line}\n"));
        let run = csi.run(&format!("shell {}", file.display()));
        let place = format!("{}:2: error: {said}", file.display());
        assert!(run.stderr.contains(&place), "{line}\n{run}");
        assert!(!run.stderr.contains("hunter2"), "{run}");
    }
}

#[test]
fn a_semicolon_keeps_quiet_what_is_assigned() {
    let csi = Csi::at("mock:");
    let lines =
        "x = identity probe; identity probe\nx = identity probe;\nprint $x.ready; identity probe;";
    let run = csi.input(lines).run("shell").succeeds();
    let reply = "READY\ntrue\n";
    // A ; between two commands parts them, and a command that assigns nothing is there to be seen.
    run.prints(&format!("{reply}{reply}true\n{reply}"));
}

#[test]
fn a_job_is_one_readable_file() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let file = csi.file(
        "job.csi",
        format!(
            "# A volume from create to delete.\n\
             vol = controller create-volume pvc-1 --req-bytes 10Mi {PARAMS} \\\n    -o name\n\
             assert $vol.volume.capacity_bytes == 10Mi\n\
             assert $vol.volume.volume_context.share == /share\n\n\
             id = $vol.volume.volumeId\n\
             controller list-volumes -o name\n\
             assert $_.entries.length == 1; assert $_.entries[0].volume.volume_id == \"$id\"\n\
             expect INVALID_ARGUMENT controller create-volume '' {PARAMS}\n\
             controller delete-volume $id\n\
             expect NOT_FOUND controller get-volume $id\n"
        ),
    );
    let run = csi.run_args(["shell", "--file", file.to_str().unwrap()]);
    let run = run.succeeds();
    let printed: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(printed.len(), 3, "{run}");
    assert_eq!(printed[0], printed[1]);
    assert_eq!(printed[2], format!("{} deleted", printed[0]));
    assert_eq!(run.stderr, "", "{run}");
    assert!(!csi.home().join("state/csi/history").exists());
}

#[test]
fn the_first_failure_ends_it_with_its_line_and_code() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    driver.on(
        "ControllerGetVolume",
        Reply::error(Code::NotFound, "no such volume"),
    );
    let script =
        "identity probe -o name\n\ncontroller get-volume \\\n  x\nidentity probe -o name\n";
    let csi = Csi::at(driver.endpoint()).input(script);
    let failure = "stdin:3: error: controller get-volume x: NOT_FOUND: no such volume\n";
    let run = csi.run("shell").exits(69).says(failure);
    assert_eq!(run.stdout.lines().count(), 1, "{run}");
    // All lines, and the first failure's code.
    let run = csi.run("shell --keep-going").exits(69).says(failure);
    assert_eq!(run.stdout.lines().count(), 2, "{run}");
    let file = csi.file("a.csi", script);
    let inner = file.display();
    csi.file("b.csi", format!("source {inner}\n"));
    csi.run("shell b.csi")
        .exits(69)
        .says(&format!("{inner}:3: error: "));
    // Statements of one line go on as well.
    let run = csi.run_args([
        "shell",
        "--keep-going",
        "-c",
        "controller get-volume x; identity probe -o name",
    ]);
    let run = run.exits(69).says("-c:1: error: ");
    assert_eq!(run.stdout.lines().count(), 1, "{run}");
    // What failed is nothing that was there before.
    let script = "v = 'x'; v = controller get-volume x; print $v";
    csi.run_args(["shell", "--keep-going", "-c", script])
        .exits(69)
        .says("there is no variable $v");
    let json = lines(&csi, "set output json; controller get-volume x").exits(69);
    let error: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!(error["error"]["place"], "-c:1");
    assert_eq!(error["error"]["code"], "NOT_FOUND");
}

#[test]
fn what_is_demanded_and_not_so_fails() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    let csi = Csi::at(driver.endpoint());
    for (line, code, message) in [
        (
            "expect NOT_FOUND identity probe",
            1,
            "expected NOT_FOUND, got OK",
        ),
        (
            "expect NOT_FOUND controller get-capacity",
            1,
            "expected NOT_FOUND, got UNIMPLEMENTED",
        ),
        (
            "expect NOT_FOUND identity probe -e unix:///nowhere",
            1,
            "expected NOT_FOUND, got UNAVAILABLE\n  \
             caused by: UNAVAILABLE: no connection to unix:///nowhere\n  \
             caused by: the socket /nowhere does not exist\n  hint: ",
        ),
        (
            "expect NOTHING identity probe",
            2,
            "the codes are OK, CANCELLED",
        ),
        (
            "x = 1; assert $x == 2k",
            1,
            "assertion failed: $x == 2k: left is \"1\", right is \"2k\"",
        ),
        ("assert 1==2", 2, "write blanks around =="),
        ("identity prob", 2, "unrecognized subcommand 'prob'"),
        (
            "identity probe; identity probe $x",
            2,
            "there is no variable $x; there is $_",
        ),
        ("x = help", 2, "the command has no reply that $x could be"),
        ("x = text", 2, "text is quoted: x = \"text\""),
        ("env = 5", 2, "$env is the environment"),
        ("x=5", 2, "blanks stand around the sign: x = VALUE"),
        ("x= 5", 2, "blanks stand around the sign: x = VALUE"),
        ("x =5", 2, "blanks stand around the sign: x = VALUE"),
        ("x =\"a b\"", 2, "blanks stand around the sign: x = VALUE"),
        ("x=\"a b\"", 2, "blanks stand around the sign: x = VALUE"),
        ("x=$env.HOME", 2, "blanks stand around the sign: x = VALUE"),
        ("a-b = 5", 2, "\"a-b\" can be no name"),
        (
            "identity probe && print a",
            2,
            "there is no && here: ; separates",
        ),
        (
            "assert 1.5 < 2",
            2,
            "< compares numbers and sizes, not \"1.5\"",
        ),
        ("assert", 2, "Usage: assert <EXPRESSION>..."),
        ("repeat x identity probe", 2, "write a number"),
        ("edit Probe", 2, "VISUAL or EDITOR names a program"),
        ("connect nowhere", 2, "there is no context \"nowhere\""),
        ("print $1", 2, "there is no argument $1: none was given"),
        ("defer identity prob", 2, "unrecognized subcommand 'prob'"),
        ("set echo maybe", 2, "echo: write on or off"),
        ("set records maybe", 2, "records: write on, off or auto"),
        (
            "desc publish",
            2,
            "write controller publish or node publish",
        ),
        ("edit Volume", 2, "\"Volume\" is no RPC"),
        ("identity probe 'x", 2, "the quote ' is not closed"),
        ("set nothing 1", 2, "there is endpoint, output, timeout"),
        ("set timeout soon", 2, "timeout: "),
        (
            "set output yml",
            2,
            "output: \"yml\" is not one of table, wide",
        ),
        ("set endpoint ftp://x", 2, "endpoint: "),
        (
            "connect /nowhere.sock",
            78,
            "the socket /nowhere.sock does not exist",
        ),
        ("source nowhere.csi", 2, "nowhere.csi cannot be read"),
        ("source /dev/zero", 2, "a line holds 16 MiB or more"),
        ("desc Volum", 2, "there is Volume"),
        ("shell x.csi", 2, "source FILE runs a script here"),
        ("proxy --stdio x", 2, "for outside of it"),
        ("watch identity probe", 2, "write repeat N COMMAND"),
    ] {
        lines(&csi, line).exits(code).says(message);
    }
    for line in [
        "expect OK identity probe",
        "expect unimplemented controller get-capacity",
        "expect USAGE identity probe --nothing",
        "expect USAGE source nowhere.csi",
        "expect LOCAL assert 1 == 2",
        "repeat 3 identity probe",
        "exit; identity nothing",
        "# nothing",
        "",
    ] {
        lines(&csi, line).succeeds();
    }
    let probes = driver
        .calls()
        .iter()
        .filter(|call| *call == "Probe")
        .count();
    assert_eq!(probes, 1 + 1 + 1 + 3);
}

#[test]
fn settings_hold_for_the_lines_to_come_and_flags_override_them() {
    let (first, second) = (ScriptedDriver::unix(), ScriptedDriver::unix());
    for driver in [&first, &second] {
        driver.on("Probe", "{}");
        driver.on("CreateVolume", "{}");
    }
    let csi = Csi::at(first.endpoint());
    let secrets = csi.file("secrets", "key=hunter2\n");
    let script = format!(
        "identity probe\n\
         set timeout 7s\nset cap 5,block\nset secrets-file {}\nset verbose 2\n\
         controller create-volume a -o name\n\
         connect {}\nunset cap\nunset verbose\nunset secrets-file\n\
         controller create-volume b --timeout 9s -o name\nset\n",
        secrets.display(),
        second.endpoint()
    );
    let run = lines(&csi, &script).succeeds().says("***stripped***");
    assert!(!run.stderr.contains("hunter2"), "{run}");
    assert!(run.stdout.contains("timeout       7s\n"), "{run}");
    let create = |driver: &ScriptedDriver| {
        let requests = driver.requests();
        let request = requests.last().unwrap();
        let limit = request.header("grpc-timeout").unwrap().to_owned();
        (request.decode::<v1::CreateVolumeRequest>(), limit)
    };
    let (request, limit) = create(&first);
    assert_eq!(request.secrets["key"], "hunter2");
    assert_eq!(request.volume_capabilities[0].access_mode.unwrap().mode, 5);
    assert!(limit.starts_with('7'), "{limit}");
    let (request, limit) = create(&second);
    assert!(request.secrets.is_empty());
    assert_eq!(request.volume_capabilities[0].access_mode.unwrap().mode, 1);
    assert!(limit.starts_with('9'), "{limit}");
    // One connection serves all lines.
    assert_eq!(first.connections(), 1);
}

#[test]
fn the_pages_of_a_list_are_one_value() {
    let driver = ScriptedDriver::unix();
    let pages = [Reply::volumes(["a"], 2), Reply::volumes(["b"], "")];
    driver.on_each("ListVolumes", pages);
    let run = lines(
        &Csi::at(driver.endpoint()),
        "all = controller ls --all -o name; assert $all.entries.length == 2; \
         assert $all.entries[1].volume.volume_id == b; assert \"x$all.next_token\" == x",
    );
    run.succeeds().prints("a\nb\n");
}

#[test]
fn output_goes_to_files_and_programs() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    let csi = Csi::at(driver.endpoint());
    let run = lines(
        &csi,
        "identity probe -o json > one; identity probe -o name | cat | tr a-z A-Z; \
         identity probe -o name >> one; identity probe -o name | cat > two; help help | head -n 1",
    );
    run.succeeds().prints("TRUE\nRPCs of the driver\n");
    let file = |name: &str| std::fs::read_to_string(csi.home().join(name)).unwrap();
    assert_eq!(file("one"), "{}\ntrue\n");
    assert_eq!(file("two"), "true\n");
    lines(&csi, "identity probe | false")
        .exits(1)
        .says("false: exit status: 1");
    lines(&csi, "identity probe | no-such-1 | no-such-2")
        .exits(1)
        .says("no-such-1 cannot be started");
    lines(&csi, "identity probe > /nowhere/x")
        .exits(1)
        .says("/nowhere/x cannot be written");
}

#[test]
fn kubectl_csi_calls_itself_so() {
    let csi = Csi::new().called("kubectl-csi");
    let help = csi.run("controller create-volume --help").succeeds();
    assert!(
        help.stdout
            .contains("Usage: kubectl csi controller create-volume"),
        "{help}"
    );
    csi.run("controller nothing")
        .exits(2)
        .says("Usage: kubectl csi controller");
    let script = csi.run("completions bash").succeeds();
    assert!(script.stdout.contains(" kubectl-csi\n"), "{script}");
    lines(&csi, "kubectl csi set").succeeds();
}

#[test]
fn values_are_printed_assigned_and_come_from_outside() {
    let driver = ScriptedDriver::unix();
    let context = json!({"a": "b\u{1b}[2J"});
    driver.on(
        "CreateVolume",
        json!({"volume": {"volumeId": "vol-1", "volumeContext": context}}),
    );
    let csi = Csi::at(driver.endpoint()).env("PLACE", "here");
    let file = csi.file(
        "values.csi",
        "number = 5\ntext = \"a  b\"\nsock = /csi/csi.sock\n\
         print $number $text; print \"$sock|$1|$2|${3:-none}|$size|$env.PLACE\"\n\
         vol = controller create-volume $1 -o name\n\
         $vol.volume.volume_id\n$vol.volume.volume_context\n\
         inner = $vol.volume\nprint id: $inner.volume_id\n\
         set output jsonl; print $vol.volume.volume_context; set output yaml; $inner\n\
         source inner.csi x; print $1\n\
         print $vol.volume.volume_context.a > escape; print \"x\ty${none:-\"a  b\"}\" | cat > tab\n",
    );
    csi.file("inner.csi", "print $1 $vol.volume.volume_id\n");
    let file = file.to_str().unwrap();
    let run = csi.run_args(["shell", "--file", file, "--var", "size=1Gi", "one", "two"]);
    let run = run.succeeds();
    let lines: Vec<&str> = run.stdout.lines().collect();
    assert_eq!(
        lines[..7],
        [
            "5 a  b",
            "/csi/csi.sock|one|two|none|1Gi|here",
            "vol-1",
            "vol-1",
            "{",
            "  \"a\": \"b\\u001b[2J\"",
            "}"
        ],
        "{run}"
    );
    assert_eq!(
        lines[7..9],
        ["id: vol-1", "{\"a\":\"b\\u001b[2J\"}"],
        "{run}"
    );
    assert!(lines.contains(&"volumeId: vol-1"), "{run}");
    assert_eq!(lines[lines.len() - 2..], ["x vol-1", "one"], "{run}");
    // Only a terminal would act on it.
    for (file, text) in [("escape", "b\u{1b}[2J\n"), ("tab", "x\tya  b\n")] {
        assert_eq!(
            std::fs::read_to_string(csi.home().join(file)).unwrap(),
            text
        );
    }
    csi.run("shell --var 1=x").exits(2).says("write NAME=VALUE");
}

#[test]
fn a_word_is_a_script_as_for_sh() {
    let csi = Csi::at("unix:///nowhere").input("print stdin $1\n");
    csi.file("a.csi", "print file $1 $2\n");
    for (line, prints) in [
        ("shell a.csi x y", "file x y\n"),
        ("shell a.csi x -- --file", "file x --file\n"),
        ("shell --file a.csi x y", "file x y\n"),
        ("shell -s x", "stdin x\n"),
        ("shell - x", "stdin x\n"),
    ] {
        let run = csi.run(line).succeeds();
        assert_eq!(run.stdout, prints, "{line}: {run}");
    }
    let run = csi.run_args(["shell", "-c", "print $2 $1", "x", "y"]);
    assert_eq!(run.succeeds().stdout, "y x\n");
    for line in ["shell nowhere.csi", "shell nowhere.csi x"] {
        let run = csi.run(line).exits(2);
        run.says("nowhere.csi cannot be read")
            .says("csi shell -c 'identity probe', csi shell -s ARGUMENT");
    }
    csi.run("shell --file a.csi -s").exits(2);
}

#[test]
fn what_was_deferred_runs_at_the_end_the_last_first() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    driver.on("DeleteVolume", "{}");
    driver.on(
        "ControllerGetVolume",
        Reply::error(Code::NotFound, "no such volume"),
    );
    let csi = Csi::at(driver.endpoint());
    // After a failure; one that fails itself ends none of the others, and the first failure counts.
    let script = "x = \"a\"\ndefer controller delete-volume $x\nx = \"b\"\n\
                  defer controller delete-volume $x > deleted\n\
                  defer assert 1 == 2\n\
                  controller get-volume c\nidentity probe\n";
    let run = csi.run_args(["shell", "-c", script]).exits(69);
    let run = run
        .says("-c:6: error: controller get-volume c: NOT_FOUND")
        .says("-c:5: error: assertion failed: 1 == 2");
    assert_eq!(run.stdout, "a deleted\n", "{run}");
    let file = std::fs::read_to_string(csi.home().join("deleted")).unwrap();
    assert_eq!(file, "b deleted\n");
    // Without another failure its own counts; also after `exit`.
    let script = "defer identity probe -o name; defer controller get-volume c; exit";
    let run = csi.run_args(["shell", "-c", script]).exits(69);
    assert_eq!(run.stdout, "true\n", "{run}");
}

#[test]
fn what_was_deferred_runs_also_after_a_signal() {
    // In a call, or while the next line is waited for.
    for (signal, line, call) in [
        (Signal::INT, "controller get-capacity", "GetCapacity"),
        (Signal::TERM, "controller get-capacity", "GetCapacity"),
        (Signal::INT, "identity probe > probed", "Probe"),
        (Signal::TERM, "identity probe > probed", "Probe"),
    ] {
        let driver = ScriptedDriver::unix();
        driver.on("Probe", "{}");
        driver.on("GetCapacity", Reply::never());
        driver.on("DeleteVolume", "{}");
        let csi = Csi::at(driver.endpoint());
        let mut shell = csi.spawn("shell --keep-going");
        shell.type_in(format!("defer controller delete-volume a\n{line}\n"));
        driver.wait_for_call(call);
        shell.signal(signal);
        driver.wait_for_call("DeleteVolume");
        let status = shell.wait_for_death();
        assert_eq!(status.code(), Some(130), "{}", shell.so_far());
        shell.wait_for_output("a deleted\n");
    }
}

#[test]
fn echo_shows_each_command_and_no_secret() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    let csi = Csi::at(driver.endpoint()).env("TOKEN", "hunter2");
    let script = "x = 5; set echo on; identity probe -o name; y = \"a $x\"; assert $x >= 5; \
                  print $env.TOKEN > token; print password=hunter2 > token";
    let run = csi.run_args(["shell", "-c", script]).succeeds();
    let expected = "+ identity probe -o name\n+ y = 'a 5'\n+ assert 5 >= 5\n\
                    + print '$env.TOKEN'\n+ print … (it may hold a secret)\n";
    assert_eq!(run.stderr, expected, "{run}");
}

#[test]
fn names_and_settings_are_told_as_they_were_given() {
    let driver = ScriptedDriver::unix();
    let csi = Csi::at(driver.endpoint());
    for name in [
        "controller create-volume",
        "c new",
        "csi.v1.Controller/CreateVolume",
    ] {
        let run = lines(&csi, &format!("desc {name}")).succeeds();
        assert!(run.stdout.starts_with("rpc CreateVolume\n"), "{run}");
    }
    let run = lines(&csi, "desc wait").succeeds();
    assert!(run.stdout.contains("--for <CONDITION>"), "{run}");
    assert!(run.stdout.ends_with(": --help-all\n"), "{run}");
    assert!(!run.stdout.contains("--timeout <DURATION>"), "{run}");
    let run = lines(&csi, "help flags").succeeds();
    assert!(run.stdout.contains("--timeout <DURATION>"), "{run}");
    let run = lines(
        &csi,
        "set output jsonpath={.volume.volumeId}; set records on; set",
    )
    .succeeds();
    assert!(
        run.stdout.contains("jsonpath={.volume.volumeId}\n"),
        "{run}"
    );
    assert!(run.stdout.contains("records       on\n"), "{run}");
}

#[test]
fn a_table_is_records_where_that_is_wanted() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    let csi = Csi::at(driver.endpoint());
    let run =
        csi.input("identity probe\n\\x\nidentity probe\n\\x\nset records off\nidentity probe\n");
    let run = run
        .run("shell")
        .succeeds()
        .says("records are on\nrecords are auto\n");
    assert_eq!(
        run.stdout, "READY\ntrue\nREADY   true\nREADY\ntrue\n",
        "{run}"
    );
}
