//! `csi lifecycle`: what a container orchestrator does with a volume, in its order and honouring what the driver
//! advertises, and everything undone again in reverse, also after a failure or Ctrl-C.
//!
//! Owns the order and the clean-up. Single calls are the session's, data is `data.rs`, printing is `output::steps`.

mod calls;
mod data;
mod undo;

use crate::arguments::capability;
use crate::endpoint::Endpoint;
use crate::error::{Error, Style};
use crate::interrupt::asked_to_stop;
use crate::output::steps::{Outcome, Steps};
use crate::rpc::flags::{CapacityFlags, Context, Parameters, VolumeContext};
use crate::session::Session;
use clap::Args;
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::{tables, v1};
use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use tonic::Code;
use undo::Undo;

/// The flags of `csi lifecycle`.
#[derive(Args, Debug)]
pub struct LifecycleFlags {
    /// Name of the volume to create [default: csi-lifecycle-PID]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// Use this volume, which exists, instead of creating one
    #[arg(long, value_name = "ID", conflicts_with_all = ["name", "params", "req_bytes", "lim_bytes"])]
    volume_id: Option<String>,
    /// Capability of the volume, MODE,TYPE[,FS[,FLAG…]]
    #[arg(long, value_name = "MODE,TYPE[,FS[,FLAG…]]", value_parser = capability::parse, default_value = "SINGLE_NODE_WRITER,mount")]
    cap: v1::VolumeCapability,
    #[command(flatten)]
    capacity: CapacityFlags,
    #[command(flatten)]
    parameters: Parameters,
    #[command(flatten)]
    vol_context: VolumeContext,
    /// Folder in which the staging and target paths are made; the driver must see it under the same path
    /// [default: the folder for temporary files]
    #[arg(long, value_name = "FOLDER")]
    mount_parent: Option<PathBuf>,
    /// The driver's controller, where that is another endpoint than the node's
    #[arg(long, value_name = "ENDPOINT")]
    pub controller_endpoint: Option<String>,
    /// Leave the volume: unpublish it, but do not delete it
    #[arg(long)]
    keep: bool,
    /// Secrets from a file, sent with every call that has such a field: a JSON object, or lines of K=V
    #[arg(long, value_name = "FILE")]
    pub secrets_file: Option<String>,
}

/// A driver's connection and how it was named.
pub struct Driver {
    /// The connection.
    pub session: Session,
    /// How it was named.
    pub endpoint: Endpoint,
}

/// Everything known about one run.
pub struct Lifecycle<'a, W: Write> {
    flags: &'a LifecycleFlags,
    context: Context,
    node: Driver,
    controller: Driver,
    steps: Steps<W>,
    style: Style,
    undo: Vec<Undo>,
}

/// What the driver advertises.
#[derive(Debug, Default)]
struct Advertised {
    controller: Vec<i32>,
    node: Vec<i32>,
}

impl Advertised {
    fn controller(&self, capability: ControllerCapability) -> bool {
        self.controller.contains(&i32::from(capability))
    }

    fn node(&self, capability: NodeCapability) -> bool {
        self.node.contains(&i32::from(capability))
    }
}

/// The volume on its way.
#[derive(Debug, Default)]
struct Volume {
    id: String,
    context: BTreeMap<String, String>,
    publish_context: BTreeMap<String, String>,
}

impl<'a, W: Write> Lifecycle<'a, W> {
    /// A run against `node`, with controller calls to `controller`. Errors of the way down are worded in `style`.
    pub fn new(
        flags: &'a LifecycleFlags,
        context: Context,
        node: Driver,
        controller: Driver,
        steps: Steps<W>,
        style: Style,
    ) -> Self {
        Self {
            flags,
            context,
            node,
            controller,
            steps,
            style,
            undo: Vec::new(),
        }
    }

    /// Goes all the way up and down again.
    ///
    /// # Errors
    /// The first failure; everything that was done before it has been undone, or said to be left.
    pub async fn run(&mut self) -> Result<(), Error> {
        let way_up = tokio::select! {
            result = self.up() => result,
            () = asked_to_stop() => Err(Error::interrupted()),
        };
        if way_up.is_err() && !self.undo.is_empty() {
            eprintln!("note: undoing what was done; Ctrl-C again stops that too");
        }
        let way_down = tokio::select! {
            result = self.down() => result,
            () = asked_to_stop() => {
                for left in self.undo.iter().rev() {
                    eprintln!("left: {left}");
                }
                Err(Error::interrupted())
            }
        };
        way_up.and(way_down)
    }

