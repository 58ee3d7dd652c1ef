//! `csi context`, and which driver, parameters and secrets a command has because of it.

use crate::support::program::Csi;
use crate::support::scripted::ScriptedDriver;
use csi_proto::v1;
use serde_json::json;
use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;

/// A driver of that name that makes volumes.
fn driver(name: &str) -> ScriptedDriver {
    let driver = ScriptedDriver::unix();
    driver
        .on("GetPluginInfo", json!({ "name": name }))
        .on("CreateVolume", r#"{"volume": {"volumeId": "vol-1"}}"#);
    driver
}

fn created(driver: &ScriptedDriver) -> v1::CreateVolumeRequest {
    let requests = driver.requests();
    let mut created = requests
        .iter()
        .filter(|request| request.method().name == "CreateVolume");
    created.next_back().expect("a request").decode()
}

#[test]
fn a_flag_beats_a_context_beats_a_variable_beats_the_current_context() {
    let drivers = ["flag", "named", "variable", "selected", "current"].map(driver);
    let endpoints: Vec<&str> = drivers.iter().map(ScriptedDriver::endpoint).collect();
    let csi = Csi::new();
    for (name, endpoint) in [("named", 1), ("selected", 3), ("current", 4)] {
        csi.run(&format!("context add {name} -e {}", endpoints[endpoint]))
            .succeeds();
    }
    let ask = |csi: &Csi, flags: &str| csi.run(&format!("{flags} identity plugin-info -o name"));
    ask(&csi, "").exits(2).says("--context");
    csi.run("context use current").succeeds();
    ask(&csi, "").succeeds().prints("current\n");
    let csi = csi.env("CSI_CONTEXT", "selected");
    ask(&csi, "").succeeds().prints("selected\n");
    let csi = csi.env("CSI_ENDPOINT", endpoints[2]);
    ask(&csi, "").succeeds().prints("variable\n");
    ask(&csi, "--context named").succeeds().prints("named\n");
    let flag = format!("--context named -e {}", endpoints[0]);
    ask(&csi, &flag).succeeds().prints("flag\n");
    ask(&csi, "--context nmaed")
        .exits(2)
        .says("did you mean named?");
    // Not the current context's driver, which nobody meant.
    for variable in ["CSI_ENDPOINT", "CSI_CONTEXT"] {
        let csi = Csi::new().env(variable, OsStr::from_bytes(b"unix:/\xff"));
        let problem = format!("error: {variable} is not UTF-8 text");
        ask(&csi, "").exits(2).says(&problem);
        ask(&csi, "-e mock:").succeeds();
    }
}

/// `-e "$DRIVER"` with nothing in it.
#[test]
fn an_empty_name_is_no_other_driver_s() {
    let driver = driver("own");
    let csi = Csi::new();
    csi.run(&format!("context add lab -e {}", driver.endpoint()))
        .succeeds();
    csi.run("context use lab").succeeds();
    let calls = driver.calls().len();
    let delete = |csi: &Csi, flags: &str| {
        csi.run(&format!("{flags} controller delete-volume v"))
            .exits(2);
    };
    for flags in ["-e ''", "--endpoint=", "--context ''"] {
        delete(&csi, flags);
    }
    csi.run("doctor ''").exits(2);
    csi.run("shell -c \"-e '' identity plugin-info\"").exits(2);
    let csi = csi.called("kubectl-csi");
    for flags in ["--namespace ''", "--node ''"] {
        delete(&csi, flags);
    }
    assert_eq!(driver.calls().len(), calls);
    // An empty variable is as one that is not set.
    let csi = csi.called("csi").env("CSI_ENDPOINT", "");
    let csi = csi.env("CSI_CONTEXT", "");
    csi.run("identity plugin-info -o name").succeeds();
    csi.run("shell -c 'identity plugin-info -o name'")
        .succeeds();
}

#[test]
fn what_a_context_says_of_calls_goes_to_its_own_driver() {
    let [own, other] = ["own", "other"].map(driver);
    let csi = Csi::new();
    csi.file("secrets", "password=hunter2\n");
    csi.run(&format!(
        "context add lab -e {} --cap RWX,mount --params server=a,share=b --secrets-file secrets",
        own.endpoint()
    ))
    .succeeds();
    csi.run("context use lab").succeeds();
    csi.run("controller create-volume v").succeeds();
    let request = created(&own);
    assert_eq!(request.parameters["server"], "a");
    assert_eq!(request.secrets["password"], "hunter2");
    let mode = request.volume_capabilities[0].access_mode.as_ref().unwrap();
    assert_eq!(
        mode.mode(),
        v1::volume_capability::access_mode::Mode::MultiNodeMultiWriter
    );
    csi.run("controller create-volume v --params share=c --cap RWO,mount")
        .succeeds();
    let request = created(&own);
    assert_eq!(
        (
            &*request.parameters["server"],
            &*request.parameters["share"]
        ),
        ("a", "c")
    );
    let mode = request.volume_capabilities[0].access_mode.as_ref().unwrap();
    assert_eq!(
        mode.mode(),
        v1::volume_capability::access_mode::Mode::SingleNodeWriter
    );
    // The shell shows what counts.
    let run = csi
        .run("shell -c 'set cap; set secrets-file; set cap RWO,block; set cap; unset cap; set cap'")
        .succeeds();
    let shown: Vec<&str> = run.stdout.lines().collect();
    let secrets = csi.home().join("secrets");
    let expected = [
        "RWX,mount",
        &*secrets.to_string_lossy(),
        "RWO,block",
        "RWX,mount",
    ];
    assert_eq!(shown, expected, "{run}");
    // Secrets of the environment come before those of a context that nobody named, and after those of one that was.
    let csi = csi.env("X_CSI_SECRETS", "password=other");
    csi.run("controller create-volume v").succeeds();
    assert_eq!(created(&own).secrets["password"], "other");
    csi.run("--context lab controller create-volume v")
        .succeeds();
    assert_eq!(created(&own).secrets["password"], "hunter2");
    // Another driver gets nothing of it.
    csi.run(&format!(
        "-e {} controller create-volume v",
        other.endpoint()
    ))
    .succeeds();
    let request = created(&other);
    assert!(request.parameters.is_empty(), "{request:?}");
    assert_eq!(request.secrets["password"], "other");
}

#[test]
fn load_and_changes_need_more_than_a_current_context() {
    let driver = driver("own");
    let csi = Csi::new();
    csi.run(&format!("context add prod -e {}", driver.endpoint()))
        .succeeds();
    csi.run("context use prod").succeeds();
    for tool in ["sanity", "lifecycle", "bench --count 1 identity probe"] {
        let name = tool.split(' ').next().unwrap();
        csi.run(tool)
            .exits(2)
            .says("does not take its driver from the current context alone, which is prod")
            .says(&format!("csi --context prod {name} …"));
        csi.run(&format!("shell -c '{tool}'")).exits(2);
    }
    assert!(driver.calls().is_empty(), "{:?}", driver.calls());
    driver.on("Probe", "{}");
    for flags in ["--context prod", ""] {
        let csi = Csi::new().env("CSI_CONTEXT", "prod");
        csi.run(&format!("context add prod -e {}", driver.endpoint()))
            .succeeds();
        csi.run(&format!("{flags} bench --count 1 identity probe"))
            .succeeds();
    }
}

#[test]
fn contexts_are_kept_listed_shown_and_removed() {
    let csi = Csi::new();
    csi.run("context list")
        .succeeds()
        .prints("")
        .says("no contexts");
    csi.run("context list -o json").succeeds().prints("[]\n");
    csi.run("context add a")
        .exits(2)
        .says("give its --endpoint");
    csi.run("context add 'a b' -e unix:///s")
        .exits(2)
        .says("letters, digits");
    csi.run("context add a -e unix:./s --cap nonsense")
        .exits(2)
        .says("--cap");
    csi.run("context add a -e unix:///s --secrets-file missing")
        .exits(2)
        .says("missing");
    csi.run("context add a -e unix:./s").succeeds();
    csi.run("context add a -e unix:///s")
        .exits(2)
        .says("--replace");
    csi.run("context add b -e unix:///b --cap RWX,mount --params k=v")
        .succeeds();
    let shown = csi.run("context show a -o json").succeeds().json();
    let socket = format!("unix://{}", csi.home().join("s").display());
    assert_eq!(shown["endpoint"], *socket);
    csi.run("context use b").succeeds();
    let listed = csi.run("context list").succeeds();
    let line = listed
        .stdout
        .lines()
        .find(|line| line.starts_with('*'))
        .unwrap();
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["*", "b", "unix:///b", "RWX,mount", "k=v"]
    );
    csi.run("context list -o name").succeeds().prints("a\nb\n");
    csi.run("context show").succeeds().prints(
        "name:     b\ncounts:   true\nendpoint: unix:///b\ncap:      RWX,mount\nparams:   k=v\n",
    );
    let file = csi.home().join("config/csi/contexts.toml");
    let mode = fs::metadata(&file).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    csi.run("context remove b")
        .succeeds()
        .says("was the current context");
    csi.run("context show")
        .exits(2)
        .says("no context counts here: there is no current one");
    csi.run("-e mock: context show")
        .exits(2)
        .says("no context counts here: --endpoint or CSI_ENDPOINT names the driver");
    csi.run("context use zzz").exits(2).says("there is a");
    csi.run("context use --none").succeeds();
}

