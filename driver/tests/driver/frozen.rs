//! A folder that hangs: a file system whose server answers nothing is mounted over it.

use crate::rig::patience::Patience;
use crate::rig::{Driver, Rig};
use rustix::fs::{Mode, OFlags};
use rustix::io::{FdFlags, fcntl_setfd};
use std::os::fd::{AsRawFd, OwnedFd};

/// A folder of a rig in which every question hangs, until this is dropped; it is an error for who asks then.
pub struct Frozen {
    /// The server's end of a FUSE connection. Nobody reads what it is asked.
    _server: OwnedFd,
}

impl Frozen {
    /// Freezes the folder `name`, for the processes of the rig.
    pub fn over(rig: &Rig, name: &str) -> Self {
        let flags = OFlags::RDWR | OFlags::CLOEXEC;
        let server = rustix::fs::open("/dev/fuse", flags, Mode::empty()).unwrap();
        // Only `mount` is to have it too.
        let passed = rustix::io::dup(&server).unwrap();
        fcntl_setfd(&passed, FdFlags::empty()).unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id=0,group_id=0",
            passed.as_raw_fd()
        );
        let mut mount = rig.command("mount");
        mount.args(["-i", "-t", "fuse", "-o", &options, "none"]);
        assert!(mount.arg(rig.path(name)).status().unwrap().success());
        Self { _server: server }
    }

    /// Waits until a thread of the driver hangs in it.
    pub fn wait_for_victim(&self, driver: &Driver) {
        let mut patience = Patience::default();
        let hangs = || {
            let tasks = std::fs::read_dir(format!("/proc/{}/task", driver.pid())).unwrap();
            tasks.flatten().any(|task| {
                let place = std::fs::read_to_string(task.path().join("wchan"));
                place.is_ok_and(|place| place.contains("fuse"))
            })
        };
        while !hangs() {
            assert!(patience.lasts(), "{:#?}", driver.log());
            std::thread::yield_now();
        }
    }
}
