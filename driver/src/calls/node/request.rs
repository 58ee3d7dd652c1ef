//! Turns a NodePublishVolume or NodeStageVolume request into plain, checked arguments. Owns every rule about what a request may say; must not
//! touch the file system.

use crate::calls::capability::{self, MountAccess};
use crate::calls::limits::{self, LimitError};
use crate::calls::node::arguments::Arguments;
use crate::calls::node::error::NodeError;
use crate::calls::node::inline;
use crate::calls::node::record::PublishRecord;
use crate::calls::parameters::{secret_options, value_of};
use crate::calls::policy::Policy;
use crate::calls::volume_id::VolumeId;
use crate::mount::options::MountOptions;
use crate::mount::task::Ownership;
use crate::process::config::Config;
use crate::upstream::attributes;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::paths::sub_path::{RECORDS_FOLDER, SubPath};
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{NodePublishVolumeRequest, NodeStageVolumeRequest};
use std::path::{Component, Path, PathBuf};

/// The longest path that the kernel takes, less the NUL byte at its end, and the longest component.
const MAX_PATH: usize = 4095;
const MAX_COMPONENT: usize = 255;

/// What a publish is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishRequest {
    /// The volume.
    pub volume_id: String,
    /// The target as given; the file system has not been asked.
    pub target: PathBuf,
    /// All that decides whether two publishes are the same.
    pub arguments: Arguments,
    /// The options of `arguments`, checked.
    pub options: MountOptions,
    /// What the volume is mounted for.
    pub purpose: Purpose,
    /// What the volume's folder is given when it is mounted; only volumes of kubernetes-csi's driver ask for that.
    pub ownership: Ownership,
}

impl PublishRequest {
    /// The request that made a staged volume, without the options of its secrets, which nobody remembers.
    ///
    /// # Errors
    /// When an option is not allowed any more.
    pub fn of_stage(record: &PublishRecord, config: &Config) -> Result<Self, NodeError> {
        let arguments = record.arguments.clone();
        let words = arguments.mount_options.iter().map(String::as_str);
        let policy = mount_policy(config, &record.volume_id, false);
        let mut options = MountOptions::parse(words, &policy)?;
        options.flags.read_only |= capability::is_reader_only(arguments.access_mode());
        Ok(Self {
            volume_id: record.volume_id.clone(),
            target: record.target.clone(),
            arguments,
            options,
            purpose: Purpose::Stage,
            ownership: Ownership::default(),
        })
    }

    /// The record of this publish at `target`, bound from `staging` or mounted by itself.
    pub fn record_at(&self, target: &Path, staging: Option<&Path>) -> PublishRecord {
        PublishRecord {
            volume_id: self.volume_id.clone(),
            target: target.to_owned(),
            arguments: self.arguments.clone(),
            symlink: None,
            staging: staging.map(Path::to_owned),
        }
    }
}

/// What a volume is mounted for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// For a pod, from the staging path if one was given.
    Publish {
        /// As given; the file system has not been asked.
        staging: Option<PathBuf>,
    },
    /// For a pod that names the folder itself: there is nothing to stage.
    Inline,
    /// For publishes that are bound from it: the target is the staging path.
    Stage,
}

/// Checks a request.
///
/// # Errors
/// When a field is missing or has a value that it cannot have; the error names it.
pub fn publish(
    request: &NodePublishVolumeRequest,
    config: &Config,
) -> Result<PublishRequest, NodeError> {
    let staging = match request.staging_target_path.as_str() {
        "" => None,
        path => Some(absolute("staging_target_path", path)?),
    };
    let purpose = match inline::is_inline(&request.volume_id, &request.volume_context) {
        true => Purpose::Inline,
        false => Purpose::Publish { staging },
    };
    check(request, "target_path", purpose, config)
}

/// Checks a request to stage a volume, which is a publish at the staging path.
///
/// # Errors
/// As [`publish`].
pub fn stage(
    request: NodeStageVolumeRequest,
    config: &Config,
) -> Result<PublishRequest, NodeError> {
    let request = NodePublishVolumeRequest {
        volume_id: request.volume_id,
        publish_context: request.publish_context,
        target_path: request.staging_target_path,
        volume_capability: request.volume_capability,
        secrets: request.secrets,
        volume_context: request.volume_context,
        ..NodePublishVolumeRequest::default()
    };
    check(&request, "staging_target_path", Purpose::Stage, config)
}

/// Which mount options are allowed, and which are the default. Only volumes of kubernetes-csi's driver keep its defaults.
fn mount_policy(config: &Config, volume_id: &str, is_inline: bool) -> Policy {
    Policy {
        upstream_mounts: config.policy.upstream_mounts && !is_inline && !is_own(volume_id),
        ..config.policy.clone()
    }
}

/// Whether an id is one that this driver gives.
fn is_own(volume_id: &str) -> bool {
    volume_id.parse::<VolumeId>().is_ok()
}

