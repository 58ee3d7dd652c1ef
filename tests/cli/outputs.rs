//! The formats of rows: columns, records, CSV and columns of one's own, in a terminal, behind a pipe, over pages, and in the
//! shell. What each prints of every RPC stands in the goldens.

use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::terminal::Terminal;
use serde_json::json;
use tonic::Code;

/// A page with one volume.
fn page(id: &str, bytes: i64, said: &str, next: &str) -> Reply {
    let condition = json!({"abnormal": true, "message": said});
    let status = json!({"publishedNodeIds": ["n-1", "n-2"], "volumeCondition": condition});
    let status = (!said.is_empty()).then_some(status);
    let volume = json!({"volumeId": id, "capacityBytes": bytes, "volumeContext": {"share": "/a"}});
    Reply::json(json!({"entries": [{"volume": volume, "status": status}], "nextToken": next}))
}

/// Runs a command on a list of two pages, the second of which has what is hard to show.
fn over_pages(flags: &[&str]) -> Output {
    let driver = ScriptedDriver::unix();
    let second = page("v-2", 10_000, "it says \"no\",\n\u{1b}[2J", "");
    driver.on_each("ListVolumes", [page("v-1", 900, "", "more"), second]);
    let list = ["controller", "list-volumes", "--all"];
    Csi::at(driver.endpoint()).run_args(list.iter().chain(flags))
}

#[test]
fn csv_is_one_table_of_all_columns_and_all_pages() {
    let heads = "VOLUME ID,CAPACITY,SOURCE,NODES,CONDITION,TOPOLOGY,CONTEXT,MESSAGE\r\n";
    let first = "v-1,900,,,,,share=/a,\r\n";
    let second = "v-2,10000,,\"n-1,n-2\",\"abnormal: it says \"\"no\"\",\\n\\u{1b}[2J\",,share=/a,\
                  \"it says \"\"no\"\",\n\u{1b}[2J\"\r\n";
    let whole = format!("{heads}{first}{second}");
    assert_eq!(over_pages(&["-o", "csv"]).succeeds().stdout, whole);
    let rows = format!("{first}{second}");
    let without_heads = over_pages(&["-o", "csv", "--no-headers"]).succeeds();
    assert_eq!(without_heads.stdout, rows);
    let sorted = over_pages(&["-o", "csv", "--sort-by", ".volume.capacityBytes"]).succeeds();
    assert_eq!(sorted.stdout, whole);
    let chosen = over_pages(&["-o", "csv", "--columns", "NODES,volume.volume_id"]).succeeds();
    assert_eq!(
        chosen.stdout,
        "NODES,VOLUME.VOLUME_ID\r\n,v-1\r\n\"n-1,n-2\",v-2\r\n"
    );
}

#[test]
fn columns_of_one_s_own_are_as_kubectl_has_them() {
    let columns = "custom-columns=ID:.volume.volume_id,\
                   SIZE:{.volume.capacityBytes},NODES:status.published_node_ids[*],X:.volume.volume_context.x";
    let run = over_pages(&["-o", columns]).succeeds();
    let table =
        "ID    SIZE   NODES    X\nv-1   900    <none>   <none>\nv-2   10000   n-1,n-2   <none>\n";
    assert_eq!(run.stdout, table);
    let rows = "v-1   900\nv-2   10000\n";
    let columns = "custom-columns=ID:.volume.volume_id,SIZE:.volume.capacity_bytes";
    let run = over_pages(&["-o", columns, "--no-headers"]).succeeds();
    assert_eq!(run.stdout, rows);
    over_pages(&["-o", "custom-columns=ID:.volume_id"])
        .exits(2)
        .says("has no field \"volume_id\"; did you mean volume.volume_id?");
    over_pages(&["-o", columns, "--columns", "CAPACITY"])
        .exits(2)
        .says("--columns is for tables");
}

