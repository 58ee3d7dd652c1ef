//! Mounting an NFS export: addresses, versions from the newest, and what the kernel's client needs to be told without
//! nfs-utils. Runs only in a helper process.

use crate::mount::address;
use crate::mount::below;
use crate::mount::gssd;
use crate::mount::kernel::{self, mount_failure, old_flags, open_target, through};
use crate::mount::mountinfo;
use crate::mount::options::{MountFlags, MountOptions, Version};
use crate::mount::private;
use crate::mount::redaction;
use crate::mount::task::{Done, Failure, FailureKind, NfsSource, OpenedFile, Place, Say};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags};
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::path::Path;

pub(super) fn mount_nfs(source: &NfsSource, place: &Place, say: Say<'_>) -> Result<Done, Failure> {
    // Before the network is asked: without a client no answer would help.
    if let Err(failure) = try_nfs_client()
        && failure.kind == FailureKind::NoNfsClient
    {
        return Err(failure);
    }
    if gssd::is_needed(&source.options) {
        gssd::preflight()?;
    }
    say(format!("resolving {}", source.export.server()));
    let addresses = address::resolve(source.export.server()).map_err(|error| Failure {
        kind: FailureKind::Resolve,
        errno: 0,
        detail: format!(
            "the name {:?} cannot be resolved: {error}",
            source.export.server()
        ),
    })?;
    let mut last = None;
    for address in &addresses {
        match mount_from(source, address, place, say) {
            Err(failure) if failure.kind == FailureKind::Unreachable => last = Some(failure),
            other => return other,
        }
    }
    // `resolve` gives at least one address.
    Err(last.unwrap_or_else(|| Failure::new(FailureKind::Resolve, Errno::IO, "no address")))
}

/// Tries the versions from the newest. An older one is tried only when the server does not speak the newer: its paths
/// may mean something else, so any other failure is final.
fn mount_from(
    source: &NfsSource,
    address: &SocketAddr,
    place: &Place,
    say: Say<'_>,
) -> Result<Done, Failure> {
    say(format!("connecting to {address}"));
    probe(source, address)?;
    let mut refused = Vec::new();
    for version in &source.options.versions {
        let what = format!("mounting from {} as NFS {}", address.ip(), version.as_str());
        say(what.clone());
        let options = kernel_options(&source.options, *version, address);
        match mount_once(source, &options, place, &what) {
            Ok(mounted) => {
                let version = Some(*version);
                return Ok(Done { version, ..mounted });
            }
            Err(failure) if failure.kind == FailureKind::Version => {
                refused.push(version.as_str());
            }
            Err(failure) if gssd::is_needed(&source.options) => return Err(gssd::explain(failure)),
            Err(failure) => return Err(failure),
        }
    }
    Err(Failure {
        kind: FailureKind::Version,
        errno: 0,
        detail: format!(
            "{} ({}) and this kernel have no NFS version of {} in common",
            source.export.server(),
            address.ip(),
            refused.join(", ")
        ),
    })
}

/// Fails early when nothing listens: the kernel would try for minutes.
fn probe(source: &NfsSource, address: &SocketAddr) -> Result<(), Failure> {
    let options = &source.options;
    let tcp = matches!(options.value("proto"), None | Some("tcp" | "tcp6"))
        && !options.has("udp")
        && !options.has("rdma");
    if !tcp {
        return Ok(());
    }
    let timeout = source.timeout;
    let mut at = *address;
    if let Some(port) = options.value("port").and_then(|port| port.parse().ok())
        && port != 0
    {
        at.set_port(port);
    }
    let mut answer = address::probe(&at, timeout);
    if answer.is_err() && options.versions == [Version::V3] && !options.has("port") {
        // A server of version 3 alone may serve at a port that only its port mapper knows.
        let mut mapper = at;
        mapper.set_port(111);
        answer = address::probe(&mapper, timeout);
    }
    answer.map_err(|error| {
        // A deadline of connect_timeout carries no number of the kernel.
        let errno = Errno::from_io_error(&error).unwrap_or(Errno::TIMEDOUT);
        // The port is the value of an option then.
        let place = match options.has("port") {
            true => format!("{}, at the port of the mount option", at.ip()),
            false => at.to_string(),
        };
        let detail = format!(
            "no NFS server answers for {} at {place}",
            source.export.server()
        );
        Failure::new(FailureKind::Unreachable, errno, detail)
    })
}

