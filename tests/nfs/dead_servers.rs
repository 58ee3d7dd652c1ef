//! Servers that are dead hold a bounded number of the driver's threads, however many shares they have and however many calls
//! ask them: calls about other shares are answered, and Probe is.

use crate::server::{Away, Server};
use crate::support::calls::{self, Calls, Map};
use crate::support::driver::Driver;
use csi_proto::v1::{ProbeRequest, ProbeResponse};
use std::fs;
use std::time::{Duration, Instant};

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
