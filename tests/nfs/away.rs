//! A server that is stopped, or cut off without a word, before and during each call: the answer comes in time, what was
//! begun is finished when the server is back, and other volumes go on.

use crate::relay::Relay;
use crate::scene::{Share, Version};
use crate::server::{Away, Server};
use crate::support::calls::{self, Calls, HOUR, Map, may_be_repeated, repeated};
use crate::support::disk::{Disk, Expected};
use crate::support::driver::Driver;
use crate::support::patience::{Patience, patiently};
use crate::support::placed::of_volume;
use std::fs::{self, File};
use std::io::Write as _;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;
use tonic::{Code, Status};

/// The driver's bounds in these tests. That they hold is seen by answers that come while the server is away: without them
/// there would be none before it is back.
const BOUNDS: [&str; 6] = [
    "--mount-timeout",
    "3s",
    "--unmount-timeout",
    "3s",
    "--stats-timeout",
    "2s",
];
/// The deadline of calls that have one. The driver answers a tenth of it before.
const DEADLINE: Duration = Duration::from_secs(16);
/// A call that was cancelled is made again until all was at rest for so long.
const TRIES: Duration = Duration::from_secs(4);

/// A volume, its snapshot, and a published target, with every call that can be made about them.
#[derive(Clone)]
struct Rig {
    calls: Calls,
    parameters: Map,
    volume: String,
    doomed: String,
    context: Map,
    targets: [std::path::PathBuf; 2],
}

/// A call, and how it went.
type Answer = Pin<Box<dyn Future<Output = Result<(), Status>>>>;

/// Each call of the driver that asks the server, by name.
const EACH: [&str; 12] = [
    "create",
    "clone",
    "delete",
    "expand",
    "snapshot",
    "list",
    "list snapshots",
    "capacity",
    "publish",
    "unpublish",
    "stats",
    "stats of a new one",
];

impl Rig {
    async fn new(driver: &Driver, share: &Share, round: usize) -> Self {
        let calls = Calls::to(&driver.endpoint());
        let parameters = share.parameters();
        let create = |name: String| {
            let (calls, parameters) = (calls.clone(), parameters.clone());
            async move {
                let request = calls::volume(&name, &parameters);
                repeated(|| calls.create(request.clone())).await.unwrap()
            }
        };
        let volume = create(format!("volume-{round}")).await;
        let doomed = create(format!("doomed-{round}")).await;
        for number in 0..40 {
            let file = of_volume(share.folder(), format!("volume-{round}/{number}"));
            fs::write(file, number.to_string()).unwrap();
        }
        let rig = Self {
            targets: ["old", "new"].map(|name| driver.target(&format!("{name}-{round}"))),
            parameters,
            volume: volume.volume_id,
            doomed: doomed.volume_id,
            context: volume.volume_context,
            calls,
        };
        // On a busy machine the bounds are short for a server that is there, too.
        let old = &rig.targets[0];
        let published = repeated(|| rig.calls.publish(&rig.volume, &rig.context, old));
        published.await.unwrap();
        let known = repeated(|| rig.calls.stats(&rig.volume, old));
        known.await.unwrap();
        rig
    }

    fn call(&self, what: &str, round: usize, deadline: Option<Duration>) -> Answer {
        let rig = Self {
            calls: self.calls.within(deadline),
            ..self.clone()
        };
        let what = what.to_owned();
        Box::pin(async move {
            let Self {
                calls,
                volume,
                doomed,
                context,
                targets: [old, new],
                ..
            } = &rig;
            let named = |name: &str| calls::volume(&format!("{name}-{round}"), &rig.parameters);
            match what.as_str() {
                "create" => calls.create(named("created")).await.map(drop),
                "clone" => {
                    let mut request = named("cloned");
                    request.volume_content_source = calls::of_volume(volume);
                    // Its source may have been expanded.
                    request.capacity_range = None;
                    calls.create(request).await.map(drop)
                }
                "delete" => calls.delete(doomed).await,
                "expand" => calls.expand(volume, 2 << 30).await.map(drop),
                "snapshot" => calls
                    .snapshot(&format!("snapshot-{round}"), volume)
                    .await
                    .map(drop),
                "list" => calls.volumes().await.map(drop),
                "list snapshots" => calls.snapshots().await.map(drop),
                "capacity" => {
                    let request = csi_proto::v1::GetCapacityRequest {
                        parameters: rig.parameters.clone(),
                        ..Default::default()
                    };
                    calls.call(request).await.map(drop)
                }
                "publish" => calls.publish(volume, context, new).await,
                "unpublish" => calls.unpublish(volume, old).await,
                // The one that is known, and one that nobody has asked before.
                "stats" => calls.stats(volume, old).await.map(drop),
                _ => calls.stats(volume, new).await.map(drop),
            }
        })
    }
}

