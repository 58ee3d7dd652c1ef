//! Prints how many calls one `csi bench` makes on one core, against a driver on another that keeps up:
//! `cargo build --release --workspace && cargo bench --bench load`. Nothing is asserted: a busy machine is no defect.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

mod fast_driver;
#[path = "../support/mod.rs"]
mod support;

use csi_proto::v1::GetPluginInfoResponse;
use fast_driver::FastDriver;
use nix::sys::resource::{UsageWho, getrusage};
use std::process::Command;
use std::time::Duration;
use support::program::{BINARY, Csi};

const TARGET: f64 = 25_000.0;

fn main() {
    let reply = GetPluginInfoResponse {
        name: "fast.csi.example".into(),
        vendor_version: "1.2.3".into(),
        ..GetPluginInfoResponse::default()
    };
    let driver = FastDriver::start(&reply);
    let csi = Csi::at(&driver.endpoint());
    println!(
        "{:<34} {:>10} {:>22}",
        "GetPluginInfo", "per second", "per second of its CPU"
    );
    for (workers, connections) in [(1, 1), (16, 1), (64, 1), (64, 4), (256, 4)] {
        let load = format!(
            "bench identity plugin-info --concurrency {workers} --connections {connections} --duration 3s -o json"
        );
        let mut command = Command::new("taskset");
        command
            .args(["-c", "0", BINARY])
            .args(load.split(' '))
            .env_clear()
            .envs(
                csi.command()
                    .get_envs()
                    .filter_map(|(name, value)| Some((name, value?))),
            );
        let before = cpu_of_children();
        let output = command.output().unwrap();
        let cpu = cpu_of_children() - before;
        assert!(output.status.success(), "{output:?}");
        let result: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let row = &result["drivers"][0]["rpcs"][0];
        let name = format!("{workers} at a time, {connections} connections");
        println!(
            "{name:<34} {:>10.0} {:>22.0}",
            row["perSecond"].as_f64().unwrap(),
            row["calls"].as_f64().unwrap() / cpu.as_secs_f64()
        );
    }
    println!("{:<34} {TARGET:>10.0} {TARGET:>22.0}", "target");
}

fn cpu_of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap()
    };
    Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
}
