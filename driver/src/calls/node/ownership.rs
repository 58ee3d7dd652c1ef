//! Proves that a mount came from this driver when no record says so, as after the work folder was lost. Owns what counts as a
//! proof; must not touch the target.

use crate::calls::node::error::NodeError;
use crate::calls::node::target;
use crate::calls::node::volumes::Volumes;
use crate::calls::volume_id::{Location, VolumeId};
use crate::mount::mountinfo::{self, Mount};
use crate::process::config::Config;
use crate::upstream::ids::UpstreamVolumeId;
use csi_nfs_store::export::Export;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

impl Volumes {
    /// Whether `mount`, one of `mounts`, can only be a publish of `volume_id`, and shows the folder `whole` if that is said. May
    /// look at a local share's folder.
    pub(super) async fn proves(
        &self,
        volume_id: &str,
        whole: Option<Export>,
        mount: &Mount,
        mounts: &[Mount],
    ) -> Result<bool, NodeError> {
        let (id, config) = (volume_id.to_owned(), Arc::clone(&self.config));
        let at = mount.target.clone();
        let (mount, mounts) = (mount.clone(), mounts.to_vec());
        let asking = move || {
            let shows = whole.is_none_or(|whole| shows_folder(&whole, &mount, &mounts, &config));
            Ok(shows && is_publish_of(&id, &mount, &mounts, &config))
        };
        target::off_thread("looking at the local shares".to_owned(), &at, asking).await
    }
}

/// Whether `mount`, one of `mounts`, can only be a publish of `volume_id`.
///
/// It is one when the id's share is what is mounted, or when the kubelet has chosen the target: that folder is for CSI
/// volumes alone, and it is the only proof for volumes whose ids somebody else has made up.
fn is_publish_of(volume_id: &str, mount: &Mount, mounts: &[Mount], config: &Config) -> bool {
    let share = share_of(volume_id, config);
    let kubelets = is_kubelet_target(&mount.target);
    if mount.is_nfs() {
        return kubelets || share.is_some_and(|share| comes_from(mount, &share));
    }
    let own = share.and_then(|share| {
        let (local, below) = config.local_share(&share)?;
        Some(local.path.join(below))
    });
    let any = config.local_shares.iter().filter(|_| kubelets);
    any.map(|local| local.path.clone())
        .chain(own)
        .any(|folder| bound_from(mount, mounts, &folder).is_some())
}

/// Whether `mount`, one of `mounts`, shows the folder `whole`, and not another one of its share.
fn shows_folder(whole: &Export, mount: &Mount, mounts: &[Mount], config: &Config) -> bool {
    if mount.is_nfs() {
        return mount.source.to_string_lossy() == whole.to_string();
    }
    config.local_share(whole).is_some_and(|(local, below)| {
        let bound = bound_from(mount, mounts, &local.path.join(below));
        bound.is_some_and(|within| within.as_os_str().is_empty())
    })
}

/// Whether a symlink of `volume_id` at `target` that leads to `to` can only be a publish.
pub fn is_link_of(volume_id: &str, target: &Path, to: &Path, config: &Config) -> bool {
    let share = share_of(volume_id, config);
    let own = share.and_then(|share| config.local_share(&share).map(|(local, _)| local));
    let any = config
        .local_shares
        .iter()
        .filter(|_| is_kubelet_target(target));
    any.chain(own).any(|local| to.starts_with(&local.path))
}

/// The share that an id of this driver names, where the configuration tells which one that is.
fn share_of(volume_id: &str, config: &Config) -> Option<Export> {
    if config.upstream
        && let Ok(id) = UpstreamVolumeId::parse(volume_id)
    {
        return Some(id.export);
    }
    match volume_id.parse::<VolumeId>().ok()?.location {
        Location::Export(export) => Some(export),
        Location::Named(name) => {
            let share = config.shares.iter().find(|share| share.name == name)?;
            Some(share.export.clone())
        }
    }
}

/// Whether an NFS mount is that share or a folder in it.
fn comes_from(mount: &Mount, share: &Export) -> bool {
    let source = mount.source.to_string_lossy();
    let whole = share.to_string();
    source
        .strip_prefix(whole.trim_end_matches('/'))
        .is_some_and(|below| below.is_empty() || below.starts_with('/'))
}

/// What a mount shows at another place of `folder`: the path in it, which is empty for the folder itself.
#[expect(clippy::disallowed_methods, reason = "in closures for `off_thread`")]
fn bound_from(mount: &Mount, mounts: &[Mount], folder: &Path) -> Option<PathBuf> {
    let folder = folder
        .canonicalize()
        .unwrap_or_else(|_| folder.to_path_buf());
    // The disk that the share is on is no volume of the share.
    if folder.starts_with(&mount.target) {
        return None;
    }
    let disk = mountinfo::covering(mounts, &folder)?;
    let below = folder.strip_prefix(&disk.target).ok()?;
    let root: PathBuf = disk.root.join(below).components().collect();
    let within = mount.root.strip_prefix(root).ok()?;
    (mount.device == disk.device).then(|| within.to_owned())
}

/// Whether the kubelet chooses such targets: `…/pods/UID/volumes/kubernetes.io~csi/VOLUME/mount`, and for staging
/// `…/plugins/kubernetes.io/csi/DRIVER/HASH/globalmount` (`…/csi/pv/VOLUME/globalmount` in old ones).
fn is_kubelet_target(target: &Path) -> bool {
    let staging = ["globalmount", "", "", "csi", "kubernetes.io", "plugins"];
    is_pods_target(target) || ends_with(target, &staging)
}

