//! Whether `csi sanity` can fail: against the reference driver it passes, and for each defect that this driver can have,
//! the case that is about it fails, and no other.

pub mod found_by;

use crate::support::reference::ReferenceDriver;
use csi_cli::sanity::{Report, Settings, run};
use csi_mock::{Defect, Options};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::plugin_capability::volume_expansion::Type as Expansion;
use found_by::{caller, found_by};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// How many drivers are examined at a time. They wait more than they work.
const AT_A_TIME: usize = 8;

/// What to do where a case is skipped, or is no more.
const ALL_IS_TRIED: &str = "the mock has every RPC (mock/src/) and capability (mock/src/options.rs), and each RPC answers OK in \
     a case (crates/sanity/src/cases/)";

/// What a driver with every capability is not asked, and why.
const SKIPPED: [(&str, &str); 5] = [
    (
        "controller/capabilities/others-are-unimplemented",
        "there is no such RPC",
    ),
    (
        "controller/create-volume/from-a-source-that-is-not-advertised",
        "both kinds of sources are advertised",
    ),
    // It runs for each access type and is about one.
    ("node/publish/block-as-a-device", "shown with block"),
    // The reference driver makes links and files.
    (
        "node/publish/readonly",
        "the driver does not mount here: nothing could keep writers out",
    ),
    (
        "node/publish/readonly@block",
        "the driver does not mount here: nothing could keep writers out",
    ),
];

/// A driver in which the defect shows, and is the only thing that is wrong.
pub fn driver_with(defect: Defect) -> Options {
    let options = Options::default().with(defect);
    match defect {
        // It is advertised though what it goes with is not there.
        Defect::CapabilityWithoutItsBase | Defect::PublishedNodesWithoutPublishing => options
            .without_controller(ControllerCapability::PublishUnpublishVolume)
            .without_controller(ControllerCapability::PublishReadonly)
            .without_controller(ControllerCapability::ListVolumesPublishedNodes),
        // Else ListVolumes shows it as well.
        Defect::NodeIdTooLong => {
            options.without_controller(ControllerCapability::ListVolumesPublishedNodes)
        }
        // Only what is not advertised can be answered wrongly.
        Defect::UnadvertisedIsInternal => {
            options.without_controller(ControllerCapability::ModifyVolume)
        }
        Defect::VolumeTopologyUnadvertised | Defect::NodeTopologyUnadvertised => {
            options.without_service(PluginService::VolumeAccessibilityConstraints)
        }
        // A group is ready with its snapshots, so one that is ready too early needs slow ones.
        Defect::GroupReadyTooEarly => Options {
            looks_until_ready: 3,
            ..options
        },
        // Nobody would notice before all of it is used up.
        Defect::RoomNeverGivenBack => Options {
            max_volumes: 6,
            ..options
        },
        Defect::PlacesNeverGivenBack => Options {
            max_volumes_per_node: 6,
            ..options
        },
        _ if is_about_secrets(defect) => Options {
            secrets: secrets(),
            ..options
        },
        // The calls that meet it must not be over before.
        _ if is_about_time(defect) => Options {
            pace: Duration::from_millis(50),
            ..options
        },
        _ => options,
    }
}

/// Whether the defect shows where calls carry secrets.
fn is_about_secrets(defect: Defect) -> bool {
    matches!(
        defect,
        Defect::MissingSecretsAreInternal | Defect::PublishContextHasSecrets
    )
}

/// Whether the defect shows when a call meets another one, or ends before its time.
fn is_about_time(defect: Defect) -> bool {
    let name = format!("{defect:?}");
    name.starts_with("Parallel") || name.starts_with("Cancelled")
}

/// Whether the defect shows by something that never comes, for which nobody should wait long.
pub fn is_waited_for(defect: Defect) -> bool {
    matches!(
        defect,
        Defect::ParallelCallsHang
            | Defect::CancelledCallKeepsLock
            | Defect::RefusedCreateVolumeKeepsLock
            | Defect::CancelledCreateVolumeLeavesName
            | Defect::CancelledCreateSnapshotLeavesName
            | Defect::SnapshotNeverReady
            | Defect::ProbeNeverReady
    )
}

/// Whether the defect shows only when the driver is restarted between two steps of a case that is about something else.
pub fn is_between_steps(defect: Defect) -> bool {
    defect == Defect::ExpansionsLostOnRestart
}

