//! What `csi sanity` makes of the failures of a run: said once, grouped, compared with a list of known ones, annotated.

use super::{arguments, is_clean, sanity};
use crate::support::PATIENCE;
use crate::support::process::Process;
use crate::support::program::Csi;
use crate::support::reference::ReferenceDriver;
use crate::support::scripted::Reply;
use csi_mock::{Defect, Options};
use csi_proto::v1;
use rustix::process::geteuid;
use serde_json::json;
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use tonic::Code;

#[test]
fn what_does_not_work_at_all_is_said_once_and_soon() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let embedded = Csi::new();
    let folder = embedded.home().join("embedded").display().to_string();
    let embedded = embedded.env("CSI_ENDPOINT", format!("embedded:{folder}"));
    for csi in [&csi, &embedded] {
        let run = sanity(csi, "--params bogus=1").exits(3);
        let told = "but: it answered INVALID_ARGUMENT: the parameter \"bogus\"";
        assert_eq!(run.stdout.matches(told).count(), 1, "{run}");
        let failed = "\nfailed: lifecycle/make-and-remove\nhint: --params, ";
        assert!(run.stdout.contains(failed), "{run}");
        assert!(run.stdout.lines().count() < 20, "{run}");
    }
    // One that is refused is not tried again.
    let refuses = crate::lifecycle::thorough_driver();
    let refusal = Reply::error(Code::InvalidArgument, "not like this");
    refuses.on("CreateVolume", refusal);
    let more =
        "--filter create-volume/is-idempotent --cap SINGLE_NODE_WRITER,mount --volume-size 1Mi";
    sanity(&Csi::at(refuses.endpoint()), more).exits(3);
    let asked = refuses.calls().into_iter();
    assert_eq!(asked.filter(|rpc| rpc == "CreateVolume").count(), 1);
    let run = sanity(
        &csi,
        "--params bogus=1 -o json --filter create-volume/is-idempotent",
    );
    let json = run.exits(3).json();
    let reason = json["results"][1]["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("CreateVolume does not work here: it answered "),
        "{json}"
    );
    is_clean(&csi);
}

#[test]
fn a_call_that_the_driver_says_goes_on_is_made_again() {
    for code in [Code::Aborted, Code::DeadlineExceeded, Code::Unavailable] {
        let driver = crate::lifecycle::thorough_driver();
        let mut asked = BTreeSet::new();
        driver.answer("CreateVolume", move |request| {
            let request: v1::CreateVolumeRequest = request.decode();
            let volume = json!({"volumeId": request.name, "capacityBytes": 1 << 20});
            match asked.insert(request.name) {
                true => Reply::error(code, "it goes on"),
                false => Reply::json(json!({ "volume": volume })),
            }
        });
        let mut deleted = BTreeSet::new();
        driver.answer("DeleteVolume", move |request| {
            let request: v1::DeleteVolumeRequest = request.decode();
            match deleted.insert(request.volume_id) {
                true => Reply::error(code, "it goes on"),
                false => Reply::json("{}"),
            }
        });
        let csi = Csi::at(driver.endpoint());
        let case = "controller/create-volume/different-ones-at-the-same-time";
        let more = format!("--cap SINGLE_NODE_WRITER,mount --volume-size 1Mi --filter {case}");
        let run = sanity(&csi, &more).succeeds();
        assert!(run.stdout.contains(&format!("\nok {case} ")), "{run}");
        is_clean(&csi);
    }
}

#[test]
fn values_in_failures_are_words() {
    for (defect, case, told) in [
        (
            Defect::ControllerCapabilitiesChange,
            "controller/capabilities/are-constant",
            "but: CLONE_VOLUME, CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, ",
        ),
        (
            Defect::VolumeContextLostOnRepeat,
            "controller/create-volume/context-is-constant",
            "expected: the volume context of the first answer, medium=\"memory\"\n           but: none\n",
        ),
    ] {
        let driver = ReferenceDriver::start(Options::default().with(defect));
        let run = sanity(&Csi::at(&driver.endpoint()), &format!("--filter {case}")).exits(3);
        assert!(run.stdout.contains(told), "{run}");
    }
}

