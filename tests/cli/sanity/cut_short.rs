//! Runs of `csi sanity` that end early: somebody stops them, or the driver goes away.

use super::{arguments, is_clean, left_in, sanity};
use crate::support::PATIENCE;
use crate::support::driver::Driver;
use crate::support::patience::{received, until};
use crate::support::process::Process;
use crate::support::program::Csi;
use crate::support::reference::ReferenceDriver;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_cli::sanity::{Observer, Settings, run_watched};
use csi_mock::Options;
use csi_proto::v1;
use rustix::process::Signal;
use std::sync::mpsc;
use std::time::Duration;
use tonic::Code;

/// A driver that takes its time, so that a run can be met in the middle.
fn slow() -> ReferenceDriver {
    ReferenceDriver::start(Options {
        pace: Duration::from_millis(150),
        ..Options::default()
    })
}

/// A run of `csi sanity` that has made something and is about to make more.
fn in_the_middle(csi: &Csi, driver: &ReferenceDriver) -> Process {
    // All cases, of which much is left when it is met.
    let process = csi.spawn(&arguments(csi, ""));
    process.wait_for_output("ok ");
    // The driver is in this process and tells nobody of what it has.
    until("four things are there", || driver.left_behind().len() >= 4);
    process
}

#[test]
fn a_signal_in_the_middle_leaves_nothing() {
    for signal in [Signal::INT, Signal::TERM] {
        let driver = slow();
        let csi = Csi::at(&driver.endpoint());
        let process = in_the_middle(&csi, &driver);
        process.signal(signal);
        let ended = process.wait(PATIENCE).unwrap();
        assert_eq!(ended.code(), 130);
        let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
        assert!(stdout.contains("ended early: interrupted\n"), "{stdout}");
        assert_eq!(driver.left_behind(), [""; 0], "{stdout}");
        is_clean(&csi);
    }
}

#[test]
fn what_a_killed_run_left_is_taken_down_by_the_next() {
    let driver = slow();
    let csi = Csi::at(&driver.endpoint());
    let mut process = in_the_middle(&csi, &driver);
    // It stays where it is, however long the others take, and has more than its eight calls can be about to take down.
    until("it has made much and stands still", || {
        process.signal(Signal::STOP);
        let has_made_much = driver.left_behind().len() > 8;
        if !has_made_much {
            process.signal(Signal::CONT);
        }
        has_made_much
    });
    // Another run at the same time leaves it alone: it lives.
    sanity(&csi, "--filter identity/probe").succeeds();
    assert_eq!(left_in(csi.home()).len(), 1);
    process.kill();
    sanity(&csi, "--filter identity/probe --keep-leftovers").succeeds();
    // A call that was under way may still have ended in the driver.
    assert_ne!(driver.left_behind(), [""; 0]);
    let run = sanity(&csi, "--filter identity/probe").succeeds();
    assert!(
        run.stderr
            .contains("note: took down what an earlier run left ("),
        "{run}"
    );
    assert_eq!(driver.left_behind(), [""; 0], "{run}");
    is_clean(&csi);
}

/// The notes of a run.
#[derive(Default)]
struct Notes(Vec<String>);

impl Observer for Notes {
    fn note(&mut self, text: &str) {
        self.0.push(text.to_owned());
    }
}

