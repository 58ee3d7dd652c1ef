//! Decides the action of a publish by what is at its target already: the specification's rules for a second publish.
//!
//! Decides alone. It looks at nothing, and writes, mounts and removes nothing.

use crate::calls::node::error::NodeError;
use crate::calls::node::record::PublishRecord;
use crate::calls::node::request::PublishRequest;
use crate::calls::node::target::{Bare, foreign_mount, taken};
use crate::mount::mountinfo::Mount;
use crate::mount::options::MountFlags;
use std::path::{Path, PathBuf};

/// What a volume is on this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The folder of the share that the arguments name. The share is what is mounted, since a server would follow a symlink in a
    /// longer path.
    Nfs,
    /// A folder of this machine: `below` in `root`. It is bound, not mounted by NFS: a mount from oneself can deadlock
    /// when memory is short.
    Local {
        /// The share's folder.
        root: PathBuf,
        /// The volume's folder in it.
        below: PathBuf,
    },
    /// What is mounted at the staging path.
    Staged(Mount),
}

impl Source {
    /// The folder of this machine that a target is bound from, as one that the path below must not leave, and that path.
    pub fn bound_folder(&self) -> Option<(&Path, &Path)> {
        match self {
            Self::Nfs => None,
            Self::Local { root, below } => Some((root, below)),
            Self::Staged(mount) => Some((&mount.target, Path::new(""))),
        }
    }
}

/// What is at the target.
#[derive(Clone)]
pub struct Here {
    /// What is mounted there.
    pub mounted: Option<Mount>,
    /// What stands there, where nothing is mounted.
    pub bare: Bare,
    /// What was asked for there before.
    pub record: Option<PublishRecord>,
}

/// What is to be done.
#[derive(Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing: it is a symlink, since mounting is refused here, as this note says.
    Link(String),
    /// Nothing but to have the record: the mount is the one that was asked for.
    Keep,
    /// The volume is to be mounted.
    Mount {
        /// Whether the folder is missing.
        makes_folder: bool,
    },
}

/// Decides what is to be done for a publish that would have the record `new`, and what the record has to say.
///
/// # Errors
/// When something else is published at the target, or stands there.
pub fn decide(
    request: &PublishRequest,
    new: PublishRecord,
    source: &Source,
    here: &Here,
) -> Result<(Action, PublishRecord), NodeError> {
    let target = &new.target;
    let before = here.record.as_ref();
    let linked = before.and_then(|record| record.symlink.as_deref());
    let is_published = here.mounted.is_some() || matches!(here.bare, Bare::Symlink(_));
    if let Some(before) = before
        && is_published
    {
        compare(before, &new)?;
    }
    if let Some(mounted) = &here.mounted {
        if is_what_was_asked_for(mounted, before, request, source) {
            // Also where a driver that staged has published it.
            let staging = before.map_or(new.staging.clone(), |before| before.staging.clone());
            return Ok((Action::Keep, PublishRecord { staging, ..new }));
        }
        // Of a folder that is gone, or bound from a staged mount that has been replaced since.
        let is_outdated = mounted.is_local_without_folder()
            || matches!(source, Source::Staged(staged) if !shows(mounted, staged));
        return match before {
            Some(_) if is_outdated => {
                let makes_folder = false;
                Ok((Action::Mount { makes_folder }, new))
            }
            None if !mounted.is_nfs() => {
                let problem = format!(
                    "{}, or unpublish the volume if its record was lost",
                    foreign_mount(mounted)
                );
                Err(taken(target, &problem))
            }
            _ => Err(different_mount(mounted, request, target)),
        };
    }
    let action = match (&here.bare, linked) {
        (Bare::Symlink(to), linked) if linked == Some(to) => Action::Link(symlink_note(to)),
        (Bare::Symlink(to), _) => {
            let problem = format!("is a symlink to {}; remove it", to.display());
            return Err(taken(target, &problem));
        }
        (Bare::Nothing | Bare::EmptyFolder, _) => Action::Mount {
            makes_folder: here.bare == Bare::Nothing,
        },
        (Bare::FullFolder, _) => {
            let problem = "is a folder with files in it, which a mount would hide; move them away";
            return Err(taken(target, problem));
        }
        (Bare::Other, _) => return Err(taken(target, "is not a folder; remove it")),
    };
    Ok((action, new))
}

/// Refuses another volume, or other arguments, than those of `before`.
fn compare(before: &PublishRecord, new: &PublishRecord) -> Result<(), NodeError> {
    let difference = match before.volume_id == new.volume_id {
        false => Some(format!("it holds volume {}", before.volume_id)),
        true => before.arguments.difference(&new.arguments),
    };
    let target = new.target.clone();
    difference.map_or(Ok(()), |difference| {
        Err(NodeError::Different { target, difference })
    })
}