#[test]
fn a_damaged_file_is_told_where_it_counts_and_nowhere_else() {
    let driver = driver("own");
    let csi = Csi::new();
    csi.run("context add a -e unix:///s").succeeds();
    let file = csi.home().join("config/csi/contexts.toml");
    fs::write(&file, "current = \"a\"\n[contexts.a]\nendpoimt = \"x\"\n").unwrap();
    csi.run("identity probe")
        .exits(2)
        .says("contexts.toml: line 3: ")
        .says("mend that line, or remove the file");
    csi.run("context add b -e unix:///s")
        .exits(2)
        .says("line 3");
    let named = format!("-e {} identity plugin-info -o name", driver.endpoint());
    csi.run(&named).succeeds().prints("own\n");
    csi.run("completions bash").succeeds();
    let csi = Csi::new().env("HOME", "nowhere").env("XDG_CONFIG_HOME", "");
    csi.run("--context a identity probe")
        .exits(2)
        .says("set HOME or XDG_CONFIG_HOME");
    csi.run("identity probe").exits(2).says("no driver named");
    csi.run(&named).succeeds();
}

#[test]
fn csc_knows_no_contexts() {
    let driver = driver("own");
    let csi = Csi::new();
    csi.run(&format!("context add a -e {}", driver.endpoint()))
        .succeeds();
    csi.run("context use a").succeeds();
    let csc = csi.called("csc");
    csc.run("identity plugin-info")
        .exits(1)
        .says("no driver named");
    csc.run("--context a identity plugin-info")
        .exits(1)
        .says("csc knows no contexts");
}

