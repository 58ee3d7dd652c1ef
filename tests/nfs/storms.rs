//! Many calls at a time to two controllers of one share, each with an NFS mount and caches of its own; also while the clock
//! of the server and the clients jumps. And a few deaths in mid-work over NFS, of a share that the driver was not started
//! with.

use crate::scene::{HOSTILE_OPTIONS, Share};
use crate::server::Server;
use crate::support::calls::{self, Calls, repeated};
use crate::support::disk::{Disk, Expected};
use crate::support::driver::Driver;
use crate::support::placed::of_volume;
use crate::support::storm::{Extent, Storm, race_for_one_name};
use rustix::time::{ClockId, Timespec, clock_gettime, clock_settime};
use std::fs;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The calls of a storm unless `CSI_TEST_MINUTES` says otherwise.
const CALLS: usize = 500;

fn two_controllers(server: &Server) -> [Driver; 2] {
    let named = format!("test={}:/", server.address());
    [(), ()].map(|()| Driver::with_args(&["--mode", "controller", "--share", &named]))
}

fn rage(drivers: &[Driver; 2], share: &Share, seed: u64) {
    Storm {
        controllers: &drivers.each_ref().map(Driver::endpoint),
        parameters: share.parameters(),
        folder: share.folder(),
        seed,
        extent: Extent::of(CALLS),
    }
    .rage();
}

#[test]
fn two_controllers_make_one_volume_of_a_name() {
    let server = Server::new("race");
    let drivers = two_controllers(&server);
    let endpoints = drivers.each_ref().map(Driver::endpoint);
    let share = server.share();
    race_for_one_name(&endpoints, &share.parameters(), share.folder());
}

#[test]
fn a_storm_of_calls_with_options_that_let_a_client_believe_old_answers() {
    let server = Server::new("hostile");
    let drivers = two_controllers(&server);
    rage(&drivers, &server.share().with_options(HOSTILE_OPTIONS), 7);
}

/// Sets the clock `seconds` off; 0 sets it right again, by a clock that nobody sets.
fn set_clock_off(right: Timespec, since: Timespec, seconds: i64) {
    let mut now = right;
    now.tv_sec += clock_gettime(ClockId::Boottime).tv_sec - since.tv_sec + seconds;
    clock_settime(ClockId::Realtime, now).unwrap();
}

#[test]
fn a_storm_of_calls_while_the_clock_jumps() {
    if std::env::var_os("NFS_GUEST").is_none() {
        eprintln!("not run: the clock of this machine is not a test's to set");
        return;
    }
    let server = Server::new("clock");
    let drivers = two_controllers(&server);
    let (right, since) = (
        clock_gettime(ClockId::Realtime),
        clock_gettime(ClockId::Boottime),
    );
    let over = AtomicBool::new(false);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            for jump in [7200, -86400, 30, 86400, -25].into_iter().cycle() {
                if over.load(Ordering::Relaxed) {
                    break;
                }
                set_clock_off(right, since, jump);
                // Some calls meet each time of day.
                std::thread::sleep(Duration::from_millis(700));
            }
            set_clock_off(right, since, 0);
        });
        /// Ends the jumps, also when the test fails.
        struct Over<'a>(&'a AtomicBool);
        impl Drop for Over<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        let _over = Over(&over);
        rage(&drivers, &server.share(), 6);
    });
}

/// The first use of the share collects what the death has left.
#[cfg(debug_assertions)]
#[test]
fn killed_in_mid_work_and_collected_at_the_first_use() {
    let server = Server::new("killed");
    let share = server.share();
    let disk = Disk::with_foreign_files(share.folder());
    let mut driver = Driver::with_args(&[]);
    let runtime = calls::runtime();
    let mut expected = Expected::default();
    let steps = [
        ("an update is linked", "clone", true),
        ("the record is published", "create", true),
        ("an entry is copied", "clone", true),
        ("the copy is on record", "clone", true),
        ("the folder is leaving", "delete", false),
        ("the claim is released", "delete", false),
    ];
    for (round, (step, what, there)) in steps.into_iter().enumerate() {
        let name = format!("volume-{round}");
        let made = runtime.block_on(async {
            let calls = Calls::to(&driver.endpoint());
            let source = calls::volume(&format!("source-{round}"), &share.parameters());
            let source = repeated(|| calls.create(source.clone())).await.unwrap();
            fs::write(
                of_volume(share.folder(), format!("source-{round}/file")),
                step,
            )
            .unwrap();
            let mut request = calls::volume(&name, &share.parameters());
            if what == "delete" {
                request.parameters.insert("subDir".to_owned(), name.clone());
            }
            if what == "clone" {
                request.volume_content_source = calls::of_volume(&source.volume_id);
            }
            let doomed = match what {
                "delete" => Some(calls.create(request.clone()).await.unwrap().volume_id),
                _ => None,
            };
            fs::write(driver.plan(), format!("0 {step}")).unwrap();
            let answer = match &doomed {
                Some(id) => calls.delete(id).await,
                None => calls.create(request).await.map(drop),
            };
            assert!(answer.is_err(), "{step}: not reached");
            source
        });
        driver.wait_for_death();
        fs::remove_file(driver.plan()).unwrap();
        driver.restart();
        expected.folders.insert(format!("source-{round}"));
        expected.volumes += 1;
        if there {
            expected.folders.insert(name.clone());
            expected.volumes += 1;
        }
        runtime.block_on(async {
            let calls = Calls::to(&driver.endpoint());
            // Any use of the share, here of another volume.
            calls.expand(&made.volume_id, 2 << 30).await.unwrap();
        });
        disk.settles_with(&expected);
        if what == "clone" {
            let copied = fs::read_to_string(of_volume(share.folder(), name).join("file"));
            assert_eq!(copied.unwrap(), step);
        }
    }
}