#[test]
fn heads_stand_without_rows_where_programs_or_expressions_ask() {
    let driver = ScriptedDriver::unix();
    let empty = Reply::json("{}");
    driver.on("ListVolumes", empty);
    let csi = Csi::at(driver.endpoint());
    let own = "-o custom-columns=A:.volume.volume_id,B:.status";
    for flags in ["", " --all", " --sort-by CAPACITY"] {
        for (format, heads) in [
            (own, "A   B\n"),
            ("-o csv --columns CAPACITY,NODES", "CAPACITY,NODES\r\n"),
            ("-o csv --columns CAPACITY --no-headers", ""),
            ("-o records", ""),
        ] {
            let run = csi.run(&format!("controller list-volumes {format}{flags}"));
            assert_eq!(run.succeeds().stdout, heads, "{format}{flags}");
        }
    }
}

#[test]
fn a_call_that_fails_is_no_empty_list() {
    let driver = ScriptedDriver::unix();
    driver.on("ListVolumes", Reply::error(Code::Unavailable, "later"));
    let csi = Csi::at(driver.endpoint());
    for format in [
        "json",
        "yaml",
        "csv",
        "custom-columns=A:.volume",
        "jsonpath={.entries}!",
    ] {
        for flags in ["", " --all", " --sort-by CAPACITY"] {
            let run = csi.run(&format!("controller list-volumes -o {format}{flags}"));
            run.exits(64 + 14).prints("");
        }
    }
}

#[test]
fn a_list_that_is_cut_off_is_not_taken_for_a_whole_one() {
    let driver = ScriptedDriver::unix();
    let csi = Csi::at(driver.endpoint());
    let cut_off = |flags: &str| {
        let second = Reply::error(Code::Unavailable, "later");
        driver.on_each("ListVolumes", [page("v-1", 900, "", "more"), second]);
        let run = csi.run(&format!("controller list-volumes --all {flags}"));
        run.exits(64 + 14).says("later").stdout
    };
    for flags in ["", " --sort-by CAPACITY", " --keep-going"] {
        let json = cut_off(&format!("-o json{flags}"));
        assert!(
            json.contains("\"volumeId\": \"v-1\"") && json.ends_with("}\n"),
            "{json}"
        );
        let error = serde_json::from_str::<serde_json::Value>(&json).expect_err("no document");
        assert!(error.is_eof(), "{error}");
        let yaml = cut_off(&format!("-o yaml{flags}"));
        assert!(
            yaml.contains("volumeId: v-1") && yaml.ends_with("nextToken: \"\n"),
            "{yaml}"
        );
        assert_eq!(cut_off(&format!("-o jsonpath={{.entries}}{flags}")), "");
        // Rows stand for themselves.
        assert_eq!(cut_off(&format!("-o name{flags}")), "v-1\n");
    }
}

#[test]
fn an_expression_compares_64_bit_numbers_and_loops_over_all_pages() {
    let loops = "jsonpath={range .entries[?@.volume.capacity_bytes > 900]}\
                 {.volume.volume_id}={.volume.capacity_bytes};{.volume.volume_context.x}{.status.volume_condition.abnormal}{end}";
    let run = over_pages(&["-o", loops]).succeeds();
    assert_eq!(run.stdout, "v-2=10000;true");
}

/// What a terminal of so many columns shows of a command, up to its last cell.
fn screen(driver: &ScriptedDriver, columns: u16, flags: &[&str]) -> String {
    let csi = Csi::at(driver.endpoint());
    let mut command = csi.command();
    command.args(["controller", "list-volumes", "--all", "--columns"]);
    command.args(["VOLUME ID,CAPACITY"]).args(flags);
    let mut terminal = Terminal::start(command.env("TERM", "dumb"), columns, 24);
    let before = terminal.expect("2Ki").replace('\r', "");
    assert!(terminal.ends().success());
    before + "2Ki\n"
}