#[test]
fn leftovers_that_do_not_go_hold_up_no_run() {
    let driver = crate::lifecycle::thorough_driver();
    driver.on("DeleteVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let mut process = csi.spawn(&arguments(&csi, "--filter create-volume/is-idempotent"));
    driver.wait_for_call("DeleteVolume");
    process.kill();
    let left = left_in(csi.home());
    assert_eq!(left.len(), 1);

    let limit = Settings::default().leftovers_limit;
    assert_eq!(limit, Duration::from_secs(10), "docs/sanity.md tells it");
    let mut settings = Settings::of(driver.endpoint());
    settings.mount_parent = Some(csi.home().to_owned());
    settings.filter = vec!["identity/plugin-info/names".to_owned()];
    // Else it tries to make a volume for block, and to delete that.
    settings.capabilities = vec![v1::VolumeCapability::default()];
    settings.leftovers_limit = Duration::from_millis(200);
    let mut notes = Notes::default();
    let (_asks, asked) = tokio::sync::watch::channel(0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = runtime.block_on(run_watched(settings, &mut notes, asked));
    assert!(report.unwrap().is_success());
    let folder = left[0].display();
    let told = [
        format!("taking down what an earlier run left (1 in {folder}); --keep-leftovers leaves it"),
        format!(
            "left by an earlier run ({folder}): the rest is left to the next run: it took too long"
        ),
    ];
    assert_eq!(notes.0, told);
    // Another folder has it now, and there is one still.
    assert_eq!(left_in(csi.home()).len(), 1);
    assert_ne!(left_in(csi.home()), left);

    driver.on("DeleteVolume", "{}");
    let run = sanity(&csi, "--filter identity/plugin-info/names").succeeds();
    assert!(run.stderr.contains("note: took down what"), "{run}");
    is_clean(&csi);
}

#[test]
fn a_creation_that_the_driver_refuses_for_good_leaves_nothing_to_try_again() {
    let driver = crate::lifecycle::thorough_driver();
    // Which says nothing about what is left, and is what the driver answers when it is asked once more.
    driver.on("CreateVolume", Reply::error(Code::Internal, "on fire"));
    let csi = Csi::at(driver.endpoint());
    let run = sanity(&csi, "--filter create-volume/is-idempotent").exits(3);
    assert!(!run.stderr.contains("left"), "{run}");
    is_clean(&csi);
}

#[test]
fn a_driver_that_ends_in_the_middle_ends_the_run() {
    let mut driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let more = "--params server=localhost,share=/share --filter controller --filter !secrets";
    let process = csi.spawn(&arguments(&csi, &format!("{more} --jobs 2")));
    process.wait_for_output("ok ");
    driver.kill();
    let ended = process.wait(2 * PATIENCE).unwrap();
    let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
    // What it was doing may have led to that, or not.
    assert_eq!(ended.code(), 4, "{stdout}");
    let early = stdout
        .lines()
        .find(|line| line.starts_with("ended early: "));
    let early = early.unwrap_or_default();
    assert!(
        early.contains("the driver does not answer any more: "),
        "{stdout}"
    );
    assert!(early.contains("; it went away during "), "{stdout}");
    assert!(early.contains(" of controller/"), "{stdout}");
    assert!(stdout.contains("\nincomplete: "), "{stdout}");
    assert!(stdout.contains(" 0 failed, "), "{stdout}");
    driver.restart();
    sanity(&csi, "--filter identity/probe").succeeds();
    is_clean(&csi);
    let listed = csi.run("controller list-volumes -o name").succeeds();
    assert_eq!(listed.stdout, "");
}

/// The answer of a driver to GetPluginInfo.
pub(super) fn info() -> Reply {
    Reply::json(r#"{"name": "mortal.example.org", "vendorVersion": "1"}"#)
}

#[test]
fn a_driver_that_goes_away_during_a_call_is_not_taken_for_a_wrong_answer() {
    let driver = ScriptedDriver::unix();
    let gone = Reply::disconnect;
    // The first time others could have run beside it.
    let replies = [info(), gone(), gone(), gone(), info()];
    driver.on_each("GetPluginInfo", replies);
    driver.on("Probe", "{}");
    let csi = Csi::at(driver.endpoint());
    let run = sanity(&csi, "-o github --filter plugin-info/names-the-driver").exits(3);
    assert!(
        run.stdout
            .contains("expected: the driver is there to answer GetPluginInfo {}\n"),
        "{run}"
    );
    let lost = format!(
        "but: it went away: UNAVAILABLE: {} closed the connection\n",
        driver.endpoint()
    );
    assert!(run.stdout.contains(&lost), "{run}");
    assert!(run.stdout.contains("  # UNAVAILABLE\n"), "{run}");
}

#[test]
fn a_driver_that_goes_away_once_interrupts_a_case_that_runs_again() {
    let driver = ScriptedDriver::unix();
    driver.on_each("GetPluginInfo", [info(), Reply::disconnect(), info()]);
    driver.on("Probe", "{}");
    let csi = Csi::at(driver.endpoint());
    let filter = "--filter plugin-info/names-the-driver --filter driver-stays-there --strict";
    let run = sanity(&csi, filter).succeeds();
    let told = "the driver went away in identity/plugin-info/names-the-driver (GetPluginInfo), which runs again alone";
    assert!(run.stderr.contains(told), "{run}");
    assert!(
        run.stdout
            .contains("\nok identity/plugin-info/names-the-driver "),
        "{run}"
    );
    // Somebody may have restarted it, which breaks no recommendation.
    assert!(
        run.stdout.contains("\n?? protocol/driver-stays-there "),
        "{run}"
    );
    let suspect = "has led to that alone: GetPluginInfo of identity/plugin-info/names-the-driver\n";
    assert!(run.stdout.contains(suspect), "{run}");
}

#[test]
fn a_driver_that_goes_away_in_a_question_beside_the_steps_has_failed_no_case() {
    let driver = ScriptedDriver::unix();
    // The third is the one that goes to the controller's endpoint.
    driver.on_each(
        "GetPluginInfo",
        [info(), info(), Reply::disconnect(), info()],
    );
    driver.on("GetPluginCapabilities", with_a_controller());
    driver.on("Probe", "{}");
    driver.on("ControllerGetCapabilities", "{}");
    let csi = Csi::at(driver.endpoint());
    let case = "identity/plugin-info/is-the-same-at-the-controller";
    let run = sanity(&csi, &format!("--filter {case}")).succeeds();
    let told = format!("the driver went away in {case} (GetPluginInfo), which runs again alone");
    assert!(run.stderr.contains(&told), "{run}");
    assert!(run.stdout.contains(&format!("\nok {case} ")), "{run}");
}

/// The answer to GetPluginCapabilities of a driver with a controller.
pub(super) fn with_a_controller() -> Reply {
    Reply::json(r#"{"capabilities": [{"service": {"type": "CONTROLLER_SERVICE"}}]}"#)
}

/// The answer to ControllerGetCapabilities of a driver that lists its volumes.
pub(super) fn with_lists() -> Reply {
    Reply::capabilities("LIST_VOLUMES")
}

#[test]
fn a_case_that_fails_while_the_driver_goes_away_in_another_runs_again() {
    let (node, controller) = (ScriptedDriver::unix(), ScriptedDriver::unix());
    for driver in [&node, &controller] {
        driver.on("GetPluginInfo", info());
        driver.on("GetPluginCapabilities", with_a_controller());
        driver.on("Probe", "{}");
    }
    controller.on("ControllerGetCapabilities", with_lists());
    let (listed, is_listing) = mpsc::channel();
    let (probed, is_lost) = mpsc::channel();
    // One end goes away while the other one answers, which answers once the loss is known: the driver is probed then.
    let mut calls = 0;
    node.answer("GetPluginInfo", move |_| {
        calls += 1;
        if calls != 2 {
            return info();
        }
        received("the list is asked for", &is_listing);
        Reply::disconnect()
    });
    node.answer("Probe", move |_| {
        let _ = probed.send(());
        Reply::json("{}")
    });
    let mut calls = 0;
    controller.answer("ListVolumes", move |_| {
        calls += 1;
        if calls != 2 {
            return Reply::json("{}");
        }
        listed.send(()).unwrap();
        received("the loss is known", &is_lost);
        Reply::error(Code::Internal, "everything is new to me")
    });
    let csi = Csi::at(node.endpoint());
    let filters = "--filter plugin-info/names-the-driver --filter list-volumes/lists";
    let more = format!("{filters} --controller-endpoint {}", controller.endpoint());
    let run = sanity(&csi, &more).succeeds();
    assert!(
        run.stdout.contains("\nok controller/list-volumes/lists "),
        "{run}"
    );
    assert_eq!(
        run.stderr.matches("which runs again alone").count(),
        1,
        "{run}"
    );
}

#[test]
fn a_clean_up_that_is_cut_off_accuses_nobody_unless_it_is_cut_off_again() {
    let case = "controller/create-volume/is-idempotent";
    let deleted = || Reply::json("{}");
    let more = format!(
        "--volume-size 1Gi --cap SINGLE_NODE_WRITER,mount --filter {case} --filter stays-there"
    );
    let driver = crate::lifecycle::thorough_driver();
    // The first case of all, which deletes its volume itself, is met twice.
    let gone = Reply::disconnect;
    driver.on_each("DeleteVolume", [deleted(), gone(), deleted()]);
    let csi = Csi::at(driver.endpoint());
    let run = sanity(&csi, &more).succeeds();
    let told = format!("the driver went away in {case} (DeleteVolume), which runs again alone");
    assert!(run.stderr.contains(&told), "{run}");
    assert!(run.stdout.contains(&format!("\nok {case} ")), "{run}");
    is_clean(&csi);

    let driver = crate::lifecycle::thorough_driver();
    driver.on_each(
        "DeleteVolume",
        [
            deleted(),
            gone(),
            deleted(),
            gone(),
            deleted(),
            gone(),
            deleted(),
        ],
    );
    let csi = Csi::at(driver.endpoint());
    let run = sanity(&csi, &more).exits(3);
    let told = "expected: the driver is there to answer DeleteVolume {";
    assert!(run.stdout.contains(told), "{run}");
    assert!(run.stdout.contains(&format!("\nfailed: {case}\n")), "{run}");
    is_clean(&csi);
}

#[test]
fn a_question_that_is_not_answered_is_one_failure_or_none() {
    let csi = Csi::new();
    for (code, exit, failed) in [("INTERNAL", 3, 1), ("UNAVAILABLE", 4, 0)] {
        let endpoint = format!("unix://{}/{code}", csi.home().display());
        let _driver = csi.spawn(&format!("-e {endpoint} mock --fail GetPluginInfo={code}"));
        let filters = "--filter identity --filter protocol --filter replies/get-plugin";
        let more = format!("{filters} --cap SINGLE_NODE_WRITER,mount --wait 20s");
        let run = csi
            .run(&format!("-e {endpoint} {}", arguments(&csi, &more)))
            .exits(exit);
        let counted = format!(" {failed} failed, ");
        assert!(run.stdout.contains(&counted), "{run}");
        let first = "\nfailed: identity/plugin-info/names-the-driver\n";
        assert_eq!(run.stdout.matches(first).count(), failed, "{run}");
    }
}

#[test]
fn an_rpc_that_never_answers_ok_is_one_failure() {
    let csi = Csi::new();
    for (name, how) in [
        ("hangs", "--drop CreateSnapshot:9999"),
        ("fails", "--fail CreateSnapshot=INTERNAL"),
    ] {
        let endpoint = format!("unix://{}/{name}", csi.home().display());
        let _driver = csi.spawn(&format!("-e {endpoint} mock {how}"));
        let filters = "--filter create-snapshot/is --filter create-snapshot/w --filter create-snapshot/b --filter of-a-snapshot";
        let one_failed = |timeout| {
            let more = format!("{filters} --cap SINGLE_NODE_WRITER,mount --wait 20s -t {timeout}");
            let run = csi.run(&format!("-e {endpoint} {}", arguments(&csi, &more)));
            let first = "\nfailed: controller/create-snapshot/is-idempotent\n";
            let has = |part| run.stdout.contains(part);
            let is_so = run.code == 3 && has(" 1 failed, ") && has(first);
            if !is_so {
                eprintln!("{timeout}: {run}");
            }
            is_so
        };
        // On a busy machine other calls take longer than a short deadline.
        assert!(["300ms", "3s", "20s"].into_iter().any(one_failed), "{name}");
    }
}

#[test]
fn out_of_range_is_no_answer_where_not_found_is_demanded() {
    let csi = Csi::new();
    let endpoint = format!("unix://{}/sized", csi.home().display());
    let _driver = csi.spawn(&format!(
        "-e {endpoint} mock --fail ControllerExpandVolume=OUT_OF_RANGE"
    ));
    let more = "--filter controller/expand/ --cap SINGLE_NODE_WRITER,mount --wait 20s";
    let run = csi
        .run(&format!("-e {endpoint} {}", arguments(&csi, more)))
        .exits(3);
    let failed = "\nfailed: controller/expand/of-a-deleted-volume\n";
    assert!(run.stdout.contains(failed), "{run}");
}

#[test]
fn what_is_left_makes_a_run_incomplete() {
    let driver = crate::lifecycle::thorough_driver();
    let deleted = Reply::json("{}");
    // It works until the case comes.
    let unavailable = Reply::error(Code::Unavailable, "not now");
    driver.on_each("DeleteVolume", [deleted, unavailable]);
    let csi = Csi::at(driver.endpoint());
    let more =
        "--filter create-volume/is-idempotent --cap SINGLE_NODE_WRITER,mount --volume-size 1Mi";
    let run = sanity(&csi, more).exits(4);
    let told = " could not be taken down\n";
    assert!(run.stdout.contains(told), "{run}");
    assert!(!run.stdout.contains("never worked"), "{run}");
}

#[test]
fn an_rpc_that_hangs_has_less_time_until_it_answers() {
    let no_more_are_left = |limit: &&str| {
        let driver = crate::lifecycle::thorough_driver();
        // The third in a row that takes something down, one case after the other, and the one within a case.
        let lost = std::iter::repeat_with(Reply::never).take(4);
        let deleted = Reply::json("{}");
        driver.on_each("DeleteVolume", lost.chain([deleted]));
        let csi = Csi::at(driver.endpoint());
        let more = format!(
            "--filter create-volume/ --cap SINGLE_NODE_WRITER,mount --jobs 1 --timeout {limit} --volume-size 1Mi"
        );
        let run = sanity(&csi, &more).exits(3);
        let left = run.stderr.matches("left: ").count();
        if left > 4 {
            eprintln!("{run}");
        }
        left <= 4
    };
    // On a busy machine other calls take longer than a short deadline.
    assert!(["1s", "5s", "20s"].iter().any(no_more_are_left));
}

#[test]
fn what_was_made_while_sizes_were_tried_is_taken_down_later() {
    let driver = crate::lifecycle::thorough_driver();
    let created = Reply::json(r#"{"volume": {"volumeId": "vol-7"}}"#);
    driver.on_each("CreateVolume", [Reply::disconnect(), created]);
    let csi = Csi::at(driver.endpoint());
    sanity(&csi, "--filter create-volume/is-idempotent");
    let requests = driver.requests().into_iter();
    let created = requests.filter(|one| one.method().name == "CreateVolume");
    let names: Vec<_> = created
        .map(|one| one.decode::<v1::CreateVolumeRequest>().name)
        .collect();
    // It is asked for once more, to learn its id, and no other try had its name.
    let again = names.iter().filter(|name| **name == names[0]).count();
    assert_eq!(again, 2, "{names:?}");
    is_clean(&csi);
}

#[test]
fn a_signal_before_the_cases_ends_the_run_at_once() {
    for (rpc, before) in [("GetPluginInfo", 0), ("ListVolumes", 1)] {
        let driver = crate::lifecycle::driver_with("CREATE_DELETE_VOLUME LIST_VOLUMES", "");
        driver.on(rpc, Reply::never());
        let csi = Csi::at(driver.endpoint());
        let more = "--filter create-volume/is-idempotent --timeout 1h";
        let process = csi.spawn(&arguments(&csi, more));
        driver.wait_for_call(rpc);
        assert_eq!(left_in(csi.home()).len(), before);
        process.signal(Signal::INT);
        assert_eq!(process.wait(PATIENCE).unwrap().code(), 130);
        is_clean(&csi);
    }
}

#[test]
fn a_driver_that_dies_after_an_answer_is_accused_of_that_once() {
    let driver = crate::lifecycle::thorough_driver();
    let created = Reply::json(r#"{"volume": {"volumeId": "vol-7", "capacityBytes": 1048576}}"#);
    driver.on("CreateVolume", created.then_gone());
    // It is under way when the driver goes, where nobody waits before it: the first time for certain, also where the driver had
    // gone before.
    let deleted = Reply::json("{}").after(Duration::from_millis(200));
    driver.on_each("DeleteVolume", [Reply::disconnect(), deleted]);
    let csi = Csi::at(driver.endpoint());
    let more = "--filter make-and-remove --filter delete-volume/is-idempotent --filter stays-there --cap 1,mount --volume-size 1Mi --jobs 1 -o json";
    let json = sanity(&csi, more).exits(3).json();
    let results = json["results"].as_array().unwrap();
    let told = &results[0]["failure"]["expected"];
    assert_eq!(
        told, "the driver is there after its answer to CreateVolume",
        "{json}"
    );
    // Another call that is under way then has nothing to do with it.
    assert_eq!(results[1]["restsOn"], "lifecycle/make-and-remove", "{json}");
    assert_eq!(results[2]["outcome"], "passed", "{json}");
}

#[test]
fn a_call_that_kills_the_driver_is_named_and_the_run_goes_on() {
    let driver = crate::lifecycle::thorough_driver();
    driver.on("CreateVolume", Reply::disconnect());
    let csi = Csi::at(driver.endpoint());
    let filter = "--filter create-volume/is-idempotent --filter probe/answers --filter stays-there";
    let run = sanity(&csi, filter).exits(3);
    let told = "expected: the driver is there to answer CreateVolume {\"name\":\"csi-sanity-";
    assert!(run.stdout.contains(told), "{run}");
    assert!(!run.stdout.contains("ended early"), "{run}");
    let run = sanity(&csi, &format!("{filter} -o json")).exits(3).json();
    let outcome = |name: &str| {
        let mut results = run["results"].as_array().unwrap().iter();
        results.find(|one| one["name"] == name).unwrap()["outcome"].clone()
    };
    assert_eq!(outcome("lifecycle/make-and-remove"), "failed");
    assert_eq!(outcome("controller/create-volume/is-idempotent"), "skipped");
    assert_eq!(outcome("identity/probe/answers-ready"), "passed");
    assert_eq!(outcome("protocol/driver-stays-there"), "passed");
    is_clean(&csi);
}
