//! Finds out that rpc.gssd, which Kerberos needs, does not run, and words a refusal by that. Runs only in a
//! helper process; must not mount.
//!
//! The kernel tells nobody whether rpc.gssd listens (`gssd_running` counts readers of a pipe that is the daemon's alone), so
//! its process is looked for. In a container that does not see the node's processes that proves nothing; the mount is
//! tried then, which fails at once where no daemon listens.

use crate::mount::options::MountOptions;
use crate::mount::task::{Failure, FailureKind};
use rustix::io::Errno;
use std::path::Path;

/// The daemon's name, as the kernel knows processes.
const DAEMON: &str = "rpc.gssd";

/// The inode of the machine's first process namespace, which is part of the kernel's interface (`PROC_PID_INIT_INO`).
const FIRST_NAMESPACE: &str = "pid:[4026531836]";

/// Whether all security flavours that the options allow are Kerberos.
pub(super) fn is_needed(options: &MountOptions) -> bool {
    options
        .value("sec")
        .is_some_and(|flavours| flavours.split(':').all(|one| one.starts_with("krb5")))
}

/// Fails when it is certain that no daemon runs.
pub(super) fn preflight() -> Result<(), Failure> {
    if runs(Path::new("/proc")) != Some(false) {
        return Ok(());
    }
    Err(Failure {
        kind: FailureKind::Kerberos,
        errno: 0,
        detail: "sec=krb5 needs the daemon rpc.gssd, which does not run on this node: install nfs-common (nfs-utils), \
                 give the node a key in /etc/krb5.keytab, and start it (systemctl start rpc-gssd)"
            .to_owned(),
    })
}

/// Whether the daemon runs, as `proc` shows; `None` when it does not show all processes of the machine.
fn runs(proc: &Path) -> Option<bool> {
    let entries = proc.read_dir().ok()?;
    let mut names = entries
        .flatten()
        .filter_map(|entry| std::fs::read(entry.path().join("comm")).ok());
    if names.any(|name| name.trim_ascii_end() == DAEMON.as_bytes()) {
        return Some(true);
    }
    let namespace = std::fs::read_link(proc.join("self/ns/pid")).ok()?;
    (namespace == Path::new(FIRST_NAMESPACE)).then_some(false)
}

/// What a failed mount with Kerberos comes to.
pub(super) fn explain(failure: Failure) -> Failure {
    let is_ours = [
        Errno::ACCESS,
        Errno::PERM,
        // What the kernel says of a mechanism that it cannot set up.
        Errno::INVAL,
        Errno::NOKEY,
        Errno::KEYEXPIRED,
        Errno::KEYREJECTED,
        Errno::KEYREVOKED,
    ]
    .iter()
    .any(|errno| errno.raw_os_error() == failure.errno);
    if !is_ours || failure.kind == FailureKind::Option {
        return failure;
    }
    Failure {
        kind: FailureKind::Kerberos,
        errno: failure.errno,
        detail: format!(
            "Kerberos does not work here (sec=krb5): check that rpc.gssd (nfs-common, nfs-utils) runs on the node and in \
             this network namespace (hostNetwork: true), that /etc/krb5.keytab there has a key for the node, that the \
             kernel has the module rpcsec_gss_krb5, and that the server exports with sec=krb5: {}",
            failure.detail
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::calls::policy::Policy;

    #[test]
    fn only_kerberos_needs_the_daemon() {
        let needed = |text: &str| {
            let options = MountOptions::parse([text], &Policy::default()).unwrap();
            is_needed(&options)
        };
        for krb5 in ["sec=krb5", "hard,sec=krb5i", "sec=krb5p", "sec=krb5:krb5p"] {
            assert!(needed(krb5), "{krb5}");
        }
        for other in ["", "sec=sys", "sec=krb5:sys", "hard", "x-sec=krb5"] {
            assert!(!needed(other), "{other}");
        }
    }

    #[test]
    fn a_daemon_is_missing_only_where_all_processes_show() {
        let proc = tempfile::tempdir().unwrap();
        let namespace = proc.path().join("self/ns");
        std::fs::create_dir_all(&namespace).unwrap();
        assert_eq!(runs(proc.path()), None);
        let link = namespace.join("pid");
        std::os::unix::fs::symlink("pid:[4026532999]", &link).unwrap();
        assert_eq!(runs(proc.path()), None);
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(FIRST_NAMESPACE, &link).unwrap();
        assert_eq!(runs(proc.path()), Some(false));
        for (pid, name) in [("7", "rpc.gssd-not\n"), ("8", "rpc.gssd\n")] {
            assert_eq!(runs(proc.path()), Some(false));
            std::fs::create_dir(proc.path().join(pid)).unwrap();
            std::fs::write(proc.path().join(pid).join("comm"), name).unwrap();
        }
        assert_eq!(runs(proc.path()), Some(true));
    }

    #[test]
    fn a_refusal_names_the_daemon_and_the_key() {
        let failure = |errno| Failure::new(FailureKind::Refused, errno, "mounting");
        let explained = explain(failure(Errno::ACCESS));
        assert_eq!(explained.kind, FailureKind::Kerberos);
        for word in ["rpc.gssd", "/etc/krb5.keytab", "hostNetwork"] {
            assert!(explained.detail.contains(word), "{explained}");
        }
        assert_eq!(explain(failure(Errno::NOENT)), failure(Errno::NOENT));
        let option = Failure::new(FailureKind::Option, Errno::INVAL, "x");
        assert_eq!(explain(option.clone()), option);
    }
}
