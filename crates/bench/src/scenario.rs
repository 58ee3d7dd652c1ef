//! The scenario of a load: one RPC, or a cycle of several in which each step uses the replies of earlier ones; and the
//! fixtures it needs first. Owns the list of cycles, and refuses a load that could hurt volumes of others.
//!
//! Calls nothing; `side.rs` does.

use super::flags::{BenchFlags, CycleFlags};
use super::template::{Template, TemplateError};
use bytes::Bytes;
use csi_call::Advertised;
use csi_call::endpoint::absolute;
use csi_call::user_folders;
use csi_error::{Error, OrError};
use csi_invocation::rpc_command;
use csi_proto::{Method, Request, contents, v1};
use csi_rpc::context::RequestContext;
use csi_rpc::draft::Draft;
use csi_rpc::facts::{ControllerCapability, Given, IdKind, Making, NAME, NodeCapability};
use prost::Message;
use std::collections::BTreeMap;

/// The prefix of all names that a load gives.
pub(crate) const NAME_PREFIX: &str = "csi-bench-{run}-";

/// One call of a cycle.
pub(crate) struct CycleStep {
    /// The RPC.
    pub method: &'static Method,
    /// The step's requests, taken in turn.
    requests: Vec<Template>,
    /// The values in the reply that later steps may need, each with its path there.
    pub learns: Vec<(Given, &'static str)>,
    /// Whether what it makes is noted, so that it can be taken back.
    pub undone: bool,
}

/// The whole.
pub(crate) struct Scenario {
    /// The steps that each worker does first, not counted.
    pub setup: Vec<CycleStep>,
    /// The steps that are repeated and counted.
    pub cycle: Vec<CycleStep>,
}

/// A cycle that has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cycle {
    /// CreateVolume, DeleteVolume.
    CreateDelete,
    /// NodePublishVolume, NodeUnpublishVolume.
    PublishUnpublish,
    /// CreateSnapshot, DeleteSnapshot.
    Snapshot,
    /// The whole way from CreateVolume to DeleteVolume.
    Lifecycle,
}

/// Every cycle with its name and what it is about.
pub(crate) const CYCLES: [(Cycle, &str, &str); 4] = [
    (
        Cycle::CreateDelete,
        "create-delete",
        "Create a volume and delete it",
    ),
    (
        Cycle::PublishUnpublish,
        "publish-unpublish",
        "Publish a volume on this node and unpublish it; every worker has a volume of its own",
    ),
    (
        Cycle::Snapshot,
        "snapshot",
        "Create a snapshot and delete it; every worker has a volume of its own",
    ),
    (
        Cycle::Lifecycle,
        "lifecycle",
        "Create, attach, stage, publish a volume and all the way back, as far as the driver has it",
    ),
];

impl CycleStep {
    fn new(method: &'static Method, requests: Vec<Template>) -> Self {
        Self {
            method,
            requests,
            learns: learns(method),
            undone: true,
        }
    }

    /// A step of a cycle, from a request whose texts have places; carries over the contexts that the RPC takes.
    fn typed<Q: Request>(request: &Q) -> Result<Self, TemplateError> {
        let method = Q::METHOD;
        let mut template = template(method, request.encode_to_vec())?;
        carry_contexts(method, &mut template);
        Ok(Self::new(method, vec![template]))
    }

    /// Lets a volume of this run bring its context along.
    fn carry_contexts(&mut self) {
        if self.all("volume_id", Template::holds_learnt) {
            for template in &mut self.requests {
                carry_contexts(self.method, template);
            }
        }
    }

    /// The request of the call of that number.
    pub fn request(&self, number: u64) -> &Template {
        let count = self.requests.len() as u64;
        &self.requests[usize::try_from(number % count).unwrap_or_default()]
    }

    fn needs(&self, what: Given) -> bool {
        self.requests.iter().any(|template| template.needs(what))
    }

