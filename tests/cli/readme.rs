//! The README is true: its five minutes run as recorded, and it names every command, alias and global flag.

use crate::support::program::Csi;
use crate::support::terminal::Terminal;
use std::path::Path;
use std::process::Command;

fn readme() -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    std::fs::read_to_string(path).unwrap()
}

/// The commands of the session that is recorded under a heading, with the lines that each printed.
fn session(heading: &str) -> Vec<(String, Vec<String>)> {
    let text = readme();
    let section = text.split(heading).nth(1).unwrap();
    let block = section.split("```console\n").nth(1).unwrap();
    let block = block.split("```").next().unwrap();
    let mut session: Vec<(String, Vec<String>)> = Vec::new();
    for line in block.lines() {
        match (line.strip_prefix("$ "), session.last_mut()) {
            (Some(command), _) => session.push((command.to_owned(), Vec::new())),
            (None, Some((_, output))) => output.push(line.to_owned()),
            (None, None) => panic!("output before a command: {line}"),
        }
    }
    session
}

/// What stays the same from run to run: words without the tokens of ids, times, sizes and counts of this machine.
fn stable(line: &str) -> Vec<String> {
    let varies = |word: &str| {
        word.chars().any(|letter| letter.is_ascii_digit())
            && !word.starts_with("1Gi")
            && (!word.contains("pvc-1") || word.contains('#'))
    };
    let words = line.split_whitespace().filter(|word| !varies(word));
    words.map(str::to_owned).collect()
}

#[test]
fn the_five_minutes_run_as_recorded() {
    runs_as_recorded("## Five minutes\n", 10, stable);
}

#[test]
fn the_loads_run_as_recorded() {
    // How many bars there are, and how long, is a matter of the machine.
    runs_as_recorded("## A driver under load", 3, |line| match line {
        line if line.contains(['█', '▉', '▊', '▋', '▌', '▍', '▎', '▏']) => {
            Vec::new()
        }
        line => stable(line),
    });
}

#[test]
fn the_sanity_cases_run_as_recorded() {
    runs_as_recorded("## Does a driver keep the contract?\n", 2, stable);
}

#[test]
fn the_conversation_is_seen_as_recorded() {
    runs_as_recorded("## Look inside the conversation", 10, stable);
}

/// Runs the session below a heading, which has more than `least` commands, and compares what is left of each line.
fn runs_as_recorded(heading: &str, least: usize, stable: impl Fn(&str) -> Vec<String>) {
    let csi = Csi::new();
    let home = csi.home();
    let binary = Path::new(env!("CARGO_BIN_EXE_csi")).parent().unwrap();
    let session = session(heading);
    assert!(session.len() > least);
    let mut script = String::new();
    for (command, _) in &session {
        // Every test has its own paths; a mark tells the outputs apart.
        let command = command.replace("/tmp/", &format!("{}/", home.display()));
        script.push_str(&format!(
            "{command}\nset -- $?\necho '=== end'\n(exit $1)\n"
        ));
    }
    let run = Command::new("sh")
        .args(["-c", &format!("exec 2>&1\n{script}")])
        .env_clear()
        .env("HOME", home)
        .env("TMPDIR", home)
        .env("PATH", format!("{}:/usr/bin:/bin", binary.display()))
        .current_dir(home)
        .output()
        .unwrap();
    let text = String::from_utf8(run.stdout).unwrap();
    let outputs: Vec<&str> = text.split("=== end\n").collect();
    let shape = |lines: &mut dyn Iterator<Item = &str>| -> Vec<Vec<String>> {
        let lines = lines
            .filter(|line| !line.starts_with("note: "))
            .map(&stable);
        lines.filter(|words| !words.is_empty()).collect()
    };
    for ((command, recorded), output) in session.iter().zip(outputs) {
        let printed = shape(&mut output.lines());
        let recorded = shape(&mut recorded.iter().map(String::as_str));
        assert_eq!(printed, recorded, "$ {command}\n{text}");
    }
}

#[test]
fn the_five_minutes_in_the_shell_run_as_recorded() {
    let text = readme();
    let section = text.split("## Five minutes in the shell").nth(1).unwrap();
    let block = section
        .split("```console\n$ csi -e embedded: shell\n")
        .nth(1);
    let block = block.unwrap().split("\n```").next().unwrap();
    let prompt = "nfs.csi.internal> ";
    let csi = Csi::new();
    let mut command = csi.command();
    command
        .args(["-e", "embedded:", "shell"])
        .env("TERM", "xterm");
    let mut terminal = Terminal::start(&command, 130, 24);
    terminal.expect(prompt);
    let lines = block.split(prompt).skip(1);
    assert!(lines.clone().count() > 10);
    for recorded in lines {
        let (line, recorded) = recorded.split_once('\n').unwrap_or((recorded, ""));
        terminal.press(&format!("{line}\r"));
        if line == "exit" {
            break;
        }
        let shown = terminal.expect(&format!("\n{prompt}"));
        // What was typed stands before the first line's end.
        let (_, printed) = shown.split_once('\n').unwrap_or_default();
        let printed: Vec<Vec<String>> = printed.lines().map(stable).collect();
        let recorded: Vec<Vec<String>> = recorded.trim_end().lines().map(stable).collect();
        assert_eq!(printed, recorded, "{line}\n{}", terminal.all());
    }
    assert!(terminal.ends().success());
}

#[test]
fn every_command_of_the_shell_is_named() {
    let readme = readme();
    let help = Csi::new().run_args(["shell", "-c", "help"]).succeeds();
    let commands = help
        .stdout
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "));
    for command in commands.filter_map(|line| line.split_whitespace().next()) {
        let named = [' ', '`', ',']
            .iter()
            .any(|end| readme.contains(&format!("`{command}{end}")));
        assert!(named || command.len() < 3 || command == "help", "{command}");
    }
}

#[test]
fn every_command_alias_and_flag_is_named() {
    let (csi, readme) = (Csi::new(), readme());
    for group in [
        "identity",
        "controller",
        "node",
        "group-controller",
        "snapshot-metadata",
    ] {
        let help = csi.run(&format!("{group} --help")).succeeds().stdout;
        let commands = help.split("Commands:\n").nth(1).unwrap();
        let commands = commands.split("\n\n").next().unwrap();
        for line in commands
            .lines()
            .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        {
            let verb = line.split_whitespace().next().unwrap();
            if verb != "help" {
                assert!(
                    readme.contains(&format!("`{group} {verb}`")),
                    "{group} {verb}"
                );
            }
        }
    }
    let help = csi.run("identity probe --help").succeeds().stdout;
    let flags = help
        .split_whitespace()
        .filter(|word| word.starts_with("--"));
    for flag in flags.map(|word| word.trim_end_matches(['.', ',', ':', ']'])) {
        if flag != "--help" {
            assert!(readme.contains(flag), "{flag}");
        }
    }
}