/// The options that mount.nfs would compute: the addresses of both sides, and for version 3 the mount protocol.
fn kernel_options(
    options: &MountOptions,
    version: Version,
    address: &SocketAddr,
) -> Vec<(String, Option<String>)> {
    let addr = address::kernel_form(address);
    let mut out = vec![
        ("addr".to_owned(), Some(addr.clone())),
        ("vers".to_owned(), Some(version.as_str().to_owned())),
    ];
    let mut default = |name: &str, value: Option<&str>| {
        if !options.has(name) {
            out.push((name.to_owned(), value.map(str::to_owned)));
        }
    };
    if version == Version::V3 {
        default("mountaddr", Some(&addr));
        default("mountproto", Some("tcp"));
        if !options.has("udp") {
            default("proto", Some("tcp"));
        }
        // Without rpc.statd on the node no lock could be recovered; NFSv4 has locks of its own.
        if !options.has("lock") && !options.has("local_lock") {
            default("nolock", None);
        }
    } else if let Ok(local) = address::local_address(address) {
        out.push(("clientaddr".to_owned(), Some(local.to_string())));
    }
    out.extend(options.nfs.iter().cloned());
    if address.is_ipv6() {
        // To the kernel `tcp` means the older family of addresses; whoever writes it means the protocol.
        for (_, value) in out
            .iter_mut()
            .filter(|(name, _)| matches!(name.as_str(), "proto" | "mountproto"))
        {
            if let Some(protocol @ ("tcp" | "udp" | "rdma")) = value.as_deref() {
                *value = Some(format!("{protocol}6"));
            }
        }
    }
    out
}

fn mount_once(
    source: &NfsSource,
    options: &[(String, Option<String>)],
    place: &Place,
    what: &str,
) -> Result<Done, Failure> {
    let context = match rustix::mount::fsopen("nfs", FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(context) => context,
        // Linux before 5.2, and filters that know only the old call.
        Err(errno @ (Errno::NOSYS | Errno::PERM)) => {
            return mount_old_way(source, options, place, what, errno);
        }
        Err(Errno::NODEV) => return Err(Failure::no_nfs_client()),
        Err(errno) => return Err(mount_failure(errno, what.to_owned())),
    };
    let flags = source.options.flags;
    let configured = (|| {
        rustix::mount::fsconfig_set_string(&context, "source", source.export.to_string())?;
        for (name, value) in options {
            match value {
                Some(value) => rustix::mount::fsconfig_set_string(&context, name, value)?,
                None => rustix::mount::fsconfig_set_flag(&context, name)?,
            }
        }
        if flags.read_only {
            rustix::mount::fsconfig_set_flag(&context, "ro")?;
        }
        rustix::mount::fsconfig_create(&context)
    })();
    configured.map_err(|errno| {
        let words = kernel_words(&context);
        let names = options.iter().map(|(name, _)| name.as_str());
        let mut failure = refusal(errno, what, &redaction::refusal(&words, names));
        if is_about_an_option(errno, &words) {
            failure.kind = FailureKind::Option;
        }
        failure
    })?;
    let mount = rustix::mount::fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, attributes(flags))
        .map_err(|errno| mount_failure(errno, what.to_owned()))?;
    match place {
        Place::Nowhere { scratch, show } => {
            let shown = show.then(|| show_detached(&mount, scratch));
            detached(&mount, shown)
        }
        Place::At {
            target,
            below,
            without,
            ..
        } => {
            let (without, name) = (without.as_deref(), source.export.to_string());
            below::attach(&mount, below, target, without, &name)?;
            Ok(Done::default())
        }
    }
}

