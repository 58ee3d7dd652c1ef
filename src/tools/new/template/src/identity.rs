//! What the driver is and offers: the Identity service, and the refusal of requests for anything else.

use crate::calls::{Calls, Reply};
use crate::csi;
// with controller
use crate::csi::plugin_capability::{Service, Type, VolumeExpansion, service, volume_expansion};
// end
use crate::csi::volume_capability::{AccessType, access_mode::Mode};
// with controller
use crate::storage::Parameters;
// end
use crate::storage::Storage;
use std::sync::Arc;
use tonic::{Request, Status};

/// The driver's name, by which Kubernetes and StorageClasses know it.
pub const NAME: &str = "DRIVER_NAME";

/// How volumes can be used: as folders of one node at a time.
const ACCESS_MODES: &[Mode] = &[Mode::SingleNodeWriter, Mode::SingleNodeReaderOnly];

// with controller
/// The size of a volume for which none was asked.
const USUAL_BYTES: u64 = 1 << 30;

/// The services besides Identity and Node.
// with groups
const SERVICES: &[service::Type] = &[
    service::Type::ControllerService,
    service::Type::GroupControllerService,
];
// end
// without groups
const SERVICES: &[service::Type] = &[service::Type::ControllerService];
// end

// end
/// The Identity service. Clones are the same.
#[derive(Clone)]
pub struct Identity {
    storage: Arc<dyn Storage>,
    calls: Calls,
}

impl Identity {
    /// The identity of a driver with this storage.
    pub fn new(storage: &Arc<dyn Storage>, calls: &Calls) -> Self {
        Self {
            storage: storage.clone(),
            calls: calls.clone(),
        }
    }
}

#[tonic::async_trait]
impl csi::identity_server::Identity for Identity {
    async fn get_plugin_info(
        &self,
        request: Request<csi::GetPluginInfoRequest>,
    ) -> Reply<csi::GetPluginInfoResponse> {
        let work = |_: &Self, _| {
            Ok(csi::GetPluginInfoResponse {
                name: NAME.to_owned(),
                vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
                ..Default::default()
            })
        };
        self.calls
            .answer(self, "GetPluginInfo", request, work)
            .await
    }

    async fn get_plugin_capabilities(
        &self,
        request: Request<csi::GetPluginCapabilitiesRequest>,
    ) -> Reply<csi::GetPluginCapabilitiesResponse> {
        let work = |_: &Self, _| {
            let capabilities = plugin_capabilities();
            Ok(csi::GetPluginCapabilitiesResponse { capabilities })
        };
        let calls = &self.calls;
        calls
            .answer(self, "GetPluginCapabilities", request, work)
            .await
    }

    /// Healthy is the driver whose storage answers.
    async fn probe(&self, request: Request<csi::ProbeRequest>) -> Reply<csi::ProbeResponse> {
        let work = |identity: &Self, _| match identity.storage.check() {
            Ok(()) => Ok(csi::ProbeResponse { ready: Some(true) }),
            Err(error) => Err(Status::failed_precondition(error.to_string())),
        };
        self.calls.answer(self, "Probe", request, work).await
    }
}