/// CANCELLED is the client's own word when the driver has not answered before the deadline.
fn is_cancelled(answer: &Result<(), Status>) -> bool {
    matches!(answer, Err(status) if status.code() == Code::Cancelled)
}

/// Whether an answer is one for bad times: the call worked all the same, or may be repeated, and what is in its way is named.
fn is_calm(what: &str, answer: &Result<(), Status>) -> bool {
    let Err(status) = answer else { return true };
    // Of a target that was not published in time, or not any more.
    if what.starts_with("stats") && status.code() == Code::NotFound {
        return true;
    }
    let message = status.message();
    let names_owner = !message.contains("running") || message.contains("has been running for");
    may_be_repeated(status) && !is_cancelled(answer) && names_owner
}

/// Begins all calls, lets the server go away after `pause`, demands calm answers while it is, and lets it come back.
async fn all_at_once(
    (server, driver): (&mut Server, &Driver),
    (rig, round): (&Rig, usize),
    (how, pause): (Away, Duration),
    deadline: Option<Duration>,
) {
    if pause.is_zero() {
        server.leave(how);
    }
    let calls: Vec<_> = EACH
        .iter()
        .map(|what| {
            let answer = rig.call(what, round, deadline);
            tokio::task::spawn_local(answer)
        })
        .collect();
    if !pause.is_zero() {
        // The server goes in the middle of the calls, wherever that is.
        tokio::time::sleep(pause).await;
        server.leave(how);
    }
    let mut wrong = Vec::new();
    for (what, call) in EACH.iter().zip(calls) {
        let mut answer = patiently(what, call).await.unwrap();
        // The driver's word came too late for the client, as on a machine that is busy. One that never comes fails.
        let mut patience = Patience::of(TRIES);
        while is_cancelled(&answer) && patience.lasts() {
            answer = patiently(what, rig.call(what, round, deadline)).await;
        }
        if !is_calm(what, &answer) {
            wrong.push(format!("{what}: {answer:?}"));
        }
    }
    server.come_back(how);
    assert!(wrong.is_empty(), "{}\n{}", wrong.join("\n"), driver.log());
}

/// Repeats what was tried until it has worked, and looks at what there is.
async fn made_good(rigs: &[Rig], share: &Share, disk: &Disk) {
    let mut folders = std::collections::BTreeSet::new();
    for (round, rig) in rigs.iter().enumerate() {
        for what in ["create", "clone", "delete", "expand", "list"] {
            let again = repeated(|| rig.call(what, round, Some(HOUR)));
            again
                .await
                .unwrap_or_else(|status| panic!("{what}: {status}"));
        }
        let name = format!("snapshot-{round}");
        rig.calls.ready_snapshot(&name, &rig.volume).await.unwrap();
        for target in &rig.targets {
            repeated(|| rig.calls.unpublish(&rig.volume, target))
                .await
                .unwrap();
            assert!(!target.exists());
        }
        folders.extend(["volume", "created", "cloned"].map(|name| format!("{name}-{round}")));
        for number in 0..40 {
            let file = of_volume(share.folder(), format!("cloned-{round}/{number}"));
            assert_eq!(fs::read_to_string(file).unwrap(), number.to_string());
        }
    }
    disk.settles_with(&Expected {
        folders,
        volumes: 3 * rigs.len(),
        snapshots: rigs.len(),
    });
}

fn before_each_call(name: &str, how: Away) {
    let mut server = Server::new(name);
    let share = server.share();
    let disk = Disk::with_foreign_files(share.folder());
    let driver = Driver::with_args(&BOUNDS);
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&calls::runtime(), async {
        let rig = Rig::new(&driver, &share, 0).await;
        all_at_once(
            (&mut server, &driver),
            (&rig, 0),
            (how, Duration::ZERO),
            None,
        )
        .await;
        server.leave(how);
        repeated(|| rig.calls.unpublish(&rig.volume, &rig.targets[0]))
            .await
            .unwrap();
        assert!(!rig.targets[0].exists());
        server.come_back(how);
        repeated(|| {
            rig.calls
                .publish(&rig.volume, &rig.context, &rig.targets[1])
        })
        .await
        .unwrap();
        repeated(|| rig.calls.unpublish(&rig.volume, &rig.targets[1]))
            .await
            .unwrap();
        made_good(&[rig], &share, &disk).await;
    });
    assert!(driver.mounts().is_empty());
}

#[test]
fn stopped_before_each_call() {
    before_each_call("stopped", Away::Stopped);
}

#[test]
fn cut_off_before_each_call() {
    before_each_call("cut-off", Away::CutOff);
}