#[test]
fn names_of_contexts_are_completed() {
    let csi = Csi::new().env("COMPLETE", "fish");
    let kept = Csi::new();
    kept.run("context add prod-1 -e unix:///s").succeeds();
    let config = kept.home().join("config");
    let csi = csi.env("XDG_CONFIG_HOME", config.to_str().unwrap());
    for line in [
        "-- csi --context pr",
        "-- csi context use p",
        "-- csi context remove ",
    ] {
        let mut words: Vec<&str> = line.split(' ').collect();
        if line.ends_with(' ') {
            words.pop();
            words.push("");
        }
        let run = csi.run_args(words);
        assert!(run.stdout.contains("prod-1\tunix:///s\n"), "{line}\n{run}");
    }
}

#[test]
fn a_session_has_the_context_until_a_line_names_another_driver() {
    let [own, other] = ["own", "other"].map(driver);
    let csi = Csi::new();
    csi.run(&format!(
        "context add lab -e {} --params server=a",
        own.endpoint()
    ))
    .succeeds();
    csi.run(&format!("context add far -e {}", other.endpoint()))
        .succeeds();
    let script = format!(
        "--context lab shell -c 'identity plugin-info -o name; -e {0} identity plugin-info -o name; \
         --context far identity plugin-info -o name; controller create-volume v -o name; set endpoint {0}; \
         controller create-volume v -o name; unset endpoint; identity plugin-info -o name'",
        other.endpoint()
    );
    csi.run(&script)
        .succeeds()
        .prints("own\nother\nother\nvol-1\nvol-1\nown\n");
    assert_eq!(created(&own).parameters["server"], "a");
    assert!(created(&other).parameters.is_empty());
    // A session goes from one to the other, with all that belongs to it; one that is not there changes nothing.
    let script = "shell --keep-going -c 'connect lab; connect far; controller create-volume w -o name; identity plugin-info -o name; \
                  connect nowhere; identity plugin-info -o name; \\c lab; identity plugin-info -o name'";
    csi.run(script)
        .exits(2)
        .says("there is no context \"nowhere\"; there is far, lab")
        .prints("vol-1\nother\nother\nown\n");
    assert!(created(&other).parameters.is_empty());
}