/// The number of steps between two restarts in a run that shows the defect; 0 for none.
pub fn restarts(defect: Defect) -> u64 {
    u64::from(is_between_steps(defect))
}

/// All that a run against this driver can be told, so that nothing is skipped for want of it.
pub fn settings_for(driver: &mut ReferenceDriver) -> Settings {
    let mut settings = Settings::of(driver.endpoint());
    settings.mount_parent = Some(driver.workplace());
    settings.restart_command = Some(driver.restart_command());
    settings.mutable_parameters = [("tier".to_owned(), "fast".to_owned())].into();
    settings.other_node_id = Some("node-2".to_owned());
    settings.volume_size = Some(64 << 20);
    settings.seed = Some(1);
    // What the specification only recommends counts as well: the reference keeps it, some defects do not.
    settings.strict = true;
    settings
}

fn secrets() -> BTreeMap<String, String> {
    [("token".to_owned(), "not-for-logs".to_owned())].into()
}

pub fn run_to_the_end(settings: Settings) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(run(settings)).unwrap()
}

/// Why the cases of a run were skipped.
pub fn skipped(report: &Report) -> BTreeMap<&str, &str> {
    let reasons = report.results.iter();
    let reasons = reasons.filter_map(|one| Some((one.name.as_str(), one.reason.as_deref()?)));
    reasons.collect()
}

#[test]
fn the_reference_passes_every_case() {
    let mut driver = ReferenceDriver::start(Options {
        secrets: secrets(),
        ..Options::default()
    });
    let mut settings = settings_for(&mut driver);
    settings.secrets = secrets();
    let report = run_to_the_end(settings);
    assert!(report.is_success(), "{report}");
    let (skipped, usual) = (skipped(&report), BTreeMap::from(SKIPPED));
    assert_eq!(skipped, usual, "{ALL_IS_TRIED}");
    assert_eq!(driver.left_behind(), [""; 0]);
    let workplace = std::fs::read_dir(driver.workplace()).unwrap();
    assert_eq!(workplace.count(), 0, "files were left");
}

#[test]
fn the_reference_passes_though_it_is_restarted_between_any_two_steps() {
    // The restarts take their time.
    let mut driver = ReferenceDriver::start(Options {
        pace: Duration::ZERO,
        ..Options::default()
    });
    let mut settings = settings_for(&mut driver);
    settings.restart_between_steps = 1;
    let report = run_to_the_end(settings);
    assert!(report.is_success(), "{report}");
    assert!(driver.restarts() > 1000, "{} restarts", driver.restarts());
    assert_eq!(driver.left_behind(), [""; 0]);
}

#[test]
fn restarts_come_before_every_step_of_a_number_and_lifecycles_are_tried_whole() {
    let restarts = |filter: &str, between_steps: u64, seed: u64| {
        let mut driver = ReferenceDriver::start(Options::default());
        let mut settings = settings_for(&mut driver);
        settings.filter = vec![filter.to_owned()];
        settings.restart_between_steps = between_steps;
        settings.seed = Some(seed);
        let report = run_to_the_end(settings);
        assert!(report.is_success(), "{report}");
        driver.restarts()
    };
    // It has two steps.
    let case = "identity/plugin-capabilities/are-known-and-constant";
    assert_eq!(restarts(case, 0, 1), 0);
    assert_eq!(restarts(case, 1, 1), 1);
    // With every second step some seeds meet the only pair, and others do not.
    let by_seed: Vec<_> = (1..=8).map(|seed| restarts(case, 2, seed)).collect();
    assert!(by_seed.contains(&0) && by_seed.contains(&1), "{by_seed:?}");
    let lifecycle = "lifecycle/every-step-twice";
    assert_eq!(restarts(lifecycle, 7, 1), restarts(lifecycle, 1, 1));
}

#[test]
fn some_defects_show_between_steps_alone() {
    let defects = Defect::ALL.iter().copied();
    for defect in defects.filter(|defect| is_between_steps(*defect)) {
        let Seen {
            is_found, report, ..
        } = seen(defect, driver_with(defect), 0);
        assert!(!is_found, "{defect}: found without restarts\n{report}");
    }
}