// with controller
fn plugin_capabilities() -> Vec<csi::PluginCapability> {
    let services = SERVICES.iter().map(|one| {
        Type::Service(Service {
            r#type: (*one).into(),
        })
    });
    let online = volume_expansion::Type::Online.into();
    let expansion = Type::VolumeExpansion(VolumeExpansion { r#type: online });
    services
        .chain([expansion])
        .map(|one| csi::PluginCapability { r#type: Some(one) })
        .collect()
}
// end
// without controller
/// A node has nothing to offer besides the Node service, which needs no word.
fn plugin_capabilities() -> Vec<csi::PluginCapability> {
    Vec::new()
}
// end

/// Refuses capabilities that are incomplete, or not those of this driver's volumes.
pub fn offered(capabilities: &[csi::VolumeCapability]) -> Result<(), Status> {
    complete(capabilities)?;
    match capabilities.iter().find_map(reason_against) {
        Some(reason) => Err(Status::invalid_argument(reason)),
        None => Ok(()),
    }
}

/// Refuses capabilities without what the specification requires of them.
pub fn complete(capabilities: &[csi::VolumeCapability]) -> Result<(), Status> {
    let missing = |field| Err(Status::invalid_argument(format!("{field} is missing")));
    if capabilities.is_empty() {
        return missing("the volume capability");
    }
    for capability in capabilities {
        if capability.access_type.is_none() {
            return missing("the access type of a volume capability");
        }
        if capability.access_mode.is_none_or(|access| access.mode == 0) {
            return missing("the access mode of a volume capability");
        }
    }
    Ok(())
}

/// Why no volume of this driver can be used so.
pub fn reason_against(capability: &csi::VolumeCapability) -> Option<String> {
    match &capability.access_type {
        Some(AccessType::Block(_)) => return Some("there are no block volumes".to_owned()),
        Some(AccessType::Mount(mount)) if !mount.mount_flags.is_empty() => {
            return Some("there are no mount flags".to_owned());
        }
        _ => {}
    }
    match mode(capability) {
        Some(mode) if ACCESS_MODES.contains(&mode) => None,
        Some(mode) => Some(format!("{} is not supported", mode.as_str_name())),
        None => Some("the access mode is not known".to_owned()),
    }
}

/// The access mode, where it is one that csi.proto has.
pub fn mode(capability: &csi::VolumeCapability) -> Option<Mode> {
    Mode::try_from(capability.access_mode?.mode).ok()
}

// with controller
/// The parameters for the storage: Kubernetes' sidecars add some that are for everybody.
pub fn of_storage(mut parameters: Parameters) -> Parameters {
    parameters.retain(|key, _| !key.starts_with("csi.storage.k8s.io/"));
    parameters
}

/// The sizes that a request allows.
pub struct Range {
    least: u64,
    most: Option<u64>,
}

impl Range {
    /// Those of a request; all where it says nothing.
    pub fn of(range: Option<&csi::CapacityRange>) -> Result<Self, Status> {
        let csi::CapacityRange {
            required_bytes,
            limit_bytes,
        } = range.copied().unwrap_or_default();
        let (Ok(least), Ok(limit)) = (u64::try_from(required_bytes), u64::try_from(limit_bytes))
        else {
            return Err(Status::invalid_argument("capacity_range is negative"));
        };
        if limit > 0 && limit < least {
            return Err(Status::invalid_argument(
                "limit_bytes is below required_bytes",
            ));
        }
        Ok(Self {
            least,
            most: (limit > 0).then_some(limit),
        })
    }

    /// Whether a size is among them.
    pub fn has(&self, bytes: u64) -> bool {
        bytes >= self.least && self.most.is_none_or(|most| bytes <= most)
    }

    /// The size of a new volume that has at least the size of its source.
    pub fn size(&self, source: u64) -> Result<u64, Status> {
        let least = self.least.max(source);
        let wanted = match least {
            0 => self.most.map_or(USUAL_BYTES, |most| most.min(USUAL_BYTES)),
            least => least,
        };
        self.within(wanted)
    }

    /// The size of a volume of that size after an expansion: volumes do not shrink.
    pub fn expanded(&self, bytes: u64) -> Result<u64, Status> {
        self.within(self.least.max(bytes))
    }

    fn within(&self, bytes: u64) -> Result<u64, Status> {
        match self.has(bytes) {
            true => Ok(bytes),
            false => Err(Status::out_of_range(format!("it would have {bytes} bytes"))),
        }
    }
}

// end
#[cfg(test)]
mod tests {
    use super::*;
    use crate::csi::volume_capability::{AccessMode, BlockVolume, MountVolume};

    fn capability(access: Option<AccessType>, mode: Mode) -> csi::VolumeCapability {
        csi::VolumeCapability {
            access_type: access,
            access_mode: Some(AccessMode { mode: mode.into() }),
        }
    }

    #[test]
    fn only_what_is_offered_is_accepted() {
        let mount = Some(AccessType::Mount(MountVolume::default()));
        let block = Some(AccessType::Block(BlockVolume {}));
        assert!(offered(&[capability(mount.clone(), Mode::SingleNodeWriter)]).is_ok());
        for wrong in [
            capability(mount.clone(), Mode::MultiNodeMultiWriter),
            capability(mount, Mode::Unknown),
            capability(block, Mode::SingleNodeWriter),
            capability(None, Mode::SingleNodeWriter),
        ] {
            assert!(offered(&[wrong]).is_err());
        }
        assert!(offered(&[]).is_err());
    }
    // with controller

    #[test]
    fn sizes_stay_in_their_range() {
        let range = |required_bytes, limit_bytes| {
            Range::of(Some(&csi::CapacityRange {
                required_bytes,
                limit_bytes,
            }))
        };
        let size = |required, limit, source| {
            range(required, limit)
                .and_then(|range| range.size(source))
                .ok()
        };
        assert_eq!(size(0, 0, 0), Some(USUAL_BYTES));
        assert_eq!(size(0, 5, 0), Some(5));
        assert_eq!(size(5, 0, 7), Some(7));
        assert_eq!(size(5, 6, 7), None);
        assert_eq!(size(6, 5, 0), None);
        assert_eq!(size(-1, 0, 0), None);
        let expanded = |required, limit| {
            range(required, limit)
                .and_then(|range| range.expanded(10))
                .ok()
        };
        assert_eq!(expanded(5, 0), Some(10));
        assert_eq!(expanded(20, 20), Some(20));
        assert_eq!(expanded(0, 5), None);
    }
    // end
}
