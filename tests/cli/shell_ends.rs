//! How `csi shell` ends, and where its lines do: signals at any moment, in the background too, and output without a line break.

use crate::shell_terminal::{PROMPT, prompted, prompted_by, scripted, shell, volumes};
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::terminal::Terminal;
use rustix::process::Signal;
use std::os::unix::process::ExitStatusExt as _;
use std::process::Command;

const CTRL_Z: &str = "\x1a";

/// A shell of csi in a shell of the system, which has control of jobs, and in which the deletion of a volume is deferred.
fn job() -> (ScriptedDriver, Terminal) {
    let driver = scripted();
    let done = Reply::json("{}");
    driver.on("DeleteVolume", done);
    driver.on("GetCapacity", Reply::never());
    let csi = Csi::at(driver.endpoint()).command();
    let mut shell = Command::new("bash");
    shell.args(["--norc", "--noprofile", "-i"]);
    for (name, value) in csi.get_envs() {
        if let Some(value) = value {
            shell.env(name, value);
        }
    }
    shell.env("PS1", "job control: ").env("TERM", "xterm");
    shell.env("PATH", "/usr/bin:/bin");
    let mut terminal = Terminal::start(&shell, 80, 24);
    terminal.expect("job control: ");
    terminal.press(&format!("{} shell\r", csi.get_program().display()));
    prompted_by(&mut terminal, "scripted.example.com");
    terminal.enter("defer controller delete-volume a", [PROMPT]);
    (driver, terminal)
}

/// Waits until a job of [`job`] has ended. bash's `wait -f` cannot be asked how: of a job that stops and ends in one moment it says how
/// it stopped.
fn has_ended(terminal: &mut Terminal) {
    for shown in ["a deleted\n", "error: interrupted\n", "no more\n"] {
        terminal.expect(shown);
    }
}

#[test]
fn what_was_deferred_runs_when_a_signal_ends_a_shell_in_the_background() {
    // At the prompt the terminal stops it again as soon as it goes on.
    let (_driver, mut terminal) = job();
    terminal.press(CTRL_Z);
    terminal.expect("Stopped");
    terminal.enter("bg; wait %1; jobs", ["Stopped"]);
    terminal.press("kill %1; wait -f %1; echo no more\r");
    has_ended(&mut terminal);
    // Whether the call's end or the shell's is seen first must not matter.
    for _ in 0..8 {
        let (driver, mut terminal) = job();
        terminal.press("controller get-capacity\r");
        driver.wait_for_call("GetCapacity");
        terminal.press(CTRL_Z);
        terminal.expect("Stopped");
        terminal.press("bg; kill %1; wait -f %1; echo no more\r");
        has_ended(&mut terminal);
    }
}

#[test]
fn what_was_deferred_arrives_in_its_file_when_the_terminal_is_gone() {
    for _ in 0..8 {
        let driver = scripted();
        driver.on("ListVolumes", volumes(&["vol-1"]));
        let csi = Csi::at(driver.endpoint());
        let file = csi.home().join("listed");
        let mut shell = prompted(shell(&csi));
        let line = format!("defer list-volumes -o name > {}", file.display());
        shell.enter(&line, [PROMPT]);
        shell.hang_up();
        let _ = shell.ends();
        assert_eq!(std::fs::read_to_string(file).unwrap(), "vol-1\n");
    }
}

#[test]
fn a_signal_between_two_calls_ends_a_script() {
    let driver = ScriptedDriver::unix();
    driver.on("Probe", "{}");
    let csi = Csi::at(driver.endpoint());
    for signal in ["TERM", "INT", "HUP"] {
        // A program that ends by itself, and one that does not. Only a terminal sends its Ctrl-C to the programs, too.
        let programs = match signal {
            "INT" => vec![format!("sh -c 'kill -{signal} $PPID'")],
            _ => vec![
                format!("sh -c 'kill -{signal} $PPID'"),
                format!("sh -c 'kill -{signal} $PPID; exec sleep 1000'"),
            ],
        };
        for program in programs {
            let script = format!("defer print deferred; print a | {program}; print no");
            let run = csi.run_args(["shell", "-c", &script]).exits(130);
            assert_eq!(run.stdout, "deferred\n", "{signal} {program}\n{run}");
            run.says("interrupted");
        }
    }
    // Also where the program has taken it for its own end, and the next one would be waited for.
    let script = "print a | sh -c 'kill -TERM $PPID'; print no | sleep 1000";
    csi.run_args(["shell", "--keep-going", "-c", script])
        .exits(130);
    // Nothing of a line follows either, and no other turn of a command.
    let script = "defer print deferred; repeat 1000 source kill.csi; print no";
    csi.file("kill.csi", "print a | sh -c 'cat; kill -TERM $PPID'\n");
    let run = csi
        .run_args(["shell", "--keep-going", "-c", script])
        .exits(130);
    assert_eq!(run.stdout, "a\ndeferred\n", "{run}");
}

#[test]
fn a_script_that_is_ended_does_what_was_deferred_until_it_is_ended_again() {
    let driver = ScriptedDriver::unix();
    let done = || Reply::json("{}");
    driver.on("GetCapacity", Reply::never());
    // The signals that follow the first change nothing: a closed terminal sends two.
    driver.on("DeleteVolume", done());
    let csi = Csi::at(driver.endpoint());
    let script = "defer controller delete-volume a; defer print b | sh -c 'kill -HUP $PPID; cat'; \
                  print a | sh -c 'kill -HUP $PPID'; print no";
    let run = csi.run_args(["shell", "-c", script]).exits(130);
    assert_eq!(run.stdout, "b\na deleted\n", "{run}");
    // A call that has no answer is ended by the second SIGTERM.
    let driver = ScriptedDriver::unix();
    driver.on("GetCapacity", Reply::never());
    driver.on("DeleteVolume", Reply::never());
    let csi = Csi::at(driver.endpoint());
    let mut shell = csi.spawn("shell");
    shell.type_in("defer controller delete-volume a\ncontroller get-capacity\n");
    driver.wait_for_call("GetCapacity");
    shell.signal(Signal::TERM);
    driver.wait_for_call("DeleteVolume");
    shell.signal(Signal::TERM);
    assert_eq!(
        shell.wait_for_death().signal(),
        Some(15),
        "{}",
        shell.so_far()
    );
}

#[test]
fn what_ends_without_a_line_break_is_seen() {
    let driver = scripted();
    driver.on("ListVolumes", volumes(&["vol-1"]));
    driver.on("Probe", "{}");
    let mut shell = prompted(shell(&Csi::at(driver.endpoint())));
    shell.enter(
        "controller list-volumes -o jsonpath={.entries[0].volume.volumeId}",
        ["\nvol-1\nscripted.example.com> "],
    );
    // What went elsewhere was not shown.
    shell.enter(
        "controller list-volumes -o jsonpath={.entries[0].volume.volumeId} > /dev/null",
        ["> /dev/null\nscripted.example.com> "],
    );
    // Of what a program has shown nothing is known: blanks fill the line, and the prompt begins the one that they reach.
    shell.press("print x | tr -d '\\n'\r");
    let blanks = " ".repeat(80);
    shell.expect("\nx\nscripted.example.com> ");
    assert!(
        shell.raw().contains(&format!("x{blanks}\r\x1b[K")),
        "{}",
        shell.raw()
    );
    shell.enter("identity probe -o name", ["\ntrue\nscripted.example.com> "]);
}
