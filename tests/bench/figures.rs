//! Prints what the programs cost: CPU time, memory, size. `cargo bench --bench figures`, which builds the driver first.
//!
//! Figures of two machines compare as multiples of an empty program's. Nothing is asserted: a busy machine is no defect.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

use csi_proto::v1::{
    GetPluginInfoResponse, ListVolumesResponse, Volume, list_volumes_response::Entry,
};
use nix::sys::resource::{UsageWho, getrusage};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::driver::{self, Driver};
use support::program::{BINARY, Csi};
use support::scripted::{Reply, ScriptedDriver};
use support::terminal::Terminal;
use tempfile::TempDir;

const MIB: f64 = 1024.0 * 1024.0;

/// CPU time of an empty program on the machine where the targets were set.
const EMPTY_MS: f64 = 0.8;

fn main() {
    let mut args = std::env::args().skip(1);
    // A process of its own, because the kernel tells the peak of the largest child only.
    if args.next().as_deref() == Some("--peak-of") {
        let program = args.next().unwrap();
        run(Command::new(program).args(args));
        print!(
            "{}",
            getrusage(UsageWho::RUSAGE_CHILDREN).unwrap().max_rss()
        );
        return;
    }

    // Here, and not after minutes of measuring.
    let driver = built_driver();
    let folder = TempDir::new().unwrap();
    let empty = cost(&[empty_program(folder.path()).to_str().unwrap()], "", 200);
    println!(
        "an empty static program: {:.2} ms CPU, {:.1} MiB peak\n",
        empty.cpu_ms, empty.peak_mib
    );

    let scripted = ScriptedDriver::unix();
    scripted.on("GetPluginInfo", Reply::message(&plugin_info()));
    scripted.on("ListVolumes", Reply::message(&many_volumes()));
    println!(
        "{:<50} {:>12} {:>12} {:>9} {:>9}",
        "", "measured", "target", "× empty", "target"
    );
    for (name, line, runs, cpu_target, peak_target) in [
        (
            "csi identity plugin-info",
            "identity plugin-info",
            200,
            2.5,
            6.0,
        ),
        (
            "csi controller list-volumes, 10,000 volumes",
            "controller list-volumes",
            30,
            30.0,
            16.0,
        ),
    ] {
        let words: Vec<&str> = [BINARY].into_iter().chain(line.split(' ')).collect();
        let cost = cost(&words, scripted.endpoint(), runs);
        println!(
            "{:<50} {:>9.2} ms {:>9.2} ms {:>8.1}× {:>8.1}×",
            format!("{name}: CPU"),
            cost.cpu_ms,
            cpu_target,
            cost.cpu_ms / empty.cpu_ms,
            cpu_target / EMPTY_MS
        );
        figure(&format!("{name}: peak"), cost.peak_mib, peak_target, "MiB");
    }
    figure(
        "csi shell: start to prompt",
        start_to_prompt(scripted.endpoint()),
        30.0,
        "ms",
    );
    figure(
        "csi shell: Tab to ids, 10,000 volumes",
        tab_to_ids(scripted.endpoint()),
        50.0,
        "ms",
    );
    for (program, target) in [(PathBuf::from(BINARY), 10.0), (driver, 8.0)] {
        let size = fs::metadata(&program).unwrap().len() as f64 / 1e6;
        let name = program.file_name().unwrap().to_string_lossy().into_owned();
        figure(&format!("{name}: size"), size, target, "MB");
    }
    figure("csi-nfs: idle", idle_driver(), 6.0, "MiB");
}

/// The release of `csi-nfs`, which cargo does not build for a benchmark of another package.
fn built_driver() -> PathBuf {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--release", "--locked", "--package", "csi-nfs"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .status()
        .unwrap();
    assert!(
        status.success(),
        "cargo build --release -p csi-nfs: {status}"
    );
    driver::binary()
}

fn figure(name: &str, measured: f64, target: f64, unit: &str) {
    println!("{name:<50} {measured:>8.2} {unit:<3} {target:>8.2} {unit:<3}");
}

/// A shell in a terminal, with its prompt, and how long it took to come.
fn shell(endpoint: &str) -> (Terminal, Csi, Duration) {
    let csi = Csi::at(endpoint);
    let mut command = csi.command();
    command.arg("shell").env("TERM", "xterm");
    let started = Instant::now();
    let mut shell = Terminal::start(&command, 80, 24);
    shell.expect("> ");
    (shell, csi, started.elapsed())
}

/// Milliseconds, the median of some starts.
fn start_to_prompt(endpoint: &str) -> f64 {
    median((0..30).map(|_| shell(endpoint).2).collect())
}

