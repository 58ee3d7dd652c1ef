//! The real `csi-nfs` as a process. It can be killed and started again at will; in the end nothing of it is left.

use crate::support::process::Process;
use rustix::mount::{UnmountFlags, unmount};
use rustix::process::Signal;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use tempfile::TempDir;

/// A running driver with its socket and its work folder.
pub struct Driver {
    folder: TempDir,
    args: Vec<String>,
    process: Process,
}

impl Driver {
    /// A driver whose export `localhost:/share` is the folder [`Driver::share`].
    pub fn with_local_share() -> Self {
        Self::start_in(TempDir::new().expect("a temporary folder"), |folder| {
            let share = folder.join("share");
            std::fs::create_dir(&share).expect("a new folder");
            vec![
                "--local-share".into(),
                format!("localhost:/share={}", share.display()),
            ]
        })
    }

    /// A driver with these arguments, beside those for its socket, node and work folder.
    pub fn with_args(args: &[&str]) -> Self {
        let args = args.iter().map(ToString::to_string).collect();
        Self::start_in(TempDir::new().expect("a temporary folder"), |_| args)
    }

    fn start_in(folder: TempDir, args: impl FnOnce(&Path) -> Vec<String>) -> Self {
        let args = args(folder.path());
        // The parent of a target path is the caller's to make.
        std::fs::create_dir(folder.path().join("targets")).expect("a new folder");
        let process = launch(folder.path(), &args);
        let mut driver = Self {
            folder,
            args,
            process,
        };
        driver.wait_until_it_answers();
        driver
    }

    /// How a client names this driver.
    pub fn endpoint(&self) -> String {
        format!("unix://{}", socket(self.folder.path()).display())
    }

    /// The folder that [`Driver::with_local_share`] exports.
    pub fn share(&self) -> PathBuf {
        self.folder.path().join("share")
    }

    /// A place for targets, in the driver's folder, so that mounts there are undone in the end.
    pub fn target(&self, name: &str) -> PathBuf {
        self.folder.path().join("targets").join(name)
    }

    /// The file in which a test plans the driver's death: `COUNT STEP`, or `trace` (see the driver's `crash_points.rs`).
    pub fn plan(&self) -> PathBuf {
        plan(self.folder.path())
    }

    /// Waits until the driver has died by itself.
    pub fn wait_for_death(&mut self) {
        self.process.wait_for_death();
    }

    /// Kills the driver with SIGKILL, in whatever it does.
    pub fn kill(&mut self) {
        self.process.kill();
    }

    /// Starts the driver again, after [`Driver::kill`] or [`Driver::stop`].
    pub fn restart(&mut self) {
        assert!(!self.process.is_running(), "the driver still runs");
        self.process = launch(self.folder.path(), &self.args);
        self.wait_until_it_answers();
    }

    /// The same, by a command line that the driver's own is appended to, and that may end it at once.
    #[allow(dead_code)] // Not every test program has a use for it.
    pub fn restart_under(&mut self, wrapper: &[String]) {
        assert!(!self.process.is_running(), "the driver still runs");
        self.process = launch_under(wrapper, self.folder.path(), &self.args);
        while self.process.is_running() && !self.process.error_output().contains("serving") {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Whether the driver has not ended yet.
    #[allow(dead_code)] // As above.
    pub fn is_running(&mut self) -> bool {
        self.process.is_running()
    }

    /// Kills the driver and starts it again with other arguments.
    pub fn restart_with(&mut self, args: &[&str]) {
        self.kill();
        self.args = args.iter().map(ToString::to_string).collect();
        self.restart();
    }

    /// Ends the driver with SIGTERM and waits for its end.
    pub fn stop(&mut self) {
        self.process.signal(Signal::TERM);
        self.wait_for_death();
    }

    /// The process of the driver.
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// What the driver has written since its last start.
    pub fn log(&self) -> String {
        self.process.so_far()
    }

    /// The targets that are mounted, of this driver.
    pub fn mounts(&self) -> Vec<PathBuf> {
        mounts_below(self.folder.path())
    }

    /// The driver says that it serves once its socket takes connections.
    fn wait_until_it_answers(&mut self) {
        self.process.wait_for_error_output("serving");
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.process.kill();
        unmount_below(self.folder.path());
    }
}

/// Unmounts everything below a folder, the last mount first. Waits for no server.
pub fn unmount_below(folder: &Path) {
    for mount in mounts_below(folder).iter().rev() {
        let _ = unmount(mount, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW);
    }
}

/// The driver's binary, which stands beside the client's.
pub fn binary() -> PathBuf {
    let binary = Path::new(super::program::BINARY).with_file_name("csi-nfs");
    assert!(
        binary.exists(),
        "{} is not built: use tests/run, or tests/build first",
        binary.display()
    );
    binary
}

fn socket(folder: &Path) -> PathBuf {
    folder.join("csi.sock")
}

fn plan(folder: &Path) -> PathBuf {
    folder.join("plan")
}

fn launch(folder: &Path, args: &[String]) -> Process {
    launch_under(&[], folder, args)
}

fn launch_under(wrapper: &[String], folder: &Path, args: &[String]) -> Process {
    let mut command = match wrapper {
        [] => Command::new(binary()),
        [program, rest @ ..] => {
            let mut command = Command::new(program);
            command.args(rest).arg(binary());
            command
        }
    };
    command
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("TMPDIR", folder)
        .env("RUST_BACKTRACE", "1")
        .env("CSI_NFS_CRASH_PLAN", plan(folder))
        .arg("--endpoint")
        .arg(format!("unix://{}", socket(folder).display()))
        .args(["--node-id", "node-1", "--work-dir"])
        .arg(folder.join("work"))
        .args(args)
        .current_dir(folder);
    // Five seconds are short for a server that is there, where the machine is busy. Who tests the bound gives its own.
    if !args.iter().any(|arg| arg == "controller") {
        command.env("CSI_NFS_STATS_TIMEOUT", "60s");
    }
    Process::start(&mut command)
}

/// The mount points below a folder, in the order in which they were mounted. Never touches them: a server may be dead.
pub fn mounts_below(folder: &Path) -> Vec<PathBuf> {
    let mountinfo = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc is mounted");
    let points = mountinfo.lines().filter_map(|line| line.split(' ').nth(4));
    points
        .map(|point| PathBuf::from(point.replace("\\040", " ")))
        .filter(|point| point.starts_with(folder))
        .collect()
}