/// The calls take a while over a slow link; the server goes away earlier and later in them.
#[test]
fn gone_in_mid_call() {
    let mut server = Server::new("mid-call");
    let share = server.share();
    let disk = Disk::with_foreign_files(share.folder());
    let driver = Driver::with_args(&BOUNDS);
    let pauses = [40, 150, 400, 800].map(Duration::from_millis);
    let tasks = tokio::task::LocalSet::new();
    tasks.block_on(&calls::runtime(), async {
        let mut rigs = Vec::new();
        for (round, pause) in pauses.into_iter().enumerate() {
            let rig = Rig::new(&driver, &share, round).await;
            server.slow_down(5);
            let how = [Away::CutOff, Away::Stopped][round % 2];
            all_at_once(
                (&mut server, &driver),
                (&rig, round),
                (how, pause),
                Some(DEADLINE),
            )
            .await;
            server.slow_down(0);
            rigs.push(rig);
        }
        made_good(&rigs, &share, &disk).await;
    });
    assert!(driver.mounts().is_empty());
}

/// Volumes of one export have one connection and one superblock in the kernel.
fn others_go_on(name: &str, how: Away) {
    let mut server = Server::new(name);
    let share = server.share();
    let driver = Rc::new(Driver::with_args(&["--mode", "node"]));
    for folder in ["leaving", "staying"] {
        fs::create_dir(share.folder().join(folder)).unwrap();
    }
    let [leaving, staying] = ["leaving", "staying"].map(|folder| driver.target(folder));
    let lines = calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        for folder in ["leaving", "staying"] {
            let mut context = share.parameters();
            context.insert("subDir".to_owned(), folder.to_owned());
            calls
                .publish(folder, &context, &driver.target(folder))
                .await
                .unwrap();
        }
        fs::write(leaving.join("written"), "before").unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let (report, lines_written) = std::sync::mpsc::channel();
        let writing = {
            let (stop, path) = (Arc::clone(&stop), staying.join("log"));
            std::thread::spawn(move || {
                let mut file = File::create(path).unwrap();
                let mut lines = 0;
                while !stop.load(Ordering::Relaxed) {
                    writeln!(file, "line {lines}").unwrap();
                    file.sync_data().unwrap();
                    lines += 1;
                    if lines == 10 {
                        report.send(()).unwrap();
                    }
                    // As a log is written; without a pause it would fill the disk.
                    std::thread::sleep(Duration::from_millis(5));
                }
                lines
            })
        };
        // The server has some lines, and another is under way.
        lines_written.recv().unwrap();
        server.leave(how);
        // An unmount that waits for the server never ends.
        let unpublished = calls.unpublish("leaving", &leaving);
        patiently("unpublish", unpublished).await.unwrap();
        assert!(!leaving.exists());
        assert_eq!(driver.mounts(), [staying.as_path()]);
        assert!(!writing.is_finished(), "the other volume's I/O has failed");
        server.come_back(how);
        // It goes on when the server does.
        let size = || {
            fs::metadata(share.folder().join("staying/log"))
                .unwrap()
                .len()
        };
        let (then, mut patience) = (size(), Patience::default());
        // Looked at again and again: no notification says what a client writes through the kernel's NFS server.
        while size() <= then {
            assert!(patience.lasts(), "the other volume's I/O does not go on");
            tokio::time::sleep(patience.pause()).await;
        }
        stop.store(true, Ordering::Relaxed);
        let lines = tokio::task::spawn_blocking(|| writing.join())
            .await
            .unwrap()
            .unwrap();
        // A program that another test starts has this one's files open until it runs.
        while let Err(status) = calls.unpublish("staying", &staying).await {
            assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
            assert!(patience.lasts(), "{status}");
            tokio::time::sleep(patience.pause()).await;
        }
        lines
    });
    let written = fs::read_to_string(share.folder().join("staying/log")).unwrap();
    let expected: String = (0..lines).map(|line| format!("line {line}\n")).collect();
    assert_eq!(written, expected);
    assert_eq!(
        fs::read_to_string(share.folder().join("leaving/written")).unwrap(),
        "before"
    );
}

#[test]
fn unpublish_leaves_others_alone_when_the_server_is_stopped() {
    others_go_on("others-stopped", Away::Stopped);
}

#[test]
fn unpublish_leaves_others_alone_when_the_server_is_cut_off() {
    others_go_on("others-cut-off", Away::CutOff);
}