/// Whether a mount at the target is the one that `request` would make. Its arguments are those of the record, if there is
/// one; else, as when the work folder was lost, the mount has to tell.
fn is_what_was_asked_for(
    mount: &Mount,
    record: Option<&PublishRecord>,
    request: &PublishRequest,
    source: &Source,
) -> bool {
    let read_only = request.options.flags.read_only;
    if mount.is_local_without_folder() {
        return false;
    }
    match source {
        Source::Nfs => {
            let whole = request.arguments.export().to_string();
            let same = record.is_some()
                || (mount.source.to_string_lossy() == whole
                    && allows_no_more(mount, request.options.flags));
            same && mount.is_nfs() && mount.read_only == read_only
        }
        // What is bound cannot be told from mountinfo alone.
        Source::Local { .. } => {
            record.is_some_and(|record| record.symlink.is_none())
                && allows_no_more(mount, request.options.flags)
        }
        Source::Staged(staged) => {
            record.is_none_or(|record| record.symlink.is_none())
                && shows(mount, staged)
                && allows_no_more(mount, request.options.flags)
        }
    }
}

/// Whether two mounts show one folder of one file system.
pub(super) fn shows(mount: &Mount, staged: &Mount) -> bool {
    (&mount.device, &mount.root, &mount.source) == (&staged.device, &staged.root, &staged.source)
}

/// Whether `mount` forbids what one with the flags `wanted` does. It may forbid more, as its file system may.
fn allows_no_more(mount: &Mount, wanted: MountFlags) -> bool {
    let here = mount.flags;
    (mount.read_only || !wanted.read_only)
        && (here.nosuid || !wanted.nosuid)
        && (here.nodev || !wanted.nodev)
        && (here.noexec || !wanted.noexec)
}

fn different_mount(mount: &Mount, request: &PublishRequest, target: &Path) -> NodeError {
    let words = |read_only| if read_only { ", read-only" } else { "" };
    let export = request.arguments.export();
    NodeError::Different {
        target: target.to_owned(),
        difference: format!(
            "its source is {}{}, and {export}{} was asked for",
            mount.source.to_string_lossy(),
            words(mount.read_only),
            words(request.options.flags.read_only)
        ),
    }
}

