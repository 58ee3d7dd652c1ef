//! `csi sanity … -- COMMAND`: the run starts the driver, restarts it when it dies, and ends it.

use super::{arguments, is_clean};
use crate::sanity_commands::{shell, shown_commands};
use crate::support::PATIENCE;
use crate::support::driver;
use crate::support::patience::until;
use crate::support::process::Process;
use crate::support::program::{BINARY, Csi, Output};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use std::fs;
use std::time::{Duration, Instant};

/// A driver that notes the number of its process, and then is the mock, with its state in a folder.
fn mock(csi: &Csi, more: &str) -> Vec<String> {
    let home = csi.home().display();
    let line = format!(
        "echo $$ >>{home}/pids; exec {BINARY} mock --endpoint $CSI_ENDPOINT --dir {home}/mock {more}"
    );
    words(["sh", "-c", &line])
}

fn words<'a>(words: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    words.into_iter().map(str::to_owned).collect()
}

/// The arguments of a run that starts a driver.
fn with_driver(csi: &Csi, more: &str, driver: Vec<String>) -> Vec<String> {
    let line = arguments(csi, more);
    let mut all = words(line.split_whitespace());
    all.push("--".to_owned());
    all.extend(driver);
    all
}

fn sanity(csi: &Csi, more: &str, driver: Vec<String>) -> Output {
    csi.run_args(with_driver(csi, more, driver))
}

/// The processes that the driver has had, none of which runs any more.
fn ended(csi: &Csi) -> usize {
    let pids = fs::read_to_string(csi.home().join("pids")).unwrap();
    // One that was killed is there until it has had a processor, and after that until somebody has reaped it.
    until("the driver's processes have ended", || {
        let mut stats = pids
            .lines()
            .map(|pid| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default());
        stats.all(|stat| stat.is_empty() || stat.contains(") Z "))
    });
    is_clean(csi);
    let left = fs::read_dir(csi.home()).unwrap();
    let mut left = left.map(|entry| entry.unwrap().file_name());
    assert!(!left.any(|name| name.to_string_lossy().starts_with("csi-driver-")));
    pids.lines().count()
}

#[test]
fn it_is_started_restarted_and_ended() {
    let csi = Csi::new();
    let more = "--filter identity/probe --filter lifecycle/restart";
    let run = sanity(&csi, more, mock(&csi, "")).succeeds();
    let told = "\nok lifecycle/restart-between-any-two-steps ";
    assert!(run.stdout.contains(told), "{run}");
    assert!(
        run.stdout.starts_with("mock.csi.internal 1.0.0 at sh -c "),
        "{run}"
    );
    assert!(ended(&csi) > 8);
    let more = "--filter controller/delete-volume/is-idempotent --restart-between-steps";
    sanity(&csi, more, mock(&csi, "")).succeeds();
    ended(&csi);
}

#[test]
fn one_that_never_gets_ready_is_waited_for_at_its_start_and_after_one_restart() {
    let csi = Csi::new();
    let more = "--wait 3s --filter lifecycle/restart-between-any-two-steps --filter controller/delete-volume/is-idempotent --restart-between-steps";
    let run = |more_of_mock| {
        let begun = Instant::now();
        sanity(&csi, more, mock(&csi, more_of_mock)).succeeds();
        (begun.elapsed(), ended(&csi))
    };
    let (least, before) = run("");
    let (took, all) = run("--fail probe=FAILED_PRECONDITION");
    // Were it waited for each time, there would be as many waits of three seconds as starts. What a run takes without is of the same minute.
    let starts = all - before;
    let bound = 3 * least + Duration::from_secs(3) * starts as u32 / 2;
    assert!(starts > 12 && took < bound, "{took:?} for {starts} starts");
}

#[test]
fn the_endpoint_stands_in_the_arguments_of_the_nfs_driver_too() {
    let csi = Csi::new();
    let home = csi.home().display();
    fs::create_dir(csi.home().join("share")).unwrap();
    let line = format!(
        "{} --endpoint={{}} --node-id node-1 --work-dir {home}/work --local-share localhost:/share={home}/share",
        driver::binary().display()
    );
    let more = "--params server=localhost,share=/share --filter controller/create-volume --filter lifecycle/restart-in";
    let run = sanity(&csi, more, words(line.split_whitespace())).succeeds();
    assert!(
        run.stdout.contains("\nok lifecycle/restart-in-mid-call "),
        "{run}"
    );
    assert!(!run.stdout.contains("\n-- lifecycle"), "{run}");
    is_clean(&csi);
}

