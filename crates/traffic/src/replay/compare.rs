//! Compares the replies of two drivers field by field, and learns the names that each gives to the same thing.

use super::names::{NamePlace, Names};
use super::request::place_of;
use csi_output::recorded::Difference;
use csi_proto::schema::{Cardinality, Field, Kind, Message};
use csi_proto::value::MASK;
use serde_json::{Map, Value as Json};
use std::collections::HashMap;

/// Messages of measured values: they depend on data and on the moment, which no recording holds.
const MEASURED: [&str; 2] = ["csi.v1.VolumeUsage", "csi.v1.GetCapacityResponse"];

/// The one field of such a message that is not measured.
const UNIT: &str = "unit";

/// The ends of the names of messages whose lists are sets: a driver gives them in any order.
const OF_SETS: [&str; 2] = ["Capability", "Topology"];

/// Whether a path, without places in lists, is one of those that are not compared, as they were written.
pub(crate) fn ignores(ignored: &[String], at: &str) -> bool {
    // Both spellings of names mean the same.
    let plain = |text: &str| text.replace('_', "").to_ascii_lowercase();
    let mut path = String::new();
    let mut inside = false;
    for letter in at.chars() {
        match letter {
            '[' => inside = true,
            ']' => inside = false,
            _ if inside => {}
            letter => path.push(letter),
        }
    }
    let path = plain(&path);
    let mut ignored = ignored.iter().map(|ignored| plain(ignored));
    ignored.any(|ignored| {
        let rest = path.strip_prefix(ignored.as_str());
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    })
}

/// Compares one message with its recorded counterpart.
pub(crate) struct Comparison<'a> {
    names: &'a mut Names,
    ignored: &'a [String],
    found: Vec<Difference>,
    /// Whether what is walked is not compared; names are learned all the same.
    muted: bool,
}

/// The differences of `now` from `recorded`, two replies of the type `of` in canonical JSON.
pub fn compare(
    of: &'static Message,
    recorded: &[Json],
    now: &[Json],
    names: &mut Names,
    ignored: &[String],
) -> Vec<Difference> {
    let mut comparison = Comparison {
        names,
        ignored,
        found: Vec::new(),
        muted: false,
    };
    match (recorded, now) {
        ([recorded], [now]) => comparison.message(of, recorded, now, ""),
        _ => comparison.list(Some(of), recorded, now, "replies"),
    }
    comparison.found
}

