//! Far more calls at once than an orchestrator makes: the driver works on so many, and refuses the others at once, in a way that makes
//! them be repeated. It has the memory for those, and gives it back.

use crate::support::calls::{self, Calls, repeated};
use crate::support::driver::Driver;
use crate::support::patience::Patience;
use csi_proto::v1::{GetPluginCapabilitiesRequest, ProbeRequest};
use std::fs;
use tonic::Code;

const CREATIONS: usize = 4000;

/// What the memory may grow by, in KiB: at the peak, and once all is over.
const PEAK: u64 = 60 << 10;
const KEPT: u64 = 12 << 10;

/// A line of the driver's `status` in KiB.
fn memory(driver: &Driver, line: &str) -> u64 {
    let pid = driver.process().pid().as_raw_nonzero();
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let value = status.lines().find_map(|it| it.strip_prefix(line));
    let number = value.unwrap().trim_start_matches(':').trim();
    number.trim_end_matches(" kB").parse().unwrap()
}

#[test]
fn thousands_of_creations_at_once_take_a_bounded_memory() {
    let driver = Driver::with_local_share();
    let parameters = calls::map(&[("server", "localhost"), ("share", "/share")]);
    let request = |number: usize| calls::volume(&format!("volume-{number}"), &parameters);
    let runtime = calls::runtime();
    let before = runtime.block_on(async {
        let calls = Calls::to(&driver.endpoint());
        // What a first call needs once and for all.
        calls.create(request(0)).await.unwrap();
        let before = memory(&driver, "VmRSS");
        let all: Vec<_> = (0..CREATIONS)
            .map(|number| {
                let (calls, request) = (calls.clone(), request(number));
                tokio::spawn(async move { calls.create(request).await })
            })
            .collect();
        for _ in 0..20 {
            let probed = calls.call(ProbeRequest {}).await.map(drop);
            let asked = calls.call(GetPluginCapabilitiesRequest {}).await.map(drop);
            // What the driver says of its end, if it has ended.
            probed
                .and(asked)
                .unwrap_or_else(|status| panic!("{status}\n{}", driver.process().so_far()));
        }
        let mut refused = 0;
        for creation in all {
            match creation.await.unwrap() {
                Ok(_) => {}
                Err(status) => {
                    assert_eq!(status.code(), Code::Unavailable, "{status}");
                    refused += 1;
                }
            }
        }
        eprintln!("{refused} of {CREATIONS} creations at once were refused");
        // Whoever repeats has a volume in the end.
        repeated(|| calls.create(request(CREATIONS))).await.unwrap();
        before
    });
    let peak = memory(&driver, "VmHWM");
    let mut patience = Patience::default();
    let after = loop {
        let now = memory(&driver, "VmRSS");
        if now < before + KEPT || !patience.lasts() {
            break now;
        }
        std::thread::sleep(patience.pause());
    };
    eprintln!("memory in KiB: {before} before, {peak} at the peak, {after} after");
    assert!(
        peak < before + PEAK,
        "{before} KiB before, {peak} KiB at the peak"
    );
    assert!(
        after < before + KEPT,
        "{before} KiB before, {after} KiB after"
    );
}
