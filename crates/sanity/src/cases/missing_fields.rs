//! A request without one of its required fields is refused: a case for each such field of each RPC. Which fields these are
//! is in the facts of the RPCs; here stands how a request is made that is complete but for one field.

use super::expand::node_expand;
use super::get_volume;
use super::group_snapshots::{delete, get, new_group};
use super::modify::{modify, mutable};
use super::snapshot_metadata::{allocated, block_volume, delta};
use crate::case::CaseKind;
use crate::context::{encoded, must_be_refused};
use crate::need::Need;
use crate::verdict::any_of;
use crate::vocabulary::*;
use bytes::Bytes;
use csi_proto::Request;
use csi_proto::schema::{Cardinality, Field, Method};
use csi_rpc::draft::Draft;

/// Makes a request that is complete but for one field, and encodes it.
type MakesRequest = dyn Fn(&Arc<Context>, Missing) -> Result<Bytes, Stop> + Send + Sync;

/// An RPC whose request has required fields.
struct Subject {
    method: &'static Method,
    /// What the names of its cases begin with.
    name: &'static str,
    /// What a complete request needs beside the RPC's own capability.
    needs: &'static [Need],
    /// The field that says what the request is about. Without it nothing has to be made, and nothing of `needs` be there.
    about: Option<&'static str>,
    /// A field whose absence a driver may take for no change.
    may_be_ok: Option<&'static str>,
    /// The request; what it says in the field that is missing does not matter.
    request: Box<MakesRequest>,
}

/// The name of the field that is missing.
#[derive(Clone, Copy)]
struct Missing(&'static str);

impl Missing {
    /// The value of a field, which is not made where the field is missing.
    fn or<T: Default>(
        self,
        field: &str,
        make: impl FnOnce() -> Result<T, Stop>,
    ) -> Result<T, Stop> {
        match self.0 == field {
            true => Ok(T::default()),
            false => make(),
        }
    }

    /// The id of a volume, which is not made where the request lacks it.
    fn or_volume_id(self, make: impl FnOnce() -> Result<String, Stop>) -> Result<String, Stop> {
        self.or("volume_id", make)
    }
}

impl Subject {
    /// The RPC of a request that is complete, but for the field that is missing.
    fn of<Q: Request + 'static>(
        name: &'static str,
        request: fn(&Arc<Context>, Missing) -> Result<Q, Stop>,
    ) -> Self {
        Self {
            method: Q::METHOD,
            name,
            needs: &[],
            about: None,
            may_be_ok: None,
            request: Box::new(move |c, missing| Ok(encoded(&request(c, missing)?))),
        }
    }

    fn needs(self, needs: &'static [Need]) -> Self {
        Self { needs, ..self }
    }

    fn about(self, field: &'static str) -> Self {
        let about = Some(field);
        Self { about, ..self }
    }

    fn of_a_volume(self) -> Self {
        self.needs(VOLUMES).about("volume_id")
    }

    fn may_be_ok(self, field: &'static str) -> Self {
        let may_be_ok = Some(field);
        Self { may_be_ok, ..self }
    }
}

const VOLUMES: &[Need] = &[CREATE_DELETE_VOLUME];

