//! Runs of `csi sanity` against a driver that ends in order, or is away for a while: what it answers then accuses nobody.

use super::cut_short::info;
use super::sanity;
use crate::support::program::Csi;
use crate::support::scripted::{Reply, ScriptedDriver};
use csi_proto::v1;
use tonic::Code;

/// What a driver answers that cancels its calls, and then ends.
fn cancelled() -> Reply {
    let status = info().then_error(Code::Internal, "context canceled");
    status.then_disconnect()
}

/// Ready.
fn ready() -> Reply {
    Reply::message(&v1::ProbeResponse::default())
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
