//! What the specification demands of requests whatever the state: required fields, sizes, capabilities, ranges. Every
//! refusal is INVALID_ARGUMENT, but for sizes that cannot be.

use crate::Defect;
use crate::core::Core;
use crate::options::{SMALLEST, USUAL};
use csi_proto::v1::controller_service_capability::rpc::Type as ControllerCapability;
use csi_proto::v1::node_service_capability::rpc::Type as NodeCapability;
use csi_proto::v1::plugin_capability::service::Type as PluginService;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use csi_proto::v1::{CapacityRange, VolumeCapability};
use std::collections::BTreeMap;
use std::path::Path;
use tonic::Status;

/// Sizes are multiples of this, where the range allows it.
const GRANULE: i64 = 1 << 20;

/// How long a string may be where the specification says nothing else, in bytes.
const TEXT_MAX: usize = 128;
/// How large a map may be, keys and values together, in bytes.
const MAP_MAX: usize = 4096;

impl Core {
    /// Refuses calls of a service that is not there.
    pub(crate) fn needs_service(&self, service: PluginService) -> Result<(), Status> {
        let has = self.options().services.contains(&service);
        self.implemented(has, service.as_str_name())
    }

    /// Refuses calls of an RPC without its capability.
    pub(crate) fn needs(&self, capability: ControllerCapability) -> Result<(), Status> {
        self.needs_service(PluginService::ControllerService)?;
        self.implemented(self.controller_can(capability), capability.as_str_name())
    }

    /// As [`Core::needs`], of the node.
    pub(crate) fn needs_node(&self, capability: NodeCapability) -> Result<(), Status> {
        self.implemented(self.node_can(capability), capability.as_str_name())
    }

    fn implemented(&self, has: bool, what: &str) -> Result<(), Status> {
        if has {
            return Ok(());
        }
        if self.has(Defect::UnadvertisedIsInternal) {
            return Err(Status::internal("oops"));
        }
        Err(Status::unimplemented(format!("needs {what}")))
    }

    pub(crate) fn controller_can(&self, capability: ControllerCapability) -> bool {
        self.options().controller.contains(&capability)
    }

    pub(crate) fn node_can(&self, capability: NodeCapability) -> bool {
        self.options().node.contains(&capability)
    }

    pub(crate) fn has_topology(&self) -> bool {
        let topology = PluginService::VolumeAccessibilityConstraints;
        self.options().services.contains(&topology)
    }

    /// Refuses a request without that field, but for a driver with the defect to overlook it.
    pub(crate) fn required(
        &self,
        is_set: bool,
        field: &str,
        overlooks: Defect,
    ) -> Result<(), Status> {
        if is_set || self.has(overlooks) {
            return Ok(());
        }
        Err(Status::invalid_argument(format!("{field} is required")))
    }

    /// Refuses a request without an id in that field.
    pub(crate) fn id(&self, id: &str, field: &str, overlooks: Defect) -> Result<(), Status> {
        self.required(!id.is_empty(), field, overlooks)?;
        // Each RPC has its own case about such ids: this is the mistake of one.
        let is_deletion = overlooks == Defect::DeleteVolumeWithoutId;
        if is_deletion && self.has(Defect::HostileIdIsInternal) && id.contains(['/', '\0']) {
            return Err(Status::internal("open: no such file or directory"));
        }
        if is_deletion && self.has(Defect::LongIdPanics) && id.len() > TEXT_MAX {
            // Without the hook of `panic!`, which would write into the tests' output.
            std::panic::resume_unwind(Box::new("index out of range"));
        }
        Ok(())
    }

    /// Refuses names that the specification does not allow.
    pub(crate) fn name(&self, name: &str, overlooks: Defect) -> Result<(), Status> {
        self.required(!name.is_empty(), "name", overlooks)?;
        let is_volume = overlooks == Defect::CreateVolumeWithoutName;
        let longest = match is_volume && self.has(Defect::LongNameRefused) {
            true => 64,
            false => TEXT_MAX,
        };
        if name.len() > longest {
            return Err(Status::invalid_argument(format!(
                "name has more than {longest} bytes"
            )));
        }
        let is_banned = |c: char| c.is_control() && !matches!(c, '\t' | '\n' | '\r');
        if name.contains(is_banned) && !self.has(Defect::ControlCharactersInNames) {
            return Err(Status::invalid_argument("name has control characters"));
        }
        if is_volume && self.has(Defect::UnicodeNameRefused) && !name.is_ascii() {
            return Err(Status::invalid_argument("name is not ASCII"));
        }
        Ok(())
    }

    /// Refuses paths that are missing or not absolute.
    pub(crate) fn path(&self, path: &str, field: &str, overlooks: Defect) -> Result<(), Status> {
        self.path_of_volume(path, field, overlooks)?;
        if !path.is_empty() && !Path::new(path).is_absolute() {
            return Err(Status::invalid_argument(format!("{field} is not absolute")));
        }
        Ok(())
    }

    /// Refuses a path that is missing or too long, where no volume is at one that is not absolute.
    pub(crate) fn path_of_volume(
        &self,
        path: &str,
        field: &str,
        overlooks: Defect,
    ) -> Result<(), Status> {
        self.required(!path.is_empty(), field, overlooks)?;
        if path.len() >= TEXT_MAX && self.has(Defect::LongPathRefused) {
            return Err(Status::invalid_argument(format!("{field} is too long")));
        }
        // Paths were texts like all others before.
        if path.len() > TEXT_MAX && self.options().specification < 5 {
            return Err(Status::invalid_argument(format!("{field} is too long")));
        }
        Ok(())
    }

