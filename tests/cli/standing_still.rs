//! Signals end `csi` where something stands still: a file that it reads, a program that it waits for, a pipe that nobody empties.

use crate::shell_terminal::{CTRL_C, PROMPT, prompted, scripted, shell};
use crate::support::PATIENCE;
use crate::support::executable;
use crate::support::patience::until;
use crate::support::process::{Process, ends_within};
use crate::support::program::Csi;
use crate::support::terminal::Terminal;
use crate::unread::full_pipe;
use csi_proto::place_lock::PlaceLock;
use rustix::process::{Pid, Signal, kill_process};
use rustix::termios::LocalModes;
use std::fs;
use std::os::unix::net::UnixListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::Stdio;

/// A program that nothing ends but SIGKILL, and that writes down its number.
const STUBBORN: &str = "#!/bin/sh\ntrap '' TERM INT HUP\necho $$ > started.new\nmv started.new started\n\
                        while :; do sleep 1000; done\n";

fn stubborn(csi: &Csi) {
    executable::script(&csi.home().join("stubborn"), STUBBORN);
}

/// The number of the program that has started.
fn started(csi: &Csi) -> Pid {
    let file = csi.home().join("started");
    until("the program starts", || file.exists());
    let number = fs::read_to_string(file).unwrap();
    Pid::from_raw(number.trim().parse().unwrap()).unwrap()
}

fn is_gone(program: Pid) {
    let state = format!("/proc/{}/stat", program.as_raw_nonzero());
    until("the program is gone", || {
        // Not everywhere somebody reaps it.
        fs::read_to_string(&state).map_or(true, |state| state.contains(") Z "))
    });
}

fn fifo(csi: &Csi) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let path = csi.home().join("fifo");
    rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// Waits until the process has opened a file of that name.
fn has_opened(process: Pid, name: &str) {
    let folder = format!("/proc/{}/fd", process.as_raw_nonzero());
    until("the file is opened", || {
        let opened = fs::read_dir(&folder).into_iter().flatten().flatten();
        let mut opened = opened.filter_map(|entry| fs::read_link(entry.path()).ok());
        opened.any(|file| file.file_name() == Path::new(name).file_name())
    });
}

#[test]
fn a_second_signal_ends_a_tool_that_nobody_reads() {
    for line in [
        "-e mock: sanity",
        "-e mock: bench identity probe --count 50",
        "-e mock: lifecycle",
        "-e mock: identity plugin-info",
    ] {
        let csi = Csi::new();
        let (_output, stdout) = full_pipe();
        let (_errors, stderr) = full_pipe();
        let mut command = csi.command();
        command.args(line.split(' ')).stdin(Stdio::null());
        command.stdout(stdout).stderr(stderr);
        let mut tool = command.spawn().unwrap();
        drop(command);
        let pid = Pid::from_child(&tool);
        let waits = format!("/proc/{}/wchan", pid.as_raw_nonzero());
        until("it writes", || {
            fs::read_to_string(&waits).is_ok_and(|place| place.contains("pipe_write"))
        });
        kill_process(pid, Signal::TERM).unwrap();
        kill_process(pid, Signal::INT).unwrap();
        let ended = ends_within(&tool, PATIENCE);
        tool.kill().unwrap();
        tool.wait().unwrap();
        assert!(ended, "{line}");
    }
}

#[test]
fn the_echo_comes_back_when_a_signal_ends_a_prompt() {
    for signal in [Signal::TERM, Signal::HUP] {
        let csi = Csi::at("mock:");
        let mut command = csi.command();
        command.args("controller create-volume x --secrets-prompt key".split(' '));
        let mut terminal = Terminal::start(&command, 80, 24);
        terminal.expect("key: ");
        assert!(!terminal.modes().contains(LocalModes::ECHO));
        terminal.signal(signal);
        assert_eq!(terminal.ends().code(), Some(130), "{}", terminal.all());
        assert!(terminal.modes().contains(LocalModes::ECHO));
    }
}

#[test]
fn a_signal_ends_a_script_that_waits_for_a_file() {
    for command in [
        "source fifo",
        "replay fifo",
        "controller create-volume x --request fifo",
        "controller create-volume x --params k=@fifo",
        "controller create-volume x --secrets-file fifo",
        "sanity --config fifo",
        "sanity --known-failures fifo",
    ] {
        for signal in [Signal::TERM, Signal::HUP] {
            let csi = Csi::at("mock:");
            fifo(&csi);
            let script = format!("defer print deferred; {command}");
            let mut command = csi.command();
            command.args(["shell", "-c", &script]);
            let process = Process::start(&mut command);
            has_opened(process.pid(), "fifo");
            process.signal(signal);
            let ended = process.wait(PATIENCE).unwrap_or_else(|so_far| {
                panic!("{script}: {so_far}");
            });
            assert_eq!(ended.code(), 130, "{script}");
            assert_eq!(ended.stdout, b"deferred\n", "{script}");
        }
    }
}

#[test]
fn a_signal_ends_a_script_that_waits_for_stdin_or_for_a_reader() {
    for command in [
        "controller create-volume x --request -",
        "print a > fifo",
        "print a >> fifo",
    ] {
        let csi = Csi::at("mock:");
        fifo(&csi);
        let script = format!("defer print deferred; print ready; {command}");
        let mut command = csi.command();
        command.args(["shell", "-c", &script]);
        let process = Process::start(&mut command);
        process.wait_for_output("ready\n");
        process.signal(Signal::HUP);
        // To wait for the end would end the input.
        process.wait_for_error_output("interrupted");
        let ended = process.wait(PATIENCE).unwrap_or_else(|so_far| {
            panic!("{script}: {so_far}");
        });
        assert_eq!(ended.code(), 130, "{script}");
        assert_eq!(ended.stdout, b"ready\ndeferred\n", "{script}");
    }
}