/// Version 3 has no session and no lease that would notice, and no server of its own in these tests.
#[test]
fn version_3_cut_off_before_each_call_of_a_node() {
    let share = Share::new("silent", Version::V3);
    let relay = Relay::new();
    let driver = Driver::with_args(&BOUNDS);
    let [silent, beside, new] = ["silent", "beside", "new"].map(|name| driver.target(name));
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let mut context = share.parameters();
        for folder in ["beside", "silent"] {
            fs::create_dir(share.folder().join(folder)).unwrap();
            fs::write(share.folder().join(folder).join("file"), folder).unwrap();
            context.insert("subDir".to_owned(), folder.to_owned());
            if folder == "silent" {
                let options = format!("vers=3,{}", relay.option());
                context.insert("mountOptions".to_owned(), options);
            }
            let target = driver.target(folder);
            let published = repeated(|| calls.publish(folder, &context, &target));
            published.await.unwrap();
            let mounted = fs::read_to_string(target.join("file")).unwrap();
            assert_eq!(mounted, folder);
        }
        let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
        let line = mounts.lines().find(|line| line.contains(&relay.option()));
        assert!(line.unwrap().contains("vers=3"), "{mounts}");
        let before = repeated(|| calls.stats("silent", &silent)).await.unwrap();

        relay.fall_silent();
        let stats = calls.stats("silent", &silent);
        let stats = patiently("stats", stats).await.unwrap();
        assert_eq!(stats.usage, before.usage);
        let condition = stats.volume_condition.unwrap();
        assert!(condition.abnormal, "{condition:?}");
        // A repeat finds what is there.
        let again = repeated(|| calls.publish("silent", &context, &silent));
        patiently("a repeated publish", again).await.unwrap();
        let answer = patiently("publish", calls.publish("silent", &context, &new)).await;
        assert!(answer.is_err() && is_calm("publish", &answer), "{answer:?}");
        // On a busy machine the bound is short for a server that is there, too. One that does not answer never does.
        let mut patience = Patience::default();
        loop {
            let others = repeated(|| calls.stats("beside", &beside)).await.unwrap();
            let condition = others.volume_condition.unwrap();
            if !condition.abnormal {
                break;
            }
            assert!(patience.lasts(), "{condition:?}");
        }
        for target in [&new, &silent] {
            repeated(|| calls.unpublish("silent", target))
                .await
                .unwrap();
            assert!(!target.exists());
        }
        assert_eq!(driver.mounts(), [beside.as_path()]);
        fs::write(beside.join("file"), "goes on").unwrap();

        relay.come_back();
        repeated(|| calls.publish("silent", &context, &new))
            .await
            .unwrap();
        assert_eq!(fs::read_to_string(new.join("file")).unwrap(), "silent");
        for (volume, target) in [("silent", &new), ("beside", &beside)] {
            repeated(|| calls.unpublish(volume, target)).await.unwrap();
        }
    });
    assert!(driver.mounts().is_empty());
}

/// Its record says nothing while the server that its folder is on is silent, and the driver does not wait for that.
#[test]
fn a_driver_starts_though_a_target_of_its_records_hangs() {
    let share = Share::new("inner", Version::V3);
    let relay = Relay::new();
    let mut driver = Driver::with_args(&BOUNDS);
    let outer = driver.target("outer");
    let inner = outer.join("target");
    for folder in ["outer", "inner"] {
        fs::create_dir(share.folder().join(folder)).unwrap();
    }
    let context = |folder: &str, options: &str| {
        let mut context = share.parameters();
        context.insert("subDir".to_owned(), folder.to_owned());
        context.insert("mountOptions".to_owned(), format!("vers=3{options}"));
        context
    };
    let runtime = calls::runtime();
    runtime.block_on(async {
        let calls = Calls::to(&driver.endpoint());
        // Without a cache every look is a question to the server.
        let cut = context("outer", &format!(",actimeo=0,{}", relay.option()));
        repeated(|| calls.publish("outer", &cut, &outer))
            .await
            .unwrap();
        let plain = context("inner", "");
        repeated(|| calls.publish("inner", &plain, &inner))
            .await
            .unwrap();
    });
    driver.kill();
    rustix::mount::unmount(&inner, rustix::mount::UnmountFlags::DETACH).unwrap();
    relay.fall_silent();
    driver.restart();
    runtime.block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let probe = || calls.call(csi_proto::v1::ProbeRequest {});
        let answer = probe().await;
        assert!(answer.is_ok(), "{answer:?}");
        // Calls about it wait, and others do not.
        let waiting = calls.unpublish("inner", &inner);
        let (waited, answer) = tokio::join!(waiting, probe());
        assert!(answer.is_ok(), "{answer:?}");
        assert!(is_calm("unpublish", &waited), "{waited:?}");
        relay.come_back();
        repeated(|| calls.unpublish("inner", &inner)).await.unwrap();
        repeated(|| calls.unpublish("outer", &outer)).await.unwrap();
    });
    assert!(!share.folder().join("outer/target").exists());
    assert!(driver.mounts().is_empty());
}
