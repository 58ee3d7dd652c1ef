//! What an NFS client believes to know decides no answer that sends somebody to the server.

use crate::scene::{Share, Version};
use crate::support::calls::{self, Calls};
use crate::support::driver::Driver;
use rustix::time::{ClockId, Timespec, clock_settime};
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use tonic::Code;

/// Rounds in which the share's folder changes twice within one tick of the server's clock, which a client cannot tell by its
/// times.
const WITHIN_A_TICK: usize = 2;
/// Rounds after which one such is enough: a busy machine has few.
const ROUNDS: usize = 100;
/// All rounds.
const MOST_ROUNDS: usize = 2000;

/// When a folder has changed last.
fn changed(folder: &Path) -> (i64, i64) {
    let stat = folder.metadata().unwrap();
    (stat.ctime(), stat.ctime_nsec())
}

/// Waits for the beginning of a tick.
fn await_tick(folder: &Path) {
    let touched = || {
        let file = folder.join("tick");
        fs::write(&file, "").unwrap();
        fs::remove_file(&file).unwrap();
        changed(folder)
    };
    let now = touched();
    while touched() == now {}
}

/// Has the server's clock say again what it said then: on a slow machine no call fits into a tick. Only in the guest, since the clock
/// of this machine is not a test's to set.
fn set_clock_to((tv_sec, tv_nsec): (i64, i64)) {
    if std::env::var_os("NFS_GUEST").is_some() {
        clock_settime(ClockId::Realtime, Timespec { tv_sec, tv_nsec }).unwrap();
    }
}

fn a_folder_that_has_gone_is_in_nobodys_way(version: Version) {
    let share = Share::new("known-names", version);
    let driver = Driver::with_args(&["--mode", "controller"]);
    let folder = share.folder().join("chosen");
    let mut parameters = share.parameters();
    parameters.insert("subDir".to_owned(), "chosen".to_owned());
    let request = calls::volume("pvc", &parameters);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        // From then on the share is mounted.
        let first = calls
            .create(calls::volume("first", &share.parameters()))
            .await;
        first.unwrap();
        let mut within_a_tick = 0;
        for round in 0..MOST_ROUNDS {
            await_tick(share.folder());
            fs::create_dir(&folder).unwrap();
            let made = changed(share.folder());
            let refused = calls.create(request.clone()).await.unwrap_err();
            set_clock_to(made);
            fs::remove_dir(&folder).unwrap();
            let is_within_a_tick = changed(share.folder()) == made;
            assert_eq!(refused.code(), Code::FailedPrecondition, "{refused}");
            let created = calls.create(request.clone()).await;
            let created = created.unwrap_or_else(|status| {
                panic!("after {within_a_tick} rounds within a tick: {status}")
            });
            calls.delete(&created.volume_id).await.unwrap();
            within_a_tick += usize::from(is_within_a_tick);
            if within_a_tick == WITHIN_A_TICK || (round >= ROUNDS && within_a_tick > 0) {
                break;
            }
        }
        assert!(within_a_tick > 0, "no round was within a tick of the clock");
    });
}

#[test]
fn a_folder_that_has_gone_is_in_nobodys_way_over_v3() {
    a_folder_that_has_gone_is_in_nobodys_way(Version::V3);
}

#[test]
fn a_folder_that_has_gone_is_in_nobodys_way_over_v4_2() {
    a_folder_that_has_gone_is_in_nobodys_way(Version::V4_2);
}
