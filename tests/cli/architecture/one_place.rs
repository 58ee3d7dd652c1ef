//! An RPC is declared in one place, its block in `src/rpc/`; others name it only when it is their subject.
//!
//! `CSI_PLACES=print cargo test -p csi-cli --test cli one_place -- --nocapture` prints for each RPC who names it.

use super::modules::Sources;
use super::places::{Subject, misplaced, places, words};
use super::{CLIENT, DRIVER, PROTOCOL, STORE, SYSTEM, hold, print_when_asked};
use csi_proto::tables::METHODS;

/// Where the blocks are.
const BLOCKS: &str = "src/rpc";

/// The files whose subject RPCs are, by the reason.
const SUBJECTS: &[Subject] = &[
    Subject {
        why: "the group of a service whose volumes and snapshots have files of their own",
        places: &[(
            "src/rpc/controller.rs",
            &[
                "CreateVolume",
                "DeleteVolume",
                "ListVolumes",
                "ControllerGetVolume",
                "ControllerModifyVolume",
                "ControllerExpandVolume",
                "CreateSnapshot",
                "DeleteSnapshot",
                "ListSnapshots",
                "GetSnapshot",
            ],
        )],
    },
    Subject {
        why: "a step of the lifecycle",
        places: &[
            (
                "src/tools/lifecycle/volume.rs",
                &[
                    "CreateVolume",
                    "DeleteVolume",
                    "ControllerPublishVolume",
                    "ControllerGetVolume",
                    "NodeStageVolume",
                    "NodePublishVolume",
                    "NodeGetInfo",
                ],
            ),
            (
                "src/tools/lifecycle/further.rs",
                &[
                    "CreateVolume",
                    "ControllerGetVolume",
                    "ControllerExpandVolume",
                    "NodeExpandVolume",
                    "NodeGetVolumeStats",
                    "CreateSnapshot",
                ],
            ),
        ],
    },
    Subject {
        why: "a step of a scenario that bench measures",
        places: &[("src/tools/bench/scenario.rs", &[])],
    },
    Subject {
        why: "a case of sanity, or what a case begins with",
        places: &[
            ("src/tools/sanity/cases", &[]),
            ("src/tools/sanity/fixtures.rs", &[]),
            ("src/tools/sanity/sources.rs", &[]),
            ("src/tools/sanity/presence.rs", &["Probe"]),
            ("src/tools/sanity/own_driver.rs", &["Probe"]),
        ],
    },
    Subject {
        why: "what a driver advertises, or whether it answers at all",
        places: &[
            ("src/call/wait.rs", &["Probe"]),
            (
                "src/call/advertised.rs",
                &[
                    "GetPluginCapabilities",
                    "ControllerGetCapabilities",
                    "GroupControllerGetCapabilities",
                    "NodeGetCapabilities",
                ],
            ),
            ("src/tools/lifecycle/ask.rs", &["GetPluginInfo", "Probe"]),
            (
                "src/tools/sanity/driver_info.rs",
                &["GetPluginInfo", "NodeGetInfo"],
            ),
            ("src/tools/sanity/room.rs", &["GetCapacity"]),
            // Capabilities of these names.
            (
                "src/tools/sanity/need.rs",
                &["ListVolumes", "GetCapacity", "ListSnapshots", "GetSnapshot"],
            ),
            ("src/invocation/live_ids.rs", &["GetPluginInfo"]),
            ("src/tools/shell/connections.rs", &["GetPluginInfo"]),
            ("src/tools/version", &["GetPluginInfo"]),
            (
                "src/tools/doctor",
                &[
                    "GetPluginInfo",
                    "Probe",
                    "ListVolumes",
                    "DeleteVolume",
                    // Capabilities of these names.
                    "GetCapacity",
                ],
            ),
            (
                "src/tools/wait",
                &[
                    "ControllerGetVolume",
                    "ListVolumes",
                    "GetSnapshot",
                    "ListSnapshots",
                ],
            ),
        ],
    },
    Subject {
        why: "folders and figures of a recording that replay makes or leaves out",
        places: &[("src/tools/replay/compare.rs", &["GetCapacity"])],
    },
    Subject {
        why: "a page of help, or a message with an example",
        places: &[
            ("src/cli/tree.rs", &["CreateVolume", "ListVolumes"]),
            // The flags of a command line that takes back what is left.
            ("src/undo/left.rs", &["CreateVolume"]),
            (
                "src/rpc/flags.rs",
                &[
                    "CreateVolume",
                    "ListVolumes",
                    "CreateSnapshot",
                    "NodePublishVolume",
                ],
            ),
            // The flags that have the help of a request's fields.
            ("src/invocation/volume_flags.rs", &["CreateVolume"]),
            ("src/tools/bench/tree.rs", &["ListVolumes"]),
            ("src/tools/proxy/command.rs", &["CreateVolume"]),
            ("src/tools/mock/command.rs", &["CreateVolume"]),
            (
                "proto/src/faults.rs",
                &["CreateVolume", "NodePublishVolume"],
            ),
            ("src/tools/sanity/data.rs", &["NodeUnpublishVolume"]),
            (
                "src/tools/shell/builtins.rs",
                &["CreateVolume", "ListVolumes"],
            ),
            ("src/tools/shell/describe.rs", &["CreateVolume"]),
            ("src/tools/shell/line.rs", &["ListVolumes"]),
            ("src/tools/shell/mod.rs", &["ListVolumes"]),
            (
                "driver/src/calls/call_log.rs",
                &[
                    "GetPluginInfo",
                    "GetPluginCapabilities",
                    "Probe",
                    "ControllerGetCapabilities",
                    "ControllerGetVolume",
                    "GetCapacity",
                    "ListVolumes",
                    "NodeGetCapabilities",
                    "NodeGetInfo",
                    "NodeGetVolumeStats",
                ],
            ),
            (
                "driver/src/calls/node/error.rs",
                &["CreateVolume", "NodeStageVolume", "NodeUnpublishVolume"],
            ),
            (
                "driver/store/src/share/volume/create.rs",
                &["CreateVolume", "DeleteVolume"],
            ),
        ],
    },
    Subject {
        why: "a service of FlexVolume drivers",
        places: &[
            ("src/tools/flex/identity.rs", &[]),
            ("src/tools/flex/controller.rs", &[]),
            ("src/tools/flex/node.rs", &[]),
        ],
    },
    Subject {
        why: "the driver's service",
        places: &[
            ("driver/src/calls/controller", &[]),
            (
                "driver/src/calls/identity.rs",
                &["GetPluginInfo", "GetPluginCapabilities", "Probe"],
            ),
            ("driver/src/calls/node/mod.rs", &[]),
            (
                "driver/src/calls/node/publish.rs",
                &["NodeStageVolume", "NodePublishVolume"],
            ),
            (
                "driver/src/calls/node/request.rs",
                &["NodeStageVolume", "NodePublishVolume"],
            ),
            (
                "driver/src/calls/node/stage.rs",
                &["NodeStageVolume", "NodeUnstageVolume"],
            ),
            (
                "driver/src/calls/node/unpublish.rs",
                &["NodeUnpublishVolume"],
            ),
        ],
    },
];

