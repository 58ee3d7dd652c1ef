//! Servers that are dead hold a bounded number of the driver's threads, however many shares they have and however many calls
//! ask them: calls about other shares are answered, and Probe is. Calls, metrics and the chart's alerts tell which server it is.

use crate::server::{Away, Server};
use crate::support::alerts::{found, of_the_chart, vector};
use crate::support::calls::{self, Calls, Map, repeated};
use crate::support::driver::{self, Driver};
use crate::support::patience::{Patience, until};
use csi_proto::v1::{ProbeRequest, ProbeResponse};
use std::fs;
use std::process::Command;
use std::time::{Duration, Instant};
use tonic::Code;

/// 51 shares, whose calls are twice as many as the threads that they may hold.
const SERVERS: usize = 3;
const SHARES: usize = 17;
const CALLS: usize = 4;
/// Threads of the driver while all of them hang.
const MOST_THREADS: usize = 100;

/// A folder of each server for each of its shares, and the parameters of volumes there.
fn shares(servers: &[Server]) -> Vec<Map> {
    let each = servers.iter().flat_map(|server| {
        (0..SHARES).map(|number| {
            let name = format!("share-{number}");
            fs::create_dir(server.folder().join(&name)).unwrap();
            let mut parameters = server.share().parameters();
            parameters.insert("share".to_owned(), format!("/{name}"));
            parameters
        })
    });
    each.collect()
}

#[test]
fn three_of_them_with_fifty_shares_keep_nobody_else_waiting() {
    let mut servers: Vec<Server> = ["first", "second", "third"].map(Server::new).into();
    assert_eq!(servers.len(), SERVERS);
    let shares = shares(&servers);
    let folder = tempfile::tempdir().unwrap();
    let local = format!("localhost:/share={}", folder.path().display());
    // On a busy machine the other calls may take as long as a hanging one may.
    let driver = Driver::with_args(&["--local-share", &local, "--mount-timeout", "1h"]);
    let pid = driver.process().pid().as_raw_nonzero();
    let threads = || fs::read_dir(format!("/proc/{pid}/task")).unwrap().count();
    let healthy = calls::map(&[("server", "localhost"), ("share", "/share")]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        // Mounted while the servers live: from then on a call hangs in the kernel.
        for parameters in &shares {
            calls.create(calls::volume("first", parameters)).await.unwrap();
        }
        for server in &mut servers {
            server.leave(Away::CutOff);
        }
        let mut hanging: Vec<_> = (0..CALLS)
            .flat_map(|number| {
                let name = format!("volume-{number}");
                shares.iter().map(move |on| calls::volume(&name, on))
            })
            .map(|request| {
                let calls = calls.clone();
                // On a busy machine a share may be mounted anew, which the kernel gives up after two minutes.
                tokio::spawn(async move { repeated(|| calls.create(request.clone())).await })
            })
            .collect();
        let (mut slowest, mut slowest_probe) = (Duration::ZERO, Duration::ZERO);
        for round in 0..5 {
            let begun = Instant::now();
            let request = calls::volume(&format!("healthy-{round}"), &healthy);
            calls.create(request).await.unwrap();
            slowest = slowest.max(begun.elapsed());
            let begun = Instant::now();
            let probed: Result<ProbeResponse, _> =
                calls.call(ProbeRequest {}).await;
            probed.unwrap();
            slowest_probe = slowest_probe.max(begun.elapsed());
            assert!(threads() < MOST_THREADS, "{}", threads());
        }
        for call in &mut hanging {
            assert!(!call.is_finished(), "{:?}", call.await);
        }
        eprintln!(
            "{} shares of {SERVERS} dead servers, {} calls: {} threads, CreateVolume elsewhere at most {slowest:?}, Probe {slowest_probe:?}",
            shares.len(),
            hanging.len(),
            threads()
        );
        for server in &mut servers {
            server.come_back(Away::CutOff);
        }
        for call in hanging {
            call.await.unwrap().unwrap();
        }
    });
}

/// The metrics of a driver.
fn metrics(http: &str) -> String {
    let mut get = Command::new(driver::binary());
    let asked = get.args(["get", http, "/metrics"]).output().unwrap();
    String::from_utf8(asked.stdout).unwrap()
}

const UNREACHABLE: &str = "CsiNfsShareUnreachable";

/// The calls of CreateVolume that the alert about calls has counted since.
fn failed_creations(before: &str, now: &str) -> f64 {
    let mut alerts = of_the_chart().into_iter();
    let alert = alerts
        .find(|alert| alert.name == "CsiNfsCallsFail")
        .unwrap();
    let (count, _) = alert.query.rsplit_once(" > ").unwrap();
    let counted = vector(count, before, now);
    let creations = counted
        .iter()
        .filter(|(labels, _)| labels["method_name"].ends_with("/CreateVolume"));
    creations.map(|(_, count)| count).sum()
}

/// The deadline of calls to a server that is stopped: like that of external-provisioner, long enough to see that it is.
const DEADLINE: Duration = Duration::from_secs(10);

#[test]
fn one_that_is_stopped_while_it_is_mounted_is_told_by_calls_metrics_and_alerts() {
    let mut server = Server::new("told");
    let share = server.share();
    let folder = tempfile::tempdir().unwrap();
    let http = format!("unix://{}", folder.path().join("http.sock").display());
    let driver = Driver::with_args(&["--mode", "controller", "--http", &http]);
    calls::runtime().block_on(async {
        let calls = Calls::to(&driver.endpoint());
        let parameters = share.parameters();
        calls
            .create(calls::volume("first", &parameters))
            .await
            .unwrap();
        // What follows a share's first use may be under way still.
        until("nothing is told", || found("", &metrics(&http)).is_empty());
        let before = metrics(&http);
        server.leave(Away::Stopped);

        let named = format!("the share {}:/ has not answered for ", server.address());
        let hurried = calls.within(Some(DEADLINE));
        let request = calls::volume("second", &parameters);
        // The first ones may end before the share is known not to answer.
        let mut patience = Patience::default();
        let mut told = 0;
        while told < 2 {
            let status = hurried.create(request.clone()).await.unwrap_err();
            if status.message().starts_with(&named) {
                assert_eq!(status.code(), Code::Unavailable, "{status}");
                told += 1;
            }
            assert!(patience.lasts(), "{status}");
        }
        // The driver's word may come too late for this one, as on a busy machine.
        let mut patience = Patience::default();
        loop {
            let status = hurried.volumes().await.unwrap_err();
            if status.message().starts_with(&named) {
                break;
            }
            assert_eq!(status.code(), Code::Cancelled, "{status}");
            assert!(patience.lasts(), "{status}");
        }
        let during = metrics(&http);
        assert!(found("", &during).contains(UNREACHABLE), "{during}");
        assert!(failed_creations(&before, &during) >= 2.0, "{during}");

        server.come_back(Away::Stopped);
        repeated(|| calls.create(request.clone())).await.unwrap();
        until("a share that answers again", || {
            !found("", &metrics(&http)).contains(UNREACHABLE)
        });
    });
}
