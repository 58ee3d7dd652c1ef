//! A log that nobody reads: calls, probes and the end of the driver do not wait for its reader.

use crate::rig::patience::Patience;
use crate::rig::{Client, Rig};
use csi_nfs::process::http::get;
use csi_proto::v1::NodeUnpublishVolumeRequest;
use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, PipeReader};
use std::process::{Child, Stdio};
use tonic::Code;

/// A call whose line in the log is so long.
const LINE: usize = 30_000;

/// More of them than the pipe, the queue and the thread that writes have room for.
const CALLS: usize = 200;

/// A driver that serves, whose log goes into a pipe.
struct Unread {
    rig: Rig,
    driver: Child,
    log: PipeReader,
}

impl Unread {
    async fn start() -> Self {
        let rig = Rig::new();
        let (log, writer) = std::io::pipe().unwrap();
        let http = format!("unix://{}", rig.path("http.sock").display());
        let mut command = rig.driver_command();
        command.args(["--http", &http]).stderr(Stdio::from(writer));
        let driver = command.spawn().unwrap();
        drop(command);
        let mut patience = Patience::default();
        while !rig.path("http.sock").exists() {
            assert!(patience.lasts(), "nobody serves");
            tokio::task::yield_now().await;
        }
        Self { rig, driver, log }
    }

    /// Calls that fail, and are logged with all that they ask for.
    async fn call(&self, calls: usize) {
        let client = Client::connect(&self.rig).await;
        for _ in 0..calls {
            let answer = client.call(NodeUnpublishVolumeRequest {
                volume_id: "v".repeat(LINE),
                target_path: String::new(),
            });
            assert_eq!(answer.await.unwrap_err().code(), Code::InvalidArgument);
        }
    }

    fn ask(&self, path: &str) -> String {
        let address = format!("unix://{}", self.rig.path("http.sock").display());
        let (success, text) = get(&address.parse().unwrap(), path).unwrap();
        assert!(success, "{text}");
        text
    }

    fn dropped(&self) -> usize {
        let text = self.ask("/metrics");
        let of = "csi_nfs_log_lines_dropped_total ";
        let number = text.lines().find_map(|line| line.strip_prefix(of));
        number.unwrap().parse().unwrap()
    }

    /// The memory that the driver takes, in KiB.
    fn memory(&self) -> usize {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.driver.id()));
        let status = status.unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let number = line.unwrap().split_whitespace().next();
        number.unwrap().parse().unwrap()
    }

    fn end(&mut self) {
        let pid = Pid::from_child(&self.driver);
        kill_process(pid, Signal::TERM).unwrap();
        assert!(self.driver.wait().unwrap().success());
    }
}

impl Drop for Unread {
    fn drop(&mut self) {
        let _ = self.driver.kill();
        let _ = self.driver.wait();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn calls_go_on_and_what_is_missing_is_told() {
    let unread = Unread::start().await;
    unread.call(CALLS).await;
    let (dropped, memory) = (unread.dropped(), unread.memory());
    assert!(dropped > 0);
    assert_eq!(unread.ask("/healthz"), "ok\n");
    // What is dropped takes no memory. The allocator keeps some, and so less than half of these lines is asked.
    unread.call(CALLS).await;
    assert_eq!(unread.dropped(), dropped + CALLS);
    assert!(unread.memory() < memory + CALLS * LINE / 1024 / 2);
    // The reader is back.
    let mut lines = BufReader::new(&unread.log).lines().map(Result::unwrap);
    let told = lines.find(|line| line.contains("log lines were dropped"));
    let lost = format!("lines={}", dropped + CALLS);
    assert!(told.unwrap().ends_with(&lost));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn the_driver_ends_though_nobody_reads_its_log() {
    let mut unread = Unread::start().await;
    unread.call(CALLS).await;
    unread.end();
    assert!(!unread.rig.path("csi.sock").exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_reader_who_is_there_gets_the_last_lines() {
    let mut unread = Unread::start().await;
    // More than the pipe holds, and less than the queue.
    unread.call(20).await;
    let log = unread.log.try_clone().unwrap();
    let (begins, begun) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        let mut lines = BufReader::new(log).lines().map(Result::unwrap);
        let first = lines.next();
        begins.send(()).unwrap();
        first.into_iter().chain(lines).collect::<Vec<_>>()
    });
    begun.recv().unwrap();
    unread.end();
    // The pipe ends with the last process that has it.
    let lines = reading.join().unwrap();
    let calls = lines.iter().filter(|line| line.len() > LINE).count();
    assert_eq!(calls, 20);
    assert!(lines.last().unwrap().contains("ended"), "{lines:?}");
}