/// What the caller is told where a symlink stands in for a mount.
pub fn symlink_note(folder: &Path) -> String {
    format!(
        "mounting is refused here, so the target is a symlink to {}: nothing is isolated and mount options have no effect",
        folder.display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::node::arguments::Arguments;
    use crate::calls::node::request::Purpose;
    use crate::calls::policy::Policy;
    use crate::mount::options::MountOptions;
    use crate::mount::task::Ownership;
    use csi_nfs_store::export::Export;

    const TARGET: &str = "/pods/1/mount";

    fn arguments(server: &str) -> Arguments {
        Arguments {
            share: Export::parse(server, "/share").unwrap(),
            sub_dir: None,
            mode: "MULTI_NODE_MULTI_WRITER".to_owned(),
            readonly: false,
            mount_options: Vec::new(),
        }
    }

    fn request() -> PublishRequest {
        PublishRequest {
            volume_id: "v".to_owned(),
            target: TARGET.into(),
            arguments: arguments("h"),
            options: MountOptions::parse([], &Policy::default()).unwrap(),
            purpose: Purpose::Publish { staging: None },
            ownership: Ownership::default(),
        }
    }

    fn record() -> PublishRecord {
        PublishRecord {
            volume_id: "v".to_owned(),
            target: TARGET.into(),
            arguments: arguments("h"),
            symlink: None,
            staging: None,
        }
    }

    fn mount(fs_type: &str, source: &str) -> Mount {
        Mount {
            id: 2,
            parent: 1,
            device: "0:7".to_owned(),
            root: "/".into(),
            target: TARGET.into(),
            read_only: false,
            flags: MountOptions::parse([], &Policy::default()).unwrap().flags,
            fs_type: fs_type.into(),
            source: source.into(),
        }
    }

    /// The decision in a word, or what the error says after the target.
    fn decided(source: &Source, here: &Here) -> String {
        let request = request();
        let new = request.record_at(Path::new(TARGET), None);
        match decide(&request, new, source, here) {
            Ok((Action::Link(_), _)) => "nothing, a symlink".to_owned(),
            Ok((Action::Keep, record)) => match record.staging {
                None => "keep".to_owned(),
                Some(staging) => format!("keep from {}", staging.display()),
            },
            Ok((Action::Mount { makes_folder }, _)) => match makes_folder {
                true => "make the folder and mount".to_owned(),
                false => "mount".to_owned(),
            },
            Err(error) => error.to_string().replacen(TARGET, "-", 1),
        }
    }

    fn nothing() -> Here {
        Here {
            mounted: None,
            bare: Bare::Nothing,
            record: None,
        }
    }

    #[test]
    fn what_stands_at_a_target_without_a_mount_decides() {
        let linked = PublishRecord {
            symlink: Some("/share/v".into()),
            ..record()
        };
        let other = PublishRecord {
            volume_id: "w".to_owned(),
            ..linked.clone()
        };
        let link = || Bare::Symlink("/share/v".into());
        for (bare, record, expected) in [
            (Bare::Nothing, None, "make the folder and mount"),
            (Bare::EmptyFolder, None, "mount"),
            (Bare::FullFolder, None, "- is a folder with files in it"),
            (Bare::Other, None, "- is not a folder"),
            (link(), None, "- is a symlink to /share/v; remove it"),
            (link(), Some(linked.clone()), "nothing, a symlink"),
            (
                Bare::Symlink("/x".into()),
                Some(linked.clone()),
                "- is a symlink to /x",
            ),
            (
                link(),
                Some(other.clone()),
                "- is in use for a volume already: it holds volume w",
            ),
            // A publish that was cut off before it mounted: nobody holds on to its arguments.
            (Bare::Nothing, Some(other), "make the folder and mount"),
            (Bare::EmptyFolder, Some(linked), "mount"),
        ] {
            let here = Here {
                mounted: None,
                bare: bare.clone(),
                record: record.clone(),
            };
            let decided = decided(&Source::Nfs, &here);
            assert!(
                decided.starts_with(expected),
                "{bare:?} {record:?}: {decided}"
            );
        }
    }

    #[test]
    fn what_is_mounted_at_a_target_decides() {
        let (ours, disk) = (mount("nfs4", "h:/share"), mount("ext4", "/dev/sda"));
        let other = mount("nfs4", "h:/other");
        let read_only = Mount {
            read_only: true,
            ..ours.clone()
        };
        let no_flags = Mount {
            flags: MountFlags {
                nosuid: false,
                ..ours.flags
            },
            ..ours.clone()
        };
        let deleted = Mount {
            root: "/srv/v//deleted".into(),
            ..disk.clone()
        };
        let in_trash = Mount {
            root: "/srv/.csi-nfs/trash/v".into(),
            ..disk.clone()
        };
        let replaced = Mount {
            device: "0:9".to_owned(),
            ..ours.clone()
        };
        let local = || Source::Local {
            root: "/srv".into(),
            below: "v".into(),
        };
        let staged = |mount: &Mount| Source::Staged(mount.clone());
        let from = PublishRecord {
            staging: Some("/staging".into()),
            ..record()
        };
        let linked = PublishRecord {
            symlink: Some("/share/v".into()),
            ..record()
        };
        let changed = PublishRecord {
            arguments: arguments("i"),
            ..record()
        };
        let in_use = "- is in use for a volume already";
        let foreign = "- is a mount of /dev/sda (ext4)";
        for (source, mounted, record, expected) in [
            (Source::Nfs, &ours, Some(record()), "keep"),
            (Source::Nfs, &ours, Some(from), "keep from /staging"),
            (Source::Nfs, &ours, None, "keep"),
            (
                Source::Nfs,
                &ours,
                Some(changed),
                "- is in use for a volume already: the source is i:/share and h:/share was",
            ),
            (
                Source::Nfs,
                &other,
                None,
                "- is in use for a volume already: its source is h:/other, and h:/share was asked for",
            ),
            (
                Source::Nfs,
                &read_only,
                Some(record()),
                "- is in use for a volume already: its source is h:/share, read-only, and",
            ),
            (Source::Nfs, &no_flags, Some(record()), "keep"),
            (Source::Nfs, &no_flags, None, in_use),
            (
                Source::Nfs,
                &disk,
                None,
                "- is a mount of /dev/sda (ext4) that this driver did not make",
            ),
            (
                Source::Nfs,
                &disk,
                Some(record()),
                "- is in use for a volume already: its source is /dev/sda",
            ),
            (local(), &disk, Some(record()), "keep"),
            // The volume's folder was deleted, and perhaps made anew: the mount shows nothing that is in the share.
            (local(), &deleted, Some(record()), "mount"),
            (local(), &in_trash, Some(record()), "mount"),
            (local(), &disk, Some(linked.clone()), in_use),
            (local(), &disk, None, foreign),
            (staged(&ours), &ours, Some(record()), "keep"),
            (staged(&ours), &ours, None, "keep"),
            (staged(&ours), &ours, Some(linked), in_use),
            (staged(&replaced), &ours, Some(record()), "mount"),
            (staged(&replaced), &ours, None, in_use),
            (staged(&replaced), &disk, None, foreign),
        ] {
            let here = Here {
                mounted: Some(mounted.clone()),
                record: record.clone(),
                ..nothing()
            };
            let decided = decided(&source, &here);
            assert!(
                decided.starts_with(expected),
                "{source:?} {mounted:?} {record:?}: {decided}"
            );
        }
    }
}
