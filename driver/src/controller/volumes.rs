//! Requests about one volume, from their checks to the work on the share.

use super::answer;
use super::error::ControllerError;
use super::shares::{Outcome, Shares};
use crate::capability;
use crate::export::Export;
use crate::limits;
use crate::parameters::{DEFAULT_MODE, Parameters, SERVER, SHARE, secret_options};
use crate::share::database::Expect;
use crate::share::error::ShareError;
use crate::share::lifecycle;
use crate::share::listing::{self, Listed};
use crate::share::record::{Record, State, Wanted};
use crate::share::sub_path::SubPath;
use crate::share::token::ShareUuid;
use crate::volume_id::{Location, VolumeId};
use csi_proto::v1 as csi;
use std::sync::Arc;

/// Checks a range of sizes in bytes.
pub(super) fn check_range(
    range: Option<&csi::CapacityRange>,
) -> Result<(i64, i64), ControllerError> {
    let Some(range) = range else {
        return Ok((0, 0));
    };
    let (required, limit) = (range.required_bytes, range.limit_bytes);
    if required < 0 || limit < 0 {
        return Err(ControllerError::Invalid(format!(
            "capacity_range has a negative size: required_bytes {required}, limit_bytes {limit}"
        )));
    }
    if limit > 0 && required > limit {
        return Err(ControllerError::Invalid(format!(
            "capacity_range is empty: required_bytes {required} is more than limit_bytes {limit}"
        )));
    }
    Ok((required, limit))
}

/// A checked CreateVolume.
pub(super) struct Creation {
    pub export: Export,
    pub wanted: Wanted,
    location: Location,
    control_options: Vec<String>,
}

impl Creation {
    pub(super) fn check(
        shares: &Shares,
        request: &csi::CreateVolumeRequest,
    ) -> Result<Self, ControllerError> {
        limits::required("name", &request.name)?;
        limits::map("parameters", &request.parameters)?;
        limits::map("secrets", &request.secrets)?;
        let (required_bytes, limit_bytes) = check_range(request.capacity_range.as_ref())?;
        for access in capability::check_all(&request.volume_capabilities)? {
            (shares.config.check_mount_options)(&access.mount.mount_flags)
                .map_err(ControllerError::MountOption)?;
        }
        if request.volume_content_source.is_some() {
            return Err(ControllerError::Invalid(
                "volume_content_source is not supported: this driver makes empty volumes only"
                    .to_owned(),
            ));
        }
        if let Some(key) = request.mutable_parameters.keys().next() {
            return Err(ControllerError::Invalid(format!(
                "the mutable parameter {key:?} is not known: this driver has none"
            )));
        }
        let parameters = Parameters::parse(&request.parameters)?;
        let chosen = shares.choose(&parameters)?;
        let secret = secret_options(&request.secrets);
        for options in [&parameters.mount_options, &secret] {
            (shares.config.check_mount_options)(options).map_err(ControllerError::MountOption)?;
        }
        let control_options = match secret.as_slice() {
            [] => parameters.mount_options.clone(),
            _ => secret,
        };
        Ok(Self {
            export: chosen.export,
            location: chosen.location,
            control_options,
            wanted: Wanted {
                required_bytes,
                limit_bytes,
                sub_dir: parameters
                    .sub_dir
                    .unwrap_or_else(|| SubPath::of_name(&request.name)),
                on_delete: parameters.on_delete,
                mode: parameters.mode.unwrap_or(DEFAULT_MODE),
                uid: parameters.uid,
                gid: parameters.gid,
                mount_options: parameters.mount_options,
                name: request.name.clone(),
            },
        })
    }

    pub(super) async fn run(self, shares: Arc<Shares>) -> Outcome {
        let expect = shares.expect_or(&self.export, Expect::Any);
        let (wanted, location) = (self.wanted, self.location.to_string());
        shares
            .with_share(&self.export, &self.control_options, expect, move |share| {
                lifecycle::create(share, &wanted, &location)
            })
            .await
            .map(Some)
    }
}