/// The requests, in the order in which their cases are listed.
fn subjects() -> Vec<Subject> {
    vec![
        Subject::of("controller/create-volume", |c, _| c.create_request()),
        Subject::of("controller/delete-volume", |c, _| Ok(c.delete_request(""))),
        Subject::of("controller/publish", |c, _| Ok(c.volume_to_attach()?.1))
            .needs(&[CREATE_DELETE_VOLUME, NODE_SERVICE]),
        Subject::of("controller/unpublish", |c, _| {
            Ok(v1::ControllerUnpublishVolumeRequest {
                node_id: c.driver().node_info.node_id.clone(),
                secrets: c.secrets(),
                ..Default::default()
            })
        }),
        Subject::of("controller/validate", |c, missing| {
            c.validate_id(missing.or_volume_id(|| Ok(c.any_volume()?.volume_id))?)
        })
        .needs(&[ANY_VOLUME])
        .about("volume_id"),
        Subject::of("controller/get-volume", |_, _| Ok(get_volume::get(""))),
        Subject::of("controller/expand", |c, missing| {
            Ok(v1::ControllerExpandVolumeRequest {
                volume_id: missing.or_volume_id(|| Ok(c.volume()?.id()))?,
                capacity_range: range(c.size(), 0),
                volume_capability: Some(c.capability()?),
                secrets: c.secrets(),
            })
        })
        .of_a_volume(),
        Subject::of("controller/modify", |c, missing| {
            let id = missing.or_volume_id(|| Ok(c.volume()?.id()))?;
            Ok(modify(c, &id, mutable(c)))
        })
        .of_a_volume()
        .may_be_ok("mutable_parameters"),
        Subject::of("controller/create-snapshot", |c, _| {
            Ok(c.snapshot_request(&c.volume()?))
        })
        .needs(VOLUMES),
        Subject::of("controller/delete-snapshot", |c, _| {
            Ok(c.delete_snapshot(""))
        }),
        Subject::of("controller/get-snapshot", |c, _| Ok(c.get_snapshot(""))),
        Subject::of(
            "group-controller/create-volume-group-snapshot",
            |c, missing| {
                let id = || Ok(vec![c.volume()?.id()]);
                let mut request = c.group_request(&[]);
                request.source_volume_ids = missing.or("source_volume_ids", id)?;
                Ok(request)
            },
        )
        .needs(VOLUMES)
        .about("source_volume_ids"),
        Subject::of("group-controller/delete-volume-group-snapshot", |c, _| {
            Ok(delete(c, &new_group(c)?))
        })
        .needs(VOLUMES)
        .may_be_ok("snapshot_ids"),
        Subject::of("group-controller/get-volume-group-snapshot", |c, _| {
            Ok(get(c, &new_group(c)?))
        })
        .needs(VOLUMES)
        .may_be_ok("snapshot_ids"),
        Subject::of("snapshot-metadata/get-metadata-allocated", |c, _| {
            Ok(allocated(c, &v1::Snapshot::default()))
        }),
        Subject::of("snapshot-metadata/get-metadata-delta", |c, _| {
            let snapshot = c.ready_snapshot(&block_volume(c)?)?;
            Ok(delta(c, &snapshot, &snapshot))
        })
        .needs(&[CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, BLOCK]),
        Subject::of("node/stage", |c, _| Ok(c.placed()?.stage())).needs(VOLUMES),
        Subject::of("node/unstage", |c, missing| {
            Ok(v1::NodeUnstageVolumeRequest {
                volume_id: missing.or_volume_id(|| Ok(c.placed()?.id()))?,
                staging_target_path: missing.or("staging_target_path", || c.staging())?,
            })
        })
        .of_a_volume(),
        Subject::of("node/publish", |c, _| Ok(c.staged()?.publish())).needs(VOLUMES),
        Subject::of("node/unpublish", |c, missing| {
            Ok(v1::NodeUnpublishVolumeRequest {
                volume_id: missing.or_volume_id(|| Ok(c.published()?.id()))?,
                target_path: missing.or("target_path", || c.target())?,
            })
        })
        .of_a_volume(),
        Subject::of("node/stats", |c, missing| {
            if missing.0 != "volume_id" {
                return Ok(c.published()?.stats());
            }
            Ok(v1::NodeGetVolumeStatsRequest {
                volume_path: c.target()?,
                ..Default::default()
            })
        })
        .of_a_volume(),
        Subject::of("node/expand", |c, missing| {
            if missing.0 != "volume_id" {
                return Ok(node_expand(c, &c.published()?, c.size()));
            }
            Ok(v1::NodeExpandVolumeRequest {
                volume_path: c.target()?,
                secrets: c.secrets(),
                ..Default::default()
            })
        })
        .of_a_volume(),
    ]
}