fn check(
    request: &NodePublishVolumeRequest,
    target_field: &'static str,
    purpose: Purpose,
    config: &Config,
) -> Result<PublishRequest, NodeError> {
    let is_inline = purpose == Purpose::Inline;
    config.check_volume_id(&request.volume_id)?;
    let target = absolute(target_field, &request.target_path)?;
    limits::map("volume_context", &request.volume_context)?;
    limits::map("publish_context", &request.publish_context)?;
    limits::map("secrets", &request.secrets)?;
    let MountAccess { mode, mount } = capability::check(request.volume_capability.as_ref())?;
    if is_inline && config.policy.inline_shares.is_empty() {
        return Err(NodeError::InlineOff);
    }
    let given = |key: &str| {
        // No controller has a say in an inline volume.
        let publish = (!is_inline).then_some(&request.publish_context);
        let by_volume = value_of(&request.volume_context, key);
        let by_either = by_volume.or_else(|| value_of(publish?, key));
        by_either.filter(|value| !value.is_empty())
    };
    let required = |key: &'static str| {
        given(key).ok_or(match is_inline {
            true => NodeError::NoInlineSource(key),
            false => NodeError::NoSource(key),
        })
    };
    let mut export = Export::parse(required("server")?, required("share")?)?;
    if !config.may_use_server(export.server()) {
        return Err(NodeError::ServerDenied(export.server().to_owned()));
    }
    if export.is_private() {
        return Err(NodeError::Invalid {
            field: "share",
            problem: format!(
                "{:?} is in the driver's own folder {RECORDS_FOLDER}",
                export.path()
            ),
        });
    }
    let sub_dir = given("subDir").filter(|text| !text.trim_matches('/').is_empty());
    let mut sub_dir = match (sub_dir, config.upstream) {
        (Some(text), true) if !is_inline && !is_own(&request.volume_id) => {
            Some(attributes::sub_dir(text, &request.volume_context)?)
        }
        (text, _) => text.map(SubPath::parse).transpose()?,
    };
    if is_inline {
        let whole = export.folder(sub_dir.as_ref());
        (export, sub_dir) = inline::source(&whole, &config.policy)?;
    }
    let from_context = given("mountOptions").into_iter();
    let texts = from_context.chain(mount.mount_flags.iter().map(String::as_str));
    let mount_options: Vec<String> = texts
        .flat_map(|text| text.split(','))
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    // Those of a secret are used and forgotten: they are no argument to compare a repeat with.
    let secret = secret_options(&request.secrets);
    let all = mount_options.iter().chain(&secret).map(String::as_str);
    let policy = mount_policy(config, &request.volume_id, is_inline);
    let mut options = MountOptions::parse(all.clone(), &policy)?;
    if is_inline {
        inline::check_options(all, &config.policy)?;
    }
    options.flags.read_only |= request.readonly || capability::is_reader_only(mode);
    let may_dress = sub_dir.is_some() && !options.flags.read_only && !is_inline;
    let ownership = match config.upstream && may_dress {
        true => {
            // Volumes of this driver got the mode when they were made, and may have changed it since.
            let driver_wide = config.defaults.mode.filter(|_| !is_own(&request.volume_id));
            Ownership::of_upstream(&request.volume_context, driver_wide)?.unwrap_or_default()
        }
        false => Ownership::default(),
    };
    Ok(PublishRequest {
        volume_id: request.volume_id.clone(),
        target,
        purpose,
        arguments: Arguments {
            share: export,
            sub_dir,
            mode: mode.as_str_name().to_owned(),
            readonly: request.readonly,
            mount_options,
        },
        options,
        ownership,
    })
}

/// Checks that `text` is not too long for a path.
pub fn check_length(field: &'static str, text: &str) -> Result<(), NodeError> {
    let mut parts = Path::new(text).iter();
    if text.len() <= MAX_PATH && parts.all(|part| part.len() <= MAX_COMPONENT) {
        return Ok(());
    }
    // Not quoted: it would fill the log.
    Err(NodeError::Invalid {
        field,
        problem: format!(
            "has {} bytes: a path has at most {MAX_PATH}, and {MAX_COMPONENT} between two slashes",
            text.len()
        ),
    })
}

/// An absolute path that means the same before and after symlinks are followed.
pub fn absolute(field: &'static str, text: &str) -> Result<PathBuf, NodeError> {
    if text.is_empty() {
        return Err(LimitError::Missing(field).into());
    }
    let invalid = |problem: &str| {
        Err(NodeError::Invalid {
            field,
            problem: format!("{text:?} {problem}"),
        })
    };
    let path = Path::new(text);
    check_length(field, text)?;
    if !path.is_absolute() {
        return invalid("is not an absolute path");
    }
    if text.contains('\0') {
        return invalid("has a NUL byte");
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return invalid("has the component '..'");
    }
    if path.file_name().is_none() {
        return invalid("is the root of the file system");
    }
    // Without doubled slashes, `.` and a slash at the end.
    Ok(path.components().collect())
}

/// The path that NodeGetVolumeStats asks about. At one that is not absolute nothing is published: that is NOT_FOUND.
pub fn stats_path(volume: &str, text: &str) -> Result<PathBuf, NodeError> {
    if text.is_empty() || text.starts_with('/') || text.len() > MAX_PATH {
        return absolute("volume_path", text);
    }
    let detail = ", which is not an absolute path";
    Err(NodeError::not_published(volume, Path::new(text), detail))
}

/// Whether a volume with that mode may be published at several targets of a node (the second of the specification's
/// tables, because the driver has the capability SINGLE_NODE_MULTI_WRITER).
pub fn allows_many_targets(mode: Mode) -> bool {
    matches!(
        mode,
        Mode::SingleNodeMultiWriter
            | Mode::MultiNodeReaderOnly
            | Mode::MultiNodeSingleWriter
            | Mode::MultiNodeMultiWriter
    )
}

#[cfg(test)]
pub(crate) mod tests;
