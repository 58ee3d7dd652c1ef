//! The real client against the real driver, whose share is a local folder: all that needs no NFS and no privilege.

use crate::support::driver::Driver;
use crate::support::program::Csi;
use std::fs;

const PARAMS: &str = "--params server=localhost,share=/share";

fn entries(driver: &Driver) -> Vec<String> {
    let entries = fs::read_dir(driver.share()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name != ".csi-nfs").collect()
}

#[test]
fn a_volume_from_create_to_delete() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let create =
        format!("controller create-volume pvc-1 --req-bytes 10Mi --cap 5,mount {PARAMS} -o name");
    let id = csi.run(&create).succeeds().value().to_owned();
    assert_eq!(csi.run(&create).succeeds().value(), id, "created twice");
    assert_eq!(entries(&driver).len(), 1);
    csi.run("controller list-volumes -o name")
        .succeeds()
        .prints(&format!("{id}\n"));

    let get = csi
        .run(&format!("controller get-volume {id} -o json"))
        .succeeds()
        .json();
    assert_eq!(get["volume"]["volumeId"], *id);
    assert_eq!(get["volume"]["capacityBytes"], (10 << 20).to_string());
    let expanded = csi
        .run(&format!(
            "controller expand-volume {id} --req-bytes 20Mi -o json"
        ))
        .succeeds();
    assert_eq!(expanded.json()["capacityBytes"], (20 << 20).to_string());
    csi.run(&format!(
        "controller validate-volume-capabilities {id} --cap 5,mount"
    ))
    .succeeds();
    csi.run(&format!("controller delete-volume {id}"))
        .succeeds();
    csi.run(&format!("controller delete-volume {id}"))
        .succeeds();
    csi.run("controller list-volumes -o name")
        .succeeds()
        .prints("");
    csi.run(&format!("controller get-volume {id}"))
        .exits(64 + 5);
    assert_eq!(entries(&driver), [""; 0]);
}

#[test]
fn what_the_driver_refuses() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    // An unknown parameter, with its name and the known ones.
    csi.run("controller create-volume pvc-1 --cap 5,mount --params server=localhost,share=/share,shares=x")
        .exits(64 + 3)
        .says("shares")
        .says("mountPermissions");
    csi.run("controller create-volume pvc-1 --cap 5,mount --params share=/share")
        .exits(64 + 3)
        .says("server");
    csi.run(&format!(
        "controller create-volume pvc-1 --cap 5,block {PARAMS}"
    ))
    .exits(64 + 3)
    .says("block");
    csi.run(&format!("controller create-volume pvc-1 --no-cap {PARAMS}"))
        .exits(64 + 3)
        .says("volume_capabilities");
    csi.run(&format!(
        "controller create-volume pvc-1 {PARAMS},subDir=../../etc"
    ))
    .exits(64 + 3)
    .says("subDir");
    // The same name with another size.
    csi.run(&format!(
        "controller create-volume pvc-1 --req-bytes 1Gi {PARAMS}"
    ))
    .succeeds();
    csi.run(&format!(
        "controller create-volume pvc-1 --req-bytes 2Gi {PARAMS}"
    ))
    .exits(64 + 6);
    csi.run("controller get-volume no-such-volume")
        .exits(64 + 5)
        .says("no-such-volume");
    csi.run("controller delete-volume no-such-volume")
        .succeeds();
}

#[test]
fn a_restart_loses_nothing() {
    let mut driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let create = |name: &str| {
        csi.run(&format!(
            "controller create-volume {name} --req-bytes 1Mi {PARAMS} -o name"
        ))
        .succeeds()
        .value()
        .to_owned()
    };
    let first = create("pvc-1");
    driver.kill();
    driver.restart();
    let second = create("pvc-2");
    driver.stop();
    assert!(
        !std::path::Path::new(driver.endpoint().strip_prefix("unix://").unwrap()).exists(),
        "the socket is left"
    );
    driver.restart();
    assert_eq!(create("pvc-1"), first);
    let mut expected = [first, second];
    expected.sort();
    let listed = csi.run("controller list-volumes -o name").succeeds();
    let mut listed: Vec<_> = listed.stdout.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, expected);
}

#[test]
fn pages_of_a_list() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    let names: Vec<String> = (0..25).map(|number| format!("pvc-{number}")).collect();
    let created = csi
        .run(&format!(
            "controller create-volume {} {PARAMS} -o name",
            names.join(" ")
        ))
        .succeeds();
    let mut created: Vec<_> = created.stdout.lines().collect();
    created.sort_unstable();
    let all = csi
        .run("controller list-volumes --all --max-entries 10 -o name")
        .succeeds();
    let mut listed: Vec<_> = all.stdout.lines().collect();
    listed.sort_unstable();
    assert_eq!(listed, created);
    // A token stays good when volumes before it go.
    let page = csi
        .run("controller list-volumes --max-entries 10 -o json")
        .succeeds()
        .json();
    let id = |index: usize| {
        page["entries"][index]["volume"]["volumeId"]
            .as_str()
            .unwrap()
            .to_owned()
    };
    csi.run(&format!("controller delete-volume {} {}", id(0), id(5)))
        .succeeds();
    let token = page["nextToken"].as_str().unwrap();
    let rest = csi
        .run_args([
            "controller",
            "list-volumes",
            "--all",
            "--starting-token",
            token,
            "-o",
            "name",
        ])
        .succeeds();
    assert_eq!(rest.stdout.lines().count(), 15, "{rest}");
    csi.run("controller list-volumes --starting-token nonsense")
        .exits(64 + 10);
}

#[test]
fn what_the_driver_says_of_itself() {
    let driver = Driver::with_local_share();
    let csi = Csi::at(&driver.endpoint());
    csi.run("identity plugin-info -o name")
        .succeeds()
        .prints("nfs.csi.internal\n");
    csi.run("identity probe -o name")
        .succeeds()
        .prints("true\n");
    csi.run("node get-info -o name")
        .succeeds()
        .prints("node-1\n");
    let capabilities = csi.run("controller get-capabilities -o name").succeeds();
    for expected in [
        "CREATE_DELETE_VOLUME",
        "LIST_VOLUMES",
        "GET_VOLUME",
        "EXPAND_VOLUME",
        "GET_CAPACITY",
    ] {
        assert!(
            capabilities.stdout.lines().any(|line| line == expected),
            "{expected}\n{capabilities}"
        );
    }
    // What it advertises it has, and what it has not is UNIMPLEMENTED.
    csi.run("group-controller get-capabilities").exits(64 + 12);
}
