//! Data through the published volume: whose device is written to, and storage that does not answer.

use super::drivers::{called, driver};
use crate::support::PATIENCE;
use crate::support::patience::{until, up_to_a_limit};
use crate::support::process::Process;
use crate::support::program::{Csi, Output};
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1;
use rustix::fs::{Mode, OFlags, open};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use rustix::process::Signal;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, mpsc};
use tonic::Code;

/// The driver publishes a file with this content in the place of a block device; returns what unpublishing finds.
fn publishes_device(driver: &ScriptedDriver, content: &'static str) -> mpsc::Receiver<Vec<u8>> {
    let (unpublished, found) = mpsc::channel();
    driver.answer("NodePublishVolume", move |request| {
        let request: v1::NodePublishVolumeRequest = request.decode();
        fs::write(request.target_path, content).unwrap();
        Reply::json("{}")
    });
    driver.answer("NodeUnpublishVolume", move |request| {
        let request: v1::NodeUnpublishVolumeRequest = request.decode();
        let _ = unpublished.send(fs::read(&request.target_path).unwrap());
        fs::remove_file(request.target_path).unwrap();
        Reply::json("{}")
    });
    found
}

#[test]
fn the_device_of_another_is_only_read() {
    let driver = driver("CREATE_DELETE_VOLUME", "");
    let found = publishes_device(&driver, "precious");
    let csi = Csi::at(driver.endpoint());
    let run = |flags: &str| -> Output {
        let output = csi.run(&format!("lifecycle --cap 1,block {flags}"));
        output.succeeds()
    };
    let output = run("--volume-id vol-1");
    let words = "ok write and read back";
    assert!(output.stdout.contains(words), "{output}");
    let words = "read only: the volume is not ours; 8, checksum";
    assert!(output.stdout.contains(words), "{output}");
    assert_eq!(found.recv().unwrap(), b"precious");
    for flags in ["--volume-id vol-1 --overwrite", ""] {
        let output = run(flags);
        assert!(output.stdout.contains("1Mi, checksum"), "{output}");
        assert!(!output.stdout.contains("read only"), "{output}");
        assert_eq!(found.recv().unwrap().len(), 1 << 20);
    }
    csi.run("lifecycle --overwrite")
        .exits(2)
        .says("--volume-id");
}

#[test]
fn nothing_is_written_where_the_access_mode_allows_no_writes() {
    let driver = driver("CREATE_DELETE_VOLUME", "");
    let found = publishes_device(&driver, "precious");
    let csi = Csi::at(driver.endpoint());
    let output = csi.run("lifecycle --cap SINGLE_NODE_READER_ONLY,block");
    let words = "skipped  the access mode allows no writes\n";
    assert!(output.succeeds().stdout.contains(words));
    assert_eq!(found.recv().unwrap(), b"precious");
}

/// A file system that never answers, as that of a dead server: a FUSE whose other end nobody reads.
struct Silent {
    device: Arc<Mutex<Option<OwnedFd>>>,
    target: PathBuf,
}

impl Silent {
    /// Mounts it at `target`, a new folder; `None` where that is not allowed.
    fn mount(target: &Path) -> Option<Self> {
        let device = open("/dev/fuse", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty()).ok()?;
        fs::create_dir(target).unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            device.as_raw_fd()
        );
        let options = CString::new(options).unwrap();
        let mounted = mount("silent", target, "fuse", MountFlags::empty(), &*options);
        if mounted.is_err() {
            fs::remove_dir(target).unwrap();
            return None;
        }
        Some(Self {
            device: Arc::new(Mutex::new(Some(device))),
            target: target.to_owned(),
        })
    }

    /// Whoever waits for it gets an error from now on.
    fn end(&self) {
        self.device.lock().unwrap().take();
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        self.end();
        let _ = unmount(&self.target, UnmountFlags::DETACH);
        let _ = fs::remove_dir(&self.target);
    }
}

/// Lets the driver publish a file system that never answers. Sends whether it may mount one.
fn publishes_silence(driver: &ScriptedDriver) -> mpsc::Receiver<Option<Silent>> {
    let (published, target) = mpsc::channel();
    driver.answer("NodePublishVolume", move |request| {
        let request: v1::NodePublishVolumeRequest = request.decode();
        let _ = published.send(Silent::mount(Path::new(&request.target_path)));
        Reply::json("{}")
    });
    target
}

#[test]
fn nothing_is_unpublished_while_it_is_written_to() {
    let driver = driver("CREATE_DELETE_VOLUME", "");
    let target = publishes_silence(&driver);
    let silent: Arc<Mutex<Option<Silent>>> = Arc::default();
    driver.answer("NodeUnpublishVolume", {
        let silent = silent.clone();
        move |_| {
            let mut silent = silent.lock().unwrap();
            let answers = silent
                .take()
                .is_none_or(|silent| silent.device.lock().unwrap().is_none());
            match answers {
                true => Reply::json("{}"),
                false => Reply::error(Code::Internal, "target is busy"),
            }
        }
    });
    let csi = Csi::at(driver.endpoint());
    let process = csi.spawn("lifecycle");
    let Some(mounted) = target.recv().unwrap() else {
        return not_run("file systems cannot be mounted here");
    };
    let device = mounted.device.clone();
    *silent.lock().unwrap() = Some(mounted);
    process.wait_for_output("node publish");
    process.signal(Signal::INT);
    process.wait_for_error_output("note: undoing");
    // What must not happen announces itself by nothing.
    std::thread::sleep(std::time::Duration::from_millis(200));
    assert!(
        !called(&driver, "NodeUnpublishVolume"),
        "{:?}",
        driver.calls()
    );
    device.lock().unwrap().take();
    let ended = process.wait(PATIENCE).unwrap();
    assert_eq!(ended.code(), 130);
    assert!(called(&driver, "DeleteVolume"), "{:?}", driver.calls());
}

#[test]
fn storage_that_never_answers_holds_up_neither_deadline_nor_signals() {
    let driver = driver("CREATE_DELETE_VOLUME", "");
    let target = publishes_silence(&driver);
    let csi = Csi::at(driver.endpoint());
    let (process, mounted) = up_to_a_limit("a volume is written to", |limit| {
        let mut process = csi.spawn(&format!("-t {limit} lifecycle"));
        let is_late = |process: &Process| process.so_far().contains("!! write and read back");
        until("what is written is late, or something before it", || {
            is_late(&process) || !process.is_running()
        });
        match target.try_recv().ok()? {
            Some(_) if !is_late(&process) => None,
            mounted => Some((process, mounted)),
        }
    });
    let Some(mounted) = mounted else {
        return not_run("file systems cannot be mounted here");
    };
    process.wait_for_output("!! write and read back");
    process.signal(Signal::INT);
    process.wait_for_error_output("note: still undoing");
    process.signal(Signal::INT);
    let ended = process.wait(PATIENCE).unwrap();
    let said = String::from_utf8(ended.stderr).unwrap();
    assert!(said.contains("left: the thread that writes to "), "{said}");
    assert!(said.contains("left: the published volume vol-7"), "{said}");
    assert!(said.contains("timed out"), "{said}");
    drop(mounted);
}

/// Says that a test cannot be run here and why, which CI does not take.
fn not_run(why: &str) {
    assert!(std::env::var_os("CI").is_none(), "not run: {why}");
    eprintln!("not run: {why}");
}
