//! A CreateVolume, from its checks to the work on the share.

use super::answer;
use super::copying::Creation;
use super::error::ControllerError;
use super::options::Options;
use super::outcome::VolumeOutcome;
use super::shares::Shares;
use crate::calls::capability;
use crate::calls::limits::{self, LimitError};
use crate::calls::operations::Operation;
use crate::calls::parameters::{MUTABLE, Parameters, secret_options};
use crate::calls::volume_id::{Location, SnapshotId, VolumeId};
use csi_nfs_store::export::Export;
use csi_nfs_store::files::copying::Progress;
use csi_nfs_store::share::database::{Expect, Share};
use csi_nfs_store::share::error::ShareError;
use csi_nfs_store::share::life;
use csi_nfs_store::share::paths::sub_path::SubPath;
use csi_nfs_store::share::records::origin::{Origin, Source};
use csi_nfs_store::share::records::volume::{Volume, Wanted};
use csi_nfs_store::share::token::{Nonce, ShareUuid};
use csi_proto::v1 as csi;
use csi_proto::v1::volume_content_source::Type;
use std::sync::Arc;
use std::time::Duration;

/// CreateVolume.
pub(super) async fn create(
    shares: &Arc<Shares>,
    timeout: Duration,
    request: csi::CreateVolumeRequest,
) -> Result<csi::CreateVolumeResponse, ControllerError> {
    let (creation, source) = check(shares, request)?;
    let work = || run(Arc::clone(shares), creation.clone(), source.clone());
    let (record, uuid) = shares.create(&creation, timeout, work).await?;
    Ok(csi::CreateVolumeResponse {
        volume: Some(answer::volume(shares, &creation.export, uuid, &record)),
    })
}

/// The share that the source of a copy is on.
#[derive(Clone)]
enum SourceShare {
    /// The one with this UUID, at the address that the id says, where this driver knows that.
    Known(ShareUuid, Option<Export>),
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

/// Checks a CreateVolume. Returns what it wants, and the share of its source, where there is one.
fn check(
    shares: &Shares,
    mut request: csi::CreateVolumeRequest,
) -> Result<(Creation<Volume>, Option<SourceShare>), ControllerError> {
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
    let secret = secret_options(&std::mem::take(&mut request.secrets));
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
    let options = Options::of_call(parameters.mount_options.clone(), secret);
    let wanted = shares.config.defaults.wanted(parameters, asked);
    // What this call answers with NodePublishVolume has to take. Any nonce is as long.
    let own = || Some(SubPath::of_volume(&wanted.name, Nonce::random().ok()?));
    if let Some(path) = wanted.sub_dir.clone().or_else(own) {
        let context = answer::context(&chosen.export, &path, &wanted.mount_options);
        limits::map("volume_context", &context)?;
    }
    let creation = Creation {
        export: chosen.export,
        location: chosen.location,
        expect: Expect::Any,
        options,
        wanted,
        operation: Operation::of("CreateVolume", &request),
    };
    Ok((creation, source_share))
}

/// Makes the volume, once it is known that its share may have volumes.
async fn run(
    shares: Arc<Shares>,
    creation: Creation<Volume>,
    source: Option<SourceShare>,
) -> VolumeOutcome {
    let is_open = matches!(creation.options, Options::Open(_));
    let export = creation.export.clone();
    let apart = async {
        shares.refuse_inline_as_share(&export)?;
        shares.refuse_volume_as_share(&export).await?;
        let path = creation.wanted.sub_dir.as_ref();
        path.map_or(Ok(()), |path| shares.refuse_used_otherwise(&export, path))
    };
    if let Err(refused) = apart.await {
        let known = match source {
            Some(SourceShare::Known(uuid, _)) => Some(uuid),
            _ => None,
        };
        return shares.made_before(&creation, known, refused).await;
    }
    let created = match source {
        None => create_empty(&shares, creation).await,
        Some(source) => copy(&shares, creation, source).await,
    };
    if created.is_ok() && is_open {
        shares.remember(&export).await;
    }
    created
}

async fn create_empty(shares: &Arc<Shares>, creation: Creation<Volume>) -> VolumeOutcome {
    let (export, options, wanted) = (creation.export, creation.options, creation.wanted);
    let expect = shares.expect_or(&export, creation.expect);
    let location = creation.location.to_string();
    let create = move |share: &Share| life::create(share, &wanted, &location, &Progress::default());
    let created = shares.with_share(&export, &options, expect, create);
    created.await.map(Some)
}

/// Makes a copy, which has to be on the share of its `source`.
async fn copy(
    shares: &Arc<Shares>,
    mut creation: Creation<Volume>,
    source: SourceShare,
) -> VolumeOutcome {
    let export = creation.export.clone();
    let elsewhere = |error: ControllerError| match error.is_no_records() {
        true => ControllerError::Share {
            export: export.clone(),
            source: Arc::new(ShareError::SourceElsewhere),
        },
        false => error,
    };
    let (uuid, there) = match source {
        SourceShare::At(same) if same == export => return shares.create_copy(creation, None).await,
        SourceShare::At(other) => {
            // It may be the same share by another name. Without records it is none on which a copy can be.
            let expect = shares.expect_or(&other, Expect::Initialised);
            let uuid = shares.with_share(&other, &Options::None, expect, |share| Ok(share.uuid()));
            (uuid.await.map_err(elsewhere)?, None)
        }
        SourceShare::Known(uuid, there) => (uuid, there),
    };
    // A share without records gets none for this: the source is not on it, or its disk is away.
    creation.expect = match there.is_some_and(|there| there == export) {
        true => Expect::Kept(uuid),
        false => Expect::Initialised,
    };
    let copied = shares.create_copy(creation, Some(uuid)).await;
    copied.map_err(elsewhere)
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
            let there = shares.locate(&id.location).ok();
            Ok((Source::Volume(origin), SourceShare::Known(id.uuid, there)))
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
            let there = shares.locate(&id.location).ok();
            Ok((Source::Snapshot(origin), SourceShare::Known(id.uuid, there)))
        }
    }
}
