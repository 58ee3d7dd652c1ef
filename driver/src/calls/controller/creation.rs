//! A CreateVolume, from its checks to the work on the share.

use super::copies::Purpose;
use super::error::ControllerError;
use super::options::Options;
use super::outcome::{OperationKey, VolumeOutcome};
use super::shares::Shares;
use crate::calls::capability;
use crate::calls::export::Export;
use crate::calls::limits::{self, LimitError};
use crate::calls::operations::Operation;
use crate::calls::parameters::{MUTABLE, Parameters, secret_options};
use crate::calls::volume_id::{Location, SnapshotId, VolumeId};
use crate::files::copying::Progress;
use crate::share::database::{Expect, Share};
use crate::share::error::ShareError;
use crate::share::life;
use crate::share::records::origin::{Origin, Source};
use crate::share::records::volume::{Volume, Wanted};
use crate::share::token::{NameKey, ShareUuid};
use csi_proto::v1 as csi;
use csi_proto::v1::volume_content_source::Type;
use std::sync::Arc;

/// The share that the source of a copy is on.
#[derive(Clone)]
enum SourceShare {
    /// The one with this UUID.
    Known(ShareUuid),
    /// The one at this address, for sources whose ids say no more.
    At(Export),
}

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
#[derive(Clone)]
pub(super) struct Creation {
    pub export: Export,
    pub wanted: Wanted,
    location: Location,
    options: Options,
    /// The share of the source, where there is one.
    source_share: Option<SourceShare>,
}

impl Creation {
    /// Checks a request.
    pub(super) fn check(
        shares: &Shares,
        request: &csi::CreateVolumeRequest,
    ) -> Result<Self, ControllerError> {
        limits::name("name", &request.name)?;
        limits::map("parameters", &request.parameters)?;
        limits::map("secrets", &request.secrets)?;
        let (required_bytes, limit_bytes) = check_range(request.capacity_range.as_ref())?;
        for access in capability::check_all(&request.volume_capabilities)? {
            shares.check_mount_options(&access.mount.mount_flags)?;
        }
        limits::map("mutable_parameters", &request.mutable_parameters)?;
        let topologies = request.accessibility_requirements.iter();
        for topology in topologies.flat_map(|all| all.requisite.iter().chain(&all.preferred)) {
            limits::map("accessibility_requirements", &topology.segments)?;
        }
        let mutable = Parameters::parse_known(&request.mutable_parameters, &MUTABLE)?;
        let parameters = Parameters::parse(&request.parameters)?.with(mutable)?;
        if parameters.adopt && parameters.sub_dir.is_none() {
            return Err(ControllerError::Invalid(
                "the parameter adopt needs subDir, the folder that becomes the volume".to_owned(),
            ));
        }
        let source = request.volume_content_source.as_ref();
        let source = source
            .map(|source| check_source(shares, source))
            .transpose()?;
        let (source, source_share) = source.unzip();
        if parameters.adopt && source.is_some() {
            return Err(ControllerError::Invalid(
                "volume_content_source cannot be given with the parameter adopt: an adopted folder stays as it is"
                    .to_owned(),
            ));
        }
        let chosen = shares.choose(&parameters)?;
        let secret = secret_options(&request.secrets);
        for options in [&parameters.mount_options, &secret] {
            shares.check_mount_options(options)?;
        }
        let asked = Wanted {
            name: request.name.clone(),
            required_bytes,
            limit_bytes,
            source,
            ..Wanted::default()
        };
        Ok(Self {
            export: chosen.export,
            location: chosen.location,
            options: Options::of_call(parameters.mount_options.clone(), secret),
            source_share,
            wanted: shares.config.defaults.wanted(parameters, asked),
        })
    }

    /// The volume, for the table of running operations.
    pub(super) fn key(&self) -> OperationKey {
        (self.export.clone(), NameKey::of(&self.wanted.name))
    }