/// Deletes a volume and starts the purge of what it was.
pub(super) async fn delete(
    shares: Arc<Shares>,
    export: Export,
    id: VolumeId,
    options: Vec<String>,
) -> Outcome {
    let (key, nonce) = (id.key, id.nonce);
    let deleted = shares
        .with_share(&export, &options, Expect::Known(id.uuid), move |share| {
            lifecycle::delete(share, key, nonce)
        })
        .await;
    shares.purge_soon(&export);
    deleted.map(|()| None)
}

/// Expands a volume.
pub(super) async fn expand(
    shares: Arc<Shares>,
    export: Export,
    id: VolumeId,
    range: csi::CapacityRange,
) -> Outcome {
    let (key, nonce) = (id.key, id.nonce);
    shares
        .with_share(&export, &[], Expect::Known(id.uuid), move |share| {
            lifecycle::expand(share, key, nonce, range.required_bytes, range.limit_bytes)
        })
        .await
        .map(Some)
}

/// The volume of an id, and what is wrong with it.
pub(super) async fn get(
    shares: &Arc<Shares>,
    volume_id: &str,
) -> Result<(Export, ShareUuid, Record, Option<String>), ControllerError> {
    limits::required("volume_id", volume_id)?;
    let id: VolumeId = volume_id.parse()?;
    let export = shares.locate(&id.location)?;
    let (key, nonce) = (id.key, id.nonce);
    let (record, trouble) = shares
        .with_share(
            &export,
            &[],
            Expect::Known(id.uuid),
            move |share| match listing::read(share, key)? {
                Some(Listed::Volume(record, trouble)) if record.nonce == nonce => {
                    Ok((*record, trouble))
                }
                Some(Listed::Unreadable(of, detail)) if of == nonce => Err(ShareError::Damaged {
                    what: format!("the volume with the record volumes/{key}"),
                    detail,
                }),
                _ => Err(ShareError::NoVolume),
            },
        )
        .await?;
    Ok((export, id.uuid, record, trouble))
}

/// Why a volume is not what a ValidateVolumeCapabilities describes; nothing when it is.
pub(super) fn objection(
    shares: &Shares,
    export: &Export,
    record: &Record,
    request: &csi::ValidateVolumeCapabilitiesRequest,
) -> Option<String> {
    if record.state == State::Deleting {
        return Some("the volume is being deleted".to_owned());
    }
    if let Err(error) = capability::check_all(&request.volume_capabilities) {
        return Some(error.to_string());
    }
    if let Some(key) = request.mutable_parameters.keys().next() {
        return Some(format!(
            "the mutable parameter {key:?} is not known: this driver has none"
        ));
    }
    if !request.volume_context.is_empty() {
        let mut own = answer::context(export, record);
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
    let wanted = Wanted {
        sub_dir: parameters
            .sub_dir
            .unwrap_or_else(|| SubPath::of_name(&record.wanted.name)),
        on_delete: parameters.on_delete,
        mode: parameters.mode.unwrap_or(DEFAULT_MODE),
        uid: parameters.uid,
        gid: parameters.gid,
        mount_options: parameters.mount_options,
        ..record.wanted.clone()
    };
    record
        .difference(&wanted)
        .map(|difference| format!("the parameters differ: {difference}"))
}

/// The room on the share that parameters name; without any, on all shares that were named at the start together.
pub(super) async fn available(
    shares: &Arc<Shares>,
    parameters: &Parameters,
) -> Result<i64, ControllerError> {
    let exports = match (&parameters.server, &parameters.share) {
        (None, None) => shares.configured(),
        _ => vec![shares.choose(parameters)?.export],
    };
    (shares.config.check_mount_options)(&parameters.mount_options)
        .map_err(ControllerError::MountOption)?;
    let mut total: i64 = 0;
    for export in exports {
        let room = shares
            .with_root(&export, &parameters.mount_options, move |root| {
                rustix::fs::fstatvfs(&root).map_err(|source| ShareError::Io {
                    doing: "asking for the room on the share".to_owned(),
                    source: source.into(),
                })
            })
            .await?;
        // What an ordinary user of the share can have.
        let bytes = room.f_bavail.saturating_mul(room.f_frsize);
        total = total.saturating_add(i64::try_from(bytes).unwrap_or(i64::MAX));
    }
    Ok(total)
}
