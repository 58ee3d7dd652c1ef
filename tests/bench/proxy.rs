//! Prints what `csi proxy` costs a call: latency that it adds, calls a second that one core carries.
//! `cargo build --release && cargo bench --bench proxy`.
//!
//! A driver and callers in this process answer and ask at once, so that what is measured is the way between them. Nothing
//! is asserted: a busy machine is no defect. The rate by CPU time is the steady figure: it does not depend on who else runs.
#![allow(clippy::print_stdout, clippy::unwrap_used)]

#[path = "../support/mod.rs"]
mod support;

use bytes::Bytes;
use csi_proto::v1::GetPluginInfoResponse;
use h2::client::SendRequest;
use http::{HeaderMap, HeaderValue, Request, Response};
use prost::Message as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use support::program::BINARY;
use tempfile::TempDir;
use tokio::net::{UnixListener, UnixStream};
use tokio::runtime::{Builder, Runtime};

const PATH: &str = "/csi.v1.Identity/GetPluginInfo";
const LATENCY_CALLS: usize = 5_000;
const RATE_CALLS: usize = 60_000;
const CALLERS: usize = 32;

/// The targets: microseconds added at the median, and calls a second on one core.
const TARGETS: (f64, f64) = (100.0, 15_000.0);

fn main() {
    let folder = TempDir::new().unwrap();
    let driver = folder.path().join("d.sock");
    let listening = driver.clone();
    std::thread::spawn(move || runtime().block_on(serve(&listening)));
    wait_for(&driver);
    let direct = runtime().block_on(latencies(&driver));
    println!(
        "{:<34} {:>8.1} µs at the median\n",
        "a call without a proxy",
        median(&direct)
    );
    println!(
        "{:<34} {:>12} {:>14} {:>16} {:>18}",
        "", "added (µs)", "of the target", "calls a second", "by CPU time alone"
    );
    for (name, flags) in [
        ("--quiet", vec!["--quiet"]),
        (
            "--quiet --record FILE",
            vec!["--quiet", "--record", "r.jsonl", "--overwrite"],
        ),
        ("lines for people, to /dev/null", vec![]),
        ("-o json, to /dev/null", vec!["-o", "json"]),
    ] {
        let proxy = Proxy::start(folder.path(), &driver, &flags, &[]);
        // In turn, so that both meet the same moment of the machine.
        let runtime = runtime();
        let (mut near, mut far) = (Vec::new(), Vec::new());
        for _ in 0..5 {
            near.push(median(&runtime.block_on(latencies(&driver))));
            far.push(median(&runtime.block_on(latencies(&proxy.socket))));
        }
        let pairs = near.iter().zip(&far).map(|(near, far)| far - near);
        let mut added: Vec<f64> = pairs.collect();
        added.sort_by(f64::total_cmp);
        let added = added[added.len() / 2];
        drop(proxy);
        // One core, and always the same one.
        let pinned = ["taskset", "-c", "0"];
        let proxy = Proxy::start(folder.path(), &driver, &flags, &pinned);
        let before = proxy.cpu();
        let started = Instant::now();
        runtime.block_on(many(&proxy.socket));
        let rate = RATE_CALLS as f64 / started.elapsed().as_secs_f64();
        let by_cpu = RATE_CALLS as f64 / (proxy.cpu() - before).as_secs_f64();
        println!(
            "{name:<34} {added:>12.1} {:>13.2}× {rate:>16.0} {by_cpu:>12.0} {:>4.1}×",
            added / TARGETS.0,
            by_cpu / TARGETS.1,
        );
    }
    println!(
        "\ntargets: at most {} µs, at least {} calls a second",
        TARGETS.0, TARGETS.1
    );
}

struct Proxy {
    child: std::process::Child,
    socket: std::path::PathBuf,
}

impl Proxy {
    /// A proxy, run by another command where one is given.
    fn start(folder: &Path, driver: &Path, flags: &[&str], runner: &[&str]) -> Self {
        let socket = folder.join("p.sock");
        let words: Vec<&str> = runner.iter().copied().chain([BINARY]).collect();
        let child = Command::new(words[0])
            .args(&words[1..])
            .args(["proxy", "--listen"])
            .arg(format!("unix:{}", socket.display()))
            .arg("--to")
            .arg(driver)
            .args(flags)
            .current_dir(folder)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        wait_for(&socket);
        Self { child, socket }
    }

