//! Tests that the facts agree with the messages, with each other and with the documentation in `csi.proto`.

use super::facts::{Capability, Effect, Given, IdKind, NAME, Thing};
use super::{all, facts, maker_of, makers, making, only_reads};
use csi_proto::schema::{Cardinality, Field, Kind, Message};
use csi_proto::{Method, tables};

/// The field at the end of a path, through lists.
fn field(mut message: &'static Message, path: &str) -> Option<&'static Field> {
    let mut found = None;
    for name in path.split('.') {
        let field = message.fields.iter().find(|field| field.name == name)?;
        if let Kind::Message(of) = field.kind {
            message = of;
        }
        found = Some(field);
    }
    found
}

#[test]
fn the_facts_name_fields_that_exist() {
    for rpc in all() {
        let name = rpc.method.name;
        for required in rpc.method.request.required {
            assert!(
                field(rpc.method.request, required).is_some(),
                "{name}: {required}"
            );
        }
        for (given, path) in rpc.facts.gives {
            let found = field(rpc.method.response, path);
            assert!(found.is_some(), "{name}: {given:?} at {path}");
        }
    }
}

#[test]
fn every_field_of_an_undoing_request_has_a_source() {
    for (method, making) in makers() {
        let name = method.name;
        for wanted in making.undone_by.request.fields {
            let (message, path) = match making.source(wanted) {
                Some(path) => (method.response, path),
                None => (method.request, wanted.name),
            };
            let found = field(message, path).unwrap_or_else(|| panic!("{name}: {path}"));
            let same = match (wanted.kind, found.kind) {
                (Kind::String, Kind::String) => true,
                (wanted, found) => format!("{wanted:?}") == format!("{found:?}"),
            };
            assert!(same, "{name}: {path} is no {wanted}");
        }
        for (told, _) in making.id_path {
            assert!(
                field(making.undone_by.request, told).is_some(),
                "{name}: {told}"
            );
        }
        let named = method.request.field(NAME).is_some();
        assert_eq!(making.has_own_id(), named, "{name}");
        assert_eq!(making.has_own_id(), making.own_id().is_some(), "{name}");
        assert_eq!(making.thing.holds_volume(), !named, "{name}");
        assert!(making.identity().count() > 0, "{name}");
    }
}

#[test]
fn every_thing_is_made_by_one_rpc_and_taken_back_by_another() {
    let mut things: Vec<Thing> = makers().map(|(_, making)| making.thing).collect();
    things.sort_unstable();
    let all_things = [
        Thing::PublishedVolume,
        Thing::StagedVolume,
        Thing::AttachedVolume,
        Thing::GroupSnapshot,
        Thing::Snapshot,
        Thing::Volume,
    ];
    assert_eq!(things, all_things);
    for rpc in all() {
        let undoes = matches!(rpc.facts.effect, Effect::Undoes);
        assert_eq!(
            undoes,
            maker_of(rpc.method).is_some(),
            "{}",
            rpc.method.name
        );
    }
}

#[test]
fn what_tells_one_thing_from_another() {
    for (maker, names) in [
        (&tables::CONTROLLER_CREATE_VOLUME, &["volume_id"][..]),
        (&tables::CONTROLLER_CREATE_SNAPSHOT, &["snapshot_id"]),
        (
            &tables::GROUP_CONTROLLER_CREATE_VOLUME_GROUP_SNAPSHOT,
            &["group_snapshot_id"],
        ),
        (
            &tables::CONTROLLER_CONTROLLER_PUBLISH_VOLUME,
            &["volume_id", "node_id"],
        ),
        (
            &tables::NODE_NODE_STAGE_VOLUME,
            &["volume_id", "staging_target_path"],
        ),
        (
            &tables::NODE_NODE_PUBLISH_VOLUME,
            &["volume_id", "target_path"],
        ),
    ] {
        let making = making(maker).expect("a maker");
        let found: Vec<_> = making.identity().map(|field| field.name).collect();
        assert_eq!(found, names, "{}", maker.name);
    }
}

#[test]
fn lists_of_ids_hold_ids_of_that_kind() {
    for rpc in all() {
        for (given, path) in rpc.facts.gives {
            let found = field(rpc.method.response, path).expect("a field");
            let expected = match given {
                Given::Ids(kind) => Some(*kind),
                Given::VolumeContext | Given::PublishContext => {
                    assert_eq!(found.cardinality, Cardinality::Map);
                    None
                }
            };
            assert_eq!(IdKind::of_field(found.name), expected, "{path}");
        }
    }
}

#[test]
fn every_field_that_is_called_an_id_names_something() {
    let fields = tables::MESSAGES.iter().flat_map(|message| message.fields);
    for field in fields.filter(|field| matches!(field.kind, Kind::String)) {
        let is_id = field.name.ends_with("_id") || field.name.ends_with("_ids");
        let known = IdKind::of_field(field.name).is_some();
        assert_eq!(
            is_id, known,
            "whether {} is named like an id, and whether IdKind::of_field knows it",
            field.name
        );
    }
}

#[test]
fn the_facts_agree_with_the_documentation() {
    for rpc in all() {
        let Method { name, doc, .. } = rpc.method;
        let section = format!(", {name}.");
        assert!(
            doc.ends_with(&section),
            "the comment of {name} in csi.proto must end with a line `Spec: SECTION{section}`: {doc}"
        );
        let said = doc.split_once(" capability ").map(|(_, rest)| rest);
        let said = said.map(|rest| rest.split(". ").next().unwrap_or_default());
        let own: Vec<_> = rpc
            .facts
            .needs
            .iter()
            .filter(|one| !matches!(one, Capability::Plugin(_)))
            .map(|one| one.name())
            .collect();
        assert_eq!(
            said.unwrap_or_default(),
            own.join(" or "),
            "{name}: `capability NAME.` of its comment in csi.proto, and NEEDS of its block"
        );
    }
}

#[test]
fn an_rpc_that_nobody_knows_is_not_taken_to_read() {
    let unknown = Method {
        name: "ControllerResizePool",
        kebab_name: "controller-resize-pool",
        service: "Controller",
        path: "/csi.v1.Controller/ControllerResizePool",
        request: &tables::PROBE_REQUEST,
        response: &tables::PROBE_RESPONSE,
        server_streaming: false,
        alpha: false,
        doc: "",
    };
    assert!(facts(&unknown).is_none() && !only_reads(&unknown));
    // The same name in a service that nobody knows.
    let elsewhere = Method {
        path: "/csi.v2.Identity/Probe",
        ..unknown
    };
    assert!(!only_reads(&elsewhere));
    assert!(only_reads(&tables::IDENTITY_PROBE));
    assert!(!only_reads(&tables::CONTROLLER_CREATE_VOLUME));
}
