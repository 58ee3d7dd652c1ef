//! `csi shell` without a person: files, standard input, `-c`.

use crate::support::driver::Driver;
use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1;
use tonic::Code;

const PARAMS: &str = "--cap 5,mount --params server=localhost,share=/share";

fn lines(csi: &Csi, text: &str) -> Output {
    csi.run_args(["shell", "-c", text])
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
    driver.on("Probe", Reply::message(&v1::ProbeResponse { ready: None }));
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
    csi.run("shell --file b.csi")
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
    let json = lines(&csi, "set output json; controller get-volume x").exits(69);
    let error: serde_json::Value = serde_json::from_str(&json.stderr).unwrap();
    assert_eq!(error["error"]["place"], "-c:1");
    assert_eq!(error["error"]["code"], "NOT_FOUND");
}

#[test]
fn what_is_demanded_and_not_so_fails() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", Reply::message(&v1::ProbeResponse { ready: None }));
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
            "expect NOTHING identity probe",
            2,
            "the codes are OK, CANCELLED",
        ),
        ("assert 1 == 2", 1, "assertion failed: \"1\" == \"2\""),
        ("assert 1==2", 2, "write blanks around =="),
        ("identity prob", 2, "unrecognized subcommand 'prob'"),
        (
            "identity probe; identity probe $x",
            2,
            "there is no variable $x; there is $_",
        ),
        ("x = help", 2, "the command has no reply that $x could be"),
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
        ("source nowhere.csi", 1, "nowhere.csi cannot be read"),
        ("desc Volum", 2, "there is Volume"),
        ("shell", 2, "for outside of it"),
        ("proxy --stdio x", 2, "for outside of it"),
        ("watch identity probe", 2, "write repeat N COMMAND"),
    ] {
        lines(&csi, line).exits(code).says(message);
    }
    for line in [
        "expect OK identity probe",
        "expect unimplemented controller get-capacity",
        "expect USAGE identity probe --nothing",
        "expect LOCAL source nowhere.csi",
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
        driver.on("Probe", Reply::message(&v1::ProbeResponse { ready: None }));
        driver.on(
            "CreateVolume",
            Reply::message(&v1::CreateVolumeResponse::default()),
        );
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
    let page = |id: &str, next: &str| {
        Reply::message(&v1::ListVolumesResponse {
            entries: vec![v1::list_volumes_response::Entry {
                volume: Some(v1::Volume {
                    volume_id: id.to_owned(),
                    ..v1::Volume::default()
                }),
                status: None,
            }],
            next_token: next.to_owned(),
        })
    };
    driver.on_each("ListVolumes", [page("a", "2"), page("b", "")]);
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
    driver.on("Probe", Reply::message(&v1::ProbeResponse { ready: None }));
    let csi = Csi::at(driver.endpoint());
    let run = lines(
        &csi,
        "identity probe -o json > one; identity probe -o name | cat | tr a-z A-Z; \
         identity probe -o name >> one; identity probe -o name | cat > two; help | head -n 1",
    );
    run.succeeds()
        .prints("TRUE\nCommands of the program and of the shell\n");
    let file = |name: &str| std::fs::read_to_string(csi.home().join(name)).unwrap();
    assert_eq!(file("one"), "{}\ntrue\n");
    assert_eq!(file("two"), "true\n");
    lines(&csi, "identity probe | false")
        .exits(1)
        .says("false: exit status: 1");
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
