//! Words and manners: helps, waiting, useless flags, and how a stuck program ends.

use crate::support::patience::up_to_a_limit;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use serde_json::json;

#[test]
fn few_open_files_are_told_and_no_panic() {
    let csi = Csi::at("mock:");
    for count in 8..=20 {
        let mut sh = std::process::Command::new("sh");
        let script = format!("ulimit -n {count}; exec \"$0\" -e mock: lifecycle --only stats");
        sh.arg("-c").arg(script).arg(csi.command().get_program());
        sh.current_dir(csi.home()).env("TMPDIR", csi.home());
        let output = sh.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!said.contains("panicked"), "{count}: {said}");
    }
}

#[test]
fn commands_say_what_they_are_for_also_with_an_endpoint_in_the_environment() {
    let csi = Csi::at("/nowhere/csi.sock");
    for line in ["", "controller"] {
        csi.run(line).exits(2).says("Commands:");
    }
    for (line, about) in [
        ("--help", "Call any RPC of any CSI driver"),
        (
            "lifecycle --help",
            "Do what an orchestrator does with a volume",
        ),
        ("proxy --help", "Stand between an orchestrator and a driver"),
        ("completions --help", "Print a completion script"),
        ("man --help", "Write the manual pages into a folder"),
        ("identity probe --help", "Ask whether the driver is ready"),
    ] {
        let help = csi.run(line).succeeds().stdout;
        assert!(help.starts_with(about), "{line}: {help}");
    }
}

#[test]
fn waiting_in_vain_tells_why() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", r#"{"ready": false}"#);
    let csi = Csi::at(driver.endpoint());
    let ask = |wait| {
        csi.run(&format!(
            "--wait {wait} identity plugin-info -m authorization=me"
        ))
    };
    let (wait, run) = up_to_a_limit("the driver's first answer", |wait| {
        let run = ask(wait);
        (run.code == 64 + 14).then_some((wait, run))
    });
    run.says(&format!("waiting {wait} for the driver"))
        .says("Probe says that the driver is not ready");
    // What lets the driver answer is sent from the first call on.
    for request in driver.requests() {
        assert_eq!(request.header("authorization"), Some("me"));
    }
    let missing = csi.home().join("csi.sock");
    csi.run(&format!(
        "--wait 100ms identity probe -e {}",
        missing.display()
    ))
    .exits(64 + 14)
    .says("does not exist");
    let run = csi.run(&format!("--wait 0 identity probe -e {}", missing.display()));
    assert!(!run.stderr.contains("--wait 1m"), "{run}");
    run.says("waiting 0s for the driver")
        .says("hint: is the driver running");
    csi.run(&format!("identity probe -e {}", missing.display()))
        .exits(64 + 14)
        .says("hint: --wait 1m waits for it");
    // Where it does not, it is not offered.
    let carried = csi.run("--wait 1m proxy --stdio late.sock").exits(64 + 14);
    assert!(!carried.stderr.contains("--wait"), "{carried}");
}

#[test]
fn versions_of_both_sides_are_told() {
    let (client, spec) = (env!("CARGO_PKG_VERSION"), csi_proto::SPEC_VERSION);
    let own = &format!("Client Version: {client}\nCSI Version: {spec}\n");
    let csi = Csi::new();
    csi.run("version").succeeds().prints(own);
    let driver = ScriptedDriver::unix();
    let version = "1.2\u{1b}[2J";
    driver.on(
        "GetPluginInfo",
        json!({"name": "a.csi.example", "vendorVersion": version}),
    );
    let at_driver = Csi::at(driver.endpoint());
    at_driver.run("version").succeeds().prints(&format!(
        "{own}Plugin Name: a.csi.example\nPlugin Version: 1.2\\u{{1b}}[2J\n"
    ));
    let json = at_driver.run("version -o json").succeeds().json();
    assert_eq!(json["clientVersion"], client);
    assert_eq!(json["csiVersion"], spec);
    assert_eq!(json["plugin"]["vendorVersion"], version);
    // A driver that does not answer hides nothing that is known.
    let at_nobody = Csi::at("/nowhere/csi.sock");
    at_nobody
        .run("version")
        .exits(64 + 14)
        .prints(own)
        .says("no connection");
    at_nobody.run("version --client").succeeds().prints(own);
    // Nor do contexts that cannot be read.
    let broken = Csi::new();
    broken.run("context add a -e mock:").succeeds();
    broken.file("config/csi/contexts.toml", "broken");
    broken
        .run("version")
        .exits(2)
        .prints(own)
        .says("contexts.toml");
    broken.run("version --client").succeeds().prints(own);
}

