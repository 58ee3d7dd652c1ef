//! Which of the chart's alerts somebody is told at which metrics, and how soon.

use crate::support::alerts::{found, of_the_chart};
use std::collections::BTreeSet;

/// A controller of which all is well.
const WELL: &str = "\
# TYPE csi_nfs_shares gauge
csi_nfs_shares 2
csi_nfs_shares_reachable 2
csi_nfs_helpers_stuck 0
csi_nfs_purges_in_progress 0
csi_nfs_trash_entries 0
csi_nfs_purged_files_total 7
csi_nfs_volumes_not_held 0
# EOF
";

/// What a call of that method adds, which has ended so often with that code.
fn calls(method: &str, code: &str, count: u32) -> String {
    format!(
        "csi_plugin_operations_seconds_count{{driver_name=\"nfs\",method_name=\"/csi.v1.{method}\",grpc_status_code=\"{code}\"}} {count}\n"
    )
}

/// A text of metrics in which these lines stand in place of those of the same series.
fn with(lines: &str) -> String {
    let name = |line: &str| line.rsplit_once(' ').map(|(name, _)| name.to_owned());
    let new: Vec<_> = lines.lines().map(name).collect();
    let kept = WELL.lines().filter(|line| !new.contains(&name(line)));
    kept.chain(lines.lines())
        .map(|line| format!("{line}\n"))
        .collect()
}

#[test]
fn each_alert_is_about_what_it_is_named_after() {
    let create = "Controller/CreateVolume";
    let publish = "Node/NodePublishVolume";
    let cases: [(&str, String, String, &[&str]); 14] = [
        ("all is well", String::new(), String::new(), &[]),
        (
            "a share of two does not answer",
            String::new(),
            "csi_nfs_shares_reachable 1".to_owned(),
            &["CsiNfsShareUnreachable"],
        ),
        (
            "a helper hangs",
            String::new(),
            "csi_nfs_helpers_stuck 1".to_owned(),
            &["CsiNfsHelperStuck"],
        ),
        (
            "a volume's size is not enforced",
            String::new(),
            "csi_nfs_volumes_not_held 1".to_owned(),
            &["CsiNfsVolumesNotHeld"],
        ),
        (
            "a purge gets nowhere",
            String::new(),
            "csi_nfs_purges_in_progress 1".to_owned(),
            &["CsiNfsPurgeStuck"],
        ),
        (
            "a purge had to leave something",
            String::new(),
            "csi_nfs_trash_entries 3".to_owned(),
            &["CsiNfsPurgeStuck"],
        ),
        (
            "a purge goes on",
            String::new(),
            "csi_nfs_purges_in_progress 1\ncsi_nfs_purged_files_total 8".to_owned(),
            &[],
        ),
        (
            "a node that its kubelet uses",
            String::new(),
            "csi_nfs_registered 1".to_owned(),
            &[],
        ),
        (
            "a node that its kubelet does not use",
            String::new(),
            "csi_nfs_registered 0".to_owned(),
            &["CsiNfsNodeUnregistered"],
        ),
        (
            "calls failed before, and no more",
            calls(create, "Unavailable", 50),
            calls(create, "Unavailable", 55),
            &[],
        ),
        (
            "calls of one method fail by several codes",
            calls(create, "Unavailable", 50) + &calls(create, "Internal", 1),
            calls(create, "Unavailable", 56) + &calls(create, "Internal", 6),
            &["CsiNfsCallsFail"],
        ),
        (
            "calls of two methods fail a few times each",
            String::new(),
            calls(create, "Unavailable", 6) + &calls(publish, "DeadlineExceeded", 6),
            &[],
        ),
        (
            "a call waits for a copy",
            String::new(),
            calls(create, "Aborted", 100),
            &[],
        ),
        (
            "all goes well, often",
            String::new(),
            calls(create, "OK", 100),
            &[],
        ),
    ];
    let mut seen = BTreeSet::new();
    for (what, before, now, expected) in cases {
        let told = found(&with(&before), &with(&now));
        assert!(told.iter().eq(expected), "{what}: {told:?}");
        seen.extend(told);
    }
    // Each has a case in which somebody is told.
    let all: BTreeSet<_> = of_the_chart().into_iter().map(|alert| alert.name).collect();
    assert_eq!(seen, all);
}

#[test]
fn somebody_who_should_act_is_told_within_minutes() {
    for alert in of_the_chart() {
        // What is deleted takes room for an hour more, and that is all.
        let expected = if alert.name == "CsiNfsPurgeStuck" {
            "1h"
        } else {
            "5m"
        };
        assert_eq!(alert.patience, expected, "{}", alert.name);
    }
}
