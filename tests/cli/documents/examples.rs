//! Runs the examples, each in a home folder of its own, and compares what they print with what is recorded.

use super::pages::{Example, Mark, pages};
use super::recorded::stable;
use crate::shell_terminal::prompted_by;
use crate::support::driver;
use crate::support::process::Process;
use crate::support::program::{BINARY, Csi};
use crate::support::terminal::Terminal;
use crate::support::{PATIENCE, difference};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;

/// Examples that run at the same time; most of them wait for other programs.
const AT_ONCE: usize = 4;

/// What stands before a line that is typed into the shell.
const PROMPT: &str = "nfs.csi.internal> ";

/// One example to run, with the files of its page.
struct Job {
    example: Example,
    files: Vec<(String, String)>,
}

#[test]
fn examples_run_as_recorded() {
    let mut jobs = Vec::new();
    for page in pages() {
        let examples = page.examples();
        let file = |example: &Example| match &example.mark {
            Mark::File(name) => Some((name.clone(), example.text.clone())),
            _ => None,
        };
        let files: Vec<_> = examples.iter().filter_map(file).collect();
        for example in examples {
            if runs(&example) {
                let files = files.clone();
                jobs.push(Job { example, files });
            }
        }
    }
    assert!(jobs.len() > 10);
    let jobs = Mutex::new(jobs);
    let failures = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..AT_ONCE {
            scope.spawn(|| {
                loop {
                    let Some(job) = jobs.lock().unwrap().pop() else {
                        return;
                    };
                    if let Err(failure) = job.run() {
                        failures
                            .lock()
                            .unwrap()
                            .push(format!("{}: {failure}", job.example.place));
                    }
                }
            });
        }
    });
    let failures = failures.into_inner().unwrap();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// Whether an example is to run. One that looks as if it should and cannot be is a mistake of the page.
fn runs(example: &Example) -> bool {
    let Example {
        place,
        language,
        mark,
        ..
    } = example;
    match (language.as_str(), mark) {
        ("console" | "sh", Mark::None | Mark::FiguresVary) => true,
        ("console" | "sh", Mark::NotRun) => false,
        ("console" | "sh", Mark::File(_)) => panic!("{place}: an example that is run is no file"),
        ("toml" | "text" | "yaml", Mark::None | Mark::File(_)) => false,
        _ => panic!("{place}: write ```console for what is typed, or ```toml, ```yaml, ```text"),
    }
}

impl Job {
    fn run(&self) -> Result<(), String> {
        let csi = Csi::new();
        let home = Home(csi.home());
        for (name, content) in &self.files {
            csi.file(name, content);
        }
        match self.example.language.as_str() {
            "sh" => home.script(&self.example.text).map(drop),
            _ if is_typed_into_the_shell(&self.example.text) => self.in_the_shell(&csi),
            _ => self.in_sh(&home),
        }
    }

    /// Runs the commands one after the other and compares what each has printed.
    fn in_sh(&self, home: &Home) -> Result<(), String> {
        let session = session(&self.example)?;
        let mut script = String::new();
        for (command, _) in &session {
            // A mark tells the outputs apart; what the command has exited with is for the next one to see.
            script.push_str(&format!(
                "{command}\nset -- $?\necho '=== end'\n(exit $1)\n"
            ));
        }
        let text = home.script(&script)?;
        let outputs: Vec<&str> = text.split("=== end\n").collect();
        for ((command, recorded), output) in session.iter().zip(outputs) {
            self.compare(command, recorded, output, &text)?;
        }
        Ok(())
    }

    /// Types the lines into the shell and compares what each has printed.
    fn in_the_shell(&self, csi: &Csi) -> Result<(), String> {
        let (start, typed) = self.example.text.split_once('\n').unwrap_or_default();
        let mut command = csi.command();
        let arguments = start.strip_prefix("$ csi ").unwrap_or_default();
        command.args(arguments.split(' ')).env("TERM", "xterm");
        let mut terminal = Terminal::start(&command, 130, 24);
        prompted_by(&mut terminal, PROMPT.trim_end_matches("> "));
        let lines: Vec<&str> = typed.split(PROMPT).skip(1).collect();
        if lines.last() != Some(&"exit\n") {
            return Err("the last line is not `exit`".to_owned());
        }
        for recorded in &lines[..lines.len() - 1] {
            let (line, recorded) = recorded.split_once('\n').unwrap_or((recorded, ""));
            terminal.press(&format!("{line}\r"));
            let shown = terminal.expect(&format!("\n{PROMPT}"));
            // What was typed stands before the first line's end.
            let (_, printed) = shown.split_once('\n').unwrap_or_default();
            self.compare(line, recorded, printed, &terminal.all())?;
        }
        terminal.press("exit\r");
        match terminal.ends().success() {
            true => Ok(()),
            false => Err(format!("the shell has failed\n{}", terminal.all())),
        }
    }