    /// Whether every request has a text in that field which passes.
    fn all(&self, field: &str, passes: impl Fn(&Template, u32) -> bool) -> bool {
        let field = self.method.request.field(field);
        field.is_some_and(|field| {
            let mut requests = self.requests.iter();
            requests.all(|template| passes(template, field.number))
        })
    }

    /// Refuses what could hurt things that are not this run's.
    fn guard(&self, flags: &BenchFlags) -> Result<(), Error> {
        let advice = "or --keep, and nothing is taken back";
        let making = csi_rpc::making(self.method);
        let held = making.filter(|making| making.thing.holds_volume() && !flags.keep);
        let problem = match held.map(Making::path_field) {
            Some(Some(path)) => {
                if self.all(path.name, Template::is_own) {
                    return Ok(());
                }
                let flag = path.name.replace('_', "-");
                format!(
                    "what is made here is taken back at the end, and may be somebody's: the path is the same for every run. \
                     Put {{run}} or {{i}} into --{flag}, {advice}"
                )
            }
            Some(None) => {
                if self.all("volume_id", Template::holds_learnt) {
                    return Ok(());
                }
                format!(
                    "volumes that are attached here are detached at the end, and may be in use: give {{volume_id}}, which \
                     is a volume of this run, {advice}"
                )
            }
            None if making.is_some() || csi_rpc::only_reads(self.method) || flags.yes => {
                return Ok(());
            }
            None if self.is_about_own() => return Ok(()),
            None => {
                let name = self.method.name;
                let problem = format!(
                    "{name} changes or deletes what this run did not make: say --yes to allow that"
                );
                return Err(Error::usage(problem).hint(
                    "{volume_id} in the place of an id stands for a volume that this run creates, and deletes at the end",
                ));
            }
        };
        Err(Error::usage(problem))
    }

    /// Whether every request names a volume or snapshot of this run.
    fn is_about_own(&self) -> bool {
        let fields = self.method.request.fields.iter();
        let mut ids = fields
            .filter(|field| IdKind::of_field(field.name).is_some_and(|kind| kind != IdKind::Node));
        ids.any(|id| self.all(id.name, Template::holds_learnt))
    }
}

/// A request, taken apart. The name of what it creates begins with the run's id, so that it is this run's for certain.
fn template(method: &'static Method, bytes: Vec<u8>) -> Result<Template, TemplateError> {
    let template = Template::new(method.request, &bytes)?;
    match method.request.field(NAME) {
        Some(field) if !template.holds_run(field.number) => {
            let name = contents(method.request, &bytes, NAME).pop();
            let name = String::from_utf8_lossy(name.unwrap_or_default());
            let name = format!("{NAME_PREFIX}{name}");
            let mut draft = Draft::new(method.request, bytes);
            draft.replace(NAME, [name]);
            Template::new(method.request, &draft.bytes)
        }
        _ => Ok(template),
    }
}

/// The values in an RPC's reply that other steps may need.
fn learns(method: &Method) -> Vec<(Given, &'static str)> {
    let own = csi_rpc::making(method).and_then(Making::own_id);
    let own = own.map(|(kind, path)| (Given::Ids(kind), path));
    let given = csi_rpc::facts(method).map_or(&[][..], |facts| facts.gives);
    own.into_iter().chain(given.iter().copied()).collect()
}

/// Adds the contexts that were learnt, where the RPC takes them.
fn carry_contexts(method: &Method, template: &mut Template) {
    for (name, what) in [
        ("volume_context", Given::VolumeContext),
        ("publish_context", Given::PublishContext),
    ] {
        if let Some(field) = method.request.field(name) {
            template.carry(field.number, what);
        }
    }
}

