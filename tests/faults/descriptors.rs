//! Copies where the driver may have few files open: they share what there is, and nobody is refused.

use crate::support::calls::{self, Calls, Map};
use crate::support::driver::Driver;
use crate::support::placed::of_volume;
use csi_proto::v1::{CreateVolumeRequest, ProbeRequest, ProbeResponse};
use rustix::process::{Resource, Rlimit, prlimit};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The limit of open files.
const LIMIT: usize = 192;
/// What copies have of it, with the three that each has for certain.
const OF_COPIES: usize = LIMIT / 2 + 4 * 12;
/// Folders in one folder, and folders in each other.
const WIDTH: usize = 24;
const DEPTH: usize = 12;

/// A tree in which more folders are worked in than may be open.
fn grow(folder: &Path) {
    for number in 0..WIDTH {
        let mut at = folder.join(number.to_string());
        for _ in 0..DEPTH {
            at.push("deeper");
        }
        fs::create_dir_all(&at).unwrap();
        for above in at.ancestors().take(DEPTH + 1) {
            fs::write(above.join("file"), "content").unwrap();
        }
    }
}

fn entries(folder: &Path) -> usize {
    let all = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
    all.map(|entry| match entry.file_type().unwrap().is_dir() {
        true => 1 + entries(&entry.path()),
        false => 1,
    })
    .sum()
}

#[test]
fn four_wide_copies_stay_below_a_low_limit_of_open_files() {
    let shares = tempfile::tempdir().unwrap();
    let share = |name: &str| {
        let folder = shares.path().join(name);
        fs::create_dir(&folder).unwrap();
        format!("{name}:/share={}", folder.display())
    };
    let [first, second] = ["first", "second"].map(share);
    let driver = Driver::with_args(&["--local-share", &first, "--local-share", &second]);
    let pid = driver.process().pid();
    let limit = Some(LIMIT as u64);
    let limit = Rlimit {
        current: limit,
        maximum: limit,
    };
    prlimit(Some(pid), Resource::Nofile, limit).unwrap();
    let open = format!("/proc/{}/fd", pid.as_raw_nonzero());
    let open = || fs::read_dir(&open).unwrap().count();
    let on = |name: &str| -> Map { calls::map(&[("server", name), ("share", "/share")]) };
    let over = AtomicBool::new(false);
    let (most, before) = std::thread::scope(|scope| {
        let runtime = calls::runtime();
        let calls = runtime.block_on(async { Calls::to(&driver.endpoint()).within(None) });
        let mut requests = Vec::new();
        for name in ["first", "second"] {
            let source = runtime.block_on(calls.create(calls::volume("source", &on(name))));
            grow(&of_volume(&shares.path().join(name), "source"));
            let content = calls::of_volume(&source.unwrap().volume_id);
            requests.extend(["a", "b"].map(|copy| CreateVolumeRequest {
                volume_content_source: content.clone(),
                ..calls::volume(copy, &on(name))
            }));
        }
        let before = open();
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !over.load(Ordering::Relaxed) {
                most = most.max(open());
                std::thread::sleep(Duration::from_millis(1));
            }
            most
        });
        let copies = runtime.block_on(async {
            let copies: Vec<_> = requests
                .into_iter()
                .map(|request| {
                    let calls = calls.clone();
                    tokio::spawn(async move { calls.create(request).await })
                })
                .collect();
            let probed: Result<ProbeResponse, _> = calls.call(ProbeRequest {}).await;
            probed.unwrap();
            let mut ended = Vec::new();
            for copy in copies {
                ended.push(copy.await.unwrap());
            }
            ended
        });
        over.store(true, Ordering::Relaxed);
        for copy in copies {
            copy.unwrap();
        }
        (watch.join().unwrap(), before)
    });
    for share in ["first", "second"] {
        let [source, a, b] =
            ["source", "a", "b"].map(|it| entries(&of_volume(&shares.path().join(share), it)));
        assert_eq!((a, b), (source, source));
    }
    // Each call has some of its own: the folders of its share and of its record.
    let calls = 4 * 16;
    assert!(
        most <= before + OF_COPIES + calls && most < LIMIT,
        "{most} were open, {before} before"
    );
}