#[test]
fn failures_are_grouped_by_their_cause() {
    let driver = ReferenceDriver::start(Options::default().with(Defect::PublishRepeatFails));
    let csi = Csi::at(&driver.endpoint());
    let parent = driver.workplace();
    let line = format!(
        "sanity --mount-parent {} --filter node/publish/is-idempotent --html p.html",
        parent.display()
    );
    let run = csi.run(&line).exits(3);
    let page = fs::read_to_string(csi.home().join("p.html")).unwrap();
    assert!(page.contains("<b>2</b> failures are alike:"), "{page}");
    let summary = "\nfailed: node/publish/is-idempotent\nfailed: node/publish/is-idempotent@block\n  these 2 alike: NodePublishVolume answers OK, but it answered ";
    assert!(run.stdout.contains(summary), "{run}");
}

#[test]
fn a_case_that_fails_at_the_rule_of_a_failed_one_is_not_judged() {
    let repeated = "controller/create-volume/is-idempotent";
    let other = "controller/create-volume/context-is-constant";
    let reason = format!("not judged: it rests on {repeated}, which failed");
    let driver = ReferenceDriver::start(Options::default().with(Defect::CreateVolumeRepeatFails));
    let csi = Csi::at(&driver.endpoint());
    let both = format!("--cap SINGLE_NODE_WRITER,mount --filter {repeated} --filter {other}");
    let run = sanity(&csi, &both).exits(3);
    assert!(
        run.stdout.contains(&format!(" skipped: {reason}\n")),
        "{run}"
    );
    let end = format!(
        "\nfailed: {repeated}\n1 case rests on a failed one and was not judged\n0 passed (0 with warnings), 1 failed, 1 skipped in "
    );
    assert!(run.stdout.contains(&end), "{run}");
    let json = sanity(&csi, &format!("{both} -o json")).exits(3).json();
    let result = &json["results"][1];
    assert_eq!(result["name"], other, "{json}");
    assert_eq!(result["outcome"], "skipped", "{json}");
    assert_eq!(result["reason"], reason, "{json}");
    assert_eq!(result["restsOn"], repeated, "{json}");
    assert!(result["commands"].is_null(), "{json}");
    let run = sanity(&csi, &format!("{both} -o github")).exits(3);
    assert_eq!(run.stdout.matches("::error ").count(), 1, "{run}");
    let junit = csi.home().join("junit.xml");
    sanity(&csi, &format!("{both} --junit {}", junit.display())).exits(3);
    let document = fs::read_to_string(junit).unwrap();
    assert!(document.contains("failures=\"1\""), "{document}");
    assert!(
        document.contains(&format!("<skipped message=\"{reason}\"/>")),
        "{document}"
    );
    // Where one is known to fail, nothing is known of the other one, unless the list names it, too. It is not mended by that.
    let list = csi.home().join("known");
    let known = format!("{both} --known-failures {}", list.display());
    fs::write(&list, format!("{repeated}\n")).unwrap();
    let run = sanity(&csi, &known).exits(4);
    let told = "\nknown failures keep 1 case from being judged that the list does not name: --write-known-failures names them\n";
    assert!(run.stdout.contains(told), "{run}");
    sanity(
        &csi,
        &format!("{both} --write-known-failures {}", list.display()),
    )
    .exits(3);
    let written = fs::read_to_string(&list).unwrap();
    assert!(
        written.contains(&format!("\n{other}  # {reason}\n")),
        "{written}"
    );
    let run = sanity(&csi, &known).succeeds();
    assert!(!run.stdout.contains("mended: "), "{run}");
    // Alone it has nothing to rest on.
    let alone = format!("--cap SINGLE_NODE_WRITER,mount --filter {other}");
    let run = sanity(&csi, &alone).exits(3);
    assert!(
        run.stdout.contains(&format!("\nfailed: {other}\n")),
        "{run}"
    );
    is_clean(&csi);
}