#[test]
fn drivers_that_can_do_less_pass_too() {
    let slow_snapshots = Options {
        looks_until_ready: 2,
        ..Options::default()
    };
    let offline = Options {
        expansion: Some(Expansion::Offline),
        ..Options::default()
    };
    let expanded_at_node =
        Options::default().without_controller(ControllerCapability::ExpandVolume);
    let unstaged = Options::default()
        .without_node(NodeCapability::StageUnstageVolume)
        .without_controller(ControllerCapability::PublishUnpublishVolume)
        .without_controller(ControllerCapability::PublishReadonly)
        .without_controller(ControllerCapability::ListVolumesPublishedNodes);
    let unplaced =
        Options::default().without_service(PluginService::VolumeAccessibilityConstraints);
    let without_snapshots = Options::default()
        .without_service(PluginService::GroupControllerService)
        .without_service(PluginService::SnapshotMetadataService)
        .without_controller(ControllerCapability::CreateDeleteSnapshot)
        .without_controller(ControllerCapability::ListSnapshots)
        .without_controller(ControllerCapability::GetSnapshot)
        .without_controller(ControllerCapability::CloneVolume);
    let drivers = [
        ("slow snapshots", slow_snapshots),
        ("offline", offline),
        ("expanded at the node", expanded_at_node),
        ("unstaged", unstaged),
        ("unplaced", unplaced),
        ("without snapshots", without_snapshots),
        ("minimal", Options::minimal()),
    ];
    each(&drivers, |(name, options)| {
        let mut driver = ReferenceDriver::start(options.clone());
        let report = run_to_the_end(settings_for(&mut driver));
        assert!(report.is_success(), "{name}\n{report}");
        assert!(report.counts().passed > 0, "{name}\n{report}");
        assert_eq!(driver.left_behind(), [""; 0], "{name}");
    });
}

#[test]
fn drivers_that_take_every_liberty_pass_too() {
    let at_liberty = Options {
        at_liberty: true,
        looks_until_ready: 2,
        pace: Duration::from_millis(10),
        ..Options::default()
    };
    let unattached = at_liberty
        .clone()
        .without_controller(ControllerCapability::PublishUnpublishVolume)
        .without_controller(ControllerCapability::PublishReadonly)
        .without_controller(ControllerCapability::ListVolumesPublishedNodes);
    let drivers = [("attached", at_liberty), ("unattached", unattached)];
    each(&drivers, |(name, options)| {
        let mut driver = ReferenceDriver::start(options.clone());
        let mut settings = settings_for(&mut driver);
        // What is recommended may be left.
        settings.strict = false;
        let report = run_to_the_end(settings);
        assert!(report.is_success(), "{name}\n{report}");
        assert_eq!(driver.left_behind(), [""; 0], "{name}");
    });
}

#[test]
fn a_skip_names_what_is_not_advertised() {
    let options = Options::default().without_controller(ControllerCapability::ListSnapshots);
    let mut driver = ReferenceDriver::start(options);
    let mut settings = settings_for(&mut driver);
    settings.filter = vec!["list-snapshots".to_owned()];
    let report = run_to_the_end(settings);
    let skipped = skipped(&report);
    assert_eq!(skipped.len(), report.results.len(), "{report}");
    for (name, reason) in skipped {
        assert!(reason.contains("LIST_SNAPSHOTS"), "{name}: {reason}");
    }
}

/// What a run of the case that is about a defect showed.
pub struct Seen {
    pub driver: ReferenceDriver,
    pub report: Report,
    /// Whether that case failed, and no other.
    pub is_found: bool,
}

/// Runs the case that is about a defect against a driver.
pub fn seen(defect: Defect, options: Options, restart_between_steps: u64) -> Seen {
    let case = found_by(defect);
    // The last cases judge what others have seen, so another one is there whose calls are refused.
    let filter = [
        case,
        caller(defect),
        "controller/create-volume/without-name",
        "replies/",
    ];
    let filter = filter.map(str::to_owned).to_vec();
    let examined = |patience| {
        let (mut options, filter) = (options.clone(), filter.clone());
        options.pace *= patience;
        let (driver, report) = run_with(defect, options, filter, restart_between_steps, patience);
        let mut failed = failed_in(&report);
        // A filter also selects the cases whose names only begin like that.
        failed.retain(|name| *name == case || !name.contains(case));
        let is_found = failed == BTreeSet::from([case]);
        Seen {
            driver,
            report,
            is_found,
        }
    };
    let mut seen = examined(1);
    // A machine that is busy with other work answers later than what is waited for in vain may take, and lets calls that are to
    // meet come one after the other.
    let is_timed = is_waited_for(defect) || is_about_time(defect);
    for patience in [10, 40] {
        if !seen.is_found && is_timed && options.defect.is_some() {
            seen = examined(patience);
        }
    }
    seen
}

