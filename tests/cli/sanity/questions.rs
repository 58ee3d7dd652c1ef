//! What `csi sanity` asks before the cases, of a driver that does not answer that.

use super::{arguments, is_clean};
use crate::support::program::{Csi, Output};

/// A run against the reference driver, whose first calls of an RPC are answered with a code.
fn run_with(failing: &str) -> Output {
    let csi = Csi::new();
    let endpoint = format!("unix://{}/csi.sock", csi.home().display());
    let _driver = csi.spawn(&format!("-e {endpoint} mock --fail {failing}"));
    let filters = "--filter node/info --filter controller/publish/of-a-deleted-volume";
    let more = format!("{filters} --cap SINGLE_NODE_WRITER,mount --volume-size 1Mi --wait 20s");
    let run = csi.run(&format!("-e {endpoint} {}", arguments(&csi, &more)));
    is_clean(&csi);
    run
}

#[test]
fn a_question_is_asked_once_more() {
    for failing in [
        "GetPluginCapabilities=UNKNOWN:1",
        "ControllerGetCapabilities=INTERNAL:1",
        "NodeGetCapabilities=CANCELLED:1",
        "NodeGetInfo=INTERNAL:1",
    ] {
        let run = run_with(failing).succeeds();
        let told = "\n4 passed (0 with warnings), 0 failed, 0 skipped in ";
        assert!(run.stdout.contains(told), "{failing}: {run}");
    }
}

#[test]
fn what_was_not_answered_before_the_cases_accuses_nobody_and_makes_a_run_incomplete() {
    for rpc in [
        "GetPluginCapabilities",
        "ControllerGetCapabilities",
        "NodeGetCapabilities",
        "NodeGetInfo",
    ] {
        let run = run_with(&format!("{rpc}=INTERNAL:2")).exits(4);
        assert!(run.stdout.contains(" 0 failed, "), "{rpc}: {run}");
        let told = format!(
            "\nit told nothing when it was asked what the driver can do: {rpc}: it answered INTERNAL: "
        );
        assert!(run.stdout.contains(&told), "{rpc}: {run}");
    }
}

#[test]
fn an_rpc_that_the_driver_must_serve_and_does_not_is_one_failure() {
    let run = run_with("NodeGetInfo=UNIMPLEMENTED").exits(3);
    let told = "\nfailed: node/info/has-an-id\n";
    assert!(run.stdout.contains(told), "{run}");
    let rests = "\n1 case rests on a failed one and was not judged\n";
    assert!(run.stdout.contains(rests), "{run}");
}
