//! The rules of the messages inside requests and replies, beyond those that `csi.proto` says: between their fields, or about numbers.

use super::rule::{Rule, mount_flags_size};
use super::syntax;
use super::view::{Broken, MessageView, inside, quoted};
use Rule::{Check, Required};
use csi_proto::schema::Message;
use csi_proto::value::Value;
use std::collections::BTreeMap;

/// Messages by their names without the package. `oneof`s, sizes, signs and required fields need no rule, but for a number that must
/// not be 0: `walk` checks them everywhere.
const RULES: &[(&str, &[Rule])] = &[
    ("BlockMetadata", &[Required("size_bytes")]),
    ("CapacityRange", &[Check(capacity_range)]),
    ("Topology", &[Check(topology)]),
    ("TopologyRequirement", &[Check(topology_requirement)]),
    ("VolumeCapability.MountVolume", &[Check(mount_flags_size)]),
    ("VolumeGroupSnapshot", &[Check(group_snapshot)]),
];

/// The rules of a message that occurs inside others.
pub fn of(message: &'static Message) -> &'static [Rule] {
    let name = message.short_name();
    let entry = RULES.iter().find(|(entry, _)| *entry == name);
    entry.map_or(&[], |(_, rules)| rules)
}

fn capacity_range(range: &MessageView<'_>, at: &str, found: &mut Broken) {
    let (required, limit) = (range.number("required_bytes"), range.number("limit_bytes"));
    if required == 0 && limit == 0 {
        found.push(at, "required_bytes or limit_bytes must be set");
    }
    if limit > 0 && limit < required {
        let rule = format!("{limit} is less than required_bytes, {required}");
        found.push(inside(at, "limit_bytes"), rule);
    }
}

fn topology(topology: &MessageView<'_>, at: &str, found: &mut Broken) {
    let at = inside(at, "segments");
    let Value::Map(segments) = topology.read("segments") else {
        return;
    };
    let mut names: BTreeMap<String, &str> = BTreeMap::new();
    let mut first_prefix = None;
    for (key, value) in &segments {
        if !syntax::is_topology_name(value) {
            let rule = "must have 1 to 63 letters, digits, '-', '_' and '.', with a letter or digit at both ends";
            found.push(
                &at,
                format!("the value of {}, {}, {rule}", quoted(key), quoted(value)),
            );
        }
        if let Some(other) = names.insert(key.to_lowercase(), key) {
            let rule = format!("{} and {} differ only in case", quoted(other), quoted(key));
            found.push(&at, rule);
        }
        match syntax::topology_key(key) {
            None => {
                let rule = "is not a key: write a name, or a lower-case domain, a slash and a name, each of at most 63 characters";
                found.push(&at, format!("{} {rule}", quoted(key)));
            }
            Some((Some(prefix), _)) if *first_prefix.get_or_insert(prefix) != prefix => {
                let rule = format!(
                    "the prefix of {} is not that of the keys before",
                    quoted(key)
                );
                found.push(&at, rule);
            }
            Some(_) => {}
        }
    }
}

fn topology_requirement(requirement: &MessageView<'_>, at: &str, found: &mut Broken) {
    let requisite = requirement.list("requisite");
    let preferred = requirement.list("preferred");
    if requisite.is_empty() && preferred.is_empty() {
        found.push(at, "requisite or preferred must be set");
    }
    for (index, place) in preferred.iter().enumerate() {
        if !requisite.is_empty() && !requisite.contains(place) {
            let at = format!("{}[{index}]", inside(at, "preferred"));
            found.push(at, "is not in requisite");
        }
    }
}

fn group_snapshot(group: &MessageView<'_>, at: &str, found: &mut Broken) {
    let id = group.text("group_snapshot_id");
    let mut ready = true;
    for (index, snapshot) in group.elements("snapshots").into_iter().enumerate() {
        let of = snapshot.text("group_snapshot_id");
        // Members that can be deleted alone need not name it.
        if !of.is_empty() && of != id {
            let at = format!("{}[{index}].group_snapshot_id", inside(at, "snapshots"));
            found.push(at, format!("{} is not the group's id", quoted(&of)));
        }
        ready &= snapshot.read("ready_to_use") == Value::Bool(true);
    }
    if !ready && group.read("ready_to_use") == Value::Bool(true) {
        let rule = "is true, though one of the snapshots is not ready";
        found.push(inside(at, "ready_to_use"), rule);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::schema::Kind;
    use csi_proto::tables::METHODS;
    use std::collections::BTreeSet;

    fn collect(message: &'static Message, names: &mut BTreeMap<&'static str, &'static Message>) {
        for field in message.fields {
            if let Kind::Message(of) = field.kind
                && names.insert(of.short_name(), of).is_none()
            {
                collect(of, names);
            }
        }
    }

    #[test]
    fn an_entry_is_a_message_inside_another_and_its_fields_exist() {
        let mut messages = BTreeMap::new();
        for method in METHODS {
            collect(method.request, &mut messages);
            collect(method.response, &mut messages);
        }
        let entries: BTreeSet<&str> = RULES.iter().map(|(name, _)| *name).collect();
        assert_eq!(entries.len(), RULES.len(), "an entry stands twice");
        for (name, rules) in RULES {
            assert!(messages.contains_key(name), "{name}");
            for rule in *rules {
                if let Required(field) | Rule::Text(field, ..) = rule {
                    assert!(messages[name].field(field).is_some(), "{name}.{field}");
                }
            }
        }
    }
}