/// The cases that failed, without the access type at the end of a name.
fn failed_in(report: &Report) -> BTreeSet<&str> {
    let failed = report.failed();
    failed.filter_map(|name| name.split('@').next()).collect()
}

/// Runs the cases that the filter selects against a driver with a defect.
fn run_with(
    defect: Defect,
    options: Options,
    filter: Vec<String>,
    restart_between_steps: u64,
    patience: u32,
) -> (ReferenceDriver, Report) {
    // Nobody waits in vain for another one.
    let is_defective = options.defect.is_some();
    let mut driver = ReferenceDriver::start(options);
    let mut settings = settings_for(&mut driver);
    settings.filter = filter;
    settings.restart_between_steps = restart_between_steps;
    if is_about_secrets(defect) {
        let file = driver.workplace().with_file_name("secrets");
        std::fs::write(&file, serde_json::to_vec(&secrets()).unwrap()).unwrap();
        settings.secrets = secrets();
        settings.secrets_file = Some(file.display().to_string());
    }
    if is_waited_for(defect) && is_defective {
        settings.timeout = patience * Duration::from_millis(500);
        settings.case_limit = patience * Duration::from_millis(2500);
    }
    let report = run_to_the_end(settings);
    (driver, report)
}

#[test]
fn a_slow_driver_is_not_taken_for_a_defective_one() {
    let about_time: Vec<_> = Defect::ALL
        .iter()
        .filter(|one| is_about_time(**one))
        .collect();
    each(&about_time, |&&defect| {
        let healthy = Options {
            defect: None,
            ..driver_with(defect)
        };
        let Seen {
            is_found, report, ..
        } = seen(defect, healthy, restarts(defect));
        assert!(!is_found, "without {defect}\n{report}");
    });
}

/// Whole runs are dear: without `CSI_TEST_MINUTES`, one defect of so many has one, the same ones each time.
const ONE_OF: usize = 32;

