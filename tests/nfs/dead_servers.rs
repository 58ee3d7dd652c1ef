//! Servers that are dead hold a bounded number of the driver's threads, however many shares they have and however many calls
//! ask them: calls about other shares are answered, and Probe is. Calls, metrics and the chart's alerts tell which server it is.

use crate::server::{Away, Server};
use crate::support::PATIENCE;
use crate::support::calls::{self, Calls, Map, repeated};
use crate::support::driver::{self, Driver};
use csi_proto::v1::{ProbeRequest, ProbeResponse};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};
use tonic::Code;

/// 51 shares, each with as many calls as once had threads of their own.
const SERVERS: usize = 3;
const SHARES: usize = 17;
const CALLS: usize = 16;
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
    let driver = Driver::with_local_share();
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
        let hanging: Vec<_> = (0..CALLS)
            .flat_map(|number| {
                let name = format!("volume-{number}");
                shares.iter().map(move |on| calls::volume(&name, on))
            })
            .map(|request| {
                let calls = calls.within(None);
                tokio::spawn(async move { calls.create(request).await })
            })
            .collect();
        let (mut slowest, mut slowest_probe) = (Duration::ZERO, Duration::ZERO);
        for round in 0..20 {
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
        assert!(hanging.iter().all(|call| !call.is_finished()));
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

/// What follows `begin` in the chart's alert of that name, up to `end`.
fn of_alert(alert: &str, begin: &str, end: char) -> String {
    let chart = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/csi-nfs");
    let rules = fs::read_to_string(chart.join("templates/monitoring.yaml")).unwrap();
    let (_, rule) = rules.split_once(&format!("alert: {alert}\n")).unwrap();
    let (_, rest) = rule.split_once(begin).unwrap();
    rest.split(end).next().unwrap().to_owned()
}

/// The metrics of a driver.
struct Metrics(String);

impl Metrics {
    fn of(http: &str) -> Self {
        let mut get = Command::new(driver::binary());
        let asked = get.args(["get", http, "/metrics"]).output().unwrap();
        Self(String::from_utf8(asked.stdout).unwrap())
    }

    fn value(&self, name: &str) -> u64 {
        let mut lines = self.0.lines();
        let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        value
            .unwrap_or_else(|| panic!("no {name}\n{}", self.0))
            .parse()
            .unwrap()
    }

    /// Whether what the alert about shares asks for is so.
    fn alerts_of_a_share(&self) -> bool {
        let query = of_alert("CsiNfsShareUnreachable", "expr: ", '\n');
        let (reached, all) = query.split_once(" < ").unwrap();
        self.value(reached) < self.value(all)
    }

    /// The calls of CreateVolume that the alert about calls counts.
    fn failed_creations(&self) -> u64 {
        let codes = of_alert("CsiNfsCallsFail", "grpc_status_code=~\"", '"');
        let of_codes = self.0.lines().filter(|line| {
            let is_count = line.starts_with("csi_plugin_operations_seconds_count{");
            let mut codes = codes.split('|');
            is_count
                && line.contains("/CreateVolume\"")
                && codes.any(|code| line.contains(&format!("grpc_status_code=\"{code}\"")))
        });
        of_codes
            .map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap())
            .sum()
    }
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
        let before = Metrics::of(&http);
        assert!(!before.alerts_of_a_share(), "{}", before.0);
        server.leave(Away::Stopped);

        let named = format!("the share {}:/ has not answered for ", server.address());
        let hurried = calls.within(Some(DEADLINE));
        let request = calls::volume("second", &parameters);
        // What it says is for the repeats to say; by then the share is known not to answer.
        hurried.create(request.clone()).await.unwrap_err();
        for _ in 0..2 {
            let status = hurried.create(request.clone()).await.unwrap_err();
            assert_eq!(status.code(), Code::Unavailable, "{status}");
            assert!(status.message().starts_with(&named), "{status}");
        }
        let status = hurried.volumes().await.unwrap_err();
        assert!(status.message().starts_with(&named), "{status}");
        let during = Metrics::of(&http);
        assert!(during.alerts_of_a_share(), "{}", during.0);
        let failed = during.failed_creations() - before.failed_creations();
        assert!(failed >= 2, "{}", during.0);

        server.come_back(Away::Stopped);
        repeated(|| calls.create(request.clone())).await.unwrap();
        let end = Instant::now() + PATIENCE;
        while Metrics::of(&http).alerts_of_a_share() {
            assert!(Instant::now() < end, "{}", Metrics::of(&http).0);
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    });
}
