//! The steps that a lifecycle has beyond those of every volume: usage and condition, a larger size, a snapshot, and
//! volumes made of the snapshot and of the volume.

use super::calls::StepRunner;
use super::plan::{Further, Plan, larger};
use super::volume::{Placed, Volume};
use csi_arguments::size::human;
use csi_error::{Error, say};
use csi_proto::v1::volume_content_source::{SnapshotSource, Type as Source, VolumeSource};
use csi_proto::{escaped, v1};
use csi_rpc::facts::{ControllerCapability, NodeCapability};
use std::io::Write;
use tonic::Code;

impl<W: Write> StepRunner<'_, '_, W> {
    /// How full the volume is, and in which condition.
    pub(super) async fn look(
        &self,
        plan: &Plan,
        volume: &mut Volume,
        placed: &Placed,
    ) -> Result<(), Error> {
        if plan.has(Further::Stats) {
            let request = v1::NodeGetVolumeStatsRequest {
                volume_id: volume.id.clone(),
                volume_path: super::calls::text(&placed.target),
                ..Default::default()
            };
            let reply = self.step(&request, usage).await;
            let reply = reply.map_err(plan.skipped_by(Further::Stats))?;
            volume.note(plan, reply.volume_condition);
        }
        self.look_at_condition(plan, volume).await
    }

    /// What the controller says of the volume's condition, if it says that.
    pub(super) async fn look_at_condition(
        &self,
        plan: &Plan,
        volume: &mut Volume,
    ) -> Result<(), Error> {
        use ControllerCapability as C;
        let tells = self.advertised.controller(C::GetVolume)
            && self.advertised.controller(C::VolumeCondition);
        if !tells || !plan.asks_condition {
            return Ok(());
        }
        let request = v1::ControllerGetVolumeRequest {
            volume_id: volume.id.clone(),
        };
        let condition = |reply: &v1::ControllerGetVolumeResponse| {
            let status = reply.status.clone();
            status.and_then(|status| status.volume_condition)
        };
        let reply = self
            .step(&request, |reply| condition_text(condition(reply).as_ref()))
            .await;
        let reply = reply.map_err(plan.skipped_by(Further::Stats))?;
        volume.note(plan, condition(&reply));
        Ok(())
    }

    /// Makes the volume larger at the controller; the size that the node is to make it, if it has to.
    pub(super) async fn expand(&self, volume: &mut Volume) -> Result<Option<i64>, Error> {
        let given: v1::ControllerExpandVolumeRequest = self.request();
        let asked = given.capacity_range.unwrap_or_default();
        let Some(size) = larger(volume.capacity, asked.required_bytes, asked.limit_bytes) else {
            self.skipped(Further::Expand.name(), "--lim-bytes leaves no room")?;
            return Ok(None);
        };
        if !self
            .advertised
            .controller(ControllerCapability::ExpandVolume)
        {
            return Ok(Some(size));
        }
        let request = v1::ControllerExpandVolumeRequest {
            volume_id: volume.id.clone(),
            capacity_range: Some(at_least(size)),
            ..given
        };
        let reply = self
            .step(&request, |reply| {
                format!("{} now", human(reply.capacity_bytes))
            })
            .await?;
        volume.capacity = reply.capacity_bytes;
        Ok(reply
            .node_expansion_required
            .then_some(reply.capacity_bytes))
    }

    /// Lets the node use the new size, if it has to.
    pub(super) async fn expand_at_node(
        &self,
        volume: &Volume,
        placed: &Placed,
        size: Option<i64>,
    ) -> Result<(), Error> {
        let Some(size) = size else {
            return Ok(());
        };
        if !self.advertised.node(NodeCapability::ExpandVolume) {
            let problem = "the controller asks for NodeExpandVolume, and the node does not advertise EXPAND_VOLUME";
            return Err(Error::local(problem).doing("node expand-volume"));
        }
        let staging = match self.advertised.node(NodeCapability::StageUnstageVolume) {
            true => super::calls::text(&placed.staging),
            false => String::new(),
        };
        let request = v1::NodeExpandVolumeRequest {
            volume_id: volume.id.clone(),
            volume_path: super::calls::text(&placed.target),
            staging_target_path: staging,
            capacity_range: Some(at_least(size)),
            ..self.request()
        };
        self.step(&request, |reply| match reply.capacity_bytes {
            0 => String::new(),
            size => format!("{} now", human(size)),
        })
        .await
        .map(drop)
    }

    /// Takes a snapshot and waits until it can be used; its id.
    pub(super) async fn snapshot(&self, volume: &Volume) -> Result<String, Error> {
        let mut request = v1::CreateSnapshotRequest {
            source_volume_id: volume.id.clone(),
            name: format!("{}-snapshot", self.volume_name()),
            ..Default::default()
        };
        self.run.context.add_secrets(&mut request.secrets);
        let ready = |reply: &v1::CreateSnapshotResponse| {
            let snapshot = reply.snapshot.as_ref();
            snapshot.is_some_and(|snapshot| snapshot.ready_to_use)
        };
        let id = |reply: &v1::CreateSnapshotResponse| {
            let snapshot = reply.snapshot.as_ref();
            snapshot.map_or_else(String::new, |snapshot| snapshot.snapshot_id.clone())
        };
        let in_time = |reply: &v1::CreateSnapshotResponse| match ready(reply) {
            true => Ok(id(reply)),
            false => {
                let problem = "the snapshot is not ready to use within --timeout";
                let late = Error::rpc(Code::DeadlineExceeded, problem);
                Err(late.doing("controller create-snapshot"))
            }
        };
        let reply = self.step_judged(&request, ready, in_time).await?;
        Ok(id(&reply))
    }

