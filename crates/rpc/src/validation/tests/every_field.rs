//! Tests that hold for every field of every request and reply: sizes, signs, paths, and the fields that the
//! documentation calls required.

use super::super::messages;
use super::super::rule::Rule;
use super::super::view::{Broken, inside};
use super::super::walk;
use super::bytes;
use super::rpc_of;
use csi_proto::schema::{Cardinality, Field, Kind, Message};
use csi_proto::tables::METHODS;
use serde_json::{Value as Json, json};

/// Gets a field, its path, and what makes the document with a value of that field.
type Visit<'a> = dyn FnMut(&'static Field, &str, &dyn Fn(Json) -> Json) + 'a;

/// Visits every field of the message and the messages in it, with a JSON document that leads to it.
fn fields(message: &'static Message, at: &str, wrap: &dyn Fn(Json) -> Json, visit: &mut Visit<'_>) {
    for field in message.fields {
        let repeated = field.cardinality == Cardinality::Repeated;
        let index = if repeated { "[0]" } else { "" };
        let at = format!("{}{index}", inside(at, field.name));
        let wrap = |value: Json| match repeated {
            true => wrap(json!({ field.name: [value] })),
            false => wrap(json!({ field.name: value })),
        };
        visit(field, &at, &wrap);
        if let Kind::Message(of) = field.kind {
            fields(of, &at, &wrap, visit);
        }
    }
}

/// Calls `check` for every field of every request and reply with a function that says what is wrong when the field, and
/// no other, has a value.
fn for_every_field(mut check: impl FnMut(&'static Field, &str, &dyn Fn(Json) -> Vec<String>)) {
    for method in METHODS {
        for (message, is_request) in [(method.request, true), (method.response, false)] {
            fields(message, "", &|json| json, &mut |field, at, wrap| {
                let violations = |value: Json| {
                    let mut found = Broken::default();
                    let rules = match is_request {
                        true => rpc_of(method).request_rules,
                        false => rpc_of(method).reply_rules,
                    };
                    walk::message(message, &bytes(message, &wrap(value)), rules, &mut found);
                    let lines = found.shown.into_iter();
                    lines
                        .map(|one| format!("{}: {}", one.at, one.rule))
                        .collect()
                };
                check(field, at, &violations);
            });
        }
    }
}

#[test]
fn every_number_must_not_be_negative() {
    let mut count = 0;
    for_every_field(|field, at, problems| {
        if matches!(field.kind, Kind::Int32 | Kind::Int64 | Kind::Int64Value) {
            count += 1;
            let expected = format!("{at}: -1 is negative");
            assert!(
                problems(json!(-1)).contains(&expected),
                "{:?}",
                problems(json!(-1))
            );
            assert!(
                !problems(json!(1))
                    .iter()
                    .any(|line| line.ends_with("negative"))
            );
        }
    });
    assert!(count > 20, "{count}");
}

#[test]
fn every_text_has_its_limit() {
    let (mut general, mut nodes, mut free) = (0, 0, Vec::new());
    for_every_field(|field, at, problems| {
        if !matches!(field.kind, Kind::String) || field.cardinality == Cardinality::Map {
            return;
        }
        let too_long = |length: usize| {
            let text = format!("/{}", "x".repeat(length - 1));
            let front = format!("{at}: has {length} bytes, ");
            problems(json!(text))
                .iter()
                .any(|line| line.starts_with(&front))
        };
        match (too_long(129), too_long(257)) {
            (true, true) => {
                assert!(!too_long(128), "{at}");
                general += 1;
            }
            (false, true) => {
                assert!(!too_long(256), "{at}");
                nodes += 1;
            }
            _ => free.push(field.name),
        }
    });
    assert!(general > 40, "{general}");
    // Publish, unpublish, NodeGetInfo, and the published nodes of two replies.
    assert_eq!(nodes, 5);
    free.sort_unstable();
    free.dedup();
    let expected = [
        "mount_flags",
        "staging_target_path",
        "target_path",
        "volume_path",
    ];
    assert_eq!(free, expected);
}

#[test]
fn every_map_has_4_kib_and_secrets_stay_unseen() {
    let (mut maps, mut secrets) = (0, 0);
    for_every_field(|field, at, problems| {
        if field.cardinality != Cardinality::Map {
            return;
        }
        maps += 1;
        let sized = |size: usize| json!({ "key": "v".repeat(size - 3) });
        let expected = format!("{at}: has 4097 bytes of keys and values, at most 4096 are allowed");
        assert!(problems(sized(4097)).contains(&expected), "{at}");
        assert!(
            !problems(sized(4096)).join("").contains("bytes of keys"),
            "{at}"
        );
        if field.secret {
            secrets += 1;
            let lines = problems(json!({ "hush hush": "v".repeat(5000) }));
            let rule = "has a key with other characters than letters, digits, '-', '_' and '.'";
            assert!(lines.contains(&format!("{at}: {rule}")), "{lines:?}");
            let all = lines.join("");
            assert!(!all.contains("hush") && !all.contains("vvv"), "{all}");
        }
    });
    assert!(maps > 20 && secrets > 10, "{maps} {secrets}");
}

#[test]
fn every_path_must_be_absolute() {
    let mut count = 0;
    for_every_field(|field, at, problems| {
        if field.name.ends_with("_path") {
            count += 1;
            let expected = format!("{at}: \"mnt/x\" is not an absolute path");
            assert!(problems(json!("mnt/x")).contains(&expected), "{at}");
            assert!(
                !problems(json!("/mnt/x")).join("").contains("absolute"),
                "{at}"
            );
        }
    });
    assert_eq!(count, 9);
}

/// Whether 0 is a value like any other in a required number.
fn may_be_zero(message: &str, field: &str) -> bool {
    matches!(
        (message, field),
        ("BlockMetadata", "byte_offset")
            | ("GetCapacityResponse", "available_capacity")
            | (
                "GetMetadataAllocatedRequest" | "GetMetadataDeltaRequest",
                "starting_offset"
            )
            | ("VolumeUsage", "total")
    )
}

#[test]
fn the_fields_whose_documentation_says_so_are_required() {
    let mut required = 0;
    for message in csi_proto::tables::MESSAGES {
        let name = message.short_name();
        let owner = METHODS.iter().find_map(|method| {
            if method.request.name == message.name {
                Some(rpc_of(method).request_rules)
            } else if method.response.name == message.name {
                Some(rpc_of(method).reply_rules)
            } else {
                None
            }
        });
        let rules = owner.unwrap_or_else(|| messages::of(message));
        for field in message.fields {
            // "Required with capability X" depends on the driver; false is a value like any other.
            let says = field.doc.split(['.', ';', '\n']).map(str::trim);
            let mut says = says.filter(|says| !says.starts_with("Required with"));
            let documented = says.any(|says| says.starts_with("Required"))
                && !matches!(field.kind, Kind::Bool)
                && !may_be_zero(name, field.name);
            let mut rules = rules.iter();
            let has_rule = message.required.contains(&field.name)
                || rules.any(|rule| matches!(rule, Rule::Required(of) if *of == field.name));
            let field_of = format!("{name}.{}: {}", field.name, field.doc);
            assert_eq!(
                has_rule, documented,
                "{field_of}: a required number has a rule Required(…), or may be zero, as may_be_zero says"
            );
            required += usize::from(has_rule);
        }
    }
    assert!(required > 60, "{required}");
}