#[test]
fn what_stands_still_arrives_when_it_moves() {
    let csi = Csi::at("mock:");
    fifo(&csi);
    let mut command = csi.command();
    command.args(["shell", "-c", "source fifo; print b > fifo"]);
    let process = Process::start(&mut command);
    fs::write(csi.home().join("fifo"), "print a\n").unwrap();
    let read = fs::read_to_string(csi.home().join("fifo")).unwrap();
    assert_eq!(read, "b\n");
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!((ended.code(), &*ended.stdout), (0, &b"a\n"[..]));
    // Lines of a script, and a request between them.
    let input = "print a\nidentity probe --request -\n{}\n";
    let csi = Csi::at("mock:").input(input);
    let run = csi.run("shell -s").succeeds();
    assert!(run.stdout.starts_with("a\n"), "{run}");
}

#[test]
fn ctrl_c_ends_a_command_that_reads_the_terminal() {
    let driver = scripted();
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    for _ in 0..2 {
        shell.enter(
            "print ready; controller create-volume x --request -",
            ["\nready\n"],
        );
        shell.press(CTRL_C);
        shell.expect("interrupted");
        shell.expect("scripted.example.com> ");
    }
    // What is typed then is a line of the shell's again.
    shell.enter("print still here", ["\nstill here\n"]);
}

#[test]
fn a_script_outlives_no_program_that_ignores_signals() {
    let csi = Csi::at("mock:");
    stubborn(&csi);
    let script = "defer print deferred; print a | ./stubborn";
    let mut command = csi.command();
    command.args(["shell", "-c", script]);
    let process = Process::start(&mut command);
    let program = started(&csi);
    process.signal(Signal::TERM);
    is_gone(program);
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    assert_eq!(ended.stdout, b"deferred\n");
}

#[test]
fn a_signal_ends_the_editor_and_then_the_shell() {
    let driver = scripted();
    let csi = Csi::at(driver.endpoint()).env("EDITOR", "./stubborn");
    stubborn(&csi);
    let mut shell = prompted(shell(&csi));
    shell.enter("defer print deferred", [PROMPT]);
    shell.press("edit CreateVolume\r");
    let program = started(&csi);
    shell.signal(Signal::TERM);
    is_gone(program);
    shell.expect("\ndeferred\n");
    assert_eq!(shell.ends().code(), Some(130), "{}", shell.all());
}

#[test]
fn two_signals_leave_no_program_of_an_endpoint() {
    let csi = Csi::at("exec:./stubborn");
    stubborn(&csi);
    let mut process = csi.spawn("-t 0 identity probe");
    let program = started(&csi);
    process.signal(Signal::TERM);
    process.signal(Signal::HUP);
    process.wait_for_death();
    is_gone(program);
}

#[test]
fn a_signal_ends_what_restarts_the_driver() {
    for signal in [Signal::TERM, Signal::HUP] {
        let csi = Csi::at("mock:");
        let restart = "sleep 1000 & echo $! > new; mv new started; wait";
        let mut command = csi.command();
        command.args([
            "sanity",
            "--filter",
            "restart",
            "--restart-command",
            restart,
        ]);
        let mut process = Process::start(&mut command);
        let program = started(&csi);
        process.signal(signal);
        is_gone(program);
        process.kill();
    }
}

#[test]
fn certificates_that_stand_still_have_the_time_of_a_call() {
    let csi = Csi::at("https://127.0.0.1:1");
    fifo(&csi);
    csi.run("--cacert fifo -t 100ms identity probe")
        .says("timed out");
    csi.run("--cacert /dev/zero identity probe")
        .says("holds more than 16 MiB");
    let mut process = csi.spawn("--cacert fifo -t 0 identity probe");
    has_opened(process.pid(), "fifo");
    process.signal(Signal::HUP);
    let ended = process.wait_for_death();
    assert_eq!((ended.code(), ended.signal()), (Some(130), None));
}

#[test]
fn a_proxy_whose_client_is_gone_ends_though_the_driver_hangs() {
    let csi = Csi::new();
    let driver = UnixListener::bind(csi.home().join("s.sock")).unwrap();
    let mut command = csi.command();
    command.args(["proxy", "--stdio", "unix:s.sock"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut proxy = command.spawn().unwrap();
    let _connection = driver.accept().unwrap();
    drop((proxy.stdin.take(), proxy.stdout.take()));
    let ended = ends_within(&proxy, PATIENCE);
    proxy.kill().unwrap();
    proxy.wait().unwrap();
    assert!(ended);
}

#[test]
fn a_lock_of_the_contexts_is_not_awaited_for_ever() {
    let csi = Csi::new();
    csi.run("context add a -e mock:").succeeds();
    let path = csi.home().join("config/csi/contexts.toml");
    let lock = PlaceLock::take(&path).unwrap();
    let run = csi.run("context add b -e mock:");
    run.says("the contexts cannot be changed: process ");
    drop(lock);
    csi.run("context add b -e mock:").succeeds();
}