#[test]
fn known_failures_do_not_fail_a_run_and_mended_ones_are_told() {
    let failing = "controller/create-volume/without-name";
    let driver = ReferenceDriver::start(Options::default().with(Defect::CreateVolumeWithoutName));
    let csi = Csi::at(&driver.endpoint());
    let list = csi.home().join("known").display().to_string();
    let line = "--filter create-volume/without --filter probe";
    let run = sanity(&csi, &format!("{line} --write-known-failures {list}")).exits(3);
    let told = format!("\nfailed: {failing}\n");
    assert!(run.stdout.contains(&told), "{run}");
    let written = fs::read_to_string(&list).unwrap();
    let expected = "\ncontroller/create-volume/without-name  # CreateVolume answers INVALID_ARGUMENT, but it answered OK\n";
    assert!(written.contains(expected), "{written}");
    let known = format!("{line} --known-failures {list}");
    let run = sanity(&csi, &known).succeeds();
    assert!(
        run.stdout
            .contains("\n~~ controller/create-volume/without-name "),
        "{run}"
    );
    assert!(run.stdout.contains(", 1 failed (1 known), "), "{run}");
    // Where no run comes of it there is no empty list.
    let away = "-e unix:away.sock sanity --write-known-failures fresh --junit fresh.xml";
    csi.run(away).exits(78);
    for file in ["fresh", "fresh.xml"] {
        assert!(!csi.home().join(file).exists(), "{file}");
    }
    sanity(&csi, &format!("{line} --write-known-failures /dev/full"))
        .exits(1)
        .says("--write-known-failures: /dev/full cannot be written");
    sanity(&csi, &format!("{known} --junit junit.xml --html p.html")).succeeds();
    sanity(
        &csi,
        &format!("{known} --junit junit.xml --html ./junit.xml"),
    )
    .exits(2)
    .says("junit.xml is named twice");
    let junit = fs::read_to_string(csi.home().join("junit.xml")).unwrap();
    assert!(
        junit.contains(" failures=\"0\" errors=\"0\" skipped=\"1\" "),
        "{junit}"
    );
    let told = "<skipped message=\"known to fail: expected: CreateVolume answers INVALID_ARGUMENT, but it answered OK\"/>";
    assert!(junit.contains(told), "{junit}");
    let mended = ReferenceDriver::start(Options::default());
    let run = sanity(&Csi::at(&mended.endpoint()), &known).succeeds();
    assert!(
        run.stdout.contains(&format!("\nmended: {failing}: ")),
        "{run}"
    );
    let other = ReferenceDriver::start(Options::default().with(Defect::ProbeFails));
    let run = sanity(&Csi::at(&other.endpoint()), &known).exits(3);
    assert!(
        run.stdout
            .contains("\nfailed: identity/probe/answers-ready\n"),
        "{run}"
    );
    let wrong = csi
        .file("wrong", "# none\nno-such-case\n")
        .display()
        .to_string();
    let run = sanity(&csi, &format!("--known-failures {wrong}")).exits(2);
    run.says("wrong:2: no-such-case is no name of a case");
    // One that has gone, or is misspelt, ends no run.
    let gone = csi.file("gone", format!("{failing}\na/case/of-before\n"));
    let known = format!("{line} --known-failures {}", gone.display());
    let run = sanity(&csi, &known).succeeds();
    assert!(run.stdout.contains(", 1 failed (1 known), "), "{run}");
    let told =
        "gone:2: this version has no case a/case/of-before: take the line out, or mend the name";
    assert!(run.stderr.contains(told), "{run}");
}

