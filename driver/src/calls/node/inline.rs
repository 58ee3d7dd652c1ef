//! Inline (ephemeral) volumes, which whoever writes a pod makes up: which publishes are of one, and what such a one may
//! name. Owns those rules; must not touch the file system.

use crate::calls::node::error::NodeError;
use crate::calls::policy::Policy;
use crate::mount::option_names::canonical_name;
use crate::mount::options::told;
use csi_nfs_store::export::Export;
use csi_nfs_store::share::paths::sub_path::SubPath;
use std::collections::BTreeMap;
use std::path::Path;

/// By which the kubelet says that a volume is written into a pod's specification, if the CSIDriver has `podInfoOnMount`.
const EPHEMERAL: &str = "csi.storage.k8s.io/ephemeral";

/// Whether a publish is of an inline volume: the kubelet says so, or the id is one that it makes up for those
/// (`csi-` and a SHA-256), which tells also where the CSIDriver lacks `podInfoOnMount`.
pub fn is_inline(volume_id: &str, volume_context: &BTreeMap<String, String>) -> bool {
    let told = volume_context
        .get(EPHEMERAL)
        .is_some_and(|value| !value.is_empty() && !value.eq_ignore_ascii_case("false"));
    let hash = volume_id.strip_prefix("csi-").unwrap_or_default();
    told || (hash.len() == 64 && hash.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

/// The folder of `policy` that `whole` is or lies in, and the rest. That folder is what is mounted, and the rest is walked
/// without following a symlink: a server may follow those in a path that it is given.
///
/// # Errors
/// FAILED_PRECONDITION when inline volumes are off, PERMISSION_DENIED when no folder of the policy holds it,
/// INVALID_ARGUMENT when the rest is no path below a share.
pub fn source(whole: &Export, policy: &Policy) -> Result<(Export, Option<SubPath>), NodeError> {
    if policy.inline_shares.is_empty() {
        return Err(NodeError::InlineOff);
    }
    let allowed = policy.inline_shares.iter().filter_map(|share| {
        let below = Path::new(whole.path()).strip_prefix(share.path()).ok()?;
        share.is_on(whole.server()).then_some((share, below))
    });
    // The narrowest, so that as little as possible of the path is the server's to walk.
    let narrowest = allowed.min_by_key(|(_, below)| below.iter().count());
    let (share, below) = narrowest.ok_or_else(|| NodeError::InlineDenied(whole.clone()))?;
    let below = below.to_string_lossy();
    let sub_dir = (!below.is_empty()).then(|| SubPath::parse(&below));
    Ok((share.clone(), sub_dir.transpose()?))
}

/// Checks the names of mount options of an inline volume.
///
/// # Errors
/// PERMISSION_DENIED for the first that `policy` does not name; nothing of its value is said.
pub fn check_options<'a>(
    mut options: impl Iterator<Item = &'a str>,
    policy: &Policy,
) -> Result<(), NodeError> {
    let name = |option: &'a str| option.split_once('=').map_or(option, |(name, _)| name);
    let listed = |name: &str| {
        let mut allowed = policy.inline_options.iter();
        allowed.any(|one| canonical_name(one) == canonical_name(name))
    };
    match options.find(|option| !listed(name(option))) {
        Some(option) => Err(NodeError::InlineOption(told(name(option)).to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn policy(shares: &[&str]) -> Policy {
        Policy {
            inline_shares: shares
                .iter()
                .map(|share| crate::process::config::parse_export(share).unwrap())
                .collect(),
            inline_options: vec!["hard".into(), "nfsvers".into()],
            ..Policy::default()
        }
    }

    #[test]
    fn inline_volumes_are_known_by_word_or_id() {
        let context = |value: &str| BTreeMap::from([(EPHEMERAL.to_owned(), value.to_owned())]);
        assert!(is_inline("v", &context("true")));
        assert!(is_inline("v", &context("True")));
        assert!(!is_inline("v", &context("false")));
        assert!(!is_inline("v", &BTreeMap::new()));
        let id = format!("csi-{}", "0af".repeat(22).split_at(64).0);
        assert!(is_inline(&id, &BTreeMap::new()) && is_inline(&id, &context("false")));
        assert!(!is_inline("csi-volume", &BTreeMap::new()));
    }

    #[test]
    fn folders_are_allowed_by_whole_components() {
        let policy = policy(&["nas:/srv", "nas:/srv/inner", "[fe80::1]:/x"]);
        let found = |server: &str, path: &str| {
            let whole = Export::parse(server, path).unwrap();
            source(&whole, &policy).map(|(share, sub_dir)| {
                let below = sub_dir.map_or(String::new(), |sub_dir| sub_dir.to_string());
                format!("{share} {below}")
            })
        };
        for (server, path, expected) in [
            ("nas", "/srv", "nas:/srv "),
            ("NAS", "/srv/a/b", "nas:/srv a/b"),
            ("nas", "/srv/inner/a", "nas:/srv/inner a"),
            ("nas", "/srv/innermost", "nas:/srv innermost"),
            ("fe80::1", "x", "[fe80::1]:/x "),
        ] {
            assert_eq!(found(server, path).unwrap(), expected);
        }
        for (server, path) in [
            ("nas", "/"),
            ("nas", "/srv2"),
            ("nas", "/srvx/a"),
            ("nas", "/other"),
            ("nas2", "/srv"),
            ("nas.evil", "/srv"),
        ] {
            let error = found(server, path).unwrap_err();
            assert!(matches!(error, NodeError::InlineDenied(_)), "{error}");
        }
        // The driver's own folder.
        assert!(found("nas", "/srv/a/.csi-nfs/volumes").is_err());
        let off = source(&Export::parse("nas", "/srv").unwrap(), &Policy::default());
        assert!(matches!(off, Err(NodeError::InlineOff)));
    }

    #[test]
    fn options_are_allowed_by_name() {
        let policy = policy(&["nas:/srv"]);
        let check = |options: &[&str]| check_options(options.iter().copied(), &policy);
        assert!(check(&[]).is_ok());
        assert!(check(&["hard", "vers=4.1", "v3"]).is_ok());
        for denied in ["suid", "hardly", "sec=hunter2"] {
            let error = check(&["hard", denied]).unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
