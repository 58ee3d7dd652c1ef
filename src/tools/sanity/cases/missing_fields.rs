//! A request without one of its required fields is refused: a case for each such field of each RPC. Which fields these are
//! is in the facts of the RPCs; here stands how a request is made that is complete but for one field.

use super::create_volume::range;
use super::expand::node_expand;
use super::group_snapshots::{delete, get, new_group};
use super::modify::{modify, mutable};
use super::snapshot_metadata::{allocated, block_volume, delta, snapshot_of};
use crate::rpc;
use crate::tools::sanity::case::CaseKind;
use crate::tools::sanity::context::{encoded, must_be_refused};
use crate::tools::sanity::need::Need;
use crate::tools::sanity::verdict::any_of;
use crate::tools::sanity::vocabulary::*;
use bytes::Bytes;
use csi_proto::schema::{Cardinality, Field, Method};
use csi_proto::{Request, wire};

/// An RPC whose request has required fields.
struct Subject {
    method: &'static Method,
    /// What the names of its cases begin with.
    name: &'static str,
    /// What a complete request needs beside the RPC's own capability.
    needs: &'static [Need],
    /// The field that says what the request is about. Without it nothing has to be made, and nothing of `needs` be there.
    about: Option<&'static str>,
    /// Fields whose absence a driver may take for no change.
    may_be_ok: &'static [&'static str],
    /// The request; what it says in the field that is missing does not matter.
    request: fn(&Arc<Context>, Missing) -> Result<Bytes, Stop>,
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
}

/// Declares a [`Subject`]: its request, its name and what a complete request needs; after `about` and `may be ok` those
/// fields. The body makes the request.
macro_rules! subject {
    (
        $request:ident, $name:literal, [$($need:expr),*], $(about $about:literal,)? $(may be ok $ok:literal,)?
        |$c:pat_param, $missing:pat_param| $body:expr
    ) => {
        Subject {
            method: <v1::$request as Request>::METHOD,
            name: $name,
            needs: &[$($need),*],
            about: [$(Some($about),)? None][0],
            may_be_ok: &[$($ok),*],
            request: |$c, $missing| {
                let request: v1::$request = $body;
                Ok(encoded(&request))
            },
        }
    };
}