#[test]
fn a_defect_fails_one_case_of_all() {
    let all = std::env::var_os("CSI_TEST_MINUTES").is_some();
    // Where a whole run waits for timeouts, a busy machine shows itself in other cases.
    let defects = Defect::ALL.iter().filter(|one| !is_waited_for(**one));
    let defects = defects.copied().enumerate();
    // One that shows in whatever case runs beside others is always among them.
    let is_tried = |(number, one): &(usize, Defect)| {
        all || number % ONE_OF == 0 || *one == Defect::VolumeIdsAreCounted
    };
    let defects = defects.filter(is_tried).map(|(_, one)| one);
    let defects: Vec<_> = defects.collect();
    let wrong = Mutex::new(Vec::new());
    each(&defects, |&defect| {
        let (_, report) = run_with(defect, driver_with(defect), Vec::new(), restarts(defect), 1);
        if failed_in(&report) != BTreeSet::from([found_by(defect)]) {
            let told = format!("{defect}\nby {}\n{report}", found_by(defect));
            eprintln!("{told}");
            wrong.lock().unwrap().push(told);
        }
    });
    let wrong = wrong.into_inner().unwrap();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn snapshots_that_never_become_ready_are_one_failure() {
    let defect = Defect::SnapshotNeverReady;
    let filter = ["snapshot/", "from-snapshot", "becomes-ready"].map(str::to_owned);
    let is_the_only_one = |patience| {
        let filter = filter.clone().into();
        let (_, report) = run_with(defect, driver_with(defect), filter, 0, patience);
        let is_so = failed_in(&report) == BTreeSet::from([found_by(defect)]);
        if !is_so {
            eprintln!("{report}");
        }
        is_so
    };
    // A busy machine may need longer than so long for any call.
    assert!([1, 10, 40].into_iter().any(is_the_only_one));
}

#[test]
fn snapshots_that_are_not_ready_yet_make_a_run_incomplete() {
    let mut driver = ReferenceDriver::start(Options {
        looks_until_ready: u32::MAX,
        ..Options::default()
    });
    let mut settings = settings_for(&mut driver);
    settings.strict = false;
    settings.case_limit = Duration::from_secs(2);
    settings.filter = ["becomes-ready", "from-snapshot"].map(str::to_owned).into();
    let report = run_to_the_end(settings);
    assert_eq!(failed_in(&report), BTreeSet::new(), "{report}");
    let told = "a snapshot is not ready yet after half of the time of --case-limit";
    assert_eq!(report.incomplete, [told], "{report}");
}

#[test]
fn what_the_specification_demands_fails_without_strict_too() {
    let defect = Defect::CreateVolumeComparesRanges;
    let offline = Options {
        expansion: Some(Expansion::Offline),
        ..Options::default()
    };
    let drivers = [
        (driver_with(defect), found_by(defect)),
        (
            offline.without_controller(ControllerCapability::ExpandVolume),
            "controller/capabilities/go-together",
        ),
    ];
    each(&drivers, |(options, case)| {
        let mut driver = ReferenceDriver::start(options.clone());
        let mut settings = settings_for(&mut driver);
        settings.strict = false;
        settings.filter = vec![(*case).to_owned()];
        let report = run_to_the_end(settings);
        assert_eq!(failed_in(&report), BTreeSet::from([*case]), "{report}");
    });
}

#[test]
fn drivers_of_older_specifications_are_judged_by_what_they_advertise() {
    each(&[0, 2, 5], |&minor| {
        let options = Options {
            secrets: secrets(),
            ..Options::of_specification(minor)
        };
        let mut driver = ReferenceDriver::start(options.clone());
        let mut settings = settings_for(&mut driver);
        settings.secrets = secrets();
        // What came to be recommended later is said.
        settings.strict = minor == 5;
        let report = run_to_the_end(settings);
        assert!(report.is_success(), "1.{minor}\n{report}");
        let warned = report.results.iter().filter(|one| !one.warnings.is_empty());
        let warned: BTreeSet<_> = warned
            .map(|one| one.name.trim_end_matches("@block"))
            .collect();
        let longer_paths = BTreeSet::from(["node/publish/with-a-path-of-128-bytes"]);
        let expected = if minor < 5 {
            longer_paths
        } else {
            BTreeSet::new()
        };
        assert_eq!(warned, expected, "1.{minor}");
        let has = options.advertised();
        for (name, reason) in skipped(&report) {
            let lacking = reason.strip_prefix("not advertised: ");
            let is_told = lacking.is_some_and(|lacking| {
                let lacking = lacking.replace(" or ", ", ");
                let names = lacking
                    .split(", ")
                    .filter_map(|one| one.split(' ').next_back());
                names.into_iter().any(|one| !has.contains(&one))
            });
            let is_usual = SKIPPED.contains(&(name, reason));
            assert!(is_told || is_usual, "1.{minor}: {name}: {reason}");
        }
        assert_eq!(driver.left_behind(), [""; 0], "1.{minor}");
    });
}

#[test]
fn what_an_older_specification_does_not_say_is_no_failure() {
    let defect = Defect::CreateVolumeIgnoresSourceOnRepeat;
    for (minor, fails) in [(2, false), (5, true)] {
        let mut driver = ReferenceDriver::start(Options::of_specification(minor).with(defect));
        let mut settings = settings_for(&mut driver);
        settings.strict = false;
        settings.filter = vec![found_by(defect).to_owned()];
        let report = run_to_the_end(settings);
        assert_eq!(!report.is_success(), fails, "1.{minor}\n{report}");
        assert_eq!(
            report.counts().warned,
            usize::from(!fails),
            "1.{minor}\n{report}"
        );
    }
}

#[test]
fn what_is_optional_may_be_left_out() {
    let defect = Defect::ContentSourceNotAnswered;
    let mut driver = ReferenceDriver::start(driver_with(defect));
    let mut settings = settings_for(&mut driver);
    settings.strict = false;
    settings.filter = [found_by(defect), caller(defect)].map(str::to_owned).into();
    let report = run_to_the_end(settings);
    assert!(report.is_success(), "{report}");
    assert_eq!(report.counts().warned, 1, "{report}");
}

/// Does something with each, several at a time.
pub fn each<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(one);
                }
            });
        }
    });
}
