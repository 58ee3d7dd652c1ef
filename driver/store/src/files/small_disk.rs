//! A disk without room, for tests. Needs root, or a user namespace.

use std::fs::File;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// A file system of 1 MiB at a folder, which another process has mounted where it alone sees it.
pub struct SmallDisk {
    keeper: Child,
    root: PathBuf,
}

impl SmallDisk {
    pub fn at(folder: &Path) -> Self {
        let mut keeper = Command::new("unshare");
        keeper.args(["--mount", "--propagation", "private"]);
        if !rustix::process::geteuid().is_root() {
            keeper.arg("--map-root-user");
        }
        let script = r#"mount -t tmpfs -o size=1m small "$1" && echo ready && exec sleep infinity"#;
        keeper.args(["sh", "-c", script, "sh"]).arg(folder);
        let mut keeper = keeper.stdout(Stdio::piped()).spawn().unwrap();
        let mut said = String::new();
        let mut lines = BufReader::new(keeper.stdout.take().unwrap());
        lines.read_line(&mut said).unwrap();
        assert_eq!(said, "ready\n", "no mount namespace of one's own here");
        let inside = folder.strip_prefix("/").unwrap();
        let root = Path::new(&format!("/proc/{}/root", keeper.id())).join(inside);
        Self { keeper, root }
    }

    /// Its root.
    pub fn open(&self) -> File {
        File::open(&self.root).unwrap()
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.keeper.kill();
        let _ = self.keeper.wait();
    }
}