/// By mount(2), for kernels and filters without the calls above.
fn mount_old_way(
    source: &NfsSource,
    options: &[(String, Option<String>)],
    place: &Place,
    what: &str,
    why: Errno,
) -> Result<Done, Failure> {
    let may_not = |errno| {
        let detail = format!("{what}: this process needs CAP_SYS_ADMIN");
        Failure::new(FailureKind::NotPermitted, errno, detail)
    };
    let target = match place {
        Place::At { below, .. } if !below.as_os_str().is_empty() => {
            return Err(below::refused(why, "fsopen"));
        }
        Place::At { target, .. } => target,
        Place::Nowhere { scratch, .. } => {
            // Nobody else sees this namespace, and it ends with this process, however that ends; the open root
            // outlives it.
            private::detach_mounts().map_err(|errno| match errno {
                Errno::PERM => may_not(errno),
                errno => mount_failure(errno, what.to_owned()),
            })?;
            scratch
        }
    };
    let folder = open_target(target)?;
    let mut data = Vec::new();
    for (name, value) in options {
        data.push(match value {
            Some(value) => format!("{name}={value}"),
            None => name.clone(),
        });
    }
    let data = std::ffi::CString::new(data.join(","))
        .map_err(|_| Failure::new(FailureKind::Option, Errno::INVAL, what))?;
    let mounted = rustix::mount::mount(
        source.export.to_string(),
        through(&folder),
        "nfs",
        old_flags(source.options.flags),
        &*data,
    );
    mounted.map_err(|errno| match errno {
        Errno::NODEV => Failure::no_nfs_client(),
        Errno::PERM => may_not(errno),
        errno => refusal(errno, what, ""),
    })?;
    match place {
        Place::At {
            target, without, ..
        } => {
            let kept =
                open_target(target).and_then(|folder| below::refuse(&folder, without.as_deref()));
            if kept.is_err() {
                // The failure that is told is that of the look.
                let _ = kernel::unmount(target, true);
            }
            kept.map(|()| Done::default())
        }
        Place::Nowhere { scratch, show } => {
            let shown = show.then(|| shown_at(scratch));
            detached(&open_target(scratch)?, shown)
        }
    }
}

/// The options of a mount that is nowhere, and so in no mountinfo: for a look it is attached where nobody sees it, in a
/// mount namespace that ends with this process. Why they cannot be had is told in their place: the mount works without.
fn show_detached(mount: &OwnedFd, scratch: &Path) -> String {
    use rustix::mount::{MoveMountFlags, move_mount};
    let attached = private::detach_mounts().and_then(|()| {
        let how = MoveMountFlags::MOVE_MOUNT_F_EMPTY_PATH;
        move_mount(mount, "", rustix::fs::CWD, scratch, how)
    });
    match attached {
        Ok(()) => shown_at(scratch),
        Err(errno) => format!("not known: attaching the mount for a look: {errno}"),
    }
}

/// The options of what is mounted at `scratch`.
fn shown_at(scratch: &Path) -> String {
    let shown = scratch
        .canonicalize()
        .and_then(|scratch| mountinfo::options_at(&scratch));
    match shown {
        Ok(Some(options)) => options,
        Ok(None) => "not known: mountinfo does not show the mount".to_owned(),
        Err(error) => format!("not known: {error}"),
    }
}

/// A mount that the server or the kernel refuses, in words that say what that means.
fn refusal(errno: Errno, what: &str, kernel_words: &str) -> Failure {
    let mut failure = mount_failure(errno, what.to_owned());
    if !kernel_words.is_empty() {
        failure.detail = format!("{what} ({kernel_words})");
    }
    let meaning = match failure.kind {
        FailureKind::NotFound => "the server has no such path, or does not export it",
        FailureKind::Refused => {
            "the server does not export it to this client (in version 3 also: has no such path)"
        }
        _ => return failure,
    };
    failure.detail = format!("{meaning}: {}", failure.detail);
    failure
}

/// What the file system wrote into the context about its refusal.
fn kernel_words(context: &OwnedFd) -> String {
    let mut words = Vec::new();
    let mut buffer = [0_u8; 512];
    // One message a read, then ENODATA.
    while let Ok(length) = rustix::io::read(context, &mut buffer) {
        let text = String::from_utf8_lossy(&buffer[..length]).into_owned();
        let text = text.trim_start_matches("e ").trim();
        if !text.is_empty() {
            words.push(text.trim_end_matches('\n').to_owned());
        }
        if length == 0 || words.len() > 8 {
            break;
        }
    }
    words.join("; ")
}

/// Whether the kernel refuses an option or its value; its words are all that tells that from other refusals.
fn is_about_an_option(errno: Errno, words: &str) -> bool {
    matches!(errno, Errno::INVAL | Errno::RANGE)
        && [
            "arameter",
            "Bad value",
            "out of range",
            "Value for",
            "ecognized",
            "Bad mount option",
            "Unsupported transport protocol",
            "not supported for this NFS version",
            "does not match",
            "does not support minorversion",
            "too many sec=",
        ]
        .iter()
        .any(|text| words.contains(text))
}

/// A mount that is nowhere: its root as a folder that can be read and synced, which the descriptor of a mount cannot. It
/// keeps the mount alive.
fn detached(mount: &OwnedFd, shown: Option<String>) -> Result<Done, Failure> {
    let how = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = rustix::fs::openat(mount, ".", how, Mode::empty())
        .map_err(|errno| mount_failure(errno, "opening the root of the mount".to_owned()))?;
    Ok(Done {
        shown,
        root: OpenedFile(Some(root)),
        ..Done::default()
    })
}