#[test]
fn a_terminal_never_breaks_a_row() {
    let wide = "v".repeat(40);
    let pages = || {
        let driver = ScriptedDriver::unix();
        let pages = [page("v-1", 1024, "", "more"), page(&wide, 2048, "", "")];
        driver.on_each("ListVolumes", pages);
        driver
    };
    let first = "VOLUME ID   CAPACITY\nv-1         1Ki\n";
    for (columns, flags, expected) in [
        (80, &[][..], format!("{first}{wide}   2Ki\n")),
        // From the page on that does not fit.
        (
            40,
            &[],
            format!("{first}\nVOLUME ID   {wide}\nCAPACITY    2Ki\n"),
        ),
        (
            15,
            &[],
            format!("VOLUME ID   v-1\nCAPACITY    1Ki\n\nVOLUME ID   {wide}\nCAPACITY    2Ki\n"),
        ),
        (
            80,
            &["-o", "records"],
            format!("VOLUME ID   v-1\nCAPACITY    1Ki\n\nVOLUME ID   {wide}\nCAPACITY    2Ki\n"),
        ),
        // The names of a record's lines are no heads of a table.
        (
            40,
            &["--no-headers"],
            format!("v-1   1Ki\n\nVOLUME ID   {wide}\nCAPACITY    2Ki\n"),
        ),
    ] {
        let seen = screen(&pages(), columns, flags);
        assert_eq!(seen, expected, "{columns} {flags:?}");
    }
    // Behind a pipe nothing is broken, and scripts count columns.
    let driver = pages();
    let csi = Csi::at(driver.endpoint());
    let run = csi.run("controller list-volumes --all --columns VOLUME-ID,CAPACITY");
    assert_eq!(run.succeeds().stdout, format!("{first}{wide}   2Ki\n"));
}

#[test]
fn csv_tells_texts_apart_and_has_no_number_for_none() {
    let driver = ScriptedDriver::unix();
    driver.on_each(
        "ListVolumes",
        [page("v-1", 0, "a\nb", "more"), page("v-2", 1, "a\\nb", "")],
    );
    let list = "controller list-volumes --all -o csv --columns CAPACITY,MESSAGE";
    let run = Csi::at(driver.endpoint()).run(list).succeeds();
    assert_eq!(run.stdout, "CAPACITY,MESSAGE\r\n,\"a\nb\"\r\n1,a\\nb\r\n");
}

#[test]
fn a_list_in_a_variable_has_names_too() {
    let driver = ScriptedDriver::unix();
    driver.on("ListVolumes", page("v-1", 1024, "", ""));
    let lines =
        "v = controller ls -o name\nset output jsonpath={[*].volume.volume_id}\nprint $v.entries\n";
    let run = Csi::at(driver.endpoint())
        .input(lines)
        .run("shell")
        .succeeds();
    assert_eq!(run.stdout, "v-1\nv-1");
}

#[test]
fn heads_do_not_act_on_a_terminal() {
    let driver = ScriptedDriver::unix();
    driver.on("ListVolumes", page("v-1", 1024, "", ""));
    let list = [
        "controller",
        "list-volumes",
        "-o",
        "custom-columns=\u{1b}[2J:.volume.volume_id",
    ];
    let run = Csi::at(driver.endpoint()).run_args(list).succeeds();
    assert_eq!(run.stdout, "\\u{1b}[2J\nv-1\n");
}

#[test]
fn the_shell_has_the_same_formats() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    driver.on("ListVolumes", page("v-1", 1024, "", ""));
    let csi = Csi::at(driver.endpoint());
    let lines = "set output records\nidentity probe\nset output csv\nset columns volume-id\nidentity probe\n\
                 set output custom-columns=ID:.volume.volume_id\ncontroller list-volumes\nset output\n\
                 vols = controller list-volumes -o name\nset output jsonpath={..volume_id}\nprint $vols\nunset output\n\
                 expect USAGE identity probe -o jsonpath={.redy}\n";
    let run = csi.input(lines).run("shell").succeeds();
    assert_eq!(
        run.stdout,
        "READY   true\nREADY\r\ntrue\r\nID\nv-1\ncustom-columns=ID:.volume.volume_id\nv-1\nv-1"
    );
}
