//! Turns a NodePublishVolume or NodeStageVolume request into plain, checked arguments. Owns every rule about what a request may say; must not
//! touch the file system.

use crate::calls::capability;
use crate::calls::export::Export;
use crate::calls::limits::{self, LimitError};
use crate::calls::node::arguments::{Arguments, export_of};
use crate::calls::node::error::NodeError;
use crate::calls::node::inline;
use crate::calls::node::record::PublishRecord;
use crate::calls::parameters::secret_options;
use crate::calls::policy::Policy;
use crate::calls::volume_id::VolumeId;
use crate::mount::options::MountOptions;
use crate::mount::task::Ownership;
use crate::process::config::Config;
use crate::share::paths::sub_path::SubPath;
use crate::upstream::attributes;
use csi_proto::v1::volume_capability::access_mode::Mode;
use csi_proto::v1::{NodePublishVolumeRequest, NodeStageVolumeRequest, VolumeCapability};
use std::collections::BTreeMap;
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
    pub ownership: Option<Ownership>,
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
            ownership: None,
        })
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
    let is_inline = inline::is_inline(&request.volume_id, &request.volume_context);
    let nothing = BTreeMap::new();
    let asked = Asked {
        volume_id: &request.volume_id,
        target: ("target_path", &request.target_path),
        contexts: Context {
            volume: &request.volume_context,
            // No controller has a say in an inline volume.
            publish: if is_inline {
                &nothing
            } else {
                &request.publish_context
            },
        },
        secrets: &request.secrets,
        capability: request.volume_capability.as_ref(),
        readonly: request.readonly,
    };
    if is_inline {
        return check(asked, Purpose::Inline, config);
    }
    check(asked, Purpose::Publish { staging }, config)
}

/// Checks a request to stage a volume, which is a publish at the staging path.
///
/// # Errors
/// As [`publish`].
pub fn stage(
    request: &NodeStageVolumeRequest,
    config: &Config,
) -> Result<PublishRequest, NodeError> {
    let asked = Asked {
        volume_id: &request.volume_id,
        target: ("staging_target_path", &request.staging_target_path),
        contexts: Context {
            volume: &request.volume_context,
            publish: &request.publish_context,
        },
        secrets: &request.secrets,
        capability: request.volume_capability.as_ref(),
        readonly: false,
    };
    check(asked, Purpose::Stage, config)
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

/// What both requests have.
struct Asked<'a> {
    volume_id: &'a str,
    /// The field's name and its value.
    target: (&'static str, &'a str),
    contexts: Context<'a>,
    secrets: &'a BTreeMap<String, String>,
    capability: Option<&'a VolumeCapability>,
    readonly: bool,
}

fn check(
    request: Asked<'_>,
    purpose: Purpose,
    config: &Config,
) -> Result<PublishRequest, NodeError> {
    let context = request.contexts;
    config.check_volume_id(request.volume_id)?;
    let target = absolute(request.target.0, request.target.1)?;
    limits::map("volume_context", context.volume)?;
    limits::map("publish_context", context.publish)?;
    limits::map("secrets", request.secrets)?;
    let access = capability::check(request.capability)?;
    let (mode, mount) = (access.mode, access.mount);
    if !mount.volume_mount_group.is_empty() {
        return Err(NodeError::Invalid {
            field: "volume_capability.mount.volume_mount_group",
            problem: "the driver has no capability VOLUME_MOUNT_GROUP: leave it empty".into(),
        });
    }
    let is_inline = purpose == Purpose::Inline;
    if is_inline && config.policy.inline_shares.is_empty() {
        return Err(NodeError::InlineOff);
    }
    let required = |key: &'static str| {
        context.get(key).ok_or(if is_inline {
            NodeError::NoInlineSource(key)
        } else {
            NodeError::NoSource(key)
        })
    };
    let mut export = Export::parse(required("server")?, required("share")?)?;
    if !config.may_use_server(export.server()) {
        return Err(NodeError::ServerDenied(export.server().to_owned()));
    }
    let sub_dir = context
        .get("subDir")
        .filter(|text| !text.trim_matches('/').is_empty());
    let mut sub_dir = match (sub_dir, config.upstream) {
        (Some(text), true) if !is_inline => Some(attributes::sub_dir(text, context.volume)?),
        (text, _) => text.map(SubPath::parse).transpose()?,
    };
    if is_inline {
        let whole = export_of(export.server(), export.path(), sub_dir.as_ref())?;
        (export, sub_dir) = inline::source(&whole, &config.policy)?;
    }
    let from_context = context.get("mountOptions").into_iter();
    let given = from_context.chain(mount.mount_flags.iter().map(String::as_str));
    let mount_options: Vec<String> = given
        .flat_map(|text| text.split(','))
        .map(|word| word.trim().to_owned())
        .filter(|word| !word.is_empty())
        .collect();
    // Those of a secret are used and forgotten: they are no argument to compare a repeat with.
    let secret = secret_options(request.secrets);
    let all = mount_options.iter().chain(&secret).map(String::as_str);
    let policy = mount_policy(config, request.volume_id, is_inline);
    let mut options = MountOptions::parse(all.clone(), &policy)?;
    if is_inline {
        inline::check_options(all, &config.policy)?;
    }
    options.flags.read_only |= request.readonly || access.is_reader_only();
    let may_dress = sub_dir.is_some() && !options.flags.read_only && !is_inline;
    let ownership = match config.upstream && may_dress {
        true => {
            // Volumes of this driver got the mode when they were made, and may have changed it since.
            let driver_wide = config.defaults.mode.filter(|_| !is_own(request.volume_id));
            Ownership::of_upstream(context.volume, driver_wide)?
        }
        false => None,
    };
    Ok(PublishRequest {
        volume_id: request.volume_id.to_owned(),
        target,
        purpose,
        arguments: Arguments {
            server: export.server().to_owned(),
            share: export.path().to_owned(),
            sub_dir,
            mode: mode.as_str_name().to_owned(),
            readonly: request.readonly,
            mount_options,
        },
        options,
        ownership,
    })
}

/// Both contexts, of which the volume's counts first.
#[derive(Clone, Copy)]
struct Context<'a> {
    volume: &'a BTreeMap<String, String>,
    publish: &'a BTreeMap<String, String>,
}

impl<'a> Context<'a> {
    /// The value of `key`, whatever the case of its letters: users write `subdir` and `subDir`.
    fn get(&self, key: &str) -> Option<&'a str> {
        let find = |map: &'a BTreeMap<String, String>| {
            map.get(key).or_else(|| {
                map.iter()
                    .find(|(given, _)| given.eq_ignore_ascii_case(key))
                    .map(|(_, value)| value)
            })
        };
        find(self.volume)
            .or_else(|| find(self.publish))
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
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
    Err(NodeError::NotPublished {
        volume: volume.to_owned(),
        path: PathBuf::from(text),
        detail: ", which is not an absolute path".to_owned(),
    })
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