    /// CPU time of all its threads so far.
    fn cpu(&self) -> Duration {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<&str> = stat
            .rsplit(')')
            .next()
            .unwrap()
            .split_whitespace()
            .collect();
        let ticks: u64 = fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap();
        Duration::from_millis(ticks * 1000 / rustix::param::clock_ticks_per_second())
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        let _ = rustix::process::kill_process(pid, rustix::process::Signal::TERM);
        let _ = self.child.wait();
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

/// Waits until a program that says nothing of it takes connections.
fn wait_for(socket: &Path) {
    while std::os::unix::net::UnixStream::connect(socket).is_err() {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn median(times: &[f64]) -> f64 {
    let mut sorted = times.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted[sorted.len() / 2]
}

fn framed(message: &[u8]) -> Bytes {
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    [&[0][..], &length, message].concat().into()
}

/// A driver that answers at once.
async fn serve(socket: &Path) {
    let listener = UnixListener::bind(socket).unwrap();
    let info = GetPluginInfoResponse {
        name: "bench.csi.example".into(),
        vendor_version: "1.2.3".into(),
        ..Default::default()
    };
    let reply = framed(&info.encode_to_vec());
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let reply = reply.clone();
        tokio::spawn(async move {
            let Ok(mut connection) = h2::server::handshake(stream).await else {
                return;
            };
            while let Some(Ok((request, mut respond))) = connection.accept().await {
                let reply = reply.clone();
                tokio::spawn(async move {
                    let mut body = request.into_body();
                    while let Some(Ok(piece)) = body.data().await {
                        let _ = body.flow_control().release_capacity(piece.len());
                    }
                    let mut head = Response::new(());
                    let kind = HeaderValue::from_static("application/grpc");
                    head.headers_mut().insert("content-type", kind);
                    let mut out = respond.send_response(head, false).unwrap();
                    out.send_data(reply, false).unwrap();
                    let mut trailers = HeaderMap::new();
                    trailers.insert("grpc-status", HeaderValue::from_static("0"));
                    out.send_trailers(trailers).unwrap();
                });
            }
        });
    }
}

async fn connect(socket: &Path) -> SendRequest<Bytes> {
    let stream = UnixStream::connect(socket).await.unwrap();
    let (sender, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    sender.ready().await.unwrap()
}

async fn call(sender: &mut SendRequest<Bytes>) {
    let request = Request::post(format!("http://localhost{PATH}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("grpc-timeout", "60S")
        .header("user-agent", "bench")
        .body(())
        .unwrap();
    let (response, mut up) = sender.send_request(request, false).unwrap();
    up.send_data(framed(b""), true).unwrap();
    let mut body = response.await.unwrap().into_body();
    while let Some(piece) = body.data().await {
        let length = piece.unwrap().len();
        body.flow_control().release_capacity(length).unwrap();
    }
    let trailers = body.trailers().await.unwrap().unwrap();
    assert_eq!(trailers["grpc-status"], "0");
}

/// Microseconds of calls, one after the other.
async fn latencies(socket: &Path) -> Vec<f64> {
    let mut sender = connect(socket).await;
    let mut times = Vec::with_capacity(LATENCY_CALLS);
    for _ in 0..LATENCY_CALLS {
        let started = Instant::now();
        call(&mut sender).await;
        times.push(started.elapsed().as_secs_f64() * 1e6);
    }
    times.split_off(LATENCY_CALLS / 10)
}

/// Many calls, some at once.
async fn many(socket: &Path) {
    let sender = connect(socket).await;
    let mut callers = tokio::task::JoinSet::new();
    for _ in 0..CALLERS {
        let mut sender = sender.clone();
        callers.spawn(async move {
            for _ in 0..RATE_CALLS / CALLERS {
                call(&mut sender).await;
            }
        });
    }
    while let Some(done) = callers.join_next().await {
        done.unwrap();
    }
}
