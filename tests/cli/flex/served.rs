//! A running `csi flex serve`, over a script that is written for a test.

use crate::support::driver::unmount_below;
use crate::support::executable;
use crate::support::patience::until;
use crate::support::process::Process;
use crate::support::program::{Csi, Output};
use rustix::process::Signal;
use std::fs;
use std::path::PathBuf;

/// A server with a home of its own, in which its socket, its state (`kept`) and its targets are.
pub struct Served {
    pub csi: Csi,
    process: Process,
    line: String,
}

/// Writes a driver: what it does at each call-out, as cases of a shell script, which runs in the home. It keeps what it was
/// called with.
pub fn script(csi: &Csi, name: &str, cases: &[&str]) -> PathBuf {
    let text = format!(
        "#!/bin/sh\ncd {home}\necho \"$*\" >>call-outs\nok() {{ echo '{{\"status\":\"Success\"}}'; }}\ncase $1 in\n{cases}\n\
         *) echo '{{\"status\":\"Not supported\"}}'; exit 1;;\nesac\n",
        home = csi.home().display(),
        cases = cases.join("\n"),
    );
    let path = csi.home().join(name);
    executable::script(&path, &text);
    path
}

impl Served {
    /// Over a script with these cases.
    pub fn new(cases: &[&str], flags: &str) -> Self {
        let csi = Csi::at("unix:f.sock");
        let driver = script(&csi, "driver", cases);
        Self::over(csi, &format!("--driver {} {flags}", driver.display()))
    }

    /// Over the driver that the flags name.
    pub fn over(csi: Csi, flags: &str) -> Self {
        let node = if flags.contains("--node-id") {
            ""
        } else {
            "--node-id node-a"
        };
        let line = format!("flex serve --state kept {node} {flags}");
        fs::create_dir(csi.home().join("targets")).unwrap();
        let process = start(&csi, &line);
        Self { csi, process, line }
    }

    /// Runs `csi` against it.
    pub fn run(&self, line: &str) -> Output {
        self.csi.run(line)
    }

    /// A path for a target that does not exist.
    pub fn target(&self, name: &str) -> String {
        let path = self.csi.home().join("targets").join(name);
        path.to_str().unwrap().to_owned()
    }

    /// The names of the call-outs so far.
    pub fn call_outs(&self) -> Vec<String> {
        let lines = self.lines();
        let names = lines.lines().filter_map(|line| line.split(' ').next());
        names.map(str::to_owned).collect()
    }

    /// What the last call-out of that name was called with.
    pub fn arguments(&self, call: &str) -> String {
        let (lines, start) = (self.lines(), format!("{call} "));
        let mut found = lines
            .lines()
            .rev()
            .filter_map(|line| line.strip_prefix(&start));
        found.next().unwrap().to_owned()
    }

    /// Waits until a call-out has begun.
    pub fn wait_for_call_out(&self, start: &str) {
        until("a call-out has begun", || {
            self.lines().lines().any(|line| line.starts_with(start))
        });
    }

    fn lines(&self) -> String {
        fs::read_to_string(self.csi.home().join("call-outs")).unwrap_or_default()
    }

    /// What it has said so far.
    pub fn said(&self) -> String {
        self.process.error_output()
    }

    /// Kills it with SIGKILL, alone.
    pub fn kill(&mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait_for_death();
    }

    /// Starts it again.
    pub fn restart(&mut self) {
        self.process = start(&self.csi, &self.line);
    }

    /// Ends it with SIGTERM; returns what it has said.
    pub fn ends(mut self) -> String {
        self.process.signal(Signal::TERM);
        let died = self.process.wait_for_death();
        let said = self.process.error_output();
        assert!(died.success(), "{said}");
        said
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        unmount_below(self.csi.home());
    }
}

fn start(csi: &Csi, line: &str) -> Process {
    let process = csi.spawn(line);
    process.wait_for_error_output("serves on");
    process
}
