//! What a driver may limit, and may be slow at, is no failure; what it does not give back is one.
//!
//! These tests wait longer than all others, so they are best among the first that begin: libtest goes by names.

use crate::sanity_defects::{driver_with, each, run_to_the_end, settings_for, skipped};
use crate::support::program::Csi;
use crate::support::reference::ReferenceDriver;
use csi_cli::sanity::{CaseResult, Observer, Report, Settings, run_watched};
use csi_mock::{Defect, Options};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// The size of the volumes of these runs.
const SIZE: i64 = 64 << 20;

/// Nothing failed, everything could be tried that is not too much for the driver, and nothing is left.
fn passes(name: &str, report: &Report, driver: &ReferenceDriver) {
    assert!(report.is_success(), "{name}\n{report}");
    assert_eq!(driver.left_behind(), [""; 0], "{name}");
}

/// Settings for a run that takes no more time and room than it must.
fn small_volumes(driver: &ReferenceDriver) -> Settings {
    let mut settings = Settings::of(driver.endpoint());
    settings.mount_parent = Some(driver.workplace());
    settings.volume_size = Some(SIZE);
    settings
}

/// A run that somebody follows.
fn followed(settings: Settings, observer: &mut dyn Observer) -> Report {
    let (_asks, asked) = tokio::sync::watch::channel(0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime
        .block_on(run_watched(settings, observer, asked))
        .unwrap()
}

/// The number of cases that the driver lacked something for. Each says what, and what to do about it.
fn lacking(report: &Report) -> usize {
    let reasons = skipped(report).into_values();
    let of_limits = reasons.filter(|reason| reason.starts_with("no "));
    let of_limits: Vec<_> = of_limits
        .filter(|reason| reason.contains("RESOURCE_EXHAUSTED"))
        .collect();
    for reason in &of_limits {
        let advice = [
            "where bytes are lacking, a smaller --volume-size needs less",
            "takes more volumes",
        ];
        assert!(advice.iter().any(|one| reason.ends_with(one)), "{reason}");
    }
    of_limits.len()
}

#[test]
fn limits_of_the_driver_are_no_failures() {
    let unlimited = Options::default;
    let places = |max_volumes_per_node| Options {
        max_volumes_per_node,
        ..unlimited()
    };
    let volumes = |max_volumes| Options {
        max_volumes,
        ..unlimited()
    };
    let room_for_five = Options {
        capacity: 5 * SIZE,
        ..unlimited()
    };
    let all_at_liberty = Options {
        max_volumes_per_node: 2,
        capacity: 6 * SIZE,
        at_liberty: true,
        looks_until_ready: 2,
        ..volumes(5)
    };
    let small = Options {
        largest: SIZE,
        ..unlimited()
    };
    // It does not tell, so that cases meet the limit.
    let silent = Options {
        pace: Duration::from_millis(10),
        ..small.clone()
    };
    let silent = silent.without_controller(ControllerCapability::GetCapacity);
    // The jobs, and the most cases that may lack something. All others must get their turn.
    let drivers = [
        ("one place", places(1), 8, 16),
        ("one volume", volumes(1), 8, 80),
        ("five volumes", volumes(5), 32, 6),
        ("room for five", room_for_five, 8, 6),
        ("small volumes, one at a time", small, 1, 0),
        ("small volumes, slow, untold", silent, 32, 0),
        ("all limits and liberties", all_at_liberty, 8, 12),
    ];
    each(&drivers, |(name, options, jobs, most)| {
        let mut driver = ReferenceDriver::start(options.clone());
        let mut settings = settings_for(&mut driver);
        settings.strict = !options.at_liberty;
        settings.jobs = *jobs;
        let report = run_to_the_end(settings);
        match report.incomplete.as_slice() {
            // There is nothing to expand a volume to.
            [told] if name.ends_with("untold") => {
                let expected =
                    "nothing is known of it: ControllerExpandVolume: it answered OUT_OF_RANGE: ";
                assert!(told.contains(expected), "{told}");
                assert_eq!(report.counts().failed, 0, "{report}");
            }
            _ => passes(name, &report, &driver),
        }
        let lacking = lacking(&report);
        assert!(
            lacking <= *most,
            "{name}: {lacking}\n{:#?}",
            skipped(&report)
        );
    });
}

#[test]
fn two_runs_at_a_time_leave_each_other_room() {
    let limited = Options {
        max_volumes_per_node: 3,
        ..Options::default()
    };
    let full = Options {
        max_volumes: 4,
        ..limited.clone()
    };
    each(&[limited, full], |options| {
        let mut driver = ReferenceDriver::start(options.clone());
        let mut both = [settings_for(&mut driver), settings_for(&mut driver)];
        // What is about restarts would disturb the other one.
        both.iter_mut().for_each(|one| one.restart_command = None);
        let reports = std::thread::scope(|scope| {
            let runs = both.map(|settings| scope.spawn(|| run_to_the_end(settings)));
            runs.map(|run| run.join().unwrap())
        });
        for report in &reports {
            passes(&format!("{options:?}"), report, &driver);
        }
    });
}

#[test]
fn what_never_worked_makes_a_run_incomplete() {
    let driver = ReferenceDriver::start(Options {
        capacity: SIZE,
        ..Options::default()
    });
    let csi = Csi::at(&driver.endpoint());
    let filter = "--filter create-volume/is-idempotent --filter probe/answers";
    let parent = driver.workplace().display().to_string();
    let line = format!("sanity --mount-parent {parent} {filter}");
    let run = csi.run(&format!("{line} --volume-size 1Gi")).exits(4);
    let told = "\nnever worked, so that nothing is known of it: CreateVolume: it answered RESOURCE_EXHAUSTED: the storage is full\nincomplete: something could not be tried, or is left\n1 passed (0 with warnings), 0 failed, ";
    assert!(run.stdout.contains(told), "{run}");
    csi.run(&format!("{line} --volume-size 1Mi")).succeeds();
    // A failure is worse than not to know.
    let driver = ReferenceDriver::start(Options {
        capacity: SIZE,
        ..Options::default().with(Defect::ProbeFails)
    });
    let run = Csi::at(&driver.endpoint())
        .run(&format!("{line} --volume-size 1Gi"))
        .exits(3);
    assert!(run.stdout.contains("\nincomplete: "), "{run}");
}

/// Somebody who takes all room as soon as a case begins.
struct Takes<'a> {
    driver: &'a ReferenceDriver,
    before: &'static str,
}