    pub(super) async fn run(self, shares: Arc<Shares>, operation: Operation) -> VolumeOutcome {
        let is_open = matches!(self.options, Options::Open(_));
        let export = self.export.clone();
        shares.refuse_inline_as_share(&export)?;
        shares.refuse_volume_as_share(&export).await?;
        let created = self.make(&shares, operation).await;
        if created.is_ok() && is_open {
            shares.remember(&export).await;
        }
        created
    }

    async fn make(self, shares: &Arc<Shares>, operation: Operation) -> VolumeOutcome {
        let key = self.key();
        let expect = shares.expect_or(&self.export, Expect::Any);
        let (wanted, location) = (self.wanted, self.location.to_string());
        let Some(source_share) = self.source_share else {
            return shares
                .with_share(&self.export, &self.options, expect, move |share| {
                    life::create(share, &wanted, &location, &Progress::default())
                })
                .await
                .map(Some);
        };
        let how = (&self.options, expect);
        let existing = shares.existing::<Volume>(&key.0, how, &wanted).await?;
        if existing.is_some() {
            return Ok(existing);
        }
        let source_uuid = match source_share {
            SourceShare::Known(uuid) => Some(uuid),
            SourceShare::At(export) if export == key.0 => None,
            SourceShare::At(export) => Some(uuid_of_other(shares, &export).await?),
        };
        let what = format!("volume {:?}", wanted.name);
        let copy = move |share: &Share, progress: &Progress| {
            if source_uuid.is_some_and(|uuid| uuid != share.uuid()) {
                return Err(ShareError::SourceElsewhere);
            }
            life::create(share, &wanted, &location, progress)
        };
        let copied = shares.copy((Purpose::Volume, key), Some(operation), how, what, copy);
        copied.await.map(Some)
    }
}

/// The UUID of the share at another address than that of the copy: it may be the same one by another name.
async fn uuid_of_other(
    shares: &Arc<Shares>,
    export: &Export,
) -> Result<ShareUuid, ControllerError> {
    let expect = shares.expect_or(export, Expect::Initialised);
    let uuid = shares.with_share(export, &Options::None, expect, |share| Ok(share.uuid()));
    uuid.await.map_err(|error| match error {
        // The copy's share has records, so it is another one.
        none if none.is_no_records() => ControllerError::Share {
            export: export.clone(),
            source: Arc::new(ShareError::SourceElsewhere),
        },
        other => other,
    })
}

/// Checks a volume_content_source. Returns it with its share.
fn check_source(
    shares: &Shares,
    source: &csi::VolumeContentSource,
) -> Result<(Source, SourceShare), ControllerError> {
    let upstream = shares.config.upstream;
    match &source.r#type {
        None => Err(LimitError::Missing("volume_content_source.type").into()),
        Some(Type::Volume(volume)) => {
            let text = &volume.volume_id;
            if let Some(id) = upstream.volume(text)? {
                shares.locate(&Location::Export(id.export.clone()))?;
                return Ok((Source::Volume(id.origin()), SourceShare::At(id.export)));
            }
            limits::required("volume_content_source.volume.volume_id", text)?;
            let id: VolumeId = text.parse()?;
            let origin = Origin::new(text, id.key, id.nonce);
            Ok((Source::Volume(origin), SourceShare::Known(id.uuid)))
        }
        Some(Type::Snapshot(snapshot)) => {
            let text = &snapshot.snapshot_id;
            if let Some(id) = upstream.snapshot(text)? {
                shares.locate(&Location::Export(id.export.clone()))?;
                let origin = Origin::upstream(&id.text, id.archive);
                return Ok((Source::Archive(origin), SourceShare::At(id.export)));
            }
            limits::required("volume_content_source.snapshot.snapshot_id", text)?;
            let id: SnapshotId = text.parse()?;
            let origin = Origin::new(text, id.key, id.nonce);
            Ok((Source::Snapshot(origin), SourceShare::Known(id.uuid)))
        }
    }
}