impl Comparison<'_> {
    /// Walks on below `at`, without a difference where that is not compared.
    fn below(&mut self, at: &str, walk: impl FnOnce(&mut Self)) {
        let before = self.muted;
        self.muted |= ignores(self.ignored, at);
        walk(self);
        self.muted = before;
    }

    fn differ(&mut self, at: &str, recorded: &Json, now: &Json) {
        if self.muted {
            return;
        }
        self.found.push(Difference {
            at: at.to_owned(),
            recorded: recorded.clone(),
            now: now.clone(),
        });
    }

    fn message(&mut self, of: &'static Message, recorded: &Json, now: &Json, at: &str) {
        let (Json::Object(old), Json::Object(new)) = (recorded, now) else {
            if recorded != now {
                let at = if at.is_empty() { "reply" } else { at };
                self.differ(at, recorded, now);
            }
            return;
        };
        // Ids first: what they are called is then known in the other fields of the same message.
        let mut keys: Vec<&String> = union(old, new);
        keys.sort_by_key(|key| {
            !of.field(key)
                .is_some_and(|field| place_of(field) == NamePlace::Id)
        });
        for key in keys {
            let field = of.field(key);
            let name = field.map_or(key.as_str(), |field| field.name);
            let at = match at {
                "" => name.to_owned(),
                _ => format!("{at}.{name}"),
            };
            if MEASURED.contains(&of.name) && name != UNIT {
                continue;
            }
            let (old, new) = (member(old, key), member(new, key));
            self.below(&at, |this| match field {
                Some(field) => this.field(field, old, new, &at),
                None if old != new => this.differ(&at, old, new),
                None => {}
            });
        }
    }

    fn field(&mut self, field: &'static Field, old: &Json, new: &Json, at: &str) {
        let of = match field.kind {
            Kind::Timestamp => return,
            Kind::Message(of) => Some(of),
            _ => None,
        };
        match (old, new) {
            (Json::Object(old), Json::Object(new)) if field.cardinality == Cardinality::Map => {
                for key in union(old, new) {
                    let at = format!("{at}.{key}");
                    let (old, new) = (member(old, key), member(new, key));
                    self.below(&at, |this| {
                        this.text(NamePlace::Context(field.name, key), old, new, &at)
                    });
                }
            }
            (Json::Array(old), Json::Array(new)) => match of {
                Some(_) => self.list(of, old, new, at),
                None => self.texts(place_of(field), old, new, at),
            },
            _ => match of {
                Some(of) => self.message(of, old, new, at),
                None => self.text(place_of(field), old, new, at),
            },
        }
    }

    fn text(&mut self, place: NamePlace<'_>, old: &Json, new: &Json, at: &str) {
        match (old, new) {
            (Json::String(old_text), Json::String(new_text)) => {
                let expected = self.names.translate(place, old_text);
                // A masked value tells nothing.
                if expected != *new_text
                    && !old_text.contains(MASK)
                    && !self.names.learn(place, old_text, new_text)
                {
                    self.differ(at, old, new);
                } else if expected == *new_text && place == NamePlace::Id {
                    // An id that is the same must stay the same.
                    self.names.learn(place, old_text, new_text);
                }
            }
            _ if old != new => self.differ(at, old, new),
            _ => {}
        }
    }

    /// Texts whose order means nothing: ids of nodes.
    fn texts(&mut self, place: NamePlace<'_>, old: &[Json], new: &[Json], at: &str) {
        let sorted = |list: &[Json], names: Option<&Names>| {
            let mut texts: Vec<String> = list
                .iter()
                .map(|text| match (text, names) {
                    (Json::String(text), Some(names)) => names.translate(place, text),
                    (Json::String(text), None) => text.clone(),
                    (other, _) => other.to_string(),
                })
                .collect();
            texts.sort();
            texts
        };
        if sorted(old, Some(self.names)) == sorted(new, None) {
            return;
        }
        match old.len() == new.len() {
            true => {
                for (index, (old, new)) in old.iter().zip(new).enumerate() {
                    self.text(place, old, new, &format!("{at}[{index}]"));
                }
            }
            false => self.differ(at, &old.into(), &new.into()),
        }
    }

    /// Compares two lists of messages. Messages with an id are matched by it, since drivers list in an order of their own.
    fn list(&mut self, of: Option<&'static Message>, old: &[Json], new: &[Json], at: &str) {
        let Some(of) = of else { return };
        let of_set = OF_SETS.iter().any(|end| of.name.ends_with(end));
        let known_by = |id: Option<&str>, element: &Json| match id {
            Some(id) => Some(Json::from(id)),
            None => of_set.then(|| element.clone()),
        };
        let mut left: Vec<Option<&Json>> = new.iter().map(Some).collect();
        // The places of those that are left, the first last.
        let mut places: HashMap<Json, Vec<usize>> = HashMap::new();
        for (place, element) in new.iter().enumerate().rev() {
            if let Some(key) = known_by(id_of(of, element), element) {
                places.entry(key).or_default().push(place);
            }
        }
        let mut pairs: Vec<(usize, Option<&Json>)> = Vec::new();
        let mut unpaired = Vec::new();
        for (index, element) in old.iter().enumerate() {
            let id = id_of(of, element).map(|id| self.names.translate(NamePlace::Id, id));
            let same = known_by(id.as_deref(), element).and_then(|key| places.get_mut(&key)?.pop());
            match same {
                Some(place) => pairs.push((index, left[place].take())),
                None => unpaired.push(index),
            }
        }
        let mut rest = left.into_iter().flatten();
        for index in unpaired {
            // An element whose new name is known has no other counterpart.
            let known = id_of(of, &old[index])
                .is_some_and(|id| self.names.translate(NamePlace::Id, id) != *id);
            pairs.push((index, if known { None } else { rest.next() }));
        }
        pairs.sort_by_key(|(index, _)| *index);
        for (index, new) in pairs {
            let at = format!("{at}[{index}]");
            match new {
                Some(new) => self.message(of, &old[index], new, &at),
                None => self.differ(&at, &old[index], &Json::Null),
            }
        }
        for (extra, new) in rest.enumerate() {
            let at = format!("{at}[{}]", old.len() + extra);
            self.differ(&at, &Json::Null, new);
        }
    }
}

