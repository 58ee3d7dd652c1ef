//! Completion in the shells of the system: real bash, zsh and fish, in a terminal, with the ids of a running driver.

use crate::support::driver::Driver;
use crate::support::patience::until;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use crate::support::terminal::Terminal;
use csi_proto::v1;
use std::process::Command;

/// A shell with the completions of `name`, whose prompt is `$> `.
fn shell(program: &str, csi: &Csi, name: &str) -> Terminal {
    let (arguments, load): (&[&str], String) = match program {
        "bash" => (
            &["--norc", "--noprofile", "-i"],
            format!("PS1='$> '; source <({name} completions bash); echo loaded"),
        ),
        "zsh" => (
            &["-f", "-i"],
            format!(
                "PS1='$> '; autoload -U compinit; compinit -u -D; source <({name} completions zsh); echo loaded"
            ),
        ),
        _ => (
            &["--no-config", "-i"],
            format!(
                "function fish_prompt; echo '$> '; end; {name} completions fish | source; echo loaded"
            ),
        ),
    };
    let mut command = Command::new(program);
    for (name, value) in csi.command().get_envs() {
        if let Some(value) = value {
            command.env(name, value);
        }
    }
    command
        .args(arguments)
        .env("PATH", format!("{}:/usr/bin:/bin", csi.home().display()))
        .env("TERM", "xterm")
        .current_dir(csi.home());
    let mut shell = Terminal::start(&command, 200, 24);
    shell.press(&format!("{load}\r"));
    // The echo of the line holds the word as well.
    shell.expect("echo loaded");
    shell.expect("\nloaded");
    shell.expect("$> ");
    shell
}

/// These are packages of Debian; `tests/run` installs them.
const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

#[test]
fn the_driver_s_ids_complete_in_every_shell() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let create = "controller create-volume pvc-1 --cap 5,mount --params server=localhost,share=/share -o name";
    let id = csi.run(create).succeeds().value().to_owned();
    let csi = Csi::new().called("csi");
    for program in SHELLS {
        let mut shell = shell(program, &csi, "csi");
        // A completion has a limit of its own, which a busy machine may pass: then there is no id.
        until("the command arrives with the id", || {
            shell.press(&format!("csi -e {} contr\texpand-\t\t", driver.endpoint()));
            shell.press(" --req-bytes 1 -o name\r");
            let shown = shell.expect("$> ");
            shown.contains(&format!("\n{id}"))
        });
    }
}

/// A list of one volume, and of another that no shell can name.
fn volume(id: &str) -> Reply {
    Reply::volumes([id, &format!("{id}\ty\0z\n")], "")
}

#[test]
fn ids_of_any_letters_arrive_from_every_shell() {
    let plain = [
        ("a:b#c", ""),
        ("two words", ""),
        ("it's", ""),
        ("a=b:c", ""),
        ("$HOME;x", ""),
    ];
    let begun = [
        ("it's", "it\\'"),
        ("it's", "'it"),
        ("it's", "\"it"),
        ("a:b c", "'a:"),
        ("a:b $c", "\"a:b"),
        ("a b:c d", "a\\ b:"),
    ];
    let driver = ScriptedDriver::unix();
    let csi = Csi::at(driver.endpoint()).called("kubectl-csi");
    for program in SHELLS {
        let mut shell = shell(program, &csi, "kubectl-csi");
        let begun = begun.iter().filter(|_| program == "bash");
        for (id, begun) in plain.iter().chain(begun) {
            driver.on("ListVolumes", volume(id));
            // A completion has a limit of its own, which a busy machine may pass: then there is no id.
            until("the command arrives with an id", || {
                let before = driver.requests().len();
                shell.press(&format!("kubectl-csi controller rm {begun}\t"));
                driver.wait_for_requests(before + 1);
                shell.enter("", ["$> "]);
                let last = driver.requests().pop();
                last.is_some_and(|last| last.path.ends_with("/DeleteVolume"))
            });
            let request = driver.requests().pop().unwrap();
            let request = request.decode::<v1::DeleteVolumeRequest>();
            assert_eq!(request.volume_id, *id, "{program}: {begun}");
        }
    }
}

#[test]
fn columns_formats_and_defects_complete_in_every_shell() {
    let driver = ScriptedDriver::unix();
    driver.on("ListVolumes", r#"{"entries": [{}]}"#);
    let csi = Csi::at(driver.endpoint()).called("csi");
    for program in SHELLS {
        let mut shell = shell(program, &csi, "csi");
        shell.enter(
            "csi controller list-volumes --columns capacity,cond\t",
            ["\nCAPACITY   CONDITION", "$> "],
        );
        // The usual one comes first, whatever more may follow behind others.
        if program == "zsh" {
            shell.enter(
                "csi controller list-volumes -o \t\t",
                ["\nVOLUME ID", "$> "],
            );
        }
        // More follows in the same word.
        shell.enter(
            "csi controller list-volumes -o custom-col\tX:.volume.volume_id",
            ["\nX", "$> "],
        );
        shell.press("csi mock --list-defects --defect ListVolumesLosesEnt\t");
        shell.expect("ListVolumesLosesEntries");
    }
}

#[test]
fn a_context_completes_whatever_the_name_of_its_driver() {
    let csi = Csi::new().called("csi");
    csi.run("context add dirctx -e unix:///s/").succeeds();
    for program in SHELLS {
        let mut shell = shell(program, &csi, "csi");
        shell.enter("csi context show dirc\t", ["\nname:     dirctx"]);
    }
}

#[test]
fn zsh_completes_at_the_first_tab_of_a_new_shell() {
    let csi = Csi::new().called("csi");
    let script = csi.run("completions zsh").succeeds().stdout;
    csi.file("_csi", script);
    let mut command = Command::new("zsh");
    let set = csi.command();
    let set = set
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    command
        .envs(set)
        .args(["-f", "-i"])
        .env("PATH", format!("{}:/usr/bin:/bin", csi.home().display()))
        .env("TERM", "xterm")
        .current_dir(csi.home());
    let mut shell = Terminal::start(&command, 200, 24);
    shell.press(
        "PS1='$> '; fpath=($PWD $fpath); autoload -U compinit; compinit -u -D; echo loaded\r",
    );
    shell.expect("echo loaded");
    shell.expect("\nloaded");
    shell.expect("$> ");
    shell.press("csi controller create-vol\t");
    shell.expect("create-volume");
}

#[test]
fn a_driver_that_does_not_answer_is_not_waited_for_and_costs_no_word() {
    let silent = ScriptedDriver::silent();
    let csi = Csi::at(silent.endpoint()).env("COMPLETE", "fish");
    // Completion has a bound of its own: with the line's it would take an hour.
    let line = ["csi", "-t", "1h", "controller", "delete-volume", ""];
    let run = csi.run_args(std::iter::once("--").chain(line));
    assert_eq!(run.succeeds().stderr, "");
    let nobody = Csi::at("/nowhere.sock").env("COMPLETE", "fish");
    let run = nobody.run_args(["--", "csi", "controller", "delete-volume", ""]);
    let run = run.succeeds().prints("");
    assert_eq!(run.stderr, "");
}

#[test]
fn kubectl_is_answered_in_its_own_form() {
    let csi = Csi::new().called("kubectl-csi").env("COMPLETE", "kubectl");
    let run = csi.run_args(["--", "kubectl-csi", "controller", "delete-v"]);
    let run = run.succeeds();
    assert!(run.stdout.starts_with("delete-volume\t"), "{run}");
    assert!(run.stdout.ends_with("\n:4\n"), "{run}");
}