#[test]
fn a_context_gets_another_name_and_the_one_that_counts_is_named() {
    let csi = Csi::new();
    csi.run("context current")
        .exits(2)
        .says("no context counts");
    csi.run("context add prod -e mock:").succeeds();
    csi.run("context add lab -e mock:").succeeds();
    csi.run("context use prod").succeeds();
    csi.run("context current").succeeds().prints("prod\n");
    csi.run("context current -o json")
        .succeeds()
        .prints("{\n  \"name\": \"prod\"\n}\n");
    csi.run("--context lab context current")
        .succeeds()
        .prints("lab\n");
    csi.run("--context prdo context current")
        .exits(2)
        .says("did you mean prod?");
    csi.run("context rename prod lab")
        .exits(2)
        .says("there is a context lab already");
    csi.run("context rename nope new").exits(2).says("nope");
    csi.run("context rename prod a/b").exits(2);
    csi.run("context rename prod new").succeeds();
    // The current one stays the current one.
    csi.run("context current").succeeds().prints("new\n");
    csi.run("context list -o name")
        .succeeds()
        .prints("lab\nnew\n");
    csi.run("context show new").succeeds();
    let line = |name: &str, counts: bool| {
        format!("{{\"name\":\"{name}\",\"counts\":{counts},\"endpoint\":\"mock:\"}}\n")
    };
    csi.run("context ls -o jsonl")
        .succeeds()
        .prints(&(line("lab", false) + &line("new", true)));
    csi.run("context show new -o jsonl")
        .succeeds()
        .prints(&line("new", true));
    csi.run("context list --no-headers")
        .succeeds()
        .prints("    lab   mock:\n*   new   mock:\n");
    // As kubectl and Unix have them; of other words no command of a driver is meant.
    csi.run("context delete lab").succeeds();
    csi.run("context rm new").succeeds();
    let unknown = csi.run("context unset x").exits(2);
    assert!(!unknown.stderr.contains("controller"), "{unknown}");
}

#[test]
fn a_context_that_no_call_could_use_is_not_kept() {
    let csi = Csi::new();
    csi.run("context add a -e unix:///s --cacert ca.pem")
        .exits(2)
        .says("certificates and server names are for https:// endpoints");
    csi.run("context list -o name").succeeds().prints("");
    csi.run("context add a -e https://h --cacert ca.pem")
        .succeeds();
}