/// A member of an object; `null` where it has none of that name.
fn member<'a>(of: &'a Map<String, Json>, key: &str) -> &'a Json {
    of.get(key).unwrap_or(&Json::Null)
}

/// The keys of both, in order and once.
fn union<'a>(old: &'a Map<String, Json>, new: &'a Map<String, Json>) -> Vec<&'a String> {
    let more = new.keys().filter(|key| !old.contains_key(*key));
    old.keys().chain(more).collect()
}

/// The id by which a list's element is known: its own, or that of the message in it.
fn id_of<'a>(of: &'static Message, element: &'a Json) -> Option<&'a str> {
    for field in of.fields {
        let value = element.get(field.json_name);
        match (field.kind, value) {
            (Kind::String, Some(Json::String(id))) if place_of(field) == NamePlace::Id => {
                return Some(id);
            }
            (Kind::Message(inner), Some(value)) if field.cardinality == Cardinality::Singular => {
                if let Some(id) = id_of(inner, value) {
                    return Some(id);
                }
            }
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::methods;
    use serde_json::json;

    fn differences(
        rpc: &str,
        old: Json,
        new: Json,
        names: &mut Names,
        ignore: &[&str],
    ) -> Vec<String> {
        let ignored: Vec<String> = ignore.iter().map(ToString::to_string).collect();
        let of = methods::by_name(rpc).expect("a method").response;
        let found = compare(of, &[old], &[new], names, &ignored);
        found
            .into_iter()
            .map(|one| format!("{}: {} -> {}", one.at, one.recorded, one.now))
            .collect()
    }

    #[test]
    fn what_the_driver_chooses_is_learned_and_then_held_to() {
        let mut names = Names::default();
        let volume = |id: &str, share: &str, size: &str| json!({"volume": {"capacityBytes": size, "volumeId": id, "volumeContext": {"share": share, "kind": "nfs"}}});
        let created = differences(
            "CreateVolume",
            volume("volume-1", "/e/volume-1", "1"),
            volume("volume-A", "/e/volume-A", "1"),
            &mut names,
            &[],
        );
        assert_eq!(created, [""; 0]);
        assert_eq!(names.count(), 1);
        let again = differences(
            "CreateVolume",
            volume("volume-1", "/e/volume-1", "1"),
            volume("volume-B", "/e/volume-A", "2"),
            &mut names,
            &[],
        );
        assert_eq!(
            again,
            [
                "volume.volume_id: \"volume-1\" -> \"volume-B\"",
                "volume.capacity_bytes: \"1\" -> \"2\"",
            ]
        );
        let ignored = differences(
            "CreateVolume",
            volume("volume-1", "/e/volume-1", "1"),
            volume("volume-A", "/e/volume-A", "2"),
            &mut names,
            &["volume.capacityBytes"],
        );
        assert_eq!(ignored, [""; 0]);
        let word = json!({"volume": {"volumeId": "volume-1", "volumeContext": {"kind": "nfs"}}});
        let other = json!({"volume": {"volumeId": "volume-A", "volumeContext": {"kind": "smb", "more": "x"}}});
        assert_eq!(
            differences("CreateVolume", word, other, &mut names, &[]),
            [
                "volume.volume_context.kind: \"nfs\" -> \"smb\"",
                "volume.volume_context.more: null -> \"x\"",
            ]
        );
    }

    #[test]
    fn a_reply_that_is_none_differs_as_a_whole() {
        let mut names = Names::default();
        for recorded in [Json::Null, json!([])] {
            let expected = format!("reply: {recorded} -> {{}}");
            let found = differences("Probe", recorded, json!({}), &mut names, &[]);
            assert_eq!(found, [expected]);
        }
    }

    #[test]
    fn a_long_list_of_names_that_are_new_is_compared_as_it_is_read() {
        let list = |kind: &str| {
            let entry = |number| {
                let id = format!("volume-{kind}-{number:06}");
                let context = json!({"path": format!("/exports/{id}/data")});
                json!({"volume": {"volumeId": id, "volumeContext": context}})
            };
            json!({"entries": (0..20_000).map(entry).collect::<Vec<_>>()})
        };
        let mut names = Names::default();
        for _ in 0..2 {
            let found = differences("ListVolumes", list("old"), list("new"), &mut names, &[]);
            assert_eq!(found, [""; 0]);
        }
        assert_eq!(names.count(), 20_000);
    }

    #[test]
    fn lists_are_compared_by_id_and_not_by_order() {
        let mut names = Names::default();
        names.learn(NamePlace::Id, "volume-1", "volume-A");
        names.learn(NamePlace::Id, "volume-2", "volume-B");
        let entry = |id: &str, size: &str| json!({"volume": {"volumeId": id, "capacityBytes": size}, "status": {"publishedNodeIds": ["n1", "n2"]}});
        let old =
            json!({"entries": [entry("volume-1", "1"), entry("volume-2", "2")], "nextToken": ""});
        let new =
            json!({"entries": [entry("volume-B", "2"), entry("volume-A", "9")], "nextToken": ""});
        assert_eq!(
            differences("ListVolumes", old.clone(), new, &mut names, &[]),
            ["entries[0].volume.capacity_bytes: \"1\" -> \"9\"",]
        );
        let fewer = json!({"entries": [entry("volume-B", "2")], "nextToken": ""});
        let found = differences("ListVolumes", old, fewer, &mut names, &[]);
        assert_eq!(found.len(), 1);
        assert!(
            found[0].starts_with("entries[0]: {") && found[0].ends_with("-> null"),
            "{found:?}"
        );
    }

    #[test]
    fn capabilities_and_places_are_sets() {
        let mut names = Names::default();
        let rpc = |of: &[&str]| {
            let all = of.iter().map(|one| json!({"rpc": {"type": one}}));
            json!({"capabilities": all.collect::<Vec<_>>()})
        };
        let (old, new) = (rpc(&["A", "B", "C"]), rpc(&["C", "A", "D"]));
        assert_eq!(
            differences(
                "ControllerGetCapabilities",
                old.clone(),
                new,
                &mut names,
                &[]
            ),
            ["capabilities[1].rpc.type: \"B\" -> \"D\""]
        );
        let turned = rpc(&["C", "B", "A"]);
        let found = differences("ControllerGetCapabilities", old, turned, &mut names, &[]);
        assert_eq!(found, [""; 0]);
        let place = |zone: &str| json!({"segments": {"zone": zone}});
        let volume = |zones: [&str; 2]| json!({"volume": {"accessibleTopology": zones.map(place)}});
        let (old, new) = (volume(["a", "b"]), volume(["b", "a"]));
        assert_eq!(
            differences("CreateVolume", old, new, &mut names, &[]),
            [""; 0]
        );
    }

    #[test]
    fn times_and_measured_values_are_not_compared() {
        let mut names = Names::default();
        let usage = |used: &str, unit: &str| json!({"usage": [{"used": used, "unit": unit}], "volumeCondition": {"abnormal": false}});
        assert_eq!(
            differences(
                "NodeGetVolumeStats",
                usage("1", "BYTES"),
                usage("2", "BYTES"),
                &mut names,
                &[]
            ),
            [""; 0]
        );
        assert_eq!(
            differences(
                "NodeGetVolumeStats",
                usage("1", "BYTES"),
                usage("1", "INODES"),
                &mut names,
                &[]
            )
            .len(),
            1
        );
        let snapshot = |time: &str, ready: bool| json!({"snapshot": {"creationTime": time, "readyToUse": ready}});
        let found = differences(
            "CreateSnapshot",
            snapshot("2026-01-31T12:00:00Z", true),
            snapshot("2027-01-31T12:00:00Z", false),
            &mut names,
            &[],
        );
        assert_eq!(found, ["snapshot.ready_to_use: true -> false"]);
    }
}
