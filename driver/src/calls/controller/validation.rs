//! Finds the objections to a ValidateVolumeCapabilities, in words. Must not touch a share.

use super::answer::context;
use super::error::ControllerError;
use super::shares::Shares;
use crate::calls::capability;
use crate::calls::export::Export;
use crate::calls::limits;
use crate::calls::parameters::{MOUNT_OPTIONS, MUTABLE, Parameters, SERVER, SHARE};
use crate::calls::volume_id::Location;
use crate::share::records::record::{Record, State};
use crate::share::records::volume::Volume;
use csi_proto::v1 as csi;

/// Checks the lengths of the fields. What cannot be satisfied is an answer, and what is too long an error.
pub(crate) fn check_fields(
    request: &csi::ValidateVolumeCapabilitiesRequest,
) -> Result<(), ControllerError> {
    limits::map("volume_context", &request.volume_context)?;
    limits::map("parameters", &request.parameters)?;
    limits::map("mutable_parameters", &request.mutable_parameters)?;
    limits::map("secrets", &request.secrets)?;
    for one in &request.volume_capabilities {
        capability::check_lengths(one)?;
    }
    Ok(())
}

/// The answer to a request against which there is this objection, or none.
pub(crate) fn answer(
    objection: Option<String>,
    request: csi::ValidateVolumeCapabilitiesRequest,
) -> csi::ValidateVolumeCapabilitiesResponse {
    match objection {
        Some(message) => csi::ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message,
        },
        None => csi::ValidateVolumeCapabilitiesResponse {
            confirmed: Some(csi::validate_volume_capabilities_response::Confirmed {
                volume_context: request.volume_context,
                volume_capabilities: request.volume_capabilities,
                parameters: request.parameters,
                mutable_parameters: request.mutable_parameters,
            }),
            message: String::new(),
        },
    }
}

/// Why no volume can have these capabilities; nothing when one can.
pub(crate) fn capabilities_objection(
    shares: &Shares,
    capabilities: &[csi::VolumeCapability],
) -> Option<String> {
    match capability::check_all(capabilities) {
        Err(error) => Some(error.to_string()),
        Ok(all) => {
            let mut flags = all.iter().map(|access| &access.mount.mount_flags);
            let refused = flags.find_map(|flags| shares.check_mount_options(flags).err());
            refused.map(|error| error.to_string())
        }
    }
}

/// Why a volume is not what a ValidateVolumeCapabilities describes; nothing when it is.
pub(crate) fn objection(
    shares: &Shares,
    export: &Export,
    record: &Record<Volume>,
    request: &csi::ValidateVolumeCapabilitiesRequest,
) -> Option<String> {
    if record.state == State::Deleting {
        return Some("the volume is being deleted".to_owned());
    }
    if let Some(objection) = capabilities_objection(shares, &request.volume_capabilities) {
        return Some(objection);
    }
    let mutable = match Parameters::parse_known(&request.mutable_parameters, &MUTABLE) {
        Ok(mutable) => mutable,
        Err(error) => return Some(error.to_string()),
    };
    let changes = &record.what.changes;
    let now = [
        (
            "mountPermissions",
            mutable.mode,
            changes.mode.or(record.what.wanted.mode),
        ),
        ("uid", mutable.uid, changes.uid.or(record.what.wanted.uid)),
        ("gid", mutable.gid, changes.gid.or(record.what.wanted.gid)),
    ];
    if let Some((parameter, ..)) = now
        .into_iter()
        .find(|(_, asked, is)| asked.is_some() && asked != is)
    {
        return Some(format!("the mutable parameter {parameter} differs"));
    }
    if mutable
        .on_delete
        .is_some_and(|policy| policy != record.what.on_delete())
    {
        return Some(format!("onDelete is {}", record.what.on_delete()));
    }
    if !request.volume_context.is_empty() {
        let mut own = context(export, record);
        // A share with a name may have moved since the context was made.
        if matches!(record.location.parse(), Ok(Location::Named(_))) {
            own.remove(SERVER);
            own.remove(SHARE);
        }
        // Orchestrators add keys of their own.
        let differs = own
            .into_iter()
            .find(|(key, value)| request.volume_context.get(key) != Some(value));
        if let Some((key, value)) = differs {
            if key == MOUNT_OPTIONS {
                return Some(format!("volume_context differs in {key}"));
            }
            return Some(format!(
                "volume_context differs: {key} is {value:?}, not {:?}",
                request.volume_context.get(&key).map_or("", String::as_str)
            ));
        }
    }
    if request.parameters.is_empty() {
        return None;
    }
    let parameters = match Parameters::parse(&request.parameters) {
        Ok(parameters) => parameters,
        Err(error) => return Some(error.to_string()),
    };
    match shares.choose(&parameters) {
        Err(error) => return Some(error.to_string()),
        Ok(chosen) if chosen.export != *export => {
            return Some(format!(
                "the parameters name {}, the volume is on {export}",
                chosen.export
            ));
        }
        Ok(_) => {}
    }
    let asked = record.what.wanted.clone();
    let wanted = shares.config.defaults.wanted(parameters, asked);
    record
        .what
        .difference(&wanted)
        .map(|difference| format!("the parameters differ: {difference}"))
}