    /// Makes a volume of a snapshot.
    pub(super) async fn restore(&self, volume: &Volume, snapshot: &str) -> Result<Volume, Error> {
        let snapshot_id = snapshot.to_owned();
        let source = Source::Snapshot(SnapshotSource { snapshot_id });
        self.copy(volume, "restored", source).await
    }

    /// Makes a volume of a volume.
    pub(super) async fn clone_of(&self, volume: &Volume) -> Result<Volume, Error> {
        let volume_id = volume.id.clone();
        let source = Source::Volume(VolumeSource { volume_id });
        self.copy(volume, "clone", source).await
    }

    async fn copy(&self, volume: &Volume, name: &str, source: Source) -> Result<Volume, Error> {
        let given: v1::CreateVolumeRequest = self.request();
        let asked = given.capacity_range.unwrap_or_default();
        // Not less than its source has, which may have grown beyond what was asked for.
        let required_bytes = volume.capacity.max(asked.required_bytes);
        let fits = asked.limit_bytes == 0 || asked.limit_bytes >= required_bytes;
        let range = v1::CapacityRange {
            required_bytes,
            limit_bytes: if fits { asked.limit_bytes } else { 0 },
        };
        let request = v1::CreateVolumeRequest {
            name: format!("{}-{name}", self.volume_name()),
            capacity_range: (range != v1::CapacityRange::default()).then_some(range),
            volume_content_source: Some(v1::VolumeContentSource {
                r#type: Some(source),
            }),
            ..given
        };
        self.create_as(&request).await
    }
}

fn at_least(size: i64) -> v1::CapacityRange {
    v1::CapacityRange {
        required_bytes: size,
        limit_bytes: 0,
    }
}

/// How full a volume is, as text.
fn usage(reply: &v1::NodeGetVolumeStatsResponse) -> String {
    let bytes = i32::from(v1::volume_usage::Unit::Bytes);
    let mut usage = reply.usage.iter().filter(|usage| usage.unit == bytes);
    let mut text = usage.next().map_or_else(String::new, |usage| {
        format!("{} of {} used", human(usage.used), human(usage.total))
    });
    if let Some(condition) = reply.volume_condition.as_ref().filter(|one| one.abnormal) {
        text.push_str(&format!("; {}", condition_text(Some(condition))));
    }
    text
}

/// A condition, as text.
fn condition_text(condition: Option<&v1::VolumeCondition>) -> String {
    match condition {
        None => String::new(),
        Some(condition) if condition.abnormal => format!("abnormal: {}", condition.message),
        Some(_) => "healthy".to_owned(),
    }
}

impl Volume {
    /// Notes what the driver says of the condition: the first complaint is what the run ends with.
    fn note(&mut self, plan: &Plan, condition: Option<v1::VolumeCondition>) {
        if self.abnormal.is_none() {
            let abnormal = abnormal(&self.id, condition);
            self.abnormal = abnormal.map(|error| error.hint(way_on(plan)));
            if self.abnormal.is_some() {
                let id = escaped(&self.id);
                say!(
                    "note: the volume {id} is abnormal: what does not depend on that is still done"
                );
            }
        }
    }
}

/// The failure of a run whose volume is not as it should be.
fn abnormal(id: &str, condition: Option<v1::VolumeCondition>) -> Option<Error> {
    let condition = condition.filter(|condition| condition.abnormal)?;
    let problem = format!("the volume {id} is abnormal: {}", condition.message);
    Some(Error::failed(problem))
}

/// What can be done about an abnormal volume.
fn way_on(plan: &Plan) -> String {
    let instead = if plan.may_skip {
        ""
    } else {
        "instead of --only, "
    };
    let flag = Further::Stats.skipped_by();
    format!(
        "{instead}{flag} does not ask for the condition, and does every step; `csi doctor` looks at the driver from all sides"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use csi_error::ErrorKind;

    #[test]
    fn an_abnormal_condition_is_a_failure() {
        let condition = |abnormal| {
            Some(v1::VolumeCondition {
                abnormal,
                message: "the folder is missing".into(),
            })
        };
        assert!(abnormal("v", None).is_none());
        assert!(abnormal("v", condition(false)).is_none());
        let error = abnormal("v", condition(true)).unwrap();
        assert_eq!(error.kind(), ErrorKind::Failed);
        assert_eq!(
            condition_text(condition(true).as_ref()),
            "abnormal: the folder is missing"
        );
        assert_eq!(condition_text(condition(false).as_ref()), "healthy");
        assert_eq!(condition_text(None), "");
    }
}