/// The scenario that repeats one RPC. `context` is the context of the requests that make volumes for it, where it needs
/// some.
///
/// # Errors
/// When a text cannot be filled in, or the load would be dangerous.
pub(crate) fn of_rpc(
    command: &rpc_command::Command,
    flags: &BenchFlags,
    context: &RequestContext,
) -> Result<Scenario, Error> {
    for (given, flag) in [
        (command.watch.is_some(), "--watch"),
        (command.calls.follow_pages, "--all"),
        (command.keep_going, "--keep-going"),
    ] {
        if given {
            return Err(Error::usage(format!(
                "{flag} has no meaning here: a load goes on after failures, one page a call"
            )));
        }
    }
    let method = command.rpc.method;
    let requests = command.calls.requests.iter();
    let requests = requests.map(|request| template(method, request.bytes.clone()));
    let mut step = CycleStep::new(method, requests.collect::<Result<_, _>>().or_usage()?);
    step.guard(flags)?;
    step.carry_contexts();
    // There is no later step.
    step.learns.clear();
    step.undone = !flags.keep;
    let mut setup = Vec::new();
    for (what, name) in [
        (Given::Ids(IdKind::Snapshot), "{snapshot_id}"),
        (Given::Ids(IdKind::GroupSnapshot), "{group_snapshot_id}"),
    ] {
        if step.needs(what) {
            return Err(Error::usage(format!(
                "{name} stands for what an earlier step of a cycle made; this load has one step"
            )));
        }
    }
    if step.needs(Given::Ids(IdKind::Node)) {
        let request = v1::NodeGetInfoRequest {};
        setup.push(CycleStep::typed(&request).or_usage()?);
    }
    if step.needs(Given::Ids(IdKind::Volume)) {
        setup.push(volume_for_all(command, flags, context)?);
    } else if flags.volume_request.is_some() {
        return Err(Error::usage(
            "--volume-request has no effect here: {volume_id} does not stand in the request",
        ));
    }
    Ok(Scenario {
        setup,
        cycle: vec![step],
    })
}

/// The volume that `{volume_id}` stands for.
fn volume_for_all(
    command: &rpc_command::Command,
    flags: &BenchFlags,
    context: &RequestContext,
) -> Result<CycleStep, Error> {
    let message = v1::CreateVolumeRequest::METHOD.request;
    let mut request = match &flags.volume_request {
        None => {
            // What the load wants to do with it, the volume must be made for.
            let mut capabilities = Vec::new();
            for request in &command.calls.requests {
                let (of, bytes) = (
                    command.rpc.method.request,
                    Bytes::copy_from_slice(&request.bytes),
                );
                for one in contents(of, &bytes, "volume_capability") {
                    capabilities.push(v1::VolumeCapability::decode(one).or_usage()?);
                }
            }
            capabilities.dedup();
            if capabilities.is_empty() {
                capabilities.extend(context.default_capability.clone());
            }
            v1::CreateVolumeRequest {
                volume_capabilities: capabilities,
                ..Default::default()
            }
        }
        Some(source) => {
            let document = source.read(message).or_usage()?;
            let bytes = csi_proto::json::encode(message, &document)
                .map_err(|error| Error::usage(format!("--volume-request does not fit: {error}")))?;
            v1::CreateVolumeRequest::decode(bytes.as_slice()).or_usage()?
        }
    };
    if request.name.is_empty() {
        request.name = "volume-{worker}".to_owned();
    }
    context.add_secrets(&mut request.secrets);
    CycleStep::typed(&request).or_usage()
}

/// Everything that a named cycle is made from.
pub(crate) struct CycleParts<'a> {
    /// Which one.
    pub cycle: Cycle,
    /// The flags of the cycle.
    pub flags: &'a CycleFlags,
    /// The context of its requests: secrets and the like.
    pub context: &'a RequestContext,
    /// The capabilities that the driver advertises.
    pub advertised: Advertised,
    /// The flags of every load.
    pub load: &'a BenchFlags,
}