#[test]
fn an_rpc_is_named_in_its_own_block_and_by_those_whose_subject_it_is() {
    let members = [&CLIENT, &DRIVER, &STORE, &PROTOCOL, &SYSTEM];
    let sources: Sources = members
        .iter()
        .flat_map(|member| member.hand_written())
        .collect();
    let files = words(&sources);
    print_when_asked("CSI_PLACES", || {
        let mut text = String::new();
        for (rpc, paths) in places(METHODS, &files, BLOCKS) {
            text += &format!("{rpc}: {} places\n", paths.len());
            for path in paths {
                let subject = SUBJECTS.iter().find(|subject| subject.covers(path, rpc));
                text += &format!(
                    "  {path}: {}\n",
                    subject.map_or("no reason", |subject| subject.why)
                );
            }
        }
        text
    });
    hold(&misplaced(METHODS, &files, BLOCKS, SUBJECTS));
}

/// Two RPCs with their blocks, and a file of somebody else.
fn seeded(text: &str, subjects: &[Subject]) -> Vec<String> {
    let sources = [
        (
            "src/rpc/controller.rs",
            "impl Declare for v1::CreateVolumeRequest {}",
        ),
        (
            "src/rpc/identity.rs",
            "impl Declare for v1::ProbeRequest {} const M: M = tables::IDENTITY_PROBE;",
        ),
        ("src/tools/other.rs", text),
    ];
    let sources: Sources = sources
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let methods: Vec<_> = METHODS
        .iter()
        .copied()
        .filter(|method| ["CreateVolume", "Probe"].contains(&method.name))
        .collect();
    misplaced(&methods, &words(&sources), BLOCKS, subjects)
}

