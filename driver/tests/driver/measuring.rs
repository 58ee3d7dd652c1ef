//! What volumes take on the disk, measured in the background: counted right, at a bounded rate, once in an interval, and shown.

use crate::controller::calls::*;
use crate::rig::patience::{Patience, patiently};
use crate::rig::{Client, Driver, Rig};
use csi_nfs::calls::controller::{Controller, Pace};
use csi_nfs::process::http::{HttpAddress, get as ask};
use csi_proto::v1::*;
use rustix::fs::{CWD, FileType, Mode};
use rustix::process::Signal;
use std::collections::BTreeSet;
use std::fs::{File, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const ALWAYS: Duration = Duration::ZERO;
/// Entries that are looked at in one go.
const PART: usize = 250;

/// A controller that measures without rest, and what is known of that.
struct Measurer {
    controller: Controller,
    /// What it says, notices and debug alike.
    said: Arc<Mutex<Vec<String>>>,
    /// After how many entries it has rested, each time.
    rests: Arc<Mutex<Vec<usize>>>,
}

impl Measurer {
    fn of(host: &Host, interval: Duration) -> Self {
        Self::pausing(host, interval, |_| ())
    }

    /// One that does `pause` where it would rest.
    fn pausing(
        host: &Host,
        interval: Duration,
        pause: impl Fn(usize) + Send + Sync + 'static,
    ) -> Self {
        let said = Arc::new(Mutex::new(Vec::new()));
        let rests = Arc::new(Mutex::new(Vec::new()));
        let mut config = host.config();
        let (notices, debug, rested) = (Arc::clone(&said), Arc::clone(&said), Arc::clone(&rests));
        config.notice = Arc::new(move |text| notices.lock().unwrap().push(text.to_owned()));
        config.debug = Arc::new(move |text| debug.lock().unwrap().push(text.to_owned()));
        config.measure = Some(Pace {
            interval,
            rest: Arc::new(move |looked| {
                rested.lock().unwrap().push(looked);
                pause(looked);
                Duration::ZERO
            }),
        });
        Self {
            controller: Controller::new(config),
            said,
            rests,
        }
    }

    /// What it has measured, and nothing else that it has said but what it began with.
    fn measured(&self) -> Vec<String> {
        let said = self.said.lock().unwrap();
        let said = said.iter().filter(|it| !it.contains(": measuring "));
        let (measured, other): (Vec<_>, Vec<_>) =
            said.cloned().partition(|it| it.contains(" measured "));
        assert_eq!(other, Vec::<String>::new());
        measured
    }
}

fn folder_of(host: &Host, volume: &Volume) -> PathBuf {
    host.at(&volume.volume_context["subDir"])
}

fn fill(folder: &Path, files: usize) {
    for number in 0..files {
        std::fs::write(folder.join(format!("file-{number}")), "content").unwrap();
    }
}

fn du(folder: &Path) -> u64 {
    let told = Command::new("du").args(["-s", "-B1"]).arg(folder).output();
    let told = String::from_utf8(told.unwrap().stdout).unwrap();
    told.split_whitespace().next().unwrap().parse().unwrap()
}

/// The only measure on the share.
fn measure(host: &Host) -> Option<serde_json::Value> {
    let volumes = std::fs::read_dir(host.at(".csi-nfs/volumes")).unwrap();
    let files = volumes.flat_map(|folder| std::fs::read_dir(folder.unwrap().path()).unwrap());
    let mut files = files.map(|file| file.unwrap().path());
    let file = files.find(|path| {
        let name = path.file_name().unwrap().to_str().unwrap();
        name.starts_with("measure.")
    })?;
    Some(serde_json::from_slice(&std::fs::read(file).unwrap()).unwrap())
}

fn names(folder: &Path) -> BTreeSet<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn what_a_volume_takes_is_counted_as_du_counts_it_and_shown() {
    let host = Host::new();
    let measurer = Measurer::of(&host, ALWAYS);
    let controller = &measurer.controller;
    let volume = create(controller, sized("v", 1 << 20, 0)).await.unwrap();
    let folder = folder_of(&host, &volume);
    let at = |name: &str| folder.join(name);
    let (_, condition) = get(controller, &volume.volume_id).await.unwrap();
    assert_eq!(condition.message, "the volume's folder is on the share");
    for name in ["shut", "inner"] {
        std::fs::create_dir(at(name)).unwrap();
    }
    std::fs::write(at("file"), vec![7; 700_000]).unwrap();
    std::fs::hard_link(at("file"), at("inner/again")).unwrap();
    let sparse = File::create(at("sparse")).unwrap();
    sparse.write_all_at(b"x", 1 << 30).unwrap();
    symlink("..", at("inner/loop")).unwrap();
    symlink("/", at("away")).unwrap();
    rustix::fs::mknodat(CWD, at("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    fill(&at("shut"), 3);
    if rustix::process::geteuid().is_root() {
        std::fs::set_permissions(at("shut"), Permissions::from_mode(0o000)).unwrap();
    }
    controller.measure_once().await;
    assert_eq!(measurer.measured().len(), 1);
    let kept = measure(&host).unwrap();
    assert_eq!(kept["bytes"].as_u64(), Some(du(&folder)));
    // The file with two names once.
    let counted = [&kept["files"], &kept["folders"]].map(|it| it.as_u64());
    assert_eq!(counted, [Some(8), Some(3)]);
    assert_eq!(kept.get("short"), None);
    let (_, condition) = get(controller, &volume.volume_id).await.unwrap();
    let (what, age) = condition.message.split_once(" measured ").unwrap();
    assert!(what.starts_with("the volume's folder is on the share; "));
    assert!(what.ends_with(" KiB in 11 files and folders"), "{what}");
    assert!(age.ends_with("s ago") && !condition.abnormal, "{age}");

    // Beyond its size it works as before: nothing is wrong with it.
    std::fs::write(at("more"), vec![7; 1 << 20]).unwrap();
    controller.measure_once().await;
    let plain = host.controller();
    let listed = page(&plain, 0, "").await.unwrap().entries.remove(0);
    let condition = listed.status.unwrap().volume_condition.unwrap();
    assert!(
        condition
            .message
            .contains(" KiB beyond its size, measured ")
    );
    assert!(!condition.abnormal, "{condition:?}");

    // With its age still when nobody measures any more.
    let path = names(&host.at(".csi-nfs/volumes")).pop_first().unwrap();
    let folder = host.at(".csi-nfs/volumes").join(path);
    let mut names = names(&folder).into_iter();
    let name = names.find(|it| it.starts_with("measure.")).unwrap();
    let mut kept = measure(&host).unwrap();
    kept["ended"] = (kept["ended"].as_u64().unwrap() - 7200).into();
    std::fs::write(folder.join(name), kept.to_string()).unwrap();
    let (_, condition) = get(&plain, &volume.volume_id).await.unwrap();
    assert!(
        condition.message.ends_with("measured 120m ago"),
        "{condition:?}"
    );
    delete(&plain, &volume.volume_id).await.unwrap();
    assert_eq!(self::names(&host.at(".csi-nfs/volumes")), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_rate_is_bounded() {
    let host = Host::new();
    let measurer = Measurer::of(&host, HOUR);
    let controller = &measurer.controller;
    // None is there to ask for.
    controller.measure_once().await;
    let volume = create(controller, request("v")).await.unwrap();
    create(controller, request("empty")).await.unwrap();
    let folder = folder_of(&host, &volume);
    fill(&folder, 3 * PART + 10);
    std::fs::create_dir(folder.join("inner")).unwrap();
    fill(&folder.join("inner"), 20);
    controller.measure_once().await;
    assert_eq!(measurer.measured().len(), 2);
    // Two records, and one file or folder after the other, none more than once.
    let mut rests = std::mem::take(&mut *measurer.rests.lock().unwrap());
    assert_eq!(rests.iter().sum::<usize>(), 2 + 3 * PART + 10 + 1 + 20);
    assert_eq!(rests.iter().max(), Some(&PART));
    rests.retain(|looked| *looked == PART);
    assert_eq!(rests.len(), 3);
    // What is young costs a look at its record.
    controller.measure_once().await;
    assert_eq!(measurer.measured().len(), 2);
    assert_eq!(*measurer.rests.lock().unwrap(), [2]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_young_measure_of_another_controller_is_left() {
    let host = Host::new();
    let [one, other] = [Measurer::of(&host, HOUR), Measurer::of(&host, HOUR)];
    for number in 0..20 {
        let volume = create(&one.controller, request(&format!("v{number}")));
        fill(&folder_of(&host, &volume.await.unwrap()), number);
    }
    one.controller.measure_once().await;
    other.controller.measure_once().await;
    let counts = [one, other].map(|measurer| measurer.measured().len());
    assert_eq!(counts, [20, 0]);
    assert_eq!(names(&host.at(".csi-nfs/drafts")), BTreeSet::new());
}

/// A measurer that waits after the first part of a volume: until it is told to go on.
fn waiting(host: &Host) -> (Measurer, Receiver<()>, Sender<()>) {
    let (reached, at) = channel();
    let (go, going) = channel::<()>();
    let going = Mutex::new(going);
    let measurer = Measurer::pausing(host, HOUR, move |looked| {
        if looked == PART {
            reached.send(()).unwrap();
            // When the test has ended, whatever it waits for has.
            let _ = going.lock().unwrap().recv();
        }
    });
    (measurer, at, go)
}

/// Lets a volume of two parts be measured, and does `meanwhile` between the two.
async fn while_it_is_measured<T>(
    host: &Host,
    meanwhile: impl AsyncFnOnce(&Controller, &Volume) -> T,
) -> (Measurer, T) {
    let (measurer, at, go) = waiting(host);
    let controller = measurer.controller.clone();
    let volume = create(&controller, request("v")).await.unwrap();
    fill(&folder_of(host, &volume), PART + 50);
    let measuring = {
        let controller = controller.clone();
        tokio::spawn(async move { controller.measure_once().await })
    };
    let at = tokio::task::spawn_blocking(move || at.recv().map(|()| at));
    let _at = patiently("the first part", at).await.unwrap().unwrap();
    let done = patiently("a call meanwhile", meanwhile(&controller, &volume)).await;
    go.send(()).unwrap();
    patiently("the end of measuring", measuring).await.unwrap();
    (measurer, done)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_volume_that_is_deleted_meanwhile_leaves_no_measure() {
    let host = Host::new();
    let (measurer, ()) = while_it_is_measured(&host, async |controller, volume| {
        delete(controller, &volume.volume_id).await.unwrap();
        // Another one of its name.
        create(controller, request("v")).await.unwrap();
    })
    .await;
    assert_eq!(measurer.measured(), Vec::<String>::new());
    assert_eq!(measure(&host), None);
    assert_eq!(names(&host.at(".csi-nfs/drafts")), BTreeSet::new());
    let controller = &measurer.controller;
    let [id] = <[String; 1]>::try_from(list(controller).await).unwrap();
    delete(controller, &id).await.unwrap();
    assert_eq!(names(&host.at(".csi-nfs/volumes")), BTreeSet::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn files_that_come_and_go_meanwhile_are_no_trouble() {
    let host = Host::new();
    let (measurer, ()) = while_it_is_measured(&host, async |_, volume| {
        let folder = folder_of(&host, volume);
        for number in 0..PART + 50 {
            let file = folder.join(format!("file-{number}"));
            std::fs::remove_file(&file).unwrap();
            if number % 2 == 0 {
                std::fs::create_dir(&file).unwrap();
            }
        }
        fill(&folder.join("file-0"), 40);
    })
    .await;
    assert_eq!(measurer.measured().len(), 1);
    let kept = measure(&host).unwrap();
    assert!(kept["files"].as_u64().unwrap() >= PART as u64, "{kept}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn calls_are_answered_while_a_volume_is_measured() {
    let host = Host::new();
    let (measurer, expanded) = while_it_is_measured(&host, async |controller, volume| {
        let id = &volume.volume_id;
        create(controller, request("other")).await.unwrap();
        // Twice, so that the record that it began with is gone.
        expand(controller, id, 1 << 20, 0).await.unwrap();
        expand(controller, id, 2 << 20, 0).await.unwrap();
        let bytes = expand(controller, id, 3 << 20, 0).await.unwrap();
        assert_eq!(list(controller).await.len(), 2);
        bytes
    })
    .await;
    assert_eq!(expanded, 3 << 20);
    // The other one was made after the round had begun.
    assert_eq!(measurer.measured().len(), 1);
    assert_eq!(measure(&host).unwrap()["files"], PART + 50);
}

/// One volume that cannot be measured keeps no other from it, and is told once.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn trouble_with_one_volume_is_told_once() {
    let host = Host::new();
    let measurer = Measurer::of(&host, ALWAYS);
    let controller = &measurer.controller;
    let mut folders = Vec::new();
    for name in ["a", "b", "c"] {
        let volume = create(controller, request(name)).await.unwrap();
        folders.push(folder_of(&host, &volume));
    }
    std::fs::remove_dir(&folders[1]).unwrap();
    symlink("/", &folders[1]).unwrap();
    for _ in 0..2 {
        controller.measure_once().await;
    }
    let said = measurer.said.lock().unwrap().clone();
    let (measured, told): (Vec<_>, Vec<_>) = said.iter().partition(|it| it.contains(" measured v"));
    assert_eq!(measured.len(), 4, "{said:?}");
    let told: Vec<_> = told
        .into_iter()
        .filter(|it| !it.contains(": measuring "))
        .collect();
    assert_eq!(told.len(), 1, "{said:?}");
    assert!(
        told[0].starts_with("volumes are not measured: "),
        "{told:?}"
    );
}

const FILES: usize = 2500;

/// The driver's command for a rig with a volume that takes seconds to measure.
fn flags() -> [&'static str; 6] {
    [
        "--measure",
        "1s",
        "--log-level",
        "debug",
        "--http",
        "127.0.0.1:0",
    ]
}

async fn rig_with_a_volume() -> (Rig, String) {
    let rig = Rig::new();
    let driver = rig.driver();
    let client = Client::connect(&rig).await;
    let created = client.call(CreateVolumeRequest {
        capacity_range: Some(CapacityRange {
            required_bytes: 4096,
            limit_bytes: 0,
        }),
        ..request("v")
    });
    let volume = created.await.unwrap().volume.unwrap();
    let folder = rig.path("export").join(&volume.volume_context["subDir"]);
    fill(&folder, FILES);
    driver.kill();
    (rig, volume.volume_id)
}

async fn condition(rig: &Rig, volume_id: &str) -> VolumeCondition {
    let client = Client::connect(rig).await;
    let got = client.call(ControllerGetVolumeRequest {
        volume_id: volume_id.to_owned(),
    });
    got.await.unwrap().status.unwrap().volume_condition.unwrap()
}

/// The number that a series has.
fn value(driver: &mut Driver, http: &HttpAddress, series: &str) -> u64 {
    assert!(driver.is_running());
    let (_, text) = ask(http, "/metrics").unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(series));
    line.unwrap().trim().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_driver_that_ends_in_the_middle_is_followed_by_one_that_measures() {
    let (rig, id) = rig_with_a_volume().await;
    for signal in [Signal::TERM, Signal::KILL] {
        let mut tries = 0;
        loop {
            let mut driver = rig.driver_with(&flags());
            driver.wait_for(": measuring ");
            driver.signal(signal);
            assert_eq!(driver.wait().success(), signal == Signal::TERM);
            let log = driver.log();
            if !log.iter().any(|line| line.contains(" measured ")) {
                break;
            }
            // An orderly end waits for no measure. One may come before the signal, on a busy machine.
            tries += 1;
            assert!(tries < 10, "{log:?}");
        }
    }
    let mut driver = Driver::start(rig.driver_command().args(flags()));
    let line = driver.wait_for("serving");
    let (_, address) = line.split_once("http=").unwrap();
    let http: HttpAddress = address.split(' ').next().unwrap().parse().unwrap();
    let measured = driver.wait_for(" measured ");
    assert!(measured.contains(&format!("{FILES} files")), "{measured}");
    let words = format!(" in {} files and folders", FILES + 1);
    let condition = self::condition(&rig, &id).await;
    assert!(condition.message.contains(&words), "{condition:?}");
    for (series, expected) in [("volumes_measured", 1), ("volumes_beyond_size", 1)] {
        let series = format!("csi_nfs_{series}");
        let mut patience = Patience::default();
        while value(&mut driver, &http, &series) != expected {
            assert!(patience.lasts(), "{series}");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    let folder = rig.path("export");
    let mut volumes = names(&folder).into_iter();
    let volume = volumes.find(|name| name.starts_with("v~")).unwrap();
    let bytes = value(&mut driver, &http, "csi_nfs_measured_bytes");
    assert_eq!(bytes, du(&folder.join(volume)));
    assert!(value(&mut driver, &http, "csi_nfs_oldest_measure_seconds") < 60);
    driver.kill();
    // Without the flag it is known still.
    let plain = rig.driver();
    assert!(self::condition(&rig, &id).await.message.contains(&words));
    drop(plain);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn an_agent_measures_too() {
    let (rig, id) = rig_with_a_volume().await;
    let mut command = rig.command(env!("CARGO_BIN_EXE_csi-nfs"));
    command.args(["agent", "--measure", "1s", "--log-level", "debug"]);
    command.arg("--local-share");
    command.arg(format!("server:/={}", rig.path("export").display()));
    let mut agent = Driver::start(&mut command);
    agent.wait_for(" measured ");
    agent.signal(Signal::TERM);
    assert!(agent.wait().success(), "{:?}", agent.log());
    let _driver = rig.driver();
    let condition = condition(&rig, &id).await;
    assert!(condition.message.contains(" measured "), "{condition:?}");
}