/// How the names of cases call fields that have a longer name. Names never change, so a few stand for themselves.
const WORDS: &[(&str, &str)] = &[
    ("controller/publish/volume_id", "volume-id"),
    ("controller/unpublish/volume_id", "volume-id"),
    ("base_snapshot_id", "one-id"),
    ("target_snapshot_id", "one-id"),
    ("volume_id", "id"),
    ("snapshot_id", "id"),
    ("group_snapshot_id", "id"),
    ("source_volume_id", "source"),
    ("source_volume_ids", "volumes"),
    ("volume_path", "path"),
    ("target_path", "path"),
    ("staging_target_path", "path"),
    ("volume_capability", "capability"),
    ("volume_capabilities", "capabilities"),
    ("capacity_range", "capacity"),
    ("mutable_parameters", "parameters"),
];

/// What the name of a case calls a field.
fn word(subject: &Subject, field: &str) -> String {
    let whole = format!("{}/{field}", subject.name);
    let mut words = WORDS.iter();
    let word = words.find(|(name, _)| *name == whole || *name == field);
    word.map_or_else(|| field.replace('_', "-"), |(_, word)| (*word).to_owned())
}

/// The cases: one for each word that stands for a required field, or for several.
pub fn cases(list: &mut Cases) {
    for subject in subjects() {
        let subject = Arc::new(subject);
        let Some(facts) = csi_rpc::facts(subject.method) else {
            continue;
        };
        list.about(subject.name, subject.method.name);
        // Fields that one word stands for are left out one after the other.
        let mut words: Vec<(String, Vec<&'static str>)> = Vec::new();
        for field in subject.method.request.required {
            let word = word(&subject, field);
            match words.iter_mut().find(|(known, _)| *known == word) {
                Some((_, fields)) => fields.push(field),
                None => words.push((word, vec![field])),
            }
        }
        for (word, fields) in words {
            let needs = needs(&subject, &fields);
            let creates = needs.contains(&CREATE_DELETE_VOLUME);
            let reads = facts.effect.is_reads() && !creates && !csi_rpc::is_at_node(subject.method);
            let kind = if reads {
                CaseKind::Reads
            } else {
                CaseKind::Changes
            };
            list.needs(&needs);
            list.rule(&sentence(&subject, &fields));
            let subject = Arc::clone(&subject);
            list.add(kind, &format!("without-{word}"), move |c| {
                each(&fields, |field| lacks(c, &subject, field))
            });
        }
    }
}

/// The rule that a request without any of these fields is refused.
fn sentence(subject: &Subject, fields: &[&'static str]) -> String {
    let fields_named = fields
        .iter()
        .map(|field| with_article(subject.method, field));
    let fields_named: Vec<_> = fields_named.collect();
    let or_ok = match subject.may_be_ok == Some(fields[0]) {
        true => ", or OK as to no change",
        false => "",
    };
    format!(
        "{} without {} answers INVALID_ARGUMENT{or_ok}",
        subject.method.name,
        fields_named.join(", or without ")
    )
}

/// `a volume_id`, `an access_mode`, `volume_capabilities`.
fn with_article(method: &Method, field: &str) -> String {
    let is_one = |field: &Field| field.cardinality == Cardinality::Singular;
    match method.request.field(field).is_some_and(is_one) {
        true if field.starts_with(['a', 'e', 'i', 'o']) => format!("an {field}"),
        true => format!("a {field}"),
        false => field.to_owned(),
    }
}

fn needs(subject: &Subject, fields: &[&'static str]) -> Vec<Need> {
    let own = csi_rpc::facts(subject.method).map_or(&[][..], |facts| facts.needs);
    let mut needs = match own {
        [] => vec![NODE_SERVICE],
        [one] => vec![Need::Advertised(*one)],
        several => vec![Need::OneOf(several)],
    };
    if !subject.about.is_some_and(|about| fields.contains(&about)) {
        needs.extend_from_slice(subject.needs);
    }
    needs
}

/// Sends the request without the field, which must be refused.
fn lacks(c: &Arc<Context>, subject: &Subject, field: &'static str) -> Verdict {
    let method = subject.method;
    let request = without(method, &(subject.request)(c, Missing(field))?, field);
    let codes = [InvalidArgument];
    if subject.may_be_ok != Some(field) {
        let answer = c.exchange_to_refuse(method, request, &codes)?;
        return must_be_refused(method, answer, &codes).map(drop);
    }
    let answer = c.exchange(method, request)?;
    let expected = format!("{} answers OK or {}", method.name, any_of(&codes));
    match answer {
        Err(status) => same_code(&status, &codes, &expected),
        Ok(_) => Ok(()),
    }
}

/// The request without one of its fields.
fn without(method: &Method, request: &Bytes, field: &str) -> Bytes {
    let mut left = Draft::new(method.request, request.to_vec());
    left.clear(field);
    left.bytes.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::tables;

    #[test]
    fn every_rpc_whose_request_has_required_fields_is_a_subject() {
        let subjects = subjects();
        for one in csi_rpc::all() {
            let mut subjects = subjects.iter();
            let is_subject = subjects.any(|subject| subject.method.path == one.method.path);
            let required = one.method.request.required;
            assert_eq!(
                is_subject,
                !required.is_empty(),
                "{}: subjects() has a request for each RPC with required fields, {required:?}",
                one.method.name
            );
        }
        for subject in &subjects {
            let required = subject.method.request.required;
            for field in subject.about.iter().chain(&subject.may_be_ok) {
                assert!(required.contains(field), "{}: {field}", subject.name);
            }
            // Else a case would do without what only one of its requests does without.
            let called = |field| word(subject, field);
            if let Some(field) = subject.about {
                let mut others = required.iter().filter(|other| **other != field);
                let same = others.find(|other| called(other) == called(field));
                assert_eq!(same, None, "{}: WORDS calls it as {field}", subject.name);
            }
        }
    }

    /// What scripts select and expect to fail is what these cases were called before.
    #[test]
    fn the_names_of_the_cases_do_not_change() {
        let mut list = Cases::default();
        cases(&mut list);
        let made = list.done();
        let names: Vec<&str> = made.iter().map(|case| &*case.name).collect();
        let expected = "
            controller/create-volume/without-name
            controller/create-volume/without-capabilities
            controller/delete-volume/without-id
            controller/publish/without-volume-id
            controller/publish/without-node-id
            controller/publish/without-capability
            controller/unpublish/without-volume-id
            controller/validate/without-id
            controller/validate/without-capabilities
            controller/get-volume/without-id
            controller/expand/without-id
            controller/expand/without-capacity
            controller/modify/without-id
            controller/modify/without-parameters
            controller/create-snapshot/without-source
            controller/create-snapshot/without-name
            controller/delete-snapshot/without-id
            controller/get-snapshot/without-id
            group-controller/create-volume-group-snapshot/without-name
            group-controller/create-volume-group-snapshot/without-volumes
            group-controller/delete-volume-group-snapshot/without-id
            group-controller/delete-volume-group-snapshot/without-snapshot-ids
            group-controller/get-volume-group-snapshot/without-id
            group-controller/get-volume-group-snapshot/without-snapshot-ids
            snapshot-metadata/get-metadata-allocated/without-id
            snapshot-metadata/get-metadata-delta/without-one-id
            node/stage/without-id
            node/stage/without-path
            node/stage/without-capability
            node/unstage/without-id
            node/unstage/without-path
            node/publish/without-id
            node/publish/without-path
            node/publish/without-capability
            node/unpublish/without-id
            node/unpublish/without-path
            node/stats/without-id
            node/stats/without-path
            node/expand/without-id
            node/expand/without-path";
        let expected: Vec<_> = expected.split_whitespace().collect();
        let gone: Vec<_> = expected.iter().filter(|one| !names.contains(one)).collect();
        assert!(gone.is_empty(), "names of cases are for ever: {gone:?}");
        let new: Vec<_> = names.iter().filter(|one| !expected.contains(one)).collect();
        assert!(new.is_empty(), "add new names to the list above: {new:?}");
        assert_eq!(names, expected, "the order is that of subjects()");
    }

    #[test]
    fn the_missing_field_is_missing_and_all_others_are_there() {
        let request = v1::DeleteVolumeRequest {
            volume_id: "v".into(),
            secrets: [("k".to_owned(), "s".to_owned())].into(),
        };
        let method = &tables::CONTROLLER_DELETE_VOLUME;
        let sent = without(method, &encoded(&request), "volume_id");
        let expected = v1::DeleteVolumeRequest {
            volume_id: String::new(),
            ..request
        };
        assert_eq!(sent, encoded(&expected));
    }
}
