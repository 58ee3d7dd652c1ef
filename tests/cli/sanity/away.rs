//! Runs of `csi sanity` against a driver that ends in order, or is away for a while: what it answers then accuses nobody.

use super::cut_short::{info, with_a_controller, with_lists};
use super::sanity;
use crate::support::patience::received;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_cli::sanity::{CaseResult, Observer, Settings, run_watched};
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use tonic::Code;

/// How many looks for it a driver is away that is away for long: in as much time several cases could begin and end.
const LOOKS: usize = 40;

/// What a driver answers that cancels its calls, and then ends.
fn cancelled() -> Reply {
    let status = info().then_error(Code::Internal, "context canceled");
    status.then_disconnect()
}

/// Ready.
fn ready() -> Reply {
    Reply::json("{}")
}

#[test]
fn a_case_that_fails_right_before_the_driver_ends_runs_again() {
    let driver = ScriptedDriver::unix();
    driver.on_each("GetPluginInfo", [info(), cancelled(), info()]);
    // Where its end comes late.
    driver.on_each("Probe", [Reply::disconnect(), ready()]);
    let csi = Csi::at(driver.endpoint());
    let case = "identity/plugin-info/names-the-driver";
    let filter = format!("--filter {case} --filter driver-stays-there");
    let run = sanity(&csi, &filter).succeeds();
    let told = format!("the driver went away in {case} (GetPluginInfo), which runs again alone");
    assert!(run.stderr.contains(&told), "{run}");
    assert!(run.stdout.contains(&format!("\nok {case} ")), "{run}");
    // Whoever has ended it.
    assert!(
        run.stdout.contains("\n?? protocol/driver-stays-there "),
        "{run}"
    );
}

#[test]
fn a_driver_that_answers_wrongly_and_ends_each_time_fails() {
    let driver = ScriptedDriver::unix();
    driver.on_each("GetPluginInfo", [info(), cancelled()]);
    driver.on("Probe", ready());
    let csi = Csi::at(driver.endpoint());
    let case = "identity/plugin-info/names-the-driver";
    let run = sanity(&csi, &format!("--filter {case}")).exits(3);
    assert!(run.stdout.contains(&format!("\nfailed: {case}\n")), "{run}");
    let told = "it answered INTERNAL: context canceled";
    assert!(run.stdout.contains(told), "{run}");
}

/// Tells of the end of a case, and lets the next one begin when the driver is known to be away.
struct Between {
    case: &'static str,
    ended: mpsc::Sender<()>,
    is_known: mpsc::Receiver<()>,
    notes: Vec<String>,
}

impl Observer for Between {
    fn case_ended(&mut self, result: &CaseResult) {
        if result.name == self.case {
            self.ended.send(()).unwrap();
            received("the driver is known to be away", &self.is_known);
        }
    }

    fn note(&mut self, text: &str) {
        self.notes.push(text.to_owned());
    }
}

#[test]
fn a_case_that_begins_while_the_driver_is_away_waits_for_it() {
    let (node, controller) = (ScriptedDriver::unix(), ScriptedDriver::unix());
    for driver in [&node, &controller] {
        driver.on("GetPluginCapabilities", with_a_controller());
        driver.on("Probe", ready());
    }
    controller.on("GetPluginInfo", info());
    controller.on("ControllerGetCapabilities", with_lists());
    controller.on("ListVolumes", "{}");
    let (ended, has_ended) = mpsc::channel();
    let (known, is_known) = mpsc::channel();
    let is_away = Arc::new(AtomicBool::new(false));
    let away = Arc::clone(&is_away);
    let mut calls = 0;
    node.answer("GetPluginInfo", move |_| {
        calls += 1;
        if calls == 2 {
            received("the case beside it has ended", &has_ended);
            away.store(true, SeqCst);
        }
        match away.load(SeqCst) {
            true => Reply::disconnect(),
            false => info(),
        }
    });
    let mut looks = 0;
    node.answer("Probe", move |_| {
        if !is_away.load(SeqCst) {
            return ready();
        }
        looks += 1;
        if looks == 1 {
            known.send(()).unwrap();
            // The next case's call ends this connection.
            return Reply::never();
        }
        is_away.store(looks < LOOKS, SeqCst);
        Reply::disconnect()
    });
    let csi = Csi::new();
    let mut settings = Settings::of(node.endpoint());
    settings.controller_endpoint = Some(controller.endpoint().to_owned());
    settings.mount_parent = Some(csi.home().to_owned());
    let lists = "controller/list-volumes/lists";
    let others = ["names-the-driver", "protocol/unknown", "protocol/broken"];
    let filters = others.into_iter().chain([lists]);
    settings.filter = filters.map(str::to_owned).collect();
    settings.jobs = 2;
    let mut between = Between {
        case: lists,
        ended,
        is_known,
        notes: Vec::new(),
    };
    let (_asks, asked) = tokio::sync::watch::channel(0);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let report = runtime.block_on(run_watched(settings, &mut between, asked));
    let report = report.unwrap();
    let notes = between.notes.iter();
    let again = notes.filter(|note| note.ends_with(" runs again alone"));
    assert_eq!(again.count(), 2, "{:?}: {report}", between.notes);
}