impl Observer for Takes<'_> {
    fn case_begins(&mut self, name: &str) {
        if name == self.before {
            let csi = Csi::at(&self.driver.endpoint());
            csi.run("controller create-volume a b c d").succeeds();
        }
    }
}

/// What is said where room is lacking at last.
const NO_MORE: &str =
    "no room, though there was at first: CreateVolume: it answered RESOURCE_EXHAUSTED: ";

/// Storage on which something is left whenever so many cases have ended, where all see it.
struct Leaks<'a> {
    driver: &'a ReferenceDriver,
    ended: usize,
    /// The most that is left.
    most: usize,
}

impl Observer for Leaks<'_> {
    fn case_ended(&mut self, _: &CaseResult) {
        self.ended += 1;
        let orphans = self.ended / 5;
        if self.ended.is_multiple_of(5) && orphans <= self.most {
            let csi = Csi::at(&self.driver.endpoint());
            csi.run(&format!("controller create-volume orphan-{orphans}"))
                .succeeds();
        }
    }
}

#[test]
fn room_that_is_lost_in_the_run_makes_it_incomplete() {
    // There is none left, or not so much as there was.
    let told_within = |most: usize, patience: u64| {
        let driver = ReferenceDriver::start(Options {
            max_volumes: 4,
            ..Options::default()
        });
        let mut settings = small_volumes(&driver);
        settings.jobs = 1;
        // For so long it waits for room.
        settings.timeout = Duration::from_secs(patience);
        settings.filter = ["create-volume/is", "clone", "/with"]
            .map(str::to_owned)
            .into();
        let mut leaks = Leaks {
            driver: &driver,
            ended: 0,
            most,
        };
        let report = followed(settings, &mut leaks);
        let told = report.incomplete.first();
        let is_told = told.is_some_and(|told| told.starts_with(NO_MORE));
        let is_so = report.counts().failed == 0 && lacking(&report) > 0 && is_told;
        if !is_so {
            eprintln!("{most}, {patience} s: {told:?}\n{report}");
        }
        is_so
    };
    // A busy machine may need longer than that for a call.
    each(&[4, 3], |most| {
        let is_told = [3, 20]
            .into_iter()
            .any(|patience| told_within(*most, patience));
        assert!(is_told, "{most}");
    });
}

#[test]
fn room_that_somebody_else_has_taken_is_not_the_drivers_to_give_back() {
    let driver = ReferenceDriver::start(Options {
        max_volumes: 4,
        ..Options::default()
    });
    let before = "lifecycle/gives-room-back";
    let mut settings = small_volumes(&driver);
    settings.filter = vec![before.to_owned()];
    let mut somebody = Takes {
        driver: &driver,
        before,
    };
    let report = followed(settings, &mut somebody);
    assert_eq!(report.counts().failed, 0, "{report}");
    // Nobody can tell that from a driver that keeps it.
    assert!(report.incomplete[0].starts_with(NO_MORE), "{report}");
    let reason = skipped(&report)[before];
    assert!(reason.starts_with("no room: CreateVolume: "), "{reason}");
    assert_eq!(driver.left_behind().len(), 4);
}