#[test]
fn one_that_goes_away_without_calls_too_is_accused_in_no_call() {
    let csi = Csi::new();
    let home = csi.home().display();
    // Once the cases have begun it never lives as long as a call takes, and not equally long each time.
    let line = format!(
        "{BINARY} mock --endpoint $CSI_ENDPOINT --dir {home}/mock --pace 1h & {BINARY} --wait 1m identity probe; \
         until [ -e {home}/go ]; do sleep 0.05; done; \
         if mkdir {home}/long; then sleep 0.9; else rmdir {home}/long; sleep 0.4; fi; kill -9 $!; exit 7"
    );
    let more = "--filter make-and-remove --filter stays-there --cap 1,mount --volume-size 1Mi --jobs 1 -o jsonl";
    let mut command = csi.command();
    command.args(with_driver(&csi, more, words(["sh", "-c", &line])));
    let process = Process::start(&mut command);
    process.wait_for_output("\"cases\":");
    csi.file("go", "");
    let ended = process.wait(PATIENCE).unwrap();
    let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
    assert_eq!(ended.code(), 3, "{stdout}");
    for (case, outcome) in [
        ("lifecycle/make-and-remove", "skipped"),
        ("protocol/driver-stays-there", "failed"),
    ] {
        let told = format!("\"name\":\"{case}\",\"outcome\":\"{outcome}\"");
        assert!(stdout.contains(&told), "{stdout}");
    }
}

#[test]
fn one_that_dies_is_started_again_and_its_last_words_are_told() {
    let csi = Csi::new();
    let home = csi.home().display();
    // The first one is killed in a call, however late.
    let line = format!(
        "[ -e {home}/pid ] && pace=1ms; {BINARY} mock --endpoint $CSI_ENDPOINT --dir {home}/mock --pace ${{pace:-1h}} & echo $! >{home}/pid; wait $!; echo 'panic: on fire' >&2; echo 'goroutine 1' >&2; exit 7"
    );
    let more = "--filter controller/create-volume/is-idempotent --filter stays-there --cap 1,mount --volume-size 1Mi --jobs 1 -o jsonl";
    let arguments = with_driver(&csi, more, words(["sh", "-c", &line]));
    let mut command = csi.command();
    command.args(arguments);
    let process = Process::start(&mut command);
    process.wait_for_output("\"cases\":");
    let pid = || fs::read_to_string(csi.home().join("pid")).unwrap_or_default();
    until("the driver's number is there", || pid().ends_with('\n'));
    let pid = pid();
    let pid = Pid::from_raw(pid.trim().parse().unwrap()).unwrap();
    kill_process(pid, Signal::KILL).unwrap();
    let ended = process.wait(PATIENCE).unwrap();
    let stdout = String::from_utf8_lossy(&ended.stdout).into_owned();
    // Nobody but the run starts it: it ended, whoever is to blame.
    assert_eq!(ended.code(), 3, "{stdout}");
    assert!(stdout.contains("\"failed\":1"), "{stdout}");
    let told = "\"actual\":\"it went away: it exited with code 7";
    assert!(stdout.contains(told), "{stdout}");
    assert!(
        stdout.contains("\"stderr\":[\"panic: on fire\",\"goroutine 1\"]"),
        "{stdout}"
    );
    let explained = csi
        .run("sanity explain protocol/driver-stays-there")
        .succeeds();
    let told = "   the driver's stderr ended with:\n     panic: on fire\n     goroutine 1\n";
    assert!(explained.stdout.contains(told), "{explained}");
    is_clean(&csi);
}

#[test]
fn one_that_is_killed_where_it_is_restarted_fails_no_case_and_makes_the_run_incomplete() {
    let csi = Csi::new();
    let home = csi.home().display();
    let line = format!(
        "echo $$ >>{home}/pids; [ $(wc -l <{home}/pids) != 2 ] || kill -9 $$; exec {BINARY} mock --endpoint $CSI_ENDPOINT --dir {home}/mock"
    );
    let more = "--filter list-volumes/with-an-unknown-token --restart-between-steps";
    let run = sanity(&csi, more, words(["sh", "-c", &line])).exits(4);
    let told = "the driver ended by itself 1 time: --filter protocol/driver-stays-there tells";
    assert!(run.stdout.contains(told), "{run}");
    assert!(run.stdout.contains("\n1 passed "), "{run}");
    assert!(ended(&csi) > 2);
}