#[test]
fn an_empty_list_says_so_where_a_table_was_asked_for() {
    let driver = ScriptedDriver::unix();
    driver.on("ListVolumes", "{}");
    let csi = Csi::at(driver.endpoint());
    for flags in ["", "-o wide", "--all", "--sort-by CAPACITY", "--no-headers"] {
        let line = format!("controller list-volumes {flags}");
        let output = csi.run(line.trim_end()).succeeds().prints("");
        assert_eq!(output.stderr.lines().last(), Some("no volumes"), "{output}");
    }
    csi.run("controller list-volumes -o yaml --all")
        .succeeds()
        .prints("entries: []\nnextToken: \"\"\n");
    for flags in ["-o json", "-o json --all", "-o json --sort-by CAPACITY"] {
        let output = csi.run(&format!("controller list-volumes {flags}"));
        assert_eq!(output.stderr, "", "{output}");
        assert_eq!(output.json()["entries"], serde_json::json!([]));
    }
    for format in ["jsonl", "name", "csc"] {
        let output = csi.run(&format!("controller list-volumes -o {format}"));
        assert_eq!((&*output.stdout, &*output.stderr), ("", ""), "{output}");
    }
    // A page without rows is not the end.
    driver.on("ListVolumes", r#"{"nextToken": "more"}"#);
    let output = csi.run("controller list-volumes").succeeds();
    assert!(!output.stderr.contains("no volumes"), "{output}");
}

#[test]
fn a_driver_that_can_do_nothing_says_so() {
    let driver = ScriptedDriver::unix();
    driver
        .on("NodeGetCapabilities", "{}")
        .on("GetPluginCapabilities", "{}");
    let csi = Csi::at(driver.endpoint());
    for line in ["node get-capabilities", "identity plugin-capabilities"] {
        csi.run(line).succeeds().prints("").says("no capabilities");
        let json = csi.run(&format!("{line} -o json")).succeeds();
        assert_eq!(json.stderr, "", "{json}");
    }
}

#[test]
fn errors_in_json_are_one_sentence() {
    let csi = Csi::new();
    for line in [
        "-o json",
        "-o json nonsense",
        "-o json identity probe --nonsense",
    ] {
        let run = csi.run(line).exits(2);
        let error: serde_json::Value = serde_json::from_str(&run.stderr).expect("JSON");
        let message = error["error"]["message"].as_str().expect("a message");
        assert!(!message.contains('\n'), "{message}");
    }
    for (line, hints) in [
        ("-o json wait", r#"["<KIND>","<ID>"]"#),
        (
            "-o json mok",
            r#"["tip: a similar subcommand exists: 'mock'"]"#,
        ),
        (
            "-o json wait volume v --for x",
            r#"["[possible values: ready, healthy, abnormal, gone]"]"#,
        ),
    ] {
        let error: serde_json::Value = serde_json::from_str(&csi.run(line).stderr).expect("JSON");
        assert_eq!(error["error"]["hints"].to_string(), hints, "{line}");
    }
}

#[test]
fn an_expression_finds_values_in_one_reply_and_in_all_pages() {
    let driver = ScriptedDriver::unix();
    let csi = Csi::at(driver.endpoint());
    driver.on("ListVolumes", Reply::volumes(["a"], ""));
    let ids = "controller list-volumes -o jsonpath={.entries[*].volume.volumeId}";
    csi.run(ids).succeeds().prints("a");
    csi.run(&format!("{ids} --all")).succeeds().prints("a");
    csi.run(&format!("{ids} --sort-by CAPACITY"))
        .succeeds()
        .prints("a");
    csi.run("controller list-volumes -o jsonpath={.missing}")
        .exits(2)
        .says("ListVolumesResponse has no field \"missing\"; it has entries, next_token");
    csi.run("controller list-volumes --max-entries 3 --dry-run -o jsonpath={.maxEntries}")
        .succeeds()
        .prints("3");
    for (flag, problem) in [
        ("-o jsonpath", "write an expression"),
        ("-o jsonpath={range", "no closing brace"),
        ("-o jsonpath={range}", "write what to loop over"),
        ("-o jsn", "[possible values: table, wide"),
    ] {
        csi.run(&format!("controller list-volumes {flag}"))
            .exits(2)
            .says(problem);
    }
    csi.run("-o jsonpath={.a} lifecycle")
        .exits(2)
        .says("-o jsonpath has no meaning here");
}

#[test]
fn flags_that_would_do_nothing_are_refused() {
    let driver = ScriptedDriver::unix();
    let csi = Csi::at(driver.endpoint());
    csi.run("controller list-volumes -o json --columns CAPACITY")
        .exits(2)
        .says("--columns is for tables");
    csi.run("lifecycle -o yaml")
        .exits(2)
        .says("-o yaml has no meaning here");
    csi.run("identity plugin-info --sort-by NAME")
        .exits(2)
        .says("has no rows");
    csi.run("controller list-volumes --columns volume.volume_context.server")
        .exits(2)
        .says("there are no fields in it");
    assert!(driver.requests().is_empty());
}

#[test]
fn a_reply_that_breaks_the_specification_is_shown_all_the_same() {
    let driver = ScriptedDriver::unix();
    driver.on("GetPluginInfo", r#"{"name": "no good name!"}"#);
    Csi::at(driver.endpoint())
        .run("identity plugin-info -o name --with-spec-validation")
        .exits(1)
        .prints("no good name!\n")
        .says("vendor_version");
}

#[test]
fn json_carries_nothing_that_a_terminal_acts_on() {
    let driver = ScriptedDriver::unix();
    let name = "a\u{9b}31m\u{202e}z";
    driver.on("GetPluginInfo", json!({ "name": name }));
    let csi = Csi::at(driver.endpoint());
    for format in ["json", "jsonl"] {
        let output = csi
            .run(&format!("identity plugin-info -o {format}"))
            .succeeds();
        assert!(output.stdout.contains("a\\u009b31m\\u202ez"), "{output}");
        assert_eq!(output.json()["name"], name);
    }
}

#[test]
fn manual_pages_are_written_into_a_folder_that_exists() {
    let csi = Csi::new();
    let folder = csi.home().join("man1");
    let line = format!("man {}", folder.display());
    csi.run(&line)
        .exits(2)
        .says("does not exist")
        .says("mkdir -p");
    std::fs::write(&folder, "").expect("a file");
    csi.run(&line).exits(2).says("is no folder");
    std::fs::remove_file(&folder).expect("a file");
    std::fs::create_dir(&folder).expect("a folder");
    let said = csi.run(&line).succeeds().stdout;
    let pages = std::fs::read_dir(&folder).expect("a folder").count();
    let expected = format!("{pages} manual pages are in {}\n", folder.display());
    assert_eq!(said, expected);
    assert!(folder.join("csi-controller-create-volume.1").is_file());
    let said = csi.run(&format!("{line} -o json")).succeeds().stdout;
    assert!(said.contains(&format!("\"pages\":{pages}")), "{said}");
    // A folder in the place of a page: also the superuser cannot write that.
    std::fs::remove_file(folder.join("csi.1")).expect("a page");
    std::fs::create_dir(folder.join("csi.1")).expect("a folder");
    csi.run(&line).exits(1).says("csi.1 cannot be written");
}