impl CycleParts<'_> {
    /// Makes the scenario of the cycle.
    ///
    /// # Errors
    /// When the flags do not fit it.
    pub fn scenario(&self) -> Result<Scenario, Error> {
        let given = self.flags.volume_id.as_deref();
        let creates = matches!(self.cycle, Cycle::CreateDelete | Cycle::Lifecycle);
        if creates && given.is_some() {
            return Err(Error::usage(
                "--volume-id has no meaning here: this cycle creates its volumes",
            ));
        }
        if self.load.volume_request.is_some() {
            return Err(Error::usage(
                "--volume-request has no effect here: the flags of a cycle say what volumes it makes",
            ));
        }
        if given.is_some()
            && self.attaches()
            && self.cycle == Cycle::PublishUnpublish
            && !self.load.yes
        {
            return Err(Error::usage(
                "the driver attaches volumes to nodes, and this volume would be detached from this node at the end, \
                 whoever uses it there: say --yes to allow that",
            ));
        }
        self.steps(given).or_usage()
    }

    fn attaches(&self) -> bool {
        let attaching = ControllerCapability::PublishUnpublishVolume;
        self.advertised.controller(attaching)
    }

    fn stages(&self) -> bool {
        self.advertised.node(NodeCapability::StageUnstageVolume)
    }

    /// The staging path, where the driver stages.
    fn staged(&self, staging: &str) -> String {
        match self.stages() {
            true => staging.to_owned(),
            false => String::new(),
        }
    }

    /// A request with everything that flags say of the volume.
    fn request<Q: Request>(&self) -> Q {
        let cap = self.flags.cap.as_ref();
        self.flags.volume.request(cap, self.context)
    }

    fn steps(&self, given: Option<&str>) -> Result<Scenario, TemplateError> {
        let (mut setup, mut cycle) = (Vec::new(), Vec::new());
        if self.attaches() && matches!(self.cycle, Cycle::PublishUnpublish | Cycle::Lifecycle) {
            let request = v1::NodeGetInfoRequest {};
            setup.push(CycleStep::typed(&request)?);
        }
        let own_volume = |setup: &mut Vec<CycleStep>| match given {
            Some(_) => Ok(()),
            None => self.create("volume-{worker}").map(|step| setup.push(step)),
        };
        let volume = match given {
            None => "{volume_id}".to_owned(),
            Some(id) => id.replace('{', "{{").replace('}', "}}"),
        };
        match self.cycle {
            Cycle::CreateDelete => {
                cycle.push(self.create("{i}")?);
                cycle.push(self.delete()?);
            }
            Cycle::Snapshot => {
                own_volume(&mut setup)?;
                cycle.extend(self.snapshot(&volume)?);
            }
            Cycle::PublishUnpublish => {
                own_volume(&mut setup)?;
                let staging = self.path("stage-{worker}");
                let (up, _) = self.to_the_node(&volume, &staging)?;
                setup.extend(up);
                let (publish, unpublish) = self.publish(&volume, &staging)?;
                cycle.extend([publish, unpublish]);
            }
            Cycle::Lifecycle => {
                cycle.push(self.create("{i}")?);
                let staging = self.path("stage-{i}");
                let (up, down) = self.to_the_node(&volume, &staging)?;
                cycle.extend(up);
                let (publish, unpublish) = self.publish(&volume, &staging)?;
                cycle.push(publish);
                if self.advertised.node(NodeCapability::GetVolumeStats) {
                    let request = v1::NodeGetVolumeStatsRequest {
                        volume_id: volume,
                        volume_path: self.path("{i}"),
                        staging_target_path: self.staged(&staging),
                    };
                    cycle.push(CycleStep::typed(&request)?);
                }
                cycle.push(unpublish);
                cycle.extend(down);
                cycle.push(self.delete()?);
            }
        }
        Ok(Scenario { setup, cycle })
    }

    fn create(&self, name: &str) -> Result<CycleStep, TemplateError> {
        CycleStep::typed(&v1::CreateVolumeRequest {
            name: name.to_owned(),
            ..self.request()
        })
    }

    fn delete(&self) -> Result<CycleStep, TemplateError> {
        CycleStep::typed(&v1::DeleteVolumeRequest {
            volume_id: "{volume_id}".to_owned(),
            ..self.request()
        })
    }

    fn snapshot(&self, volume: &str) -> Result<[CycleStep; 2], TemplateError> {
        let create = v1::CreateSnapshotRequest {
            source_volume_id: volume.to_owned(),
            name: "{i}".to_owned(),
            // Those of the flags are a volume's.
            parameters: BTreeMap::new(),
            ..self.request()
        };
        let delete = v1::DeleteSnapshotRequest {
            snapshot_id: "{snapshot_id}".to_owned(),
            ..self.request()
        };
        Ok([CycleStep::typed(&create)?, CycleStep::typed(&delete)?])
    }

    /// The steps that bring a volume to the node, and back, as far as the driver has them.
    fn to_the_node(
        &self,
        volume: &str,
        staging: &str,
    ) -> Result<(Vec<CycleStep>, Vec<CycleStep>), TemplateError> {
        let (mut up, mut down) = (Vec::new(), Vec::new());
        if self.attaches() {
            let attach = v1::ControllerPublishVolumeRequest {
                volume_id: volume.to_owned(),
                node_id: "{node_id}".to_owned(),
                ..self.request()
            };
            let detach = v1::ControllerUnpublishVolumeRequest {
                volume_id: volume.to_owned(),
                node_id: "{node_id}".to_owned(),
                ..self.request()
            };
            up.push(CycleStep::typed(&attach)?);
            down.push(CycleStep::typed(&detach)?);
        }
        if self.stages() {
            let stage = v1::NodeStageVolumeRequest {
                volume_id: volume.to_owned(),
                staging_target_path: staging.to_owned(),
                ..self.request()
            };
            let unstage = v1::NodeUnstageVolumeRequest {
                volume_id: volume.to_owned(),
                staging_target_path: staging.to_owned(),
            };
            up.push(CycleStep::typed(&stage)?);
            down.insert(0, CycleStep::typed(&unstage)?);
        }
        Ok((up, down))
    }

    fn publish(
        &self,
        volume: &str,
        staging: &str,
    ) -> Result<(CycleStep, CycleStep), TemplateError> {
        let target = self.path("{i}");
        let publish = v1::NodePublishVolumeRequest {
            volume_id: volume.to_owned(),
            target_path: target.clone(),
            staging_target_path: self.staged(staging),
            ..self.request()
        };
        let unpublish = v1::NodeUnpublishVolumeRequest {
            volume_id: volume.to_owned(),
            target_path: target,
        };
        Ok((CycleStep::typed(&publish)?, CycleStep::typed(&unpublish)?))
    }

    /// A path of this run in the folder for targets.
    fn path(&self, name: &str) -> String {
        let parent = self.flags.mount_parent.clone();
        let parent = parent.unwrap_or_else(user_folders::temporary);
        let parent = absolute(&parent).to_string_lossy().into_owned();
        let parent = parent.replace('{', "{{").replace('}', "}}");
        format!("{}/{NAME_PREFIX}{name}", parent.trim_end_matches('/'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::{Filling, Knowledge};

    #[test]
    fn names_get_their_prefix_with_and_without_places() {
        let method = v1::CreateVolumeRequest::METHOD;
        let number = method.request.field(NAME).unwrap().number;
        let known = &Knowledge::default();
        for (name, expected) in [
            ("", "csi-bench-r1-"),
            ("x", "csi-bench-r1-x"),
            ("{i}", "csi-bench-r1-4"),
            ("a-{run}", "a-r1"),
        ] {
            let request = v1::CreateVolumeRequest {
                name: name.into(),
                ..Default::default()
            };
            let template = template(method, request.encode_to_vec()).unwrap();
            assert!(template.holds_run(number) && template.is_own(number));
            let filling = Filling {
                number: 4,
                worker: 3,
                run: "r1",
                seed: 7,
                known,
            };
            let got = v1::CreateVolumeRequest::decode(template.fill(&filling)).unwrap();
            assert_eq!(got.name, expected);
        }
    }
}