    fn compare(
        &self,
        command: &str,
        recorded: &str,
        printed: &str,
        all: &str,
    ) -> Result<(), String> {
        let figures_vary = self.example.mark == Mark::FiguresVary;
        let (is, should) = (
            stable(printed, figures_vary),
            stable(recorded, figures_vary),
        );
        if is == should {
            return Ok(());
        }
        let lines = |lines: Vec<String>| lines.join("\n") + "\n";
        let difference = difference(&lines(should), &lines(is));
        Err(format!(
            "$ {command}\n{difference}all that was printed:\n{all}"
        ))
    }
}

fn is_typed_into_the_shell(text: &str) -> bool {
    text.starts_with("$ csi ")
        && text
            .lines()
            .nth(1)
            .is_some_and(|line| line.starts_with(PROMPT))
}

/// The commands of an example, with what each has printed.
fn session(example: &Example) -> Result<Vec<(String, String)>, String> {
    let mut session: Vec<(String, String)> = Vec::new();
    for line in example.text.lines() {
        match (line.strip_prefix("$ "), session.last_mut()) {
            (Some(command), _) => session.push((command.to_owned(), String::new())),
            (None, Some((_, output))) => {
                output.push_str(line);
                output.push('\n');
            }
            (None, None) => return Err(format!("output before a command: {line}")),
        }
    }
    Ok(session)
}

/// Where an example runs. In the end nothing is mounted there, also when it has failed.
struct Home<'a>(&'a Path);

impl Home<'_> {
    /// Runs `script` and returns what it has written, with the paths of the pages.
    fn script(&self, script: &str) -> Result<String, String> {
        let binaries = Path::new(BINARY).parent().unwrap_or(Path::new("/"));
        // Says what to do when the driver is not built.
        driver::binary();
        let home = self.0.display().to_string();
        let script = script.replace("/tmp/", &format!("{home}/"));
        let mut command = Command::new("sh");
        command
            .args(["-c", &format!("exec 2>&1\n{script}")])
            .env_clear()
            .env("HOME", self.0)
            .env("TMPDIR", self.0)
            .env("PATH", format!("{}:/usr/bin:/bin", binaries.display()))
            .current_dir(self.0);
        let ended = Process::start(&mut command).wait(PATIENCE)?;
        let text = String::from_utf8_lossy(&ended.stdout).replace(&home, "/tmp");
        match script.contains("=== end") || ended.code() == 0 {
            true => Ok(text),
            false => Err(format!("exit code {}\n{text}", ended.code())),
        }
    }
}

impl Drop for Home<'_> {
    fn drop(&mut self) {
        driver::unmount_below(self.0);
    }
}

#[test]
fn an_example_that_prints_something_else_is_noticed() {
    let job = |mark, text: &str| Job {
        example: Example {
            place: "x.md:1".into(),
            language: "console".into(),
            mark,
            text: text.into(),
        },
        files: vec![("a".into(), "b\n".into())],
    };
    assert_eq!(
        job(Mark::None, "$ cat a\nb\n$ echo 1.5 s\n2.7 s\n").run(),
        Ok(())
    );
    assert!(job(Mark::None, "$ cat a\nc\n").run().is_err());
    assert!(job(Mark::None, "$ cat a\n").run().is_err());
    assert!(job(Mark::None, "$ false\n$ echo $?\n0\n").run().is_err());
    assert!(job(Mark::None, "b\n$ cat a\nb\n").run().is_err());
    let unmarked = |language: &str| {
        let mut job = job(Mark::None, "$ cat a\nb\n");
        job.example.language = language.into();
        std::panic::catch_unwind(|| runs(&job.example)).is_err()
    };
    assert!(unmarked("") && unmarked("bash") && !unmarked("console"));
}