#[test]
fn room_that_may_be_freed_later_makes_a_run_incomplete() {
    let driver = ReferenceDriver::start(Options {
        max_volumes: 4,
        ..Options::default().with(Defect::RoomNeverGivenBack)
    });
    let mut settings = small_volumes(&driver);
    settings.filter = vec!["lifecycle/gives-room-back".to_owned()];
    let report = run_to_the_end(settings);
    assert_eq!(report.counts().failed, 0, "{report}");
    assert!(report.incomplete[0].starts_with(NO_MORE), "{report}");
}

#[test]
fn a_slow_driver_has_as_much_time_as_it_answers_in() {
    let case = "lifecycle/every-step-twice";
    let passes_at = |pace: Duration| {
        let driver = ReferenceDriver::start(Options {
            pace,
            ..Options::default()
        });
        let mut settings = small_volumes(&driver);
        settings.case_limit = 6 * pace;
        settings.filter = vec![case.to_owned()];
        let report = run_to_the_end(settings);
        let took = report.results.iter().find(|one| one.name == case);
        // Longer than the limit, which is one of silence.
        let took = took.unwrap().took;
        let passes = report.is_success() && took > 6 * pace;
        if !passes {
            eprintln!("{pace:?}: {took:?}\n{report}");
        }
        passes
    };
    // A busy machine may be silent for longer than a short limit.
    assert!(
        [500, 4000]
            .map(Duration::from_millis)
            .into_iter()
            .any(passes_at)
    );
}

/// Somebody who restarts the driver whenever so many cases have ended.
struct Restarts<'a> {
    driver: &'a ReferenceDriver,
    ended: usize,
}

impl Observer for Restarts<'_> {
    fn case_ended(&mut self, _: &CaseResult) {
        self.ended += 1;
        if self.ended.is_multiple_of(40) {
            self.driver.restart();
        }
    }
}

/// Tells of each case that begins.
struct Tells(Sender<()>);

impl Observer for Tells {
    fn case_begins(&mut self, _: &str) {
        let _ = self.0.send(());
    }
}

#[test]
fn a_driver_that_somebody_restarts_between_calls_is_accused_of_nothing() {
    let driver = ReferenceDriver::start(Options {
        // Nobody calls it between two looks, of which the last ones are further apart than what it is restarted after.
        looks_until_ready: 7,
        ..driver_with(Defect::VolumesLostOnRestart)
    });
    let mut settings = small_volumes(&driver);
    settings.jobs = 1;
    settings.filter = vec!["controller/create-snapshot/*".to_owned()];
    let report = std::thread::scope(|scope| {
        let (tells, told) = channel();
        let driver = &driver;
        scope.spawn(move || {
            // Before its first case a run asks what the driver is, and ends where it gets no answer.
            let mut seen = told.recv().map_err(RecvTimeoutError::from);
            while seen != Err(RecvTimeoutError::Disconnected) {
                seen = told.recv_timeout(Duration::from_millis(150));
                if seen == Err(RecvTimeoutError::Timeout) {
                    driver.restart();
                }
            }
        });
        followed(settings, &mut Tells(tells))
    });
    assert_eq!(report.counts().failed, 0, "{report}");
    assert!(driver.restarts() > 0, "{report}");
}

#[test]
fn a_driver_that_somebody_restarts_is_accused_of_nothing() {
    // In the second nothing is left of volumes that cases have just made.
    let drivers = [
        Options::default(),
        Options::default().with(Defect::VolumesLostOnRestart),
    ];
    each(&drivers, |options| {
        let driver = ReferenceDriver::start(Options {
            pace: Duration::from_millis(5),
            ..options.clone()
        });
        let mut somebody = Restarts {
            driver: &driver,
            ended: 0,
        };
        let mut settings = small_volumes(&driver);
        // Each case that a restart meets runs again alone, and the driver is looked at before and after that.
        settings.jobs = 4;
        let report = followed(settings, &mut somebody);
        assert!(report.is_success(), "{report}");
        assert!(driver.restarts() > 5, "{}", driver.restarts());
        let warned = report.results.iter().filter(|one| !one.warnings.is_empty());
        let warned: Vec<_> = warned.map(|one| one.name.as_str()).collect();
        assert_eq!(warned, ["protocol/driver-stays-there"], "{report}");
        assert_eq!(driver.left_behind(), [""; 0]);
    });
}