#[test]
fn a_place_that_names_an_rpc_without_a_reason_is_seen() {
    for code in [
        "use csi_proto::v1::CreateVolumeRequest;",
        "fn f() -> v1::CreateVolumeResponse {}",
        "use csi_proto::v1::create_volume_request::X;",
        "fn f() { &tables::CONTROLLER_CREATE_VOLUME; }",
        "const M: &Message = &tables::CREATE_VOLUME_RESPONSE;",
        "fn f() { if name == \"CreateVolume\" {} }",
        "fn f() { vec![\"/csi.v1.Controller/CreateVolume\"]; }",
        "const HELP: &str = \"csi controller create-volume pvc-1\";",
        "case! { CreateVolume }",
        "struct CreateVolume;",
    ] {
        let broken = seeded(&format!("\n{code}"), &[]);
        assert_eq!(broken.len(), 1, "{code}: {broken:?}");
        assert!(
            broken[0].starts_with("src/tools/other.rs:2 names CreateVolume ("),
            "{broken:?}"
        );
    }
    for code in [
        "// CreateVolume\n/// [`v1::CreateVolumeRequest`]\nfn f() {}",
        "#[cfg(test)] mod tests { use csi_proto::v1::CreateVolumeRequest; }",
        "fn probe() { create_volume(); CreateVolumes; \"recreate-volumes\"; }",
    ] {
        assert_eq!(seeded(code, &[]), [""; 0], "{code}");
    }
}

#[test]
fn a_reason_excuses_the_rpcs_it_names_and_only_while_they_are_named() {
    let subjects = |places| [Subject { why: "", places }];
    let code = "const M: [&str; 2] = [\"CreateVolume\", \"Probe\"];";
    assert_eq!(
        seeded(code, &subjects(&[("src/tools/other.rs", &[])])),
        [""; 0]
    );
    assert_eq!(
        seeded(
            code,
            &subjects(&[("src/tools", &["CreateVolume", "Probe"])])
        ),
        [""; 0]
    );
    let broken = seeded(code, &subjects(&[("src/tools/other.rs", &["Probe"])]));
    assert_eq!(broken.len(), 1, "{broken:?}");
    let broken = seeded("", &subjects(&[("src/tools/other.rs", &["Probe"])]));
    assert_eq!(
        broken,
        ["src/tools/other.rs does not name Probe any more: remove that from the list"]
    );
    let broken = seeded("", &subjects(&[("src/tools/other.rs", &[])]));
    assert_eq!(
        broken,
        ["src/tools/other.rs names no RPC any more: remove it from the list"]
    );
}

#[test]
fn an_rpc_has_one_block() {
    let files = words(&Sources::new());
    let broken = misplaced(METHODS, &files, BLOCKS, &[]);
    assert_eq!(broken.len(), METHODS.len());
    assert!(broken.contains(&"CreateVolume has 0 blocks below src/rpc instead of one".to_owned()));
}