#[test]
fn a_signal_ends_it_and_all_that_it_has_started() {
    for signal in [Signal::INT, Signal::TERM] {
        let csi = Csi::new();
        let home = csi.home().display();
        // It ignores the signal, and so does its child.
        let line = format!(
            "trap '' TERM INT; echo $$ >>{home}/pids; sleep 1000 & echo $! >>{home}/pids; exec {BINARY} mock --endpoint $CSI_ENDPOINT --pace 200ms"
        );
        // All cases, of which much is left when it is met.
        let mut command = csi.command();
        command.args(with_driver(&csi, "", words(["sh", "-c", &line])));
        let process = Process::start(&mut command);
        process.wait_for_output("ok ");
        process.signal(signal);
        assert_eq!(process.wait(PATIENCE).unwrap().code(), 130);
        assert_eq!(ended(&csi), 2);
    }
}

#[test]
fn one_that_does_not_come_up_is_an_error_with_its_words() {
    let csi = Csi::new();
    let run = sanity(
        &csi,
        "",
        words(["sh", "-c", "echo no such flag >&2; exit 4"]),
    )
    .exits(64 + 14);
    run.says("the driver ended before it answered")
        .says("the command sh exited with code 4")
        .says("stderr: no such flag");
    let run = sanity(&csi, "--wait 200ms", words(["sleep", "1000"])).exits(64 + 14);
    run.says("waiting 200ms for the driver")
        .says("{} in an argument is replaced by the endpoint");
    let run = sanity(&csi, "", words(["/no/such/driver"])).exits(1);
    run.says("/no/such/driver cannot be started");
    for (more, told) in [
        (
            "-e /x",
            "-- COMMAND starts a driver, and --endpoint or --context names one that runs",
        ),
        (
            "--restart-command r",
            "-- COMMAND restarts the driver that it starts",
        ),
    ] {
        sanity(&csi, more, words(["true"]))
            .exits(2)
            .says(told)
            .says("give one of them");
    }
    is_clean(&csi);
}

#[test]
fn it_stands_in_a_file_too_and_a_driver_that_is_named_counts_more() {
    let csi = Csi::new();
    let command = format!("command = ['{BINARY}', 'mock', '--endpoint', '{{}}']\n");
    let config = csi.file(
        "sanity.toml",
        format!("{command}filter = 'identity/probe'\n"),
    );
    let line = format!("sanity --config {}", config.display());
    let run = csi.run(&line).succeeds();
    assert!(
        run.stdout.contains(" mock --endpoint '{}': 2 cases"),
        "{run}"
    );
    let run = csi.run(&format!("-e mock:named {line}")).succeeds();
    assert!(run.stdout.contains(" at mock:named: 2 cases"), "{run}");
    let both = csi.file("both.toml", format!("{command}endpoint = '/x'\n"));
    let run = csi
        .run(&format!("sanity --config {}", both.display()))
        .exits(2);
    run.says("--config: command starts a driver, and endpoint names one that runs");
}

#[test]
fn the_lines_of_a_failure_start_it_and_end_it() {
    let csi = Csi::new();
    let case = "lifecycle/restart-in-mid-call";
    let more = format!("--filter {case} --cap 1,mount");
    let state = csi.home().join("state").display().to_string();
    let driver = words([
        BINARY,
        "mock",
        "--endpoint",
        "{}",
        "--dir",
        &state,
        "--defect",
        "CreateVolumeRepeatFails",
    ]);
    sanity(&csi, &more, driver).exits(3);
    let lines = shown_commands(&csi, case);
    let restart = "stop_driver; start_driver".to_owned();
    assert!(lines.contains(&restart), "{lines:#?}");
    let again = shell(&(lines.join("\n") + "\necho $driver"), &csi);
    let stdout = String::from_utf8_lossy(&again.stdout).into_owned();
    let pid = stdout.lines().last().unwrap().parse().unwrap();
    assert!(test_kill_process(Pid::from_raw(pid).unwrap()).is_err());
    let stderr = String::from_utf8_lossy(&again.stderr).into_owned();
    // It was started twice, and every call reached it.
    let starts = stderr.matches("serves on unix:").count();
    assert_eq!(starts, 2, "{lines:#?}\n{stderr}");
    assert!(!stderr.contains("no connection"), "{lines:#?}\n{stderr}");
}