#[test]
fn a_known_failure_of_what_most_cases_need_makes_a_run_incomplete_unless_the_list_names_them_too() {
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let broken = "lifecycle/make-and-remove";
    let list = csi.file("known", format!("{broken}\n"));
    let list = list.display();
    let cases = "controller/create-volume/is-idempotent --filter replies/create-volume";
    let line = format!(
        "--params bogus=1 --cap SINGLE_NODE_WRITER,mount --filter {broken} --filter {cases}"
    );
    let run = sanity(&csi, &format!("{line} --known-failures {list} -o json")).exits(4);
    let json = run.json();
    // What would judge the replies of such a call knows nothing either.
    for (result, told) in [
        (1, "CreateVolume does not work here: "),
        (2, "no call of CreateVolume "),
    ] {
        let result = &json["results"][result];
        assert_eq!(result["restsOn"], broken, "{json}");
        assert!(
            result["reason"].as_str().unwrap().starts_with(told),
            "{json}"
        );
    }
    let told = "known failures keep 2 cases from being judged that the list does not name: --write-known-failures names them";
    assert_eq!(json["summary"]["incomplete"][0], told, "{json}");
    sanity(&csi, &format!("{line} --write-known-failures {list}")).exits(3);
    let run = sanity(&csi, &format!("{line} --known-failures {list}")).succeeds();
    let told = "\n2 cases rest on failed ones and were not judged\n";
    assert!(run.stdout.contains(told), "{run}");
}

#[test]
fn github_gets_annotations() {
    let driver = ReferenceDriver::start(Options::default().with(Defect::CreateVolumeWithoutName));
    let csi = Csi::at(&driver.endpoint());
    let run = sanity(&csi, "-o github --filter create-volume/without-name").exits(3);
    let annotation = "\n::error title=controller/create-volume/without-name::CreateVolume without a name answers INVALID_ARGUMENT. Expected: CreateVolume answers INVALID_ARGUMENT, but it answered OK\n";
    assert!(run.stdout.contains(annotation), "{run}");
    // With --strict a warning is a failure, and said once.
    let options = Options::default().with(Defect::ContentSourceNotAnswered);
    let warned = ReferenceDriver::start(options);
    let filter = "--filter controller/create-volume/from-volume --filter replies/create-volume";
    for (strict, level) in [("", "::warning "), ("--strict", "::error ")] {
        let run = sanity(
            &Csi::at(&warned.endpoint()),
            &format!("-o github {filter} {strict}"),
        );
        assert_eq!(run.stdout.matches("\n::").count(), 1, "{run}");
        assert!(run.stdout.contains(level), "{run}");
    }
    let run = csi.run("-o github identity probe").exits(2);
    run.says("-o github has no meaning here");
}

#[test]
fn the_names_of_cases_are_completed() {
    let csi = Csi::new().env("COMPLETE", "fish");
    let line = ["--", "csi", "sanity", "--filter", "identity/probe/a"];
    let run = csi.run_args(line).succeeds();
    assert!(
        run.stdout.starts_with("identity/probe/answers-ready\t"),
        "{run}"
    );
}

/// As one who is in the group of a driver's socket.
#[test]
fn a_user_who_may_not_use_the_volumes_accuses_nobody() {
    // Whoever runs the tests may.
    if !geteuid().is_root() {
        return;
    }
    let driver = ReferenceDriver::start(Options::default());
    let csi = Csi::at(&driver.endpoint());
    let socket = Path::new(driver.endpoint().trim_start_matches("unix://")).to_owned();
    for open in [
        &socket,
        &socket.parent().unwrap().to_owned(),
        &csi.home().to_owned(),
    ] {
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
    }
    let mut command = csi.command();
    let more = "--filter lifecycle/ --filter snapshot --jobs 1";
    command
        .args(arguments(&csi, more).split(' '))
        .uid(65_534)
        .gid(65_534);
    let ended = Process::start(&mut command).wait(6 * PATIENCE).unwrap();
    let page = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.code(), 4, "{page}");
    let told = "this user may not use what the driver publishes: run it as root";
    assert!(page.contains(told) && !page.contains("failed:"), "{page}");
}