/// Milliseconds from the key to the list of ids, once the driver has been asked; the median of some.
fn tab_to_ids(endpoint: &str) -> f64 {
    let (mut shell, _csi, _) = shell(endpoint);
    let mut times = Vec::new();
    for round in 0..30 {
        // Sixteen of the ids begin so.
        let start = format!("10.0.0.4#export/kubernetes#pvc-{round:07x}");
        shell.press(&format!("c rm {start}"));
        shell.expect(&start);
        let pressed = Instant::now();
        shell.press("\t\t");
        shell.expect(&format!("\n{start}0-"));
        times.push(pressed.elapsed());
        shell.expect(&format!("c rm {start}"));
        shell.press("\x03");
        shell.expect("\nscripted.csi.example> ");
    }
    // The first one asks the driver.
    times.remove(0);
    median(times)
}

fn median(mut times: Vec<Duration>) -> f64 {
    times.sort();
    times[times.len() / 2].as_secs_f64() * 1e3
}

/// What a command costs.
struct Cost {
    /// User and system time of the whole process, in milliseconds; the median of the runs.
    cpu_ms: f64,
    /// The largest resident set, in MiB.
    peak_mib: f64,
}

fn cost(words: &[&str], endpoint: &str, runs: usize) -> Cost {
    let csi = Csi::at(endpoint);
    let prepared = |program: &str, args: &[&str]| {
        let mut command = Command::new(program);
        command.args(args).env_clear();
        command.envs(
            csi.command()
                .get_envs()
                .filter_map(|(name, value)| Some((name, value?))),
        );
        command
    };
    let mut times: Vec<Duration> = (0..runs)
        .map(|_| {
            let before = cpu_of_children();
            run(&mut prepared(words[0], &words[1..]));
            cpu_of_children() - before
        })
        .collect();
    times.sort();
    let this = std::env::current_exe().unwrap();
    let args: Vec<&str> = ["--peak-of"]
        .into_iter()
        .chain(words.iter().copied())
        .collect();
    let peak = prepared(this.to_str().unwrap(), &args).output().unwrap();
    let kib: f64 = String::from_utf8(peak.stdout).unwrap().parse().unwrap();
    Cost {
        cpu_ms: times[runs / 2].as_secs_f64() * 1e3,
        peak_mib: kib / 1024.0,
    }
}

/// Runs a command to its end; its output goes nowhere.
fn run(command: &mut Command) {
    let status = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .status()
        .unwrap();
    assert!(status.success(), "{command:?}: {status}");
}

fn cpu_of_children() -> Duration {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).unwrap();
    let micros = |time: nix::sys::time::TimeVal| {
        u64::try_from(time.tv_sec() * 1_000_000 + time.tv_usec()).unwrap()
    };
    Duration::from_micros(micros(usage.user_time()) + micros(usage.system_time()))
}

fn empty_program(folder: &Path) -> PathBuf {
    let program = folder.join("empty");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bench/empty.rs");
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let status = Command::new(rustc)
        .args([
            "-O",
            "-C",
            "target-feature=+crt-static",
            "-C",
            "strip=symbols",
            "-o",
        ])
        .args([&program, &source])
        .status()
        .unwrap();
    assert!(status.success(), "rustc: {status}");
    program
}

fn plugin_info() -> GetPluginInfoResponse {
    GetPluginInfoResponse {
        name: "scripted.csi.example".into(),
        vendor_version: "1.2.3".into(),
        ..GetPluginInfoResponse::default()
    }
}

/// Ten thousand volumes as an NFS driver lists them.
fn many_volumes() -> ListVolumesResponse {
    let entry = |number: u64| Entry {
        volume: Some(Volume {
            volume_id: format!(
                "10.0.0.4#export/kubernetes#pvc-{number:08x}-8c3b-4f0e-9d55-{number:012x}##"
            ),
            capacity_bytes: 10 << 30,
            volume_context: [
                ("server".into(), "10.0.0.4".into()),
                ("share".into(), "/export/kubernetes".into()),
                ("subDir".into(), format!("pvc-{number:08x}")),
            ]
            .into(),
            ..Volume::default()
        }),
        status: None,
    };
    ListVolumesResponse {
        entries: (0..10_000).map(entry).collect(),
        next_token: String::new(),
    }
}

/// The resident set of a driver that has answered one call and waits, in MiB.
fn idle_driver() -> f64 {
    let driver = Driver::with_local_share();
    Csi::at(&driver.endpoint()).run("identity probe").succeeds();
    let pid = driver.process().pid().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap();
    line.trim_end_matches("kB").trim().parse::<f64>().unwrap() * 1024.0 / MIB
}
