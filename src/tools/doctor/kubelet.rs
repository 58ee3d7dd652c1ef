//! The kubelet of this node: the sockets by which plugins register, and the mounts of its pods.
//!
//! Looks at files and at the table of mounts; nothing here touches a mount.

use super::finding::Finding;
use super::socket::{Connected, connect};
use serde_json::Value as Json;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

const CHECK: &str = "registration";

/// A socket in the kubelet's folder for registrations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registration {
    /// Its name.
    pub name: String,
    /// Whether somebody listens.
    pub connected: Connected,
}

/// The sockets that bear the driver's name.
pub async fn registrations(
    kubelet: &Path,
    driver: &str,
    limit: Duration,
) -> io::Result<Vec<Registration>> {
    let folder = fs::read_dir(kubelet.join("plugins_registry"))?;
    let mut found = Vec::new();
    for entry in folder.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if !driver.is_empty() && name.contains(driver) {
            let connected = connect(&entry.path(), limit).await;
            found.push(Registration { name, connected });
        }
    }
    found.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(found)
}

/// What the sockets mean for a driver that serves a node, or does not.
pub fn finding(
    found: Result<&[Registration], ErrorKind>,
    driver: &str,
    serves_node: bool,
) -> Finding {
    let found = match found {
        Ok(found) => found,
        Err(ErrorKind::NotFound) => {
            let why = "no kubelet's folder is visible here (--kubelet names another)";
            return Finding::unknown(CHECK, why);
        }
        Err(kind) => {
            let advice = match kind {
                ErrorKind::PermissionDenied => "try as root",
                _ => "--kubelet names another",
            };
            let why = format!("the kubelet's folder cannot be read: {kind}; {advice}");
            return Finding::unknown(CHECK, why);
        }
    };
    if found.iter().any(|one| one.connected == Connected::Denied) {
        let why = "this user may not use the kubelet's sockets; try as root";
        return Finding::unknown(CHECK, why);
    }
    let dead = found.iter().find(|one| one.connected == Connected::Refused);
    let silent = |one: &&Registration| !matches!(one.connected, Connected::Accepted(_));
    match (found, dead, found.iter().find(silent)) {
        ([], ..) if !serves_node => {
            Finding::unknown(CHECK, "no node service here that a kubelet would use")
        }
        ([], ..) => Finding::wrong(
            CHECK,
            format!("no socket in plugins_registry is of {driver}: the kubelet does not know it"),
            "start the sidecar node-driver-registrar, or csi-nfs with --kubelet-registration",
        ),
        (_, Some(dead), _) => Finding::wrong(
            CHECK,
            format!("nobody listens on {}", dead.name),
            "whoever registers the driver has ended: start it again, or remove the socket",
        ),
        (_, _, Some(silent)) => Finding::wrong(
            CHECK,
            format!("{} cannot be reached: {:?}", silent.name, silent.connected),
            "look at the process that registers the driver",
        ),
        (found, ..) => {
            let names: Vec<&str> = found.iter().map(|one| one.name.as_str()).collect();
            Finding::fine(CHECK, names.join(", "))
        }
    }
}

/// The mount points among these that are the driver's: its pods' volumes, what it has staged, and what `runs` have published in
/// their folders. `driver_of` tells whose a pod's volume is, from the folder beside the mount.
pub fn mounts_of(
    points: Vec<PathBuf>,
    kubelet: &Path,
    driver: &str,
    runs: &[&Path],
    driver_of: impl Fn(&Path) -> Option<String>,
) -> Vec<PathBuf> {
    let is_its_own = |point: &PathBuf| {
        let parts: Vec<_> = point.iter().map(|part| part.to_string_lossy()).collect();
        if runs.iter().any(|run| point.starts_with(run)) {
            return true;
        }
        if !point.starts_with(kubelet) || driver.is_empty() {
            return false;
        }
        let is_pod_s = parts.iter().any(|part| part == "kubernetes.io~csi");
        let whose = match point.parent() {
            Some(folder) if is_pod_s => driver_of(folder),
            _ => None,
        };
        whose.as_deref() == Some(driver) || parts.iter().any(|part| part == driver)
    };
    let mut found: Vec<PathBuf> = points.into_iter().filter(is_its_own).collect();
    found.sort();
    found.dedup();
    found
}

/// The driver that the kubelet has noted beside a pod's mount.
pub fn noted_driver(folder: &Path) -> Option<String> {
    let text = fs::read_to_string(folder.join("vol_data.json")).ok()?;
    let noted: Json = serde_json::from_str(&text).ok()?;
    noted.get("driverName")?.as_str().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::doctor::finding::State;

    #[test]
    fn registrations_are_judged_by_who_listens() {
        let socket = |connected| Registration {
            name: "d.example-reg.sock".into(),
            connected,
        };
        let listens = || Connected::Accepted(None);
        for (found, serves_node, state, part) in [
            (Err(ErrorKind::NotFound), true, State::Unknown, "no kubelet"),
            (
                Err(ErrorKind::PermissionDenied),
                true,
                State::Unknown,
                "permission denied; try as root",
            ),
            (
                Err(ErrorKind::NotADirectory),
                true,
                State::Unknown,
                "not a directory; --kubelet names another",
            ),
            (
                Ok(vec![socket(Connected::Denied)]),
                true,
                State::Unknown,
                "try as root",
            ),
            (Ok(vec![]), false, State::Unknown, "no node service"),
            (Ok(vec![]), true, State::Wrong, "does not know it"),
            (
                Ok(vec![socket(listens())]),
                true,
                State::Fine,
                "d.example-reg.sock",
            ),
            (
                Ok(vec![socket(listens()), socket(Connected::Refused)]),
                true,
                State::Wrong,
                "nobody listens",
            ),
            (
                Ok(vec![socket(Connected::Full)]),
                true,
                State::Wrong,
                "cannot be reached",
            ),
        ] {
            let found = found.as_deref().map_err(|kind| *kind);
            let finding = finding(found, "d.example", serves_node);
            assert_eq!(finding.state, state, "{finding:?}");
            assert!(finding.text.contains(part), "{finding:?}");
        }
    }

    #[test]
    fn the_driver_s_mounts_are_told_from_those_of_others() {
        let points = || {
            [
                "/",
                "/k/pods/u/volumes/kubernetes.io~csi/pvc-1/mount",
                "/k/pods/u/volumes/kubernetes.io~csi/other/mount",
                "/k/plugins/kubernetes.io/csi/d.example/abc/globalmount",
                "/k/plugins/kubernetes.io/csi/e.example/abc/globalmount",
                "/tmp/csi-lifecycle-1-2/a b",
                "/tmp/csi-lifecycle-3-4/of-another",
                "/elsewhere/d.example/x",
            ]
            .map(PathBuf::from)
            .to_vec()
        };
        let driver_of = |folder: &Path| {
            let is = folder.ends_with("pvc-1");
            Some(if is { "d.example" } else { "e.example" }.to_owned())
        };
        let runs = [Path::new("/tmp/csi-lifecycle-1-2")];
        let found = mounts_of(points(), Path::new("/k"), "d.example", &runs, driver_of);
        let expected = [
            "/k/plugins/kubernetes.io/csi/d.example/abc/globalmount",
            "/k/pods/u/volumes/kubernetes.io~csi/pvc-1/mount",
            "/tmp/csi-lifecycle-1-2/a b",
        ];
        assert_eq!(found, expected.map(PathBuf::from));
        let found = mounts_of(points(), Path::new("/k"), "", &runs, driver_of);
        assert_eq!(found.len(), 1);
    }
}
