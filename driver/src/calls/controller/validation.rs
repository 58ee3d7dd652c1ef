//! Finds the objections to a ValidateVolumeCapabilities, in words. Must not touch a share.

use super::answer::context;
use super::error::ControllerError;
use super::shares::Shares;
use crate::calls::capability;
use crate::calls::limits;
use crate::calls::parameters::{MOUNT_OPTIONS, MUTABLE, Parameters, SERVER, SHARE};
use crate::calls::volume_id::Location;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::records::record::{Record, State};
use csi_nfs_store::share::records::volume::Volume;
use csi_proto::v1 as csi;
use std::collections::BTreeMap;
use std::error::Error;

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

/// Why a volume is not what a request describes, in words.
pub(crate) type Objection = Box<dyn Error + Send + Sync>;

/// The answer to a request against which there is this objection, or none.
pub(crate) fn answer(
    described: Result<(), Objection>,
    request: csi::ValidateVolumeCapabilitiesRequest,
) -> csi::ValidateVolumeCapabilitiesResponse {
    match described {
        Err(objection) => csi::ValidateVolumeCapabilitiesResponse {
            confirmed: None,
            message: objection.to_string(),
        },
        Ok(()) => csi::ValidateVolumeCapabilitiesResponse {
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

/// Objects to capabilities that no volume can have.
pub(crate) fn check_capabilities(
    shares: &Shares,
    capabilities: &[csi::VolumeCapability],
) -> Result<(), Objection> {
    for access in capability::check_all(capabilities)? {
        shares.check_mount_options(&access.mount.mount_flags)?;
    }
    Ok(())
}

/// Objects to parameters of which no volume on `export` is made, and returns the others; nothing where none are given.
pub(crate) fn check_parameters(
    shares: &Shares,
    export: &Export,
    given: &BTreeMap<String, String>,
) -> Result<Option<Parameters>, Objection> {
    if given.is_empty() {
        return Ok(None);
    }
    let parameters = Parameters::parse(given)?;
    let chosen = shares.choose(&parameters)?.export;
    match chosen == *export {
        true => Ok(Some(parameters)),
        false => Err(format!("the parameters name {chosen}, the volume is on {export}").into()),
    }
}

/// Objects to a request that does not describe the volume of `record`.
pub(crate) fn check(
    shares: &Shares,
    export: &Export,
    record: &Record<Volume>,
    request: &csi::ValidateVolumeCapabilitiesRequest,
) -> Result<(), Objection> {
    let what = &record.what;
    if record.state == State::Deleting {
        return Err("the volume is being deleted".into());
    }
    check_capabilities(shares, &request.volume_capabilities)?;
    let asked = Parameters::parse_known(&request.mutable_parameters, &MUTABLE)?;
    for (parameter, asked, changed, made) in [
        (
            "mountPermissions",
            asked.mode,
            what.changes.mode,
            what.wanted.mode,
        ),
        ("uid", asked.uid, what.changes.uid, what.wanted.uid),
        ("gid", asked.gid, what.changes.gid, what.wanted.gid),
    ] {
        if asked.is_some() && asked != changed.or(made) {
            return Err(format!("the mutable parameter {parameter} differs").into());
        }
    }
    let on_delete = what.on_delete();
    if asked.on_delete.is_some_and(|policy| policy != on_delete) {
        return Err(format!("onDelete is {on_delete}").into());
    }
    check_context(export, record, &request.volume_context)?;
    let Some(mut parameters) = check_parameters(shares, export, &request.parameters)? else {
        return Ok(());
    };
    // What was given as mutable at the creation stands with the other parameters in the record, and has been compared above.
    let made = &what.wanted;
    parameters.says_mode |= asked.says_mode;
    parameters.mode = parameters.mode.or(asked.mode.and(made.mode));
    parameters.uid = parameters.uid.or(asked.uid.and(made.uid));
    parameters.gid = parameters.gid.or(asked.gid.and(made.gid));
    parameters.on_delete = (parameters.on_delete).or(asked.on_delete.and(Some(made.on_delete)));
    let wanted = (shares.config.defaults).wanted(parameters, what.wanted.clone());
    match what.difference(&wanted) {
        Some(difference) => Err(format!("the parameters differ: {difference}").into()),
        None => Ok(()),
    }
}

/// Objects to a context that is not the volume's. None is given by who does not know it; orchestrators add keys of their own.
fn check_context(
    export: &Export,
    record: &Record<Volume>,
    given: &BTreeMap<String, String>,
) -> Result<(), Objection> {
    if given.is_empty() {
        return Ok(());
    }
    let mut own = context(export, &record.what.path, &record.what.wanted.mount_options);
    // A share with a name may have moved since the context was made.
    if matches!(record.location.parse(), Ok(Location::Named(_))) {
        own.remove(SERVER);
        own.remove(SHARE);
    }
    let differs = own
        .into_iter()
        .find(|(key, value)| given.get(key) != Some(value));
    match differs {
        None => Ok(()),
        Some((key, _)) if key == MOUNT_OPTIONS => {
            Err(format!("volume_context differs in {key}").into())
        }
        Some((key, value)) => {
            let other = given.get(&key).map_or("", String::as_str);
            Err(format!("volume_context differs: {key} is {value:?}, not {other:?}").into())
        }
    }
}