const SUBJECTS: &[Subject] = &[
    subject!(
        CreateVolumeRequest,
        "controller/create-volume",
        [],
        |c, _| { c.create_request()? }
    ),
    subject!(
        DeleteVolumeRequest,
        "controller/delete-volume",
        [],
        |c, _| { c.delete_request("") }
    ),
    subject!(
        ControllerPublishVolumeRequest,
        "controller/publish",
        [CREATE_DELETE_VOLUME, NODE_SERVICE],
        |c, _| c.volume_to_attach()?.1
    ),
    subject!(
        ControllerUnpublishVolumeRequest,
        "controller/unpublish",
        [],
        |c, _| v1::ControllerUnpublishVolumeRequest {
            node_id: c.driver().node_info.node_id.clone(),
            secrets: c.secrets(),
            ..Default::default()
        }
    ),
    subject!(
        ValidateVolumeCapabilitiesRequest,
        "controller/validate",
        [ANY_VOLUME],
        about "volume_id",
        |c, missing| v1::ValidateVolumeCapabilitiesRequest {
            volume_id: missing.or("volume_id", || Ok(c.any_volume()?.volume_id))?,
            volume_capabilities: vec![c.capability()?],
            secrets: c.secrets(),
            ..Default::default()
        }
    ),
    subject!(
        ControllerGetVolumeRequest,
        "controller/get-volume",
        [],
        |_, _| { v1::ControllerGetVolumeRequest::default() }
    ),
    subject!(
        ControllerExpandVolumeRequest,
        "controller/expand",
        [CREATE_DELETE_VOLUME],
        about "volume_id",
        |c, missing| v1::ControllerExpandVolumeRequest {
            volume_id: missing.or("volume_id", || Ok(c.volume()?.id()))?,
            capacity_range: Some(range(c.settings().volume_size, 0)),
            volume_capability: Some(c.capability()?),
            secrets: c.secrets(),
        }
    ),
    subject!(
        ControllerModifyVolumeRequest,
        "controller/modify",
        [CREATE_DELETE_VOLUME],
        about "volume_id",
        may be ok "mutable_parameters",
        |c, missing| {
            let id = missing.or("volume_id", || Ok(c.volume()?.id()))?;
            modify(c, &id, missing.or("mutable_parameters", || Ok(mutable(c)))?)
        }
    ),
    subject!(
        CreateSnapshotRequest,
        "controller/create-snapshot",
        [CREATE_DELETE_VOLUME],
        |c, _| c.snapshot_request(&c.volume()?)
    ),
    subject!(
        DeleteSnapshotRequest,
        "controller/delete-snapshot",
        [],
        |c, _| { c.delete_snapshot("") }
    ),
    subject!(GetSnapshotRequest, "controller/get-snapshot", [], |c, _| {
        c.get_snapshot("")
    }),
    subject!(
        CreateVolumeGroupSnapshotRequest,
        "group-controller/create-volume-group-snapshot",
        [CREATE_DELETE_VOLUME],
        about "source_volume_ids",
        |c, missing| {
            let ids = missing.or("source_volume_ids", || Ok(vec![c.volume()?.id()]))?;
            v1::CreateVolumeGroupSnapshotRequest {
                source_volume_ids: ids,
                ..c.group_request(&[])
            }
        }
    ),
    subject!(
        DeleteVolumeGroupSnapshotRequest,
        "group-controller/delete-volume-group-snapshot",
        [CREATE_DELETE_VOLUME],
        may be ok "snapshot_ids",
        |c, _| delete(c, &new_group(c)?)
    ),
    subject!(
        GetVolumeGroupSnapshotRequest,
        "group-controller/get-volume-group-snapshot",
        [CREATE_DELETE_VOLUME],
        may be ok "snapshot_ids",
        |c, _| get(c, &new_group(c)?)
    ),
    subject!(
        GetMetadataAllocatedRequest,
        "snapshot-metadata/get-metadata-allocated",
        [],
        |c, _| allocated(c, &v1::Snapshot::default())
    ),
    subject!(
        GetMetadataDeltaRequest,
        "snapshot-metadata/get-metadata-delta",
        [CREATE_DELETE_SNAPSHOT, CREATE_DELETE_VOLUME, BLOCK],
        |c, _| {
            let snapshot = snapshot_of(c, &block_volume(c)?)?;
            delta(c, &snapshot, &snapshot)
        }
    ),
    subject!(
        NodeStageVolumeRequest,
        "node/stage",
        [CREATE_DELETE_VOLUME],
        |c, _| c.placed()?.stage()
    ),
    subject!(
        NodeUnstageVolumeRequest,
        "node/unstage",
        [CREATE_DELETE_VOLUME],
        about "volume_id",
        |c, missing| v1::NodeUnstageVolumeRequest {
            volume_id: missing.or("volume_id", || Ok(c.placed()?.id()))?,
            staging_target_path: missing.or("staging_target_path", || c.staging())?,
        }
    ),
    subject!(
        NodePublishVolumeRequest,
        "node/publish",
        [CREATE_DELETE_VOLUME],
        |c, _| c.staged()?.publish()
    ),
    subject!(
        NodeUnpublishVolumeRequest,
        "node/unpublish",
        [CREATE_DELETE_VOLUME],
        about "volume_id",
        |c, missing| v1::NodeUnpublishVolumeRequest {
            volume_id: missing.or("volume_id", || Ok(c.published()?.id()))?,
            target_path: missing.or("target_path", || c.target())?,
        }
    ),
    subject!(
        NodeGetVolumeStatsRequest,
        "node/stats",
        [CREATE_DELETE_VOLUME],
        about "volume_id",
        |c, missing| match missing.0 {
            "volume_id" => v1::NodeGetVolumeStatsRequest {
                volume_path: c.target()?,
                ..Default::default()
            },
            _ => c.published()?.stats(),
        }
    ),
    subject!(
        NodeExpandVolumeRequest,
        "node/expand",
        [CREATE_DELETE_VOLUME],
        about "volume_id",
        |c, missing| match missing.0 {
            "volume_id" => v1::NodeExpandVolumeRequest {
                volume_path: c.target()?,
                secrets: c.secrets(),
                ..Default::default()
            },
            _ => node_expand(c, &c.published()?, c.settings().volume_size),
        }
    ),
];

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
    for subject in SUBJECTS {
        let Some(facts) = rpc::facts(subject.method) else {
            continue;
        };
        list.about(subject.name, subject.method.name);
        // Fields that one word stands for are left out one after the other.
        let mut words: Vec<(String, Vec<&'static str>)> = Vec::new();
        for field in facts.required {
            let word = word(subject, field);
            match words.iter_mut().find(|(known, _)| *known == word) {
                Some((_, fields)) => fields.push(field),
                None => words.push((word, vec![field])),
            }
        }
        for (word, fields) in words {
            let needs = needs(subject, &fields);
            let creates = needs.contains(&CREATE_DELETE_VOLUME);
            let reads = facts.effect.is_reads() && !creates && !rpc::is_at_node(subject.method);
            let kind = if reads {
                CaseKind::Reads
            } else {
                CaseKind::Changes
            };
            list.needs(&needs);
            list.rule(&sentence(subject, &fields));
            list.add(kind, &format!("without-{word}"), move |c| {
                fields.iter().try_for_each(|field| lacks(c, subject, field))
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
    let or_ok = match subject.may_be_ok.contains(&fields[0]) {
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
    let own = rpc::facts(subject.method).map_or(&[][..], |facts| facts.needs);
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

/// Sends the request without the field, which must be refused. Cases beside this one may send an equal one: a driver that
/// answers ABORTED is asked again.
fn lacks(c: &Arc<Context>, subject: &Subject, field: &'static str) -> Verdict {
    let method = subject.method;
    let request = without(method, &(subject.request)(c, Missing(field))?, field);
    let answer = c.in_the_end(method, request)?;
    let codes = [InvalidArgument];
    match &answer {
        _ if !subject.may_be_ok.contains(&field) => {
            must_be_refused(method, answer, &codes)?;
        }
        Err(status) if !codes.contains(&status.code()) => {
            let expected = format!("{} answers OK or {}", method.name, any_of(&codes));
            return Err(Stop::failed(expected, status_text(status)));
        }
        _ => {}
    }
    Ok(())
}

/// The request without one of its fields.
fn without(method: &Method, request: &Bytes, field: &str) -> Bytes {
    let left_out = method.request.field(field).map(|field| field.number);
    let mut out = Vec::new();
    for (number, raw) in wire::fields(request).map_while(Result::ok) {
        if Some(number) != left_out {
            wire::put(&mut out, number, raw);
        }
    }
    out.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_proto::tables;

    #[test]
    fn every_rpc_whose_request_has_required_fields_is_a_subject() {
        for one in rpc::all() {
            let mut subjects = SUBJECTS.iter();
            let is_subject = subjects.any(|subject| subject.method.path == one.method.path);
            let required = one.facts.required;
            assert_eq!(is_subject, !required.is_empty(), "{}", one.method.name);
        }
        for subject in SUBJECTS {
            let required = rpc::facts(subject.method).unwrap().required;
            for field in subject.about.iter().chain(subject.may_be_ok) {
                assert!(required.contains(field), "{}: {field}", subject.name);
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
        assert_eq!(names, expected.split_whitespace().collect::<Vec<_>>());
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