fn attributes(flags: MountFlags) -> MountAttrFlags {
    let mut out = MountAttrFlags::empty();
    out.set(MountAttrFlags::MOUNT_ATTR_RDONLY, flags.read_only);
    out.set(MountAttrFlags::MOUNT_ATTR_NOSUID, flags.nosuid);
    out.set(MountAttrFlags::MOUNT_ATTR_NODEV, flags.nodev);
    out.set(MountAttrFlags::MOUNT_ATTR_NOEXEC, flags.noexec);
    out.set(MountAttrFlags::MOUNT_ATTR_NOATIME, flags.noatime);
    out.set(MountAttrFlags::MOUNT_ATTR_NODIRATIME, flags.nodiratime);
    out
}

pub(super) fn try_nfs_client() -> Result<(), Failure> {
    match rustix::mount::fsopen("nfs", FsOpenFlags::FSOPEN_CLOEXEC) {
        Ok(_) => Ok(()),
        Err(Errno::NODEV) => Err(Failure::no_nfs_client()),
        Err(Errno::PERM) => Err(Failure::new(
            FailureKind::NotPermitted,
            Errno::PERM,
            "this process may not mount: it needs CAP_SYS_ADMIN",
        )),
        // An old kernel may still load its client with the first mount.
        Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> MountOptions {
        MountOptions::parse([text], &crate::calls::policy::Policy::default()).unwrap()
    }

    #[test]
    fn each_version_gets_what_mount_nfs_would_give() {
        let address = "127.0.0.1:2049".parse().unwrap();
        let text = |version| {
            let all = kernel_options(&options("hard"), version, &address);
            let words = all.into_iter().map(|(name, value)| match value {
                Some(value) => format!("{name}={value}"),
                None => name,
            });
            words.collect::<Vec<_>>().join(",")
        };
        assert_eq!(
            text(Version::V4_2),
            "addr=127.0.0.1,vers=4.2,clientaddr=127.0.0.1,hard"
        );
        assert_eq!(
            text(Version::V3),
            "addr=127.0.0.1,vers=3,mountaddr=127.0.0.1,mountproto=tcp,proto=tcp,nolock,hard"
        );
        let six = "[::1]:2049".parse().unwrap();
        let all = kernel_options(&options("mountproto=udp"), Version::V3, &six);
        let value = |name: &str| {
            let mut given = all.iter().filter(|(given, _)| given == name);
            given.next().and_then(|(_, value)| value.clone()).unwrap()
        };
        assert_eq!(value("addr"), "::1");
        assert_eq!(value("proto"), "tcp6");
        assert_eq!(value("mountproto"), "udp6");
        let all = kernel_options(&options("proto=tcp"), Version::V4_2, &six);
        assert!(all.contains(&("proto".to_owned(), Some("tcp6".to_owned()))));
        let locked = kernel_options(&options("lock"), Version::V3, &address);
        assert!(!locked.iter().any(|(name, _)| name == "nolock"));
    }

    #[test]
    fn only_the_servers_word_for_an_unknown_version_leads_to_an_older_one() {
        let kind = |errno| mount_failure(errno, String::new()).kind;
        assert_eq!(kind(Errno::PROTONOSUPPORT), FailureKind::Version);
        for final_one in [
            Errno::NOENT,
            Errno::ACCESS,
            Errno::TIMEDOUT,
            Errno::IO,
            Errno::INVAL,
        ] {
            assert_ne!(kind(final_one), FailureKind::Version, "{final_one}");
        }
    }

    #[test]
    fn a_value_out_of_range_is_the_options_fault() {
        for words in [
            "nfs: Unknown parameter 'x'",
            "NFS: Value for 'nconnect' out of range",
            "nfs: Bad value for 'rsize'",
            "NFS: sec=x option not recognized",
            "NFS: Unrecognized transport protocol",
            "NFS: Unsupported transport protocol udp",
            "NFS: 'Migration' not supported for this NFS version",
            "NFS: Server address does not match proto= option",
            "NFS: Mount server address does not match mountproto= option",
            "NFS: Mount option vers=3 does not support minorversion=1",
            "NFS: too many sec= flavors",
            "NFS: Bad mount option value specified",
        ] {
            assert!(is_about_an_option(Errno::INVAL, words), "{words}");
        }
        assert!(!is_about_an_option(Errno::INVAL, ""));
        assert!(!is_about_an_option(Errno::IO, "Bad value for 'x'"));
    }
}