    async fn up(&mut self) -> Result<(), Error> {
        let advertised = self.ask().await?;
        let (staging, target) = self.folders()?;
        let mut volume = self.create(&advertised).await?;
        self.publish_by_controller(&advertised, &mut volume).await?;
        let staged = self.stage(&advertised, &volume, &staging).await?;
        self.publish(&volume, staged.then_some(&staging), &target)
            .await?;
        self.write_and_read(&target).await?;
        self.stats(&advertised, &volume, &target).await
    }

    /// Identity, capabilities, node: what everything else depends on.
    async fn ask(&mut self) -> Result<Advertised, Error> {
        let mut advertised = Advertised::default();
        let info: v1::GetPluginInfoResponse = self
            .node(
                &tables::IDENTITY_GET_PLUGIN_INFO,
                v1::GetPluginInfoRequest {},
                |reply: &v1::GetPluginInfoResponse| {
                    format!("{} {}", reply.name, reply.vendor_version)
                },
            )
            .await?;
        if info.name.is_empty() {
            return Err(
                Error::local("the driver has no name, which the specification requires")
                    .doing("identity plugin-info"),
            );
        }
        let request = v1::GetPluginCapabilitiesRequest {};
        let plugin: v1::GetPluginCapabilitiesResponse = self
            .node(
                &tables::IDENTITY_GET_PLUGIN_CAPABILITIES,
                request,
                |reply: &v1::GetPluginCapabilitiesResponse| {
                    count(reply.capabilities.len(), "capability", "capabilities")
                },
            )
            .await?;
        let request = v1::ProbeRequest {};
        let probe: v1::ProbeResponse = self
            .node(
                &tables::IDENTITY_PROBE,
                request,
                |reply: &v1::ProbeResponse| {
                    let ready = reply.ready.unwrap_or(true);
                    if ready { "ready" } else { "not ready" }.to_owned()
                },
            )
            .await?;
        if probe.ready == Some(false) {
            return Err(
                Error::rpc(Code::Unavailable, "the driver says that it is not ready")
                    .doing("identity probe")
                    .hint("--wait 1m waits until it is"),
            );
        }
        let has_controller = plugin.capabilities.iter().any(|capability| {
            use v1::plugin_capability::{Type, service};
            matches!(&capability.r#type, Some(Type::Service(one)) if one.r#type == i32::from(service::Type::ControllerService))
        });
        // A node-only process advertises no controller although the driver has one elsewhere.
        if has_controller || self.flags.controller_endpoint.is_some() {
            let request = v1::ControllerGetCapabilitiesRequest {};
            let method = &tables::CONTROLLER_CONTROLLER_GET_CAPABILITIES;
            let reply: v1::ControllerGetCapabilitiesResponse = self
                .controller(
                    method,
                    request,
                    |reply: &v1::ControllerGetCapabilitiesResponse| {
                        count(reply.capabilities.len(), "capability", "capabilities")
                    },
                )
                .await?;
            advertised.controller = reply
                .capabilities
                .into_iter()
                .filter_map(|one| {
                    let v1::controller_service_capability::Type::Rpc(rpc) = one.r#type?;
                    Some(rpc.r#type)
                })
                .collect();
        }
        let request = v1::NodeGetCapabilitiesRequest {};
        let reply: v1::NodeGetCapabilitiesResponse = self
            .node(
                &tables::NODE_NODE_GET_CAPABILITIES,
                request,
                |reply: &v1::NodeGetCapabilitiesResponse| {
                    count(reply.capabilities.len(), "capability", "capabilities")
                },
            )
            .await?;
        advertised.node = reply
            .capabilities
            .into_iter()
            .filter_map(|one| {
                let v1::node_service_capability::Type::Rpc(rpc) = one.r#type?;
                Some(rpc.r#type)
            })
            .collect();
        Ok(advertised)
    }

    /// The folders that an orchestrator makes: the staging path, and the parent of the target path.
    fn folders(&mut self) -> Result<(PathBuf, PathBuf), Error> {
        let parent = self
            .flags
            .mount_parent
            .clone()
            .unwrap_or_else(std::env::temp_dir);
        let parent = std::path::absolute(&parent).unwrap_or(parent);
        let folder = parent.join(format!("csi-lifecycle-{}", std::process::id()));
        let staging = folder.join("staging");
        for path in [&folder, &staging] {
            fs::create_dir(path).map_err(|error| {
                Error::because(
                    format!("the folder {} cannot be made", path.display()),
                    &error,
                )
            })?;
            self.undo.push(Undo::Folder(path.clone()));
        }
        Ok((staging, folder.join("target")))
    }

    async fn create(&mut self, advertised: &Advertised) -> Result<Volume, Error> {
        let mut context = BTreeMap::new();
        self.flags.vol_context.fill(&mut context);
        if let Some(id) = &self.flags.volume_id {
            return Ok(Volume {
                id: id.clone(),
                context,
                ..Volume::default()
            });
        }
        if !advertised.controller(ControllerCapability::CreateDeleteVolume) {
            return Err(Error::local("the driver does not advertise CREATE_DELETE_VOLUME: it has no volumes to make")
                .hint("--volume-id and --vol-context use a volume that exists; --controller-endpoint names a controller elsewhere"));
        }
        let name = self.flags.name.clone();
        let mut request = v1::CreateVolumeRequest {
            name: name.unwrap_or_else(|| format!("csi-lifecycle-{}", std::process::id())),
            volume_capabilities: vec![self.flags.cap.clone()],
            ..Default::default()
        };
        self.flags.capacity.fill(&mut request.capacity_range);
        self.flags.parameters.fill(&mut request.parameters);
        self.context.add_secrets(&mut request.secrets);
        // Until the reply is here, only the name is known: an interrupted create is repeated to learn the id.
        self.undo.push(Undo::Create(request.clone()));
        let result: Result<v1::CreateVolumeResponse, Error> = self
            .controller(
                &tables::CONTROLLER_CREATE_VOLUME,
                request,
                |reply: &v1::CreateVolumeResponse| {
                    reply
                        .volume
                        .as_ref()
                        .map(|volume| volume.volume_id.clone())
                        .unwrap_or_default()
                },
            )
            .await;
        if result.as_ref().is_ok()
            || result
                .as_ref()
                .is_err_and(|error| !undo::may_have_happened(error))
        {
            self.undo.pop();
        }
        let volume = result?.volume.unwrap_or_default();
        if volume.volume_id.is_empty() {
            return Err(Error::local(
                "the reply has no volume id, which the specification requires",
            )
            .doing("controller create-volume"));
        }
        if self.flags.keep {
            eprintln!("note: --keep: the volume {} stays", volume.volume_id);
        } else {
            self.undo.push(Undo::Volume(volume.volume_id.clone()));
        }
        context.extend(volume.volume_context);
        Ok(Volume {
            id: volume.volume_id,
            context,
            publish_context: BTreeMap::new(),
        })
    }

    async fn publish_by_controller(
        &mut self,
        advertised: &Advertised,
        volume: &mut Volume,
    ) -> Result<(), Error> {
        if !advertised.controller(ControllerCapability::PublishUnpublishVolume) {
            return self.skipped(
                "controller publish",
                "not advertised: PUBLISH_UNPUBLISH_VOLUME",
            );
        }
        let info: v1::NodeGetInfoResponse = self
            .node(
                &tables::NODE_NODE_GET_INFO,
                v1::NodeGetInfoRequest {},
                |reply: &v1::NodeGetInfoResponse| reply.node_id.clone(),
            )
            .await?;
        let mut request = v1::ControllerPublishVolumeRequest {
            volume_id: volume.id.clone(),
            node_id: info.node_id.clone(),
            volume_capability: Some(self.flags.cap.clone()),
            volume_context: volume.context.clone(),
            ..Default::default()
        };
        self.context.add_secrets(&mut request.secrets);
        self.undo.push(Undo::ControllerPublish {
            volume: volume.id.clone(),
            node: info.node_id,
        });
        let reply: v1::ControllerPublishVolumeResponse = self
            .controller(
                &tables::CONTROLLER_CONTROLLER_PUBLISH_VOLUME,
                request,
                |_: &v1::ControllerPublishVolumeResponse| String::new(),
            )
            .await?;
        volume.publish_context = reply.publish_context;
        Ok(())
    }

    async fn stage(
        &mut self,
        advertised: &Advertised,
        volume: &Volume,
        staging: &Path,
    ) -> Result<bool, Error> {
        if !advertised.node(NodeCapability::StageUnstageVolume) {
            self.skipped("node stage", "not advertised: STAGE_UNSTAGE_VOLUME")?;
            return Ok(false);
        }
        let mut request = v1::NodeStageVolumeRequest {
            volume_id: volume.id.clone(),
            publish_context: volume.publish_context.clone(),
            staging_target_path: text(staging),
            volume_capability: Some(self.flags.cap.clone()),
            volume_context: volume.context.clone(),
            ..Default::default()
        };
        self.context.add_secrets(&mut request.secrets);
        self.undo.push(Undo::Stage {
            volume: volume.id.clone(),
            staging: text(staging),
        });
        let shown = text(staging);
        let _: v1::NodeStageVolumeResponse = self
            .node(
                &tables::NODE_NODE_STAGE_VOLUME,
                request,
                |_: &v1::NodeStageVolumeResponse| shown,
            )
            .await?;
        Ok(true)
    }

    async fn publish(
        &mut self,
        volume: &Volume,
        staging: Option<&PathBuf>,
        target: &Path,
    ) -> Result<(), Error> {
        let mut request = v1::NodePublishVolumeRequest {
            volume_id: volume.id.clone(),
            publish_context: volume.publish_context.clone(),
            staging_target_path: staging.map(|path| text(path)).unwrap_or_default(),
            target_path: text(target),
            volume_capability: Some(self.flags.cap.clone()),
            volume_context: volume.context.clone(),
            ..Default::default()
        };
        self.context.add_secrets(&mut request.secrets);
        self.undo.push(Undo::Publish {
            volume: volume.id.clone(),
            target: text(target),
        });
        let shown = text(target);
        let _: v1::NodePublishVolumeResponse = self
            .node(
                &tables::NODE_NODE_PUBLISH_VOLUME,
                request,
                |_: &v1::NodePublishVolumeResponse| shown,
            )
            .await?;
        Ok(())
    }

    async fn write_and_read(&mut self, target: &Path) -> Result<(), Error> {
        const NAME: &str = "write and read back";
        let started = Instant::now();
        let path = target.to_owned();
        let work = tokio::task::spawn_blocking(move || {
            let kind = data::target(&path)?;
            let checksum = match kind {
                data::Target::NotHere => None,
                kind => Some(data::round_trip(&path, kind)?),
            };
            Ok::<_, std::io::Error>((kind, checksum))
        });
        let limit = self.node.session.timeout().unwrap_or(Duration::MAX);
        let result = match tokio::time::timeout(limit, work).await {
            Ok(Ok(result)) => result,
            Ok(Err(error)) => Err(std::io::Error::other(error)),
            Err(_) => Err(std::io::Error::from(std::io::ErrorKind::TimedOut)),
        };
        match result {
            Ok((kind, Some(checksum))) => {
                let link = if kind == data::Target::Link {
                    ", through a symbolic link"
                } else {
                    ""
                };
                self.print(
                    NAME,
                    Outcome::Done,
                    &format!("1 MiB, checksum {checksum:016x}{link}"),
                    started.elapsed(),
                )
            }
            Ok((_, None)) => self.skipped(
                NAME,
                "the volume does not show at the target path here: the driver mounts elsewhere",
            ),
            Err(error) => {
                self.print(NAME, Outcome::Failed, &text(target), started.elapsed())?;
                Err(Error::because(
                    format!("data did not make it through {}", target.display()),
                    &error,
                )
                .doing(NAME))
            }
        }
    }

    async fn stats(
        &mut self,
        advertised: &Advertised,
        volume: &Volume,
        target: &Path,
    ) -> Result<(), Error> {
        if !advertised.node(NodeCapability::GetVolumeStats) {
            return self.skipped("node stats", "not advertised: GET_VOLUME_STATS");
        }
        let request = v1::NodeGetVolumeStatsRequest {
            volume_id: volume.id.clone(),
            volume_path: text(target),
            ..Default::default()
        };
        let _: v1::NodeGetVolumeStatsResponse = self
            .node(
                &tables::NODE_NODE_GET_VOLUME_STATS,
                request,
                |reply: &v1::NodeGetVolumeStatsResponse| {
                    let bytes = reply
                        .usage
                        .iter()
                        .find(|usage| usage.unit == i32::from(v1::volume_usage::Unit::Bytes));
                    let size = crate::arguments::size::human;
                    bytes
                        .map(|bytes| format!("{} of {} used", size(bytes.used), size(bytes.total)))
                        .unwrap_or_default()
                },
            )
            .await?;
        Ok(())
    }

    /// Undoes everything in reverse. Every part is tried, whatever becomes of the others; what fails is said at once.
    async fn down(&mut self) -> Result<(), Error> {
        let mut first = None;
        while let Some(last) = self.undo.last().cloned() {
            let result = self.undo_one(&last).await;
            self.undo.pop();
            if let Err(error) = result {
                eprint!("{}", error.render(self.style));
                eprintln!("left: {last}");
                first.get_or_insert(error.reported());
            }
        }
        first.map_or(Ok(()), Err)
    }
}

fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Paths are text in CSI; those made here are, unless the folder for temporary files is not.
fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