    /// Refuses a capability that is missing, incomplete, or not one that this driver has.
    pub(crate) fn capability<'a>(
        &self,
        capability: Option<&'a VolumeCapability>,
        overlooks: Defect,
    ) -> Result<Option<&'a VolumeCapability>, Status> {
        self.required(capability.is_some(), "volume_capability", overlooks)?;
        if let Some(capability) = capability {
            self.complete(capability)?;
            self.supported(capability)
                .map_err(Status::invalid_argument)?;
        }
        Ok(capability)
    }

    /// As [`Core::capability`], of a list.
    pub(crate) fn capabilities(
        &self,
        capabilities: &[VolumeCapability],
        overlooks: Defect,
    ) -> Result<(), Status> {
        self.required(!capabilities.is_empty(), "volume_capabilities", overlooks)?;
        capabilities.iter().try_for_each(|one| self.complete(one))
    }

    fn complete(&self, capability: &VolumeCapability) -> Result<(), Status> {
        self.required(
            capability.access_type.is_some(),
            "volume_capability.access_type",
            Defect::CapabilityWithoutAccessType,
        )?;
        let mode = capability.access_mode.map_or(0, |access| access.mode);
        self.required(
            mode != 0,
            "volume_capability.access_mode",
            Defect::CapabilityWithoutAccessMode,
        )
    }

    /// Why no volume of this driver can be used so.
    pub(crate) fn supported(&self, capability: &VolumeCapability) -> Result<(), String> {
        let AccessMode { mode } = capability.access_mode.unwrap_or_default();
        let multi_writer = ControllerCapability::SingleNodeMultiWriter;
        match Mode::try_from(mode) {
            Err(_) => return Err(format!("access mode {mode} is not known")),
            Ok(mode @ (Mode::SingleNodeSingleWriter | Mode::SingleNodeMultiWriter))
                if !self.controller_can(multi_writer)
                    && !self.node_can(NodeCapability::SingleNodeMultiWriter) =>
            {
                return Err(format!("{} is not supported", mode.as_str_name()));
            }
            Ok(_) => {}
        }
        if let Some(AccessType::Mount(MountVolume {
            fs_type,
            volume_mount_group,
            ..
        })) = &capability.access_type
        {
            if !matches!(fs_type.as_str(), "" | "ext4" | "xfs") {
                return Err(format!("file system type {fs_type:?} is not supported"));
            }
            if !volume_mount_group.is_empty() && !self.node_can(NodeCapability::VolumeMountGroup) {
                return Err("volume_mount_group is not supported".to_owned());
            }
        }
        Ok(())
    }

    /// Refuses secrets, parameters or contexts that are too large.
    pub(crate) fn map(&self, map: &BTreeMap<String, String>, field: &str) -> Result<(), Status> {
        let size: usize = map.iter().map(|(key, value)| key.len() + value.len()).sum();
        if size > MAP_MAX {
            return Err(Status::invalid_argument(format!(
                "{field} has more than {MAP_MAX} bytes"
            )));
        }
        Ok(())
    }

    /// The size of a volume in that range, and not below `least`.
    pub(crate) fn size_in(&self, range: Option<CapacityRange>, least: i64) -> Result<i64, Status> {
        let largest = self.options().largest;
        let usual = USUAL.min(largest).max(least);
        let Some(range) = range else {
            return Ok(usual);
        };
        let (required, limit) = (range.required_bytes, range.limit_bytes);
        if (required < 0 || limit < 0) && !self.has(Defect::CreateVolumeNegativeSize) {
            return Err(Status::invalid_argument("capacity_range is negative"));
        }
        let (required, limit) = (required.max(0), limit.max(0));
        if required == 0 && limit == 0 {
            return Ok(usual);
        }
        let reversed = limit > 0 && limit < required;
        // Of a volume that is expanded, the size is at least what it was.
        let overlooks = least == 0 && self.has(Defect::CreateVolumeReversedRange);
        if reversed && !overlooks {
            return Err(Status::invalid_argument(
                "limit_bytes is below required_bytes",
            ));
        }
        let limit = if limit == 0 || reversed {
            largest
        } else {
            limit.min(largest)
        };
        let required = required.max(least).max(SMALLEST);
        if required > limit {
            return Err(Status::out_of_range(format!(
                "volumes have {SMALLEST} to {largest} bytes, of which none is within the capacity range"
            )));
        }
        let rounded = required.saturating_add(GRANULE - 1) / GRANULE * GRANULE;
        Ok(if rounded > limit { required } else { rounded })
    }
}

/// Whether a volume that was made for `made` can be used as `wanted`: the kind of access decides.
pub(crate) fn covers(made: &[VolumeCapability], wanted: &VolumeCapability) -> bool {
    let kind = |one: &VolumeCapability| one.access_type.as_ref().map(std::mem::discriminant);
    made.iter().any(|made| kind(made) == kind(wanted))
}

/// Whether only one node at a time may have a volume that is used so.
pub(crate) fn is_single_node(capability: &VolumeCapability) -> bool {
    let mode = capability.access_mode.unwrap_or_default().mode();
    matches!(
        mode,
        Mode::SingleNodeWriter
            | Mode::SingleNodeReaderOnly
            | Mode::SingleNodeSingleWriter
            | Mode::SingleNodeMultiWriter
    )
}

/// Whether a path to a block device is asked for.
pub(crate) fn is_block(capability: &VolumeCapability) -> bool {
    matches!(capability.access_type, Some(AccessType::Block(_)))
}