/// Whether the kubelet chooses such targets for pods.
pub fn is_pods_target(target: &Path) -> bool {
    let pods = ["mount", "", "kubernetes.io~csi", "volumes", "", "pods"];
    ends_with(target, &pods)
}

/// Whether the components of a path are these, from the last one up; an empty name stands for any.
fn ends_with(path: &Path, names: &[&str]) -> bool {
    let mut from_below = path.iter().rev();
    let is_next = |name: &&str| {
        let part = from_below.next();
        part.is_some_and(|part| name.is_empty() || part == OsStr::new(name))
    };
    names.iter().all(is_next)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::node::request::tests::config;
    use crate::mount::options::MountFlags;

    const TOKENS: &str = "#00000000000000000000000000.0000000000000000.0000000000000000";
    const KUBELETS: &str = "/var/lib/kubelet/pods/u/volumes/kubernetes.io~csi/pvc-1/mount";

    fn mount(target: &str, root: &str, fs_type: &str, source: &str) -> Mount {
        Mount {
            id: 2,
            parent: 1,
            device: "8:1".into(),
            root: root.into(),
            target: target.into(),
            read_only: false,
            flags: MountFlags::default(),
            fs_type: fs_type.into(),
            source: source.into(),
        }
    }

    fn id(location: &str) -> String {
        let id = format!("{location}{TOKENS}");
        assert!(id.parse::<VolumeId>().is_ok(), "{id}");
        id
    }

    #[test]
    fn nfs_mounts_are_known_by_the_share_of_the_id() {
        let mut config = config();
        config.shares = vec!["home=nas:/srv".parse().unwrap()];
        let is = |id: &str, target: &str, source: &str| {
            let mount = mount(target, "/", "nfs4", source);
            is_publish_of(id, &mount, std::slice::from_ref(&mount), &config)
        };
        assert!(is(&id("nas/srv"), "/t", "nas:/srv/a"));
        assert!(is(&id("nas/srv"), "/t", "nas:/srv"));
        assert!(is(&id("nas/"), "/t", "nas:/srv"));
        assert!(is(&id("home"), "/t", "nas:/srv/a"));
        assert!(!is(&id("nas/srv"), "/t", "nas:/srv2"));
        assert!(!is(&id("nas/srv"), "/t", "other:/srv"));
        assert!(!is(&id("unknown"), "/t", "nas:/srv/a"));
        assert!(!is("v", "/mnt", "nas:/srv"));
        assert!(is("v", KUBELETS, "nas:/srv"));
        let staging =
            "/var/lib/kubelet/plugins/kubernetes.io/csi/nfs.csi.internal/6ad2/globalmount";
        assert!(is("v", staging, "nas:/srv"));
        assert!(!is(
            "v",
            "/plugins/kubernetes.io/csi/globalmount",
            "nas:/srv"
        ));
        assert!(!is("v", "/mnt/kubernetes.io~csi/x/mount", "nas:/srv"));
    }

    #[test]
    fn folders_of_one_share_are_told_apart() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().canonicalize().unwrap();
        let shown = disk.display().to_string();
        std::fs::create_dir_all(disk.join("share/a/b")).unwrap();
        let mut config = config();
        config.local_shares = vec![format!("nas:/x={shown}/share").parse().unwrap()];
        let is = |path: &str, fs_type: &str, root: &str, source: &str| {
            let disk = mount(&shown, "/", "ext4", "/dev/sda1");
            let shows = mount("/t", root, fs_type, source);
            let whole = Export::parse("nas", path).unwrap();
            shows_folder(&whole, &shows, &[disk, shows.clone()], &config)
        };
        assert!(is("/srv/a", "nfs4", "/", "nas:/srv/a"));
        for other in ["nas:/srv", "nas:/srv/a/b", "nas:/srv/ab", "nas2:/srv/a"] {
            assert!(!is("/srv/a", "nfs4", "/", other), "{other}");
        }
        assert!(is("/x/a", "ext4", "/share/a", "/dev/sda1"));
        for other in ["/share", "/share/a/b", "/share/ab", "/a"] {
            assert!(!is("/x/a", "ext4", other, "/dev/sda1"), "{other}");
        }
        assert!(!is("/y/a", "ext4", "/share/a", "/dev/sda1"));
    }

    #[test]
    fn binds_are_known_by_their_root() {
        let dir = tempfile::tempdir().unwrap();
        let disk = dir.path().canonicalize().unwrap();
        let shown = disk.display().to_string();
        std::fs::create_dir(disk.join("share")).unwrap();
        let mut config = config();
        config.local_shares = vec![format!("nas:/x={shown}/share").parse().unwrap()];
        let is = |id: &str, target: &str, root: &str| {
            let disk = mount(&shown, "/", "ext4", "/dev/sda1");
            let bind = mount(target, root, "ext4", "/dev/sda1");
            is_publish_of(id, &bind, &[disk, bind.clone()], &config)
        };
        assert!(is(&id("nas/x"), "/t", "/share/a"));
        assert!(is("v", KUBELETS, "/share/a"));
        // The disk of the share, another folder of it, another share, and what nobody can tell.
        assert!(!is(&id("nas/x"), &shown, "/"));
        assert!(!is(&id("nas/x"), "/t", "/other"));
        assert!(!is(&id("nas/x"), "/t", "/share2"));
        assert!(!is(&id("nas/y"), "/t", "/share/a"));
        assert!(!is("v", "/t", "/share/a"));
        assert!(!is("v", KUBELETS, "/other"));
    }
}
