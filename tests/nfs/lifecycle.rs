//! `csi lifecycle`: against the driver over real NFS, and embedded, as each kind of user there is.

use crate::scene::{Scene, Version};
use crate::support::PATIENCE;
use crate::support::executable;
use crate::support::process::Process;
use crate::support::program::{BINARY, Csi};
use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::PathBuf;
use std::process::Command;
use std::sync::RwLock;
use tempfile::TempDir;

#[test]
fn over_nfs() {
    for version in [Version::V3, Version::V4_2] {
        let scene = Scene::new("lifecycle", version);
        let params = scene.share.params();
        let csi = Csi::patiently_at(&scene.driver.endpoint());
        csi.run_args(["lifecycle", "--params", &params]).succeeds();
        scene.has_no_mounts();
        scene.share.wait_until_empty("none");
        assert_eq!(scene.list(), [""; 0]);
    }
}

/// Whether namespaces may be made is a setting of the whole kernel: held for writing by the test that forbids them.
static NAMESPACES: RwLock<()> = RwLock::new(());

const LIMIT: &str = "/proc/sys/user/max_user_namespaces";

/// `nobody`, who has no privilege at all.
const NOBODY: u32 = 65534;

#[test]
fn embedded_as_root() {
    let _allowed = NAMESPACES.read().unwrap();
    embedded(&[]);
}

#[test]
fn embedded_as_an_ordinary_user() {
    let _allowed = NAMESPACES.read().unwrap();
    embedded(&[
        "--reuid=65534",
        "--regid=65534",
        "--clear-groups",
        "--no-new-privs",
    ]);
}

/// As in a container, whose root has no power over mounts.
#[test]
fn embedded_as_root_without_capabilities() {
    without_namespaces(|| {
        embedded(&["--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]);
    });
}

#[test]
fn embedded_as_an_ordinary_user_without_namespaces() {
    without_namespaces(|| {
        embedded(&[
            "--reuid=65534",
            "--regid=65534",
            "--clear-groups",
            "--no-new-privs",
        ]);
    });
}

fn without_namespaces(test: impl FnOnce()) {
    /// Gives namespaces back, also when the test fails.
    struct Restore(String);
    impl Drop for Restore {
        fn drop(&mut self) {
            fs::write(LIMIT, &self.0).unwrap();
        }
    }
    let _alone = NAMESPACES.write();
    let _restore = Restore(fs::read_to_string(LIMIT).unwrap());
    fs::write(LIMIT, "0").unwrap();
    test();
}

/// Runs `csi -e embedded: lifecycle` with the privileges that `setpriv` leaves, in a home that the user owns.
fn embedded(setpriv: &[&str]) {
    let home = TempDir::new().unwrap();
    // The binary may lie where the user cannot go.
    let binary: PathBuf = home.path().join("csi");
    executable::copy(BINARY, &binary);
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let ordinary = setpriv.iter().any(|flag| flag.starts_with("--reuid"));
    if ordinary {
        chown(home.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let mut command = Command::new("setpriv");
    command
        .args(setpriv)
        .arg(&binary)
        .args(["-e", "embedded:", "lifecycle"])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
        .env("HOME", home.path())
        .env("TMPDIR", home.path())
        .env("RUST_BACKTRACE", "1")
        .current_dir(home.path());
    let before = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let ended = Process::start(&mut command).wait(PATIENCE).unwrap();
    let said = format!(
        "{}{}",
        String::from_utf8_lossy(&ended.stdout),
        String::from_utf8_lossy(&ended.stderr)
    );
    assert_eq!(ended.code(), 0, "{setpriv:?}\n{said}");
    let after = fs::read_to_string("/proc/self/mountinfo").unwrap();
    let left = after
        .lines()
        .filter(|line| !before.contains(line) && line.contains(home.path().to_str().unwrap()));
    assert_eq!(left.collect::<Vec<_>>(), [""; 0]);
}
